-- Takes the triggers off; false: there were none.
DECLARE @unprotected bit;
EXEC @schema@.unprotect @target = $1, @unprotected = @unprotected OUTPUT;
SELECT @unprotected AS unprotected
