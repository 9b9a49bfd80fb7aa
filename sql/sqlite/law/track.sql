-- Enlists the connection's transaction marks in the open transaction, so that passes vanish at COMMIT, ROLLBACK
-- and ROLLBACK TO (docs/reference/lock-protocol.md). Parameters: none. Rows: none; the virtual table has none. Locks: none.
DELETE FROM main.termgate_transaction WHERE 0
