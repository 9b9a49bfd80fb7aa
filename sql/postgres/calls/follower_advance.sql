-- Moves a follower's position: name, run, stream, from, to.
SELECT @schema@.follower_advance($1, $2::bigint, $3, $4::bigint, $5::bigint) AS outcome
