#!/usr/bin/env python3
"""The loadable extension under other programs: the sqlite3 shell, Python's sqlite3, Node.

  pytest tests/live/sqlite/sqlite_extension_test.py [-k shell]

Proves what only real processes can: two programs on one file obey one layer 1; two inits at once do no harm; a program
without the extension is stopped by an error that says what to load; kill -9 in the middle of commits loses
nothing that was acknowledged. A client that is missing, or that cannot load extensions, is reported as skipped.
"""
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import pytest

import given

try:
    TERMGATE = given.TERMGATE
except FileNotFoundError:  # a build without the command
    TERMGATE = None
EXTENSION = str(Path(given.EXTENSION).with_suffix(""))
SHELL = shutil.which("sqlite3")
NODE = shutil.which("node")
GUARD = "no such function: termgate_guard_load_termgate_extension_first"


def python_loads():
    connection = sqlite3.connect(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(EXTENSION)
        return True
    except (AttributeError, sqlite3.OperationalError):
        return False
    finally:
        connection.close()


def node_has_sqlite():
    return NODE is not None and subprocess.run([NODE, "-e", "require('node:sqlite')"], capture_output=True).returncode == 0


def connect(path, load=True, **options):
    connection = sqlite3.connect(path, isolation_level=None, timeout=0, **options)
    if load:
        connection.enable_load_extension(True)
        connection.load_extension(EXTENSION)
    return connection


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="termgate-extension.")
        self.path = os.path.join(self.folder.name, "app.db")

    def tearDown(self):
        self.folder.cleanup()


@pytest.mark.skipif(not SHELL, reason="no sqlite3 shell")
class Shell(Folder):
    def shell(self, *statements, load=True):
        script = ([f".load {EXTENSION}"] if load else []) + list(statements)
        return subprocess.run([SHELL, "-bail", self.path], input="\n".join(script), text=True, capture_output=True, timeout=60)

    def test_a_stale_writer_is_refused(self):
        done = self.shell(
            "SELECT json_extract(termgate_init(), '$.from_version');",
            "SELECT termgate_append('orders', 5, 'five');",
            "SELECT json_extract(termgate_seal('orders', 6), '$.fence');",
        )
        assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0", "1", "6"], "")
        stale = self.shell("SELECT termgate_append('orders', 5, 'late');")
        assert stale.returncode != 0
        assert 'TG001 stale term 5 for scope "orders": the fence stands at 6' in stale.stderr
        assert self.shell("SELECT count(*) FROM termgate_stream_writes;").stdout.strip() == "1"

    def test_a_protected_table_from_a_plain_session(self):
        self.shell(
            "SELECT termgate_init();",
            "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance);",
            "SELECT termgate_protect('accounts', NULL, 'billing');",
            "SELECT termgate_seal('billing', 7);",
        )
        good = self.shell("SELECT termgate_declare('billing', 7);", "INSERT INTO accounts VALUES (1, 100);")
        assert good.returncode == 0, good.stderr
        for statements, text in (
            (["INSERT INTO accounts VALUES (2, 1);"], "TG002"),
            (["SELECT termgate_declare('billing', 6);", "UPDATE accounts SET balance = 0;"], "TG001 stale term 6"),
            (["SELECT termgate_declare('billing', 8);", "DELETE FROM accounts;"], "termgate_seal('billing', 8)"),
        ):
            assert text in self.shell(*statements).stderr
        bare = self.shell("INSERT INTO accounts VALUES (3, 1);", load=False)
        assert GUARD in bare.stderr
        assert self.shell("SELECT id || ':' || balance FROM accounts;", load=False).stdout.strip() == "1:100"

    def test_the_shell_closes_cleanly(self):
        done = self.shell("SELECT termgate_init();", "BEGIN;", "SELECT termgate_check_term('a', 5);")
        assert (done.returncode, done.stderr) == (0, "")
        twice = self.shell(f".load {EXTENSION}", "SELECT termgate_version() <> '';")
        assert (twice.stdout.strip(), twice.stderr) == ("1", "")


@pytest.mark.skipif(not python_loads(), reason="this Python cannot load SQLite extensions")
class Python(Folder):
    def test_check_guards_a_transaction(self):
        one, two = connect(self.path), connect(self.path)
        one.execute("PRAGMA journal_mode = WAL")
        one.execute("SELECT termgate_init()")
        one.execute("SELECT termgate_set_setting('check_wait_ms', '100')")
        one.execute("CREATE TABLE t (v)")
        one.execute("BEGIN IMMEDIATE")
        one.execute("SELECT termgate_check_term(?, ?)", ("jobs", 3))
        one.execute("INSERT INTO t VALUES (1)")
        started = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="TG006 blocked .* another connection of this process"):
            two.execute("SELECT termgate_seal('jobs', 4)")
        assert time.monotonic() - started < 3
        one.execute("COMMIT")
        assert json.loads(two.execute("SELECT termgate_seal('jobs', 4)").fetchone()[0])["previous"] == 3
        with pytest.raises(sqlite3.OperationalError, match="TG001 stale term 3"):
            one.execute("SELECT termgate_check_term('jobs', 3)")
        one.close()
        two.close()

    def test_an_old_snapshot_is_told_to_run_again(self):
        one, two = connect(self.path), connect(self.path)
        one.execute("PRAGMA journal_mode = WAL")
        one.execute("SELECT termgate_init()")
        one.execute("BEGIN")
        one.execute("SELECT count(*) FROM termgate_fences").fetchone()
        two.execute("SELECT termgate_seal('jobs', 4)")
        with pytest.raises(sqlite3.OperationalError, match="run it again"):
            one.execute("SELECT termgate_check_term('jobs', 4)")
        one.execute("ROLLBACK")
        one.close()
        two.close()

    def test_two_inits_at_once_do_no_harm(self):
        for _ in range(5):
            path = os.path.join(self.folder.name, f"init-{_}.db")
            code = (
                "import sqlite3,sys,time\nc=sqlite3.connect(sys.argv[1],isolation_level=None,timeout=0)\n"
                "c.enable_load_extension(True);c.load_extension(sys.argv[2])\nsys.stdin.readline()\n"
                "print(c.execute('SELECT termgate_init()').fetchone()[0])"
            )
            children = [
                subprocess.Popen(
                    [sys.executable, "-c", code, path, EXTENSION],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for _ in range(4)
            ]
            answers = []
            for child in children:
                child.stdin.write("\n")
                child.stdin.flush()
            for child in children:
                out, err = child.communicate(timeout=60)
                assert child.returncode == 0, err
                answers.append(json.loads(out)["from_version"])
            assert answers.count(0) == 1, answers
            with connect(path) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"

    def test_processes_that_race_keep_the_order_of_terms(self):
        for mode in ("wal", "delete"):
            path = os.path.join(self.folder.name, f"race-{mode}.db")
            connection = connect(path)
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("SELECT termgate_init()")
            code = (
                "import sqlite3,sys,random\nc=sqlite3.connect(sys.argv[1],isolation_level=None,timeout=0)\n"
                "c.enable_load_extension(True);c.load_extension(sys.argv[2])\nr=random.Random(int(sys.argv[3]));t=1\n"
                "for i in range(40):\n"
                "  try:\n"
                "    t+=r.random()<0.1\n"
                "    c.execute('SELECT termgate_append(?,?,?)',('log',t,b'x'))\n"
                "  except sqlite3.OperationalError as e:\n"
                "    if not str(e).startswith('TG001'): raise\n"
                "    t=c.execute(\"SELECT json_extract(termgate_fence('log'),'$.term')\").fetchone()[0]\n"
            )
            children = [
                subprocess.Popen([sys.executable, "-c", code, path, EXTENSION, str(seed)], stderr=subprocess.PIPE, text=True)
                for seed in range(4)
            ]
            for child in children:
                _, err = child.communicate(timeout=120)
                assert child.returncode == 0, err
            terms = [row[0] for row in connection.execute("SELECT term FROM termgate_stream_writes ORDER BY sequence_no")]
            assert len(terms) > 40
            assert terms == sorted(terms)
            assert connection.execute("SELECT termgate_verify()").fetchone()[0] == "[]"
            connection.close()

    def test_kill_9_keeps_what_was_acknowledged(self):
        for mode in ("wal", "delete"):
            path = os.path.join(self.folder.name, f"kill-{mode}.db")
            connection = connect(path)
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("SELECT termgate_init()")
            connection.close()
            code = (
                "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
                "c.enable_load_extension(True);c.load_extension(sys.argv[2])\nt=1\n"
                "while True:\n"
                "  t+=1\n"
                "  print(c.execute('SELECT termgate_append(?,?,?)',('log',t,b'x'*5000)).fetchone()[0],t,flush=True)\n"
            )
            child = subprocess.Popen([sys.executable, "-c", code, path, EXTENSION], stdout=subprocess.PIPE, text=True)
            acknowledged = [child.stdout.readline() for _ in range(30)]
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().splitlines(keepends=True)
            child.wait()
            lines = [line.split() for line in acknowledged + rest if line.endswith("\n")]
            connection = connect(path)
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            number, term = map(int, lines[-1])
            last, fence = connection.execute(
                "SELECT (SELECT max(sequence_no) FROM termgate_stream_writes), (SELECT term FROM termgate_fences)"
            ).fetchone()
            assert last in (number, number + 1)
            assert fence in (term, term + 1)
            with pytest.raises(sqlite3.OperationalError, match="TG001"):
                connection.execute("SELECT termgate_append('log', ?, 'late')", (term - 1,))
            assert connection.execute("SELECT termgate_verify()").fetchone()[0] == "[]"
            connection.close()


@pytest.mark.skipif(not node_has_sqlite(), reason="no node with node:sqlite")
class Node(Folder):
    def test_a_stale_writer_is_refused(self):
        script = """
const {DatabaseSync} = require('node:sqlite');
const db = new DatabaseSync(process.argv[1], {allowExtension: true});
db.loadExtension(process.argv[2]);
db.exec("SELECT termgate_init(); SELECT termgate_seal('a', 5)");
try { db.exec("SELECT termgate_check_term('a', 4)"); console.log('passed'); } catch (error) { console.log(error.message); }
"""
        done = subprocess.run([NODE, "-e", script, self.path, EXTENSION + ".so"], text=True, capture_output=True, timeout=60)
        assert "TG001 stale term 4" in done.stdout, done.stderr


@pytest.mark.skipif(not TERMGATE, reason="the command was not built")
class Beside_the_command(Folder):
    """The library's group commit and a program with the extension on one file."""

    def termgate(self, *words, **more):
        return subprocess.run([TERMGATE, *words, "--db", "sqlite:" + self.path], capture_output=True, text=True, timeout=60, **more)

    @pytest.mark.skipif(not python_loads(), reason="this Python cannot load SQLite extensions")
    def test_one_law_for_both(self):
        assert self.termgate("init").returncode == 0
        connection = connect(self.path)
        connection.execute("SELECT termgate_append('log', 5, 'from Python')")
        assert self.termgate("append", "--stream", "log", "--term", "5", input="from the command").stdout.strip() == "2"
        assert self.termgate("seal", "--scope", "log", "--term", "6").returncode == 0
        with pytest.raises(sqlite3.OperationalError, match="TG001"):
            connection.execute("SELECT termgate_append('log', 5, 'late')")
        connection.close()

    def test_kill_9_in_the_middle_of_a_batch_keeps_all_or_nothing(self):
        assert self.termgate("init").returncode == 0
        for attempt in range(3):
            child = subprocess.Popen(
                [TERMGATE, "append", "--stream", "log", "--term", "1", "--lines", "--db", "sqlite:" + self.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                deadline = time.monotonic() + 0.15 * (attempt + 1)
                while time.monotonic() < deadline:
                    child.stdin.write(b"a line of the batch\n" * 200)
            except BrokenPipeError:
                pass
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdin = None  # what it still buffers has nobody to go to
            connection = sqlite3.connect(self.path)
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            written, last = connection.execute("SELECT count(*), coalesce(max(sequence_no), 0) FROM termgate_stream_writes").fetchone()
            assert written == last
            connection.close()
            assert self.termgate("verify").returncode == 0
