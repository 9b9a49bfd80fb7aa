-- Takes the triggers off.
SELECT @schema@.unprotect($1) AS unprotected
