#!/usr/bin/env python3
# Long: a table, one row for each way.
"""[F6][F1][F2][F3] Every known way past the proxy in front of an SQLite file, one row each, by every endpoint; the tables
of docs/evidence/bypasses-sqlite.md describe them.

  pytest tests/live/hrana/hrana_bypasses_test.py [--show] [-k 'a part of a name']

A row is tried by
  none     a client that has declared no term;
  stale    a client with term 5 of a scope whose fence another process sealed at 9, of which this proxy has not heard;
  known    the same, and this proxy has the fence in its memory;
  current  a client that has the right to write, against what is closed to everybody:
  Termgate's own tables, settings of the file, other files;
  lost     a client that passed the check with term 5, after which another process seals 9 (RAISE in the row);
  told     the same, sealed through this proxy.
And by each carrier: one request a statement, all in one pipeline, a batch, a sequence, a cursor, the calls of Hrana 0 and
1, a WebSocket. A row with RAISE in it needs a carrier with steps between which something can happen.
Afterwards the file is read without the proxy: every row of every table, the schema, what is kept in the file's head, and
the folder's files.
For `current` only what is Termgate's counts; for `lost` and `told` what was written before the raise is the client's
right: only 666 is not.
"""
import os
import sqlite3
import tempfile
import uuid

import pytest

import given
from checks import check, note
from hrana import Failed, execute, statement
from hrana_served import Served, Socket, Stream, cursor, pipeline, post, step, token

PLAIN_SHARE = 3
DOCUMENT = given.ROOT / "docs" / "evidence" / "bypasses-sqlite.md"
# Without the proxy, as the file's owner: SQLite resolves a view's functions when it is read.
SCHEMA = """
CREATE TABLE t (i int);
CREATE TABLE key (k INTEGER PRIMARY KEY, v int); INSERT INTO key VALUES (1, 1);
CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, v int); INSERT INTO numbered (v) VALUES (1);
CREATE TABLE generated (i int, twice int GENERATED ALWAYS AS (i * 2) STORED);
CREATE TABLE watched (i int); CREATE TRIGGER watched_insert AFTER INSERT ON watched BEGIN INSERT INTO t VALUES (666); END;
CREATE TABLE kept (i INTEGER PRIMARY KEY, v int DEFAULT 0); INSERT INTO kept VALUES (1, 0);
CREATE TABLE adopted (scope TEXT, term INTEGER); CREATE INDEX adopted_by ON adopted (scope, term);
CREATE VIEW instead AS SELECT i FROM t; CREATE TRIGGER instead_insert INSTEAD OF INSERT ON instead BEGIN INSERT INTO t VALUES (666); END;
CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('one');
CREATE VIRTUAL TABLE boxes USING rtree(id, low, high);
CREATE VIEW sealer AS SELECT termgate_seal('hidden', 50) AS sealed;
CREATE VIEW resetter AS SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why') AS fence;
CREATE VIEW guarded AS SELECT termgate_guard_load_termgate_extension_first('row', 'kept', 'SCOPE') AS passed;
"""
RAISE = object()
LONG = "/*" + "x" * 1_100_000 + "*/"  # longer than what a statement's text may have
DEEP = "SELECT " + "(" * 2500 + "1" + ")" * 2500
INSERT = "INSERT INTO t VALUES (666)"
REPLACE = "INSERT OR REPLACE INTO t VALUES (666)"
OUTSIDERS = ("none", "stale", "known")


class Row:
    """`steps`: texts, RAISE, or a function of a Place for what is no statement. `raises`: scopes that the row's own calls of layer 1
    raise by right, for such a call says scope and term itself."""

    def __init__(self, name, *steps, by=OUTSIDERS, raises=(), headers=None):
        self.name, self.steps, self.by, self.raises, self.headers = name, list(steps), by, raises, headers

    @property
    def is_texts(self):
        return all(isinstance(one, str) for one in self.steps)


def lost(name, *steps, **more):
    return Row(name, *steps, by=("lost", "told"), **more)


def closed(name, *texts):
    return Row(name, *texts, by=("none", "stale", "current"))


def sends(*requests, path="/v2/pipeline"):
    """A pipeline of requests that are no plain execute."""
    return lambda place: place.tell(post(place.url, path, {"baton": None, "requests": list(requests)}, place.headers))


def describes(*texts):
    return lambda place: [place.tell(pipeline(place.url, [{"type": "describe", "sql": text}], place.headers)) for text in texts]


ROWS = [
    # --- what says that it writes ---
    Row("insert", INSERT),
    Row("insert in a transaction", "BEGIN", INSERT, "COMMIT"),
    Row("insert in BEGIN IMMEDIATE", "BEGIN IMMEDIATE", INSERT, "COMMIT"),
    Row("insert in BEGIN EXCLUSIVE", "BEGIN EXCLUSIVE", INSERT, "COMMIT"),
    Row("insert in a savepoint", "SAVEPOINT a", INSERT, "RELEASE a"),
    Row("update and delete", "UPDATE key SET v = 666", "DELETE FROM key", "UPDATE key SET v = 666 FROM t WHERE true"),
    Row(
        "REPLACE", REPLACE, "REPLACE INTO key VALUES (1, 666)", "INSERT OR IGNORE INTO t VALUES (666)", "UPDATE OR REPLACE key SET v = 666"
    ),
    Row(
        "UPSERT",
        "INSERT INTO key VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 666",
        "INSERT INTO key VALUES (2, 666) ON CONFLICT DO NOTHING",
    ),
    Row("RETURNING", "INSERT INTO t VALUES (666) RETURNING i", "UPDATE key SET v = 666 RETURNING *", "DELETE FROM key RETURNING *"),
    Row("WITH", "WITH x AS (SELECT 666 AS i) INSERT INTO t SELECT i FROM x", "WITH x AS (SELECT 1) DELETE FROM key"),
    Row("EXPLAIN", "EXPLAIN INSERT INTO t VALUES (666)", "EXPLAIN QUERY PLAN DELETE FROM key"),
    Row(
        "CREATE",
        "CREATE TABLE new (i int)",
        "CREATE TABLE new AS SELECT 1",
        "CREATE VIEW new AS SELECT 1",
        "CREATE INDEX new ON t (i)",
        "CREATE TABLE IF NOT EXISTS t (i int)",
        "CREATE VIRTUAL TABLE new USING fts5(x)",
    ),
    Row(
        "CREATE TRIGGER",
        "CREATE TRIGGER new AFTER INSERT ON t BEGIN INSERT INTO t VALUES (666); END",
        "CREATE TRIGGER new INSTEAD OF DELETE ON instead BEGIN SELECT 1; END",
    ),
    Row(
        "ALTER and DROP",
        "ALTER TABLE t ADD COLUMN x int",
        "ALTER TABLE t RENAME TO new",
        "ALTER TABLE t RENAME COLUMN i TO j",
        "ALTER TABLE t DROP COLUMN i",
        "DROP TABLE t",
        "DROP VIEW instead",
        "DROP TRIGGER watched_insert",
    ),
    Row("ANALYZE, VACUUM, REINDEX", "ANALYZE", "ANALYZE key", "VACUUM", "VACUUM main", "REINDEX key", "REINDEX", "PRAGMA optimize"),
    Row("temporary tables", "CREATE TEMP TABLE k (i int)", "CREATE TEMP TABLE k AS SELECT 1 AS i", "CREATE TABLE temp.k (i int)", INSERT),
    Row("AUTOINCREMENT's own table", "UPDATE sqlite_sequence SET seq = 666", "INSERT INTO sqlite_sequence VALUES ('t', 666)"),
    # --- what hides it ---
    Row("a trigger", "INSERT INTO watched VALUES (1)"),
    Row("a view with INSTEAD OF", "INSERT INTO instead VALUES (1)", "INSERT OR REPLACE INTO instead VALUES (1)"),
    Row("a generated column", "INSERT INTO generated VALUES (333)", "INSERT INTO generated (i) SELECT 333"),
    Row(
        "virtual tables",
        "INSERT INTO words VALUES ('x')",
        "INSERT INTO words(words) VALUES ('rebuild')",
        "INSERT INTO words(words, rank) VALUES ('rank', 'bm25(10.0)')",
        "INSERT INTO boxes VALUES (1, 0, 1)",
        "DELETE FROM words",
        "INSERT INTO words_data VALUES (666, x'00')",
    ),
    Row(
        "a view that seals",
        "SELECT * FROM sealer",
        "SELECT count(*) FROM sealer",
        "SELECT 1 WHERE EXISTS (SELECT * FROM sealer)",
        "WITH x AS (SELECT * FROM sealer) SELECT * FROM x",
        "EXPLAIN QUERY PLAN SELECT * FROM sealer",
        raises=("hidden",),
    ),
    Row(
        "a function",
        "SELECT termgate_append('new', 5, 'x')",
        "SELECT termgate_acquire_lease('new', 'me', 60000)",
        "SELECT termgate_claim_write('11111111-1111-1111-1111-111111111111')",
        "SELECT termgate_job_start('j', 'new', 'me', 5)",
        "SELECT termgate_seal('new', 5)",
        raises=("new",),
    ),
    Row(
        "a function somewhere else",
        "SELECT 1 WHERE termgate_seal('new', 5) IS NOT NULL",
        "VALUES (termgate_seal('new', 5))",
        "SELECT * FROM t ORDER BY termgate_seal('new', 5)",
        "SELECT sum(termgate_seal('new', 5))",
        "SELECT * FROM (SELECT termgate_seal('new', 5)) x",
        "SELECT max(termgate_seal('new', 5)) OVER ()",
        "SELECT json_group_array(termgate_seal('new', 5))",
        "SELECT CASE WHEN true THEN termgate_seal('new', 5) END",
        raises=("new",),
    ),
    Row(
        "a guard's name",
        "SELECT * FROM guarded",
        "SELECT termgate_guard_load_termgate_extension_first('row', 'kept', 'SCOPE')",
        "SELECT termgate_guard_load_termgate_extension_first('raise', 'new', 666)",
        "BEGIN",
        "SELECT * FROM guarded",
        "INSERT INTO kept VALUES (666, 0)",
        "COMMIT",
        by=(*OUTSIDERS, "current"),
    ),
    Row("a check of its own, then a write", "SELECT termgate_check_term('new', 5)", INSERT, raises=("new",)),
    # --- transactions that only look like reads ---
    Row("BEGIN TRANSACTION READONLY, which is a name to SQLite", "BEGIN TRANSACTION READONLY", INSERT, "COMMIT"),
    Row("BEGIN READONLY", "BEGIN READONLY", INSERT, "COMMIT"),
    Row("BEGIN CONCURRENT", "BEGIN CONCURRENT", INSERT, "COMMIT"),
    Row("query_only off", "PRAGMA query_only = off", INSERT, "PRAGMA query_only(0)", INSERT),
    Row("a transaction that read", "BEGIN", "SELECT * FROM t", INSERT, "COMMIT"),
    Row("a refusal, then ROLLBACK TO", "BEGIN", "SAVEPOINT a", INSERT, "ROLLBACK TO a", INSERT, REPLACE, "COMMIT"),
    Row("an error, then more of it", "BEGIN", "SELECT nope", INSERT, "COMMIT", INSERT),
    Row("COMMIT of nothing", "COMMIT", INSERT, "ROLLBACK", INSERT),
    # --- texts ---
    Row("several statements in one text", f"SELECT 1; {INSERT}", f"BEGIN; {INSERT}; COMMIT", f"; ; {INSERT}"),
    Row(
        "comments",
        f"/* x */ {INSERT}",
        f"-- x\n{INSERT}",
        f"-- x\r{INSERT}",
        f"/* /* */ {INSERT} -- */",
        f"{INSERT} -- x",
        f"/*termgate.scope='new',termgate.term='5'*/ {INSERT}",
        f"/* termgate.scope=new;termgate.term=5; */ {INSERT}",
    ),
    Row("names in brackets", f"SELECT 1 AS [a; {INSERT}; b]", f"SELECT `a; {INSERT}; b`", f"SELECT 1 [1]; {REPLACE}"),
    Row("a text that is too long", f"{LONG} {INSERT}", f"SELECT 1; {LONG} {INSERT}"),
    Row("a text that is too deep", f"{DEEP}; {INSERT}", f"{DEEP}"),
    Row("a NUL in the text", f"SELECT 1\0; {INSERT}", f"{INSERT}\0", f"\0{INSERT}"),
    # --- what is no execute ---
    Row("describe of a write", describes(INSERT, "DELETE FROM key", "CREATE TABLE new (i int)", "SELECT termgate_seal('new', 5)")),
    Row("describe of a PRAGMA", describes("PRAGMA user_version = 666", "PRAGMA journal_mode = DELETE", "PRAGMA query_only = off")),
    Row(
        "stored SQL",
        sends(
            {"type": "store_sql", "sql_id": 1, "sql": INSERT},
            {"type": "execute", "stmt": {"sql_id": 1}},
            {"type": "sequence", "sql_id": 1},
            {"type": "batch", "batch": {"steps": [{"stmt": {"sql_id": 1}}]}},
            {"type": "describe", "sql_id": 1},
        ),
    ),
    Row(
        "a step whose condition holds",
        sends(
            {
                "type": "batch",
                "batch": {
                    "steps": [
                        step("SELECT nope"),
                        {"condition": {"type": "error", "step": 0}, "stmt": statement(INSERT)},
                        {"condition": {"type": "not", "cond": {"type": "ok", "step": 0}}, "stmt": statement(INSERT)},
                        {"condition": {"type": "is_autocommit"}, "stmt": statement(INSERT)},
                    ]
                },
            }
        ),
    ),
    Row(
        "a batch that is one transaction",
        sends(
            {
                "type": "batch",
                "batch": {
                    "steps": [
                        step("BEGIN IMMEDIATE"),
                        step(INSERT, after=0),
                        step("COMMIT", after=1),
                        {"condition": {"type": "not", "cond": {"type": "ok", "step": 2}}, "stmt": statement("ROLLBACK")},
                    ]
                },
            }
        ),
    ),
    Row("a batch whose steps go on after errors", sends({"type": "batch", "batch": {"steps": [step("SELECT nope"), step(INSERT)]}})),
    Row("close in the middle", sends({"type": "close"}, execute(INSERT))),
    Row("rows that are not wanted", sends({"type": "execute", "stmt": {**statement(INSERT), "want_rows": False}})),
    Row("arguments", sends(execute("SELECT ?", "x'); " + INSERT), execute("SELECT termgate_seal(?, ?)", "new", 5)), raises=("new",)),
    # --- claims that are none ---
    Row("a malformed token", INSERT, by=("none",), headers={"Authorization": "Bearer tg.five.SCOPE."}),
    Row("a token with term 0", INSERT, by=("none",), headers={"Authorization": "Bearer tg.0.SCOPE."}),
    Row("a token above 2^62", INSERT, by=("none",), headers={"Authorization": "Bearer tg.4611686018427387905.SCOPE."}),
    Row("a token without a scope", INSERT, by=("none",), headers={"Authorization": "Bearer tg.5.."}),
    Row("a token that nobody signed", INSERT, by=("none",), headers={"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzY29wZSI6IngifQ."}),
    Row("a scope alone", INSERT, by=("none",), headers={"Termgate-Scope": "new"}),
    Row("a term alone", INSERT, by=("none",), headers={"Termgate-Term": "5"}),
    Row("a malformed term", INSERT, by=("none",), headers={"Termgate-Scope": "new", "Termgate-Term": "5.0"}),
    Row("a scope that is no UTF-8", INSERT, by=("none",), headers={"Termgate-Scope": "%ff", "Termgate-Term": "5"}),
    Row(
        "a declaration that is taken back", "SELECT termgate_declare('new', 5)", "SELECT termgate_declare(NULL, NULL)", INSERT, by=("none",)
    ),
    Row("a declaration of a stale term", "SELECT termgate_declare('SCOPE', 5)", INSERT, by=("stale", "known")),
    # --- closed to everybody ---
    closed(
        "other files",
        "ATTACH 'FOLDER/other.db' AS b",
        "ATTACH DATABASE ':memory:' AS b",
        "DETACH main",
        "VACUUM INTO 'FOLDER/copy.db'",
        "VACUUM main INTO 'FOLDER/copy.db'",
        "/* x */ ATTACH 'FOLDER/other.db' AS b",
        "SELECT writefile('FOLDER/written', 'x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT edit('x')",
        "SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
        "SELECT * FROM fsdir('/')",
    ),
    closed(
        "PRAGMA",
        *(
            f"PRAGMA {one}"
            for one in (
                "journal_mode = DELETE",
                "journal_mode(off)",
                "main.journal_mode=wal2",
                "writable_schema = ON",
                "trusted_schema = ON",
                "recursive_triggers = OFF",
                "temp_store_directory = '/tmp'",
                "wal_checkpoint(TRUNCATE)",
                "locking_mode = EXCLUSIVE",
                "incremental_vacuum",
                "auto_vacuum = 1",
                "ignore_check_constraints = 1",
                "schema_version = 666",
                "encoding = 'UTF-16'",
                "hard_heap_limit = 1",
                "shrink_memory",
                "database_list",
            )
        ),
    ),
    closed(
        "PRAGMA as a table",
        "SELECT * FROM pragma_journal_mode('delete')",
        "SELECT * FROM pragma_optimize",
        "SELECT * FROM pragma_wal_checkpoint",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_writable_schema(1)",
        "SELECT * FROM PRAGMA_optimize(0xfffe)",
        "SELECT * FROM (SELECT * FROM main.pragma_optimize)",
    ),
    closed(
        "the schema's table",
        "UPDATE sqlite_master SET sql = ''",
        "DELETE FROM sqlite_schema WHERE name LIKE 'termgate%'",
        "INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 2, 'CREATE TABLE x (y)')",
        "UPDATE main.sqlite_schema SET name = 'x'",
        "DROP TABLE sqlite_master",
        "ALTER TABLE sqlite_master ADD COLUMN x",
    ),
    closed(
        "the fences",
        "UPDATE termgate_fences SET term = 1",
        'UPDATE "TERMGATE_Fences" SET term = 1',
        "UPDATE [termgate_fences] SET term = 1",
        "UPDATE `termgate_fences` SET term = 1",
        "UPDATE 'termgate_fences' SET term = 1",
        "DELETE FROM termgate_fences",
        "INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        "INSERT OR REPLACE INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        "REPLACE INTO main.termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        "WITH x AS (SELECT 1 AS y) UPDATE termgate_fences SET term = (SELECT y FROM x)",
        "UPDATE termgate_fences SET term = 1 RETURNING term",
        "UPDATE OR REPLACE termgate_fences SET scope = 'x'",
        "DROP TABLE termgate_fences",
        "ALTER TABLE termgate_fences RENAME TO x",
        "ALTER TABLE termgate_fences ADD COLUMN x",
        "ALTER TABLE termgate_fences RENAME COLUMN term TO x",
        "CREATE INDEX i ON termgate_fences (term)",
        "CREATE UNIQUE INDEX i ON termgate_audit (action)",
        "CREATE TRIGGER x AFTER UPDATE ON termgate_fences BEGIN SELECT RAISE(IGNORE); END",
        "DROP TRIGGER termgate_fences_update",
        "DROP INDEX termgate_audit_scope",
    ),
    closed(
        "Termgate's other tables",
        "UPDATE termgate_settings SET value = '0'",
        "DELETE FROM termgate_protected",
        "DELETE FROM termgate_adopted",
        "INSERT INTO termgate_leases VALUES ('x', 'me', 1, 1, 1, 1, NULL, NULL)",
        "UPDATE termgate_streams SET last_no = 0",
        "DELETE FROM termgate_stream_writes",
        "DELETE FROM termgate_write_ids",
        "INSERT INTO termgate_resets VALUES (1, 'SCOPE', 9, 1, 1, 'x', 'x')",
        "DELETE FROM termgate_migrations",
        "UPDATE termgate_incarnation SET untrusted = 1",
        "DELETE FROM termgate_audit",
        "INSERT INTO sqlite_sequence VALUES ('termgate_audit', 9223372036854775807)",
    ),
    closed(
        "names that are Termgate's",
        "CREATE TABLE termgate_x (y)",
        "CREATE TABLE TERMGATE_X AS SELECT 1",
        "CREATE VIEW termgate_x AS SELECT 1",
        "CREATE INDEX termgate_x ON t (i)",
        "CREATE TRIGGER termgate_x AFTER INSERT ON t BEGIN SELECT 1; END",
        "ALTER TABLE watched RENAME TO termgate_x",
        'ALTER TABLE watched RENAME TO "Termgate_x"',
        "ALTER TABLE watched RENAME TO [termgate_x]",
        "CREATE VIRTUAL TABLE termgate USING fts5(x)",
        "CREATE VIRTUAL TABLE termgate_x USING rtree(a, b, c)",
        "ALTER TABLE words RENAME TO termgate_words",
    ),
    closed(
        "the protection of a table",
        "DROP TRIGGER termgate_protect_insert_kept",
        "DROP TRIGGER IF EXISTS main.termgate_protect_insert_kept",
        "SELECT termgate_unprotect('kept')",
        "SELECT termgate_protect('kept', NULL, 'mine')",
        "DELETE FROM termgate_protected WHERE table_name = 'kept'",
        "ALTER TABLE kept RENAME TO kept2",
        "DROP TABLE kept",
        "ALTER TABLE kept RENAME COLUMN v TO w",
        "ALTER TABLE kept DROP COLUMN v",
        "ALTER TABLE adopted RENAME TO adopted2",
        "ALTER TABLE Adopted RENAME COLUMN term TO t",
        "DROP TABLE IF EXISTS adopted",
    ),
    closed(
        "temporary things that hide ours",
        "CREATE TEMP TABLE termgate_fences (scope, term)",
        "CREATE TEMP VIEW termgate_fences AS SELECT 'x' AS scope, 99 AS term",
        "CREATE TABLE temp.termgate_fences (scope, term)",
        "CREATE TEMP TRIGGER x BEFORE UPDATE ON main.termgate_fences BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN UPDATE termgate_fences SET term = 1; END",
        "CREATE TEMPORARY TABLE kept (i int)",
        "DELETE FROM sqlite_temp_schema",
    ),
    closed(
        "the operator's functions",
        "SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why')",
        "SELECT * FROM resetter",
        "SELECT termgate_init()",
        "SELECT termgate_uninstall()",
        "SELECT termgate_force_release('SCOPE', 'me', 'why')",
        "SELECT termgate_set_setting('check_wait_ms', '0')",
        "SELECT termgate_declare_restored('SCOPE', 1, 'me', 'why')",
        "SELECT termgate_declare_untrusted('me', 'why')",
        "SELECT termgate_prune('SCOPE', 1)",
        "SELECT termgate_set_raise_by('SCOPE', 'seal')",
        "SELECT termgate_adopt('kept', 'i', 'i')",
        'SELECT "TERMGATE_Uninstall"()',
        "WITH termgate_x AS (SELECT termgate_uninstall()) SELECT * FROM termgate_x",
        "VALUES (termgate_uninstall())",
    ),
    Row(
        "the operator's functions behind a trigger",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why'); END",
        "INSERT INTO t VALUES (1)",
        "CREATE TRIGGER y AFTER INSERT ON key BEGIN UPDATE termgate_fences SET term = 1; END",
        "INSERT INTO key VALUES (7, 7)",
        "CREATE TRIGGER z AFTER INSERT ON numbered BEGIN DELETE FROM termgate_protected; END",
        "INSERT INTO numbered (v) VALUES (7)",
        by=("current",),
    ),
    Row(
        "the operator's functions behind what is stored",
        "CREATE TABLE d (i int, x DEFAULT (termgate_uninstall()))",
        "INSERT INTO d (i) VALUES (1)",
        "CREATE TABLE g (i int, x GENERATED ALWAYS AS (termgate_unprotect('kept')))",
        "SELECT * FROM g",
        "CREATE INDEX e ON t (termgate_unprotect('kept'))",
        "CREATE TABLE c (i int CHECK (termgate_unprotect('kept') IS NULL))",
        "INSERT INTO c VALUES (1)",
        "CREATE VIEW w AS SELECT termgate_unprotect('kept')",
        "SELECT * FROM w",
        by=("current",),
    ),
    Row(
        "a full-text table as a disguise",
        "CREATE VIRTUAL TABLE f USING fts4(x, compress=termgate_unprotect, uncompress=termgate_unprotect)",
        "INSERT INTO f VALUES ('kept')",
        "CREATE VIRTUAL TABLE f3 USING fts5(x, content='termgate_fences')",
        "INSERT INTO f3(f3) VALUES ('rebuild')",
        "DELETE FROM f3",
        "CREATE VIRTUAL TABLE f4 USING fts5(fence, content='resetter')",
        "SELECT * FROM f4",
        "INSERT INTO words(words, rank) VALUES ('rank', 'bm25(termgate_unprotect(''kept''))')",
        "SELECT fts3_tokenizer('simple', x'00')",
        "CREATE VIRTUAL TABLE f5 USING fts4(x, tokenize=termgate_unprotect)",
        "CREATE VIRTUAL TABLE v USING dbstat",
        "CREATE VIRTUAL TABLE v USING sqlite_dbpage",
        "UPDATE sqlite_dbpage SET data = x'00'",
        by=("current",),
    ),
    Row(
        "a protected table without its scope",
        "INSERT INTO kept VALUES (666, 0)",
        "INSERT OR REPLACE INTO kept VALUES (1, 666)",
        "WITH x AS (SELECT 666 AS i) INSERT INTO kept (i) SELECT i FROM x",
        "UPDATE kept SET v = 666",
        "DELETE FROM kept",
        "UPDATE OR REPLACE kept SET i = 666",
        "INSERT INTO kept VALUES (1, 0) ON CONFLICT (i) DO UPDATE SET v = 666",
        "UPDATE kept SET v = 666 RETURNING v",
        by=(*OUTSIDERS, "current"),
    ),
    # --- fenced, and then without its lock ---
    lost("COMMIT, then another write", "BEGIN", "INSERT INTO t VALUES (1)", "COMMIT", RAISE, INSERT, REPLACE),
    lost("a transaction that has only read", "BEGIN", "SELECT * FROM t", RAISE, INSERT, "COMMIT"),
    lost(
        "a transaction that has only read, with a savepoint",
        "BEGIN",
        "SAVEPOINT a",
        "SELECT * FROM t",
        RAISE,
        "ROLLBACK TO a",
        INSERT,
        "COMMIT",
    ),
    lost("a transaction that has only read, a definition", "BEGIN", "SELECT * FROM t", RAISE, "CREATE TABLE t666 (i int)", "COMMIT"),
    lost("a transaction that has done nothing yet", "BEGIN", RAISE, INSERT, "COMMIT"),
    lost("a transaction that has written", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", RAISE, INSERT, "COMMIT", INSERT),
    lost("a savepoint that has written", "SAVEPOINT a", "INSERT INTO t VALUES (1)", RAISE, INSERT, "RELEASE a", INSERT),
    lost("a declaration by SQL", "SELECT termgate_declare('SCOPE', 5)", "INSERT INTO t VALUES (1)", RAISE, INSERT),
    lost("VACUUM and ANALYZE between", "INSERT INTO t VALUES (1)", "VACUUM", "ANALYZE", RAISE, "VACUUM", INSERT),
    lost("a check of its own", "SELECT termgate_check_term('SCOPE', 5)", RAISE, INSERT),
    lost("a check of its own in a transaction", "BEGIN", "SELECT termgate_check_term('SCOPE', 5)", RAISE, INSERT, "COMMIT"),
    lost("its declaration is taken back", "INSERT INTO t VALUES (1)", "SELECT termgate_declare(NULL, NULL)", RAISE, INSERT),
    lost(
        "an append that happened before",
        "SELECT termgate_append('SCOPE', 5, x'00', NULL, NULL, 'WRITEID')",
        RAISE,
        "BEGIN",
        "SELECT termgate_append('SCOPE', 5, x'00', NULL, NULL, 'WRITEID')",
        INSERT,
        "COMMIT",
    ),
]


class Place:
    """Where a row's own function sends what is no statement."""

    def __init__(self, url, headers, tell):
        self.url, self.headers, self.tell = url, headers, tell


# --- the carriers: each sends all texts of a row; `tell` notes the answer ---


def by_requests(place, steps, pause):
    stream = Stream(place.url, place.headers)
    one_by_one(stream, place, steps, pause)


def by_socket(place, steps, pause):
    client = Socket(place.url, place.headers)
    one_by_one(client, place, steps, pause)


def one_by_one(client, place, steps, pause):
    try:
        for text in steps:
            if text is RAISE:
                if not pause():
                    return
                continue
            if not isinstance(text, str):
                text(place)
                continue
            try:
                place.tell(client.execute(text))
            except Failed as failure:
                place.tell(str(failure))
    finally:
        try:
            client.close()
        except (Failed, OSError):
            pass


def by_pipeline(place, texts, _):
    place.tell(pipeline(place.url, [*map(execute, texts), {"type": "close"}], place.headers))


def by_batch(place, texts, _):
    place.tell(pipeline(place.url, [{"type": "batch", "batch": {"steps": [step(text) for text in texts]}}], place.headers, version=3))


def by_sequence(place, texts, _):
    place.tell(pipeline(place.url, [{"type": "sequence", "sql": ";\n".join(texts)}], place.headers))


def by_cursor(place, texts, _):
    place.tell(cursor(place.url, [step(text) for text in texts], place.headers))


def by_hrana_0(place, texts, _):
    place.tell(post(place.url, "/", {"statements": texts}, place.headers))


def by_hrana_1(place, texts, _):
    place.tell(post(place.url, "/v1/batch", {"batch": {"steps": [step(text) for text in texts]}}, place.headers))
    for text in texts:
        place.tell(post(place.url, "/v1/execute", {"stmt": statement(text)}, place.headers))


ONE_BY_ONE = {"requests": by_requests, "socket": by_socket}
AT_ONCE = {
    "pipeline": by_pipeline,
    "batch": by_batch,
    "sequence": by_sequence,
    "cursor": by_cursor,
    "hrana 0": by_hrana_0,
    "hrana 1": by_hrana_1,
}


class Bench:
    def __init__(self, lab):
        self.lab, self.folder, self.scopes = lab, tempfile.mkdtemp(dir=lab.folder), 0
        self.path = f"{self.folder}/app.db"
        lab.run(lab.termgate, "init", "--db", f"sqlite:{self.path}")
        self.file = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        self.file.executescript(SCHEMA)
        lab.run(lab.termgate, "protect", "--db", f"sqlite:{self.path}", "kept", "--scope", "the kept one's")
        columns = ["--scope-column", "scope", "--term-column", "term"]
        lab.run(lab.termgate, "adopt", "--db", f"sqlite:{self.path}", "adopted", *columns)
        self.names = {name for (name,) in self.file.execute("SELECT name FROM sqlite_master")}
        self.served = Served(lab, self.path)

    def state(self):
        """What outlives a client: name -> content. Refusals are written to the audit, so it does not count;
        a sequence of sqlite_sequence does."""
        found = {}
        for kind, name, table, sql in self.file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall():
            found[f"{kind} {name}"] = sql
            if kind == "table" and name not in ("termgate_audit", "boxes", "words") and not (sql or "").startswith("CREATE VIRTUAL"):
                found[f"rows of {name}"] = self.file.execute(f'SELECT * FROM "{name}"').fetchall()
        for pragma in ("user_version", "application_id", "journal_mode", "auto_vacuum", "encoding"):
            found[f"PRAGMA {pragma}"] = self.file.execute(f"PRAGMA {pragma}").fetchone()
        found["files"] = sorted(os.listdir(self.folder))
        return found

    def clean(self):
        for kind, name in self.file.execute("SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC").fetchall():
            if name in self.names or name.split("_")[0] in ("f", "f2", "f3", "f4", "f5", "new") and "_" in name:
                continue
            try:
                self.file.execute(f'DROP {kind} IF EXISTS "{name}"')
            except sqlite3.OperationalError:
                pass  # gone with its table
        for text in (
            "DELETE FROM t",
            "DELETE FROM watched",
            "DELETE FROM generated",
            "DELETE FROM key",
            "INSERT INTO key VALUES (1, 1)",
            "DELETE FROM numbered",
            "INSERT INTO numbered VALUES (1, 1)",
            "UPDATE sqlite_sequence SET seq = 1",
        ):
            self.file.execute(text)

    def seal(self, scope, told):
        if told:
            return Stream(self.served.url).execute("SELECT termgate_seal(?, 9)", scope)
        return self.lab.run(self.lab.termgate, "seal", "--db", f"sqlite:{self.path}", "--scope", scope, "--term", 9)

    def attack(self, row, by, carrier, send):
        """What got in: an empty list is what is wanted. And the conversation."""
        self.clean()
        self.scopes += 1
        scope = f"bypass.{self.scopes}"
        put = lambda text: (  # noqa: E731
            text.replace("SCOPE", scope).replace("FOLDER", self.folder).replace("WRITEID", str(uuid.UUID(int=self.scopes)))
            if isinstance(text, str)
            else text
        )
        if by in ("stale", "known"):
            self.seal(scope, by == "known")
        headers = {name: put(text) for name, text in (row.headers or {}).items()}
        if by != "none":
            headers |= token(scope, 5)
        before, told = self.state(), []

        def pause():
            if "TG00" in str(told):
                told.append("void: refused before the fence was raised")
                return False
            told.append(f"-- fence {self.seal(scope, by == 'told')}")
            return True

        try:
            send(Place(self.served.url, headers, told.append), [put(one) for one in row.steps], pause)
        except Failed as failure:
            told.append(str(failure))
        except OSError as failure:
            told.append(str(failure))
            if isinstance(failure, TimeoutError):
                return ["void: no answer"], told
        if any(str(one).startswith("void") for one in told):
            return [told[-1]], told
        after = self.state()
        if by in ("lost", "told"):
            return [
                f"{name}: {content}"
                for name, content in after.items()
                if ("termgate" not in name and "666" in str(content) and name not in ("trigger watched_insert", "trigger instead_insert"))
                or "666" in name
            ], told
        got_in = [f"{name}: {before.get(name)} → {after.get(name)}" for name in {**before, **after} if before.get(name) != after.get(name)]
        if by == "current":
            # Its own scope it may raise, and the application's tables are what it may write.
            got_in = [
                each
                for each in got_in
                if "termgate" in each.split(":")[0] or each.startswith(("PRAGMA", "files", "rows of kept", "table adopted"))
            ]
        may_raise = (scope, "new") if by == "current" else row.raises
        if self.only_raised(before, after, may_raise):
            got_in = [each for each in got_in if not each.startswith("rows of termgate_fences")]
        if row.raises:  # its calls of layer 1 write what they are for, in that scope alone
            got_in = [each for each in got_in if not each.startswith(("rows of termgate_", "rows of sqlite_sequence")) or "fences" in each]
        return got_in, told

    @staticmethod
    def only_raised(before, after, scopes):
        was, now = ({fence[0]: fence[1:] for fence in state.get("rows of termgate_fences", ())} for state in (before, after))
        return all(
            now.get(scope) == fence or (scope in scopes and scope in now and now[scope][0] >= fence[0]) for scope, fence in was.items()
        ) and all(scope in was or scope in scopes for scope in now)


TABLE = {line[2:].split(" | ")[0] for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")}


class Benches:
    """The file that is attacked, until something has got in: nothing more can be said of it then, and another takes its place."""

    def __init__(self, lab):
        self.lab, self.tried, self.now = lab, 0, Bench(lab)

    def attack(self, row, by, carrier, send):
        self.tried += 1
        used = self.now
        got_in, told = used.attack(row, by, carrier, send)
        if got_in:
            self.now = Bench(self.lab)
        return got_in, told


@pytest.fixture(scope="module")
def benches(lab):
    benches = Benches(lab)
    yield benches
    note(f"{benches.tried} attacks")


def test_the_rows_are_those_of_the_document():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    assert TABLE - {"attempt", "---"} == set(names), DOCUMENT.name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_nothing_gets_in_by(row, benches):
    carriers = {**ONE_BY_ONE, **(AT_ONCE if row.is_texts else {})}
    for by in row.by:
        for carrier, send in carriers.items():
            got_in, told = benches.attack(row, by, carrier, send)
            check(f"{by:7}  {carrier:8}  {row.name}", not got_in, str(got_in)[:2000])
            if got_in or given.option("show"):
                lines = [f"{'GOT IN' if got_in else 'closed'}  {by:7}  {carrier:8}  {row.name}: {str(got_in)[:2000]}"]
                (print if got_in else note)("\n".join(lines + [f"        {str(answer)[:400]}" for answer in told]))


def test_the_file_is_whole_and_the_proxy_goes_on(benches):
    check("the file is whole", benches.now.file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    check("the proxy goes on", benches.now.served.process.poll() is None)
