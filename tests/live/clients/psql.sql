-- What people type into psql: every kind of object and every \d of it, the client-side switches, errors with their positions. Run once
-- directly and once through the proxy; both outputs must be the same. Plain statements are in proxy_difference_test.py.
-- Parameters: none. Rows: a schema `cl`, made anew. Locks: none held at the end. Of the guarantees it keeps F7.
\set VERBOSITY verbose
\set SHOW_CONTEXT always
\pset pager off
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS cl CASCADE;
DROP PUBLICATION IF EXISTS cl_pub;
SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid IN (4242, 4243);
RESET client_min_messages;
CREATE SCHEMA cl;
SET search_path = cl, public;

-- Every kind of object.
CREATE TYPE mood AS ENUM ('sad', 'ok');
ALTER TYPE mood ADD VALUE 'happy';
CREATE TYPE pair AS (a int, b text);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE SEQUENCE numbers START 5 INCREMENT 5;
CREATE TABLE parent (id int PRIMARY KEY, name text NOT NULL DEFAULT 'x', share percent, m mood, at timestamptz DEFAULT '2026-01-01 00:00+00');
CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent_id int REFERENCES parent ON DELETE CASCADE, twice int GENERATED ALWAYS AS (parent_id * 2) STORED, p pair, CHECK (parent_id > 0));
CREATE INDEX child_parent ON child (parent_id) WHERE parent_id < 1000;
CREATE UNIQUE INDEX parent_name ON parent (lower(name), id);
CREATE TABLE measured (day date, v int) PARTITION BY RANGE (day);
CREATE TABLE measured_1 PARTITION OF measured FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE measured_rest PARTITION OF measured DEFAULT;
CREATE TABLE heir (extra int) INHERITS (parent);
CREATE UNLOGGED TABLE quick (i int);
CREATE VIEW seen AS SELECT id, name FROM parent WHERE id > 0 WITH CHECK OPTION;
CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM parent;
CREATE STATISTICS both_columns (dependencies) ON id, name FROM parent;
CREATE FUNCTION add_one(i int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT i + 1';
CREATE FUNCTION loud(t text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'heard %', t; RAISE WARNING 'twice'; END $$;
CREATE FUNCTION writes(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO quick VALUES (i); RETURN i; END $$;
CREATE PROCEDURE pro(INOUT i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO quick VALUES (i); i := i * 2; END $$;
CREATE AGGREGATE total (int) (SFUNC = int4pl, STYPE = int, INITCOND = '0');
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$;
CREATE TRIGGER stamped BEFORE INSERT ON parent FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE RULE no_delete AS ON DELETE TO quick DO INSTEAD NOTHING;
CREATE PUBLICATION cl_pub FOR TABLE parent;
CREATE COLLATION plain FROM "C";
ALTER TABLE child ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON child USING (parent_id > 0);
COMMENT ON TABLE parent IS 'what a parent is';
COMMENT ON COLUMN parent.name IS 'and its name';
GRANT SELECT ON parent TO PUBLIC;
\d
\d+ parent
\d+ child
\d+ measured
\d+ measured_1
\d+ heir
\d+ seen
\d+ kept
\d+ quick
\d numbers
\d parent_name
\d pair
\dt cl.*
\dtv cl.*
\di cl.*
\ds cl.*
\dv cl.*
\dm cl.*
\dP cl.*
\df cl.*
\df+ cl.add_one
\da cl.*
\do cl.*
\dO cl.*
\dT+ cl.*
\dD cl.*
\dn cl
\dp cl.*
\ddp
\dX cl.*
\dy
\dRp+ cl_pub
\dx
\dL
\dew
\des
\det
\dF simple
\dc pg_catalog.utf8_to_iso_8859_1
\dC point
\dl
\db
\du
\l postgres
\sf cl.loud
\sv cl.seen
\z cl.parent
\d nothing_of_that_name

-- Rows, tags, errors with their positions.
INSERT INTO parent (id, name, share, m) VALUES (1, 'a', 10, 'ok'), (2, 'b', 20, 'happy') RETURNING *;
INSERT INTO parent (id) VALUES (1);
INSERT INTO parent (id, share) VALUES (3, 101);
INSERT INTO seen VALUES (-1, 'n');
SELECT * FROM parent WHERE nmae = 'a';
   SELECT 1 +
  oops;
UPDATE parent SET name = name || '!' WHERE id = 2 RETURNING name;
SELECT loud('me'), 1 AS one;
SELECT writes(1), writes(2);
CALL pro(21);
SELECT 1 \; INSERT INTO quick VALUES (5) RETURNING i \; SELECT 2;
SELECT 1 \; SELECT 1/0 \; INSERT INTO quick VALUES (6);
SELECT 1 AS a, NULL AS b, 'ü€😀' AS c, '\x00ff'::bytea AS d, ARRAY[1, NULL] AS e, ROW(1, 'x') AS f, 1.50::numeric AS g, 'NaN'::float8 AS h;
SELECT;
;
/* a comment */ SELECT 7;
\errverbose
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE
TABLE nowhere;
\errverbose
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_SQLSTATE
MERGE INTO quick q USING (VALUES (7)) v (i) ON q.i = v.i WHEN MATCHED THEN UPDATE SET i = 8;
SELECT name FROM parent WHERE id = 2 FOR UPDATE;
REFRESH MATERIALIZED VIEW kept;
ANALYZE parent;

-- What psql does by itself.
SELECT format('INSERT INTO quick VALUES (%s)', i) FROM generate_series(1, 3) i \gexec
SELECT count(*) AS how_many FROM quick \gset
\echo :how_many
SELECT id, name, share FROM parent \gdesc
SELECT 1 AS x, 'c' AS y, 2 AS v \crosstabview
SELECT id, name FROM parent ORDER BY id \gx
\set FETCH_COUNT 2
SELECT i FROM generate_series(1, 5) i;
INSERT INTO quick SELECT i FROM generate_series(1, 5) i RETURNING i;
\unset FETCH_COUNT
\copy quick FROM STDIN
101
102
\.
\copy (SELECT * FROM quick WHERE i > 100 ORDER BY i) TO STDOUT
COPY parent (id, name) FROM STDIN WITH (FORMAT csv);
11,eleven
12,"twelve, too"
\.
COPY parent (id, name) FROM STDIN WITH (FORMAT csv);
13,right
thirteen,wrong
\.
COPY parent TO STDOUT WITH (FORMAT csv, HEADER);
COPY (INSERT INTO quick VALUES (103) RETURNING i) TO STDOUT;

-- Transactions that psql begins, and their savepoints.
BEGIN \; INSERT INTO quick VALUES (209) \; SELECT 1/0 \; COMMIT;
ROLLBACK;
\set AUTOCOMMIT off
INSERT INTO quick VALUES (301);
SELECT count(*) FROM quick WHERE i > 300;
ROLLBACK;
SELECT count(*) FROM quick WHERE i > 300;
INSERT INTO quick VALUES (302);
COMMIT;
\set AUTOCOMMIT on
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO quick VALUES (303);
INSERT INTO nowhere VALUES (1);
INSERT INTO quick VALUES (304);
COMMIT;
\unset ON_ERROR_ROLLBACK
SELECT i FROM quick WHERE i > 300 ORDER BY i;

-- Session things.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, name FROM parent ORDER BY id FOR UPDATE;
FETCH 2 FROM c;
UPDATE parent SET share = 77 WHERE CURRENT OF c;
MOVE BACKWARD 1 FROM c;
FETCH ALL FROM c;
COMMIT;
CREATE TEMP TABLE mine (i int);
INSERT INTO mine VALUES (1);
SELECT * FROM mine;
DISCARD TEMP;
SET TIME ZONE 'Europe/Berlin';
SET DateStyle = german;
SELECT '2026-01-01 00:00+00'::timestamptz;
RESET DateStyle;
RESET TIME ZONE;
SET application_name = 'other';
SHOW application_name;
\encoding LATIN1
SELECT length('x');
\encoding UTF8
LISTEN ears;
NOTIFY ears, 'hello';
SELECT lo_create(4242), lo_from_bytea(4243, 'abc');
\dl
\lo_unlink 4242

-- What must run alone.
VACUUM (ANALYZE) parent, quick;
CREATE INDEX CONCURRENTLY quick_i ON quick (i);
ALTER TABLE quick ADD COLUMN more text DEFAULT 'd', ALTER i TYPE bigint;
ALTER TABLE quick RENAME TO slow;
\d slow
CREATE DATABASE cl_copy TEMPLATE template0;
DROP DATABASE cl_copy;
DISCARD ALL;
SET client_min_messages = warning;
DROP PUBLICATION cl_pub;
DROP SCHEMA cl CASCADE;
SELECT lo_unlink(4243);
