#!/usr/bin/env python3
"""[F7] Whether a transaction may write is the server's word, through the proxy as without it.

  pytest tests/live/proxy/proxy_access_mode_test.py [--majors 13,18]

A database, a role or a server is made READ ONLY in each way that PostgreSQL knows, before the login or under an open session. A session
with a term, of an ordinary role, must then get the same answers to the same statements through the proxy and directly: codes, tags and
rows. The same on a hot standby, and after it was promoted under the open session.
"""
import subprocess
import time

import pytest

import given
from pgraw import Connection, bind, describe, execute, parse, query, sync
from proxy_under_test import Server, proxy

PLAIN_SHARE = 4
MAJORS = given.majors("15")
NAME = "default_transaction_read_only"
SCOPE = "mode"
TERM = 5

DATABASE = "access_mode"
SCHEMA = f"""
CREATE TABLE mode_t (a int);
GRANT ALL ON mode_t TO mode_user;
CREATE FUNCTION mode_set(v text) RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('{NAME}', v, false); END$$;
CREATE FUNCTION mode_write() RETURNS void LANGUAGE plpgsql AS $$BEGIN INSERT INTO mode_t VALUES (3); END$$;
"""


def simple(texts):
    """A query of each of the texts between the bars."""
    return [query(text) for text in texts.split(" | ")]


def extended(*texts):
    """One pipeline."""
    return b"".join(parse("", sql) + describe("S") + bind() + execute() for sql in texts) + sync()


INSERT = "INSERT INTO mode_t VALUES (1)"
READ_ONLY = "SHOW transaction_read_only"
PROBES = {
    "show": simple(f"SHOW {NAME} | {READ_ONLY} | SHOW transaction_isolation"),
    "show in a text": simple(f"SELECT 1; SHOW {NAME}; {READ_ONLY}"),
    "show, extended": [extended(f"SHOW {NAME}"), extended(READ_ONLY), extended(f"SHOW {NAME}", READ_ONLY)],
    "write": [*simple(INSERT), extended(INSERT), extended("SELECT 1", INSERT)],
    "text": simple(f"SELECT 1; {INSERT}"),
    "block": simple(f"BEGIN | {READ_ONLY} | {INSERT} | {READ_ONLY} | ROLLBACK"),
    "block, extended": [*simple("BEGIN"), extended(READ_ONLY), extended(INSERT), extended(READ_ONLY), *simple("ROLLBACK")],
    "read first": simple(f"BEGIN | SELECT count(*) FROM mode_t WHERE false | {INSERT} | COMMIT"),
    "read write": simple(f"BEGIN READ WRITE | {READ_ONLY} | {INSERT} | ROLLBACK"),
    "read only": simple(f"BEGIN READ ONLY | {READ_ONLY} | {INSERT} | ROLLBACK"),
    "characteristics": simple(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ | SHOW default_transaction_isolation | BEGIN | SHOW"
        f" transaction_isolation | {INSERT} | ROLLBACK | RESET default_transaction_isolation"
    ),
    "code": simple("DO $$BEGIN INSERT INTO mode_t VALUES (2); END$$ | SELECT mode_write()"),
    "set on": simple(f"SET {NAME} = on | SHOW {NAME} | {INSERT} | BEGIN READ WRITE | {INSERT} | ROLLBACK"),
    "set off": simple(f"SET {NAME} = off | SHOW {NAME} | {INSERT}"),
    "set characteristics": simple(
        f"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY | SHOW {NAME} | {INSERT} | SET SESSION CHARACTERISTICS AS TRANSACTION READ"
        f" WRITE | SHOW {NAME} | {INSERT}"
    ),
    "reset": simple(f"SET {NAME} = on | RESET {NAME} | SHOW {NAME} | {INSERT}"),
    "to default": simple(f"SET {NAME} = on | SET {NAME} TO DEFAULT | SHOW {NAME} | {INSERT}"),
    "reset all": simple(f"SET {NAME} = off | RESET ALL | SHOW {NAME} | {READ_ONLY}"),
    "off in a block that fails": simple(f"BEGIN | SET {NAME} = off | ROLLBACK | SHOW {NAME} | {INSERT}"),
}


class Session:
    def __init__(self, port, more=None, options=""):
        options = f"-c termgate.scope={SCOPE} -c termgate.term={TERM} {options}"
        self.connection = Connection(port, user="mode_user", database=DATABASE, parameters=[("options", options), *(more or {}).items()])
        self.parameters = {name: value for name, value in self.connection.parameters.items() if name == NAME}

    def answers(self, probe):
        out = []
        for sent in probe:
            self.connection.send(sent)
            out.append([seen(message) for message in self.connection.until("Z")])
        return out


def seen(message):
    """Type, and what of it a client acts on."""
    if message.type in "EN":
        return message.type, message.fields().get("C"), message.fields().get("M")
    return message.type, message.body


def admin(server, *texts, database=DATABASE):
    with Connection(server.port, database=database) as c:
        for sql in texts:
            c.rows(sql)


@pytest.fixture(scope="module", params=MAJORS)
def rig(request):
    server = Server(request.param)
    texts = ["DROP ROLE IF EXISTS mode_user", "CREATE ROLE mode_user LOGIN", f"CREATE DATABASE {DATABASE}"]
    admin(server, f"DROP DATABASE IF EXISTS {DATABASE}", *texts, database="postgres")
    admin(server, *[one for one in SCHEMA.split(";\n") if one.strip()])
    url = server.url_of(DATABASE)
    subprocess.run([given.TERMGATE, "init", "--db", url, "--grant", "mode_user=write"], check=True, capture_output=True)
    return server, proxy(server, database=DATABASE)


def at_login(sql, undo):
    return lambda server: (admin(server, sql), lambda: admin(server, f"SET {NAME} = off", undo))


def by_system(value="on"):
    def act(server):
        def reload(text):
            admin(server, f"SET {NAME} = off", text, "SELECT pg_reload_conf()")
            time.sleep(0.5)

        reload(f"ALTER SYSTEM SET {NAME} = {value}")
        return None, lambda: reload(f"ALTER SYSTEM RESET {NAME}")

    return act


nothing = lambda server: (None, lambda: None)
WAYS = {
    "nothing": nothing,
    "database": at_login(f"ALTER DATABASE {DATABASE} SET {NAME} = on", f"ALTER DATABASE {DATABASE} RESET {NAME}"),
    "role": at_login(f"ALTER ROLE mode_user SET {NAME} = on", f"ALTER ROLE mode_user RESET {NAME}"),
    "role in database": at_login(
        f"ALTER ROLE mode_user IN DATABASE {DATABASE} SET {NAME} = on", f"ALTER ROLE mode_user IN DATABASE {DATABASE} RESET {NAME}"
    ),
    "system": by_system(),
    "level of the role": at_login(
        "ALTER ROLE mode_user SET default_transaction_isolation = 'serializable'",
        "ALTER ROLE mode_user RESET default_transaction_isolation",
    ),
    "deferrable of the database": at_login(
        f"ALTER DATABASE {DATABASE} SET default_transaction_deferrable = on",
        f"ALTER DATABASE {DATABASE} RESET default_transaction_deferrable",
    ),
}
AT_START = {
    "nothing": ({}, ""),
    "options on": ({}, f"-c {NAME}=on"),
    "options with dashes": ({}, "--default-transaction-read-only=ON"),
    "options off": ({}, f"-c {NAME}=off"),
    "parameter on": ({NAME: "on"}, ""),
    "parameter in capitals": ({"Default_Transaction_Read_Only": "tr"}, ""),
}


def compare(server, port, more, options, what):
    different = []
    for name, probe in PROBES.items():
        direct, through = Session(server.port, more, options), Session(port, more, options)
        assert direct.parameters == through.parameters, what
        asked, answered = direct.answers(probe), through.answers(probe)
        different += [f"{what}, {name}:\n  direct  {one}\n  through {other}" for one, other in zip(asked, answered) if one != other]
    assert not different, "\n".join(different)


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_was_made_read_only_is_read_only_through_the_proxy(rig, way):
    server, port = rig
    _, undo = WAYS[way](server)
    try:
        for start, (more, options) in AT_START.items():
            if way in ("nothing", "database", "system") or start in ("nothing", "options off"):
                compare(server, port, more, options, (way, start))
    finally:
        undo()


@pytest.mark.parametrize("start", ["nothing", "options on", "options off"])
def test_a_reload_reaches_an_open_session(rig, start):
    server, port = rig
    more, options = AT_START[start]
    probes = ["write", "show", "block", "show, extended", "write", "text"]
    direct, through = (Session(p, more, options) for p in (server.port, port))
    for act in (None, by_system(), None):
        undo = act(server)[1] if act else lambda: None
        try:
            for name in probes:
                assert direct.answers(PROBES[name]) == through.answers(PROBES[name]), (act is not None, name)
        finally:
            undo()


CODE = {
    "function on": f"SELECT mode_set('on')",
    "function off": f"SELECT mode_set('off')",
    "set_config on": f"SELECT set_config('{NAME}', 'on', false)",
    "set_config off": f"SELECT set_config('{NAME}', 'off', false)",
    "do on": f"DO $$BEGIN PERFORM set_config('{NAME}', 'on', false); END$$",
    "do off": f"DO $$BEGIN SET {NAME} = off; END$$",
}


@pytest.mark.parametrize("way", ["nothing", "role"])
@pytest.mark.parametrize("code", CODE)
def test_code_that_sets_the_default(rig, way, code):
    server, port = rig
    _, undo = WAYS[way](server)
    try:
        for sent in (query(CODE[code]), extended(CODE[code])):
            direct, through = Session(server.port), Session(port)
            for one in (direct, through):
                one.answers([sent])
            for name in ("write", "show", "block"):
                assert direct.answers(PROBES[name]) == through.answers(PROBES[name]), (way, code, name)
    finally:
        undo()


def test_a_login_trigger_may_set_it(rig):
    server, port = rig
    if int(server.major) < 17:
        pytest.skip("login triggers came with PostgreSQL 17")
    admin(
        server,
        (
            "CREATE FUNCTION mode_login() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN IF session_user = 'mode_user' THEN"
            f" INSERT INTO mode_t VALUES (9); PERFORM set_config('{NAME}', 'on', false); END IF; END$$"
        ),
        "CREATE EVENT TRIGGER mode_trigger ON login EXECUTE FUNCTION mode_login()",
        "ALTER EVENT TRIGGER mode_trigger ENABLE ALWAYS",
    )
    try:
        compare(server, port, {}, "", "login trigger")
    finally:
        admin(server, "DROP EVENT TRIGGER mode_trigger", "DROP FUNCTION mode_login()")
