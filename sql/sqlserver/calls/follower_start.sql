-- Starts a follower, or takes it over; run is its number from now on.
DECLARE @run bigint;
EXEC @schema@.follower_start @name = $1, @stream = $2, @scope = $3, @from_end = $4, @run = @run OUTPUT;
SELECT @run AS run
