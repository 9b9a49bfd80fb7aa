-- Lets the rows of the caller's own table count towards MAX(term).
SELECT @schema@.adopt($1, $2, $3) AS scopes
