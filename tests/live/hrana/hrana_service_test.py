#!/usr/bin/env python3
"""The proxy in front of an SQLite file in service: its file is moved, removed or replaced under it [F2][F5]; the drain.

  pytest tests/live/hrana/hrana_service_test.py [-k replaced]
"""
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from checks import check, eventually
from given import SANITIZED, TERMGATE
from hrana import Failed, execute
from hrana_served import Served, Stream, code_of, token

PATIENCE = 4 if SANITIZED else 1
GONE = ("DATABASE_MOVED", "STREAM_EXPIRED", "SERVER_BUSY", "closed")


def make(path, term):
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"
    for words in (["init"], ["exec", "--scope", "A", "--term", str(term), create]):
        subprocess.run([TERMGATE, words[0], "--db", f"sqlite:{path}", *words[1:]], check=True, capture_output=True)


def rows(path):
    file = sqlite3.connect(path, timeout=10)
    try:
        return [row[0] for row in file.execute("SELECT v FROM t ORDER BY id")]
    finally:
        file.close()


def remove_all(path):
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)


def insert(served, term, value, stream=None):
    """None: it was acknowledged; else the code, or "closed"."""
    return code_of((stream or Stream(served.url, token("A", term))).execute, "INSERT INTO t (v) VALUES (?)", value)


def becomes(served, status):
    return eventually(lambda: served.get("/readyz")[0] == status, 15 * PATIENCE, 0.1)


def moved(path):
    os.rename(path, path + ".old")
    remove_all(path)


def renamed_over(path):
    make(path + ".new", 9)
    for end in ("-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)
    os.rename(path + ".new", path)


def linked(path):
    make(path + ".other", 9)
    remove_all(path)
    os.symlink(path + ".other", path)


def folder_moved(path):
    folder = os.path.dirname(path)
    os.rename(folder, folder + ".old")
    os.mkdir(folder)


# How it is changed, and whether another file is there at once.
FILE_CASES = {
    "moved away": (moved, False),
    "removed": (remove_all, False),
    "renamed over": (renamed_over, True),
    "replaced by a link": (linked, True),
    "its folder moved": (folder_moved, False),
}


@pytest.mark.parametrize("name", FILE_CASES)
def test_a_file_that_is_no_longer_there_is_written_no_more(name, lab):
    change, made_anew = FILE_CASES[name]
    folder = f"{lab.folder}/{name.replace(' ', '-')}"
    os.mkdir(folder)
    path = f"{folder}/app.db"
    make(path, 5)
    served = Served(lab, path)
    check(f"{name}: writes pass before", all(insert(served, 5, "before") is None for _ in range(2)))
    open_one = Stream(served.url, token("A", 5))
    open_one.ask(execute("BEGIN"), execute("INSERT INTO t (v) VALUES ('in a transaction')"))
    change(path)
    told = insert(served, 5, "at once") if made_anew else None
    failure = None
    try:
        open_one.execute("COMMIT")
    except Failed as caught:
        failure = caught
    check(f"{name}: an open transaction is not committed", failure is not None and failure.code in GONE, failure)
    check(f"{name}: and is told so by status 400", failure is not None and failure.status == 400, failure)
    if made_anew:
        # The old term is stale in the new file, or the old file was still served for a moment and refused.
        check(f"{name}: a write at once goes nowhere", told in (*GONE, "TG001", "TG004"), told)
    else:
        check(f"{name}: nothing is written", insert(served, 5, "after") is not None)
        check(f"{name}: not ready", becomes(served, 503))
        make(path, 9)
    check(f"{name}: ready once there is a file", becomes(served, 200))
    check(f"{name}: nothing of it is in the new file", rows(path) == [], rows(path))
    for left in (path + ".old", f"{folder}.old/app.db"):
        if os.path.exists(left):
            # Without its log, where that was removed.
            left_file = sqlite3.connect(left)
            known = left_file.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchone()
            there = [row[0] for row in left_file.execute("SELECT v FROM t")] if known else []
            left_file.close()
            check(f"{name}: nor in the old one", set(there) <= {"before"}, there)
    check(f"{name}: the old term is stale in the new file", insert(served, 5, "stale") in ("TG001", "TG004"))
    check(f"{name}: the new one writes", insert(served, 9, "new") is None)
    check(f"{name}: into the new file", rows(path) == ["new"], rows(path))
    check(f"{name}: ends", served.stop() == 0)


def test_a_file_whose_log_was_removed_is_written_no_more(lab):
    path = f"{lab.folder}/log.db"
    make(path, 5)
    served = Served(lab, path)
    open_one = Stream(served.url, token("A", 5))
    open_one.ask(execute("BEGIN"), execute("INSERT INTO t (v) VALUES ('before')"))
    for end in ("-wal", "-shm"):
        if os.path.exists(path + end):
            os.remove(path + end)
    told = code_of(open_one.execute, "COMMIT")
    check("log removed: an open transaction is not committed", told in GONE, told)
    check("log removed: ready again", becomes(served, 200))
    written = insert(served, 5, "new")
    check("log removed: what is acknowledged is what others read", written is not None or "new" in rows(path), (written, rows(path)))
    served.stop()


def test_an_older_copy_in_its_place_lets_no_lower_term_write(lab):
    """[F3] The fence of yesterday's file is lower; what this proxy has seen it remembers."""
    path = f"{lab.folder}/copy.db"
    make(path, 5)
    lab.run(lab.termgate, "status", "--db", f"sqlite:{path}")
    shutil.copy(path, path + ".yesterday")
    served = Served(lab, path)
    check("older copy: the higher term writes", insert(served, 9, "nine") is None)
    remove_all(path)
    os.rename(path + ".yesterday", path)

    def is_served():
        try:
            return Stream(served.url).execute("SELECT count(*) FROM t") == [(0,)]
        except (Failed, OSError):
            return False  # of the file that was there, or between the two

    check("older copy: it is served", eventually(is_served, 15 * PATIENCE, 0.1))
    told = insert(served, 5, "stale")
    check("older copy: a term below what was seen is refused", told in ("TG001", "TG004") and rows(path) == [], (told, rows(path)))
    served.stop()


def test_the_drain_lets_open_transactions_end(lab):
    path = f"{lab.folder}/drain.db"
    make(path, 5)
    served = Served(lab, path, "--drain-timeout", "5s")
    ends, stays = Stream(served.url, token("A", 5)), Stream(served.url, token("A", 5))
    ends.ask(execute("BEGIN"), execute("INSERT INTO t (v) VALUES ('kept')"))
    served.process.send_signal(signal.SIGTERM)
    check(
        "not ready any more", eventually(lambda: code_of(lambda: served.get("/readyz")) == "closed" or served.get("/readyz")[0] == 503, 5)
    )
    check("the open transaction commits", code_of(ends.execute, "COMMIT") is None)
    check("and nothing new begins", code_of(stays.execute, "SELECT 1") is not None)
    check("the process ends with status 0", eventually(lambda: served.process.poll() == 0, 10 * PATIENCE))
    check("the write is there", rows(path) == ["kept"], rows(path))
    served = Served(lab, path, "--drain-timeout", "1s")
    late = Stream(served.url, token("A", 5))
    late.ask(execute("BEGIN"), execute("INSERT INTO t (v) VALUES ('lost')"))
    begun = time.monotonic()
    check("one that does not end is cut", served.stop() == 0 and time.monotonic() - begun < 8 * PATIENCE)
    check("and leaves nothing", rows(path) == ["kept"], rows(path))


ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t"


def test_a_statement_at_work_does_not_keep_the_process(lab):
    path = f"{lab.folder}/work.db"
    make(path, 5)
    served = Served(lab, path, "--drain-timeout", "1s")
    ended = []
    thread = threading.Thread(target=lambda: ended.append(code_of(Stream(served.url).execute, ENDLESS)))
    thread.start()
    time.sleep(0.5)
    begun = time.monotonic()
    status = served.stop()
    check("SIGTERM ends the process with a read at work", status == 0 and time.monotonic() - begun < 10 * PATIENCE, status)
    thread.join(20)
    check("and its client gets no rows", ended and ended[0] is not None, ended)
