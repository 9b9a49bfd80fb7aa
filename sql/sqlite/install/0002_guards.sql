-- The triggers that guard fences and streams, whatever program writes to them.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE. Keeps F3: only an audited reset lowers a fence, nothing deletes,
-- renames or replaces one, and a raise whose COMMIT would not be flushed is refused. INSERT OR REPLACE fires no DELETE trigger (unless
-- recursive_triggers is on), so a replaced row is caught BEFORE INSERT. Upserts are refused in the same way; layer 1 itself uses neither
-- for a fence.
--
-- The guard is a function of the extension. A program without the extension reads its name in an error message, so the name says what to
-- do. The RAISE(ABORT) beside it is never reached if the guard itself refuses. It is there because only then does SQLite open the statement
-- journal that undoes a partly executed statement.

DROP TRIGGER IF EXISTS termgate_fences_insert;
CREATE TRIGGER termgate_fences_insert BEFORE INSERT ON termgate_fences
BEGIN
  SELECT RAISE(ABORT, 'TG005 a fence is never replaced: termgate_seal raises it, termgate_reset_fence lowers it')
    WHERE EXISTS (SELECT 1 FROM termgate_fences WHERE scope = NEW.scope);
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('raise', NEW.scope, NEW.term) IS NULL
    THEN RAISE(ABORT, 'TG005 the raise was refused') END;
END;

DROP TRIGGER IF EXISTS termgate_fences_update;
CREATE TRIGGER termgate_fences_update BEFORE UPDATE ON termgate_fences
BEGIN
  SELECT RAISE(ABORT, 'TG005 the scope of a fence never changes') WHERE NEW.scope IS NOT OLD.scope;
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('lower', OLD.scope, OLD.term, NEW.term) IS NULL
    THEN RAISE(ABORT, 'TG005 a fence never goes down: termgate_reset_fence lowers it, audited') END
    WHERE NEW.term < OLD.term;
  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('raise', NEW.scope, NEW.term) IS NULL
    THEN RAISE(ABORT, 'TG005 the raise was refused') END
    WHERE NEW.term > OLD.term;
  SELECT termgate_guard_load_termgate_extension_first('changed', NEW.scope) WHERE NEW.term = OLD.term;
END;

DROP TRIGGER IF EXISTS termgate_fences_delete;
CREATE TRIGGER termgate_fences_delete BEFORE DELETE ON termgate_fences
BEGIN
  SELECT RAISE(ABORT, 'TG005 a fence is never deleted: termgate_reset_fence lowers it, audited');
END;

DROP TRIGGER IF EXISTS termgate_streams_delete;
CREATE TRIGGER termgate_streams_delete BEFORE DELETE ON termgate_streams
BEGIN
  SELECT RAISE(ABORT, 'TG005 a stream keeps its scope and its numbering: it is never deleted');
END;

DROP TRIGGER IF EXISTS termgate_streams_insert;
CREATE TRIGGER termgate_streams_insert BEFORE INSERT ON termgate_streams
BEGIN
  SELECT RAISE(ABORT, 'TG005 a stream keeps its scope and its numbering: it is never replaced')
    WHERE EXISTS (SELECT 1 FROM termgate_streams WHERE stream_id = NEW.stream_id);
END;

DROP TRIGGER IF EXISTS termgate_streams_update;
CREATE TRIGGER termgate_streams_update BEFORE UPDATE ON termgate_streams
  WHEN NEW.last_no < OLD.last_no OR NEW.stream_id IS NOT OLD.stream_id
BEGIN
  SELECT RAISE(ABORT, 'TG005 a stream keeps its numbering: its last number never goes down');
END;
