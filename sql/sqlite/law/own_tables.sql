-- Everything that uninstall takes away. Parameters: none. Rows: table. Locks: none.
SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name IN (
  'termgate_fences', 'termgate_leases', 'termgate_streams', 'termgate_stream_writes', 'termgate_write_ids',
  'termgate_adopted', 'termgate_protected', 'termgate_observed', 'termgate_job_runs', 'termgate_audit',
  'termgate_resets', 'termgate_settings', 'termgate_incarnation', 'termgate_here', 'termgate_migrations') ORDER BY name
