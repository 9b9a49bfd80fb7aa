#!/usr/bin/env python3
"""`termgate bench` through ODBC, in small, so that it does not rot: each scenario writes, and its tables are gone
afterwards. It measures nothing here that could fail by being slow.

  pytest tests/live/odbc/bench_odbc_test.py [-k Postgres]

At PostgreSQL on every run; on SQL Server where TERMGATE_TEST_SQLSERVER names one.
"""
import json
import os
import re
import tempfile
import unittest
from pathlib import Path

import pytest

from checks import captured
from both_databases import sh
from odbc_plain import Plain, own_database
from given import PG_SERVER, TERMGATE

SQLSERVER = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
scratch = tempfile.TemporaryDirectory(prefix="termgate-bench-odbc-test.")
os.chmod(scratch.name, 0o755)


class Benches:
    def test_each_scenario(self):
        done = captured([TERMGATE, "bench", "all", "--quick", "--json", "--writers", "1,4", "--seed", "1", "--db", self.url], timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        runs = json.loads(done.stdout)["runs"]
        for batch in (1, 10):
            assert self.scenarios <= {run["scenario"] for run in runs if run["batch"] == batch and run["rows_per_second"] > 0}, done.stdout
        with Plain(self.url) as plain:
            assert plain.rows("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'bench%'") == []

    def test_commits_are_as_the_server_is_set_up(self):
        done = captured([TERMGATE, "bench", "--quick", "--durable", "no", "--db", self.url], timeout=60)
        assert (done.returncode, "--durable no" in done.stderr) == (2, True), done.stderr


class Postgres(Benches, unittest.TestCase):
    scenarios = {"unfenced", "unfenced-begin", "unfenced-rows", "textbook", "check-insert", "append", "append-each", "library-write"}

    @classmethod
    def setUpClass(cls):
        server = Path(scratch.name) / "pg"
        server.mkdir()
        os.chmod(server, 0o755)
        port = re.search(r":(\d+)/", sh(PG_SERVER, "start", "15", server, "fsync=off"))[1]
        cls.addClassCleanup(sh, PG_SERVER, "stop", server, "immediate")
        cls.url = f"odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=postgres;UID=postgres"
        sh(TERMGATE, "init", "--db", cls.url)


@pytest.mark.skipif(not SQLSERVER, reason="TERMGATE_TEST_SQLSERVER names no SQL Server")
class SqlServer(Benches, unittest.TestCase):
    scenarios = Postgres.scenarios | {"textbook-batch", "unfenced-call"}

    @classmethod
    def setUpClass(cls):
        cls.url = own_database(cls, SQLSERVER, "bench_test_")
        sh(TERMGATE, "init", "--db", cls.url)
