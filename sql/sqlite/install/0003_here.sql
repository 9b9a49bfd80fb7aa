-- What distinguishes the main database's own triggers from those of an attached file (docs/reference/lock-protocol.md, "SQLite").
--
-- Parameters: none. Rows: adds the one row of termgate_here if it is missing. Locks: the installer's BEGIN IMMEDIATE. Keeps F1, F2 and F3
-- if several files are attached: a name inside a trigger resolves in the trigger's own file, so each trigger gives the guard the mark in
-- its own file. Just before, the guard has written a mark of this very transaction to the main database, where another file's trigger
-- cannot see it. Every statement can run again. The triggers of 0002 are created again, with the mark.

CREATE TABLE IF NOT EXISTS termgate_here (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  mark INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO termgate_here (id, mark) VALUES (1, 0);

DROP TRIGGER IF EXISTS termgate_here_insert;
CREATE TRIGGER termgate_here_insert BEFORE INSERT ON termgate_here
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM termgate_here);
END;

DROP TRIGGER IF EXISTS termgate_here_update;
CREATE TRIGGER termgate_here_update BEFORE UPDATE ON termgate_here
BEGIN
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('mark', 'termgate_here') IS NULL
    THEN RAISE(ABORT, 'TG005 termgate_here is written by Termgate alone') END;
END;

DROP TRIGGER IF EXISTS termgate_here_delete;
CREATE TRIGGER termgate_here_delete BEFORE DELETE ON termgate_here
BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_here keeps its row');
END;

DROP TRIGGER IF EXISTS termgate_fences_insert;
CREATE TRIGGER termgate_fences_insert BEFORE INSERT ON termgate_fences
BEGIN
  SELECT RAISE(ABORT, 'TG005 a fence is never replaced: termgate_seal raises it, termgate_reset_fence lowers it')
    WHERE EXISTS (SELECT 1 FROM termgate_fences WHERE scope = NEW.scope);
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('raise', NEW.scope, NEW.term,
      CASE termgate_guard_load_termgate_extension_first('arm', 'termgate_fences') WHEN 1 THEN (SELECT mark FROM termgate_here) END) IS NULL
    THEN RAISE(ABORT, 'TG005 the raise was refused') END;
END;

DROP TRIGGER IF EXISTS termgate_fences_update;
CREATE TRIGGER termgate_fences_update BEFORE UPDATE ON termgate_fences
BEGIN
  SELECT RAISE(ABORT, 'TG005 the scope of a fence never changes') WHERE NEW.scope IS NOT OLD.scope;
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('lower', OLD.scope, OLD.term, NEW.term,
      CASE termgate_guard_load_termgate_extension_first('arm', 'termgate_fences') WHEN 1 THEN (SELECT mark FROM termgate_here) END) IS NULL
    THEN RAISE(ABORT, 'TG005 a fence never goes down: termgate_reset_fence lowers it, audited') END
    WHERE NEW.term < OLD.term;
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('raise', NEW.scope, NEW.term,
      CASE termgate_guard_load_termgate_extension_first('arm', 'termgate_fences') WHEN 1 THEN (SELECT mark FROM termgate_here) END) IS NULL
    THEN RAISE(ABORT, 'TG005 the raise was refused') END
    WHERE NEW.term > OLD.term;
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('changed', NEW.scope,
      CASE termgate_guard_load_termgate_extension_first('arm', 'termgate_fences') WHEN 1 THEN (SELECT mark FROM termgate_here) END) IS NULL
    THEN RAISE(ABORT, 'TG005 the change was refused') END
    WHERE NEW.term = OLD.term;
END;
