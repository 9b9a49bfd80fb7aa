#!/usr/bin/env python3
"""Random typed statements mean on an SQLite file behind the proxy what they mean on PostgreSQL 15, or they are refused.

  pytest tests/live/sqlite_server_expressions_test.py [--count N] [--seed S] [--show]

A random schema of a few tables with a column of every type, rows with awkward values, and statements over them
(tests/support/random_sql.py): expressions of columns, constants, parameters, operators, functions, casts, CASE,
subqueries, aggregates and window functions; joins, grouping, set operations, WITH, INSERT, UPDATE, DELETE and ON
CONFLICT. Both sides get the same statement; compared are the columns' types, the values as text, and the SQLSTATE.

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
from random_sql import Maker

# Where a part of the statement may stay uncomputed.
LAZY = re.compile(r"\b(null|case|coalesce|and|or|in|between|nullif|where|having|filter|exists|any|all|join|lag|lead|\w+_value)\b", re.I)


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
    early = ("22003", "22012", "22P02", "22007", "22008", "2201E", "2201F", "22001", "22011", "22023")
    if LAZY.search(sql) and ("error" in front) != ("error" in postgres) and (postgres.get("error") or front.get("error")) in early:
        # PostgreSQL computes constants while it plans, and leaves out what a NULL, another branch or a condition makes needless.
        return "folded"
    if "error" in front:
        if front["error"] == postgres.get("error"):
            return "same error"
        # PostgreSQL reads '{1,2,3}' and '1,2,3' as dates; the front says that they are none.
        if front["error"] == "0A000" or (front["error"] == "22007" and re.search(r"\"\{?[0-9,]*\}?\"$", front["message"])):
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
            if postgres.get("types") == [1186] and re.search("UNION|DISTINCT|INTERSECT|EXCEPT", sql):
                return "same"
            a, b = sorted(repr(shown(sql, row)) for row in a), sorted(repr(shown(sql, row)) for row in b)
            if a != b:
                return what
    return "same"


def shown(sql, row):
    """A minus before zero is not stored; of values that are equal, but shown otherwise, UNION and DISTINCT may give any."""
    row = [b"0" if cell == b"-0" else cell for cell in row]
    if re.search("UNION|DISTINCT|GROUP BY|INTERSECT|EXCEPT", sql):
        row = [re.sub(rb"(\.\d*?)0+$", rb"\1", cell).rstrip(b".") if cell and re.fullmatch(rb"-?\d+\.\d+", cell) else cell for cell in row]
        row = [SPANS.get(cell, cell) for cell in row]
    return row


SPANS = {b"24:00:00": b"1 day", b"30 days": b"1 mon", b"-24:00:00": b"-1 days", b"-30 days": b"-1 mons"}


def test_random_expressions_mean_the_same_or_are_refused(lab):
    count = given.option("count", 10_000)
    seed = given.option("seed", random.SystemRandom().randrange(1 << 32) if LONG else 1)
    maker = Maker(seed)
    tally, refusals, wrong = Counter(), Counter(), []
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    proxy = lab.proxy(f"sqlite:{lab.folder}/app.db")
    server = lab.server("15", "fsync=off")
    server.sql("create database app template template0 lc_collate 'C' lc_ctype 'C.UTF-8'")
    postgres, front = Side(server.port), Side(proxy.port)
    for side in (postgres, front):
        side.set_up(Maker(seed).schema())
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
