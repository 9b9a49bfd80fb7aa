-- Deletes old audit and job rows; fences and resets stay.
SELECT @schema@.prune_history($1::bigint * interval '1 millisecond') AS pruned
