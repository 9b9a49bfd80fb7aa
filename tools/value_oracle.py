#!/usr/bin/env python3
"""Writes what a real PostgreSQL makes of values into tests/unit/sqlite_server/values.txt.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/value_oracle.py URL tests/unit/sqlite_server/values.txt

A line is `type<TAB>input`, or `into type from type<TAB>input` for an assignment; behind it `<TAB>text<TAB>hex of the
binary form`, or `<TAB>!SQLSTATE`; these are replaced. `#`: a comment.
"""
import sys

import psycopg2

url, path = sys.argv[1], sys.argv[2]
send = {
    "bool": "boolsend",
    "int2": "int2send",
    "int4": "int4send",
    "int8": "int8send",
    "oid": "oidsend",
    "float4": "float4send",
    "float8": "float8send",
    "numeric": "numeric_send",
    "bytea": "byteasend",
    "uuid": "uuid_send",
    "date": "date_send",
    "time": "time_send",
    "timestamp": "timestamp_send",
    "timestamptz": "timestamptz_send",
    "text": "textsend",
    "jsonb": "jsonb_send",
    "json": "json_send",
    "timetz": "timetz_send",
    "interval": "interval_send",
}
connection = psycopg2.connect(url)
connection.autocommit = True
cursor = connection.cursor()
cursor.execute("SET TimeZone TO 'UTC'")
out = []
for line in open(path, encoding="utf-8").read().splitlines():
    if not line or line.startswith("#"):
        out.append(line)
        continue
    kind, value = line.split("\t")[:2]
    if kind.startswith("into "):
        # What a column of the type holds after the assignment of a value of another.
        column, source = kind[5:].split(" from ")
        try:
            cursor.execute(
                (
                    f"CREATE TEMP TABLE into_here (v {column}); INSERT INTO into_here VALUES"
                    f" ({'%s' if source == 'unknown' else '%s::' + source}); SELECT v::text FROM into_here"
                ),
                (value,),
            )
            out.append(f"{kind}\t{value}\t{cursor.fetchone()[0]}")
        except psycopg2.Error as error:
            out.append(f"{kind}\t{value}\t!{error.pgcode}")
        cursor.execute("DROP TABLE IF EXISTS into_here")
        continue
    try:
        cursor.execute(
            f"SELECT format('%%s', v), encode({send.get(kind, 'array_send')}(v), 'hex') FROM (SELECT %s::{kind} AS v) x", (value,)
        )
        text, binary = cursor.fetchone()
        out.append(f"{kind}\t{value}\t{text}\t{binary}")
    except psycopg2.Error as error:
        out.append(f"{kind}\t{value}\t!{error.pgcode}")
open(path, "w", encoding="utf-8").write("\n".join(out) + "\n")
