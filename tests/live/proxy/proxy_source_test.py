#!/usr/bin/env python3
"""[F1][F2] Rules of the proxy whose lease comes from a lock service, with a real Redis: stopped, killed, emptied; and proxies that are
stopped and killed. More of it, with a service in memory, is in tests/unit/proxy/authority/sources.cpp.

  pytest tests/live/proxy/proxy_source_test.py [-k emptied]

The clients are plain sessions that declare nothing. A term is the service's own number, and the database's fence has it
before the first write.
"""
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from checks import check, eventually
from given import TERMGATE
from proxy_lab import Wire

pytestmark = pytest.mark.skipif(not shutil.which("redis-server") or not shutil.which("redis-cli"), reason="redis-server is not installed")
INSERT = "INSERT INTO written VALUES ('x')"
TTL = 2  # seconds


class Redis:
    def __init__(self, lab):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.lab, self.folder, self.url = lab, f"{lab.folder}/redis", f"redis://127.0.0.1:{self.port}?timeout=500"
        os.mkdir(self.folder)
        self.start()

    def start(self):
        words = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--appendonly", "yes"]
        self.process = self.lab.program(*words, "--appendfsync", "always", "--save", "", stdout=subprocess.DEVNULL)
        assert eventually(lambda: self.cli("PING") == "PONG", 20)

    def cli(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True)
        return done.stdout.strip()

    def counter(self, scope):
        return int(self.cli("GET", f"termgate:{{{scope}}}:term") or 0)


class Place:
    """A Redis, a PostgreSQL, and proxies with a rule that has its lease there; each test has a scope of its own."""

    number = 0

    def __init__(self, lab, server, redis):
        Place.number += 1
        self.lab, self.server, self.redis, self.scope = lab, server, redis, f"scope{Place.number}"
        self.rules = f"{lab.folder}/rules{Place.number}"
        with open(self.rules, "w") as new:
            new.write(f"[rule elected]\nlease = {self.scope}\nsource = {redis.url}\nttl = {TTL} s\non-stale = error\n")
        self.proxies = []

    def proxy(self):
        self.proxies.append(self.lab.proxy(self.server.url, "--rules", self.rules))
        return self.proxies[-1]

    def fence(self):
        rows = self.server.sql(f"SELECT term FROM termgate.fences WHERE scope = '{self.scope}'")
        return int(rows[0]) if rows else 0

    def close(self):
        for proxy in self.proxies:
            proxy.stop()


@pytest.fixture(scope="module")
def server(lab):
    made = lab.server("15")
    made.sql("CREATE TABLE written (what text)")
    return made


@pytest.fixture(scope="module")
def redis(lab):
    return Redis(lab)


@pytest.fixture
def place(lab, server, redis):
    made = Place(lab, server, redis)
    yield made
    made.close()


def outcome(proxy, source="127.0.0.1"):
    """A new session's write: None, or the error."""
    client = Wire(proxy.port, source=source)
    try:
        return client.ask(INSERT)[1]
    finally:
        client.close()


def becomes(proxy, wanted, seconds, source="127.0.0.1"):
    """Until a new session's write is accepted (None) or refused with `wanted`; its error's text, or False."""
    found = []

    def right():
        error = outcome(proxy, source)
        if (error["C"] if error else None) != wanted:
            return False
        found.append(error["M"] if error else "accepted")
        return True

    return found[-1] if eventually(right, seconds, 0.1) else False


def test_a_session_writes_under_the_services_term_and_another_host_does_not(place):
    place.redis.cli("SET", f"termgate:{{{place.scope}}}:term", "400")
    proxy = place.proxy()
    client = Wire(proxy.port)
    check("it writes", client.ask(INSERT)[1] is None)
    check("under the term of Redis, which is the fence", place.fence() == place.redis.counter(place.scope) == 401, place.fence())
    error = outcome(proxy, "127.0.0.2")
    check("another host has no term", error and error["C"] == "TG002" and "another owner's" in error["M"], error)
    check("and reads", Wire(proxy.port, source="127.0.0.2").ask("SELECT 1")[0] == ["1"])
    time.sleep(1.5 * TTL)
    check("the lease is renewed", client.ask(INSERT)[1] is None and place.fence() == 401)
    client.close()
    check("once its last session is gone, the other host has the next term", becomes(proxy, None, 10, "127.0.0.2") and place.fence() == 402)


def test_two_proxies_of_one_host_take_turns_and_a_killed_one_is_replaced(place):
    first, second = place.proxy(), place.proxy()
    client = Wire(first.port)
    check("the first has the lease", client.ask(INSERT)[1] is None)
    term = place.fence()
    error = outcome(second)
    check("through the second there is no term", error and error["C"] == "TG002" and "another owner's" in error["M"], error)
    first.process.send_signal(signal.SIGKILL)
    waiting = Wire(second.port)
    began = time.monotonic()
    check("after a kill the second has it", eventually(lambda: waiting.ask(INSERT)[1] is None, TTL + 10, 0.1))
    check("not long after the TTL", time.monotonic() - began < TTL + 5, time.monotonic() - began)
    check("under a higher term", place.fence() > term)
    term = place.fence()
    waiting.close()
    third = place.proxy()
    second.stop()
    check("a proxy that ends gives it back", becomes(third, None, 10) and place.fence() > term)


def test_a_stopped_service_ends_the_term_and_a_killed_one_loses_nothing(place):
    proxy = place.proxy()
    client = Wire(proxy.port)
    check("it writes", client.ask(INSERT)[1] is None)
    term = place.fence()
    place.redis.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        stopped = eventually(lambda: (client.ask(INSERT)[1] or {"C": None})["C"] == "TG002", TTL + 10, 0.05)
        check("while Redis is stopped its writes stop", stopped)
        check("by the end of the TTL", time.monotonic() - began < TTL + 3, time.monotonic() - began)
        check("the fence stays", place.fence() == term)
    finally:
        place.redis.process.send_signal(signal.SIGCONT)
    check("afterwards a new session writes again", becomes(proxy, None, 10))
    place.redis.process.kill()
    place.redis.process.wait()
    place.redis.start()
    check("after a crash and a restart of Redis it writes, and no term fell", becomes(proxy, None, 10) and place.fence() >= term)
    client.close()


def test_a_lease_that_would_never_end_and_keys_that_may_go_are_told(place):
    key = f"termgate:{{{place.scope}}}:lease"

    def run():
        words = [TERMGATE, "run", "--scope", place.scope, "--source", place.redis.url, "--db", place.server.url, "--", "true"]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    for command in (("SET", key, "7 another"), ("SET", key, "somebody", "EX", "60")):
        place.redis.cli(*command)
        done = run()
        check(f"{command}: the key is named", done.returncode == 101 and key in done.stderr and "DEL" in done.stderr, done)
    place.redis.cli("DEL", key)
    for policy, warned in (("volatile-ttl", True), ("noeviction", False)):
        place.redis.cli("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", policy)
        done = run()
        check(f"{policy}: it runs", done.returncode == 0 and ("maxmemory-policy" in done.stderr) == warned, done)
    place.redis.cli("CONFIG", "SET", "maxmemory", "0")


def test_a_service_that_was_emptied_is_refused_until_its_counter_is_raised(place):
    proxy = place.proxy()
    for _ in range(3):  # each a lease of its own
        check("it writes", becomes(proxy, None, 10))
        check("its lease is given back", proxy.logged("given back"))
        eventually(lambda: not place.redis.cli("EXISTS", f"termgate:{{{place.scope}}}:lease").strip("0"), 5)
    fence = place.fence()
    place.redis.cli("FLUSHALL")
    said = becomes(proxy, "TG001", 10)
    check("the proxy that has seen its terms refuses it", said and "lost what it knew" in said, said)
    fresh = place.proxy()
    place.redis.cli("FLUSHALL")
    said = becomes(fresh, "TG001", 10)
    check("and so does the fence", said and "the fence is already at" in said, said)
    check("nothing was raised or written", place.fence() == fence)
    place.redis.cli("SET", f"termgate:{{{place.scope}}}:term", str(fence + 10))
    check("once its counter is above the fence there is a term", becomes(fresh, None, 10) and place.fence() > fence)
