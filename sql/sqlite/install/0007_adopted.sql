-- What adopted tables have reported, and the prefixes of scope columns.
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE.

-- The highest term that the rows of adopted tables have shown for a scope: evidence besides its fence. A reset lowers it.
CREATE TABLE IF NOT EXISTS termgate_adopted_terms (
  scope TEXT NOT NULL PRIMARY KEY,
  term  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is put in front of a scope column's values. No row: nothing.
CREATE TABLE IF NOT EXISTS termgate_scope_prefixes (
  made_by    TEXT NOT NULL CHECK (made_by IN ('adopt', 'protect')),
  table_name TEXT NOT NULL,
  prefix     TEXT NOT NULL,
  PRIMARY KEY (made_by, table_name)
) STRICT, WITHOUT ROWID;

DROP TRIGGER IF EXISTS termgate_adopted_terms_own_insert;
CREATE TRIGGER termgate_adopted_terms_own_insert BEFORE INSERT ON termgate_adopted_terms BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted_terms is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted_terms') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_adopted_terms_own_update;
CREATE TRIGGER termgate_adopted_terms_own_update BEFORE UPDATE ON termgate_adopted_terms BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted_terms is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted_terms') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_adopted_terms_own_delete;
CREATE TRIGGER termgate_adopted_terms_own_delete BEFORE DELETE ON termgate_adopted_terms BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted_terms is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted_terms') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_scope_prefixes_own_insert;
CREATE TRIGGER termgate_scope_prefixes_own_insert BEFORE INSERT ON termgate_scope_prefixes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_scope_prefixes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_scope_prefixes') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_scope_prefixes_own_update;
CREATE TRIGGER termgate_scope_prefixes_own_update BEFORE UPDATE ON termgate_scope_prefixes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_scope_prefixes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_scope_prefixes') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_scope_prefixes_own_delete;
CREATE TRIGGER termgate_scope_prefixes_own_delete BEFORE DELETE ON termgate_scope_prefixes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_scope_prefixes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_scope_prefixes') IS NULL;
END;
