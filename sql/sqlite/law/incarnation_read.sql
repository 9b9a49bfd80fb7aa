-- Whether scopes without a fence are in doubt (F3). Parameters: none. Rows: one. Locks: read under the write lock.
SELECT in_doubt FROM main.termgate_incarnation WHERE id = 1
