#!/usr/bin/python3
"""What the keeper of seats costs: processor time of its process, and of its session on the server, in percent of a core.

  keeper_cost.py TERMGATE SERVER_SCRIPT [--seconds 8]

A server of its own (PostgreSQL 15, fsync off). `termgate append --lines` appends until its session has a seat, then one line each
half second: the keeper asks all the time whether a raise wants the seat. Without input for a second it gives the seat up, and is idle.
A client of `termgate proxy --seats eager` does the same, and one of `--seats off` shows what the process costs without a keeper.
"""
import argparse
import subprocess
import sys
import time
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checks import eventually  # noqa: E402
from proxy_lab import Lab  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("termgate")
parser.add_argument("server")
parser.add_argument("--seconds", type=float, default=8)
options = parser.parse_args()


def spent(pid, ended=0.0):
    """In seconds, as the scheduler counts them: whoever wakes with the clock's tick is counted wrong in /proc/PID/stat."""
    try:
        return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9 or ended
    except OSError:
        return ended


def measure(name, process, write=None):
    sql.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE '%seats_wanted%' AND pid <> pg_backend_pid()")
    pids = [process, *(pid for pid, in sql.fetchall())]
    before = [spent(pid) for pid in pids]
    for _ in range(round(2 * options.seconds)):
        if write:
            write()
        time.sleep(0.5)
    own, *theirs = (100 * (spent(pid, early) - early) / options.seconds for pid, early in zip(pids, before))
    print(f"{name:18} process {own:5.2f} %   the keeper's session {sum(theirs):5.2f} %", flush=True)


def seats_become(wanted):
    def became():
        sql.execute("SELECT count(*) > 0 FROM termgate.seats")
        return sql.fetchone()[0] == wanted

    if not eventually(became, 30, 0.1):
        raise SystemExit(f"keeper_cost.py: waited for 30 s until seats are {'taken' if wanted else 'given up'}")


lab = Lab("keeper", options.termgate, options.server)
try:
    url = lab.server("15").url
    connection = psycopg2.connect(url)
    connection.autocommit = True
    sql = connection.cursor()
    sql.execute("CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, v text)")
    words = [options.termgate, "append", "--db", url, "--stream", "s", "--scope", "s", "--term", "1", "--lines"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as writer:

        def append(lines=1):
            writer.stdin.write(b"x\n" * lines)
            writer.stdin.flush()

        for _ in range(40):
            append(1000)
            time.sleep(0.02)
        seats_become(True)
        measure("library, seat", writer.pid, append)
        seats_become(False)
        measure("library, idle", writer.pid)
        writer.stdin.close()
    for seats in ("eager", "off"):
        proxy = lab.proxy(url, "--seats", seats)
        client = psycopg2.connect(f"host=127.0.0.1 port={proxy.port} user=postgres options='-c termgate.scope=p -c termgate.term=1'")
        client.autocommit = True

        def insert():
            client.cursor().execute("INSERT INTO t (v) VALUES ('x')")

        for _ in range(200):
            insert()
            time.sleep(0.005)
        seats_become(seats == "eager")
        measure(f"proxy, {seats}", proxy.process.pid, insert)
        seats_become(False)
        measure(f"proxy, {seats}, idle", proxy.process.pid)
        proxy.stop()
finally:
    lab.close()
