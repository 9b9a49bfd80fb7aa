-- The guard's functions and views, in the schema of layer 1. No tables: what is kept is layer 1's. Run by CREATE EXTENSION as a superuser.
-- Rows, locks: none. Keeps F1, F2, F5, F6 for guarded sessions.

-- Where CREATE EXTENSION names no schema, the server takes the first of search_path. If layer 1 is in another schema, everything would be
-- created in vain. Without any layer 1 this does not fail, because a dump creates the extension first.
DO $$
DECLARE
  v_schemas pg_catalog.text := (SELECT pg_catalog.string_agg(pg_catalog.format('CREATE EXTENSION termgate_guard SCHEMA %I;', n.nspname), ' or ')
                                  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
                                 WHERE c.relname OPERATOR(pg_catalog.=) 'fences' AND c.relkind OPERATOR(pg_catalog.=) 'r'
                                   AND EXISTS (SELECT FROM pg_catalog.pg_class m WHERE m.relnamespace OPERATOR(pg_catalog.=) n.oid AND m.relname OPERATOR(pg_catalog.=) 'migrations'));
BEGIN
  IF pg_catalog.to_regclass('@extschema@.fences') IS NULL AND v_schemas IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 schema "%" holds no layer 1', '@extschema@'
      USING ERRCODE = 'TG005', HINT = v_schemas;
  END IF;
END $$;

-- guard_session() -> version, schema, preloaded, database: guards this session from now on, or fails.
CREATE FUNCTION @extschema@.guard_session(OUT version text, OUT schema text, OUT preloaded boolean, OUT database text)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_session';

-- For layer 1: the guard refuses any other caller of these than the owner of layer 1.
CREATE FUNCTION @extschema@.guard_check(scope text, term bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_check';
CREATE FUNCTION @extschema@.guard_has_passed(scope text) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_has_passed';
CREATE FUNCTION @extschema@.guard_last_pass(INOUT scope text, OUT term bigint)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_last_pass';
CREATE FUNCTION @extschema@.guard_passed(scope text, term bigint) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_passed';
CREATE FUNCTION @extschema@.guard_layer1_call(begins boolean) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_layer1_call';

-- append() and append_many() without SQL; NULL, without a new write, where layer 1 has to run them in SQL. Only layer 1 may call them.
CREATE FUNCTION @extschema@.guard_append(stream text, term bigint, payload bytea, expected bigint, scope text, write_id uuid) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_append';
CREATE FUNCTION @extschema@.guard_append_many(stream text, term bigint, payloads bytea[], expected bigint, scope text, write_ids uuid[]) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_append_many';

-- For doctor(): whether the server has loaded the library, and as the first of its list.
CREATE FUNCTION @extschema@.guard_state(OUT preloaded boolean, OUT first boolean)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_state';

CREATE FUNCTION @extschema@._guarded_sessions(OUT pid integer, OUT role oid, OUT scope text, OUT term bigint, OUT passed boolean, OUT since timestamptz)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guarded_sessions';
CREATE FUNCTION @extschema@._guard_observed(OUT code text, OUT count bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'termgate_guard_observed';

-- Sessions of this database that have passed a check or requested to be guarded. passed: in the transaction that is open now; the others
-- show their last scope and term.
CREATE VIEW @extschema@.guarded_sessions AS
  SELECT g.pid, pg_catalog.pg_get_userbyid(g.role) AS role, g.scope, g.term, g.passed, g.since FROM @extschema@._guarded_sessions() g;

-- What mode observe would have refused on this server since it started.
CREATE VIEW @extschema@.guard_observed AS SELECT o.code, o.count FROM @extschema@._guard_observed() o;

-- Whoever may monitor the server may read these views, as with pg_stat_activity. A view's functions need the reader's own right to execute
-- them.
REVOKE ALL ON FUNCTION @extschema@._guarded_sessions(), @extschema@._guard_observed() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@._guarded_sessions(), @extschema@._guard_observed() TO pg_monitor;
GRANT SELECT ON @extschema@.guarded_sessions, @extschema@.guard_observed TO pg_monitor;
