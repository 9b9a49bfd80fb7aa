-- The schema that the catalog's answers are compared on; PostgreSQL's SQL.
CREATE TABLE customer (id int PRIMARY KEY, name varchar(40) NOT NULL, email text UNIQUE, born date, score numeric(10,2) DEFAULT 0, active boolean DEFAULT true, note text DEFAULT 'none'::text);
CREATE TABLE orders (
  id bigint NOT NULL, customer_id int NOT NULL REFERENCES customer(id) ON DELETE CASCADE, placed timestamptz, amount double precision, kind char(3), payload bytea, tag uuid, detail jsonb, small smallint,
  CONSTRAINT orders_pkey PRIMARY KEY (id), CONSTRAINT orders_small_positive CHECK (small > 0), UNIQUE (customer_id, placed));
CREATE TABLE line (order_id bigint, no int, what text, CONSTRAINT line_key PRIMARY KEY (order_id, no), CONSTRAINT line_order FOREIGN KEY (order_id) REFERENCES orders(id) ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX orders_by_customer ON orders (customer_id, placed DESC);
CREATE UNIQUE INDEX customer_email_low ON customer (lower(email));
CREATE INDEX orders_large ON orders (amount) WHERE small > 1000;
CREATE VIEW busy AS SELECT id, name FROM customer;
