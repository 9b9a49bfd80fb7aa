-- Which write an id belongs to; no row: that write has not committed.
EXEC @schema@.outcome @write_id = $1
