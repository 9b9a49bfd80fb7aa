#!/usr/bin/env python3
"""Every statement of sqlite_server_statements.txt, on a PostgreSQL 15 and on an SQLite file behind the proxy: the same answer,
or a clear refusal.

  pytest tests/live/sqlite_server_statements_test.py [--write] [--only REGEX] [--show]

Compared are the columns' names, types and type modifiers, the values, the tag, the SQLSTATE, the types of the
parameters, and what COPY sends. A case without parameters runs by the simple protocol, by the extended one in text,
and in binary; one with parameters in text and in binary. Each run is a transaction that is rolled back.

The file says of each case what comes out, in the line before it:

    (nothing)        the same as PostgreSQL
    ~ FORM CODE      refused with this SQLSTATE: 0A000, or a code of its own with a message that names what is missing
    ! FORM WHAT      differs; to be mended
    !! REASON        differs, and docs/use/sqlite-proxy.md says so

The test fails where the file is not true. --write makes it true, but never writes over `!!`. --only runs the cases
that a regular expression finds; --show prints what both sides answered.
"""
import os
import re
import struct

import pytest

import given
import pgraw
from checks import check, note

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = f"{HERE}/sqlite_server_statements.txt"
# What a refusal may be besides 0A000: the message names a function, operator or type that the front does not have, or a limit.
REFUSALS = ("0A000", "42883", "42704", "54000", "54001", "42501")
OIDS = {
    "bool": 16,
    "bytea": 17,
    "name": 19,
    "int8": 20,
    "int2": 21,
    "int4": 23,
    "text": 25,
    "oid": 26,
    "json": 114,
    "float4": 700,
    "float8": 701,
    "bpchar": 1042,
    "varchar": 1043,
    "date": 1082,
    "time": 1083,
    "timestamp": 1114,
    "timestamptz": 1184,
    "interval": 1186,
    "timetz": 1266,
    "numeric": 1700,
    "uuid": 2950,
    "jsonb": 3802,
    "int4[]": 1007,
    "int8[]": 1016,
    "text[]": 1009,
    "bool[]": 1000,
    "numeric[]": 1231,
    "float8[]": 1022,
    "date[]": 1182,
    "uuid[]": 2951,
    "?": 0,
}


class Case:
    """`line`: as it stands in the file; `mark`: the line before it. Parts are one statement each, apart by ` ;; `."""

    def __init__(self, line, mark):
        self.line, self.mark = line, mark
        self.parts = [Part(text) for text in line.split(" ;; ")]

    def forms(self):
        return ["text", "binary"] if any(part.parameters is not None for part in self.parts) else ["simple", "text", "binary"]


class Part:
    """SQL, with ` <- type:value | …` its parameters, or with ` <<< data` what COPY brings."""

    def __init__(self, text):
        self.parameters = self.copy = None
        if " <<< " in text:
            text, data = text.split(" <<< ", 1)
            self.copy = data.replace("\\n", "\n").replace("\\t", "\t")
        elif " <- " in text:
            text, values = text.rsplit(" <- ", 1)
            self.parameters = [tuple(value.strip().split(":", 1)) for value in values.split(" | ")]
        self.sql = text


class Side:
    """One of both servers, by its raw protocol."""

    def __init__(self, name, port):
        self.name, self.port = name, port
        self.connect()

    def connect(self):
        # What never ends is ended, and shows as a difference.
        options = "-c termgate.scope=list -c termgate.term=1 -c TimeZone=UTC -c statement_timeout=2s"
        self.wire = pgraw.Connection(self.port, database="app", parameters=[("options", options)], wait=60)

    def run(self, case, form, oracle):
        """What each part answers, up to the first that fails."""
        try:
            return self.transaction(case, form, oracle)
        except (pgraw.Closed, pgraw.Silent) as ended:
            print(f"{self.name}: {ended}: {case.line}")
            self.connect()
            return [{"error": type(ended).__name__, "message": str(ended)}]

    def transaction(self, case, form, oracle):
        self.wire.query("BEGIN")
        answers = []
        for part in case.parts:
            answers.append(
                self.simple(part)
                if form == "simple" or part.copy is not None or not extended(part.sql)
                else self.extended(part, form, oracle)
            )
            if "error" in answers[-1]:
                break
        self.wire.query("ROLLBACK")
        return answers

    def simple(self, part):
        self.wire.send(pgraw.query(part.sql))
        messages = []
        while not messages or messages[-1].type != "Z":
            messages += self.wire.until("ZG")
            if messages[-1].type == "G":
                self.wire.send(pgraw.copy_data(part.copy or ""), pgraw.copy_done())
        return answer_of(messages)

    def extended(self, part, form, oracle):
        given = part.parameters or []
        types = [OIDS[kind] for kind, _ in given]
        values = [None if value == "NULL" else value.encode() for _, value in given]
        formats = []
        if form == "binary" and given:
            values, formats = [oracle.binary(kind, value, part, i) for i, (kind, value) in enumerate(given)], [1]
        results = [1] if form == "binary" else []
        self.wire.send(
            pgraw.parse("", part.sql, types),
            pgraw.describe("S", ""),
            pgraw.bind("", "", values, formats, results),
            pgraw.describe("P", ""),
            pgraw.execute(""),
            pgraw.sync(),
        )
        return answer_of(self.wire.until("Z"))


def extended(sql):
    return re.match(r"(select|insert|update|delete|with|values|table)\b", sql, re.I)


def answer_of(messages):
    answer = {}
    rows, copied = [], b""
    for message in messages:
        if message.type == "T":
            answer.setdefault("columns", []).append(columns_of(message.body))
        elif message.type == "t":
            count = struct.unpack_from("!H", message.body)[0]
            answer["parameters"] = list(struct.unpack_from(f"!{count}I", message.body, 2))
        elif message.type == "D":
            rows.append(message.row())
        elif message.type == "C":
            answer["tag"] = message.body.rstrip(b"\0").decode()
        elif message.type == "E":
            answer["error"] = message.fields()["C"]
            answer["message"] = message.fields()["M"]
        elif message.type == "d":
            copied += message.body
    answer["rows"], answer["copy"] = rows, copied
    return answer


def columns_of(body):
    found, at = [], 2
    for _ in range(struct.unpack_from("!H", body)[0]):
        end = body.index(b"\0", at)
        _, _, kind, _, modifier, _ = struct.unpack_from("!IHIhih", body, end + 1)
        found.append((body[at:end].decode(), kind, modifier))
        at = end + 19
    return found


class Oracle:
    """PostgreSQL's binary form of a value, and the type that it gives a parameter without one."""

    def __init__(self, side):
        self.side, self.held = side, {}

    def binary(self, kind, value, part, i):
        if value == "NULL":
            return None
        key = (kind, value) if kind != "?" else (kind, value, part.sql, i)
        if key not in self.held:
            type_oid = OIDS[kind] if kind != "?" else self.type_of(part, i)
            wire = self.side.wire
            wire.query("ROLLBACK")
            name = wire.value(f"select format_type({type_oid or 25}, null)")
            wire.send(pgraw.parse("", f"select $1::{name}"), pgraw.bind("", "", [value], [], [1]), pgraw.execute(""), pgraw.sync())
            row = [message for message in wire.until("Z") if message.type == "D"]
            # No value of the type: the bytes of its text, which both sides must refuse.
            self.held[key] = row[0].row()[0] if row else value.encode()
        return self.held[key]

    def type_of(self, part, i):
        wire = self.side.wire
        wire.send(pgraw.parse("", part.sql, [OIDS[kind] for kind, _ in part.parameters]), pgraw.describe("S", ""), pgraw.sync())
        found = [answer.get("parameters") for answer in [answer_of(wire.until("Z"))]][0]
        return found[i] if found else 25


def differs(postgres, front):
    """Nothing where they are the same; what differs, in a few words, else."""
    for i, (wanted, got) in enumerate(zip(postgres, front)):
        where = f"part {i + 1}: " if len(postgres) > 1 else ""
        if "error" in got:
            if got["error"] == wanted.get("error"):
                return ""
            if got["error"] in REFUSALS:
                return "~" + got["error"]
            return where + (f"error {got['error']} for {wanted['error']}" if "error" in wanted else f"error {got['error']}")
        if "error" in wanted:
            return where + f"no error {wanted['error']}"
        for what, name in (("rows", "values"), ("copy", "COPY's data"), ("tag", "tag"), ("parameters", "parameter types")):
            if wanted.get(what) != got.get(what):
                return where + name
        for a, b in zip(wanted.get("columns", [[]]), got.get("columns", [[]])):
            if [x[0] for x in a] != [x[0] for x in b]:
                return where + "column names"
            if [x[1] for x in a] != [x[1] for x in b]:
                return where + "column types"
            if a != b:
                return where + "type modifiers"
    return ""


def shown(answers):
    return [{name: value for name, value in answer.items() if value not in ([], b"")} for answer in answers]


def outcome(case, postgres, front, oracle, show):
    """The mark that is true of the case, and what both sides said where they differ."""
    mark = detail = ""
    for form in case.forms():
        # Both sides at work on the same case one after the other; the oracle asks PostgreSQL outside of the block.
        for part in case.parts:
            for i, (kind, value) in enumerate(part.parameters or []):
                oracle.binary(kind, value, part, i)
        wanted, got = postgres.run(case, form, oracle), front.run(case, form, oracle)
        found = differs(wanted, got)
        if show:
            print(f"   {form}: {shown(wanted)}\n     front: {shown(got)}")
        if found and not found.startswith("~"):
            return f"! {form} {found}", f"{form}: PostgreSQL {shown(wanted)}, front {shown(got)}"
        if found and not mark:
            mark = f"~ {form} {found[1:]}"
    return mark, detail


def read_list():
    """(head and comments as they stand, or Case) in the file's order; the setup's statements."""
    items, setup, mark, part = [], [], "", "setup"
    for line in open(LIST, encoding="utf-8").read().splitlines():
        if line.startswith("## "):
            part = line[3:].strip()
            items.append(line)
        elif not line or line.startswith("#"):
            items.append(line)
        elif part == "setup":
            items.append(line)
            setup.append(line)
        elif line[0] in "!~":
            mark = line
        else:
            items.append(Case(line, mark))
            mark = ""
    return items, setup


def write_list(items):
    lines = []
    for item in items:
        if isinstance(item, Case):
            lines += [item.mark] if item.mark else []
            lines.append(item.line)
        else:
            lines.append(item)
    with open(LIST, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


ITEMS, SETUP = read_list()
ONLY = given.option("only", [])
CASES = [item for item in ITEMS if isinstance(item, Case) and all(re.search(only, item.line) for only in ONLY)]


@pytest.fixture(scope="module")
def front(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    return lab.proxy(f"sqlite:{lab.folder}/app.db")


@pytest.fixture(scope="module")
def sides(lab, front):
    """Both servers, set up alike. With --write the file is renewed at the end, and at the end the counts are printed."""
    server = lab.server("15", "fsync=off")
    server.sql("create database app")
    sides = [Side("PostgreSQL", server.port), Side("front", front.port)]
    for statement in SETUP:
        for side in sides:
            answer = side.simple(Part(statement))
            assert "error" not in answer, f"set up on {side.name}: {statement}: {answer}"
    counts.clear()
    yield sides
    note(", ".join(f"{count} {what}" for what, count in counts.items()))
    if given.option("write"):
        write_list(ITEMS)


counts = {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line[:80])
def test_the_mark_is_true_of(case, sides):
    mark, detail = outcome(case, *sides, Oracle(sides[0]), given.option("show", False))
    kind = "refused" if mark.startswith("~") else "differ" if mark else "the same"
    counts[kind] = counts.get(kind, 0) + 1
    if case.mark.startswith("!!"):
        assert mark.startswith("!"), "known to differ, and does not"
    elif given.option("write"):
        case.mark = mark
    else:
        assert mark == case.mark, detail


LETTERS = (
    "select upper(chr(n)), lower(chr(n)), initcap(chr(n) || 'a' || chr(n) || 'B'), chr(n) ilike upper(chr(n)) || '%',"
    " chr(n) ~ '\\w',"
    " length(chr(n) || 'x') from generate_series({first}, {last}) n"
)


def test_every_letter_is_what_it_is_for_postgresql(sides):
    """Up to U+1FFFF, behind which no letter has another case; docs/decisions/0014."""
    differing = []
    # Of surrogates there are no characters.
    for first, last in [(1, 0xD7FF), (0xE000, 0x1FFFF)]:
        for at in range(first, last + 1, 8192):
            until = min(at + 8191, last)
            wanted, got = [side.simple(Part(LETTERS.format(first=at, last=until))) for side in sides]
            assert "error" not in got and len(wanted["rows"]) == until - at + 1, got.get("message")
            differing += [(at + i, a, b) for i, (a, b) in enumerate(zip(wanted["rows"], got["rows"])) if a != b]
    check("upper, lower, initcap, ILIKE, \\w and length of every character", not differing, f"{len(differing)}: {differing[:5]}")
    icu = sides[0].simple(
        Part(
            'select count(*) from generate_series(1, 55295) n where upper(chr(n)) <> upper(chr(n) collate "und-x-icu") or'
            ' lower(chr(n)) <> lower(chr(n) collate "und-x-icu")'
        )
    )
    note(f"ICU has another upper or lower for {icu['rows'][0][0].decode()} of them")


def test_the_proxy_ends_cleanly(front):
    check("the proxy ends cleanly", front.stop() == 0, front.log()[-2000:])
