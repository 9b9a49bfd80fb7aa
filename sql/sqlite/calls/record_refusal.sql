-- Refusals, audited afterwards. Parameters: scope, term, count, first_ms, last_ms, client. Locks: the write lock.
SELECT termgate_record_refusal($1, $2, $3, $4, $5, $6) AS recorded
