"""[F7] Programs written with an ORM do on an SQLite file behind the proxy what they do on PostgreSQL.

  pytest tests/live/sqlite_server_orms_test.py [-k NAME]

Each program of clients/orms/ runs once against a PostgreSQL 15 and once against the proxy before an SQLite file: Django with its own
migrations, SQLAlchemy with reflection and Alembic, Sequelize, Knex, TypeORM. It prints a line for each thing that it does, and both runs
must print the same, but for the lines that EXPECTED names with what the front answers instead.
"""
import difflib
import os
import re
import shutil
import subprocess

import pytest
from checks import check
from given import PYTHON, SANITIZED

HERE = os.path.dirname(os.path.abspath(__file__))
ORMS = f"{HERE}/clients/orms"
PROGRAMS = {
    "django": [PYTHON, "django_client.py"],
    "sqlalchemy": [PYTHON, "sqlalchemy_client.py"],
    "sequelize": ["node", "sequelize_client.mjs"],
    "knex": ["node", "knex_client.mjs"],
    "typeorm": ["node", "typeorm_client.mjs"],
}
NEEDS = {"django": "django", "sqlalchemy": "alembic"}
# What differs, by the beginning of its line: a part of what the front says there.
EXPECTED = {
    "django": {
        # SQLite does not say at COMMIT which key was violated.
        "late foreign key": "violates foreign key constraint",
        "delete": "violates foreign key constraint",
    },
    "sqlalchemy": {
        # That a DEFAULT was written as a string, the schema does not keep.
        "columns sa_user": "('balance', 'NUMERIC(10, 2)', True, '0', False)"
    },
    "sequelize": {
        "findOrCreate": "CREATE FUNCTION is not supported",
        "findCreateFind": "[null,true]",
        # Without the values of a duplicate key in its DETAIL.
        "unique": "SequelizeUniqueConstraintError 23505",
        "query": "",
    },
    "knex": {"json path": "the function jsonb_path_query in a select list is not translated for SQLite files"},
    "typeorm": {},
}


def modules(lab):
    """node_modules as the lock file has them, fetched once into the tests' cache."""
    cache = os.environ.get("TERMGATE_CACHE") or ("/var/cache/termgate" if os.geteuid() == 0 else os.path.expanduser("~/.cache/termgate"))
    home = f"{cache}/node-orms-1"
    os.makedirs(home, exist_ok=True)
    script = (
        f'exec 9>"{home}.lock"; flock 9; [ -e "{home}/ready" ] || {{ cp "{ORMS}"/package*.json "{home}/" && '
        f'npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "{home}" && touch "{home}/ready"; }}'
    )
    fetched = subprocess.run(["bash", "-c", script], cwd=home, capture_output=True, text=True)
    check("the packages of the lock file are there", fetched.returncode == 0, fetched.stderr[-1000:])
    work = f"{lab.folder}/node"
    shutil.copytree(ORMS, work)
    os.symlink(f"{home}/node_modules", f"{work}/node_modules")
    return work


def run(name, port, folder):
    made = dict(
        os.environ,
        PGHOST="127.0.0.1",
        PGPORT=str(port),
        PGUSER="postgres",
        PGDATABASE=name,
        PGCONNECT_TIMEOUT="20",
        PGSSLMODE="disable",
        LC_ALL="C.UTF-8",
        TZ="UTC",
        PGTZ="UTC",
        PGOPTIONS="-c termgate.scope=orms -c termgate.term=7",
    )
    for other in ("PGPASSWORD", "PGSERVICE", "PGDATESTYLE", "PGAPPNAME"):
        made.pop(other, None)
    words = PROGRAMS[name]
    ran = subprocess.run(
        words, cwd=folder if words[0] == "node" else ORMS, env=made, capture_output=True, text=True, timeout=300 * (4 if SANITIZED else 1)
    )
    return ran.stdout.splitlines() + ([f"ended with {ran.returncode}: {ran.stderr[-1500:]}"] if ran.returncode else [])


def answers(lines):
    """Every line that says what an act came to, by its name; what a text of several lines holds goes with its first."""
    found, name, seen = {}, "", {}
    for line in lines:
        begins = re.match(r"([A-Za-z][\w ]*?) [=!] ", line + " ")
        if begins:
            seen[begins[1]] = seen.get(begins[1], 0) + 1
            name = begins[1] + (f" #{seen[begins[1]]}" if seen[begins[1]] > 1 else "")
        found.setdefault(name, []).append(line)
    return {key: "\n".join(value) for key, value in found.items()}


def compare(name, wanted, got):
    expected = dict(EXPECTED[name])
    a, b = answers(wanted), answers(got)
    differing = []
    for key in list(dict.fromkeys([*a, *b])):
        one, other = a.get(key, ""), b.get(key, "")
        if key in expected:
            part = expected.pop(key)
            if part not in other:
                differing.append((key, part, other))
        elif one != other:
            differing.append((key, one, other))
    check(f"{name}: what is expected to differ is there", not expected or all(key in a for key in expected), str(expected))
    check(f"{name}: more than 30 answers", len(a) > 30, "\n".join(wanted)[-1500:])
    detail = "\n".join(
        "\n".join(difflib.unified_diff(one.split("\n"), other.split("\n"), f"{key}: PostgreSQL", "front", lineterm="", n=0))
        for key, one, other in differing
    )
    check(f"{name}: the same answers", not differing, detail)


@pytest.fixture(scope="module")
def folder(lab):
    return modules(lab)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_program_answers_the_same(lab, server, name, request):
    if name in NEEDS and subprocess.run([PYTHON, "-c", f"import {NEEDS[name]}"], capture_output=True).returncode:
        pytest.skip(f"{NEEDS[name]} is missing")
    if name not in NEEDS and not shutil.which("node"):
        pytest.skip("node is missing")
    folder = ORMS if name in NEEDS else request.getfixturevalue("folder")
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/{name}.db")
    proxy = lab.proxy(f"sqlite:{lab.folder}/{name}.db")
    server.sql(f"create database {name}")
    compare(name, run(name, server.port, folder), run(name, proxy.port, folder))
    check("the proxy ends cleanly", proxy.stop() == 0, proxy.log()[-2000:])
