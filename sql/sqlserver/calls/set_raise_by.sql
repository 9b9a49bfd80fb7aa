-- Sets whether writers may raise this scope's fence.
DECLARE @raise_by nvarchar(100) = $2;
EXEC @schema@.set_raise_by @scope = $1, @raise_by = @raise_by;
SELECT @raise_by AS raise_by
