-- Gives a stream to another scope, audited; false: it was that scope's already.
SELECT @schema@.stream_move($1, $2, $3, $4) AS moved
