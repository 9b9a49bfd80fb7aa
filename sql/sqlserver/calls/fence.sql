-- One scope's fence as it stands; no lock.
EXEC @schema@.fence @scope = $1
