#!/usr/bin/env python3
"""[F1][F2][F6] The random attacker against live servers: no commit without a passed claim, no session that hangs, no answers out of step.

  attacker_test.py ATTACKER [--termgate PATH] [--majors 15] [--modes reject,read-only,allow] [--seconds 20] [--seed N] [--replay SEED]
  [--workers N]

The seconds are shared by the majors and modes. A breach is printed with its seed and its messages, made shorter;
--replay plays that seed alone, against a fresh server. What is judged, and how, is in judge.sql.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "support"))
from pgraw import Connection  # noqa: E402
from proxy_lab import Lab  # noqa: E402
from rig import GUARD, ROLES, PlainServer  # noqa: E402


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("attacker")
    arguments.add_argument("--termgate", default=os.environ.get("TERMGATE", str(HERE.parents[2] / "build" / "dev" / "termgate")))
    arguments.add_argument("--majors", default="13,15,18" if os.environ.get("TERMGATE_TEST_LONG") else "15")
    arguments.add_argument("--modes", default="reject,read-only,allow")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--seed", default="0", help="of the first session; 0: by the clock")
    arguments.add_argument("--replay", help="the seed of one session; takes the first of --majors and --modes")
    arguments.add_argument("--workers", default="3")
    arguments.add_argument("--breaches", default="12", help="how many kinds of breach are played again and made shorter")
    chosen = arguments.parse_args()
    majors, modes = chosen.majors.split(","), chosen.modes.split(",")
    if chosen.replay:
        majors, modes = majors[:1], modes[:1]
    lab, failed = Lab("attacker", chosen.termgate, str(HERE.parent.parent / "support" / "pg_server.sh")), 0
    try:
        for major in majors:
            server = PlainServer(lab, major, "track_commit_timestamp=on", "max_prepared_transactions=40")
            with Connection(server.port, wait=60) as direct:
                for sql in (
                    (
                        "CREATE ROLE layer1 LOGIN; GRANT pg_signal_backend TO layer1; GRANT pg_read_all_stats TO layer1; GRANT ALL ON"
                        " DATABASE postgres TO layer1"
                    ),
                    *[f"CREATE ROLE a_{role} LOGIN" for role in ROLES],
                ):
                    direct.rows(sql)
                url = server.url.replace("postgres@", "layer1@")
                lab.run(
                    lab.termgate,
                    "init",
                    "--db",
                    url,
                    *[word for role, level in ROLES.items() if level for word in ("--grant", f"a_{role}={level}")],
                )
                if GUARD:
                    direct.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")
                direct.rows("SELECT termgate.append('attacked known', 1, 'x', write_id => '11111111-1111-1111-1111-111111111111')")
                # A prepared transaction of a session's own cannot be evicted: a raise shall not wait long for it.
                direct.rows("SELECT termgate.set_setting('check_wait_ms', '500')")
                direct.rows((HERE / "judge.sql").read_text())
            if not chosen.replay:
                # The judge itself is tried: without a proxy the same sessions commit what they must not.
                wanted = {"no claim and no check", "a malformed claim", "a stale claim", "a claim that was not checked"}
                for seconds in (2, 6, 12):  # few sessions fit into a second of a busy machine
                    alone = subprocess.run(
                        [
                            chosen.attacker,
                            "--url",
                            server.url,
                            "--proxy",
                            str(server.port),
                            "--mode",
                            "reject",
                            "--seconds",
                            str(seconds),
                            "--breaches",
                            "0",
                        ],
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    kinds = {kind for kind in wanted if kind in alone.stdout}
                    if alone.returncode == 1 and kinds == wanted:
                        break
                else:
                    print(f"the judge finds only {sorted(kinds)} where nothing is fenced: {alone.stdout[-1000:]}{alone.stderr}")
                    failed += 1
            for mode in modes:
                proxy = lab.proxy(url, "--without-term", mode, *(["--guard", "require"] if GUARD and mode == "read-only" else []))
                what = (
                    ["--replay", chosen.replay]
                    if chosen.replay
                    else ["--seconds", str(chosen.seconds / len(majors) / len(modes)), "--seed", chosen.seed]
                )
                print(f"PostgreSQL {major}, {mode}:", flush=True)
                done = subprocess.run(
                    [
                        chosen.attacker,
                        "--url",
                        server.url,
                        "--proxy",
                        str(proxy.port),
                        "--mode",
                        mode,
                        "--workers",
                        chosen.workers,
                        "--breaches",
                        chosen.breaches,
                        *what,
                    ],
                    check=False,
                )
                failed += done.returncode != 0
                if proxy.process.poll() is not None:
                    print(f"the proxy ended with {proxy.process.returncode}: {proxy.log()[-2000:]}")
                    failed += 1
                proxy.stop()
            server.stop()
    finally:
        lab.failures = ["some"] if failed else []
        lab.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
