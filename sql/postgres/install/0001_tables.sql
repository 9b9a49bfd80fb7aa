-- Tables of layer 1, and what a table must refuse by itself.
-- Parameters: none. The installer puts the schema's name where it is marked (see ../README.md). If the installed version is lower, it runs
-- all files, in order, in one transaction, under an advisory lock. So each statement may run again, and a column that came later has its
-- own ALTER TABLE. Locks: those of CREATE. Keeps F3: only an audited reset lowers a fence row, and nothing deletes or truncates it.

-- For all files: otherwise a role that may create functions in a schema of the installer's search path could have the installer run one.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
BEGIN
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'Termgate needs a database with the encoding UTF8; this one has %', current_setting('server_encoding')
      USING ERRCODE = '0A000', HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0';
  END IF;
  IF current_setting('server_version_num')::int < 130000 THEN
    RAISE EXCEPTION 'Termgate needs PostgreSQL 13 or later; this is %', current_setting('server_version') USING ERRCODE = '0A000';
  END IF;
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'this server is a standby: install Termgate on its primary' USING ERRCODE = '25006';
  END IF;
END $$;

-- The owner of the schema could drop what is in it and add functions beside ours. The owner of a table in it could give the table triggers,
-- which would run as the installer.
DO $$
DECLARE
  v_other name := (
    SELECT r.rolname FROM pg_namespace n CROSS JOIN LATERAL (
             SELECT n.nspowner AS oid
             UNION SELECT c.relowner FROM pg_class c
                    WHERE c.relnamespace = n.oid AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')) o
      JOIN pg_roles r ON r.oid = o.oid
     WHERE n.nspname = @schema_lit@ AND NOT r.rolsuper AND r.rolname <> current_user
       -- Allowed: an upgrade by a role that may act for the owner of layer 1.
       AND NOT (pg_has_role(r.oid, 'USAGE') AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'migrations' AND c.relowner = r.oid)) LIMIT 1);
BEGIN
  IF v_other IS NOT NULL THEN
    RAISE EXCEPTION 'schema % or a table in it belongs to role %, who could change whatever layer 1 has there', @schema_lit@, quote_ident(v_other)
      USING ERRCODE = '42501', HINT = format('Nothing was changed. DROP SCHEMA %I, where nobody needs it; or ALTER SCHEMA %I OWNER TO %I.', @schema_lit@, @schema_lit@, current_user);
  END IF;
END $$;

-- CREATE SCHEMA IF NOT EXISTS fails for a role that may use the schema but may not create one, even if the schema exists.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = @schema_lit@) THEN
    CREATE SCHEMA @schema@;
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS @schema@.migrations (
  version    integer PRIMARY KEY,
  name       text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each scope, kept for ever. Term 0: known, but no term accepted yet.
CREATE TABLE IF NOT EXISTS @schema@.fences (
  scope      text COLLATE pg_catalog."C" PRIMARY KEY CHECK (char_length(scope) BETWEEN 1 AND 200),
  term       bigint NOT NULL CHECK (term BETWEEN 0 AND 4611686018427387904),
  raised_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  raised_by  text NOT NULL DEFAULT session_user,
  -- writer: the check of a higher term raises the fence. seal: no check does, but seals, leases and operators do.
  raise_by   text NOT NULL DEFAULT 'writer' CHECK (raise_by IN ('writer', 'seal')),
  -- The incarnation of the database that vouches for the term; see incarnation.
  generation bigint NOT NULL DEFAULT 1,
  -- The OID of this very table when the row's generation was last compared; 0: compare again. A restored dump has a table of another OID.
  vouched    oid NOT NULL DEFAULT 0,
  -- Not used any more: the library of the guard up to version 19 needs the column.
  marked     boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);

-- Signs the marks of passed checks. Nobody but the owner of layer 1 may read it. It is a materialized view because pg_dump copies the
-- tables' rows, and so needs SELECT on every table, but of a materialized view only the definition: whoever dumps the database can
-- do so without learning the secret, and a restored database has a new one.
DO $$
BEGIN
  IF to_regclass(format('%I.pass_secret', @schema_lit@)) IS NULL THEN
    CREATE MATERIALIZED VIEW @schema@.pass_secret AS SELECT gen_random_uuid() AS key;
  ELSIF NOT (SELECT c.relispopulated FROM pg_class c WHERE c.oid = to_regclass(format('%I.pass_secret', @schema_lit@))) THEN
    REFRESH MATERIALIZED VIEW @schema@.pass_secret;
  END IF;
  IF to_regclass(format('%I.pass_secret_key', @schema_lit@)) IS NULL THEN
    CREATE INDEX pass_secret_key ON @schema@.pass_secret (key);
  END IF;
END $$;

-- What this database looked like when its fences were last known to be complete. One row.
CREATE TABLE IF NOT EXISTS @schema@.incarnation (
  one               boolean PRIMARY KEY DEFAULT true CHECK (one),
  generation        bigint NOT NULL DEFAULT 1,
  -- Fences of a generation below this one are untrusted; 0: none is.
  trusted_since     bigint NOT NULL DEFAULT 0,
  system_identifier bigint NOT NULL,
  timeline          text NOT NULL,
  database_oid      oid NOT NULL,
  fences_oid        oid NOT NULL,
  -- These two are compared first, and the four above only if one of these differs.
  postmaster_start  timestamptz NOT NULL,
  fences_path       text NOT NULL
) WITH (fillfactor = 20);

-- One row for each audited reset of a fence. Terms above to_term and not above from_term are no evidence any more.
CREATE TABLE IF NOT EXISTS @schema@.resets (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope     text COLLATE pg_catalog."C" NOT NULL,
  from_term bigint NOT NULL,
  to_term   bigint NOT NULL,
  xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
  at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS @schema@.leases (
  scope       text COLLATE pg_catalog."C" PRIMARY KEY CHECK (char_length(scope) BETWEEN 1 AND 200),
  owner_id    text NOT NULL,
  term        bigint NOT NULL CHECK (term BETWEEN 0 AND 4611686018427387904),
  expires_at  timestamptz NOT NULL,
  acquired_at timestamptz NOT NULL,
  renewed_at  timestamptz NOT NULL,
  released_at timestamptz,
  endpoint    text
) WITH (fillfactor = 50);

-- Never pruned: a stream keeps its scope and its numbering. Half-empty pages, so that last_no is updated in place. No CHECK here or on
-- stream_writes: PostgreSQL would read each of them again in every statement, which costs an append a tenth. The functions check instead.
CREATE TABLE IF NOT EXISTS @schema@.streams (
  stream_id  text COLLATE pg_catalog."C" PRIMARY KEY,
  scope      text COLLATE pg_catalog."C" NOT NULL,
  last_no    bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS @schema@.stream_writes (
  stream_id   text COLLATE pg_catalog."C" NOT NULL,
  sequence_no bigint NOT NULL,
  scope       text COLLATE pg_catalog."C" NOT NULL,
  term        bigint NOT NULL,
  payload     bytea NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  write_id    uuid,
  PRIMARY KEY (stream_id, sequence_no)
);

-- Ids outlive the pruning of their writes. stream_id is NULL for a plain write (claim_write).
CREATE TABLE IF NOT EXISTS @schema@.write_ids (
  write_id    uuid PRIMARY KEY,
  stream_id   text COLLATE pg_catalog."C",
  sequence_no bigint,
  scope       text COLLATE pg_catalog."C" NOT NULL,
  term        bigint NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Owners' own tables whose terms count as evidence. The names are for people; the OID decides.
CREATE TABLE IF NOT EXISTS @schema@.adopted (
  table_oid    oid PRIMARY KEY,
  table_name   text NOT NULL,
  scope_column name NOT NULL,
  term_column  name NOT NULL,
  adopted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  adopted_by   text NOT NULL DEFAULT session_user
);

-- Every table, partition and child for which protect() made triggers. A write to a table that has the triggers but is not listed here is
-- refused.
CREATE TABLE IF NOT EXISTS @schema@.protected (
  table_oid    oid PRIMARY KEY,
  root_oid     oid NOT NULL,
  table_name   text NOT NULL,
  scope_column name,
  scope        text COLLATE pg_catalog."C",
  mode         text NOT NULL CHECK (mode IN ('enforce', 'observe')),
  protected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  protected_by text NOT NULL DEFAULT session_user,
  CHECK ((scope_column IS NULL) <> (scope IS NULL))
);

-- What mode 'observe' would have refused: at most one row for each transaction, table, scope and code. No row is ever updated.
CREATE TABLE IF NOT EXISTS @schema@.observed (
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  table_oid   oid NOT NULL,
  table_name  text NOT NULL,
  scope       text COLLATE pg_catalog."C",
  code        text NOT NULL,
  reason      text NOT NULL,
  role_name   text NOT NULL DEFAULT session_user,
  client      text
);

-- Passes of transactions over very many scopes: see docs/reference/lock-protocol.md, "Very many scopes". Rows of finished transactions
-- mean nothing.
CREATE UNLOGGED TABLE IF NOT EXISTS @schema@.passes (
  xid   xid8 NOT NULL,
  scope text COLLATE pg_catalog."C" NOT NULL,
  term  bigint NOT NULL,
  PRIMARY KEY (xid, scope)
);

CREATE TABLE IF NOT EXISTS @schema@.job_runs (
  run_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_name       text NOT NULL CHECK (char_length(job_name) BETWEEN 1 AND 200),
  scope          text COLLATE pg_catalog."C" NOT NULL,
  owner_id       text NOT NULL,
  term           bigint NOT NULL,
  started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  completed_at   timestamptz,
  status         text NOT NULL DEFAULT 'started' CHECK (status IN ('started', 'completed', 'failed', 'cancelled', 'lost')),
  last_heartbeat timestamptz NOT NULL DEFAULT clock_timestamp(),
  exit_code      integer,
  checkpoint     text,
  detail         text,
  request        text CHECK (request IN ('run', 'dry-run', 'resume'))
);

CREATE TABLE IF NOT EXISTS @schema@.audit (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at             timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor          text NOT NULL,
  "session_user" text NOT NULL DEFAULT session_user,
  client         text,
  action         text NOT NULL,
  scope          text COLLATE pg_catalog."C",
  detail         jsonb NOT NULL DEFAULT '{}'
);

-- The kind of run that job_request() was called for (0026). NULL: nobody requested the run.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.job_runs', @schema_lit@)::regclass AND a.attname = 'request' AND NOT a.attisdropped) THEN
    ALTER TABLE @schema@.job_runs ADD COLUMN request text CHECK (request IN ('run', 'dry-run', 'resume'));
  END IF;
END $$;

-- CREATE INDEX IF NOT EXISTS would wait for every writer of a table even if the index exists.
DO $$
BEGIN
  IF to_regclass(format('%I.resets_scope', @schema_lit@)) IS NULL THEN
    CREATE INDEX resets_scope ON @schema@.resets (scope);
  END IF;
  IF to_regclass(format('%I.leases_expires_at', @schema_lit@)) IS NULL THEN
    CREATE INDEX leases_expires_at ON @schema@.leases (expires_at);
  END IF;
  IF to_regclass(format('%I.streams_scope', @schema_lit@)) IS NULL THEN
    CREATE INDEX streams_scope ON @schema@.streams (scope);
  END IF;
  IF to_regclass(format('%I.stream_writes_scope_term', @schema_lit@)) IS NULL THEN
    CREATE INDEX stream_writes_scope_term ON @schema@.stream_writes (scope, term);
  END IF;
  IF to_regclass(format('%I.protected_root', @schema_lit@)) IS NULL THEN
    CREATE INDEX protected_root ON @schema@.protected (root_oid);
  END IF;
  IF to_regclass(format('%I.observed_at', @schema_lit@)) IS NULL THEN
    CREATE INDEX observed_at ON @schema@.observed (at);
  END IF;
  IF to_regclass(format('%I.job_runs_scope', @schema_lit@)) IS NULL THEN
    CREATE INDEX job_runs_scope ON @schema@.job_runs (scope, run_id);
  END IF;
  IF to_regclass(format('%I.job_runs_open', @schema_lit@)) IS NULL THEN
    CREATE INDEX job_runs_open ON @schema@.job_runs (scope, job_name) WHERE status = 'started';
  END IF;
  IF to_regclass(format('%I.audit_scope', @schema_lit@)) IS NULL THEN
    CREATE INDEX audit_scope ON @schema@.audit (scope, id);
  END IF;
  IF to_regclass(format('%I.audit_at', @schema_lit@)) IS NULL THEN
    CREATE INDEX audit_at ON @schema@.audit (at);
  END IF;
END $$;

CREATE TABLE IF NOT EXISTS @schema@.settings (
  name  text PRIMARY KEY,
  value text NOT NULL,
  what  text NOT NULL
);

-- Refuses a setting that could not be read back: layer 1 reads settings with a cast, which must not fail in the middle of a raise.
CREATE OR REPLACE FUNCTION @schema@._settings_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_problem text;
BEGIN
  IF TG_OP <> 'INSERT' AND (TG_OP = 'DELETE' OR NEW.name <> OLD.name) THEN
    RAISE EXCEPTION 'TG005 a setting cannot be deleted or renamed' USING ERRCODE = 'TG005';
  END IF;
  BEGIN
    CASE NEW.name
      WHEN 'check_wait_ms', 'eviction_grace_ms', 'grace_after_expiry_ms' THEN
        IF NEW.value::bigint NOT BETWEEN 0 AND 3600000 THEN v_problem := 'a number of milliseconds from 0 to 3600000'; END IF;
      WHEN 'default_raise_by' THEN
        IF NEW.value NOT IN ('writer', 'seal') THEN v_problem := 'writer or seal'; END IF;
      WHEN 'failover' THEN
        IF NEW.value NOT IN ('declared', 'synchronous') THEN v_problem := 'declared or synchronous'; END IF;
      WHEN 'payload_bytes_max' THEN
        IF NEW.value::bigint NOT BETWEEN 1 AND 268435456 THEN v_problem := 'a number of bytes from 1 to 268435456'; END IF;
      ELSE
        RAISE EXCEPTION 'TG005 there is no setting "%"', NEW.name USING ERRCODE = 'TG005';
    END CASE;
  EXCEPTION WHEN data_exception THEN
    v_problem := CASE WHEN NEW.name = 'payload_bytes_max' THEN 'a number of bytes' ELSE 'a number of milliseconds' END;
  END;
  IF v_problem IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 setting "%" must be %, not "%"', NEW.name, v_problem, NEW.value USING ERRCODE = 'TG005';
  END IF;
  RETURN NEW;
END $$;

-- This INSERT must come after _settings_guard is replaced: its trigger may exist already, and its earlier form would refuse a new setting.
INSERT INTO @schema@.settings (name, value, what) VALUES
  ('check_wait_ms', '5000', 'how long a check waits for a raise to end before TG006'),
  ('default_raise_by', 'writer', 'who may raise the fence of a new scope: writer (any writer with a higher term) or seal'),
  ('eviction_grace_ms', '1000', 'how long a raise waits for those in its way before it evicts them'),
  ('grace_after_expiry_ms', '100', 'the same for an acquisition of a lease that has expired; the shorter of the two'),
  ('failover', 'declared', 'synchronous: every promotion here is to a synchronous standby and has lost nothing; declared: an operator says so each time'),
  ('payload_bytes_max', '268435456', 'the largest payload of an append, in bytes')
ON CONFLICT DO NOTHING;

-- F3: a fence goes down only where this very transaction has written a row of `resets` that says so.
CREATE OR REPLACE FUNCTION @schema@._fences_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.scope <> OLD.scope THEN
      RAISE EXCEPTION 'TG005 the scope of a fence cannot be changed' USING ERRCODE = 'TG005';
    END IF;
    IF NEW.term >= OLD.term AND NEW.generation >= OLD.generation THEN
      RETURN NEW;
    END IF;
    IF EXISTS (SELECT FROM @schema@.resets r
                WHERE r.scope = OLD.scope AND r.from_term = OLD.term AND r.to_term = NEW.term
                  AND r.xid = pg_current_xact_id()) THEN
      RETURN NEW;
    END IF;
    RAISE EXCEPTION 'TG005 the fence of scope "%" stands at % and never goes down', OLD.scope, OLD.term
      USING ERRCODE = 'TG005', HINT = 'Only reset_fence(scope, term, actor, reason) lowers a fence.';
  END IF;
  RAISE EXCEPTION 'TG005 fences are kept for ever: % refused', TG_OP USING ERRCODE = 'TG005';
END $$;

-- F3: a raise is on disk before its COMMIT returns, whatever the session has set. A deferred trigger runs inside COMMIT, so nothing can
-- change the setting afterwards (unless SET CONSTRAINTS ALL IMMEDIATE has run it early). It also runs inside PREPARE TRANSACTION, which it
-- refuses: a prepared raise holds its scope, and nobody could evict it.
CREATE OR REPLACE FUNCTION @schema@._flush_raise() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_commit text := current_setting('synchronous_commit');
BEGIN
  IF v_commit = 'off'
     OR (v_commit = 'local' AND EXISTS (SELECT FROM @schema@.settings s WHERE s.name = 'failover' AND s.value = 'synchronous')) THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF current_setting('max_prepared_transactions') <> '0' AND current_query() ~* 'prepare([[:space:]]|--.*|/[*].*[*]/)+transaction' THEN
    RAISE EXCEPTION 'cannot PREPARE a transaction that has raised the fence of scope "%"', NEW.scope
      USING ERRCODE = '0A000', HINT = 'Raise it first, in a transaction of its own.';
  END IF;
  RETURN NULL;
END $$;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = format('%I.fences', @schema_lit@)::regclass AND tgname = 'fences_guard') THEN
    CREATE TRIGGER fences_guard BEFORE UPDATE OR DELETE ON @schema@.fences
      FOR EACH ROW EXECUTE FUNCTION @schema@._fences_guard();
    CREATE TRIGGER fences_guard_truncate BEFORE TRUNCATE ON @schema@.fences
      FOR EACH STATEMENT EXECUTE FUNCTION @schema@._fences_guard();
    CREATE CONSTRAINT TRIGGER fences_flush AFTER INSERT OR UPDATE ON @schema@.fences
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION @schema@._flush_raise();
    CREATE TRIGGER settings_guard BEFORE INSERT OR UPDATE OR DELETE ON @schema@.settings
      FOR EACH ROW EXECUTE FUNCTION @schema@._settings_guard();
  END IF;
  -- ALWAYS: session_replication_role = replica must not switch layer 1 off. Not if they are so already: ALTER TABLE waits for every raise.
  IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = format('%I.fences', @schema_lit@)::regclass AND g.tgname LIKE 'fences%' AND g.tgenabled <> 'A') THEN
    ALTER TABLE @schema@.fences ENABLE ALWAYS TRIGGER fences_guard;
    ALTER TABLE @schema@.fences ENABLE ALWAYS TRIGGER fences_guard_truncate;
    ALTER TABLE @schema@.fences ENABLE ALWAYS TRIGGER fences_flush;
  END IF;
END $$;

-- The server's identifier, or 0 if the owner of layer 1 may not read it (some managed servers): then it is not compared, and doctor reports
-- that.
CREATE OR REPLACE FUNCTION @schema@._system_identifier() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT has_function_privilege('pg_control_system()', 'EXECUTE') THEN
    RETURN 0;
  END IF;
  RETURN (SELECT c.system_identifier FROM pg_control_system() c);
END $$;

INSERT INTO @schema@.incarnation (system_identifier, timeline, database_oid, fences_oid, postmaster_start, fences_path)
SELECT @schema@._system_identifier(),
       left(pg_walfile_name(pg_current_wal_lsn()), 8),
       (SELECT oid FROM pg_database WHERE datname = current_database()),
       f.oid, pg_postmaster_start_time(), pg_relation_filepath(f.oid)
  FROM (SELECT format('%I.fences', @schema_lit@)::regclass::oid AS oid) f
ON CONFLICT DO NOTHING;
