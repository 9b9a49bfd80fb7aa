-- Many renewals in one transaction. Parameters: leases, a JSON array of {scope, owner, term, ttl_ms}. Rows: one for each, in order.
-- Locks: the write lock. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_renew_leases($1))
SELECT o.value AS outcome FROM answer, json_each(j) o ORDER BY o.key
