-- Runs that somebody asks for. A request is an open run without a term (0): whoever leads its scope next, and answers requests, begins it.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE.
-- A table of an earlier version gets its column `request` from the installer, for SQLite adds none twice.

CREATE UNIQUE INDEX IF NOT EXISTS termgate_job_runs_requested ON termgate_job_runs (scope, job_name) WHERE status = 'started' AND term = 0;
