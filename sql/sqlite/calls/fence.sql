-- Parameters: scope. Rows: one, or none for an unknown scope. Locks: none.
SELECT f.scope, f.term, f.raised_at AS raised_at_ms, f.raised_by,
  coalesce(f.raise_by, (SELECT value FROM main.termgate_settings WHERE name = 'default_raise_by')) AS raise_by,
  f.untrusted, f.reset_from
FROM main.termgate_fences f WHERE f.scope = $1
