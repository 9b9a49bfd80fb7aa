#!/usr/bin/env python3
"""[F1] [F7] `termgate proxy --backend sqlserver://…` on real sockets, in front of a server that plays its part
(tests/support/tds_server.py): logins in clear text and under TLS, statements, refusals, resets, hostile clients, the
drain. What a real server does with it is in sqlserver_proxy_test.py.

  pytest tests/live/sqlserver/tds_proxy_test.py [-k tls]
"""
import os
import shutil
import signal
import socket
import ssl
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from checks import captured, eventually, stays
from given import TERMGATE, free_port
from tds_proxy import WITH_TERM, OverTls, Proxy, Strict, certificate, scratch
from tds_server import Server
from tdsraw import ATTENTION, BATCH, PRELOGIN, RESET, Answer, Closed, Tds, call, headers, integer, nvarchar, packets, wide


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(fence=5)
        cls.proxy = Proxy(cls.server.port)

    @classmethod
    def tearDownClass(cls):
        cls.proxy.end()
        cls.server.close()

    def connect(self, application="plain"):
        client = Tds(self.proxy.port, "sa", "secret", "app", application)
        self.addCleanup(client.close)
        return client

    def test_a_leader_writes_behind_the_gate(self):
        client = self.connect(WITH_TERM)
        self.server.asked.clear()
        for _ in range(3):
            assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        assert client.rpc(call(10, nvarchar("", "INSERT dbo.t VALUES (1)"))).errors == []
        assert [one for one in self.server.asked if one.startswith("gate")] == ["gate_enter"]
        assert self.server.unfenced == 0

    def test_a_raise_waits_for_nobody_beyond_the_grace(self):
        """Who is between two messages gives the gate back at once; who is frozen in a transaction or in a message is ended with the grace.
        Each further state is unit_tds_session's."""
        server = Server(fence=5, grace_ms=1000)
        self.addCleanup(server.close)
        proxy = Proxy(server.port)
        self.addCleanup(proxy.end)
        between, inside, sending = clients = [Tds(proxy.port, "sa", "secret", "app", WITH_TERM) for _ in range(3)]
        for client in clients:
            client.socket.settimeout(10)
            assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        inside.begin()
        sending.send(packets(BATCH, headers() + wide("INSERT dbo.t VALUES ('" + 200_000 * "x" + "')"))[:200_000])
        time.sleep(0.3)
        began = time.monotonic()
        server.wanted = {"s"}
        assert eventually(lambda: server.gates == 2), server.gates
        assert time.monotonic() - began < 0.9
        for client in (inside, sending):
            with pytest.raises(Closed):
                while True:
                    client.message()
            assert 0.8 < time.monotonic() - began < 4
        server.wanted = set()
        # The log is written a little later.
        assert eventually(lambda: proxy.log.read_text(encoding="utf-8").count(" evicted ") == 2), proxy.log.read_text(encoding="utf-8")
        assert between.batch("INSERT dbo.t VALUES (1)").errors == []
        assert server.unfenced == 0
        assert proxy.end() == 0

    def test_unanswered_the_gates_are_given_back_and_nobody_is_ended(self):
        server = Server(fence=5, grace_ms=500)
        self.addCleanup(server.close)
        server.gates_unanswered = True
        proxy = Proxy(server.port)
        self.addCleanup(proxy.end)
        idle, inside = (Tds(proxy.port, "sa", "secret", "app", WITH_TERM) for _ in range(2))
        inside.begin()
        for client in (idle, inside):
            assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        assert eventually(lambda: server.gates == 1), server.gates
        # Nothing happens to the other one.
        assert stays(lambda: server.gates == 1, 1.5), server.gates
        for client in (idle, inside):
            assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        assert "cannot ask which raises" in proxy.log.read_text(encoding="utf-8")
        assert server.unfenced == 0

    def test_others_are_refused(self):
        plain, stale = self.connect(), self.connect("termgate.scope=s;termgate.term=4;")
        assert plain.batch("SET NOCOUNT ON").errors == []
        before = len([one for one in self.server.asked if "INSERT" in one])
        assert plain.batch("INSERT dbo.t VALUES (1)").number == 50002
        assert stale.batch("INSERT dbo.t VALUES (1)").number == 50001
        assert plain.rpc(call("dbo.put", integer("@a", 1))).number == 50002
        # A message that was refused leaves the session as it was.
        assert plain.batch("SELECT @@SPID").errors == []
        assert plain.batch("EXEC termgate.set_term N's', 5").errors == []
        assert plain.batch("INSERT dbo.t VALUES (1)").errors == []
        assert len([one for one in self.server.asked if "INSERT" in one]) == before + 1
        assert plain.batch("INSERT dbo.t VALUES (1)", RESET).number == 50002

    def test_large_messages_and_slow_ones(self):
        client = self.connect(WITH_TERM)
        assert client.batch("INSERT dbo.t VALUES ('" + 300_000 * "x" + "')").errors == []
        data = packets(BATCH, headers() + wide("INSERT dbo.t VALUES (2)"))
        for byte in data:
            client.send(bytes([byte]))
        assert client.answer().errors == []
        client.send(packets(ATTENTION, b""))
        assert client.answer().payload.startswith(b"\xfd\x20\0")
        assert self.server.unfenced == 0

    def test_hostile_clients(self):
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\3\1\2\0\1\0\1\xfc\3\3",
            64 * b"\0",
            b"\x12\1\0\7\0\0\0\0",
            b"\x12\1\xff\xff\0\0\0\0",
            b"\0\0\0\x08\4\xd2\x16\x2f",
            packets(16, 200 * b"\0"),
            packets(PRELOGIN, b"\xff"),
            packets(PRELOGIN, 5000 * b"\0"),
            packets(PRELOGIN, Tds.prelogin()) + packets(16, 90 * b"\xff"),
            packets(PRELOGIN, Tds.prelogin()) + packets(1, headers()),
        ):
            with socket.create_connection(("127.0.0.1", self.proxy.port), 10) as one:
                one.sendall(data)
                while True:
                    try:
                        if not one.recv(65536):
                            break
                    except ConnectionResetError:
                        break
        client = self.connect(WITH_TERM)
        client.send(b"\x53" + bytes(15))
        with pytest.raises(Closed):
            client.answer()
            client.answer()
        assert self.proxy.process.poll() is None
        assert self.connect(WITH_TERM).batch("INSERT dbo.t VALUES (1)").errors == []

    def test_a_real_client(self):
        if shutil.which("tsql") is None:
            pytest.skip("tsql (freetds-bin)")

        def tsql(text, *words, version="7.4"):
            done = captured(
                ["tsql", "-H", "127.0.0.1", "-p", str(self.proxy.port), "-U", "sa", "-P", "secret", *words],
                input=f"{text}\ngo\n",
                timeout=30,
                check=False,
                env=dict(os.environ, TDSVER=version),
            )
            return done.stdout + done.stderr

        for version in ("7.1", "7.2", "7.3", "7.4"):
            assert "Msg" not in tsql(f"INSERT dbo.t VALUES (61, '{version}')", "-a", WITH_TERM, version=version)
            assert any(f"VALUES (61, '{version}')" in one for one in self.server.asked), version
            assert "Msg 50002 (severity 16, state 1) from termgate" in tsql("INSERT dbo.t VALUES (62)", version=version)
            assert "Msg 50001" in tsql("INSERT dbo.t VALUES (63)", "-a", "termgate.scope=s;termgate.term=4;", version=version)
        assert not any("VALUES (62)" in one or "VALUES (63)" in one for one in self.server.asked)
        assert self.server.unfenced == 0

    def test_freebcp(self):
        if shutil.which("freebcp") is None:
            pytest.skip("freebcp (freetds-bin)")
        server = Server(fence=5)
        self.addCleanup(server.close)
        column = b"\x81\1\0" + b"\0\0\0\0\x09\0\xe7\x64\0\x09\x04\xd0\x00\x34" + bytes([4]) + wide("mark")
        server.long_answers["FMTONLY"] = column
        folder = Path(scratch.name)
        (folder / "rows.txt").write_text("x\ny\n", encoding="utf-8")
        for term, number in ((5, ""), (4, "Msg 50001")):
            with self.subTest(term=term):
                rules = folder / "bcp.rules"
                rules.write_text(f"[rule bcp]\napplication = FreeBCP\nscope = s\nterm = {term}\n", encoding="utf-8")
                proxy = Proxy(server.port, "--rules", str(rules))
                self.addCleanup(proxy.end)
                conf = folder / "bcp.conf"
                conf.write_text(f"[there]\nhost = 127.0.0.1\nport = {proxy.port}\ntds version = 7.4\n", encoding="utf-8")
                del server.rows[:]
                done = captured(
                    ["freebcp", "dbo.t", "in", str(folder / "rows.txt"), "-S", "there", "-U", "sa", "-P", "secret", "-D", "app", "-c"],
                    timeout=60,
                    check=False,
                    env={**os.environ, "FREETDSCONF": str(conf)},
                )
                told = done.stdout + done.stderr
                assert number in told
                if term == 5:
                    assert [one.count(b"\xd1\2\0") for one in server.rows] == [2]
                else:
                    assert server.rows == []
        assert server.unfenced == 0

    def test_tds_8_to_the_server(self):
        """The server speaks TDS 8.0 to the clients' sessions; the proxy's own connection is the driver's, in clear text."""
        if shutil.which("openssl") is None:
            pytest.skip("openssl")
        pem, key = certificate()
        other, _ = certificate("other")
        server = Server(fence=5, certificate=(pem, key))
        self.addCleanup(server.close)

        def proxy(parameters, host="localhost"):
            http_port = free_port()
            one = Proxy(
                server.port,
                "--client-tls-cert",
                str(pem),
                "--client-tls-key",
                str(key),
                "--http",
                f"127.0.0.1:{http_port}",
                url=f"sqlserver://proxy:secret@{host}:{server.port}/app?Encrypt=strict{parameters}",
            )
            self.addCleanup(one.end)
            return one, http_port

        def ready(http_port):
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/readyz", timeout=10) as answer:
                return answer.status == 200

        trusting, http_port = proxy(f"&sslrootcert={pem}")
        assert eventually(lambda: ready(http_port), 20)
        context = ssl.create_default_context(cafile=str(pem))
        clients = (
            Tds(trusting.port, "sa", "secret", "app", WITH_TERM),
            OverTls(trusting.port, WITH_TERM, context),
            Strict(trusting.port, WITH_TERM, ssl.create_default_context(cafile=str(pem))),
        )
        assert server.versions.count(0x08000000) == len(clients)
        for client in clients:
            assert client.batch("INSERT dbo.t VALUES (1)").errors == []
            assert client.batch("INSERT dbo.t VALUES ('" + 100_000 * "x" + "')").errors == []
            client.close()
        with pytest.raises(Closed) as why:
            Tds(trusting.port, "sa", "secret", "app", WITH_TERM, version=0x730B0003)
        assert "TDS 8.0 only" in str(why.value)
        # The certificate is for localhost; with verify-ca its name does not matter.
        by_address, _ = proxy(f"&sslrootcert={pem}", "127.0.0.1")
        any_name, _ = proxy(f"&sslrootcert={pem}&sslmode=verify-ca", "127.0.0.1")
        distrusting, http_port = proxy(f"&sslrootcert={other}")
        for one in (by_address, distrusting):
            with pytest.raises(Closed) as why:
                Tds(one.port, "sa", "secret", "app", WITH_TERM)
            assert "certificate verify failed" in str(why.value)
        with pytest.raises(urllib.error.HTTPError):
            ready(http_port)
        client = Tds(any_name.port, "sa", "secret", "app", WITH_TERM)
        assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        client.close()
        assert server.versions.count(0x08000000) == len(clients) + 1
        assert server.unfenced == 0

    def test_without_a_server(self):
        proxy = Proxy(free_port())
        with pytest.raises(Closed) as why:
            Tds(proxy.port, "sa", "secret", "app")
        assert "cannot be reached" in str(why.value)
        assert proxy.end() == 0

    def test_options(self):
        for words, says in (
            (("--backend", "sqlserver://u:p@h:1433"), "which database"),
            (("--backend", "sqlserver://u:p@h:x/app"), "a port is a number"),
            (("--backend", "sqlserver://u:p@h/app?ssl_min_protocol_version=TLSv0"), "TLSv1.2"),
            (("--backend", "sqlserver://u:p@h/app?Encrypt=strict&sslmode=require"), "Encrypt=strict verifies"),
            (("--backend", "sqlserver://u:p@h/app", "--tls-min", "1.0"), "--client-tls-cert"),
            (("--backend", "sqlserver://u:p@h/app", "--client-tls-cert", "x", "--tls-min", "0.9"), "1.0, 1.1, 1.2, 1.3"),
            (("--backend", "sqlserver://u:p@h/app", "--browser", "127.0.0.1:0"), "--listen SQLEXPRESS=0.0.0.0:1433"),
            (("--backend", "postgresql://u:p@h/app", "--browser", "127.0.0.1:0"), "only SQL Server"),
            (("--backend", "sqlserver://u:p@h/app", "--browser", "1434"), "write HOST:PORT"),
        ):
            done = captured([TERMGATE, "proxy", "--listen", "127.0.0.1:1", *words], timeout=20, check=False)
            assert done.returncode != 0
            assert says in done.stderr

    def test_tls_and_the_drain(self):
        if shutil.which("openssl") is None:
            pytest.skip("openssl")
        pem, key = certificate()
        proxy = Proxy(self.server.port, "--client-tls-cert", str(pem), "--client-tls-key", str(key), "--require-tls")
        self.addCleanup(proxy.end)
        client = OverTls(proxy.port, WITH_TERM, ssl.create_default_context(cafile=str(pem)))
        assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        assert client.batch("INSERT dbo.t VALUES ('" + 100_000 * "x" + "')").errors == []
        # TDS 8.0.
        strict = Strict(proxy.port, WITH_TERM, ssl.create_default_context(cafile=str(pem)))
        assert strict.chosen == "tds/8.0"
        assert strict.batch("INSERT dbo.t VALUES (8)").errors == []
        assert strict.batch("INSERT dbo.t VALUES ('" + 100_000 * "x" + "')").errors == []
        strict.close()
        for alpn in (None, "postgresql"):
            with pytest.raises((OSError, Closed)):
                Strict(proxy.port, WITH_TERM, ssl.create_default_context(cafile=str(pem)), alpn)
        # A client in clear text is told that TLS is required, and goes no further.
        clear = socket.create_connection(("127.0.0.1", proxy.port), 10)
        clear.sendall(packets(PRELOGIN, Tds.prelogin(2)))
        told = clear.recv(4096)
        assert told[8 + (told[8 + 6] << 8 | told[8 + 7])] == 3
        clear.sendall(packets(16, Tds.login7("sa", "secret", "app", WITH_TERM)))
        said = b""
        while some := clear.recv(4096):
            said += some
        assert "requires TLS" in Answer(said[8:]).errors[0][1]
        clear.close()
        # In a transaction a session is waited for.
        client.begin()
        proxy.process.send_signal(signal.SIGTERM)
        assert stays(lambda: proxy.process.poll() is None, 0.3)
        assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        assert proxy.process.poll() is None
        client.close()
        assert proxy.process.wait(20) == 0
        assert self.server.unfenced == 0
