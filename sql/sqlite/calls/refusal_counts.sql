-- How often stale writes were refused, by the audit: plain SQL's too, as soon as their transaction is over, at most once a second. Rows: one for
-- each code. Locks: none.
SELECT 'TG001' AS code, coalesce(sum(json_extract(detail, '$.count')), 0) AS count FROM main.termgate_audit WHERE action = 'refuse'
