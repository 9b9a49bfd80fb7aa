-- Makes the terms in the caller's own table evidence: raises the fences to them, as each new or changed row does from then on (F3).
DECLARE @scopes bigint;
EXEC @schema@.adopt @target = $1, @scope_column = $2, @term_column = $3, @prefix = $4, @scopes = @scopes OUTPUT;
SELECT @scopes AS scopes
