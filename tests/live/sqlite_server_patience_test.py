#!/usr/bin/env python3
"""Nobody waits for another client's read of an SQLite file: long reads, long texts, clients that go away or do not read.

  pytest tests/live/sqlite_server_patience_test.py [-k WORD]
"""
import os
import re
import threading
import time

import pytest

import pgraw
from checks import check, eventually, note

# The proxy's session cannot see that this only reads, so it puts a check before it.
ENDLESS = "with recursive t(n) as (select 1 union all select n + 1 from t) select sum(n) from t"
ENDLESS_ROWS = "with recursive t(n) as (select 1 union all select n + 1 from t) select n, repeat('x', 1000) from t"


class Client(pgraw.Connection):
    def __init__(self, port, wait=60):
        super().__init__(port, database="app", parameters=[("options", "-c termgate.scope=wait -c termgate.term=1")], wait=wait)

    def ask(self, sql):
        """The error's SQLSTATE, or the number of rows."""
        messages = self.query(sql)
        failed = [message.fields()["C"] for message in messages if message.type == "E"]
        return failed[0] if failed else sum(message.type == "D" for message in messages)

    def extended(self, sql, values):
        started = time.monotonic()
        self.send(pgraw.parse("", sql), pgraw.bind("", "", values), pgraw.execute(), pgraw.sync())
        messages = self.until("Z")
        failed = [message.fields()["M"] for message in messages if message.type == "E"]
        return (failed[0] if failed else sum(message.type == "D" for message in messages)), time.monotonic() - started


class Writer(threading.Thread):
    """Writes again and again; how long the slowest write took, and what failed."""

    def __init__(self, port):
        super().__init__()
        self.client, self.over, self.slowest, self.failed, self.count = Client(port), False, 0.0, [], 0

    def run(self):
        while not self.over:
            started = time.monotonic()
            answer = self.client.ask("update tally set n = n + 1")
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.count += 1
            if answer != 0:
                self.failed.append(answer)
            time.sleep(0.005)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()
        self.client.end()


@pytest.fixture(scope="module")
def front(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    proxy = lab.proxy(f"sqlite:{lab.folder}/app.db")
    client = Client(proxy.port)
    for sql in ("create table tally (n int)", "insert into tally values (0)", "create table k (a int primary key, b text)"):
        assert client.ask(sql) == 0, sql
    client.end()
    return proxy


def busy_seconds(proxy):
    fields = open(f"/proc/{proxy.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(proxy):
    """Whether the process stops working within some seconds."""

    def still():
        before = busy_seconds(proxy)
        time.sleep(0.5)
        return busy_seconds(proxy) - before < 0.1

    return eventually(still, 15)


def test_a_read_that_never_ends_does_not_hold_up_writers(front):
    reader = Client(front.port)
    reader.send(pgraw.query(ENDLESS))
    time.sleep(0.3)
    with Writer(front.port) as writer:
        time.sleep(2)
    check(
        "writers went on beside it",
        writer.count > 20 and not writer.failed and writer.slowest < 2,
        f"{writer.count} writes, the slowest {writer.slowest:.2f} s, {writer.failed}",
    )
    reader.vanish()
    check("the read ends when its client goes", idle(front))


def test_long_lists_of_parameters_are_planned_in_linear_time(front):
    client = Client(front.port)
    times = {}
    with Writer(front.port) as writer:
        for count in (4000, 16000):
            values = [str(i) for i in range(count)]
            texts = {
                "VALUES": "values " + ",".join(f"(${i}::text)" for i in range(1, count + 1)),
                "VALUES of each twice": "values " + ",".join(f"(${i}::int, ${i}::int)" for i in range(1, count + 1)),
                "FROM VALUES": "select a from (values " + ",".join(f"(${i})" for i in range(1, count + 1)) + ") t(a)",
                "IN": "select a from k where a in (" + ",".join(f"${i}" for i in range(1, count + 1)) + ")",
            }
            for name, sql in texts.items():
                answer, seconds = client.extended(sql, values)
                check(f"{name} of {count}: answered", isinstance(answer, int), answer)
                times.setdefault(name, []).append(seconds)
    for name, (few, many) in times.items():
        note(f"{name}: 4,000 parameters {few:.2f} s, 16,000 {many:.2f} s")
        # Sixteen times as long where each looks at each.
        check(f"{name}: four times as many do not take ten times as long", many < 10 * max(few, 0.1), f"{few:.2f} s, {many:.2f} s")
    check("writers went on beside it", not writer.failed and writer.slowest < 3, f"the slowest {writer.slowest:.2f} s, {writer.failed}")
    client.end()


def test_any_of_a_long_array_looks_at_it_once(front):
    client = Client(front.port)
    client.ask("insert into k select g, 'x' from generate_series(1, 5000) g")
    array = "{" + ",".join(str(i) for i in range(0, 40000, 2)) + "}"
    answer, seconds = client.extended("select a from k where a = any($1::int[])", [array])
    check("found", answer == 2500, answer)
    check("in the time of one look", seconds < 5, f"{seconds:.2f} s")
    answer, seconds = client.extended("select a from k where a <> all($1::int[])", [array])
    check("the others", answer == 2500 and seconds < 5, f"{answer}, {seconds:.2f} s")
    client.end()


def test_a_statement_ends_when_its_client_goes(front):
    for name, sql in (
        ("a sum", ENDLESS),
        ("a join", "select count(*) from generate_series(1, 900000) a, generate_series(1, 900000) b where a.a + b.b = -1"),
        ("rows that nobody reads", ENDLESS_ROWS),
        ("a sleep", "select pg_sleep(600)"),
        ("a write", "insert into k select -n, 'x' from (" + ENDLESS.replace("sum(n)", "n") + ") q"),
    ):
        client = Client(front.port)
        client.send(pgraw.query(sql))
        time.sleep(0.5)
        client.vanish()
        check(f"{name}: the proxy has nothing to do soon", idle(front))
        other = Client(front.port)
        check(f"{name}: others write", other.ask("update tally set n = n + 1") == 0)
        other.end()


def test_what_nobody_reads_is_not_kept(front):
    before = front.resident_kb()
    clients = []
    for sql in (ENDLESS_ROWS, "select * from generate_series(1, 900000) a, generate_series(1, 900000) b"):
        clients.append(Client(front.port))
        clients[-1].send(pgraw.query(sql))
    time.sleep(3)
    grown = (front.resident_kb() - before) // 1024
    check("three seconds of unread rows take no memory to speak of", grown < 200, f"{grown} MiB more")
    for client in clients:
        client.vanish()
    client = Client(front.port)
    check("a function makes a million rows at most", client.ask("select count(*) from generate_series(1, 5000000)") == "54000")
    check("and a value is bounded", client.ask("select length(repeat('x', 100000000))") == "54000")
    client.end()
    check("the proxy is idle again", idle(front))
    check("and its log has no complaint", not re.search(r"level=(error|fatal)", front.log()))


def test_a_session_ends_another_of_its_user(front):
    options = [("options", "-c termgate.scope=wait -c termgate.term=1")]
    with_user = lambda user: pgraw.Connection(front.port, database="app", user=user, parameters=options, wait=30)
    here, there, other = with_user("ann"), with_user("ann"), with_user("bob")

    def answer(client, sql):
        messages = client.query(sql)
        return [message.fields()["C"] for message in messages if message.type == "E"] or [
            message.row()[0] for message in messages if message.type == "D"
        ]

    pid = int(answer(there, "select pg_backend_pid()")[0])
    check(answer(other, f"select pg_terminate_backend({pid})") == ["42501"], "another user's session is not ended")
    check(answer(here, "select pg_terminate_backend(2147483647), 1") == [b"f"], "a session that is not there")
    running = threading.Thread(target=lambda: there.query(ENDLESS))
    running.start()
    check(
        eventually(lambda: answer(here, f"select pg_cancel_backend({pid})") == [b"t"] and not running.is_alive(), 20),
        "its statement is cancelled",
    )
    running.join()
    check(answer(there, "select 1") == [b"1"], "and it goes on")
    check(answer(here, f"select pg_terminate_backend({pid})") == [b"t"], "it is ended")
    check([message.fields()["C"] for message in there.until("E") if message.type == "E"] == ["57P01"], "and told why")
    for client in (here, other):
        client.end()


def test_an_answer_does_not_wait_for_the_next_statement(front):
    client = Client(front.port)
    one = [pgraw.parse("", "select 1"), pgraw.bind(), pgraw.execute(), pgraw.sync()]
    slow = [pgraw.parse("", "select pg_sleep(3)"), pgraw.bind(), pgraw.execute(), pgraw.sync()]
    started = time.monotonic()
    client.send(*one, *slow)
    client.until("Z")
    check(time.monotonic() - started < 2, "what came with a slow statement is answered before it")
    client.until("Z")
    check(time.monotonic() - started >= 3, "and the slow one later")
    client.end()


@pytest.mark.parametrize("block", [False, True])
def test_an_error_is_reported_without_a_sync(front, block):
    """PostgreSQL reports an error at once, and a client may send no Sync before it has heard of it."""
    write = "insert into k values (7, 'once')"
    for what in (["select nosuch"], ["select 1", "select 1/(n - n) from tally"], [write, write]):
        client = Client(front.port, wait=10)
        if block:
            assert client.ask("begin") == 0
        client.send(*(pgraw.extended(sql) for sql in what))
        kinds = [message.type for message in client.until("E")]
        check(kinds.count("C") == len(what) - 1, f"{what}: answers up to the error come without a Sync: {kinds}")
        client.send(pgraw.extended("select 2"), pgraw.sync())
        check([message.type for message in client.until("Z")] == ["Z"], "and what follows it is skipped up to the Sync")
        client.end()
    client = Client(front.port)
    check(client.ask("select a from k where a = 7") == 0, "nothing of a pipeline that failed was kept")
    client.end()
