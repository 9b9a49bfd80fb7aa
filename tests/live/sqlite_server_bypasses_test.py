#!/usr/bin/env python3
# Long: a table, one row for each way.
"""[F6][F1][F2][F3] Every way past the proxy in front of an SQLite file that is known, one row each;
the tables at the end of docs/use/sqlite-proxy.md describe them.

  pytest tests/live/sqlite_server_bypasses_test.py [--show] [-k 'a part of a name'] [--seed N]

A row is tried by
  none     a session that has declared no term;
  stale    a session that declared (PGOPTIONS) term 5 of a scope whose fence another process sealed at 9, of which this proxy has not heard;
  known    the same, and this proxy has the fence in its memory;
  current  a session that has the right to write, against what is closed to everybody:
  Termgate's own tables, settings of the file, other files;
  lost     a session that passed the check with term 5, after which another process seals 9 (RAISE in the row) wherever its lock is gone;
  told     the same, sealed through this proxy.
Afterwards the file is read without the proxy: every row of every table, the schema, what is kept in the file's head, and the folder's
files.
For `current` only what is Termgate's counts; for `lost` and `told` what was written before the raise is the session's right: only 666 is
not.
"""
import os
import random
import sqlite3
import tempfile
import time
import uuid
from pathlib import Path

import pytest

import given
from checks import check, note
from pgraw import (
    Closed,
    Connection,
    Silent,
    bind,
    close,
    copy_data,
    copy_done,
    copy_fail,
    describe,
    execute,
    flush,
    function_call,
    parse,
    query,
    sync,
    terminate,
)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "use" / "sqlite-proxy.md"
# Without the proxy, as the file's owner: SQLite resolves a view's functions when it is read.
SCHEMA = """
CREATE TABLE t (i int);
CREATE TABLE key (k INTEGER PRIMARY KEY, v int); INSERT INTO key VALUES (1, 1);
CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, v int); INSERT INTO numbered (v) VALUES (1);
CREATE TABLE generated (i int, twice int GENERATED ALWAYS AS (i * 2) STORED);
CREATE TABLE watched (i int); CREATE TRIGGER watched_insert AFTER INSERT ON watched BEGIN INSERT INTO t VALUES (666); END;
CREATE TABLE kept (i INTEGER PRIMARY KEY, v int DEFAULT 0); INSERT INTO kept VALUES (1, 0);
CREATE VIEW instead AS SELECT i FROM t; CREATE TRIGGER instead_insert INSTEAD OF INSERT ON instead BEGIN INSERT INTO t VALUES (666); END;
CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('one');
CREATE VIRTUAL TABLE boxes USING rtree(id, low, high);
CREATE VIEW sealer AS SELECT termgate_seal('hidden', 50) AS sealed;
CREATE VIEW resetter AS SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why') AS fence;
CREATE VIEW nexter AS SELECT nextval('public.numbered_id_seq') AS next;
CREATE VIEW flipper AS SELECT set_config('default_transaction_read_only', 'off', false) AS flipped;
CREATE VIEW unlocker AS SELECT set_config('transaction_read_only', 'off', true) AS unlocked;
CREATE VIEW guarded AS SELECT termgate_guard_load_termgate_extension_first('row', 'kept', 'SCOPE') AS passed;
"""
RAISE = object()
LONG = "/*" + "x" * 1_100_000 + "*/"  # longer than what is given to the grammar, shorter than what is refused
DEEP = "SELECT " + "(" * 2500 + "1" + ")" * 2500
INSERT = "INSERT INTO t VALUES (666)"
ONLY_SQLITE = "INSERT OR REPLACE INTO t VALUES (666)"
WRITE_BLOCK = f"COMMIT; BEGIN READ WRITE; {INSERT}; COMMIT"


def group(*statements):
    """Parse, Bind, Execute of each, one Sync behind them."""
    return b"".join(parse("", sql) + bind() + execute() for sql in statements) + sync()


def simple(*texts):
    return [query(text) for text in texts]


def both(*texts):
    """Each by a simple query and by the extended protocol."""
    return [step for text in texts for step in (query(text), group(text))]


class Row:
    """`raises`: scopes that the row's own calls of layer 1 raise by right, for such a call says scope and term itself."""

    def __init__(self, name, *steps, start=(), by=("none", "stale", "known"), raises=()):
        self.name, self.steps, self.start, self.by, self.raises = name, list(steps), list(start), by, raises


def lost(name, *steps, **more):
    return Row(name, *steps, by=("lost", "told"), **more)


def closed(name, *texts):
    return Row(name, *both(*texts), by=("none", "stale", "current"))


ROWS = [
    # --- plain ---
    Row("insert", *simple(INSERT)),
    Row("insert, extended", group(INSERT)),
    Row("insert in a block", *simple("BEGIN", INSERT, "COMMIT")),
    Row("insert in a block, extended", group("BEGIN"), group(INSERT), group("COMMIT")),
    Row("insert in one group with BEGIN and COMMIT", group("BEGIN", INSERT, "COMMIT")),
    Row("everything pipelined without waiting", group("BEGIN") + group(INSERT) + group("COMMIT") + group(INSERT)),
    Row("simple queries pipelined without waiting", query("BEGIN") + query(INSERT) + query("COMMIT") + query(INSERT)),
    Row(
        "update and delete",
        *both(
            "UPDATE key SET v = 666",
            "DELETE FROM key",
            "TRUNCATE key",
            "UPDATE key SET v = 666 FROM t WHERE true",
            "DELETE FROM key USING t",
        ),
    ),
    Row(
        "REPLACE",
        *both(ONLY_SQLITE, "REPLACE INTO key VALUES (1, 666)", "INSERT OR IGNORE INTO t VALUES (666)", "UPDATE OR REPLACE key SET v = 666"),
    ),
    Row(
        "UPSERT",
        *both(
            "INSERT INTO key VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 666", "INSERT INTO key VALUES (2, 666) ON CONFLICT DO NOTHING"
        ),
    ),
    Row("RETURNING", *both("INSERT INTO t VALUES (666) RETURNING i", "UPDATE key SET v = 666 RETURNING *", "DELETE FROM key RETURNING *")),
    Row(
        "WITH",
        *both(
            "WITH x AS (SELECT 666 AS i) INSERT INTO t SELECT i FROM x",
            "WITH x AS (INSERT INTO t VALUES (666) RETURNING i) SELECT * FROM x",
        ),
    ),
    Row(
        "a statement that writes within WITH",
        *both(
            "WITH x AS (DELETE FROM key RETURNING k) SELECT * FROM x",
            "WITH x AS (UPDATE key SET v = 666 RETURNING v) SELECT count(*) FROM x",
            "WITH x AS (INSERT INTO t VALUES (666)) SELECT 1",
            "WITH x AS (DELETE FROM key RETURNING v) INSERT INTO t SELECT 666 FROM x",
            "WITH x AS (SELECT 1), y AS (INSERT INTO t SELECT 666 FROM x RETURNING i) UPDATE key SET v = i FROM y",
            "COPY (WITH x AS (INSERT INTO t VALUES (666) RETURNING i) SELECT * FROM x) TO STDOUT",
        ),
        *simple(
            "PREPARE p AS WITH x AS (INSERT INTO t VALUES (666) RETURNING i) SELECT * FROM x",
            "EXECUTE p",
            "BEGIN",
            "DECLARE c CURSOR FOR WITH x AS (INSERT INTO t VALUES (666) RETURNING i) SELECT * FROM x",
            "FETCH c",
            "COMMIT",
        ),
    ),
    Row(
        "a set-returning function in a list",
        *both(
            "INSERT INTO t SELECT generate_series(1, 666)",
            "SELECT generate_series(1, nextval('public.numbered_id_seq'))",
            "SELECT unnest(ARRAY[setval('public.numbered_id_seq', 666)])",
        ),
    ),
    Row(
        "EXPLAIN",
        *both(
            "EXPLAIN ANALYZE INSERT INTO t VALUES (666)",
            "EXPLAIN (ANALYZE true) INSERT INTO t VALUES (666)",
            "EXPLAIN QUERY PLAN INSERT INTO t VALUES (666)",
            "EXPLAIN INSERT OR REPLACE INTO t VALUES (666)",
        ),
    ),
    Row("COPY FROM STDIN", query("COPY t FROM STDIN") + copy_data("666\n") + copy_done()),
    Row("COPY FROM STDIN, extended", parse("", "COPY t FROM STDIN") + bind() + execute() + copy_data("666\n") + copy_done() + sync()),
    Row(
        "COPY of what writes",
        *both(
            "COPY (INSERT INTO t VALUES (666) RETURNING i) TO STDOUT",
            "COPY (SELECT termgate_seal('copied', 5)) TO STDOUT",
            "COPY (SELECT * FROM nexter) TO STDOUT",
        ),
    ),
    Row(
        "COPY to and from files and programs",
        *both(
            "COPY t FROM PROGRAM 'echo 666'",
            "COPY (SELECT 1) TO PROGRAM 'cat > FOLDER/written'",
            "COPY (SELECT 1) TO 'FOLDER/written'",
            "COPY t FROM '/etc/passwd'",
        ),
    ),
    Row(
        "CREATE",
        *both(
            "CREATE TABLE new (i int)",
            "CREATE TABLE new AS SELECT 1",
            "SELECT 1 AS i INTO new",
            "CREATE VIEW new AS SELECT 1",
            "CREATE INDEX new ON t (i)",
            "CREATE TEMP TABLE new (i int)",
            "CREATE VIRTUAL TABLE new USING fts5(x)",
        ),
    ),
    Row(
        "temporary tables",
        *both("CREATE TEMP TABLE k (i int)", "CREATE TEMP TABLE k AS SELECT 1 AS i", "CREATE TABLE pg_temp.k (i int)", INSERT),
        *simple("BEGIN", "CREATE TEMP TABLE k (i int) ON COMMIT DROP", "INSERT INTO t SELECT 666", "COMMIT", INSERT),
        *simple("BEGIN READ WRITE", "CREATE TEMP VIEW k AS SELECT 666 AS i", "INSERT INTO t SELECT i FROM k", "COMMIT"),
        group("BEGIN", "CREATE TEMP TABLE k (i int)", INSERT, "COMMIT"),
        *simple("DISCARD TEMP", INSERT, "DISCARD ALL", INSERT),
    ),
    Row("CREATE TABLE AS EXECUTE", *simple("PREPARE p AS SELECT 1", "CREATE TABLE new AS EXECUTE p")),
    Row(
        "CREATE TRIGGER",
        *both(
            "CREATE TRIGGER new AFTER INSERT ON t BEGIN INSERT INTO t VALUES (666); END",
            "CREATE TRIGGER new INSTEAD OF DELETE ON instead BEGIN SELECT 1; END",
        ),
    ),
    Row(
        "ALTER and DROP",
        *both(
            "ALTER TABLE t ADD COLUMN x int",
            "ALTER TABLE t RENAME TO new",
            "ALTER TABLE t RENAME COLUMN i TO j",
            "ALTER TABLE t DROP COLUMN i",
            "DROP TABLE t",
            "DROP VIEW instead",
            "DROP TRIGGER watched_insert",
        ),
    ),
    Row(
        "ANALYZE, VACUUM, REINDEX",
        *both("ANALYZE", "ANALYZE key", "VACUUM", "VACUUM ANALYZE", "VACUUM (FULL) t", "REINDEX TABLE key", "REINDEX", "ANALYZE main"),
    ),
    Row(
        "sequences",
        *both(
            "SELECT nextval('public.numbered_id_seq')",
            "SELECT setval('public.numbered_id_seq', 666)",
            "UPDATE sqlite_sequence SET seq = 666",
            "INSERT INTO sqlite_sequence VALUES ('t', 666)",
            "DELETE FROM sqlite_sequence",
        ),
    ),
    Row(
        "GRANT, COMMENT, LOCK, NOTIFY",
        *both("GRANT SELECT ON t TO PUBLIC", "COMMENT ON TABLE t IS 'x'", "LOCK TABLE t", "NOTIFY x", "LISTEN x"),
    ),
    Row(
        "CALL, DO, MERGE",
        *both(
            "DO $$ BEGIN INSERT INTO t VALUES (666); END $$",
            "CALL writes()",
            "MERGE INTO t USING (SELECT 666 AS i) s ON false WHEN NOT MATCHED THEN INSERT VALUES (666)",
        ),
    ),
    Row(
        "a function by the fast path",
        function_call(1574, [b"\0\0\0\0"]),
        query("BEGIN"),
        function_call(957, [b"\0\0\x40\0"]),
        query("COMMIT"),
    ),
    Row("two-phase commit", *simple("BEGIN", INSERT, "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'")),
    # --- behind something else ---
    Row("a trigger", *both("INSERT INTO watched VALUES (1)")),
    Row("a view with INSTEAD OF", *both("INSERT INTO instead VALUES (1)", "INSERT OR REPLACE INTO instead VALUES (1)")),
    Row("a generated column", *both("INSERT INTO generated VALUES (333)", "INSERT INTO generated (i) SELECT 333")),
    Row(
        "virtual tables",
        *both(
            "INSERT INTO words VALUES ('x')",
            "INSERT INTO words(words) VALUES ('rebuild')",
            "INSERT INTO words(words, rank) VALUES ('rank', 'bm25(10.0)')",
            "INSERT INTO boxes VALUES (1, 0, 1)",
            "DELETE FROM words",
            "INSERT INTO words_data VALUES (666, x'00')",
        ),
    ),
    Row(
        "a view that seals",
        *both(
            "SELECT * FROM sealer",
            "TABLE sealer",
            "SELECT count(*) FROM sealer",
            "SELECT 1 WHERE EXISTS (SELECT * FROM sealer)",
            "WITH x AS (SELECT * FROM sealer) SELECT * FROM x",
        ),
    ),
    Row("a view that counts", *both("SELECT * FROM nexter", "SELECT i FROM t UNION SELECT next FROM nexter")),
    Row("a view that asks for READ WRITE", *both("SELECT * FROM flipper", ONLY_SQLITE, "SELECT * FROM unlocker", ONLY_SQLITE)),
    Row(
        "a view that asks for READ WRITE, in a block",
        *simple("BEGIN", "SELECT * FROM unlocker", ONLY_SQLITE, "SELECT * FROM nexter", "COMMIT"),
        group("BEGIN", "SELECT * FROM unlocker", ONLY_SQLITE, "COMMIT"),
    ),
    Row(
        "a view that asks for READ WRITE, pipelined",
        query("SELECT * FROM flipper") + query(ONLY_SQLITE) + query("SELECT * FROM nexter") + query(INSERT),
    ),
    Row(
        "a view that asks for READ WRITE, in one text",
        *simple(
            f"SELECT * FROM flipper; SELECT * FROM nexter; {INSERT}", f"SELECT * FROM flipper; COMMIT; SELECT * FROM nexter; {ONLY_SQLITE}"
        ),
    ),
    Row(
        "a view that asks for READ WRITE, in one group",
        group("SELECT * FROM flipper", "SELECT * FROM nexter", ONLY_SQLITE),
        group("SELECT * FROM flipper", "COMMIT", "SELECT * FROM nexter"),
    ),
    Row(
        "a function",
        *both(
            "SELECT termgate_append('new', 5, 'x')",
            "SELECT termgate_acquire_lease('new', 'me', 60000)",
            "SELECT termgate_seal('new', 5)",
            "SELECT termgate_claim_write('11111111-1111-1111-1111-111111111111')",
            "SELECT termgate_job_start('j', 'new', 'me', 5)",
        ),
    ),
    Row(
        "a function somewhere else",
        *both(
            "SELECT 1 WHERE termgate_seal('new', 5) IS NOT NULL",
            "VALUES (termgate_seal('new', 5))",
            "SELECT * FROM t ORDER BY termgate_seal('new', 5)",
            "SELECT sum(termgate_seal('new', 5))",
            "SELECT * FROM (SELECT termgate_seal('new', 5)) x",
            "SELECT max(termgate_seal('new', 5)) OVER ()",
            "SELECT json_group_array(termgate_seal('new', 5))",
            "SELECT CASE WHEN true THEN termgate_seal('new', 5) END",
        ),
    ),
    Row(
        "a function in a block",
        *simple("BEGIN", "SELECT termgate_seal('new', 5)", "COMMIT", "BEGIN; SELECT nextval('public.numbered_id_seq'); COMMIT"),
        group("BEGIN", "SELECT termgate_seal('new', 5)", "COMMIT"),
    ),
    Row(
        "a cursor",
        *simple(
            "BEGIN",
            "DECLARE c CURSOR FOR SELECT termgate_seal('new', 5)",
            "FETCH ALL c",
            "COMMIT",
            "BEGIN",
            "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM nexter",
            "COMMIT",
            "FETCH ALL c",
        ),
    ),
    Row(
        "a suspended portal",
        query("BEGIN"),
        parse("", "SELECT nextval('public.numbered_id_seq') FROM generate_series(1, 3)") + bind("p") + execute("p", 1) + sync(),
        execute("p", 0) + sync(),
        query("COMMIT"),
    ),
    Row(
        "a portal with a row limit of a write",
        parse("", "INSERT INTO t VALUES (666), (666) RETURNING i") + bind() + execute("", 1) + sync(),
    ),
    Row(
        "FETCH from a portal",
        query("BEGIN"),
        parse("", "INSERT INTO t VALUES (666) RETURNING i") + bind("p") + sync(),
        *simple("FETCH ALL p", "MOVE p", "COMMIT"),
        parse("", INSERT) + bind("p") + parse("", "FETCH ALL p") + bind() + execute() + sync(),
    ),
    Row(
        "arguments",
        parse("", "SELECT $1::bigint", ()) + bind("", "", ["666"]) + execute() + sync(),
        *simple("PREPARE p(bigint) AS SELECT $1", "EXECUTE p(nextval('public.numbered_id_seq'))", "EXECUTE p(termgate_seal('new', 5))"),
    ),
    Row(
        "a guard's name",
        *both(
            "SELECT * FROM guarded",
            "SELECT termgate_guard_load_termgate_extension_first('row', 'kept', 'SCOPE')",
            "SELECT termgate_guard_load_termgate_extension_first('raise', 'new', 666)",
            "SELECT termgate_guard_load_termgate_extension_first('adopted', 'kept', 'new', 666)",
        ),
        *simple("BEGIN", "SELECT * FROM guarded", "INSERT INTO kept VALUES (666, 0)", "COMMIT"),
        by=("none", "stale", "known", "current"),
    ),
    # --- prepared statements ---
    Row("PREPARE and EXECUTE", *simple(f"PREPARE p AS {INSERT}", "EXECUTE p", "PREPARE q AS SELECT * FROM nexter", "EXECUTE q")),
    Row("EXECUTE of a statement prepared by the protocol", parse("p", INSERT) + sync(), *simple("EXECUTE p")),
    Row(
        "a read's name given to a write by SQL",
        parse("p", "SELECT 1") + sync(),
        *simple("DEALLOCATE p", f"PREPARE p AS {INSERT}"),
        bind("", "p") + execute() + sync(),
        query("EXECUTE p"),
    ),
    Row(
        "a read's name given to a write in one pipeline",
        parse("p", "SELECT 1") + sync(),
        close("S", "p") + parse("p", INSERT) + bind("", "p") + execute() + sync(),
        bind("", "p") + execute() + sync(),
    ),
    Row(
        "a read's name given to a write, DISCARD ALL",
        parse("p", "SELECT 1") + sync(),
        query("DISCARD ALL") + parse("p", INSERT) + bind("", "p") + execute() + sync(),
    ),
    Row(
        "a Parse that was skipped",
        parse("p", "SELECT 1") + sync(),
        parse("", "SELECT nope") + bind() + execute() + close("S", "p") + parse("p", INSERT) + sync(),
        bind("", "p") + execute() + sync(),
    ),
    Row("Bind flushed before it is judged", parse("", INSERT) + bind() + flush() + execute() + sync()),
    Row(
        "a read that is flushed, then a write",
        parse("", "SELECT 1") + bind() + execute() + flush() + parse("", INSERT) + bind() + execute() + sync(),
    ),
    Row("Describe, then Execute", parse("p", INSERT) + describe("S", "p") + sync(), bind("", "p") + describe("P") + execute() + sync()),
    Row(
        "our own statements' names",
        parse("_termgate_check", "SELECT 9") + sync(),
        *simple("PREPARE _termgate_check AS SELECT 9", "EXECUTE _termgate_check", "DEALLOCATE ALL"),
        query(INSERT),
        group(INSERT),
    ),
    Row(
        "our own functions",
        *both(
            "SELECT termgate.check_term('new', 5)",
            "SELECT * FROM termgate.check_session()",
            "SELECT * FROM termgate.hold_session('new', 5)",
            "SELECT * FROM termgate.seal('new', 5)",
        ),
        query(INSERT),
        raises=("new",),
    ),
    # --- becoming READ WRITE ---
    Row(
        "BEGIN READ WRITE",
        *simple("BEGIN READ WRITE", INSERT, "COMMIT"),
        *simple("BEGIN READ WRITE", "SELECT * FROM nexter", "COMMIT", f"BEGIN READ /* */ WRITE; {ONLY_SQLITE}; COMMIT"),
    ),
    Row(
        "SQLite's BEGIN",
        *both("BEGIN IMMEDIATE", ONLY_SQLITE, "COMMIT", "BEGIN EXCLUSIVE TRANSACTION", "SELECT * FROM nexter", "COMMIT"),
        *simple(f"BEGIN IMMEDIATE; {ONLY_SQLITE}; COMMIT"),
    ),
    Row(
        "SET TRANSACTION READ WRITE",
        *simple("BEGIN", "SET TRANSACTION READ WRITE", "SELECT * FROM nexter", ONLY_SQLITE, "COMMIT"),
        *simple(
            "BEGIN; SET transaction_read_only = off; SELECT * FROM nexter; COMMIT",
            "BEGIN; RESET transaction_read_only; SELECT * FROM nexter; COMMIT",
        ),
    ),
    Row(
        "SET default_transaction_read_only",
        *both("SET default_transaction_read_only = off", "SELECT * FROM nexter", ONLY_SQLITE),
        query("SET default_transaction_read_only = off") + query("SELECT * FROM nexter") + group(ONLY_SQLITE),
    ),
    Row("SET SESSION CHARACTERISTICS", *both("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SELECT * FROM nexter", ONLY_SQLITE)),
    Row(
        "RESET ALL and DISCARD ALL",
        *both(
            "RESET ALL",
            "SELECT * FROM nexter",
            "DISCARD ALL",
            "SELECT * FROM nexter",
            "RESET default_transaction_read_only",
            "SELECT * FROM nexter",
        ),
    ),
    Row(
        "set_config",
        *both(
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            "SELECT * FROM nexter",
            "SELECT set_config('transaction_read_only', 'off', false), nextval('public.numbered_id_seq')",
        ),
        *simple(
            "BEGIN",
            "SELECT set_config('transaction_read_only', 'off', true)",
            "SELECT * FROM nexter",
            ONLY_SQLITE,
            "COMMIT",
            "SELECT set_config('transaction_read_only', 'off', true) FROM generate_series(1, 2); SELECT * FROM nexter",
        ),
    ),
    Row(
        "settings that are tables",
        *both(
            "UPDATE pg_settings SET setting = 'off' WHERE name = 'default_transaction_read_only'",
            "SELECT * FROM nexter",
            "DELETE FROM pg_class",
            "INSERT INTO pg_db_role_setting VALUES (0, 0, NULL)",
        ),
    ),
    Row("a setting at start-up", *both("SELECT * FROM nexter", ONLY_SQLITE), start=[("default_transaction_read_only", "off")]),
    Row(
        "a setting at start-up, twice and in capitals",
        *both("SELECT * FROM nexter", ONLY_SQLITE),
        start=[("DEFAULT_transaction_read_only", "off"), ("default_transaction_read_only", "off")],
    ),
    Row(
        "a setting among the options",
        *both("SELECT * FROM nexter", ONLY_SQLITE),
        start=[("options", "-c default_transaction_read_only=off --Default-Transaction-Read-Only=off")],
    ),
    Row("a replication connection", *simple("SELECT * FROM nexter"), start=[("replication", "database")]),
    Row(
        "READ ONLY by its own word",
        *simple(
            "SET default_transaction_read_only = on",
            "SELECT * FROM nexter",
            f"BEGIN READ ONLY; {INSERT}; COMMIT",
            "BEGIN READ ONLY",
            ONLY_SQLITE,
            "COMMIT",
            "BEGIN READ ONLY",
            "SET TRANSACTION READ WRITE",
            "SELECT * FROM nexter",
            "COMMIT",
        ),
    ),
    # --- texts that are read in two ways ---
    Row(
        "several statements",
        *simple(f"SELECT 1; {INSERT}", f"BEGIN; {INSERT}; COMMIT", f"SELECT 1; {ONLY_SQLITE}", f"COMMIT; BEGIN; {ONLY_SQLITE}; COMMIT"),
    ),
    Row(
        "comments",
        *both(
            f"/* x */ {INSERT}",
            f"-- x\n{INSERT}",
            f"-- x\r{INSERT}",
            f"/* /* */ {INSERT} -- */",
            f"{INSERT} -- x",
            f"/*termgate.term='x'*/ {INSERT}",
        ),
    ),
    Row(
        "a comment in a comment",
        *both(
            f"SELECT 1 /* /* */; {INSERT}; -- */",
            f"SELECT 1 /* /* */; SELECT termgate.fence('x'); {WRITE_BLOCK} -- */",
            f"SELECT 1 /* /* */; SELECT termgate.fence('x'); SET transaction_read_only = off; {INSERT} -- */",
            f"SELECT 1 /* pragma_ /* */; BEGIN IMMEDIATE; {INSERT}; -- */",
        ),
    ),
    Row(
        "a call of ours behind a comment in a comment",
        *both(
            f"/* /* */ {INSERT}; -- */\nSELECT termgate.seal('new', 1)",
            "/* /* */ SELECT termgate.seal('new', 5) -- */",
            "SELECT /* /* */ termgate.seal('new', 5) -- */ 1",
            f"/* /* */ {ONLY_SQLITE}; -- */\nSELECT termgate.check_term('new', 1)",
        ),
    ),
    Row(
        "a call of ours behind the end of a line",
        *both(
            f"SELECT 1 --\r, 2; SELECT termgate.fence('x'); {WRITE_BLOCK}",
            f"SELECT termgate.fence('x') --\r; {WRITE_BLOCK}",
            f"SELECT termgate.fence('x'); -- \r {WRITE_BLOCK}",
        ),
    ),
    Row(
        "strings of PostgreSQL's",
        *both(
            f"SELECT $$ ; SELECT termgate.fence('x'); {WRITE_BLOCK}; $$",
            f"SELECT E'\\'; SELECT termgate.fence(1); {WRITE_BLOCK}; --'",
            f"SELECT $a$ pragma_ ; BEGIN IMMEDIATE; {INSERT}; $a$",
            f"SELECT U&'\\0027; {INSERT}; --'",
        ),
    ),
    Row(
        "names in SQLite's brackets",
        *both(f"SELECT 1 AS [a; {INSERT}; b]", f"SELECT `a; {INSERT}; b`", f"SELECT 1 [1]; {ONLY_SQLITE}", f"SELECT \"a; {INSERT}; b\""),
    ),
    Row(
        "calls of ours in one text",
        *simple(
            f"SELECT termgate.fence('x'); {WRITE_BLOCK}",
            f"SELECT termgate.fence('x'); SET transaction_read_only = off; {INSERT}",
            f"SELECT termgate.fence('x'); {ONLY_SQLITE}",
            f"SELECT termgate.fence('x'); COMMIT; BEGIN READ WRITE; {ONLY_SQLITE}; COMMIT",
            f"SELECT termgate.seal('new', 5); {INSERT}",
            f"SELECT termgate.check_term('new', 5); {INSERT}",
            f"BEGIN; SELECT termgate.fence('x'); {INSERT}; COMMIT",
        ),
    ),
    Row(
        "a call of ours that is none",
        *both(
            "SELECT termgate.seal('new', 5) FROM nexter",
            "SELECT termgate.seal('new', 5), nextval('public.numbered_id_seq')",
            "SELECT CASE WHEN false THEN termgate.seal('new', 5) ELSE nextval('public.numbered_id_seq') END",
            "SELECT termgate.seal(E'new', nextval('public.numbered_id_seq'))",
            "SELECT * FROM termgate.seal('new', 5), nexter",
        ),
    ),
    Row(
        "a text that only SQLite can read",
        *both(
            f"SELECT 1 GLOB 2; {INSERT}",
            "SELECT * FROM nexter WHERE next GLOB '*'",
            f"SELECT 1 GLOB 2; COMMIT; BEGIN READ WRITE; {INSERT}; COMMIT",
            f"SELECT 1 GLOB 2; SELECT termgate.fence('x'); {WRITE_BLOCK}",
        ),
    ),
    Row(
        "a text that is too long",
        *both(
            f"{LONG} {INSERT}",
            f"SELECT 1; {LONG} {INSERT}",
            f"{LONG} SELECT termgate.fence('x'); {WRITE_BLOCK}",
            f"{LONG} SELECT * FROM nexter",
        ),
    ),
    Row(
        "a text that is too deep",
        *both(f"{DEEP}; {INSERT}", f"{DEEP}; BEGIN IMMEDIATE; {INSERT}; COMMIT", f"{DEEP}; SELECT termgate.fence('x'); {WRITE_BLOCK}"),
    ),
    Row(
        "strings that do not conform",
        *simple(
            "SET standard_conforming_strings = off",
            f"SELECT 'a\\'; {INSERT}; --'",
            f"SELECT '\\'; SELECT termgate.fence(1); {WRITE_BLOCK}; --'",
        ),
    ),
    Row(
        "another encoding",
        *simple("SET client_encoding = 'SJIS'", "SET NAMES 'BIG5'"),
        query(b"SELECT '\x83'; INSERT INTO t VALUES (666); --'"),
    ),
    Row(
        "bytes that are no text",
        query(b"SELECT '\xff'; INSERT INTO t VALUES (666)"),
        query(b"\xc3INSERT INTO t VALUES (666)"),
        query(b"SELECT 1\x0b; INSERT OR REPLACE INTO t VALUES (666)"),
        query(b"SELECT 1\x0c; INSERT INTO t VALUES (666)"),
    ),
    Row(
        "a NUL in the text",
        query(b"SELECT 1\0; INSERT INTO t VALUES (666)"),
        parse("", b"SELECT 1\0; INSERT INTO t VALUES (666)") + bind() + execute() + sync(),
    ),
    Row(
        "a failed block",
        *simple(
            "BEGIN",
            "SELECT nope",
            INSERT,
            ONLY_SQLITE,
            f"ROLLBACK; {INSERT}",
            "BEGIN",
            "SELECT nope",
            f"COMMIT; {ONLY_SQLITE}",
            "SELECT * FROM nexter",
            "COMMIT",
        ),
    ),
    # --- errors in a pipeline ---
    Row("an error, then writes in the pipeline", group("SELECT nope", INSERT) + group(INSERT) + group("SELECT nope") + query(ONLY_SQLITE)),
    Row("an error, then a block in the pipeline", group("SELECT nope", "BEGIN") + group(INSERT) + group("COMMIT")),
    Row("BEGIN that was skipped", group("SELECT nope", "BEGIN"), *simple("SELECT * FROM nexter", ONLY_SQLITE, "COMMIT")),
    Row(
        "a refusal, then ROLLBACK TO",
        *simple("BEGIN", "SAVEPOINT a", INSERT, "ROLLBACK TO a", INSERT, ONLY_SQLITE, "SELECT * FROM nexter", "COMMIT"),
    ),
    Row(
        "a refusal, then ROLLBACK TO in the pipeline",
        query("BEGIN") + query("SAVEPOINT a") + query(INSERT) + query("ROLLBACK TO a") + query("SELECT * FROM nexter") + query("COMMIT"),
    ),
    Row("Terminate in the middle", query("BEGIN") + query(INSERT) + query("COMMIT") + terminate()),
    Row("a CopyDone before its COPY", copy_data("666\n") + copy_done() + query("COPY t FROM STDIN") + copy_data("666\n") + copy_done()),
    # --- closed to everybody ---
    closed(
        "other files",
        "ATTACH 'FOLDER/other.db' AS b",
        "ATTACH DATABASE ':memory:' AS b",
        "DETACH main",
        "VACUUM INTO 'FOLDER/copy.db'",
        "VACUUM main INTO 'FOLDER/copy.db'",
        "/* x */ ATTACH 'FOLDER/other.db' AS b",
        "SELECT 1; ATTACH 'FOLDER/other.db' AS b",
        "SELECT writefile('FOLDER/written', 'x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT edit('x')",
        "SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
        "SELECT * FROM fsdir('/')",
    ),
    closed(
        "PRAGMA",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA journal_mode(off)",
        "PRAGMA main.journal_mode=wal2",
        "PRAGMA synchronous = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA trusted_schema = ON",
        "PRAGMA query_only = OFF",
        "PRAGMA foreign_keys = ON",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA temp_store_directory = '/tmp'",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA user_version = 666",
        "PRAGMA application_id(666)",
        "PRAGMA locking_mode = EXCLUSIVE",
        "PRAGMA incremental_vacuum",
        "PRAGMA auto_vacuum = 1",
        "PRAGMA secure_delete = 1",
        "PRAGMA ignore_check_constraints = 1",
        "PRAGMA schema_version = 666",
        "PRAGMA encoding = 'UTF-16'",
        "PRAGMA hard_heap_limit = 1",
        "PRAGMA optimize",
        "PRAGMA shrink_memory",
        "PRAGMA data_version = 1",
    ),
    closed(
        "PRAGMA as a table",
        "SELECT * FROM pragma_journal_mode('delete')",
        "SELECT * FROM pragma_user_version(666)",
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
        "UPDATE main.termgate_fences SET term = 1",
        'UPDATE "TERMGATE_Fences" SET term = 1',
        "UPDATE [termgate_fences] SET term = 1",
        "UPDATE `termgate_fences` SET term = 1",
        "UPDATE 'termgate_fences' SET term = 1",
        "DELETE FROM termgate_fences",
        "INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        "INSERT OR REPLACE INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        "REPLACE INTO main.termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x')",
        (
            "INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('SCOPE', 1, 1, 'x') ON CONFLICT (scope) DO UPDATE SET"
            " term = 1"
        ),
        "WITH x AS (SELECT 1 AS y) UPDATE termgate_fences SET term = (SELECT y FROM x)",
        "UPDATE termgate_fences SET term = 1 RETURNING term",
        "UPDATE OR REPLACE termgate_fences SET scope = 'x'",
        "DROP TABLE termgate_fences",
        "DROP TABLE IF EXISTS t, termgate_fences",
        "ALTER TABLE termgate_fences RENAME TO x",
        "ALTER TABLE termgate_fences ADD COLUMN x",
        "ALTER TABLE termgate_fences RENAME COLUMN term TO x",
        "TRUNCATE termgate_fences",
        "CREATE INDEX i ON termgate_fences (term)",
        "CREATE UNIQUE INDEX i ON termgate_audit (action)",
        "CREATE TRIGGER x AFTER UPDATE ON termgate_fences BEGIN SELECT RAISE(IGNORE); END",
        "DROP TRIGGER termgate_fences_update",
        "DROP INDEX termgate_audit_scope",
        "REINDEX termgate_audit",
        "ANALYZE termgate_fences",
        "UPDATE termgate.fences SET term = 1",
        'UPDATE "termgate"."fences" SET term = 1',
        "DELETE FROM termgate.leases",
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
        "ALTER TABLE watched RENAME TO /* */ 'termgate_x' -- x",
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
    ),
    closed(
        "sequences of Termgate's tables",
        "SELECT setval('public.termgate_audit_id_seq', 9223372036854775807)",
        "SELECT setval('termgate.termgate_audit_id_seq', 9223372036854775807)",
        "SELECT nextval('termgate_resets_id_seq')",
        "SELECT setval('termgate_migrations_version_seq', 666)",
        "INSERT INTO sqlite_sequence VALUES ('termgate_audit', 9223372036854775807)",
    ),
    closed(
        "temporary things that hide ours",
        "CREATE TEMP TABLE termgate_fences (scope, term)",
        "CREATE TEMP VIEW termgate_fences AS SELECT 'x' AS scope, 99 AS term",
        "CREATE TABLE temp.termgate_fences (scope, term)",
        "CREATE TEMP TRIGGER x BEFORE UPDATE ON main.termgate_fences BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN UPDATE termgate_fences SET term = 1; END",
        "CREATE TEMPORARY TABLE kept (i int)",
        "CREATE TEMP VIEW kept AS SELECT 1 AS i",
        "CREATE TEMP TABLE k (i int)",
        "ALTER TABLE k RENAME TO kept",
        "ALTER TABLE k RENAME TO termgate_fences",
        "CREATE INDEX termgate_x ON k (i)",
        "CREATE TABLE k (i int)",
        "CREATE TEMP TRIGGER x AFTER INSERT ON k BEGIN DELETE FROM main.termgate_fences; END",
    ),
    closed(
        "by way of temporary tables",
        "CREATE TEMP TABLE k (i int)",
        "CREATE TEMP VIEW v AS SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why') AS i",
        "SELECT * FROM v",
        "CREATE TEMP TABLE d (i int, x int GENERATED ALWAYS AS (termgate_unprotect('kept')))",
        "CREATE TEMP TABLE r (i int REFERENCES termgate_fences (scope) ON DELETE CASCADE)",
        "INSERT INTO kept VALUES (666, 0)",
        "UPDATE kept SET v = 666",
        "UPDATE termgate_fences SET term = 1",
        "WITH x AS (UPDATE termgate_fences SET term = 1 RETURNING term) SELECT * FROM x",
        "WITH x AS (DELETE FROM kept RETURNING i) SELECT * FROM x",
        "CREATE TEMP TABLE l AS SELECT * FROM termgate_protected",
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
        "SELECT termgate_declare('SCOPE', 9)",
        "SELECT termgate_declare_restored('SCOPE', 1, 'me', 'why')",
        "SELECT termgate_declare_untrusted('me', 'why')",
        "SELECT termgate_prune('SCOPE', 1)",
        "SELECT termgate_set_raise_by('SCOPE', 'seal')",
        "SELECT termgate_adopt('kept', 'i', 'i')",
        'SELECT "TERMGATE_Uninstall"()',
        "SELECT termgate.reset_fence('SCOPE', 1, 'me', 'why')",
        "SELECT * FROM termgate.force_release('SCOPE', 'me', 'why')",
        "WITH termgate_x AS (SELECT termgate_uninstall()) SELECT * FROM termgate_x",
        "VALUES (termgate_uninstall())",
    ),
    Row(
        "the operator's functions behind a trigger",
        *both(
            "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT termgate_reset_fence('SCOPE', 1, 'me', 'why'); END",
            "INSERT INTO t VALUES (1)",
            "CREATE TRIGGER y AFTER INSERT ON key BEGIN UPDATE termgate_fences SET term = 1; END",
            "INSERT INTO key VALUES (7, 7)",
            "CREATE TRIGGER z AFTER INSERT ON numbered BEGIN DELETE FROM termgate_protected; END",
            "INSERT INTO numbered (v) VALUES (7)",
        ),
        by=("current",),
    ),
    Row(
        "the operator's functions behind what is stored",
        *both(
            "CREATE TABLE d (i int, x DEFAULT (termgate_uninstall()))",
            "INSERT INTO d (i) VALUES (1)",
            "CREATE TABLE g (i int, x GENERATED ALWAYS AS (termgate_unprotect('kept')))",
            "SELECT * FROM g",
            "CREATE INDEX e ON t (termgate_unprotect('kept'))",
            "CREATE TABLE c (i int CHECK (termgate_unprotect('kept') IS NULL))",
            "INSERT INTO c VALUES (1)",
            "CREATE VIEW w AS SELECT termgate_unprotect('kept')",
            "SELECT * FROM w",
        ),
        by=("current",),
    ),
    Row(
        "a full-text table as a disguise",
        *both(
            "CREATE VIRTUAL TABLE f USING fts4(x, compress=termgate_unprotect, uncompress=termgate_unprotect)",
            "INSERT INTO f VALUES ('kept')",
            "CREATE VIRTUAL TABLE f2 USING fts4(x, COMPRESS=\"termgate_unprotect\", uncompress=lower)",
            "INSERT INTO f2 VALUES ('kept')",
            "CREATE VIRTUAL TABLE f3 USING fts5(x, content='termgate_fences')",
            "INSERT INTO f3(f3) VALUES ('rebuild')",
            "DELETE FROM f3",
            "CREATE VIRTUAL TABLE f4 USING fts5(fence, content='resetter')",
            "SELECT * FROM f4",
            "INSERT INTO f4(f4) VALUES ('rebuild')",
            "INSERT INTO words(words, rank) VALUES ('rank', 'bm25(termgate_unprotect(''kept''))')",
            "SELECT * FROM words WHERE words MATCH 'one' AND rank MATCH 'bm25(termgate_unprotect(\"kept\"))'",
            "SELECT fts3_tokenizer('simple', x'00')",
            "CREATE VIRTUAL TABLE f5 USING fts4(x, tokenize=termgate_unprotect)",
            "CREATE VIRTUAL TABLE v USING dbstat",
            "CREATE VIRTUAL TABLE v USING sqlite_dbpage",
            "UPDATE sqlite_dbpage SET data = x'00'",
            "CREATE VIRTUAL TABLE v USING termgate_transaction",
        ),
        by=("current",),
    ),
    Row(
        "a protected table without its scope",
        *both(
            "INSERT INTO kept VALUES (666, 0)",
            "INSERT OR REPLACE INTO kept VALUES (1, 666)",
            "REPLACE INTO kept VALUES (1, 666)",
            "WITH x AS (SELECT 666 AS i) INSERT INTO kept (i) SELECT i FROM x",
            "UPDATE kept SET v = 666",
            "DELETE FROM kept",
            "TRUNCATE kept",
            "UPDATE OR REPLACE kept SET i = 666",
            "INSERT INTO kept VALUES (1, 0) ON CONFLICT (i) DO UPDATE SET v = 666",
            "UPDATE kept SET v = 666 FROM t WHERE true",
            "UPDATE kept SET v = 666 RETURNING v",
        ),
        query("COPY kept FROM STDIN") + copy_data("666\t0\n") + copy_done(),
        *simple(
            "BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT a", "UPDATE kept SET v = 666", "ROLLBACK TO a", "DELETE FROM kept", "COMMIT"
        ),
        by=("none", "stale", "known", "current"),
    ),
    # --- fenced, and then without its lock ---
    lost(
        "COMMIT, then another write",
        *simple("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"),
        RAISE,
        *both(INSERT, ONLY_SQLITE, "SELECT nextval('public.numbered_id_seq')"),
    ),
    lost(
        "a session with temporary tables",
        *simple("CREATE TEMP TABLE k (i int)", "BEGIN", "INSERT INTO k VALUES (666)", "COMMIT"),
        RAISE,
        *both(INSERT, "INSERT INTO t SELECT i FROM k", ONLY_SQLITE, "SELECT nextval('public.numbered_id_seq')"),
        *simple("BEGIN", "SELECT * FROM k", "INSERT INTO t SELECT i FROM k", "COMMIT"),
    ),
    lost(
        "a session with temporary tables, in a block that has only read",
        *simple("CREATE TEMP TABLE k (i int)", "INSERT INTO k VALUES (666)", "BEGIN", "SELECT * FROM k"),
        RAISE,
        *simple("INSERT INTO t SELECT i FROM k", "COMMIT"),
    ),
    lost(
        "a statement that writes within WITH, prepared while the term held",
        parse("p", "WITH x AS (INSERT INTO t VALUES (666) RETURNING i) SELECT * FROM x") + sync(),
        RAISE,
        bind("", "p") + execute() + sync(),
        query("EXECUTE p"),
    ),
    lost("a block that has only read", *simple("BEGIN", "SELECT * FROM t"), RAISE, *simple(INSERT, "COMMIT")),
    lost("a block that has only read, extended", group("BEGIN"), group("SELECT * FROM t"), RAISE, group(INSERT), group("COMMIT")),
    lost(
        "a block that has only read, at SERIALIZABLE",
        *simple("BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT * FROM t"),
        RAISE,
        *simple(INSERT, "COMMIT"),
    ),
    lost(
        "a block that has only read, with a savepoint",
        *simple("BEGIN", "SAVEPOINT a", "SELECT * FROM t"),
        RAISE,
        *simple("ROLLBACK TO a", INSERT, "COMMIT"),
    ),
    lost(
        "a block that has only read, COPY",
        *simple("BEGIN", "SELECT * FROM t"),
        RAISE,
        query("COPY t FROM STDIN") + copy_data("666\n") + copy_done(),
        query("COMMIT"),
    ),
    lost("a block that has only read, SQLite's grammar", *simple("BEGIN", "SELECT 1 GLOB 1"), RAISE, *simple(ONLY_SQLITE, "COMMIT")),
    lost(
        "a block that has only read, a function",
        *simple("BEGIN", "SELECT * FROM t"),
        RAISE,
        *simple("SELECT setval('public.numbered_id_seq', 666)", "COMMIT"),
    ),
    lost(
        "a block that has only read, a definition",
        *simple("BEGIN", "SELECT * FROM t"),
        RAISE,
        *simple("CREATE TABLE t666 (i int)", "COMMIT"),
    ),
    lost("a block, COMMIT AND CHAIN", *simple("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT AND CHAIN"), RAISE, *simple(INSERT, "COMMIT")),
    lost(
        "a block, COMMIT AND CHAIN, SQLite's grammar",
        *simple("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT AND CHAIN"),
        RAISE,
        *simple(ONLY_SQLITE, "COMMIT"),
    ),
    lost(
        "a block, ROLLBACK AND CHAIN",
        *simple("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK AND CHAIN"),
        RAISE,
        *simple(INSERT, "SELECT * FROM nexter", "COMMIT"),
    ),
    lost(
        "two blocks in one pipeline",
        ("send", group("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT") + group("SELECT pg_sleep(2.5)") + group("BEGIN", INSERT, "COMMIT")),
        ("sleep", 0.2),
        RAISE,
        ("read", 3),
    ),
    lost(
        "one text with two blocks",
        ("send", query(f"BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT pg_sleep(2.5); BEGIN; {INSERT}; COMMIT")),
        ("sleep", 0.2),
        RAISE,
        ("read", 1),
    ),
    lost(
        "one text of several, COMMIT in it",
        ("send", query(f"INSERT INTO t VALUES (1); COMMIT; SELECT pg_sleep(2.5); {INSERT}")),
        ("sleep", 0.2),
        RAISE,
        ("read", 1),
    ),
    lost(
        "a statement prepared while the term held",
        parse("p", INSERT) + sync(),
        bind("", "p") + sync(),
        RAISE,
        bind("", "p") + execute() + sync(),
        query("EXECUTE p"),
    ),
    lost(
        "a statement prepared and described in a block",
        *simple("BEGIN"),
        parse("p", INSERT) + describe("S", "p") + sync(),
        RAISE,
        bind("", "p") + execute() + sync(),
        query("COMMIT"),
    ),
    lost(
        "a portal bound in a block",
        *simple("BEGIN", "SELECT * FROM t"),
        parse("", INSERT) + bind("p") + sync(),
        RAISE,
        execute("p") + sync(),
        query("COMMIT"),
    ),
    lost(
        "a read's name given to a write while the term held",
        parse("p", "SELECT 1") + sync(),
        *simple("DEALLOCATE p", f"PREPARE p AS {INSERT}"),
        RAISE,
        query("EXECUTE p"),
        bind("", "p") + execute() + sync(),
    ),
    lost(
        "a held cursor", *simple("BEGIN", "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t", "COMMIT"), RAISE, *simple("FETCH ALL c", INSERT)
    ),
    lost(
        "COPY in two halves",
        query("COPY t FROM STDIN") + copy_data("1\n") + copy_done(),
        RAISE,
        query("COPY t FROM STDIN") + copy_data("666\n") + copy_done(),
    ),
    lost(
        "VACUUM and ANALYZE between",
        *simple("INSERT INTO t VALUES (1)", "VACUUM", "ANALYZE"),
        RAISE,
        *simple("VACUUM", INSERT, f"ANALYZE; {INSERT}"),
    ),
    lost(
        "a hold of its own",
        *simple("SELECT * FROM termgate.hold_session('SCOPE', 5)", "INSERT INTO t VALUES (1)"),
        RAISE,
        *simple(INSERT, "SELECT termgate.release_session()", INSERT),
    ),
    lost(
        "a check of its own",
        *simple("SELECT termgate.check_term('SCOPE', 5)"),
        RAISE,
        *simple(INSERT, f"SELECT termgate.check_term('SCOPE', 5); {INSERT}"),
    ),
    lost("a check of its own in a block", *simple("BEGIN", "SELECT termgate.check_term('SCOPE', 5)"), RAISE, *simple(INSERT, "COMMIT")),
    # The raise of the other scope takes the write lock, which no other process gets while the block is open.
    Row(
        "a check of another scope in a block",
        *simple("BEGIN", "SELECT termgate.check_term('SCOPE', 5)", "SELECT termgate.check_term('OTHER', 5)"),
        RAISE,
        *simple(INSERT, "COMMIT"),
        by=("told",),
    ),
    lost(
        "its declaration is taken back",
        *simple("INSERT INTO t VALUES (1)", "SET termgate.term = ''"),
        RAISE,
        *both("SELECT * FROM nexter", INSERT),
    ),
    lost(
        "its declaration changes to another scope and back",
        *simple("BEGIN", "SELECT * FROM t", "SET termgate.scope = 'OTHER'"),
        RAISE,
        *simple("SET termgate.scope = 'SCOPE'", INSERT, "COMMIT"),
    ),
    lost(
        "an append that happened before",
        query("SELECT termgate_append('SCOPE', 5, x'00', NULL, NULL, 'WRITEID')"),
        RAISE,
        *simple("BEGIN", "SELECT termgate_append('SCOPE', 5, x'00', NULL, NULL, 'WRITEID')", INSERT, "COMMIT"),
    ),
    lost(
        "an error behind a flush, then ROLLBACK TO",
        *simple("BEGIN", "SAVEPOINT a", "SELECT * FROM t"),
        parse("", "SELECT nope") + bind() + execute() + flush(),
        ("sleep", 0.1),
        parse("", "COMMIT") + bind() + execute() + sync(),
        query("ROLLBACK TO a"),
        RAISE,
        *simple(INSERT, "COMMIT"),
    ),
]

# What random walks are made of besides the rows: pieces that end, begin and cross transactions, groups and names.
PIECES = [
    *simple(
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "RELEASE a",
        "BEGIN READ ONLY",
        "SELECT 1",
        "SELECT nope",
        "COMMIT AND CHAIN",
        "ROLLBACK AND CHAIN",
        "SELECT * FROM t",
    ),
    *(group(sql) for sql in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "SELECT * FROM t", "SELECT nope")),
    parse("p", INSERT),
    parse("", "SELECT 1"),
    parse("p", "SELECT 1"),
    bind("", "p"),
    bind(),
    bind("q", "p"),
    execute("q"),
    execute(),
    execute("", 1),
    sync(),
    sync(),
    flush(),
    close("S", "p"),
    close("P", "q"),
    describe("S", "p"),
    describe("P", "q"),
    parse("", "COMMIT"),
    parse("", "BEGIN"),
    parse("", INSERT),
    parse("", "COPY t FROM STDIN"),
    copy_done(),
    copy_data("666\n"),
    copy_fail("x"),
]


def letters(frames):
    """How many ReadyForQuery the frames of one step earn."""
    count, at = 0, 0
    while at < len(frames):
        count += chr(frames[at]) in "QSF"
        at += 1 + int.from_bytes(frames[at + 1 : at + 5], "big")
    return count


def named(frames, name, mark):
    """A name put into the texts of the frames, whose lengths change with it."""
    result, at = b"", 0
    while at < len(frames):
        size = int.from_bytes(frames[at + 1 : at + 5], "big")
        body = frames[at + 5 : at + 1 + size].replace(mark, name)
        result += frames[at : at + 1] + (len(body) + 4).to_bytes(4, "big") + body
        at += 1 + size
    return result


class Bench:
    def __init__(self, lab):
        self.lab, self.folder, self.scopes = lab, tempfile.mkdtemp(dir=lab.folder), 0
        self.path = f"{self.folder}/app.db"
        lab.run(lab.termgate, "init", "--db", f"sqlite:{self.path}")
        self.file = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        self.file.executescript(SCHEMA)
        lab.run(lab.termgate, "protect", "--db", f"sqlite:{self.path}", "kept", "--scope", "the kept one's")
        self.names = {name for (name,) in self.file.execute("SELECT name FROM sqlite_master")}
        self.proxy = lab.proxy(f"sqlite:{self.path}")

    def state(self):
        """What outlives a session: name -> content. Refusals are written to the audit, so it does not count;
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
            with Connection(
                self.proxy.port, user="me", database="app", parameters=[("options", f"-c termgate.scope={scope} -c termgate.term=9")]
            ) as newer:
                return newer.value(f"SELECT * FROM termgate.seal('{scope}', 9)")
        return self.lab.run(self.lab.termgate, "seal", "--db", f"sqlite:{self.path}", "--scope", scope, "--term", 9)

    def attack(self, row, by):
        """What got in: an empty list is what is wanted. And the conversation."""
        self.clean()
        self.scopes += 1
        scope, other = f"bypass.{self.scopes}", f"bypass.{self.scopes}b"
        start = [(name, value) for name, value in row.start if name != "options"]
        options = [value for name, value in row.start if name == "options"]
        if by in ("stale", "known"):
            self.seal(scope, by == "known")
        if by != "none":
            options.append(f"-c termgate.scope={scope} -c termgate.term=5")
        start += [("options", value) for value in options]
        before, told, client = self.state(), [], None
        try:
            client = Connection(self.proxy.port, user="me", database="app", parameters=start, wait=8)
            for step in row.steps:
                kind, what = step if isinstance(step, tuple) else ("both", step)
                if step is RAISE:
                    if "TG00" in str(told):
                        return ["void: refused before the fence was raised"], told
                    told.append(f"-- fence {self.seal(scope, by == 'told')}")
                elif kind == "sleep":
                    time.sleep(what)
                elif kind == "read":
                    told.append(client.until("Z", what))
                else:
                    for mark, name in (
                        (b"OTHER", other),
                        (b"SCOPE", scope),
                        (b"FOLDER", self.folder),
                        (b"WRITEID", str(uuid.UUID(int=self.scopes))),
                    ):
                        what = named(what, name.encode(), mark) if mark in what else what
                    client.send(what)
                    if kind == "both" and letters(what):
                        told.append(client.until("Z", letters(what)))
        except (Closed, Silent) as failure:
            told.append(f"{type(failure).__name__}: {failure.messages}")
            if isinstance(failure, Silent):
                return ["void: no answer"], told
        except OSError as failure:
            told.append(str(failure))
        if client is not None:
            client.end()
        time.sleep(0.01)
        after = self.state()
        if by in ("lost", "told"):
            return [
                f"{name}: {content}"
                for name, content in after.items()
                if (
                    "termgate" not in name
                    and "666" in str(content)
                    and name != "trigger watched_insert"
                    and name != "trigger instead_insert"
                )
                or "666" in name
            ], told
        got_in = [f"{name}: {before.get(name)} → {after.get(name)}" for name in {**before, **after} if before.get(name) != after.get(name)]
        if by == "current":
            # Its own scope it may raise, and the application's tables are what it may write.
            got_in = [each for each in got_in if "termgate" in each.split(":")[0] or each.startswith(("PRAGMA", "files", "rows of kept"))]
        may_raise = (scope, other, "new") if by == "current" else row.raises
        if self.only_raised(before, after, may_raise):
            got_in = [each for each in got_in if not each.startswith("rows of termgate_fences")]
        return got_in, told

    @staticmethod
    def only_raised(before, after, scopes):
        was, now = ({fence[0]: fence[1:] for fence in state.get("rows of termgate_fences", ())} for state in (before, after))
        return all(
            now.get(scope) == fence or (scope in scopes and scope in now and now[scope][0] >= fence[0]) for scope, fence in was.items()
        ) and all(scope in was or scope in scopes for scope in now)


def walk(bench, seconds, seed):
    """Messages of all rows in any order, pipelined or not, by sessions without a term and with a stale one: nothing of it may change the
    file."""
    bench.clean()
    # Not those that declare, by a comment or a call of the check, what they have every right to.
    told = [
        step[1] if isinstance(step, tuple) else step
        for row in ROWS
        for step in row.steps
        if step is not RAISE and not (isinstance(step, tuple) and step[0] != "send")
    ]
    frames = [
        each
        for each in told
        if len(each) < 100_000
        and not any(
            word in each for word in (b"termgate.scope", b"termgate.term", b"check_term", b"hold_session", b"termgate.seal", b"pg_sleep")
        )
    ]
    bench.seal("walked", False)
    before, until, walks, chance = bench.state(), time.monotonic() + seconds, 0, random.Random(seed)
    while time.monotonic() < until:
        walks += 1
        said = []
        try:
            start = chance.choice(([], [("options", "-c termgate.scope=walked -c termgate.term=5")]))
            with Connection(bench.proxy.port, user="me", database="app", parameters=start, wait=5) as client:
                for _ in range(chance.randrange(3, 25)):
                    said.append(
                        b"".join(chance.choice(PIECES if chance.random() < 0.6 else frames) for _ in range(chance.choice((1, 1, 2))))
                    )
                    client.send(said[-1])
                    try:
                        while chance.random() < 0.8:
                            client.read(0.005)
                    except Silent:
                        pass
                client.send(sync(), copy_fail("x"), sync(), query("ROLLBACK"))
                try:
                    while True:
                        client.read(0.05)
                except Silent:
                    pass
        except (Closed, OSError):
            pass
        after = bench.state()
        if after != before:
            return walks, {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}, said
    return walks, None, []


TABLE = {line[2:].split(" | ")[0] for line in DOCUMENT.read_text().split("## Ways past it")[-1].splitlines() if line.startswith("| ")}


class Benches:
    """The file that is attacked, until something has got in: nothing more can be said of it then, and another takes its place."""

    def __init__(self, lab):
        self.lab, self.tried, self.now = lab, 0, Bench(lab)

    def attack(self, row, by):
        self.tried += 1
        used = self.now
        got_in, told = used.attack(row, by)
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
    assert TABLE - {"attempt", "---"} == set(names), "docs/use/sqlite-proxy.md and the rows here"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_nothing_gets_in_by(row, benches):
    for by in row.by:
        got_in, told = benches.attack(row, by)
        check(f"{by:7}  {row.name}", not got_in, str(got_in)[:2000])
        if got_in or given.option("show"):
            lines = [f"{'GOT IN' if got_in else 'closed'}  {by:7}  {row.name}: {str(got_in)[:2000]}"]
            (print if got_in else note)("\n".join(lines + [f"        {str(answer)[:400]}" for answer in told]))


def test_a_random_walk_changes_nothing(benches):
    seed = given.option("seed", int(time.time()))
    walks, got_in, said = walk(benches.now, 40 if given.LONG else 8, seed)
    note(f"{walks} walks, seed {seed}")
    if not check(f"a random walk changes nothing, seed {seed}", got_in is None and walks > 5, got_in):
        print(*said, sep="\n        ")


def test_the_file_is_whole_and_the_proxy_goes_on(benches):
    check("the file is whole", benches.now.file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    check("the proxy goes on", benches.now.proxy.process.poll() is None)
