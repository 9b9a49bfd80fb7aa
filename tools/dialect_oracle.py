#!/usr/bin/env python3
"""Writes what a real PostgreSQL answers into tests/unit/sqlite_server/dialect/oracle.txt.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/dialect_oracle.py URL tests/unit/sqlite_server/dialect/oracle.txt

A case is a line `-- name`, its SQL up to the next `=`, and lines `= …`: first the columns' names, then the rows, fields
apart by `|`, NULL as \\N. The `=` lines are replaced; each case runs in a transaction that is rolled back, after the lines of
the case named `setup`. A case that fails has one line `! SQLSTATE`.
"""
import sys

import psycopg2

url, path = sys.argv[1], sys.argv[2]
cases = []
head = []
for line in open(path, encoding="utf-8").read().splitlines():
    if line.startswith("-- "):
        cases.append([line[3:], []])
    elif not cases:
        head.append(line)
    elif not line.startswith(("=", "!")) and line:
        cases[-1][1].append(line)


def shown(value):
    return "\\N" if value is None else value.replace("\n", "\\n")


out = head
setup = "\n".join(next(sql for name, sql in cases if name == "setup"))
connection = psycopg2.connect(url)
connection.set_client_encoding("UTF8")
# Every type as text, as psql shows it.
psycopg2.extensions.register_type(psycopg2.extensions.new_type(tuple(range(1, 10000)), "ANY", lambda value, cursor: value), connection)
for name, sql in cases:
    out += ["-- " + name, *sql]
    if name != "setup":
        cursor = connection.cursor()
        cursor.execute("SET TIME ZONE 'UTC'; SET extra_float_digits = 0")
        cursor.execute(setup)
        try:
            cursor.execute("\n".join(sql))
            if cursor.description:
                out.append("= " + "|".join(column.name for column in cursor.description))
                out += ["= " + "|".join(shown(value) for value in row) for row in cursor.fetchall()]
        except psycopg2.Error as error:
            out.append("! " + error.pgcode)
        connection.rollback()
    out.append("")
open(path, "w", encoding="utf-8").write("\n".join(out).rstrip("\n") + "\n")
