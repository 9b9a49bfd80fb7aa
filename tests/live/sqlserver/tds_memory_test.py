#!/usr/bin/env python3
"""What slow, huge and half-open clients of TDS cost `termgate proxy`: memory that is bounded for each connection, however much they send
or leave unread, and nothing for anybody else. In front of a server that plays its part (tests/support/tds_server.py).

  pytest tests/live/sqlserver/tds_memory_test.py
"""
import re
import socket
import threading
from pathlib import Path

from checks import eventually, note
from given import SANITIZED
from tds_proxy import WITH_TERM, Proxy
from tds_server import Server
from tdsraw import BATCH, LOGIN7, PRELOGIN, Tds, headers, packets, wide

MIB = 1 << 20
HALF_OPEN, HALF_A_MESSAGE, SLOW, FLOODING = 200, 40, 16, 16
OFFERED = 8 * MIB  # to each slow client, and by each that floods
# Outboxes of 256 KiB to either side, 64 KiB each of what is held and of what waits, and buffers of the allocator.
OF_A_CONNECTION = MIB


def resident(process):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")).group(1)) * 1024


def settled(process):
    """Resident memory when it no longer grows."""
    last = [0]

    def grows_no_more():
        now, before = resident(process), last[0]
        last[0] = now
        return now <= before + 64 * 1024

    assert eventually(grows_no_more, 60, 0.5)
    return last[0]


def test_memory_is_bounded():
    server = Server(fence=5)
    row = b"\xd1" + (8000).to_bytes(2, "little") + 8000 * b"x"
    columns = b"\x81\1\0" + b"\0\0\0\0\x09\0\xe7\x40\x1f\x09\x04\xd0\x00\x34" + b"\1" + wide("a")
    server.long_answers["big"] = columns + (OFFERED // len(row)) * row
    server.slow["dbo.stuck"] = 600
    proxy = Proxy(server.port, "--max-connections", "1000")
    bystander = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
    assert bystander.batch("INSERT dbo.t VALUES (1)").errors == []
    before = settled(proxy.process)
    clients, threads = [], []

    def connect(*first):
        one = socket.create_connection(("127.0.0.1", proxy.port), 20)
        clients.append(one)
        for data in first:
            one.sendall(data)
        return one

    greeting, login = packets(PRELOGIN, Tds.prelogin()), packets(LOGIN7, Tds.login7("sa", "secret", "app", "x"))
    for number in range(HALF_OPEN):
        connect(*((), (greeting[:20],), (greeting,), (greeting, login[:100]))[number % 4])
    for _ in range(HALF_A_MESSAGE):
        client = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
        clients.append(client.socket)
        client.send(packets(BATCH, headers() + wide("INSERT dbo.t VALUES ('" + 30_000 * "x"))[:-8])
    for _ in range(SLOW):
        client = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
        clients.append(client.socket)
        client.send(packets(BATCH, headers() + wide("SELECT big")))

    def flood(client):
        data = packets(BATCH, headers() + wide("INSERT dbo.t VALUES ('" + MIB * "x" + "')"))
        try:
            for _ in range(OFFERED // len(data)):
                client.socket.sendall(data)
        except OSError:
            pass

    for _ in range(FLOODING):
        client = Tds(proxy.port, "sa", "secret", "app", WITH_TERM)
        clients.append(client.socket)
        client.send(packets(BATCH, headers() + wide("INSERT dbo.stuck VALUES (1)")))
        threads.append(threading.Thread(target=flood, args=(client,), daemon=True))
        threads[-1].start()
    assert eventually(lambda: sum("big" in one for one in server.asked) == SLOW, 60)
    assert eventually(lambda: sum("stuck" in one for one in server.asked) == FLOODING, 60)
    grown = settled(proxy.process) - before
    # Nobody else waits for them.
    assert bystander.batch("INSERT dbo.t VALUES (2)").errors == []
    everybody = HALF_OPEN + HALF_A_MESSAGE + SLOW + FLOODING
    offered = (SLOW + FLOODING) * OFFERED
    note(f"{everybody} slow, huge and half-open clients, which offer {offered // MIB} MiB: {grown // MIB} MiB more in the proxy")
    if not SANITIZED:
        assert grown < (HALF_A_MESSAGE + SLOW + FLOODING) * OF_A_CONNECTION + HALF_OPEN * OF_A_CONNECTION // 8, grown
    server.go_on.set()
    for client in clients:
        client.close()
    for thread in threads:
        thread.join(20)
    assert eventually(lambda: bystander.batch("INSERT dbo.t VALUES (3)").errors == [], 10)
    assert server.unfenced == 0
    bystander.close()
    assert proxy.end() == 0
    server.close()
