#!/usr/bin/env python3
"""[F7] Real clients see of an SQLite file behind the proxy what they see of a PostgreSQL.

  pytest tests/live/sqlite_server_clients_test.py [-k 'psql or jdbc']

psql's commands, its completion by tab, and the programs of clients/ run once against a PostgreSQL 15 itself and once
against the proxy in front of an SQLite file, and the two texts must be equal but for what docs/use/sqlite-proxy.md says
differs. A client whose packages are missing is skipped.
"""
import difflib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import threading
import time

import pytest

from checks import check
from given import PYTHON, SANITIZED

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = f"{HERE}/clients"
PATIENCE = 6 if SANITIZED else 1
PROGRAMS = {
    "psycopg2": ("python:psycopg2", [PYTHON, "psycopg2_client.py"]),
    "psycopg3": ("python:psycopg", [PYTHON, "psycopg3_client.py"]),
    "node_pg": ("node", ["./node.sh", "node_pg.mjs"]),
    "postgres_js": ("node", ["./node.sh", "postgres_js.mjs"]),
    "jdbc": ("javac:/usr/share/java/postgresql.jar", ["./jdbc.sh"]),
    "lib_pq": ("go:/usr/share/gocode/src/github.com/lib/pq", ["./go.sh", "lib_pq"]),
    "pgbench": ("pgbench", ["./pgbench.sh"]),
}
# What differs, by program: a HINT guesses at a name; a DETAIL names the values of a duplicate key, which SQLite does
# not report; a function's name is said without
# the types of its arguments; what PostgreSQL's grammar cannot read, a `?` among it, is SQLite's to read.
DIFFERS = {
    "psql": [(r"\nHINT:  Perhaps you meant to reference [^\n]*", "")],
    "jdbc": [(r"\n  (Detail|Where): [^\n]*", ""), (r"\nparameter metadata: PSQLException [^\n]*(\n  Position: \d+)?", "")],
    "node_pg": [(r"function nope(\(unknown\))? does not exist", "function nope does not exist")],
}
# Of psql: what PostgreSQL and the proxy answer alike, on tests/unit/sqlite_server/catalog_setup.sql.
ALIKE = r"""
\d
\dt
\d customer
\d+ customer
\d orders
\d+ orders
\d line
\d orders_by_customer
\di
\dv
\ds
\dm
\dE
\df
\dp
\dT
\dy
\dD
\d nope
\dt nope
\dt cust*
\di *_pkey
\encoding
select 1 as a, 'x'::text as b, now() \gdesc
select * from customer \gdesc
select 'customer'::regclass, oid::regclass from pg_class where relname = 'customer';
insert into customer (id, name, score) values (1, 'a', 12.3);
select id, score, score from customer;
copy customer (id, score) to stdout;
select * from nope;
select c.nope from customer c;
select 'é', nope from busy;
select current_user, session_user, current_database(), current_schema();
select current_setting('search_path'), current_setting('nope', true);
select set_config('search_path', 'public', false);
select name, setting from pg_settings where name = 'search_path';
select table_catalog, table_name from information_schema.tables where table_schema = 'public' order by 2;
select column_name, data_type, character_maximum_length, numeric_precision, numeric_scale from information_schema.columns where
  table_name = 'customer' order by ordinal_position;
select datname from pg_database where datname = current_database();
select conname, contype, conrelid::regclass from pg_constraint where conrelid = 'orders'::regclass order by 1;
create table ali (i int);
create table if not exists ali (i int);
drop table if exists ali;
drop table if exists ali;
"""
# Its own: what there is of databases, schemas and roles.
OWN = {
    r"\l": "app|postgres|UTF8|C|C||libc|",
    r"\dn": "public|postgres\ntermgate|postgres",
    r"\du": "postgres||{}",
    r"\df": "",
    r"\sv busy": "CREATE OR REPLACE VIEW public.busy AS\n SELECT customer.id, customer.name FROM customer",
}
TABS = [
    ("select * from cust\t", "customer"),
    ("select nam\t", None),
    ("\\d ord\t", "orders"),
    ("update li\t", "line"),
    ("alter table cus\t", "customer"),
    ("\\dn te\t", "termgate"),
    ("insert into ord\t", "orders"),
    ("drop view b\t", "busy"),
    ("set search_pa\t", "search_path"),
    ("\\df now\t", None),
    ("\\c a\t", "app"),
]


def missing(need):
    if need.startswith("python:"):
        return None if subprocess.run([PYTHON, "-c", f"import {need[7:]}"], capture_output=True).returncode == 0 else need
    return next((part for part in need.split(":") if not (os.path.exists(part) if part.startswith("/") else shutil.which(part))), None)


def environment(lab, port):
    made = dict(
        os.environ,
        PGHOST="127.0.0.1",
        PGPORT=str(port),
        PGUSER="postgres",
        PGDATABASE="app",
        PGCONNECT_TIMEOUT="20",
        PGSSLMODE="disable",
        CLIENT_PLAIN="1",
        CLIENT_BUILD=f"{lab.folder}/build",
        LC_ALL="C.UTF-8",
        TZ="UTC",
        PGTZ="UTC",
        PGOPTIONS="-c termgate.scope=clients -c termgate.term=7",
    )
    for other in ("PGPASSWORD", "PGSERVICE", "PGDATESTYLE", "PGAPPNAME"):
        made.pop(other, None)
    return made


def run(lab, words, port, stdin=None):
    # A group of its own, so that a client that hangs is ended with all that it started.
    process = subprocess.Popen(
        words,
        cwd=CLIENTS,
        env=environment(lab, port),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(stdin, timeout=60 * PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + "ended with nothing for a minute\n"
    return text + (f"ended with {process.returncode}\n" if process.returncode else "")


def both(lab, words, *ports):
    texts = {}
    threads = [threading.Thread(target=lambda port=port: texts.update({port: run(lab, words, port)})) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [texts[port] for port in ports]


def same(name, directly, through):
    for pattern, instead in DIFFERS.get(name, []):
        directly, through = (re.sub(pattern, instead, text) for text in (directly, through))
    if not check(f"{name} sees the same", directly == through and len(directly) > 100 and "ended with" not in directly):
        difference = list(difflib.unified_diff(directly.splitlines(), through.splitlines(), "PostgreSQL", "the proxy", n=1, lineterm=""))
        for line in difference[:40] or [directly[-2000:]]:
            print("     " + line[:300])


@pytest.fixture(scope="module")
def front(lab):
    """The proxy in front of an SQLite file."""
    os.mkdir(f"{lab.folder}/build")  # where the clients that are compiled put what they make
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    return lab.proxy(f"sqlite:{lab.folder}/app.db")


@pytest.fixture(scope="module")
def served(lab, front):
    """A PostgreSQL 15; here and in the file the same schema is made."""
    server = lab.server("15", "fsync=off")
    server.sql("create database app")
    setup = f"{HERE}/../unit/sqlite_server/catalog_setup.sql"
    made = [run(lab, ["psql", "-X", "-a", "-f", setup], port) for port in (server.port, front.port)]
    check("the schema is made alike", made[0] == made[1] and "ERROR" not in made[1], made)
    return server


def test_psqls_commands_show_the_same(lab, served, front):
    port, words = front.port, ["psql", "-X", "-a"]
    same("psql", run(lab, words, served.port, ALIKE), run(lab, words, port, ALIKE))
    for command, answer in OWN.items():
        said = run(lab, ["psql", "-X", "-A", "-t", "-c", command], port).strip()
        check(f"psql's {command}", said == answer, said)


def completed(lab, port, typed):
    """What psql shows after these keys, at a terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        ["psql", "-X", "-q"],
        env=dict(environment(lab, port), TERM="dumb", INPUTRC="/dev/null"),
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    shown = ""

    def read(until, seconds):
        nonlocal shown
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until(shown):
            if select.select([parent], [], [], 0.05)[0]:
                try:
                    shown += os.read(parent, 4096).decode(errors="replace")
                except OSError:
                    return

    try:
        read(lambda text: "=>" in text or "=#" in text, 10 * PATIENCE)
        shown = ""
        os.write(parent, typed.encode())
        wanted = {keys: answer for keys, answer in TABS}[typed]
        read(lambda text: wanted is not None and wanted in re.sub("[\x00-\x1f]", "", text), (4 if wanted else 0.3) * PATIENCE)
        os.write(parent, b"\x15\\q\n")
        process.wait(10 * PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(parent)
    return re.sub("[\x00-\x1f]", "", shown)


def test_psql_completes_names_by_tab(lab, front, served):
    port, results = front.port, {}
    threads = [threading.Thread(target=lambda typed=typed: results.update({typed: completed(lab, port, typed)})) for typed, _ in TABS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for typed, wanted in TABS:
        # Its queries are silent: an error shows in the proxy's answers only, and completes nothing.
        check(f"completed: {typed!r}", typed in results and (wanted is None or wanted in results[typed]), results.get(typed))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_client_sees_the_same_as_of_a_postgresql(name, lab, served, front):
    need, words = PROGRAMS[name]
    lacking = missing(need)
    if lacking:
        pytest.skip(f"{lacking} is missing")
    same(name, *both(lab, words, served.port, front.port))


def test_the_log_holds_no_error_and_the_proxy_ends_cleanly(front):
    check("the log holds no error", not re.search(r" error ", front.log()), front.log()[-300:])
    check("the proxy ends cleanly", front.stop() == 0, front.log()[-2000:])
