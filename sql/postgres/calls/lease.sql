-- One scope's lease as it is now; no lock.
SELECT scope, owner_id, term, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms, (extract(epoch FROM acquired_at) * 1000)::bigint AS acquired_at_ms,
  (extract(epoch FROM renewed_at) * 1000)::bigint AS renewed_at_ms, (extract(epoch FROM released_at) * 1000)::bigint AS released_at_ms, endpoint,
  CASE WHEN released_at IS NULL THEN (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint ELSE 0 END AS remaining_ms
FROM @schema@.lease_status WHERE scope = $1
