-- The committed write of a write id; no row: none has committed.
SELECT scope, term, stream_id AS stream, sequence_no, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms
FROM @schema@.outcome($1::uuid) WHERE found
