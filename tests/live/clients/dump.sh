#!/bin/sh
# pg_dump of one schema, pg_restore of it into an empty database, and a dump of what was restored: prints both dumps, each in two formats.
# PGHOST, PGPORT, PGOPTIONS come from the caller; DIRECT_PORT is the server's own; TERMGATE installs layer 1. \restrict has a random word.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PGDATABASE=postgres
text() { grep -vE '^\\(un)?restrict '; }
direct() { env -u PGOPTIONS PGPORT="$DIRECT_PORT" "$@"; }
direct psql -Xq -c 'DROP DATABASE IF EXISTS dump_from' -c 'DROP DATABASE IF EXISTS dump_to' -c 'CREATE DATABASE dump_from' -c 'CREATE DATABASE dump_to' 2>/dev/null
install() { "$TERMGATE" init --db "postgresql://$PGUSER@$PGHOST:$DIRECT_PORT/$1" >/dev/null; }
install dump_from
install dump_to
direct psql -Xq -v ON_ERROR_STOP=1 -d dump_from <<'SQL'
CREATE SCHEMA d; COMMENT ON SCHEMA d IS 'to be dumped';
CREATE TYPE d.mood AS ENUM ('sad', 'ok');
CREATE TABLE d.t (id int PRIMARY KEY, v text NOT NULL, m d.mood, b bytea, j jsonb, at timestamptz);
COMMENT ON COLUMN d.t.v IS 'it''s "quoted"';
INSERT INTO d.t SELECT i, repeat('x', i % 50) || E'\t\\\n' || i, 'ok', decode(md5(i::text), 'hex'), jsonb_build_object('i', i), '2026-01-01' FROM generate_series(1, 5000) i;
CREATE TABLE d.p (day date, v int) PARTITION BY RANGE (day);
CREATE TABLE d.p1 PARTITION OF d.p FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE d.p2 PARTITION OF d.p DEFAULT;
INSERT INTO d.p SELECT '2026-01-01'::date + i, i FROM generate_series(1, 90) i;
CREATE FUNCTION d.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE FUNCTION d.g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER g BEFORE INSERT ON d.t FOR EACH ROW EXECUTE FUNCTION d.g();
CREATE VIEW d.v AS SELECT id, d.f(id) FROM d.t;
CREATE MATERIALIZED VIEW d.mv AS SELECT count(*) FROM d.t;
CREATE SEQUENCE d.s; SELECT setval('d.s', 77);
CREATE INDEX ON d.t (lower(v));
CREATE RULE r AS ON UPDATE TO d.v DO INSTEAD NOTHING;
SELECT lo_from_bytea(7001, convert_to(repeat('large ', 20000), 'UTF8')); SELECT lo_create(7002);
COMMENT ON LARGE OBJECT 7001 IS 'large';
SQL
pg_dump -n d -b -d dump_from -Fc -f "$folder/custom"
pg_dump -n d -b -d dump_from -Fd -j 2 -f "$folder/directory"
pg_dump -n d -b -d dump_from | text >"$folder/from.sql"
pg_restore -d dump_to --exit-on-error "$folder/custom"
direct pg_dump -n d -b -d dump_to | text >"$folder/to.sql"
cmp "$folder/from.sql" "$folder/to.sql" && echo "the same after pg_restore in one run"
direct psql -Xq -c 'DROP DATABASE dump_to' -c 'CREATE DATABASE dump_to'
install dump_to
pg_restore -d dump_to --exit-on-error -j 2 "$folder/directory"
direct pg_dump -n d -b -d dump_to | text >"$folder/to.sql"
cmp "$folder/from.sql" "$folder/to.sql" && echo "the same after pg_restore with two jobs"
env -u PGOPTIONS pg_dump -n d -b -d dump_from | text >"$folder/to.sql"
cmp "$folder/from.sql" "$folder/to.sql" && echo "the same without a term"
md5sum <"$folder/from.sql"
direct psql -Xq -c 'DROP DATABASE dump_to' -c 'DROP DATABASE dump_from'
