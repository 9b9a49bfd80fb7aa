#!/usr/bin/env python3
"""[F1][F2][F4][F6][F7] Attacks on the proxy and on layer 1, from outside: each finding of a review, as a table with
its whole kind of variants.

  findings_test.py [--termgate PATH] [--majors 15] [--modes reject,read-only,allow] [--only PART ...] [--roles-all] [--show] [--quick]

What is judged is only what was committed, as a direct connection of the superuser's sees it, and what a client sees
through the proxy beside what it sees without. With --prove every row also runs without the proxy, where attacks must
do their harm and rightful work must succeed: else it proves nothing ("VOID"). TERMGATE_TEST_SERVERS is not used:
servers are this test's own.
"""
import argparse
import os
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "support"))
from proxy_lab import Lab  # noqa: E402
import rig  # noqa: E402
import rows  # noqa: E402
import specials  # noqa: E402

ROOT = HERE.parents[2]


def shown(answer):
    return str(answer)[:4000].replace("\0", "\\0")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--termgate", default=os.environ.get("TERMGATE", str(ROOT / "build" / "dev" / "termgate")))
    arguments.add_argument("--majors", default="13,15,18" if os.environ.get("TERMGATE_TEST_LONG") else "15")
    arguments.add_argument("--modes", default="reject,read-only,allow")
    arguments.add_argument("--only", action="append", default=[], help="a finding (as 1, S2), or a part of a row's name; may be repeated")
    arguments.add_argument("--roles-all", action="store_true", help="every row by every role that it is meant for, instead of one")
    arguments.add_argument("--quick", action="store_true", help="one mode a row, chosen by its name")
    arguments.add_argument("--part", default="1/1", help="K/N: every N-th row and special one, from the K-th on")
    arguments.add_argument("--show", action="store_true", help="the conversation of each failed row")
    arguments.add_argument("--prove", action="store_true", help="try each attack on a direct connection too, where it must do its harm")
    chosen = arguments.parse_args()
    if os.environ.get("TERMGATE_TEST_LONG"):
        chosen.part = "1/1"
    modes = chosen.modes.split(",")

    def wanted(finding, name):
        return not chosen.only or any(part == finding or (len(part) > 2 and part in f"{finding} {name}") for part in chosen.only)

    part, parts = (int(number) for number in chosen.part.split("/"))
    table = list({(row.finding, row.name): row for row in rows.rows() if wanted(row.finding, row.name)}.values())[part - 1 :: parts]
    passed, failed, void, summary = 0, 0, 0, {}
    lab = Lab("findings", chosen.termgate, str(HERE.parent.parent / "support" / "pg_server.sh"))

    def line(verdict, major, mode, finding, name, detail=""):
        nonlocal passed, failed
        ok = verdict == "ok"
        passed, failed = passed + ok, failed + (not ok)
        counts = summary.setdefault(finding, [0, 0])
        counts[not ok] += 1
        print(f"{verdict:6} {major} {mode:9} {finding:4} {name}{': ' + shown(detail) if detail else ''}", flush=True)

    try:
        for major in chosen.majors.split(","):
            begin = time.monotonic()
            proved = set()
            bench = rig.Bench(lab, major, modes, 1000) if table else None
            for row in table:
                if row.majors and int(major) not in row.majors:
                    continue
                its_modes = [mode for mode in row.modes if mode in modes]
                if chosen.quick:
                    its_modes = rig.pick(its_modes, f"{row.finding} {row.name}", 1)
                for mode in its_modes:
                    for role in row.role(mode, chosen.roles_all):
                        trouble = bench.judge(row, mode, role)
                        if trouble:
                            line("FAILED", major, mode, row.finding, f"{row.name} [{role}] {row.expect}", "; ".join(trouble[0])[:600])
                            if chosen.show:
                                for answer in trouble[1]:
                                    print(f"         {shown(answer)}")
                        else:
                            line("ok", major, mode, row.finding, f"{row.name} [{role}] {row.expect}")
                proof = (row.finding, row.name.replace(", stale", "").replace(", none", ""))
                if row.expect == "works" and its_modes and chosen.prove:
                    role = row.role(its_modes[0], False)[0]
                    n, answers = bench.play(row, role, bench.server.port)
                    found = bench.committed(n)
                    if found.count("good") != row.good:
                        void += 1
                        line(
                            "VOID",
                            major,
                            "direct",
                            row.finding,
                            f"{row.name} [{role}]",
                            f"commits {found} on a direct connection: {answers}",
                        )
                if row.expect == "refused" and its_modes and not row.guarded and chosen.prove and proof not in proved:
                    proved.add(proof)
                    role = row.role(its_modes[0], False)[0]
                    harm, answers = bench.proves(row, role)
                    if not harm:
                        void += 1
                        line("VOID", major, "direct", row.finding, f"{row.name} [{role}]", "does nothing on a direct connection")
                        if chosen.show:
                            for answer in answers:
                                print(f"         {shown(answer)}")
            if bench:
                for mode, proxy in bench.proxies.items():
                    line("ok" if proxy.process.poll() is None else "FAILED", major, mode, "all", "the proxy lives")
                bench.close()
            for special in specials.SPECIALS[part - 1 :: parts]:
                if wanted(special.finding, special.name):
                    try:
                        for mode, name, problem in special.run(lab, major, [mode for mode in modes if mode in special.modes]):
                            line("FAILED" if problem else "ok", major, mode, special.finding, name, problem or "")
                    except Exception:  # the others shall be tried all the same
                        line("FAILED", major, "all", special.finding, special.name, traceback.format_exc().replace("\n", " | "))
            print(f"major {major}: {time.monotonic() - begin:.0f} s")
    finally:
        lab.failures = ["some"] if failed else []
        lab.close()
    for finding, (good, wrong) in sorted(summary.items()):
        print(f"finding {finding:12} {good} passed, {wrong} failed")
    print(f"{passed} passed, {failed} failed ({void} of these prove nothing)")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
