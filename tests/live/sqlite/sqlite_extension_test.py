#!/usr/bin/env python3
"""The loadable extension under other programs: the sqlite3 shell, Python's sqlite3, Node.

  pytest tests/live/sqlite/sqlite_extension_test.py [-k shell]

Two programs on one file obey one layer 1; a program without the extension is stopped by an error that says what to load. A client that is
missing, or that cannot load extensions, is reported as skipped.
"""
import os
import shutil
import sqlite3
import subprocess
import tempfile
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


def node_has_sqlite():
    return NODE is not None and subprocess.run([NODE, "-e", "require('node:sqlite')"], capture_output=True).returncode == 0


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
class Python(Folder):
    def termgate(self, *words, **more):
        return subprocess.run([TERMGATE, *words, "--db", "sqlite:" + self.path], capture_output=True, text=True, timeout=60, **more)

    def test_one_law_for_it_and_the_command(self):
        assert self.termgate("init").returncode == 0
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        self.addCleanup(connection.close)
        try:
            connection.enable_load_extension(True)
        except AttributeError:
            pytest.skip("this Python cannot load SQLite extensions")
        connection.load_extension(EXTENSION)
        connection.execute("SELECT termgate_append('log', 5, 'from Python')")
        assert self.termgate("append", "--stream", "log", "--term", "5", input="from the command").stdout.strip() == "2"
        assert self.termgate("seal", "--scope", "log", "--term", "6").returncode == 0
        with pytest.raises(sqlite3.OperationalError, match="TG001"):
            connection.execute("SELECT termgate_append('log', 5, 'late')")
