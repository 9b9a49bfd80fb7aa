#!/usr/bin/env python3
"""The proxy against PgBouncer in session mode, on one PostgreSQL 15 in this run; both with one server session a client, no TLS.
Prints a line a scenario: what, termgate, pgbouncer, their ratio (medians of ROUNDS, taken in turn), direct for comparison.

  tests/bench/proxy_bench.py [SECONDS [ROUNDS [SCENARIO …]]]      default 3 5, all

In the environment: SETTINGS, of the server, "fsync=off" for instance; by default commits are durable. SOCKET=1: the proxy reaches the
server by its Unix socket. OPTIONS: of the proxy, "--seats off" for instance. TERMGATE: the command (build/termgate). Needs pgbouncer and
pgbench. Everything listens on loopback and is stopped at the end.
"""
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "support"))
import pgbouncer  # noqa: E402
from checks import eventually  # noqa: E402
from given import free_port  # noqa: E402
from pgraw import Connection, query  # noqa: E402
from proxy_lab import Lab  # noqa: E402

seconds, rounds, *wanted = sys.argv[1:] + ["3", "5"][len(sys.argv) - 1 :]
seconds, rounds = float(seconds), int(rounds)
lab = Lab("proxy-bench", os.environ.get("TERMGATE") or str(HERE.parents[2] / "build" / "termgate"))
DECLARED = "-c termgate.scope=bench -c termgate.term={}"


def client(port, *words, declared=True, **more):
    environment = dict(os.environ, PGHOST="127.0.0.1", PGUSER="postgres", PGDATABASE="postgres", PGPORT=str(port))
    environment |= {"PGOPTIONS": DECLARED.format(7)} if declared else {}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)


def tps(port, *words):
    """Transactions a second of pgbench."""
    with client(port, f"{programs}/pgbench", "-n", "-T", str(int(seconds)), "-c", "8", "-j", "2", *words) as pgbench:
        return float(next(line for line in pgbench.stdout if line.startswith("tps")).split()[2])


def rate(port, *words):
    """Runs a second of one psql."""
    begun = time.perf_counter()
    with client(port, "psql", "-XAtq", *words) as psql:
        psql.communicate()
    return 1 / (time.perf_counter() - begun)


def compare(name, run, *words):
    seen = {port: [] for port in (proxy.port, bouncer_port, server.port)}
    for _ in range(rounds):
        for port, figures in seen.items():
            figures.append(run(port, *words))
    ours, theirs, direct = map(statistics.median, seen.values())
    print(f"{name:16} termgate {ours:10.1f}   pgbouncer {theirs:10.1f}   ratio {ours / theirs:.2f}   direct {direct:10.1f}", flush=True)


def answers(term):
    """How many a second eight clients get that ask again at once; not read message by message, which would be what is measured."""
    sockets = [Connection(proxy.port, parameters=[("options", DECLARED.format(term))]).socket for _ in range(8)]
    counts, end = [0] * len(sockets), time.monotonic() + seconds

    def ask(at, socket):
        while time.monotonic() < end:
            socket.sendall(query("INSERT INTO bench (v) VALUES ('row')"))
            seen = b""
            while seen[-6:-1] != b"Z\0\0\0\5":
                seen += socket.recv(65536)
            counts[at] += 1

    threads = [threading.Thread(target=ask, args=one) for one in enumerate(sockets)]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
    return sum(counts) / seconds


def refusals():
    """From memory, against accepted writes, both through the proxy."""
    seen = [(answers(6), answers(7)) for _ in range(rounds)]
    refused, accepted = (statistics.median(pair[at] for pair in seen) for at in (0, 1))
    print(f"{'refusals':16} refused  {refused:10.1f}   accepted  {accepted:10.1f}   ratio {refused / accepted:.2f}", flush=True)


def stat(pid):
    """Of a process that has ended: zeros."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["0"] * 20


def spent(pids):
    return sum(int(ticks) for pid in pids for ticks in stat(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def cpu():
    """Processor time of a single-row INSERT by process: fenced through the proxy, and unfenced on the server itself."""
    postmaster = (Path(server.folder) / "data" / "postmaster.pid").read_text().split("\n")[0]
    for name, port in (("fenced, proxy", proxy.port), ("plain, direct", server.port)):
        words = ["-T", str(int(seconds) + 2), "-c", "8", "-j", "2", "-M", "prepared", "-f", insert]
        with client(port, f"{programs}/pgbench", "-n", *words) as pgbench:
            time.sleep(1)
            children = [int(path.name) for path in Path("/proc").glob("[0-9]*") if stat(path.name)[1] == postmaster]
            who = {"server": children, "proxy": [proxy.process.pid], "pgbench": [pgbench.pid]}
            before = {name: spent(pids) for name, pids in who.items()}
            time.sleep(seconds)
            took = {name: spent(pids) - before[name] for name, pids in who.items()}
            reached = float(next(line for line in pgbench.stdout if line.startswith("tps")).split()[2])
        each = ", ".join(f"{name} {time_of / seconds / reached * 1e6:.0f} us" for name, time_of in took.items())
        print(f"{'cpu':16} {name}: {each} a transaction", flush=True)


def idle():
    """What 1,000 idle clients cost the proxy."""
    before = proxy.resident_kb()
    held = [Connection(proxy.port) for _ in range(1000)]
    print(f"{'idle':16} {len(held)} clients: {(proxy.resident_kb() - before) / 1024:.1f} MiB more than before", flush=True)


programs = lab.run(lab.pg_server, "bin", "15")
try:
    server = lab.server("15", "max_connections=1200", "shared_buffers=256MB", "fsync=on", *os.environ.get("SETTINGS", "").split())
    backend = f"postgresql://postgres@/postgres?host={server.folder}&port={server.port}" if os.environ.get("SOCKET") else server.url
    proxy = lab.proxy(backend, "--max-connections", "2000", *os.environ.get("OPTIONS", "").split())
    bouncer_port = free_port()
    lab.others.append(pgbouncer.start(lab.folder, bouncer_port, server.port))
    assert eventually(lambda: client(bouncer_port, "psql", "-XAtc", "select 1").wait() == 0, 10, 0.1), "PgBouncer does not come up"
    client(server.port, f"{programs}/pgbench", "-i", "-q", "-s", "10", declared=False).wait()
    server.sql("CREATE TABLE bench (id bigint GENERATED ALWAYS AS IDENTITY, v text); CREATE TABLE copied (i int, v text)")
    server.sql("CREATE TABLE wide AS SELECT i, repeat('x', 100) AS v FROM generate_series(1, 200000) i")
    insert, update, wide = (f"{lab.folder}/{name}" for name in ("insert.sql", "update.sql", "wide.txt"))
    Path(insert).write_text("INSERT INTO bench (v) VALUES ('row');\n")
    Path(update).write_text("\\set aid random(1, 1000000)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n")
    client(server.port, "psql", "-Xqc", f"\\copy wide to '{wide}'").wait()
    scenarios = {
        "select_simple": (tps, "-S", "-M", "simple"),
        "select_extended": (tps, "-S", "-M", "extended"),
        "select_prepared": (tps, "-S", "-M", "prepared"),
        "insert": (tps, "-M", "simple", "-f", insert),
        "insert_prepared": (tps, "-M", "prepared", "-f", insert),
        "update": (tps, "-M", "simple", "-f", update),
        "update_prepared": (tps, "-M", "prepared", "-f", update),
        "copy_in": (rate, "-c", "truncate copied", "-c", f"\\copy copied from '{wide}'"),
        "copy_out": (rate, "-c", "\\copy wide to stdout"),
        "rows": (rate, "-c", "select * from wide"),
    }
    others = {"refusals": refusals, "cpu": cpu, "idle": idle}
    for name in wanted or [*scenarios, *others]:
        if name in scenarios:
            compare(name, *scenarios[name])
        else:
            others[name]()
finally:
    lab.close()
