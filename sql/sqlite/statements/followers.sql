-- Followers and their positions.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: follower_read
-- Parameters: name. Rows: stream, scope, run, or none.
SELECT stream_id, scope, run FROM main.termgate_followers WHERE name = ?1

-- name: follower_insert
-- Parameters: name, stream, scope, moment. Rows: one.
INSERT INTO main.termgate_followers (name, stream_id, scope, run, started_at) VALUES (?1, ?2, ?3, 1, ?4)

-- name: follower_take
-- Parameters: name, moment. Rows: the one.
UPDATE main.termgate_followers SET run = run + 1, started_at = ?2 WHERE name = ?1

-- name: follower_from_end
-- A first start after what is committed now. Parameters: name, stream, scope, moment. Rows: one for each stream.
INSERT INTO main.termgate_follower_positions (name, stream_id, position, moved_at)
SELECT ?1, stream_id, last_no, ?4 FROM main.termgate_streams WHERE (stream_id = ?2 OR scope = ?3) AND last_no > 0

-- name: follower_first
-- Parameters: name, stream, position, moment. Rows: one, or none if there is a position.
INSERT OR IGNORE INTO main.termgate_follower_positions (name, stream_id, position, moved_at) VALUES (?1, ?2, ?3, ?4)

-- name: follower_move
-- Parameters: name, stream, from, to, moment. Rows: one, or none if the position is not `from`.
UPDATE main.termgate_follower_positions SET position = ?4, moved_at = ?5 WHERE name = ?1 AND stream_id = ?2 AND position = ?3

-- name: follower_delete
-- Parameters: name. Rows: the one, or none.
DELETE FROM main.termgate_followers WHERE name = ?1

-- name: follower_positions_delete
-- Parameters: name. Rows: its positions.
DELETE FROM main.termgate_follower_positions WHERE name = ?1
