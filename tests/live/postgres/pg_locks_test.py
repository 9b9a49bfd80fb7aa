#!/usr/bin/env python3
"""An engine that speaks PostgreSQL's protocol and whose advisory locks exclude nobody is refused by `init` and reported by `doctor`.

  pytest tests/live/postgres/pg_locks_test.py

The double is a PostgreSQL of its own whose lock functions are replaced, database by database, by such as do nothing.
"""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from given import PG_SERVER, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-locks.")
os.chmod(scratch.name, 0o755)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
# The built-in one is moved out of the way: the server finds it by its OID, whatever its row says.
NOTHING = (
    "UPDATE pg_proc SET proname = 'usual_' || proname WHERE oid = 'pg_catalog.{0}(bigint)'::regprocedure;"
    "CREATE FUNCTION pg_catalog.{0}(bigint) RETURNS {1} LANGUAGE sql AS $$ SELECT {2} $$"
)
TRY = "pg_try_advisory_xact_lock"


class Locks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(scratch.name) / "server"
        cls.server = subprocess.run([PG_SERVER, "start", "15", cls.folder], check=True, capture_output=True, text=True).stdout.strip()

    @classmethod
    def tearDownClass(cls):
        subprocess.run([PG_SERVER, "stop", cls.folder, "immediate"], check=True, capture_output=True)

    def sql(self, url, statement):
        env = {**CLEAN, "PGOPTIONS": "-c allow_system_table_mods=on"}
        done = subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url, "-c", statement], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def database(self, name):
        self.sql(self.server, f"CREATE DATABASE {name}")
        return self.server.replace("/postgres?", f"/{name}?") if "?" in self.server else self.server.rsplit("/", 1)[0] + f"/{name}"

    def termgate(self, url, *words):
        return subprocess.run([TERMGATE, *words, "--db", url], capture_output=True, text=True, env=CLEAN, timeout=60)

    def refused(self, name, why, *functions):
        url = self.database(name)
        for function in functions:
            self.sql(url, NOTHING.format(*function))
        done = self.termgate(url, "init")
        assert done.returncode == 1, done.stdout + done.stderr
        for part in ("nothing was installed", why, "CockroachDB", "\"PostgreSQL "):
            assert part in done.stderr
        assert self.sql(url, "SELECT to_regnamespace('termgate') IS NULL") == "t"

    def test_two_exclusive_locks(self):
        self.refused("nobody", "two sessions got the same exclusive lock", ("pg_advisory_xact_lock", "void", ""), (TRY, "boolean", "true"))

    def test_a_lock_that_is_not_taken(self):
        self.refused("silent", "two sessions got the same exclusive lock", ("pg_advisory_xact_lock", "void", ""))

    def test_a_shared_lock_beside_an_exclusive_one(self):
        self.refused("shared", "a session got a shared lock", (TRY + "_shared", "boolean", "true"))

    def test_a_lock_that_is_never_freed(self):
        self.refused("never", "a lock was still held", (TRY, "boolean", "false"))

    def test_doctor_reports_it(self):
        url = self.database("later")
        assert self.termgate(url, "init").returncode == 0
        assert "advisory locks" not in self.termgate(url, "doctor").stdout
        self.sql(url, NOTHING.format("pg_advisory_xact_lock", "void", ""))
        done = self.termgate(url, "doctor", "--fail-on", "error")
        assert done.returncode == 1
        assert "do not exclude" in done.stdout
        # An upgrade is refused likewise, and what is installed stays.
        assert self.termgate(url, "init").returncode == 1
        assert self.sql(url, "SELECT to_regnamespace('termgate') IS NULL") == "f"

    def test_many_at_once(self):
        url = self.database("crowd")
        words = [TERMGATE, "init", "--db", url]
        crowd = [subprocess.Popen(words, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(6)]
        for one in crowd:
            out, _ = one.communicate(timeout=120)
            assert one.returncode == 0, out
