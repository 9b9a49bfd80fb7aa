-- Puts the triggers on the caller's own table, its partitions and children.
SELECT @schema@.protect($1::text::regclass, $2::name, $3::text, $4::text, $5::text) AS protected
