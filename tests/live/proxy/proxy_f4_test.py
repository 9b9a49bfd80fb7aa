#!/usr/bin/env python3
"""[F4] A client that is frozen holds up no higher term, whatever it was in the middle of.

  pytest tests/live/proxy/proxy_f4_test.py [--long]

A client with term 5 stops at one point of the protocol behind the proxy and neither reads nor writes any more. Then
term 6 takes over: by `seal` on the database itself, by a write through the same proxy, by a write through another.
The takeover may take the eviction grace and a little; the frozen client's row is not in the table then, nor after the
client goes on. The second half does the same with leases that stand for hosts: one host's process is stopped
(SIGSTOP), another's link is cut (its sockets get no packet any more).
"""
import concurrent.futures
import ctypes
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

import given
from checks import check, eventually, note
from given import LONG, SANITIZED
from proxy_lab import FLUSH, SYNC, Refused, Wire, bind, declared, execute, message, parse, query

CLIENT = Path(__file__).with_name("host_client.py")
GRACE = 0.3
TTL = 1.0

# Where a client may freeze. Each brings a client there and returns what it would send next, were it to go on.


def insert(scope):
    return f"INSERT INTO guarded VALUES ('{scope}', 'frozen')"


def waits_at(server, client, condition):
    """Until the client's session at the server is there. The proxy shows its client the server's own process number."""
    found = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {client.pid} AND {condition}"
    assert eventually(lambda: server.sql(found) == ["1"], 10), condition


def in_a_transaction(client, scope, server):
    client.ask("BEGIN")
    client.ask(insert(scope))
    return query("COMMIT")


def behind_a_savepoint(client, scope, server):
    client.ask("BEGIN")
    client.ask("SAVEPOINT s")
    client.ask(insert(scope))
    return query("COMMIT")


def between_bind_and_execute(client, scope, server):
    client.send(parse("", insert(scope)), bind("", ""), FLUSH)
    client.until("2")
    return execute() + SYNC


def before_sync(client, scope, server):
    client.send(parse("", insert(scope)), bind("", ""), execute(), FLUSH)
    client.until("C")
    return SYNC


def in_a_copy(client, scope, server):
    client.send(query("COPY guarded FROM STDIN"))
    client.until("G")
    client.send(message("d", f"{scope}\tfrozen\n".encode()))
    return message("c")


def in_a_copy_of_a_transaction(client, scope, server):
    client.ask("BEGIN")
    rest = in_a_copy(client, scope, server)
    client.send(message("d", f"{scope}\tfrozen\n".encode() * 100))
    return rest + query("COMMIT")


def half_a_message(client, scope, server):
    client.ask("BEGIN")
    client.ask(insert(scope))
    client.send(query("COMMIT")[:7])
    return query("COMMIT")[7:]


def a_result_that_is_not_read(client, scope, server):
    client.ask("BEGIN")
    client.ask(insert(scope))
    client.send(query("SELECT repeat('x', 10000) FROM generate_series(1, 20000)"))
    waits_at(server, client, "wait_event = 'ClientWrite'")
    return query("COMMIT")


def a_running_statement(client, scope, server):
    client.ask("BEGIN")
    client.send(query(insert(scope) + "; SELECT pg_sleep(60)"))
    waits_at(server, client, "wait_event = 'PgSleep'")
    return query("COMMIT")


def a_call_that_may_commit(client, scope, server):
    client.send(query(f"CALL commits_later('{scope}')"))
    waits_at(server, client, "wait_event = 'PgSleep'")
    return b""


POINTS = [
    in_a_transaction,
    behind_a_savepoint,
    between_bind_and_execute,
    before_sync,
    in_a_copy,
    in_a_copy_of_a_transaction,
    half_a_message,
    a_result_that_is_not_read,
    a_running_statement,
    a_call_that_may_commit,
]


WAYS = ("seal on the database", "a write through the same proxy", "a write through another proxy")


def frozen_clients(server, proxy, other):
    """Each point in each way; what each takeover took beyond the grace."""
    over = []
    rounds = 4 if LONG else 1

    def in_this_way(way):
        for turn, point in enumerate(POINTS * rounds):
            scope = f"scope{turn}-{WAYS.index(way)}"
            frozen = Wire(proxy.port, receive_buffer=4096, **declared(scope, 5))
            # The fence is raised by a write that is over, so that what freezes holds the lock of a term that equals it.
            error = frozen.ask(f"INSERT INTO guarded VALUES ('{scope}', 'before')")[1]
            successor = (
                Wire(server.port) if way == "seal on the database" else Wire((proxy if "same" in way else other).port, **declared(scope, 6))
            )
            rest = point(frozen, scope, server)
            began = time.monotonic()
            if way == "seal on the database":
                rows, refused = successor.ask(f"SELECT term FROM termgate.seal('{scope}', 6) AS s (term, previous, evicted, sealed_at)")
            else:
                rows, refused = successor.ask(f"INSERT INTO guarded VALUES ('{scope}', 'after')")
            took = time.monotonic() - began
            over.append(took - GRACE)
            name = f"{point.__name__.replace('_', ' ')}: {way}"
            present = sorted(server.sql(f"SELECT what FROM guarded WHERE scope = '{scope}'"))
            if error or refused or present != (["before"] if "seal" in way else ["after", "before"]):
                check(name, False, f"{error} {refused} {present}")
            # Now it goes on, as far as there is anything left of its connection.
            try:
                frozen.send(rest)
            except OSError:
                pass
            frozen.socket.settimeout(1)
            try:
                frozen.rest()
            except socket.timeout:
                pass
            frozen.close()
            late = server.sql(f"SELECT count(*) FROM guarded WHERE scope = '{scope}' AND what = 'frozen'")
            check(
                f"{name}: {took * 1000:.0f} ms",
                late == ["0"] and took < GRACE + (1.0 if not SANITIZED else 5.0),
                f"{late} frozen rows, {took:.3f} s",
            )
            successor.close()

    # They wait more than they work, so the ways go side by side; the long run takes times, and takes them one by one.
    with concurrent.futures.ThreadPoolExecutor(1 if LONG else len(WAYS)) as pool:
        list(pool.map(in_this_way, WAYS))
    over.sort()
    middle, late = (over[int(len(over) * share)] for share in (0.5, 0.99))
    text = f"beyond the grace: p50 {middle * 1000:.0f} ms, p99 {late * 1000:.0f} ms, max {over[-1] * 1000:.0f} ms, of {len(over)}"
    note(text)
    # An idle machine is promised nothing here, so the bound of a plain run is for the middle; the long one is run on an idle machine.
    check("takeovers come soon after the grace", SANITIZED or (late <= 0.1 if LONG else middle <= 0.3), text)


class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


def cut(wire):
    """The socket takes no packet any more and answers none, not even a keepalive: what a cut link looks like from the other side."""
    drop_all = Filter(0x06, 0, 0, 0)
    program = struct.pack("HL", 1, ctypes.addressof(drop_all))
    wire.socket.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER


def mend(wire):
    wire.socket.setsockopt(socket.SOL_SOCKET, 27, struct.pack("i", 0))  # SO_DETACH_FILTER


def rules(lab, takeover):
    path = f"{lab.folder}/{takeover}.rules"
    with open(path, "w") as file:
        file.write(f"[rule hosts]\nclient = 127.0.0.2, 127.0.0.3\nlease = {takeover}\nttl = {TTL:.0f} s\ntakeover = {takeover}\n")
    return path


def write_of(port, source, takeover, seconds):
    """A write of another host, tried until it is accepted: what it took, and the refusals before."""
    began = time.monotonic()
    refusals = []
    wire = Wire(port, source=source)
    while time.monotonic() - began < seconds:
        error = wire.ask(f"INSERT INTO guarded VALUES ('{takeover}', 'successor')")[1]
        if error is None:
            return time.monotonic() - began, refusals, wire
        refusals.append(error)
        time.sleep(0.02)
    return None, refusals, wire


def leases(lab, server, takeover):
    first, second = (lab.proxy(server.url, "--rules", rules(lab, takeover)) for _ in range(2))

    def given_back():
        held = f"SELECT count(*) FROM termgate.leases WHERE scope = '{takeover}' AND released_at IS NULL AND expires_at > clock_timestamp()"
        check(f"{takeover}: the lease is given back", eventually(lambda: server.sql(held) == ["0"], 5, 0.05))

    def left(name):
        rows = server.sql(f"SELECT what FROM guarded WHERE scope = '{takeover}'")
        check(f"{name}: the first host's row is not there", set(rows) == {"successor"}, rows)
        server.sql(f"DELETE FROM guarded WHERE scope = '{takeover}'")

    for where, successors in (("the same proxy", first), ("another proxy", second)):
        name = f"{takeover}, {where}"
        # A process that is stopped.
        process = lab.program(
            given.PYTHON, CLIENT, first.port, "127.0.0.2", takeover, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        check(f"{name}: the first host writes", process.stdout.readline() == "ready None\n", first.log()[-1500:])
        process.send_signal(signal.SIGSTOP)
        if takeover == "newest":
            took, refusals, successor = write_of(successors.port, "127.0.0.3", takeover, 10)
            check(f"{name}: a stopped process is shut out at once", took is not None and took < GRACE + 1.5, f"{took} {refusals[:1]}")
            process.send_signal(signal.SIGCONT)
            out = process.communicate("\n", timeout=10)[0]
            check(f"{name}: resumed, it is refused", out.startswith("refused"), out)
        else:
            took, refusals, successor = write_of(successors.port, "127.0.0.3", takeover, 2.5 * TTL)
            check(
                f"{name}: a stopped process still answers, so the other host waits and is told who leads",
                took is None and all(r["C"] == "TG002" and "127.0.0.2" in r["M"] for r in refusals),
                f"{took} {refusals[:1]}",
            )
            process.kill()
            process.wait()
            began = time.monotonic()
            free = eventually(lambda: successor.ask(f"INSERT INTO guarded VALUES ('{takeover}', 'successor')")[1] is None, 5, 0.02)
            check(f"{name}: the first host is gone, the other leads", free, successor.ask("SELECT 1"))
            note(f"{(time.monotonic() - began) * 1000:.0f} ms after it was gone")
        left(f"{name}, stopped")
        successor.close()
        given_back()
        # A host whose link is cut.
        lost = Wire(first.port, source="127.0.0.2")
        lost.ask("BEGIN")
        error = lost.ask(f"INSERT INTO guarded VALUES ('{takeover}', 'frozen')")[1]
        check(f"{name}: the first host writes again", error is None, error)
        cut(lost)
        took, refusals, successor = write_of(successors.port, "127.0.0.3", takeover, 10)
        bound = GRACE + 1.5 + (2 * TTL if takeover == "wait" else 0)
        check(
            f"{name}: a host whose link is cut is followed", took is not None and took < bound, f"{took} s, bound {bound}, {refusals[-1:]}"
        )
        note(f"{(took or 0) * 1000:.0f} ms after the cut, TTL {TTL * 1000:.0f} ms")
        mend(lost)
        try:
            lost.ask("COMMIT")
        except (Refused, OSError):
            pass
        left(f"{name}, cut")
        lost.close()
        successor.close()
        given_back()
    first.stop()
    second.stop()


@pytest.fixture(scope="module")
def server(lab):
    # A plain run measures waiting for locks, not for a disk that other tests keep busy; the long one has the disk too.
    server = lab.server("15") if LONG else lab.server("15", "fsync=off")
    lab.run(lab.termgate, "settings", "--db", server.url, f"eviction_grace_ms={GRACE * 1000:.0f}")
    server.sql("CREATE TABLE guarded (scope text, what text)")
    server.sql(
        """CREATE PROCEDURE commits_later(scope text) LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(60); INSERT INTO guarded VALUES (scope, 'frozen'); COMMIT; END $$"""
    )
    yield server
    lab.run(lab.termgate, "verify", "--db", server.url)


@pytest.fixture(scope="module")
def proxy(lab, server):
    return lab.proxy(server.url)


@pytest.fixture(scope="module")
def frozen_clients_meanwhile(lab, server, proxy):
    """The takeovers past frozen clients. They wait more than they work, so they go on beside the tests of leases; the long run takes times,
    and takes them first."""
    other = lab.proxy(server.url)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(frozen_clients, server, proxy, other)
        if LONG:
            concurrent.futures.wait([running])
        yield running


@pytest.mark.parametrize("takeover", ("newest", "wait"))
def test_a_host_that_is_stopped_or_cut_off_is_followed_with_leases_that_take(takeover, lab, server, frozen_clients_meanwhile):
    leases(lab, server, takeover)


def test_a_client_frozen_at_any_point_of_the_protocol_delays_no_takeover(frozen_clients_meanwhile):
    frozen_clients_meanwhile.result()
