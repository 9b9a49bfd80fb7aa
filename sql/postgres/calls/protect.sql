-- Puts the triggers on the caller's own table.
SELECT @schema@.protect($1, $2, $3, $4) AS protected
