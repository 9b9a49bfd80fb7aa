-- Parameters: table, scope, reason, moment. Rows: one. Locks: the user's own statement holds the write lock.
INSERT INTO main.termgate_observed (table_name, scope, reason, count, first_at, last_at)
VALUES (?1, ?2, ?3, 1, ?4, ?4)
ON CONFLICT (table_name, scope, reason) DO UPDATE SET count = count + 1, last_at = excluded.last_at
