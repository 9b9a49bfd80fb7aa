-- The tables of layer 1 on SQLite (docs/contract.md, section 4).
--
-- Parameters: none; the moment of the installation is termgate_now(). Rows: creates tables, adds the settings that are missing and the one
-- row of termgate_incarnation. Locks: the installer's BEGIN IMMEDIATE. Keeps F3 (fences are rows of their own, never derived from what can
-- be pruned) and F5 (write ids outlive pruning). Every statement can run again. Moments are milliseconds since 1970.

CREATE TABLE IF NOT EXISTS termgate_migrations (
  version    INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

-- term 0: a scope that has settings and no accepted term yet. raise_by NULL: the setting default_raise_by. untrusted: an operator declared
-- that the file is an older copy, and nobody has vouched for this fence since. reset_from: the highest fence that an audited reset has
-- lowered; NULL: none has (then termgate_resets need not be read).
CREATE TABLE IF NOT EXISTS termgate_fences (
  scope      TEXT NOT NULL PRIMARY KEY,
  term       INTEGER NOT NULL CHECK (term BETWEEN 0 AND 4611686018427387904),
  raised_at  INTEGER NOT NULL,
  raised_by  TEXT NOT NULL,
  raise_by   TEXT CHECK (raise_by IN ('writer', 'seal')),
  untrusted  INTEGER NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1)),
  reset_from INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS termgate_leases (
  scope       TEXT NOT NULL PRIMARY KEY,
  owner_id    TEXT NOT NULL,
  term        INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  acquired_at INTEGER NOT NULL,
  renewed_at  INTEGER NOT NULL,
  released_at INTEGER,
  endpoint    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS termgate_leases_expires_at ON termgate_leases (expires_at);

CREATE TABLE IF NOT EXISTS termgate_streams (
  stream_id  TEXT NOT NULL PRIMARY KEY,
  scope      TEXT NOT NULL,
  last_no    INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A rowid table on purpose: WITHOUT ROWID would move a payload of 1 KiB to a page of its own.
CREATE TABLE IF NOT EXISTS termgate_stream_writes (
  stream_id   TEXT NOT NULL,
  sequence_no INTEGER NOT NULL,
  scope       TEXT NOT NULL,
  term        INTEGER NOT NULL,
  payload     BLOB NOT NULL,
  created_at  INTEGER NOT NULL,
  write_id    TEXT,
  PRIMARY KEY (stream_id, sequence_no)
) STRICT;
CREATE INDEX IF NOT EXISTS termgate_stream_writes_scope_term ON termgate_stream_writes (scope, term);

-- stream_id and sequence_no are NULL for a write of the application's own tables (claim_write).
CREATE TABLE IF NOT EXISTS termgate_write_ids (
  write_id    TEXT NOT NULL PRIMARY KEY,
  stream_id   TEXT,
  sequence_no INTEGER,
  scope       TEXT NOT NULL,
  term        INTEGER NOT NULL,
  created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS termgate_adopted (
  table_name   TEXT NOT NULL PRIMARY KEY,
  scope_column TEXT NOT NULL,
  term_column  TEXT NOT NULL,
  adopted_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS termgate_protected (
  table_name   TEXT NOT NULL PRIMARY KEY,
  scope_column TEXT,
  scope        TEXT,
  mode         TEXT NOT NULL CHECK (mode IN ('enforce', 'observe')),
  protected_at INTEGER NOT NULL,
  CHECK ((scope_column IS NULL) <> (scope IS NULL))
) STRICT, WITHOUT ROWID;

-- What mode observe would have refused.
CREATE TABLE IF NOT EXISTS termgate_observed (
  table_name TEXT NOT NULL,
  scope      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  count      INTEGER NOT NULL,
  first_at   INTEGER NOT NULL,
  last_at    INTEGER NOT NULL,
  PRIMARY KEY (table_name, scope, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS termgate_job_runs (
  run_id         TEXT NOT NULL PRIMARY KEY,
  job_name       TEXT NOT NULL,
  scope          TEXT NOT NULL,
  owner_id       TEXT NOT NULL,
  term           INTEGER NOT NULL,
  started_at     INTEGER NOT NULL,
  completed_at   INTEGER,
  status         TEXT NOT NULL CHECK (status IN ('started', 'completed', 'failed', 'cancelled', 'lost')),
  last_heartbeat INTEGER,
  exit_code      INTEGER,
  checkpoint     TEXT,
  detail         TEXT,
  request        TEXT CHECK (request IN ('run', 'dry-run', 'resume'))
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS termgate_job_runs_started_at ON termgate_job_runs (started_at);
CREATE INDEX IF NOT EXISTS termgate_job_runs_scope ON termgate_job_runs (scope, status);

CREATE TABLE IF NOT EXISTS termgate_audit (
  id           INTEGER PRIMARY KEY,
  at           INTEGER NOT NULL,
  actor        TEXT NOT NULL,
  session_user TEXT NOT NULL,
  client       TEXT NOT NULL,
  action       TEXT NOT NULL,
  scope        TEXT,
  detail       TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS termgate_audit_scope ON termgate_audit (scope, id);
CREATE INDEX IF NOT EXISTS termgate_audit_at ON termgate_audit (at);

-- One row for each reset: stored terms above new_term and not above old_term are no evidence any more.
CREATE TABLE IF NOT EXISTS termgate_resets (
  id       INTEGER PRIMARY KEY,
  scope    TEXT NOT NULL,
  old_term INTEGER NOT NULL,
  new_term INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  actor    TEXT NOT NULL,
  reason   TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS termgate_resets_scope ON termgate_resets (scope);

CREATE TABLE IF NOT EXISTS termgate_settings (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL,
  what  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO termgate_settings (name, value, what) VALUES
  ('check_wait_ms', '5000', 'how long a check waits for another process''s write lock before TG006 (0 to 600000)'),
  ('default_raise_by', 'writer', 'who may raise a fence that says nothing of its own: writer or seal'),
  ('eviction_grace_ms', '1000', 'kept for the other databases (0 to 600000): SQLite''s lock has one holder, whom no other process can end'),
  ('payload_bytes_max', '268435456', 'the largest payload of one stream write (1 to 268435456)');

-- untrusted 1: scopes without a row are untrusted too, because the older copy may not have known them yet.
CREATE TABLE IF NOT EXISTS termgate_incarnation (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1))
) STRICT;
INSERT OR IGNORE INTO termgate_incarnation (id, untrusted) VALUES (1, 0);
