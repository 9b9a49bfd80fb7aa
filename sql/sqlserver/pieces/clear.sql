-- After a large payload or batch, and after one that failed: nothing of it stays in the server's tempdb.
IF OBJECT_ID(N'tempdb..#termgate_pieces') IS NOT NULL TRUNCATE TABLE #termgate_pieces;
IF OBJECT_ID(N'tempdb..#termgate_batch') IS NOT NULL TRUNCATE TABLE #termgate_batch
