-- Up to version 10 "untrusted" was called "in doubt": what the other files have made under the new names is dropped under the old ones. Locks: those of DROP.
DROP FUNCTION IF EXISTS @schema@._in_doubt;
DROP PROCEDURE IF EXISTS @schema@._need_no_doubt;
DROP PROCEDURE IF EXISTS @schema@.declare_in_doubt;
GO
