#!/usr/bin/env python3
"""What bad input gets: one clear error, that one connection closed, nobody else disturbed, no growth of memory without bound.

  pytest tests/live/proxy/proxy_hostile_test.py [--long] [-k memory]

Messages cut off in every state, what is no message, clients that do not read, thousands that connect and say nothing. A bystander with an
open transaction goes on through all of it. --long: 10,000 connects, 1,000 idle clients, memory looked at a minute later. Each kind of bad
message is in tests/unit/: wire/pgwire/startup.cpp, wire/pgwire/reader.cpp and proxy/postgres/events.cpp.
"""
import os
import random
import resource
import socket
import struct
import threading
import time

import pytest

from checks import check, eventually, note
from given import LONG, SANITIZED
from proxy_lab import FLUSH, TERMINATE, Refused, Wire, bind, declared, errors_in, execute, message, parse, query, startup

DECLARED = declared("hostile", 3)


class Bystander:
    """A client inside a transaction that sends queries all the time; its longest wait is what the others cost it."""

    def __init__(self, port):
        self.wire = Wire(port, **DECLARED)
        self.wire.ask("BEGIN")
        self.wire.ask("INSERT INTO seen VALUES ('bystander')")
        self.longest, self.error, self.asked, self.going = 0.0, None, 0, True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while self.going and self.error is None:
            began = time.monotonic()
            try:
                rows, error = self.wire.ask("SELECT count(*) FROM seen WHERE what = 'bystander'")
                self.error = error or (None if rows == ["1"] else rows)
            except (Refused, OSError) as error:
                self.error = error
            self.longest = max(self.longest, time.monotonic() - began)
            self.asked += 1
            time.sleep(0.02)

    def end(self):
        if not self.going:
            return self.error is None
        self.going = False
        self.thread.join()
        self.wire.ask("ROLLBACK")
        self.wire.close()
        return self.error is None and self.asked > 10


def raw(port, *pieces, login=False):
    """Sends the bytes as they are; all that came until the other side closed, or None where it did not close."""
    client = Wire(port, login, timeout=8, **DECLARED)
    try:
        client.send(*pieces)
    except OSError:
        pass
    try:
        data = client.rest()
    except socket.timeout:
        data = None
    client.close()
    return data


@pytest.fixture(scope="module", autouse=True)
def many_descriptors():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(scope="module")
def server(lab):
    server = lab.server("15", f"max_connections={1100 if LONG else 300}")
    server.sql("CREATE TABLE seen (what text)")
    return server


@pytest.fixture(scope="module")
def fresh_proxy(lab, server):
    limits = {"--max-message-bytes": "8000000", "--max-statement-bytes": "200000", "--greeting-timeout": "5s", "--max-connections": "1100"}
    return lab.proxy(server.url, *(word for pair in limits.items() for word in pair))


@pytest.fixture(scope="module")
def bystander(fresh_proxy):
    bystander = Bystander(fresh_proxy.port)
    yield bystander
    bystander.end()


@pytest.fixture
def proxy(fresh_proxy, bystander):
    """The proxy with a bystander in it, who goes on through all tests."""
    return fresh_proxy


def test_idle_clients_cost_32_kb_each(fresh_proxy):
    proxy = fresh_proxy
    count = 1000 if LONG else 150
    warm = [Wire(proxy.port, **DECLARED) for _ in range(5)]
    before = proxy.resident_kb()
    clients = [Wire(proxy.port, **DECLARED) for _ in range(count)]
    grown = proxy.resident_kb() - before
    note(f"{grown} kB for {count} idle clients")
    check(f"{count} idle clients: 32 kB each", SANITIZED or grown <= count * 32 + (0 if LONG else 1024), f"{grown} kB")
    for one in warm + clients:
        one.close()


def test_messages_cut_off_in_every_state_leave_nothing(server, proxy):
    whole = {
        "startup": ([], startup(**DECLARED)),
        "idle": ([""], query("INSERT INTO seen VALUES ('cut')")),
        "in a transaction": (["BEGIN", "INSERT INTO seen VALUES ('cut')"], query("COMMIT")),
        "in a pipeline": ([""], parse("", "INSERT INTO seen VALUES ('cut')") + bind("", "") + execute() + FLUSH),
        "in a failed transaction": (["BEGIN", "SELECT 1/0"], query("COMMIT")),
        "in a copy": (["BEGIN", ("COPY seen FROM STDIN", "G")], message("d", b"cut\n") + message("c")),
    }
    for state, (before, last) in whole.items():
        points = range(1, len(last)) if len(last) < 40 or LONG else sorted(random.sample(range(1, len(last)), 30))
        for at in points:
            client = Wire(proxy.port, login=bool(before), **(DECLARED if before else {}))
            for step in before:
                if isinstance(step, tuple):
                    client.send(query(step[0]))
                    client.until(step[1])
                else:
                    client.ask(step)
            client.send(last[:at])
            if at % 2:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the end is a reset
            client.close()
    mine = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query NOT LIKE"
        " '%bystander%' AND query NOT LIKE '%termgate%' AND application_name = ''"
    )
    gone = eventually(lambda: server.sql(mine + " AND state LIKE 'idle in transaction%'") == ["0"], 10, 0.1)
    check(
        "messages cut off in every state: no transaction is left open at the server",
        gone,
        server.sql("SELECT state || ' ' || query FROM pg_stat_activity WHERE state LIKE 'idle in tr%'"),
    )
    check("and nothing was written", server.sql("SELECT count(*) FROM seen WHERE what = 'cut'") == ["0"])


BAD = {
    # Whether it comes after the login, the bytes, and what its one error has in it; None: no answer, as from PostgreSQL.
    "HTTP": (False, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
    "a TLS hello": (False, b"\x16\x03\x01" + os.urandom(200), None),
    "a Query before login": (False, message("Q", b"SELECT 1\0"), None),
    "a length beyond all": (False, b"\xff" * 8, None),
    "half a cancel request": (False, struct.pack("!II", 12, 80877102) + bytes(4), None),
    "no user": (False, startup(user=""), "28000"),
    "a message of length 3": (True, b"Q" + struct.pack("!I", 3) + b"SELECT 1\0", "08P01"),
    "a message over the limit": (True, b"d" + struct.pack("!I", 9_000_000), "max-message-bytes"),
    "a Query without its end": (True, message("Q", b"SELECT 1"), "08P01"),
    "a server's message": (True, message("Z", b"I"), "08P01"),
    "SSLRequest in a session": (True, struct.pack("!II", 8, 80877103), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_one_error_at_most_and_the_end_for(name, proxy):
    login, sent, contains = BAD[name]
    data = raw(proxy.port, sent, login=login)
    found = [f"{error['S']} {error['C']} {error['M']}" for error in errors_in(data or b"")]
    if contains is None:
        assert data == b""
    else:
        assert data is not None and len(found) == 1 and found[0].startswith("FATAL") and contains in found[0], found or data


def test_junk_disturbs_nobody(proxy):
    random.seed(4)
    for number in range(200 if LONG else 60):
        junk = os.urandom(random.randrange(1, 200))
        client = Wire(proxy.port, login=number % 2 == 0, **(DECLARED if number % 2 == 0 else {}))
        try:
            client.send(junk)
        except OSError:
            pass
        client.close()
    check("junk: the proxy goes on", Wire(proxy.port, **DECLARED).ask("SELECT 7")[0] == ["7"])


def test_clients_that_do_not_read_cost_bounded_memory(proxy):
    before = proxy.resident_kb()
    readers = []
    for _ in range(20):
        reader = Wire(proxy.port, receive_buffer=4096, **DECLARED)
        reader.send(query("SELECT repeat('x', 10000) FROM generate_series(1, 5000)"))
        readers.append(reader)
    # Until the proxy takes no more from the server: its memory no longer grows.
    sizes = [proxy.resident_kb()]
    for _ in range(40):
        time.sleep(0.25)
        sizes.append(proxy.resident_kb())
        if len(sizes) > 8 and max(sizes[-6:]) - min(sizes[-6:]) < 64:
            break
    grown = max(sizes) - before
    check("20 clients that do not read 50 MB each: memory is bounded", SANITIZED or grown < 20 * 1024, f"{grown} kB")
    note(f"{grown} kB for 20 clients that do not read 50 MB each")
    whole = 0
    readers[0].socket.settimeout(60)
    while True:
        kind, body = readers[0].message()
        whole += len(body) if kind == "D" else 0
        if kind == "Z":
            break
    check("one of them reads after all: it is all there", whole == 5000 * (10000 + 6), whole)
    for reader in readers:
        reader.close()


def test_a_writer_faster_than_the_server_costs_bounded_memory(proxy):
    before = proxy.resident_kb()
    writer = Wire(proxy.port, timeout=60, **DECLARED)
    writer.send(query("CREATE TEMP TABLE big (t text)"))
    writer.until("Z")
    writer.send(query("COPY big FROM STDIN"))
    writer.until("G")
    piece = message("d", b"y" * 60_000 + b"\n") * 10
    most = 0
    for _ in range(100):
        writer.send(piece)
        most = max(most, proxy.resident_kb() - before)
    writer.send(message("c"))
    error = writer.until("Z")[1]
    check("60 MB of COPY: memory is bounded", error is None and (SANITIZED or most < 8 * 1024), f"{error} {most} kB")
    writer.close()


def test_thousands_that_connect_keep_nobody_out(proxy):
    count = 10_000 if LONG else 2_000
    before = proxy.resident_kb()
    silent, most, refused = [], 0, 0
    began = time.monotonic()
    for number in range(count):
        try:
            one = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
        except OSError:
            refused += 1
            continue
        if number % 2 == 0:
            silent.append(one)
        else:
            if number % 16 == 1:
                one.sendall(startup(**DECLARED))
                one.settimeout(20)
                first = one.recv(1)
                if first != b"R":
                    refused += 1
                one.sendall(TERMINATE)
            else:
                one.sendall((startup(**DECLARED)[:20], os.urandom(30), struct.pack("!II", 8, 80877103))[number % 3])
            one.close()
        if number % 100 == 0:
            most = max(most, proxy.resident_kb() - before)
    took = time.monotonic() - began
    most = max(most, proxy.resident_kb() - before)
    began = time.monotonic()
    newcomer = Wire(proxy.port, **DECLARED).ask("SELECT 8")[0]
    check(
        f"{count} connects in {took:.1f} s, half of them silent: a speaking client gets in",
        newcomer == ["8"] and time.monotonic() - began < 8 and refused == 0,
        f"{newcomer} {refused} refused",
    )
    check("and memory is bounded", SANITIZED or most < 48 * 1024, f"{most} kB")
    for one in silent:
        one.close()
    if LONG:
        time.sleep(60)
    else:
        eventually(lambda: proxy.resident_kb() < before * 1.25, 5, 0.2)
    after = proxy.resident_kb()
    note(f"memory: {before} kB before, {before + most} at most, {after} kB after")
    check("memory comes back", SANITIZED or after <= before * (1.05 if LONG else 1.25), f"{before} kB, then {after} kB")


def test_a_bystander_in_a_transaction_noticed_nothing_of_all_this(fresh_proxy, bystander):
    assert eventually(lambda: bystander.asked > 10)  # where this test runs by itself
    longest = bystander.longest
    check(
        f"a bystander in a transaction noticed nothing: it waited {longest * 1000:.0f} ms at most",
        bystander.end() and longest < (3.0 if not SANITIZED else 15.0),
        bystander.error,
    )
    ended = fresh_proxy.process.poll() is None and fresh_proxy.stop() == 0
    check("the proxy still runs, and ends cleanly", ended, fresh_proxy.log()[-500:])
