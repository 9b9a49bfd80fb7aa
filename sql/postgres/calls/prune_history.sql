-- Deletes old rows of the audit, of ended job runs and of observations; fences and resets stay.
SELECT @schema@.prune_history($1::bigint * interval '1 millisecond') AS pruned
