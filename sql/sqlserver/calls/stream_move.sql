-- Gives a stream to another scope, audited; false: it was that scope's already.
DECLARE @moved bit;
EXEC @schema@.stream_move @stream = $1, @scope = $2, @actor = $3, @reason = $4, @moved = @moved OUTPUT;
SELECT @moved AS moved
