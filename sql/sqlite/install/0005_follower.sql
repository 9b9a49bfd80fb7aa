-- Followers: programs that read a stream, or all streams of a scope, one write after the other, and how far each has come.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE. Numbers of a stream are assigned under the write lock, in the order
-- of commits and without gaps, so a position is one number for each stream. run: a later start of the same name has a higher one, and a
-- lower one can move no position any more.

CREATE TABLE IF NOT EXISTS termgate_followers (
  name       TEXT NOT NULL PRIMARY KEY,
  stream_id  TEXT,
  scope      TEXT,
  run        INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  CHECK ((stream_id IS NULL) <> (scope IS NULL))
) STRICT, WITHOUT ROWID;

-- No row: nothing of the stream has been handled yet.
CREATE TABLE IF NOT EXISTS termgate_follower_positions (
  name      TEXT NOT NULL,
  stream_id TEXT NOT NULL,
  position  INTEGER NOT NULL CHECK (position >= 0),
  moved_at  INTEGER NOT NULL,
  PRIMARY KEY (name, stream_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS termgate_streams_scope ON termgate_streams (scope);
