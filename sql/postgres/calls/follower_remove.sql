-- Forgets a follower and its positions.
SELECT @schema@.follower_remove($1) AS removed
