#!/usr/bin/env python3
"""Which server the proxy and its clients are with, and a hot standby behind it.

  pytest tests/live/proxy/proxy_servers_test.py [--majors 13,18]

The proxy's own connection and its clients' go to one server by the same rules, or the proxy does not start and says why. In front of a
hot standby a session gets what it gets directly, also after the standby was promoted while the session was open.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import given
from checks import eventually
from pgraw import Connection, bind, describe, execute, extended, parse, query, sync

PLAIN_SHARE = 3
MAJORS = given.majors("18")
NOBODY = "127.0.0.1:1"  # nothing listens there


class Pair:
    """A primary with layer 1, and a hot standby of it."""

    def __init__(self, lab, major):
        self.lab = lab
        primary = lab.server(major)
        with Connection(primary.port) as c:
            c.rows("CREATE TABLE t (a int)")
            c.rows("INSERT INTO t VALUES (1)")
            c.rows("CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'")
            c.rows("SELECT termgate.check_term('seen', 7)")
        # A copy of the files: not every major comes with pg_basebackup.
        lab.run(lab.pg_server, "stop", primary.folder, "fast")
        self.folders = [Path(primary.folder), Path(f"{primary.folder}-standby")]
        self.folders[1].mkdir()
        lab.run("cp", "-a", self.folders[0] / "data", self.folders[1] / "data")
        self.primary = lab.run(lab.pg_server, "start", major, self.folders[0], "fsync=off")
        with open(self.folders[1] / "data" / "postgresql.auto.conf", "a") as settings:
            settings.write(f"\nprimary_conninfo = 'host=127.0.0.1 port={port_of(self.primary)} user=postgres'\n")
        signal = self.folders[1] / "data" / "standby.signal"
        signal.touch()
        for path in (self.folders[1], signal):
            shutil.copymode(self.folders[0] if path.is_dir() else self.folders[0] / "data" / "PG_VERSION", path)
            owner = os.stat(self.folders[0] if path.is_dir() else self.folders[0] / "data")
            os.chown(path, owner.st_uid, owner.st_gid)
        self.standby = lab.run(lab.pg_server, "start", major, self.folders[1], "fsync=off")

    def promote(self):
        with Connection(port_of(self.standby)) as c:
            c.rows("SELECT pg_promote(true, 60)")
        # Layer 1 wants a word of the operator's after a promotion (F3).
        words = ["declare-restored", "--nothing-lost", "--reason", "planned", "--db", self.standby]
        self.lab.run(self.lab.termgate, "fence", *words)

    def stop(self):
        for folder in reversed(self.folders):
            subprocess.run([self.lab.pg_server, "stop", folder, "immediate"], check=False, capture_output=True)

    def place(self, which):
        return re.search(r"@([^/]*)/", getattr(self, which)).group(1)


def port_of(url):
    return int(re.search(r":(\d+)/", url).group(1))


@pytest.fixture(scope="module", params=MAJORS)
def pair(request, lab):
    pair = Pair(lab, request.param)
    yield pair
    pair.stop()


@pytest.fixture
def proxy_to(lab):
    """Starts proxies that end with the test."""
    started = []

    def start(backend, **environment):
        started.append(lab.proxy(backend, env={**os.environ, **environment}))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def login(port, term=None, scope="seen"):
    options = [("options", f"-c termgate.scope={scope} -c termgate.term={term}")] if term else []
    return Connection(port, parameters=options)


URLS = [
    # The URL's hosts, what follows them, the environment, and where everybody must be. P and S: primary and standby.
    ("P", "", {}, "primary"),
    ("S", "", {}, "standby"),
    ("S,P", "?target_session_attrs=primary", {}, "primary"),
    ("S,P", "?target_session_attrs=read-write", {}, "primary"),
    ("P,S", "?target_session_attrs=standby", {}, "standby"),
    ("P,S", "?target_session_attrs=read-only", {}, "standby"),
    ("P,S", "?target_session_attrs=prefer-standby", {}, "standby"),
    ("S,P", "?target_session_attrs=any", {}, "standby"),
    (f"{NOBODY},P", "", {}, "primary"),
    ("S,P", "", {"PGTARGETSESSIONATTRS": "read-write"}, "primary"),
    ("", "", {"PGHOST": "127.0.0.1", "PGPORT": "p"}, "primary"),
    ("127.0.0.1", "", {"PGPORT": "s"}, "standby"),
    ("", "?host=127.0.0.1&port=s", {}, "standby"),
    ("P", "?host=127.0.0.1&port=s", {}, "standby"),
    ("nosuchhost.invalid:p", "?hostaddr=127.0.0.1", {}, "primary"),
    ("", "?host=/socket&port=p", {}, "primary"),
]


@pytest.mark.parametrize("hosts, rest, environment, where", URLS)
def test_the_proxy_and_its_clients_are_with_one_server(pair, proxy_to, hosts, rest, environment, where):
    ports = {"p": str(port_of(pair.primary)), "s": str(port_of(pair.standby))}
    hosts = hosts.replace("P", pair.place("primary")).replace("S", pair.place("standby")).replace(":p", ":" + ports["p"])
    rest = rest.replace("port=p", "port=" + ports["p"]).replace("port=s", "port=" + ports["s"]).replace("/socket", str(pair.folders[0]))
    environment = {name: ports.get(value, value) for name, value in environment.items()}
    proxy = proxy_to(f"postgresql://postgres@{hosts}/postgres{rest}", **environment)

    def here():
        try:
            with Connection(proxy.port) as c:
                recovers = c.value("SELECT pg_is_in_recovery()")
                watches = c.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'termgate watch'")
        except Exception:  # no login yet
            return False
        return recovers == ("t" if where == "standby" else "f") and watches == "1"

    assert eventually(here, 10), proxy.log()


def test_a_failover_moves_the_clients(lab, proxy_to):
    pair = Pair(lab, "15")
    proxy = proxy_to(f"postgresql://postgres@{pair.place('primary')},{pair.place('standby')}/postgres?target_session_attrs=read-write")

    def writes(term):
        try:
            with login(proxy.port, term) as c:
                return all(message.type != "E" for message in c.query("INSERT INTO t VALUES (3)"))
        except Exception:  # the old server, or none yet
            return False

    try:
        assert eventually(lambda: writes(8), 10), proxy.log()
        lab.run(lab.pg_server, "stop", pair.folders[0], "immediate")
        pair.promote()
        assert eventually(lambda: writes(9), 20), proxy.log()
    finally:
        pair.stop()


REFUSED = [
    ("?service=app", {}, "service=app"),
    ("", {"PGSERVICE": "app"}, "PGSERVICE=app"),
    ("?requirepeer=postgres", {}, "requirepeer"),
    ("?channel_binding=require", {}, "channel_binding=require"),
    ("", {"PGCHANNELBINDING": "require"}, "PGCHANNELBINDING"),
    ("?gssencmode=require", {}, "gssencmode"),
    ("?sslcrl=/x", {}, "sslcrl"),
    ("?sslnegotiation=direct", {}, "sslnegotiation"),
    ("?ssl_max_protocol_version=TLSv1.2", {}, "ssl_max_protocol_version"),
    ("?sslmode=allow", {}, "sslmode=allow"),
    ("", {"PGSSLMODE": "allow"}, "sslmode=allow"),
    ("", {"PGSSLMODE": "verify-full"}, "sslrootcert"),
    ("", {"PGPORT": "nonsense"}, "port"),
]


@pytest.mark.parametrize("rest, environment, named", REFUSED)
def test_what_would_hold_for_one_of_them_only_is_refused_at_the_start(refused_start, rest, environment, named):
    said = refused_start(f"postgresql://x@127.0.0.1/app{rest}", env={**os.environ, **environment})
    assert "ended with 2" in said and "--backend" in said and named in said, said


def test_tls_of_the_environment_holds_for_clients_too(pair, proxy_to):
    with pytest.raises(Exception, match="08006|TLS|closed"):
        Connection(proxy_to(pair.primary, PGSSLMODE="require").port)


# --- a hot standby ---

ASKED = [
    query("SELECT count(*) FROM t"),
    query("SHOW transaction_read_only"),
    query("SHOW default_transaction_read_only"),
    query("SELECT reads()"),
    query("INSERT INTO t VALUES (5)"),
    extended("INSERT INTO t VALUES (5)") + sync(),
    query("SELECT 1; INSERT INTO t VALUES (5)"),
    query("BEGIN"),
    query("SELECT 1"),
    query("SHOW transaction_read_only"),
    query("SAVEPOINT a"),
    extended("SELECT reads()") + sync(),
    query("INSERT INTO t VALUES (5)"),
    query("ROLLBACK TO a"),
    query("COMMIT"),
    query("BEGIN READ WRITE"),
    query("ROLLBACK"),
    query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    query("SELECT count(*) FROM t"),
    query("COMMIT"),
    parse("p", "SELECT a FROM t") + describe("S", "p") + sync(),
    bind("", "p") + execute() + sync(),
    query("VACUUM t"),
    query("CREATE TABLE u (a int)"),
    query("NOTIFY c"),
    query("SET default_transaction_read_only = off"),
    query("INSERT INTO t VALUES (5)"),
]


def answers(connection, asked):
    out = []
    for sent in asked:
        connection.send(sent)
        out.append([(m.type, m.fields()["C"], m.fields()["M"]) if m.type in "EN" else (m.type, m.body) for m in connection.until("Z")])
    return out


@pytest.mark.parametrize("term", [None, 7, 8], ids=["no term", "the fence's term", "a new term"])
def test_a_standby_answers_as_directly(pair, proxy_to, term):
    with login(port_of(pair.standby), term) as direct, login(proxy_to(pair.standby).port, term) as through:
        different = []
        for sent in ASKED:
            one, other = answers(direct, [sent])[0], answers(through, [sent])[0]
            # Without a term a write is refused as everywhere; NOTIFY is a write that READ ONLY would not stop.
            refused = term is None and one[0][0] == "E" and other[0][0] == "E" and other[0][1] in ("TG002", "25P02")
            if one != other and not refused:
                different.append(f"{sent}:\n  direct  {one}\n  through {other}")
        assert not different, "\n".join(different)


def test_a_promotion_under_an_open_session(pair, proxy_to):
    sessions = [login(port_of(pair.standby), 9), login(proxy_to(pair.standby).port, 9)]
    insert, shows = query("INSERT INTO t VALUES (6)"), [query(f"SHOW {name}transaction_read_only") for name in ("", "default_")]
    one, other = (answers(c, [*shows, insert]) for c in sessions)
    assert one == other
    pair.promote()
    one, other = ([[m for m in answer if m[0] != "S"] for answer in answers(c, [insert, *shows])] for c in sessions)
    assert one[0][0] == ("C", b"INSERT 0 1\0"), one
    assert other[0][0] == one[0][0], other
    assert [rows[1] for rows in other[1:]] == [rows[1] for rows in one[1:]], (one, other)
