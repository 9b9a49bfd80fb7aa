#!/usr/bin/env python3
"""[F2][F6] A session under a rule with a file, and what becomes of that file while the session is there: it is asked
at the begin of every transaction.

  pytest tests/live/proxy/proxy_term_file_test.py [-k broken]

An elector that takes its file away, breaks it, lets it fall back or names another scope or term in it stops the
writes of connections that have written before, as those of a pool have. Whatever happens to the file afterwards, a
session keeps the first term that it had.
"""
import os

import pytest

from checks import check, eventually
from proxy_lab import SYNC, Wire, bind, execute, parse

INSERT = "INSERT INTO written VALUES ('x')"
WAYS = {
    "simple": lambda client: client.ask(INSERT)[1],
    "extended": lambda client: (client.send(parse("", INSERT), bind("", ""), execute(), SYNC), client.until("Z")[1])[1],
    "a block": lambda client: next((error for error in [client.ask(text)[1] for text in ("BEGIN", INSERT, "ROLLBACK")] if error), None),
}


class Elector:
    """The file of a rule, a proxy with that rule, and the highest term that a test has used."""

    def __init__(self, lab, server):
        self.file = os.path.join(lab.folder, "term")
        rules = os.path.join(lab.folder, "rules")
        with open(rules, "w") as new:
            new.write(f"[rule elected]\nfile = {self.file}\n")
        server.sql("CREATE TABLE written (what text)")
        self.server, self.proxy, self.term = server, lab.proxy(server.url, "--rules", rules), 100

    def put(self, text):
        with open(self.file + ".new", "w") as new:
            new.write(text)
        os.rename(self.file + ".new", self.file)

    def in_force(self):
        fresh = Wire(self.proxy.port)
        fresh.ask(INSERT)
        fresh.close()
        return self.server.sql("SELECT term FROM termgate.fences WHERE scope = 'keep'") == [str(self.term)]

    def rows(self):
        return self.server.sql("SELECT count(*) FROM written")


@pytest.fixture(scope="module")
def elector(lab, server):
    return Elector(lab, server)


CHANGES = {
    "is taken away": (lambda elector: os.remove(elector.file), "TG002", "is not there"),
    "is broken": (lambda elector: elector.put("garbage"), "TG005", "malformed"),
    "is emptied": (lambda elector: elector.put(""), "TG005", "malformed"),
    "falls back": (lambda elector: elector.put(f"scope=keep term={elector.term - 1}\n"), "TG001", "fell back"),
    "names another scope": (lambda elector: elector.put("scope=other term=5\n"), "TG001", "connect"),
    "names a higher term": (lambda elector: elector.put(f"scope=keep term={elector.term + 1}\n"), "TG001", "connect"),
    "is a folder": (lambda elector: (os.remove(elector.file), os.mkdir(elector.file)), "TG005", "cannot be read"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_sessions_that_have_written_stop_when_the_file(what, elector):
    change, code, says = CHANGES[what]
    elector.term += 2
    elector.put(f"scope=keep term={elector.term}\n")
    check(f"before: term {elector.term} writes", eventually(elector.in_force, 5, 0.1))
    first, open_one, *_ = sessions = [Wire(elector.proxy.port) for _ in range(2 + len(WAYS))]
    clients = dict(zip(WAYS, sessions[2:]))
    check("before: the pool has written", all(WAYS[way](client) is None for way, client in clients.items()))
    open_one.ask("BEGIN")
    check("before: a block is open", open_one.ask(INSERT)[1] is None)
    change(elector)
    # The proxy looks at the file every 200 ms; this session finds out when it has.
    check("the proxy notices", eventually(lambda: (WAYS["simple"](first) or {"C": None})["C"] == code, 5, 0.02))
    before = elector.rows()
    for way, client in clients.items():
        error = WAYS[way](client)
        check(f"{way} gets {code}", error and error["C"] == code and says in error["M"], error)
    check("nothing was written", elector.rows() == before)
    check("they read", all(client.ask("SELECT 1")[0] == ["1"] for client in clients.values()))
    check("a transaction that had begun before may end", open_one.ask("COMMIT")[1] is None)
    if os.path.isdir(elector.file):
        os.rmdir(elector.file)
    # Back as it was, a session goes on; with a higher term it keeps its own, which is stale.
    if code in ("TG002", "TG005"):
        elector.put(f"scope=keep term={elector.term}\n")
        back = eventually(lambda: WAYS["simple"](clients["simple"]) is None, 3, 0.1)
        check("the file is back, and it writes", back, WAYS["simple"](clients["simple"]))
    for client in sessions:
        client.close()
