"""The Python client as the behaviour suite drives it (tests/live/leases/handles_test.py)."""
import contextlib
import sqlite3
import sys
import threading
from urllib.parse import unquote

import psycopg
import termgate

output = threading.Lock()


def say(*words):
    with output:
        print("\t".join(str(word).replace("\t", " ").replace("\n", " ") for word in words), flush=True)


def connect(url):
    if "|" in url:
        path, extension = url.split("|")
        connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        connection.enable_load_extension(True)
        connection.load_extension(extension)
        return connection
    return psycopg.connect(url)


def code(error):
    return getattr(error, "sqlstate", None) or type(error).__name__


class Player:
    def __init__(self, stack):
        self.stack, self.leases, self.stops, self.failures = stack, {}, {}, {}

    def hold(self, name, url, database, scope, ttl, wait, owner, endpoint):
        client = termgate.Termgate(lambda: connect(url), database)
        try:
            lease = client.hold(scope, int(ttl) / 1000, int(wait) / 1000, owner or None, endpoint or None)
        except TimeoutError as error:
            return say(name, "blocked", error)
        self.leases[name] = lease
        self.stack.enter_context(lease)
        say(name, "held", lease.term, lease.owner)
        threading.Thread(target=lambda: lease.asked_to_leave.wait() and say(name, "asked"), daemon=True).start()
        lease.lost.wait()
        say(name, "lost")

    def held(self, name, lease):
        say(name, str(self.leases[lease].held()).lower())

    def release(self, name, lease):
        say(name, "released", str(self.leases[lease].release()).lower())

    def write(self, name, lease, url, value, how):
        with contextlib.closing(connect(url)) as connection:
            cursor = connection.cursor()
            if "|" in url:
                cursor.execute("BEGIN IMMEDIATE")
            self.leases[lease].declare(connection)
            cursor.execute(f"INSERT INTO written VALUES ({value})")
            connection.commit()
            if how == "twice":
                cursor.execute(f"INSERT INTO written VALUES ({value})")
                connection.commit()
        say(name, "written")

    def lead(self, name, url, database, scope, ttl):
        self.stops[name], self.failures[name] = threading.Event(), threading.Event()
        client = termgate.Termgate(lambda: connect(url), database)

        def work(lease):
            self.leases[name] = lease
            say(name, "leading", lease.term)
            while not (lease.lost.wait(0.01) or lease.asked_to_leave.is_set() or self.stops[name].is_set()):
                if self.failures[name].is_set():
                    raise RuntimeError("the work failed")
            say(name, "stopped")

        client.lead(scope, work, int(ttl) / 1000, stop=self.stops[name])
        say(name, "done")

    def watch(self, name, url, database, scope, interval):
        self.stops[name] = threading.Event()
        client = termgate.Termgate(lambda: connect(url), database)
        for leader in client.watch(scope, int(interval) / 1000, self.stops[name]):
            say(name, "now", *((leader.owner, leader.term, leader.endpoint or "") if leader else ()))
        say(name, "done")

    def stop(self, name, loop):
        self.stops[loop].set()
        say(name, "ok")

    def fail(self, name, loop):
        self.failures[loop].set()
        say(name, "ok")

    def play(self, command, name, *rest):
        try:
            getattr(self, command)(name, *rest)
        except Exception as error:
            say(name, "error", code(error), error)


def main():
    with contextlib.ExitStack() as stack:
        player = Player(stack)
        for line in sys.stdin:
            words = [unquote(word) for word in line.rstrip("\n").split("\t")]
            if words == ["quit"]:
                break
            threading.Thread(target=player.play, args=words, daemon=True).start()
    say("player", "gone")


main()
