#!/usr/bin/env python3
"""Nobody waits for another client's read of an SQLite file [F4]: long reads, clients that go away or do not read,
long lists of parameters.

  pytest tests/live/hrana/hrana_patience_test.py [-k WORD]
"""
import json
import re
import socket
import threading
import time

import pytest

from checks import check, note
from hrana import Failed, execute
from hrana_served import Served, Stream, code_of, idle, step, token

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t"
ENDLESS_ROWS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n, hex(zeroblob(500)) FROM t"
# What SQLite does within a single instruction, and would take hours for.
STUBBORN = {
    "LIKE": "SELECT replace(hex(zeroblob(8000000)), '0', 'a') LIKE '%' || replace(hex(zeroblob(400)), '0', 'a') || 'b'",
    "instr": "SELECT instr(replace(hex(zeroblob(8000000)), '0', 'a'), replace(hex(zeroblob(4000000)), '0', 'a') || 'b')",
    "replace": "SELECT length(replace(hex(zeroblob(8000000)), replace(hex(zeroblob(4000000)), '0', '0') || '1', 'c'))",
    "trim": "SELECT length(trim(hex(zeroblob(8000000)), replace(hex(zeroblob(2000000)), '0', '1')))",
}


def begun(front, path, document):
    """A request whose answer is left unread: its socket."""
    body = json.dumps(document).encode()
    client = socket.create_connection(("127.0.0.1", front.port))
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{front.port}\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {text}\r\n" for name, text in token("wait", 1).items())
    client.sendall(head.encode() + b"\r\n" + body)
    return client


def reads(front, sql):
    return begun(front, "/v2/pipeline", {"requests": [execute(sql)]})


class Writer(threading.Thread):
    """Writes again and again; how long the slowest write took, and what failed."""

    def __init__(self, front):
        super().__init__()
        self.stream, self.over, self.slowest, self.failed, self.count = Stream(front.url, token("wait", 1)), False, 0.0, [], 0

    def run(self):
        while not self.over:
            started = time.monotonic()
            told = code_of(self.stream.execute, "UPDATE tally SET n = n + 1")
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.count += 1
            if told is not None:
                self.failed.append(told)
            time.sleep(0.005)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()


@pytest.fixture(scope="module")
def front(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    served = Served(lab, f"{lab.folder}/app.db")
    stream = Stream(served.url, token("wait", 1))
    for sql in ("CREATE TABLE tally (n int)", "INSERT INTO tally VALUES (0)", "CREATE TABLE k (a INTEGER PRIMARY KEY, b TEXT)"):
        stream.execute(sql)
    return served


def test_a_read_that_never_ends_does_not_hold_up_writers(front):
    reader = reads(front, ENDLESS)
    time.sleep(0.3)
    with Writer(front) as writer:
        time.sleep(1)
    check(
        "writers went on beside it",
        writer.count > 5 and not writer.failed and writer.slowest < 2,
        f"{writer.count} writes, the slowest {writer.slowest:.2f} s, {writer.failed}",
    )
    reader.close()
    check("the read ends when its client goes", idle(front.process))


def test_a_statement_ends_when_its_client_goes(front):
    # A reader has SQLite's own LIKE, which keeps its index and ends when it ends.
    short = STUBBORN["LIKE"].replace("8000000", "1000000")
    for name, sql in {"a sum": ENDLESS, "rows that nobody reads": ENDLESS_ROWS, **STUBBORN, "LIKE": short}.items():
        client = reads(front, sql)
        time.sleep(0.5)
        client.close()
        check(f"{name}: the proxy has nothing to do soon", idle(front.process))
        told = code_of(Stream(front.url, token("wait", 1)).execute, "UPDATE tally SET n = n + 1")
        check(f"{name}: others write", told is None, told)


def test_what_nobody_reads_is_not_kept(front):
    before = front.resident_kb()
    clients = [begun(front, "/v3/cursor", {"batch": {"steps": [step(ENDLESS_ROWS)]}}) for _ in range(4)]
    time.sleep(1)
    grown = (front.resident_kb() - before) // 1024
    check("a second of unread rows take no memory to speak of", grown < 200, f"{grown} MiB more")
    with Writer(front) as writer:
        time.sleep(1)
    check("and hold up no writer", not writer.failed and writer.slowest < 2, (writer.slowest, writer.failed))
    for client in clients:
        client.close()
    check("the proxy is idle again", idle(front.process))
    check("and its log has no complaint", not re.search(r"level=(error|fatal)", front.log()))


def test_long_lists_of_parameters_are_prepared_in_linear_time(front):
    stream, times = Stream(front.url), {}
    for count in (4000, 16000):
        values = list(range(count))
        texts = {
            "VALUES": "VALUES " + ",".join("(?)" for _ in values),
            "IN": "SELECT a FROM k WHERE a IN (" + ",".join("?" for _ in values) + ")",
        }
        for name, sql in texts.items():
            started = time.monotonic()
            try:
                stream.execute(sql, *values)
            except Failed as failure:
                check(f"{name} of {count}: answered or bounded by name", "too many" in failure.message, failure)
            times.setdefault(name, []).append(time.monotonic() - started)
    for name, (few, many) in times.items():
        note(f"{name}: 4,000 parameters {few:.2f} s, 16,000 {many:.2f} s")
        check(f"{name}: four times as many do not take ten times as long", many < 10 * max(few, 0.1), f"{few:.2f} s, {many:.2f} s")
