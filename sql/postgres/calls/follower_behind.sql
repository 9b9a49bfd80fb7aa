-- What a follower has not handled yet, one row for each stream; no lock.
SELECT run, stream_id AS stream, "position", last_no, behind FROM @schema@.follower_behind($1, $2::int)
