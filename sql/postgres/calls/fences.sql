-- All fences in scope order, a page at a time; no lock.
SELECT s.scope, s.term, (extract(epoch FROM s.raised_at) * 1000)::bigint AS raised_at_ms, s.raised_by, s.raise_by, f.doubt IS NOT NULL AS in_doubt, s.reset_from
FROM (SELECT * FROM @schema@.fence_status WHERE scope > $1 ORDER BY scope LIMIT $2::int) s, LATERAL @schema@.fence(s.scope) f
ORDER BY s.scope
