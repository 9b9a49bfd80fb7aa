-- Streams, their writes and write ids (F1, F3, F5).
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: stream_read
-- Parameters: stream. Rows: scope and last number, or none.
SELECT scope, last_no FROM main.termgate_streams WHERE stream_id = ?1

-- name: stream_insert
-- A stream's first write fixes its scope. Parameters: stream, scope, last number, moment. Rows: one.
INSERT INTO main.termgate_streams (stream_id, scope, last_no, created_at) VALUES (?1, ?2, ?3, ?4)

-- name: stream_advance
-- Parameters: stream, last number. Rows: the one.
UPDATE main.termgate_streams SET last_no = ?2 WHERE stream_id = ?1

-- name: stream_move
-- Parameters: stream, scope. Rows: the one, or none.
UPDATE main.termgate_streams SET scope = ?2 WHERE stream_id = ?1

-- name: stream_page
-- Parameters: stream, after, limit. Rows: number, scope, term, payload, moment, write id, in order. Locks: none.
SELECT sequence_no, scope, term, payload, created_at, write_id
FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no > ?2 ORDER BY sequence_no LIMIT ?3

-- name: stream_write_insert
-- Parameters: stream, number, scope, term, payload, moment, write id. Rows: one. Locks: write lock held, the check
-- passed (F1, F5).
INSERT INTO main.termgate_stream_writes (stream_id, sequence_no, scope, term, payload, created_at, write_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: write_id_read
-- Read before any term is compared (F5). Parameters: write id. Rows: what it did, or none.
SELECT stream_id, sequence_no, scope, term, created_at FROM main.termgate_write_ids WHERE write_id = ?1

-- name: write_id_insert
-- Parameters: write id, stream, number, scope, term, moment. Rows: one. The row outlives pruning (F5).
INSERT INTO main.termgate_write_ids (write_id, stream_id, sequence_no, scope, term, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: evidence_streams
-- MAX(term) over a scope's stream writes: the evidence besides the fence (F3). One index probe. Parameters: scope, the highest term that
-- still counts. Rows: one, NULL for none.
SELECT max(term) FROM main.termgate_stream_writes WHERE scope = ?1 AND term <= ?2

-- name: prune
-- Parameters: stream, number. Rows: the writes below that number. Locks: write lock held, the fence raised to their terms first (F3).
DELETE FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no < ?2

-- name: prune_scopes
-- The scopes whose evidence a pruning would remove. Parameters: stream, number. Rows: scope. F3.
SELECT DISTINCT scope FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no < ?2
