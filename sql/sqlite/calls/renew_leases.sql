-- Many renewals in one transaction. Parameters: leases, a JSON array of {scope, owner, term, ttl_ms}. Rows: one for each, in order.
-- leave_in_ms as in renew_lease. Locks: the write lock. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_renew_leases($1))
SELECT o.value AS outcome,
  CASE WHEN o.value = 'renewed' THEN termgate_leave_in(json_extract(l.value, '$.scope'), json_extract(l.value, '$.term')) END AS leave_in_ms
FROM answer, json_each(j) o, json_each($1) l WHERE l.key = o.key ORDER BY o.key
