#!/usr/bin/python3
"""How long a takeover takes while another process has seats: milliseconds, by what has become of that process.

  seated_takeover.py TERMGATE SERVER_SCRIPT [--rounds 20] [--sessions 8,64]

A server of its own (PostgreSQL 15, fsync off). The holder is `termgate proxy --seats eager`, whose clients write until each of their
sessions has a seat. Then the holder goes on writing, is killed or frozen (SIGSTOP), and the scope is raised with a grace of 1 s: by
seal(), and for "expired" by acquire_lease() on a lease that has ended.
"""
import argparse
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from checks import eventually  # noqa: E402
from proxy_lab import Lab  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("termgate")
parser.add_argument("server")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--sessions", default="8,64")
options = parser.parse_args()


def connected(where, **more):
    connection = psycopg2.connect(where, **more)
    connection.autocommit = True
    return connection


def value(connection, sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


def write(client, going):
    try:
        with client.cursor() as cursor:
            while going.is_set():
                cursor.execute("INSERT INTO t VALUES ('x')")
                time.sleep(0.02)
    except psycopg2.Error:
        pass  # its term is over


def taken_over(lab, url, direct, number, sessions, case):
    """In milliseconds."""
    scope, term = f"{case}-{sessions}-{number}", 1
    if case == "expired":
        term = value(direct, "SELECT term FROM termgate.acquire_lease(%s, 'first', '400 ms')", scope)
    proxy, going, clients, writers = lab.proxy(url, "--seats", "eager"), threading.Event(), [], []
    going.set()
    try:
        claim = f"-c termgate.scope={scope} -c termgate.term={term}"
        where = f"host=127.0.0.1 port={proxy.port} user=postgres dbname=postgres options='{claim}'"
        for _ in range(sessions):
            clients.append(connected(where))
            writers.append(threading.Thread(target=write, args=(clients[-1], going)))
            writers[-1].start()
        seats = lambda: value(direct, "SELECT count(*) FROM termgate.seats WHERE scope = %s", scope)
        assert eventually(lambda: seats() >= sessions, 60), "no seats"
        if case == "killed":
            proxy.process.kill()
            proxy.process.wait()
        elif case != "alive":
            proxy.process.send_signal(signal.SIGSTOP)
        if case == "expired":
            while value(direct, "SELECT live FROM termgate.lease(%s)", scope):
                time.sleep(0.01)
        began = time.perf_counter()
        if case == "expired":
            assert value(direct, "SELECT acquired FROM termgate.acquire_lease(%s, 'second', '1 h')", scope)
        else:
            value(direct, "SELECT (termgate.seal(%s, %s)).fence", scope, term + 1)
        return 1000 * (time.perf_counter() - began)
    finally:
        going.clear()
        proxy.process.kill()
        proxy.process.wait()
        for writer in writers:
            writer.join()
        for client in clients:
            client.close()


lab = Lab("seated", options.termgate, options.server)
try:
    url = lab.server("15", "max_connections=200").url
    direct = connected(url)
    with direct.cursor() as cursor:
        cursor.execute("CREATE TABLE t (v text)")
    print("sessions  holder     p50    max ms")
    for sessions in map(int, options.sessions.split(",")):
        for case in ("alive", "killed", "frozen", "expired"):
            took = [taken_over(lab, url, direct, number, sessions, case) for number in range(options.rounds)]
            print(f"{sessions:8}  {case:8} {statistics.median(took):6.0f} {max(took):6.0f}", flush=True)
finally:
    lab.close()
