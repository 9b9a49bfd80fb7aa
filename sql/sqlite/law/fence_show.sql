-- Parameters: scope. Rows: the fence as `fences` shows it, or none. Locks: none.
SELECT f.scope, f.term, f.raised_at, f.raised_by,
  coalesce(f.raise_by, (SELECT value FROM main.termgate_settings WHERE name = 'default_raise_by')),
  f.in_doubt, f.reset_from
FROM main.termgate_fences f WHERE f.scope = ?1
