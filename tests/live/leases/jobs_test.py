#!/usr/bin/env python3
"""Jobs, sessions and leases where they depend on roles, settings or clocks: whose run it is, what a role's settings change, a clock
that was ahead. On PostgreSQL 13, 15 and 18, the clocks on SQLite too.

  pytest tests/live/leases/jobs_test.py [--majors 15] [-k settings]
"""
import os
import re
import sqlite3
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg2
import pytest
from checks import captured, check, stays
from given import PG_SERVER, TERMGATE, majors

scratch = tempfile.TemporaryDirectory(prefix="termgate-jobs.")
os.chmod(scratch.name, 0o755)
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
numbers = iter(range(1, 10_000))
PLAIN_SHARE = 3
MAJORS = majors("18")
LEVELS = {"reader": "read", "writer": "write", "other": "write", "leader": "lead", "operator": "operate"}


def termgate(url, *words, env=None, data=None):
    return subprocess.run(
        [TERMGATE, *words], env=dict(clean, TERMGATE_DB=url, **(env or {})), capture_output=True, text=data is None, input=data, timeout=60
    )


class Database:
    def __init__(self, url):
        self.url = url

    def as_(self, role):
        return self.url.replace("postgres@", f"{role}@")

    def connect(self, role="postgres", options=""):
        connection = psycopg2.connect(self.as_(role), options=options)
        connection.autocommit = True
        return connection

    def run(self, statement, role="postgres", options="", before=()):
        """The first value, or the SQLSTATE of the refusal."""
        connection = self.connect(role, options)
        try:
            cursor = connection.cursor()
            for one in before:
                cursor.execute(one)
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None
        except psycopg2.Error as error:
            return error.pgcode
        finally:
            connection.close()


@pytest.fixture(scope="module", params=MAJORS)
def database(request):
    folder = Path(scratch.name) / f"pg{request.param}"
    folder.mkdir()
    os.chmod(folder, 0o755)
    started = captured([PG_SERVER, "start", request.param, str(folder), "fsync=off", "wal_level=logical"], check=True)
    made = Database(started.stdout.strip())
    grants = [word for role, level in LEVELS.items() for word in ("--grant", f"{role}={level}")]
    for role in [*LEVELS, "stranger", "layer", "member"]:
        assert made.run(f"CREATE ROLE {role} LOGIN") is None, role
    made.run("GRANT writer, other TO member")
    done = termgate(made.url, "init", *grants)
    assert done.returncode == 0, done.stderr
    yield made
    subprocess.run([PG_SERVER, "stop", str(folder), "immediate"], check=True, capture_output=True)


@pytest.fixture
def run_of_writer(database):
    scope = f"jobs {next(numbers)}"
    return scope, database.run(f"SELECT termgate.job_start('j', '{scope}', 'me', 5)", "writer")


STATUSES = ("completed", "failed", "lost", "cancelled")


def status(database, run):
    return database.run(f"SELECT status FROM termgate.job_history WHERE run_id = {run}")


def test_another_role_ends_no_run(database, run_of_writer):
    _, run = run_of_writer
    calls = [f"job_heartbeat({run})", f"job_heartbeat({run}, 'x', '10 s')"] + [f"job_finish({run}, '{one}')" for one in STATUSES]
    for role in ("stranger", "reader", "other", "leader"):
        for call in calls:
            got = database.run(f"SELECT termgate.{call}", role)
            check(f"{role} may not {call}", got == "42501", got)
    for call in calls:
        # By SET ROLE too: what counts is the role that acts.
        got = database.run(f"SELECT termgate.{call}", "member", before=["SET ROLE other"])
        check(f"in the role of another: {call}", got == "42501", got)
    for one in ("completed", "failed", "lost"):
        got = database.run(f"SELECT termgate.job_finish({run}, '{one}')", "operator")
        check(f"an operator does not say {one}", got == "42501", got)
    check("the run is as it was", status(database, run) == "started")
    check("it goes on", database.run(f"SELECT termgate.job_heartbeat({run})", "writer") is True)
    check("a member of the role beats it", database.run(f"SELECT termgate.job_heartbeat({run})", "member") is True)
    check("an operator cancels it", database.run(f"SELECT termgate.job_finish({run}, 'cancelled')", "operator") is True)
    check("its owner learns of it", database.run(f"SELECT termgate.job_heartbeat({run})", "writer") is False)
    shown = termgate(database.as_("other"), "job", "finish", "--run", str(run), "--status", "failed")
    check("an ended run is nobody's", shown.returncode == 5, shown.stderr)


def test_who_may_ask_for_a_run(database):
    scope = f"jobs {next(numbers)}"
    ask = f"SELECT run_id FROM termgate.job_request('j', '{scope}')"
    take = f"SELECT run_id FROM termgate.job_take('j', '{scope}', 'me', 5)"
    for role in ("stranger", "reader", "writer"):
        check(f"{role} asks for none", database.run(ask, role) == "42501")
    run = database.run(ask, "leader")
    check("level lead asks", status(database, run) == "requested", run)
    check("twice is the same", database.run(ask, "operator") == run)
    for role in ("stranger", "reader", "other"):
        got = database.run(f"SELECT termgate.job_finish({run}, 'cancelled')", role)
        check(f"{role} does not withdraw it", got == "42501", got)
    check("who has asked withdraws it", database.run(f"SELECT termgate.job_finish({run}, 'cancelled')", "leader") is True)
    run = database.run(ask, "leader")
    check("an operator withdraws it", database.run(f"SELECT termgate.job_finish({run}, 'cancelled')", "operator") is True)
    run = database.run(ask, "leader")
    for role in ("stranger", "reader"):
        check(f"{role} begins none", database.run(take, role) == "42501")
    check("level write begins it, as job_start", database.run(take, "writer") == run)
    # From then on the run is the role's that has begun it.
    check("who has asked ends it no more", database.run(f"SELECT termgate.job_finish({run}, 'cancelled')", "leader") == "42501")
    check("who has begun it does", database.run(f"SELECT termgate.job_finish({run}, 'completed')", "writer") is True)


def test_a_request_that_a_frozen_session_holds_stops_nobody(database):
    scope = f"jobs {next(numbers)}"
    run = database.run(f"SELECT run_id FROM termgate.job_request('j', '{scope}')", "leader")
    frozen = database.connect("operator")
    frozen.autocommit = False
    frozen.cursor().execute(f"SELECT termgate.job_finish({run}, 'cancelled')")
    take = f"SELECT run_id FROM termgate.job_take('j', '{scope}', 'me', 5)"
    check("nobody waits for it", database.run("SET statement_timeout = '5s'; " + take, "leader") is None)
    started = database.run(f"SELECT termgate.job_start('j', '{scope}', 'me', 5)", "leader")
    check("nor does a start", isinstance(started, int), started)
    database.run(f"SELECT termgate.job_finish({started}, 'failed')", "leader")
    frozen.rollback()
    frozen.close()
    check("it is begun later", database.run(take, "leader") == run)


def test_pruning_keeps_a_request_and_what_it_resumes(database):
    scope = f"jobs {next(numbers)}"
    begin = f"termgate.job_start('j', '{scope}', 'me', 5)"
    stopped = database.run(f"SELECT {begin}", "leader")
    database.run(f"SELECT termgate.job_finish({stopped}, 'failed', 1, NULL, 'page 3')", "leader")
    database.run(f"SELECT run_id FROM termgate.job_request('j', '{scope}', 'dry-run')", "leader")
    dry = database.run(f"SELECT run_id FROM termgate.job_take('j', '{scope}', 'me', 5)", "leader")
    database.run(f"SELECT termgate.job_finish({dry}, 'completed')", "leader")
    asked = database.run(f"SELECT run_id FROM termgate.job_request('j', '{scope}', 'resume')", "leader")
    database.run(
        "UPDATE termgate.job_runs SET started_at = started_at - interval '2 days', last_heartbeat = last_heartbeat - interval '2 days',"
        f" completed_at = completed_at - interval '2 days' WHERE scope = '{scope}'"
    )
    database.run("SELECT termgate.prune_history('1 day')", "operator")
    left = database.run(f"SELECT array_agg(run_id ORDER BY run_id) FROM termgate.job_history WHERE scope = '{scope}'")
    check("the dry run alone is gone", left == [stopped, asked], left)
    check("the request waits", status(database, asked) == "requested")


def test_a_session_ends_only_runs_of_what_it_declares(database, run_of_writer):
    scope, run = run_of_writer
    for declared, term in (("another", 5), (scope, 4), (scope, 6), ("another", 9)):
        for before in ([f"SET termgate.scope = '{declared}'", f"SET termgate.term = '{term}'"],):
            for call in [f"job_heartbeat({run})"] + [f"job_finish({run}, '{one}')" for one in STATUSES]:
                got = database.run(f"SELECT termgate.{call}", "writer", before=before)
                check(f"with {declared}/{term}: {call}", got == "TG005", got)
    own = [f"SET termgate.scope = '{scope}'", "SET termgate.term = '5'"]
    check("with its own", database.run(f"SELECT termgate.job_finish({run}, 'failed')", "writer", before=own) is True)


@pytest.mark.parametrize("ended, expected", [("lost", 107), ("cancelled", 105), ("completed", 0), ("failed", 0)])
def test_an_end_that_is_not_recorded(database, ended, expected):
    # By somebody who may: COMMAND itself says completed or failed, and then its own status counts.
    scope = f"jobs {next(numbers)}"
    update = f"UPDATE termgate.job_runs SET status = '{ended}', completed_at = now() WHERE run_id = $TERMGATE_RUN_ID"
    end = f"psql -Xq '{database.url}' -c \"{update}\""
    done = termgate(database.as_("leader"), "run", "--scope", scope, "--ttl", "60s", "--job", "j", "--", "sh", "-c", end)
    check("the status says so", done.returncode == expected, done)
    if expected == 107:
        check("and the message", "could not be recorded" in done.stderr and "lost" in done.stderr, done.stderr)


def test_a_run_inside_a_run(database):
    # The outer one's declaration, in PGOPTIONS, is not the inner one's.
    inner = f"'{TERMGATE}' run --scope 'inner {next(numbers)}' --job j -- sh -c 'exit 3'"
    scope = f"outer {next(numbers)}"
    words = ("run", "--scope", scope, "--job", "j", "--", "sh", "-c", f'{inner}; echo "$? $PGOPTIONS"')
    done = termgate(database.as_("leader"), *words, env={"PGOPTIONS": "-c work_mem=1MB"})
    check("its end is recorded", done.stdout.startswith("3 -c work_mem=1MB -c termgate.scope=outer"), done)
    last = "SELECT status FROM termgate.job_history WHERE scope LIKE 'inner%' ORDER BY run_id DESC LIMIT 1"
    check("as failed", database.run(last) == "failed")


SETTINGS = {
    "bytea_output": "escape",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-10",
    "standard_conforming_strings": "off",
    "client_encoding": "LATIN1",
    "search_path": "nowhere",
    "TimeZone": "Asia/Kathmandu",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "row_security": "off",
    "lc_messages": "C",
    "client_min_messages": "debug1",
    "enable_seqscan": "off",
    "idle_session_timeout": "60s",
    "statement_timeout": "20s",
    "lock_timeout": "10s",
}


def work(database, role):
    """Answers of the command, to be the same whatever the role's settings."""
    scope, url = f"work {role}", database.as_(role)
    payload = bytes(range(256)) + "ä\\x\\\\ \U0001f600".encode()
    said = []
    for words, data in (
        (("append", "--stream", scope, "--scope", scope, "--term", "1", "--file", "-"), payload),
        (("append", "--stream", scope, "--scope", scope, "--term", "1", "--file", "-"), b"\\x41"),
        (("follow", "--name", scope, "--stream", scope, "--from-start", "--once", "--json"), None),
        (("read", scope, "--json"), None),
        (("fence", "show", scope), None),
        (("run", "--scope", scope + "/r", "--once-per", "1d", "--", "sh", "-c", "echo in"), None),
        (("run", "--scope", scope + "/r", "--once-per", "1d", "--", "sh", "-c", "echo in"), None),
        (("job", "list", "--scope", scope + "/r"), None),
        (("lease", "list"), None),
        (("verify",), None),
    ):
        done = termgate(url, *words, data=data if data is not None else b"")
        # Of what has times and other roles' rows in it, that there is an answer.
        output = b"" if words[0] in ("job", "lease", "fence") else re.sub(rb'"(?:created_at|at)[a-z_]*": ?[^,}]*', b"", done.stdout)
        said.append((words[0], done.returncode, output.replace(scope.encode(), b"SCOPE"), done.stderr))
    return said


def test_settings_of_a_role(database):
    plain = work(database, "leader")
    check("it works without", all(code in (0, 2) for _, code, _, _ in plain), plain)
    database.run("CREATE ROLE set_all LOGIN")
    check("granted", termgate(database.url, "init", "--grant", "set_all=lead").returncode == 0)
    for name, value in SETTINGS.items():
        if database.run(f"SELECT count(*) FROM pg_settings WHERE lower(name) = lower('{name}')") == 1:
            quoted = value if "," in value else f"'{value}'"
            database.run(f"ALTER ROLE set_all SET {name} = {quoted}")
    got = work(database, "set_all")
    check("all of them together change nothing", got == plain, (got, plain))


def test_read_only_by_default(database):
    database.run("CREATE ROLE readonly LOGIN")
    termgate(database.url, "init", "--grant", "readonly=lead")
    database.run("ALTER ROLE readonly SET default_transaction_read_only = on")
    for words in (
        ("lease", "acquire", "--scope", "ro", "--owner", "me"),
        ("append", "--stream", "ro", "--scope", "ro", "--term", "1", "--file", "/dev/null"),
        ("exec", "--scope", "ro", "--term", "1", "SELECT 1"),
        ("run", "--scope", "ro", "--", "echo", "in"),
    ):
        done = termgate(database.as_("readonly"), *words)
        check(f"{words[0]} is refused with the remedy", done.returncode != 0 and "default_transaction_read_only = off" in done.stderr, done)
    check("and the administrator's setting is kept", database.run("SELECT count(*) FROM termgate.fences WHERE scope = 'ro'") == 0)
    check("reading goes on", termgate(database.as_("readonly"), "lease", "list").returncode == 0)


def test_a_watch_goes_on_when_the_database_answers_again(database):
    scope = f"jobs {next(numbers)}"
    env = dict(clean, TERMGATE_DB=database.as_("reader"))
    watch = subprocess.Popen(
        [TERMGATE, "lease", "watch", "--scope", scope, "--interval", "100ms"], env=env, stdout=subprocess.PIPE, text=True
    )
    patience = threading.Timer(30, watch.kill)
    patience.start()
    check("nobody leads", watch.stdout.readline() == "nobody\n")
    database.run("ALTER ROLE reader NOLOGIN")
    database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
    check("it goes on", stays(lambda: watch.poll() is None, 1))
    database.run("ALTER ROLE reader LOGIN")
    termgate(database.as_("leader"), "lease", "acquire", "--scope", scope, "--owner", "me", "--ttl", "60s")
    check("the change is reported", watch.stdout.readline() == "1\tme\t\n")
    patience.cancel()
    watch.kill()
    watch.communicate()


def test_every_table_has_a_replica_identity(database):
    # Without one, a publication FOR ALL TABLES makes PostgreSQL refuse each UPDATE and DELETE (55000).
    lacking = database.run(
        "SELECT string_agg(c.relname, ', ') FROM pg_class c WHERE c.relnamespace = 'termgate'::regnamespace"
        " AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.relreplident <> 'f'"
        " AND (c.relreplident = 'n' OR NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))"
    )
    check("every one", lacking is None, lacking)


class Sqlite:
    """The same few things done to an SQLite file, past Termgate."""

    def __init__(self):
        self.file = f"{scratch.name}/{next(numbers)}.db"
        self.url = f"sqlite:{self.file}"
        termgate(self.url, "init")

    def as_(self, _):
        return self.url

    def shift(self, table, columns, scope, seconds):
        connection = sqlite3.connect(self.file, isolation_level=None)
        connection.create_function("termgate_guard_load_termgate_extension_first", -1, lambda *_: 1)  # as if layer 1 wrote
        sets = ", ".join(f"{one} = {one} + {seconds * 1000}" for one in columns)
        connection.execute(f"UPDATE termgate_{table} SET {sets} WHERE scope = ?", (scope,))
        connection.close()


def shift(database, table, columns, scope, seconds):
    if isinstance(database, Sqlite):
        return database.shift(table, columns, scope, seconds)
    sets = ", ".join(f"{one} = {one} + interval '{seconds} s'" for one in columns)
    return database.run(f"UPDATE termgate.{table} SET {sets} WHERE scope = '{scope}'")


@pytest.fixture(params=["postgresql", "sqlite"])
def either(request, database):
    return database if request.param == "postgresql" else Sqlite()


YEAR, DAY, HOUR = 365 * 86400, 86400, 3600
RUN_TIMES = ("started_at", "completed_at", "last_heartbeat")


AHEAD = [
    (YEAR, True, True),
    (2 * DAY, True, True),
    (12 * HOUR, False, True),
    (60, False, True),
    (-HOUR, False, False),
    (-2 * DAY, True, False),
]


@pytest.mark.parametrize("ahead, runs, warns", AHEAD)
def test_a_run_completed_while_the_clock_was_ahead(either, ahead, runs, warns):
    # [complaint] A clock that was wrong once: a job that is skipped in silence until that time comes.
    scope = f"clock {next(numbers)}"
    line = ("run", "--scope", scope, "--once-per", "1d", "--", "echo", "in")
    check("the first", termgate(either.as_("leader"), *line).stdout == "in\n")
    shift(either, "job_runs", RUN_TIMES, scope, ahead)
    planned = termgate(either.as_("leader"), *line[:5], "--dry-run", *line[5:])
    check("--dry-run says what will be", ("would run" in planned.stdout) == runs and ("in the future" in planned.stderr) == warns, planned)
    again = termgate(either.as_("leader"), *line)
    check("it runs or waits, and says why", (again.returncode, again.stdout) == (0, "in\n" if runs else ""), again)
    check("the clock is named", ("in the future" in again.stderr) == warns, again.stderr)
    check("once", termgate(either.as_("leader"), *line).stdout == "")


def test_a_lease_taken_while_the_clock_was_ahead(either):
    scope = f"clock {next(numbers)}"
    acquire = ("lease", "acquire", "--scope", scope, "--ttl", "1s", "--owner")
    check("acquired", termgate(either.as_("leader"), *acquire, "dead").returncode == 0)
    shift(either, "leases", ("acquired_at", "renewed_at", "expires_at"), scope, YEAR)
    told = termgate(either.url, "doctor")
    check("doctor says so", "while the clock was ahead" in told.stdout, told.stdout)
    check("the next attempt limits it", termgate(either.as_("leader"), *acquire, "next").returncode == 4)
    waited = termgate(either.as_("leader"), "run", "--scope", scope, "--wait", "10s", "--", "echo", "in")
    check("it ends after its TTL", waited.returncode == 0 and waited.stdout == "in\n", waited)


def test_pruning_keeps_what_the_next_run_needs(either):
    scope = f"prune {next(numbers)}"
    url = either.as_("leader")
    line = ("run", "--scope", scope, "--once-per", "7d", "--", "echo", "in")
    check("the first", termgate(url, *line).stdout == "in\n")
    shift(either, "job_runs", RUN_TIMES, scope, -2 * DAY)
    done = termgate(either.url, "prune", "--history", "--older-than", "1d")
    check("pruned", done.returncode == 0, done.stderr)
    check("it is not due", termgate(url, *line).stdout == "")
    # And for --resume: the last run's checkpoint.
    resume = ("run", "--scope", scope + "r", "--job", "r", "--resume", "--", "sh", "-c")
    termgate(url, *resume, f"'{TERMGATE}' job beat --checkpoint here; exit 1")
    shift(either, "job_runs", RUN_TIMES, scope + "r", -2 * DAY)
    termgate(either.url, "prune", "--history", "--older-than", "1d")
    check("it resumes", termgate(url, *resume, 'echo "$TERMGATE_CHECKPOINT"').stdout == "here\n")
