-- A fence stands at or above every stored term that is still evidence (F3). Parameters: none. Rows: scope, fence, highest
-- stored term. Locks: none.
SELECT w.scope, coalesce(f.term, 0), max(w.term)
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_fences f ON f.scope = w.scope
WHERE w.term > coalesce(f.term, 0)
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.term > r.new_term AND w.term <= r.old_term)
GROUP BY w.scope ORDER BY w.scope
