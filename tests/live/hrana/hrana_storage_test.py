#!/usr/bin/env python3
"""[F7] What an SQLite file holds after the proxy has written it, and what the proxy gives of what others wrote: the same
values as SQLite's own library, but for what docs/use/sqlite-proxy.md names.

  pytest tests/live/hrana/hrana_storage_test.py

Python's own sqlite3 module is the other program.
"""
import random
import sqlite3

import pytest

import given
from checks import check
from hrana import Failed, execute
from hrana_served import Served, Stream, token

VALUES = (
    None,
    0,
    -1,
    1 << 53,
    (1 << 53) + 1,
    (1 << 63) - 1,
    -(1 << 63),
    0.0,
    42.0,
    -1.5,
    1e308,
    5e-324,
    "",
    "text",
    "é\U0001f512",
    "a\nb\"c\\d",
    "1",
    "0x10",
    b"",
    b"\x00\xff",
    bytes(range(256)),
)


@pytest.fixture(scope="module")
def front(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    return Served(lab, f"{lab.folder}/app.db")


@pytest.fixture
def other(lab):
    connection = sqlite3.connect(f"{lab.folder}/app.db", timeout=20, isolation_level=None)
    yield connection
    connection.close()


def same(one, two):
    return type(one) is type(two) and one == two


def test_values_of_every_column_are_as_sqlite_stores_them(front, other):
    stream = Stream(front.url, token("store", 1))
    twin = sqlite3.connect(":memory:", isolation_level=None)
    for number, kind in enumerate(("", "INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "DATE", "VARCHAR(3)")):
        table = f"CREATE TABLE k{number} (id INTEGER PRIMARY KEY, c {kind})"
        stream.execute(table)
        twin.execute(table)
        for each in VALUES:
            stream.execute(f"INSERT INTO k{number} (c) VALUES (?)", each)
            twin.execute(f"INSERT INTO k{number} (c) VALUES (?)", (each,))
        wanted = twin.execute(f"SELECT c, typeof(c) FROM k{number} ORDER BY id").fetchall()
        stored = other.execute(f"SELECT c, typeof(c) FROM k{number} ORDER BY id").fetchall()
        read = stream.execute(f"SELECT c, typeof(c) FROM k{number} ORDER BY id")
        for given_value, a, b, c in zip(VALUES, wanted, stored, read):
            check(f"{kind or 'no type'}: {given_value!r} is stored as by SQLite", same(a[0], b[0]) and a[1] == b[1], (a, b))
            check(f"{kind or 'no type'}: {given_value!r} is read as it is stored", same(b[0], c[0]) and b[1] == c[1], (b, c))


def test_what_another_program_wrote_is_read(front, other):
    stream = Stream(front.url, token("store", 1))
    seed = given.option("seed", 1)
    luck = random.Random(seed)
    other.execute("CREATE TABLE others (id INTEGER PRIMARY KEY, c)")
    for _ in range(500):
        kind = luck.randrange(4)
        each = (
            luck.randrange(-(1 << 63), 1 << 63)
            if kind == 0
            else (
                luck.uniform(-1e300, 1e300)
                if kind == 1
                else luck.randbytes(luck.randrange(40)) if kind == 2 else chr(luck.randrange(1, 0xD800)) * luck.randrange(9)
            )
        )
        other.execute("INSERT INTO others (c) VALUES (?)", (each,))
    wanted = other.execute("SELECT id, c FROM others ORDER BY id").fetchall()
    read = stream.execute("SELECT id, c FROM others ORDER BY id")
    differ = [(a, b) for a, b in zip(wanted, read) if not same(a[1], b[1])]
    check(f"500 values of seed {seed}", len(read) == len(wanted) and not differ, differ[:3])


def test_what_json_cannot_carry_is_said(front, other):
    stream = Stream(front.url, token("store", 1))
    told = stream.ask(execute("SELECT 9e999, -9e999"))[0]["result"]["rows"]
    check("infinity is null", [cell.get("value") for cell in told[0]] == [None, None], told)
    other.execute("CREATE TABLE bytes (id INTEGER PRIMARY KEY, c TEXT)")
    other.execute("INSERT INTO bytes VALUES (7, CAST(x'ff41' AS TEXT))")
    failure = None
    try:
        stream.execute("SELECT id, c FROM bytes")
    except Failed as caught:
        failure = caught
    check(
        "text that is not UTF-8 fails, and says where",
        failure is not None and "c" in failure.message and "CAST" in failure.message,
        failure,
    )
    check("as a blob it is read", stream.execute("SELECT CAST(c AS BLOB) FROM bytes") == [(b"\xffA",)])


def test_arguments_that_do_not_fit_are_refused(front):
    stream = Stream(front.url, token("store", 1))
    cases = {
        "one missing": {"sql": "SELECT ?, ?", "args": [{"type": "integer", "value": "1"}]},
        "one too many": {"sql": "SELECT ?", "args": [{"type": "integer", "value": "1"}] * 2},
        "an unknown name": {"sql": "SELECT :a", "named_args": [{"name": "b", "value": {"type": "null"}}]},
        "an integer that is none": {"sql": "SELECT ?", "args": [{"type": "integer", "value": "1x"}]},
        "an integer too large": {"sql": "SELECT ?", "args": [{"type": "integer", "value": "9223372036854775808"}]},
        "a blob that is no base64": {"sql": "SELECT ?", "args": [{"type": "blob", "base64": "!"}]},
    }
    for name, stmt in cases.items():
        failure = None
        try:
            stream.ask({"type": "execute", "stmt": stmt})
        except Failed as caught:
            failure = caught
        check(f"{name}: refused", failure is not None, name)
    check("and the stream goes on", stream.execute("SELECT 1") == [(1,)])


def test_several_statements_are_no_statement(front):
    stream = Stream(front.url, token("store", 1))
    for sql, wanted in (("SELECT 1; SELECT 2", "SQL_MANY_STATEMENTS"), ("", "SQL_NO_STATEMENT"), (" -- x", "SQL_NO_STATEMENT")):
        results = stream.send(execute(sql))
        told = results[0].get("error", {}).get("code")
        check(f"{wanted}: {sql!r}", told == wanted, results)
