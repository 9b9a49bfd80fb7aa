-- What a follower has not handled yet, a stream a row.
EXEC @schema@.follower_behind @name = $1, @limit = $2
