-- Parameters: table. Rows: type (table, view, virtual, shadow) and whether it is WITHOUT ROWID. Locks: none.
SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1
