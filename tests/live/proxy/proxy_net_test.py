#!/usr/bin/env python3
"""The proxy's sockets against a real PostgreSQL: TLS and certificates on both sides, cancel requests, limits, silent clients and servers,
PROXY headers, IPv6, Unix sockets.

  pytest tests/live/proxy/proxy_net_test.py [-k tls]
"""
import os
import shutil
import socket
import ssl
import stat
import struct
import threading
import time

import pytest

from checks import check, eventually, stays
from proxy_lab import SYNC, Refused, Wire, bind, execute, parse, query, refusal, startup


@pytest.fixture(scope="module")
def server(lab):
    server = lab.server("15", "max_connections=200")
    server.sql("create role limited login")
    server.sql("create database limited")
    return server


def tls(port, ca, pair=None, login=True, before=b"", direct=False, alpn=True):
    """A client in TLS, with a certificate of its own perhaps."""
    wire = Wire(port, login=False, before=before)
    context = ssl.create_default_context(cafile=ca[1])
    if alpn:
        context.set_alpn_protocols(["postgresql"])
    if pair:
        context.load_cert_chain(pair[1], pair[0])
    if not direct:
        wire.send(struct.pack("!II", 8, 80877103))
        if wire.exactly(1) != b"S":
            raise Refused("no TLS")
    wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
    if login:
        wire.send(startup())
        wire.until("Z")
    return wire


def proxied(client, server="127.0.0.1"):
    """A PROXY header of version 2 that brings this client."""
    body = socket.inet_aton(client) + socket.inet_aton(server) + struct.pack("!HH", 4321, 5432)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(body)) + body


def sleeps(client, sql):
    """The client has sent a statement that takes a minute, and the server runs it. `sql` puts a question to the server directly; returned
    is the one that says whether the statement still runs."""
    client.send(query("select pg_sleep(60)"))
    running = f"select count(*) from pg_stat_activity where pid = {client.pid} and state = 'active' and query like '%pg_sleep%'"
    assert eventually(lambda: sql(running) == ["1"])
    return running


def cancel(wire, pid, key):
    """Sends a cancel request and waits until the other side closes, which may take as long as the server takes."""
    wire.send(struct.pack("!III", 12 + len(key), 80877102, pid) + key)
    wire.rest()
    wire.close()


class Certificates:
    """Two authorities; certificates of the proxy, of a good client, of a foreign one, of an old one; `files`: the proxy's options."""

    def __init__(self, lab):
        self.ca, self.other = lab.certificate("ca"), lab.certificate("other-ca")
        self.pair = lab.certificate("localhost", "DNS:localhost", self.ca)
        self.good, self.foreign = lab.certificate("client", None, self.ca), lab.certificate("foreign", None, self.other)
        self.old = lab.certificate("old", None, self.ca, "-1")
        self.own = ("--client-tls-cert", self.pair[1], "--client-tls-key", self.pair[0])
        self.files = (*self.own, "--client-tls-ca", self.ca[1], "--listen", "lb=127.0.0.1:0,proxy", "--trust-backend")


@pytest.fixture(scope="module")
def certified(lab):
    return Certificates(lab)


@pytest.fixture(scope="module")
def tls_proxy(lab, server, certified):
    return lab.proxy(server.url, *certified.own)


def test_tls_clients_that_request_it_get_it(certified, tls_proxy):
    client = tls(tls_proxy.port, certified.ca)
    check("TLS: a large row comes whole", len(client.ask("select repeat('x', 3000000)")[0][0]) == 3_000_000)
    check("direct TLS: works with ALPN", tls(tls_proxy.port, certified.ca, direct=True).ask("select 8")[0] == ["8"])
    check("direct TLS: is refused without it", refusal(lambda: tls(tls_proxy.port, certified.ca, direct=True, alpn=False)) is not None)


def test_clear_text_after_an_ssl_request_is_never_obeyed(tls_proxy):
    stuffed = Wire(tls_proxy.port, login=False, before=struct.pack("!II", 8, 80877103) + startup())
    answer = stuffed.rest()
    check("TLS: clear text behind SSLRequest is never obeyed", b"R\0\0\0" not in answer and b"C08P01\0" in answer, answer)


def test_cancel_requests_need_the_secret_and_may_come_in_clear_text(certified, server, tls_proxy):
    sleeping = tls(tls_proxy.port, certified.ca)
    running = sleeps(sleeping, server.sql)
    cancel(Wire(tls_proxy.port, login=False), sleeping.pid, bytes(byte ^ 1 for byte in sleeping.key))
    cancel(Wire(tls_proxy.port, login=False), sleeping.pid + 1, sleeping.key)
    unknown = tls_proxy.metric('termgate_cancel_requests_total{fate="unknown"}')
    check("cancel: a wrong secret and a wrong process change nothing", unknown == 2 and server.sql(running) == ["1"], unknown)
    cancel(tls(tls_proxy.port, certified.ca, login=False), sleeping.pid, sleeping.key)
    check("cancel: works through TLS", sleeping.until("Z")[1]["C"] == "57014")
    sleeps(sleeping, server.sql)
    cancel(Wire(tls_proxy.port, login=False), sleeping.pid, sleeping.key)
    check("cancel: works in clear text for a session under TLS", sleeping.until("Z")[1]["C"] == "57014")
    check("cancel: the process is the server's own", sleeping.ask("select pg_backend_pid()")[0] == [str(sleeping.pid)])


def test_a_reload_shows_a_new_tls_certificate_and_keeps_open_sessions(lab, certified, tls_proxy):
    client = tls(tls_proxy.port, certified.ca)
    for fresh, place in zip(lab.certificate("fresh", "DNS:localhost", certified.ca), certified.pair):
        shutil.copy(fresh, place)
    said = tls_proxy.reload()
    subject = dict(part[0] for part in tls(tls_proxy.port, certified.ca).socket.getpeercert()["subject"])
    check("reload: the next client sees the new certificate", " reloaded" in said and subject["commonName"] == "fresh", (said, subject))
    check("reload: sessions under the old one go on", client.ask("select 9")[0] == ["9"])


def test_client_certificates_that_are_required(lab, server, certified):
    ca, good = certified.ca, certified.good
    proxy = lab.proxy(server.url, *certified.files)
    check("client certificates: a good one gets in", tls(proxy.port, ca, good).ask("select 1")[0] == ["1"])
    check("client certificates: by direct TLS too", tls(proxy.port, ca, good, direct=True).ask("select 1")[0] == ["1"])
    for name, shown in (("none", None), ("a foreign one", certified.foreign), ("one that has expired", certified.old)):
        time.sleep(1.1)  # the log has one line a second about an address
        for direct in (False, True):
            check(
                f"client certificates: {name} is refused{' by direct TLS' if direct else ''}",
                refusal(lambda: tls(proxy.port, ca, shown, direct=direct).ask("select 1")) is not None,
            )
    check(
        "client certificates: the log says why",
        all(
            proxy.logged(f"tls_failed .*{words}")
            for words in ("peer did not return a certificate", "unable to get local issuer certificate", "certificate has expired")
        ),
        proxy.log(),
    )
    told = refusal(lambda: Wire(proxy.ports[1], before=proxied("192.0.2.7")))
    check("client certificates: clear text is no way round them", told and told["C"] == "28000", told)
    check(
        "client certificates: the header's client with one gets in",
        tls(proxy.ports[1], ca, good, before=proxied("192.0.2.7")).ask("select 1")[0] == ["1"],
    )
    proxy.stop()


def test_client_certificates_that_are_optional(lab, server, certified):
    ca, good = certified.ca, certified.good
    proxy = lab.proxy(server.url, *certified.files, "--client-cert", "optional")
    check(
        "client certificates: optional takes none and a good one",
        all(tls(proxy.port, ca, shown).ask("select 1")[0] == ["1"] for shown in (None, good)),
    )
    check(
        "client certificates: optional refuses a foreign one",
        refusal(lambda: tls(proxy.port, ca, certified.foreign).ask("select 1")) is not None,
    )
    check("client certificates: optional takes clear text", Wire(proxy.ports[1], before=proxied("192.0.2.7")).ask("select 1")[0] == ["1"])
    proxy.stop()


def test_client_certificate_options_that_need_others(server, certified, refused_start):
    ca, pair = certified.ca, certified.pair
    for options, words in (
        (("--client-tls-ca", ca[1]), "--client-tls-ca"),
        (("--require-tls",), "--require-tls"),
        (("--client-tls-key", pair[0]), "--client-tls-key"),
        ((*certified.own, "--client-cert", "required"), "--client-tls-ca"),
    ):
        said = refused_start(server.url, *options)
        check(f"client certificates: {options[0]} alone is an error", words in said and "ended with 2" in said, said)


@pytest.fixture(scope="module")
def strict(lab, certified):
    """A server that requires a certificate of the proxy; `tls_url` names its root, `own` the proxy's good certificate."""
    ca, good = certified.ca, certified.good
    shown = lab.certificate("server", "DNS:localhost", ca)
    if os.geteuid() == 0:
        shutil.chown(shown[0], "postgres")
    os.chmod(shown[0], 0o600)
    strict = lab.server("15", "ssl=on", f"ssl_cert_file={shown[1]}", f"ssl_key_file={shown[0]}", f"ssl_ca_file={ca[1]}")
    with open(f"{strict.folder}/data/pg_hba.conf", "r+") as file:
        file.write("local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n")
        file.truncate()
    lab.run(lab.pg_server, "stop", strict.folder)
    lab.run(lab.pg_server, "start", "15", strict.folder)
    url = f"postgresql://postgres@localhost:{strict.port}/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={ca[1]}"
    strict.shown, strict.tls_url, strict.own = shown, url, f"&sslcert={good[1]}&sslkey={good[0]}"
    return strict


def test_tls_to_a_server_that_requires_a_certificate(lab, certified, strict):
    proxy = lab.proxy(strict.tls_url + strict.own)
    client = Wire(proxy.port)
    check(
        "server TLS: the server knows the proxy's certificate",
        client.ask("select ssl and client_dn = '/CN=client' from pg_stat_ssl where pid = pg_backend_pid()")[0] == ["t"],
    )
    local = f"{strict.folder}/.s.PGSQL.{strict.port}"
    sleeps(client, lambda text: Wire(0, path=local).ask(text)[0])
    cancel(Wire(proxy.port, login=False), client.pid, client.key)
    check("server TLS: a cancel request reaches the server", client.until("Z")[1]["C"] == "57014")
    proxy.stop()
    proxy = lab.proxy(strict.tls_url)
    told = refusal(lambda: Wire(proxy.port))
    check("server TLS: without one the server's refusal reaches the client", told and told["C"] in ("28000", "08006"), told)
    proxy.stop()


def test_tls_to_a_server_that_fails_says_why(lab, server, certified, strict, refused_start):
    url, own, ca, good, shown = strict.tls_url, strict.own, certified.ca, certified.good, strict.shown

    def fails(name, to, words):
        proxy = lab.proxy(to)
        told = refusal(lambda: Wire(proxy.port))
        check(f"server TLS: {name} is told", told and told["C"] == "08006" and words in told["M"], told)
        check(f"server TLS: {name} is logged", proxy.logged(f"(tls_failed .*with=server|login_refused) .*{words}"), proxy.log())
        proxy.stop()

    fails("a wrong name", url.replace("@localhost:", "@db.example:") + own, "hostname mismatch")
    fails("a wrong address", url.replace("@localhost:", "@127.0.0.1:") + own, "IP address mismatch")
    fails("another root", url.replace(ca[1], certified.other[1]) + own, "certificate")
    fails("an expired certificate of the proxy", url + f"&sslcert={certified.old[1]}&sslkey={certified.old[0]}", "expired")
    for name, key in (("a missing key", "/nowhere.key"), ("a foreign key", certified.foreign[0])):
        said = refused_start(f"{url}&sslcert={good[1]}&sslkey={key}")
        check(f"server TLS: {name} does not start", key in said and "cannot_start" in said, said)
    proxy = lab.proxy(f"{server.url}?sslmode=require")
    check("server TLS: require and a server without is refused", refusal(lambda: Wire(proxy.port)) is not None)
    proxy.stop()
    # Last, for the server keeps it.
    old = lab.certificate("server-old", "DNS:localhost", ca, "-1")
    shutil.copyfile(old[0], shown[0])
    shutil.copyfile(old[1], shown[1])
    lab.run(lab.pg_server, "stop", strict.folder)
    lab.run(lab.pg_server, "start", "15", strict.folder)
    fails("a server's expired certificate", url + own, "certificate has expired")


@pytest.mark.parametrize("option, mine", (("user", {"user": "limited"}), ("database", {"database": "limited"}), ("address", {})))
def test_one_too_many_is_refused_by(option, mine, lab, server):
    proxy = lab.proxy(server.url, f"--max-connections-per-{option}", "2")

    def client(**more):
        return Wire(proxy.port, host="127.0.0.1", **mine, **more)

    def nobody_left():
        return [proxy.metric(f"termgate_connections{what}") for what in ("", "_greeting")] == [0, 0]

    clients = [client(), client()]
    told = refusal(client)
    check(
        f"limits: a third of one {option} is told",
        told and told["C"] == "53300" and f"the proxy's limit is 2 (--max-connections-per-{option})" in told["M"],
        told,
    )
    clients.append(Wire(proxy.port, host="127.0.0.1", source="127.0.0.5"))  # another's
    refused = proxy.metric(f'termgate_connections_refused_total{{limit="{option}"}}')
    check("limits: refusals are counted", refused == 1 and proxy.logged("limit_met"), refused)
    clients.pop(0).close()
    check("limits: a place is given again", eventually(lambda: refusal(lambda: clients.append(client())) is None))
    for one in clients:
        one.close()
    check("limits: nothing is held", eventually(nobody_left), proxy.get("/metrics")[1])
    # Who does not get in, or dies on the way, holds no place.
    for _ in range(5):
        refusal(lambda: Wire(proxy.port, user="nobody-of-that-name"))
        dying = client(login=False)
        dying.send(startup(**mine))
        dying.close()
    check("limits: nor by logins that fail", eventually(nobody_left), proxy.get("/metrics")[1])
    proxy.stop()


def test_limits_of_all_clients_and_silent_ones(lab, server):
    config = f"{lab.folder}/proxy.conf"

    def write(more):
        with open(config, "w") as file:
            file.write(f"# a comment\nmax-greeting = 40\ngreeting-timeout = 2s\n{more}\n")

    write("max-connections = 5")
    proxy = lab.proxy(server.url, "--config", config)
    clients = [Wire(proxy.port) for _ in range(5)]
    told = refusal(lambda: Wire(proxy.port))
    check("limits: one client too many", told and told["C"] == "53300" and "limit is 5 (--max-connections)" in told["M"], told)
    write("max-connections = 50")
    check("limits: a reload takes new ones", " reloaded" in proxy.reload() and refusal(lambda: clients.append(Wire(proxy.port))) is None)
    silent = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(400)]
    began = time.monotonic()
    check("silent clients: a speaking one gets in", Wire(proxy.port).ask("select 2")[0] == ["2"] and time.monotonic() - began < 8)
    # Each time another worker may have all of those that could be sent away.
    for burst in range(30):
        silent += [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(50)]
        # A client that the system holds up between its connect and its first word is a silent one too, so it may try again.
        tried = [refusal(lambda: Wire(proxy.port).close())]
        while tried[-1] and "--max-greeting" in tried[-1]["M"] and len(tried) < 3:
            tried.append(refusal(lambda: Wire(proxy.port).close()))
        assert tried[-1] is None, f"the client after burst {burst} of silent ones: {tried}"
    check("silent clients: are bounded", proxy.metric("termgate_connections_greeting") <= 40)
    check("silent clients: do not stay", eventually(lambda: proxy.metric("termgate_connections_greeting") == 0, 10))
    check("silent clients: nobody else has noticed", clients[0].ask("select 3")[0] == ["3"])
    for one in silent:
        one.close()
    proxy.stop()


def test_what_is_too_long_or_silent_too_long_is_cut(lab, server):
    proxy = lab.proxy(
        server.url,
        *"--max-statement-bytes 2000 --max-message-bytes 100000 --idle-timeout 700ms --idle-in-transaction-timeout 700ms".split(),
    )

    def held(*pieces, before=()):
        client = Wire(proxy.port)
        for sql in before:
            client.ask(sql)
        client.send(*pieces)
        told = refusal(lambda: client.until("Z"))
        check("limits: and the connection is closed", refusal(lambda: client.message()) is not None)
        return told or {"C": "none", "M": ""}

    long_text = "select '" + "x" * 3000 + "'"
    for name, told, code, words in (
        ("a long statement", held(query(long_text)), "08P01", "--max-statement-bytes"),
        ("a long Parse", held(parse("", long_text), SYNC), "08P01", "--max-statement-bytes"),
        ("a long statement in a transaction", held(query(long_text), before=["begin"]), "08P01", "--max-statement-bytes"),
        ("a large Bind", held(parse("", "select $1::text"), bind("", "", b"x" * 200_000), execute(), SYNC), "08P01", "--max-message-bytes"),
        ("a session that says nothing", held(), "57P05", "idle-session timeout of the proxy"),
        ("a transaction that says nothing", held(before=["begin"]), "25P03", "idle-in-transaction timeout of the proxy"),
        ("a failed transaction that says nothing", held(before=["begin", "selec"]), "25P03", "idle-in-transaction timeout of the proxy"),
    ):
        check(f"limits: {name} gets {code}", told["C"] == code and words in told["M"], told)
    slow = Wire(proxy.port)
    check("limits: a slow statement is not silence", slow.ask("select pg_sleep(1.5)")[1] is None)
    slow.close()
    check("limits: nobody is left", eventually(lambda: proxy.metric("termgate_connections") == 0))
    check("limits: no memory of them is kept", eventually(lambda: proxy.metric("termgate_session_bytes") == 0, 3))
    proxy.stop()


@pytest.mark.parametrize("mode", ("disable", "prefer"))
def test_a_silent_server_is_given_up_at_the_login_timeout(mode, lab):
    mute = socket.socket()
    mute.bind(("127.0.0.1", 0))
    mute.listen(10)
    url = f"postgresql://postgres@127.0.0.1:{mute.getsockname()[1]}/postgres?sslmode={mode}&connect_timeout=2"
    proxy = lab.proxy(url, "--login-timeout", "700ms", "--greeting-timeout", "700ms")
    began = time.monotonic()
    told = refusal(lambda: Wire(proxy.port))
    check(
        f"limits: a server that says nothing is given up at the login timeout ({mode})",
        told and told["C"] == "57014" and "login timeout" in told["M"] and 0.6 < time.monotonic() - began < 8,
        told,
    )
    half = Wire(proxy.port, login=False)
    half.send(startup()[:20])
    told = refusal(lambda: half.until("Z"))
    check(f"limits: and half a start-up message ({mode})", told and told["C"] == "57014", told)
    check(
        "limits: neither holds a place",
        eventually(lambda: proxy.metric("termgate_connections") == 0 and proxy.metric("termgate_connections_greeting") == 0),
    )
    proxy.stop()
    mute.close()


def test_a_proxy_header_says_who_the_client_is(lab, server):
    proxy = lab.proxy(server.url, "--listen", "lb=127.0.0.1:0,proxy", "--trust-backend")
    client = Wire(proxy.ports[1], before=proxied("192.0.2.7"))
    named = client.ask("select 1")[0] == ["1"] and proxy.logged(r"connection_opened .*client=192\.0\.2\.7:4321 listener=lb")
    check("PROXY header: the client is who it says", named, proxy.log())
    check("PROXY header: without one the connection ends", refusal(lambda: Wire(proxy.ports[1])) is not None)
    proxy.stop()


def test_a_cancel_request_waits_for_a_server_whose_queue_is_full(lab, server, tmp_path):
    """The proxy's server is a Unix socket of ours here, which passes on to the real one what it accepts."""
    front = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / ".s.PGSQL.5432")
    front.bind(path)
    front.listen(0)
    accepts = threading.Event()
    accepts.set()

    def carry(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve():
        while True:
            accepts.wait()
            try:
                near, _ = front.accept()
            except OSError:
                return
            accepts.wait()
            far = socket.socket(socket.AF_UNIX)
            far.connect(f"{server.folder}/.s.PGSQL.{server.port}")
            for pair in ((near, far), (far, near)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    url = f"postgresql://postgres@/postgres?host={tmp_path}&port=5432"
    proxy, impatient = lab.proxy(url), lab.proxy(url, "--connect-timeout", "1s")
    client = Wire(proxy.port)
    running = sleeps(client, server.sql)
    accepts.clear()
    held = []

    def is_full():
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        held.append(one)
        return one.connect_ex(path) != 0

    check("a full queue: no connection is taken", eventually(is_full) and stays(is_full, 0.5))
    cancelling = socket.create_connection(("127.0.0.1", proxy.port))
    cancelling.sendall(struct.pack("!III", 12 + len(client.key), 80877102, client.pid) + client.key)
    check("a full queue: the cancel request waits", stays(lambda: server.sql(running) == ["1"], 0.5))
    told = refusal(lambda: Wire(impatient.port))
    check("a full queue: a client waits as long as --connect-timeout says", told and "--connect-timeout" in told["M"], told)
    impatient.stop()
    for one in held:
        one.close()
    accepts.set()
    check("a full queue: the cancel request comes", client.until("Z")[1]["C"] == "57014")
    proxy.stop()
    front.close()


def test_unix_sockets_on_both_sides(lab, server, refused_start):
    path = f"{lab.folder}/.s.PGSQL.6432"
    backend = f"postgresql://postgres@/postgres?host={server.folder}&port={server.port}"
    proxy = lab.proxy(backend, "--unix-mode", "0660", "--max-connections-per-address", "1", listen=[f"local=unix:{path}", "127.0.0.1:0"])
    check("Unix: the socket has the mode", stat.S_IMODE(os.stat(path).st_mode) == 0o660, oct(os.stat(path).st_mode))
    client = Wire(0, path=path)
    check(
        "Unix: both ways",
        client.ask("select inet_client_addr() is null")[0] == ["t"] and proxy.logged("connection_opened .*client=local listener=local "),
    )
    check("Unix: a large row comes whole", len(client.ask("select repeat('x', 5000000)")[0][0]) == 5_000_000)
    sleeps(client, server.sql)
    cancel(Wire(0, path=path, login=False), client.pid, client.key)
    check("Unix: a cancel request goes both ways", client.until("Z")[1]["C"] == "57014")
    told = refusal(lambda: Wire(0, path=path))
    check("Unix: its clients are one address to the limits", told and "--max-connections-per-address" in told["M"], told)
    check("Unix: TCP's are another", Wire(proxy.ports[1]).ask("select 1")[0] == ["1"])
    said = refused_start(server.url, listen=[f"unix:{path}"])
    check("Unix: a second proxy on a live socket is refused", "another process listens there" in said, said)
    check("Unix: the first did not notice", client.ask("select 1")[0] == ["1"])
    proxy.process.kill()
    proxy.process.wait()
    check("Unix: a killed proxy leaves its socket", os.path.exists(path))
    proxy = lab.proxy(server.url, listen=[f"unix:{path}"])
    served = Wire(0, path=path).ask("select 1")[0] == ["1"] and stat.S_IMODE(os.stat(path).st_mode) == 0o777
    check("Unix: the next takes the place of the dead one's", served)
    proxy.stop()
    check("Unix: one that ends takes its socket along", not os.path.exists(path))
    with open(path, "w") as file:
        file.write("precious")
    said = refused_start(server.url, listen=[f"unix:{path}"])
    check("Unix: a file that is no socket is left alone", "not a socket" in said and open(path).read() == "precious", said)


def test_ipv6_on_both_sides(lab):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"no ::1 here ({error})")
    six = lab.server("15", "listen_addresses=127.0.0.1,::1")
    proxy = lab.proxy(
        f"postgresql://postgres@[::1]:{six.port}/postgres", "--max-connections-per-address", "1", listen=["[::1]:0", "127.0.0.1:0"]
    )
    client = Wire(proxy.ports[0], host="::1")
    check("IPv6: both ways", client.ask("select inet_client_addr()::text")[0] == ["::1/128"])
    check("IPv6: ready, and the client's address in the log", proxy.get("/readyz")[0] == 200 and proxy.logged(r"client=\[::1\]:\d+ "))
    told = refusal(lambda: Wire(proxy.ports[0], host="::1"))
    check("IPv6: limits by address", told and told["C"] == "53300" and Wire(proxy.ports[1]).ask("select 1")[0] == ["1"], told)
    proxy.stop()
