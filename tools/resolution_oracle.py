#!/usr/bin/env python3
"""Writes tests/unit/sqlite_server/dialect/resolution.txt: which type PostgreSQL 15 gives an operator or a function, for all pairs of types.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/resolution_oracle.py URL tests/unit/sqlite_server/dialect/resolution.txt

A line is an operator or a function's name, its operand's type or the left
one's, and `right=result` for each right type that has one (`-`: no second
operand). `?` is 42725, ambiguous; a type that is not listed has 42883.
"""
import sys
from pathlib import Path

import psycopg2

TYPES = [
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "bpchar",
    "name",
    "bytea",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "json",
    "jsonb",
    "oid",
    "_int4",
    "_text",
    "unknown",
]
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "||",
    "&",
    "|",
    "#",
    "<<",
    "->",
    "->>",
    "#>",
    "@>",
    "<@",
    "&&",
    "?",
    "~~",
    "~",
    "^@",
]
PREFIXES = ["+", "-", "~", "@"]
ONE = [
    "abs",
    "round",
    "trunc",
    "ceil",
    "floor",
    "sign",
    "length",
    "lower",
    "upper",
    "sqrt",
    "ln",
    "exp",
    "md5",
    "reverse",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "array_agg",
    "date",
    "text",
    "int4",
    "float8",
    "cardinality",
    "ascii",
    "btrim",
    "unnest",
    "to_json",
    "json_agg",
    "date_part",
    "age",
    "octet_length",
]
TWO = [
    "mod",
    "round",
    "trunc",
    "power",
    "log",
    "left",
    "repeat",
    "strpos",
    "date_trunc",
    "date_part",
    "generate_series",
    "array_append",
    "array_length",
    "array_cat",
    "age",
    "div",
    "substr",
    "to_char",
    "string_agg",
    "atan2",
    "lag",
    "concat",
    "starts_with",
    "timezone",
]

cursor = psycopg2.connect(sys.argv[1])
cursor.autocommit = True
cursor = cursor.cursor()


def operand(kind):
    return "NULL" if kind == "unknown" else f"NULL::{kind}"


def asked(expression):
    try:
        cursor.execute(f"CREATE TEMP VIEW v AS SELECT {expression} AS x")
        cursor.execute("SELECT typname FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = 'pg_temp.v'::regclass")
        found = cursor.fetchone()[0]
        cursor.execute("DROP VIEW pg_temp.v")
        return found
    except psycopg2.Error as error:
        return "?" if error.pgcode == "42725" else None


def line(name, left, results):
    return f"{name} {left} " + " ".join(f"{right}={result}" for right, result in results if result is not None)


out = ["# Written by tools/resolution_oracle.py from a PostgreSQL 15; its head says what a line is."]
for name in OPERATORS:
    for left in TYPES:
        results = [(right, asked(f"{operand(left)} {name} {operand(right)}")) for right in TYPES]
        if any(result for _, result in results):
            out.append(line(name, left, results))
for name in PREFIXES:
    results = [(right, asked(f"{name} {operand(right)}")) for right in TYPES]
    out.append(line("prefix" + name, "-", results))
for name in ONE:
    out.append(line(name + "()", "-", [(kind, asked(f"{name}({operand(kind)}){' OVER ()' if name == 'lag' else ''}")) for kind in TYPES]))
for name in TWO:
    for left in TYPES:
        results = [(right, asked(f"{name}({operand(left)}, {operand(right)}){' OVER ()' if name == 'lag' else ''}")) for right in TYPES]
        if any(result for _, result in results):
            out.append(line(name + "()", left, results))
Path(sys.argv[2]).write_text("\n".join(out) + "\n", encoding="utf-8")
