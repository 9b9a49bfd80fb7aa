#!/usr/bin/env python3
"""[F3] A database that was restored, copied or promoted may have forgotten raises.

  pytest tests/live/postgres/pg_restore_test.py [-k upgrade]

Each way back in time is really walked, on throw-away PostgreSQL 15 servers: what the database can know makes its scopes untrusted (TG004,
status 9) until an operator settles them. A restart, a crash and a synchronous switchover leave them trusted, and no crash takes a raise
back, whatever synchronous_commit its session chose.
"""
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
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
    started = []

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(dir=scratch.name))
        self.dir.chmod(0o755)

    def start(self, another_system=False):
        initdb = ["env", "PG_SERVER_INITDB=1"] if another_system else []
        # Of a crash of the machine nothing is shown here.
        self.url = sh(*initdb, PG_SERVER, "start", "15", self.dir, "fsync=off").stdout.strip()
        Server.started.append(self)
        return self

    def stop(self, mode="fast"):
        sh(PG_SERVER, "stop", self.dir, mode)

    def sql(self, statement, url=None):
        return sh("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url or self.url, "-c", statement).stdout.strip()

    def set(self, name, value):
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    def base_backup(self, *options):
        copy = Server()
        owner = os.stat(self.dir)
        os.chown(copy.dir, owner.st_uid, owner.st_gid)
        as_server(copy.dir, f"{BIN}/pg_basebackup", "-d", self.url, "-D", copy.dir / "data", "-c", "fast", "-X", "stream", *options)
        return copy

    def standby(self):
        return self.base_backup("-R").start()

    def cut_off(self):
        self.set("primary_conninfo", "")
        comes_to(lambda: self.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0")

    def promote(self):
        # SQL's promotion only ends recovery; the checkpoint that would write the new timeline to pg_control comes later.
        self.sql("SELECT pg_promote(true, 60)")


@pytest.fixture
def primary():
    """Starts a server whose scope `external` stands at 5 and whose scope `leased` has a lease."""

    def made(*init):
        server = Server().start()
        ok(server.url, "init", *init)
        ok(server.url, "seal", "--scope", "external", "--term", "5")
        ok(server.url, "seal", "--scope", "bystander", "--term", "5")
        acquired(server.url)
        return server

    yield made
    while Server.started:
        Server.started.pop().stop("immediate")


def comes_to(condition, seconds=60):
    assert eventually(condition, seconds, 0.1), f"it did not come to that within {seconds} s"


def termgate(url, *words):
    return captured([TERMGATE, *words], env=dict(os.environ, TERMGATE_DB=url), stdin=subprocess.DEVNULL)


def ok(url, *words):
    done = termgate(url, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seal(url, term):
    return termgate(url, "seal", "--scope", "external", "--term", str(term))


def acquired(url):
    return int(ok(url, "lease", "acquire", "--scope", "leased", "--owner", "a", "--ttl", "1h").split("\t")[0])


def fence(url, scope="external"):
    return int(ok(url, "fence", "show", scope).split()[0])


def is_untrusted(url):
    done = seal(url, 20)
    assert done.returncode == 9, done.stdout + done.stderr
    assert "TG004" in done.stderr and "declare-restored" in done.stderr
    assert "TG004" in termgate(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1").stderr
    assert "untrusted" in termgate(url, "doctor").stdout


def is_settled_by_the_operator(url):
    """The ways out: a lease's acquisition jumps, an external scope is declared, the rest is vouched for."""
    term = acquired(url)
    assert term > 2**32
    assert "TG004" in seal(url, 20).stderr
    # One scope's way out is no other's: not for an equal term, and not for a session that has passed elsewhere.
    assert "TG004" in termgate(url, "exec", "--scope", "bystander", "--term", "5", "SELECT 1").stderr
    leased, bystander = f"SELECT termgate.check_term('leased', {term})", "SELECT termgate.check_term('bystander', 5)"
    assert "TG004" in sh("psql", "-qXAt", url, "-c", leased, "-c", leased, "-c", bystander, check=False).stderr
    ok(url, "fence", "declare-restored", "--scope", "external", "--above", "9", "--reason", "etcd says 9")
    assert "TG004" in termgate(url, "append", "--stream", "late", "--scope", "bystander", "--term", "5", "--payload", "x").stderr
    assert seal(url, 8).returncode == 3
    assert seal(url, 10).returncode == 0
    assert "TG004" in termgate(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1").stderr
    is_vouched_for(url)
    ok(url, "append", "--stream", "s", "--scope", "never seen", "--term", "1")
    assert "all guarantees kept" in ok(url, "verify")


def is_vouched_for(url):
    ok(url, "fence", "declare-restored", "--nothing-lost", "--reason", "sure of the rest")
    assert seal(url, 4).returncode == 3
    assert seal(url, 20).returncode == 0


def is_trusted(url, term):
    assert fence(url) == term
    assert seal(url, term - 1).returncode == 3
    assert seal(url, term).returncode == 0


RAISES = {
    "external": "SELECT termgate.seal('external', {term})",
    "leased": "SELECT termgate.acquire_lease('leased', 'a', '1 h')",
    "bystander": (
        "BEGIN; SELECT termgate.check_term('bystander', {term}); SET LOCAL synchronous_commit = off; CREATE TABLE other (v int); COMMIT"
    ),
}


def test_a_restart_is_no_restore_and_a_crash_takes_no_raise_back(primary):
    server = primary()
    server.stop()
    server.start()
    is_trusted(server.url, 5)
    # The WAL writer sleeps, and every process is killed right after the COMMIT. A plain row that was written without waiting just after
    # the raise is the control: where it survives too, the experiment has shown nothing. It does where a whole page of WAL was full.
    server.set("wal_writer_delay", "10s")
    server.sql("CREATE TABLE control (v int)")
    for scope, statement in RAISES.items():
        for attempt in range(5):
            server.sql("TRUNCATE control; DROP TABLE IF EXISTS other; CHECKPOINT")
            server.sql(f"SELECT pg_logical_emit_message(false, 'shift', repeat('x', {1000 * attempt}))")
            term = fence(server.url, scope) + 1
            # In one session: the WAL writer must not be woken in between.
            script = f"SET synchronous_commit = off;\n{statement.format(term=term)};\nINSERT INTO control VALUES (1);\n"
            sh("psql", "-qXAt", server.url, input=script + f"\\! {PG_SERVER} kill {server.dir}\n", check=False)
            server.start()
            assert fence(server.url, scope) == term, scope
            if server.sql("SELECT count(*) FROM control") == "0":
                break
        else:
            pytest.fail("the control survived as well: this run has shown nothing")
    is_trusted(server.url, 6)


def test_base_backup_with_recovery_signal(primary):
    server = primary()
    copy = server.base_backup()
    seal(server.url, 9)
    as_server(copy.dir, "sh", "-c", "touch data/recovery.signal; echo \"restore_command = 'false'\" >> data/postgresql.conf")
    copy.start()
    # It lets readers in before its recovery has ended.
    comes_to(lambda: copy.sql("SELECT pg_is_in_recovery()") == "f")
    assert fence(copy.url) == 5
    is_untrusted(copy.url)
    is_settled_by_the_operator(copy.url)


def test_template_copy(primary):
    server = primary()
    server.sql(
        "CREATE DATABASE source TEMPLATE postgres", server.url.replace("/postgres", "/template1").replace("//template1@", "//postgres@")
    )
    url = server.url.rsplit("/", 1)[0] + "/source"
    is_untrusted(url)
    is_settled_by_the_operator(url)
    is_trusted(server.url, 5)


def test_pg_restore_clean(primary):
    server = primary()
    dump = Path(scratch.name) / "dump"
    sh(f"{BIN}/pg_dump", "-Fc", "-f", dump, server.url)
    seal(server.url, 9)
    sh(f"{BIN}/pg_restore", "--clean", "--if-exists", "-d", server.url, dump)
    assert fence(server.url) == 5
    is_untrusted(server.url)
    is_settled_by_the_operator(server.url)


def test_promotion_of_a_lagging_standby_before_its_first_checkpoint(primary):
    server = primary()
    standby = server.standby()
    refused = seal(standby.url, 7)
    assert refused.returncode != 0 and re.search("read-only|recovery|standby", refused.stderr)
    standby.cut_off()  # what the primary commits from here on never arrives
    seal(server.url, 9)
    # A session of the standby that lives to see the promotion must not go on with what it knew.
    reader = subprocess.Popen(
        ["psql", "-qXAt", standby.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for _ in range(3):
        reader.stdin.write("SELECT termgate.check_term('bystander', 5);\n")
        reader.stdin.flush()
        assert reader.stdout.readline().strip() == "5"
    server.stop("immediate")
    standby.promote()
    assert "TG004" in reader.communicate("SELECT termgate.check_term('bystander', 5);\n", timeout=60)[0]
    assert fence(standby.url) == 5
    is_untrusted(standby.url)
    is_settled_by_the_operator(standby.url)


def test_no_two_promotions_issue_the_same_term(primary):
    """The acquisition that makes a scope trusted again may be lost by the next failover, while its holder lives on."""
    server = primary()
    first, second = server.standby(), server.standby()
    server.stop("immediate")
    for standby in (first, second):  # neither knows of the other: both count on from the same timeline
        standby.promote()
        assert standby.sql("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)") == "00000002"
    behind = first.standby()
    behind.cut_off()
    lost, other = acquired(first.url), acquired(second.url)
    assert lost != other
    first.stop("immediate")
    behind.promote()
    assert acquired(behind.url) > lost
    assert termgate(behind.url, "exec", "--scope", "leased", "--term", str(lost), "SELECT 1").returncode == 3


def test_synchronous_switchover_needs_no_word(primary):
    server = primary("--failover", "synchronous")
    standby = server.standby()
    server.set("synchronous_standby_names", "*")
    comes_to(lambda: server.sql("SELECT string_agg(sync_state, ',') FROM pg_stat_replication WHERE state = 'streaming'") == "sync")
    server.sql("SET synchronous_commit = local; SELECT fence FROM termgate.seal('external', 9)")
    server.stop("immediate")
    standby.promote()
    standby.set("synchronous_standby_names", "")
    is_trusted(standby.url, 9)


def test_pg_upgrade(primary):
    server = primary()
    server.stop()
    new = Server().start(another_system=True)
    new.stop()
    upgrade = [
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
    ]
    as_server(new.dir, *upgrade)
    new.start()
    assert fence(new.url) == 5
    is_untrusted(new.url)
    is_vouched_for(new.url)
