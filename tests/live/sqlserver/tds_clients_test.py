#!/usr/bin/env python3
"""[F7] Real clients of SQL Server through `termgate proxy --backend sqlserver://…`: what each prints is what it printed without the
proxy. In front of exchanges that were recorded from a real server (tests/live/sqlserver/tds_recorded), and of the server that
TERMGATE_TEST_SQLSERVER names, directly and through the proxy. A client whose packages are missing is skipped.

  pytest tests/live/sqlserver/tds_clients_test.py [-k tedious]
  TERMGATE_TEST_SQLSERVER=sqlserver://… pytest tests/live/sqlserver/tds_clients_test.py --write     writes the recordings anew
"""
import os
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest

import given
from checks import captured, eventually, note
from odbc_plain import Plain, Refused, url_of
from tds_proxy import Proxy, scratch
from tds_replay import Recorder, Replayer, load, save

HERE = Path(__file__).parent
RECORDED = HERE / "tds_recorded"
DATABASE = "termgate_clients"
APPLICATION = "termgate.scope=clients;termgate.term=5;"
URL = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
PYTHON = "/usr/bin/python3"  # Debian's, whose packages these are


class Missing(Exception):
    pass


def need(path):
    if not (shutil.which(path) or Path(path).exists()):
        raise Missing(path)
    return path


def run(words, place, text=None):
    done = captured(words, input=text, env={**os.environ, **place}, timeout=240, check=False, cwd=scratch.name)
    return done.stdout + done.stderr


def tsql(place):
    words = [need("tsql"), "-H", place["HOST"], "-p", place["PORT"], "-U", place["USERNAME"], "-P", place["PASSWORD"], "-D", DATABASE]
    text = """CREATE TABLE dbo.tsql_t (id int NOT NULL PRIMARY KEY, name nvarchar(50))
go
INSERT INTO dbo.tsql_t VALUES (1, N'one'), (2, N'two')
go
SELECT * FROM dbo.tsql_t ORDER BY id
SELECT COUNT(*) FROM dbo.tsql_t
go

SELECT 1

SELECT * FROM dbo.no_such_table
go
BEGIN TRANSACTION
go
DELETE FROM dbo.tsql_t
go
ROLLBACK TRANSACTION
go
SELECT COUNT(*) FROM dbo.tsql_t
go
INSERT INTO dbo.tsql_t VALUES (1, N'again')
go
DROP TABLE dbo.tsql_t
go
"""
    return run([*words, "-o", "q", "-a", APPLICATION], {**place, "TDSVER": "7.4"}, text)


def java(place):
    jar = need("/usr/share/java/jtds.jar")
    need("javac")
    classes = Path(scratch.name) / "java"
    if not classes.exists():
        subprocess.run(["javac", "-cp", jar, "-d", classes, HERE.parent / "clients/TdsJtds.java"], check=True, timeout=240)

    return run(["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jar}:{classes}", "TdsJtds"], place)


def node(place):
    need("node")
    need("npm")
    return run(["sh", HERE.parent / "clients/node.sh", "tds_tedious.mjs"], {**place, "NODE_PACKAGES": "tedious@19.2.2"})


def pyodbc(place):
    if subprocess.run([PYTHON, "-c", "import pyodbc"], capture_output=True, check=False).returncode != 0:
        raise Missing("python3-pyodbc")
    return run([PYTHON, HERE.parent / "clients/tds_pyodbc.py"], place)


CLIENTS = {"tsql": tsql, "tedious": node, "jtds": java, "pyodbc": pyodbc}


def place_of(host, port, user, password):
    return {
        "HOST": host,
        "PORT": str(port),
        "DATABASE": DATABASE,
        "USERNAME": user,
        "PASSWORD": password,
        "APPLICATION": APPLICATION,
        "LC_ALL": "C.UTF-8",
    }


def told(client, place):
    """Its output, line by line, without what names the place."""
    try:
        text = CLIENTS[client](place)
    except Missing as missing:
        pytest.skip(f"{missing} is missing")
    assert "Traceback" not in text and "Exception in thread" not in text, text
    text = re.sub(rf"{re.escape(place['HOST'])}:{place['PORT']}|\b{place['PORT']}\b", "PLACE", text)
    return [line.rstrip() for line in text.splitlines()]


def dropped(master):
    try:
        master.rows(f"DROP DATABASE {DATABASE}")
        return True
    except Refused:
        return False


@pytest.fixture(name="server", scope="module")
def real_server():
    if not URL.startswith("sqlserver://"):
        pytest.skip("TERMGATE_TEST_SQLSERVER names no server")
    with Plain(URL) as master:
        try:
            master.rows(f"CREATE DATABASE {DATABASE}")
        except Refused as refused:
            note(str(refused))
    done = subprocess.run([given.TERMGATE, "init", "--db", url_of(URL, DATABASE)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    with Plain(url_of(URL, DATABASE)) as one:
        one.rows("EXEC termgate.seal @scope = N'clients', @term = 5")
    yield urllib.parse.urlsplit(URL)
    with Plain(URL) as master:
        for session in master.rows(f"SELECT session_id FROM sys.dm_exec_sessions WHERE database_id = DB_ID(N'{DATABASE}')"):
            try:
                master.rows(f"KILL {session[0]}")
            except Refused:
                pass
        assert eventually(lambda: dropped(master), 20)


@pytest.mark.parametrize("client", CLIENTS)
def test_in_front_of_the_server(server, client):
    directly = told(client, place_of(server.hostname, server.port, server.username, server.password))
    recorder = Recorder(server.hostname, server.port)
    proxy = Proxy(recorder.port, url=url_of(URL, DATABASE).replace(f":{server.port}/", f":{recorder.port}/"))
    through = told(client, place_of("127.0.0.1", proxy.port, server.username, server.password))
    assert proxy.end() == 0
    recorder.close()
    assert through == directly and len(directly) >= 8 and recorder.exchanges
    note(f"{client}: {len(directly)} lines, the same through the proxy, in {len(recorder.exchanges)} exchanges")
    if given.option("write"):
        RECORDED.mkdir(exist_ok=True)
        save(RECORDED / f"{client}.json", directly, recorder.exchanges)


@pytest.mark.parametrize("client", CLIENTS)
def test_in_front_of_a_recording(client):
    output, exchanges = load(RECORDED / f"{client}.json")
    server = Replayer(exchanges, fence=5)
    proxy = Proxy(server.port)
    # jTDS's default, which goes without PRELOGIN; Babelfish does not take that, Microsoft's server does.
    through = told(client, {**place_of("127.0.0.1", proxy.port, "sa", "secret"), "JTDS_SSL": "off"})
    assert server.unknown == []
    assert through == output
    assert proxy.end() == 0
    server.close()
