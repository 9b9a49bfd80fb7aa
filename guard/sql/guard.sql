-- The extension by itself, in a database that has layer 1 in schema termgate and the extension beside it (tests/live/guard/ makes one).
\set VERBOSITY terse
SELECT extname, extversion, nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'termgate_guard';
\dx+ termgate_guard
SELECT name, setting, context, vartype, enumvals FROM pg_settings WHERE name LIKE 'termgate.%' ORDER BY name;

-- Not guarded: nothing is checked.
SHOW termgate.guarded;
CREATE TABLE guarded_table (id int PRIMARY KEY, v int);
CREATE SEQUENCE guarded_sequence;
SELECT fence FROM termgate.seal('s', 5);

-- A superuser guards its session.
SET termgate.guard = enforce;
SHOW termgate.guarded;
INSERT INTO guarded_table VALUES (1, 1);
SELECT nextval('guarded_sequence');
SELECT count(*) FROM guarded_table;
EXPLAIN (COSTS OFF) INSERT INTO guarded_table VALUES (1, 1);
BEGIN;
SET LOCAL termgate.scope = 's';
SET LOCAL termgate.term = 4;
INSERT INTO guarded_table VALUES (1, 1);
ROLLBACK;
BEGIN;
SET LOCAL termgate.scope = 's';
SET LOCAL termgate.term = 5;
INSERT INTO guarded_table VALUES (1, 1);
SELECT nextval('guarded_sequence');
COMMIT;
BEGIN;
SELECT termgate.check_term('s', 5);
UPDATE guarded_table SET v = v + 1;
COMMIT;
BEGIN;
SELECT pg_current_xact_id() IS NOT NULL AS has_id;
COMMIT;
TABLE guarded_table;

-- Mode observe refuses nothing.
SET termgate.guard = observe;
INSERT INTO guarded_table VALUES (2, 2);
SET termgate.guard = nonsense;
SET termgate.guarded = off;

-- guard_session() cannot be taken back.
SET termgate.guard = off;
SELECT version, schema, database FROM termgate.guard_session();
SET termgate.guard_session = off;
RESET ALL;
DELETE FROM guarded_table;
SET termgate.scope = 's';
SET termgate.term = 5;
DELETE FROM guarded_table;
SELECT scope, term, passed FROM termgate.guarded_sessions WHERE pid = pg_backend_pid();
DROP TABLE guarded_table;
DROP SEQUENCE guarded_sequence;
SET termgate.term = '';
DISCARD ALL;
SHOW termgate.guard_session;

-- Bad arguments.
SELECT termgate.guard_passed(NULL, 5);
SELECT termgate.guard_passed('', 5);
SELECT termgate.guard_layer1_call(NULL);
