-- Removes the trigger of adopt from a table; fences stay (F3).
DECLARE @unadopted bit;
EXEC @schema@.unadopt @target = $1, @unadopted = @unadopted OUTPUT;
SELECT @unadopted AS unadopted
