#!/usr/bin/env python3
"""[F2][F6][F7] ALTER TABLE on an SQLite file behind the proxy, which often makes a table anew.

  pytest tests/live/sqlite_server_alter_test.py [--seed N] [--count N] [--show]

A table that is protected keeps what protects it: after every kind of rebuild a stale writer and one without a term are refused, and what
was on the table (rows, indexes, triggers, its counter, its fence) is there. A stale session alters nothing.

Random ALTERs run on a PostgreSQL 15 and on the front, each in a transaction that is kept where both sides did it. What both did must leave
the same rows, columns, constraints, and the same answers to rows that are inserted afterwards; where the front alone refuses, it says so
with 0A000 or a code of its own (sqlite_server_statements_test.py). --count: of the tables.
"""
import random
import sqlite3

import pgraw
import pytest
from checks import check, note

import given
from sqlite_server_statements_test import REFUSALS, answer_of

REBUILDS = [
    "ALTER TABLE kept ALTER COLUMN v TYPE bigint",
    "ALTER TABLE kept ALTER COLUMN v SET NOT NULL",
    "ALTER TABLE kept ALTER COLUMN v DROP NOT NULL",
    "ALTER TABLE kept ALTER COLUMN v SET DEFAULT 7",
    "ALTER TABLE kept ADD CONSTRAINT small CHECK (v < 1000)",
    "ALTER TABLE kept RENAME CONSTRAINT small TO smaller",
    "ALTER TABLE kept DROP CONSTRAINT smaller",
    "ALTER TABLE kept ADD COLUMN w text NOT NULL DEFAULT 'w'",
    "ALTER TABLE kept ADD CONSTRAINT to_other FOREIGN KEY (o) REFERENCES other (id)",
    "ALTER TABLE kept ADD CONSTRAINT once UNIQUE (v)",
    "ALTER TABLE kept DROP COLUMN w",
    "ALTER TABLE kept RENAME COLUMN o TO p",
    "ALTER TABLE kept RENAME COLUMN p TO o",
    "ALTER TABLE kept ALTER COLUMN v TYPE text, ALTER COLUMN o TYPE bigint",
]


def session(port, scope=None, term=None):
    options = f"-c termgate.scope={scope} -c termgate.term={term}" if scope else ""
    return pgraw.Connection(port, user="me", database="app", parameters=[("options", options)] if options else [], wait=30)


def ask(wire, sql):
    wire.send(pgraw.query(sql))
    return answer_of(wire.until("Z"))


class Kept:
    """A file with a protected table, a trigger and an index of its own, a key that counts, and a table that it refers to."""

    def __init__(self, lab, name):
        self.path = f"{lab.folder}/{name}.db"
        lab.run(lab.termgate, "init", "--db", f"sqlite:{self.path}")
        self.file = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        self.proxy = lab.proxy(f"sqlite:{self.path}")
        with session(self.proxy.port, "kept", 5) as wire:
            for sql in (
                "CREATE TABLE other (id int PRIMARY KEY)",
                "CREATE TABLE log (id int)",
                "CREATE TABLE kept (id serial PRIMARY KEY, v int, o int)",
                "CREATE INDEX kept_o ON kept (o)",
                "INSERT INTO other VALUES (1), (2)",
                "INSERT INTO kept (v, o) VALUES (1, 1), (2, 2), (3, NULL)",
                "DELETE FROM kept WHERE v = 3",
                "CREATE TRIGGER noted AFTER INSERT ON kept BEGIN INSERT INTO log VALUES (NEW.id); END",
            ):
                answer = ask(wire, sql)
                assert "error" not in answer, (sql, answer)
        lab.run(lab.termgate, "protect", "--db", f"sqlite:{self.path}", "kept", "--scope", "kept")

    def of(self, sql):
        return self.file.execute(sql).fetchall()

    def around(self):
        return sorted(
            self.of("SELECT type, name FROM sqlite_schema WHERE tbl_name = 'kept' AND type IN ('trigger', 'index') AND sql IS NOT NULL")
        )


@pytest.fixture(scope="module")
def kept(lab):
    return Kept(lab, "kept")


def refused(wire, code):
    answers = [
        ask(wire, sql)
        for sql in (
            "INSERT INTO kept (v) VALUES (666)",
            "UPDATE kept SET v = 666",
            "DELETE FROM kept",
            "INSERT OR REPLACE INTO kept (id, v) VALUES (1, 666)",
            "WITH gone AS (DELETE FROM kept RETURNING id) SELECT * FROM gone",
        )
    ]
    return all(answer.get("error") == code for answer in answers), str(answers)


def test_a_rebuilt_table_is_as_protected_as_before(kept):
    before, fences = kept.around(), kept.of("SELECT scope, term FROM termgate_fences")
    with session(kept.proxy.port, "kept", 5) as owner, session(kept.proxy.port, "elsewhere", 5) as other, session(kept.proxy.port) as none:
        for step, sql in enumerate(REBUILDS):
            answer = ask(owner, sql)
            if not check(f"{sql}: done", "error" not in answer, str(answer)):
                continue
            there = set(kept.around())
            check(f"{sql}: triggers and indexes stay", set(before) <= there, str(set(before) - there))
            check(f"{sql}: the rows stay", [row[0] for row in kept.of("SELECT id FROM kept ORDER BY id")][:2] == [1, 2])
            check(
                f"{sql}: fences stay", kept.of("SELECT scope, term FROM termgate_fences WHERE scope = 'kept'") == [("kept", 5)], str(fences)
            )
            check(f"{sql}: without a term", *refused(none, "TG002"))
            # The scope of another passes the proxy's check, and not the table's triggers.
            ok, detail = refused(other, "TG002")
            check(f"{sql}: with another scope", ok or "TG00" in detail and "666" not in str(kept.of("SELECT * FROM kept")), detail)
            answer = ask(owner, f"INSERT INTO kept (v) VALUES ({100 + step}) RETURNING id")
            check(f"{sql}: the counter goes on", answer["rows"] == [[str(4 + step).encode()]], str(answer))
            check(f"{sql}: the table's own trigger fires", kept.of("SELECT max(id) FROM log") == [(4 + step,)])
    for sql in ("PRAGMA integrity_check", "PRAGMA foreign_key_check"):
        check(sql, kept.of(sql) in ([("ok",)], []), str(kept.of(sql)))


def test_a_stale_session_alters_nothing(lab, kept):
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{kept.path}", "--scope", "kept", "--term", 9)
    before = kept.of("SELECT type, name, sql FROM sqlite_schema ORDER BY name"), kept.of("SELECT * FROM kept")
    with session(kept.proxy.port, "kept", 5) as stale, session(kept.proxy.port) as none:
        for wire, code in ((stale, "TG001"), (none, "TG002")):
            for sql in (*REBUILDS, "ALTER TABLE other ALTER COLUMN id TYPE bigint", "ALTER TABLE kept RENAME TO free", "DROP TABLE kept"):
                answer = ask(wire, sql)
                check(f"{sql} is refused with {code}", answer.get("error") == code, str(answer))
    check(
        "nothing has changed", before == (kept.of("SELECT type, name, sql FROM sqlite_schema ORDER BY name"), kept.of("SELECT * FROM kept"))
    )


# --- random ---

TYPES = ["int", "bigint", "smallint", "text", "varchar(12)", "numeric(8,2)", "boolean", "date", "timestamp", "double precision"]
VALUES = {
    "int": ["1", "-5", "70000", "null"],
    "bigint": ["1", "9000000000", "null"],
    "smallint": ["1", "-32768", "null"],
    "text": ["'a'", "'2024-01-05'", "'12'", "''", "'it''s é'", "null"],
    "varchar(12)": ["'a'", "'12345'", "null"],
    "numeric(8,2)": ["1.5", "0", "-99999.99", "null"],
    "boolean": ["true", "false", "null"],
    "date": ["'2024-02-29'", "'1999-12-31'", "null"],
    "timestamp": ["'2024-02-29 10:11:12.5'", "null"],
    "double precision": ["1.25", "-1e10", "null"],
}
STATE = [
    "SELECT * FROM {table} ORDER BY id",
    (
        "SELECT column_name, data_type, is_nullable, character_maximum_length, numeric_precision, numeric_scale FROM"
        " information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"
    ),
    # A unique constraint that ALTER TABLE adds is an index of its name: docs/reference/sqlite-types.md.
    "SELECT conname, contype, confdeltype FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype <> 'u' ORDER BY conname",
    "SELECT indexname FROM pg_indexes WHERE tablename = '{table}' ORDER BY indexname",
]


class Table:
    """What both sides should have by now, roughly: enough to make ALTERs of which many work."""

    def __init__(self, chance, number):
        self.chance, self.name, self.made = chance, f"t{number}", 0
        self.columns = {f"c{i}": chance.choice(TYPES) for i in range(chance.randrange(2, 5))}
        self.constraints = []

    def create(self):
        words = []
        for name, kind in self.columns.items():
            extra = self.chance.choice(
                ["", "", "", f" DEFAULT {self.value(kind)}", f" CONSTRAINT {self.name}_{name} UNIQUE" if kind != "boolean" else ""]
            )
            words.append(f"{name} {kind}{extra}")
        return f"CREATE TABLE {self.name} (id int PRIMARY KEY, {', '.join(words)})"

    def value(self, kind):
        return self.chance.choice(VALUES[kind])

    def insert(self, key):
        return (
            f"INSERT INTO {self.name} (id, {', '.join(self.columns)}) VALUES ({key}, {', '.join(map(self.value, self.columns.values()))})"
        )

    def alter(self):
        chance, column = self.chance, self.chance.choice([*self.columns, "nope"] if self.chance.random() < 0.05 else list(self.columns))
        kind, other, self.made = self.columns.get(column, "int"), chance.choice(TYPES), self.made + 1
        new = f"n{self.made}"
        acts = [
            f"ADD COLUMN {new} {other}",
            f"ADD COLUMN {new} {other} DEFAULT {self.value(other)}",
            f"ADD COLUMN {new} {other} NOT NULL DEFAULT {chance.choice([each for each in VALUES[other] if each != 'null'])}",
            f"ADD COLUMN IF NOT EXISTS {column} {other}",
            f"DROP COLUMN {column}",
            f"DROP COLUMN IF EXISTS {new}",
            f"ALTER COLUMN {column} TYPE {other}",
            f"ALTER COLUMN {column} TYPE {other} USING {column}::{other}",
            f"ALTER COLUMN {column} TYPE text USING {column}::text || '!'",
            f"ALTER COLUMN {column} SET DEFAULT {self.value(kind)}",
            f"ALTER COLUMN {column} DROP DEFAULT",
            f"ALTER COLUMN {column} SET NOT NULL",
            f"ALTER COLUMN {column} DROP NOT NULL",
            f"ADD CONSTRAINT {new} CHECK ({column} IS NOT NULL OR id > 0)",
            f"ADD CONSTRAINT {new} CHECK (id > {chance.choice([0, 2])})",
            f"ADD CONSTRAINT {new} UNIQUE ({column})",
            f"ADD UNIQUE ({column}, id)",
            f"ADD CONSTRAINT {new} FOREIGN KEY (id) REFERENCES keys (id)",
            f"ADD FOREIGN KEY ({column}) REFERENCES keys (id)",
            f"RENAME COLUMN {column} TO {new}",
            f"ADD COLUMN {new} {other}, ALTER COLUMN {column} SET NOT NULL, DROP COLUMN {column}",
            f"ADD COLUMN {new} {other}, ADD CONSTRAINT {new}_c CHECK (id < 1000), ALTER COLUMN {column} TYPE text",
        ]
        if self.constraints:
            held = chance.choice(self.constraints)
            acts += [f"DROP CONSTRAINT {held}", f"RENAME CONSTRAINT {held} TO {new}", f"DROP CONSTRAINT {held}, DROP COLUMN {column}"]
        return f"ALTER TABLE {self.name} {chance.choice(acts)}"


def both(sides, sql):
    return [ask(wire, sql) for wire in sides]


def same_state(sides, table):
    for sql in STATE:
        wanted, got = both(sides, sql.format(table=table.name))
        if wanted.get("rows") != got.get("rows"):
            return f"{sql.format(table=table.name)}: PostgreSQL {wanted.get('rows')}, front {got}"
    return ""


def learn(sides, table):
    """What the table has by now, from PostgreSQL."""
    rows = ask(
        sides[0],
        (
            f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{table.name}'::regclass AND attnum > 1"
            " AND NOT attisdropped ORDER BY attnum"
        ),
    )["rows"]
    short = {"integer": "int", "character varying(12)": "varchar(12)", "timestamp without time zone": "timestamp"}
    table.columns = {name.decode(): short.get(kind.decode(), kind.decode()) for name, kind in rows}
    rows = ask(sides[0], f"SELECT conname FROM pg_constraint WHERE conrelid = '{table.name}'::regclass AND contype <> 'p'")["rows"]
    table.constraints = [row[0].decode() for row in rows]


def step(sides, sql, show):
    """(whether it is done, what is wrong with it)."""
    both(sides, "BEGIN")
    wanted, got = both(sides, sql)
    done = "error" not in wanted and "error" not in got
    both(sides, "COMMIT" if done else "ROLLBACK")
    if show:
        print(f"{sql}: {wanted.get('error', 'done')}, {got.get('error', 'done')} {got.get('message', '')}")
    if "error" in got:
        known = got["error"] in REFUSALS or got["error"] == wanted.get("error")
        # PostgreSQL converts the default first, then the rows. DEFAULT NULL of a varchar(12) is one for PostgreSQL, and none here.
        known = known or (wanted.get("error") == "42804" and "default for column" in wanted["message"] and got["error"].startswith("22"))
        return done, "" if known else f"PostgreSQL {wanted}, front {got}", "error" not in wanted
    return done, f"PostgreSQL {wanted}, front {got}" if "error" in wanted else "", False


def test_random_alters_leave_what_postgresql_has(lab):
    # The same tables in every run of ./test; --long takes new ones.
    seed = given.option("seed") or (random.randrange(2**32) if given.LONG else 1)
    tables, show = given.option("count", 120 if given.LONG else 12), given.option("show", False)
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/random.db")
    server, front = lab.server("15", "fsync=off"), lab.proxy(f"sqlite:{lab.folder}/random.db")
    server.sql("create database app")
    options = [("options", "-c termgate.scope=alter -c termgate.term=1 -c TimeZone=UTC")]
    sides = [pgraw.Connection(port, user="postgres", database="app", parameters=options, wait=30) for port in (server.port, front.port)]
    both(sides, "CREATE TABLE keys (id int PRIMARY KEY)")
    both(sides, "INSERT INTO keys VALUES (1), (2), (3)")
    counts = {"done": 0, "refused by both": 0, "refused by the front": 0}
    for number in range(tables):
        # A table is a run of its own: its seed shows it again.
        chance = random.Random(f"{seed} {number}")
        table, history = Table(chance, number), []

        def one(sql):
            history.append(sql)
            done, wrong, alone = step(sides, sql, show)
            counts["done" if done else "refused by the front" if alone else "refused by both"] += 1
            check(f"seed {seed}, table {number}", not wrong, wrong + "\n" + ";\n".join(history))
            return done and not wrong

        if not one(table.create()):
            continue
        for key in (1, 2, 3):
            one(table.insert(key))
        for round_number in range(12):
            done = one(table.alter())
            learn(sides, table)
            if not table.columns:
                break
            if done:
                wrong = same_state(sides, table)
                if not check(f"seed {seed}, table {number}: the same state", not wrong, wrong + "\n" + ";\n".join(history)):
                    break
            one(table.insert(10 + round_number))
        both(sides, f"DROP TABLE {table.name}")
    note(f"{counts}, seed {seed}")
    check("more than a third is done", counts["done"] * 3 > sum(counts.values()), str(counts))
    file = sqlite3.connect(f"{lab.folder}/random.db")
    check("the file is whole", file.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    for wire in sides:
        wire.end()


def test_copy_reads_the_columns_that_the_table_has_now(lab):
    """SQLite notices at a statement's first step that the schema has changed; COPY has to know the columns before it."""
    path = f"{lab.folder}/copied.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    proxy = lab.proxy(f"sqlite:{path}")

    def copied(wire, sql, data=None):
        wire.send(pgraw.query(sql))
        if data is not None:
            wire.until("G")
            wire.send(pgraw.copy_data(data), pgraw.copy_done())
        messages = wire.until("Z")
        failed = [message.fields()["C"] for message in messages if message.type == "E"]
        return failed or [message.body.decode() for message in messages if message.type == "d"]

    here, other = session(proxy.port, "copied", 1), session(proxy.port, "copied", 1)
    assert "error" not in ask(here, "create table c (id int primary key, data text)")
    # Each session has seen this form of the table.
    for wire in (here, other):
        check(copied(wire, "copy c from stdin", f"{1 if wire is here else 2}\tx\n") == [], "COPY into the table as it was made")
    for sql in ("drop table c", "create table c (data bool, id numeric(5,2), more text)"):
        assert "error" not in ask(here, sql)
    for wire in (other, here):
        check(copied(wire, "copy c from stdin", "t\t1.5\tm\n") == [], "COPY into another session's new table")
        check(copied(wire, "copy c to stdout")[0] == "t\t1.50\tm\n", "and out of it")
    for wire in (here, other):
        for end in ("rollback", "commit"):
            for sql in ("begin", "alter table c rename column more to less", "alter table c add column last int default 4"):
                assert "error" not in ask(wire, sql), sql
            check(copied(wire, "copy c (less, last) to stdout")[0] == "m\t4\n", "COPY within the block that changes the table")
            assert "error" not in ask(wire, end)
            wanted = ["t\t1.50\tm\n"] * 2 if end == "rollback" else ["t\t1.50\tm\t4\n"] * 2
            for each in (wire, other if wire is here else here):
                check(copied(each, "copy c to stdout") == wanted, f"and after {end}")
        for sql in ("alter table c drop column last", "alter table c rename column less to more"):
            assert "error" not in ask(wire, sql)
    for wire in (here, other):
        wire.end()


def test_copy_into_a_view_needs_its_trigger(lab):
    path = f"{lab.folder}/view.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    proxy = lab.proxy(f"sqlite:{path}")

    with session(proxy.port, "view", 1) as wire:
        for sql in ("create table t (a int)", "create view v as select a from t"):
            assert "error" not in ask(wire, sql)
        check(ask(wire, "copy v from stdin")["error"] == "42809", "COPY into a view without a trigger is refused, as in PostgreSQL")
        assert "error" not in ask(wire, "create trigger put instead of insert on v begin insert into t values (new.a + 1); end")
        wire.send(pgraw.query("copy v from stdin"))
        wire.until("G")
        wire.send(pgraw.copy_data("1\n2\n"), pgraw.copy_done())
        wire.until("Z")
        check(wire.rows("select a from t order by a") == [["2"], ["3"]], "with one it reaches the table")


def test_no_setting_of_postgresql_is_unknown(lab):
    path = f"{lab.folder}/settings.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    proxy, server = lab.proxy(f"sqlite:{path}"), lab.server("15", "fsync=off")
    with pgraw.Connection(server.port, wait=30) as postgres, session(proxy.port) as front:
        # A name of Debian's own is no setting of PostgreSQL's.
        names = [row[0] for row in postgres.rows("select name from pg_settings where name not like '%.%' and name <> 'extension_destdir'")]
        unknown = [name for name in names if ask(front, f"show {name}").get("error", "0A000") != "0A000"]
        check(len(names) > 300 and not unknown, f"each of {len(names)} settings is shown or refused by name: {unknown}")
        check(ask(front, "show no_such_setting")["error"] == "42704", "and one that PostgreSQL does not have is unknown")
