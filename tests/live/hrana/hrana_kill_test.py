#!/usr/bin/env python3
"""[F2] [F3] [F5] The proxy in front of an SQLite file is killed at random moments under load and started again: nothing
refused is in the file, nothing acknowledged is missing, no fence has gone back, terms are in commit order.

  pytest tests/live/hrana/hrana_kill_test.py [--long] [--seed N]

Writers write in every way that a client has, some of them with a term that is one behind; each notes what the answer was:
committed, refused, or unknown (the connection went, or the stream was gone). Meanwhile the term rises, by seals through
the proxy and by the command's. Now and then it is SIGTERM instead, which loses nothing.
"""
import http.client
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
from hrana import Failed, execute, statement
from hrana_served import Served, Socket, Stream, cursor, failed, step, token

KILLS = 60 if LONG else 24
lock = threading.Lock()
seed = given.option("seed", int(time.time()))
notes, term, stop = {}, [1], threading.Event()
url = None


class Unknown(Exception):
    pass


# Codes by which nothing was written; the others are neither refusal nor loss, and the test fails on them.
REFUSED = {"TG001", "TG006", "SQLITE_BUSY", "TRANSACTION_TIMEOUT", "SERVER_BUSY"}


def write(way, number, keys, own):
    text = f"INSERT INTO kept VALUES ({number}, ?, {own})"
    headers = token("killed", own)
    if way == "socket":
        client = Socket(url, headers)
        try:
            client.execute(text, keys[0])
        finally:
            client.close()
        return
    if way == "cursor":
        status, entries = cursor(url, [step(text, keys[0])], headers)
        if status != 200:
            raise failed(status, entries[0])
        for entry in entries:
            if entry.get("type") in ("step_error", "error"):
                raise failed(200, entry["error"])
        if not any(entry.get("type") == "replication_index" for entry in entries):
            raise Unknown("cut off")
        return
    stream = Stream(url, headers)
    if way == "execute":
        stream.execute(text, keys[0])
    elif way == "transaction":
        stream.execute("BEGIN")
        stream.execute(text, keys[0])
        stream.execute("COMMIT")
    elif way == "savepoint":
        stream.ask(execute("BEGIN"), execute("SAVEPOINT a"), execute(text, -keys[0]), execute("ROLLBACK TO a"))
        stream.ask(execute(text, keys[0]), execute("COMMIT"))
    elif way == "batch transaction":
        steps = [step("BEGIN IMMEDIATE")] + [step(text, one, after=at) for at, one in enumerate(keys)]
        steps.append(step("COMMIT", after=len(keys)))
        steps.append({"condition": {"type": "not", "cond": {"type": "ok", "step": len(keys) + 1}}, "stmt": statement("ROLLBACK")})
        stream.batch(*steps)
    elif way == "transaction in one pipeline":
        results = stream.send(execute("BEGIN IMMEDIATE"), *(execute(text, one) for one in keys), execute("COMMIT"), {"type": "close"})
        for one in results:
            if one["type"] == "error":
                raise failed(200, one["error"])
    else:
        stream.sequence("BEGIN; " + "; ".join(text.replace("?", str(one)) for one in keys) + "; COMMIT")


TOGETHER = ("batch transaction", "transaction in one pipeline", "sequence")
WAYS = ("execute", "transaction", "savepoint", "cursor", "socket", *TOGETHER)


def fate_of(way, number, keys, own):
    try:
        write(way, number, keys, own)
        return "committed"
    except Failed as failure:
        if failure.code in REFUSED:
            return "refused"
        # A stream of the process before is not known any more; whether its COMMIT went through nobody can say.
        if failure.code in ("STREAM_EXPIRED", "OUTCOME_UNKNOWN", "closed") or failure.status in (0, 503):
            return "unknown"
        return f"failed with {failure}"
    except (Unknown, OSError, http.client.HTTPException, ValueError):
        return "unknown"


def writer(number):
    chance, key, mine = random.Random(seed * 100 + number), 0, []
    while not stop.is_set():
        own = max(1, term[0] - (chance.random() < 0.15))
        way = chance.choice(WAYS)
        keys = list(range(key + 1, key + (6 if way in TOGETHER else 2)))
        key = keys[-1]
        fate = fate_of(way, number, keys, own)
        if fate == "unknown":
            time.sleep(0.01)
        mine += [(fate, way, one, own) for one in keys]
    with lock:
        notes[number] = mine


@pytest.fixture(scope="module", autouse=True)
def writers_end():
    yield
    stop.set()


def test_a_proxy_killed_under_load_loses_nothing_and_stores_nothing_refused(lab):
    global url
    print(f"seed {seed}")
    path = f"{lab.folder}/app.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    file = sqlite3.connect(path, isolation_level=None, timeout=10)
    file.execute("CREATE TABLE kept (writer int, key int, term int)")
    file.execute("CREATE UNIQUE INDEX kept_key ON kept (writer, key)")
    lab.run(lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "killed", "--term", "1")
    served = Served(lab, path)
    url, port = served.url, served.port
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
                words = [lab.termgate, "seal", "--db", f"sqlite:{path}", "--scope", "killed", "--term", str(following)]
                done = subprocess.run(words, capture_output=True).returncode == 0
            else:
                try:
                    Stream(url).execute("SELECT termgate_seal('killed', ?)", following)
                    done = True
                except (Failed, OSError, http.client.HTTPException):
                    done = False
            if done:
                sealed.append((following, file.execute("SELECT coalesce(max(rowid), 0) FROM kept").fetchone()[0]))
                term[0] = following
        gentle = kill % 8 == 5
        served.process.send_signal(signal.SIGTERM if gentle else signal.SIGKILL)
        status = served.process.wait(40)
        stopped += gentle and status == 0
        if gentle and status != 0:
            note(f"SIGTERM ended with {status}: {served.log()[-300:]}")
        if kill % 4 == 0:
            check(f"the file is whole after kill {kill}", file.execute("PRAGMA quick_check").fetchone() == ("ok",))
        stands = file.execute("SELECT term FROM termgate_fences WHERE scope = 'killed'").fetchone()[0]
        check(f"[F3] no raise is lost by kill {kill}", stands >= term[0], (stands, term[0]))
        term[0] = max(term[0], stands)
        time.sleep(chance.choice((0, 0.05)))
        served = Served(lab, path, port=port)
    before = file.execute("SELECT count(*) FROM kept").fetchone()
    going = lambda: file.execute("SELECT count(*) FROM kept").fetchone() > before  # noqa: E731
    check("the writers go on after the last kill", eventually(going, 20, 0.05))
    stop.set()
    for thread in threads:
        thread.join(60)
    served.stop()
    judge(file, len(threads), sealed, stopped)
    lab.run(lab.termgate, "verify", "--db", f"sqlite:{path}")


def judge(file, writers, sealed, stopped):
    table = {(number, key): own for number, key, own in file.execute("SELECT writer, key, term FROM kept")}
    counts = {"committed": 0, "refused": 0, "unknown": 0}
    missing, present, failed, other, noted, groups = [], [], [], [], set(), {}
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
            if place in table and table[place] != own:
                other.append(place)
            groups.setdefault((number, way, own, fate), []).append(key)
    note(f"seed {seed}: {KILLS} kills, {stopped} of them gentle, {counts}, term {term[0]}")
    check("every writer ended", len(notes) == writers, sorted(notes))
    check("[F5] nothing acknowledged is missing", not missing, missing[:5])
    check("[F5] nothing refused is in the file", not present, present[:5])
    check("[F7] nobody got any other answer", not failed, sorted(set(failed))[:5])
    check("[F5] no row is there that nobody wrote", set(table) <= noted, sorted(set(table) - noted)[:5])
    check("[F5] each has its writer's term", not other, other[:5])
    halves = [
        (number, way, keys[at : at + 5])
        for (number, way, own, fate), keys in groups.items()
        if way in TOGETHER and fate == "unknown"
        for at in range(0, len(keys), 5)
        if 0 < sum((number, key) in table for key in keys[at : at + 5]) < 5
    ]
    check("[F5] what was unknown happened as a whole or not at all", not halves, halves[:3])
    order = [row[0] for row in file.execute("SELECT term FROM kept ORDER BY rowid")]
    check("[F1] terms are in commit order", order == sorted(order))
    late = [(n, row) for n, row in sealed if file.execute("SELECT 1 FROM kept WHERE term < ? AND rowid > ?", (n, row)).fetchone()]
    check("[F2] nothing lower was committed after a seal", not late, late)
    check("the file is whole", file.execute("PRAGMA integrity_check").fetchone() == ("ok",))
    share = 10 if SANITIZED else 100
    enough = counts["committed"] > share and counts["refused"] > 10 and counts["unknown"] > 0 and len(sealed) > 2 and stopped > 0
    check("there was something to see", enough, (counts, sealed, stopped))
