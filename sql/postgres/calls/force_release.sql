-- Ends another owner's lease and seals the next term, audited.
SELECT @schema@.force_release($1, $2, $3) AS released
