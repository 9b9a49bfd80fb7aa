-- Makes the terms in the caller's own table evidence: raises the fences to them, as each new or changed row does from then on (F3).
SELECT @schema@.adopt($1::text::regclass, $2::name, $3::name, $4::text) AS scopes
