#!/usr/bin/env python3
# Long: a case for each command.
"""The command as a person or a script meets it: exit statuses, --json, and what bad input gets.

  pytest tests/live/cli/cli_test.py [-k bad_input]

Runs every case on an SQLite file and on a database of its own, on the server of tests/support/plain_server.py.
Bad input must end with a clear error, the right status, and nothing written.
"""
import base64
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import pytest

from checks import captured, eventually
from given import LONG, SANITIZED, TERMGATE, share
from plain_server import server

scratch = tempfile.TemporaryDirectory(prefix="termgate-cli.")
os.chmod(scratch.name, 0o755)
environment = {name: value for name, value in os.environ.items() if name != "TERMGATE_DB"}


def termgate(*words, url=None, stdin=b"", extra=None, timeout=120):
    env = dict(environment, **(extra or {}))
    if url is not None:
        env["TERMGATE_DB"] = url
    return subprocess.run([TERMGATE, *words], input=stdin, capture_output=True, env=env, timeout=timeout)


def measured(*words, url):
    """Exit status, standard error, the most memory that the command ever held, in MB, and the seconds that it computed."""
    with tempfile.TemporaryFile() as error:
        process = subprocess.Popen(
            [TERMGATE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=error, env=dict(environment, TERMGATE_DB=url)
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        error.seek(0)
        text = error.read().decode(errors="replace")
    # A sanitizer's shadow memory and slowness are no measure of ours.
    if SANITIZED:
        return process.returncode, text, 0, 0
    return process.returncode, text, usage.ru_maxrss // 1024, usage.ru_utime


def psql(url, *statements):
    words = [word for statement in statements for word in ("-c", statement)]
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", url, *words], check=True, capture_output=True)


def with_database(url, name):
    return re.sub(r"^([a-z]+://[^/]*)/[^?]*", rf"\1/{name}", url)


long = pytest.mark.skipif(not LONG, reason="./test --long")


class Cases:
    """What must hold on every database; the classes below say which."""

    def run_ok(self, *words, **more):
        done = termgate(*words, url=self.url, **more)
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        return done.stdout.decode()

    def refused(self, status, text, *words, url=None, **more):
        done = termgate(*words, url=url or self.url, **more)
        said = done.stderr.decode(errors="replace")
        assert done.returncode == status, said + done.stdout.decode(errors="replace")
        assert re.search(text, said)
        return said

    def start(self, *words, **more):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([TERMGATE, *words], env=dict(environment, TERMGATE_DB=self.url), **pipes)

    count = 0

    def name(self, what):
        Cases.count += 1
        return f"{what}-{Cases.count}"

    def last_no(self, stream):
        for row in json.loads(self.run_ok("stream", "list", "--json")):
            if row["stream"] == stream:
                return row["last_no"]
        return 0

    def test_append_read_seal(self):
        scope, stream = self.name("scope"), self.name("stream")
        assert self.run_ok("append", "--stream", stream, "--scope", scope, "--term", "3", stdin=b"hello\n") == "1\n"
        assert self.run_ok("append", "--stream", stream, "--term", "3", "--payload", "two") == "2\n"
        assert "stands at 5 (before: 3)" in self.run_ok("seal", "--scope", scope, "--term", "5")
        self.refused(
            3,
            r"TG001 stale term 3 for scope \"%s\": the fence stands at 5" % scope,
            *("append", "--stream", stream, "--term", "3"),
            stdin=b"x",
        )
        done = termgate("seal", "--scope", scope, "--term", "4", "--json", url=self.url)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"], error["exit"]) == (3, "TG001", 3)
        assert self.run_ok("read", "--stream", stream) == "1\t3\thello\\x0a\n2\t3\ttwo\n"
        rows = [json.loads(line) for line in self.run_ok("read", "--stream", stream, "--json", "--from", "2").splitlines()]
        assert [(row["sequence_no"], row["term"], row["payload"]) for row in rows] == [(2, 3, "two")]
        assert self.run_ok("fence", "show", "--scope", scope) == "5\n"
        assert scope in self.run_ok("status")
        assert "all guarantees kept" in self.run_ok("verify")
        history = json.loads(self.run_ok("explain", "--scope", scope, "--json"))
        assert history["fence"]["fence"] == 5
        assert any(event["action"] == "seal" for event in history["events"]), history

    def test_a_hand_over_prints_its_receipt(self):
        scope = self.name("handed over")
        self.refused(1, "nobody holds the lease", "lease", "hand-over", "--scope", scope)
        self.run_ok("lease", "acquire", "--scope", scope, "--owner", "old:1", "--ttl", "60s")
        self.refused(2, "is not a duration", "lease", "hand-over", "--scope", scope, "--drain", "soon")
        assert self.run_ok("lease", "hand-over", scope, "--to", "new:*", "--no-wait", "--reason", "a deploy") == "old:1 is asked to leave\n"
        assert "asked to leave to new:*" in self.run_ok("status")
        rows = [row for row in json.loads(self.run_ok("status", "--json"))["scopes"] if row["scope"] == scope]
        assert (rows[0]["hand_over"]["state"], rows[0]["hand_over"]["to"]) == ("asked", "new:*")
        # It waits for the successor, who comes while it does.
        printed = []
        words = ("lease", "hand-over", scope, "--to", "new:*", "--json")
        asking = threading.Thread(target=lambda: printed.append(termgate(*words, url=self.url)))
        asking.start()
        assert eventually(lambda: self.asked(scope) == 2)
        self.run_ok("lease", "release", "--scope", scope, "--owner", "old:1", "--term", "1")
        self.refused(4, "is old:1's", "lease", "acquire", "--scope", scope, "--owner", "another", "--ttl", "60s")
        self.run_ok("lease", "acquire", "--scope", scope, "--owner", "new:7", "--ttl", "60s")
        asking.join(20)
        receipt = json.loads(printed[0].stdout)
        assert printed[0].returncode == 0
        wanted = {"state": "taken", "owner": "old:1", "term": 1, "next_owner": "new:7", "next_term": 2, "reason": "planned"}
        assert receipt | wanted == receipt, receipt
        assert receipt["gap_ms"] >= 0
        assert "asked to leave" not in self.run_ok("status").split(scope)[1].splitlines()[0]

    def test_a_hand_over_that_comes_to_nothing_says_so(self):
        scope = self.name("not handed over")
        self.run_ok("lease", "acquire", "--scope", scope, "--owner", "old", "--ttl", "60s")
        done = termgate("lease", "hand-over", scope, "--drain", "200ms", url=self.url)
        assert (done.returncode, "old (term 1) has not left" in done.stdout.decode()) == (4, True), done
        self.refused(5, "no longer held", "lease", "renew", "--scope", scope, "--owner", "old", "--term", "1", "--ttl", "60s")

    def test_watch_tells_each_change(self):
        scope = self.name("watched")
        with self.start("lease", "watch", "--scope", scope, "--interval", "100ms", text=True) as watch:
            self.addCleanup(watch.kill)
            told = lambda: watch.stdout.readline().rstrip("\n")
            assert told() == "nobody"
            lease = ("--scope", scope, "--owner")
            self.run_ok("lease", "acquire", *lease, "a:1", "--ttl", "60s", "--endpoint", "http://a")
            assert told() == "1\ta:1\thttp://a"
            self.run_ok("lease", "renew", *lease, "a:1", "--term", "1", "--ttl", "60s")  # tells nothing
            self.run_ok("lease", "release", *lease, "a:1", "--term", "1")
            assert told() == "nobody"
            self.run_ok("lease", "acquire", *lease, "b:1", "--ttl", "1s")
            assert told() == "2\tb:1\t"
            assert told() == "nobody", "it ran out"
            watch.terminate()

    def asked(self, scope):
        events = json.loads(self.run_ok("explain", "--scope", scope, "--json"))["events"]
        return len([event for event in events if event["action"] == "request_hand_over"])

    def test_a_forced_release_needs_a_reason_and_leaves_one_row(self):
        scope = self.name("forced")
        self.run_ok("lease", "acquire", "--scope", scope, "--owner", "one", "--ttl", "60s")
        self.refused(2, "--reason is missing", "lease", "force-release", "--scope", scope)
        self.refused(2, "--reason is empty", "lease", "force-release", "--scope", scope, "--reason", " ")
        self.run_ok("lease", "force-release", "--scope", scope, "--reason", 'node "3" is on fire')
        events = json.loads(self.run_ok("explain", "--scope", scope, "--json"))["events"]
        forced = [event["detail"] for event in events if event["action"] == "force_release"]
        wanted = {"term": 2, "previous": 1, "owner": "one", "reason": 'node "3" is on fire', "evicted": 0}
        assert len(forced) == 1 and forced[0] | wanted == forced[0], events
        assert all(isinstance(event["detail"], dict) for event in events), events

    def test_doctor_has_a_status_for_cron(self):
        self.run_ok("doctor")
        self.refused(2, "must be error or warning", "doctor", "--fail-on", "info")
        found = {row["severity"] for row in json.loads(self.run_ok("doctor", "--json"))["advice"]}
        for wanted, severities in (("error", {"error"}), ("warning", {"error", "warning"})):
            done = termgate("doctor", "--fail-on", wanted, url=self.url)
            assert done.returncode == (1 if found & severities else 0), done.stdout

    def test_payloads_come_back_in_each_form(self):
        # Longer than what is printed at a time, and with what each form has to escape; base64 with each length of its last group.
        text = "caf\u00e9 \U0001f512 \"quoted\" back\\slash\ttab\u0085 " * 3000
        payloads = [text.encode(), b"\xff" + os.urandom(50_000), b"\xfe" * 50_000, b"\xfd" * 50_002, b"", b"\xff", bytes(range(256)) * 300]
        stream = self.name("stream")
        for payload in payloads:
            self.run_ok("append", "--stream", stream, "--term", "1", stdin=payload)
        rows = [json.loads(line) for line in self.run_ok("read", "--stream", stream, "--json").split("\n")[:-1]]
        assert [
            row["payload"].encode() if "payload" in row else base64.b64decode(row["payload_base64"], validate=True) for row in rows
        ] == payloads
        assert list(rows[1]) == ["sequence_no", "scope", "term", "payload_base64", "created_at", "write_id"]
        lines = self.run_ok("read", "--stream", stream).split("\n")[:-1]
        printed = [
            re.sub(
                rb"\\(x[0-9a-f]{2}|\\)",
                lambda found: b"\\" if found[1] == b"\\" else bytes.fromhex(found[1][1:].decode()),
                line.split("\t", 2)[2].encode(),
            )
            for line in lines
        ]
        assert printed == payloads
        assert termgate("read", "--stream", stream, "--raw", url=self.url).stdout == b"".join(payload + b"\n" for payload in payloads)

    def test_expect(self):
        stream = self.name("stream")
        self.refused(6, "TG003", "append", "--stream", stream, "--term", "1", "--expect", "1", stdin=b"x")
        self.run_ok("append", "--stream", stream, "--term", "1", "--expect", "0", stdin=b"x")
        self.refused(6, "TG003", "append", "--stream", stream, "--term", "1", "--expect", "0", stdin=b"x")
        self.refused(2, "--expect", "append", "--stream", stream, "--term", "1", "--expect", "minus one", stdin=b"x")
        assert self.last_no(stream) == 1

    def test_write_id(self):
        stream, uuid = self.name("stream"), "6f1f6a0e-3b1c-4f0e-9a51-%012x" % (os.getpid() * 1000 + Cases.count)
        assert termgate("outcome", uuid, url=self.url).returncode == 1
        for _ in range(2):
            assert self.run_ok("append", "--stream", stream, "--term", "1", "--write-id", uuid, stdin=b"x") == "1\n"
        assert "committed under term 1" in self.run_ok("outcome", uuid)
        self.refused(9, "TG005 malformed write id", "append", "--stream", stream, "--term", "1", "--write-id", "7", stdin=b"x")

    def test_lease(self):
        scope = self.name("scope")
        term, owner = self.run_ok("lease", "acquire", "--scope", scope, "--ttl", "1m").strip().split("\t")
        assert term == "1"
        # Host, process and eight random digits: no two commands are one owner.
        assert re.search(rf"^{re.escape(socket.gethostname())}:\d+:[0-9a-f]{{8}}$", owner)
        said = self.refused(4, re.escape(owner), "lease", "acquire", "--scope", scope, "--ttl", "1m")
        assert "term 1" in said
        said = self.refused(4, re.escape(owner), "lease", "acquire", "--scope", scope, "--owner", "b")
        assert "term 1" in said
        assert "renewed" in self.run_ok("lease", "renew", "--scope", scope, "--owner", owner, "--term", term, "--ttl", "1m")
        self.refused(5, "stop leading", "lease", "renew", "--scope", scope, "--owner", "b", "--term", term)
        assert owner in self.run_ok("lease", "list")
        assert owner in self.run_ok("lease", "list", "--state", "held")
        assert owner not in self.run_ok("lease", "list", "--state", "released")
        self.refused(2, "held, expired, released", "lease", "list", "--state", "gone")
        assert "held" in self.run_ok("lease", "show", scope)
        self.run_ok("lease", "force-release", "--scope", scope, "--reason", "test")
        self.refused(3, "TG001", "append", "--stream", self.name("s"), "--scope", scope, "--term", term, stdin=b"x")
        term2, owner2 = self.run_ok("lease", "acquire", "--scope", scope, "--owner", "b").strip().split("\t")
        assert int(term2) > int(term)
        self.run_ok("lease", "release", "--scope", scope, "--owner", owner2, "--term", term2)
        self.refused(5, "not held", "lease", "release", "--scope", scope, "--owner", owner2, "--term", term2)

    def test_exec_is_one_transaction(self):
        scope, table = self.name("scope"), f"exec_{os.getpid()}_{Cases.count}"
        self.run_ok(
            "exec", "--scope", scope, "--term", "2", f"CREATE TABLE {table} (id integer PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)"
        )
        self.refused(9, "TG005 the statement", "exec", "--scope", scope, "--term", "2", "SELECT $1")
        self.refused(1, ".", "exec", "--scope", scope, "--term", "2", f"INSERT INTO {table} VALUES (2)", f"INSERT INTO {table} VALUES (1)")
        self.refused(9, "TG005.*(commit|COMMIT)", "exec", "--scope", scope, "--term", "2", f"INSERT INTO {table} VALUES (3)", "COMMIT")
        rows = json.loads(self.run_ok("exec", "--scope", scope, "--term", "2", f"SELECT id FROM {table}", "--json"))["results"][0]["rows"]
        assert rows == [{"id": 1}]

    def test_exec_prints_valid_json_whatever_the_values(self):
        done = self.run_ok("exec", "--scope", self.name("scope"), "--term", "1", "--json", self.odd_values)

        def refuse(word):
            pytest.fail(f"{word} is no JSON")

        row = json.loads(done, parse_constant=refuse)["results"][0]["rows"][0]
        assert row == dict(self.odd_row, a=1, a_3=2, a_2=3, a_4=4)
        said = termgate("exec", "--scope", b"caf\xe9", "--term", "1", "--json", b"\xff", url=self.url).stdout
        assert "error" in json.loads(said.decode())
        said = termgate(b"caf\xe9", "--json").stdout
        assert "caf" in json.loads(said.decode())["error"]["message"]

    def test_terms_and_scopes_that_are_none(self):
        stream = self.name("stream")
        for term in ("0", "4611686018427387905", "0x5"):
            self.refused(9, "TG005 malformed term", "append", "--stream", stream, f"--term={term}", stdin=b"x")
        self.refused(9, "TG005 malformed scope.*UTF-8", "seal", "--scope", b"caf\xe9", "--term", "1")
        for words in (["append", "--stream", stream, "--term="], ["seal", "--scope=", "--term", "1"]):
            assert termgate(*words, url=self.url).returncode in (2, 9), words
        assert self.last_no(stream) == 0
        self.run_ok("append", "--stream", stream, "--term", "4611686018427387904", stdin=b"x")

    def test_an_input_that_cannot_be_read_is_not_an_empty_one(self):
        stream = self.name("stream")
        words = [TERMGATE, "append", "--stream", stream, "--term", "1"]
        env = dict(environment, TERMGATE_DB=self.url)
        directory = os.open(scratch.name, os.O_RDONLY)
        with open("/proc/self/mem", "rb") as unmapped:
            for lines in ([], ["--lines"]):
                for stdin in (directory, unmapped):
                    done = subprocess.run([*words, *lines], stdin=stdin, capture_output=True, env=env, timeout=60)
                    assert (done.returncode, done.stdout) == (1, b""), done.stderr
                    assert re.search("standard input: reading it failed: (Is a directory|Input/output error)", done.stderr.decode())
                closed = subprocess.run(["bash", "-c", 'exec "$0" "$@" <&-', *words, *lines], capture_output=True, env=env, timeout=60)
                assert (closed.returncode, closed.stdout) == (1, b""), closed.stderr
                assert "reading it failed" in closed.stderr.decode()
                self.refused(2, "--file .*directory", *words[1:], *lines, "--file", scratch.name)
                self.refused(2, "--file .*No such file", *words[1:], *lines, "--file", scratch.name + "/none")
        os.close(directory)
        assert self.last_no(stream) == 0

    def test_an_input_that_fails_half_way_is_told_with_what_was_written(self):
        stream = self.name("stream")
        # A connection that its other side resets fails after its first lines.
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as side:
            given, _ = server.accept()
            with given:
                process = self.start("append", "--stream", stream, "--term", "1", "--lines", stdin=given)
            side.sendall(b"one\ntwo\n")
            self.wait_for(lambda: self.last_no(stream) == 2)
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        out, said = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, b""), said
        assert re.search("2 lines were written before, up to number 2", said.decode())
        assert re.search(r"standard input: reading it failed: .* \(after line 2\)", said.decode())

    def wait_for(self, holds, limit=30):
        assert eventually(holds, limit, 0.02), "it did not come about in time"

    def test_lines_are_written_while_the_input_goes_on(self):
        stream = self.name("stream")
        process = self.start("append", "--stream", stream, "--term", "1", "--lines", "--json")
        for text, count in ((b"one\ntw", 1), (b"o\nthree\nbeg", 3)):
            process.stdin.write(text)
            process.stdin.flush()
            self.wait_for(lambda: self.last_no(stream) == count)
        # The first interrupt ends it although nothing comes: the line that was begun is not written.
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 1
        out, _ = process.communicate()
        assert json.loads(out) == {"written": 3, "last": 3, "interrupted": True}
        assert self.run_ok("read", "--stream", stream, "--raw") == "one\ntwo\nthree\n"

    def test_lines_by_many_and_by_long_ones_come_back_in_order(self):
        stream = self.name("stream")
        lines = [b"a" * 10, b"b" * (3 << 20), b"", b"c" * ((1 << 20) - 1), *(b"line %d" % number for number in range(2500)), b"last"]
        assert self.run_ok("append", "--stream", stream, "--term", "1", "--lines", stdin=b"\n".join(lines)) == f"{len(lines)}\n"
        assert termgate("read", "--stream", stream, "--raw", url=self.url).stdout.splitlines() == lines

    @long
    def test_reading_large_writes_is_quick_and_holds_few(self):
        stream = self.name("stream")
        path = Path(scratch.name) / "large"
        path.write_bytes(os.urandom(16 << 20))
        for _ in range(8):
            self.run_ok("append", "--stream", stream, "--term", "1", "--file", str(path))
        self.run_ok("append", "--stream", stream, "--term", "1", "--lines", stdin=b"small\n" * 700)
        status, error, megabytes, seconds = measured("read", "--stream", stream, url=self.url)
        assert status == 0, error
        assert megabytes < 240
        assert seconds < 6
        assert self.run_ok("read", "--stream", stream, "--raw", "--from", "9") == "small\n" * 700
        path.unlink()

    def test_settings_are_set_together_or_not_at_all(self):
        self.run_ok("settings", "check_wait_ms=5000", "eviction_grace_ms=1000")
        for wrong in ("eviction_grace_ms=never", "no_such=1"):
            self.refused(9, "TG005", "settings", "check_wait_ms=4321", wrong)
        self.refused(2, "NAME=VALUE", "settings", "check_wait_ms=4321", "eviction_grace_ms")
        assert json.loads(self.run_ok("settings", "--json"))["check_wait_ms"] == "5000"
        said = json.loads(self.run_ok("settings", "--json", "check_wait_ms=5001", "eviction_grace_ms=1001"))
        assert (said["check_wait_ms"], said["eviction_grace_ms"]) == ("5001", "1001")
        self.run_ok("settings", "check_wait_ms=5000", "eviction_grace_ms=1000")

    def test_a_refusal_steers_no_terminal(self):
        scope = self.name("\x1b[31m red \u009b32m\ntermgate: done \\")
        self.run_ok("seal", "--scope", scope, "--term", "5")
        said = self.refused(3, r"TG001 stale term 4 for scope \"\\x1b\[31m red \\xc2\\x9b32m", "seal", "--scope", scope, "--term", "4")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)
        assert "\ntermgate: done" not in said
        told = termgate("seal", "--scope", scope, "--term", "4", "--json", url=self.url)
        assert scope in json.loads(told.stdout)["error"]["message"]

    def test_prune_of_no_stream(self):
        for words in (["--before", "9"], ["--keep-last", "9"]):
            self.refused(9, "TG005 there is no stream \"nope\"", "prune", "--stream", "nope", *words)

    def test_init_refuses_before_it_installs(self):
        url = self.fresh()
        for status, text, *words in self.refused_by_init:
            self.refused(status, text, "init", *words, url=url)
            self.refused(1, "termgate init", "status", url=url)

    def test_two_init_at_once(self):
        url = self.fresh()
        results = []
        threads = [threading.Thread(target=lambda: results.append(termgate("init", url=url))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for done in results:
            assert done.returncode == 0, done.stderr.decode()
        assert "nothing to upgrade" in termgate("init", url=url).stdout.decode()

    def test_interrupt_tells_what_was_written(self):
        stream = self.name("stream")
        with subprocess.Popen(["yes", "x" * 100], stdout=subprocess.PIPE) as lines:
            process = self.start("append", "--stream", stream, "--term", "1", "--lines", "--json", stdin=lines.stdout)
            lines.stdout.close()
            self.wait_for(lambda: self.last_no(stream) > 0, 60)
            process.send_signal(signal.SIGINT)
            told = json.loads(process.communicate(timeout=60)[0])
        assert (process.returncode, told["interrupted"], told["written"]) == (1, True, self.last_no(stream))
        assert "all guarantees kept" in self.run_ok("verify")

    def test_reset_prune(self):
        scope, stream = self.name("scope"), self.name("stream")
        for term in ("1", "2", "1000000000000000000"):
            self.run_ok("append", "--stream", stream, "--scope", scope, "--term", term, stdin=b"x")
        assert "stands at 2" in self.run_ok("fence", "reset", "--scope", scope, "--term", "2", "--reason", "typo")
        self.run_ok("append", "--stream", stream, "--term", "3", stdin=b"x")
        assert "3 rows deleted" in self.run_ok("prune", "--stream", stream, "--keep-last", "1")
        self.refused(3, "TG001", "append", "--stream", stream, "--term", "2", stdin=b"x")


class OnSqlite(Cases, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = f"sqlite:{scratch.name}/cli.db"
        assert termgate("init", url=cls.url).returncode == 0

    odd_values = "SELECT 1e400 AS e, -1e400 AS m, cast(x'ff' AS text) AS c, 1 AS a, 2 AS a, 3 AS a_2, 4 AS a"
    odd_row = {"e": "Infinity", "m": "-Infinity", "c": {"payload_base64": "/w=="}}
    refused_by_init = [
        (9, "TG005 SQLite has no roles", "--grant", "app=write"),
        (9, "TG005 .*no failover", "--failover", "synchronous"),
        (2, "the level is", "--grant", "app=all"),
        (2, "--failover is", "--failover", "maybe"),
    ]
    files = 0

    def fresh(self):
        OnSqlite.files += 1
        return f"sqlite:{scratch.name}/fresh{OnSqlite.files}.db"

    def test_memory_stays_bounded_by_a_payload(self):
        stream = self.name("stream")
        path = Path(scratch.name) / "endless"
        with open(path, "wb") as file:
            file.write(b"one\n")
            file.truncate(1 << 30)
        for words, said, most in (
            (["--file", str(path)], "TG005 a payload of 1073741824 bytes is over the limit", 100),
            (["--lines", "--file", str(path)], "TG005 line 2 has more than 268435456 bytes", 400),
        ):
            status, error, megabytes, _ = measured("append", "--stream", stream, "--term", "1", *words, url=self.url)
            assert status == 9, error
            assert said in error
            assert megabytes < most
        path.unlink()
        assert self.last_no(stream) == 0


class OnPostgresql(Cases, unittest.TestCase):
    odd_values = "SELECT 'Infinity'::float8 AS e, '-Infinity'::float8 AS m, 'NaN'::float8 AS n, 1 AS a, 2 AS a, 3 AS a_2, 4 AS a"
    odd_row = {"e": "Infinity", "m": "-Infinity", "n": "NaN"}
    refused_by_init = [
        (1, "no such role", "--grant", "nobody_at_all=write"),
        (2, "the level is", "--grant", "postgres=all"),
        (2, "--failover is", "--failover", "maybe"),
    ]
    databases = 0

    @classmethod
    def setUpClass(cls):
        cls.url = cls.fresh(cls)
        done = termgate("init", url=cls.url)
        assert done.returncode == 0, done.stderr

    def fresh(self):
        OnPostgresql.databases += 1
        name = f"cli_{os.getpid()}_{OnPostgresql.databases}"
        psql(server(), f"CREATE DATABASE {name}")
        return with_database(server(), name)

    @classmethod
    def tearDownClass(cls):
        names = (f"cli_{os.getpid()}_{number}" for number in range(1, cls.databases + 1))
        psql(server(), *(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names))

    def test_another_schema(self):
        url = self.fresh()
        assert termgate("init", "--schema", 'odd "schema"', url=url).returncode == 0
        done = termgate("seal", "--schema", 'odd "schema"', "--scope", "x", "--term", "2", url=url)
        assert done.returncode == 0, done.stderr
        self.refused(1, "termgate init", "seal", "--scope", "x", "--term", "2", url=url)


class AsRoles(unittest.TestCase):
    """On PostgreSQL as the roles that users have: layer 1's owner, the owner of the database, and plain ones with a level each."""

    number = 0

    def setUp(self):
        AsRoles.number += 1
        self.tag = f"cli_roles_{os.getpid()}_{AsRoles.number}"
        self.roles = {what: f"{self.tag}_{what}" for what in ("owner", "dbo", "app", "other")}
        self.addCleanup(self.clean_up)
        psql(
            server(),
            *(f"CREATE ROLE {role} LOGIN" for role in self.roles.values()),
            f"CREATE DATABASE {self.tag} OWNER {self.roles['dbo']}",
            f"GRANT CREATE ON DATABASE {self.tag} TO {self.roles['owner']}",
            f"GRANT pg_signal_backend TO {self.roles['owner']}",
        )
        self.admin = with_database(server(), self.tag)

    def clean_up(self):
        databases = (f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in (self.tag, self.tag + "_latin1"))
        psql(server(), *databases, *(f"DROP ROLE IF EXISTS {role}" for role in self.roles.values()))

    def url(self, what, database=None):
        return re.sub(r"//([^@]*@)?", f"//{self.roles.get(what, what)}@", with_database(server(), database or self.tag), count=1)

    def sql(self, what, *statements):
        words = [word for statement in statements for word in ("-c", statement)]
        done = captured(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", self.admin if what == "admin" else self.url(what), *words])
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def sql_fails(self, text, what, statement):
        done = captured(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", self.url(what), "-c", statement])
        assert done.returncode != 0, done.stdout
        assert re.search(text, done.stderr)

    def ok(self, what, *words, **more):
        done = termgate(*words, url=self.admin if what == "admin" else self.url(what), **more)
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        return done.stdout.decode()

    def fails(self, status, text, what, *words, **more):
        done = termgate(*words, url=self.url(what), **more)
        said = done.stderr.decode()
        assert done.returncode == status, said + done.stdout.decode()
        assert re.search(text, said)
        return said

    def table(self, name="accounts"):
        self.sql("admin", f"CREATE SCHEMA IF NOT EXISTS app AUTHORIZATION {self.roles['app']}")
        self.sql(
            "app",
            f"CREATE TABLE app.{name} (id int PRIMARY KEY, scope text, term bigint)",
            f"CREATE INDEX ON app.{name} (scope, term)",
            f"GRANT USAGE ON SCHEMA app TO {self.roles['owner']}, {self.roles['other']}",
            f"GRANT SELECT ON app.{name} TO {self.roles['owner']}",
            f"GRANT ALL ON app.{name} TO {self.roles['other']}",
        )

    # ---- uninstall ------------------------------------------------------------------------------

    def test_uninstall_leaves_nothing_of_its_own(self):
        self.ok("owner", "init")
        self.table()
        self.ok("owner", "init", "--grant", self.roles["app"] + "=operate")
        self.sql(
            "app",
            "SELECT termgate.protect('app.accounts', scope_column => 'scope')",
            "SELECT termgate.adopt('app.accounts', 'scope', 'term')",
            "SELECT termgate.unprotect('app.accounts')",
            "SELECT termgate.unadopt('app.accounts')",
        )
        self.fails(2, "--yes", "owner", "uninstall")
        self.ok("owner", "uninstall", "--yes")
        assert self.sql("admin", "SELECT count(*) FROM pg_namespace WHERE nspname = 'termgate'") == "0"
        assert self.sql("admin", "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'termgate%'") == "0"
        assert self.sql("admin", "SELECT count(*) FROM app.accounts") == "0"

    def test_uninstall_drops_nothing_that_is_not_its_own(self):
        self.ok("owner", "init")
        made = (  # what is created, as what it is listed, its name and the rest
            ("TABLE", "table", "entries", "(id serial, n int GENERATED ALWAYS AS IDENTITY)"),
            ("VIEW", "view", "mine", "AS SELECT 1 AS one"),
            ("MATERIALIZED VIEW", "materialized view", "kept", "AS SELECT 1 AS one"),
            ("SEQUENCE", "sequence", "numbers", ""),
            ("DOMAIN", "type", "word", "AS text"),
            ("TYPE", "type", "pair", "AS (a int, b int)"),
            ("TYPE", "type", "mood", "AS ENUM ('good')"),
            ("FUNCTION", "function", "ours()", "RETURNS int LANGUAGE sql AS 'SELECT 1'"),
            ("AGGREGATE", "aggregate", "total(integer)", "(sfunc = int4pl, stype = int)"),
            ("STATISTICS", "statistics object", "figures", "ON id, n FROM termgate.entries"),
            ("COLLATION", "collation", "plain", 'FROM "C"'),
        )
        creates = (f"CREATE {kind} termgate.{name} {rest}" for kind, _, name, rest in made)
        self.sql("owner", "SET search_path = termgate", *creates, "INSERT INTO termgate.entries DEFAULT VALUES")
        for what in ("owner", "admin"):
            done = termgate("uninstall", "--yes", url=self.admin if what == "admin" else self.url(what))
            assert done.returncode == 1, done.stdout
            said = done.stderr.decode()
            for _, kind, name, _ in made:
                assert re.search(rf"{kind} termgate\.{re.escape(name)} .*(ALTER|DROP)", said), said
            assert "entries_id_seq" not in said
            assert "ALTER TABLE termgate.entries SET SCHEMA public" in said
        assert self.sql("owner", "SELECT count(*) FROM termgate.entries") == "1"
        assert self.sql("owner", "SELECT termgate.check_term('still there', 3)") == "3"
        # The commands that it names are enough.
        commands = [re.search(r"(DROP [A-Z ]+ termgate\.[^;]+;)", line).group(1) for line in said.splitlines() if " or DROP " in line]
        assert len(commands) == len(made)
        for command in sorted(commands, key=lambda one: "STATISTICS" not in one):
            self.sql("admin", command)
        self.ok("owner", "uninstall", "--yes")

    def test_uninstall_drops_nothing_that_depends_on_it(self):
        self.ok("owner", "init", "--grant", self.roles["app"] + "=operate")
        self.table()
        self.table("jobs")
        self.sql(
            "app",
            "CREATE VIEW app.leaders AS SELECT * FROM termgate.lease_status",
            "CREATE TABLE app.times (at timestamptz DEFAULT termgate.server_time())",
            "CREATE TABLE app.ruled (n bigint CHECK (n < termgate.schema_version()))",
            "SELECT termgate.protect('app.accounts', scope => 'billing')",
            "SELECT termgate.adopt('app.jobs', 'scope', 'term')",
        )
        said = self.fails(1, "changed nothing", "owner", "uninstall", "--yes")
        for command in (
            "DROP VIEW app.leaders;",
            "ALTER TABLE app.times ALTER COLUMN at DROP DEFAULT;",
            "ALTER TABLE app.ruled DROP CONSTRAINT ruled_n_check;",
            "SELECT termgate.unprotect('app.accounts');",
            "SELECT termgate.unadopt('app.jobs');",
        ):
            assert command in said and ("SELECT" not in command or f"as {self.roles['app']}: {command}" in said)
            self.sql("app", command)
        self.ok("owner", "uninstall", "--yes")

    def test_uninstall_says_where_nothing_was_installed(self):
        for who in ("owner", "app"):
            said = self.ok(who, "uninstall", "--yes")
            assert "nothing was installed in postgresql://" in said
            assert "/" + self.url(who).rsplit("/", 1)[1] in said
        assert json.loads(self.ok("owner", "uninstall", "--yes", "--json")) == {"uninstalled": False}
        self.ok("owner", "init")
        assert json.loads(self.ok("owner", "uninstall", "--yes", "--json")) == {"uninstalled": True}

    # ---- init -----------------------------------------------------------------------------------

    def test_init_says_what_it_granted_and_revokes(self):
        assert f"granted write to {self.roles['app']}" in self.ok("owner", "init", "--grant", self.roles["app"] + "=write")
        assert self.sql("app", "SELECT termgate.check_term('x', 5)") == "5"
        said = self.ok("owner", "init", "--grant", self.roles["other"] + "=lead")
        assert f"granted lead to {self.roles['other']}" in said
        said = self.ok("owner", "init", "--revoke", self.roles["app"])
        assert f"revoked from {self.roles['app']}: every level" in said
        assert "still has" not in said
        self.sql_fails("42501", "app", "SELECT termgate.check_term('x', 5)")
        # What comes through others stays, and is said.
        self.sql("admin", f"GRANT {self.roles['other']} TO {self.roles['app']}")
        self.ok("owner", "init", "--grant", "PUBLIC=read")
        said = self.ok("owner", "init", "--grant", self.roles["app"] + "=operate", "--revoke", self.roles["app"])
        assert f"granted operate to {self.roles['app']}" in said
        said = self.ok("owner", "init", "--revoke", self.roles["app"])
        assert f"it still has level lead through role {self.roles['other']}" in said
        assert "it still has level read through PUBLIC" in said
        document = json.loads(self.ok("owner", "init", "--json", "--revoke", self.roles["app"]))
        assert [kept["level"] for kept in document["revoked"][0]["keeps"]] == ["lead", "read"]
        self.fails(1, "no such role", "owner", "init", "--revoke", "nobody_at_all")

    def test_init_warns_of_an_owner_that_is_a_superuser(self):
        assert "superuser" not in self.ok("owner", "init")
        self.ok("owner", "uninstall", "--yes")
        assert "a superuser, owns layer 1" in self.ok("admin", "init")
        assert "a superuser, owns layer 1" in self.ok("admin", "init")
        self.ok("admin", "uninstall", "--yes")

    def test_public_gets_read_or_write(self):
        self.fails(2, "PUBLIC gets read or write", "owner", "init", "--grant", "PUBLIC=lead")
        self.fails(2, "PUBLIC gets read or write", "owner", "init", "--grant", "public=operate")
        self.ok("owner", "init")
        self.sql_fails("42501", "other", "SELECT termgate.check_term('x', 1)")
        assert "warning: every login" in self.ok("owner", "init", "--grant", "PUBLIC=write")
        assert self.sql("other", "SELECT termgate.check_term('x', 5)") == "5"
        self.sql_fails("42501", "other", "SELECT termgate.seal('x', 6)")
        for level in ("lead", "operate"):
            self.sql_fails("TG005", "owner", f"SELECT termgate.grant_level('public', '{level}')")
        assert "PUBLIC: has level write" in self.ok("owner", "doctor")
        assert "revoked from PUBLIC" in self.ok("owner", "init", "--revoke", "PUBLIC")
        self.sql_fails("42501", "other", "SELECT termgate.check_term('x', 5)")
        assert "PUBLIC: has level write" not in self.ok("owner", "doctor")

    def test_init_by_another_role_says_whose_it_is(self):
        self.ok("owner", "init")
        self.fails(1, f"belongs to role {self.roles['owner']}", "app", "init", "--grant", self.roles["app"] + "=lead")
        assert "nothing to upgrade" in self.ok("owner", "init")

    def test_a_database_of_another_encoding(self):
        psql(server(), f"CREATE DATABASE {self.tag}_latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        done = termgate("init", url=with_database(server(), self.tag + "_latin1"))
        assert done.returncode == 1
        assert re.search("encoding UTF8, and this one has LATIN1", done.stderr.decode())

    # ---- dumps ----------------------------------------------------------------------------------

    def test_the_owner_of_the_database_dumps_it(self):
        assert f"role {self.roles['dbo']}, the owner of this database" in self.ok("owner", "init", "--grant", self.roles["app"] + "=write")
        self.table()
        self.sql(
            "app",
            "SELECT termgate.protect('app.accounts', scope => 'billing')",
            "BEGIN; SELECT termgate.check_term('billing', 5); INSERT INTO app.accounts VALUES (1, 'billing', 5); COMMIT",
        )
        self.sql("admin", f"GRANT USAGE ON SCHEMA app TO {self.roles['dbo']}", f"GRANT SELECT ON app.accounts TO {self.roles['dbo']}")
        file = Path(scratch.name) / f"{self.tag}.sql"
        subprocess.run(["pg_dump", "-f", str(file), self.url("dbo")], check=True, capture_output=True)
        # It reads the fences. It can neither change them nor learn what signs the mark of a passed check.
        assert self.sql("dbo", "SELECT term FROM termgate.fences WHERE scope = 'billing'") == "5"
        for statement in (
            "UPDATE termgate.fences SET term = 1",
            "SELECT key FROM termgate.pass_secret",
            "SELECT termgate.check_term('billing', 9)",
            "BEGIN; LOCK TABLE termgate.fences IN ROW SHARE MODE",
        ):
            self.sql_fails("42501", "dbo", statement)
        # Another role that makes the backups gets dump, beside a level or without one. No level reads a table.
        self.ok("owner", "init", "--grant", self.roles["other"] + "=operate")
        self.sql_fails("42501", "other", "SELECT term FROM termgate.fences")
        self.fails(2, "PUBLIC gets read or write", "owner", "init", "--grant", "PUBLIC=dump")
        self.ok("owner", "init", "--grant", self.roles["other"] + "=dump")
        subprocess.run(["pg_dump", "-n", "termgate", "-f", "/dev/null", self.url("other")], check=True, capture_output=True)
        self.sql_fails("42501", "other", "SELECT key FROM termgate.pass_secret")
        secret = self.sql("owner", "SELECT key FROM termgate.pass_secret")
        assert secret not in file.read_text()

    # ---- doctor ---------------------------------------------------------------------------------

    def test_doctor_counts_end_with_their_cause(self):
        self.ok("owner", "init", "--grant", self.roles["other"] + "=write", "--grant", self.roles["app"] + "=write")
        self.table()
        observe = "SELECT termgate.protect('app.accounts', scope => 'billing', mode => 'observe')"
        self.sql("app", observe)
        self.sql("other", "INSERT INTO app.accounts VALUES (1)")
        assert re.search(r"would have been refused 1 time with TG002", self.ok("owner", "doctor"))
        self.sql("other", "INSERT INTO app.accounts VALUES (2)")
        assert re.search(r"would have been refused 2 times with TG002", self.ok("owner", "doctor"))
        assert termgate("doctor", "--fail-on", "warning", url=self.url("owner")).returncode == 1
        self.sql("app", "SELECT termgate.protect('app.accounts', scope => 'billing')")
        assert "would have been refused" not in self.ok("owner", "doctor")
        self.sql("app", observe)
        assert "would have been refused" not in self.ok("owner", "doctor")
        self.sql("other", "INSERT INTO app.accounts VALUES (3)")
        self.sql("app", "SELECT termgate.unprotect('app.accounts')")
        assert "would have been refused" not in self.ok("owner", "doctor")

    # ---- commands that start processes of their own -----------------------------------------------

    def test_demo_runs_with_level_lead(self):
        self.ok("owner", "init", "--grant", self.roles["app"] + "=write")
        said = self.fails(1, f"demo: role {self.roles['app']} has level write and needs level lead", "app", "demo")
        assert f"termgate init --grant {self.roles['app']}=lead" in said
        self.ok("owner", "init", "--grant", self.roles["app"] + "=lead")
        assert re.search(r"TG001 stale term 1 .*[^$]*all guarantees kept", self.ok("app", "demo"))

    def test_each_says_what_it_lacks(self):
        junit = Path(scratch.name) / "lacks.xml"
        self.fails(1, "drill: this database has no layer 1", "app", "drill", "--scope", "x", "--junit", str(junit), "--", "true")
        assert "not_judged" in junit.read_text()
        self.ok("owner", "init")
        said = self.fails(
            1, f"drill: role {self.roles['app']} has no level and needs level read", "app", "drill", "--scope", "x", "--", "true"
        )
        assert f"Role {self.roles['owner']}, which owns layer 1, runs: termgate init --grant {self.roles['app']}=read" in said
        self.ok("owner", "init", "--grant", self.roles["app"] + "=operate")
        for words in (["bench", "--quick"], ["storm", "--seconds", "1"]):
            self.fails(
                1,
                f"{words[0]}: role {self.roles['app']} is not the owner of layer 1, .*connect as role {self.roles['owner']}",
                "app",
                *words,
            )

    @long
    def test_storm_and_bench_as_the_owner_of_layer_1(self):
        storm = ["storm", "--seconds", "2", "--leaders", "2", "--scopes", "1", "--writers", "1", "--faults", "none"]
        bench = ["bench", "--quick", "--scenario", "check-insert", "--writers", "1", "--batches", "1", "--durable", "no"]
        self.ok("owner", "init")
        self.ok("owner", *storm)
        self.ok("owner", *bench)
        assert self.sql("admin", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'termgate\\_%'") == "0"
        # Also where it is named like the schema, so that an unqualified table of its own lands among layer 1's.
        self.ok("owner", "init", "--schema", self.roles["owner"])
        self.ok("owner", *storm, "--schema", self.roles["owner"])
        self.ok("owner", *bench, "--schema", self.roles["owner"])
        self.ok("owner", "uninstall", "--yes", "--schema", self.roles["owner"])


class TestWithoutDatabase:
    def refused(self, status, text, *words, **more):
        done = termgate(*words, **more)
        assert done.returncode == status, done.stderr.decode()
        assert re.search(text, done.stderr.decode())
        return done.stderr.decode()

    def test_usage(self):
        self.refused(2, "which database", "status")
        self.refused(2, "no command", "frobnicate")
        self.refused(2, "one of", "lease")
        self.refused(2, "unrecognised option|unknown", "status", "--frobnicate", url="sqlite::memory:")
        self.refused(2, "--stream is missing", "append", "--term", "1", url="sqlite::memory:")
        self.refused(2, "not a duration", "lease", "acquire", "--scope", "x", "--ttl", "soon", url="sqlite::memory:")
        assert termgate().returncode == 2
        overview = termgate("--help").stdout.decode()
        assert "\nOther:" not in overview  # each command belongs to a group
        assert overview.index("\nSet up:") < overview.index("  init ")
        assert overview.index("\nProve:") < overview.index("  drill ")
        for words in (["--help"], ["append", "--help"], ["lease", "acquire", "--help"], ["--version"]):
            assert termgate(*words).returncode == 0

    def test_a_word_that_is_nearly_a_command_or_an_option(self):
        described = json.loads(termgate("--help", "--json").stdout)
        words = sorted({command["name"].split()[0] for command in described["commands"]})
        for word in share(words, of=4):
            for typed in (word[0] + word[2:], word[:2] + word[1:], word[1] + word[0] + word[2:] if len(word) > 3 else word + "s"):
                if typed in words:
                    continue
                found = re.search(r"Did you mean (\w+)\?", self.refused(2, "there is no command", typed))
                assert found and found.group(1) in words, typed
        for typed, meant in (("--garnt", "--grant"), ("--revok", "--revoke"), ("--failovver=x", "--failover"), ("--jsn", "--json")):
            self.refused(2, f"Did you mean {meant}\\?", "init", typed, url="sqlite::memory:")
        # A word that is near to nothing is not guessed at.
        for word in ("frobnicate", "x", "--", "日本", "a" * 10_000, "postgresql://someone@somewhere/db"):
            assert "mean" not in self.refused(2, "there is no command", word)
        assert "mean" not in self.refused(2, "unrecognised option", "init", "--frobnicate", url="sqlite::memory:")

    def test_uninstall_of_a_file_without_layer_1(self):
        with tempfile.TemporaryDirectory() as folder:
            done = termgate("uninstall", "--yes", url=f"sqlite:{folder}/none.db")
            assert (done.returncode, done.stdout.decode()) == (0, f"nothing was installed in sqlite:{folder}/none.db\n")
            assert os.listdir(folder) == []

    def test_protect_needs_a_scope_or_its_column(self):
        for words in ((), ("--scope", "billing", "--scope-column", "scope")):
            self.refused(
                2, "protect accounts: give --scope NAME.* or --scope-column COLUMN", "protect", "accounts", *words, url="sqlite::memory:"
            )

    def test_each_family_lists_its_commands_legibly(self):
        for family in ("fence", "lease", "stream"):
            for line in termgate(family, "--help").stdout.decode().splitlines()[1:]:
                assert re.search(r"^  termgate %s [a-z-]+  +[a-z]" % family, line)

    def test_an_interrupted_demo_leaves_nothing(self):
        folder = Path(scratch.name) / "demo"
        folder.mkdir()
        for ending in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [TERMGATE, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(environment, TMPDIR=str(folder))
            )
            while b"SIGSTOP" not in (line := process.stdout.readline()):
                assert line, "the demo ended by itself"
            assert len(list(folder.iterdir())) == 1
            process.send_signal(ending)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 1
            assert b"interrupted" in said
            assert list(folder.iterdir()) == []

    def test_url_of_no_kind(self):
        self.refused(9, "unknown kind of database URL", "status", url="mysql://u:hunter2@h/d")
        self.refused(9, "is not an ODBC driver for SQL Server", "status", url="sqlserver://u:hunter2@h/d?driver=mysql")
        assert "hunter2" not in self.refused(9, ".", "status", url="mysql://u:hunter2@h/d")

    def test_no_server_and_no_password_in_sight(self):
        for url in ("postgresql://u:hunter2@127.0.0.1:1/d", "sqlserver://u:hunter2@127.0.0.1:1/d"):
            said = self.refused(1, "refused|connect", "status", url=url)
            assert "hunter2" not in said
        said = self.refused(9, "TG005.*%40", "status", url="postgresql://u:hunt@er2@127.0.0.1:port/d")
        assert "er2" not in said.replace("server", "")

    def test_no_password_in_sight_wherever_a_url_is_given_by_mistake(self):
        for password in share(("s3 c@r s3cret", "s3cret", "s3c/s3cret"), of=3):
            url = f"postgresql://u:{password}@127.0.0.1:1/db"
            for words in (
                [url],
                ["status", "--dbb=" + url],
                ["status", "--dbb", url],
                ["status", url],
                ["--db", url, "status"],
                ["fence", url],
                ["status", "--db-file", url],
                ["append", "--stream", "s", "--term", url],
                ["append", "--stream", "s", "--term", "1", "--file", url],
                ["settings", url],
                ["status", "--db", url],
                ["status", "--db", "sqlite:/none/" + url],
                ["init", "--grant", url],
                ["lease", "acquire", "--scope", "x", "--ttl", url],
                ["seal", "--scope", url, "--term", url],
            ):
                for json_too in ([], ["--json"]):
                    done = termgate(*words, *json_too)
                    said = (done.stdout + done.stderr).decode()
                    assert done.returncode != 0, words
                    assert "s3c" not in said, words
                    assert "c@r" not in said, words
                    assert said.strip(), words
        self.refused(2, r"no command \"postgresql://u:\*\*\*@h/db\"", "postgresql://u:s3cret@h/db")
        self.refused(9, "TG005.*%2F", "status", url="postgresql://u:s3c/ret@h")

    def test_db_file(self):
        path = Path(scratch.name) / "url"
        path.write_text("sqlite::memory:\nsecond line\n")
        assert termgate("init", "--db-file", str(path)).returncode == 0
        self.refused(2, "cannot be read: No such file", "init", "--db-file", str(path) + "none")
        path.write_text("\n")
        self.refused(2, "nothing in its first line", "init", "--db-file", str(path))
