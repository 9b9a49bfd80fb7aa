-- Lowers a fence, audited; nothing else can (F3).
DECLARE @previous bigint;
EXEC @schema@.reset_fence @scope = $1, @term = $2, @actor = $3, @reason = $4, @previous = @previous OUTPUT;
SELECT @previous AS previous
