-- Makes a table's terms evidence (F3). Parameters: target, scope_column, term_column, prefix. Locks: the write lock.
SELECT termgate_adopt($1, $2, $3, $4) AS scopes
