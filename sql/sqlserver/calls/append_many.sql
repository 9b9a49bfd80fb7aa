-- As append, for a batch: all or nothing. The arrays, $3 and $6, are in the session's #termgate_batch by then (storage/odbc).
DECLARE @batch @schema@.payload_batch, @sequence_no bigint;
INSERT INTO @batch (position, payload, bytes, write_id) SELECT b.position, b.payload, b.bytes, b.write_id FROM #termgate_batch b;
EXEC @schema@.append_many @stream = $1, @term = $2, @batch = @batch, @expected = $4, @scope = $5, @sequence_no = @sequence_no OUTPUT;
SELECT @sequence_no AS sequence_no
