#!/usr/bin/env python3
"""Writes what a real PostgreSQL answers into tests/unit/sqlite_server/catalog.txt, or checks that it still does.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/catalog_oracle.py [--check] URL tests/unit/sqlite_server/catalog.txt

A case is a line `-- name`, its SQL up to the next `=`, and lines `= …`: first the columns' names, then the rows,
fields apart by `|`, NULL as \\N. {name} in the SQL is the OID of that relation, and an answer that is such an OID is
written so. `-- ~ name`: the answers differ for a reason; only the columns' names are compared. A case that fails has
one line `! SQLSTATE`.
"""
import sys
from pathlib import Path

import psycopg2

check = sys.argv[1] == "--check"
url, path = sys.argv[-2], Path(sys.argv[-1])
cases, head = [], []
before = path.read_text(encoding="utf-8")
for line in before.splitlines():
    if line.startswith("-- ") and not line.startswith("-- |"):
        cases.append([line[3:], []])
    elif not cases:
        head.append(line)
    elif not line.startswith(("= ", "! ")) and line not in ("", "="):
        cases[-1][1].append(line)

connection = psycopg2.connect(url)
psycopg2.extensions.register_type(psycopg2.extensions.new_type(tuple(range(1, 20000)), "ANY", lambda value, cursor: value), connection)
cursor = connection.cursor()
cursor.execute("SET TIME ZONE 'UTC'")
cursor.execute((path.parent / "catalog_setup.sql").read_text(encoding="utf-8"))
cursor.execute("SELECT relname, oid FROM pg_class WHERE relnamespace = 'public'::regnamespace")
oids = {name: str(oid) for name, oid in cursor.fetchall()}
names = {oid: "{" + name + "}" for name, oid in oids.items()}


def shown(value):
    if value is None:
        return "\\N"
    return names.get(value, value).replace("\n", "\\n")


out = head
for name, sql in cases:
    out += ["-- " + name, *sql]
    text = "\n".join(sql)
    for relation, oid in oids.items():
        text = text.replace("{" + relation + "}", oid)
    cursor.execute("SAVEPOINT one")
    try:
        cursor.execute(text)
        if cursor.description:
            out.append("= " + "|".join(column.name for column in cursor.description))
            if not name.startswith("~ "):
                out += ["= " + "|".join(shown(value) for value in row) for row in cursor.fetchall()]
    except psycopg2.Error as error:
        out.append("! " + error.pgcode)
    cursor.execute("ROLLBACK TO one")
    out.append("")
connection.rollback()
after = "\n".join(out).rstrip("\n") + "\n"
if not check:
    path.write_text(after, encoding="utf-8")
elif after != before:
    import difflib

    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "the file", "PostgreSQL"))
    sys.exit(1)
