#!/usr/bin/env python3
# Long: a table, one row for each script.
"""[F7] The same bytes, sent to the server and sent through the proxy by a session with a valid term, bring back the same messages.

  pytest tests/live/proxy/proxy_difference_test.py [--majors 13,18] [--show] [--chunk N] [-k 'a part of a name']

Each script runs in a fresh copy of the schema, once directly and once through the proxy; both sessions declare the
same in PGOPTIONS. Compared are types and contents of all messages, in order, and what the tables hold afterwards. Not
compared: BackendKeyData, where in its source a server raised an error, OIDs of what was made here, process ids in
notifications. Malformed frames end a connection (contract, section 8) and are not in here. --chunk N sends N bytes at
a time.
"""
import socket
import struct
import time

import pytest

import given
from checks import eventually, note
from pgraw import (
    Closed,
    Connection,
    Silent,
    bind,
    cancel_request,
    close,
    copy_data,
    copy_done,
    copy_fail,
    describe,
    execute,
    extended,
    flush,
    function_call,
    parse,
    query,
    sync,
    terminate,
)
from proxy_under_test import Server, proxy

SCHEMA = """
DROP SCHEMA IF EXISTS diff CASCADE;
CREATE SCHEMA diff;
CREATE TABLE diff.t (id int PRIMARY KEY, v text DEFAULT 'none', n numeric);
CREATE TABLE diff.child (id int PRIMARY KEY, t int REFERENCES diff.t DEFERRABLE INITIALLY DEFERRED);
INSERT INTO diff.t SELECT i, 'row ' || i, i * 1.5 FROM generate_series(1, 10) i;
CREATE SEQUENCE diff.s;
CREATE FUNCTION diff.noisy(v int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'noisy %', v; RAISE WARNING 'loud %', v; RETURN v;
  END$$;
CREATE FUNCTION diff.writes(v int) RETURNS int LANGUAGE plpgsql AS $$BEGIN INSERT INTO diff.t VALUES (v); RAISE NOTICE 'wrote %', v;
  RETURN v; END$$;
CREATE FUNCTION diff.fails() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'on purpose' USING DETAIL = 'detail', HINT = 'hint',
  ERRCODE = 'ZZ001'; END$$;
CREATE PROCEDURE diff.commits() LANGUAGE plpgsql AS $$BEGIN INSERT INTO diff.t VALUES (501); COMMIT; INSERT INTO diff.t VALUES (502); END$$;
CREATE PROCEDURE diff.plain(INOUT v int) LANGUAGE plpgsql AS $$BEGIN INSERT INTO diff.t VALUES (v); v := v + 1; END$$;
"""
STATE = (
    "SELECT (SELECT string_agg(concat_ws(':', id, v, n), ',' ORDER BY id) FROM diff.t) || ' | ' || (SELECT count(*) FROM diff.child) || ' |"
    " ' || (SELECT count(*) FROM pg_class WHERE relnamespace = 'diff'::regnamespace) || ' | ' || (SELECT count(*) FROM pg_prepared_xacts)"
)


def q(*texts):
    """Simple queries; of one text several with | between them."""
    return [query(one) for text in texts for one in text.split(" | ")]


def e(sql, values=(), **more):
    return extended(sql, values, **more) + sync()


def es(text):
    return [e(one) for one in text.split(" | ")]


def pbe(*statements):
    return b"".join(parse("", sql) + bind() + execute() for sql in statements)


INS = "INSERT INTO diff.t VALUES (100, 'new', 1) RETURNING id, v"
BAD = "INSERT INTO diff.t VALUES (1)"
COPY_IN = "COPY diff.t (id, v) FROM STDIN"
LINES = copy_data("101\tone\n") + copy_data("102\ttwo\n")
# name: steps. Bytes are sent, and every ReadyForQuery that they earn is read. (bytes, types, count): read up to so many of these types,
# one where no count is given, nothing where no type is. ("read", types): read that far. ("wait", seconds); ("cancel",); ("other", sql): by
# a third session, directly.
SCRIPTS = {
    "simple select": q("SELECT * FROM diff.t ORDER BY id", "SELECT 1 AS a, NULL AS b, 'x' AS c", "VALUES (1, 2), (3, 4)", "TABLE diff.t"),
    "simple writes": q(
        "INSERT INTO diff.t VALUES (100)",
        INS.replace("100", "101"),
        "UPDATE diff.t SET v = 'u' WHERE id < 3 RETURNING * | DELETE FROM diff.t WHERE id = 3 | INSERT INTO diff.t SELECT 200 WHERE false",
    ),
    "simple errors": q(
        (
            f"SELEC 1 | SELECT * FROM diff.missing | {BAD} | SELECT 1/0 | SELECT diff.fails() | INSERT INTO diff.t VALUES ('x') | INSERT"
            " INTO diff.t (nothing) VALUES (1)"
        ),
        "   INSERT INTO diff.t VALUES (1, missing)",
        "SELECT 'é', missing",
    ),
    "a WITH that writes and fails": q(
        "WITH x AS (INSERT INTO diff.t VALUES (1) RETURNING id) SELECT * FROM x",
        "WITH x AS (SELECT 1 AS i) INSERT INTO diff.t SELECT i FROM x RETURNING id",
        "WITH x AS (SELECT 0 AS i) UPDATE diff.t SET n = 1 / i FROM x RETURNING id",
        "WITH x AS (SELECT 1 AS i), y AS MATERIALIZED (DELETE FROM diff.t RETURNING id) SELECT 1 / (id - i) FROM x, y",
        "(WITH x AS (UPDATE diff.t SET id = 1 RETURNING id) SELECT * FROM x)",
        "WITH x AS (SELECT 1 AS i) SELECT 1 / (id - i) FROM x, diff.t FOR UPDATE OF t",
        "WITH x AS (SELECT 1 AS insert, 2 AS update, 3 AS delete) SELECT 1 / (insert - 1), update, delete FROM x, diff.t",
    ),
    "simple errors in long texts": q(
        "SELECT /* " + "é" * 300 + " */ missing",
        "INSERT INTO diff.t /* " + "é" * 300 + " */ VALUES (missing)",
        "SELECT 1; INSERT INTO diff.t VALUES (110); SELECT 'é', missing; SELECT 2",
    ),
    "empty queries": q("", ";", " ; ; ", "-- nothing", "/* nothing */"),
    "empty queries, extended": [e(""), e("-- nothing"), parse("", "") + describe("S") + sync()],
    "several statements": q(
        "SELECT 1; SELECT 2",
        "INSERT INTO diff.t VALUES (110); SELECT count(*) FROM diff.t; UPDATE diff.t SET n = 0 WHERE id = 110",
        "SELECT 1;; SELECT 2;",
    ),
    "several statements, one fails": q(
        "INSERT INTO diff.t VALUES (110); SELECT 1/0; INSERT INTO diff.t VALUES (111)",
        f"SELECT 1; {BAD} | SELECT 1; SELEC 2",
        "INSERT INTO diff.t VALUES (112); INSERT INTO diff.t VALUES (missing)",
    ),
    "several statements with transaction control": q(
        "BEGIN; INSERT INTO diff.t VALUES (110); COMMIT",
        "BEGIN; INSERT INTO diff.t VALUES (111); ROLLBACK; SELECT 1",
        "INSERT INTO diff.t VALUES (112); COMMIT; INSERT INTO diff.t VALUES (113)",
        "INSERT INTO diff.t VALUES (114); ROLLBACK; INSERT INTO diff.t VALUES (115)",
        "INSERT INTO diff.t VALUES (116); BEGIN; INSERT INTO diff.t VALUES (117)",
        "ROLLBACK",
    ),
    "several statements with savepoints": q(
        "INSERT INTO diff.t VALUES (110); SAVEPOINT a; INSERT INTO diff.t VALUES (111)",
        "BEGIN; SAVEPOINT a; INSERT INTO diff.t VALUES (112); ROLLBACK TO a; INSERT INTO diff.t VALUES (113); RELEASE a; COMMIT",
        "INSERT INTO diff.t VALUES (114); ROLLBACK TO a | INSERT INTO diff.t VALUES (115); RELEASE a",
    ),
    "several statements with LOCK and DECLARE": q(
        "INSERT INTO diff.t VALUES (110); LOCK TABLE diff.t; SELECT 1",
        "INSERT INTO diff.t VALUES (111); DECLARE c CURSOR FOR SELECT 1; FETCH c",
        "SET LOCAL work_mem = '5MB'; INSERT INTO diff.t VALUES (112); SHOW work_mem",
        "SHOW work_mem",
    ),
    "several statements with AND CHAIN": q(
        "INSERT INTO diff.t VALUES (110); COMMIT AND CHAIN",
        "BEGIN; INSERT INTO diff.t VALUES (111); COMMIT AND CHAIN; INSERT INTO diff.t VALUES (112)",
        "ROLLBACK",
    ),
    "several statements with PREPARE TRANSACTION": q(
        "INSERT INTO diff.t VALUES (110); PREPARE TRANSACTION 'diff'",
        "BEGIN; INSERT INTO diff.t VALUES (111); PREPARE TRANSACTION 'diff'; ROLLBACK PREPARED 'diff'",
        "ROLLBACK PREPARED 'diff'",
    ),
    "several statements with isolation": q(
        "INSERT INTO diff.t VALUES (110); BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1",
        "ROLLBACK",
        "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; INSERT INTO diff.t VALUES (111); SHOW transaction_isolation; COMMIT",
    ),
    "several statements with VACUUM": q("SELECT 1; VACUUM diff.t", "INSERT INTO diff.t VALUES (110); VACUUM diff.t"),
    "transactions": q(
        f"BEGIN | {INS} | SELECT count(*) FROM diff.t | COMMIT | BEGIN | {BAD} | SELECT 1 | COMMIT | ROLLBACK | COMMIT | START TRANSACTION"
        " | BEGIN | ABORT | END"
    ),
    "transaction modes": q(
        "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE, DEFERRABLE",
        (
            f"SHOW transaction_isolation | SHOW transaction_read_only | {INS} | COMMIT | BEGIN READ ONLY | SHOW transaction_read_only |"
            f" {BAD} | ROLLBACK | BEGIN | SET TRANSACTION READ ONLY | SELECT 1 | INSERT INTO diff.t VALUES (120) | ROLLBACK | BEGIN |"
            " SELECT 1 | SET TRANSACTION ISOLATION LEVEL SERIALIZABLE | ROLLBACK | SET TRANSACTION READ WRITE | BEGIN READ WRITE | INSERT"
            " INTO diff.t VALUES (121) | COMMIT"
        ),
    ),
    "read-only by default": q(
        "SET default_transaction_read_only = on | SHOW default_transaction_read_only | SHOW transaction_read_only | INSERT INTO diff.t"
        " VALUES (120) | BEGIN | INSERT INTO diff.t VALUES (121) | ROLLBACK | BEGIN READ WRITE | INSERT INTO diff.t VALUES (122) | COMMIT |"
        " SELECT diff.writes(123) | RESET default_transaction_read_only | INSERT INTO diff.t VALUES (124) | SHOW"
        " default_transaction_read_only"
    ),
    "read-only by default, extended": es(
        "SET default_transaction_read_only = on | INSERT INTO diff.t VALUES (120) | SHOW transaction_read_only | SET SESSION"
        " CHARACTERISTICS AS TRANSACTION READ WRITE | INSERT INTO diff.t VALUES (121)"
    ),
    "read-only settings as a SELECT sees them": q(
        "SELECT current_setting('transaction_read_only') | BEGIN | SELECT current_setting('transaction_read_only') | INSERT INTO diff.t"
        " VALUES (120) | SELECT current_setting('transaction_read_only') | COMMIT"
    ),
    "chains": q(
        f"BEGIN | {INS} | COMMIT AND CHAIN | INSERT INTO diff.t VALUES (120) | ROLLBACK AND CHAIN | INSERT INTO diff.t VALUES (121) |"
        " COMMIT | COMMIT AND CHAIN | BEGIN ISOLATION LEVEL REPEATABLE READ | COMMIT AND CHAIN | SHOW transaction_isolation | COMMIT"
    ),
    "savepoints": q(
        f"BEGIN | SAVEPOINT a | {INS} | SAVEPOINT b | {BAD} | SELECT 1 | ROLLBACK TO b | INSERT INTO diff.t VALUES (120) | ROLLBACK TO a |"
        " INSERT INTO diff.t VALUES (121) | RELEASE a | RELEASE a | ROLLBACK | SAVEPOINT x | ROLLBACK TO x"
    ),
    "savepoints, extended": es(f"BEGIN | SAVEPOINT a | {INS} | {BAD} | ROLLBACK TO a | INSERT INTO diff.t VALUES (120) | COMMIT"),
    "extended select": [e("SELECT * FROM diff.t WHERE id < $1 ORDER BY id", ["4"]), e("SELECT $1::int + 1, $2::text", ["4", None])],
    "extended writes": [
        e("INSERT INTO diff.t VALUES ($1, $2, 1.5) RETURNING *", ["100", "x"]),
        e("UPDATE diff.t SET v = $1", ["y"]),
        e("DELETE FROM diff.t WHERE id = $1 RETURNING v", ["100"]),
        e("INSERT INTO diff.t VALUES ($1)", ["1"]),
    ],
    "extended errors at each message": [
        parse("", "SELEC 1") + bind() + describe("P") + execute() + sync(),
        parse("", "SELECT $1::int") + bind("", "", ["x"]) + execute() + sync(),
        parse("", "SELECT 1") + bind("", "", ["x"]) + sync(),
        bind("", "missing") + execute() + sync(),
        describe("S", "missing") + sync(),
        describe("P", "missing") + sync(),
        execute("missing") + sync(),
        parse("", "SELECT 1/0") + bind() + execute() + sync(),
        parse("", BAD) + bind() + execute() + sync(),
        parse("", "SELECT 1; SELECT 2") + bind() + execute() + sync(),
        close("S", "missing") + close("P", "missing") + sync(),
    ],
    "extended errors at each message of a write": [
        parse("", "INSERT INTO diff.t VALUES (missing)") + bind() + describe("P") + execute() + sync(),
        parse("", "INSERT INTO diff.t VALUES ($1)") + bind("", "", ["x"]) + execute() + sync(),
        parse("", "INSERT INTO diff.t VALUES ($1)") + bind() + execute() + sync(),
        parse("", "INSERT INTO diff.t VALUES (200); SELECT 1") + bind() + execute() + sync(),
        parse("", INS) + bind() + execute("other") + sync(),
    ],
    "extended errors in a block": [
        e("BEGIN"),
        parse("", "SELECT 1/0") + bind() + execute() + sync(),
        *es(f"SELECT 1 | {INS} | ROLLBACK | BEGIN | {INS}"),
        parse("", "SELECT 1/0") + bind() + execute() + parse("", "SELECT 2") + bind() + execute() + sync(),
        e("COMMIT"),
    ],
    "nothing but Sync and Flush": [sync(), sync() + sync(), flush() + sync(), (flush(), ""), sync()],
    "statement reuse": [
        parse("s", "SELECT * FROM diff.t WHERE id = $1", (23,)) + describe("S", "s") + sync(),
        bind("", "s", ["1"]) + execute() + sync(),
        bind("", "s", ["2"]) + describe("P") + execute() + sync(),
        parse("s", "SELECT 1") + sync(),
        close("S", "s") + sync(),
        bind("", "s", ["1"]) + sync(),
    ],
    "statement reuse, writes": [
        parse("s", "INSERT INTO diff.t VALUES ($1, $2)") + describe("S", "s") + sync(),
        bind("", "s", ["100", "a"]) + execute() + sync(),
        bind("", "s", ["101", "b"]) + execute() + bind("", "s", ["102", "c"]) + execute() + sync(),
        bind("", "s", ["100", "a"]) + execute() + sync(),
        query("EXECUTE s(103, 'd')"),
        query("DEALLOCATE s"),
        bind("", "s", ["1", "a"]) + sync(),
    ],
    "the unnamed statement over Syncs": [
        parse("", "INSERT INTO diff.t VALUES ($1) RETURNING id") + describe("S") + sync(),
        bind("", "", ["100"]) + execute() + sync(),
        bind("", "", ["101"]) + execute() + sync(),
        query("SELECT 1"),
        bind("", "", ["102"]) + execute() + sync(),
    ],
    "the unnamed statement behind a simple write": [
        parse("", "SELECT 7") + sync(),
        query("INSERT INTO diff.t VALUES (100)"),
        bind() + execute() + sync(),
    ],
    "binary formats": [
        parse("", "SELECT $1::int4, $2::text, $3::bytea", (23, 25, 17))
        + bind("", "", [struct.pack("!i", 7), "x", b"\0\1"], (1, 0, 1), (1,))
        + describe("P")
        + execute()
        + sync(),
        parse("", "INSERT INTO diff.t VALUES ($1, $2) RETURNING id, v, n", (23, 25))
        + bind("", "", [struct.pack("!i", 100), "x"], (1, 0), (1, 0, 1))
        + describe("P")
        + execute()
        + sync(),
    ],
    "pipelined reads": [e("SELECT 1") + e("SELECT 2") + e("SELECT 3")],
    "pipelined writes": [
        e("INSERT INTO diff.t VALUES (100)") + e("INSERT INTO diff.t VALUES (101)") + e(BAD) + e("INSERT INTO diff.t VALUES (102)")
    ],
    "pipelined reads and writes": [
        e("SELECT count(*) FROM diff.t")
        + e(INS)
        + e("SELECT count(*) FROM diff.t")
        + e("DELETE FROM diff.t WHERE id = 100")
        + e("SELECT 1/0")
        + e("SELECT count(*) FROM diff.t")
    ],
    "one group, reads then a write": [pbe("SELECT 1", "SELECT count(*) FROM diff.t", INS, "SELECT count(*) FROM diff.t") + sync()],
    "one group, a write that fails last": [pbe(INS, "SELECT 1", BAD, "SELECT 2") + sync()],
    "one group, a write that fails first": [pbe(BAD, "SELECT 1", INS) + sync(), e("SELECT 5")],
    "one group with a block": [
        pbe("BEGIN", INS, "COMMIT") + sync(),
        pbe("SELECT 1", "BEGIN", "SELECT 2", "INSERT INTO diff.t VALUES (101)", "ROLLBACK", "INSERT INTO diff.t VALUES (102)") + sync(),
        pbe("BEGIN", "SELECT 1/0", "ROLLBACK") + sync(),
        e("ROLLBACK"),
    ],
    "one group that leaves a block open": [
        pbe("BEGIN", INS) + sync(),
        query("INSERT INTO diff.t VALUES (101)"),
        pbe("INSERT INTO diff.t VALUES (102)", "COMMIT", "INSERT INTO diff.t VALUES (103)") + sync(),
    ],
    "one group with COMMIT in an implicit block": [
        pbe(INS, "COMMIT", "INSERT INTO diff.t VALUES (101)") + sync(),
        pbe("SELECT 1", "COMMIT", "INSERT INTO diff.t VALUES (102)", "ROLLBACK", "INSERT INTO diff.t VALUES (103)") + sync(),
    ],
    "one group, a write then BEGIN": [pbe(INS, "BEGIN", "INSERT INTO diff.t VALUES (101)") + sync(), query("ROLLBACK")],
    "one group with SET and a write": [
        pbe("SET work_mem = '5MB'", INS, "SHOW work_mem") + sync(),
        pbe("SET LOCAL work_mem = '6MB'", "INSERT INTO diff.t VALUES (101)", "SHOW work_mem") + sync(),
    ],
    "blocks in a pipeline": [
        e("BEGIN") + e(INS) + e("COMMIT") + e("BEGIN") + e("SELECT 1/0") + e("SELECT 1") + e("ROLLBACK") + e("SELECT count(*) FROM diff.t")
    ],
    "simple queries in a pipeline": [
        query("BEGIN")
        + query(INS)
        + query("SELECT 1/0")
        + query("COMMIT")
        + query("INSERT INTO diff.t VALUES (101)")
        + query("SELECT count(*) FROM diff.t")
    ],
    "simple and extended in a pipeline": [
        query("INSERT INTO diff.t VALUES (101)")
        + e(INS)
        + query("SELECT count(*) FROM diff.t")
        + e("SELECT 1")
        + query("BEGIN")
        + e("INSERT INTO diff.t VALUES (102)")
        + query("COMMIT")
    ],
    "Flush behind each message of a read": [
        (parse("", "SELECT * FROM diff.t ORDER BY id") + flush(), "1"),
        (describe("S") + flush(), "T"),
        (bind() + flush(), "2"),
        (execute() + flush(), "C"),
        sync(),
    ],
    "Flush behind each message of a write": [
        (parse("", "INSERT INTO diff.t VALUES ($1) RETURNING id") + flush(), "1"),
        (describe("S") + flush(), "T"),
        (bind("", "", ["100"]) + flush(), "2"),
        (execute() + flush(), "C"),
        sync(),
    ],
    "Flush, then the rest": [
        (parse("", INS) + describe("S") + flush(), "T"),
        bind() + execute() + sync(),
        (parse("", "SELECT 1") + describe("S") + flush(), "T"),
        bind() + execute() + sync(),
    ],
    "Flush between a read and a write": [(pbe("SELECT 1") + flush(), "C"), pbe(INS) + sync()],
    "Flush between a write and a read": [(pbe(INS) + flush(), "C"), pbe("SELECT count(*) FROM diff.t") + sync()],
    "an error behind a Flush, then more": [
        (pbe("SELECT 1/0") + flush(), "E"),
        (pbe("SELECT 1") + flush(), ""),
        ("wait", 0.1),
        pbe(INS) + sync(),
        e("SELECT 1"),
    ],
    "an error behind a Flush in a block, then more": [
        query("BEGIN"),
        (pbe(INS, "SELECT 1/0") + flush(), "E"),
        ("wait", 0.1),
        pbe("SELECT 1") + sync(),
        query("ROLLBACK"),
    ],
    "an error of a write behind a Flush, then more": [
        (pbe(BAD) + flush(), "E"),
        pbe("SELECT 1", INS) + describe("S", "x") + close("S", "x") + sync(),
        e("SELECT 1"),
    ],
    "an error, the rest later": [
        (pbe("SELECT 1/0"), ""),
        ("wait", 0.1),
        (pbe("SELECT 1"), ""),
        ("wait", 0.1),
        sync(),
        query("BEGIN"),
        (pbe("SELECT 1/0"), ""),
        ("wait", 0.1),
        pbe("SELECT 1") + sync(),
        query("ROLLBACK"),
    ],
    "portals with row limits": [
        query("BEGIN"),
        parse("", "SELECT id FROM diff.t ORDER BY id") + bind("p") + describe("P", "p") + execute("p", 3) + sync(),
        execute("p", 3) + execute("p", 1) + sync(),
        query("INSERT INTO diff.t VALUES (100)"),
        execute("p", 0) + execute("p", 0) + close("P", "p") + sync(),
        execute("p") + sync(),
        query("COMMIT"),
    ],
    "the unnamed portal over a Sync in a block": [
        query("BEGIN"),
        parse("", "SELECT id FROM diff.t ORDER BY id") + bind() + execute("", 3) + sync(),
        execute("", 2) + sync(),
        parse("s", INS) + bind("w", "s") + execute("w") + sync(),
        execute("", 2) + sync(),
        query("COMMIT"),
    ],
    "portals with row limits in one group": [
        parse("", "SELECT id FROM diff.t ORDER BY id")
        + bind("p")
        + execute("p", 3)
        + execute("p", 3)
        + pbe(INS)
        + execute("p", 2)
        + sync(),
        execute("p", 1) + sync(),
    ],
    "a write's portal with a row limit": [
        parse("", "INSERT INTO diff.t SELECT i FROM generate_series(100, 105) i RETURNING id")
        + bind("p")
        + execute("p", 2)
        + execute("p", 2)
        + execute("p", 0)
        + sync()
    ],
    "cursors": q(
        "BEGIN | DECLARE c CURSOR FOR SELECT id FROM diff.t ORDER BY id | FETCH 2 FROM c | INSERT INTO diff.t VALUES (100) | FETCH 2 FROM c"
        " | MOVE 1 FROM c | FETCH ALL c | CLOSE c | FETCH c | ROLLBACK"
    ),
    "cursors WITH HOLD and WHERE CURRENT OF": q(
        "DECLARE h CURSOR WITH HOLD FOR SELECT id FROM diff.t ORDER BY id",
        "FETCH 1 FROM h | INSERT INTO diff.t VALUES (100) | FETCH ALL h | CLOSE h | BEGIN",
        "DECLARE c CURSOR FOR SELECT * FROM diff.t WHERE id = 1 FOR UPDATE",
        "FETCH c | UPDATE diff.t SET v = 'here' WHERE CURRENT OF c | COMMIT | DECLARE x CURSOR FOR SELECT 1",
    ),
    "COPY in": [(query(COPY_IN), "G"), (LINES + copy_done(), "Z")],
    "COPY in, all at once": [(query(COPY_IN) + LINES + copy_done(), "Z")],
    "COPY in, all at once, in a block": [query("BEGIN"), (query(COPY_IN) + LINES + copy_done(), "Z"), query("COMMIT")],
    "COPY in, all at once, and another query": [(query(COPY_IN) + LINES + copy_done() + query("SELECT count(*) FROM diff.t"), "Z", 2)],
    "COPY in that fails": [
        (query(COPY_IN), "G"),
        (copy_data("x\ty\n") + LINES + copy_done(), "Z"),
        (query(COPY_IN), "G"),
        (LINES + copy_fail("no more"), "Z"),
        query("SELECT 1"),
    ],
    "COPY in that fails while data flows": [
        (query(COPY_IN), "G"),
        (copy_data("x\ty\n"), ""),
        ("wait", 0.1),
        (LINES, ""),
        ("wait", 0.1),
        (copy_done(), "Z"),
        query("SELECT 1"),
    ],
    "COPY in that fails before it begins": [
        query("COPY diff.missing FROM STDIN"),
        query("COPY diff.t FROM STDIN (FORMAT nonsense)"),
        (query("COPY diff.missing FROM STDIN") + LINES + copy_done(), "Z"),
        query("SELECT 1"),
    ],
    "COPY in, extended": [(parse("", COPY_IN) + bind() + describe("P") + execute() + flush(), "G"), LINES + copy_done() + sync()],
    "COPY in, extended, with the Sync sent before the data": [
        (parse("", COPY_IN) + bind() + execute() + sync(), "G"),
        LINES + copy_done() + sync(),
        query("SELECT 1"),
    ],
    "COPY in, extended, all at once": [parse("", COPY_IN) + bind() + execute() + LINES + copy_done() + sync()],
    "COPY in, extended, that fails": [
        (parse("", COPY_IN) + bind() + execute() + flush(), "G"),
        LINES + copy_fail("no more") + sync(),
        (parse("", COPY_IN) + bind() + execute() + flush(), "G"),
        copy_data("x\n") + copy_done() + sync(),
        query("SELECT 1"),
    ],
    "COPY in, several in one text": [
        (query(COPY_IN + "; SELECT 1; " + COPY_IN), "G"),
        (copy_data("101\ta\n") + copy_done(), "G"),
        (copy_data("102\ta\n") + copy_done(), "Z"),
    ],
    "COPY in, binary": [
        (query("COPY diff.t (id) FROM STDIN (FORMAT binary)"), "G"),
        (
            copy_data(b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0) + struct.pack("!hii", 1, 4, 100) + struct.pack("!h", -1))
            + copy_done(),
            "Z",
        ),
    ],
    "COPY in, much": [(query(COPY_IN), "G"), (b"".join(copy_data(f"{i}\t{'x' * 500}\n") for i in range(1000, 6000)) + copy_done(), "Z")],
    "COPY out": q(
        "COPY diff.t TO STDOUT",
        "COPY (SELECT id FROM diff.t ORDER BY id) TO STDOUT (FORMAT csv, HEADER)",
        "COPY diff.missing TO STDOUT | COPY (SELECT 1/(5-id) FROM diff.t ORDER BY id) TO STDOUT",
        "COPY (INSERT INTO diff.t VALUES (100) RETURNING id) TO STDOUT",
    ) + [e("COPY diff.t TO STDOUT"), e("COPY (SELECT 1) TO STDOUT (FORMAT binary)")],
    "a query in the middle of COPY": [(query(COPY_IN), "G"), (query("SELECT 1"), "Z"), query("SELECT 2")],
    "notices": q(
        "SELECT diff.noisy(1) | DO $$ BEGIN RAISE NOTICE 'do'; END $$ | SELECT diff.writes(100) | CREATE TABLE IF NOT EXISTS diff.t (i int)"
        " | DROP TABLE IF EXISTS diff.missing | SET client_min_messages = error | SELECT diff.noisy(2)"
    ) + [e("SELECT diff.noisy(3)"), e("SELECT diff.writes(101)")],
    "a function that writes, again and again": q(
        "SELECT diff.writes(100) | SELECT diff.writes(101) | SELECT diff.writes(1) | SELECT diff.writes(i) FROM generate_series(102, 104) i"
    ) + [
        e("SELECT diff.writes($1)", ["105"]),
        e("SELECT diff.writes($1)", ["106"]),
        e("SELECT 1") + e("SELECT diff.writes(107)") + e("SELECT 2"),
    ],
    "a function that writes, pipelined with others": [
        pbe("SELECT 1", "SELECT diff.writes(100)", "SELECT 2") + sync(),
        pbe("SELECT 1", "SELECT nextval('diff.s')", "SELECT currval('diff.s')") + sync(),
    ],
    "a function that writes, row by row": q("SELECT CASE WHEN i > 3 THEN diff.writes(i + 100) ELSE i END FROM generate_series(1, 5) i"),
    "LISTEN and NOTIFY": q(
        "LISTEN diff | NOTIFY diff, 'self' | SELECT pg_notify('diff', 'function') | BEGIN | NOTIFY diff, 'block' | NOTIFY diff, 'block 2' |"
        " COMMIT"
    ) + [("other", "NOTIFY diff, 'other'"), ("read", "A"), query("UNLISTEN diff"), ("other", "NOTIFY diff, 'unheard'"), query("SELECT 1")],
    "DDL": q(
        "CREATE TABLE diff.new (id serial PRIMARY KEY, v text) | ALTER TABLE diff.new ADD COLUMN w int | CREATE INDEX ON diff.new (v) |"
        " COMMENT ON TABLE diff.new IS 'x' | TRUNCATE diff.new | DROP TABLE diff.new | CREATE TABLE diff.as AS SELECT * FROM diff.t |"
        " SELECT * INTO diff.into FROM diff.t | CREATE TEMP TABLE tmp (i int) | INSERT INTO tmp VALUES (1) | SELECT * FROM tmp"
    ),
    "what must run alone": q(
        "VACUUM diff.t | VACUUM ANALYZE diff.t | CREATE INDEX CONCURRENTLY i ON diff.t (v) | REINDEX TABLE CONCURRENTLY diff.t | DROP INDEX"
        " CONCURRENTLY diff.i | REINDEX TABLE diff.t | CLUSTER diff.t USING t_pkey | BEGIN | VACUUM diff.t | ROLLBACK | VACUUM diff.missing"
    ) + [e("VACUUM diff.t"), e("CREATE INDEX CONCURRENTLY ON diff.t (n)")],
    "CALL and DO": q(
        "CALL diff.plain(100) | CALL diff.commits()",
        "DO $$ BEGIN INSERT INTO diff.t VALUES (110); COMMIT; INSERT INTO diff.t VALUES (111); END $$",
        (
            "DO $$ BEGIN RAISE EXCEPTION 'x'; END $$ | BEGIN | CALL diff.commits() | ROLLBACK | BEGIN | CALL diff.plain(120) | COMMIT |"
            " CALL diff.missing()"
        ),
    ) + [e("CALL diff.plain($1)", ["130"]), e("DO $$ BEGIN PERFORM 1; END $$")],
    "SET and SHOW": q(
        "SET work_mem = '5MB' | SHOW work_mem | RESET work_mem | SET nonsense = 1 | SET my.setting = 'x' | SHOW my.setting",
        "SET application_name = 'diff' | SET TimeZone = 'UTC' | RESET ALL | SET client_encoding = 'LATIN1' | SELECT 'x'",
        f"SET DateStyle = 'German' | DISCARD ALL | SELECT 1 | {INS} | SET search_path = diff | SELECT count(*) FROM t",
        "SET LOCAL work_mem = '5MB'",
    ),
    "SET in blocks": q(
        f"BEGIN | SET work_mem = '5MB' | ROLLBACK | SHOW work_mem | BEGIN | SET LOCAL work_mem = '6MB' | {INS} | SHOW work_mem | COMMIT |"
        " SHOW work_mem | SELECT set_config('work_mem', '7MB', false) | SHOW work_mem"
    ),
    "SQL prepared statements": q(
        "PREPARE r AS SELECT 1",
        "PREPARE w(int) AS INSERT INTO diff.t VALUES ($1) RETURNING id",
        "EXECUTE r | EXECUTE w(100) | EXECUTE w(100) | EXPLAIN (COSTS off) EXECUTE r",
        "SELECT name, statement FROM pg_prepared_statements ORDER BY name",
        (
            "DEALLOCATE r | EXECUTE r | DEALLOCATE ALL | EXECUTE w(101) | INSERT INTO diff.t VALUES (102) | PREPARE w(int) AS INSERT INTO"
            " diff.t VALUES ($1) | EXECUTE w(103)"
        ),
    ),
    "pg_prepared_statements and pg_cursors": q(
        f"{INS} | SELECT name, statement FROM pg_prepared_statements | SELECT name FROM pg_cursors | BEGIN | DELETE FROM diff.t | SELECT"
        " name, statement FROM pg_prepared_statements | SELECT name FROM pg_cursors | ROLLBACK"
    ),
    "EXPLAIN": q(
        "EXPLAIN (COSTS off) SELECT * FROM diff.t | EXPLAIN (COSTS off) INSERT INTO diff.t VALUES (100)",
        "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) INSERT INTO diff.t VALUES (100)",
    ),
    "locking reads": q(
        "SELECT * FROM diff.t WHERE id = 1 FOR UPDATE | BEGIN | SELECT * FROM diff.t WHERE id = 1 FOR SHARE | LOCK TABLE diff.t IN SHARE"
        " MODE | COMMIT | LOCK TABLE diff.t | SELECT pg_advisory_lock(1), pg_advisory_unlock(1)"
    ),
    "sequences": q("SELECT nextval('diff.s')", "SELECT currval('diff.s')", "SELECT setval('diff.s', 10)", "SELECT lastval()") + [
        e("SELECT nextval('diff.s')"),
        e("SELECT nextval('diff.s')") + e("SELECT nextval('diff.s')"),
    ],
    "a deferred constraint": q(
        (
            "INSERT INTO diff.child VALUES (1, 999) | BEGIN | INSERT INTO diff.child VALUES (1, 999) | COMMIT | INSERT INTO diff.child"
            " VALUES (2, 1)"
        ),
        "INSERT INTO diff.child VALUES (3, 1); INSERT INTO diff.child VALUES (4, 999)",
        "BEGIN | INSERT INTO diff.child VALUES (5, 999) | SET CONSTRAINTS ALL IMMEDIATE | ROLLBACK",
    ) + [e("INSERT INTO diff.child VALUES (6, 999)"), e("SELECT count(*) FROM diff.child")],
    "two-phase commit": q(
        f"BEGIN | {INS} | PREPARE TRANSACTION 'diff' | SELECT 1 | COMMIT PREPARED 'diff' | SELECT count(*) FROM diff.t | COMMIT PREPARED"
        " 'missing' | BEGIN | SELECT 1/0 | PREPARE TRANSACTION 'diff2'"
    ),
    "large objects by the fast path": [
        query("BEGIN"),
        function_call(715, [struct.pack("!i", 7000)]),
        query("ROLLBACK"),
        function_call(1574, [struct.pack("!i", 1)]),
        query("SELECT 1"),
    ],
    "a function call that does not exist": [function_call(1, []), query("BEGIN"), function_call(1, []), query("ROLLBACK")],
    "very long texts": q(
        "SELECT '" + "x" * 300_000 + "'",
        "INSERT INTO diff.t VALUES (100, '" + "y" * 300_000 + "')",
        "SELECT length(v) FROM diff.t WHERE id = 100",
        "SELECT " + "+".join(["1"] * 2000),
        "INSERT INTO diff.t VALUES (101, '" + "y" * 1_500_000 + "')",
    ),
    "very long values": [
        e("INSERT INTO diff.t VALUES (100, $1)", ["z" * 2_000_000]),
        e("SELECT length($1)", ["z" * 2_000_000]),
        e("SELECT repeat('x', 1000000)"),
    ],
    "many rows": q("SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i") + [
        e("INSERT INTO diff.t SELECT i FROM generate_series(1000, 3000) i RETURNING id")
    ],
    "many statements in a pipeline": [b"".join(e("INSERT INTO diff.t VALUES ($1)", [str(i)]) for i in range(1000, 1400))],
    "many statements in one group": [pbe(*[f"INSERT INTO diff.t VALUES ({i})" for i in range(1000, 1400)]) + sync()],
    "many statements in one text": q("; ".join(f"INSERT INTO diff.t VALUES ({i})" for i in range(1000, 1400))),
    "a row limit in a text that returns nothing": [
        parse("", "INSERT INTO diff.t VALUES (100)") + bind() + describe("P") + execute("", 1) + sync(),
        parse("", "UPDATE diff.t SET v = 'x'") + bind() + execute("", 2) + sync(),
    ],
    "parameters in a simple query": q("SELECT $1", "INSERT INTO diff.t VALUES ($1)", "INSERT INTO diff.t VALUES (100, '$1')"),
    "names in other spelling": q(
        'SELECT "id" FROM "diff"."t" WHERE id = 1',
        "insert into DIFF.T values (100)",
        'INSERT INTO diff.t ("id") VALUES (101)',
        "INSERT INTO diff.t VALUES (102, $$dollar$$), (103, E'esc\\n'), (104, U&'\\0041')",
    ),
    "cancel": [
        (query("SELECT pg_sleep(5)"), ""),
        ("wait", 0.2),
        ("cancel",),
        ("read", "Z"),
        query("SELECT 1"),
        (query("INSERT INTO diff.t SELECT 100 FROM pg_sleep(5)"), ""),
        ("wait", 0.2),
        ("cancel",),
        ("read", "Z"),
        query("SELECT 1"),
        (e("UPDATE diff.t SET v = pg_sleep(5)::text"), ""),
        ("wait", 0.2),
        ("cancel",),
        ("read", "Z"),
        query("SELECT 1"),
    ],
    "timeouts": q(
        "SET statement_timeout = '600ms' | SELECT pg_sleep(5) | INSERT INTO diff.t SELECT 100 FROM pg_sleep(5) | SET statement_timeout = 0"
        f" | {INS}"
    ),
    "a session that is ended": [(query("SELECT pg_terminate_backend(pg_backend_pid())"), "Z")],
    "a text that is not in the encoding": [
        query(b"SELECT '\xff'"),
        query(b"INSERT INTO diff.t VALUES (100, '\xff')"),
        parse("", b"INSERT INTO diff.t VALUES (100, '\xff')") + bind() + execute() + sync(),
    ],
    "Terminate behind writes": [(query(INS) + terminate(), "X")],
    "Terminate behind writes in one text": [(query("INSERT INTO diff.t VALUES (100); INSERT INTO diff.t VALUES (101)") + terminate(), "X")],
    "Terminate behind a VACUUM and a write": [(query("VACUUM diff.t") + query(INS) + terminate(), "X")],
    # What PostgreSQL's own regression suite found to differ.
    "warnings of the parser": q(
        f"UPDATE diff.t AS {'x' * 70} SET v = 'long' WHERE id = 1 | SELECT 1 AS {'y' * 70} | SET standard_conforming_strings = off",
        r"INSERT INTO diff.t VALUES (100, 'a\\b\'c') RETURNING v",
        r"SELECT 'a\\b'",
        "SET standard_conforming_strings = on | SET escape_string_warning = off",
        r"INSERT INTO diff.t VALUES (101, 'a\\b') RETURNING v",
    ),
    "notices of a deferred trigger": q(
        "CREATE FUNCTION diff.says() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'says %', NEW.id; RETURN NULL; END$$",
        "CREATE CONSTRAINT TRIGGER says AFTER INSERT ON diff.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION diff.says()",
        INS,
        "INSERT INTO diff.t VALUES (101); INSERT INTO diff.t VALUES (102)",
        "BEGIN | INSERT INTO diff.t VALUES (103) | COMMIT",
    ) + [e("INSERT INTO diff.t VALUES (104)")],
    "READ WRITE where it may not be": q(
        "BEGIN READ ONLY | SELECT count(*) FROM diff.t | SET TRANSACTION READ WRITE | ROLLBACK | BEGIN READ ONLY | SET TRANSACTION READ"
        f" WRITE | {INS} | ROLLBACK | BEGIN | SET TRANSACTION READ ONLY | SAVEPOINT a | SET LOCAL transaction_read_only = off -- no |"
        f" ROLLBACK TO a | {INS} | ROLLBACK | BEGIN | SET TRANSACTION READ ONLY | SAVEPOINT a | RELEASE a | SET TRANSACTION READ WRITE |"
        f" {INS} | COMMIT | BEGIN READ ONLY | SELECT 1 FROM diff.t | SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE | COMMIT"
    ),
    "READ WRITE in a transaction that was READ ONLY in between": q(
        (
            "BEGIN | SAVEPOINT a | SET TRANSACTION READ ONLY | SELECT count(*) FROM diff.t | ROLLBACK TO a | SET TRANSACTION READ WRITE |"
            f" {INS} | COMMIT | BEGIN | SAVEPOINT a | SET TRANSACTION READ ONLY | SELECT count(*) FROM diff.t | SET transaction_read_only ="
            " off | ROLLBACK | BEGIN"
        ),
        INS.replace("100", "101"),
        "SET TRANSACTION READ ONLY | INSERT INTO diff.t VALUES (102) | ROLLBACK | SHOW transaction_read_only",
    ),
    "SET TRANSACTION in one text": q(
        "SET TRANSACTION READ ONLY; COMMIT AND CHAIN | SET TRANSACTION READ ONLY; ROLLBACK AND CHAIN",
        "SET TRANSACTION READ ONLY; INSERT INTO diff.t VALUES (100)",
        "SET TRANSACTION READ ONLY; SELECT count(*) FROM diff.t | SELECT 1; SET TRANSACTION READ ONLY",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SHOW transaction_isolation; INSERT INTO diff.t VALUES (101)",
        (
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; COMMIT | SET LOCAL work_mem = '7MB'; COMMIT | DECLARE c CURSOR FOR SELECT 1;"
            " COMMIT | SET TRANSACTION READ ONLY"
        ),
        "INSERT INTO diff.t VALUES (102); SET TRANSACTION READ ONLY; INSERT INTO diff.t VALUES (103)",
        "SHOW transaction_read_only",
    ),
    "a rule made by the session": q(
        "INSERT INTO diff.t VALUES (100)",
        "CREATE RULE answers AS ON INSERT TO diff.child DO ALSO SELECT count(*) FROM diff.t",
        (
            "INSERT INTO diff.child VALUES (1, 1) | INSERT INTO diff.child VALUES (2, 2) RETURNING id | BEGIN | INSERT INTO diff.child"
            " VALUES (3, 3) | COMMIT | DROP RULE answers ON diff.child | INSERT INTO diff.child VALUES (4, 4)"
        ),
    ),
    "what may not stand in a function": q(
        "CREATE FUNCTION diff.cleans() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'VACUUM diff.t'; END$$",
        (
            "SELECT diff.cleans() | DO $$ BEGIN EXECUTE 'CREATE DATABASE no'; END $$ | BEGIN | SELECT diff.cleans() | ROLLBACK | SELECT 1;"
            " SELECT diff.cleans()"
        ),
    ),
    "an interleaved Query": [parse("", "SELECT 1") + bind() + execute() + query("SELECT 2") + sync()],
}

# By a session that declares nothing, through a proxy with --without-term allow: what is not in SCRIPTS.
UNDECLARED = {
    "a block after a function": q(
        "SELECT diff.noisy(1)",
        "BEGIN",
        "SELECT count(*) FROM diff.t",
        INS,
        "COMMIT",
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT id FROM diff.t ORDER BY id FOR UPDATE",
        "FETCH c",
        "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) UPDATE diff.t SET v = 'here' WHERE CURRENT OF c",
        "COMMIT",
        "SELECT diff.writes(101)",
        "CREATE TABLE diff.made AS SELECT diff.noisy(2)",
    ),
    "what runs alone after a function": q(
        "SELECT diff.noisy(1)",
        "VACUUM diff.t",
        "CREATE INDEX CONCURRENTLY i ON diff.t (v)",
        "CALL diff.commits()",
        "DO $$ BEGIN INSERT INTO diff.t VALUES (110); COMMIT; INSERT INTO diff.t VALUES (111); END $$",
        "BEGIN",
        "VACUUM diff.t",
        "ROLLBACK",
        INS,
    ) + [e("VACUUM diff.t"), e("REINDEX TABLE CONCURRENTLY diff.t")],
    "what cannot be read after a function": q(
        "SELECT diff.noisy(1)",
        "SET standard_conforming_strings = off",
        r"SELECT 'a\\b', 'a\'b'",
        r"INSERT INTO diff.t VALUES (100, 'a\'b') RETURNING v",
        "BEGIN",
        r"INSERT INTO diff.t VALUES (101, 'a\'b\\') RETURNING v",
        "COMMIT",
    ),
    "a temporary sequence in READ ONLY after a function": q(
        "SELECT diff.noisy(1)",
        "CREATE TEMP SEQUENCE mine",
        "BEGIN READ ONLY",
        "SELECT nextval('mine')",
        "SELECT nextval('diff.s')",
        "ROLLBACK",
        "BEGIN",
        "SET TRANSACTION READ ONLY",
        "SELECT setval('mine', 5)",
        "COMMIT",
    ),
    "what runs alone first": [e("CREATE INDEX CONCURRENTLY i ON diff.t (v)"), query("CALL diff.commits()")],
    "a function that declares": q(
        "SELECT set_config('termgate.scope', 'undeclared', false), set_config('termgate.term', '7', false)",
        INS,
        "VACUUM diff.t",
        "SELECT 1",
    ),
}


def masked(message):
    """A message as it is compared."""
    kind, body = message.type, message.body
    if kind == "K":
        return ("K",)
    if kind == "T":
        count, at, columns = struct.unpack_from("!H", body)[0], 2, []
        for _ in range(count):
            end = body.index(b"\0", at)
            table, number, oid, size, modifier, form = struct.unpack_from("!IhIhih", body, end + 1)
            columns.append(
                (body[at:end].decode("utf-8", "replace"), table >= 16384, number, oid if oid < 16384 else "made here", size, modifier, form)
            )
            at = end + 19
        return ("T", *columns)
    if kind == "t":
        return (
            "t",
            *[oid if oid < 16384 else "made here" for oid in struct.unpack_from(f"!{struct.unpack_from('!H', body)[0]}I", body, 2)],
        )
    if kind == "A":
        return ("A", body[4:])
    if kind in "EN":
        return (kind, *sorted((letter, value) for letter, value in message.fields().items() if letter not in "FLR"))
    return (kind, body)


def shown(item):
    text = " ".join(str(part) if not isinstance(part, bytes) else repr(part[:200])[2:-1] for part in item)
    return text if len(text) < 400 else text[:400] + "…"


def earned(frames):
    """How many ReadyForQuery they earn."""
    count, at = 0, 0
    while at < len(frames):
        count += chr(frames[at]) in "QSF"
        at += 1 + int.from_bytes(frames[at + 1 : at + 5], "big")
    return count


class Bench:
    def __init__(self, major):
        self.scope = f"difference{time.time_ns() // 1_000_000}"
        self.server = Server(major)
        self.port = proxy(self.server)
        self.allows = proxy(self.server, options=["--without-term", "allow"])
        self.direct = Connection(self.server.port, wait=20)
        self.chunk = given.option("chunk", 0)

    def run(self, port, steps, scope):
        """What came back, masked, and what the tables hold then. Without a scope nothing is declared."""
        self.direct.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND"
            " application_name = 'diff'"
        )
        for (gid,) in self.direct.rows("SELECT gid FROM pg_prepared_xacts"):
            self.direct.query(f"ROLLBACK PREPARED '{gid}'")
        answer = self.direct.query(SCHEMA)
        assert all(message.type != "E" for message in answer), answer
        result, client = [], None
        try:
            client = Connection(
                port,
                parameters=[
                    ("application_name", "diff"),
                    *([("options", f"-c termgate.scope={scope} -c termgate.term=5")] if scope else []),
                ],
                wait=6,
            )
            result += [masked(message) for message in client.greeting]
            for step in steps:
                kind, *rest = step if isinstance(step, tuple) else (step,)
                if isinstance(kind, bytes):
                    for at in range(0, len(kind), self.chunk or len(kind) or 1):
                        client.send(kind[at : at + (self.chunk or len(kind))])
                    types, *count = rest or ("Z", earned(kind))
                    if types:
                        result += [masked(message) for message in client.until(types, *count)]
                elif kind == "read":
                    result += [masked(message) for message in client.until(rest[0])]
                elif kind == "wait":
                    time.sleep(rest[0])
                elif kind == "other":
                    self.direct.query(rest[0])
                elif kind == "cancel":
                    with socket.create_connection(("127.0.0.1", port)) as other:
                        other.sendall(cancel_request(client.pid, client.key))
                        other.recv(1)
        except (Closed, Silent) as failure:
            result += [masked(message) for message in failure.messages] + [("--", type(failure).__name__)]
        except OSError as failure:
            result.append(("--", str(failure)))
        if client is not None:
            client.end()
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'diff' AND backend_type = 'client backend'"
        eventually(lambda: self.direct.value(left) == "0")
        result.append(("-- tables", self.direct.value(STATE)))
        return result


# What is not the same, and why; docs/use/proxy.md describes it. Whatever else differs is a fault.
KNOWN = {
    "several statements with isolation": "a BEGIN with modes behind a write in one text: one warning more, before the same error",
    "read-only by default, extended": "SHOW of it is answered by a SELECT: the tag says so",
    "read-only settings as a SELECT sees them": "current_setting() sees the server's own value",
    "one group with SET and a write": "18: behind our messages SET LOCAL finds a block, and does not warn",
    "a query in the middle of COPY": "the connection is closed",
    "a function that writes, row by row": "a text that looks like a read, and was read in part: refused once, then known",
    "large objects by the fast path": "a fast-path call that may write needs a block",
    "a function call that does not exist": "a fast-path call that may write needs a block",
    "Terminate behind writes": "who says goodbye is given no more answers; the work is done",
    "Terminate behind a VACUUM and a write": "who says goodbye is given no more answers; the work is done",
    "undeclared: Terminate behind writes in one text": "who says goodbye is given no more answers; the work is done",
    "an interleaved Query": "a simple query before the Sync of an extended one, outside of a block: the connection is closed",
}


# A session that declares nothing is passed through, so that in a plain run every third script of the others' is enough for it.
CASES = SCRIPTS | {
    f"undeclared: {name}": steps for name, steps in {**dict(given.share(SCRIPTS.items(), 3)), **UNDECLARED}.items() if name not in KNOWN
}


@pytest.fixture(scope="module", params=given.majors("18"))
def bench(request):
    bench = Bench(int(request.param))
    yield bench
    bench.direct.end()


def conversations(expected, got, title):
    lines = [title]
    for label, side in (("server", expected), ("proxy ", got)):
        lines += [f"    {label}: {shown(item)}" for item in side if item[0] not in ("S", "R")]
    return "\n".join(lines)


def difference(expected, got):
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    lines = [f"differs at message {at} of {len(expected)}", f"      before: {shown(expected[at - 1]) if at else ''}"]
    for label, side in (("server", expected), ("proxy ", got)):
        lines += [f"      {label}: {shown(item)}" for item in side[at : at + 3]]
    if expected[-1] != got[-1]:
        lines.append(f"      server: {shown(expected[-1])}\n      proxy : {shown(got[-1])}")
    return "\n".join(lines)


def test_the_known_differences_are_of_scripts_that_exist():
    assert {name.removeprefix("undeclared: ") for name in KNOWN} <= set(SCRIPTS)


@pytest.mark.parametrize("name", CASES)
def test_the_proxy_brings_back_what_the_server_does_for(name, bench):
    declares = name in SCRIPTS
    expected, got = (
        bench.run(port, CASES[name], bench.scope if declares else None)
        for port in (bench.server.port, bench.port if declares else bench.allows)
    )
    assert len(expected) > 1
    if given.option("show"):
        note(conversations(expected, got, f"{bench.server.major}  {name}"))
    if expected != got and name not in KNOWN:
        pytest.fail(difference(expected, got), pytrace=False)
