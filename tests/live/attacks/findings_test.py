#!/usr/bin/env python3
"""[F1][F2][F4][F6][F7] Attacks on the proxy and on layer 1, from outside: each finding of a review, as a table with
its whole kind of variants.

  pytest tests/live/attacks/findings_test.py [--majors 15] [--modes reject,read-only,allow] [--only PART] [--part 1/10]
                                             [--quick] [--prove] [--show]

What is judged is only what was committed, as a direct connection of the superuser's sees it, and what a client sees
through the proxy beside what it sees without. With --prove every row also runs without the proxy, where attacks must
do their harm and rightful work must succeed: else it proves nothing ("VOID").
"""
import pytest

import given
import pgraw
import rig
import rows
from checks import check, eventually, note

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
    role = row.role(mode)
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
        if not right_with_the_guard(row, mode):
            judge(bench, row, mode, row.role(mode), major)
    if given.option("prove"):
        prove(bench, row, modes[0], major)


def test_names_in_statements_are_not_kept(bench):
    """60 statements of 400 kB that are a name, each another one."""
    proxy = bench.proxies[MODES[0]]
    for what in ("COMMIT PREPARED '{}'", 'DEALLOCATE "{}"', 'SAVEPOINT "{}"', 'CLOSE "{}"', 'FETCH "{}"', 'LISTEN "{}"'):
        with pgraw.Connection(proxy.port, user="a_write", wait=60) as client:
            client.query("SELECT 1")
            before = proxy.resident_kb()
            for number in range(60):
                client.send(pgraw.parse(f"p{number}", what.format(f"{number}" + "x" * 400_000)) + pgraw.sync())
                client.until("Z")
            more = proxy.resident_kb() - before
        check(f"{what} costs no memory", more < 10_000, f"{more} kB")


# The term that is declared, "own" or that of a scope which is trusted again, and how the prepared transaction is to be committed.
COMMITS = {
    "without a term": ("", ["COMMIT PREPARED '{}'"]),
    "its own term": ("own", ["COMMIT PREPARED '{}'"]),
    "the term of another scope": ("other", ["COMMIT PREPARED '{}'"]),
    "by a comment": ("", ["/*termgate.scope='bystander',termgate.term='TRUSTED'*/ COMMIT PREPARED '{}'"]),
    "in odd spelling": ("other", ["commit /* x */ prepared U&'{}'"]),
    "after SET": ("", ["SET termgate.scope = 'bystander'", "SET termgate.term = TRUSTED", "COMMIT PREPARED '{}'"]),
}


@pytest.mark.skipif(not wanted("L3", "COMMIT PREPARED"), reason="--only")
def test_nothing_prepared_is_committed_while_its_scope_is_untrusted(lab, major):
    bench = rig.Bench(lab, major, MODES, 100)
    bench.ask("ALTER ROLE a_write SET client_min_messages = error")
    cases = [(mode, name) for mode in MODES for name in COMMITS]
    with pgraw.Connection(bench.server.port, user="a_write") as client:  # whose prepared transactions they are
        for number, (mode, name) in enumerate(cases, 1):
            client.rows(f"BEGIN; SELECT termgate.check_term('a{number}', {rig.FENCE}); INSERT INTO app.t (n, v) VALUES ({number}, 'bad')")
            client.rows(f"PREPARE TRANSACTION '{mode} {name}'")
    bench.ask("ALTER DATABASE postgres OWNER TO layer1; SELECT termgate.acquire_lease('bystander', 'before', '100 ms')")
    bench.ask("SELECT termgate.declare_untrusted('test', 'lost raises')")
    late = "SELECT expires_at < clock_timestamp() FROM termgate.leases WHERE scope = 'bystander'"
    assert eventually(lambda: bench.value(late) == "t"), "the lease runs out"
    # A lease of our own jumps, so this scope is trusted again.
    trusted = bench.value("SELECT term FROM termgate.acquire_lease('bystander', 'after', '10 min')")
    for number, (mode, name) in enumerate(cases, 1):
        claim, texts = COMMITS[name]
        pair = {"own": (f"a{number}", rig.FENCE), "other": ("bystander", trusted)}.get(claim)
        options = [("options", f"-c termgate.scope={pair[0]} -c termgate.term={pair[1]}")] if pair else []
        with pgraw.Connection(bench.proxies[mode].port, user="a_write", parameters=options) as client:
            if claim == "other":
                wrote = client.query("INSERT INTO app.scratch VALUES (1, 'x')")
                check(f"{mode}: the scope that is trusted again writes", all(message.type != "E" for message in wrote), wrote)
            for text in texts:
                client.query(text.replace("TRUSTED", trusted).format(f"{mode} {name}"))
        # Under `allow` a session without a term may write what it likes, and so may commit it.
        right = mode == "allow" and name == "without a term"
        check(f"{major} {mode}: COMMIT PREPARED {name}", right or bench.committed(number) == [], "committed")
        bench.direct.query(f"ROLLBACK PREPARED '{mode} {name}'")
    bench.close()
