-- One scope's fence as it stands; no lock.
SELECT s.scope, s.term, (extract(epoch FROM s.raised_at) * 1000)::bigint AS raised_at_ms, s.raised_by, s.raise_by, f.doubt IS NOT NULL AS in_doubt, s.reset_from
FROM @schema@.fence_status s, LATERAL @schema@.fence(s.scope) f WHERE s.scope = $1
