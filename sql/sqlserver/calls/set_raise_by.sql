-- Which raises of this scope are allowed: by any writer, or only by a seal.
DECLARE @raise_by nvarchar(100) = $2;
EXEC @schema@.set_raise_by @scope = $1, @raise_by = @raise_by;
SELECT @raise_by AS raise_by
