-- The operator declares that an old copy was put back, which the database cannot detect (F3).
DECLARE @scopes bigint;
EXEC @schema@.declare_untrusted @actor = $1, @reason = $2, @scopes = @scopes OUTPUT;
SELECT @scopes AS scopes
