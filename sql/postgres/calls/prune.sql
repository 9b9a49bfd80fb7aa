-- Deletes a stream's writes below a sequence number; its fence and its numbering stay (F3).
SELECT @schema@.prune($1, $2::bigint) AS pruned
