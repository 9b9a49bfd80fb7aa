-- Ends a lease; the row and the term stay (F3).
SELECT @schema@.release_lease($1, $2, $3::bigint) AS released
