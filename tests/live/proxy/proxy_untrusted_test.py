#!/usr/bin/env python3
"""[F3] A database that shows a lower fence than the proxy has seen: TG004 for whatever term, until an operator or a
higher fence has settled it.

  pytest tests/live/proxy/proxy_untrusted_test.py

What a restore from a storage snapshot does is done by a superuser, who puts the row of `fences` back and ends the
server's sessions; the database itself cannot know. Before it, under it and behind each way out of it a client writes
through the proxy, in each of the protocols.
"""
import pytest

from checks import check, eventually
from proxy_lab import SYNC, Wire, bind, declared, execute, parse

INSERT = "INSERT INTO written VALUES ('untrusted')"


def written(server):
    return int(server.sql("SELECT count(*) FROM written")[0])


def code(error):
    return error["C"] if error else None


def put_back(server, scope, term):
    """The row as it was before a raise that the restored database has lost."""
    server.sql(
        f"ALTER TABLE termgate.fences DISABLE TRIGGER ALL; UPDATE termgate.fences SET term = {term} WHERE scope = '{scope}'; ALTER TABLE"
        " termgate.fences ENABLE TRIGGER ALL"
    )
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")


def answer(proxy, scope, term, text=INSERT):
    client = Wire(proxy.port, **declared(scope, term))
    try:
        return code(client.ask(text)[1])
    finally:
        client.close()


def untrusted(server, proxy, scope):
    """A proxy that has seen 9 before a database that shows 5."""
    server.sql(f"SELECT termgate.seal('{scope}', 5)")
    check(f"{scope}: term 9 writes", answer(proxy, scope, 9) is None)
    put_back(server, scope, 5)
    check(f"{scope}: term 7 gets TG004 when the proxy has looked", eventually(lambda: answer(proxy, scope, 7) == "TG004", 40, 0.1))


@pytest.fixture(scope="module")
def proxy(lab, server):
    server.sql("CREATE TABLE written (what text)")
    return lab.proxy(server.url)


def test_every_term_and_every_protocol_gets_tg004_until_a_reset_settles_it(lab, server, proxy):
    untrusted(server, proxy, "simple")
    before = written(server)
    for term in (5, 7, 9, 10):
        check(f"term {term} is refused", answer(proxy, "simple", term) == "TG004")
    check("also a text of several", answer(proxy, "simple", 9, f"{INSERT}; {INSERT}") == "TG004")
    check("and what must run alone", answer(proxy, "simple", 9, "VACUUM written") == "TG004")
    client = Wire(proxy.port, **declared("simple", 9))
    client.send(parse("", INSERT), bind("", ""), execute(), SYNC)
    check("and a pipeline", code(client.until("Z")[1]) == "TG004")
    rows, error = client.ask("SELECT count(*) FROM written")
    check("reads go on", error is None and rows == [str(before)])
    client.ask("BEGIN")
    check("and a block's write is refused", code(client.ask(INSERT)[1]) == "TG004" and client.status == "E")
    client.ask("ROLLBACK")
    client.close()
    undeclared = Wire(proxy.port)
    undeclared.ask("SET termgate.scope = 'simple'")
    undeclared.ask("SET termgate.term = '10'")
    check("and a declaration that only the server knows", code(undeclared.ask(INSERT)[1]) == "TG004")
    check("and a check that the client runs itself", code(undeclared.ask("SELECT termgate.check_term('simple', 10)")[1]) == "TG004")
    undeclared.close()
    check("another scope is not untrusted", answer(proxy, "another", 1) is None)
    check("nothing of it was written", written(server) == before + 1)

    # The first way out: an audited reset.
    lab.run(lab.termgate, "fence", "reset", "--db", server.url, "--scope", "simple", "--term", "4", "--reason", "restored")
    check("a reset settles it", eventually(lambda: answer(proxy, "simple", 5) is None, 40, 0.1))


def test_a_higher_fence_settles_it(server, proxy):
    untrusted(server, proxy, "raised")
    server.sql("SELECT termgate.seal('raised', 10)")
    check(
        "a higher fence settles it",
        eventually(lambda: answer(proxy, "raised", 10) is None, 40, 0.1) and answer(proxy, "raised", 9) == "TG001",
    )
