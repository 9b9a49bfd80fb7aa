#!/usr/bin/env python3
"""What the guard costs: the same statements in sessions that are guarded and in sessions that are not, in turns, on one server.

  guard_bench.py --library termgate_guard.so [--major 15] [--programs BIN] [--rounds 5] [--seconds 4] [--clients 8] [--fsync] [--scopes
  N] [--quick]

Needs pgbench (Debian's postgresql-15). Two tables are printed: transactions a second of `--clients` clients with the
ratio of each pair's medians, and the processor time of one server process for a transaction, which other work on the
machine disturbs little. Between the rounds: VACUUM and CHECKPOINT. Scenarios: update and insert of one row, prepared;
the same with the scope and term declared in the transaction (SET LOCAL); check_term and then the update; a row of a
table that `protect` covers.
"""
import argparse
import random
import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "live" / "guard"), str(TESTS / "live"), str(TESTS / "support")]
from guard_rig import Rig, sh  # noqa: E402
from pgraw import bind, execute, parse, sync  # noqa: E402

PGBENCH = "/usr/lib/postgresql/15/bin/pgbench"
UPDATE = "UPDATE rows SET v = v + 1 WHERE id = :id;"
SCRIPTS = {
    "update": f"\\set id random(1, 10000)\n{UPDATE}\n",
    "insert": "\\set id random(1, 1000000000)\nINSERT INTO inserted VALUES (:id, 0);\n",
    "insert, protected": "\\set id random(1, 1000000000)\nINSERT INTO kept VALUES (:id, 0);\n",
    "check_term, update": f"\\set id random(1, 10000)\nBEGIN;\nSELECT termgate.check_term('s', 5);\n{UPDATE}\nCOMMIT;\n",
}


def connection_options(guarded, scope):
    return (
        f"-c synchronous_commit={CHOSEN.commit} -c termgate.guard={'enforce' if guarded else 'off'} -c termgate.scope={scope} -c"
        " termgate.term=5"
    )


def settle(rig):
    for statement in (
        "VACUUM rows",
        "TRUNCATE inserted",
        "SET termgate.scope = s; SET termgate.term = 5; TRUNCATE kept",
        "VACUUM termgate.fences",
        "CHECKPOINT",
    ):
        rig.admin.rows(statement)


def tps(rig, script, guarded):
    path = rig.scratch / "script.sql"
    path.write_text(script)
    done = sh(
        PGBENCH,
        "-n",
        "-h",
        "127.0.0.1",
        "-p",
        rig.port,
        "-U",
        "postgres",
        "-M",
        "prepared",
        "-c",
        CHOSEN.clients,
        "-j",
        2,
        "-T",
        CHOSEN.seconds,
        "-f",
        path,
        "postgres",
        env={"PGOPTIONS": connection_options(guarded, "s"), "PATH": "/usr/bin:/bin"},
    )
    return float(next(line for line in done.splitlines() if line.startswith("tps")).split()[2])


def spent(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def cost(rig, statement, values, guarded, count, claims=None):
    """Nanoseconds of the server process for a transaction. `claims`: scopes to declare in turn, each in front of its statement."""
    with rig.session("postgres", options=connection_options(guarded, "s")) as session:
        session.send(parse("w", statement), parse("d", "SELECT set_config('termgate.scope', $1, false)"), sync())
        session.until("Z")
        begun = 0
        for part in range(11):  # the first makes it warm
            if part == 1:
                begun = spent(session.pid)
            for _ in range(count // 1000):
                pipeline = []
                for _ in range(100):
                    if claims:
                        pipeline.append(bind("", "d", [random.choice(claims)]) + execute() + sync())
                    pipeline.append(bind("", "w", values()) + execute() + sync())
                session.send(*pipeline)
                answer = session.until("Z", len(pipeline))
                assert not [message for message in answer if message.type == "E"], answer
        return (spent(session.pid) - begun) / (count // 1000 * 1000)


def main():
    rig = Rig(
        CHOSEN.major,
        CHOSEN.library,
        [f"fsync={'on' if CHOSEN.fsync else 'off'}", "max_wal_size=4GB", "autovacuum=off"],
        programs=CHOSEN.programs,
    )
    try:
        rig.admin.rows(
            "CREATE TABLE rows (id int PRIMARY KEY, v int) WITH (fillfactor = 50); INSERT INTO rows SELECT g, 0 FROM generate_series(1,"
            " 10000) g; CREATE TABLE inserted (id int, v int); CREATE TABLE kept (id int, v int)"
        )
        rig.admin.rows("SELECT termgate.protect('kept', scope => 's')")
        if CHOSEN.pgbench:
            print(
                f"{CHOSEN.clients} clients, synchronous_commit = {CHOSEN.commit}, fsync {'on' if CHOSEN.fsync else 'off'}: tps unguarded,"
                f" guarded (medians of {CHOSEN.rounds}), ratio"
            )
            for name, script in SCRIPTS.items():
                plain, guarded = [], []
                for _ in range(CHOSEN.rounds):
                    for into, mode in ((plain, False), (guarded, True)):
                        settle(rig)
                        into.append(tps(rig, script, mode))
                print(
                    (
                        f"{name:24} {statistics.median(plain):9.0f} {statistics.median(guarded):9.0f}  "
                        f" {statistics.median(guarded) / statistics.median(plain):.2f}  "
                        f" ({min(g / p for g, p in zip(guarded, plain)):.2f}-{max(g / p for g, p in zip(guarded, plain)):.2f})"
                    ),
                    flush=True,
                )
        print("processor time of the server process, us a transaction: unguarded, guarded (medians), difference")
        statements = {
            "update": (UPDATE.replace(":id", "$1::int"), lambda: [str(random.randint(1, 10000))]),
            "insert": ("INSERT INTO inserted VALUES ($1::int, 0)", lambda: [str(random.randint(1, 10**9))]),
            "insert, protected": ("INSERT INTO kept VALUES ($1::int, 0)", lambda: [str(random.randint(1, 10**9))]),
            "append": ("SELECT termgate.append('stream', 5, $1::text::bytea, NULL, 's')", lambda: ["x"]),
            "check_term": ("SELECT termgate.check_term('s', $1::bigint)", lambda: ["5"]),
            "read": ("SELECT v FROM rows WHERE id = $1::int", lambda: [str(random.randint(1, 10000))]),
        }
        many = []
        if CHOSEN.scopes:
            rig.admin.rows(
                "INSERT INTO termgate.fences (scope, term, vouched) SELECT 'scope' || g, 5, 'termgate.fences'::regclass FROM"
                f" generate_series(1, {CHOSEN.scopes}) g"
            )
            many = [f"scope{number}" for number in range(1, CHOSEN.scopes + 1)]
            statements["update, of many scopes"] = statements["update"]
        for name, (statement, values) in statements.items():
            plain, guarded = [], []
            for _ in range(CHOSEN.rounds):
                for into, mode in ((plain, False), (guarded, True)):
                    settle(rig)
                    into.append(cost(rig, statement, values, mode, CHOSEN.count, many if "many" in name else None) / 1000)
            print(
                (
                    f"{name:24} {statistics.median(plain):9.1f} {statistics.median(guarded):9.1f}  "
                    f" {statistics.median(guarded) - statistics.median(plain):+.1f}"
                ),
                flush=True,
            )
    finally:
        rig.close()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--library", default="")
    arguments.add_argument("--programs")
    arguments.add_argument("--major", default="15")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=4)
    arguments.add_argument("--clients", type=int, default=8)
    arguments.add_argument("--count", type=int, default=20000)
    arguments.add_argument("--scopes", type=int, default=0)
    arguments.add_argument("--commit", default="off", help="synchronous_commit")
    arguments.add_argument("--fsync", action="store_true")
    arguments.add_argument("--no-pgbench", dest="pgbench", action="store_false")
    CHOSEN = arguments.parse_args()
    main()
