#!/usr/bin/env python3
# Long: a case for each guarantee.
"""The guarantees through the wire, on an SQLite file: the cases of tests/conformance that have a meaning for a
client, an old leader and a new one on psycopg, each declaration and each road a write can take; and the same file
written by local programs meanwhile. A check's tag says which promise it is of.

  pytest tests/live/sqlite_server_guarantees_test.py [--long] [-k f4]

What is in the file is read by SQLite itself, not through the proxy. Needs psycopg 3;
without a Python that loads extensions the local programs are the command alone.
"""
import itertools
import json
import os
import random
import re
import sqlite3
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest

import given
from checks import check, eventually, note, stays
from given import LONG, PYTHON, SANITIZED
from proxy_lab import FLUSH, Wire, bind, declared, execute, message, parse, query

psycopg = pytest.importorskip("psycopg")
PATIENCE = 4 if SANITIZED else 1
LOCAL_WRITER = Path(__file__).parent / "programs" / "local_writer.py"
numbers = itertools.count(1)


lab = file = proxy = None  # of this module; `front` sets them


@pytest.fixture(scope="module", autouse=True)
def front(request):
    global lab, file, proxy
    lab = request.getfixturevalue("lab")
    file = File()
    file.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    proxy = lab.proxy(f"sqlite:{file.path}")
    yield
    check("the file is whole", file.rows("PRAGMA integrity_check") == [("ok",)])
    check("the proxy goes on", proxy.process.poll() is None)


def write_locked():
    """Whether somebody has the file's write lock."""
    other = sqlite3.connect(file.path, isolation_level=None, timeout=0)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        return False
    except sqlite3.OperationalError:
        return True
    finally:
        other.close()


def unique(word):
    return f"{word}-{next(numbers)}"


class File:
    """The file as its owner sees it."""

    def __init__(self, name="app.db"):
        self.path = f"{lab.folder}/{name}"
        lab.run(lab.termgate, "init", "--db", f"sqlite:{self.path}")
        self.file = sqlite3.connect(self.path, isolation_level=None, timeout=10)

    def rows(self, sql, *values):
        return self.file.execute(sql, values).fetchall()

    def ids(self, table="t"):
        return [row[0] for row in self.rows(f"SELECT id FROM {table} ORDER BY rowid")]

    def has(self, key):
        return bool(self.rows("SELECT 1 FROM t WHERE id = ?", key))

    def fence(self, scope):
        found = self.rows("SELECT term FROM termgate_fences WHERE scope = ?", scope)
        return found[0][0] if found else None

    def command(self, *words):
        return subprocess.run([lab.termgate, words[0], "--db", f"sqlite:{self.path}", *map(str, words[1:])], capture_output=True, text=True)

    def seal(self, scope, term):
        done = self.command("seal", "--scope", scope, "--term", term)
        if done.returncode != 0:
            raise AssertionError(done)


def connect(scope=None, term=None, by="options", port=None, **more):
    """`by`: how the session declares; "comment" is each statement's own affair."""
    words = dict(host="127.0.0.1", port=port or proxy.port, user="me", dbname="app", autocommit=True)
    if by == "options" and (scope is not None or term is not None):
        words["options"] = " ".join(
            f"-c termgate.{name}={str(value).replace(' ', chr(92) + ' ')}"
            for name, value in (("scope", scope), ("term", term))
            if value is not None
        )
    if by == "application_name":
        words["application_name"] = f"termgate.scope={scope};termgate.term={term};"
    connection = psycopg.connect(**{**words, **more})
    if by == "set":
        connection.execute(psycopg.sql.SQL("SET termgate.scope = {}").format(psycopg.sql.Literal(scope)))
        connection.execute(f"SET termgate.term = '{term}'")
    connection.mark = f"/*termgate.scope='{scope}',termgate.term='{term}'*/ " if by == "comment" else ""
    return connection


def write_text(c, key):
    c.execute(f"{c.mark}INSERT INTO t (id) VALUES ({key})")


def write_extended(c, key):
    c.execute(f"{c.mark}INSERT INTO t (id) VALUES (%s)", (key,))


def write_prepared(c, key):
    c.execute(f"{c.mark}INSERT INTO t (id) VALUES (%s)", (key,), prepare=True)


def write_block(c, key):
    with c.transaction():
        c.execute(f"{c.mark}INSERT INTO t (id) VALUES (%s)", (key,))


def write_text_block(c, key):
    try:
        c.execute(f"{c.mark}BEGIN; INSERT INTO t (id) VALUES ({key}); COMMIT")
    finally:
        if not c.closed and c.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            c.execute("ROLLBACK")


def write_pipeline(c, key):
    with c.pipeline():
        c.execute("SELECT 1")
        c.execute(f"{c.mark}INSERT INTO t (id) VALUES (%s)", (key,))


def write_copy(c, key):
    with c.cursor() as cursor, cursor.copy(f"{c.mark}COPY t (id) FROM STDIN") as copy:
        copy.write_row((key,))


def write_returning(c, key):
    assert c.execute(f"{c.mark}INSERT INTO t (id) VALUES (%s) RETURNING id", (key,)).fetchone() == (key,)


def write_native(c, key):
    c.execute(f"{c.mark}INSERT OR REPLACE INTO t (id) VALUES ({key})")


def write_execute(c, key):
    c.execute(f"PREPARE p{key} AS INSERT INTO t (id) VALUES ({key})")
    c.execute(f"{c.mark}EXECUTE p{key}")


def write_with(c, key):
    made = "WITH made AS (INSERT INTO t (id) VALUES (%s) RETURNING id) SELECT id FROM made"
    assert c.execute(c.mark + made, (key,)).fetchone() == (key,)


def write_rows(c, key):
    c.execute(f"{c.mark}INSERT INTO t (id) SELECT generate_series({key}, {key})")


def write_temporary(c, key):
    """From a table of the session's own, on the connection that it has for itself then."""
    c.execute(f"{c.mark}CREATE TEMP TABLE own{key} AS SELECT {key} AS id")
    c.execute(f"{c.mark}INSERT INTO t (id) SELECT id FROM own{key}")


ROADS = (
    write_text,
    write_extended,
    write_prepared,
    write_block,
    write_text_block,
    write_pipeline,
    write_copy,
    write_returning,
    write_native,
    write_execute,
    write_with,
    write_rows,
    write_temporary,
)
DECLARATIONS = ("options", "set", "application_name", "comment")


def fails(action, *arguments):
    """The database's error, None where there is none."""
    try:
        action(*arguments)
    except psycopg.Error as error:
        return error
    return None


def code(error):
    return error.sqlstate if error is not None else None


def key():
    return next(numbers) + 1_000_000


def test_f1_terms_are_in_commit_order():
    for by, road in itertools.product(DECLARATIONS, ROADS):
        what = f"{by}, {road.__name__[6:]}"
        scope, first, second, third, late = unique("order"), key(), key(), key(), key()
        with connect(scope, 5, by) as old, connect(scope, 5, by) as same, connect(scope, 8, by) as new:
            check(f"[F1] a first term passes: {what}", fails(road, old, first) is None and file.fence(scope) == 5, file.fence(scope))
            check(f"[F1] an equal term passes on another connection: {what}", fails(road, same, second) is None and file.fence(scope) == 5)
            check(f"[F1] a higher one raises: {what}", fails(road, new, third) is None and file.fence(scope) == 8, file.fence(scope))
            error = fails(road, old, late)
            check(
                f"[F1] a lower one is refused: {what}",
                code(error) == "TG001" and f'TG001 stale term 5 for scope "{scope}": the fence stands at 8' in str(error),
                error,
            )
            again = fails(road, same, late)  # the proxy knows by now
            check(f"[F1] and from memory: {what}", code(again) == "TG001", again)
            check(f"[F5] refusals write and raise nothing: {what}", not file.has(late) and file.fence(scope) == 8)
            check(f"[F5] what passed is there: {what}", all(file.has(each) for each in (first, second, third)))
            check(f"[F7] the refused session reads on: {what}", old.execute("SELECT count(*) FROM t").fetchone()[0] >= 3)


def test_f1_terms_and_scopes_of_every_form():
    scope = unique("big")
    with connect(scope, 1_000_000, "set") as a, connect(scope, 1 << 62, "set") as b, connect(scope, (1 << 62) - 1, "set") as c:
        check("[F1] terms need not be consecutive", fails(write_text, a, key()) is None)
        check("[F1] and reach 2^62", fails(write_extended, b, key()) is None and file.fence(scope) == 1 << 62)
        check("[F1] one below is stale", code(fails(write_text, c, key())) == "TG001")
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
        "\U0001f512" * 200,
    )
    for term, name in enumerate(names, 10):
        with connect(name, term, "set") as c:
            check(f"[F1] a scope of odd letters: {name[:30]!r}", fails(write_text, c, key()) is None)
    for term, name in enumerate(names, 10):
        check(f"[F1] each is a scope of its own: {name[:30]!r}", file.fence(name) == term, file.fence(name))
    for term in ("0", "-1", "five", "4611686018427387905", "9999999999999999999", "99999999999999999999", "5.0", " ", "0x5"):
        late = key()
        with connect("malformed", 1, "set") as c:
            error = fails(c.execute, f"SET termgate.term = '{term}'") or fails(write_text, c, late) or fails(write_extended, c, late)
            check(f"[F6] a malformed term is said: {term!r}", code(error) == "TG005" and not file.has(late), error)
    for name in ("x" * 201, "\U0001f512" * 201):
        late = key()
        with connect() as c:
            error = (
                fails(c.execute, f"SET termgate.scope = '{name}'")
                or fails(c.execute, "SET termgate.term = '1'")
                or fails(write_text, c, late)
            )
            check("[F6] a scope that is too long is said", code(error) == "TG005" and not file.has(late), error)
    late = key()
    with connect("twice", 1) as c:
        error = fails(
            c.execute,
            f"/*termgate.scope='a',termgate.term='1'*/ INSERT INTO t (id) VALUES ({late}) /*termgate.scope='a',termgate.term='2'*/",
        )
        check("[F6] two comments that differ are malformed", code(error) == "TG005" and not file.has(late), error)
    scope = unique("latest")
    with connect(scope, 5) as c:
        write_text(c, key())
        c.execute(f"SET termgate.term = '6'")
        check("[F1] SET overrides the start-up options", fails(write_text, c, key()) is None and file.fence(scope) == 6)
        c.execute("RESET termgate.term")
        check("[F1] RESET goes back to them, stale by now", code(fails(write_text, c, key())) == "TG001")
        with c.transaction():
            c.execute("SET LOCAL termgate.term = '7'")
            write_text(c, key())
        check("[F1] SET LOCAL lasts for its block", file.fence(scope) == 7 and code(fails(write_text, c, key())) == "TG001")
        check(
            "[F1] a comment overrides both",
            fails(c.execute, f"/*termgate.scope='{scope}',termgate.term='8'*/ INSERT INTO t (id) VALUES ({key()})") is None
            and file.fence(scope) == 8,
        )
        check("[F1] for its statement alone", code(fails(write_extended, c, key())) == "TG001")

    scope = unique("bound")
    with connect(scope, 5) as c:
        pg = c.pgconn
        pg.prepare(b"bound", f"/*termgate.scope='{scope}',termgate.term='5'*/ INSERT INTO t (id) VALUES ($1)".encode())
        sent = lambda each: pg.exec_prepared(b"bound", [str(each).encode()])
        check(
            "[F1] a comment binds its statement at Parse",
            sent(key()).error_field(psycopg.pq.DiagnosticField.SQLSTATE) is None and file.fence(scope) == 5,
        )
        c.execute("SET termgate.term = '7'")
        write_text(c, key())
        late = key()
        check("[F1] for good", sent(late).error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"TG001" and not file.has(late))
    scope = unique("text")
    with connect() as c:
        late, late2 = key(), key()
        text = f"SET termgate.scope = '{scope}'; SET termgate.term = '5'; INSERT INTO t (id) VALUES ({{}})"
        check("[F1] declared and written in one text", fails(c.execute, text.format(key())) is None and file.fence(scope) == 5)
        file.seal(scope, 6)
        check("[F1] stale in one text", code(fails(c.execute, text.format(late))) == "TG001" and not file.has(late))
    with connect() as c:
        c.execute("SET LOCAL termgate.scope = 's'")
        c.execute("SET LOCAL termgate.term = '5'")
        check("[F6] SET LOCAL outside of a block declares nothing", code(fails(write_text, c, late2)) == "TG002" and not file.has(late2))
    scope, late = unique("raise-by"), key()
    file.seal(scope, 2)
    lab.run(lab.termgate, "fence", "raise-by", "--db", f"sqlite:{file.path}", "--scope", scope, "--mode", "seal")
    with connect(scope, 3) as c:
        for road in ROADS:
            check(
                f"[F1] raise_by = seal keeps writers from raising: {road.__name__[6:]}",
                code(fails(road, c, late)) == "TG005" and not file.has(late) and file.fence(scope) == 2,
            )
        c.execute(f"SELECT * FROM termgate.seal('{scope}', 3)")
        check("[F1] a seal does", fails(write_text, c, late) is None and file.fence(scope) == 3)


def test_f1_blocks_keep_their_check():
    """What is admitted under one term never rides on another."""

    def insert(c, each, mark=""):
        c.execute(f"{mark}INSERT INTO t (id) VALUES (%s)", (each,))

    scope, a, b = unique("rollback"), key(), key()
    with connect(scope, 5) as old, connect(scope, 7) as new:
        write_text(old, a)
        new.execute("BEGIN")
        insert(new, b)
        new.execute("ROLLBACK")
        check("[F5] ROLLBACK of a raise takes its write along", not file.has(b))
        stands = file.fence(scope)
        check("[F1] and the fence is one of both", stands in (5, 7), stands)
        check("[F1] the old leader goes by what stands", code(fails(write_text, old, key())) == ("TG001" if stands == 7 else None))
        check("[F1] the new one writes", fails(write_text, new, key()) is None and file.fence(scope) == 7)
        check("[F1] and the old one is shut out", code(fails(write_text, old, key())) == "TG001")
    for end in ("COMMIT", "ROLLBACK"):
        scope, gone, stays, late = unique("rollback-to"), key(), key(), key()
        with connect(scope, 5) as old, connect(scope, 7) as new:
            write_text(old, key())
            new.execute("BEGIN")
            new.execute("SAVEPOINT a")
            insert(new, gone)
            new.execute("ROLLBACK TO a")
            insert(new, stays)
            new.execute(end)
            check(f"[F5] ROLLBACK TO of a raise, written again, {end}", not file.has(gone) and file.has(stays) == (end == "COMMIT"))
            check(f"[F1] the fence is above the write, {end}", end == "ROLLBACK" or file.fence(scope) == 7, file.fence(scope))
            check(
                f"[F1] the old leader is refused where the fence says so, {end}",
                code(fails(write_text, old, late)) == ("TG001" if file.fence(scope) == 7 else None),
            )
    scope, gone = unique("rollback-to"), key()
    with connect(scope, 7) as new:
        new.execute("BEGIN")
        new.execute("SAVEPOINT a")
        insert(new, gone)
        new.execute("ROLLBACK TO a")
        new.execute("RELEASE a")
        new.execute("COMMIT")
        check("[F5] a block whose only write was taken back leaves none", not file.has(gone))
    for name, first, second in (
        ("SET", "SET termgate.term = '7'", ""),
        ("SET LOCAL", "SET LOCAL termgate.term = '7'", ""),
        ("a comment", None, "7"),
    ):
        for wrote in (False, True):
            scope, early, late = unique("reacquired"), key(), key()
            with connect(scope, 5) as c:
                write_text(c, key())
                c.execute("BEGIN")
                if wrote:
                    insert(c, early)
                else:
                    c.execute("SELECT count(*) FROM t").fetchone()
                    file.seal(scope, 6)
                error = None
                if first:
                    error = fails(c.execute, first)
                error = error or fails(insert, c, late, f"/*termgate.scope='{scope}',termgate.term='{second}'*/ " if second else "")
                commit = fails(c.execute, "COMMIT")
                check(
                    f"[F1] a block admitted under 5 does not ride on 7, by {name}, {'written' if wrote else 'read'} before",
                    code(error) in ("TG001", "TG005") and not file.has(late) and not file.has(early),
                    (error, commit),
                )
                c.execute("ROLLBACK")
                c.execute("SET termgate.term = '7'")
                check(f"[F1] the next block does, by {name}", fails(write_block, c, late) is None and file.fence(scope) == 7)
    scope, early, late = unique("fixed"), key(), key()
    with connect(scope, 5) as c:
        c.execute("BEGIN")
        insert(c, early)
        c.execute("SET termgate.term = '4'")
        error = fails(insert, c, late)
        c.execute("ROLLBACK")
        check("[F1] nor on a lower one", code(error) in ("TG001", "TG005") and not file.has(late) and not file.has(early), error)
    scope, a, b = unique("taken-back"), key(), key()
    with connect(scope, 5) as c:
        c.execute("BEGIN")
        c.execute("SAVEPOINT a")
        c.execute("SET LOCAL termgate.term = '9'")
        c.execute("ROLLBACK TO a")
        insert(c, a)
        c.execute("COMMIT")
        check("[F1] a declaration that ROLLBACK TO took back is none", file.has(a) and file.fence(scope) == 5)
        c.execute("BEGIN")
        c.execute("SET termgate.term = '9'")
        c.execute("ROLLBACK")
        insert(c, b)
        check("[F1] nor is one that ROLLBACK took back", file.has(b) and file.fence(scope) == 5)
    one, two, a, b = unique("one"), unique("two"), key(), key()
    file.seal(two, 9)
    with connect(one, 3) as c:
        with c.transaction():
            insert(c, a)
            insert(c, b, f"/*termgate.scope='{two}',termgate.term='9'*/ ")
        check("[F1] two scopes of one block, each with its term", file.has(a) and file.has(b) and file.fence(one) == 3)
        a, b = key(), key()
        c.execute("BEGIN")
        insert(c, a)
        error = fails(insert, c, b, f"/*termgate.scope='{two}',termgate.term='8'*/ ")
        c.execute("COMMIT")
        check("[F5] one of them stale takes the whole block along", code(error) == "TG001" and not file.has(a) and not file.has(b), error)
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        scope, late = unique("isolation"), key()
        with connect(scope, 4) as c, connect(scope, 5) as new:
            write_text(c, key())
            c.execute(f"BEGIN ISOLATION LEVEL {level}")
            c.execute("SELECT count(*) FROM t").fetchone()
            file.seal(scope, 5)
            error = fails(insert, c, late)
            c.execute("ROLLBACK")
            check(f"[F1] a snapshot hides no raise: {level}", code(error) in ("TG001", "40001") and not file.has(late), error)
            new.execute(f"BEGIN ISOLATION LEVEL {level}")
            insert(new, late)
            new.execute("COMMIT")
            check(f"[F1] an equal term passes: {level}", file.has(late))
    scope, late = unique("savepoint"), key()
    with connect(scope, 5) as c:
        c.execute("BEGIN")
        c.execute("SAVEPOINT a")
        c.execute("SELECT count(*) FROM t").fetchone()
        c.execute("ROLLBACK TO a")
        file.seal(scope, 6)
        error = fails(insert, c, late)
        check("[F1] a check behind a savepoint is taken again", code(error) == "TG001", error)
        c.execute("ROLLBACK TO a")
        check("[F1] and again, in the block that goes on", code(fails(insert, c, late)) == "TG001")
        c.execute("COMMIT")
        check("[F5] without a trace", not file.has(late))


def test_f2_after_a_seal_nothing_lower_is_committed():
    def by_wire(scope, term):
        with connect() as c:
            return c.execute(f"SELECT * FROM termgate.seal('{scope}', {term})").fetchone()[0]

    def by_function(scope, term):
        with connect("elsewhere", 1) as c:
            return json.loads(c.execute("SELECT termgate_seal(%s, %s)", (scope, term)).fetchone()[0])["fence"]

    def by_write(scope, term):
        with connect(scope, term) as c:
            write_text(c, key())

    def by_exec(scope, term):
        lab.run(
            lab.termgate, "exec", "--db", f"sqlite:{file.path}", "--scope", scope, "--term", term, f"INSERT INTO t (id) VALUES ({key()})"
        )

    for how, road in itertools.product((by_wire, by_function, by_write, by_exec, file.seal), ROADS):
        scope, late = unique("seal"), key()
        with connect(scope, 5) as old, connect(scope, 6) as new:
            road(old, key())
            how(scope, 6)
            error = fails(road, old, late)
            check(f"[F2] sealed {how.__name__}, then {road.__name__[6:]}", code(error) == "TG001" and not file.has(late), error)
            if road is write_text:
                check(f"[F2] the new leader writes, sealed {how.__name__}", fails(road, new, late) is None)
    scope = unique("seal")
    with connect() as c:
        row = c.execute(f"SELECT * FROM termgate.seal('{scope}', 6)").fetchone()
        check("[F2] the receipt", row[:3] == (6, None, 0) or row[:3] == (6, 0, 0), row)
        check("[F2] the same term again is a no-op", c.execute(f"SELECT * FROM termgate.seal('{scope}', 6)").fetchone()[:2] == (6, 6))
        error = fails(c.execute, f"SELECT * FROM termgate.seal('{scope}', 5)")
        check("[F2] a lower seal is stale", code(error) == "TG001", error)
    # Leases: an acquisition shuts the one before out.
    scope, late = unique("lease"), key()
    with connect(scope, 1) as c:
        got = json.loads(connect("elsewhere", 1).execute("SELECT termgate_acquire_lease(%s, 'a', 60000)", (scope,)).fetchone()[0])
        term = got["term"]
        c.execute(f"SET termgate.term = '{term}'")
        check("[F2] a lease's term writes", got["acquired"] in (True, 1) and fails(write_extended, c, key()) is None, got)
        c.execute(f"SET termgate.term = '{term + 1}'")
        check("[F2] one that was never issued is no term", code(fails(write_text, c, late)) == "TG005" and file.fence(scope) == term)
        c.execute(f"SET termgate.term = '{term}'")
        done = subprocess.run(
            [lab.termgate, "lease", "acquire", "--db", f"sqlite:{file.path}", "--scope", scope, "--owner", "a", "--ttl", "60s"],
            capture_output=True,
            text=True,
        )
        check("[F2] taken again by the command", done.returncode == 0, done)
        check("[F2] the one before is shut out", code(fails(write_text, c, late)) == "TG001" and not file.has(late))
    # Once a seal has returned nothing lower commits, whatever was on its way.
    for how in (by_wire, file.seal):
        scope, stop = unique("race"), threading.Event()
        file.rows(f'CREATE TABLE "{scope}" (id int)')

        def writer(number):
            with connect(scope, 5) as c:
                for each in itertools.count(number * 1_000_000):
                    if stop.is_set():
                        return
                    try:
                        if each % 3:
                            c.execute(f'INSERT INTO "{scope}" VALUES (%s)', (each,))
                        else:
                            with c.transaction():
                                c.execute(f'INSERT INTO "{scope}" VALUES (%s)', (each,))
                    except psycopg.Error:
                        return

        threads = [threading.Thread(target=writer, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(file.ids(f'"{scope}"')) > 200, 20), "the writers write"
        begin = time.monotonic()
        sealed = False
        while not sealed and time.monotonic() - begin < 30:  # from outside it may starve behind writers that never pause, and be TG006
            try:
                how(scope, 6)
                sealed = True
            except AssertionError:
                pass
        at_seal = len(file.ids(f'"{scope}"'))
        stays(lambda: len(file.ids(f'"{scope}"')) == at_seal, 0.3)
        stop.set()
        for thread in threads:
            thread.join(30)
        check(
            f"[F2] after a seal has returned no lower term commits: {how.__name__}",
            sealed and at_seal > 8 and len(file.ids(f'"{scope}"')) == at_seal,
            (sealed, at_seal, len(file.ids(f'"{scope}"'))),
        )


def test_f3_fences_survive_restarts_and_doubt_stops_writes():
    global proxy
    scope = unique("kept")
    with connect(scope, 8) as c:
        write_text(c, key())
    proxy.stop()
    proxy = lab.proxy(f"sqlite:{file.path}")
    with connect(scope, 7) as old, connect(scope, 8) as new:
        check("[F3] a fence survives the proxy", code(fails(write_text, old, key())) == "TG001" and file.fence(scope) == 8)
        check("[F3] and its term goes on", fails(write_text, new, key()) is None)
        new.execute("DELETE FROM t WHERE id < 0")
        check("[F3] deleting rows lowers nothing", code(fails(write_text, old, key())) == "TG001")
        stream = unique("stream")
        new.execute("SELECT termgate_append(%s, 8, 'x', NULL, %s)", (stream, scope))
        lab.run(lab.termgate, "prune", "--db", f"sqlite:{file.path}", "--stream", stream, "--before", 2)
        check("[F3] nor does pruning", code(fails(write_text, old, key())) == "TG001")
        for text in (
            "SELECT termgate_reset_fence('x', 1, 'a', 'b')",
            "UPDATE termgate_fences SET term = 1",
            "DELETE FROM termgate_fences",
            "DROP TABLE termgate_fences",
        ):
            check(f"[F3] not through the wire: {text}", code(fails(new.execute, text)) == "42501")
    # A file that its operator declares to be an older copy: nothing is written until each scope is settled.
    older = File("older.db")
    older.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    other = lab.proxy(f"sqlite:{older.path}")
    with connect("external", 5, port=other.port) as c, connect("external", 9, port=other.port) as new:
        write_text(c, 1)
        lab.run(lab.termgate, "fence", "declare-restored", "--db", f"sqlite:{older.path}", "--untrusted", "--reason", "test")
        for road in ROADS:
            check(
                f"[F3] untrusted: {road.__name__[6:]}",
                code(fails(road, c, 2)) == "TG004" and code(fails(road, new, 2)) == "TG004" and older.ids() == [1],
            )
        check("[F3] nor does a seal vouch", code(fails(new.execute, "SELECT * FROM termgate.seal('external', 20)")) == "TG004")
        check("[F3] reads go on", c.execute("SELECT id FROM t").fetchall() == [(1,)])
        lab.run(
            lab.termgate,
            "fence",
            "declare-restored",
            "--db",
            f"sqlite:{older.path}",
            "--scope",
            "external",
            "--above",
            "8",
            "--reason",
            "test",
        )
        check("[F3] settled, the old term is refused", code(fails(write_text, c, 2)) == "TG001")
        check("[F3] and the new one writes", fails(write_text, new, 2) is None and older.ids() == [1, 2])
    other.stop()
    if not LONG:
        return
    with connect(scope, 7) as c:  # the proxy looks every 30 s
        done = subprocess.run(
            [lab.termgate, "fence", "reset", "--db", f"sqlite:{file.path}", "--scope", scope, "--term", "6", "--reason", "test"],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            check("[F3] an audited reset is believed, in time", eventually(lambda: fails(write_text, c, key()) is None, 40))
        else:
            check("[F3] fence reset", False, done)


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2000000000)"
F4_ROADS = {
    "a write": lambda new, scope, late: write_extended(new, late),
    "a seal": lambda new, scope, late: new.execute(f"SELECT * FROM termgate.seal('{scope}', 2)"),
    "a seal with parameters": lambda new, scope, late: new.execute("SELECT * FROM termgate.seal(%s, %s)", (scope, 2)),
}


def insert(each):
    return f"INSERT INTO t (id) VALUES ({each})"


def restless(wire, each):
    wire.ask("BEGIN")
    wire.ask(insert(each))

    def go_on():
        try:
            while True:
                wire.send(query("SELECT 1"))
                time.sleep(0.05)
        except OSError:
            pass

    threading.Thread(target=go_on, daemon=True).start()


# How a session of term 1 comes to keep the write lock.
HOSTAGES = (
    ("an idle block", lambda wire, each: (wire.ask("BEGIN"), wire.ask(insert(each)))),
    ("an idle block with a savepoint", lambda wire, each: (wire.ask("BEGIN"), wire.ask("SAVEPOINT a"), wire.ask(insert(each)))),
    (
        "a failed block with a savepoint",
        lambda wire, each: (wire.ask("BEGIN"), wire.ask(insert(each)), wire.ask("SAVEPOINT a"), wire.ask("SELECT nope")),
    ),
    ("COPY without an end", lambda wire, each: wire.send(query("COPY t (id) FROM STDIN"), message("d", f"{each}\n".encode()))),
    ("a pipeline without its Sync", lambda wire, each: wire.send(parse("", insert(each)), bind("", ""), execute(), FLUSH)),
    (
        "a suspended portal",
        lambda wire, each: wire.send(
            parse("", f"INSERT INTO t (id) VALUES ({each}), ({each} + 500000000) RETURNING id"), bind("", ""), execute("", 1), FLUSH
        ),
    ),
    (
        "an idle block of a session with temporary tables",
        lambda wire, each: (wire.ask("CREATE TEMP TABLE own (id int)"), wire.ask("BEGIN"), wire.ask(insert(each))),
    ),
    ("a frozen message", lambda wire, each: (wire.ask("BEGIN"), wire.ask(insert(each)), wire.send(query("SELECT 1")[:-4]))),
    ("a statement at work", lambda wire, each: wire.send(query(f"INSERT INTO t (id) {ENDLESS} SELECT max(i) FROM r"))),
    ("a statement that sleeps", lambda wire, each: wire.send(query(f"INSERT INTO t (id) SELECT {each} FROM (SELECT pg_sleep(30)) x"))),
    (
        "who does not read",
        lambda wire, each: (
            wire.ask("BEGIN"),
            wire.ask(insert(each)),
            wire.send(query(f"{ENDLESS} SELECT i, 'a long text that fills the buffers between' FROM r")),
        ),
    ),
    ("a block that never pauses", restless),
)
# Each with a write and, in turn, with one way to seal; --long: each in every way.
F4_CASES = [
    (name, how)
    for number, (name, _) in enumerate(HOSTAGES)
    for how in F4_ROADS
    if LONG or how == "a write" or number < 2 and how == list(F4_ROADS)[1 + number]
]


def test_f2_a_pipeline_is_overtaken_between_its_check_and_its_write():
    # The check of a pipeline is made without the write lock when its first statement only reads; its write must check again.
    for at in range(5):
        scope, mine = unique("overtaken"), key()
        with connect(scope, 1) as first:
            write_text(first, key())
        stale = Wire(proxy.port, user="me", database="app", timeout=10, **declared(scope, 1))
        stale.send(parse("", "SELECT count(*) FROM t"), bind("", ""), execute(), FLUSH)
        stale.until("C")
        lab.run(lab.termgate, "seal", "--db", f"sqlite:{file.path}", "--scope", scope, "--term", "2")
        stale.send(parse("", f"INSERT INTO t (id) VALUES ({mine})"), bind("", ""), execute(), message("S"))
        error = stale.until("Z")[1]
        check(f"[F2] {at}: a write of a pipeline that a seal has overtaken", error and "TG001" in str(error) and not file.has(mine), error)
        stale.close()


@pytest.mark.parametrize("name, how", F4_CASES)
def test_f4_no_hostage_is_taken_by(name, how):
    """A session of term 1 has the write lock; a higher one must be through soon."""
    scope, late, mine = unique("hostage"), key(), key()
    # The scope has its fence before. A raise would hold the write lock for a moment, and the new leader could come in front of the
    # hostage's statement.
    with connect(scope, 1) as first:
        check(f"[F4] {name}: term 1 leads", fails(write_text, first, key()) is None)
    stale = Wire(proxy.port, user="me", database="app", timeout=30, **declared(scope, 1))
    dict(HOSTAGES)[name](stale, mine)
    check(f"[F4] {name}: it has the write lock", eventually(write_locked))
    with connect(scope, 2) as new:
        begin = time.monotonic()
        error = fails(F4_ROADS[how], new, scope, late)
        took = time.monotonic() - begin
        check(f"[F4] {name} holds up {how} no longer than the grace", error is None and took < 2.6 * PATIENCE, (error, took))
        check(f"[F4] {name}: its write is gone", not file.has(mine) and file.fence(scope) == 2, file.fence(scope))
        check(f"[F4] {name}: the new leader goes on", fails(write_text, new, key()) is None)
    data = b""
    stale.socket.settimeout(10)
    try:
        data = stale.rest()
    except OSError as error:
        data = repr(error).encode()
    check(f"[F4] {name}: it is ended, and told", b"57P01" in data or (name.startswith("who does not read")), data[-200:])
    stale.close()


def test_f4_what_cannot_be_ended_ends_the_wait_and_is_named():
    guarded = File("held.db")
    guarded.rows("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    lab.run(lab.termgate, "settings", "--db", f"sqlite:{guarded.path}", "check_wait_ms=700")
    other = lab.proxy(f"sqlite:{guarded.path}")
    with connect("held", 5, port=other.port) as c, connect("held", 6, port=other.port) as new:
        write_text(c, 1)
        guarded.rows("BEGIN IMMEDIATE")
        for road in (write_text, write_block, write_copy):
            for each in (c, new):  # a raise is tried by itself first, and waits again where the check meets it
                begin = time.monotonic()
                error = fails(road, each, 2)
                took = time.monotonic() - begin
                check(
                    f"[F4] another process's lock ends the wait: {road.__name__[6:]}, {'a raise' if each is new else 'an equal term'}",
                    code(error) == "TG006"
                    and f"process {os.getpid()}" in str(error)
                    and 600 < int(re.search(r"blocked for (\d+) ms|$", str(error)).group(1) or 0) < 1900 * PATIENCE
                    and 0.6 < took < 3 * PATIENCE,
                    (error, took),
                )
        check("[F7] reads go on", c.execute("SELECT id FROM t").fetchall() == [(1,)])
        guarded.rows("COMMIT")
        check("[F5] nothing of it was written", guarded.ids() == [1] and guarded.fence("held") == 5)
        check("[F4] and then it is", fails(write_text, new, 2) is None and guarded.fence("held") == 6)
    other.stop()


def test_f4_a_crowd_that_never_pauses_holds_up_no_seal():
    scope, stop, refused = unique("crowd"), threading.Event(), []

    def crowd(number):
        try:
            with connect(scope, 1) as c:
                while not stop.is_set():
                    write_extended(c, key())
        except psycopg.Error as error:
            refused.append(code(error))

    threads = [threading.Thread(target=crowd, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    before = len(file.ids())
    assert eventually(lambda: len(file.ids()) > before + 50, 20), "the crowd writes"
    with connect(scope, 2) as new:
        begin = time.monotonic()
        error = fails(new.execute, f"SELECT * FROM termgate.seal('{scope}', 2)")
        took = time.monotonic() - begin
    check("[F4] a crowd that never pauses holds up no seal", error is None and took < 2.6 * PATIENCE, (error, took))
    check(
        "[F2] and is refused, each of them",
        eventually(lambda: len(refused) == len(threads), 20 * PATIENCE) and set(refused) <= {"TG001", "57P01"},
        refused,
    )
    stop.set()
    for thread in threads:
        thread.join(20)


def test_f4_a_lower_term_evicts_nobody_and_a_reader_is_left_alone():
    scope = unique("higher")
    with connect(scope, 3) as new, connect(scope, 2) as old:
        mine = key()
        new.execute("BEGIN")
        new.execute("INSERT INTO t (id) VALUES (%s)", (mine,))
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(fails(write_text, old, key())))
        thread.start()
        for _ in range(6):
            time.sleep(0.3)
            new.execute("SELECT 1")
        new.execute("COMMIT")
        thread.join(20)
        check("[F4] a lower term evicts nobody", file.has(mine) and code(outcome[0]) == "TG001", outcome)
    with connect(scope, 3) as reader, connect(scope, 4) as new:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        count = reader.execute("SELECT count(*) FROM t").fetchone()
        begin = time.monotonic()
        write_text(new, key())
        check(
            "[F4] a reader holds up nobody and is left alone",
            time.monotonic() - begin < 0.9 * PATIENCE and reader.execute("SELECT count(*) FROM t").fetchone() == count,
        )


def test_f4_a_silent_holder_gives_way_to_anyone_after_its_limit():
    scope = unique("idle")
    idle, other = connect(scope, 1), connect(unique("other"), 1)
    idle.execute("BEGIN")
    idle.execute("INSERT INTO t (id) VALUES (%s)", (key(),))
    begin = time.monotonic()
    error = fails(write_text, other, key())
    took = time.monotonic() - begin
    check("[F4] a silent holder gives way to anyone after its limit", error is None and 2 < took < 4.6 * PATIENCE, (error, took))
    error = fails(idle.execute, "SELECT 1")
    check("[F4] and is told", code(error) == "57P01" or "terminating connection: it kept the only write lock" in str(error), error)


def test_f5_a_raise_that_was_rolled_back_leaves_no_doubt():
    """Whether the proxy committed the raise by itself or not: the former term passes, or is stale, and is never told of a restored file."""
    for by in DECLARATIONS:
        scope, there = unique("undone"), key()
        with connect(scope, 5, by) as old, connect(scope, 8, by) as new:
            write_text(old, there)
            error = fails(new.execute, f"{new.mark}INSERT INTO t (id) VALUES ({there})")
            check(f"[F5] the write of the higher term fails: {by}", code(error) == "23505", error)
            late = fails(write_text, old, key())
            check(f"[F5] the lower one passes or is stale: {by}", code(late) == ("TG001" if file.fence(scope) == 8 else None), late)


def test_f5_a_write_happens_as_a_whole_or_not_at_all():
    scope = unique("all")
    with connect(scope, 5) as c, connect(scope, 6) as new:
        a, b = key(), key()
        error = fails(c.execute, f"INSERT INTO t (id) VALUES ({a}), ({a})")
        check("[F5] a statement that fails half-way leaves nothing", code(error) == "23505" and not file.has(a), error)
        error = fails(c.execute, f"INSERT INTO t (id) VALUES ({a}); INSERT INTO t (id) VALUES ({a})")
        check("[F5] a text of several", code(error) == "23505" and not file.has(a), error)

        def pipeline():
            with c.pipeline():
                c.execute("INSERT INTO t (id) VALUES (%s)", (a,))
                c.execute("INSERT INTO t (id) VALUES (%s)", (b,))
                c.execute("INSERT INTO t (id) VALUES (%s)", (a,))

        error = fails(pipeline)
        check("[F5] a pipeline to one Sync", code(error) == "23505" and not file.has(a) and not file.has(b), error)
        c.rollback()

        def copy():
            with c.cursor() as cursor, cursor.copy("COPY t (id) FROM STDIN") as rows:
                rows.write_row((a,))
                rows.write_row((a,))

        check("[F5] COPY", code(fails(copy)) == "23505" and not file.has(a))

        def abandoned():
            with c.cursor() as cursor, cursor.copy("COPY t (id) FROM STDIN") as rows:
                rows.write_row((a,))
                raise psycopg.DataError("given up")

        fails(abandoned)
        check("[F5] COPY that its client gives up", not file.has(a))
        c.execute("BEGIN")
        c.execute("INSERT INTO t (id) VALUES (%s)", (a,))
        error = fails(c.execute, "INSERT INTO nowhere VALUES (1)")
        check("[F5] an error fails its block", code(error) == "42P01" and code(fails(c.execute, "SELECT 1")) == "25P02")
        c.execute("COMMIT")
        check("[F5] which commits nothing", not file.has(a))
        c.execute("BEGIN")
        c.execute("SAVEPOINT one")
        fails(c.execute, "INSERT INTO nowhere VALUES (1)")
        c.execute("ROLLBACK TO one")
        c.execute("INSERT INTO t (id) VALUES (%s)", (a,))
        c.execute("COMMIT")
        check("[F5] unless a savepoint mends it", file.has(a))
        c.execute("BEGIN")
        c.execute("INSERT INTO t (id) VALUES (%s)", (b,))
        c.close()
        check("[F5] a client that goes leaves nothing", eventually(lambda: fails(write_text, new, key()) is None) and not file.has(b))
    # Streams and write ids, through the wire by SQLite's names.
    scope, stream, happened, never = unique("ids"), unique("stream"), str(uuid.uuid4()), str(uuid.uuid4())

    def append(c, term, payload="x", expected=None, of=None, write_id=None, to=None):
        return int(
            c.execute(
                "SELECT termgate_append(%s, %s::bigint, %s, %s::bigint, %s, %s)", (to or stream, term, payload, expected, of, write_id)
            ).fetchone()[0]
        )

    with connect(scope, 1) as c:
        check("[F5] an append", append(c, 1, of=scope, write_id=happened) == 1 and append(c, 1, "two") == 2)
        check(
            "[F5] the same write id again is the same write",
            append(c, 1, write_id=happened) == 1
            and file.rows("SELECT count(*) FROM termgate_stream_writes WHERE stream_id = ?", stream) == [(2,)],
        )
        check("[F5] expected is the last number", code(fails(append, c, 1, "x", 1)) == "TG003" and append(c, 1, "x", 2) == 3)
        check("[F5] a stream keeps its scope", code(fails(append, c, 1, "x", None, "another")) == "TG005" and file.fence("another") is None)
        fresh, named = unique("fresh"), unique("named")
        check(
            "[F5] one that is refused raises no fence",
            code(fails(append, c, 9, "x", 5, named, None, fresh)) == "TG003"
            and file.fence(named) is None
            and not file.rows("SELECT 1 FROM termgate_streams WHERE stream_id = ?", fresh),
        )
        c.execute("BEGIN")
        number = append(c, 1, "taken back")
        c.execute("ROLLBACK")
        check("[F5] numbers are in commit order", append(c, 1, "in its place") == number)
        file.seal(scope, 2)
        check("[F2] an append of the old term is refused", code(fails(append, c, 1, "late", None, None, never)) == "TG001")
        # Its session is stale, so the proxy lets it write nothing more; what became of a write it may ask.
        found = json.loads(c.execute("SELECT termgate_outcome(%s)", (happened,)).fetchone()[0])
        check("[F5] a stale writer is told that its write happened", found["sequence_no"] == 1 and found["stream"] == stream, found)
        check("[F5] and that the other did not", c.execute("SELECT termgate_outcome(%s)", (never,)).fetchone()[0] is None)
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{file.path}")


def test_f6_no_road_is_open_without_a_valid_term():
    for road in ROADS:
        late = key()
        with connect() as c:
            error = fails(road, c, late)
            check(
                f"[F6] without a term: {road.__name__[6:]}",
                code(error) == "TG002" and bool(error.diag.message_hint) and not file.has(late),
                error,
            )
            check(f"[F6] which reads on: {road.__name__[6:]}", c.execute("SELECT 1").fetchone() == (1,))
    for declaration in ("SET termgate.scope = 's'", "SET termgate.term = '5'", "SET termgate.scope = ''; SET termgate.term = ''"):
        late = key()
        with connect() as c:
            c.execute(declaration)
            check(f"[F6] half a declaration: {declaration}", code(fails(write_text, c, late)) == "TG002" and not file.has(late))
    for mode in ("reject", "allow"):
        other = lab.proxy(f"sqlite:{file.path}", "--without-term", mode)
        late = key()
        try:
            with connect(port=other.port) as c:
                reads, writes = fails(c.execute, "SELECT count(*) FROM t"), fails(write_text, c, late)
            if mode == "allow":
                check("[F6] --without-term allow", reads is None and writes is None and file.has(late), writes)
            else:
                check(
                    "[F6] --without-term reject", code(reads) == "TG002" and code(writes) == "TG002" and not file.has(late), (reads, writes)
                )
        except psycopg.OperationalError as error:
            check(f"[F6] --without-term {mode}", mode == "reject" and "TG002" in str(error), error)
        scope = unique("declared")
        with connect(scope, 5, port=other.port) as old:
            write_text(old, key())
            file.seal(scope, 6)
            check(f"[F6] who declares is held to it: {mode}", code(fails(write_text, old, key())) == "TG001")
        other.stop()
    # A rule declares for those who cannot; what observes refuses nothing.
    scope, elector, late = unique("ruled"), f"{lab.folder}/elector", key()

    def elected(text):
        with open(f"{elector}.new", "w") as out:
            out.write(text)
        os.replace(f"{elector}.new", elector)

    elected(f"scope={scope} term=5\n")
    with open(f"{lab.folder}/rules", "w") as out:
        out.write(
            f"[rule fixed]\nuser = fixed\nscope = {scope}\nterm = 5\n[rule elected]\nuser = elected\nfile = {elector}\n[rule leased]\nuser"
            f" = leased\nlease = {scope}-leased\nttl = 2 s\n[rule watched]\nuser = watched\nenforce = observe\n"
        )
    ruled = lab.proxy(f"sqlite:{file.path}", "--rules", f"{lab.folder}/rules")
    with connect(port=ruled.port, user="fixed") as fixed, connect(port=ruled.port, user="elected") as follows, connect(
        port=ruled.port, user="leased"
    ) as leased:
        check("[F6] a rule's pair", fails(write_text, fixed, key()) is None and file.fence(scope) == 5)
        check("[F6] a rule's file", fails(write_extended, follows, key()) is None)
        check(
            "[F6] a rule's lease",
            fails(write_prepared, leased, key()) is None and (file.fence(f"{scope}-leased") or 0) > 0,
            file.fence(f"{scope}-leased"),
        )
        fixed.execute("SET termgate.term = '99'")
        check("[F6] a rule is final", fails(write_text, fixed, key()) is None and file.fence(scope) == 5)
        file.seal(scope, 6)
        for c in (fixed, follows):
            check("[F2] what rules declare is refused as stale", code(fails(write_text, c, late)) == "TG001" and not file.has(late))
        elected(f"scope={scope} term=6\n")

        def anew():
            with connect(port=ruled.port, user="elected") as c:
                return code(fails(write_text, c, key()))

        check("[F1] the elector's next term is that of sessions to come", eventually(lambda: anew() is None, 5 * PATIENCE))
        check("[F1] one that is open does not ride on it", code(fails(write_text, follows, late)) == "TG001" and not file.has(late))
        elected(f"scope={scope} term=5\n")
        check("[F1] a term that fell back is refused", eventually(lambda: anew() == "TG001", 5 * PATIENCE) and file.fence(scope) == 6)
        with connect(f"{scope}-leased", 1, port=ruled.port, user="other") as thief:
            subprocess.run(
                [
                    lab.termgate,
                    "lease",
                    "force-release",
                    "--db",
                    f"sqlite:{file.path}",
                    "--scope",
                    f"{scope}-leased",
                    "--reason",
                    "test",
                    "--actor",
                    "test",
                ],
                check=True,
                capture_output=True,
            )
            check(
                "[F2] a lease that was taken away writes no more under its term",
                code(fails(write_text, thief, late)) == "TG001" and not file.has(late),
            )
    with connect(scope, 1, port=ruled.port, user="watched") as c:
        passed = key()
        check(
            "[F6] --enforce observe lets a stale write pass",
            fails(write_text, c, passed) is None and file.has(passed) and file.fence(scope) == 6,
        )
        counted = re.compile(r"^termgate_would_refuse_total\{.*code=\"TG001\"\} [1-9]", re.M)
        check("[F6] and counts it", eventually(lambda: counted.search(ruled.get("/metrics")[1])))
    ruled.stop()


@pytest.fixture(scope="module")
def guarded_table():
    file.rows("CREATE TABLE guarded (id INTEGER PRIMARY KEY, scope TEXT)")
    lab.run(lab.termgate, "protect", "--db", f"sqlite:{file.path}", "guarded", "--scope-column", "scope")


def test_f6_a_protected_table_takes_rows_of_its_scope_only(guarded_table):
    scope, mine, theirs = unique("protected"), key(), key()
    with connect(scope, 5) as c:
        check("[F6] protect: the row's scope passes", fails(c.execute, "INSERT INTO guarded VALUES (%s, %s)", (mine, scope)) is None)
        check(
            "[F6] protect: another's is refused",
            code(fails(c.execute, "INSERT INTO guarded VALUES (%s, %s)", (theirs, "another's"))) == "TG002",
        )
        check(
            "[F6] protect: nor is a row moved there",
            code(fails(c.execute, "UPDATE guarded SET scope = 'another''s'")) == "TG002"
            and file.rows("SELECT id, scope FROM guarded") == [(mine, scope)],
        )


def test_f6_a_group_commit_shares_no_check(guarded_table):
    """One commit, many sessions: what one of them has passed is no other's."""
    stop, wrong, right = threading.Event(), [], []

    def member(own, foreign, number):
        with connect(own, 5) as c:
            for each in itertools.count(number * 10_000_000):
                if stop.is_set():
                    return
                right.append(fails(c.execute, "INSERT INTO guarded VALUES (%s, %s)", (each * 2, own)))
                error = fails(c.execute, "INSERT INTO guarded VALUES (%s, %s)", (each * 2 + 1, foreign))
                wrong.append(code(error))

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


def test_several_programs_on_one_file_keep_one_layer_1():
    """[F1][F2][F5] The file open in several programs at a time, two proxies among them: still one layer 1, whoever raises."""
    second = lab.proxy(f"sqlite:{file.path}")
    seconds = 30 if LONG else 6
    file.rows("CREATE TABLE mixed (id INTEGER PRIMARY KEY, term int, who text)")
    term_path = f"{lab.folder}/term"
    term = [1]

    def leads(number):
        with open(f"{term_path}.new", "w") as out:
            out.write(str(number))
        os.replace(f"{term_path}.new", term_path)
        term[0] = number

    leads(1)
    extension = os.path.splitext(given.EXTENSION)[0]
    loads = (
        subprocess.run(
            [
                PYTHON,
                "-c",
                f"import sqlite3; c = sqlite3.connect(':memory:'); c.enable_load_extension(True); c.load_extension({extension!r})",
            ],
            capture_output=True,
        ).returncode
        == 0
    )
    stop_at, fates, lock, stop = time.time() + seconds, [], threading.Lock(), threading.Event()
    programs = (
        [
            lab.program(PYTHON, LOCAL_WRITER, extension, file.path, stop_at, term_path, number, stdout=subprocess.PIPE, text=True)
            for number in (1, 2)
        ]
        if loads
        else []
    )

    def client(number):
        seed, each, c = random.Random(number), number * 1_000_000, None
        while not stop.is_set():
            each += 1
            own = max(1, term[0] - (seed.random() < 0.2))
            try:
                if c is None or c.closed:
                    c = connect(port=second.port if number == 3 else proxy.port)
                c.execute("SET termgate.scope = 'mixed'")
                c.execute(f"SET termgate.term = '{own}'")
                if seed.random() < 0.3:
                    with c.transaction():
                        c.execute("INSERT INTO mixed VALUES (%s, %s, 'wire')", (each, own))
                        c.execute("SELECT termgate_append('mixed', %s::bigint, %s)", (own, str(each)))
                else:
                    c.execute("INSERT INTO mixed VALUES (%s, %s, 'wire')", (each, own))
                fate = "committed"
            except psycopg.Error as error:
                fate = {"TG001": "refused", "TG006": "busy", "57P01": "ended", "40001": "busy"}.get(
                    error.sqlstate, f"failed:{error.sqlstate} {error}"
                )
            with lock:
                fates.append((fate, each, own))
            time.sleep(0.002)

    def command():
        for each in itertools.count(9_000_000):
            if stop.is_set():
                return
            own = max(1, term[0] - (each % 4 == 0))
            done = subprocess.run(
                [
                    lab.termgate,
                    "exec",
                    "--db",
                    f"sqlite:{file.path}",
                    "--scope",
                    "mixed",
                    "--term",
                    str(own),
                    f"INSERT INTO mixed VALUES ({each}, {own}, 'command')",
                ],
                capture_output=True,
                text=True,
            )
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
        # In turn through the wire, by the command, and by whoever writes first.
        if turn % 3 == 0:
            leads(following)
        elif turn % 3 == 1:
            with connect() as c:
                if fails(c.execute, f"SELECT * FROM termgate.seal('mixed', {following})") is None:
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
    check(
        "mixed: everybody wrote",
        counts["wire"] > 20 and counts["command"] > 0 and (not loads or counts["local"] > 0) and term[0] > 3,
        (counts, term),
    )
    check("mixed: and was refused", any(fate == "refused" for fate, _, _ in fates))
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{file.path}")
