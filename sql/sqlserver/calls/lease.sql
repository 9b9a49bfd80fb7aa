-- One scope's lease as it is now. Waits for an open change of it, for 2 s at most, unless READ_COMMITTED_SNAPSHOT is ON.
EXEC @schema@.lease @scope = $1
