#!/usr/bin/env python3
# Long: a case for each guarantee.
"""The guarantees over Hrana, on an SQLite file: the cases of tests/conformance that have a meaning for a client, an old
leader and a new one, each declaration and each road that a write can take. A check's tag says which promise it is of.
hrana_attacker_test.py has the same at random, beside local programs and with proxies that are killed.

  pytest tests/live/hrana/hrana_guarantees_test.py [--long] [-k f4]

What is in the file is read by SQLite itself, not through the proxy.
"""
import itertools
import json
import os
import re
import socket
import threading
import time
import urllib.parse

import pytest

from checks import check, eventually
from given import LONG, SANITIZED
from hrana import Failed, execute, statement
from hrana_served import File, Served, Socket, Stream, cursor, failed, named, post, step, token

PATIENCE = 4 if SANITIZED else 1


numbers = itertools.count(1)

lab = file = served = None  # of this module; `front` sets them


@pytest.fixture(scope="module", autouse=True)
def front(request):
    global lab, file, served
    lab = request.getfixturevalue("lab")
    file = File(lab)
    file.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    file.rows("CREATE TABLE long_texts (v)")
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
    # Every malformed one is in tests/unit/sqlite_server/claim; what is not to be taken for "no term" by the front is here.
    for by, (name, term) in itertools.product(("token", "headers"), (("malformed", "5,0"), ("malformed", 2**62 + 1), ("x" * 201, 1))):
        late = key()
        error = fails(write_execute, Leader(name, term, by), late)
        check(f"[F6] what is malformed is said, by {by}: {name[:9]} {term}", code(error) == "TG005" and not has(late), error)
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

    ways = (by_statement, by_statement_alone, by_write, by_exec, file.seal)
    for how, road in [(ways[at % len(ways)], road) for at, road in enumerate(ROADS)] + [(how, write_execute) for how in ways]:
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


STUBBORN = "SELECT replace(hex(zeroblob(8000000)), '0', 'a') LIKE '%' || replace(hex(zeroblob(400)), '0', 'a') || 'b'"


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
    "an instruction that takes hours": lambda h, _: h.in_the_background(h.stream.execute, f"INSERT INTO long_texts {STUBBORN}"),
    "a transaction that never pauses": restless,
    "a WebSocket": by_socket,
}
F4_ROADS = {
    "a write": lambda scope, late: write_arguments(Leader(scope, 2), late),
    "a batch": lambda scope, late: write_batch_transaction(Leader(scope, 2), late),
    "a seal": lambda scope, late: Leader().execute("SELECT termgate_seal(?, 2)", scope),
    "a seal by the command": lambda scope, late: file.seal(scope, 2),
}
# Each in one way, in turn; --long: each in every way.
F4_CASES = [
    (name, how) for number, name in enumerate(HOSTAGES) for place, how in enumerate(F4_ROADS) if LONG or place == number % len(F4_ROADS)
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
        at_work = name in ("a statement at work", "an instruction that takes hours")
        eventually(lambda: hostage.failure or not (at_work or name == "a transaction that never pauses"), 10)
        told = hostage.told()
        lost_by_status = told is not None and (told.status == 400 or at_work or name == "a WebSocket")
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


def test_f5_who_leaves_a_transaction_leaves_nothing():
    scope, b = unique("all"), key()
    c = Leader(scope, 5)
    for name, leave in {
        "close": lambda s: s.ask({"type": "close"}),
        "OR ROLLBACK": lambda s: fails(s.execute, f"INSERT OR ROLLBACK INTO t (id) VALUES ({b})"),
        "nowhere": lambda s: fails(s.execute, "INSERT INTO nowhere VALUES (1)") and s.execute("ROLLBACK"),
    }.items():
        stream = c.stream()
        stream.ask(execute("BEGIN"), execute(insert(b)))
        leave(stream)
        check(f"[F5] {name} leaves nothing", eventually(lambda: fails(write_execute, Leader(scope, 5), key()) is None) and not has(b))
        if name != "close":
            check(f"[F7] {name}: the stream is in autocommit", stream.is_autocommit())
            close(stream)
    client = Socket(served.url, c.headers)
    client.execute("BEGIN")
    client.execute(insert(b))
    client.close()
    check("[F5] nor does a WebSocket", eventually(lambda: fails(write_execute, Leader(scope, 5), key()) is None) and not has(b))


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
            "[rule watched]\napplication = watched\nenforce = observe\n[rule shut]\napplication = shut\nrefuse = not here\n"
        )
    ruled = Served(lab, file.path, "--rules", f"{lab.folder}/rules")

    def of(application, claim=None):
        made = Leader(url=ruled.url)
        made.headers = {"Termgate-Application": application, **(claim or {})}
        return made

    check("[F6] a rule's pair", fails(write_execute, of("fixed"), key()) is None and file.fence(scope) == 5)
    refused = fails(of("shut").execute, "SELECT 1")
    check("[F6] a rule that refuses", refused is not None and refused.status == 403, refused)
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
