#!/usr/bin/env python3
"""[F1] [F2] [F3] [F5] Bugs planted in the library, in layer 1 on SQLite and in both proxies are found by the storm
within 60 s each; faults planted in the proxy's decision by the random attacker, on a live server, within 60 s too.

  planted_test.py TERMGATE_COMMAND SERVER_SCRIPT ATTACKER [NAME ...]

The command is one that was built with TERMGATE_PLANT=all, which CTest makes sure of; TERMGATE_PLANTED then chooses
the bug (termgate/detail/plant.hpp). Without TERMGATE_TEST_LONG it is skipped, for it takes minutes; names on the
command line run these in any case.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from both_databases import BothDatabases, sh  # noqa: E402

TERMGATE, PG_SERVER, ATTACKER = sys.argv[1], sys.argv[2], sys.argv[3]
NAMES = sys.argv[4:]
HEADER = Path(__file__).resolve().parents[2] / "fencing/include/termgate/detail/plant.hpp"
scratch = tempfile.TemporaryDirectory(prefix="termgate-planted-test.")
os.chmod(scratch.name, 0o755)

# By bug: the database, how the storm goes, and the guarantees of which one must be seen broken.
PLANTED = {
    "sqlite_memory": ("sqlite", [], ("F1", "F2")),
    "sqlite_lease": ("sqlite", [], ("F3",)),
    "group_commit": (
        "sqlite",
        ["--proxies", "2", "--writers", "8", "--faults", "proxy-kill,kill,stop"],
        ("F3", "F5"),
    ),  # lost: a write, or an acquisition
    "library_check": ("postgres", [], ("F1", "F2")),
    "postgres_lost_answer": ("postgres", [], ("F5",)),
    "proxy_one_behind": ("postgres", ["--proxies", "2"], ("F1", "F2")),
    "proxy_savepoint": ("postgres", ["--proxies", "2", "--writers", "6"], ("F1", "F2")),
    "served_first_write": ("sqlite", ["--proxies", "2"], ("F1", "F2")),
}
DECISION = (
    "decision_own_call",
    "decision_unheard",
    "decision_comment",
    "decision_any_claim",
    "decision_any_scope",
    "decision_commit",
    "decision_holes",
    "decision_code",
)


def storm(url, bug, *words):
    given = {name: value for name, value in os.environ.items() if name not in ("TERMGATE_DB", "TERMGATE_PLANTED")} | {
        "TERMGATE_DB": url,
        "TMPDIR": scratch.name,
    }
    if bug:
        given["TERMGATE_PLANTED"] = bug
    return subprocess.run([TERMGATE, "storm", "--json", *words], env=given, capture_output=True, text=True, timeout=300)


def attack(bug):
    """Twenty seconds in each mode; the attacker's own test of its judge comes first. What READ ONLY does not stop is the findings'
    table's."""
    attacks = Path(__file__).resolve().parent / "attacks"
    given = os.environ | {"TERMGATE_PLANTED": bug}
    given.pop("TERMGATE_TEST_LONG", None)
    if bug == "decision_holes":
        words = [str(attacks / "findings_test.py"), "--quick", "--only", "8"]
    else:
        words = [str(attacks / "attacker_test.py"), ATTACKER, "--seconds", "60", "--breaches", "0"]
    return subprocess.run([sys.executable, *words, "--termgate", TERMGATE], env=given, capture_output=True, text=True, timeout=600)


class Planted(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "planted"

    def test_each_is_found(self):
        self.assertEqual(set(re.findall(r'^    "(\w+)",', HEADER.read_text(), re.M)), {*PLANTED, *DECISION})
        for bug in [name for name in NAMES or PLANTED if name in PLANTED]:
            database, words, guarantees = PLANTED[bug]
            with self.subTest(bug):
                done = storm(getattr(self, database), bug, "--seconds", "60", "--judge-every", "5s", *words)
                document = json.loads(done.stdout)
                self.assertEqual((done.returncode, document["verdict"]), (1, "broken"), done.stdout + done.stderr)
                seen = {breach["guarantee"] for breach in document["breaches"]}
                self.assertTrue(seen & set(guarantees), f"{bug}: {seen}")
                print(f"\n  {bug}: {', '.join(sorted(seen))} after {document['seconds']:.0f} s ", file=sys.stderr)

    def test_the_attacker_finds_each_fault_of_the_decision(self):
        for bug in [name for name in NAMES or DECISION if name in DECISION]:
            with self.subTest(bug):
                done = attack(bug)
                kinds = sorted(set(re.findall(r"^BREACH seed \d+: ([^:]+):|^FAILED \d+ [\w-]+ +(\d+)", done.stdout, re.M)))
                self.assertTrue(done.returncode == 1 and kinds, f"{bug}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
                print(f"\n  {bug}: {kinds} ", file=sys.stderr)

    def test_where_none_is_chosen_the_law_is_kept(self):
        for url in (self.sqlite, self.postgres):
            done = storm(url, "", "--seconds", "10", "--proxies", "2")
            self.assertEqual((done.returncode, json.loads(done.stdout)["verdict"]), (0, "kept"), done.stdout + done.stderr)

    def test_a_bug_that_nobody_planted(self):
        done = storm(self.sqlite, "hope", "--seconds", "1")
        self.assertLess(done.returncode, 0)
        self.assertIn('there is no planted bug "hope"', done.stderr)


if __name__ == "__main__":
    if not NAMES and not os.environ.get("TERMGATE_TEST_LONG"):
        print("skipped: TERMGATE_TEST_LONG")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
