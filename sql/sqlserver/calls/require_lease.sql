-- TG007 if the lease is not held at this moment.
EXEC @schema@.require_lease @scope = $1, @owner = $2
