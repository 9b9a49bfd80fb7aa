#!/usr/bin/env python3
"""`termgate bench` in small, so that it does not rot: it ends, says what it measured and compared, and leaves no table behind, not even
after Ctrl-C. It measures nothing here that could fail by being slow.

  pytest tests/live/cli/bench_test.py
"""
import json
import os
import signal
import sqlite3
import subprocess
import tempfile
import time

from both_databases import BothDatabases, sh
from checks import captured
from given import PG_SERVER, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-bench-test.")
os.chmod(scratch.name, 0o755)


class Bench(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "bench"

    def documents(self, *words):
        """(URL, what it printed) on each database."""
        for url in (self.postgres, self.sqlite):
            with self.subTest(url.split(":")[0]):
                done = captured([TERMGATE, "bench", *words, "--json", "--db", url], timeout=200)
                assert done.returncode == 0, done.stdout + done.stderr
                yield url, json.loads(done.stdout)
                self.no_table_is_left(url)

    def no_table_is_left(self, url):
        if url == self.postgres:
            assert sh("psql", "-qXAt", url, "-c", "SELECT relname FROM pg_class WHERE relname LIKE 'bench\\_%'") == ""
        else:
            tables = "SELECT name FROM sqlite_schema WHERE name LIKE 'bench\\_%' ESCAPE '\\'"
            assert sqlite3.connect(url[7:]).execute(tables).fetchall() == []

    def test_quick_measures_every_scenario(self):
        for _, document in self.documents("--quick", "--seed", "7"):
            assert document["seed"] == 7 and document["flush"]["p50_us"] >= 0 and not document["interrupted"]
            runs = document["runs"]
            for run in runs:
                assert run["rows_per_second"] > 0 and run["ratio"] > 0 and 0 < run["p50_us"] <= run["p99_us"], run
            seen = {name: {run[name] for run in runs} for name in ("scenario", "writers", "batch", "scopes")}
            assert seen == {
                "scenario": {"unfenced", "unfenced-one", "textbook", "check-insert", "append", "append-each"},
                "writers": {1, 8},
                "batch": {1, 10},
                "scopes": {1, 4},
            }

    def test_quick_growth_and_takeover_give_their_figures(self):
        for url, document in self.documents("growth", "takeover", "--quick"):
            for levels in (document["growth"][what] for what in ("stream", "scopes")):
                assert len(levels) >= 2 and all(level["append_p50_us"] > 0 for level in levels), levels
            takeover = document["takeover"]
            if url == self.sqlite:
                assert takeover is None
            else:  # each frozen writer was evicted, and none before the grace was over
                assert takeover["takeovers"] == takeover["evicted"] == 3 and takeover["p50_ms"] >= takeover["grace_ms"], takeover

    def test_lease_measures_each_call(self):
        for _, document in self.documents("lease", "--quick", "--seconds", "1", "--durable", "no"):
            for call in (document["lease"][name] for name in ("acquire", "renew", "release")):
                assert call["calls"] > 0 and call["p99_ms"] >= call["p50_ms"], document

    def test_an_interrupted_run_says_so(self):
        for url in (self.postgres, self.sqlite):
            process = subprocess.Popen([TERMGATE, "bench", "--json", "--writers", "4", "--db", url], stdout=subprocess.PIPE)
            time.sleep(1.5)  # at whatever it is doing by then
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 1 and json.loads(out)["interrupted"], out
            self.no_table_is_left(url)

    def test_wrong_wishes(self):
        for words in (
            ("--writers", "0"),
            ("--writers", "1,,2"),
            ("--batches", "x"),
            ("--seconds", "-1"),
            ("--durable", "maybe"),
            ("nosuch",),
        ):
            done = captured([TERMGATE, "bench", "--json", "--db", self.sqlite, *words])
            assert done.returncode == 2, (words, done)
        done = captured([TERMGATE, "bench", "--json", "--quick", "--db", f"sqlite:{scratch.name}/empty.db"])
        assert (done.returncode, "termgate init" in done.stdout) == (1, True), done
