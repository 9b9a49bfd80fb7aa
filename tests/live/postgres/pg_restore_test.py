#!/usr/bin/env python3
"""[F3] A database that was restored, copied or promoted may have forgotten raises.

  pytest tests/live/postgres/pg_restore_test.py [-k upgrade]

Each way back in time is really walked, on throw-away PostgreSQL 15 servers: what the database can know makes its scopes
untrusted (TG004, status 9); what looks like a crash cannot be known and is for the operator to declare; what lost nothing is
vouched for. Every case is played with and without the operator's word.
"""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from checks import captured, eventually
from given import PG_SERVER, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-restore.", ignore_cleanup_errors=True)
os.chmod(scratch.name, 0o755)
BIN = subprocess.run([PG_SERVER, "bin", "15"], check=True, capture_output=True, text=True).stdout.strip()


def sh(*words, check=True, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done


def as_server(directory, *words):
    """Runs a PostgreSQL program as the owner of the server's files, as these refuse to run as root."""
    owner = os.stat(directory)
    prefix = (
        ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups", "env", "HOME=/tmp"] if os.getuid() == 0 else []
    )
    return sh(*prefix, *words, cwd=directory)


class Server:
    count = 0

    def __init__(self, copy_of=None):
        Server.count += 1
        self.dir = Path(scratch.name) / f"server{Server.count}"
        self.dir.mkdir()
        if os.getuid() == 0:
            probe = Path(scratch.name) / "probe"
            if not probe.exists():
                sh(PG_SERVER, "start", "15", probe)
                sh(PG_SERVER, "stop", probe, "immediate")
            owner = os.stat(probe / "data")
            os.chown(self.dir, owner.st_uid, owner.st_gid)

    def start(self, *settings, another_system=False):
        self.url = sh(
            *(["env", "PG_SERVER_INITDB=1"] if another_system else []), PG_SERVER, "start", "15", self.dir, *settings
        ).stdout.strip()
        return self

    def stop(self, mode="fast"):
        sh(PG_SERVER, "stop", self.dir, mode)

    def sql(self, statement, url=None):
        return sh("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url or self.url, "-c", statement).stdout.strip()

    def base_backup(self, *options):
        copy = Server()
        as_server(copy.dir, f"{BIN}/pg_basebackup", "-d", self.url, "-D", copy.dir / "data", "-c", "fast", "-X", "stream", *options)
        return copy

    def append_file(self, name, text):
        path = self.dir / "data" / name
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
        owner = os.stat(self.dir / "data")
        os.chown(path, owner.st_uid, owner.st_gid) if os.getuid() == 0 else None


def termgate(url, *words):
    return captured([TERMGATE, *words], env=dict(os.environ, TERMGATE_DB=url), stdin=subprocess.DEVNULL)


class Restored(unittest.TestCase):
    def ok(self, url, *words):
        done = termgate(url, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def seal(self, url, term, scope="external"):
        return termgate(url, "seal", "--scope", scope, "--term", str(term))

    def prepared(self, server, *init):
        """A server whose scope `external` stands at 5 and whose scope `leased` has a lease."""
        self.ok(server.url, "init", *init)
        self.ok(server.url, "seal", "--scope", "external", "--term", "5")
        self.ok(server.url, "seal", "--scope", "bystander", "--term", "5")
        self.ok(server.url, "lease", "acquire", "--scope", "leased", "--owner", "a", "--ttl", "1h")
        return server

    def primary(self, *init):
        server = Server().start()
        self.addCleanup(server.stop, "immediate")
        return self.prepared(server, *init)

    def started(self, server):
        server.start()
        self.addCleanup(server.stop, "immediate")
        return server

    def fence(self, url, scope="external"):
        return self.ok(url, "fence", "show", scope).split()[0]

    def assert_untrusted(self, url):
        done = self.seal(url, 20)
        assert done.returncode == 9, done.stdout + done.stderr
        assert "TG004" in done.stderr
        assert "declare-restored" in done.stderr
        done = termgate(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1")
        assert "TG004" in done.stderr
        assert "untrusted" in termgate(url, "doctor").stdout

    def assert_settled_by_operator(self, url):
        """The ways out: a lease's acquisition jumps, an external scope is declared, the rest is vouched for."""
        term = int(self.ok(url, "lease", "acquire", "--scope", "leased", "--owner", "a").split("\t")[0])
        assert term > 2**32
        assert "TG004" in self.seal(url, 20).stderr
        # One scope's way out is no other's: not for an equal term, and not for a session that has passed elsewhere.
        assert "TG004" in termgate(url, "exec", "--scope", "bystander", "--term", "5", "SELECT 1").stderr
        mixed = (
            f"SELECT termgate.check_term('leased', {term}); SELECT termgate.check_term('leased', {term}); SELECT"
            " termgate.check_term('bystander', 5)"
        )
        assert "TG004" in sh("psql", "-qXAt", url, *(word for part in mixed.split("; ") for word in ("-c", part)), check=False).stderr
        self.ok(url, "fence", "declare-restored", "--scope", "external", "--above", "9", "--reason", "etcd says 9")
        assert "TG004" in termgate(url, "append", "--stream", "late", "--scope", "bystander", "--term", "5", "--payload", "x").stderr
        assert self.seal(url, 8).returncode == 3
        assert self.seal(url, 10).returncode == 0
        assert "TG004" in termgate(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1").stderr
        self.ok(url, "fence", "declare-restored", "--nothing-lost", "--reason", "sure of the rest")
        self.ok(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1")
        assert "all guarantees kept" in self.ok(url, "verify")

    def assert_vouched(self, url):
        self.ok(url, "fence", "declare-restored", "--nothing-lost", "--reason", "planned")
        assert self.seal(url, 4).returncode == 3
        assert self.seal(url, 20).returncode == 0

    def assert_trusted(self, url, fence):
        assert self.fence(url) == fence
        assert self.seal(url, int(fence) - 1).returncode == 3
        assert self.seal(url, int(fence)).returncode == 0

    def test_restart_and_crash_are_no_restore(self):
        server = self.primary()
        server.stop()
        server.start()
        self.assert_trusted(server.url, "5")
        self.seal(server.url, 6)
        server.stop("immediate")
        server.start()
        self.assert_trusted(server.url, "6")

    def test_raise_survives_a_crash_although_the_session_did_not_want_to_wait(self):
        server = self.primary()
        server.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")
        server.sql("SELECT pg_reload_conf()")
        server.sql("SET synchronous_commit = off; SELECT fence FROM termgate.seal('external', 9)")
        sh(PG_SERVER, "kill", server.dir)
        server.start()
        self.assert_trusted(server.url, "9")

    def test_base_backup_with_recovery_signal(self):
        server = self.primary()
        copy = server.base_backup()
        self.seal(server.url, 9)
        copy.append_file("recovery.signal", "")
        copy.append_file("postgresql.conf", "restore_command = 'false'\n")
        self.started(copy)
        # It lets readers in before its recovery has ended.
        self.eventually(lambda: copy.sql("SELECT pg_is_in_recovery()") == "f", 60)
        assert self.fence(copy.url) == "5"
        self.assert_untrusted(copy.url)
        self.assert_settled_by_operator(copy.url)

    def test_base_backup_without_recovery_signal_is_for_the_operator(self):
        server = self.primary()
        copy = server.base_backup()
        self.seal(server.url, 9)
        self.started(copy)
        self.assert_trusted(copy.url, "5")
        self.ok(copy.url, "fence", "declare-restored", "--untrusted", "--reason", "an old base backup")
        self.assert_untrusted(copy.url)
        self.assert_settled_by_operator(copy.url)

    def test_template_copy(self):
        server = self.primary()
        server.sql(
            "CREATE DATABASE source TEMPLATE postgres", server.url.replace("/postgres", "/template1").replace("//template1@", "//postgres@")
        )
        url = server.url.rsplit("/", 1)[0] + "/source"
        self.assert_untrusted(url)
        self.assert_settled_by_operator(url)
        self.assert_trusted(server.url, "5")

    def test_pg_restore_clean(self):
        server = self.primary()
        dump = Path(scratch.name) / "dump"
        sh(f"{BIN}/pg_dump", "-Fc", "-f", dump, server.url)
        self.seal(server.url, 9)
        sh(f"{BIN}/pg_restore", "--clean", "--if-exists", "-d", server.url, dump)
        assert self.fence(server.url) == "5"
        self.assert_untrusted(server.url)
        self.assert_settled_by_operator(server.url)

    def standby_of(self, server):
        return self.started(server.base_backup("-R"))

    def promote(self, standby):
        # SQL's promotion only ends recovery; the checkpoint that would write the new timeline to pg_control comes later.
        standby.sql("SELECT pg_promote(true, 60)")

    def test_promotion_of_a_lagging_standby_before_its_first_checkpoint(self):
        server = self.primary()
        standby = self.standby_of(server)
        self.cut_off(standby)  # what the primary commits from here on never arrives
        self.seal(server.url, 9)
        # A session of the standby that lives to see the promotion must not go on with what it knew.
        reader = subprocess.Popen(
            ["psql", "-qXAt", standby.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(3):
            reader.stdin.write("SELECT termgate.check_term('bystander', 5);\n")
            reader.stdin.flush()
            assert reader.stdout.readline().strip() == "5"
        server.stop("immediate")
        self.promote(standby)
        assert "TG004" in reader.communicate("SELECT termgate.check_term('bystander', 5);\n", timeout=60)[0]
        assert self.fence(standby.url) == "5"
        self.assert_untrusted(standby.url)
        self.assert_settled_by_operator(standby.url)

    def cut_off(self, standby):
        standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
        standby.sql("SELECT pg_reload_conf()")
        self.eventually(lambda: standby.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0")

    def test_no_two_promotions_issue_the_same_term(self):
        """The acquisition that makes a scope trusted again may be lost by the next failover, while its holder lives on."""
        server = self.primary()
        first, second = self.standby_of(server), self.standby_of(server)
        server.stop("immediate")
        for standby in (first, second):  # neither knows of the other: both count on from the same timeline
            self.promote(standby)
            assert standby.sql("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)") == "00000002"
        behind = self.standby_of(first)
        self.cut_off(behind)
        lost, other = (
            int(self.ok(standby.url, "lease", "acquire", "--scope", "leased", "--owner", "a").split("\t")[0]) for standby in (first, second)
        )
        assert lost != other
        first.stop("immediate")
        self.promote(behind)
        term = int(self.ok(behind.url, "lease", "acquire", "--scope", "leased", "--owner", "a").split("\t")[0])
        assert term > lost
        assert termgate(behind.url, "exec", "--scope", "leased", "--term", str(lost), "SELECT 1").returncode == 3

    def eventually(self, condition, seconds=30):
        assert eventually(condition, seconds, 0.1), f"it did not come to that within {seconds} s"

    def wait_for_standby(self, server, state):
        self.eventually(
            lambda: server.sql("SELECT string_agg(sync_state, ',') FROM pg_stat_replication WHERE state = 'streaming'") == state
        )

    def test_planned_switchover_needs_the_operators_word(self):
        server = self.primary()
        standby = self.standby_of(server)
        self.wait_for_standby(server, "async")
        self.seal(server.url, 9)
        server.stop()
        self.promote(standby)
        assert self.fence(standby.url) == "9"
        self.assert_untrusted(standby.url)
        self.assert_vouched(standby.url)

    def test_synchronous_switchover_needs_none(self):
        server = self.primary("--failover", "synchronous")
        standby = self.standby_of(server)
        server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        server.sql("SELECT pg_reload_conf()")
        self.wait_for_standby(server, "sync")
        server.sql("SET synchronous_commit = local; SELECT fence FROM termgate.seal('external', 9)")
        server.stop("immediate")
        self.promote(standby)
        standby.sql("ALTER SYSTEM RESET synchronous_standby_names")
        standby.sql("SELECT pg_reload_conf()")
        self.assert_trusted(standby.url, "9")

    def test_pg_upgrade(self):
        server = self.primary()
        server.stop()
        new = Server().start(another_system=True)
        new.stop()
        as_server(
            new.dir,
            f"{BIN}/pg_upgrade",
            "-b",
            BIN,
            "-B",
            BIN,
            "-d",
            server.dir / "data",
            "-D",
            new.dir / "data",
            "-U",
            "postgres",
            "-s",
            new.dir,
        )
        self.started(new)
        assert self.fence(new.url) == "5"
        self.assert_untrusted(new.url)
        self.assert_vouched(new.url)
        server.start()

    def test_a_standby_refuses_and_says_why(self):
        server = self.primary()
        standby = self.standby_of(server)
        done = self.seal(standby.url, 7)
        assert done.returncode != 0
        assert re.search("read-only|recovery|standby", done.stderr)
        assert self.fence(standby.url) == "5"
