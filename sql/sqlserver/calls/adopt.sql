-- Lets the rows of the caller's own table count towards MAX(term).
DECLARE @scopes bigint;
EXEC @schema@.adopt @target = $1, @scope_column = $2, @term_column = $3, @prefix = $4, @scopes = @scopes OUTPUT;
SELECT @scopes AS scopes
