-- A stream's writes in order, a page at a time; no lock.
EXEC @schema@.read_stream @stream = $1, @after = $2, @limit = $3
