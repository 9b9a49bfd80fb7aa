#!/usr/bin/env python3
"""What many scopes cost one PostgreSQL: processor time of the server for a fenced and an unfenced INSERT, and the time
and space of the fences.

  many_scopes.py TERMGATE SERVER_SCRIPT [--seconds 5] [--rounds 3] [--scopes 1000,10000,100000,1000000]

A server of its own (PostgreSQL 15, fsync off), 8 clients, each write to a scope by chance. Processor time (/proc) and
not rates, so that other work on the machine shows little; the median of the rounds. A model is made of all but the
last number of scopes, and compared with that one (docs/use/clusters.md). Up to 10^4 scopes are sealed one by one,
which is measured too; the others are put into the table, as a restore does.
"""
import argparse
import os
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from proxy_lab import Lab  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("termgate")
parser.add_argument("server")
parser.add_argument("--seconds", type=int, default=5)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--scopes", default="1000,10000,100000,1000000")
options = parser.parse_args()
TICK = os.sysconf("SC_CLK_TCK")
INSERT = "INSERT INTO orders (scope, v) VALUES ('scope-' || :n, 1);"
SCRIPTS = {
    "plain": f"BEGIN;\nSELECT 1;\n{INSERT}\nCOMMIT;\n",
    "fenced": f"BEGIN;\nSELECT termgate.check_term('scope-' || :n, 1);\n{INSERT}\nCOMMIT;\n",
}


def cpu(postmaster):
    """Seconds of processor time of the server: of processes that ended and were waited for, and of those that run."""

    def fields(pid):
        return (Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]).split()

    own = fields(postmaster)
    ticks = sum(map(int, own[11:15]))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                one = fields(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if one[1] == str(postmaster):
                ticks += int(one[11]) + int(one[12])
    return ticks / TICK


def measure(url, postmaster, folder, kind, scopes):
    (folder / kind).write_text(f"\\set n random(1, :scopes)\n{SCRIPTS[kind]}")
    before = cpu(postmaster)
    words = ["-n", "-M", "prepared", "-c", 8, "-j", 1, "-T", options.seconds, "-D", f"scopes={scopes}", "-f", folder / kind, url]
    out = lab.run("/usr/lib/postgresql/15/bin/pgbench", *words)
    time.sleep(0.3)  # the backends end, and are waited for
    number = int(re.search(r"actually processed: (\d+)", out)[1])
    return 1e6 * (cpu(postmaster) - before) / number


def timed(*words):
    begun = os.times()
    lab.run(*words)
    ended = os.times()
    return ended.elapsed - begun.elapsed


def fill(sql, have, scopes):
    if scopes > 10_000:
        rows = f"SELECT 'scope-' || i, 1, (SELECT max(vouched) FROM termgate.fences) FROM generate_series({have + 1}, {scopes}) i"
        sql(f"INSERT INTO termgate.fences (scope, term, vouched) {rows}")
        return
    for first in range(have + 1, scopes + 1, 500):
        loop = (
            f"FOR i IN {first}..{min(first + 499, scopes)} LOOP PERFORM termgate.seal('scope-' || i, 1); IF i % 50 = 0 THEN COMMIT; END IF;"
            " END LOOP"
        )
        sql(f"DO $$ BEGIN {loop}; END $$")


def main():
    server = lab.server("15", "shared_buffers=512MB", "autovacuum=off", "max_wal_size=4GB")
    url, folder = server.url, Path(server.folder)
    postmaster = (folder / "data" / "postmaster.pid").read_text().split("\n")[0]

    def sql(statement):
        return lab.run("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url, "-c", statement)

    sql("CREATE TABLE orders (id bigserial PRIMARY KEY, scope text, v int)")
    print(
        f"{'scopes':>8} {'plain µs':>9} {'fenced µs':>10} {'check µs':>9} {'bytes/scope':>12}"
        f" {'fence list s':>13} {'verify s':>9} {'seal µs':>8}"
    )
    have, lines = 0, []
    for scopes in map(int, options.scopes.split(",")):
        before = cpu(postmaster)
        fill(sql, have, scopes)
        seal = 1e6 * (cpu(postmaster) - before) / (scopes - have)
        sealed, have = scopes <= 10_000, scopes
        sql("VACUUM ANALYZE termgate.fences")
        sql("CHECKPOINT")
        rounds = [[measure(url, postmaster, folder, kind, scopes) for kind in SCRIPTS] for _ in range(options.rounds)]
        plain, fenced = (statistics.median(one[i] for one in rounds) for i in range(2))
        size = int(sql("SELECT pg_total_relation_size('termgate.fences') / count(*) FROM termgate.fences"))
        listed, verified = timed(options.termgate, "fence", "list", "--json", "--db", url), timed(options.termgate, "verify", "--db", url)
        lines.append((scopes, fenced, fenced - plain))
        shown = f"{seal:8.0f}" if sealed else f"{'':>8}"
        print(f"{scopes:8} {plain:9.0f} {fenced:10.0f} {fenced - plain:9.0f} {size:12} {listed:13.2f} {verified:9.2f} {shown}", flush=True)
    # A session remembers 128 scopes. Where there are many more, each check looks at its fence, and the index is in memory.
    known = [check for scopes, _, check in lines[:-1] if scopes >= 10_000]
    if not known:
        return
    scopes, fenced, check = lines[-1]
    predicted = statistics.mean(known)
    print(f"model: from 10^4 scopes on a check takes the server {predicted:.0f} µs of processor time, however many there are")
    print(f"measured with {scopes} scopes: {check:.0f} µs, so the model is {100 * (predicted / check - 1):+.0f} % off")
    print(f"10^5 fenced writes a second with {scopes} scopes: {fenced / 10:.0f} cores at work, {fenced / 6:.0f} at 60 % load")


lab = Lab("scopes", options.termgate, options.server)
try:
    main()
finally:
    lab.close()
