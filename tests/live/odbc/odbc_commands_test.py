#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] [F5] `termgate storm`, `drill` and `bench` through ODBC: leaders on the library's ODBC driver, a judge that reads
through it too, a service that knows nothing of the library (service_odbc.py), so that only who reads along sees its refusals.

  pytest tests/live/odbc/odbc_commands_test.py [--long] [-k Postgres]

On every run at PostgreSQL, by odbc-postgresql, with a server of its own; on SQL Server where TERMGATE_TEST_SQLSERVER names one (a login
that may create databases and end sessions), in a database of its own. A storm counts only if it was one: takeovers, refusals and each kind
of fault must have been seen.
"""
import json
import os
import re
import sys
import tempfile
import unittest
import uuid
from collections import Counter
from pathlib import Path

import pytest

from both_databases import sh
from checks import captured
from odbc_plain import Plain, on, own_database
from given import LONG, PG_SERVER, TERMGATE
from tds_proxy import Proxy

SQLSERVER = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
SERVICE = Path(__file__).parent / "service_odbc.py"
scratch = tempfile.TemporaryDirectory(prefix="termgate-odbc-test.")
os.chmod(scratch.name, 0o755)
environment = dict({name: value for name, value in os.environ.items() if name != "TERMGATE_DB"}, TMPDIR=scratch.name)


class Commands:
    drill_timeout, drill_more = "40s", {}
    storm_words = ("--seconds", "20" if LONG else "10")
    faults = ("stop", "kill", "cut", "freeze", "lose", "force", "prune")
    scenarios = {"unfenced", "unfenced-begin", "unfenced-rows", "textbook", "check-insert", "append", "append-each", "library-write"}

    def command(self, *words, timeout=600, **more):
        return captured([TERMGATE, *words], env=dict(environment, TERMGATE_DB=self.url, **more), timeout=timeout, check=False)

    def kept(self, faults, *words):
        # One seed after the other until all of it has been seen; each of them must keep the guarantees.
        wanted = ("takeovers", "refused_stale", "refused_after_stop", "writes_committed", "unanswered", "looks", *faults)
        seen = Counter()
        for _ in range(8):
            done = self.command("storm", "--json", *words)
            document = json.loads(done.stdout or "null")
            assert (done.returncode, document and document["verdict"]) == (0, "kept"), done.stdout + done.stderr
            assert (document["database"], document["breaches"], document["unjudged"], document["leaders_ended_by_themselves"]) == (
                self.database,
                [],
                [],
                0,
            )
            assert [name for name in self.tables() if f"storm_{document['seed']}_" in name] == []
            seen.update({what: document[what] for what in wanted if what in document} | document["faults"])
            if all(seen[what] for what in wanted):
                return
        pytest.fail(f"not all of it was seen in eight storms: {[what for what in wanted if not seen[what]]} {seen}")

    def test_a_storm(self):
        self.kept(self.faults, *self.storm_words)

    def drill(self, mode, *words, **more):
        scope = f"drill-{uuid.uuid4().hex[:8]}"
        options = ["--json", "--quiet", "--scope", scope, "--timeout", self.drill_timeout]
        done = self.command("drill", *options, *words, "--", sys.executable, str(SERVICE), mode, **self.drill_more, **more)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return scope, json.loads(done.stdout)["runs"][0], done

    def check_passed(self, scope, run, done):
        assert (run["verdict"], run["witness"], run["evidence"]) == ("passed", "wire", []), done.stdout + done.stderr
        assert f"TG001 stale term {run['term']} for scope \"{scope}\": the fence stands at" in run["refusal"]

    def test_a_drilled_service_that_is_fenced_passes(self):
        self.check_passed(*self.drill("right"))

    def test_a_drilled_service_without_a_check_is_found_by_its_rows(self):
        _, run, done = self.drill("memory", "--evidence", "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2")
        assert run["verdict"] == "stale_write_committed", done.stdout + done.stderr
        assert any("--evidence" in line for line in run["evidence"]), done.stdout

    def test_each_scenario_of_the_bench_writes_and_leaves_no_table(self):
        done = self.command("bench", "all", "--quick", "--json", "--writers", "1,4", "--seed", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        runs = json.loads(done.stdout)["runs"]
        for batch in (1, 10):
            assert self.scenarios <= {run["scenario"] for run in runs if run["batch"] == batch and run["rows_per_second"] > 0}, done.stdout
        with Plain(self.url) as plain:
            assert plain.rows("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'bench%'") == []

    def test_wrong_usage(self):
        for words, said in self.wrong_usage:
            done = self.command(*words)
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stderr)


class Postgres(Commands, unittest.TestCase):
    database = "postgresql"
    faults = (*Commands.faults, "prepare")
    wrong_usage = [
        (["storm", "--proxies", "2"], "sqlserver://"),
        (["storm", "--faults", "proxy-kill"], "not without --proxies"),
        (["bench", "--quick", "--durable", "no"], "--durable no"),
    ]

    @classmethod
    def setUpClass(cls):
        server = Path(scratch.name) / "pg"
        server.mkdir()
        os.chmod(server, 0o755)
        cls.direct = sh(PG_SERVER, "start", "15", server, "fsync=off")
        cls.addClassCleanup(sh, PG_SERVER, "stop", server, "immediate")
        port = re.search(r":(\d+)/", cls.direct)[1]
        cls.url = f"odbc:Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={port};Database=postgres;UID=postgres;BoolsAsChar=0"
        sh(TERMGATE, "init", "--db", cls.url)
        on(cls.url, "CREATE TABLE entries (scope text NOT NULL, term bigint NOT NULL)")

    def tables(self):
        return sh("psql", "-qXAt", self.direct, "-c", "SELECT relname FROM pg_class WHERE relname LIKE 'storm%'").split()

    def test_a_storm(self):
        super().test_a_storm()
        assert sh("psql", "-qXAt", self.direct, "-c", "SELECT count(*) FROM pg_prepared_xacts") == "0"

    def test_a_storm_finds_a_naive_boundary_broken(self):
        done = self.command("storm", "--naive", "max-term", "--seconds", "60", "--json")
        assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "broken"), done.stdout + done.stderr


@pytest.mark.skipif(not SQLSERVER, reason="TERMGATE_TEST_SQLSERVER names no SQL Server")
class SqlServer(Commands, unittest.TestCase):
    database = "sqlserver"
    scenarios = Commands.scenarios | {"textbook-batch", "unfenced-call"}
    # Babelfish reads and compiles each procedure in each session, which takes seconds.
    drill_timeout, drill_more = "120s", {"DRILL_TTL_MS": "8000"}
    storm_words = ("--seconds", "30", "--ttl", "1500ms")
    wrong_usage = [
        (["storm", "--faults", "prepare"], "not on SQL Server"),
        (["storm", "--naive", "max-term"], "--naive"),
        (["storm", "--server-restart", "true"], "on PostgreSQL"),
    ]

    @classmethod
    def setUpClass(cls):
        cls.url = own_database(cls, SQLSERVER, "odbc_test_")
        sh(TERMGATE, "init", "--db", cls.url)
        on(cls.url, "CREATE TABLE entries (scope nvarchar(400) NOT NULL, term bigint NOT NULL)")

    def tables(self):
        with Plain(self.url) as server:
            return [row[0] for row in server.rows("SELECT name FROM sys.tables WHERE name LIKE 'storm%'")]

    def test_a_storm_through_two_proxies(self):
        self.kept(("stop", "kill", "freeze", "proxy-kill", "proxy-stop", "cut-front", "cut-back"), *self.storm_words, "--proxies", "2")

    def test_a_drilled_service_behind_a_proxy_passes(self):
        """It checks nothing itself: the proxy refuses it, as the drill sees between the two."""
        # The drill itself has no term.
        proxy = Proxy(0, "--without-term", "allow", url=self.url)
        self.addCleanup(proxy.end)
        through = re.sub(r"@[^/]*/", f"@127.0.0.1:{proxy.port}/", self.url)
        evidence = "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2"
        self.check_passed(*self.drill("declares", "--through", through, "--evidence", evidence, DRILL_LEASES=self.url))
