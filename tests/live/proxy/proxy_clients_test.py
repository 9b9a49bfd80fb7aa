#!/usr/bin/env python3
"""[F7] Real clients see through the proxy what they see without it.

  pytest tests/live/proxy/proxy_clients_test.py [--long] [--majors 15,18] [-k 'psql or jdbc' | -k pgbouncer]

Each program of clients/ does what programs on its driver do and prints what came back. It runs once against the
server itself, once through the proxy with a term declared (by PGOPTIONS), and the two texts must be equal. Then the
same with PgBouncer on either side of the proxy. A client whose packages are missing is skipped.
"""
import difflib
import os
import re
import shutil
import signal
import socket
import subprocess
from types import SimpleNamespace

import pytest

import given
from checks import check, eventually, stays
from given import PYTHON
from proxy_lab import TERMINATE, Wire, refusal

CLIENTS = str(given.ROOT / "tests" / "live" / "clients")
MAJORS = given.majors("15")

# What a program needs besides; its words; the majors that it can speak to at all (Debian's pg_dump 15 refuses newer servers). What a driver
# sends hardly depends on the server, so all of them meet 15; with --long all meet all. The drivers are Debian's, and so is the interpreter
# that finds them, whichever one runs this file.
PROGRAMS = {
    "psql": ("psql", ["./psql.sh"], None),
    "psycopg2": ("python:psycopg2", [PYTHON, "psycopg2_client.py"], None),
    "psycopg3": ("python:psycopg", [PYTHON, "psycopg3_client.py"], None),
    "node_pg": ("node", ["./node.sh", "node_pg.mjs"], None),
    "postgres_js": ("node", ["./node.sh", "postgres_js.mjs"], None),
    "jdbc": ("javac:/usr/share/java/postgresql.jar", ["./jdbc.sh"], None),
    "lib_pq": ("go:/usr/share/gocode/src/github.com/lib/pq", ["./go.sh", "lib_pq"], None),
    "pgx": ("go:/usr/share/gocode/src/github.com/jackc/pgx/v4", ["./go.sh", "pgx"], None),
    "odbc": ("cc:/usr/include/sql.h", ["./odbc.sh"], None),
    "pgbench": ("pgbench", ["./pgbench.sh"], None),
    "dump": ("pg_dump", ["./dump.sh"], ("13", "14", "15")),
}


def missing(need):
    """What of a need is not here, or None."""
    if need.startswith("python:"):
        found = subprocess.run([PYTHON, "-c", f"import {need[7:]}"], capture_output=True).returncode == 0
        return None if found else need
    for part in need.split(":"):
        if not (os.path.exists(part) if part.startswith("/") else shutil.which(part)):
            return part
    return None


def run(lab, name, port, direct_port, scope="clients", term=7):
    environment = dict(
        os.environ,
        PGHOST="127.0.0.1",
        PGPORT=str(port),
        PGUSER="postgres",
        PGDATABASE="postgres",
        PGCONNECT_TIMEOUT="20",
        PGSSLMODE="disable",
        DIRECT_PORT=str(direct_port),
        CLIENT_BUILD=os.path.join(lab.folder, "build"),
        TERMGATE=lab.termgate,
        LC_ALL="C.UTF-8",
        TZ="UTC",
        PGTZ="UTC",
    )
    for other in ("PGPASSWORD", "PGSERVICE", "PGDATESTYLE", "PGAPPNAME"):
        environment.pop(other, None)
    if scope:
        environment["PGOPTIONS"] = f"-c termgate.scope={scope} -c termgate.term={term}"
    # A group of its own, so that a client that hangs is ended with all that it started.
    process = subprocess.Popen(
        PROGRAMS[name][1],
        cwd=CLIENTS,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + "ended with nothing for a minute\n"
    return text + (f"ended with {process.returncode}\n" if process.returncode else "")


def same(lab, directly, through, what):
    """Says where two texts part."""
    difference = list(difflib.unified_diff(directly.splitlines(), through.splitlines(), "directly", "through the proxy", n=1, lineterm=""))
    check(what, directly == through and len(directly) > 100 and "ended with" not in directly, "")
    if directly != through:
        for line in difference[:40]:
            print("     " + line[:300])
        for which, text in (("direct", directly), ("through", through)):
            with open(f"{lab.folder}/{re.sub('[^a-z0-9]+', '-', what.lower())}.{which}.txt", "w") as file:
                file.write(text)
    elif len(directly) <= 100 or "ended with" in directly:
        print("     " + directly[-2000:])


@pytest.fixture(scope="module", params=MAJORS)
def major(request):
    return request.param


@pytest.fixture(scope="module")
def build(lab):
    """Where the clients that are compiled put what they make."""
    os.mkdir(os.path.join(lab.folder, "build"))


@pytest.fixture(scope="module")
def fenced(lab, major, build):
    """A server, the proxy in front of it, and how many clients have been there."""
    fenced = SimpleNamespace(server=lab.server(major, "fsync=off"), ran=0)
    fenced.proxy = lab.proxy(fenced.server.url)
    yield fenced
    fenced.proxy.stop()
    fenced.server.stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_sees_the_same_through_the_proxy(name, lab, fenced, major):
    need, _, its_majors = PROGRAMS[name]
    if its_majors and major not in its_majors:
        pytest.skip(f"{name} does not speak to PostgreSQL {major}")
    lacking = missing(need)
    if lacking:
        pytest.skip(f"{lacking} is missing")
    directly = run(lab, name, fenced.server.port, fenced.server.port)
    through = run(lab, name, fenced.proxy.port, fenced.server.port)
    fenced.ran += 1
    same(lab, directly, through, f"PostgreSQL {major}: {name} sees the same")


def test_the_clients_writes_were_fenced_and_the_proxy_ends_cleanly(fenced, major):
    if not fenced.ran:
        pytest.skip("no client ran")
    # Had nothing been checked, nothing would have raised the fence.
    fence = fenced.server.sql("select term from termgate.fences where scope = 'clients'")
    check(f"PostgreSQL {major}: the writes were fenced", fence == ["7"], fence)
    check(f"PostgreSQL {major}: the proxy ends cleanly", fenced.proxy.stop() == 0, fenced.proxy.log()[-2000:])


class Bouncer:
    """A PgBouncer in front of whatever listens on a port."""

    def __init__(self, lab, behind, mode, ignore="extra_float_digits", more=""):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        folder = f"{lab.folder}/bouncer{self.port}"
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        with open(f"{folder}/users", "w") as file:
            file.write('"postgres" ""\n')
        with open(f"{folder}/ini", "w") as file:
            file.write(
                f"[databases]\n* = host=127.0.0.1 port={behind}{more}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port ="
                f" {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\npool_mode = {mode}\ndefault_pool_size ="
                f" 4\nignore_startup_parameters = {ignore}\nlogfile = {folder}/log\n"
            )
        # It refuses to run as root.
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        self.process = lab.program(*words, "pgbouncer", "-q", f"{folder}/ini", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not eventually(self.answers, 10, 0.05):
            with open(f"{folder}/log") as file:
                raise AssertionError(f"PgBouncer did not start: {file.read()}")

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False


@pytest.fixture(scope="module")
def pooled_server(lab):
    """A server for the tests with PgBouncer."""
    os.environ["PATH"] += ":/usr/sbin"
    if missing("pgbouncer") or missing("python:psycopg2"):
        pytest.skip("PgBouncer or psycopg2 is missing")
    server = lab.server("15", "fsync=off")
    yield server
    server.stop()


def test_pgbouncer_in_front_of_the_proxy_with_session_pooling(lab, pooled_server, build):
    """PgBouncer refuses `options`, so scope and term come from a rule."""
    server = pooled_server
    rule = f"{lab.folder}/rules"
    with open(rule, "w") as file:
        file.write("[rule everybody]\nscope = bounced\nterm = 7\n")
    ruled = lab.proxy(server.url, "--rules", rule)
    before, alone = Bouncer(lab, ruled.port, "session"), Bouncer(lab, server.port, "session")
    for name in ("psycopg2", "psycopg3"):
        if not missing(PROGRAMS[name][0]):
            texts = [run(lab, name, one.port, server.port, scope=None) for one in (alone, before)]
            same(lab, *texts, f"PgBouncer before the proxy, session pooling: {name} sees the same")
    fence = server.sql("SELECT term FROM termgate.fences WHERE scope = 'bounced'")
    check("PgBouncer before the proxy: the writes were fenced", fence == ["7"], fence)
    ruled.stop()


def test_pgbouncer_in_front_of_the_proxy_with_transaction_pooling(lab, pooled_server):
    """What belongs to a transaction or a statement declares, and for nobody else."""
    server = pooled_server
    server.sql("CREATE TABLE pooled (i int)")
    plain = lab.proxy(server.url)
    pooled = Bouncer(lab, plain.port, "transaction")
    first, second = Wire(pooled.port), Wire(pooled.port)
    errors = [
        first.ask(text)[1]
        for text in (
            "BEGIN",
            "SET LOCAL termgate.scope = 'bounced'",
            "SET LOCAL termgate.term = '7'",
            "INSERT INTO pooled VALUES (1)",
            "COMMIT",
            "/*termgate.scope='bounced',termgate.term='7'*/ INSERT INTO pooled VALUES (2)",
        )
    ]
    check("PgBouncer before the proxy, transaction pooling: SET LOCAL and comments declare", errors == [None] * 6, errors)
    refused = second.ask("INSERT INTO pooled VALUES (3)")[1]
    check("and not for another client", (refused or {}).get("C") == "TG002" and server.sql("SELECT count(*) FROM pooled") == ["2"], refused)
    plain.stop()


BETWEEN = ("options, default_transaction_read_only", " connect_query=" + repr("SET default_transaction_read_only TO on"))


def between(server, bouncer):
    """A proxy with that PgBouncer between it and its server."""
    return server.lab.proxy(f"postgresql://postgres@127.0.0.1:{bouncer.port}/postgres")


@pytest.mark.parametrize("mode, ignore", (("session", BETWEEN[0]), ("transaction", BETWEEN[0]), ("transaction", "extra_float_digits")))
def test_pgbouncer_between_proxy_and_server_lets_nobody_in_unguarded(mode, ignore, lab, pooled_server):
    """Its process number is not the server's: then nobody is let in."""
    proxy = between(pooled_server, Bouncer(lab, pooled_server.port, mode, ignore))
    refused = refusal(lambda: Wire(proxy.port))
    check("[F6] nobody is let in unguarded", refused and "there is a pooler between" in refused["M"], refused)
    proxy.stop()


def test_pgbouncer_between_that_forgets_the_guard(lab, pooled_server):
    """It reports from its memory that the session is read-only by default; DISCARD ALL has taken that back for all but the first."""
    server = pooled_server
    server.sql("CREATE TABLE unguarded (i int)")
    server.sql(
        "CREATE FUNCTION looks_harmless() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO unguarded VALUES (1); RETURN 1; END $$"
    )
    proxy = between(server, Bouncer(lab, server.port, "session", *BETWEEN))

    def visit():
        client = Wire(proxy.port)
        client.ask("SELECT looks_harmless()")
        client.send(TERMINATE)
        client.rest()

    for _ in range(3):
        refusal(visit)
    none = stays(lambda: server.sql("SELECT count(*) FROM unguarded") == ["0"], 0.5, 0.1)
    check("[F6] not one row without a term", none, server.sql("SELECT count(*) FROM unguarded"))
    proxy.stop()


def test_pgbouncer_between_that_is_announced(lab, pooled_server):
    server = pooled_server
    behind = Bouncer(lab, server.port, "session", BETWEEN[0])
    proxy = lab.proxy(f"postgresql://postgres@127.0.0.1:{behind.port}/postgres", "--server-pooler", "session")
    first = Wire(proxy.port)
    first.ask("SET termgate.scope = 'bounced'")
    first.ask("SET termgate.term = '7'")
    check("announced: a declared write passes", first.ask("CREATE TABLE passed AS SELECT 1")[1] is None)
    first.send(TERMINATE)
    first.close()
    second = Wire(proxy.port)
    check("and what a client declared ends with it", (second.ask("INSERT INTO passed VALUES (2)")[1] or {}).get("C") == "TG002")
    check("[F6] not one row without a term", server.sql("SELECT count(*) FROM passed") == ["1"])
    proxy.stop()
