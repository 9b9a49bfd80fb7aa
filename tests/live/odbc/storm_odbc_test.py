#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] [F5] `termgate storm` through ODBC: leaders on the library's ODBC driver, the judge reads through it too.

  pytest tests/live/odbc/storm_odbc_test.py [--long] [-k Postgres]

On every run at PostgreSQL, by odbc-postgresql, with a server of its own; on SQL Server where TERMGATE_TEST_SQLSERVER
names one (a login that may create databases and end sessions), in a database of its own. A storm counts only if it
was one: takeovers, refusals and each kind of fault must have been seen. TERMGATE_TEST_LONG: storms of 60 s.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path

import pytest

from both_databases import sh
from odbc_plain import Plain, own_database
from given import LONG, PG_SERVER, TERMGATE

SQLSERVER = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
SECONDS = "20" if LONG else "10"
scratch = tempfile.TemporaryDirectory(prefix="termgate-storm-odbc-test.")
os.chmod(scratch.name, 0o755)
environment = dict({name: value for name, value in os.environ.items() if name != "TERMGATE_DB"}, TMPDIR=scratch.name)


def storm(url, *words):
    return subprocess.run([TERMGATE, "storm", *words], env=dict(environment, TERMGATE_DB=url), capture_output=True, text=True, timeout=400)


class StormCase(unittest.TestCase):
    def kept(self, url, database, faults, *words):
        # One seed after the other until all of it has been seen; each of them must keep the guarantees.
        wanted = ("takeovers", "refused_stale", "refused_after_stop", "writes_committed", "unanswered", "looks", *faults)
        seen = Counter()
        for _ in range(8):
            done = storm(url, "--json", *(words or ("--seconds", SECONDS)))
            document = json.loads(done.stdout or "null")
            assert (done.returncode, document and document["verdict"]) == (0, "kept"), done.stdout + done.stderr
            assert (document["database"], document["breaches"], document["unjudged"], document["leaders_ended_by_themselves"]) == (
                database,
                [],
                [],
                0,
            )
            assert [name for name in self.tables() if f"storm_{document['seed']}_" in name] == []
            seen.update({what: document[what] for what in wanted if what in document} | document["faults"])
            if all(seen[what] for what in wanted):
                return
        pytest.fail(f"not all of it was seen in eight storms: {[what for what in wanted if not seen[what]]} {seen}")


class Postgres(StormCase):
    @classmethod
    def setUpClass(cls):
        server = Path(scratch.name) / "pg"
        server.mkdir()
        os.chmod(server, 0o755)
        cls.direct = sh(PG_SERVER, "start", "15", server, "fsync=off")
        cls.addClassCleanup(sh, PG_SERVER, "stop", server, "immediate")
        port = re.search(r":(\d+)/", cls.direct)[1]
        cls.url = f"odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=postgres;UID=postgres"
        sh(TERMGATE, "init", "--db", cls.url)

    def tables(self):
        return sh("psql", "-qXAt", self.direct, "-c", "SELECT relname FROM pg_class WHERE relname LIKE 'storm%'").split()

    def test_ours(self):
        self.kept(self.url, "postgresql", ("stop", "kill", "cut", "freeze", "prepare", "lose", "force", "prune"))
        assert sh("psql", "-qXAt", self.direct, "-c", "SELECT count(*) FROM pg_prepared_xacts") == "0"

    def test_a_naive_boundary_is_found_broken(self):
        done = storm(self.url, "--naive", "max-term", "--seconds", "60", "--json")
        assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "broken"), done.stdout + done.stderr

    def test_a_check_that_takes_no_lock_is_found(self):
        # Planted in layer 1, in a database of its own: what finds it here reads its rows through ODBC.
        sh("psql", "-qX", self.direct, "-c", "CREATE DATABASE unlocked")
        url = self.url.replace("Database=postgres", "Database=unlocked")
        sh(TERMGATE, "init", "--db", url)
        sh(
            "psql",
            "-qX",
            "-v",
            "ON_ERROR_STOP=1",
            re.sub("/postgres$", "/unlocked", self.direct),
            "-c",
            "CREATE OR REPLACE FUNCTION termgate._try_share(p_scope text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        )
        # It ends with the first breach, after some ten seconds; on a loaded machine writes and freezes meet later.
        done = storm(url, "--seconds", "200", "--judge-every", "5s", "--writers", "8", "--faults", "stop,freeze", "--json")
        assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "broken"), done.stdout + done.stderr

    def test_wrong_usage(self):
        for words, said in [
            (["--proxies", "2"], "sqlserver://"),
            (["--faults", "earthquake"], "unknown fault"),
            (["--faults", "proxy-kill"], "not without --proxies"),
        ]:
            done = storm(self.url, *words)
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stderr)
        done = storm("odbc:Driver={no such driver}", "--seconds", "1")
        assert done.returncode != 0
        assert "TG005" in done.stderr
        refused = "odbc:Driver={PostgreSQL Unicode};Server=127.0.0.1;Port=1;Database=nowhere;UID=somebody;PWD=secret-word"
        done = storm(refused, "--seconds", "1")
        assert done.returncode == 1, done.stderr
        assert "secret-word" not in done.stderr + done.stdout


@pytest.mark.skipif(not SQLSERVER, reason="TERMGATE_TEST_SQLSERVER names no SQL Server")
class SqlServer(StormCase):
    @classmethod
    def setUpClass(cls):
        cls.url = own_database(cls, SQLSERVER, "storm_test_")
        sh(TERMGATE, "init", "--db", cls.url)

    def tables(self):
        with Plain(self.url) as server:
            return [row[0] for row in server.rows("SELECT name FROM sys.tables WHERE name LIKE 'storm%'")]

    def test_ours(self):
        # Longer leases: on Babelfish every new session first reads and compiles the procedures.
        self.kept(self.url, "sqlserver", ("stop", "kill", "cut", "freeze", "lose", "force", "prune"), "--seconds", "30", "--ttl", "1500ms")

    def test_through_two_proxies(self):
        words = ("--seconds", "30", "--ttl", "1500ms", "--proxies", "2")
        self.kept(self.url, "sqlserver", ("stop", "kill", "freeze", "proxy-kill", "proxy-stop", "cut-front", "cut-back"), *words)

    def test_wrong_usage(self):
        for words, said in [
            (["--faults", "prepare"], "not on SQL Server"),
            (["--naive", "max-term"], "--naive"),
            (["--server-restart", "true"], "on PostgreSQL"),
        ]:
            done = storm(self.url, *words)
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stderr)
