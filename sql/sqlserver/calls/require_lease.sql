-- TG007 where the lease is not held at this moment.
EXEC @schema@.require_lease @scope = $1, @owner = $2
