-- Removes the triggers of protect; false: there were none.
SELECT @schema@.unprotect($1::text::regclass) > 0 AS unprotected
