-- Creates the trigger on the caller's own table.
DECLARE @protected bigint;
EXEC @schema@.protect @target = $1, @scope_column = $2, @scope = $3, @mode = $4, @prefix = $5, @protected = @protected OUTPUT;
SELECT @protected AS protected
