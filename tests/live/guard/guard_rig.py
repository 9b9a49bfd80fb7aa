"""A PostgreSQL server with the guard in it, for the tests of this folder: started as an ordinary user on a free
loopback port, from a copy of the installation in which the extension can be installed without being root.

    rig = Rig("15", library)      roles: postgres, termgate_owner (layer 1), app (write), lead (lead), plain (no grant): these three
    guarded;
                                  free (write, not guarded), watched (write, mode observe)
    with rig.session("app", scope="s", term=5) as session:
        session.run("INSERT INTO t VALUES (1)")      the SQLSTATE of the first error, or "ok"

Scope "s" stands at 5. `rig.state()` is everything that outlives a session; what was refused must leave it as it was.
"""
import os
import shutil
import subprocess
import tempfile
import types
import unittest
from itertools import count
from pathlib import Path

import pytest

import given
from checks import eventually
from given import LONG, PG_SERVER, ROOT
from pgraw import Connection, query

PG_HOME = ROOT / "tests/support/pg_home.sh"
GUARD = ROOT / "guard"


def chosen():
    """The server that the options ask for. Without a library and without such a server the module is skipped."""
    library, programs, major = given.option("library", given.GUARD), given.option("programs"), given.option("major", "15")
    if not library and not programs:
        pytest.skip("no library of the guard: TERMGATE_GUARD, --library or --programs names one", allow_module_level=True)
    settings = given.option("setting", [])
    return types.SimpleNamespace(library=library, programs=programs, major=major, settings=settings, newer=int(major) >= 16)


def made(**more):
    """A rig on that server."""
    on = chosen()
    return Rig(on.major, on.library, **{"settings": on.settings, "programs": on.programs, **more})


def sh(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Session(Connection):
    """A connection whose scripts answer with SQLSTATEs."""

    def run(self, *statements, wait=None):
        """Sends each statement, also those of one text with | between them, as a query of its own; the first error's SQLSTATE, or "ok"."""
        first, self.errors = "ok", []
        for statement in (one for text in statements for one in text.split(" | ")):
            for message in self.query(statement, wait=wait):
                if message.type == "E":
                    self.errors.append(message.fields())
                    first = self.errors[0]["C"]
        return first

    def gives(self, code, *statements, why="", wait=None):
        got = self.run(*statements, wait=wait)
        assert got == code, f"{why or statements[-1]}: {got} {self.errors}"

    def message(self):
        return self.errors[0]["M"] if self.errors else ""

    def start(self, statement):
        """Sends and does not wait."""
        self.send(query(statement))

    def finish(self, wait=None):
        """The SQLSTATE of what start() sent."""
        for message in self.until("Z", wait=wait):
            if message.type == "E":
                self.errors = [message.fields()]
                return self.errors[0]["C"]
        return "ok"


class Rig:
    SETUP = """
      CREATE ROLE termgate_owner LOGIN; CREATE ROLE app LOGIN; CREATE ROLE lead LOGIN; CREATE ROLE plain LOGIN; CREATE ROLE free LOGIN;
        CREATE ROLE watched LOGIN;
      GRANT pg_signal_backend TO termgate_owner; GRANT CREATE ON DATABASE postgres TO termgate_owner, app;
        GRANT TEMP ON DATABASE postgres TO PUBLIC;
      GRANT free TO app"""
    GUARDED = """
      CREATE EXTENSION termgate_guard SCHEMA termgate;
      ALTER ROLE app SET termgate.guard = enforce; ALTER ROLE lead SET termgate.guard = enforce;
        ALTER ROLE plain SET termgate.guard = enforce;
      ALTER ROLE watched SET termgate.guard = observe;
      SELECT termgate.grant_level('app', 'write'), termgate.grant_level('free', 'write'), termgate.grant_level('watched', 'write'),
        termgate.grant_level('lead', 'lead');
      GRANT CREATE, USAGE ON SCHEMA public TO app, lead, plain, free, watched;
      CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE log (n bigint); CREATE SEQUENCE q CACHE 1; CREATE SEQUENCE cached CACHE 50;
      GRANT ALL ON t, log, q, cached TO app, lead, plain, free, watched;
      INSERT INTO t SELECT g, 0 FROM generate_series(1000, 1010) g;
      SELECT nextval('q'), nextval('cached');
      SELECT termgate.seal('s', 5), termgate.seal('other', 9)"""

    def __init__(self, major, library, settings=(), preload="termgate_guard, termgate_shortcuts", programs=None):
        self.major, self.scratch = major, Path(tempfile.mkdtemp(prefix="termgate-guard."))
        os.chmod(self.scratch, 0o755)
        files = [library or "/nowhere", *GUARD.glob("termgate_guard*.sql"), GUARD / "termgate_guard.control"]
        # `programs`: of an installation that has the extension already, by ./run extension.
        self.bin = Path(programs) if programs else Path(sh(PG_HOME, major, self.scratch / "home", *files))
        self.environment = dict(os.environ, PG_SERVER_BIN=str(self.bin))
        self.start(
            "fsync=off",
            "max_prepared_transactions=20",
            "wal_level=logical",
            "track_commit_timestamp=on",
            "check_function_bodies=on",
            *([f"shared_preload_libraries={preload}"] if preload else []),
            *settings,
        )
        try:
            self.install()
        except BaseException:
            self.close()
            raise

    def start(self, *settings):
        self.url = sh(PG_SERVER, "start", self.major, self.scratch / "server", *settings, env=self.environment)
        self.port = int((self.scratch / "server" / "port").read_text())

    def stop(self, mode="fast"):
        sh(PG_SERVER, "stop", self.scratch / "server", mode)

    def close(self):
        self.stop("immediate")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def log(self):
        return (self.scratch / "server" / "data" / "server.log").read_text()

    def psql(self, *words, user="postgres", database="postgres", **more):
        client = "/usr/lib/postgresql/15/bin/psql"
        return sh(
            client if os.path.exists(client) else "psql",
            *"-qXAt -v ON_ERROR_STOP=1 -h 127.0.0.1 -p".split(),
            self.port,
            "-U",
            user,
            *words,
            database,
            **more,
        )

    def layer1(self, database="postgres"):
        """By psql alone, as sql/postgres/README.md describes it."""
        folder = ROOT / "sql/postgres"
        files = [folder / "before_install.sql", *sorted((folder / "install").glob("*.sql")), folder / "after_install.sql"]
        script = self.scratch / "install.sql"
        script.write_text(
            "".join(file.read_text(encoding="utf-8") for file in files)
            .replace("@schema_lit@", "'termgate'")
            .replace("@schema@", '"termgate"'),
            encoding="utf-8",
        )
        self.psql("-1", "-f", script, user="termgate_owner", database=database)

    def install(self):
        self.admin = self.session("postgres")
        self.admin.rows(self.SETUP)
        self.layer1()
        self.admin.rows(self.GUARDED)

    def session(self, role, scope=None, term=None, parameters=(), database="postgres", options=""):
        if scope is not None:
            options += f" -c termgate.scope={scope} -c termgate.term={term}"
        return Session(self.port, role, database, [*parameters, *([("options", options.strip())] if options.strip() else [])], wait=20)

    def value(self, sql):
        return self.admin.value(sql)

    def state(self):
        """What outlives sessions and can be compared: rows, sequences, large objects, definitions, settings, slots,
        prepared transactions."""
        return self.admin.rows(
            """
          SELECT 'rows', (SELECT count(*)::text || coalesce(sum(v), 0) FROM t), (SELECT count(*)::text FROM log)
          UNION ALL SELECT 'sequences', (SELECT last_value::text || is_called FROM q), (SELECT last_value::text || is_called FROM cached)
          UNION ALL SELECT 'large objects', (SELECT count(*)::text FROM pg_largeobject_metadata), (SELECT md5(coalesce(string_agg(data,
            '' ORDER BY loid, pageno), '')) FROM pg_largeobject)
          UNION ALL SELECT 'relations', (SELECT count(*)::text FROM pg_class WHERE relpersistence <> 't' AND relnamespace <>
            'pg_toast'::regnamespace), (SELECT count(*)::text FROM pg_proc WHERE pronamespace <> 'pg_catalog'::regnamespace)
          UNION ALL SELECT 'settings', (SELECT count(*)::text FROM pg_db_role_setting), (SELECT count(*)::text FROM pg_replication_slots)
          UNION ALL SELECT 'prepared', (SELECT count(*)::text FROM pg_prepared_xacts), (SELECT count(*)::text FROM pg_database)
          UNION ALL SELECT 'fences', (SELECT string_agg(scope || term, ',' ORDER BY scope) FROM termgate.fences),
            (SELECT count(*)::text FROM termgate.stream_writes)"""
        )

    def wait_until(self, sql, seconds=10):
        """Until the query gives true."""
        if not eventually(lambda: self.value(sql) == "t", seconds):
            raise AssertionError(f"not within {seconds} s: {sql}")


class OnARig(unittest.TestCase):
    """Tests on the server of their module (conftest.py), each with a scope of its own that stands at 5."""

    made = count(1)

    @pytest.fixture(autouse=True)
    def given_a_rig(self, rig):
        self.rig, self.sessions, self.scope = rig, [], f"scope{next(self.made)}"
        self.addCleanup(lambda: [session.end() for session in self.sessions])
        rig.admin.rows(f"SELECT termgate.seal('{self.scope}', 5)")

    def session(self, role="app", term=None, scope=None, **more):
        session = self.rig.session(role, (scope or self.scope) if term is not None else None, term, **more)
        self.sessions.append(session)
        return session

    def waits(self, session):
        """Until the session waits for a lock."""
        self.rig.wait_until(f"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {session.pid} AND NOT granted)")

    def memory_of(self, session, refused, texts, between):
        """Some 10^6 transactions with --long, else thousands, after which the process is as large as before. `refused`: by each round."""
        used = lambda: int(
            next(line for line in open(f"/proc/{session.pid}/status", encoding="ascii") if line.startswith("VmData")).split()[1]
        )
        group = [query(text) for text in texts]
        for number in range(100_000 if LONG else 300):
            session.send(*group)
            assert [message.fields()["C"] for message in session.until("Z", len(group)) if message.type == "E"] == refused
            if number == 100:
                before = used()
            if number % 2000 == 1999:
                self.rig.admin.rows(between)
        assert used() - before < 200, "kB more than after 100 rounds"
