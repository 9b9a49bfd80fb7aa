#!/usr/bin/env python3
"""Replication connections that the operator lets through: subscriptions work, and no SQL in them writes.

  pytest tests/live/proxy/proxy_replication_test.py [--long | --majors 15] [-k subscription]

The server takes no extended protocol in such a connection, so no check can stand in front of a write there. What is refused and what
passes is in tests/unit/proxy/postgres/login.cpp. Whether something was written, a superuser's direct connection says.
"""
import os

import pytest

import given
from checks import check, eventually
from proxy_lab import Wire, declared, query, refusal

PLAIN_SHARE = 2
WRITES = [
    "INSERT INTO t VALUES (1)",
    "SELECT * FROM opens; COMMIT; SELECT * FROM writer",
    "BEGIN; SET TRANSACTION READ WRITE; INSERT INTO t VALUES (3); COMMIT",
    "SELECT writes(4)",
    "SELECT lo_create(4711)",
    "COPY t FROM STDIN",
    "CREATE TABLE u (a int)",
]
READS = ["SELECT count(*) FROM t", "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "COPY t TO STDOUT", "COMMIT", "IDENTIFY_SYSTEM"]


def refused(proxy, text, **parameters):
    """The error that ends the connection, or None."""
    return refusal(lambda: Wire(proxy.port, user="repl", replication="database", **parameters).ask(text))


def state(server):
    return server.sql(
        "SELECT (SELECT count(*) FROM t) || ' ' || (SELECT count(*) FROM pg_largeobject_metadata) || ' ' || (SELECT count(*) FROM pg_class"
        " WHERE relname = 'u')"
    )


@pytest.fixture(scope="module", params=given.majors("13"))
def major(request):
    return request.param


@pytest.fixture(scope="module")
def server(lab, major):
    server = lab.server(major, "wal_level=logical")
    prepare(server)
    yield server
    server.stop()


def prepare(server):
    for text in (
        "CREATE ROLE repl LOGIN REPLICATION",
        "CREATE TABLE t (a int)",
        "GRANT ALL ON t TO repl",
        "SELECT termgate.seal('x', 5)",
        "CREATE FUNCTION writes(v int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (v) RETURNING a'",
        "CREATE VIEW opens AS SELECT set_config('default_transaction_read_only', 'off', false)",
        "GRANT SELECT ON opens TO repl",
        "CREATE VIEW writer AS SELECT writes(6)",
        "GRANT SELECT ON writer TO repl",
        "GRANT pg_read_all_data TO repl" if int(server.major) >= 14 else "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO repl",
    ):
        server.sql(text)


@pytest.mark.parametrize("mode", ("read-only", "reject", "allow"))
def test_no_sql_in_a_replication_connection_writes(mode, lab, server, major):
    proxy = lab.proxy(server.url, "--allow-replication", "--without-term", mode)
    before = state(server)
    for name, claim in (("without a term", {}), ("with a stale term", declared("x", 3)), ("with a term", declared("x", 5))):
        for text in WRITES:
            error = refused(proxy, text, **claim)
            check(f"{major} {mode} {name}: {text}", error and error["C"] == "0A000", error)
    check(f"{major} {mode}: nothing was written", state(server) == before, state(server))
    client = Wire(proxy.port, user="repl", replication="database")
    for text in READS:
        _, error = client.ask(text)
        check(f"{major} {mode}: {text}", error is None, error)
    # The server reads a backslash as the session starts it.
    for strings in ("on", "off"):
        one = Wire(proxy.port, user="repl", replication="database", options=f"-c standard_conforming_strings={strings}")
        refusal(lambda: one.ask("SELECT '\\'; INSERT INTO t VALUES (7); --'"))
        one.close()
    two = Wire(proxy.port, user="repl", replication="database")
    two.send(query("SELECT * FROM opens"), query("SELECT * FROM writer"))
    two.rest()
    two.close()
    check(f"{major} {mode}: nothing was written by what is hidden", state(server) == before, state(server))
    # A view of the owner's makes the session writable; up to 13 the server does not report it.
    client.send(query("SELECT * FROM opens"))
    ended = refusal(lambda: client.until("Z")) is not None
    check(f"{major} {mode}: what makes the session writable ends it", ended or major == "13")
    client.close()
    proxy.stop()


def test_a_subscription_works(lab, server, major):
    proxy = lab.proxy(server.url, "--allow-replication")
    server.sql("CREATE TABLE published (a int PRIMARY KEY, b text)")
    server.sql("INSERT INTO published SELECT g, 'row ' || g FROM generate_series(1, 500) g")
    server.sql("CREATE PUBLICATION p FOR TABLE published" + (" WHERE (a > 10)" if int(major) >= 15 else ""))
    server.sql("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    server.sql("CREATE DATABASE subscriber")
    there = Wire(server.port, database="subscriber")
    there.ask("CREATE TABLE published (a int PRIMARY KEY, b text)")
    _, error = there.ask(
        f"CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port={proxy.port} user=repl dbname=postgres' PUBLICATION p WITH (create_slot ="
        " false, slot_name = 's')"
    )
    check(f"{major}: CREATE SUBSCRIPTION", error is None, error)
    expected = "490" if int(major) >= 15 else "500"
    check(
        f"{major}: the initial copy arrives",
        eventually(lambda: there.ask("SELECT count(*) FROM published")[0] == [expected], 20, 0.1),
        there.ask("SELECT count(*) FROM published"),
    )
    server.sql("INSERT INTO published VALUES (5000, 'later')")
    check(f"{major}: later rows arrive", eventually(lambda: there.ask("SELECT b FROM published WHERE a = 5000")[0] == ["later"], 20, 0.1))
    for text in ("ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s"):
        there.ask(text)
    there.close()
    proxy.stop()


def test_physical_replication_connections_work(lab, server, major):
    """A base backup with the log streamed beside it: two physical replication connections."""
    proxy = lab.proxy(server.url, "--allow-replication")
    if major == "15":
        program = os.path.join(lab.run(lab.pg_server, "bin", "15"), "pg_basebackup")
        words = ["-h", "127.0.0.1", "-p", proxy.port, "-U", "repl", "-D", f"{lab.folder}/copy{major}", "-X", "stream", "--checkpoint=fast"]
        lab.run(program, *words, env={**os.environ, "PGPASSWORD": ""})
        check(f"{major}: pg_basebackup copies the server", os.path.exists(f"{lab.folder}/copy{major}/PG_VERSION"))
    client = Wire(proxy.port, user="repl", replication="true")
    rows, error = client.ask("IDENTIFY_SYSTEM")
    check(f"{major}: IDENTIFY_SYSTEM of a physical connection", error is None and len(rows) == 1, error)
    client.close()
    proxy.stop()
