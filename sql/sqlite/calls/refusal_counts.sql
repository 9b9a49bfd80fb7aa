-- How many stale writes were refused, by the audit. Plain SQL's refusals are added after their transaction has ended, at most once a
-- second. Rows: one for each code. Locks: none.
SELECT 'TG001' AS code, coalesce(sum(json_extract(detail, '$.count')), 0) AS count FROM main.termgate_audit WHERE action = 'refuse'
