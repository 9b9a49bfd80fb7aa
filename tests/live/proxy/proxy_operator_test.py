#!/usr/bin/env python3
"""What an operator of the proxy is told, and what becomes of sessions whose term is stale.

  pytest tests/live/proxy/proxy_operator_test.py [--majors 13,18]

Clients log in as roles of their own, `op_app` (level write) and `op_legacy` (none), the proxy as `termgate_proxy` (level lead): the roles
of docs/use/proxy.md.
"""
import os
import re
import subprocess
from collections import Counter

import pytest

import given
from checks import eventually
from pgraw import Closed, Connection, Silent, bind, close, describe, execute, extended, parse, query, sync
from proxy_under_test import Server

MAJORS = given.majors("15", "13,14,15,16,17,18")
DATABASE = "operator"


class Proxy:
    """A proxy of proxy_lab.py; options by name, `rules` and `config` as text."""

    def __init__(self, server, rules="", config="", **options):
        self.config = self.file(server, "conf", config)
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        rules = self.file(server, "rules", rules)
        self.made = server.lab.proxy(server.proxy_url, "--config", self.config, "--rules", rules, *words)
        self.port, self.metric, self.log = self.made.port, self.made.metric, self.made.log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.made.stop()

    @staticmethod
    def file(server, name, text):
        path = os.path.join(server.lab.folder, f"operator{next(server.lab.numbers)}.{name}")
        with open(path, "w") as file:
            file.write(text)
        return path

    def reload(self, config):
        with open(self.config, "w") as file:
            file.write(config)
        return self.made.reload()

    def would_refuse(self):
        """How often each code would have been the answer."""
        counts = Counter()
        for code, value in re.findall(r'^termgate_would_refuse_total{[^}]*code="(\w+)"[^}]*} (\S+)$', self.made.get("/metrics")[1], re.M):
            counts[code] += int(float(value))
        return +counts


@pytest.fixture(scope="module", params=MAJORS)
def server(request):
    server = Server(request.param)
    with Connection(server.port) as c:
        c.rows(f"DROP DATABASE IF EXISTS {DATABASE}")
        for role in ("op_app", "op_legacy", "termgate_proxy"):
            c.rows(f"DROP ROLE IF EXISTS {role}")
            c.rows(f"CREATE ROLE {role} LOGIN")
        c.rows(f"CREATE DATABASE {DATABASE}")
    with Connection(server.port, database=DATABASE) as c:
        c.rows("CREATE TABLE op_t (a int)")
        c.rows("GRANT ALL ON op_t TO op_app, op_legacy")
    server.install(server.url_of(DATABASE))
    grant = ["--grant", "termgate_proxy=lead", "--grant", "op_app=write"]
    subprocess.run([given.TERMGATE, "init", "--db", server.url_of(DATABASE), *grant], check=True, capture_output=True)
    server.proxy_url = server.url_of(DATABASE).replace("postgres@", "termgate_proxy@")
    return server


def session(port, user="op_app", scope=None, term=None, **more):
    options = f"-c termgate.scope={scope} -c termgate.term={term}" if scope else ""
    return Connection(port, user=user, database=DATABASE, parameters=[("options", options)] if options else (), **more)


def raise_fence(server, scope, term):
    with session(server.port, user="postgres") as c:
        c.rows(f"SELECT termgate.check_term('{scope}', {term})")


def code_of(answer):
    return next((message.fields()["C"] for message in answer if message.type == "E"), None)


# --- observe ---

INSERT = "INSERT INTO op_t VALUES (1)"
STATEMENTS = {
    "insert": query(INSERT),
    "insert, extended": extended(INSERT) + sync(),
    "update": query("UPDATE op_t SET a = 2 WHERE false"),
    "text": query(f"SELECT 1; {INSERT}"),
    "read": query("SELECT count(*) FROM op_t"),
    "set": query("SET work_mem = '1MB'"),
    "ddl": query("CREATE TABLE IF NOT EXISTS op_t (a int)"),
    "do": query("DO $$BEGIN INSERT INTO op_t VALUES (1); END$$"),
}
CLAIMS = {"none": (None, None), "stale": ("op_seen", 3), "current": ("op_seen", 7)}


@pytest.mark.parametrize(
    "claim, user, without_term",
    (
        ("none", "op_app", "allow"),
        ("none", "op_legacy", "read-only"),
        ("stale", "op_app", "read-only"),
        ("stale", "op_legacy", "allow"),
        ("current", "op_app", "allow"),
        ("current", "op_legacy", "read-only"),
    ),
)
def test_observe_counts_what_enforcing_refuses(server, claim, user, without_term):
    raise_fence(server, "op_seen", 7)
    with Proxy(server, without_term=without_term) as on, Proxy(server, without_term=without_term, enforce="observe") as sees:
        for proxy in (on, sees):
            assert not proxy.would_refuse()
            assert eventually(lambda: proxy.metric("termgate_fences_watched") == 1)  # both know the fence
        assert on.metric("termgate_enforcing") == 1 and sees.metric("termgate_enforcing") == 0
        refused = Counter()
        for name, sent in STATEMENTS.items():
            # Of a text that has read first, the mode of its transaction is fixed before the check could be called.
            if name == "text" and (claim, user) == ("none", "op_legacy"):
                continue
            for proxy in (on, sees):
                with session(proxy.port, user, *CLAIMS[claim]) as c:
                    c.rows("SELECT 1")
                    c.send(sent)
                    code = code_of(c.until("Z"))
                    if proxy is on and code:
                        refused[code] += 1
                    elif proxy is sees:
                        assert code in (None, "42501", "42P07"), code  # the server's own word about the table
        seen = sees.would_refuse()
        ours = Counter({code: count for code, count in refused.items() if code.startswith("TG") or seen[code]})
        assert seen == ours, (seen, refused)


def test_observe_takes_no_lease(server):
    rules = "[rule all]\nlease = op_observed\n"
    with Proxy(server, rules, enforce="observe") as proxy, session(proxy.port) as c:
        assert code_of(c.query(INSERT)) is None
        with session(server.port, user="postgres") as own:
            assert own.rows("SELECT count(*) FROM termgate.fences WHERE scope = 'op_observed'") == [["0"]]
        assert proxy.metric("termgate_leases_held") == 0
        assert not proxy.would_refuse()


def test_a_reload_says_what_needs_a_restart(server):
    with Proxy(server, config="enforce = observe\nmax-connections = 100\n") as proxy:
        proxy.reload("enforce = on\nwithout-term = allow\nmax-connections = 50\n")
        assert proxy.made.logged(r'reload_needs_restart options="without-term, enforce"'), proxy.log()
        figures = [proxy.metric(f"termgate_{name}") for name in ("reload_needs_restart", "enforcing", "connections_limit")]
        assert figures == [2, 0, 50]
        proxy.reload("enforce = observe\nmax-connections = 50\n")
        assert eventually(lambda: proxy.metric("termgate_reload_needs_restart") == 0)


# --- a term that has become stale ---


def ends(connection, wait=10.0):
    """The code and message of the FATAL that ends it; None: it goes on."""
    messages = []
    try:
        while True:
            messages.append(connection.read(wait))
    except Closed:
        last = [message for message in messages if message.type == "E"][-1].fields()
        return last["C"], last["M"], [message.type for message in messages]
    except Silent:
        return None


SENT = {
    "idle": [],
    "write": [query(INSERT)],
    "write, extended": [extended(INSERT) + sync()],
    "pipeline": [extended("SELECT 1") + extended(INSERT) + sync()],
    "text": [query(f"SELECT 1; {INSERT}")],
    "block that has written": [query("BEGIN"), query(INSERT)],
}


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("rule", ["on-stale = disconnect", ""])
def test_a_stale_session_ends_or_gets_errors(server, sent, rule):
    scope = f"op_{'end' if rule else 'error'}_{list(SENT).index(sent)}"
    with session(server.port, user="postgres") as c:
        c.rows(f"SELECT termgate.check_term('{scope}', coalesce((SELECT max(term) FROM termgate.fences WHERE scope = '{scope}'), 4) + 1)")
        term = int(c.value(f"SELECT term FROM termgate.fences WHERE scope = '{scope}'"))
    rules = f"[rule all]\nscope = {scope}\nterm = {term}\n{rule}\n"
    with Proxy(server, rules) as proxy, session(proxy.port) as c:
        assert code_of(c.query(INSERT)) is None
        for one in SENT[sent] if sent.startswith("block") else ():
            c.send(one)
            assert code_of(c.until("Z")) is None
        raise_fence(server, scope, term + 1)
        if rule:
            if not sent.startswith("block"):
                for one in SENT[sent]:
                    c.socket.sendall(one)
            code, message, kinds = ends(c)
            # The raise itself may have ended the session of an open transaction before the proxy did.
            evicted = sent.startswith("block") and message.startswith("terminating connection")
            assert code == "57P01" and (evicted or message.startswith(f'TG001 stale term {term} for scope "{scope}"')), message
            assert "Z" not in kinds and not (sent == "write" and "C" in kinds), kinds
        elif not sent.startswith("block"):
            assert code_of(c.query(INSERT)) == "TG001"
            assert ends(c, 0.5) is None


def test_a_pool_of_a_lease_rule_connects_again(server):
    with Proxy(server, "[rule all]\nlease = op_lease\nttl = 2 s\n") as proxy:
        old = session(proxy.port)
        assert code_of(old.query(INSERT)) is None
        force = [given.TERMGATE, "lease", "force-release", "--scope", "op_lease", "--reason", "test", "--db", server.url_of(DATABASE)]
        subprocess.run(force, check=True, capture_output=True)
        new = session(proxy.port)
        assert eventually(lambda: code_of(new.query(INSERT)) is None, 15)
        assert ends(old)[0] == "57P01"
        assert code_of(new.query(INSERT)) is None


# --- names that are not there ---

UNKNOWN = {
    "bind": bind("", "nosuch") + execute() + sync(),
    "describe": describe("S", "nosuch") + sync(),
    "bind after a read": parse("", "SELECT 1") + bind() + execute() + bind("", "nosuch") + execute() + sync(),
    "execute": query("EXECUTE nosuch"),
    "execute with values": query("EXECUTE nosuch(1, 'a')"),
    "explain execute": query("EXPLAIN EXECUTE nosuch"),
    "execute by parse": extended("EXECUTE nosuch") + sync(),
    "deallocate": query("DEALLOCATE nosuch"),
    "portal": execute("nosuch") + sync(),
    "unnamed portal": execute("") + sync(),
    "describe a portal": describe("P", "nosuch") + sync(),
    "close": close("S", "nosuch") + close("P", "nosuch") + sync(),
    "fetch": query("FETCH nosuch"),
}
BEFORE = {
    "nothing": [],
    "block": [query("BEGIN")],
    "discard all": [parse("nosuch", INSERT) + sync(), query("DISCARD ALL")],
    "deallocate all": [parse("nosuch", INSERT) + sync(), query("DEALLOCATE ALL")],
    "deallocate": [query("PREPARE nosuch AS " + INSERT), query("DEALLOCATE nosuch")],
    "close": [parse("nosuch", INSERT) + sync(), close("S", "nosuch") + sync()],
}


@pytest.mark.parametrize("claim", ["none", "stale"])
def test_a_name_that_is_not_there(server, claim):
    """With a current term: proxy_difference_test.py."""
    raise_fence(server, "op_seen", 7)
    different = []
    with Proxy(server) as proxy:
        assert eventually(lambda: proxy.metric("termgate_fences_watched") == 1)
        for before, first in BEFORE.items():
            for name, sent in UNKNOWN.items():
                answers = []
                for port in (server.port, proxy.port):
                    with session(port, "op_app", *CLAIMS[claim]) as c:
                        for one in first:
                            c.send(one)
                            c.until("Z")
                        c.send(sent)
                        answers.append(
                            [(m.type, m.fields()["C"], m.fields()["M"]) if m.type == "E" else (m.type, m.body) for m in c.until("Z")]
                        )
                if answers[0] != answers[1]:
                    different.append(f"{before}, {name}:\n  direct  {answers[0]}\n  through {answers[1]}")
    assert not different, "\n".join(different)


def test_a_file_that_cannot_be_read_says_why():
    for arguments in (["status", "--db-file"], ["proxy", "--listen", "127.0.0.1:0", "--backend-file"]):
        done = subprocess.run([given.TERMGATE, *arguments, "/nonexistent/url"], capture_output=True, text=True)
        assert done.returncode == 2 and "No such file or directory" in done.stderr, done.stderr
