-- Makes another scope guard a stream, audited; false: it did already.
DECLARE @moved bit;
EXEC @schema@.stream_move @stream = $1, @scope = $2, @actor = $3, @reason = $4, @moved = @moved OUTPUT;
SELECT @moved AS moved
