-- One scope's lease as it stands; no lock.
EXEC @schema@.lease @scope = $1
