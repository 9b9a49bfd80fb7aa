#!/usr/bin/env python3
"""[F2] [F3] [F5] The proxy in front of an SQLite file is killed at random moments under load and started again: nothing
refused is in the file, nothing acknowledged is missing, no fence has gone back, terms are in commit order.

  pytest tests/live/sqlite_server_kill_test.py [--long] [--seed N]

Writers on psycopg 3 write in every way that a driver has, some of them with a term that is one behind, some cancelled
at work; each notes what the answer was: committed, refused, or unknown (the connection went). Meanwhile the term rises,
by seals through the proxy and by the command's. Now and then it is SIGTERM instead, which loses nothing. Needs
psycopg 3.
"""
import logging
import random
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

import given
from checks import check, eventually, note
from given import LONG, SANITIZED

psycopg = pytest.importorskip("psycopg")
logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it reports every pipeline that was cut
KILLS = 60 if LONG else 24
lock = threading.Lock()
seed = given.option("seed", int(time.time()))
notes, term, stop = {}, [1], threading.Event()
port = None


def connect(own):
    return psycopg.connect(
        f"host=127.0.0.1 port={port} user=me dbname=app sslmode=disable connect_timeout=5",
        autocommit=True,
        options=f"-c termgate.scope=killed -c termgate.term={own}",
    )


def write(connection, way, number, keys, own):
    text = f"INSERT INTO kept VALUES ({number}, %s, {own})"
    key = keys[0]
    if way == "extended":
        connection.execute(text, (key,))
    elif way == "text":
        connection.execute(text % key)
    elif way == "SQLite's grammar":
        connection.execute(text.replace("INSERT", "INSERT OR ABORT") % key)
    elif way == "block":
        with connection.transaction():
            connection.execute(text, (key,), prepare=True)
    elif way == "savepoint":
        with connection.transaction():
            connection.execute("SAVEPOINT a")
            connection.execute(f"INSERT INTO kept VALUES ({number}, {-key}, {own})")
            connection.execute("ROLLBACK TO a")
            connection.execute(text, (key,))
    elif way == "pipeline":
        with connection.pipeline():
            for one in keys:
                connection.execute(text, (one,))
    elif way == "pipelined block":
        with connection.pipeline(), connection.transaction():
            for one in keys:
                connection.execute(text, (one,))
    elif way == "COPY":
        with connection.cursor() as cursor, cursor.copy("COPY kept FROM STDIN") as copy:
            for one in keys:
                copy.write_row((number, one, own))
    elif way == "several in one text":
        connection.execute("; ".join(text % one for one in keys))
    else:
        connection.execute("BEGIN; " + "; ".join(text % one for one in keys) + "; COMMIT")


WAYS = (
    "extended",
    "text",
    "SQLite's grammar",
    "block",
    "savepoint",
    "pipeline",
    "pipelined block",
    "COPY",
    "several in one text",
    "block in one text",
)


def writer(number):
    chance = random.Random(seed * 100 + number)
    connection, own, key, mine = None, 0, 0, []
    while not stop.is_set():
        wanted = max(1, term[0] - (chance.random() < 0.15))
        try:
            if connection is None or connection.closed or wanted != own:
                if connection is not None:
                    connection.close()
                connection, own = connect(wanted), wanted
                connection.asked = False
        except psycopg.Error:
            time.sleep(0.01)
            continue
        way = chance.choice(WAYS)
        keys = list(
            range(key + 1, key + (6 if way in ("pipeline", "pipelined block", "COPY", "several in one text", "block in one text") else 2))
        )
        key = keys[-1]
        if chance.random() < 0.05:
            connection.asked = True
            threading.Timer(chance.random() * 0.01, cancel, (connection,)).start()
        try:
            write(connection, way, number, keys, own)
            fate = "committed"
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if state in ("TG001", "TG006", "40001") or (state == "57014" and connection.asked):  # another's cancel is none of its own
                fate = "refused"
            elif state == "" or state[:2] in ("57", "08"):
                fate = "unknown"
            else:
                fate = f"failed with {state}: {str(error).splitlines()[0]}"
            if way.startswith("pipeline"):
                connection.close()  # psycopg 3.1 takes a statement for prepared whose Parse an aborted pipeline has skipped
            try:
                if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.rollback()
            except psycopg.Error:
                connection.close()
        mine += [(fate, way, one, own) for one in keys]
    with lock:
        notes[number] = mine


def cancel(connection):
    try:
        connection.cancel()
    except Exception:  # noqa: BLE001 — it may be gone by now
        pass


@pytest.fixture(scope="module", autouse=True)
def writers_end():
    yield
    stop.set()


def test_a_front_killed_under_load_loses_nothing_and_stores_nothing_refused(lab):
    global port
    print(f"seed {seed}")
    path = f"{lab.folder}/app.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    file = sqlite3.connect(path, isolation_level=None, timeout=10)
    file.execute("CREATE TABLE kept (writer int, key int, term int)")
    file.execute("CREATE UNIQUE INDEX kept_key ON kept (writer, key)")
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "killed", "--term", "1")
    proxy = lab.proxy(f"sqlite:{path}")
    port = proxy.port
    threads = [threading.Thread(target=writer, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    chance = random.Random(seed)
    sealed, stopped = [], 0  # (term, the last row that was there once its seal had returned)
    for kill in range(KILLS):
        time.sleep(chance.uniform(0.02, 0.9))
        if kill % 3 == 1:
            following = term[0] + 1
            if kill % 2:
                done = (
                    subprocess.run(
                        [lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "killed", "--term", str(following)], capture_output=True
                    ).returncode
                    == 0
                )
            else:
                try:
                    with connect(following) as c:
                        done = c.execute(f"SELECT * FROM termgate.seal('killed', {following})").fetchone()[0] == following
                except psycopg.Error:
                    done = False
            if done:
                sealed.append((following, file.execute("SELECT coalesce(max(rowid), 0) FROM kept").fetchone()[0]))
                term[0] = following
        gentle = kill % 8 == 5
        proxy.process.send_signal(signal.SIGTERM if gentle else signal.SIGKILL)
        status = proxy.process.wait(40)
        stopped += gentle and status == 0
        if gentle and status != 0:
            note(f"SIGTERM ended with {status}: {proxy.log()[-300:]}")
        if kill % 4 == 0:
            check(f"the file is whole after kill {kill}", file.execute("PRAGMA quick_check").fetchone() == ("ok",))
        stands = file.execute("SELECT term FROM termgate_fences WHERE scope = 'killed'").fetchone()[0]
        check(f"[F3] no raise is lost by kill {kill}", stands >= term[0], (stands, term[0]))
        term[0] = max(term[0], stands)
        time.sleep(chance.choice((0, 0.05)))
        proxy = lab.proxy(f"sqlite:{path}", port=port)
    before = file.execute("SELECT count(*) FROM kept").fetchone()
    going = lambda: file.execute("SELECT count(*) FROM kept").fetchone() > before  # noqa: E731
    check("the writers go on after the last kill", eventually(going, 20, 0.05))
    stop.set()
    for thread in threads:
        thread.join(60)
    proxy.stop()
    table = {(number, key): (own, row) for number, key, own, row in file.execute("SELECT writer, key, term, rowid FROM kept")}
    counts = {"committed": 0, "refused": 0, "unknown": 0}
    missing, present, failed, other, noted = [], [], [], [], set()
    for number, mine in notes.items():
        for fate, way, key, own in mine:
            place = number, key
            noted.add(place)
            counts[fate] = counts.get(fate, 0) + 1
            if fate == "committed" and place not in table:
                missing.append((place, way))
            elif fate not in ("committed", "unknown") and place in table:
                present.append((place, way, fate))
            if fate not in ("committed", "refused", "unknown"):
                failed.append((way, fate))
            if place in table and table[place][0] != own:
                other.append(place)
    note(f"seed {seed}: {KILLS} kills, {stopped} of them gentle, {counts}, term {term[0]}")
    check("every writer ended", len(notes) == len(threads), sorted(notes))
    check("[F5] nothing acknowledged is missing", not missing, missing[:5])
    check("[F5] nothing refused is in the file", not present, present[:5])
    check("[F7] nobody got any other answer", not failed, sorted(set(failed))[:5])
    check("[F5] no row is there that nobody wrote", set(table) <= noted, sorted(set(table) - noted)[:5])
    check("[F5] each has its writer's term", not other, other[:5])
    groups = {}
    for number, mine in notes.items():
        for fate, way, key, own in mine:
            groups.setdefault((number, way, own, fate), []).append(key)
    halves = [
        (number, way, keys[at : at + 5])
        for (number, way, own, fate), keys in groups.items()
        if way in ("pipeline", "pipelined block", "COPY", "several in one text", "block in one text") and fate == "unknown"
        for at in range(0, len(keys), 5)
        if 0 < sum((number, key) in table for key in keys[at : at + 5]) < 5
    ]
    check("[F5] what was unknown happened as a whole or not at all", not halves, halves[:3])
    order = [row[0] for row in file.execute("SELECT term FROM kept ORDER BY rowid")]
    check("[F1] terms are in commit order", order == sorted(order))
    late = [
        (number, row) for number, row in sealed if file.execute("SELECT 1 FROM kept WHERE term < ? AND rowid > ?", (number, row)).fetchone()
    ]
    check("[F2] nothing lower was committed after a seal", not late, late)
    check("the file is whole", file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{path}")
    share = 10 if SANITIZED else 100
    check(
        "there was something to see",
        counts["committed"] > share and counts["refused"] > 10 and counts["unknown"] > 0 and len(sealed) > 2 and stopped > 0,
        (counts, sealed, stopped),
    )
