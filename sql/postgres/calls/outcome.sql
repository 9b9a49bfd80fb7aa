-- Which write an id belongs to; no row: that write has not committed.
SELECT scope, term, stream_id AS stream, sequence_no, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms
FROM @schema@.outcome($1::uuid) WHERE found
