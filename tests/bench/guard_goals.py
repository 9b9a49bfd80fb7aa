#!/usr/bin/env python3
"""What the guard and its library cost under load, beside the same load without them: ratios, the pairs of each in turns.

  guard_goals.py --library termgate_guard.so [--termgate build/termgate] [--rounds 3] [--seconds 2] [PART …]

PART is one or more of
  direct     one-row UPDATE and INSERT, prepared, 8 clients, synchronous_commit = off: guarded to unguarded, fsync on and off
  protected  INSERT into a protected table to INSERT into one that is not, both in an unguarded and both in a guarded session
  proxy      the same UPDATE and INSERT, durable: guarded through `termgate proxy` to unguarded through PgBouncer (session pooling)
  durable    `termgate bench`: check-insert with 64 writers and one scope; append, a stream each, with 8 and 64 writers and 1 and 64
             scopes; all durable, on a server with the library and on one without it
  processor  processor time of the server process for a prepared statement in its own transaction, unguarded and guarded
All parts by default. Needs pgbench and pgbouncer. VACUUM and CHECKPOINT come before each run. A line of output: what, the medians of
both sides, the median of the pairs' ratios, and their range.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "live" / "guard"), str(TESTS / "live"), str(TESTS / "support")]
import pgbouncer  # noqa: E402
from given import free_port  # noqa: E402
from guard_rig import Rig, sh  # noqa: E402
from pgraw import bind, execute, parse, sync  # noqa: E402

PGBENCH = "/usr/lib/postgresql/15/bin/pgbench"
UPDATE = "\\set id random(1, 10000)\nUPDATE rows SET v = v + 1 WHERE id = :id;\n"
INSERT = "\\set id random(1, 1000000000)\nINSERT INTO {} VALUES (:id, 0);\n"
TABLES = """
  CREATE TABLE rows (id int PRIMARY KEY, v int) WITH (fillfactor = 50); INSERT INTO rows SELECT g, 0 FROM generate_series(1, 10000) g;
  CREATE TABLE inserted (id int, v int); CREATE TABLE kept (id int, v int);
  CREATE TABLE with_key (n bigserial PRIMARY KEY, v bytea);
  GRANT ALL ON rows, inserted, kept, with_key, with_key_n_seq TO PUBLIC;
  SELECT termgate.protect('kept', scope => 's')"""


def started(library, *settings):
    rig = Rig(
        "15",
        library,
        ["max_wal_size=4GB", "autovacuum=off", "max_connections=200", *settings],
        preload=library and "termgate_guard, termgate_shortcuts",
    )
    rig.admin.rows(TABLES)
    return rig


def settle(rig):
    for statement in (
        "VACUUM rows",
        "TRUNCATE inserted, with_key",
        "SET termgate.scope = s; SET termgate.term = 5; TRUNCATE kept",
        "VACUUM termgate.fences",
        "CHECKPOINT",
    ):
        rig.admin.rows(statement)


def tps(rig, script, options="", user="free", port=None, clients=8):
    path = rig.scratch / "script.sql"
    path.write_text(script)
    words = [PGBENCH, "-n", "-h", "127.0.0.1", "-p", port or rig.port, "-U", user, "-M", "prepared", "-c", clients, "-j", 2]
    done = sh(*words, "-T", CHOSEN.seconds, "-f", path, "postgres", env={"PGOPTIONS": options, "PATH": "/usr/bin:/bin"})
    return float(next(line for line in done.splitlines() if line.startswith("tps")).split()[2])


def compare(name, rig, first, second):
    """Both are functions without arguments; the ratio is the second's to the first's."""
    pairs = []
    for number in range(CHOSEN.rounds):
        pair = {}
        for which in ("first", "second") if number % 2 == 0 else ("second", "first"):
            settle(rig)
            pair[which] = (first if which == "first" else second)()
        pairs.append((pair["first"], pair["second"]))
    ratios = sorted(after / before for before, after in pairs)
    one, two = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    print(f"{name:62} {one:9.1f} {two:9.1f}   {statistics.median(ratios):.2f}  ({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)


def claimed(guard, more=""):
    return f"-c termgate.guard_session={'on' if guard else 'off'} -c termgate.scope=s -c termgate.term=5 {more}"


def direct():
    for fsync in ("on", "off"):
        rig = started(CHOSEN.library, f"fsync={fsync}")
        try:
            for name, script in (("UPDATE", UPDATE), ("INSERT", INSERT.format("inserted"))):
                options = [claimed(guard, "-c synchronous_commit=off") for guard in (False, True)]
                sides = [lambda o=o: tps(rig, script, o) for o in options]
                compare(f"{name}, fsync {fsync}: unguarded, guarded", rig, *sides)
        finally:
            rig.close()


def protected():
    rig = started(CHOSEN.library, "fsync=off")
    try:
        for guard in (False, True):
            options = claimed(guard, "-c synchronous_commit=off")
            sides = [lambda t=t: tps(rig, INSERT.format(t), options) for t in ("inserted", "kept")]
            compare(f"INSERT, {'guarded' if guard else 'unguarded'}: table not protected, protected", rig, *sides)
    finally:
        rig.close()


def proxy():
    rig, running = started(CHOSEN.library, "fsync=on"), []
    try:
        ours, theirs = free_port(), free_port()
        running.append(pgbouncer.start(rig.scratch, theirs, rig.port, user="free"))
        backend = f"postgresql://postgres@127.0.0.1:{rig.port}/postgres"
        words = [CHOSEN.termgate, "proxy", "--listen", f"127.0.0.1:{ours}", "--backend", backend]
        running.append(subprocess.Popen([*words, "--guard", "require", "--log-level", "warning"], stdout=subprocess.DEVNULL))
        sh("sleep", "2")
        for name, script in (("UPDATE", UPDATE), ("INSERT", INSERT.format("inserted"))):
            sides = [lambda: tps(rig, script, port=theirs), lambda: tps(rig, script, "-c termgate.scope=s -c termgate.term=5", port=ours)]
            compare(f"{name}, durable: PgBouncer, guarded through the proxy", rig, *sides)
    finally:
        for process in running:
            process.terminate()
            process.wait()
        rig.close()


def durable():
    for library in (CHOSEN.library, None):
        rig = guarded_rig() if library else plain_rig()
        try:
            for writers, scopes, scenario in (
                (64, 1, "check-insert"),
                (8, 1, "append-each"),
                (64, 1, "append-each"),
                (64, 64, "append-each"),
            ):
                words = [CHOSEN.termgate, "bench", "--db", f"postgresql://postgres@127.0.0.1:{rig.port}/postgres", "--writers", writers]
                words += ["--scopes", scopes, "--rounds", CHOSEN.rounds, "--seconds", CHOSEN.seconds]
                words += "--batches 1 --durable yes --json".split()
                for one in [scenario, *(["textbook"] if scopes == 64 else [])]:
                    words += ["--scenario", one]
                report = json.loads(sh(*words))
                for run in report["runs"]:
                    name = (
                        f"{'with' if library else 'without'} the library, {run['writers']} writers, {run['scopes']} scopes:"
                        f" {run['scenario']}"
                    )
                    spread = f"({min(run['ratios']):.2f}-{max(run['ratios']):.2f})  {run.get('times_textbook', 0):.1f} of textbook"
                    print(f"{name:82} {run['rows_per_second']:9.1f}   {run['ratio']:.2f}  {spread}", flush=True)
        finally:
            rig.close()


def guarded_rig():
    return Rig("15", CHOSEN.library, ["max_connections=200", "fsync=on"], preload="termgate_guard, termgate_shortcuts")


def plain_rig():
    """Layer 1 alone."""
    rig = Rig.__new__(Rig)
    Rig.GUARDED, kept = "SELECT termgate.seal('s', 5)", Rig.GUARDED
    try:
        rig.__init__("15", CHOSEN.library, ["max_connections=200", "fsync=on"], preload=None)
    finally:
        Rig.GUARDED = kept
    return rig


def spent(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


def cost(rig, statement, value, guard):
    """Microseconds of the server process for a statement with one parameter."""
    with rig.session("free", options=claimed(guard, "-c synchronous_commit=off")) as session:
        session.send(parse("w", statement), sync())
        session.until("Z")
        begun, count = 0, 0
        for part in range(80):
            if part == 20:  # warm by now
                begun, count = spent(session.pid), 0
            pipeline = [bind("", "w", [str(value())]) + execute() + sync() for _ in range(100)]
            session.send(*pipeline)
            answer = session.until("Z", len(pipeline))
            assert not [message for message in answer if message.type == "E"], answer
            count += 100
        return (spent(session.pid) - begun) / count / 1000


STATEMENTS = {
    "SELECT $1": ("SELECT $1::int", lambda: 1),
    "UPDATE of one row": ("UPDATE rows SET v = v + 1 WHERE id = $1::int", lambda: random.randint(1, 10000)),
    "INSERT of one row": ("INSERT INTO inserted VALUES ($1::int, 0)", lambda: 1),
    "INSERT of one row, table with a primary key": ("INSERT INTO with_key (v) VALUES ($1::text::bytea)", lambda: "x"),
    "INSERT into a protected table": ("INSERT INTO kept VALUES ($1::int, 0)", lambda: 1),
    "check_term": ("SELECT termgate.check_term('s', $1::bigint)", lambda: 5),
    "append": ("SELECT termgate.append('stream', 5, $1::text::bytea, NULL, 's')", lambda: "x"),
    "append, scope not named": ("SELECT termgate.append('stream', 5, $1::text::bytea)", lambda: "x"),
    "append with a write id": (
        "SELECT termgate.append('stream', 5, 'x', NULL, 's', md5($1 || clock_timestamp()::text)::uuid)",
        lambda: random.randint(1, 1 << 40),
    ),
}


def processor():
    rig = started(CHOSEN.library, "fsync=off")
    try:
        for name, (statement, value) in STATEMENTS.items():
            seen = {False: [], True: []}
            for number in range(CHOSEN.rounds):
                for guard in (False, True) if number % 2 == 0 else (True, False):
                    settle(rig)
                    seen[guard].append(cost(rig, statement, value, guard))
            plain, guarded = (f"{statistics.median(runs):6.1f} ({min(runs):.1f}-{max(runs):.1f})" for runs in seen.values())
            print(f"{name:45} {plain:20} {guarded}", flush=True)
    finally:
        rig.close()


PARTS = {"direct": direct, "protected": protected, "proxy": proxy, "durable": durable, "processor": processor}

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all")
    arguments.add_argument("--library", required=True)
    arguments.add_argument("--termgate", default=str(TESTS.parent / "build" / "termgate"))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=2)
    CHOSEN = arguments.parse_args()
    for chosen_part in CHOSEN.part or PARTS:
        PARTS[chosen_part]()
