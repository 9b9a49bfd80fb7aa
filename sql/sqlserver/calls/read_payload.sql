-- A part of one write's payload: $4 bytes from offset $3 on. No row: the write has been pruned.
EXEC @schema@.read_payload @stream = $1, @sequence_no = $2, @start = $3, @bytes = $4
