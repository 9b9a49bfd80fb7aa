-- The owners' tables: what SQLite's catalog has of them, which are adopted and which protected.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: table_find
-- Parameters: a table's name in any case. Rows: its name and its CREATE statement, or none. Locks: none.
SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE

-- name: table_kind
-- Parameters: table. Rows: type (table, view, virtual, shadow) and whether it is WITHOUT ROWID. Locks: none.
SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1

-- name: columns
-- Parameters: table. Rows: name, declared type, place in the primary key, hidden (2, 3: generated), NOT NULL, the
-- default's expression. Locks: none.
SELECT name, type, pk, hidden, "notnull", dflt_value FROM pragma_table_xinfo(?1, 'main') WHERE hidden <> 1 ORDER BY cid

-- name: indexes
-- Parameters: table. Rows: index, unique, origin, partial, CREATE statement (NULL for an automatic one). Locks: none.
SELECT l.name, l."unique", l.origin, l.partial,
  (SELECT x.sql FROM main.sqlite_schema x WHERE x.type = 'index' AND x.name = l.name)
FROM pragma_index_list(?1, 'main') l ORDER BY l.seq

-- name: index_columns
-- Parameters: index. Rows: column (NULL for an expression), collation, in order of the key. Locks: none.
SELECT CASE WHEN cid >= 0 THEN name WHEN cid = -1 THEN '' END, coll
FROM pragma_index_xinfo(?1, 'main') WHERE key = 1 ORDER BY seqno

-- name: part_find
-- Parameters: type, name. Rows: the CREATE statement, or none. Locks: none.
SELECT sql FROM main.sqlite_schema WHERE type = ?1 AND name = ?2

-- name: triggers_of
-- Termgate's own triggers on a table. Parameters: table, the names' prefix. Rows: name, text. Locks: none.
SELECT name, sql FROM main.sqlite_schema
WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND substr(name, 1, length(?2)) = ?2 ORDER BY name

-- name: owner_triggers
-- The triggers on a table that are not Termgate's. Parameters: table. Rows: text. Locks: none.
SELECT sql FROM main.sqlite_schema
WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND name NOT LIKE 'termgate!_protect!_%' ESCAPE '!' AND name NOT LIKE 'termgate!_adopt!_%' ESCAPE '!'

-- name: attached
-- The files that are attached besides the main database. Rows: name. Locks: none.
SELECT name FROM pragma_database_list WHERE seq > 1 ORDER BY seq

-- name: adopted_read
-- The owners' tables that report their terms. Rows: table, scope column, term column.
SELECT table_name, scope_column, term_column FROM main.termgate_adopted ORDER BY table_name

-- name: adopted_term
-- Parameters: scope, the highest term to return. Rows: what adopted tables have reported for it.
SELECT min(term, ?2) FROM main.termgate_adopted_terms WHERE scope = ?1

-- name: adopted_terms_above
-- Scopes whose fence is below what adopted tables have reported. Rows: scope, term, fence.
SELECT a.scope, a.term, coalesce(f.term, 0) FROM main.termgate_adopted_terms a LEFT JOIN main.termgate_fences f ON f.scope = a.scope
WHERE a.term > coalesce(f.term, 0) LIMIT 1000

-- name: adopted_term_write
-- Parameters: scope, term. Rows: one.
INSERT INTO main.termgate_adopted_terms (scope, term) VALUES (?1, ?2) ON CONFLICT (scope) DO UPDATE SET term = max(term, excluded.term)

-- name: adopted_term_lower
-- Parameters: scope, term. Rows: the one, or none.
UPDATE main.termgate_adopted_terms SET term = ?2 WHERE scope = ?1 AND term > ?2

-- name: prefix_read
-- Parameters: made by, table. Rows: the prefix, or none.
SELECT prefix FROM main.termgate_scope_prefixes WHERE made_by = ?1 AND table_name = ?2 COLLATE NOCASE

-- name: prefix_delete
-- Parameters: made by, table. Rows: the one, or none.
DELETE FROM main.termgate_scope_prefixes WHERE made_by = ?1 AND table_name = ?2 COLLATE NOCASE

-- name: prefix_write
-- Parameters: made by, table, prefix. Rows: one.
INSERT INTO main.termgate_scope_prefixes (made_by, table_name, prefix) VALUES (?1, ?2, ?3)

-- name: adopted_find
-- Parameters: table. Rows: one if it is adopted.
SELECT 1 FROM main.termgate_adopted WHERE table_name = ?1

-- name: adopted_write
-- Parameters: table, scope column, term column, moment. Rows: one.
INSERT INTO main.termgate_adopted (table_name, scope_column, term_column, adopted_at) VALUES (?1, ?2, ?3, ?4)

-- name: adopted_delete
-- Parameters: table. Rows: the one, or none.
DELETE FROM main.termgate_adopted WHERE table_name = ?1 COLLATE NOCASE

-- name: protected_read
-- Parameters: table. Rows: scope column, scope, mode, or none. Locks: none.
SELECT scope_column, scope, mode FROM main.termgate_protected WHERE table_name = ?1

-- name: protected_all
-- Rows: table, scope column, scope, mode. Locks: none.
SELECT table_name, scope_column, scope, mode FROM main.termgate_protected ORDER BY table_name

-- name: protected_write
-- Parameters: table, scope column, scope, mode, moment. Rows: one.
INSERT INTO main.termgate_protected (table_name, scope_column, scope, mode, protected_at)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: protected_delete
-- Parameters: table. Rows: the one, or none.
DELETE FROM main.termgate_protected WHERE table_name = ?1 COLLATE NOCASE

-- name: observed_count
-- Parameters: table, scope, reason, moment. Rows: one. Locks: the user's own statement holds the write lock.
INSERT INTO main.termgate_observed (table_name, scope, reason, count, first_at, last_at)
VALUES (?1, ?2, ?3, 1, ?4, ?4)
ON CONFLICT (table_name, scope, reason) DO UPDATE SET count = count + 1, last_at = excluded.last_at

-- name: observed_all
-- Rows: table, scope, reason, count, first, last. Locks: none.
SELECT table_name, scope, reason, count, first_at, last_at FROM main.termgate_observed ORDER BY 1, 2, 3

-- name: unfenced_tables
-- Ordinary tables that are neither protected nor adopted. Rows: table. Locks: none.
SELECT t.name FROM pragma_table_list t
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND t.name NOT LIKE 'termgate!_%' ESCAPE '!'
  AND NOT EXISTS (SELECT 1 FROM main.termgate_protected p WHERE p.table_name = t.name)
  AND NOT EXISTS (SELECT 1 FROM main.termgate_adopted a WHERE a.table_name = t.name)
ORDER BY 1

-- name: unprotected_adopted
-- Adopted tables that no trigger protects. Rows: table. Locks: none.
SELECT a.table_name FROM main.termgate_adopted a
WHERE NOT EXISTS (SELECT 1 FROM main.termgate_protected p WHERE p.table_name = a.table_name) ORDER BY 1
