-- A new term and its seal, in one transaction (F2). If another owner's lease is live, acquired is false at once.
EXEC @schema@.acquire_lease @scope = $1, @owner = $2, @ttl_ms = $3, @endpoint = $4, @grace_ms = $5
