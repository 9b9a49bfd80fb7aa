-- Runs that somebody requests. A request is an open run with term 0. The next leader of its scope that answers requests begins it.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE. The installer adds the column `request` to a table of an earlier
-- version, because SQLite's ADD COLUMN cannot run twice.

CREATE UNIQUE INDEX IF NOT EXISTS termgate_job_runs_requested ON termgate_job_runs (scope, job_name) WHERE status = 'started' AND term = 0;
