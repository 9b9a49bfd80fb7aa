#!/usr/bin/env python3
"""The front of an SQLite file in service: its file is moved, removed or replaced under it [F2][F5].

    lite_service_test.py TERMGATE
"""
import os
import shutil
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from proxy_lab import SANITIZED, Lab, Refused, Wire, declared, eventually  # noqa: E402

PATIENCE = 4 if SANITIZED else 1
lab = Lab("lite-service", os.path.abspath(sys.argv[1]), "")
check = lab.check


def make(path, term):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    lab.run(lab.termgate, "exec", "--db", f"sqlite:{path}", "--scope", "A", "--term", str(term), "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")


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


def file_cases():
    for name, change, made_anew in (("moved away", moved, False), ("removed", remove_all, False), ("renamed over", renamed_over, True), ("a link in its place", linked, True), ("its folder moved", folder_moved, False)):
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
                there = [row[0] for row in left_file.execute("SELECT v FROM t")] if left_file.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchone() else []
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


def log_removed():
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


def older_copy():
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
    check("older copy: a higher one writes", insert(fresh, "ten") is None)
    check("older copy: nothing else was written", rows(path) == ["ten"], rows(path))
    for wire in (leader, fresh, *([stale] if stale else [])):
        wire.close()
    proxy.stop()


try:
    file_cases()
    log_removed()
    older_copy()
finally:
    status = lab.conclude()
sys.exit(status)
