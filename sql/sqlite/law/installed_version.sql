-- Parameters: none. Rows: the highest applied migration. Locks: none.
SELECT coalesce(max(version), 0) FROM main.termgate_migrations
