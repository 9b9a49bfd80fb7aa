-- Makes another scope guard a stream, audited; false: it did already.
SELECT @schema@.stream_move($1, $2, $3, $4) AS moved
