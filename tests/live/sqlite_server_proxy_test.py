#!/usr/bin/env python3
"""The proxy in front of an SQLite file, with real clients: what a newcomer types into psql, psycopg's types in text and
binary, pgbench's own schema, many writers in shared commits [F5], a holder that stands in the way of a higher term or
of anybody [F4], a kill -9 in the midst of writes, and the same file written through the library meanwhile [F1][F2].

  pytest tests/live/sqlite_server_proxy_test.py [--long] [-k timeouts]
"""
import datetime
import decimal
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import threading
import time
import uuid

import pytest

from checks import check, eventually
from given import LONG, SANITIZED
from proxy_lab import Refused, Wire, declared, refusal

try:
    import psycopg
except ImportError:
    psycopg = None

PATIENCE = 4 if SANITIZED else 1


def psql(port, *statements, options="", stdin=None):
    words = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-d", "app"]
    for statement in statements:
        words += ["-c", statement]
    done = subprocess.run(
        words, capture_output=True, text=True, input=stdin, timeout=60, env={**os.environ, "PGOPTIONS": options, "PGCONNECT_TIMEOUT": "10"}
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def extension_loads():
    # One with a sanitizer cannot be loaded into a program without.
    return hasattr(sqlite3.Connection, "enable_load_extension") and not SANITIZED


def connect(port, scope="s", term=1, **more):
    return psycopg.connect(
        host="127.0.0.1", port=port, user="me", dbname="app", options=f"-c termgate.scope={scope} -c termgate.term={term}", **more
    )


@pytest.fixture(scope="module")
def path(lab):
    """The file, from which nothing but a plain table was made yet: without layer 1 it can be read, and a write fails with what to do."""
    path = f"{lab.folder}/app.db"
    none = f"sqlite:{lab.folder}/none.db"
    missing = subprocess.run([lab.termgate, "proxy", "--listen", "127.0.0.1:0", "--backend", none], capture_output=True, text=True)
    check("a file that is not there", missing.returncode == 1 and "termgate init" in missing.stdout + missing.stderr, missing)
    sqlite3.connect(path).execute("CREATE TABLE plain (x)").connection.close()
    proxy = lab.proxy(f"sqlite:{path}")
    check("without layer 1 reads pass", psql(proxy.port, "SELECT count(*) FROM plain")[1] == "0")
    status, _, error = psql(proxy.port, "INSERT INTO plain VALUES (1)", options="-c termgate.scope=s -c termgate.term=1")
    check("and a write gets an error that says what to do", status == 1 and "termgate init --db sqlite:" in error, error)
    proxy.stop()
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    return path


@pytest.fixture(scope="module")
def proxy(lab, path):
    return lab.proxy(f"sqlite:{path}")


def write_locked(path):
    """Whether somebody has the file's write lock."""
    file = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        file.execute("BEGIN IMMEDIATE")
        file.execute("ROLLBACK")
        return False
    except sqlite3.OperationalError:
        return True
    finally:
        file.close()


def test_what_a_newcomer_types_into_psql(lab, path, proxy):
    """docs/use/sqlite-proxy.md, in its order."""
    port = proxy.port
    create = "CREATE TABLE accounts (id serial PRIMARY KEY, owner text NOT NULL, balance int DEFAULT 0)"
    status, _, error = psql(port, create)
    check("without a term a definition is refused", status == 1 and "TG002" in error and "HINT" in error, error)
    term5 = "-c termgate.scope=billing -c termgate.term=5"
    check("with one it passes", psql(port, create, options=term5)[0] == 0)
    check("an insert says its tag", psql(port, "INSERT INTO accounts (owner) VALUES ('ann'), ('bob')", options=term5)[1] == "INSERT 0 2")
    check("everybody reads", psql(port, "SELECT * FROM accounts ORDER BY id")[1] == "1|ann|0\n2|bob|0")
    check(
        "declared by SET",
        psql(port, "SET termgate.scope = 'billing'", "SET termgate.term = '5'", "UPDATE accounts SET balance = 7 WHERE id = 1")[1].endswith(
            "UPDATE 1"
        ),
    )
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "billing", "--term", "6")
    status, _, error = psql(port, "UPDATE accounts SET balance = 8", options=term5)
    check(
        "[F2] stale after the seal of another process",
        status == 1 and 'TG001 stale term 5 for scope "billing": the fence stands at 6' in error,
        error,
    )
    check("and nothing of it is there", psql(port, "SELECT balance FROM accounts ORDER BY id")[1] == "7\n0")
    check(
        "a comment declares too",
        psql(port, "/*termgate.scope='billing',termgate.term='6'*/ UPDATE accounts SET balance = 9 WHERE id = 2")[1] == "UPDATE 1",
    )
    check(
        "SQLite's own grammar",
        psql(port, "INSERT OR REPLACE INTO accounts (id, owner) VALUES (2, 'eve')", options="-c termgate.scope=billing -c termgate.term=6")[
            1
        ]
        == "INSERT 0 1",
    )
    status, _, error = psql(port, "SELECT 1;\nSELECT nope FROM accounts")
    check("an unknown column", "nope" in error and "does not exist" in error, error)
    check(
        "ATTACH is closed",
        "permission denied" in psql(port, "ATTACH '/tmp/x' AS x", options="-c termgate.scope=billing -c termgate.term=6")[2],
    )
    check("ready", proxy.get("/readyz")[0] == 200)


@pytest.mark.skipif(psycopg is None, reason="psycopg is missing")
def test_psycopgs_types_in_text_and_binary(proxy):
    port = proxy.port
    with connect(port, "types", autocommit=True) as c:
        c.execute(
            "CREATE TABLE ty (id int PRIMARY KEY, b bool, i2 int2, i8 bigint, f4 real, f8 float8, n numeric(10,2), t text, v varchar(5), y"
            " bytea, d date, tm time, ts timestamp, tz timestamptz, u uuid, j jsonb)"
        )
        row = (
            1,
            True,
            2,
            3,
            1.5,
            2.5,
            decimal.Decimal("12.25"),
            "té",
            "abc",
            b"\x00\xff",
            datetime.date(2024, 1, 2),
            datetime.time(1, 2, 3),
            datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
            datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
            uuid.UUID(int=5),
        )
        for binary in (False, True):
            c.execute("DELETE FROM ty")
            mark = "%b" if binary else "%t"
            c.execute("INSERT INTO ty VALUES (" + ", ".join([mark] * 15) + ", %s)", (*row, psycopg.types.json.Jsonb({"a": [1, None]})))
            for back in (False, True):
                got = c.cursor(binary=back).execute("SELECT * FROM ty").fetchone()
                check(f"types go round (in binary: {binary}, back: {back})", got == (*row, {"a": [1, None]}), got)
        # Untyped, as most drivers send them: the column says what they are.
        c.execute("DELETE FROM ty")
        pg = c.pgconn
        pg.exec_params(
            b"INSERT INTO ty (id, b, y, u) VALUES ($1, $2, $3, $4)", [b"7", b"true", b"\\x00ff", b"00000000000000000000000000000005"]
        )
        check(
            "values without a type take their column's",
            c.execute("SELECT id, b, y, u FROM ty").fetchone() == (7, True, b"\x00\xff", uuid.UUID(int=5)),
            c.execute("SELECT id, b, y, u FROM ty").fetchone(),
        )
        found = pg.exec_params(b"SELECT id FROM ty WHERE b = $1 AND id >= $2", [b"t", b"7"])
        check("compared ones too", found.ntuples == 1 and found.get_value(0, 0) == b"7", found.error_message)
        c.execute("DELETE FROM ty")
        with c.pipeline():
            for i in range(10, 30):
                c.execute("INSERT INTO ty (id) VALUES (%s)", (i,))
        check("a pipeline", c.execute("SELECT count(*) FROM ty").fetchone() == (20,))
    with connect(port, "types") as c:
        with c.cursor(name="far") as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT id FROM ty ORDER BY id")
            check("a server's cursor", [r[0] for r in cursor] == list(range(10, 30)))
        with c.cursor() as cursor:
            with cursor.copy("COPY ty (id, t) FROM STDIN") as copy:
                for i in range(100, 1100):
                    copy.write_row((i, "x\ty\\"))
            with cursor.copy("COPY (SELECT id, t FROM ty WHERE id >= 100 ORDER BY id) TO STDOUT") as copy:
                rows = list(copy.rows())
        check("COPY in and out", len(rows) == 1000 and rows[0] == ("100", "x\ty\\"))
    with connect(port, "types", autocommit=True) as c:
        for statement in (
            "SELECT pg_sleep(20)",
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2000000000) SELECT count(*) FROM r",
        ):
            threading.Timer(0.3, c.cancel).start()
            begin = time.monotonic()
            try:
                c.execute(statement)
                check(f"cancelled: {statement}", False)
            except psycopg.errors.QueryCanceled:
                check(f"cancelled: {statement}", time.monotonic() - begin < 3 * PATIENCE)
        check("and the session goes on", c.execute("SELECT 1").fetchone() == (1,))


@pytest.mark.skipif(not shutil.which("pgbench"), reason="pgbench is missing")
def test_pgbenchs_own_schema(lab, proxy):
    port = proxy.port

    def run(*words):
        done = subprocess.run(
            ["pgbench", "-h", "127.0.0.1", "-p", str(port), "-U", "me", *words, "app"],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PGOPTIONS": "-c termgate.scope=pgbench -c termgate.term=1"},
        )
        return done.returncode, done.stdout + done.stderr

    status, said = run("-i", "-q")
    check("pgbench -i", status == 0, said)
    for words in (("-S", "-M", "simple"), ("-S", "-M", "prepared"), ("-M", "extended"), ("-M", "prepared")):
        status, said = run("-n", "-c", "4", "-j", "2", "-t", "50", *words)
        check(f"pgbench {' '.join(words)}", status == 0 and "number of failed transactions: 0 " in said, said)
    code, rows, _ = psql(
        port,
        (
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), (SELECT sum(bbalance) FROM"
            " pgbench_branches) = (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)"
        ),
    )
    check("its sums agree", code == 0 and rows == "t|t|400", rows)


def test_timeouts_end_statements_and_idle_sessions(proxy):
    port = proxy.port
    """statement_timeout, lock_timeout, idle_in_transaction_session_timeout, and a cancel request for one who waits."""
    counting = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2000000000) SELECT max(i) FROM r"

    def timed(wire, sql):
        begin = time.monotonic()
        _, error = wire.ask(sql)
        return (error or {}).get("C"), (error or {}).get("M", ""), time.monotonic() - begin

    wire = Wire(port, user="me", database="app", **declared("timeouts", 1))
    wire.ask("CREATE TABLE timeouts (x int)")
    check(
        "a timeout that is none",
        timed(wire, "SET statement_timeout = 'soon'")[0] == "22023" and timed(wire, "SET statement_timeout = -1")[0] == "22023",
    )
    wire.ask("SET statement_timeout = '0.3 s'")
    check("is told as PostgreSQL tells it", wire.ask("SHOW statement_timeout")[0] == ["300ms"])
    for sql in ("SELECT pg_sleep(20)", counting, f"INSERT INTO timeouts {counting}"):
        code, message, took = timed(wire, sql)
        check(
            f"statement_timeout ends {sql[:20]}",
            code == "57014" and "statement timeout" in message and 0.25 < took < 1.5 * PATIENCE,
            (code, message, took),
        )
    check("each statement of a text has its own", timed(wire, "SELECT pg_sleep(0.2); SELECT pg_sleep(0.2)")[0] is None)
    holder = Wire(port, user="me", database="app", **declared("elsewhere", 1))
    holder.ask("BEGIN")
    holder.ask("INSERT INTO timeouts VALUES (1)")
    for sql in ("INSERT INTO timeouts VALUES (2)", "BEGIN; INSERT INTO timeouts VALUES (2)"):
        code, message, took = timed(wire, sql)
        check(
            f"it ends who waits for the write lock: {sql[:6]}",
            code == "57014" and "statement timeout" in message and 0.25 < took < 1.5 * PATIENCE,
            (code, message, took),
        )
        wire.ask("ROLLBACK")
    wire.ask("SET statement_timeout = 0")
    wire.ask("SET lock_timeout = 200")
    code, message, took = timed(wire, "INSERT INTO timeouts VALUES (2)")
    check("lock_timeout", code == "55P03" and 0.15 < took < 1.5 * PATIENCE, (code, message, took))
    wire.ask("RESET lock_timeout")
    canceller = threading.Timer(0.3, lambda: cancel(wire, port))
    canceller.start()
    code, message, took = timed(wire, "INSERT INTO timeouts VALUES (2)")
    check(
        "a cancel request ends the waiting, too",
        code == "57014" and "user request" in message and took < 1.5 * PATIENCE,
        (code, message, took),
    )
    holder.ask("COMMIT")
    # A statement that shares its commit with others is cancelled all the same.
    others = [Wire(port, user="me", database="app", **declared(f"other{n}", 1)) for n in range(4)]
    stop, problems = threading.Event(), []

    def busy(other):
        while not stop.is_set():
            _, error = other.ask("INSERT INTO timeouts VALUES (3)")
            if error is not None and error["C"] not in ("TG006", "40001", "57P03"):
                problems.append(error)

    threads = [threading.Thread(target=busy, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    wire.ask("SET statement_timeout = 300")
    for _ in range(3):
        code, message, took = timed(wire, f"INSERT INTO timeouts {counting}")
        check("statement_timeout among many writers", code == "57014" and took < 3 * PATIENCE, (code, message, took))
    stop.set()
    for thread in threads:
        thread.join()
    check("and the others go on or are told to run again", not problems, problems[:2])
    wire.ask("SET statement_timeout = 0")
    wire.ask("SET idle_in_transaction_session_timeout = 200")
    wire.ask("BEGIN")
    said = refusal(lambda: wire.until("Z"))
    check("idle_in_transaction_session_timeout", (said or {}).get("C") == "25P03", said)


def test_f4_holders_give_way(lab, path, proxy):
    """[F4] Who keeps the only write lock."""
    port = proxy.port
    idle = Wire(port, user="me", database="app", **declared("f4", 1))
    idle.ask("CREATE TABLE f4 (x int)")
    idle.ask("BEGIN")
    idle.ask("INSERT INTO f4 VALUES (1)")
    higher = Wire(port, user="me", database="app", **declared("f4", 2))
    begin = time.monotonic()
    _, error = higher.ask("INSERT INTO f4 VALUES (2)")
    took = time.monotonic() - begin
    check("a higher term goes past an idle holder after the grace", error is None and 0.9 < took < 2.5 * PATIENCE, (error, took))
    said = refusal(lambda: idle.ask("SELECT 1"))
    check("which is told why", said is not None and said["C"] == "57P01" and "term 2" in said["M"], said)
    check("and has written nothing", higher.ask("SELECT x FROM f4")[0] == ["2"])
    slow = Wire(port, user="me", database="app", timeout=30, **declared("f4", 2))
    outcome = []
    thread = threading.Thread(
        target=lambda: outcome.append(
            refusal(
                lambda: slow.ask(
                    "INSERT INTO f4 WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 2000000000) SELECT max(i)"
                    " FROM r"
                )
            )
        )
    )
    thread.start()
    assert eventually(lambda: write_locked(path)), "it is at work"
    third = Wire(port, user="me", database="app", **declared("f4", 3))
    begin = time.monotonic()
    _, error = third.ask("INSERT INTO f4 VALUES (3)")
    check("past one at work, too", error is None and time.monotonic() - begin < 2.5 * PATIENCE, (error, time.monotonic() - begin))
    thread.join(20)
    check("which is ended", outcome and outcome[0] is not None and outcome[0]["C"] == "57P01", outcome)
    silent = Wire(port, user="me", database="app", **declared("f4", 3))
    silent.ask("BEGIN")
    silent.ask("INSERT INTO f4 VALUES (4)")
    other = Wire(port, user="me", database="app", **declared("another", 1))
    begin = time.monotonic()
    _, error = other.ask("INSERT INTO f4 VALUES (5)")
    took = time.monotonic() - begin
    check("anybody goes past a silent holder after its limit", error is None and took < 4.5 * PATIENCE, (error, took))
    check("which is told", (refusal(lambda: silent.ask("SELECT 1")) or {}).get("C") == "57P01")

    # Other processes: the command, and a program with the extension.
    def held(term):
        wire = Wire(port, user="me", database="app", **declared("f4", term))
        wire.ask("BEGIN")
        wire.ask("INSERT INTO f4 VALUES (99)")
        return wire

    stale = held(3)
    begin = time.monotonic()
    sealed = subprocess.run(
        [lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "f4", "--term", "4"], capture_output=True, text=True
    )
    took = time.monotonic() - begin
    check(
        "a seal of another process goes past an idle holder after the grace",
        sealed.returncode == 0 and 0.9 < took < 2.8 * PATIENCE,
        (sealed, took),
    )
    check("which is told why", "term 4" in (refusal(lambda: stale.ask("SELECT 1")) or {}).get("M", ""))
    if extension_loads():
        stale = held(4)
        program = sqlite3.connect(path, isolation_level=None)
        program.enable_load_extension(True)
        program.load_extension(os.path.join(os.path.dirname(lab.termgate), "termgate"))
        begin = time.monotonic()
        program.execute("SELECT termgate_check_term('f4', 5)")
        took = time.monotonic() - begin
        check(
            "so does a check of the extension's",
            0.9 < took < 2.5 * PATIENCE and "term 5" in (refusal(lambda: stale.ask("SELECT 1")) or {}).get("M", ""),
            took,
        )
        program.close()
    stale = held(5)
    begin = time.monotonic()
    done = subprocess.run(
        [lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "elsewhere", "--term", "1"], capture_output=True, text=True
    )
    took = time.monotonic() - begin
    check("and anybody's after its limit", done.returncode == 0 and 2.5 < took < 4.8 * PATIENCE, (done, took))
    check("of which none has written anything", third.ask("SELECT count(*) FROM f4")[0] == ["3"])
    third.ask("SET termgate.term = '5'")
    third.ask("BEGIN")
    check("a block that has only asked holds nobody up", third.ask("SELECT count(*) FROM f4")[0] == ["3"])
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "f4", "--term", "9")
    _, error = third.ask("INSERT INTO f4 VALUES (6)")
    check("[F2] and is refused at its write", error is not None and error["C"] == "TG001", error)


def cancel(wire, port):
    with socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(struct.pack("!III", 12 + len(wire.key), 80877102, wire.pid) + wire.key)
        asking.recv(1)


def test_the_log_holds_no_error_and_sigterm_ends_it(proxy):
    check("the log holds no error", not re.search(r" error ", proxy.log()), proxy.log()[-300:])
    begin = time.monotonic()
    check("SIGTERM ends it", proxy.stop() == 0 and time.monotonic() - begin < 5 * PATIENCE)


def test_accounts_with_passwords(lab, path):
    check, users = lab.check, f"{lab.folder}/users"
    add = subprocess.run([lab.termgate, "user", "add", "ann", "--users", users], input="a secret\n", capture_output=True, text=True)
    check("user add", add.returncode == 0 and os.stat(users).st_mode & 0o777 == 0o600, add)
    lab.run(lab.termgate, "user", "add", "bob", "--users", users, input="other\n")
    with open(users) as file:
        check("verifiers only", "secret" not in file.read())
    check("user list", lab.run(lab.termgate, "user", "list", "--users", users) == "ann\nbob")
    proxy = lab.proxy(f"sqlite:{path}", "--users", users)

    def enter(user, password):
        done = subprocess.run(
            [
                "psql",
                "-X",
                "-A",
                "-t",
                "-w",
                "-h",
                "127.0.0.1",
                "-p",
                str(proxy.port),
                "-U",
                user,
                "-d",
                "app",
                "-c",
                "SELECT current_user",
            ],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "PGPASSWORD": password},
        )
        return done.stdout.strip(), done.stderr

    check("the right password", enter("ann", "a secret")[0] == "ann", enter("ann", "a secret"))
    for user, password in (("ann", "wrong"), ("nobody", "a secret"), ("ann", "")):
        said = enter(user, password)
        check(f"refused: {user}", said[0] == "" and ("authentication failed" in said[1] or "password" in said[1]), said)
    lab.run(lab.termgate, "user", "remove", "ann", "--users", users)
    check("taken away", enter("ann", "a secret")[0] == "")
    check("the other stays", enter("bob", "other")[0] == "bob")
    proxy.stop()


def test_f5_many_writers_a_seal_from_outside_and_a_kill(lab, path):
    proxy, seconds = lab.proxy(f"sqlite:{path}"), 30 if LONG else 4
    """[F1][F5] Many writers in shared commits, leaders that change, one local program; then kill -9."""
    psql(proxy.port, "CREATE TABLE storm (id int PRIMARY KEY, term int)", options="-c termgate.scope=storm -c termgate.term=1")
    acknowledged, refused, stop, top = set(), set(), threading.Event(), [1]
    lock = threading.Lock()

    def writer(number):
        seed = random.Random(number)
        key = number * 1_000_000
        while not stop.is_set():
            term = top[0] if seed.random() < 0.8 else max(1, top[0] - 1)
            try:
                wire = Wire(proxy.port, user="me", database="app", **declared("storm", term))
                for _ in range(20):
                    key += 1
                    block = seed.random() < 0.2
                    if block:
                        wire.ask("BEGIN")
                    _, error = wire.ask(f"INSERT INTO storm VALUES ({key}, {term})")
                    if block and error is None:
                        _, error = wire.ask("COMMIT")
                    with lock:
                        if error is None:
                            acknowledged.add(key)
                        elif error["C"] in ("TG001", "TG006", "40001"):
                            refused.add(key)
                    if error is not None:
                        break
                wire.close()
            except (Refused, OSError):
                pass

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    waits = []
    while time.monotonic() - begin < seconds:
        time.sleep(0.4)
        asked = time.monotonic()
        done = subprocess.run(
            [lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "storm", "--term", str(top[0] + 1)], capture_output=True, text=True
        )
        waits.append(time.monotonic() - asked)
        if done.returncode == 0:
            top[0] += 1
    check("another process is let in between the commits of many", top[0] >= 4 and max(waits) < 1.5 * PATIENCE, (top[0], waits))
    proxy.process.send_signal(signal.SIGKILL)
    proxy.process.wait()
    stop.set()
    for thread in threads:
        thread.join()
    file = sqlite3.connect(path)
    check("the file is whole", file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    rows = [row[0] for row in file.execute("SELECT id FROM storm")]
    check("what was acknowledged is there", acknowledged <= set(rows), sorted(acknowledged - set(rows))[:5])
    check("what was refused is not", not refused & set(rows), sorted(refused & set(rows))[:5])
    terms = [row[0] for row in file.execute("SELECT term FROM storm ORDER BY rowid")]
    check("there were many of each", len(acknowledged) > 50 and len(set(terms)) > 2, (len(acknowledged), len(refused), set(terms)))
    check(
        "the fence is not below what is there",
        file.execute("SELECT term FROM termgate_fences WHERE scope = 'storm'").fetchone()[0] >= max(terms),
    )
    file.close()
