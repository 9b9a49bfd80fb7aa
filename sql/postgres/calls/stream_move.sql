-- Gives a stream to another scope, audited; false: it was that scope's already.
WITH before AS MATERIALIZED (SELECT scope FROM @schema@.stream_status WHERE stream_id = $1)
SELECT coalesce((SELECT scope FROM before) <> $2 COLLATE "C", true) AS moved
FROM (SELECT @schema@.move_stream($1, $2, $3, $4)) done
