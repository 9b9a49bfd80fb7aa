#!/usr/bin/env python3
"""The front of an SQLite file in service: its file is moved, removed or replaced under it [F2][F5]; reads that would
take SQLite hours end on request; what an adopted or protected table may not become over the wire.

  pytest tests/live/sqlite_server_service_test.py [-k altered]
"""
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import pytest

from checks import check, eventually
from given import SANITIZED, TERMGATE
from proxy_lab import Refused, Wire, declared

PATIENCE = 4 if SANITIZED else 1


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


def insert(wire, value):
    """None: it was acknowledged; else the SQLSTATE, or "closed"."""
    try:
        _, error = wire.ask(f"INSERT INTO t (v) VALUES ('{value}')")
        return error["C"] if error else None
    except (Refused, OSError) as failure:
        return failure.args[0]["C"] if isinstance(failure.args[0], dict) else "closed"


def session(proxy, term):
    return Wire(proxy.port, user="me", database="app", **declared("A", term))


def may_connect(proxy, term):
    try:
        return session(proxy, term)
    except (Refused, OSError):
        return None


def becomes(proxy, status):
    return eventually(lambda: proxy.get("/readyz")[0] == status, 15 * PATIENCE, 0.1)


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


FILE_CASES = {
    "moved away": (moved, False),
    "removed": (remove_all, False),
    "renamed over": (renamed_over, True),
    "a link in its place": (linked, True),
    "its folder moved": (folder_moved, False),
}


@pytest.mark.parametrize("name", FILE_CASES)
def test_nothing_is_written_into_a_file_that_is(name, lab):
    change, made_anew = FILE_CASES[name]
    folder = f"{lab.folder}/{name.replace(' ', '-')}"
    os.mkdir(folder)
    path = f"{folder}/app.db"
    make(path, 5)
    proxy = lab.proxy(f"sqlite:{path}")
    old = [session(proxy, 5) for _ in range(2)]
    block = session(proxy, 5)
    check(f"{name}: writes pass before", all(insert(one, "before") is None for one in old))
    block.ask("BEGIN")
    block.ask("INSERT INTO t (v) VALUES ('in a block')")
    change(path)
    told = insert(old[0], "at once") if made_anew else None
    try:
        _, error = block.ask("COMMIT")
        committed = error["C"] if error else None
    except (Refused, OSError) as failure:
        committed = failure.args[0]["C"] if isinstance(failure.args[0], dict) else "closed"
    check(f"{name}: an open block is not committed", committed in ("57P01", "closed"), committed)
    check(f"{name}: an old session writes nothing", insert(old[1], "after") in ("57P01", "closed"))
    check(f"{name}: nor does another", (told or insert(old[0], "after")) in ("57P01", "closed"))
    if not made_anew:
        check(f"{name}: not ready", becomes(proxy, 503))
        check(f"{name}: a new session is refused", may_connect(proxy, 5) is None)
        make(path, 9)
    check(f"{name}: ready once there is a file", becomes(proxy, 200))
    check(f"{name}: nothing of it is in the new file", rows(path) == [], rows(path))
    for left in (path + ".old", f"{folder}.old/app.db"):
        if os.path.exists(left):
            # Without its log, where that was removed.
            left_file = sqlite3.connect(left)
            there = (
                [row[0] for row in left_file.execute("SELECT v FROM t")]
                if left_file.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchone()
                else []
            )
            left_file.close()
            check(f"{name}: nor in the old one", set(there) <= {"before"}, there)
    stale = may_connect(proxy, 5)
    check(f"{name}: the old term is stale in the new file", stale is None or insert(stale, "stale") in ("TG001", "TG004"))
    fresh = session(proxy, 9)
    check(f"{name}: the new one writes", insert(fresh, "new") is None)
    check(f"{name}: into the new file", rows(path) == ["new"], rows(path))
    for wire in (*old, block, fresh, *([stale] if stale else [])):
        wire.close()
    check(f"{name}: ends", proxy.stop() == 0)


def test_a_session_whose_log_was_removed_ends(lab):
    path = f"{lab.folder}/log.db"
    make(path, 5)
    proxy = lab.proxy(f"sqlite:{path}")
    old = session(proxy, 5)
    check("log removed: writes pass before", insert(old, "before") is None)
    for end in ("-wal", "-shm"):
        os.remove(path + end)
    check("log removed: an old session writes nothing", insert(old, "after") in ("57P01", "closed"))
    check("log removed: ready again", becomes(proxy, 200))
    fresh = session(proxy, 5)
    written = insert(fresh, "new")
    check("log removed: a new session writes what others read", written is not None or "new" in rows(path), (written, rows(path)))
    old.close()
    fresh.close()
    proxy.stop()


def test_an_older_copy_in_its_place_lets_no_lower_term_write(lab):
    """A copy of yesterday's file in its place, whose fence is lower: what this front has seen it remembers."""
    path = f"{lab.folder}/copy.db"
    make(path, 5)
    lab.run(lab.termgate, "status", "--db", f"sqlite:{path}")
    shutil.copy(path, path + ".yesterday")
    proxy = lab.proxy(f"sqlite:{path}")
    leader = session(proxy, 9)
    check("older copy: the higher term writes", insert(leader, "nine") is None)
    remove_all(path)
    os.rename(path + ".yesterday", path)
    check("older copy: the old session is ended", insert(leader, "nine") in ("57P01", "closed"))
    check("older copy: ready", becomes(proxy, 200))
    stale = may_connect(proxy, 5)
    told = insert(stale, "stale") if stale else "closed"
    check("older copy: a term below what was seen is refused", told in ("TG001", "TG004"), told)
    fresh = session(proxy, 10)
    told = insert(fresh, "ten")
    # The proxy reads the fences now and then: once it has seen that this one went down, the scope is untrusted.
    check("older copy: a higher one writes, or is told that the scope is untrusted", told in (None, "TG004"), told)
    if told == "TG004":
        lab.run(lab.termgate, "fence", "declare-restored", "--db", f"sqlite:{path}", "--scope", "A", "--above", "9", "--reason", "test")
        check("older copy: settled, a higher one writes", eventually(lambda: insert(fresh, "ten") is None, 15 * PATIENCE))
    check("older copy: nothing else was written", rows(path) == ["ten"], rows(path))
    for wire in (leader, fresh, *([stale] if stale else [])):
        wire.close()
    proxy.stop()


LONG_READ = "SELECT repeat('a', 16000000) LIKE '%' || repeat('a', 40000) || 'b'"


def computes(pid):
    """Waits until the process has used some processor time."""

    def used():
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    before = used()
    return eventually(lambda: used() > before + 0.3, 20)


def asked(wire, sql):
    """How long it took, and the SQLSTATE or the first value."""
    began = time.monotonic()
    try:
        found, error = wire.ask(sql)
        told = error["C"] if error else found[0] if found else None
    except (Refused, OSError) as failure:
        told = failure.args[0]["C"] if isinstance(failure.args[0], dict) else "closed"
    return time.monotonic() - began, told


def test_endless_reads_end_on_request(lab):
    path = f"{lab.folder}/reads.db"
    make(path, 5)
    proxy = lab.proxy(f"sqlite:{path}", "--drain-timeout", "1s")
    reader = Wire(proxy.port, user="me", database="app")
    for sql in (
        "SELECT instr(replace(hex(zeroblob(8000000)), '00', 'aa'), replace(hex(zeroblob(4000000)), '00', 'aa') || 'b') GLOB '1'",
        "SELECT strpos(repeat('a', 16000000), repeat('a', 8000000) || 'b')",
        "SELECT length(replace(repeat('a', 16000000), repeat('a', 8000000) || 'b', 'c'))",
    ):
        took, told = asked(reader, sql)
        check(f"answered: {sql[:30]}", told in ("0", "16000000") and took < 20 * PATIENCE, (took, told))
    took, told = asked(reader, "SELECT length(hex(zeroblob(400000000))) GLOB '1'")
    check("a value that is too long is refused", told == "54000", told)
    took, told = asked(reader, "SELECT length(printf('%1000000000d', 1)) GLOB '1'")
    # GLOB is no word of PostgreSQL's grammar, so the text is SQLite's and may call its functions. Its printf answers
    # NULL where its result would be too long.
    check("and one of printf is not made", told in ("54000", None), told)
    check("without having been made", proxy.resident_kb() < 1_000_000, proxy.resident_kb())
    reader.ask("SET statement_timeout = '1s'")
    took, told = asked(reader, LONG_READ)
    check("a read past its statement_timeout ends", told == "57014" and took < 10 * PATIENCE, (took, told))
    reader.ask("SET statement_timeout = 0")
    reader.send(b"Q" + struct.pack("!I", len(LONG_READ) + 5) + LONG_READ.encode() + b"\0")
    assert computes(proxy.process.pid), "it is at work"
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", proxy.port)) as other:
        other.sendall(struct.pack("!IIII", 16, 80877102, reader.pid, struct.unpack("!I", reader.key)[0]))
    _, error = reader.until("Z")
    check("a cancel request ends it", error is not None and error["C"] == "57014" and time.monotonic() - began < 10 * PATIENCE, error)
    reader.send(b"Q" + struct.pack("!I", len(LONG_READ) + 5) + LONG_READ.encode() + b"\0")
    assert computes(proxy.process.pid), "it is at work"
    began = time.monotonic()
    proxy.process.send_signal(signal.SIGTERM)
    ended = eventually(lambda: proxy.process.poll() is not None, 20 * PATIENCE, 0.05)
    check("SIGTERM ends the process with it at work", ended and time.monotonic() - began < 10 * PATIENCE, time.monotonic() - began)
    reader.close()


def test_what_adopted_and_protected_tables_may_not_become(lab):
    path = f"{lab.folder}/tables.db"
    make(path, 5)
    lab.run(
        lab.termgate,
        "exec",
        "--db",
        f"sqlite:{path}",
        "--scope",
        "A",
        "--term",
        "5",
        "CREATE TABLE ad (s TEXT, t INTEGER)",
        "CREATE INDEX ad_st ON ad (s, t)",
        "CREATE TABLE pr (s TEXT, k TEXT, v TEXT)",
        "INSERT INTO pr VALUES ('B', 'k', 'of B')",
    )
    lab.run(lab.termgate, "adopt", "--db", f"sqlite:{path}", "ad", "--scope-column", "s", "--term-column", "t")
    lab.run(lab.termgate, "protect", "--db", f"sqlite:{path}", "pr", "--scope-column", "s")
    proxy = lab.proxy(f"sqlite:{path}")
    writer = session(proxy, 5)
    for sql in (
        "ALTER TABLE ad RENAME TO ad2",
        "ALTER TABLE Ad RENAME COLUMN t TO t2",
        "DROP TABLE ad",
        "ALTER TABLE pr RENAME TO pr2",
        "DROP TABLE pr",
        "DROP TABLE IF EXISTS pr",
    ):
        _, told = asked(writer, sql)
        check(f"refused: {sql}", told == "42501", told)
    for sql in ("ALTER TABLE pr ADD COLUMN more text", "ALTER TABLE t RENAME TO t2", "ALTER TABLE t2 RENAME TO t"):
        _, told = asked(writer, sql)
        check(f"passes: {sql}", told is None, told)
    _, told = asked(writer, "CREATE UNIQUE INDEX pr_k ON pr (k)")
    check("a unique index on a protected table", told is None, told)
    _, told = asked(writer, "INSERT OR REPLACE INTO pr (s, k, v) VALUES ('A', 'k', 'of A')")
    check("REPLACE removes no row of another scope by it", told in ("TG001", "TG002"), told)
    writer.ask("BEGIN")
    writer.ask("CREATE UNIQUE INDEX pr_v ON pr (v)")
    _, told = asked(writer, "INSERT OR REPLACE INTO pr (s, k, v) VALUES ('A', 'l', 'of B')")
    check("nor in the same transaction", told in ("TG001", "TG002"), told)
    writer.ask("ROLLBACK")
    file = sqlite3.connect(path)
    check("the row is there", file.execute("SELECT s, k, v FROM pr").fetchall() == [("B", "k", "of B")])
    file.close()
    writer.close()
    proxy.stop()
    done = [lab.run(lab.termgate, "doctor", "--db", f"sqlite:{path}", "--json")]
    check("and doctor finds the triggers as they should be", "its triggers do not match" not in done[0], done[0])
