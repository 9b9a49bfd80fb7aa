-- Joins the pieces to @termgate_payload and empties their table; $1: the length that is expected. It is in front of the statement that uses
-- the payload, in one batch. It joins eight pieces at a time, so that the bytes so far are copied an eighth as often. No lock is taken
-- until all are joined. If a piece is short or missing, the batch ends.
DECLARE @termgate_payload varbinary(max) = 0x, @termgate_part varbinary(max), @termgate_piece varbinary(max), @termgate_at int = 0, @termgate_end int, @termgate_count int;
IF EXISTS (SELECT 1 FROM #termgate_pieces WHERE DATALENGTH(piece) <> bytes) THROW 50005, 'TG005 a piece of the payload arrived with another length than it was sent with', 1;
SELECT @termgate_count = COUNT(*) FROM #termgate_pieces;
WHILE @termgate_at < @termgate_count
BEGIN
  SET @termgate_part = 0x;
  SET @termgate_end = @termgate_at + 8;
  WHILE @termgate_at < @termgate_end AND @termgate_at < @termgate_count
  BEGIN
    SET @termgate_piece = NULL;
    SELECT @termgate_piece = piece FROM #termgate_pieces WHERE position = @termgate_at;
    SET @termgate_part = @termgate_part + @termgate_piece;
    SET @termgate_at = @termgate_at + 1;
  END
  SET @termgate_payload = @termgate_payload + @termgate_part;
END
IF ISNULL(DATALENGTH(@termgate_payload), -1) <> $1 THROW 50005, 'TG005 the payload arrived with another length than it was sent with', 1;
TRUNCATE TABLE #termgate_pieces;
