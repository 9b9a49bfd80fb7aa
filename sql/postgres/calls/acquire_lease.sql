-- A new term and its seal, in one transaction (F2). If another owner's lease is live, acquired is false at once.
SELECT acquired, term, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms, owner_id,
  (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms
FROM @schema@.acquire_lease($1, $2, $3::bigint * interval '1 millisecond', $4, $5::bigint * interval '1 millisecond')
