#!/usr/bin/env python3
"""Large payloads on SQL Server by the command: written from a file and from a pipe, read back, compared by hash at both
ends, and in memory only once.

  pytest tests/live/sqlserver/sqlserver_payload_test.py

Where TERMGATE_TEST_SQLSERVER names a server; else it is skipped. TERMGATE_TEST_PAYLOAD_MIB: how large, 300 by
default; 1024 on Microsoft's server.
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path

import pytest

from both_databases import sh
from odbc_plain import Plain, url_of
from given import TERMGATE

SQLSERVER = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
MIB = 1 << 20
SIZE = int(os.environ.get("TERMGATE_TEST_PAYLOAD_MIB", "300")) * MIB


@pytest.mark.skipif(not SQLSERVER, reason="TERMGATE_TEST_SQLSERVER names no SQL Server")
class Payloads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.name = "payload_test_" + uuid.uuid4().hex[:8]
        with Plain(SQLSERVER) as server:
            server.rows(f"CREATE DATABASE {cls.name}")
        cls.addClassCleanup(cls.drop)
        cls.url = url_of(SQLSERVER, cls.name)
        sh(TERMGATE, "init", "--db", cls.url)
        sh(TERMGATE, "settings", f"payload_bytes_max={1 << 30}", "--db", cls.url)
        scratch = tempfile.TemporaryDirectory(prefix="termgate-payload-test.")
        cls.addClassCleanup(scratch.cleanup)
        cls.path, cls.back = Path(scratch.name) / "payload", Path(scratch.name) / "back"
        hashed = hashlib.sha256()
        with open(cls.path, "wb") as file:
            for at in range(0, SIZE, MIB):
                piece = os.urandom(MIB)
                hashed.update(piece)
                file.write(piece)
        cls.hash = hashed.hexdigest()

    @classmethod
    def drop(cls):
        with Plain(SQLSERVER) as server:
            server.rows(f"DROP DATABASE {cls.name}")

    def run_measured(self, *words, stdin=None, stdout=None):
        """The command; asserts that it held the payload once, a few pieces of it, and what any command needs."""
        start = time.monotonic()
        process = subprocess.Popen([TERMGATE, *words, "--db", self.url], stdin=stdin, stdout=stdout or subprocess.PIPE)
        said = b"" if stdout else process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.stdout:
            process.stdout.close()
        assert process.returncode == 0
        peak = used.ru_maxrss * 1024
        print(
            f"{words[0]}: {SIZE // MIB} MiB, peak {peak // MIB} MiB ({peak / SIZE:.2f} of the payload), {time.monotonic() - start:.1f} s",
            file=sys.stderr,
        )
        assert peak < 1.1 * SIZE + 100 * MIB
        return said

    def on_server(self, stream):
        # As text, a digit for each half of a byte.
        with Plain(self.url) as plain:
            rows = plain.rows(
                f"SELECT DATALENGTH(payload), HASHBYTES('SHA2_256', payload) FROM termgate.stream_writes WHERE stream_id = '{stream}'"
            )
        return [(int(size), digest.lower()) for size, digest in rows]

    def read_back(self, stream):
        with open(self.back, "wb") as file:
            self.run_measured("read", "--stream", stream, "--raw", stdout=file)
        assert self.back.stat().st_size == SIZE + 1  # and a newline
        hashed = hashlib.sha256()
        with open(self.back, "rb") as file:
            for left in range(SIZE, 0, -MIB):
                hashed.update(file.read(min(MIB, left)))
        return hashed.hexdigest()

    def test_from_a_file(self):
        assert self.run_measured("append", "--stream", "file", "--term", "1", "--file", str(self.path)) == b"1\n"
        assert self.on_server("file") == [(SIZE, self.hash)]
        assert self.read_back("file") == self.hash

    def test_from_a_pipe(self):
        with subprocess.Popen(["cat", str(self.path)], stdout=subprocess.PIPE) as cat:
            assert self.run_measured("append", "--stream", "pipe", "--term", "1", stdin=cat.stdout) == b"1\n"
        assert self.on_server("pipe") == [(SIZE, self.hash)]

    def test_one_over_the_limit_is_not_read_in_full(self):
        with open("/dev/zero", "rb") as zeros:
            done = subprocess.run(
                [TERMGATE, "append", "--stream", "endless", "--term", "1", "--db", self.url], stdin=zeros, capture_output=True, timeout=300
            )
        assert done.returncode == 9, done.stderr
        assert b"TG005 a payload of more than 1073741824 bytes is over the limit" in done.stderr
        with open(self.back, "wb") as file:
            file.truncate((1 << 30) + 1)
        done = subprocess.run(
            [TERMGATE, "append", "--stream", "endless", "--term", "1", "--file", str(self.back), "--db", self.url],
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 9, done.stderr
        assert b"TG005 a payload of 1073741825 bytes is over the limit" in done.stderr
        assert self.on_server("endless") == []
