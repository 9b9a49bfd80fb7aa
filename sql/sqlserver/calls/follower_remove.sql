-- Forgets a follower and its positions.
DECLARE @removed bit;
EXEC @schema@.follower_remove @name = $1, @removed = @removed OUTPUT;
SELECT @removed AS removed
