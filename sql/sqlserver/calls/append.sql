-- Check and append in one transaction (F5); the stream's row stays locked until the transaction ends.
DECLARE @sequence_no bigint;
EXEC @schema@.append @stream = $1, @term = $2, @payload = $3, @expected = $4, @scope = $5, @write_id = $6, @sequence_no = @sequence_no OUTPUT;
SELECT @sequence_no AS sequence_no
