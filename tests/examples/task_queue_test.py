#!/usr/bin/env python3
"""examples/task-queue: every task completed exactly once in effect while workers die and stall; the oldest task comes
first; a heartbeat keeps a task; a worker that lost its lease cannot complete. On SQLite, and on the server of
TERMGATE_TEST_POSTGRESQL; with TERMGATE_TEST_LONG a hundred thousand tasks there.

  task_queue_test.py TASK_QUEUE TERMGATE_COMMAND
"""
import contextlib
import json
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
            run(
                TERMGATE, "exec", *damage, "INSERT INTO results (task, term, worker) SELECT task, term, worker FROM results WHERE task = 7"
            ).returncode,
            0,
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
    def service(self, url=None):
        with served(QUEUE, "serve", url or f"sqlite:{self.folder}/one.db", "PORT") as port:

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

    def test_an_earlier_moment_is_a_priority(self):
        with self.service() as ask:
            self.assertEqual(ask("/tasks", '{"data": "usual"}'), (201, "1"))
            self.assertEqual(ask("/tasks", '{"data": "urgent", "scheduled_at_ms": 1}'), (201, "2"))
            self.assertEqual(ask("/claim", "a"), (200, "2 1"))
            self.assertEqual(ask("/claim", "a"), (200, "1 1"))

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
            self.assertEqual(ask("/complete/1", '"a"', str(attempt)), (200, "completed"))
            for term in (None, "", "x", "0"):
                self.assertEqual(beat(term)[0], 400, term)
            for path in ("/tasks/x/heartbeat", "/tasks//heartbeat", "/tasks/heartbeat"):
                self.assertIn(ask(path, "a", "1", "PUT")[0], (400, 404), path)

    def test_tasks_are_json_scheduled_and_listed(self):
        with database(self, "queue_json") as postgres:
            for url in (f"sqlite:{self.folder}/json.db", postgres):
                with self.subTest(url=url), self.service(url) as ask:
                    self.tasks_in_json(ask)

    def tasks_in_json(self, ask):
        get = lambda path: json.loads(ask(path, method="GET")[1])
        later = int(time.time() * 1000) + 3000
        data = {"mail": "to \u00fc", "n": [1, 2.5, None]}
        self.assertEqual(ask("/tasks", json.dumps({"data": data, "scheduled_at_ms": later})), (201, "1"))
        self.assertEqual(ask("/tasks", json.dumps({"data": "second"})), (201, "2"))
        for wrong in ("{}", "[]", "-1", "", "{", '{"data": 1, "scheduled_at_ms": "now"}'):
            self.assertEqual(ask("/tasks", wrong)[0], 400, wrong)
        # What is scheduled for later waits, though it came first.
        status, claimed = ask("/claim", "worker-1")
        self.assertEqual((status, claimed.split()[0]), (200, "2"))
        self.assertEqual([one["id"] for one in get("/tasks?state=open")], [1])
        self.assertEqual([one["id"] for one in get("/tasks?state=started")], [2])
        term = claimed.split()[1]
        if ask("/tasks/2/heartbeat", "", term, "PUT")[0] == 200:
            beaten = get("/tasks/2")
            self.assertGreaterEqual(beaten["last_heartbeat_ms"], beaten["started_at_ms"])
        self.assertEqual(ask("/complete/2", "no JSON", term)[0], 400)
        while ask("/complete/2", '{"sent": true}', term)[0] == 409:  # a busy machine
            term = ask("/claim", "worker-1")[1].split()[1]
        done = get("/tasks/2")
        self.assertEqual(
            [done[name] for name in ("data", "processed", "processor", "output")], ["second", True, "worker-1", {"sent": True}]
        )
        self.assertEqual([one["id"] for one in get("/tasks?state=processed")], [2])
        first = get("/tasks/1")
        self.assertEqual((first["data"], first["scheduled_at_ms"], first["started_at_ms"], first["output"]), (data, later, None, None))
        self.assertEqual([one["id"] for one in get("/tasks")], [1, 2])
        self.assertEqual([ask(path, method="GET")[0] for path in ("/tasks/9", "/tasks/x", "/tasks?state=lost")], [404, 400, 400])
        self.assertEqual(ask("/claim", "worker-1")[0], 202)
        time.sleep(max(0, later / 1000 - time.time()) + 0.1)
        self.assertEqual(ask("/claim", "worker-1"), (200, "1 1"))

    def test_one_generator_is_active(self):
        url = f"sqlite:{self.folder}/generated.db"
        with self.service(url) as first, self.service(url) as second:
            start = lambda ask: ask("/generator/start", '{"per_second": 50}')
            status = lambda ask: json.loads(ask("/generator", method="GET")[1])
            self.assertEqual(status(first), {"active": False, "here": False})
            self.assertEqual(first("/generator/start", "{}")[0], 400)
            self.assertEqual(start(first)[0], 200)
            for ask in (first, second):
                self.assertEqual(start(ask)[0], 409)
            # The other one says who is active, and stops nothing.
            told = json.loads(second("/generator/stop")[1])
            self.assertEqual((told["active"], told["here"], told["endpoint"]), (True, False, status(first)["endpoint"]))
            self.assertTrue(told["endpoint"].startswith("http://127.0.0.1:"), told)
            while status(first)["made"] < 5:
                time.sleep(0.05)
            self.assertEqual(second("/tasks", '{"data": "beside it"}')[0], 201)
            self.assertEqual(first("/generator/stop")[0], 200)
            made = json.loads(second("/tasks", method="GET")[1])
            self.assertEqual([one["id"] for one in made], list(range(1, len(made) + 1)))
            self.assertGreaterEqual(len([one for one in made if one["data"] != "beside it"]), 5)
            self.assertEqual(start(second)[0], 200)
            self.assertEqual((status(first)["here"], status(second)["here"]), (False, True))
            # A planned hand-over ends it too.
            asked = run(TERMGATE, "lease", "hand-over", "generator", "--no-wait", "--db", url)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            until = time.monotonic() + 20
            while status(first)["active"] and time.monotonic() < until:
                time.sleep(0.05)
            self.assertFalse(status(second)["active"])

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
            status, text = ask("/complete/1", '"a"', "1")
            self.assertEqual(status, 409)
            self.assertIn("TG001", text)
            for term in (None, "", "x", "2x", " ", "0", "-1", "9" * 30):
                self.assertEqual(ask("/complete/1", '"b"', term)[0], 400, term)
            self.assertEqual(ask("/complete/1", '"b"', "3")[0], 400, "a term that was never issued")
            self.assertEqual(ask("/complete/1", '"b"', "2"), (200, "completed"))
            self.assertEqual(ask("/complete/1", '"b"', "2"), (200, "was completed before"))
            self.assertEqual(ask("/complete/x", '"b"', "2")[0], 400)
            self.assertEqual(ask("/tasks", "many")[0], 400)
            self.assertEqual(ask("/claim", "c")[0], 410)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
