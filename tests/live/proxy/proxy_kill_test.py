#!/usr/bin/env python3
"""[F2] [F5] The proxy is killed at random under load and started again: nothing refused is in the table, nothing acknowledged is missing.

  pytest tests/live/proxy/proxy_kill_test.py [--long] [--seed N]

Writers of term 5, each a process on psycopg 3, and one of term 4 write through the proxy in every way that a driver
has; each notes what the answer was: committed, refused, or unknown (the connection went). In the middle of it term 6 is
sealed, its writers begin, and the writers of 5 go on as stale ones. Needs psycopg 3.
"""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import given
from checks import check, eventually, note
from given import LONG, SANITIZED

WRITER = Path(__file__).with_name("killed_writer.py")


def test_a_proxy_killed_under_load_loses_nothing_and_stores_nothing_refused(lab):
    pytest.importorskip("psycopg")
    seed = given.option("seed", int(time.time()))
    print(f"seed {seed}")
    random.seed(seed)
    server = lab.server("15", "track_commit_timestamp=on")
    server.sql("CREATE TABLE kept (writer int, key int, term int, PRIMARY KEY (writer, key))")
    server.sql("SELECT termgate.seal('killed', 5)")
    proxy = lab.proxy(server.url)
    port = proxy.port
    notes = {}
    processes = []

    def start(term):
        number = len(notes)
        notes[number] = (term, f"{lab.folder}/writer{number}")
        processes.append(lab.program(given.PYTHON, WRITER, port, number, term, seed + number, notes[number][1], stdin=subprocess.PIPE))

    for term in (5, 5, 5, 4):
        start(term)
    kills = 0
    seconds = 30 if LONG else 16
    began = time.monotonic()
    sealed = None
    while time.monotonic() - began < seconds:
        time.sleep(random.uniform(0.05, 1.2))
        if sealed is None and time.monotonic() - began > seconds / 2:
            sealed = server.sql("SELECT sealed_at FROM termgate.seal('killed', 6)")[0]
            start(6)
            start(6)
        proxy.process.send_signal(signal.SIGKILL)
        proxy.process.wait()
        kills += 1
        time.sleep(random.choice((0, 0.05)))
        proxy = lab.proxy(server.url, port=port)
    # Every writer gets an answer from the last proxy, and so has noted what became of what it had sent to the one before.
    count_of = lambda path: sum(1 for _ in open(path)) if os.path.exists(path) else 0  # noqa: E731
    lines = {path: count_of(path) for _, path in notes.values()}
    goes_on = lambda: all(count_of(path) > count for path, count in lines.items())  # noqa: E731
    check("every writer goes on after the last kill", eventually(goes_on, 20))
    for process in processes:
        process.stdin.close()
    for process in processes:
        process.wait(20)
    check("the writers ended well", all(process.returncode == 0 for process in processes))
    # A server session whose proxy was killed may still be finishing what it was sent.
    server.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND"
        " backend_type = 'client backend' AND query LIKE '%kept%'"
    )
    left = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        " AND query LIKE '%kept%'"
    )
    check("their sessions at the server have ended", eventually(lambda: server.sql(left) == ["0"], 20, 0.05))

    table = {}
    for row in server.sql("SELECT writer || ' ' || key || ' ' || term FROM kept"):
        number, key, term = map(int, row.split())
        table[number, key] = term
    counts = {"committed": 0, "refused": 0, "unknown": 0, "failed": 0}
    missing, present, failed, noted = [], [], [], set()
    for number, (term, path) in notes.items():
        for line in open(path):
            fate, key = line.rsplit(" ", 1)
            place = number, int(key)
            noted.add(place)
            kind = fate.split("-")[0]
            counts[kind] += 1
            if kind == "committed" and place not in table:
                missing.append((place, fate))
            if kind in ("refused", "failed") and place in table:
                present.append((place, fate))
            if kind == "failed":
                failed.append(fate)
    note(f"seed {seed}: {kills} kills, {counts}")
    check("nothing acknowledged is missing", not missing, missing[:5])
    check("nothing refused is in the table", not present, present[:5])
    check("nobody got any other answer", not failed, sorted(set(failed))[:5])
    check("no row of term 4 is in the table", 4 not in table.values())
    check("no row is in the table that nobody wrote", set(table) <= noted, sorted(set(table) - noted)[:5])
    late = server.sql(f"SELECT count(*) FROM kept WHERE term = 5 AND pg_xact_commit_timestamp(xmin) > '{sealed}'")
    check("[F2] no row of term 5 was committed after the seal of 6", late == ["0"], late)
    early = server.sql(f"SELECT count(*) FROM kept WHERE term = 6 AND pg_xact_commit_timestamp(xmin) < '{sealed}'")
    check("and none of 6 before it", early == ["0"], early)
    share = 10 if SANITIZED else 100
    check(
        "there was something to see",
        kills >= seconds / 3 and counts["committed"] > share and counts["refused"] > share and counts["unknown"] > 0,
        (kills, counts),
    )
    lab.run(lab.termgate, "verify", "--db", server.url)
