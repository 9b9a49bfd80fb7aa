#!/usr/bin/env python3
# Long: a case for each guarantee.
"""The guarantees over Hrana, on an SQLite file: the cases of tests/conformance that have a meaning for a client, an old
leader and a new one, each declaration and each road that a write can take; and the same file written by local programs
meanwhile. A check's tag says which promise it is of.

  pytest tests/live/hrana/hrana_guarantees_test.py [--long] [-k f4]

What is in the file is read by SQLite itself, not through the proxy. Without a Python that loads extensions the local
programs are the command alone.
"""
import itertools
import json
import os
import random
import re
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.parse
import uuid
from pathlib import Path

import pytest

import given
from checks import captured, check, eventually, note, stays
from given import LONG, PYTHON, SANITIZED
from hrana import Failed, execute, statement
from hrana_served import File, Served, Socket, Stream, code_of, cursor, failed, named, post, step, token

PATIENCE = 4 if SANITIZED else 1
LOCAL_WRITER = Path(__file__).with_name("local_writer.py")
numbers = itertools.count(1)

lab = file = served = None  # of this module; `front` sets them


@pytest.fixture(scope="module", autouse=True)
def front(request):
    global lab, file, served
    lab = request.getfixturevalue("lab")
    file = File(lab)
    file.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    served = Served(lab, file.path)
    yield
    check("the file is whole", file.rows("PRAGMA integrity_check") == [("ok",)])
    check("the proxy goes on", served.process.poll() is None)


def unique(word):
    return f"{word}-{next(numbers)}"


def key():
    return next(numbers) + 1_000_000


def ids(table="t"):
    return [row[0] for row in file.rows(f"SELECT id FROM {table} ORDER BY rowid")]


def has(each):
    return bool(file.rows("SELECT 1 FROM t WHERE id = ?", each))


class Leader:
    """A client with scope and term, declared `by` a token, headers of their own, or a statement. None of them without a scope."""

    def __init__(self, scope=None, term=None, by="token", url=None):
        self.url = url or served.url
        self.headers = {} if scope is None or by == "sql" else token(scope, term) if by == "token" else named(scope, term)
        self.declared = (scope, term) if scope is not None and by == "sql" else None

    def stream(self):
        return Stream(self.url, self.headers, self.declared)

    def execute(self, sql, *values):
        return self.stream().execute(sql, *values)

    @property
    def ahead(self):
        return [step("SELECT termgate_declare(?, ?)", *self.declared)] if self.declared else []


def raised(status, body):
    """Failed with what the calls of Hrana 0 and 1 and a cursor say of an error."""
    if status != 200:
        raise failed(status, body)


def write_execute(c, each):
    c.execute(f"INSERT INTO t (id) VALUES ({each})")


def write_arguments(c, each):
    c.execute("INSERT INTO t (id) VALUES (?)", each)


def write_named(c, each):
    stmt = {"sql": "INSERT INTO t (id) VALUES (:id)", "named_args": [{"name": "id", "value": {"type": "integer", "value": str(each)}}]}
    c.stream().ask({"type": "execute", "stmt": stmt})


def write_returning(c, each):
    assert c.execute("INSERT INTO t (id) VALUES (?) RETURNING id", each) == [(each,)]


def write_replace(c, each):
    c.execute(f"INSERT OR REPLACE INTO t (id) VALUES ({each})")


def one_by_one(c, begin, *texts):
    stream = c.stream()
    stream.execute(begin)
    try:
        for text in texts:
            stream.execute(text)
    finally:
        close(stream)


def write_transaction(c, each):
    one_by_one(c, "BEGIN", f"INSERT INTO t (id) VALUES ({each})", "COMMIT")


def write_immediate(c, each):
    stream = c.stream()
    try:
        stream.ask(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t (id) VALUES (?)", each), execute("COMMIT"))
    finally:
        close(stream)


def write_after_a_read(c, each):
    one_by_one(c, "BEGIN", "SELECT count(*) FROM t", f"INSERT INTO t (id) VALUES ({each})", "COMMIT")


def write_savepoint(c, each):
    one_by_one(c, "SAVEPOINT a", f"INSERT INTO t (id) VALUES ({each})", "RELEASE a")


def write_batch(c, each):
    c.stream().batch(step("SELECT 1"), step("INSERT INTO t (id) VALUES (?)", each))


def write_batch_transaction(c, each):
    """As `@libsql/client` sends a batch."""
    undo = {"condition": {"type": "not", "cond": {"type": "ok", "step": 2}}, "stmt": statement("ROLLBACK")}
    c.stream().batch(step("BEGIN IMMEDIATE"), step("INSERT INTO t (id) VALUES (?)", each, after=0), step("COMMIT", after=1), undo)


def write_sequence(c, each):
    c.stream().sequence(f"SELECT 1; INSERT INTO t (id) VALUES ({each}); SELECT 2")


def write_stored(c, each):
    stmt = {"sql_id": 7, "args": [{"type": "integer", "value": str(each)}]}
    stream = c.stream()
    stream.ask({"type": "store_sql", "sql_id": 7, "sql": "INSERT INTO t (id) VALUES (?)"}, {"type": "execute", "stmt": stmt})
    close(stream)


def write_cursor(c, each):
    status, entries = cursor(c.url, [*c.ahead, step("INSERT INTO t (id) VALUES (?)", each)], c.headers)
    raised(status, entries[0])
    for entry in entries:
        if entry.get("type") in ("step_error", "error"):
            raise failed(200, entry["error"])


def write_hrana_0(c, each):
    if c.declared:
        return write_execute(c, each)  # one call, one transaction: a declaration of its own counts for the next
    raised(*post(c.url, "/", {"statements": [f"INSERT INTO t (id) VALUES ({each})"]}, c.headers))


def write_hrana_1(c, each):
    if c.declared:
        return write_execute(c, each)
    raised(*post(c.url, "/v1/execute", {"stmt": statement("INSERT INTO t (id) VALUES (?)", each)}, c.headers))


def write_socket(c, each):
    client = Socket(c.url, c.headers)
    try:
        if c.declared:
            client.execute("SELECT termgate_declare(?, ?)", *c.declared)
        client.execute("INSERT INTO t (id) VALUES (?)", each)
    finally:
        client.close()


def close(stream):
    try:
        stream.close()
    except (Failed, OSError):
        pass  # its transaction is over anyway


ROADS = tuple(road for name, road in list(globals().items()) if name.startswith("write_"))
DECLARATIONS = ("token", "headers", "sql")


def fails(action, *arguments):
    """The failure, None where there is none."""
    try:
        action(*arguments)
    except Failed as failure:
        return failure
    return None


def code(failure):
    """Its TG code or SQLite's: of the calls that have the message alone, what that begins with."""
    if failure is None:
        return None
    return failure.code or failure.message[:5]


def test_f1_terms_are_in_commit_order():
    for by, road in itertools.product(DECLARATIONS, ROADS):
        what = f"{by}, {road.__name__[6:]}"
        scope, first, second, third, late = unique("order"), key(), key(), key(), key()
        old, same, new = Leader(scope, 5, by), Leader(scope, 5, by), Leader(scope, 8, by)
        check(f"[F1] a first term passes: {what}", fails(road, old, first) is None and file.fence(scope) == 5, file.fence(scope))
        check(f"[F1] an equal term passes for another client: {what}", fails(road, same, second) is None and file.fence(scope) == 5)
        check(f"[F1] a higher one raises: {what}", fails(road, new, third) is None and file.fence(scope) == 8, file.fence(scope))
        error = fails(road, old, late)
        check(
            f"[F1] a lower one is refused: {what}",
            code(error) == "TG001" and f'TG001 stale term 5 for scope "{scope}": the fence stands at 8' in str(error),
            error,
        )
        again = fails(road, same, late)  # the proxy knows by now
        check(f"[F1] and from memory: {what}", code(again) == "TG001", again)
        check(f"[F5] refusals write and raise nothing: {what}", not has(late) and file.fence(scope) == 8)
        check(f"[F5] what passed is there: {what}", all(has(each) for each in (first, second, third)))
        check(f"[F7] the refused client reads on: {what}", old.execute("SELECT count(*) FROM t")[0][0] >= 3)


def test_f1_terms_and_scopes_of_every_form():
    scope = unique("big")
    a, b, c = Leader(scope, 1_000_000), Leader(scope, 1 << 62), Leader(scope, (1 << 62) - 1)
    check("[F1] terms need not be consecutive", fails(write_execute, a, key()) is None)
    check("[F1] and reach 2^62", fails(write_arguments, b, key()) is None and file.fence(scope) == 1 << 62)
    check("[F1] one below is stale", code(fails(write_execute, c, key())) == "TG001")
    base = unique("Scope")
    names = (
        base,
        base + " ",
        "s" + base[1:],
        base + "\u00e9",
        base + "e\u0301",
        base + "\U0001f512",
        base + "'\"\\;--",
        base + "%",
        base + ".5.x",
        "~" + base,
        "\U0001f512" * 200,
    )
    for by in DECLARATIONS:
        for term, name in enumerate(names, 10):
            check(f"[F1] a scope of odd letters, by {by}: {name[:30]!r}", fails(write_execute, Leader(name, term, by), key()) is None)
    for term, name in enumerate(names, 10):
        check(f"[F1] each is a scope of its own: {name[:30]!r}", file.fence(name) == term, file.fence(name))
    for by, term in itertools.product(
        ("token", "headers"), ("0", "-1", "five", "4611686018427387905", "9999999999999999999", "99999999999999999999", "5,0", "0x5", "05a")
    ):
        late = key()
        error = fails(write_execute, Leader("malformed", term, by), late)
        check(f"[F6] a malformed term is said, by {by}: {term!r}", code(error) == "TG005" and not has(late), error)
    for by, name in itertools.product(("token", "headers"), ("x" * 201, "\U0001f512" * 201)):
        late = key()
        error = fails(write_execute, Leader(name, 1, by), late)
        check(f"[F6] a scope that is too long is said, by {by}", code(error) == "TG005" and not has(late), error)
    scope = unique("latest")
    stream = Leader(scope, 5).stream()
    stream.ask(execute("INSERT INTO t (id) VALUES (?)", key()), execute("SELECT termgate_declare(?, 6)", scope))
    stream.execute("INSERT INTO t (id) VALUES (?)", key())
    check("[F1] a declaration by SQL overrides the token", file.fence(scope) == 6, file.fence(scope))
    error = fails(stream.ask, execute("SELECT termgate_declare(NULL, NULL)"), execute("INSERT INTO t (id) VALUES (?)", key()))
    check("[F1] taken back, the token's term counts, stale by now", code(error) == "TG001", error)
    scope, late = unique("raise-by"), key()
    file.seal(scope, 2)
    lab.run(lab.termgate, "fence", "raise-by", "--db", f"sqlite:{file.path}", "--scope", scope, "--mode", "seal")
    c = Leader(scope, 3)
    for road in ROADS:
        check(
            f"[F1] raise_by = seal keeps writers from raising: {road.__name__[6:]}",
            code(fails(road, c, late)) == "TG005" and not has(late) and file.fence(scope) == 2,
        )
    Leader().execute("SELECT termgate_seal(?, 3)", scope)
    check("[F1] a seal does", fails(write_execute, c, late) is None and file.fence(scope) == 3)


def test_f1_a_transaction_keeps_its_first_claim():
    """What is admitted under one term never rides on another."""
    for by, wrote in itertools.product(("headers", "sql"), (False, True)):
        scope, early, late = unique("reacquired"), key(), key()
        stream = Leader(scope, 5).stream()
        write_execute(Leader(scope, 5), key())
        stream.execute("BEGIN")
        if wrote:
            stream.execute("INSERT INTO t (id) VALUES (?)", early)
        else:
            stream.execute("SELECT count(*) FROM t")
            file.seal(scope, 6)
        if by == "headers":
            stream.headers = token(scope, 7)
            error = fails(stream.execute, "INSERT INTO t (id) VALUES (?)", late)
        else:
            error = fails(stream.ask, execute("SELECT termgate_declare(?, 7)", scope), execute("INSERT INTO t (id) VALUES (?)", late))
        fails(stream.execute, "ROLLBACK")
        close(stream)
        # A transaction that has only read is bound to nothing yet; its snapshot is older than the seal.
        check(
            f"[F1] a transaction admitted under 5 does not ride on 7, by {by}, {'written' if wrote else 'read'} before",
            not has(late) and not has(early) and code(error) in ("TG001", "TG005", "SQLITE_BUSY"),
            error,
        )
        check(f"[F1] the next one does, by {by}", fails(write_transaction, Leader(scope, 7), late) is None and file.fence(scope) == 7)
    scope, other, early, late = unique("fixed"), unique("other"), key(), key()
    stream = Leader(scope, 5).stream()
    stream.ask(execute("BEGIN"), execute("INSERT INTO t (id) VALUES (?)", early))
    stream.headers = token(other, 5)
    error = fails(stream.execute, "INSERT INTO t (id) VALUES (?)", late)
    fails(stream.execute, "ROLLBACK")
    check("[F1] nor does another scope come into it", code(error) == "TG005" and not has(late) and not has(early), error)
    for end in ("COMMIT", "ROLLBACK"):
        scope, gone, kept, late = unique("rollback-to"), key(), key(), key()
        write_execute(Leader(scope, 5), key())
        stream = Leader(scope, 7).stream()
        for sql in (
            "BEGIN",
            "SAVEPOINT a",
            f"INSERT INTO t (id) VALUES ({gone})",
            "ROLLBACK TO a",
            f"INSERT INTO t (id) VALUES ({kept})",
            end,
        ):
            stream.execute(sql)
        check(f"[F5] ROLLBACK TO of a raise, written again, {end}", not has(gone) and has(kept) == (end == "COMMIT"))
        check(f"[F1] the fence is above the write, {end}", end == "ROLLBACK" or file.fence(scope) == 7, file.fence(scope))
        check(
            f"[F1] the old leader is refused where the fence says so, {end}",
            code(fails(write_execute, Leader(scope, 5), late)) == ("TG001" if file.fence(scope) == 7 else None),
        )


def test_f2_after_a_seal_nothing_lower_is_committed():
    def by_statement(scope, term):
        Leader("elsewhere", 1).execute("SELECT termgate_seal(?, ?)", scope, term)

    def by_statement_alone(scope, term):
        Leader().execute("SELECT termgate_seal(?, ?)", scope, term)

    def by_write(scope, term):
        write_execute(Leader(scope, term), key())

    def by_exec(scope, term):
        lab.run(
            lab.termgate, "exec", "--db", f"sqlite:{file.path}", "--scope", scope, "--term", term, f"INSERT INTO t (id) VALUES ({key()})"
        )

    for how, road in itertools.product((by_statement, by_statement_alone, by_write, by_exec, file.seal), ROADS):
        scope, late = unique("seal"), key()
        old, new = Leader(scope, 5), Leader(scope, 6)
        road(old, key())
        how(scope, 6)
        error = fails(road, old, late)
        check(f"[F2] sealed {how.__name__}, then {road.__name__[6:]}", code(error) == "TG001" and not has(late), error)
        if road is write_execute:
            check(f"[F2] the new leader writes, sealed {how.__name__}", fails(road, new, late) is None)
    scope = unique("seal")
    by_statement_alone(scope, 6)
    check("[F2] the same term again is a no-op", fails(by_statement_alone, scope, 6) is None and file.fence(scope) == 6)
    error = fails(by_statement_alone, scope, 5)
    check("[F2] a lower seal is stale", code(error) == "TG001", error)
    # Leases: an acquisition shuts the one before out.
    scope, late = unique("lease"), key()
    got = json.loads(Leader("elsewhere", 1).execute("SELECT termgate_acquire_lease(?, 'a', 60000)", scope)[0][0])
    term = got["term"]
    check("[F2] a lease's term writes", got["acquired"] in (True, 1) and fails(write_execute, Leader(scope, term), key()) is None, got)
    never = fails(write_execute, Leader(scope, term + 1), late)
    check("[F2] one that was never issued is no term", code(never) == "TG005" and file.fence(scope) == term, never)
    done = captured([lab.termgate, "lease", "acquire", "--db", f"sqlite:{file.path}", "--scope", scope, "--owner", "a", "--ttl", "60s"])
    check("[F2] taken again by the command", done.returncode == 0, done)
    check("[F2] the one before is shut out", code(fails(write_execute, Leader(scope, term), late)) == "TG001" and not has(late))
    # Once a seal has returned nothing lower commits, whatever was on its way.
    for how in (by_statement_alone, file.seal):
        scope, stop = unique("race"), threading.Event()
        file.rows(f'CREATE TABLE "{scope}" (id int)')

        def writer(number):
            c = Leader(scope, 5)
            for each in itertools.count(number * 1_000_000):
                if stop.is_set():
                    return
                try:
                    if each % 3:
                        c.execute(f'INSERT INTO "{scope}" VALUES (?)', each)
                    else:
                        stream = c.stream()
                        stream.ask(execute("BEGIN"), execute(f'INSERT INTO "{scope}" VALUES (?)', each))
                        stream.ask(execute("COMMIT"))
                except (Failed, OSError):
                    return

        threads = [threading.Thread(target=writer, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(ids(f'"{scope}"')) > 200, 20), "the writers write"
        begin, sealed = time.monotonic(), False
        while not sealed and time.monotonic() - begin < 30:  # from outside it may starve behind writers that never pause, and be TG006
            try:
                how(scope, 6)
                sealed = True
            except (AssertionError, Failed):
                pass
        at_seal = len(ids(f'"{scope}"'))
        stays(lambda: len(ids(f'"{scope}"')) == at_seal, 0.3)
        stop.set()
        for thread in threads:
            thread.join(30)
        check(
            f"[F2] after a seal has returned no lower term commits: {how.__name__}",
            sealed and at_seal > 8 and len(ids(f'"{scope}"')) == at_seal,
            (sealed, at_seal, len(ids(f'"{scope}"'))),
        )


def test_f3_fences_survive_restarts_and_doubt_stops_writes():
    global served
    scope = unique("kept")
    write_execute(Leader(scope, 8), key())
    port = served.port
    served.stop()
    served = Served(lab, file.path, port=port)
    old, new = Leader(scope, 7), Leader(scope, 8)
    check("[F3] a fence survives the proxy", code(fails(write_execute, old, key())) == "TG001" and file.fence(scope) == 8)
    check("[F3] and its term goes on", fails(write_execute, new, key()) is None)
    new.execute("DELETE FROM t WHERE id < 0")
    check("[F3] deleting rows lowers nothing", code(fails(write_execute, old, key())) == "TG001")
    stream = unique("stream")
    new.execute("SELECT termgate_append(?, 8, 'x', NULL, ?)", stream, scope)
    lab.run(lab.termgate, "prune", "--db", f"sqlite:{file.path}", "--stream", stream, "--before", 2)
    check("[F3] nor does pruning", code(fails(write_execute, old, key())) == "TG001")
    for text in (
        "SELECT termgate_reset_fence('x', 1, 'a', 'b')",
        "UPDATE termgate_fences SET term = 1",
        "DELETE FROM termgate_fences",
        "DROP TABLE termgate_fences",
    ):
        check(f"[F3] not through the wire: {text}", code(fails(new.execute, text)) == "SQLITE_AUTH")
    # A file that its operator declares to be an older copy: nothing is written until each scope is settled.
    older = File(lab, name="older.db")
    older.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    there = lambda: [row[0] for row in older.rows("SELECT id FROM t ORDER BY id")]  # noqa: E731
    other = Served(lab, older.path)
    c, new = Leader("external", 5, url=other.url), Leader("external", 9, url=other.url)
    write_execute(c, 1)
    lab.run(lab.termgate, "fence", "declare-restored", "--db", f"sqlite:{older.path}", "--untrusted", "--reason", "test")
    for road in ROADS:
        check(
            f"[F3] untrusted: {road.__name__[6:]}",
            code(fails(road, c, 2)) == "TG004" and code(fails(road, new, 2)) == "TG004" and there() == [1],
        )
    check("[F3] nor does a seal vouch", code(fails(new.execute, "SELECT termgate_seal('external', 20)")) == "TG004")
    check("[F3] reads go on", c.execute("SELECT id FROM t") == [(1,)])
    lab.run(
        lab.termgate, "fence", "declare-restored", "--db", f"sqlite:{older.path}", "--scope", "external", "--above", "8", "--reason", "test"
    )
    check("[F3] settled, the old term is refused", code(fails(write_execute, c, 2)) == "TG001")
    check("[F3] and the new one writes", fails(write_execute, new, 2) is None and there() == [1, 2])
    other.stop()


# --- F4 ---

ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2000000000)"


def insert(each):
    return f"INSERT INTO t (id) VALUES ({each})"


class Hostage:
    """A client of term 1 that keeps the write lock; `told` is how it learns that its transaction is over."""

    def __init__(self, scope):
        self.stream, self.scope, self.socket, self.failure = Leader(scope, 1).stream(), scope, None, []

    def begins(self, *texts):
        for text in texts:
            self.stream.execute(text)

    def in_the_background(self, action, *arguments):
        threading.Thread(target=lambda: self.failure.append(fails(action, *arguments)), daemon=True).start()

    def half_a_request(self):
        """A request whose body never comes whole."""
        place = urllib.parse.urlsplit(self.stream.url)
        body = json.dumps({"baton": self.stream.baton, "requests": [execute("SELECT 1")]}).encode()
        head = f"POST /v2/pipeline HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {text}\r\n" for name, text in self.stream.headers.items())
        self.socket = socket.create_connection((place.hostname, place.port))
        self.socket.sendall(head.encode() + b"\r\n" + body[:-5])

    def told(self):
        if self.failure:
            return self.failure[0]
        return fails(self.stream.execute, "SELECT 1")


def restless(hostage, each):
    hostage.begins("BEGIN", insert(each))

    def go_on():
        while True:
            hostage.stream.execute("SELECT 1")
            time.sleep(0.05)

    hostage.in_the_background(go_on)


def by_socket(hostage, each):
    client = Socket(hostage.stream.url, hostage.stream.headers)
    client.execute("BEGIN")
    client.execute(insert(each))
    hostage.stream = client


HOSTAGES = {
    "an idle transaction": lambda h, each: h.begins("BEGIN", insert(each)),
    "an idle BEGIN IMMEDIATE": lambda h, _: h.begins("BEGIN IMMEDIATE"),
    "an idle transaction with a savepoint": lambda h, each: h.begins("BEGIN", "SAVEPOINT a", insert(each)),
    "an idle savepoint": lambda h, each: h.begins("SAVEPOINT a", insert(each)),
    "a batch without its COMMIT": lambda h, each: h.stream.batch(step("BEGIN IMMEDIATE"), step(insert(each))),
    "a sequence without its COMMIT": lambda h, each: h.stream.sequence(f"BEGIN; {insert(each)}"),
    "a failed statement in it": lambda h, each: (h.begins("BEGIN", insert(each)), fails(h.stream.execute, "SELECT nope")),
    "half a request": lambda h, each: (h.begins("BEGIN", insert(each)), h.half_a_request()),
    "a statement at work": lambda h, _: h.in_the_background(h.stream.execute, f"INSERT INTO t (id) {ENDLESS} SELECT max(i) FROM r"),
    "a transaction that never pauses": restless,
    "a WebSocket": by_socket,
}
F4_ROADS = {
    "a write": lambda scope, late: write_arguments(Leader(scope, 2), late),
    "a batch": lambda scope, late: write_batch_transaction(Leader(scope, 2), late),
    "a seal": lambda scope, late: Leader().execute("SELECT termgate_seal(?, 2)", scope),
    "a seal by the command": lambda scope, late: file.seal(scope, 2),
}
# Each with a write and, in turn, with one other way; --long: each in every way.
F4_CASES = [
    (name, how)
    for number, name in enumerate(HOSTAGES)
    for place, how in enumerate(F4_ROADS)
    if LONG or place == 0 or place == 1 + number % (len(F4_ROADS) - 1)
]


@pytest.mark.parametrize("name, how", F4_CASES)
def test_f4_no_hostage_is_taken_by(name, how):
    """A stream of term 1 has the write lock; a higher one must be through soon."""
    scope, late, mine = unique("hostage"), key(), key()
    check(f"[F4] {name}: term 1 leads", fails(write_execute, Leader(scope, 1), key()) is None)
    hostage = Hostage(scope)
    HOSTAGES[name](hostage, mine)
    check(f"[F4] {name}: it has the write lock", eventually(file.locked))
    begin = time.monotonic()
    error = fails(F4_ROADS[how], scope, late)
    took = time.monotonic() - begin
    check(f"[F4] {name} holds up {how} no longer than the grace", error is None and took < 2.6 * PATIENCE, (error, took))
    check(f"[F4] {name}: its write is gone", not has(mine) and file.fence(scope) == 2, file.fence(scope))
    check(f"[F4] {name}: the new leader goes on", fails(write_execute, Leader(scope, 2), key()) is None)
    if name != "half a request":
        eventually(lambda: hostage.failure or name not in ("a statement at work", "a transaction that never pauses"), 10)
        told = hostage.told()
        lost_by_status = told is not None and (told.status == 400 or name in ("a WebSocket", "a statement at work"))
        check(f"[F4][F5] {name}: it is told, and not in a 200", code(told) == "TG001" and lost_by_status, told)
    close(hostage.stream)


def test_f4_what_cannot_be_ended_ends_the_wait_and_is_named():
    guarded = File(lab, name="held.db")
    guarded.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    lab.run(lab.termgate, "settings", "--db", f"sqlite:{guarded.path}", "check_wait_ms=700")
    other = Served(lab, guarded.path)
    c, new = Leader("held", 5, url=other.url), Leader("held", 6, url=other.url)
    write_execute(c, 1)
    guarded.rows("BEGIN IMMEDIATE")
    for road, each in itertools.product((write_execute, write_transaction, write_batch_transaction), (c, new)):
        begin = time.monotonic()
        error = fails(road, each, 2)
        took = time.monotonic() - begin
        check(
            f"[F4] another process's lock ends the wait: {road.__name__[6:]}, {'a raise' if each is new else 'an equal term'}",
            code(error) in ("TG006", "SQLITE_BUSY") and f"process {os.getpid()}" in str(error) and 0.6 < took < 4 * PATIENCE,
            (error, took),
        )
    check("[F7] reads go on", c.execute("SELECT id FROM t") == [(1,)])
    guarded.rows("COMMIT")
    check("[F5] nothing of it was written", guarded.rows("SELECT id FROM t") == [(1,)] and guarded.fence("held") == 5)
    check("[F4] and then it is", fails(write_execute, new, 2) is None and guarded.fence("held") == 6)
    other.stop()


def test_f4_a_crowd_that_never_pauses_holds_up_no_seal():
    scope, stop, refused = unique("crowd"), threading.Event(), []

    def crowd():
        c = Leader(scope, 1)
        while not stop.is_set():
            error = fails(write_arguments, c, key())
            if error is not None:
                refused.append(code(error))
                return

    threads = [threading.Thread(target=crowd) for _ in range(24)]
    for thread in threads:
        thread.start()
    before = len(ids())
    assert eventually(lambda: len(ids()) > before + 50, 20), "the crowd writes"
    begin = time.monotonic()
    error = fails(Leader().execute, "SELECT termgate_seal(?, 2)", scope)
    took = time.monotonic() - begin
    check("[F4] a crowd that never pauses holds up no seal", error is None and took < 2.6 * PATIENCE, (error, took))
    check(
        "[F2] and is refused, each of them",
        eventually(lambda: len(refused) == len(threads), 20 * PATIENCE) and set(refused) == {"TG001"},
        refused,
    )
    stop.set()
    for thread in threads:
        thread.join(20)


def test_f4_a_lower_term_evicts_nobody_and_a_reader_is_left_alone():
    scope, mine, outcome = unique("higher"), key(), []
    new = Leader(scope, 3).stream()
    new.ask(execute("BEGIN"), execute(insert(mine)))
    thread = threading.Thread(target=lambda: outcome.append(fails(write_execute, Leader(scope, 2), key())))
    thread.start()
    for _ in range(6):
        time.sleep(0.3)
        new.execute("SELECT 1")
    new.execute("COMMIT")
    thread.join(20)
    check("[F4] a lower term evicts nobody", has(mine) and code(outcome[0]) == "TG001", outcome)
    reader = Leader(scope, 3).stream()
    reader.execute("BEGIN")
    count = reader.execute("SELECT count(*) FROM t")
    begin = time.monotonic()
    write_execute(Leader(scope, 4), key())
    check(
        "[F4] a reader holds up nobody and is left alone",
        time.monotonic() - begin < 0.9 * PATIENCE and reader.execute("SELECT count(*) FROM t") == count,
    )
    close(reader)
    # A client that declares nothing sends BEGIN IMMEDIATE for reads too: it must not hold the lock.
    nobody = Leader().stream()
    nobody.execute("BEGIN IMMEDIATE")
    begin = time.monotonic()
    error = fails(write_execute, Leader(scope, 4), key())
    check("[F4] BEGIN IMMEDIATE without a term holds up nobody", error is None and time.monotonic() - begin < 0.9 * PATIENCE, error)
    close(nobody)


def test_f4_a_silent_holder_gives_way_to_anyone_after_its_limit():
    scope, mine = unique("idle"), key()
    idle = Leader(scope, 1).stream()
    idle.ask(execute("BEGIN"), execute(insert(mine)))
    begin = time.monotonic()
    error = fails(write_execute, Leader(unique("other"), 1), key())
    took = time.monotonic() - begin
    check("[F4] a silent holder gives way to anyone after its limit", error is None and 2 < took < 4.6 * PATIENCE, (error, took))
    told = fails(idle.execute, "SELECT 1")
    check("[F4] and is told, not in a 200", told is not None and told.status == 400 and not has(mine), told)


# --- F5 ---


def test_f5_a_lost_transaction_is_never_a_200():
    """A client that reads a 200 goes on in autocommit: every request of a stream whose transaction is over must be a 400."""

    def evicted(scope):
        Leader().execute("SELECT termgate_seal(?, 9)", scope)

    def restarted(_):
        global served
        port = served.port
        served.stop(kind=9)
        served = Served(lab, file.path, port=port)

    requests = {
        "execute": lambda each: [execute(insert(each))],
        "batch": lambda each: [{"type": "batch", "batch": {"steps": [step(insert(each))]}}],
        "sequence": lambda each: [{"type": "sequence", "sql": insert(each)}],
        "COMMIT": lambda _: [execute("COMMIT")],
        "close": lambda _: [{"type": "close"}],
        "get_autocommit": lambda _: [{"type": "get_autocommit"}],
        "nothing": lambda _: [],
    }
    for how, (name, made) in itertools.product((evicted, restarted), requests.items()):
        if how is restarted and not LONG and name not in ("execute", "COMMIT"):
            continue
        scope, mine, late = unique("lost"), key(), key()
        stream = Leader(scope, 5).stream()
        stream.ask(execute("BEGIN"), execute(insert(mine)))
        baton = stream.baton
        how(scope)
        told = fails(stream.send, *made(late))
        check(f"[F5] {how.__name__}, then {name}: status 400", told is not None and told.status == 400, told)
        check(f"[F5] {how.__name__}, then {name}: with the reason", told is not None and bool(told.code) and bool(told.message), told)
        stream.baton = baton
        again = fails(stream.send, execute(insert(late)))
        check(f"[F5] {how.__name__}, then {name}: and so is what follows", again is not None and again.status == 400, again)
        check(f"[F5] {how.__name__}, then {name}: nothing was written", not has(mine) and not has(late))


def test_f5_a_write_happens_as_a_whole_or_not_at_all():
    scope = unique("all")
    c = Leader(scope, 5)
    a, b = key(), key()
    error = fails(c.execute, f"INSERT INTO t (id) VALUES ({a}), ({a})")
    check("[F5] a statement that fails half-way leaves nothing", code(error) == "SQLITE_CONSTRAINT" and not has(a), error)
    transaction = [
        step("BEGIN IMMEDIATE"),
        step(insert(a), after=0),
        step(insert(b), after=1),
        step(insert(a), after=2),
        step("COMMIT", after=3),
    ]
    undo = {"condition": {"type": "not", "cond": {"type": "ok", "step": 4}}, "stmt": statement("ROLLBACK")}
    error = fails(c.stream().batch, *transaction, undo)
    check("[F5] a batch that is one transaction", code(error) == "SQLITE_CONSTRAINT" and not has(a) and not has(b), error)
    check("[F5] which holds the lock no longer", eventually(lambda: not file.locked()))
    stream = c.stream()
    stream.ask(execute("BEGIN"), execute(insert(a)))
    fails(stream.execute, "INSERT INTO nowhere VALUES (1)")
    check("[F7] an error ends no transaction, as in SQLite", not stream.is_autocommit())
    stream.execute("ROLLBACK")
    check("[F5] and what is rolled back is gone", not has(a))
    stream = c.stream()
    for sql in ("BEGIN", "SAVEPOINT one"):
        stream.execute(sql)
    fails(stream.execute, "INSERT INTO nowhere VALUES (1)")
    for sql in ("ROLLBACK TO one", insert(a), "COMMIT"):
        stream.execute(sql)
    check("[F5] a savepoint mends it", has(a))
    for name, leave in {
        "close": lambda s: s.ask({"type": "close"}),
        "OR ROLLBACK": lambda s: fails(s.execute, f"INSERT OR ROLLBACK INTO t (id) VALUES ({a})"),
    }.items():
        stream = c.stream()
        stream.ask(execute("BEGIN"), execute(insert(b)))
        leave(stream)
        check(f"[F5] {name} leaves nothing", eventually(lambda: fails(write_execute, Leader(scope, 5), key()) is None) and not has(b))
        if name == "OR ROLLBACK":
            check("[F7] and the stream is in autocommit", stream.is_autocommit())
            close(stream)
    client = Socket(served.url, c.headers)
    client.execute("BEGIN")
    client.execute(insert(b))
    client.close()
    check(
        "[F5] a WebSocket that goes leaves nothing",
        eventually(lambda: fails(write_execute, Leader(scope, 6), key()) is None) and not has(b),
    )


def test_f5_appends_and_write_ids():
    scope, stream, happened, never = unique("ids"), unique("stream"), str(uuid.uuid4()), str(uuid.uuid4())
    c = Leader(scope, 1)

    def append(term, payload="x", expected=None, of=None, write_id=None, to=None):
        return int(c.execute("SELECT termgate_append(?, ?, ?, ?, ?, ?)", to or stream, term, payload, expected, of, write_id)[0][0])

    check("[F5] an append", append(1, of=scope, write_id=happened) == 1 and append(1, "two") == 2)
    check(
        "[F5] the same write id again is the same write",
        append(1, write_id=happened) == 1
        and file.rows("SELECT count(*) FROM termgate_stream_writes WHERE stream_id = ?", stream) == [(2,)],
    )
    check("[F5] expected is the last number", code(fails(append, 1, "x", 1)) == "TG003" and append(1, "x", 2) == 3)
    check("[F5] a stream keeps its scope", code(fails(append, 1, "x", None, "another")) == "TG005" and file.fence("another") is None)
    file.seal(scope, 2)
    check("[F2] an append of the old term is refused", code(fails(append, 1, "late", None, None, never)) == "TG001")
    # Its client is stale, so it writes nothing more; what became of a write it may ask.
    found = json.loads(c.execute("SELECT termgate_outcome(?)", happened)[0][0])
    check("[F5] a stale writer is told that its write happened", found["sequence_no"] == 1 and found["stream"] == stream, found)
    check("[F5] and that the other did not", c.execute("SELECT termgate_outcome(?)", never) == [(None,)])
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{file.path}")


# --- F6 ---


def test_f6_no_road_is_open_without_a_valid_term():
    for road in ROADS:
        late = key()
        error = fails(road, Leader(), late)
        check(f"[F6] without a term: {road.__name__[6:]}", code(error) == "TG002" and not has(late), error)
        check("[F6] which reads on", Leader().execute("SELECT 1") == [(1,)])
    for mode in ("reject", "allow"):
        other = Served(lab, file.path, "--without-term", mode)
        late, nobody = key(), Leader(url=other.url)
        reads, writes = fails(nobody.execute, "SELECT count(*) FROM t"), fails(write_execute, nobody, late)
        if mode == "allow":
            check("[F6] --without-term allow", reads is None and writes is None and has(late), writes)
            check("[F6] the guard stays", code(fails(nobody.execute, "DELETE FROM termgate_fences")) == "SQLITE_AUTH")
        else:
            check("[F6] --without-term reject", code(reads) == "TG002" and code(writes) == "TG002" and not has(late), (reads, writes))
        scope = unique("declared")
        old = Leader(scope, 5, url=other.url)
        write_execute(old, key())
        file.seal(scope, 6)
        check(f"[F6] who declares is held to it: {mode}", code(fails(write_execute, old, key())) == "TG001")
        other.stop()


def test_f6_rules_declare_for_those_who_cannot():
    scope, elector, late = unique("ruled"), f"{lab.folder}/elector", key()

    def elected(text):
        with open(f"{elector}.new", "w") as out:
            out.write(text)
        os.replace(f"{elector}.new", elector)

    elected(f"scope={scope} term=5\n")
    with open(f"{lab.folder}/rules", "w") as out:
        out.write(
            f"[rule fixed]\napplication = fixed\nscope = {scope}\nterm = 5\n[rule elected]\napplication = elected\nfile = {elector}\n"
            "[rule watched]\napplication = watched\nenforce = observe\n"
        )
    ruled = Served(lab, file.path, "--rules", f"{lab.folder}/rules")

    def of(application, claim=None):
        made = Leader(url=ruled.url)
        made.headers = {"Termgate-Application": application, **(claim or {})}
        return made

    check("[F6] a rule's pair", fails(write_execute, of("fixed"), key()) is None and file.fence(scope) == 5)
    check("[F6] a rule's file", fails(write_arguments, of("elected"), key()) is None)
    check("[F6] a rule is final", fails(write_execute, of("fixed", token(scope, 99)), key()) is None and file.fence(scope) == 5)
    file.seal(scope, 6)
    for name in ("fixed", "elected"):
        check(
            f"[F2] what rules declare is refused as stale: {name}", code(fails(write_execute, of(name), late)) == "TG001" and not has(late)
        )
    elected(f"scope={scope} term=6\n")
    check("[F1] the elector's next term counts", eventually(lambda: fails(write_execute, of("elected"), key()) is None, 5 * PATIENCE))
    elected(f"scope={scope} term=5\n")
    fell_back = lambda: code(fails(write_execute, of("elected"), key())) == "TG001"  # noqa: E731
    check("[F1] a term that fell back is refused", eventually(fell_back, 5 * PATIENCE) and file.fence(scope) == 6)
    passed = key()
    error = fails(write_execute, of("watched", token(scope, 1)), passed)
    check("[F6] --enforce observe lets a stale write pass", error is None and has(passed) and file.fence(scope) == 6, error)
    counted = re.compile(r"^termgate_would_refuse_total\{.*code=\"TG001\"\} [1-9]", re.M)
    check("[F6] and counts it", eventually(lambda: counted.search(ruled.get("/metrics")[1])))
    ruled.stop()


@pytest.fixture(scope="module")
def guarded_table():
    file.rows("CREATE TABLE guarded (id INTEGER PRIMARY KEY, scope TEXT)")
    lab.run(lab.termgate, "protect", "--db", f"sqlite:{file.path}", "guarded", "--scope-column", "scope")


def test_f6_a_protected_table_takes_rows_of_its_scope_only(guarded_table):
    scope, mine, theirs = unique("protected"), key(), key()
    c = Leader(scope, 5)
    check("[F6] protect: the row's scope passes", fails(c.execute, "INSERT INTO guarded VALUES (?, ?)", mine, scope) is None)
    check("[F6] protect: another's is refused", code(fails(c.execute, "INSERT INTO guarded VALUES (?, ?)", theirs, "another's")) == "TG002")
    check(
        "[F6] protect: nor is a row moved there",
        code(fails(c.execute, "UPDATE guarded SET scope = 'another''s'")) == "TG002"
        and file.rows("SELECT id, scope FROM guarded") == [(mine, scope)],
    )


def test_f6_a_group_commit_shares_no_check(guarded_table):
    """One commit, many clients: what one of them has passed is no other's."""
    stop, wrong, right = threading.Event(), [], []

    def member(own, foreign, number):
        c = Leader(own, 5)
        for each in itertools.count(number * 10_000_000):
            if stop.is_set():
                return
            right.append(fails(c.execute, "INSERT INTO guarded VALUES (?, ?)", each * 2, own))
            wrong.append(code(fails(c.execute, "INSERT INTO guarded VALUES (?, ?)", each * 2 + 1, foreign)))

    scopes = [unique("member") for _ in range(8)]
    threads = [threading.Thread(target=member, args=(scopes[n], scopes[(n + 1) % 8], n + 1)) for n in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(wrong) > 200, 10)
    stop.set()
    for thread in threads:
        thread.join(20)
    check(
        "[F6] a group commit shares no check",
        len(wrong) > 20 and set(wrong) == {"TG002"} and set(right) == {None},
        (len(wrong), set(wrong), [each for each in right if each][:2]),
    )
    check("[F6] and every row is where it belongs", file.rows("SELECT count(*) FROM guarded WHERE id % 2 = 1 AND id > 10000000") == [(0,)])


# --- several programs ---


def test_several_programs_on_one_file_keep_one_layer_1():
    """[F1][F2][F5] The file open in several programs at a time, two proxies among them: still one layer 1, whoever raises."""
    second = Served(lab, file.path)
    seconds = 30 if LONG else 6
    file.rows("CREATE TABLE mixed (id INTEGER PRIMARY KEY, term int, who text)")
    term_path, term = f"{lab.folder}/term", [1]

    def leads(number):
        with open(f"{term_path}.new", "w") as out:
            out.write(str(number))
        os.replace(f"{term_path}.new", term_path)
        term[0] = number

    leads(1)
    extension = os.path.splitext(given.EXTENSION)[0]
    probe = f"import sqlite3; c = sqlite3.connect(':memory:'); c.enable_load_extension(True); c.load_extension({extension!r})"
    loads = subprocess.run([PYTHON, "-c", probe], capture_output=True).returncode == 0
    stop_at, fates, lock, stop = time.time() + seconds, [], threading.Lock(), threading.Event()
    programs = [
        lab.program(PYTHON, LOCAL_WRITER, extension, file.path, stop_at, term_path, number, stdout=subprocess.PIPE, text=True)
        for number in ((1, 2) if loads else ())
    ]

    def client(number):
        seed, each = random.Random(number), number * 1_000_000
        while not stop.is_set():
            each += 1
            own = max(1, term[0] - (seed.random() < 0.2))
            stream = Leader("mixed", own, url=(second if number == 3 else served).url).stream()
            write = execute("INSERT INTO mixed VALUES (?, ?, 'wire')", each, own)
            try:
                if seed.random() < 0.3:
                    stream.ask(execute("BEGIN"), write)
                    stream.ask(execute("SELECT termgate_append('mixed', ?, ?)", own, str(each)), execute("COMMIT"))
                else:
                    stream.ask(write)
                fate = "committed"
            except Failed as failure:
                fate = {"TG001": "refused", "TG006": "busy", "SQLITE_BUSY": "busy", "TRANSACTION_TIMEOUT": "ended"}.get(
                    code(failure), f"failed:{failure}"
                )
                close(stream)
            with lock:
                fates.append((fate, each, own))
            time.sleep(0.002)

    def command():
        for each in itertools.count(9_000_000):
            if stop.is_set():
                return
            own = max(1, term[0] - (each % 4 == 0))
            done = file.command("exec", "--scope", "mixed", "--term", own, f"INSERT INTO mixed VALUES ({each}, {own}, 'command')")
            with lock:
                fates.append(({0: "committed", 3: "refused", 8: "busy"}.get(done.returncode, f"failed:{done.stderr}"), each, own))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(3, 8)] + [threading.Thread(target=command)]
    for thread in threads:
        thread.start()
    turn = 0
    while time.time() < stop_at:
        time.sleep(0.3)
        turn += 1
        following = term[0] + 1
        # In turn by whoever writes first, through the wire, and by the command.
        if turn % 3 == 0:
            leads(following)
        elif turn % 3 == 1:
            if code_of(Leader().execute, "SELECT termgate_seal('mixed', ?)", following) is None:
                leads(following)
        elif file.command("seal", "--scope", "mixed", "--term", following).returncode == 0:
            leads(following)
    stop.set()
    for thread in threads:
        thread.join(30)
    for program in programs:
        for line in program.communicate(timeout=30)[0].splitlines():
            fate, each, own = line.rsplit(" ", 2)
            fates.append((fate, int(each), int(own)))
    second.stop()
    rows = file.rows("SELECT id, term, who FROM mixed")
    there = {row[0]: row[1] for row in rows}
    committed = {each for fate, each, _ in fates if fate == "committed"}
    not_there = {each for fate, each, _ in fates if fate in ("refused", "busy", "ended")}
    failed = [fate for fate, _, _ in fates if fate.startswith("failed")]
    counts = {who: len([row for row in rows if row[2] == who]) for who in ("wire", "local", "command")}
    note(f"{counts}, {len(not_there)} refused or busy, term {term[0]}")
    check("[F5] mixed: nothing acknowledged is missing", committed <= set(there), sorted(committed - set(there))[:5])
    check("[F5] mixed: nothing refused is there", not not_there & set(there), sorted(not_there & set(there))[:5])
    check("[F5] mixed: every row was acknowledged", set(there) <= committed, sorted(set(there) - committed)[:5])
    check("[F1] mixed: each under its own term", all(there[each] == own for fate, each, own in fates if fate == "committed"))
    check("[F7] mixed: nobody was told anything else", not failed, failed[:3])
    appends = file.rows(
        "SELECT sequence_no, term, CAST(payload AS TEXT) FROM termgate_stream_writes WHERE stream_id = 'mixed' ORDER BY sequence_no"
    )
    check("[F1] mixed: terms along the stream never decrease", [row[1] for row in appends] == sorted(row[1] for row in appends))
    check(
        "[F5] mixed: its numbers have no gaps, its writes no doubles",
        [row[0] for row in appends] == list(range(1, len(appends) + 1)) and len({row[2] for row in appends}) == len(appends),
    )
    check("[F5] mixed: and are those of the rows", {int(row[2]) for row in appends} <= set(there))
    wrote = counts["wire"] > 20 and counts["command"] > 0 and (not loads or counts["local"] > 0) and term[0] > 3
    check("mixed: everybody wrote", wrote, (counts, term))
    check("mixed: and was refused", any(fate == "refused" for fate, _, _ in fates))
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{file.path}")
