"""What a live test in Python is given: the programs that it tests, and how long it may take.

CTest puts the names of the programs into the environment. Without it they are those of a checkout that was built with
`cmake --preset dev`, so that `pytest tests/live/proxy/proxy_service_test.py -k drain` works by itself.

    given.TERMGATE      the command                               TERMGATE, else build/dev/termgate
    given.EXTENSION     the loadable extension for SQLite         TERMGATE_EXTENSION, else build/dev/termgate.so
    given.ATTACKER      the sender of random sessions             TERMGATE_ATTACKER, else build/dev/tests/live_attacker
    given.GUARD         the guard's library for PostgreSQL 15     TERMGATE_GUARD, else build/dev/guard/15/…, or ""
    given.PG_SERVER     the script that starts PostgreSQL servers
    given.LONG          ./test --long, or pytest --long           TERMGATE_TEST_LONG
    given.SANITIZED     the programs have a sanitizer in them     TERMGATE_TEST_SANITIZED
    given.free_port()      a port on which nobody listens
    given.option("seed")   an option of pytest; tests/live/conftest.py lists them

A program that is not there is an error where it is first named, so a test needs only those that it uses.
"""
import os
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PG_SERVER = str(ROOT / "tests" / "support" / "pg_server.sh")
# Debian's has psycopg and a sqlite3 module that loads extensions, which a Python of one's own build often lacks.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LONG = bool(os.environ.get("TERMGATE_TEST_LONG"))
SANITIZED = bool(os.environ.get("TERMGATE_TEST_SANITIZED"))
_built = ROOT / "build" / "dev" / "guard" / "15" / "termgate_guard.so"
GUARD = os.environ.get("TERMGATE_GUARD") or (str(_built) if _built.exists() else "")
PROGRAMS = {
    "TERMGATE": ("TERMGATE", "termgate", "termgate"),
    "EXTENSION": ("TERMGATE_EXTENSION", "termgate.so", "termgate_extension"),
    "ATTACKER": ("TERMGATE_ATTACKER", "tests/live_attacker", "live_attacker"),
}
options = None  # what pytest was called with; conftest.py sets it before it reads a test


def __getattr__(name):
    if name not in PROGRAMS:
        raise AttributeError(f"tests/support/given.py has no {name}")
    variable, file, target = PROGRAMS[name]
    path = os.path.abspath(os.environ.get(variable) or ROOT / "build" / "dev" / file)
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{path} is not there. Build it (cmake --preset dev && cmake --build build/dev --target {target}), or name another one in"
            f" {variable}"
        )
    return path


def option(name, otherwise=None):
    """The value of --name. Where it was not given: `otherwise`."""
    value = getattr(options, name.replace("-", "_"), None)
    return otherwise if value is None or value is False else value


def majors(plain, long="13,14,15,16,17,18"):
    """The majors of PostgreSQL that a test runs on: those of --majors, else `plain`, with --long `long`. In a plain run one is
    enough, and not the same for all files: the conformance suite runs on the oldest and the newest in each."""
    return tuple(option("majors", long if LONG else plain).split(","))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def share(cases, of):
    """Of a long table every `of`-th case in a plain run, all of them with --long."""
    return list(cases) if LONG else list(cases)[::of]
