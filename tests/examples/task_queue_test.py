#!/usr/bin/env python3
"""examples/task-queue: every task completed exactly once in effect while workers die and stall; the oldest task comes
first; a heartbeat keeps a task; a worker that lost its lease cannot complete. On SQLite, and on the server of
TERMGATE_TEST_POSTGRESQL; with TERMGATE_TEST_LONG a hundred thousand tasks there.

  task_queue_test.py TASK_QUEUE TERMGATE_COMMAND
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from served import database, served  # noqa: E402

QUEUE, TERMGATE = (str(Path(one).resolve()) for one in sys.argv[1:3])
LONG = bool(os.environ.get("TERMGATE_TEST_LONG"))
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


def run(*words, timeout=300):
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, env=clean)


class TaskQueue(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def play(self, url, tasks, timeout=300):
        done = run(QUEUE, "play", url, str(tasks), "20", "5", "10", "7", timeout=timeout)
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("every task was completed exactly once in effect", done.stdout)
        crashes, refused = map(int, re.search(r"(\d+) crashes, (\d+) completions refused as stale", done.stdout).groups())
        self.assertGreater(crashes, tasks // 50)
        self.assertGreater(refused, tasks // 100, "hardly a worker lost its lease: this run shows nothing")
        verified = run(TERMGATE, "verify", "--db", url, timeout=600)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_on_sqlite(self):
        url = f"sqlite:{self.folder}/queue.db"
        self.play(url, 300)
        # The check finds what it is there to find.
        damage = ["--scope", "damage", "--term", "1", "--db", url]
        self.assertEqual(
            run(TERMGATE, "exec", *damage, "INSERT INTO results SELECT task, term, worker FROM results WHERE task = 7").returncode, 0
        )
        checked = run(QUEUE, "check", url, "300")
        self.assertEqual((checked.returncode, "WRONG" in checked.stdout, "301 results" in checked.stdout), (1, True, True), checked.stdout)

    def test_on_postgresql(self):
        with database(self, "queue") as url:
            self.play(url, 500)

    @unittest.skipUnless(LONG, "minutes: with --long")
    def test_a_hundred_thousand_tasks_on_postgresql(self):
        with database(self, "queue_long") as url:
            self.play(url, 100_000, timeout=2400)

    @contextlib.contextmanager
    def service(self):
        with served(QUEUE, "serve", f"sqlite:{self.folder}/one.db", "PORT") as port:

            def ask(path, body="", term=None, method="POST"):
                request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body.encode(), method=method)
                if term is not None:
                    request.add_header("Termgate-Term", term)
                try:
                    with urllib.request.urlopen(request, timeout=20) as answer:
                        return answer.status, answer.read().decode().strip()
                except urllib.error.HTTPError as error:
                    return error.code, error.read().decode().strip()

            yield ask

    def test_the_oldest_task_comes_first(self):
        with self.service() as ask:
            self.assertEqual(ask("/tasks", "9"), (201, "9"))
            claims = []
            # One that was claimed too long ago comes again, before those that are new.
            while len(claims) < 9 and claims == sorted(claims):
                claims.append(int(ask("/claim", "a")[1].split()[0]))
            self.assertTrue(claims == list(range(1, 10)) or claims[-1] == 1, claims)

    def test_a_heartbeat_keeps_the_task(self):
        with self.service() as ask:
            beat = lambda term, task=1: ask(f"/tasks/{task}/heartbeat", "a", term, "PUT")
            self.assertEqual(ask("/tasks", "1"), (201, "1"))
            self.assertEqual(beat("1")[0], 409, "nobody has it")
            for attempt in range(1, 10):  # on a busy machine a beat can be too late
                self.assertEqual(ask("/claim", "a"), (200, f"1 {attempt}"))
                begun = time.monotonic()
                while time.monotonic() < begun + 1.2 and beat(str(attempt))[0] == 200:
                    self.assertEqual(ask("/claim", "b")[0], 202)
                    time.sleep(0.05)
                if time.monotonic() > begun + 1.2:
                    break
                self.assertEqual(beat(str(attempt))[0], 409)
            self.assertEqual(ask("/complete/1", "a", str(attempt)), (200, "completed"))
            for term in (None, "", "x", "0"):
                self.assertEqual(beat(term)[0], 400, term)
            for path in ("/tasks/x/heartbeat", "/tasks//heartbeat", "/tasks/heartbeat"):
                self.assertIn(ask(path, "a", "1", "PUT")[0], (400, 404), path)

    def test_a_worker_that_lost_its_lease_cannot_complete(self):
        with self.service() as ask:
            self.assertEqual(ask("/claim", "a")[0], 410)
            self.assertEqual(ask("/tasks", "1"), (201, "1"))
            self.assertEqual(ask("/claim", "a"), (200, "1 1"))
            self.assertEqual(ask("/claim", "b")[0], 202)
            again = (202, "")
            while again[0] == 202:
                again = ask("/claim", "b")
            self.assertEqual(again, (200, "1 2"))
            self.assertEqual(ask("/tasks/1/heartbeat", "a", "1", "PUT")[0], 409)
            status, text = ask("/complete/1", "a", "1")
            self.assertEqual(status, 409)
            self.assertIn("TG001", text)
            for term in (None, "", "x", "2x", " ", "0", "-1", "9" * 30):
                self.assertEqual(ask("/complete/1", "b", term)[0], 400, term)
            self.assertEqual(ask("/complete/1", "b", "3")[0], 400, "a term that was never issued")
            self.assertEqual(ask("/complete/1", "b", "2"), (200, "completed"))
            self.assertEqual(ask("/complete/1", "b", "2"), (200, "was completed before"))
            self.assertEqual(ask("/complete/x", "b", "2")[0], 400)
            self.assertEqual(ask("/tasks", "many")[0], 400)
            self.assertEqual(ask("/claim", "c")[0], 410)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
