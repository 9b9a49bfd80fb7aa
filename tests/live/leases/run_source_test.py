#!/usr/bin/env python3
"""`termgate run --source` with real processes and real servers of Redis, etcd and ZooKeeper: holders and servers that are stopped, killed
and emptied, with passwords and TLS. The fence is in an SQLite file.

  pytest tests/live/leases/run_source_test.py
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import given
from given import free_port
import pytest

TERMGATE = given.TERMGATE
scratch = tempfile.TemporaryDirectory(prefix="termgate-run-source.")
folder = Path(scratch.name)
clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
missing = [name for name in ("redis-server", "redis-cli", "etcd", "etcdctl", "java") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
PASSWORD = "s3cret-of-the-source"


def shell(script):
    return ["--", "sh", "-c", script]


class Server:
    """A server process and how to know that it answers."""

    def __init__(self, command, ready):
        self.log = tempfile.TemporaryFile(dir=folder)
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 40
        while not ready():
            if time.monotonic() > end or self.process.poll() is not None:
                self.log.seek(0)
                raise RuntimeError(self.log.read().decode())
            time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def call(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


def certificate():
    made = call(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
    )
    assert made.returncode == 0, made.stderr


class RunSource(unittest.TestCase):
    number = 0

    @classmethod
    def setUpClass(cls):
        certificate()
        (folder / "password").write_text(PASSWORD + "\n")
        (folder / "wrong").write_text("wrong-password\n")
        port, tls = free_port(), free_port()
        (folder / "redis").mkdir()
        cls.redis_cli = ["redis-cli", "-p", str(port), "-a", PASSWORD, "--no-auth-warning"]
        cls.redis = Server(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder / "redis"), "--appendonly", "yes"]
            + ["--appendfsync", "always", "--save", "", "--requirepass", PASSWORD, "--tls-port", str(tls), "--tls-auth-clients", "no"]
            + ["--tls-cert-file", f"{folder}/cert.pem", "--tls-key-file", f"{folder}/key.pem", "--tls-ca-cert-file", f"{folder}/cert.pem"],
            lambda: call(*cls.redis_cli, "PING").stdout == "PONG\n",
        )
        cls.redis_url = f"redis://127.0.0.1:{port}?password-file={folder}/password"
        cls.redis_wrong = f"redis://127.0.0.1:{port}?password-file={folder}/wrong"
        cls.redis_tls = f"rediss://localhost:{tls}?password-file={folder}/password&ca-file={folder}/cert.pem"
        cls.redis_tls_untrusted = f"rediss://localhost:{tls}?password-file={folder}/password"
        cls.redis_tls_other_name = f"rediss://127.0.0.1:{tls}?password-file={folder}/password&ca-file={folder}/cert.pem"

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()

    def setUp(self):
        RunSource.number += 1
        self.scope = f"scope {RunSource.number}"
        self.db = f"sqlite:{folder}/fence{RunSource.number}.db"
        assert call(TERMGATE, "init", "--db", self.db, env=clean).returncode == 0

    def words(self, source, *more, db=True):
        return [TERMGATE, "run", "--scope", self.scope, "--source", source, *(["--db", self.db] if db else []), *more]

    def play(self, source, *more, db=True, env=None):
        done = subprocess.run(self.words(source, *more, db=db), capture_output=True, text=True, timeout=60, env={**clean, **(env or {})})
        assert PASSWORD not in done.stdout + done.stderr
        return done

    def refused(self, source, status, *words, more=(), **how):
        """COMMAND is not started, and the message has these words."""
        done = self.play(source, *more, *shell("echo never"), **how)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        for word in words:
            assert word in done.stderr

    def start(self, source, *more):
        return subprocess.Popen(self.words(source, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)

    def fence(self):
        shown = call(TERMGATE, "fence", "show", "--scope", self.scope, "--db", self.db, "--json", env=clean).stdout
        return int(re.search(r'"fence":(\d+)', shown)[1])

    def holding(self, source, ttl="1s"):
        """A run whose COMMAND has started; returns it and its term."""
        run = self.start(source, "--ttl", ttl, "--wait", "20s", *shell("echo $TERMGATE_TERM; exec sleep 60"))
        return run, int(run.stdout.readline())

    def end(self, run):
        out, err = run.communicate(timeout=30)
        assert PASSWORD not in out + err
        return run.returncode, err

    def begins(self, source):
        """A run has a term, which the fence has too."""
        done = self.play(source, *shell("echo $TERMGATE_TERM; exit 7"))
        assert done.returncode == 7, done.stderr
        assert self.fence() == int(done.stdout)
        return int(done.stdout)

    def test_redis(self):
        source = self.redis_url
        assert self.begins(source) < self.begins(source)
        run, term = self.holding(source, "2s")
        self.refused(source, 104, more=("--ttl", "2s"))
        # The holder is stopped: COMMAND ends by the watchdog, another takes over, and what the old one writes is refused.
        run.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        taken, higher = self.holding(source, "2s")
        assert time.monotonic() - began > 1
        assert higher > term
        run.send_signal(signal.SIGCONT)
        assert self.end(run)[0] == 105
        late = call(TERMGATE, "append", "--scope", self.scope, "--stream", "s", "--term", str(term), "--db", self.db, env=clean, input="x")
        assert late.returncode == 3, late.stderr
        taken.send_signal(signal.SIGTERM)
        assert self.end(taken)[0] == 128 + signal.SIGTERM
        last = self.play(source, "--wait", "20s", *shell("echo $TERMGATE_TERM"))
        assert int(last.stdout) > higher

    def test_redis_with_tls(self):
        self.begins(self.redis_tls)
        for url in (self.redis_tls_untrusted, self.redis_tls_other_name):
            self.refused(url, 101, "certificate")

    def test_etcd(self):
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        control = ["etcdctl", "--endpoints", client.removeprefix("http://")]
        env = {**os.environ, "ETCDCTL_API": "3"}
        etcd = Server(
            ["etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client]
            + ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
            lambda: call(*control, "endpoint", "health", env=env).returncode == 0,
        )
        try:
            for words in (
                ["user", "add", f"root:{PASSWORD}"],
                ["role", "add", "root"],
                ["user", "grant-role", "root", "root"],
                ["auth", "enable"],
            ):
                assert call(*control, *words, env=env).returncode == 0
            address = client.removeprefix("http://")
            self.begins(f"etcd://root@{address}?password-file={folder}/password")
            self.refused(f"etcd://root@{address}?password-file={folder}/wrong", 101, "refused the user or the password")
            self.refused(f"etcd://{address}", 101)
        finally:
            etcd.stop()

    def test_zookeeper(self):
        port = free_port()
        (folder / "zookeeper").mkdir()
        (folder / "zoo.cfg").write_text(
            "tickTime=200\nmaxSessionTimeout=20000\nadmin.enableServer=false\nclientPortAddress=127.0.0.1\n"
            f"clientPort={port}\ndataDir={folder}/zookeeper\n"
        )

        def ready():
            # An open port is not enough: the server listens before it grants sessions.
            url = f"zookeeper://127.0.0.1:{port}?prefix=ready"
            return call(TERMGATE, "run", "--no-seal", "--scope", "ready", "--source", url, "--", "true", env=clean).returncode == 0

        server = Server(
            ["java", "-Xmx128m", "-cp", "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar"]
            + ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(folder / "zoo.cfg")],
            ready,
        )
        try:
            place = f"zookeeper://me@127.0.0.1:{port}?prefix=mine&password-file={folder}"
            self.begins(f"{place}/password")
            # Nodes of that user's are not another's to use.
            self.refused(f"{place}/wrong", 101, "not authenticated")
            self.refused(f"zookeeper://127.0.0.1:{port}", 109, "grants sessions of 20000 ms at most", more=("--ttl", "1m"))
        finally:
            server.stop()

    def test_server_stops(self):
        run, _ = self.holding(self.redis_url, "2s")
        began = time.monotonic()
        self.redis.process.send_signal(signal.SIGSTOP)
        try:
            # All of COMMAND is gone before the lease can end: 2 s after the last renewal was sent.
            status, err = self.end(run)
            assert time.monotonic() - began < 5
            assert status == 105, err
            assert "was lost" in err
            self.refused(self.redis_url, 101, more=("--ttl", "1s"))
        finally:
            self.redis.process.send_signal(signal.SIGCONT)
        done = self.play(self.redis_url, "--wait", "10s", *shell("echo $TERMGATE_TERM"))
        assert done.returncode == 0, done.stderr

    def test_redis_forgets(self):
        for _ in range(5):
            self.play(self.redis_url, *shell("true"))
        before = self.fence()
        call(*self.redis_cli, "DEL", f"termgate:{{{self.scope}}}:term")
        self.refused(self.redis_url, 103, f"the fence is already at {before}")
        assert self.fence() == before
        # The next step that the message names.
        call(*self.redis_cli, "SET", f"termgate:{{{self.scope}}}:term", str(before))
        assert self.play(self.redis_url, *shell("true")).returncode == 0
        assert self.fence() == before + 1
        call(*self.redis_cli, "SET", f"termgate:{{{self.scope}}}:term", "many")
        self.refused(self.redis_url, 101)

    def test_passwords(self):
        self.refused(self.redis_wrong, 101, "refused the password")
        done = self.play(self.redis_url.split("?")[0], *shell("true"), env={"TERMGATE_SOURCE_PASSWORD": PASSWORD})
        assert done.returncode == 0, done.stderr
        self.refused(self.redis_url.replace("redis://", f"redis://me:{PASSWORD}@"), 109, "password-file")

    def test_durability_is_warned_of(self):
        call(*self.redis_cli, "CONFIG", "SET", "appendfsync", "everysec")
        try:
            done = self.play(self.redis_url, *shell("true"))
            assert done.returncode == 0
            assert "appendfsync everysec" in done.stderr
        finally:
            call(*self.redis_cli, "CONFIG", "SET", "appendfsync", "always")
        assert self.play(self.redis_url, *shell("true")).stderr == ""

    def test_replicas_that_are_not_there(self):
        self.refused(self.redis_url + "&replicas=1", 101, "0 of 1 replicas", more=("--ttl", "2s"))

    def test_file(self):
        path = folder / "elected"
        source = f"file://{path}"
        assert self.play(source, *shell("echo never")).returncode == 104

        def write(term):
            (folder / "elected.new").write_text(f"scope={self.scope.replace(' ', '%20')} term={term}\n")
            (folder / "elected.new").rename(path)

        write(5)
        for _ in range(2):  # started again on the machine that leads
            assert self.play(source, *shell("echo $TERMGATE_TERM")).stdout == "5\n"
        run, _ = self.holding(source)
        path.unlink()
        assert self.end(run)[0] == 105
        write(4)
        self.refused(source, 103)

    def test_usage(self):
        for more in (["--job", "j"], ["--once-per", "1d"], ["--resume"], ["--endpoint", "x"]):
            self.refused(self.redis_url, 102, more=more)
        done = call(TERMGATE, "run", "--scope", "s", "--no-seal", "--db", self.db, "--", "true", env=clean)
        assert done.returncode == 102
        for url in ("", "redis", "mongodb://h", "redis://a,b", "redis://h?x=y"):
            self.refused(url, 109, "TG005")
        self.refused(f"redis://127.0.0.1:{free_port()}", 101)
        # Without a database it needs --no-seal.
        self.refused(self.redis_url, 102, db=False)
        assert self.play(self.redis_url, "--no-seal", *shell("test $TERMGATE_TERM -ge 1"), db=False).returncode == 0
