-- The files that are attached beside the main database. Parameters: none. Rows: name. Locks: none.
SELECT name FROM pragma_database_list WHERE seq > 1 ORDER BY seq
