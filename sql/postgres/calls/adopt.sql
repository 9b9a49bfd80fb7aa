-- Lets the rows of the caller's own table count towards MAX(term).
SELECT @schema@.adopt($1::text::regclass, $2::name, $3::name, $4::text) AS scopes
