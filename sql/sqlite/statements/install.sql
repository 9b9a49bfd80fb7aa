-- Installing and removing layer 1.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: installed_table
-- Rows: one if layer 1 is installed. Locks: none.
SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'termgate_migrations'

-- name: installed_version
-- Rows: the highest applied migration. Locks: none.
SELECT coalesce(max(version), 0) FROM main.termgate_migrations

-- name: migration_insert
-- Parameters: version, name, moment. Rows: one.
INSERT INTO main.termgate_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)

-- name: own_parts
-- Tables, indexes and guard triggers of layer 1, read from a database that only the files of install/ have created. Rows: type, name,
-- CREATE statement. Locks: none.
SELECT type, name, sql FROM sqlite_schema WHERE name LIKE 'termgate!_%' ESCAPE '!' AND sql IS NOT NULL ORDER BY name

-- name: own_tables
-- The tables that uninstall removes. Rows: table. Locks: none.
SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name IN (
  'termgate_fences', 'termgate_leases', 'termgate_streams', 'termgate_stream_writes', 'termgate_write_ids',
  'termgate_adopted', 'termgate_adopted_terms', 'termgate_scope_prefixes', 'termgate_protected', 'termgate_observed', 'termgate_job_runs', 'termgate_audit',
  'termgate_resets', 'termgate_settings', 'termgate_incarnation', 'termgate_here', 'termgate_migrations',
  'termgate_followers', 'termgate_follower_positions', 'termgate_hand_overs') ORDER BY name

-- name: own_triggers
-- Every trigger of Termgate, on its own tables and on the owners'. Rows: name. Locks: none.
SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND name LIKE 'termgate!_%' ESCAPE '!' ORDER BY name
