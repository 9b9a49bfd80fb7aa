#!/usr/bin/env python3
"""A service for `termgate drill`, right or wrong in one way:  service.py [MODE]

It leads TERMGATE_SCOPE by a lease of Termgate's, and while it leads it writes an entry every 50 ms, on PostgreSQL
through psycopg, on SQLite through the sqlite3 module and the loadable extension (TERMGATE_EXTENSION).

  right    writes in one transaction with the check; leaves when it is refused
  catcher  the same, and when it is refused it stands for election again
  declares declares scope and term with set_config, as docs/use/java-and-orms.md has it, and writes to the protected table
  memory   believes its own memory, and writes without the check
  again    the same, and takes its lease anew all the time instead of renewing it
  anew     takes its lease anew all the time, and writes with the check
  both     writes with the check, and counts in a second table without it
  quits    leaves when it finds that it has slept
  never    waits and never leads
  deaf     right, but ignores SIGTERM
  liar     quits, and says that it was refused
  grabs    takes the scope over from whoever leads it
"""
import os
import signal
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "right"
URL, SCOPE, INSTANCE = os.environ["TERMGATE_DB"], os.environ["TERMGATE_SCOPE"], os.environ.get("TERMGATE_DRILL_INSTANCE", "0")
OWNER = f"service-{os.getpid()}"
TTL_MS = 1000


class Refused(Exception):
    pass


class Postgres:
    def __init__(self):
        import psycopg

        self.psycopg = psycopg
        self.connection = psycopg.connect(URL, autocommit=True)

    def acquire(self):
        row = self.connection.execute(
            "SELECT acquired, term FROM termgate.acquire_lease(%s, %s, %s * interval '1 ms')", (SCOPE, OWNER, TTL_MS)
        ).fetchone()
        return row[1] if row[0] else None

    def renew(self, term):
        self.connection.execute("SELECT renewed FROM termgate.renew_lease(%s, %s, %s, %s * interval '1 ms')", (SCOPE, OWNER, term, TTL_MS))

    def seal(self):
        self.connection.execute("SELECT termgate.force_release(%s, 'service', 'grabs')", (SCOPE,))

    def write(self, term, checked=True):
        try:
            with self.connection.transaction():
                if MODE == "declares":
                    self.connection.execute(
                        "SELECT set_config('termgate.scope', %s, true), set_config('termgate.term', %s, true)", (SCOPE, str(term))
                    )
                elif checked:
                    self.connection.execute("SELECT termgate.check_term(%s, %s)", (SCOPE, term))
                self.connection.execute("INSERT INTO entries (scope, term, instance) VALUES (%s, %s, %s)", (SCOPE, term, INSTANCE))
        except self.psycopg.errors.OperationalError:
            self.connection = self.psycopg.connect(URL, autocommit=True)  # evicted while it slept, perhaps
        except self.psycopg.Error as error:
            if error.sqlstate != "TG001":
                raise
            raise Refused(error.diag.message_primary) from None

    def count(self, term):
        self.connection.execute("UPDATE counters SET n = n + 1")


class Sqlite:
    def __init__(self):
        import sqlite3

        self.sqlite3 = sqlite3
        self.connection = sqlite3.connect(URL.removeprefix("sqlite:"), isolation_level=None, timeout=10)
        self.connection.enable_load_extension(True)
        self.connection.load_extension(os.environ["TERMGATE_EXTENSION"])

    def call(self, function, *values):
        import json

        return json.loads(self.connection.execute(f"SELECT {function}({', '.join('?' * len(values))})", values).fetchone()[0])

    def acquire(self):
        row = self.call("termgate_acquire_lease", SCOPE, OWNER, TTL_MS)
        return row["term"] if row["acquired"] else None

    def renew(self, term):
        self.call("termgate_renew_lease", SCOPE, OWNER, term, TTL_MS)

    def seal(self):
        self.connection.execute("SELECT termgate_force_release(?, 'service', 'grabs')", (SCOPE,))

    def write(self, term, checked=True):
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            if checked:
                self.connection.execute("SELECT termgate_check_term(?, ?)", (SCOPE, term))
            self.connection.execute("INSERT INTO entries (scope, term, instance) VALUES (?, ?, ?)", (SCOPE, term, INSTANCE))
            self.connection.execute("COMMIT")
        except self.sqlite3.Error as error:
            self.connection.execute("ROLLBACK")
            if not str(error).startswith("TG001"):
                raise
            raise Refused(str(error)) from None

    def count(self, term):
        self.connection.execute("UPDATE counters SET n = n + 1")
        self.connection.execute("INSERT INTO entries (scope, term, instance) VALUES (?, ?, ?)", (SCOPE, term, INSTANCE))


def say(*words):
    print(*words, flush=True)


def lead(store, term):
    say("leads under term", term)
    before = time.monotonic()
    while True:
        if MODE in ("quits", "liar") and time.monotonic() - before > 0.5:
            if MODE == "liar":
                say(f'TG001 stale term {term} for scope "{SCOPE}": the fence stands at {term + 1}')
            say("slept, and leaves")
            sys.exit(0)
        before = time.monotonic()
        if MODE == "both":
            store.count(term)
        store.write(term, checked=MODE not in ("memory", "again"))
        if time.monotonic() - before < 0.3:
            if MODE in ("again", "anew"):
                term = store.acquire() or term
            else:
                store.renew(term)
        time.sleep(0.05)


def main():
    if MODE == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    store = Sqlite() if URL.startswith("sqlite:") else Postgres()
    say("up, pid", os.getpid())
    while True:
        if MODE == "grabs":
            store.seal()
        term = store.acquire() if MODE != "never" else None
        if term is None:
            time.sleep(0.05)
            continue
        try:
            lead(store, term)
        except Refused as refused:
            say(refused)
            if MODE in ("catcher", "deaf"):
                continue
            sys.exit(3)


main()
