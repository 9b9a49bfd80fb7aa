#!/usr/bin/env python3
"""examples/outbox: two relays, of which the first pauses past its lease; every message arrives once, in order, and the
paused relay is refused.

  outbox_test.py TERMGATE_COMMAND TERMGATE_EXTENSION
"""
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TERMGATE, EXTENSION = (str(Path(one).resolve()) for one in sys.argv[1:3])
OUTBOX = str(Path(__file__).resolve().parents[2] / "examples" / "outbox" / "outbox.py")
PYTHON = "/usr/bin/python3"  # whose sqlite3 loads extensions


class Outbox(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source, self.target = folder.name + "/source.db", folder.name + "/target.db"
        for path in (self.source, self.target):
            subprocess.run([TERMGATE, "init", "--db", "sqlite:" + path], check=True, capture_output=True, timeout=60)

    def start(self, *words):
        environment = {**os.environ, "TERMGATE_EXTENSION": EXTENSION.removesuffix(".so")}
        return subprocess.Popen(
            [PYTHON, OUTBOX, self.source, *map(str, words)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run_it(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def rows(self, path, sql):
        with sqlite3.connect(path) as db:
            return db.execute(sql).fetchall()

    def test_every_message_arrives_once_and_a_paused_relay_is_refused(self):
        for number in range(1, 21):
            self.assertEqual(self.run_it("order", number)[0], 0)
        self.assertNotEqual(self.run_it("order", 7)[0], 0, "an order that fails")
        self.assertEqual(len(self.rows(self.source, "SELECT 1 FROM outbox")), 20, "leaves no message")
        paused = self.start("relay", self.target, 3)
        self.assertEqual(paused.stdout.readline(), "term 1: 20 messages\n")
        status, out, err = self.run_it("relay", self.target)
        self.assertEqual((status, out), (0, "term 2: 20 messages\n"), err)
        out, err = paused.communicate(timeout=60)
        self.assertEqual(paused.returncode, 3, out + err)
        self.assertIn("refused: TG001", out)
        self.assertEqual(
            self.rows(self.target, "SELECT id, message, term FROM inbox ORDER BY rowid"), [(i, f"order {i}", 2) for i in range(1, 21)]
        )
        self.assertEqual(self.rows(self.source, "SELECT COUNT(*) FROM outbox WHERE sent = 0"), [(0,)])
        for path in (self.source, self.target):
            verified = subprocess.run([TERMGATE, "verify", "--db", "sqlite:" + path], capture_output=True, text=True, timeout=60)
            self.assertEqual(verified.returncode, 0, verified.stdout)

    def test_a_relay_that_died_after_delivering_does_not_deliver_twice(self):
        self.assertEqual(self.run_it("order", 1)[0], 0)
        self.assertEqual(self.run_it("relay", self.target)[0], 0)
        with sqlite3.connect(self.source) as db:  # as if it had died before it noted the message as sent
            db.execute("UPDATE outbox SET sent = 0")
        self.assertEqual(self.run_it("relay", self.target)[:2], (0, "term 2: 1 messages\n"))
        self.assertEqual(self.rows(self.target, "SELECT id, term FROM inbox"), [(1, 1)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
