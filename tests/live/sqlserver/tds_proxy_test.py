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
from tdsraw import ATTENTION, BATCH, PRELOGIN, RESET, Answer, Closed, Tds, call, chunks, headers, integer, nvarchar, packets, wide


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

    def test_a_busy_session_costs_no_message_more(self):
        server = Server(fence=5)
        self.addCleanup(server.close)
        proxy = Proxy(server.port)
        self.addCleanup(proxy.end)
        client = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
        assert client.batch("INSERT dbo.t VALUES (0)").errors == []
        before = server.messages
        for i in range(300):
            assert client.batch(f"INSERT dbo.t VALUES ({i})").errors == []
            time.sleep(0.01)
        assert server.messages - before == 300
        assert [one for one in server.asked if one.startswith("gate_")] == ["gate_hello", "gate_enter"]
        assert server.unfenced == 0
        client.close()
        assert proxy.end() == 0

    def test_a_raise_waits_for_nobody_beyond_the_grace(self):
        """Clients frozen in many states; those between two messages give the gate back at once, the others are ended with the grace."""
        server = Server(fence=5, grace_ms=1500)
        self.addCleanup(server.close)
        proxy = Proxy(server.port)
        self.addCleanup(proxy.end)

        def between(_):
            pass

        def half_a_message(client):
            client.send(packets(BATCH, headers() + wide("INSERT dbo.t VALUES (1)"))[:30])

        def in_a_transaction(client):
            client.begin()

        def half_a_long_message(client):
            client.send(packets(BATCH, headers() + wide("INSERT dbo.t VALUES ('" + 200_000 * "x" + "')"))[:200_000])

        def while_it_runs(client):
            client.send(packets(BATCH, headers() + wide("INSERT dbo.slow VALUES (1)")))

        def after_an_attention(client):
            client.send(packets(BATCH, headers() + wide("INSERT dbo.slow VALUES (1)")) + packets(ATTENTION, b""))

        def before_bulk_rows(client):
            client.batch("INSERT BULK dbo.t (a int)")

        server.slow = {"dbo.slow": 6}
        ended = (in_a_transaction, half_a_long_message, while_it_runs, after_an_attention, before_bulk_rows)
        for freeze in (between, half_a_message, *ended):
            with self.subTest(freeze.__name__):
                client = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
                assert client.batch("INSERT dbo.t VALUES (1)").errors == []
                assert server.gates == 1
                freeze(client)
                time.sleep(0.3)
                began = time.monotonic()
                server.wanted = {"s"}
                if freeze in ended:
                    client.socket.settimeout(10)
                    with pytest.raises(Closed):
                        while True:
                            client.message()
                    took = time.monotonic() - began
                    assert took > 1.2
                    assert took < 4
                else:
                    assert eventually(lambda: server.gates == 0), server.gates
                    assert time.monotonic() - began < 1.4
                server.wanted = set()
                client.close()
                eventually(lambda: server.gates == 0, 7)
        # The log is written a little later.
        eventually(lambda: proxy.log.read_text(encoding="utf-8").count(" evicted ") == len(ended))
        log = proxy.log.read_text(encoding="utf-8")
        assert log.count(" evicted ") == len(ended), log
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

    def test_what_is_always_refused_by_every_carrier(self):
        texts = (
            "EXEC sp_reset_connection",
            "EXEC (N'EXEC sp_reset_connection')",
            "EXEC sp_releaseapplock N'x'",
            "BEGIN DISTRIBUTED TRAN",
            "EXEC sp_bindsession N'x'",
            "INSERT srv.app.dbo.t VALUES (1)",
            "EXEC (N'INSERT t VALUES (1)') AT srv",
        )
        forms = {
            "plain": nvarchar,
            "one chunk": lambda name, text: chunks(name, text, 2 * len(text)),
            "two": lambda name, text: chunks(name, text, len(text) // 2 * 2 + 2),
            "many": lambda name, text: chunks(name, text, 3),
            "of no known length": lambda name, text: chunks(name, text, 1000, False),
        }
        carriers = {
            "sp_executesql": lambda value: call(10, value),
            "sp_executesql by its name": lambda value: call("sp_executesql", value),
            "sp_prepexec": lambda value: call(13, integer("", None, True), nvarchar("", ""), value),
            "sp_prepare": lambda value: call(11, integer("", None, True), nvarchar("", ""), value),
            "sp_cursoropen": lambda value: call(2, integer("", None, True), value),
            "behind another": lambda value: call(15, integer("", 1)) + b"\xff" + call(10, value),
        }
        for mode, application in (("reject", WITH_TERM), ("read-only", "plain"), ("allow", "plain"), ("allow", WITH_TERM)):
            proxy = Proxy(self.server.port, "--without-term", mode)
            self.addCleanup(proxy.end)
            client = Tds(proxy.port, "sa", "secret", "app", application)
            self.addCleanup(client.close)
            for text in texts:
                self.server.bodies.clear()
                assert client.batch(text).number == 50005, text
                for carrier, made in carriers.items():
                    for form, value in forms.items():
                        with self.subTest(mode=mode, text=text, carrier=carrier, form=form):
                            assert client.rpc(made(value("", text))).number == 50005
                words = (wide(word) for word in ("sp_", "DISTRIBUTED", "srv"))
                assert [one for word in words for one in self.server.bodies if word in one] == []
            if mode == "read-only":
                continue
            # What is longer than the proxy looks at at once ends its session.
            for carrier in ("sp_executesql", "behind another"):
                for form in ("one chunk", "many", "of no known length"):
                    one = Tds(proxy.port, "sa", "secret", "app", application)
                    with self.subTest(mode=mode, carrier=carrier, form=form, long=True):
                        answer = one.rpc(carriers[carrier](forms[form]("", "/*" + 50_000 * "x" + "*/ EXEC sp_reset_connection")))
                        assert answer.number == 50005
                    one.close()
        assert self.server.unfenced == 0

    def test_a_term_that_is_declared_by_whatever_is_checked_where_silence_is_allowed(self):
        server = Server(fence=5)
        self.addCleanup(server.close)
        proxy = Proxy(server.port, "--without-term", "allow")
        self.addCleanup(proxy.end)
        text = "EXEC declare_stale"
        ways = {
            "a procedure": lambda client: client.batch(text),
            "a variable": lambda client: client.batch(
                "DECLARE @k nvarchar(50) = N'termgate.term' EXEC sp_set_session_context @k, N'declare_stale'"
            ),
            "beside other statements": lambda client: client.batch("SELECT 1 FROM t; " + text),
            "a procedure by RPC": lambda client: client.rpc(call("dbo.declare_stale")),
            "sp_executesql": lambda client: client.rpc(call(10, nvarchar("", text))),
            "sp_prepexec in chunks": lambda client: client.rpc(call(13, integer("", None, True), nvarchar("", ""), chunks("", text, 1000))),
            "the key in chunks": lambda client: client.rpc(call("sp_set_session_context", chunks("@key", "declare_stale", 1000))),
        }
        for name, declare in ways.items():
            with self.subTest(name):
                client = Tds(proxy.port, "sa", "secret", "app", "plain")
                self.addCleanup(client.close)
                for _ in range(2):
                    assert client.batch("INSERT dbo.t VALUES (1)").errors == []
                assert declare(client).errors == []
                before = len(server.asked)
                assert client.batch("INSERT dbo.t VALUES (1)").number == 50001
                assert client.rpc(call(10, nvarchar("", "INSERT dbo.t VALUES (1)"))).number == 50001
                assert [one for one in server.asked[before:] if one != "gate_enter"] == []

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
        assert "Msg 50002 (severity 16, state 1) from termgate" in tsql("INSERT dbo.t VALUES (62)")
        assert "Msg 50001" in tsql("INSERT dbo.t VALUES (63)", "-a", "termgate.scope=s;termgate.term=4;")
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

    def test_every_version_of_tds(self):
        versions = (0x71000001, 0x72090002, 0x730A0003, 0x730B0003, 0x74000004)
        for version in versions:
            with self.subTest(hex(version)):
                before = self.server.versions.count(version)
                client = Tds(self.proxy.port, "sa", "secret", "app", WITH_TERM, version=version)
                self.addCleanup(client.close)
                # The proxy's own connection logs in now and then, too.
                assert self.server.versions.count(version) > before
                assert client.batch(f"INSERT dbo.t VALUES ({version})").errors == []
                assert client.rpc(call(10, nvarchar("", "INSERT dbo.t VALUES (1)"))).errors == []
                assert client.batch("INSERT dbo.t VALUES ('" + 20_000 * "x" + "')").errors == []
                assert client.batch("EXEC termgate.set_term N's', 4").errors == []
                refused = client.batch("INSERT dbo.t VALUES (1)")
                assert refused.number == 50001
                # A DONE, whose count of rows has four bytes in TDS 7.1.
                assert refused.payload[-(9 if version < 0x72000000 else 13)] == 0xFD
        assert self.server.unfenced == 0
        with pytest.raises(Closed):
            Tds(self.proxy.port, "sa", "secret", "app", WITH_TERM, version=0x70000000)

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
