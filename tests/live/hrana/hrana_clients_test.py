"""[F7] Clients of libSQL do on a served SQLite file what they do on the file itself.

  pytest tests/live/hrana/hrana_clients_test.py [-k kysely] [--show]

Each program of clients/hrana/ runs once on a plain file (`file:`, by SQLite's own library) and once through the proxy, over HTTP or a
WebSocket, under a fixed term in its token. It prints a line for each thing that it does, and both runs must print the same, but for the
lines that EXPECTED names. What npm does not have is played byte by byte from clients/hrana/scripts/ (tests/support/hrana_replay.py).
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from checks import check
from given import SANITIZED, option
from hrana_replay import Player
from hrana_served import File, Served

FOLDER = Path(__file__).resolve().parents[1] / "clients" / "hrana"
SCRIPTS = sorted(path.stem for path in (FOLDER / "scripts").glob("*.json"))
CLAIMS = {"Termgate-Scope": "clients", "Termgate-Term": "5"}
TOKEN = "tg.5.clients."
# The program, and over what. A WebSocket where the client has one.
RUNS = {
    "libsql_client": ("libsql_client.mjs", "http"),
    "libsql_client_websocket": ("libsql_client.mjs", "ws"),
    "drizzle": ("drizzle.mjs", "http"),
    "drizzle_websocket": ("drizzle.mjs", "ws"),
    "prisma": ("prisma.mjs", "http"),
    "kysely": ("kysely.mjs", "http"),
    "kysely_websocket": ("kysely.mjs", "ws"),
    "knex": ("knex.mjs", "http"),
    "sequelize": ("sequelize.mjs", "http"),
    "typeorm": ("typeorm.mjs", "http"),
    "mikro_orm": ("mikro_orm.mjs", "http"),
    "native": ("native.mjs", "http"),
    "serverless": ("serverless.mjs", "http"),
}
# What differs, by the name of its line: a part of what the served file answers there. Each has its reason.
LIBSQL_CLIENT = {
    # The client answers from the file with the rowid of an earlier statement, and with 0 for the rows of one that returns some.
    **{name: ",null]" for name in ("create", "create child", "update", "or ignore", "delete")},
    "insert returning": '[["5n","eve",null]],1,"5n"]',
    "upsert": '[["1n","99n"]],1,',
    # A parameter that is missing is an error; on the file it is NULL, or the value of the statement before.
    "too few": "ARGS_INVALID",
    # The client's own words.
    "large as number": "too large to be safely represented",
    "after a commit": "because the transaction is closed",
    "closed client": "Client was manually closed",
    "syntax": 'SQL_INPUT_ERROR: near "SELEC": syntax error',
    "nothing": "SQL_NO_STATEMENT",
    # On the file the second one is passed over in silence.
    "two statements": "SQL_MANY_STATEMENTS",
}
# The code is the primary one; the extended one has a field of its own.
NO_EXTENDED_CODE = {"unique": "SQLITE_CONSTRAINT: UNIQUE", "foreign key": "SQLITE_CONSTRAINT: FOREIGN KEY"}
# The Rust client wraps every message.
RUST = {name: "Error { message" for name in ("unique", "no table")} | {"script that fails": "no such table: nowhere"}
# The adapter reads SQLite's numbers, which the protocol does not carry.
PRISMA = {
    "unique": "UNIQUE constraint failed: u.name",
    "foreign key": "FOREIGN KEY constraint failed",
    "no table": "no such table: nowhere",
    "an error within": '"sqlite"',
}
EXPECTED = {
    "libsql_client": LIBSQL_CLIENT,
    "libsql_client_websocket": {name: part for name, part in LIBSQL_CLIENT.items() if name != "closed client"},
    "drizzle": {"batch that fails": "SQLITE_CONSTRAINT FOREIGN KEY"},
    "drizzle_websocket": {"batch that fails": "SQLITE_CONSTRAINT FOREIGN KEY"},
    "prisma": PRISMA,
    "kysely": NO_EXTENDED_CODE,
    "kysely_websocket": NO_EXTENDED_CODE,
    "native": RUST,
    # The first sends BEGIN by a cursor, after which its client believes that no transaction is open: it closes the stream behind the
    # UPDATE, which rolls back, and learns of it at COMMIT. The second sees the tables of layer 1.
    "mikro_orm": {"update": "cannot commit - no transaction is active", "update schema": "Termgate"},
    "serverless": {"returning": '[[5,"eve"]],1]'},
}


def modules(lab):
    """node_modules as the lock file has them, fetched once into the tests' cache."""
    cache = os.environ.get("TERMGATE_CACHE") or ("/var/cache/termgate" if os.geteuid() == 0 else os.path.expanduser("~/.cache/termgate"))
    home = f"{cache}/node-hrana-1"
    os.makedirs(home, exist_ok=True)
    script = (
        f'exec 9>"{home}.lock"; flock 9; [ -e "{home}/ready" ] || {{ cp "{FOLDER}"/package*.json "{home}/" && '
        f'npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "{home}" && touch "{home}/ready"; }}'
    )
    fetched = subprocess.run(["bash", "-c", script], cwd=home, capture_output=True, text=True)
    check("the packages of the lock file are there", fetched.returncode == 0, fetched.stderr[-1000:])
    work = f"{lab.folder}/node"
    shutil.copytree(FOLDER, work)
    os.symlink(f"{home}/node_modules", f"{work}/node_modules")
    return work


def run(folder, program, url, token=""):
    made = dict(os.environ, HRANA_URL=url, HRANA_TOKEN=token, TZ="UTC", LC_ALL="C.UTF-8", NO_COLOR="1")
    ran = subprocess.run(["node", program], cwd=folder, env=made, capture_output=True, text=True, timeout=120 * (4 if SANITIZED else 1))
    lines = ran.stdout.splitlines()
    return lines + ([f"ended = {ran.returncode}: {ran.stderr[-1500:]}"] if ran.returncode else [])


def answers(lines):
    """Every line that says what an act came to, by its name."""
    found = {}
    for line in lines:
        begins = re.match(r"(.+?) [=!] ", line)
        found[begins[1] if begins else line] = line
    return found


def compare(name, wanted, got):
    expected = dict(EXPECTED.get(name, {}))
    a, b = answers(wanted), answers(got)
    differing = []
    for key in dict.fromkeys([*a, *b]):
        one, other = a.get(key, "nothing"), b.get(key, "nothing")
        part = expected.pop(key, None)
        if part is not None and one == other:
            differing.append(f"{key}: was expected to differ and does not")
        elif part is not None and part not in other:
            differing.append(f"{key}: {part!r} is not in\n  {other[:1000]}")
        elif part is None and one != other:
            differing.append(f"{key}:\n  file   {one[:1000]}\n  served {other[:1000]}")
    check(f"{name}: what is expected to differ is there", not expected, str(expected))
    check(f"{name}: more than 12 answers", len(a) > 12, "\n".join(wanted)[-1500:])
    check(f"{name}: the same answers", not differing, "\n" + "\n".join(differing))


@pytest.fixture(scope="module")
def folder(lab):
    if not shutil.which("npm"):
        pytest.skip("npm is missing")
    return modules(lab)


@pytest.mark.parametrize("name", RUNS)
def test_the_same_program_answers_the_same(lab, folder, name):
    program, transport = RUNS[name]
    proxy = Served(lab, File(lab, name=f"{name}.db").path)
    wanted = run(folder, program, f"file:{lab.folder}/{name}-plain.db")
    got = run(folder, program, f"{transport}://127.0.0.1:{proxy.port}", TOKEN)
    if option("show"):
        print("\n".join(got))
    compare(name, wanted, got)
    check("the proxy ends cleanly", proxy.stop() == 0, proxy.log()[-2000:])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_client_that_npm_lacks_is_answered_as_it_reads(lab, name):
    script = json.loads((FOLDER / "scripts" / f"{name}.json").read_text(encoding="utf-8"))
    proxy = Served(lab, File(lab, name=f"script-{name}.db").path)
    wrong = Player(proxy.port, script, CLAIMS).play()
    check(f"{name}: {len(script['steps'])} steps", not wrong, "\n" + "\n".join(wrong))
    check("the proxy ends cleanly", proxy.stop() == 0, proxy.log()[-2000:])
