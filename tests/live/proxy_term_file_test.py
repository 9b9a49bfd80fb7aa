#!/usr/bin/env python3
"""[F2][F6] A session under a rule with a file, and what becomes of that file while the session is there: it is asked
at the begin of every transaction.

  proxy_term_file_test.py TERMGATE PG_SERVER_SH

An elector that takes its file away, breaks it, lets it fall back or names another scope or term in it stops the
writes of connections that have written before, as those of a pool have. Whatever happens to the file afterwards, a
session keeps the first term that it had.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from proxy_lab import SYNC, Lab, Wire, bind, eventually, execute, parse  # noqa: E402

lab = Lab("term-file", os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
INSERT = "INSERT INTO written VALUES ('x')"
WAYS = {
    "simple": lambda client: client.ask(INSERT)[1],
    "extended": lambda client: (client.send(parse("", INSERT), bind("", ""), execute(), SYNC), client.until("Z")[1])[1],
    "a block": lambda client: block(client),
    "a text of two": lambda client: client.ask(f"{INSERT}; {INSERT}")[1],
}


def block(client):
    errors = [client.ask(text)[1] for text in ("BEGIN", INSERT, "COMMIT")]
    if client.status != "I":
        client.ask("ROLLBACK")
    return next((error for error in errors if error), None)


def main():
    server = lab.server("15")
    server.sql("CREATE TABLE written (what text)")
    file, rules = os.path.join(lab.folder, "term"), os.path.join(lab.folder, "rules")

    def put(text):
        with open(file + ".new", "w") as new:
            new.write(text)
        os.rename(file + ".new", file)

    with open(rules, "w") as new:
        new.write(f"[rule elected]\nfile = {file}\n")
    proxy = lab.proxy(server.url, "--rules", rules)
    term = 100
    changes = (
        ("is taken away", lambda: os.remove(file), "TG002", "is not there"),
        ("is broken", lambda: put("garbage"), "TG005", "malformed"),
        ("is emptied", lambda: put(""), "TG005", "malformed"),
        ("falls back", lambda: put(f"scope=keep term={term - 1}\n"), "TG001", "fell back"),
        ("names another scope", lambda: put("scope=other term=5\n"), "TG001", "connect"),
        ("names a higher term", lambda: put(f"scope=keep term={term + 1}\n"), "TG001", "connect"),
        ("is a folder", lambda: (os.remove(file), os.mkdir(file)), "TG005", "cannot be read"),
    )
    for what, change, code, says in changes:
        put(f"scope=keep term={term}\n")

        def in_force():
            fresh = Wire(proxy.port)
            fresh.ask(INSERT)
            fresh.close()
            return server.sql("SELECT term FROM termgate.fences WHERE scope = 'keep'") == [str(term)]

        lab.check(f"before it {what}: term {term} writes", eventually(in_force, 5, 0.1))
        clients = {way: Wire(proxy.port) for way in WAYS}
        lab.check(f"before it {what}: the pool has written", all(WAYS[way](client) is None for way, client in clients.items()))
        open_one = Wire(proxy.port)
        open_one.ask("BEGIN")
        lab.check(f"before it {what}: a block is open", open_one.ask(INSERT)[1] is None)
        change()
        time.sleep(0.6)  # it is looked at every 200 ms
        before = server.sql("SELECT count(*) FROM written")
        for way, client in clients.items():
            for attempt in (1, 2):
                error = WAYS[way](client)
                lab.check(
                    f"the file {what}: {way}, attempt {attempt}, gets {code}", error and error["C"] == code and says in error["M"], error
                )
        lab.check(f"the file {what}: nothing was written", server.sql("SELECT count(*) FROM written") == before)
        lab.check(f"the file {what}: they read", all(client.ask("SELECT 1")[0] == ["1"] for client in clients.values()))
        lab.check(f"the file {what}: a transaction that had begun before may end", open_one.ask("COMMIT")[1] is None)
        if os.path.isdir(file):
            os.rmdir(file)
        # Back as it was, a session goes on; with a higher term it keeps its own, which is stale.
        if what in ("is taken away", "is broken", "is emptied", "is a folder"):
            put(f"scope=keep term={term}\n")
            lab.check(
                f"the file {what}: and is back",
                eventually(lambda: WAYS["simple"](clients["simple"]) is None, 3, 0.1),
                WAYS["simple"](clients["simple"]),
            )
        for client in (*clients.values(), open_one):
            client.close()
        term += 2
    proxy.stop()


try:
    main()
except BaseException:
    lab.failures.append("broken off")
    lab.close()
    raise
sys.exit(lab.conclude())
