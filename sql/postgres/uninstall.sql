-- Takes layer 1 away: every fence, lease, stream and audit row, and the triggers that protect and adopt made.
-- Parameters and rows: none. Locks: those of DROP, on the protected tables too.
DROP SCHEMA IF EXISTS @schema@ CASCADE;
