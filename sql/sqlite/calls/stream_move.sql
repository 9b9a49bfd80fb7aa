-- Makes another scope guard a stream, audited. Parameters: stream, scope, actor, reason. Locks: the write lock.
SELECT termgate_stream_move($1, $2, $3, $4) AS moved
