-- Looked up before any term is compared (F5). Parameters: write id. Rows: what it did, or none. Locks: write lock held.
SELECT stream_id, sequence_no, scope, term, created_at FROM main.termgate_write_ids WHERE write_id = ?1
