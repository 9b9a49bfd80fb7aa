#!/usr/bin/env python3
"""What an SQLite file holds is what the front can read: CHECKs of the tables that it makes, errors where a file of others has
something else, `termgate doctor` and `termgate mend`.

  pytest tests/live/sqlite_server_storage_test.py [--seed S] [--count N]

Python's own sqlite3 module is the other program. A random part changes stored values letter by letter: what the CHECKs
let in, the front must read, and show as it stands.
"""
import json
import random
import sqlite3
import subprocess

import pytest

import given
import pgraw
from checks import check, note

# For each type: values as a client writes them, and what another program must not be able to store.
TYPES = {
    "smallint": (["0", "-32768", "32767"], ["x", 1.5, 40000, -40000, b"1"]),
    "int": (["0", "-2147483648", "2147483647"], ["x", 2147483648, 0.5, b""]),
    "bigint": (["0", "-9223372036854775808", "9223372036854775807"], ["x", 0.5, b"\x01"]),
    "real": (["0", "1.5", "0.1", "-3.4e38", "1e-45", "NaN", "Infinity", "-Infinity"], ["x", 1e39, b"1"]),
    "double precision": (["0", "1e-300", "1.7e308", "NaN", "-Infinity", "0.1"], ["x", "nan", b"1"]),
    "numeric": (["0", "1.5", "-99999999999999", "0.000001", "9223372036854775807"], ["x", b"1", float("inf"), "1,5"]),
    "numeric(10,2)": (["0", "0.01", "-99999999.99", "12345678.9", "1.005", "2.675"], ["x", 1e8, -1e8, 0.005, 1.234, b"1"]),
    "numeric(4)": (["0", "9999", "-9999", "1.5"], ["x", 10000, 0.5]),
    "numeric(20,2)": (["9223372036854775", "-9223372036854775", "0.01"], ["x", 0.001]),
    "boolean": (["true", "f", "yes", "0"], [2, -1, "true", "t", 0.5]),
    "text": (["", "abc", "é", "a'b"], [b"x"]),
    "varchar(3)": (["", "abc", "éàü", "ab  "], ["abcd", b"x"]),
    "char(3)": (["", "a", "abc", "a  "], ["abcd", "a ", b"x"]),
    "bytea": (["\\x", "\\x00ff", "abc"], ["x", 1]),
    "date": (
        ["2024-02-29", "0001-01-01", "9999-12-31", "Jan 5, 2024", "infinity", "-infinity"],
        [
            "2024-02-30",
            "2023-02-29",
            "2024-1-5",
            "2024-13-01",
            "24-01-01",
            "2024-01-05 10:00",
            "x",
            5,
            "0000-01-01",
            "now",
            "2460000.5",
            " 2024-01-05",
        ],
    ),
    "time": (
        ["00:00", "23:59:59.999999", "24:00", "10:00 PM", "01:02:03.4"],
        ["25:00:00", "10:00", "10:60:00", "10:00:60", "10:00:00.", "10:00:00.10", "10:00:00.1234567", "10:00:00+00", "x", 5],
    ),
    "timestamp": (
        ["2024-02-29 10:11:12", "2024-01-05", "1999-12-31 23:59:59.999999", "infinity"],
        [
            "2024-02-30 00:00:00",
            "2024-01-05",
            "2024-01-05T10:00:00",
            "2024-01-05 10:00",
            "2024-01-05 10:00:00.0",
            "2024-01-05 10:00:00+00",
            "x",
            1.5,
        ],
    ),
    "timestamptz": (
        ["2024-02-29 10:11:12+02", "2024-01-05 00:00:00.5Z", "-infinity"],
        ["2024-01-05 10:00:00", "2024-01-05 10:00:00+02", "2024-01-05 10:00:00Z", "2024-02-30 10:00:00+00", "x", 7],
    ),
    "interval": (
        ["1 day", "90 min", "-1 year -2 mons +3 days -04:05:06.7", "0", "1 mon", "100:00:00", "2 years"],
        ["x", "1 dayx", "1:2:3", "5", "day", "10:60:00", "1 day 1 mon", 5, "1  day", "- 1 day", "PT1H"],
    ),
    "uuid": (
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC999C0B4EF8BB6D6BB9BD380A12"],
        [
            "x",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g",
            b"0" * 16,
        ],
    ),
    "json": (["{}", "[1,  2]", '"x"', "null", ' {"a" : 1.50} '], ["x", "{a:1}", "", "[1,]", b"{}"]),
    "jsonb": (["{}", "[1,  2]", '"x"', "null", '{"b":1,"a":2}'], ["x", "{a:1}", "", "[1,]", b"{}"]),
    "int[]": (["{}", "{1,2}", "{NULL}", "{{1,2},{3,4}}"], ["x", "1,2", 5, b"{}"]),
    "text[]": (["{}", '{a,"b c"}', "{NULL}"], ["x", "", b"{}"]),
}


def quoted(value):
    return "'" + value.replace("'", "''") + "'"


class Client(pgraw.Connection):
    def __init__(self, port):
        options = "-c termgate.scope=store -c termgate.term=1"
        super().__init__(port, database="app", parameters=[("options", options)], wait=60)

    def ask(self, sql):
        """Rows, or the error's fields."""
        messages = self.query(sql)
        for message in messages:
            if message.type == "E":
                return message.fields()
        return [[cell.decode() if cell is not None else None for cell in message.row()] for message in messages if message.type == "D"]


@pytest.fixture(scope="module")
def front(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    return lab.proxy(f"sqlite:{lab.folder}/app.db")


@pytest.fixture
def client(front):
    with_it = Client(front.port)
    yield with_it
    with_it.end()


@pytest.fixture
def other(lab):
    connection = sqlite3.connect(f"{lab.folder}/app.db", timeout=20, isolation_level=None)
    yield connection
    connection.close()


def table_of(kind):
    return "k_" + "".join(c if c.isalnum() else "_" for c in kind)


def test_other_programs_cannot_store_what_the_front_could_not_read(client, other):
    for kind, (good, bad) in TYPES.items():
        table = table_of(kind)
        check(f"{kind}: made", client.ask(f"create table {table} (id serial primary key, c {kind})") == [], "")
        for value in good:
            answer = client.ask(f"insert into {table} (c) values ({quoted(value)}) returning c")
            check(f"{kind}: {value} is stored", isinstance(answer, list), answer)
        check(f"{kind}: NULL is stored", client.ask(f"insert into {table} (c) values (null) returning c") == [[None]])
        stored = [row[0] for row in other.execute(f"select c from {table} order by id")]
        for value in stored:
            other.execute(f"insert into {table} (c) values (?)", (value,))
        for value in bad:
            try:
                other.execute(f"insert into {table} (c) values (?)", (value,))
                check(
                    f"{kind}: {value!r} is refused to another program",
                    False,
                    other.execute(f"select c, typeof(c) from {table} order by id desc limit 1").fetchall(),
                )
            except sqlite3.IntegrityError as refused:
                check(f"{kind}: {value!r} is refused by the column's form", "pg_stored" in str(refused), refused)
            except sqlite3.OperationalError as refused:
                check(f"{kind}: {value!r} is refused", "non-deterministic" in str(refused), refused)
        answer = client.ask(f"select c from {table} order by id")
        check(f"{kind}: all is read", isinstance(answer, list) and len(answer) == 2 * len(stored), answer)
        half = len(stored)
        check(f"{kind}: what another program copied reads the same", isinstance(answer, list) and answer[:half] == answer[half:], answer)


def test_what_the_checks_let_in_is_read(client, other):
    """Stored values with letters changed, left out and doubled."""
    seed = given.option("seed", 1)
    luck = random.Random(seed)
    let_in = 0
    for kind, (good, bad) in TYPES.items():
        table = "m_" + table_of(kind)
        client.ask(f"create table {table} (id serial primary key, c {kind})")
        for value in good:
            client.ask(f"insert into {table} (c) values ({quoted(value)})")
        texts = [row[0] for row in other.execute(f"select c from {table} where typeof(c) = 'text'")] + [
            each for each in bad if isinstance(each, str)
        ]
        other.execute("begin")
        for _ in range(given.option("count", 400) if texts else 0):
            letters = list(luck.choice(texts))
            for _ in range(luck.randint(1, 2)):
                at = luck.randrange(len(letters) + 1)
                how = luck.random()
                if how < 0.4 and at < len(letters):
                    letters[at] = luck.choice("0123456789-:+. TZadenory{},\"[]")
                elif how < 0.7 and at < len(letters):
                    del letters[at]
                else:
                    letters.insert(at, luck.choice("0123456789-:+. adn{},\""))
            try:
                other.execute(f"insert into {table} (c) values (?)", ("".join(letters),))
                let_in += 1
            except (sqlite3.IntegrityError, sqlite3.OperationalError):
                pass
        other.execute("commit")
        # The forms of these are only partly within the reach of SQLite's functions: docs/reference/sqlite-types.md.
        if kind.endswith("[]") or kind in ("json", "jsonb"):
            continue
        for row, stored in other.execute(f"select id, c from {table}").fetchall():
            answer = client.ask(f"select c from {table} where id = {row}")
            check(f"{kind}: {stored!r} of seed {seed} was let in and is read", isinstance(answer, list), answer)
    note(f"{let_in} changed texts were let in by the columns' CHECKs")


def test_the_catalog_shows_no_such_check_and_alter_table_keeps_it(client, other):
    client.ask("create table kept (a int check (a > 0), d date, v varchar(5), unique (a))")
    names = client.ask("select conname from pg_constraint where conrelid = 'kept'::regclass order by 1")
    check("pg_constraint shows the client's constraints alone", names == [["kept_a_check"], ["kept_a_key"]], names)
    shown = client.ask("select constraint_name from information_schema.check_constraints where constraint_name like '%stored%'")
    check("information_schema shows none", shown == [], shown)

    def stored():
        return other.execute("select sql from sqlite_schema where name = 'kept'").fetchone()[0].count("pg_stored")

    check("three columns, three forms", stored() == 3, stored())
    for sql, count in (
        ("alter table kept add constraint c check (a < 100)", 3),
        ("alter table kept alter column v type varchar(9)", 3),
        ("alter table kept add column t timestamp", 4),
        ("alter table kept alter column d set not null", 4),
        ("alter table kept drop column v", 3),
        ("alter table kept rename column d to day", 3),
        ("alter table kept alter column day type text", 3),
        ("alter table kept drop constraint c", 3),
    ):
        answer = client.ask(sql)
        check(f"{sql}: done", answer == [], answer)
        check(f"{sql}: {count} forms", stored() == count, stored())
    client.ask("insert into kept (a, day) values (5, 'x')")
    with pytest.raises(sqlite3.IntegrityError):
        other.execute("insert into kept (a, day) values ('five', 'x')")
    refused = client.ask("create table wrong (a int constraint pg_stored check (a > 0))")
    check("a client's constraint has another name", refused["C"] == "42939", refused)


def test_a_value_of_another_program_is_an_error_that_says_where_it_is(lab, client, other):
    other.executescript(
        "create table old (id integer primary key, n int, d date, b boolean, u uuid, j jsonb, v varchar(3), m numeric(6,2), x blob, w"
        " timestamp, t text);insert into old values (1, 5, '2024-01-05', 1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', 'abc',"
        " 1.5, x'00', '2024-01-05 10:00:00', 'x');insert into old values (2, 'five', 'Jan 6, 2024', 'yes',"
        " 'A0EEBC999C0B4EF8BB6D6BB9BD380A12', '{\"b\":1,\"a\":2}', 'abcdef', 1e9, '\\xdead', '2024-01-05T10:00:00', x'ff');insert into old"
        " (id, d, w, t) values (3, '2024-02-30', 1700000000, cast(x'ff' as text));"
    )
    answer = client.ask("select * from old where id = 1")
    check(
        "a row that fits is read",
        answer
        == [
            [
                "1",
                "5",
                "2024-01-05",
                "t",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                '{"a": 1}',
                "abc",
                "1.50",
                "\\x00",
                "2024-01-05 10:00:00",
                "x",
            ]
        ],
        answer,
    )
    check(
        "a jsonb of another order is shown as PostgreSQL shows it", client.ask("select j from old where id = 2") == [['{"a": 2, "b": 1}']]
    )
    for column in ("n", "d", "b", "u", "v", "m", "x", "w", "t"):
        answer = client.ask(f"select {column} from old where id = 2")
        check(f"{column}: an error", isinstance(answer, dict), answer)
        if isinstance(answer, dict):
            check(
                f"{column}: it names table, column and row",
                answer.get("t") == "old" and answer.get("c") == column and "rowid 2" in answer["M"],
                answer,
            )
        copied = client.ask(f"copy (select {column} from old where id = 2) to stdout")
        check(f"{column}: COPY fails, too", isinstance(copied, dict), copied)
    for column in ("d", "w", "t"):
        answer = client.ask(f"select id, {column} from old where id = 3")
        check(f"{column}: what is none of the type", isinstance(answer, dict) and "rowid 3" in answer["M"], answer)

    found = json.loads(lab.run(lab.termgate, "doctor", "--db", f"sqlite:{lab.folder}/app.db", "--json"))["advice"]
    objects = {item["object"] for item in found if item["object"].startswith("old.") and "none of its type" in item["problem"]}
    check(
        "doctor finds the columns", objects == {f"old.{column}" for column in ("n", "d", "b", "u", "j", "v", "m", "x", "w", "t")}, objects
    )
    dry = json.loads(run(lab, "mend", "--table", "old", "--dry-run", "--json").stdout)
    check("a dry run writes nothing", dry["mended"] == 0 and dry["could_be_mended"] == 6 and dry["left"] == 7, dry)
    stale = run(lab, "mend")
    check("mend wants a scope and a term", stale.returncode == 2 and "--scope" in stale.stderr, stale)
    done = run(lab, "mend", "--table", "old", "--scope", "store", "--term", "1", "--json")
    report = json.loads(done.stdout)
    check(
        "mend writes what it can, and lists the rest with status 1",
        done.returncode == 1 and report["mended"] == 6 and report["left"] == 7,
        report,
    )
    check("with table, column and row", any(line.startswith("old.n, rowid 2: \"five\"") for line in report["values_left"]), report)
    answer = client.ask("select d, b, u, j, x, w from old where id = 2")
    check(
        "what was mended is read",
        answer == [["2024-01-06", "t", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12", '{"a": 2, "b": 1}', "\\xdead", "2024-01-05 10:00:00"]],
        answer,
    )
    check("and found", client.ask("select id from old where d = '2024-01-06' and b and u = 'A0EEBC999C0B4EF8BB6D6BB9BD380A12'") == [["2"]])
    lower = run(lab, "mend", "--scope", "store", "--term", "1", "--table", "nosuch")
    check("a table that is not there is wrong usage", lower.returncode == 2, lower)
    check("a fence that is higher refuses it", seal_and_mend(lab) == 3)
    other.execute("drop table old")


def seal_and_mend(lab):
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{lab.folder}/app.db", "--scope", "mend", "--term", "9")
    with sqlite3.connect(f"{lab.folder}/app.db", timeout=20) as other:
        other.execute("create table raw (d date)")
        other.execute("insert into raw values ('2024-1-5')")
    return run(lab, "mend", "--scope", "mend", "--term", "8").returncode


def run(lab, *words):
    return subprocess.run([lab.termgate, *words, "--db", f"sqlite:{lab.folder}/app.db"], capture_output=True, text=True)


def test_doctor_finds_a_default_that_its_own_check_refuses(lab, client, other):
    # As a build that stored DEFAULT -5 as 0 has left it: known only where a CHECK disagrees.
    other.execute(
        "create table minus (id integer primary key, low int default 0 constraint is_low check (low < 0), high int default 0 check (high >="
        " 0), pair int default 0 check (pair < high), two int default '-2' check (two = -2), none int default null check (none < 0))"
    )
    found = json.loads(lab.run(lab.termgate, "doctor", "--db", f"sqlite:{lab.folder}/app.db", "--json"))["advice"]
    found = [item for item in found if item["object"].startswith("minus.")]
    check("doctor names the column alone", [item["object"] for item in found] == ["minus.low"], found)
    check("and the check", found and "DEFAULT 0" in found[0]["problem"] and "is_low" in found[0]["problem"], found)
    answer = client.ask("alter table minus alter column low set default -5")
    check("the remedy is carried out", answer == [], answer)
    found = json.loads(lab.run(lab.termgate, "doctor", "--db", f"sqlite:{lab.folder}/app.db", "--json"))["advice"]
    check("and then there is nothing to find", not any(item["object"].startswith("minus.") for item in found), found)
    check("a row has it", client.ask("insert into minus (high) values (1) returning low") == [["-5"]])
    other.execute("drop table minus")


def test_one_value_twice_is_left_and_the_others_are_mended(lab, client, other):
    other.executescript(
        "create table twice (d date unique, e date); insert into twice values ('2024-01-05', null), ('2024-1-5', '2024-1-6'), ('2024-1-7',"
        " null);"
    )
    report = json.loads(run(lab, "mend", "--scope", "store", "--term", "1", "--table", "twice", "--json").stdout)
    check("two of three", report["mended"] == 2 and report["left"] == 1, report)
    check(
        "the others are written",
        other.execute("select d, e from twice order by d").fetchall()
        == [("2024-01-05", None), ("2024-01-07", None), ("2024-1-5", "2024-01-06")],
    )
    other.executescript("create table keyed (a text, b int, d date, primary key (a, b)) without rowid;")
    other.executemany("insert into keyed values (?, ?, '2024-1-5')", [(str(i % 7), i) for i in range(2500)])
    report = json.loads(run(lab, "mend", "--scope", "store", "--term", "1", "--table", "keyed", "--json").stdout)
    check("a table WITHOUT ROWID, page by page", report["mended"] == 2500 and report["left"] == 0, report)
