-- Removes grant_level() and revoke_level() (0012) under the internal names that they had up to version 26. Parameters: none. Locks: those
-- of DROP FUNCTION.
DROP FUNCTION IF EXISTS @schema@._grant(name, text), @schema@._revoke(name);
