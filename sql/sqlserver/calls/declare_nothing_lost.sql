-- All scopes are trusted again: the operator declares that no raise is missing (F3).
DECLARE @scopes bigint;
EXEC @schema@.declare_nothing_lost @actor = $1, @reason = $2, @scopes = @scopes OUTPUT;
SELECT @scopes AS scopes
