-- Raises a fence without a write (F2); may wait for the grace and evict (F4).
SELECT fence, previous, evicted, (extract(epoch FROM sealed_at) * 1000)::bigint AS sealed_at_ms
FROM @schema@.seal($1, $2::bigint, $3::bigint * interval '1 millisecond')
