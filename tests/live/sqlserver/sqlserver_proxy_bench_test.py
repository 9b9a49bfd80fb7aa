#!/usr/bin/env python3
"""[F4] What `termgate proxy --backend sqlserver://…` costs in front of the server that TERMGATE_TEST_SQLSERVER names (else skipped): the
messages that it adds, the speed in pairs, and how long a raise waits behind clients that are frozen in many states. Where haproxy
is installed, the same statements go through it too, as plain TCP: what any hop costs on this machine.

  pytest -s tests/live/sqlserver/sqlserver_proxy_bench_test.py --bench [-k frozen]
"""
import shutil
import socket
import statistics
import subprocess
import time

import pytest

import given
from checks import note
from sqlserver_proxy import DATABASE, URL, Proxy, connect, direct, drop_database, make_database, parts, url_of
from tds_replay import Recorder
from tdsraw import ATTENTION, BATCH, call, headers, nvarchar, packets, wide

if not URL.startswith("sqlserver://"):
    pytest.skip("TERMGATE_TEST_SQLSERVER names no server", allow_module_level=True)
if not given.option("bench"):
    pytest.skip("--bench", allow_module_level=True)
INSERT = "INSERT dbo.victim (mark) VALUES (N'x')"


@pytest.fixture(name="eye", scope="module")
def looks_directly():
    eye = make_database()
    for text in (
        "CREATE TABLE dbo.victim (id int IDENTITY PRIMARY KEY, mark nvarchar(200))",
        "CREATE TABLE dbo.bench (id int PRIMARY KEY, n int)",
        "INSERT dbo.bench VALUES (1, 0), (2, 0), (3, 0)",
    ):
        assert eye.batch(text).errors == []
    yield eye
    eye.close()
    drop_database()


@pytest.fixture(name="proxy", scope="module")
def in_front(eye):
    proxy = Proxy()
    yield proxy
    assert proxy.end() == 0
    del eye


def update(client, row):
    answer = client.batch(f"UPDATE dbo.bench SET n = n + 1 WHERE id = {row}")
    assert answer.errors == []


def test_messages(eye):
    """A busy session's statements and what reaches the server, counted between the proxy and the server."""
    _, _, host, port = parts()
    recorder = Recorder(host, port)
    proxy = Proxy(backend=url_of(DATABASE, recorder.port))
    client = connect(proxy.port, "termgate.scope=counted;termgate.term=1;")
    update(client, 1)
    before = len(recorder.exchanges)
    for _ in range(300):
        update(client, 1)
    more = len(recorder.exchanges) - before
    note(
        f"300 statements of a busy session are {more} messages to the server; calls of the gate in all: "
        + ", ".join(key for key, _, _ in recorder.exchanges if key.startswith("gate"))
    )
    assert more == 300
    client.close()
    assert proxy.end() == 0
    recorder.close()
    del eye


@pytest.fixture(name="relay", scope="module")
def plain_tcp(tmp_path_factory):
    """The port of a haproxy that passes bytes on to the server, or None."""
    if shutil.which("haproxy") is None:
        yield None
        return
    _, _, host, port = parts()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    settings = tmp_path_factory.mktemp("relay") / "haproxy.cfg"
    settings.write_text(
        (
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
            f"listen relay\n  bind 127.0.0.1:{own}\n  server one {host}:{port}\n"
        ),
        encoding="utf-8",
    )
    with subprocess.Popen(["haproxy", "-f", str(settings)], stderr=subprocess.DEVNULL) as process:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", own)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield own
        process.terminate()


def in_turns(clients, turns, size, work):
    """What each statement of each client took, in µs, in a list a turn. Each client has a row of its own, and who begins goes round."""
    took = {name: [] for name in clients}
    names = list(clients)
    for turn in range(turns + 1):
        for place in range(len(names)):
            which = (turn + place) % len(names)
            times = []
            for _ in range(size):
                began = time.perf_counter()
                work(clients[names[which]], which + 1)
                times.append((time.perf_counter() - began) * 1e6)
            if turn > 0:
                took[names[which]].append(times)
    return took


def call_update(client, row):
    answer = client.rpc(call(10, nvarchar("", f"UPDATE dbo.bench SET n = n + 1 WHERE id = {row}")))
    assert answer.errors == []


def transaction(client, row):
    client.begin()
    update(client, row)
    client.commit()


def nothing(client, row):
    assert client.batch("SET LOCK_TIMEOUT 5000").errors == []
    del row


@pytest.mark.parametrize(
    "name, work, size",
    [
        ("UPDATE as a batch", update, 200),
        ("UPDATE by sp_executesql", call_update, 200),
        ("transaction", transaction, 200),
        ("a statement that does nothing", nothing, 50),
    ],
)
def test_speed(proxy, relay, name, work, size):
    clients = {"directly": direct(), "through the proxy": connect(proxy.port, "termgate.scope=bench;termgate.term=1;")}
    if relay is not None:
        clients["through haproxy"] = connect(relay, "plain")
    took = in_turns(clients, 4000 // size, size, work)
    lines = []
    for client, turns in took.items():
        each = sorted(time for turn in turns for time in turn)
        text = f"{client} {1e6 / statistics.median(sum(turn) / size for turn in turns):.0f}/s, p10 {each[len(each) // 10]:.0f} µs, "
        text += f"p50 {each[len(each) // 2]:.0f} µs"
        if client != "directly":
            ratios = [sum(without) / sum(through) for without, through in zip(took["directly"], turns)]
            text += f" (of each pair: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(text)
    note(f"{name}: " + "; ".join(lines))
    for client in clients.values():
        client.close()


def whole(text, client):
    return packets(BATCH, headers(client.descriptor) + wide(text))


def slow_insert(client):
    # Babelfish has no WAITFOR.
    return whole("DECLARE @n int; SELECT @n = COUNT(*) FROM sys.objects a, sys.objects b, sys.objects c, sys.objects d; " + INSERT, client)


STATES = {
    "between two messages": lambda client: None,
    "in a transaction": lambda client: (client.begin(), client.batch(INSERT)),
    "in a transaction of a text": lambda client: client.batch("BEGIN TRANSACTION; " + INSERT),
    "half a message": lambda client: client.send(whole(INSERT, client)[:30]),
    "half a long message": lambda client: client.send(whole(INSERT + " -- " + 100_000 * "x", client)[:150_000]),
    "its answer not read": lambda client: client.send(whole("SELECT a.name FROM sys.objects a, sys.objects b", client)),
    "while it runs": lambda client: client.send(slow_insert(client)),
    "after an attention": lambda client: client.send(slow_insert(client) + packets(ATTENTION, b"")),
    "in front of the rows of a bulk load": lambda client: client.batch("INSERT BULK dbo.victim (mark nvarchar(200))"),
    "a second message waits": lambda client: client.send(slow_insert(client) + whole(INSERT, client)),
}


def behind_a_frozen_client(eye, proxy, term, freeze):
    """How long a raise takes, in ms, behind a client that was stopped by `freeze`."""
    assert eye.batch(f"EXEC termgate.seal @scope = N'frozen', @term = {term}").errors == []
    client = connect(proxy.port, f"termgate.scope=frozen;termgate.term={term};")
    assert client.batch(INSERT).errors == []
    freeze(client)
    time.sleep(0.05)
    began = time.perf_counter()
    answer = eye.batch(f"EXEC termgate.seal @scope = N'frozen', @term = {term + 1}")
    took = (time.perf_counter() - began) * 1000
    assert answer.errors == []
    client.close()
    return took


def test_frozen(eye, proxy):
    """Beyond the grace: how long a raise takes behind a client that is frozen in each state, several times each."""
    grace, rounds, beyond, idle = 1000, 10, [], []
    eye.batch("EXEC termgate.set_setting N'eviction_grace_ms', N'1000'")
    # What a session evicts for the first time, Babelfish compiles first.
    first = behind_a_frozen_client(eye, proxy, 1, STATES["in a transaction"])
    note(f"the first raise of the session: beyond the grace {first - grace:.0f} ms")
    term = 3
    for _ in range(rounds):
        for name, freeze in STATES.items():
            took = behind_a_frozen_client(eye, proxy, term, freeze)
            (beyond if took > grace * 0.9 else idle).append((took - (grace if took > grace * 0.9 else 0), name))
            term += 2
    for what, found in (("ended with the grace: beyond it", beyond), ("gave the gate back: in all", idle)):
        if found:
            found.sort()
            note(
                f"{len(found)} raises, {what} p50 {found[len(found) // 2][0]:.0f} ms, p99 {found[int(len(found) * 0.99)][0]:.0f} ms, most "
                f"{found[-1][0]:.0f} ms ({found[-1][1]})"
            )
            for name in STATES:
                times = [time for time, of in found if of == name]
                if times:
                    note(f"  {name}: " + " ".join(f"{time:.0f}" for time in times))
