-- Up to version 10 "untrusted" was called "in doubt": drops what the other files now create under new names. Locks: those of DROP.
DROP FUNCTION IF EXISTS @schema@._in_doubt;
DROP PROCEDURE IF EXISTS @schema@._need_no_doubt;
DROP PROCEDURE IF EXISTS @schema@.declare_in_doubt;
GO
