-- grant_level() and revoke_level() (0012) under the names that they had up to version 26, which were internal ones. Parameters: none. Locks: those of DROP FUNCTION.
DROP FUNCTION IF EXISTS @schema@._grant(name, text), @schema@._revoke(name);
