#!/usr/bin/env python3
"""[F1][F2][F4][F6][F7] Attacks on the proxy and on layer 1, from outside: each finding of a review, as a table with
its whole kind of variants.

  pytest tests/live/attacks/findings_test.py [--majors 15] [--modes reject,read-only,allow] [--only PART] [--part 1/10]
                                             [--quick] [--roles-all] [--prove] [--show]

What is judged is only what was committed, as a direct connection of the superuser's sees it, and what a client sees
through the proxy beside what it sees without. With --prove every row also runs without the proxy, where attacks must
do their harm and rightful work must succeed: else it proves nothing ("VOID").
"""
import pytest

import given
import rig
import rows
import specials
from checks import check, note

ONLY = given.option("only", [])
PART, PARTS = (1, 1) if given.LONG else (int(number) for number in given.option("part", "1/1").split("/"))
MODES = given.option("modes", "reject,read-only,allow").split(",")


def wanted(finding, name):
    return not ONLY or any(part == finding or (len(part) > 2 and part in f"{finding} {name}") for part in ONLY)


# Of a session that the server guards (TERMGATE_TEST_GUARD, mode read-only) these commit, and rightly so: docs/evidence/guard.md says why.
WITH_THE_GUARD = ("bound before set_config, executed behind it",)


def right_with_the_guard(row, mode):
    return bool(rig.GUARD) and mode == "read-only" and row.expect == "refused" and any(part in row.name for part in WITH_THE_GUARD)


ROWS = list({(row.finding, row.name): row for row in rows.rows() if wanted(row.finding, row.name)}.values())[PART - 1 :: PARTS]
SPECIALS = [special for special in specials.SPECIALS[PART - 1 :: PARTS] if wanted(special.finding, special.name)]


def shown(answer):
    return str(answer)[:4000].replace("\0", "\\0")


def named(case):
    return f"{case.finding}-{case.name}" if hasattr(case, "finding") else "none is wanted"


@pytest.fixture(scope="module", params=given.majors("15", "13,15,18"))
def major(request):
    return request.param


class Bench(rig.Bench):
    """The servers and proxies of one major; what was proved on a direct connection already."""

    def __init__(self, lab, major):
        super().__init__(lab, major, MODES, 1000)
        self.proved = set()


@pytest.fixture(scope="module")
def bench(lab, major):
    bench = Bench(lab, major)
    yield bench
    for mode, proxy in bench.proxies.items():
        check(f"{major} {mode}: the proxy lives", proxy.process.poll() is None, proxy.log()[-2000:])
    if given.option("seats"):
        note(f"PostgreSQL {major}: {bench.sat} sessions had a seat when their attack began")
        check(f"{major}: sessions had seats", bench.sat > 0)
    bench.close()


def judge(bench, row, mode, role, major):
    trouble = bench.judge(row, mode, role)
    check(f"{major} {mode} {row.finding} {row.name} [{role}] {row.expect}", not trouble, trouble and "; ".join(trouble[0])[:600])
    if trouble and given.option("show"):
        for answer in trouble[1]:
            print(f"         {shown(answer)}")


def prove(bench, row, mode, major):
    """The row on a direct connection: rightful work succeeds there, and an attack does its harm."""
    role = row.role(mode, False)[0]
    if row.expect == "works":
        n, answers = bench.play(row, role, bench.server.port)
        found = bench.committed(n)
        what = f"VOID {major} direct {row.finding} {row.name} [{role}]"
        check(what, found.count("good") == row.good, f"commits {found} on a direct connection: {shown(answers)}")
    proof = (row.finding, row.name.replace(", stale", "").replace(", none", ""))
    if row.expect == "refused" and not row.guarded and proof not in bench.proved:
        bench.proved.add(proof)
        harm, answers = bench.proves(row, role)
        check(f"VOID {major} direct {row.finding} {row.name} [{role}]", harm, "does nothing on a direct connection")
        if not harm and given.option("show"):
            for answer in answers:
                print(f"         {shown(answer)}")


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_what_is_committed_by(row, bench, major):
    if given.option("seats") and rig.uses(row, rig.DECLARES_OF):
        pytest.skip("a database with such code has no seats")
    if row.majors and int(major) not in row.majors:
        pytest.skip(f"not on PostgreSQL {major}")
    modes = [mode for mode in row.modes if mode in MODES]
    if given.option("quick"):
        modes = rig.pick(modes, f"{row.finding} {row.name}", 1)
    if not modes:
        pytest.skip(f"not in {', '.join(MODES)}")
    for mode in modes:
        for role in row.role(mode, given.option("roles-all", False)):
            if not right_with_the_guard(row, mode):
                judge(bench, row, mode, role, major)
    if given.option("prove"):
        prove(bench, row, modes[0], major)


@pytest.mark.parametrize("special", SPECIALS, ids=named)
def test_with_several_sessions_databases_or_files(special, lab, major):
    for mode, name, problem in special.run(lab, major, [mode for mode in MODES if mode in special.modes]):
        check(f"{major} {mode} {special.finding} {name}", not problem, shown(problem))
