#!/usr/bin/env python3
"""A program of the machine's own in hrana_guarantees_test.py: the extension in Python's sqlite3.

  local_writer.py EXTENSION FILE STOP_AT TERM_FILE SEED

It writes until STOP_AT (seconds since 1970) and prints a line a write: what became of it.
"""
import sqlite3
import sys
import time


def local_writer(extension, path, stop_at, term_path, seed):
    file = sqlite3.connect(path, isolation_level=None, timeout=0)
    file.enable_load_extension(True)
    file.load_extension(extension)
    key = int(seed) * 1_000_000
    while time.time() < float(stop_at):
        key += 1
        term = int(open(term_path).read())
        stale = key % 5 == 0 and term > 1
        term -= stale
        try:
            file.execute("BEGIN IMMEDIATE")
            file.execute("SELECT termgate_check_term('mixed', ?)", (term,))
            file.execute("INSERT INTO mixed VALUES (?, ?, 'local')", (key, term))
            file.execute("SELECT termgate_append('mixed', ?, ?)", (term, str(key)))
            file.execute("COMMIT")
            print("committed", key, term, flush=True)
            time.sleep(0.003)  # so that those get the lock who wait for it
        except sqlite3.Error as error:
            if file.in_transaction:
                file.execute("ROLLBACK")
            busy = "locked" in str(error)
            print("busy" if busy else "refused" if "TG001" in str(error) else f"failed:{error}", key, term, flush=True)
            if busy:
                time.sleep(0.002)


if __name__ == "__main__":
    local_writer(*sys.argv[1:6])
