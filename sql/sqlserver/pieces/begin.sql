-- Before the pieces of one payload (storage/odbc): an empty table of the session. Sent as a batch of its own, because what a prepared
-- statement creates ends with it.
IF OBJECT_ID(N'tempdb..#termgate_pieces') IS NULL CREATE TABLE #termgate_pieces (position int NOT NULL PRIMARY KEY, piece varbinary(max) NOT NULL, bytes bigint NOT NULL)
ELSE TRUNCATE TABLE #termgate_pieces
