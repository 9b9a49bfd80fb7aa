-- Parameters: scope. Rows: none where nothing was ever accepted. Locks: none.
SELECT f.scope, f.term, f.raised_at AS raised_at_ms, f.raised_by,
  coalesce(f.raise_by, (SELECT value FROM main.termgate_settings WHERE name = 'default_raise_by')) AS raise_by,
  max(f.generation, i.vouched) < i.generation AS in_doubt, f.reset_from
FROM main.termgate_fences f, main.termgate_incarnation i WHERE i.id = 1 AND f.scope = $1
