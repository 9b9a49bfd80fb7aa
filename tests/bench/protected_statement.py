#!/usr/bin/python3
"""What layer 1 costs one statement on PostgreSQL: microseconds of processor time of the server's session, prepared, one session,
synchronous_commit off, in turns.

    protected_statement.py [URL] [--rounds 9] [--layer1 FOLDER]

URL (else TERMGATE_TEST_POSTGRESQL): a database that may be written to, by a role that may CREATE there; schemas cost_layer1 and
cost_tables are made anew and dropped. The server runs on this machine, for its processor time is read from /proc. --layer1: the folder
sql/postgres of another checkout, to compare with. "first" is a transaction of one statement, scope and term declared for the session;
"further" each other statement of a transaction. In brackets: all that it costs, and the same on a table without protect().
"""
import argparse
import glob
import hashlib
import os
import statistics
import subprocess
import sys
from pathlib import Path

import psycopg2

parser = argparse.ArgumentParser()
parser.add_argument("url", nargs="?", default=os.environ.get("TERMGATE_TEST_POSTGRESQL"))
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--count", type=int, default=300, help="statements in a row")
parser.add_argument("--layer1", default=str(Path(__file__).resolve().parents[2] / "sql" / "postgres"))
options = parser.parse_args()
if not options.url:
    sys.exit(77)

connection = psycopg2.connect(options.url)
connection.autocommit = True
cursor = connection.cursor()
pid = connection.info.backend_pid


def drop():
    cursor.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS cost_tables CASCADE; DROP SCHEMA IF EXISTS cost_layer1 CASCADE")


def spent():
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


drop()
files = [
    f"{options.layer1}/before_install.sql",
    *sorted(glob.glob(f"{options.layer1}/install/*.sql")),
    f"{options.layer1}/after_install.sql",
]
text = "".join(Path(file).read_text() for file in files).replace("@schema_lit@", "'cost_layer1'").replace("@schema@", '"cost_layer1"')
subprocess.run(
    ["psql", "-qX", "-1", "-v", "ON_ERROR_STOP=1", options.url],
    input=text,
    text=True,
    check=True,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
cursor.execute(
    "CREATE SCHEMA cost_tables; CREATE TABLE cost_tables.plain (scope text, v text); CREATE TABLE cost_tables.whole (scope text, v"
    " text);CREATE TABLE cost_tables.by_row (scope text, v text); SELECT cost_layer1.seal('cost', 5); SELECT cost_layer1.append('stream',"
    " 5, 'x', scope => 'cost');SELECT cost_layer1.protect('cost_tables.whole', scope => 'cost'); SELECT"
    " cost_layer1.protect('cost_tables.by_row', scope_column => 'scope');SET synchronous_commit = off; SET termgate.scope = 'cost'; SET"
    " termgate.term = '5'"
)
TABLES = {"plain": "without protect()", "whole": "protected, one scope", "by_row": "protected, scope column"}
for table in TABLES:
    cursor.execute(f"PREPARE {table} AS INSERT INTO cost_tables.{table} VALUES ('cost', 'x')")
cursor.execute(
    "PREPARE nothing AS SELECT 1; PREPARE checked AS SELECT cost_layer1.check_term('cost', 5); PREPARE appended AS SELECT"
    " cost_layer1.append('stream', 5, 'x', NULL, 'cost')"
)


def first(name):
    for _ in range(options.count):
        cursor.execute(f"EXECUTE {name}")


def further(name):
    cursor.execute("BEGIN")
    cursor.execute(f"EXECUTE {name}")
    begun = spent()
    first(name)
    took = spent() - begun
    cursor.execute("COMMIT")
    return took


def alone(name):
    begun = spent()
    first(name)
    return spent() - begun


cases = {}
for table in TABLES:
    cases[table, "first"] = lambda table=table: alone(table)
    cases[table, "further"] = lambda table=table: further(table)
for name in ("nothing", "checked", "appended"):
    cases[name, "first"] = lambda name=name: alone(name)
cases["checked", "further"] = lambda: further("checked")
took = {case: [] for case in cases}


def rounds(seated):
    mine = {(*case, seated): [] for case in cases}
    for turn in range(options.rounds + 1):
        for case, run in cases.items():
            microseconds = run() / 1000 / options.count
            if turn:
                mine[(*case, seated)].append(microseconds)
    return {case: statistics.median(values) for case, values in mine.items()}


result = rounds(False)
cursor.execute("SELECT to_regprocedure('cost_layer1.sit(text, bigint, bytea)') IS NOT NULL")
if cursor.fetchone()[0]:
    cursor.execute("SELECT nonce IS NOT NULL FROM cost_layer1.sit('cost', 5, %s)", (hashlib.sha256(b"secret").digest(),))
    assert cursor.fetchone()[0], "no seat: the owner of layer 1 needs pg_read_all_stats and pg_signal_backend"
    result.update(rounds(True))
for seated in sorted({case[2] for case in result}):
    print("seated" if seated else "no seat")
    for table, what in list(TABLES.items())[1:]:
        for place in ("first", "further"):
            plain = result["plain", place, False]
            print(
                f"  INSERT, {what}, {place:8s}{result[table, place, seated] - plain:+7.1f}  ({result[table, place, seated]:.1f},"
                f" {plain:.1f})"
            )
    print(
        f"  SELECT check_term, first      {result['checked', 'first', seated] - result['nothing', 'first', False]:+7.1f} "
        f" ({result['checked', 'first', seated]:.1f}, SELECT 1 {result['nothing', 'first', False]:.1f})"
    )
    print(f"  append, a stream              {result['appended', 'first', seated]:7.1f}")
drop()
