-- Deletes old rows of the audit, of ended job runs and of observations; fences and resets stay.
DECLARE @pruned bigint;
EXEC @schema@.prune_history @older_than_ms = $1, @pruned = @pruned OUTPUT;
SELECT @pruned AS pruned
