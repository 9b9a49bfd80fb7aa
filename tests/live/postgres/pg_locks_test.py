#!/usr/bin/env python3
"""An engine that speaks PostgreSQL's protocol and whose advisory locks exclude nobody is refused by `init` and reported by `doctor`.

  pytest tests/live/postgres/pg_locks_test.py

The double is a PostgreSQL of its own whose lock functions are replaced, database by database, by such as do nothing.
"""
import subprocess

import pytest
from given import TERMGATE
from layer1_lab import CLEAN, Server

LOCK = ("pg_advisory_xact_lock", "void", "")
TRY = "pg_try_advisory_xact_lock"
BROKEN = {
    "two exclusive locks": ("two sessions got the same exclusive lock", LOCK, (TRY, "boolean", "true")),
    "a lock that is not taken": ("two sessions got the same exclusive lock", LOCK),
    "a shared lock beside an exclusive one": ("a session got a shared lock", (TRY + "_shared", "boolean", "true")),
    "a lock that is never freed": ("a lock was still held", (TRY, "boolean", "false")),
}


@pytest.fixture(scope="module")
def server():
    started = Server("15")
    yield started
    started.stop()


def breaks(lab, *functions):
    for name, returns, result in functions:
        lab.sql(
            "postgres",
            "SET allow_system_table_mods = on",
            # The built-in one is moved out of the way: the server finds it by its OID, whatever its row says.
            f"UPDATE pg_proc SET proname = 'usual_' || proname WHERE oid = 'pg_catalog.{name}(bigint)'::regprocedure",
            f"CREATE FUNCTION pg_catalog.{name}(bigint) RETURNS {returns} LANGUAGE sql AS $$ SELECT {result} $$",
        )


@pytest.mark.parametrize("broken", BROKEN)
def test_init_installs_nothing_there(server, broken):
    why, *functions = BROKEN[broken]
    lab = server.database()
    breaks(lab, *functions)
    done = lab.termgate("postgres", "init")
    assert done.returncode == 1, done.stdout + done.stderr
    for part in ("nothing was installed", why, "CockroachDB", "\"PostgreSQL "):
        assert part in done.stderr
    assert lab.value("postgres", "SELECT to_regnamespace('termgate') IS NULL")


def test_doctor_reports_it(server):
    lab = server.database()
    lab.must("init", role="postgres")
    assert "advisory locks" not in lab.termgate("postgres", "doctor").stdout
    breaks(lab, LOCK)
    done = lab.termgate("postgres", "doctor", "--fail-on", "error")
    assert done.returncode == 1 and "do not exclude" in done.stdout
    # An upgrade is refused likewise, and what is installed stays.
    assert lab.termgate("postgres", "init").returncode == 1
    assert lab.value("postgres", "SELECT to_regnamespace('termgate') IS NOT NULL")


def test_many_at_once(server):
    words = [TERMGATE, "init", "--db", server.database().url("postgres")]
    crowd = [subprocess.Popen(words, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(6)]
    for one in crowd:
        out, _ = one.communicate(timeout=120)
        assert one.returncode == 0, out
