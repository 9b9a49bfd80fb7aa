-- The committed write of a write id; no row: none has committed.
EXEC @schema@.outcome @write_id = $1
