-- Planned hand-over: whom a scope's holder was asked to give its lease to, if anybody was named, and the result.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE. One row for each scope, of its last hand-over. It belongs to one
-- term of the lease. The next acquisition ends it, and then the row is the receipt.

CREATE TABLE IF NOT EXISTS termgate_hand_overs (
  scope        TEXT NOT NULL PRIMARY KEY,
  owner_id     TEXT NOT NULL,
  term         INTEGER NOT NULL,
  successor    TEXT,
  requested_at INTEGER NOT NULL,
  requested_by TEXT NOT NULL,
  reason       TEXT NOT NULL,
  leave_before INTEGER NOT NULL,
  left_at      INTEGER,
  ended_at     INTEGER,
  next_owner   TEXT,
  next_term    INTEGER,
  taken_at     INTEGER
) STRICT, WITHOUT ROWID;

DROP TRIGGER IF EXISTS termgate_hand_overs_own_insert;
CREATE TRIGGER termgate_hand_overs_own_insert BEFORE INSERT ON termgate_hand_overs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_hand_overs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_hand_overs') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_hand_overs_own_update;
CREATE TRIGGER termgate_hand_overs_own_update BEFORE UPDATE ON termgate_hand_overs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_hand_overs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_hand_overs') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_hand_overs_own_delete;
CREATE TRIGGER termgate_hand_overs_own_delete BEFORE DELETE ON termgate_hand_overs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_hand_overs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_hand_overs') IS NULL;
END;
