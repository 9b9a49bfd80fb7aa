-- A stream's writes in order, a page at a time; no lock.
SELECT sequence_no, scope, term, payload, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms, write_id
FROM @schema@.read_stream($1, $2::bigint, $3::int)
