#!/usr/bin/env python3
"""The command as a person or a script meets it: exit statuses, --json, and what bad input gets.

  cli_test.py TERMGATE_COMMAND SERVER_SCRIPT

Runs every case on an SQLite file and, where TERMGATE_TEST_POSTGRESQL is set, on a database of its own there.
Bad input must end with a clear error, the right status, and nothing written.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

TERMGATE = sys.argv[1]
PG_SERVER = sys.argv[2]
SERVER = os.environ.get("TERMGATE_TEST_POSTGRESQL")
scratch = tempfile.TemporaryDirectory(prefix="termgate-cli.")
environment = {name: value for name, value in os.environ.items() if name != "TERMGATE_DB"}


def termgate(*words, url=None, stdin=b"", extra=None, timeout=120):
    env = dict(environment, **(extra or {}))
    if url is not None:
        env["TERMGATE_DB"] = url
    return subprocess.run([TERMGATE, *words], input=stdin, capture_output=True, env=env, timeout=timeout)


def psql(url, statement):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", url, "-c", statement], check=True, capture_output=True)


def with_database(url, name):
    return re.sub(r"/[^/?]*(\?|$)", lambda m: "/" + name + m.group(1), url, count=1) if "://" not in url else \
        re.sub(r"^([a-z]+://[^/]*)/[^?]*", lambda m: m.group(1) + "/" + name, url)


class Cases:
    """What must hold on every database; the classes below say which."""

    def run_ok(self, *words, **more):
        done = termgate(*words, url=self.url, **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode() + done.stdout.decode())
        return done.stdout.decode()

    def refused(self, status, text, *words, url=None, **more):
        done = termgate(*words, url=url or self.url, **more)
        said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, said + done.stdout.decode(errors="replace"))
        self.assertRegex(said, text)
        return said

    count = 0

    def name(self, what):
        Cases.count += 1
        return f"{what}-{Cases.count}"

    def last_no(self, stream):
        for line in self.run_ok("stream", "list", "--json").splitlines():
            row = json.loads(line)
            if row["stream"] == stream:
                return row["last_no"]
        return 0

    def test_append_read_seal(self):
        scope, stream = self.name("scope"), self.name("stream")
        self.assertEqual(self.run_ok("append", "--stream", stream, "--scope", scope, "--term", "3", stdin=b"hello\n"), "1\n")
        self.assertEqual(self.run_ok("append", "--stream", stream, "--term", "3", "--payload", "two"), "2\n")
        self.assertIn("stands at 5 (before: 3)", self.run_ok("seal", "--scope", scope, "--term", "5"))
        self.refused(3, r"TG001 stale term 3 for scope \"%s\": the fence stands at 5" % scope, "append", "--stream", stream, "--term", "3", stdin=b"x")
        self.assertEqual(self.run_ok("read", "--stream", stream), "1\t3\thello\\x0a\n2\t3\ttwo\n")
        rows = [json.loads(line) for line in self.run_ok("read", "--stream", stream, "--json", "--from", "2").splitlines()]
        self.assertEqual([(row["sequence_no"], row["term"], row["payload"]) for row in rows], [(2, 3, "two")])
        self.assertEqual(self.run_ok("fence", "show", "--scope", scope), "5\n")
        self.assertIn(scope, self.run_ok("status"))
        self.assertIn("law is kept", self.run_ok("verify"))
        history = json.loads(self.run_ok("explain", "--scope", scope, "--json"))
        self.assertEqual(history["fence"]["fence"], 5)
        self.assertTrue(any(event["action"] == "seal" for event in history["events"]), history)

    def test_error_as_json(self):
        scope = self.name("scope")
        self.run_ok("seal", "--scope", scope, "--term", "5")
        done = termgate("seal", "--scope", scope, "--term", "4", "--json", url=self.url)
        self.assertEqual(done.returncode, 3)
        error = json.loads(done.stdout)["error"]
        self.assertEqual((error["code"], error["exit"]), ("TG001", 3))

    def test_lines_come_back_in_order(self):
        stream = self.name("stream")
        lines = [f"line {number}" for number in range(2500)]
        self.assertEqual(self.run_ok("append", "--stream", stream, "--term", "1", "--lines", stdin="\n".join(lines).encode()), "2500\n")
        self.assertEqual(self.run_ok("read", "--stream", stream, "--raw").splitlines(), lines)

    def test_expect(self):
        stream = self.name("stream")
        self.refused(6, "TG003", "append", "--stream", stream, "--term", "1", "--expect", "1", stdin=b"x")
        self.run_ok("append", "--stream", stream, "--term", "1", "--expect", "0", stdin=b"x")
        self.refused(6, "TG003", "append", "--stream", stream, "--term", "1", "--expect", "0", stdin=b"x")
        self.refused(2, "--expect", "append", "--stream", stream, "--term", "1", "--expect", "minus one", stdin=b"x")
        self.assertEqual(self.last_no(stream), 1)

    def test_write_id(self):
        stream, uuid = self.name("stream"), "6f1f6a0e-3b1c-4f0e-9a51-%012x" % (os.getpid() * 1000 + Cases.count)
        self.assertEqual(termgate("outcome", uuid, url=self.url).returncode, 1)
        for _ in range(2):
            self.assertEqual(self.run_ok("append", "--stream", stream, "--term", "1", "--write-id", uuid, stdin=b"x"), "1\n")
        self.assertIn("committed under term 1", self.run_ok("outcome", uuid))
        self.refused(9, "TG005 malformed write id", "append", "--stream", stream, "--term", "1", "--write-id", "7", stdin=b"x")

    def test_lease(self):
        scope = self.name("scope")
        term, owner = self.run_ok("lease", "acquire", "--scope", scope, "--ttl", "1m").strip().split("\t")
        self.assertEqual(term, "1")
        said = self.refused(4, re.escape(owner), "lease", "acquire", "--scope", scope, "--owner", "b")
        self.assertIn("term 1", said)
        self.assertIn("renewed", self.run_ok("lease", "renew", "--scope", scope, "--owner", owner, "--term", term, "--ttl", "1m"))
        self.refused(5, "stop leading", "lease", "renew", "--scope", scope, "--owner", "b", "--term", term)
        self.assertIn(owner, self.run_ok("lease", "list"))
        self.assertIn("held", self.run_ok("lease", "show", scope))
        self.run_ok("lease", "force-release", "--scope", scope, "--reason", "test")
        self.refused(3, "TG001", "append", "--stream", self.name("s"), "--scope", scope, "--term", term, stdin=b"x")
        term2, owner2 = self.run_ok("lease", "acquire", "--scope", scope, "--owner", "b").strip().split("\t")
        self.assertGreater(int(term2), int(term))
        self.run_ok("lease", "release", "--scope", scope, "--owner", owner2, "--term", term2)
        self.refused(5, "not held", "lease", "release", "--scope", scope, "--owner", owner2, "--term", term2)

    def test_exec_is_one_transaction(self):
        scope, table = self.name("scope"), f"exec_{os.getpid()}_{Cases.count}"
        self.run_ok("exec", "--scope", scope, "--term", "2", f"CREATE TABLE {table} (id integer PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
        self.refused(1, ".", "exec", "--scope", scope, "--term", "2", f"INSERT INTO {table} VALUES (2)", f"INSERT INTO {table} VALUES (1)")
        self.refused(9, "TG005.*(commit|COMMIT)", "exec", "--scope", scope, "--term", "2", f"INSERT INTO {table} VALUES (3)", "COMMIT")
        rows = json.loads(self.run_ok("exec", "--scope", scope, "--term", "2", f"SELECT id FROM {table}", "--json"))["results"][0]["rows"]
        self.assertEqual(rows, [{"id": 1}])

    def test_terms_that_are_none(self):
        stream = self.name("stream")
        for term in ["0", "-1", "4611686018427387905", "99999999999999999999999", "five", "5x", "0x5", " 5"]:
            self.refused(9, "TG005 malformed term", "append", "--stream", stream, f"--term={term}", stdin=b"x")
            self.assertEqual(self.last_no(stream), 0)
        self.assertIn(termgate("append", "--stream", stream, "--term=", url=self.url).returncode, (2, 9))
        self.run_ok("append", "--stream", stream, "--term", "4611686018427387904", stdin=b"x")

    def test_scopes_that_are_none(self):
        for scope, problem in [("x" * 201, "200 code points"), ("\U0001F512" * 201, "800 bytes"), (b"caf\xe9", "UTF-8"), (b"\xed\xa0\x80", "UTF-8")]:
            self.refused(9, "TG005 malformed scope.*" + problem, "seal", "--scope", scope, "--term", "1")
        self.assertIn(termgate("seal", "--scope=", "--term", "1", url=self.url).returncode, (2, 9))

    def test_scopes_that_look_alike_are_kept_apart(self):
        base = self.name("\U0001F512 caf\u00e9")
        other = base.replace("\u00e9", "e\u0301")
        self.run_ok("seal", "--scope", base, "--term", "5")
        self.run_ok("seal", "--scope", other, "--term", "3")
        self.assertEqual(self.run_ok("fence", "show", base), "5\n")
        self.assertEqual(self.run_ok("fence", "show", other), "3\n")

    def test_payload_over_the_limit(self):
        stream = self.name("stream")
        path = Path(scratch.name) / "huge"
        with open(path, "wb") as file:
            file.truncate(1 << 30)
        done = termgate("append", "--stream", stream, "--term", "1", "--file", str(path), url=self.url, timeout=300)
        path.unlink()
        self.assertEqual(done.returncode, 9, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), "TG005.*payload.*(limit|most|larger)")
        self.assertEqual(self.last_no(stream), 0)
        self.run_ok("append", "--stream", stream, "--term", "1", stdin=b"")
        self.assertEqual(self.last_no(stream), 1)

    def test_two_init_at_once(self):
        url = self.fresh()
        results = []
        threads = [threading.Thread(target=lambda: results.append(termgate("init", url=url))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for done in results:
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn("nothing to upgrade", termgate("init", url=url).stdout.decode())

    def test_without_init(self):
        url = self.fresh()
        said = self.refused(1, "termgate init", "append", "--stream", "s", "--term", "1", url=url, stdin=b"x")
        self.assertNotIn("Traceback", said)
        self.refused(1, "termgate init", "status", url=url)

    def test_interrupt_keeps_whole_batches(self):
        stream = self.name("stream")
        env = dict(environment, TERMGATE_DB=self.url)
        process = subprocess.Popen([TERMGATE, "append", "--stream", stream, "--term", "1", "--lines", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=env)
        stop = threading.Event()

        def feed():
            try:
                while not stop.is_set():
                    process.stdin.write(b"x" * 100 + b"\n")
                process.stdin.close()
            except (BrokenPipeError, ValueError, OSError):
                pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        deadline = time.monotonic() + 60
        while self.last_no(stream) == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out = process.stdout.read()
        process.wait(timeout=60)
        stop.set()
        feeder.join()  # its write meets a closed pipe
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.returncode, 1)
        told = json.loads(out)
        self.assertTrue(told["interrupted"])
        self.assertEqual(told["written"], self.last_no(stream))
        self.assertEqual(told["written"] % 1000, 0)
        self.assertIn("law is kept", self.run_ok("verify"))

    def test_reset_prune_settings(self):
        scope, stream = self.name("scope"), self.name("stream")
        for term in ("1", "2", "1000000000000000000"):
            self.run_ok("append", "--stream", stream, "--scope", scope, "--term", term, stdin=b"x")
        self.assertIn("stands at 2", self.run_ok("fence", "reset", "--scope", scope, "--term", "2", "--reason", "typo"))
        self.run_ok("append", "--stream", stream, "--term", "3", stdin=b"x")
        self.assertIn("3 rows deleted", self.run_ok("prune", "--stream", stream, "--keep-last", "1"))
        self.refused(3, "TG001", "append", "--stream", stream, "--term", "2", stdin=b"x")
        self.run_ok("settings", "check_wait_ms=4000")
        self.assertEqual(json.loads(self.run_ok("settings", "--json"))["check_wait_ms"], "4000")
        self.refused(9, "TG005", "settings", "check_wait_ms=never")
        self.run_ok("settings", "check_wait_ms=5000")


class OnSqlite(Cases, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = f"sqlite:{scratch.name}/cli.db"
        assert termgate("init", url=cls.url).returncode == 0

    files = 0

    def fresh(self):
        OnSqlite.files += 1
        return f"sqlite:{scratch.name}/fresh{OnSqlite.files}.db"

    def test_a_directory_for_a_file(self):
        self.refused(1, "directory|open", "init", url=f"sqlite:{scratch.name}")

    def test_a_file_that_is_no_database(self):
        path = Path(scratch.name) / "text.db"
        path.write_text("this is no database\n" * 100)
        self.refused(1, "not a database", "init", url=f"sqlite:{path}")
        self.assertTrue(path.read_text().startswith("this is no database"))

    def test_a_read_only_file(self):
        path = Path(scratch.name) / "readonly"
        path.mkdir()
        url = f"sqlite:{path}/app.db?journal_mode=delete"
        termgate("init", url=url)
        words = ["seal", "--scope", "x", "--term", "1"]
        (path / "app.db").chmod(0o444)
        path.chmod(0o555)
        prefix = ["setpriv", "--reuid=65534", "--clear-groups"] if os.getuid() == 0 else []
        Path(scratch.name).chmod(0o755)
        done = subprocess.run(prefix + [TERMGATE, *words], capture_output=True, env=dict(environment, TERMGATE_DB=url))
        path.chmod(0o755)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), "read-?only")

    def test_a_full_disk(self):
        # RLIMIT_FSIZE makes writes fail as on a full disk, for this one process.
        url = f"sqlite:{scratch.name}/full.db"
        self.assertEqual(termgate("init", url=url).returncode, 0)
        size = os.path.getsize(f"{scratch.name}/full.db")
        done = subprocess.run(["bash", "-c", f"trap '' XFSZ; ulimit -f {size // 1024 + 64}; exec {TERMGATE} append --stream s --term 1 --lines"],
                              input=(b"x" * 1000 + b"\n") * 3000, capture_output=True, env=dict(environment, TERMGATE_DB=url))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), "full|disk")
        self.assertEqual(termgate("verify", url=url).returncode, 0)


@unittest.skipUnless(SERVER, "TERMGATE_TEST_POSTGRESQL is not set")
class OnPostgresql(Cases, unittest.TestCase):
    databases = 0

    @classmethod
    def setUpClass(cls):
        cls.url = cls.fresh(cls)
        done = termgate("init", url=cls.url)
        assert done.returncode == 0, done.stderr

    def fresh(self):
        OnPostgresql.databases += 1
        name = f"cli_{os.getpid()}_{OnPostgresql.databases}"
        psql(SERVER, f"CREATE DATABASE {name}")
        return with_database(SERVER, name)

    @classmethod
    def tearDownClass(cls):
        for number in range(1, cls.databases + 1):
            psql(SERVER, f"DROP DATABASE IF EXISTS cli_{os.getpid()}_{number} WITH (FORCE)")

    def test_another_schema(self):
        url = self.fresh()
        self.assertEqual(termgate("init", "--schema", 'odd "schema"', url=url).returncode, 0)
        done = termgate("seal", "--schema", 'odd "schema"', "--scope", "x", "--term", "2", url=url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(1, "termgate init", "seal", "--scope", "x", "--term", "2", url=url)

    def test_uninstall(self):
        url = self.fresh()
        self.assertEqual(termgate("init", url=url).returncode, 0)
        self.refused(2, "--yes", "uninstall", url=url)
        self.assertEqual(termgate("uninstall", "--yes", url=url).returncode, 0)
        self.refused(1, "termgate init", "status", url=url)
        self.assertEqual(termgate("init", url=url).returncode, 0)


class WithoutDatabase(unittest.TestCase):
    def refused(self, status, text, *words, **more):
        done = termgate(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), text)
        return done.stderr.decode()

    def test_usage(self):
        self.refused(2, "which database", "status")
        self.refused(2, "no command", "frobnicate")
        self.refused(2, "one of", "lease")
        self.refused(2, "unrecognised option|unknown", "status", "--frobnicate", url="sqlite::memory:")
        self.refused(2, "--stream is missing", "append", "--term", "1", url="sqlite::memory:")
        self.refused(2, "no duration", "lease", "acquire", "--scope", "x", "--ttl", "soon", url="sqlite::memory:")
        self.assertEqual(termgate().returncode, 2)
        for words in (["--help"], ["append", "--help"], ["lease", "acquire", "--help"], ["--version"]):
            self.assertEqual(termgate(*words).returncode, 0)

    def test_url_of_no_kind(self):
        self.refused(9, "unknown kind of database URL", "status", url="mysql://u:hunter2@h/d")
        self.refused(9, "no driver", "status", url="sqlserver://u:hunter2@h/d")
        self.assertNotIn("hunter2", self.refused(9, ".", "status", url="mysql://u:hunter2@h/d"))

    def test_no_server_and_no_password_in_sight(self):
        said = self.refused(1, "refused|connect", "status", url="postgresql://u:hunter2@127.0.0.1:1/d")
        self.assertNotIn("hunter2", said)
        said = self.refused(1, ".", "status", url="postgresql://u:hunt@er2@127.0.0.1:port/d")
        self.assertNotIn("er2", said.replace("server", ""))

    def test_db_file(self):
        path = Path(scratch.name) / "url"
        path.write_text("sqlite::memory:\nsecond line\n")
        self.assertEqual(termgate("init", "--db-file", str(path)).returncode, 0)
        self.refused(2, "no URL", "init", "--db-file", str(path) + "none")


@unittest.skipUnless(SERVER, "TERMGATE_TEST_POSTGRESQL is not set")
class WithPasswords(unittest.TestCase):
    def test_a_wrong_password(self):
        url = subprocess.run([PG_SERVER, "start", "15", scratch.name + "/pg"], check=True, capture_output=True, text=True).stdout.strip()
        try:
            psql(url, "CREATE ROLE app LOGIN PASSWORD 'right'")
            hba = subprocess.run(["psql", "-qXAt", url, "-c", "SHOW hba_file"], check=True, capture_output=True, text=True).stdout.strip()
            text = Path(hba).read_text()
            Path(hba).write_text("host all app 127.0.0.1/32 scram-sha-256\n" + text)
            psql(url, "SELECT pg_reload_conf()")
            time.sleep(0.3)
            port = re.search(r":(\d+)/", url).group(1)
            done = termgate("status", url=f"postgresql://app:hunter2@127.0.0.1:{port}/postgres")
            self.assertEqual(done.returncode, 1)
            self.assertIn("password authentication failed", done.stderr.decode())
            self.assertNotIn("hunter2", done.stderr.decode())
            self.assertIn("termgate init", termgate("status", url=f"postgresql://app:right@127.0.0.1:{port}/postgres").stderr.decode())
        finally:
            subprocess.run([PG_SERVER, "stop", scratch.name + "/pg", "immediate"], check=False, capture_output=True)


if __name__ == "__main__":
    os.chmod(scratch.name, 0o755)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
