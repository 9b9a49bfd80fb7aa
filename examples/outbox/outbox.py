#!/usr/bin/env python3
"""A transactional outbox whose relay is a leader. README.md says what it shows. Plain SQL, and nothing of Termgate but
its SQLite extension.

  outbox.py SOURCE.db order NUMBER              write an order and its message, in one transaction
  outbox.py SOURCE.db relay TARGET.db [PAUSE]   deliver what is in the outbox, as the leader of
                                                scope "relay"; PAUSE seconds before the first

TERMGATE_EXTENSION is the extension without its .so; both databases have layer 1 (`termgate init`).
"""
import json
import os
import sqlite3
import sys
import time

OWNER, TTL_MS = f"relay:{os.getpid()}", 500


def connect(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=20)
    db.enable_load_extension(True)
    db.load_extension(os.environ.get("TERMGATE_EXTENSION", "termgate"))
    return db


class transaction:
    """BEGIN IMMEDIATE and the check: everything inside commits under this scope and term, or nothing does."""

    def __init__(self, db, scope, term):
        self.db, self.scope, self.term = db, scope, term

    def __enter__(self):
        self.db.execute("BEGIN IMMEDIATE")
        try:
            self.db.execute("SELECT termgate_check_term(?, ?)", (self.scope, self.term))
        except BaseException:
            self.db.execute("ROLLBACK")
            raise

    def __exit__(self, kind, *_):
        self.db.execute("COMMIT" if kind is None else "ROLLBACK")


def lease(db, scope):
    """The term, once the lease is free."""
    while True:
        answer = json.loads(db.execute("SELECT termgate_acquire_lease(?, ?, ?)", (scope, OWNER, TTL_MS)).fetchone()[0])
        if answer["acquired"]:
            return int(answer["term"])
        time.sleep(0.05)


def order(source, number):
    source.execute("BEGIN IMMEDIATE")
    source.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY)")
    source.execute(
        "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL, sent INTEGER NOT NULL DEFAULT 0)"
    )
    source.execute("INSERT INTO orders VALUES (?)", (number,))
    source.execute("INSERT INTO outbox (message) VALUES (?)", (f"order {number}",))
    source.execute("COMMIT")


def relay(source, target, pause):
    target.execute("CREATE TABLE IF NOT EXISTS inbox (id INTEGER PRIMARY KEY, message TEXT NOT NULL, term INTEGER NOT NULL)")
    term = lease(source, "relay")
    waiting = source.execute("SELECT id, message FROM outbox WHERE sent = 0 ORDER BY id").fetchall()
    print(f"term {term}: {len(waiting)} messages", flush=True)
    time.sleep(pause)  # a long pause: another relay takes over
    for number, message in waiting:
        # The target has a fence of its own for the same terms. It refuses a relay that was replaced, and knows what it has.
        with transaction(target, "relay", term):
            target.execute("INSERT INTO inbox VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING", (number, message, term))
        with transaction(source, "relay", term):
            source.execute("UPDATE outbox SET sent = 1 WHERE id = ?", (number,))
    source.execute("SELECT termgate_release_lease('relay', ?, ?)", (OWNER, term))


def main():
    if len(sys.argv) == 4 and sys.argv[2] == "order":
        order(connect(sys.argv[1]), int(sys.argv[3]))
    elif len(sys.argv) in (4, 5) and sys.argv[2] == "relay":
        try:
            relay(connect(sys.argv[1]), connect(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) == 5 else 0)
        except sqlite3.OperationalError as refused:
            if not str(refused).startswith("TG001"):
                raise
            print(f"refused: {refused}", flush=True)
            sys.exit(3)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
