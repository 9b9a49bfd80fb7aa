-- Starts a follower, or takes it over; run is its number from now on.
SELECT @schema@.follower_start($1, $2, $3, $4::boolean) AS run
