-- MAX(term) over a scope's stream writes: the evidence beside the fence (F3). One index probe. Parameters: scope, the
-- highest term that is still believed. Rows: one, NULL for none. Locks: write lock held.
SELECT max(term) FROM main.termgate_stream_writes WHERE scope = ?1 AND term <= ?2
