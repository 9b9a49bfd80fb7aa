-- A batch, all or nothing. Parameters: stream, term, payloads, expected, scope, write_ids; the arrays are passed by pointer. Locks: the
-- write lock. F1, F5.
SELECT termgate_append_many($1, $2, $3, $4, $5, $6) AS sequence_no
