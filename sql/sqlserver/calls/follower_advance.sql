-- Moves a follower's position: name, run, stream, from, to.
DECLARE @outcome nvarchar(20);
EXEC @schema@.follower_advance @name = $1, @run = $2, @stream = $3, @from_no = $4, @to_no = $5, @outcome = @outcome OUTPUT;
SELECT @outcome AS outcome
