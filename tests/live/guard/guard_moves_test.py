#!/usr/bin/env python3
"""[F1][F3][F6] What happens to guarded databases that move: logical replication into and out of guarded and protected tables, promotion of
a standby, pg_upgrade. docs/use/guard.md says the same.

  pytest tests/live/guard/guard_moves_test.py [--library termgate_guard.so] [--major 15] [--upgrade-to FOLDER]

--upgrade-to: the programs of a newer server that has the extension, e.g. one of PostgreSQL 18. Without it pg_upgrade runs from 15 to 15, in
long runs alone.
"""
import os
import shutil
import unittest
from pathlib import Path

import pytest

import given
from checks import eventually
from given import LONG
from guard_rig import chosen, made, sh

chosen()  # or skip
UPGRADE_TO = given.option("upgrade_to")


def as_server(rig, *words, **more):
    """A program of the server, as the user that the server runs as."""
    owner = (rig.scratch / "server" / "data").stat()
    if os.getuid() == 0:
        words = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups", "env", "HOME=/tmp", *words]
    return sh(*words, **more)


class Moves(unittest.TestCase):
    def server(self, *settings):
        rig = made(settings=settings)
        self.addCleanup(rig.close)
        return rig

    def need(self, rig, program):
        if not (rig.bin / program).exists():
            pytest.skip(f"this server comes without {program}")


class Replication(Moves):
    def test_into_and_out_of_guarded_and_protected_tables(self):
        rig = self.server()
        for database in ("source", "target"):
            rig.admin.rows(f"CREATE DATABASE {database}")
            rig.admin.rows(f"GRANT CREATE ON DATABASE {database} TO termgate_owner")
            rig.layer1(database)
            with rig.session("postgres", database=database) as admin:
                admin.rows("CREATE EXTENSION termgate_guard SCHEMA termgate; SELECT termgate.seal('s', 5)")
                admin.rows("CREATE TABLE plain (id int PRIMARY KEY); CREATE TABLE kept (id int PRIMARY KEY, scope text)")
                admin.rows("GRANT ALL ON plain, kept TO app; SELECT termgate.protect('kept', 'scope')")
            rig.admin.rows(f"ALTER DATABASE {database} SET termgate.guard = enforce")
        rig.admin.rows("ALTER ROLE postgres SET termgate.guard = off")
        source, target = [rig.session("postgres", database=database) for database in ("source", "target")]
        leader = rig.session("app", "s", 5, database="source")
        assert leader.run("INSERT INTO plain VALUES (1)", "INSERT INTO kept VALUES (1, 's')") == "ok", leader.errors
        source.rows("CREATE PUBLICATION p FOR TABLE plain, kept")
        source.rows("SELECT pg_create_logical_replication_slot('sub', 'pgoutput')")
        # By a role that is guarded as all are here, so that apply is exempt by itself.
        rig.admin.rows("CREATE ROLE applier SUPERUSER LOGIN")
        applier = rig.session("applier", database="target", options="-c termgate.guard=off")
        applier.rows(
            f"CREATE SUBSCRIPTION sub CONNECTION 'host=127.0.0.1 port={rig.port} dbname=source user=postgres' PUBLICATION p WITH"
            " (create_slot = false, slot_name = 'sub')"
        )
        counts = "SELECT (SELECT count(*) FROM plain)::text || (SELECT count(*) FROM kept)::text"
        # The first copy, then what is written later; a stale leader's write never gets there.
        assert eventually(lambda: target.value(counts) == "11", 20, 0.1), target.value(counts)
        assert leader.run("INSERT INTO plain VALUES (2)", "INSERT INTO kept VALUES (2, 's')") == "ok", leader.errors
        stale = rig.session("app", "s", 4, database="source")
        assert stale.run("INSERT INTO plain VALUES (3)", "INSERT INTO kept VALUES (3, 's')") == "TG001"
        assert eventually(lambda: target.value(counts) == "22", 20, 0.1), target.value(counts)
        # Apply is exempt from both; the fences of the two sides are two fences. Sessions over there are guarded as ever.
        target.rows("SELECT termgate.seal('s', 9)")
        assert leader.run("INSERT INTO plain VALUES (4)", "INSERT INTO kept VALUES (4, 's')") == "ok", leader.errors
        assert eventually(lambda: target.value(counts) == "33", 20, 0.1), target.value(counts)
        for table in ("plain VALUES (5)", "kept VALUES (5, 's')"):
            assert rig.session("app", database="target").run(f"INSERT INTO {table}") == "TG002"
            assert rig.session("app", "s", 5, database="target").run(f"INSERT INTO {table}") == "TG001"
        # A trigger that is ENABLE ALWAYS fires for apply as well, and refuses what its own side's fence does not allow.
        target.rows("ALTER TABLE kept ENABLE ALWAYS TRIGGER termgate_row")
        assert leader.run("INSERT INTO kept VALUES (6, 's')") == "ok", leader.errors
        rig.wait_until("SELECT pg_read_file('server.log') LIKE '%TG002 no term declared for scope \"s\": table public.kept%'", 20)
        assert target.value(counts) == "33"


class Promotion(Moves):
    def test_a_session_that_lives_to_see_it(self):
        rig = self.server()
        self.need(rig, "pg_basebackup")
        standby = rig.scratch / "standby"
        standby.mkdir()
        shutil.chown(standby, *[(rig.scratch / "server").stat().st_uid, (rig.scratch / "server").stat().st_gid])
        copy = [rig.bin / "pg_basebackup", "-h", "127.0.0.1", "-p", rig.port, "-U", "postgres", "-D", standby / "data", "-R", "-c", "fast"]
        as_server(rig, *copy)
        primary = (rig.scratch / "server", rig.port)
        sh(given.PG_SERVER, "start", rig.major, standby, env=rig.environment)
        self.addCleanup(sh, given.PG_SERVER, "stop", standby, "immediate")
        rig.port = int((standby / "port").read_text())
        app, admin = rig.session("app", "s", 5), rig.session("postgres")
        assert app.run("SELECT count(*) FROM t") == "ok"
        assert app.run("INSERT INTO t VALUES (1, 1)") == "25006", "a standby"
        assert app.run("SELECT nextval('q')") == "25006"
        sh(given.PG_SERVER, "stop", primary[0], "immediate")
        assert admin.value("SELECT pg_promote()") == "t"
        assert app.run("INSERT INTO t VALUES (1, 1)") == "TG004", "a raise may be missing"
        assert app.run("SELECT termgate.check_term('s', 5)") == "TG004"
        admin.rows("SELECT termgate.declare_nothing_lost('test', 'the primary was at rest')")
        assert app.run("INSERT INTO t VALUES (1, 1)") == "ok", app.errors
        with rig.session("app", "s", 4) as stale:
            assert stale.run("INSERT INTO t VALUES (2, 1)") == "TG001"


class Upgrade(Moves):
    def test_pg_upgrade(self):
        if not UPGRADE_TO and not LONG:
            pytest.skip("with --long, or --upgrade-to")
        rig = self.server("wal_level=replica")
        self.need(rig, "pg_upgrade")
        rig.admin.rows("CREATE TABLE kept (id int); SELECT termgate.protect('kept', scope => 's'); GRANT ALL ON kept TO app, free")
        rig.admin.rows("ALTER DATABASE postgres SET termgate.guard = enforce; ALTER ROLE postgres SET termgate.guard = off")
        with rig.session("app", "s", 5) as app:
            assert app.run("INSERT INTO t VALUES (1, 1)", "INSERT INTO kept VALUES (1)") == "ok", app.errors
            assert app.run("SELECT termgate.append('stream', 5, 'x', NULL, 's')") == "ok", app.errors
        rig.stop()
        programs = Path(UPGRADE_TO) if UPGRADE_TO else rig.bin
        major = sh(programs / "postgres", "-V").split()[2].split(".")[0]
        new = rig.scratch / "new"
        new.mkdir()
        shutil.chown(new, (rig.scratch / "server").stat().st_uid, (rig.scratch / "server").stat().st_gid)
        checksums = ["--no-data-checksums"] if int(major) >= 18 else []
        initdb = [programs / "initdb", "-D", new / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        as_server(rig, *initdb, *checksums)
        settings = new / "data" / "postgresql.conf"
        settings.write_text(
            settings.read_text()
            + "listen_addresses = '127.0.0.1'\nunix_socket_directories = '/tmp'\nfsync = off\n"
            "max_prepared_transactions = 20\nshared_preload_libraries = 'termgate_guard, termgate_shortcuts'\n"
        )
        upgrade = [programs / "pg_upgrade", "-b", rig.bin, "-B", programs, "-d", rig.scratch / "server" / "data", "-D", new / "data"]
        try:
            as_server(rig, *upgrade, "-U", "postgres", "-s", "/tmp", cwd=new)
        except AssertionError as failure:
            logs = sorted((new / "data" / "pg_upgrade_output.d").glob("*/log/pg_upgrade_dump_*.log"))
            raise AssertionError("\n".join([str(failure), *(log.read_text()[-5000:] for log in logs)])) from failure
        sh(given.PG_SERVER, "start", major, new, env=dict(rig.environment, PG_SERVER_BIN=str(programs)))
        self.addCleanup(sh, given.PG_SERVER, "stop", new, "immediate")
        rig.port = int((new / "port").read_text())
        # Who was guarded still is. Fences are untrusted until somebody vouches for them.
        for claim, wanted in (((), "TG002"), (("s", 4), "TG004"), (("s", 5), "TG004")):
            for statement in ("INSERT INTO t VALUES (2, 2)", "INSERT INTO kept VALUES (2)"):
                with rig.session("app", *claim) as app:
                    assert app.run(statement) == wanted, (claim, statement, app.errors)
        with rig.session("postgres") as admin:
            admin.rows("SELECT termgate.declare_nothing_lost('test', 'pg_upgrade')")
            assert admin.value("SELECT extversion FROM pg_extension WHERE extname = 'termgate_guard'") == "1.0"
            assert admin.rows("SELECT problem FROM termgate.doctor() WHERE severity = 'error' AND problem NOT LIKE 'fsync is off%'") == []
        with rig.session("app", "s", 5) as app:
            assert app.run("INSERT INTO t VALUES (2, 2)", "INSERT INTO kept VALUES (2)") == "ok", app.errors
            assert app.value("SELECT termgate.append('stream', 5, 'x', NULL, 's')") == "2"
        with rig.session("app", "s", 4) as stale:
            assert stale.run("INSERT INTO kept VALUES (3)") == "TG001"
