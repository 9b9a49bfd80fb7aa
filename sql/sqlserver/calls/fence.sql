-- One scope's fence as it is now. Waits for an open raise, for 2 s at most, unless READ_COMMITTED_SNAPSHOT is ON.
EXEC @schema@.fence @scope = $1
