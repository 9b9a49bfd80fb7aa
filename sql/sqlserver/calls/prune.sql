-- Deletes a stream's writes below a sequence number; its fence and its numbering stay (F3).
DECLARE @pruned bigint;
EXEC @schema@.prune @stream = $1, @before = $2, @pruned = @pruned OUTPUT;
SELECT @pruned AS pruned
