#!/usr/bin/env python3
"""[F7] How programs that nobody can change are led to `termgate proxy --backend sqlserver://…`: named instances (the Browser
on UDP), old versions of TLS. In front of a server that plays its part (tests/support/tds_server.py), with FreeTDS, jTDS
and raw datagrams as clients.

  pytest tests/live/sqlserver/tds_lead_test.py [-k browser]
"""
import os
import shutil
import socket
import ssl
import time
import warnings
from pathlib import Path

import pytest

from checks import captured, eventually
from tds_proxy import WITH_TERM, OverTls, Proxy, certificate, scratch
from tds_server import Server
from tdsraw import Closed


@pytest.fixture(name="server", scope="module")
def server_of_all():
    server = Server(fence=5)
    yield server
    server.close()


def context_of(version):
    context = ssl.create_default_context(cafile=certificate()[0])
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    return context


OLD, NEW = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl")
@pytest.mark.parametrize(
    "least, served, refused", [(None, [NEW], [OLD]), ("1.0", [OLD, NEW], []), ("1.1", [NEW], [OLD]), ("1.2", [NEW], [OLD])]
)
def test_old_versions_of_tls_are_spoken_where_the_operator_says_so(server, least, served, refused):
    pem, key = certificate()
    options = ["--client-tls-cert", str(pem), "--client-tls-key", str(key), "--require-tls"]
    proxy = Proxy(server.port, *options, *(["--tls-min", least] if least else []))
    for version in served:
        client = OverTls(proxy.port, WITH_TERM, context_of(version))
        assert client.tls.version() == {OLD: "TLSv1", NEW: "TLSv1.2"}[version]
        assert client.batch("INSERT dbo.t VALUES (1)").errors == []
        client.close()
    for version in refused:
        with pytest.raises((OSError, Closed)):
            OverTls(proxy.port, WITH_TERM, context_of(version))
    assert proxy.end() == 0


@pytest.fixture(name="named", scope="module")
def named_instance(server):
    """A proxy of the instance BILLING, whose Browser has its usual port on an address of the loopback that nobody else uses."""
    host = f"127.77.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
    proxy = Proxy(server.port, "--browser", f"{host}:1434", listen=f"BILLING={host}:0")
    proxy.host = host
    found = eventually(lambda: "answering_browser" in proxy.log.read_text(encoding="utf-8"))
    assert found, proxy.log.read_text(encoding="utf-8")
    yield proxy
    assert proxy.end() == 0


def ask(proxy, datagram, patience=2.0):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(patience)
        one.sendto(datagram, (proxy.host, 1434))
        try:
            return one.recv(2048)
        except TimeoutError:
            return b""


def port_of(answer):
    words = answer[3:].decode("ascii").split(";")
    assert answer[0] == 5 and int.from_bytes(answer[1:3], "little") == len(answer) - 3
    assert words[2:4] == ["InstanceName", "BILLING"]
    return int(words[words.index("tcp") + 1])


def test_the_browser_tells_the_port_of_a_named_instance(named):
    port = port_of(ask(named, b"\4billing\0"))
    with socket.create_connection((named.host, port), 5):
        pass
    assert port_of(ask(named, b"\3")) == port
    for nothing in (b"\4other\0", b"\x0f\1BILLING\0", b"", b"\4" + 2000 * b"x", b"\5"):
        assert ask(named, nothing, 0.3) == b""


def test_the_browser_floods_nobody(named):
    time.sleep(1.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _ in range(400):
            one.sendto(b"\3", (named.host, 1434))
        one.settimeout(0.5)
        answers = 0
        try:
            while one.recv(2048):
                answers += 1
        except TimeoutError:
            pass
    # Five a second to one address, and the second may end on the way.
    assert 1 <= answers <= 15
    time.sleep(1.1)
    assert ask(named, b"\3") != b""


@pytest.mark.skipif(shutil.which("tsql") is None, reason="tsql (freetds-bin)")
def test_freetds_finds_a_named_instance(server, named):
    conf = Path(scratch.name) / "freetds.conf"
    conf.write_text(f"[billing]\nhost = {named.host}\ninstance = BILLING\ntds version = 7.4\n", encoding="utf-8")
    time.sleep(1.1)
    done = captured(
        ["tsql", "-S", "billing", "-U", "sa", "-P", "secret", "-a", WITH_TERM],
        input="INSERT dbo.t VALUES (77)\ngo\n",
        timeout=30,
        check=False,
        env=dict(os.environ, FREETDSCONF=str(conf)),
    )
    assert "Msg" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert any("VALUES (77)" in one for one in server.asked)
