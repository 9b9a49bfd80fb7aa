#!/usr/bin/env python3
"""[F1] [F2] `termgate drill` through ODBC: a fenced service passes by what the relay reads on the wire, a wrong one
has a verdict of its own.

  pytest tests/live/odbc/drill_odbc_test.py [-k Postgres]

At PostgreSQL on every run, with a server of its own; on SQL Server where TERMGATE_TEST_SQLSERVER names one. The
service (tests/live/odbc/service_odbc.py) knows nothing of Termgate's library, so that nobody writes its refusals
down: only who reads along sees them.
"""
import json
import os
import re
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
from checks import captured
from both_databases import sh
from odbc_plain import Plain, own_database
from given import PG_SERVER, TERMGATE
from tds_proxy import Proxy

SQLSERVER = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
scratch = tempfile.TemporaryDirectory(prefix="termgate-drill-odbc-test.")
os.chmod(scratch.name, 0o755)
environment = dict({name: value for name, value in os.environ.items() if name != "TERMGATE_DB"}, TMPDIR=scratch.name)


class Drills:
    timeout = "40s"
    more = {}

    def drill(self, mode, *words, **more):
        scope = f"drill-{uuid.uuid4().hex[:8]}"
        done = captured(
            [
                TERMGATE,
                *"drill --json --quiet --scope".split(),
                scope,
                "--timeout",
                self.timeout,
                *words,
                "--",
                sys.executable,
                str(HERE / "service_odbc.py"),
                mode,
            ],
            env=dict(environment, TERMGATE_DB=self.url, **self.more, **more),
            timeout=600,
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return scope, json.loads(done.stdout)["runs"][0], done

    def test_a_fenced_service_passes(self):
        scope, run, done = self.drill("right")
        assert (run["verdict"], run["witness"], run["evidence"]) == ("passed", "wire", []), done.stdout + done.stderr
        assert f"TG001 stale term {run['term']} for scope \"{scope}\": the fence stands at" in run["refusal"]

    def test_one_without_a_check_is_found_by_its_rows(self):
        _, run, done = self.drill("memory", "--evidence", "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2")
        assert run["verdict"] == "stale_write_committed", done.stdout + done.stderr
        assert any("--evidence" in line for line in run["evidence"]), done.stdout

    def test_one_that_leaves_by_itself_did_not_try(self):
        # It looks at its clock and then writes, and is no fence: stopped between the two it does write. So the game is
        # played again, as in drill_test.py.
        for _ in range(3):
            _, run, done = self.drill("quits")
            if run["verdict"] == "did_not_try":
                break
        assert run["verdict"] == "did_not_try", done.stdout + done.stderr


class Postgres(Drills, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = Path(scratch.name) / "pg"
        server.mkdir()
        os.chmod(server, 0o755)
        direct = sh(PG_SERVER, "start", "15", server, "fsync=off")
        cls.addClassCleanup(sh, PG_SERVER, "stop", server, "immediate")
        port = re.search(r":(\d+)/", direct)[1]
        cls.url = f"odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=postgres;UID=postgres;BoolsAsChar=0"
        sh(TERMGATE, "init", "--db", cls.url)
        with Plain(cls.url) as plain:
            plain.rows("CREATE TABLE entries (scope text NOT NULL, term bigint NOT NULL)")


@pytest.mark.skipif(not SQLSERVER, reason="TERMGATE_TEST_SQLSERVER names no SQL Server")
class SqlServer(Drills, unittest.TestCase):
    # Babelfish reads and compiles each procedure in each session, which takes seconds.
    timeout, more = "120s", {"DRILL_TTL_MS": "8000"}

    @classmethod
    def setUpClass(cls):
        cls.url = own_database(cls, SQLSERVER, "drill_test_")
        sh(TERMGATE, "init", "--db", cls.url)
        with Plain(cls.url) as plain:
            plain.rows("CREATE TABLE entries (scope nvarchar(400) NOT NULL, term bigint NOT NULL)")

    def test_one_behind_a_proxy_passes(self):
        """It checks nothing itself: the proxy refuses it, as the drill sees between the two."""
        # The drill itself has no term.
        proxy = Proxy(0, "--without-term", "allow", url=self.url)
        self.addCleanup(proxy.end)
        through = re.sub(r"@[^/]*/", f"@127.0.0.1:{proxy.port}/", self.url)
        evidence = "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2"
        scope, run, done = self.drill("declares", "--through", through, "--evidence", evidence, DRILL_LEASES=self.url)
        assert (run["verdict"], run["witness"], run["evidence"]) == ("passed", "wire", []), done.stdout + done.stderr
        assert f"TG001 stale term {run['term']} for scope \"{scope}\": the fence stands at" in run["refusal"]
