-- Extends a lease. Only the holder can, under the same term, before expiry. leave_in_ms: the holder is asked to leave, and has so long;
-- NULL: it is not asked, or this layer 1 has no hand-over yet.
SELECT renewed, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms,
  (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms,
  (extract(epoch FROM (to_jsonb(r) ->> 'leave_before')::timestamptz - clock_timestamp()) * 1000)::bigint AS leave_in_ms
FROM @schema@.renew_lease($1, $2, $3::bigint, $4::bigint * interval '1 millisecond') r
