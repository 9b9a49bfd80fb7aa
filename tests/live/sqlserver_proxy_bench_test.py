#!/usr/bin/env python3
"""[F4] What `termgate proxy --backend sqlserver://…` costs in front of the server that TERMGATE_TEST_SQLSERVER names (else skipped): the
messages that it adds, the speed in pairs, and how long a raise waits behind clients that are frozen in many states.

  pytest -s tests/live/sqlserver_proxy_bench_test.py --bench [-k frozen]
"""
import statistics
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
        "INSERT dbo.bench VALUES (1, 0), (2, 0)",
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


def in_turns(plain, fenced, turns, size, work):
    """The rate of each, and the ratio of each pair."""
    rates = {plain: [], fenced: []}
    for turn in range(turns + 1):
        for client in (plain, fenced) if turn % 2 else (fenced, plain):
            began = time.perf_counter()
            for _ in range(size):
                work(client, 1 if client is plain else 2)
            if turn > 0:
                rates[client].append(size / (time.perf_counter() - began))
    ratios = [through / without for without, through in zip(rates[plain], rates[fenced])]
    return statistics.median(rates[plain]), statistics.median(rates[fenced]), ratios


def call_update(client, row):
    answer = client.rpc(call(10, nvarchar("", f"UPDATE dbo.bench SET n = n + 1 WHERE id = {row}")))
    assert answer.errors == []


def transaction(client, row):
    client.begin()
    update(client, row)
    client.commit()


@pytest.mark.parametrize(
    "name, work", [("UPDATE as a batch", update), ("UPDATE by sp_executesql", call_update), ("transaction", transaction)]
)
def test_speed(proxy, name, work):
    plain, fenced = direct(), connect(proxy.port, "termgate.scope=bench;termgate.term=1;")
    without, through, ratios = in_turns(plain, fenced, 20, 200, work)
    note(
        f"{name}: directly {without:.0f}/s, through the proxy {through:.0f}/s; of each pair: median {statistics.median(ratios):.2f}, "
        f"from {min(ratios):.2f} to {max(ratios):.2f}"
    )
    plain.close()
    fenced.close()


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


def test_frozen(eye, proxy):
    """Beyond the grace: how long a raise takes behind a client that is frozen in each state, several times each."""
    grace, rounds, beyond, idle = 1000, 10, [], []
    eye.batch("EXEC termgate.set_setting N'eviction_grace_ms', N'1000'")
    term = 1
    for _ in range(rounds):
        for name, freeze in STATES.items():
            eye.batch(f"EXEC termgate.seal @scope = N'frozen', @term = {term}")
            client = connect(proxy.port, f"termgate.scope=frozen;termgate.term={term};")
            assert client.batch(INSERT).errors == []
            freeze(client)
            time.sleep(0.05)
            began = time.perf_counter()
            answer = eye.batch(f"EXEC termgate.seal @scope = N'frozen', @term = {term + 1}")
            took = (time.perf_counter() - began) * 1000
            assert answer.errors == [], (name, answer.errors)
            (beyond if took > grace * 0.9 else idle).append((took - (grace if took > grace * 0.9 else 0), name))
            client.close()
            term += 2
    for what, found in (("ended with the grace: beyond it", beyond), ("gave the gate back: in all", idle)):
        if found:
            found.sort()
            note(
                f"{len(found)} raises, {what} p50 {found[len(found) // 2][0]:.0f} ms, p99 {found[int(len(found) * 0.99)][0]:.0f} ms, most "
                f"{found[-1][0]:.0f} ms ({found[-1][1]})"
            )
