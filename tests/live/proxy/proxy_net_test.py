#!/usr/bin/env python3
"""The proxy's sockets against a real PostgreSQL: TLS on both sides, cancel requests, limits, silent clients, PROXY
headers, drain, HTTP.

  pytest tests/live/proxy/proxy_net_test.py [-k drain]

Speaks the wire itself, so that it can send what no driver would.
"""
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import time

import pytest

from checks import check, eventually, note
from given import SANITIZED
from proxy_lab import Refused, Wire, query


class Client(Wire):
    """With TLS, in each of its ways."""

    def __init__(self, port, tls=None, direct=False, alpn=("postgresql",), before=b"", user="postgres", login=True, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=15)
        self.socket.sendall(before)
        if tls:
            context = ssl.create_default_context(cafile=tls)
            context.set_alpn_protocols(list(alpn)) if alpn else None
            if not direct:
                self.socket.sendall(struct.pack("!II", 8, 80877103))
                answer = self.socket.recv(1)
                if answer != b"S":
                    raise Refused(answer)
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.pid = self.key = None
        if login:
            body = struct.pack("!I", 3 << 16) + f"user\0{user}\0database\0postgres\0\0".encode()
            self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
            self.until("Z")

    def say(self, sql):
        self.send(query(sql))


def refusal(action):
    try:
        action()
    except Refused as refused:
        return refused.args[0] if isinstance(refused.args[0], dict) else {"C": "", "M": str(refused)}
    except (ConnectionError, ssl.SSLError, socket.timeout) as error:
        return {"C": "", "M": repr(error)}
    return None


def cancel(port, pid, key, tls=None):
    client = Client(port, tls=tls, login=False)
    client.socket.sendall(struct.pack("!III", 12 + len(key), 80877102, pid) + key)
    client.socket.settimeout(12)
    try:
        return client.socket.recv(1)
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        client.close()


@pytest.fixture(scope="module")
def server(lab):
    return lab.server("15", "max_connections=200")


@pytest.fixture(scope="module")
def ca(lab):
    return lab.certificate("ca")


@pytest.fixture
def proxy_of(lab, server):
    """Starts proxies that write all they do into their logs; `url`: of another server."""
    started = []

    def start(*options, url=None):
        started.append(lab.proxy(url or server.url, "--log-level", "debug", *options))
        return started[-1]

    yield start
    for proxy in started:
        proxy.stop()


def ended_with(proxy, seconds=10):
    """The status with which the proxy ends by itself."""
    return proxy.process.wait(seconds)


def settles(proxy, name, most):
    if not eventually(lambda: proxy.metric(name) <= most, 20):
        raise AssertionError(f"{name} stays above {most}")


def sleeps(client, server):
    """The client has sent a statement that takes 20 seconds, and the server runs it."""
    client.say("select pg_sleep(20)")
    assert eventually(
        lambda: server.sql(
            f"select count(*) from pg_stat_activity where pid = {client.pid} and state = 'active' and query like '%pg_sleep%'"
        )
        == ["1"]
    )


@pytest.fixture
def tls_proxy(lab, ca, proxy_of):
    """A proxy with a certificate for its clients, which `pair` names."""
    pair = lab.certificate(f"proxy{time.monotonic_ns()}", "DNS:localhost", ca)
    proxy = proxy_of("--client-tls-cert", pair[1], "--client-tls-key", pair[0])
    proxy.pair = pair
    return proxy


def test_tls_clients_that_request_it_get_it(ca, tls_proxy):
    client = Client(tls_proxy.port, tls=ca[1])
    check("TLS: a client that asks for it gets it", client.ask("select 7")[0] == ["7"])
    big = client.ask("select repeat('x', 3000000)")[0]
    check("TLS: a large row comes whole", len(big[0]) == 3_000_000)
    check("TLS: ends cleanly", tls_proxy.stop() == 0)


def test_direct_tls_needs_alpn(ca, tls_proxy):
    direct = Client(tls_proxy.port, tls=ca[1], direct=True)
    check("direct TLS: works with ALPN", direct.ask("select 8")[0] == ["8"])
    check("direct TLS: is refused without ALPN", refusal(lambda: Client(tls_proxy.port, tls=ca[1], direct=True, alpn=None)) is not None)


def test_clear_text_after_an_ssl_request_is_never_obeyed(tls_proxy):
    stuffed = socket.create_connection(("127.0.0.1", tls_proxy.port), timeout=10)
    startup = struct.pack("!I", 3 << 16) + b"user\0postgres\0\0"
    stuffed.sendall(struct.pack("!II", 8, 80877103) + struct.pack("!I", len(startup) + 4) + startup)
    answer = b""
    try:
        for piece in iter(lambda: stuffed.recv(4096), b""):
            answer += piece
    except ConnectionError:
        pass
    check("TLS: clear text behind SSLRequest is never obeyed", b"R\0\0\0" not in answer and b"C08P01\0" in answer, answer)


def test_cancel_requests_need_the_secret_and_may_come_in_clear_text(ca, server, tls_proxy):
    sleeping = Client(tls_proxy.port, tls=ca[1])
    sleeps(sleeping, server)
    began = time.monotonic()
    wrong = bytes(byte ^ 1 for byte in sleeping.key)
    cancel(tls_proxy.port, sleeping.pid, wrong)
    cancel(tls_proxy.port, sleeping.pid + 1, sleeping.key)
    unknown = tls_proxy.metric('termgate_cancel_requests_total{fate="unknown"}')
    check("cancel: a wrong secret and a wrong process change nothing", unknown == 2, unknown)
    cancel(tls_proxy.port, sleeping.pid, sleeping.key, tls=ca[1])
    error = sleeping.until("Z")[1]
    check("cancel: works through TLS", error and error["C"] == "57014" and time.monotonic() - began < 10, error)
    sleeps(sleeping, server)
    cancel(tls_proxy.port, sleeping.pid, sleeping.key)
    check("cancel: works in clear text for a session under TLS", sleeping.until("Z")[1]["C"] == "57014")
    check("cancel: the process is the server's own", sleeping.ask("select pg_backend_pid()")[0] == [str(sleeping.pid)])


def test_a_reload_takes_a_new_certificate_and_keeps_open_sessions(lab, ca, tls_proxy):
    client = Client(tls_proxy.port, tls=ca[1])
    fresh = lab.certificate("fresh", "DNS:localhost", ca)
    shutil.copy(fresh[0], tls_proxy.pair[0])
    shutil.copy(fresh[1], tls_proxy.pair[1])
    said = tls_proxy.reload()
    check("reload: is logged", " reloaded" in said, said)
    renewed = Client(tls_proxy.port, tls=ca[1])
    subject = dict(part[0] for part in renewed.socket.getpeercert()["subject"])
    check("reload: the next client sees the new certificate", subject["commonName"] == "fresh", subject)
    check("reload: sessions under the old one go on", client.ask("select 9")[0] == ["9"])
    with open(tls_proxy.pair[1], "w") as file:
        file.write("nothing")
    said = tls_proxy.reload()
    check(
        "reload: a broken certificate changes nothing",
        "reload_failed" in said and Client(tls_proxy.port, tls=ca[1]).ask("select 1")[0] == ["1"],
        said,
    )


@pytest.fixture(scope="module")
def tls_server(lab, ca):
    """A server that takes TLS, with its certificate for the name localhost."""
    key, certificate = lab.certificate("server", "DNS:localhost", ca)
    if os.geteuid() == 0:
        for path in (key, certificate):
            shutil.chown(path, "postgres")
    os.chmod(key, 0o600)
    server = lab.server("15", "ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}")
    server.tls_url = server.url.replace("127.0.0.1", "localhost")
    return server


def test_server_tls_verify_full_with_the_right_root(ca, tls_server, proxy_of):
    proxy = proxy_of(url=f"{tls_server.tls_url}?sslmode=verify-full&sslrootcert={ca[1]}")
    client = Client(proxy.port)
    check("server TLS: verify-full with the right root", client.ask("select ssl from pg_stat_ssl where pid = pg_backend_pid()")[0] == ["t"])
    sleeps(client, tls_server)
    cancel(proxy.port, client.pid, client.key)
    check("server TLS: a cancel request reaches the server", client.until("Z")[1]["C"] == "57014")


def test_server_tls_another_root_is_refused(lab, tls_server, proxy_of):
    proxy = proxy_of(url=f"{tls_server.tls_url}?sslmode=verify-full&sslrootcert={lab.certificate('other')[1]}")
    check("server TLS: another root is refused", refusal(lambda: Client(proxy.port)) is not None and proxy.logged("tls_failed"))


def test_server_tls_another_name_is_refused(ca, tls_server, proxy_of):
    proxy = proxy_of(url=f"{tls_server.url}?sslmode=verify-full&sslrootcert={ca[1]}")
    check("server TLS: another name is refused", refusal(lambda: Client(proxy.port)) is not None)


def test_server_tls_require_and_a_server_without_it(server, proxy_of):
    proxy = proxy_of(url=f"{server.url}?sslmode=require")
    check("server TLS: require and a server without is refused", refusal(lambda: Client(proxy.port)) is not None)


def test_limits_and_silent_clients(lab, proxy_of):
    config = f"{lab.folder}/proxy.conf"
    with open(config, "w") as file:
        file.write("max-connections = 5\nmax-greeting = 40\n# a comment\ngreeting-timeout = 2s\n")
    proxy = proxy_of("--config", config)
    clients = [Client(proxy.port) for _ in range(5)]
    refused = refusal(lambda: Client(proxy.port))
    check(
        "limits: one client too many gets an error that names the limit",
        refused and refused["C"] == "53300" and "limit is 5 (--max-connections)" in refused["M"],
        refused,
    )
    clients.pop().close()
    settles(proxy, "termgate_connections", 4)
    check("limits: a place that is free again is given", Client(proxy.port).ask("select 1")[0] == ["1"])
    with open(config, "w") as file:
        file.write("max-connections = 50\nmax-greeting = 40\ngreeting-timeout = 2s\nmax-connections-per-user = 6\n")
    proxy.reload()
    more = [Client(proxy.port) for _ in range(2)]
    refused = refusal(lambda: Client(proxy.port))
    check("limits: reload takes new ones", refused and "--max-connections-per-user" in refused["M"], refused)
    silent = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(400)]
    more.pop().close()
    settles(proxy, "termgate_connections", 5)
    began = time.monotonic()
    check("silent clients: a speaking one gets in", Client(proxy.port).ask("select 2")[0] == ["2"] and time.monotonic() - began < 8)
    # Each time another worker may have all of those that could be sent away.
    for _ in range(30):
        silent += [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(50)]
        # A client that the system holds up between its connect and its first word is a silent one too, so it may try again.
        speaking = None
        for _ in range(3):
            try:
                speaking = speaking or Client(proxy.port)
            except Refused as refused:
                if "--max-greeting" not in str(refused):
                    raise
        if speaking is None or speaking.ask("select 2")[0] != ["2"]:
            raise Refused("the client after a burst of silent ones")
        speaking.close()
        settles(proxy, "termgate_connections", 5)
    check("silent clients: after each of many bursts one gets in", True)
    check("silent clients: are bounded", proxy.metric("termgate_connections_greeting") <= 40)
    check("silent clients: do not stay", eventually(lambda: proxy.metric("termgate_connections_greeting") == 0, 10))
    check("silent clients: nobody else has noticed", clients[0].ask("select 3")[0] == ["3"])
    for one in silent:
        one.close()
    with open(config, "w") as file:
        file.write("max-conections = 50\n")
    said = proxy.reload()
    check("config: an unknown option is an error and names itself", re.search("reload_failed.*max-conections", said), said)


def test_a_proxy_header_says_who_the_client_is(proxy_of):
    proxy = proxy_of("--listen", "lb=127.0.0.1:0,proxy", "--trust-backend")
    source = bytes([192, 0, 2, 7, 127, 0, 0, 1]) + struct.pack("!HH", 1234, 5432)
    header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(source)) + source
    client = Client(proxy.ports[1], before=header)
    check(
        "PROXY header: the client is who it says",
        client.ask("select 1")[0] == ["1"] and proxy.logged(r"connection_opened .*client=192\.0\.2\.7:1234 listener=lb"),
    )
    check(
        "PROXY header: without one the connection ends", refusal(lambda: Client(proxy.ports[1])) is not None and proxy.logged("malformed")
    )


def test_drain_lets_transactions_end_and_takes_nobody_new(proxy_of):
    proxy = proxy_of("--drain-timeout", "30s")
    idle = Client(proxy.port)
    busy = Client(proxy.port)
    busy.ask("begin")
    proxy.process.send_signal(signal.SIGTERM)
    check("drain: is logged", proxy.logged(" draining"))
    gone = refusal(lambda: idle.until("Z"))
    check("drain: an idle session gets an error and is ended", gone and gone["C"] == "57P01", gone)
    check("drain: no new client is taken", refusal(lambda: Client(proxy.port)) is not None)
    check("drain: not ready any more", proxy.get("/readyz")[0] == 503 and proxy.get("/healthz")[0] == 200)
    check("drain: an open transaction goes on", busy.ask("select 4")[0] == ["4"])
    busy.say("commit")
    refusal(lambda: busy.until("Z"))
    check("drain: then the proxy ends", ended_with(proxy, 20) == 0)


def test_drain_cuts_an_endless_transaction_at_its_limit(proxy_of):
    proxy = proxy_of("--drain-timeout", "1s")
    stuck = Client(proxy.port)
    stuck.ask("begin")
    began = time.monotonic()
    proxy.process.send_signal(signal.SIGTERM)
    cut = refusal(lambda: stuck.until("Z"))
    check("drain: an endless transaction is cut at the timeout", cut and cut["C"] == "57P01" and 0.8 < time.monotonic() - began < 10, cut)
    check("drain: and the proxy ends after it", ended_with(proxy) == 0)


def test_a_second_signal_ends_a_drain_at_once(proxy_of):
    proxy = proxy_of()
    stuck = Client(proxy.port)
    stuck.ask("begin")
    proxy.process.send_signal(signal.SIGTERM)
    proxy.logged(" draining")
    proxy.process.send_signal(signal.SIGTERM)
    check("drain: a second signal ends at once", ended_with(proxy, 5) == 0)


def test_http_says_alive_and_ready_and_nothing_else(proxy_of):
    proxy = proxy_of()
    eventually(lambda: proxy.get("/readyz")[0] == 200, 10)  # it is ready once it watches the fences
    check("HTTP: alive and ready", proxy.get("/healthz")[0] == 200 and proxy.get("/readyz")[0] == 200)
    check("HTTP: nothing else is there", [proxy.get(path)[0] for path in ("/", "/api/v1/scopes", "/leader?scope=none")] == [404, 404, 503])
    check("HTTP: another name is refused", proxy.get("/metrics", host="evil.example")[0] == 421)
    long_one = socket.create_connection(("127.0.0.1", proxy.http), timeout=5)
    long_one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n")
    check("HTTP: headers are bounded", b" 431 " in long_one.recv(200))


def test_without_a_server_it_is_alive_and_not_ready(proxy_of):
    proxy = proxy_of(url="postgresql://postgres@127.0.0.1:1/postgres")
    check("HTTP: no server is not ready but alive", proxy.get("/readyz")[0] == 503 and proxy.get("/healthz")[0] == 200)
    refused = refusal(lambda: Client(proxy.port))
    check("no server: the client gets an error of its own protocol", refused and refused["C"] == "57P03", refused)


def test_idle_clients_cost_little_memory(proxy_of):
    proxy = proxy_of()
    warm = [Client(proxy.port) for _ in range(3)]
    before = proxy.resident_kb()
    clients = [Client(proxy.port) for _ in range(80)]
    grown = proxy.resident_kb() - before
    # 1,000 may cost 32 MB: 32 kB each, and some slack for pages that are only begun.
    check("memory: idle clients cost little", SANITIZED or grown < 80 * 32 + 1024, f"{grown} kB for 80")
    note(f"{grown} kB for 80 idle clients")
    for one in warm + clients:
        one.close()
