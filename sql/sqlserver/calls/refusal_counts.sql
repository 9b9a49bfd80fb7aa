-- How many stale writes were refused, by what library and proxies have recorded in the audit. Rows: one for each code.
SELECT N'TG001' AS code, ISNULL(SUM(CAST(JSON_VALUE(a.detail, '$.count') AS bigint)), 0) AS count FROM @schema@.audit_log a WHERE a.action = 'refuse'
