#!/usr/bin/env python3
"""[F1] [F2] [F3] [F5] Bugs planted in the library, in layer 1 on SQLite and in both proxies are found by the storm
within 60 s each; faults planted in the proxy's decision by the random attacker, on a live server, within 60 s too.

  pytest tests/live/storm/planted_test.py --long [-k 'decision_commit or proxy_savepoint']

The command is one that was built with TERMGATE_PLANT=all, which CTest makes sure of; TERMGATE_PLANTED then chooses
the bug (termgate/detail/plant.hpp). Without --long it is skipped, for it takes minutes. TERMGATE and
TERMGATE_ATTACKER name the programs of build/planted.
"""
import json
import os
import re
from pathlib import Path

import pytest

from both_databases import sh
from checks import captured, note
from given import ATTACKER, LONG, PG_SERVER, PYTHON, ROOT, TERMGATE
from storms import kept, scratch, storm

HEADER = ROOT / "fencing/include/termgate/detail/plant.hpp"
# By bug: the database, how the storm goes, and the guarantees of which one must be seen broken.
PLANTED = {
    "sqlite_memory": ("sqlite", [], ("F1", "F2")),
    "sqlite_lease": ("sqlite", [], ("F3",)),
    "group_commit": ("sqlite", ["--writers", "8", "--faults", "kill,stop"], ("F3", "F5")),  # lost: a write, or an acquisition
    "library_check": ("postgres", [], ("F1", "F2")),
    "postgres_lost_answer": ("postgres", [], ("F5",)),
    "proxy_one_behind": ("postgres", ["--proxies", "2"], ("F1", "F2")),
    "proxy_savepoint": ("postgres", ["--proxies", "2", "--writers", "6"], ("F1", "F2")),
}
DECISION = tuple(
    "decision_own_call decision_unheard decision_comment decision_any_claim decision_any_scope decision_commit decision_holes decision_code"
    .split()
)


def attack(bug):
    """Twenty seconds in each mode; the attacker's own test of its judge comes first. What READ ONLY does not stop is in the
    table of findings."""
    attacks = Path(__file__).resolve().parents[1] / "attacks"
    environment = os.environ | {"TERMGATE_PLANTED": bug, "TERMGATE": TERMGATE, "TERMGATE_ATTACKER": ATTACKER}
    environment.pop("TERMGATE_TEST_LONG", None)
    if bug == "decision_holes":
        words = [str(attacks / "findings_test.py"), "--quick", "--only", "8"]
    else:
        words = [str(attacks / "attacker_test.py"), "--seconds", "60", "--breaches", "0"]
    return captured([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], env=environment, timeout=600)


pytestmark = pytest.mark.skipif(not LONG, reason="./test --long")


@pytest.fixture(scope="module")
def urls():
    """Of a database on PostgreSQL and on SQLite, layer 1 installed."""
    server = Path(scratch.name) / "pg"
    urls = {"postgres": sh(PG_SERVER, "start", "15", server, "fsync=off"), "sqlite": f"sqlite:{scratch.name}/planted.db"}
    for url in urls.values():
        sh(TERMGATE, "init", "--db", url)
    yield urls
    sh(PG_SERVER, "stop", server, "immediate")


def test_every_bug_of_the_header_is_looked_for():
    code = re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))
    assert set(re.findall(r'"(\w+)",', code)) == {*PLANTED, *DECISION}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_storm_finds(bug, urls):
    database, words, guarantees = PLANTED[bug]
    done = storm(urls[database], "--json", "--seconds", "60", "--judge-every", "5s", *words, TERMGATE_PLANTED=bug)
    document = json.loads(done.stdout)
    assert (done.returncode, document["verdict"]) == (1, "broken"), done.stdout + done.stderr
    seen = {breach["guarantee"] for breach in document["breaches"]}
    assert seen & set(guarantees), f"{bug}: {seen}"
    note(f"{bug}: {', '.join(sorted(seen))} after {document['seconds']:.0f} s")


@pytest.mark.parametrize("bug", DECISION)
def test_the_attacker_finds(bug):
    done = attack(bug)
    kinds = sorted(set(re.findall(r"BREACH seed \d+: ([^:]+):|FAIL findings_test\.py:\d+: \d+ [\w-]+ (\d+)", done.stdout)))
    assert done.returncode == 1 and kinds, f"{bug}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    note(f"{bug}: {kinds}")


@pytest.mark.parametrize("database, words", (("sqlite", []), ("postgres", ["--proxies", "2"])))
def test_where_none_is_chosen_the_guarantees_hold(database, words, urls):
    kept(storm(urls[database], "--json", "--seconds", "10", *words))


def test_a_bug_that_nobody_planted_ends_the_storm(urls):
    done = storm(urls["sqlite"], "--seconds", "1", TERMGATE_PLANTED="hope")
    assert done.returncode < 0
    assert 'there is no planted bug "hope"' in done.stderr
