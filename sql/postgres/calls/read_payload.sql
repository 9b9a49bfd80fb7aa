-- A part of one write's payload: $4 bytes from offset $3 on. No row: the write has been pruned. The function's result keeps the stored
-- value, of which only this part is fetched.
SELECT substring(payload FROM $3::int + 1 FOR $4::int) AS part FROM @schema@.read_stream($1, $2::bigint - 1, 1) WHERE sequence_no = $2::bigint
