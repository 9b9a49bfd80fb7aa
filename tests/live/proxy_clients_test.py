#!/usr/bin/env python3
"""[F7] Real clients see through the proxy what they see without it.

  proxy_clients_test.py TERMGATE PG_SERVER_SH [--long] [--majors 15,18] [--only psql,jdbc] [--keep]

Each program of clients/ does what programs on its driver do and prints what came back. It runs once against the server itself, once
through the proxy with a term declared (by PGOPTIONS), and the two texts must be equal. Then the same behind and before PgBouncer.
A client whose packages are missing is named, and counts as skipped where nothing else ran.
"""
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from proxy_lab import LONG, MAJORS, Lab, Refused, Wire, declared, eventually  # noqa: E402

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")


def option(name, otherwise):
    return sys.argv[sys.argv.index(name) + 1].split(",") if name in sys.argv else otherwise


lab = Lab("clients", os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
majors = option("--majors", MAJORS)
only = option("--only", None)
build = os.path.join(lab.folder, "build")
os.mkdir(build)

# What a program needs besides; its words; the majors that it can speak to at all (Debian's pg_dump 15 refuses newer servers).
# The drivers are Debian's, and so is the interpreter that finds them, whichever one runs this file.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
PROGRAMS = {
    "psql": ("psql", ["./psql.sh"], None),
    "psycopg2": ("python:psycopg2", [PYTHON, "psycopg2_client.py"], None),
    "psycopg3": ("python:psycopg", [PYTHON, "psycopg3_client.py"], None),
    "libpq": ("python:psycopg", [PYTHON, "libpq_trace.py"], None),
    "node_pg": ("node", ["./node.sh", "node_pg.mjs"], None),
    "postgres_js": ("node", ["./node.sh", "postgres_js.mjs"], None),
    "jdbc": ("javac:/usr/share/java/postgresql.jar", ["./jdbc.sh"], None),
    "lib_pq": ("go:/usr/share/gocode/src/github.com/lib/pq", ["./lib_pq.sh"], None),
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


def run(name, port, direct_port, scope="clients", term=7):
    environment = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(port), PGUSER="postgres", PGDATABASE="postgres", PGCONNECT_TIMEOUT="20", PGSSLMODE="disable",
                       DIRECT_PORT=str(direct_port), CLIENT_BUILD=build, TERMGATE=lab.termgate, LC_ALL="C.UTF-8", TZ="UTC", PGTZ="UTC")
    for other in ("PGPASSWORD", "PGSERVICE", "PGDATESTYLE", "PGAPPNAME"):
        environment.pop(other, None)
    if scope:
        environment["PGOPTIONS"] = f"-c termgate.scope={scope} -c termgate.term={term}"
    # A group of its own, so that a client that hangs is ended with all that it started.
    process = subprocess.Popen(PROGRAMS[name][1], cwd=CLIENTS, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        text, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + "ended with nothing for a minute\n"
    return text + (f"ended with {process.returncode}\n" if process.returncode else "")


def same(name, directly, through, what):
    """Says where two texts part."""
    difference = list(difflib.unified_diff(directly.splitlines(), through.splitlines(), "directly", "through the proxy", n=1, lineterm=""))
    lab.check(what, directly == through and len(directly) > 100 and "ended with" not in directly, "")
    if directly != through:
        for line in difference[:40]:
            print("     " + line[:300])
        for which, text in (("direct", directly), ("through", through)):
            with open(f"{lab.folder}/{re.sub('[^a-z0-9]+', '-', what.lower())}.{which}.txt", "w") as file:
                file.write(text)
    elif len(directly) <= 100 or "ended with" in directly:
        print("     " + directly[-2000:])


def transparency(major):
    server = lab.server(major)
    proxy = lab.proxy(server.url)
    run_of = {}
    for name, (need, _, its_majors) in PROGRAMS.items():
        if (only and name not in only) or (its_majors and major not in its_majors):
            continue
        lacking = missing(need)
        if lacking:
            print(f"skip {name}: {lacking} is missing")
            continue
        directly = run(name, server.port, server.port)
        through = run(name, proxy.port, server.port)
        run_of[name] = directly
        same(name, directly, through, f"PostgreSQL {major}: {name} sees the same")
    if run_of:
        # Had nothing been checked, nothing would have raised the fence.
        lab.check(f"PostgreSQL {major}: the writes were fenced", server.sql("select termgate.fence('clients')") != [None] and "7" in str(server.sql("select term from termgate.fences where scope = 'clients'")))
    lab.check(f"PostgreSQL {major}: the proxy ends cleanly", proxy.stop() == 0, proxy.log()[-2000:])
    server.stop()
    return run_of


def main():
    ran = 0
    for major in majors:
        ran += len(transparency(major))
    return ran


try:
    ran = main()
except BaseException:
    lab.failures.append("broken off")
    lab.close()
    raise
if "--keep" in sys.argv:
    lab.failures.append("kept")
status = lab.conclude()
sys.exit(status if ran else 77)
