-- Gives a stream to another scope, audited.
SELECT @schema@.stream_move($1, $2, $3, $4) AS moved
