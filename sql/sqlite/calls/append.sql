-- Check and insert. Parameters: stream, term, payload, expected, scope, write_id. Locks: the write lock. F1, F5.
SELECT termgate_append($1, $2, $3, $4, $5, $6) AS sequence_no
