-- Ends a lease; the row and the term stay (F3).
DECLARE @released bit;
EXEC @schema@.release_lease @scope = $1, @owner = $2, @term = $3, @released = @released OUTPUT;
SELECT @released AS released
