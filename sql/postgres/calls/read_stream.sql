-- A stream's writes in order, a page at a time; no lock. A payload of more than $4 bytes is returned as NULL, beside its length;
-- read_payload reads it in parts.
SELECT sequence_no, scope, term, CASE WHEN octet_length(payload) <= $4::bigint THEN payload END AS payload, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms, write_id,
       octet_length(payload)::bigint AS payload_bytes
FROM @schema@.read_stream($1, $2::bigint, $3::int)
