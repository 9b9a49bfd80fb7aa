-- Parameters: version, name, moment. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)
