-- Parameters: table. Rows: name, declared type, place in the primary key, hidden (2, 3: generated), NOT NULL, the
-- default's expression. Locks: none.
SELECT name, type, pk, hidden, "notnull", dflt_value FROM pragma_table_xinfo(?1, 'main') WHERE hidden <> 1 ORDER BY cid
