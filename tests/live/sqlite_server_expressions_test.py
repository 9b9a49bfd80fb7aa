#!/usr/bin/env python3
"""Random typed expressions mean on an SQLite file behind the proxy what they mean on PostgreSQL 15, or they are refused.

  pytest tests/live/sqlite_server_expressions_test.py [--count N] [--seed S] [--show]

A random schema of a few tables with a column of every type, rows with awkward values, and expressions made of
columns, constants, parameters, operators, functions, casts, CASE, COALESCE, IN, BETWEEN, subqueries and aggregates,
as targets, as conditions, in GROUP BY and ORDER BY, in INSERT and UPDATE. Both sides get the same statement; compared
are the columns' types, the values as text, and the SQLSTATE.

What counts as fine: the same answer, the same SQLSTATE, and a refusal with 0A000, which is counted. An answer that
differs, an answer where PostgreSQL fails, and a failure other than 0A000 where PostgreSQL answers, are wrong. 10,000
expressions by default, of one seed, so that a run of all tests fails for a change and not by chance; with --long
of a new one each time.
"""
import random
import re
import struct
from collections import Counter

import given
import pgraw
from checks import check, note
from given import LONG

COLUMNS = {
    "i2": "smallint",
    "i4": "int",
    "i8": "bigint",
    "f4": "real",
    "f8": "double precision",
    "n": "numeric",
    "n2": "numeric(12,2)",
    "t": "text",
    "v": "varchar(8)",
    "c": "char(4)",
    "b": "boolean",
    "d": "date",
    "ti": "time",
    "ts": "timestamp",
    "tz": "timestamptz",
    "iv": "interval",
    "u": "uuid",
    "j": "jsonb",
    "ar": "int[]",
    "ta": "text[]",
    "by": "bytea",
}
# Values as literals without a type, by the type of the column.
VALUES = {
    "i2": ["0", "1", "-1", "7", "32767", "-32768", "12"],
    "i4": ["0", "1", "-1", "2147483647", "-2147483648", "42", "3"],
    "i8": ["0", "5", "-7", "9223372036854775807", "3000000000", "-9223372036854775808"],
    "f4": ["0", "1.5", "-2.25", "0.1", "3e10", "NaN"],
    "f8": ["0", "0.1", "-1e300", "1e-300", "2.5", "Infinity", "NaN", "123456.789"],
    "n": ["0", "1.5", "-0.001", "12345678.9", "100", "2", "99999999999"],
    "n2": ["0", "1.50", "-3.335", "1000", "0.05", "7"],
    "t": ["", "abc", "Abc", "12", "a b", "-3", "2024-01-05", "%x_", "true"],
    "v": ["", "v", "vwx", "7"],
    "c": ["", "c", "cc", "abcd"],
    "b": ["t", "f"],
    "d": ["2024-02-29", "1999-12-31", "2024-01-05", "0001-01-01"],
    "ti": ["00:00", "10:11:12", "23:59:59.5"],
    "ts": ["2024-02-29 12:00", "1999-12-31 23:59:59.999999", "2024-01-05"],
    "tz": ["2024-02-29 12:00+00", "2024-01-05 10:00+02"],
    "iv": ["1 day", "24 hours", "1 mon", "30 days", "-01:30", "1 year 2 days 03:04:05.6"],
    "u": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "j": ['{"a": 1, "b": [1, 2.50, "x"]}', "[]", '"s"', "null", "3"],
    "ar": ["{}", "{1,2,3}", "{7,NULL}"],
    "ta": ["{a,b}", '{"a b",""}', "{12}"],
    "by": ["\\x", "\\xdead", "abc"],
}
OPERATORS = ["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "||", "&", "|", "->", "->>", "@>", "~~", "IS DISTINCT FROM"]
FUNCTIONS = [
    "abs",
    "round",
    "trunc",
    "floor",
    "ceil",
    "sign",
    "length",
    "lower",
    "upper",
    "sqrt",
    "md5",
    "reverse",
    "ln",
    "exp",
    "cardinality",
    "ascii",
    "initcap",
    "btrim",
    "date",
    "text",
    "int4",
    "float8",
    "pg_typeof",
]
FUNCTIONS2 = [
    "mod",
    "round",
    "trunc",
    "power",
    "left",
    "right",
    "repeat",
    "strpos",
    "split",
    "date_trunc",
    "concat",
    "array_length",
    "div",
    "nullif",
    "coalesce",
    "greatest",
    "least",
    "substr",
    "starts_with",
    "array_to_string",
]
AGGREGATES = ["count", "sum", "avg", "min", "max", "bool_and", "array_agg"]
TYPES = [
    "smallint",
    "int",
    "bigint",
    "real",
    "float8",
    "numeric",
    "numeric(8,3)",
    "text",
    "varchar(3)",
    "char(3)",
    "boolean",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "jsonb",
    "int[]",
    "bytea",
]


class Maker:
    """Makes statements; what it makes is mostly well typed, and often not."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.parameters = []

    def chance(self, part):
        return self.random.random() < part

    def literal(self, kind):
        value = self.random.choice(VALUES[kind])
        if self.chance(0.05):
            value = self.random.choice(VALUES[self.random.choice(list(VALUES))])
        quoted = "'" + value.replace("'", "''") + "'"
        if kind in ("i2", "i4", "i8", "f8", "n", "n2") and re.fullmatch(r"-?\d+(\.\d+)?", value) and self.chance(0.7):
            return f"({value})" if value.startswith("-") else value
        if self.chance(0.5):
            return f"{quoted}::{COLUMNS[kind]}"
        return quoted

    def leaf(self, kind):
        roll = self.random.random()
        if roll < 0.5:
            return kind
        if roll < 0.9:
            return self.literal(kind)
        if roll < 0.95:
            return "NULL"
        return self.random.choice(list(COLUMNS))

    def kind(self):
        return self.random.choice(list(COLUMNS))

    def stored(self):
        # A numeric without a scale keeps no zeros at its end when it is stored: docs/reference/sqlite-types.md.
        return self.random.choice([kind for kind in COLUMNS if kind != "n"])

    def expression(self, depth, kind=None):
        kind = kind or self.kind()
        if depth <= 0 or self.chance(0.2):
            return self.leaf(kind)
        roll = self.random.random()
        near = {
            "i2": ["i4", "i8"],
            "i4": ["i8", "n", "f8"],
            "i8": ["i4", "n"],
            "n": ["i4", "n2"],
            "n2": ["n", "i4"],
            "f8": ["i4", "f4", "n"],
            "f4": ["f8"],
            "d": ["i4", "iv", "ts", "ti"],
            "ts": ["iv", "ts", "d"],
            "tz": ["iv", "d"],
            "iv": ["f8", "iv"],
            "ti": ["iv"],
            "t": ["v", "i4"],
            "v": ["t"],
            "c": ["t"],
            "j": ["t", "i4"],
            "ar": ["i4"],
            "ta": ["t"],
        }
        other = kind if self.chance(0.6) else self.random.choice(near.get(kind, [kind])) if self.chance(0.8) else self.kind()
        if roll < 0.45:
            return f"({self.expression(depth - 1, kind)} {self.random.choice(OPERATORS)} {self.expression(depth - 1, other)})"
        if roll < 0.55:
            return f"{self.random.choice(FUNCTIONS)}({self.expression(depth - 1, kind)})"
        if roll < 0.62:
            return f"{self.random.choice(FUNCTIONS2)}({self.expression(depth - 1, kind)}, {self.expression(depth - 1, other)})"
        if roll < 0.72:
            return f"CAST({self.expression(depth - 1, kind)} AS {self.random.choice(TYPES)})"
        if roll < 0.78:
            return (
                f"CASE WHEN {self.condition(depth - 1)} THEN {self.expression(depth - 1, kind)} ELSE"
                f" {self.expression(depth - 1, other)} END"
            )
        if roll < 0.82:
            return f"COALESCE({self.expression(depth - 1, kind)}, {self.expression(depth - 1, other)})"
        if roll < 0.86:
            return f"({self.expression(depth - 1, kind)} IN ({self.expression(depth - 1, kind)}, {self.expression(0, other)}))"
        if roll < 0.9:
            return f"({self.expression(depth - 1, kind)} BETWEEN {self.expression(0, kind)} AND {self.expression(0, other)})"
        if roll < 0.93:
            return f"(SELECT {self.random.choice(AGGREGATES)}({self.expression(0, kind)}) FROM s)"
        if roll < 0.95:
            return f"(SELECT {kind} FROM s ORDER BY id LIMIT 1)"
        if roll < 0.97:
            return f"-{self.expression(depth - 1, kind)}"
        return self.condition(depth - 1)

    def condition(self, depth):
        if depth <= 0:
            kind = self.kind()
            return f"({self.leaf(kind)} {self.random.choice(['=', '<>', '<', '>'])} {self.leaf(kind)})"
        roll = self.random.random()
        if roll < 0.2:
            return f"({self.condition(depth - 1)} AND {self.condition(depth - 1)})"
        if roll < 0.4:
            return f"({self.condition(depth - 1)} OR NOT {self.condition(depth - 1)})"
        if roll < 0.5:
            return f"({self.expression(depth - 1)} IS NULL)"
        kind = self.kind()
        return (
            f"({self.expression(depth - 1, kind)} {self.random.choice(['=', '<>', '<', '>', '<=', '>='])} "
            f"{self.expression(depth - 1, kind)})"
        )

    def statement(self):
        """(SQL, parameters as text); rows in an order that both sides have."""
        depth = self.random.choice([1, 1, 2, 2, 3])
        roll = self.random.random()
        if roll < 0.5:
            sql = f"SELECT {self.expression(depth)} AS x FROM r ORDER BY id"
        elif roll < 0.62:
            sql = f"SELECT id FROM r WHERE {self.condition(depth)} ORDER BY id"
        elif roll < 0.7:
            kind = self.kind()
            sql = f"SELECT {self.random.choice(AGGREGATES)}({self.expression(depth - 1, kind)}), count(*) FROM r"
        elif roll < 0.76:
            key = self.expression(1)
            sql = (
                f"SELECT count(*), {self.random.choice(['sum', 'max', 'min'])}({self.leaf(self.kind())}) FROM r GROUP BY"
                f" {key if not re.fullmatch(r'[-(]*[0-9.]+[)]*', key) else 'i4'} ORDER BY 1, 2"
            )
        elif roll < 0.8:
            kind = self.kind()
            sql = (
                f"SELECT {self.expression(1, kind)} AS x FROM r UNION {self.random.choice(['', 'ALL '])}SELECT"
                f" {self.expression(1, kind)} FROM s ORDER BY 1"
            )
        elif roll < 0.84:
            sql = f"SELECT DISTINCT {self.expression(1)} AS x FROM r ORDER BY 1"
        elif roll < 0.9:
            kind = self.stored()
            sql = f"INSERT INTO w ({kind}) SELECT {self.expression(depth, kind if self.chance(0.7) else None)} FROM r ORDER BY id"
        elif roll < 0.95:
            kind = self.stored()
            sql = f"UPDATE w SET {kind} = {self.expression(depth, kind)} RETURNING {kind}"
        else:
            sql = f"INSERT INTO w ({self.stored()}) VALUES ({self.expression(1)})"
        parameters = []
        if self.chance(0.25):
            # Constants without a type become parameters without one.
            def parameter(match):
                if match.group(0).startswith("'") and not sql[match.end() :].startswith("::") and self.chance(0.7):
                    parameters.append(match.group(0)[1:-1].replace("''", "'"))
                    return f"${len(parameters)}"
                return match.group(0)

            sql = re.sub(r"'(?:[^']|'')*'", parameter, sql)
        return sql, parameters


class Side:
    def __init__(self, port):
        options = "-c termgate.scope=list -c termgate.term=1 -c TimeZone=UTC -c statement_timeout=10s -c extra_float_digits=1"
        self.wire = pgraw.Connection(port, database="app", parameters=[("options", options)], wait=60)

    def set_up(self, statements):
        for sql in statements:
            failed = [message for message in self.wire.query(sql) if message.type == "E"]
            assert not failed, (sql, failed[0].fields())

    def run(self, sql, parameters):
        """What it answers, and what is in the table that it writes; nothing of it stays."""
        writes = not sql.startswith("SELECT")
        begin = [pgraw.parse("", "BEGIN"), pgraw.bind(), pgraw.execute()]
        values = [value.encode() for value in parameters]
        batch = [pgraw.parse("", sql, ()), pgraw.describe("S", ""), pgraw.bind("", "", values), pgraw.execute(), pgraw.sync()]
        self.wire.send(*((begin if writes else []) + batch))
        answer = answer_of(self.wire.until("Z"))
        if not writes:
            return answer
        if "error" not in answer:
            self.wire.send(pgraw.parse("", "SELECT * FROM w ORDER BY id"), pgraw.bind(), pgraw.execute(), pgraw.sync())
            answer["after"] = answer_of(self.wire.until("Z")).get("rows")
        self.wire.query("ROLLBACK")
        return answer


def answer_of(messages):
    answer = {"rows": []}
    for message in messages:
        if message.type == "T":
            count, at, types = struct.unpack_from("!H", message.body)[0], 2, []
            for _ in range(count):
                end = message.body.index(b"\0", at)
                types.append(struct.unpack_from("!IHIhih", message.body, end + 1)[2])
                at = end + 19
            answer["types"] = types
        elif message.type == "t":
            count = struct.unpack_from("!H", message.body)[0]
            answer["parameters"] = list(struct.unpack_from(f"!{count}I", message.body, 2))
        elif message.type == "D":
            answer["rows"].append(message.row())
        elif message.type == "E":
            answer["error"] = message.fields()["C"]
            answer["message"] = message.fields()["M"]
    return answer


def judged(sql, postgres, front):
    """'same', 'refused', or what differs."""
    early = ("22003", "22012", "22P02", "22007", "22008", "2201E", "2201F", "22001", "22023")
    if (
        re.search("NULL|CASE|COALESCE|AND|OR|IN|BETWEEN", sql)
        and ("error" in front) != ("error" in postgres)
        and (postgres.get("error") or front.get("error")) in early
    ):
        # PostgreSQL reckons constants while it plans, and leaves out what a NULL or another branch makes needless.
        return "folded"
    if "error" in front:
        if front["error"] == postgres.get("error"):
            return "same error"
        # PostgreSQL reads '{1,2,3}' as a date; the front says that it is none.
        if front["error"] == "0A000" or (front["error"] == "22007" and re.search(r"\{[0-9,]*\}\"$", front["message"])):
            return "refused"
        if "error" in postgres:
            # Both fail: which of several mistakes is told first is nobody's contract.
            return "other error"
        return f"error {front['error']}"
    if postgres.get("error") == "57014":
        return "too slow for PostgreSQL"
    if "error" in postgres:
        return f"no error {postgres['error']}"
    for what in ("parameters", "types"):
        if postgres.get(what) != front.get(what):
            return what
    for what in ("rows", "after"):
        if postgres.get(what) != front.get(what):
            a, b = postgres.get(what), front.get(what)
            # Rows that compare equal may come in any order.
            if postgres.get("types") == [1186] and re.search("UNION|DISTINCT", sql):
                return "same"
            a, b = sorted(repr(shown(sql, row)) for row in a), sorted(repr(shown(sql, row)) for row in b)
            if a != b:
                return what
    return "same"


def shown(sql, row):
    """A minus before zero is not stored; of values that are equal, but shown otherwise, UNION and DISTINCT may give any."""
    row = [b"0" if cell == b"-0" else cell for cell in row]
    if re.search("UNION|DISTINCT|GROUP BY", sql):
        row = [re.sub(rb"(\.\d*?)0+$", rb"\1", cell).rstrip(b".") if cell and re.fullmatch(rb"-?\d+\.\d+", cell) else cell for cell in row]
        row = [SPANS.get(cell, cell) for cell in row]
    return row


SPANS = {b"24:00:00": b"1 day", b"30 days": b"1 mon"}


def schema(maker):
    """Statements that make the tables and fill them; the same on both sides."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    made = [f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})" for table in ("r", "s", "w")]
    for table, rows in (("r", 6), ("s", 3), ("w", 2)):
        for row in range(rows):
            cells = []
            for kind in COLUMNS:
                value = maker.random.choice(VALUES[kind])
                cells.append("NULL" if row and maker.chance(0.2) else "'" + value.replace("'", "''") + "'")
            made.append(f"INSERT INTO {table} VALUES ({row}, {', '.join(cells)})")
    return made


def test_random_expressions_mean_the_same_or_are_refused(lab):
    count = given.option("count", 10_000)
    seed = given.option("seed", random.SystemRandom().randrange(1 << 32) if LONG else 1)
    maker = Maker(seed)
    tally, refusals, wrong = Counter(), Counter(), []
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    proxy = lab.proxy(f"sqlite:{lab.folder}/app.db")
    server = lab.server("15", "fsync=off")
    server.sql("create database app template template0 lc_collate 'C' lc_ctype 'C'")
    postgres, front = Side(server.port), Side(proxy.port)
    for side in (postgres, front):
        side.set_up(schema(Maker(seed)))
    for _ in range(count):
        sql, parameters = maker.statement()
        wanted, got = postgres.run(sql, parameters), front.run(sql, parameters)
        verdict = judged(sql, wanted, got)
        tally[verdict] += 1
        if verdict == "refused":
            refusals[re.sub(r'".*?"', '"…"', got["message"])] += 1
        elif verdict not in ("same", "same error", "other error", "folded", "too slow for PostgreSQL"):
            wrong.append((verdict, sql, parameters, wanted, got))
    report(tally, refusals, wrong, given.option("show", False))
    check(f"{count} random statements of seed {seed}: the same answer or a refusal", not wrong and sum(tally.values()) == count)


def report(tally, refusals, wrong, show):
    for verdict, times in tally.most_common():
        note(f"{times:8} {verdict}")
    if show:
        for message, times in refusals.most_common(60):
            note(f"{times:8} {message}")
    for verdict, sql, parameters, wanted, got in wrong[: 200 if show else 20]:
        print(f"{verdict}: {sql} {parameters or ''}\n    postgres {str(wanted)[:400]}\n    front    {str(got)[:400]}")
