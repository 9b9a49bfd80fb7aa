-- Ends another owner's lease and seals the next term, audited.
DECLARE @released bit;
EXEC @schema@.force_release @scope = $1, @actor = $2, @reason = $3, @released = @released OUTPUT;
SELECT @released AS released
