#!/usr/bin/env python3
"""examples/cron: the crontab's line on five hosts at once runs the job once; where the host that runs it dies, a waiting
one runs it; a host that is too late is refused.

  cron_test.py TERMGATE_COMMAND TERMGATE_EXTENSION
"""
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TERMGATE = str(Path(sys.argv[1]).resolve())
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cron"


class Cron(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name + "/app.db"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
        self.environment |= {"TERMGATE_DB": "sqlite:" + self.path, "PATH": f"{Path(TERMGATE).parent}:{os.environ['PATH']}"}
        subprocess.run([TERMGATE, "init"], check=True, capture_output=True, timeout=60, env=self.environment)
        with sqlite3.connect(self.path) as db:
            db.executescript(
                "CREATE TABLE sales (amount INTEGER); INSERT INTO sales VALUES (30), (12); CREATE TABLE totals (day TEXT, total INTEGER,"
                " host TEXT);"
            )
        line = next(one for one in (EXAMPLE / "crontab").read_text(encoding="utf-8").splitlines() if one.startswith("0 3 "))
        self.line = (
            re.sub(r"^0 3 \* \* \*\s+app\s+", "", line).replace("/opt/nightly/", f"{EXAMPLE}/").replace("--once-per", "--ttl 1s --once-per")
        )

    def host(self, name, takes="0.3", line=None):
        environment = {**self.environment, "NIGHTLY_HOST": name, "NIGHTLY_TAKES": takes}
        return subprocess.Popen(
            ["sh", "-c", "exec " + (line or self.line)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def totals(self):
        with sqlite3.connect(self.path, timeout=20) as db:
            return db.execute("SELECT total, host FROM totals").fetchall()

    def test_five_hosts_run_it_once(self):
        hosts = [self.host(f"host-{number}") for number in range(5)]
        for one in hosts:
            out, err = one.communicate(timeout=60)
            self.assertEqual(one.returncode, 0, out + err)
        self.assertEqual([total for total, _ in self.totals()], [42])
        again = self.host("later")
        again.communicate(timeout=60)
        self.assertEqual((again.returncode, len(self.totals())), (0, 1), "the same day")

    def wait_for_the_lease(self):
        deadline = time.monotonic() + 20
        leases = [TERMGATE, "lease", "list"]
        while "held" not in subprocess.run(leases, capture_output=True, text=True, env=self.environment, timeout=60).stdout:
            self.assertLess(time.monotonic(), deadline, "the first host did not begin")
            time.sleep(0.05)

    def test_a_host_that_dies_is_replaced_by_one_that_waits(self):
        first = self.host("first", takes="30")
        self.wait_for_the_lease()
        others = [self.host(f"host-{number}", takes="0") for number in range(2)]
        first.kill()
        first.communicate(timeout=60)
        for one in others:
            out, err = one.communicate(timeout=60)
            self.assertEqual(one.returncode, 0, out + err)
        (total,) = self.totals()
        self.assertIn(total, [(42, "host-0"), (42, "host-1")])

    def test_a_host_that_lost_the_lease_writes_nothing(self):
        slow = self.host("slow", takes="3")
        self.wait_for_the_lease()
        forced = subprocess.run(
            [TERMGATE, "lease", "force-release", "--scope", "nightly", "--actor", "test", "--reason", "it hangs"],
            env=self.environment,
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(forced.returncode, 0, forced)
        fast = self.host("fast", takes="0")
        out, err = fast.communicate(timeout=60)
        self.assertEqual(fast.returncode, 0, out + err)
        slow.communicate(timeout=60)
        self.assertNotEqual(slow.returncode, 0)
        self.assertEqual(self.totals(), [(42, "fast")])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
