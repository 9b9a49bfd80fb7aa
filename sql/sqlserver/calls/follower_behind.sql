-- What a follower has not handled yet, one row for each stream.
EXEC @schema@.follower_behind @name = $1, @limit = $2
