-- After a large payload or batch, and after one that did not get through: nothing of it stays in the memory of the server.
IF OBJECT_ID(N'tempdb..#termgate_pieces') IS NOT NULL TRUNCATE TABLE #termgate_pieces;
IF OBJECT_ID(N'tempdb..#termgate_batch') IS NOT NULL TRUNCATE TABLE #termgate_batch
