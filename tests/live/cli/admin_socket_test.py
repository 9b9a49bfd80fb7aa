#!/usr/bin/env python3
"""`termgate admin` on a socket that systemd hands over (LISTEN_FDS), and what it reports to systemd. On an SQLite file; no server.

  pytest tests/live/cli/admin_socket_test.py
"""
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from given import TERMGATE

TOKEN = "r" * 40
# exec keeps the process, so its number is known before the command is.
STARTER = """
import os, sys
count = int(sys.argv[1])
given = [int(word) for word in sys.argv[2:2 + count]]
os.environ.update(LISTEN_FDS=str(count), LISTEN_PID=str(os.getpid()))
for i, one in enumerate(given):
    os.dup2(one, 100 + i)
for i in range(count):
    os.dup2(100 + i, 3 + i)
    os.close(100 + i)
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


class AdminSocket(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.url = f"sqlite:{folder.name}/a.db"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
        subprocess.run([TERMGATE, "init", "--db", self.url], check=True, capture_output=True, timeout=60, env=self.environment)
        self.tokens = self.folder / "tokens"
        self.tokens.write_text(f"ann read {TOKEN}\n")
        self.tokens.chmod(0o600)
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.ear.close)
        self.ear.bind(str(self.folder / "notify"))
        self.ear.settimeout(20)

    def start(self, sockets, *words):
        numbers = [one.fileno() for one in sockets]
        return subprocess.Popen(
            [sys.executable, "-c", STARTER, str(len(sockets)), *map(str, numbers), TERMGATE]
            + ["admin", "--db", self.url, "--tokens", str(self.tokens), *words],
            pass_fds=numbers,
            env={**self.environment, "NOTIFY_SOCKET": str(self.folder / "notify")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refused(self, sockets, what, *words):
        process = self.start(sockets, *words)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (2, ""), err
        assert what in err

    def listening(self, address=("127.0.0.1", 0), family=socket.AF_INET):
        one = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(one.close)
        one.bind(address)
        one.listen(16)
        return one

    def serves(self, one, host):
        # A client that comes before the service waits in the socket.
        port = one.getsockname()[1]
        early = socket.create_connection((host.strip("[]"), port), 10)
        self.addCleanup(early.close)
        early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        process = self.start([one], "--http", "127.0.0.1:1")  # the socket takes the place of --http
        assert self.ear.recv(100) == b"READY=1"
        assert f":{port}/" in process.stdout.readline()
        early.settimeout(20)
        assert b"200 OK" in early.recv(100)
        ask = urllib.request.Request(f"http://{host}:{port}/api/v1/fences", headers={"Authorization": "Bearer " + TOKEN})
        with urllib.request.urlopen(ask, timeout=20) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as none:
            urllib.request.urlopen(f"http://{host}:{port}/api/v1/fences", timeout=20)
        assert none.value.code == 401
        process.terminate()
        assert self.ear.recv(100) == b"STOPPING=1"
        process.communicate(timeout=30)
        assert process.returncode == 0

    def test_it_serves_an_inherited_socket_and_clients_that_came_before_it(self):
        self.serves(self.listening(), "127.0.0.1")

    def test_it_serves_an_inherited_socket_of_ipv6(self):
        try:
            one = self.listening(("::1", 0), socket.AF_INET6)
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        self.serves(one, "[::1]")

    def test_an_inherited_socket_is_held_to_the_rule_of_http(self):
        self.refused([self.listening(("0.0.0.0", 0))], "--behind-tls")

    def test_sockets_that_it_cannot_serve_are_refused(self):
        self.refused([self.listening(), self.listening()], "more than one socket")
        self.refused([self.listening(str(self.folder / "unix"), socket.AF_UNIX)], "not a listening TCP socket")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", 0))
            self.refused([datagrams], "not a listening TCP socket")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as silent:
            silent.bind(("127.0.0.1", 0))
            self.refused([silent], "not a listening TCP socket")
