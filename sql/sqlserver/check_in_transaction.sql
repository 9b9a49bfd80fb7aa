-- The check for programs with a connection of their own (<termgate/sqlserver_check.hpp>), in the transaction that is open there.
-- Parameters: scope, term. One row: the fence after the check. NULL: no transaction is open and nothing was checked, because a check in a
-- transaction of its own guards nothing else. Locks and errors are check_term's. Keeps F1, F5.
DECLARE @fence bigint, @none int;
-- Under IMPLICIT_TRANSACTIONS (2 of @@OPTIONS: drivers turn autocommit off by it) the next statement that reads a table begins the
-- transaction; this one does.
IF @@TRANCOUNT = 0 AND (@@OPTIONS / 2) % 2 = 1 SELECT @none = COUNT(*) FROM sys.schemas WHERE 1 = 0;
IF @@TRANCOUNT > 0 EXEC @schema@.check_term @scope = $1, @term = $2, @fence = @fence OUTPUT;
SELECT @fence AS fence
