-- Removes the trigger of protect; false: there was none.
DECLARE @unprotected bit;
EXEC @schema@.unprotect @target = $1, @unprotected = @unprotected OUTPUT;
SELECT @unprotected AS unprotected
