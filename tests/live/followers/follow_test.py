#!/usr/bin/env python3
"""`termgate follow` with real processes, on PostgreSQL (a server of its own) and on an SQLite file: killed and
started again it prints every write at least once and in order.

  pytest tests/live/followers/follow_test.py [-k killed]
"""
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from both_databases import BothDatabases, sh
from checks import captured, eventually
from given import PG_SERVER, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-follow.")
os.chmod(scratch.name, 0o755)  # the server runs as another user
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


class Follow(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "follow"
    number = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sh(cls.pg_server, "stop", cls.server, "fast")
        sh(cls.pg_server, "start", "15", cls.server, "max_prepared_transactions=0")  # as is usual, and where appends notify

    def both(self, play):
        for database, url in (("postgresql", self.postgres), ("sqlite", self.sqlite)):
            with self.subTest(database=database):
                Follow.number += 1
                play(url, f"s{Follow.number}")

    def command(self, url, *words, **more):
        return captured([TERMGATE, *words], env=dict(clean, TERMGATE_DB=url), timeout=60, **(more or {"stdin": subprocess.DEVNULL}))

    def append(self, url, stream, count, *words):
        lines = "".join(f"line {n}\n" for n in range(count))
        done = self.command(url, "append", "--stream", stream, "--term", "1", "--lines", *words, "-", input=lines)
        assert done.returncode == 0, done.stderr

    def begin(self, url, *words, **more):
        child = subprocess.Popen(
            [TERMGATE, "follow", *words],
            env=dict(clean, TERMGATE_DB=url),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.wait(), child.stderr.close()))
        return child

    def test_once_and_again(self):
        def play(url, stream):
            self.append(url, stream, 3)
            follow = ["follow", "--name", stream, "--stream", stream, "--once"]
            assert self.command(url, *follow, "--raw").stdout == "line 0\nline 1\nline 2\n"
            assert self.command(url, *follow).stdout == ""
            self.append(url, stream, 1)
            done = self.command(url, *follow, "--json")
            assert done.returncode == 0, done.stderr
            assert {
                key: value for key, value in json.loads(done.stdout).items() if key in ("stream", "sequence_no", "payload", "term")
            } == {"stream": stream, "sequence_no": 4, "payload": "line 0", "term": 1}
            listed = json.loads(self.command(url, "follower", "list", "--json").stdout)
            mine = next(one for one in listed if one["name"] == stream)
            assert (mine["stream"], mine["behind"], mine["behind_ms"]) == (stream, 0, None)
            self.append(url, stream, 2)
            mine = next(one for one in json.loads(self.command(url, "follower", "list", "--json").stdout) if one["name"] == stream)
            assert mine["behind"] == 2
            assert mine["behind_ms"] >= 0
            assert self.command(url, "follower", "remove", stream).returncode == 0
            assert self.command(url, "follower", "remove", stream).returncode == 1
            assert len(self.command(url, *follow).stdout.splitlines()) == 6

        self.both(play)

    def test_killed_and_started_again(self):
        def play(url, scope):
            random.seed(f"{os.environ.get('TERMGATE_TEST_SEED', 1)} {scope}")
            streams = [f"{scope} {letter}" for letter in "ab"]
            for stream in streams:
                self.append(url, stream, 1, "--scope", scope)
            lives = []
            for life in range(6):
                path = Path(scratch.name) / f"out {scope} {life}"
                with path.open("w") as out:
                    child = self.begin(url, "--name", scope, "--scope", scope, "--json", stdout=out)
                lives.append(path)
                self.append(url, random.choice(streams), 400)
                time.sleep(random.random() * 0.2)
                child.kill()
                child.wait()
            path = Path(scratch.name) / f"out {scope} last"
            path.write_text(self.command(url, "follow", "--name", scope, "--scope", scope, "--json", "--once").stdout)
            seen = {stream: 0 for stream in streams}
            for path in [*lives, path]:
                here = {}
                for line in path.read_text().splitlines():
                    try:
                        write = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # the last line of one that was killed
                    stream, number = write["stream"], write["sequence_no"]
                    # In order within a life; a restart goes back by a page at most, and leaves nothing out.
                    assert number == here.get(stream, number - 1) + 1
                    assert number <= seen[stream] + 1
                    assert number > seen[stream] - 500
                    here[stream] = number
                    seen[stream] = max(seen[stream], number)
            assert sum(seen.values()) == 2 + 6 * 400

        self.both(play)

    def test_a_later_start_takes_it_over(self):
        def play(url, stream):
            self.append(url, stream, 1)
            out = Path(scratch.name) / f"first {stream}"
            with out.open("w") as file:
                first = self.begin(url, "--name", stream, "--stream", stream, "--poll", "50ms", stdout=file)
            assert eventually(lambda: out.read_text().count("\n") == 1, 20)
            second = self.begin(url, "--name", stream, "--stream", stream, stdout=subprocess.DEVNULL)
            assert first.wait(10) == 5
            assert "started elsewhere" in first.stderr.read()
            second.send_signal(signal.SIGINT)
            assert second.wait(10) == 0

        self.both(play)

    def test_a_write_is_heard_of_at_once_on_postgresql(self):
        # By its notification. Six followers have found nothing for six seconds; each that polls would look next after as many more or less.
        outs = [Path(scratch.name) / f"heard {number}" for number in range(6)]
        for out in outs:
            with out.open("w") as file:
                self.begin(self.postgres, "--name", out.name, "--stream", "heard", "--poll", "30m", stdout=file)
        for count, seconds in ((1, 20), (2, 2)):
            self.append(self.postgres, "heard", 1)
            assert eventually(lambda: all(out.read_text().count("\n") == count for out in outs), seconds), [out.read_text() for out in outs]
            if count == 1:
                time.sleep(6)

    def test_what_could_not_be_printed_comes_again(self):
        def play(url, stream):
            self.append(url, stream, 3)
            with open("/dev/full", "w") as full:
                child = self.begin(url, "--name", stream, "--stream", stream, stdout=full)
                assert child.wait(10) == 1
            assert len(self.command(url, "follow", "--name", stream, "--stream", stream, "--once").stdout.splitlines()) == 3

        self.both(play)

    def test_bad_words(self):
        url = self.sqlite
        for words, status in (
            (["--stream", "s"], 2),
            (["--name", "n"], 2),
            (["--name", "n", "--stream", "s", "--scope", "s"], 2),
            (["--name", "n", "--stream", "s", "--poll", "1ms"], 9),
            (["--name", "", "--stream", "s"], 9),
            (["--name", "n", "--stream", ""], 9),
            (["--name", "n", "--stream", "s", "--poll", "soon"], 2),
        ):
            with self.subTest(words=words):
                done = self.command(url, "follow", *words)
                assert done.returncode == status, done.stderr
        self.append(url, "pruned", 5)
        assert self.command(url, "prune", "--stream", "pruned", "--before", "4").returncode == 0
        done = self.command(url, "follow", "--name", "p", "--stream", "pruned", "--once")
        assert (done.returncode, done.stdout) == (1, "")
        assert "pruned" in done.stderr
        done = self.command(url, "follow", "--name", "p", "--stream", "pruned", "--once", "--skip-pruned", "--raw")
        assert (done.returncode, done.stdout) == (0, "line 3\nline 4\n")
