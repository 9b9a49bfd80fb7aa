-- Only the holder, only that term, only before expiry.
SELECT renewed, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms,
  (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms
FROM @schema@.renew_lease($1, $2, $3::bigint, $4::bigint * interval '1 millisecond')
