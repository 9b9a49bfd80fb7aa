-- What a write id stands for; no row: that write did not happen.
EXEC @schema@.outcome @write_id = $1
