#!/usr/bin/env python3
"""What bad input gets: one clear error, that one connection closed, nobody else disturbed, no growth of memory without bound.

  pytest tests/live/proxy/proxy_hostile_test.py [--long] [-k lengths]

Bytes one at a time, messages cut off in every state, lengths that lie, messages out of order, clients that do not
read, thousands that connect and say nothing. A bystander with an open transaction goes on through all of it. --long:
10,000 connects, 1,000 idle clients, memory looked at a minute later.
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
from proxy_lab import FLUSH, SYNC, TERMINATE, Refused, Wire, bind, declared, describe, errors_in, execute, message, parse, query, startup

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


def raw(port, *pieces, wait=8, login=False, **parameters):
    """Sends the bytes as they are; all that came until the other side closed, or None where it did not close."""
    client = Wire(port, login, timeout=wait, **parameters)
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


def after_login(port, *pieces, wait=8):
    return raw(port, *pieces, wait=wait, login=True, **DECLARED)


def one_error(name, data, *codes, contains=""):
    found = errors_in(data) if data else []
    check(
        name,
        data is not None
        and len(found) == 1
        and (not codes or found[0]["C"] in codes)
        and contains in found[0]["M"]
        and found[0]["S"] == "FATAL",
        found or data,
    )


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


def test_bytes_one_at_a_time_get_the_same_answers(server, proxy):
    """The same answers, however the bytes are cut."""
    conversation = [
        query("INSERT INTO seen VALUES ('bytes')"),
        query("SELECT 1; SELECT 2"),
        parse("s", "SELECT $1::int + 1", [23]) + describe("S", "s") + bind("p", "s", b"41") + execute("p") + SYNC,
        query("BEGIN"),
        parse("", "INSERT INTO seen VALUES ('bytes')") + bind("", "") + execute() + SYNC,
        query("ROLLBACK"),
        query("COPY seen FROM STDIN"),
        message("d", b"bytes\n") + message("c"),
        query("SELEC"),
    ]
    answers = []
    for piece in (1, 3, 1 << 20):
        client = Wire(proxy.port, login=False)
        said = b""
        for number, part in enumerate([startup(**DECLARED)] + conversation):
            for at in range(0, len(part), piece):
                client.send(part[at : at + piece])
            while True:
                kind, body = client.message()
                said += b"" if number == 0 else kind.encode() + body
                if kind == "Z" or kind == "G":
                    break
        client.close()
        answers.append(said)
    check(
        "bytes one at a time and three at a time: the same answers",
        len(set(answers)) == 1 and b"42" in answers[0],
        [len(one) for one in answers],
    )
    check(
        "and the same rows",
        server.sql("SELECT count(*) FROM seen WHERE what = 'bytes'") == ["6"],
        server.sql("SELECT count(*) FROM seen WHERE what = 'bytes'"),
    )


def test_messages_cut_off_in_every_state_leave_nothing(server, proxy):
    """Disconnects behind every part of a message, in every state."""
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


def test_lengths_that_lie_get_one_error_or_the_end(proxy):
    for length in (0, 3, 7, 8, 20_000, 0x7FFFFFFF, 0xFFFFFFFF):
        data = raw(proxy.port, struct.pack("!I", length) + struct.pack("!I", 3 << 16) + b"user\0x")
        found = errors_in(data or b"")
        # What is too short for a startup packet may also just be closed; a length that could be true is waited for, and
        # ends with the greeting's time.
        check(
            f"startup of length {length}: closed, at most one error",
            data is not None and len(found) <= 1 and b"R\0\0\0\x08" not in data,
            data,
        )
    for length in (0, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        one_error(
            f"message of length {length}: one error, closed", after_login(proxy.port, b"Q" + struct.pack("!I", length) + b"SELECT 1\0")
        )
    one_error(
        "a message over the limit: the limit is named",
        after_login(proxy.port, b"d" + struct.pack("!I", 9_000_000)),
        contains="max-message-bytes",
    )
    data = after_login(proxy.port, query("SELECT '" + "x" * 300_000 + "'"), TERMINATE)
    found = errors_in(data or b"")
    check("a statement over the limit: the limit is named", len(found) == 1 and "max-statement-bytes" in found[0]["M"], found or data)
    one_error("a Query without its end", after_login(proxy.port, message("Q", b"SELECT 1")), "08P01")
    one_error("a Parse without its end", after_login(proxy.port, message("P", b"name")), "08P01")
    data = after_login(proxy.port, message("B", b"p\0s\0" + struct.pack("!H", 65535)) + SYNC, TERMINATE)
    check("a Bind that promises what it does not have: one error", data is not None and len(errors_in(data)) == 1, data)
    data = after_login(proxy.port, message("B", b"\0\0" + struct.pack("!HHi", 0, 1, 0x7FFFFFFF)) + SYNC, TERMINATE)
    check("a value longer than its message: one error", data is not None and len(errors_in(data)) == 1, data)


def test_messages_out_of_order(proxy):
    one_error("an unknown type of message", after_login(proxy.port, message("!")), "08P01")
    one_error("type 0", after_login(proxy.port, message("\0")), "08P01")
    one_error("a server's message from a client", after_login(proxy.port, message("Z", b"I")), "08P01")
    for name, pieces in {
        "Bind of a statement that is not there": bind("", "nothing") + SYNC,
        "Execute of a portal that is not there": execute("nothing") + SYNC,
        "Describe of what is not there": describe("S", "nothing") + SYNC,
    }.items():
        client = Wire(proxy.port, **DECLARED)
        client.send(pieces)
        error = client.until("Z")[1]
        check(
            f"{name}: the server's error, and the session goes on",
            error and error["C"] in ("26000", "34000") and client.ask("SELECT 5")[0] == ["5"],
            error,
        )
        client.close()
    client = Wire(proxy.port, **DECLARED)
    client.send(message("d", b"nobody asked\n"), message("c"), message("f", b"no\0"))
    check("CopyData without COPY: is dropped, as by a server", client.ask("SELECT 6")[0] == ["6"])
    client.close()
    one_error("a password that nobody asked for", after_login(proxy.port, message("p", b"secret\0")))


def test_a_statement_of_65536_parameters_is_described_as_by_the_server(lab, server):
    many = "VALUES " + ",".join(f"(${number}::text)" for number in range(1, 65_537))
    described, roomy = [], lab.proxy(server.url)  # the other one takes no such statement
    for port in (server.port, roomy.port):
        client = Wire(port)
        client.send(parse("", many), describe("S", ""), SYNC)
        described.append([client.message()[:2] for _ in range(4)])
        client.close()
    check(
        "65,536 parameters: described as by the server",
        [kind for kind, _ in described[1]] == ["1", "t", "T", "Z"] and described[0] == described[1],
        [(kind, len(body)) for kind, body in described[1]],
    )
    roomy.stop()


def test_what_may_not_come_first_or_again_is_closed_as_by_the_server(server, proxy):
    data = after_login(proxy.port, struct.pack("!II", 8, 80877103))
    check("SSLRequest in a session: closed with one error", data is not None and len(errors_in(data)) == 1, data)
    data = raw(proxy.port, struct.pack("!II", 8, 80877103) * 2 + struct.pack("!II", 8, 80877104) * 2)
    check("requests for encryption again and again: closed", data is not None and b"R\0\0\0\x08" not in data, data)
    for name, junk in (
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("Terminate at once", TERMINATE),
        ("a Query before login", message("Q", b"SELECT 1\0")),
        ("a password before all", message("p", b"secret\0")),
        ("SSH", b"SSH-2.0-x\r\n"),
        ("a length of nothing", bytes(8)),
        ("a length of 7", struct.pack("!II", 7, 3 << 16)),
        ("a length beyond all", b"\xff" * 8),
        ("10,005 bytes", struct.pack("!II", 10005, 3 << 16)),
        ("a PROXY header that nobody wants", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
        ("a TLS hello", b"\x16\x03\x01" + os.urandom(200)),
        ("half a cancel request", struct.pack("!II", 12, 80877102) + bytes(4)),
    ):
        check(
            f"{name}: closed without a word, as by PostgreSQL",
            raw(proxy.port, junk) == b"" == raw(server.port, junk),
            (raw(proxy.port, junk), raw(server.port, junk)),
        )


def test_startup_packets_that_are_wrong_get_the_servers_error(server, proxy):
    for name, junk in (
        ("no terminator", struct.pack("!II", 8, 3 << 16)),
        ("a parameter without a value", struct.pack("!II", 13, 3 << 16) + b"user\0"),
        ("no user", startup(user="")),
        ("protocol 4", struct.pack("!II", 9, 4 << 16) + b"\0"),
        ("protocol 1", struct.pack("!II", 9, 1 << 16) + b"\0"),
        ("protocol 2", struct.pack("!II", 296, 2 << 16) + bytes(288)),
    ):
        ours, theirs = raw(proxy.port, junk), raw(server.port, junk)
        old = theirs.startswith(b"EFATAL")
        check(
            f"{name}: the error has the server's form and code",
            ours is not None
            and (
                ours.startswith(b"EFATAL:  ") and ours.endswith(b"\n\0")
                if old
                else [error["C"] for error in errors_in(ours)] == [error["C"] for error in errors_in(theirs)]
            ),
            (ours, theirs),
        )
    check(
        "a startup packet of 11 kB: closed",
        raw(proxy.port, startup(user="postgres", **{"x" * 3000: "y" * 3000, "z" * 2000: "z" * 3000})) == b"",
    )
    data = raw(proxy.port, struct.pack("!II", 16, 80877102) + struct.pack("!II", 1, 1))
    check("a cancel request for nobody: closed without a word", data == b"", data)


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
