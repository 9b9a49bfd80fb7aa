#!/usr/bin/env python3
"""Writes sqlite_server/catalog/data.cpp: what PostgreSQL 15 itself says of its catalogs' columns, its types and the like.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/catalog_data.py URL sqlite_server/catalog/data.cpp
"""
import re
import sys
from pathlib import Path

import psycopg2

url, path = sys.argv[1], sys.argv[2]
connection = psycopg2.connect(url)
cursor = connection.cursor()
root = Path(__file__).resolve().parents[1]


def rows(sql, *arguments):
    cursor.execute(sql, arguments)
    return cursor.fetchall()


def lines_of(table):
    out = []
    for row in table:
        cells = ["" if cell is None else ("t" if cell is True else "f" if cell is False else str(cell)) for cell in row]
        assert not any("|" in cell or "\n" in cell for cell in cells), cells
        out.append("|".join(cells))
    return out


# name | OID | r or v | "column type" apart by commas; a domain stands as what it is made of.
relations = rows(
    """
  SELECT CASE n.nspname WHEN 'information_schema' THEN 'information_schema.' ELSE '' END || c.relname, c.oid, c.relkind,
         string_agg(a.attname || ' ' || coalesce(b.typname, t.typname), ',' ORDER BY a.attnum)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
       JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
  WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
  GROUP BY 1, 2, 3 ORDER BY 1"""
)
types = rows(
    """
  SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typsubscript::oid, typelem, typarray,
    typinput::oid, typoutput::oid,
         typreceive::oid, typsend::oid, typmodin::oid, typmodout::oid, typalign, typstorage, typcollation
  FROM pg_type WHERE typrelid = 0 AND typnamespace = 'pg_catalog'::regnamespace AND typtype <> 'd'
       AND (typelem = 0 OR NOT EXISTS (SELECT 1 FROM pg_type e WHERE e.oid = pg_type.typelem AND (e.typrelid <> 0 OR e.typtype = 'd')))
  ORDER BY oid"""
)
supplied = re.findall(r'^    \{"(\w+)",', (root / "sqlite_server/dialect/src/functions.cpp").read_text(), re.M)
functions = rows(
    """
  SELECT p.oid, proname, prokind, prorettype, replace(proargtypes::text, ' ', ','), proretset, provolatile, proisstrict, pronargs
  FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace
       AND (proname = ANY (%s) OR p.oid IN (SELECT unnest(ARRAY[typsubscript::oid, typinput, typoutput, typreceive, typsend, typmodin,
         typmodout]) FROM pg_type))
  ORDER BY oid""",
    supplied + ["now", "lower", "upper", "length", "abs", "round", "count", "sum", "min", "max", "avg", "coalesce"],
)
classes = rows(
    """
  SELECT c.oid, opcmethod, opcname, opcfamily, opcintype, opckeytype FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
  WHERE opcdefault AND amname = 'btree' AND opcnamespace = 'pg_catalog'::regnamespace ORDER BY 1"""
)
keywords = rows("SELECT * FROM pg_get_keywords() ORDER BY word")

out = [
    "// Written by tools/catalog_data.py from what a PostgreSQL 15 says of itself; not edited by hand. Long: data.",
    "// clang-format off",
    '#include "catalog_data.hpp"',
    "",
    "namespace termgate::sqlite_server::data {",
    "",
]
for name, table in (
    ("relations", relations),
    ("types", types),
    ("functions", functions),
    ("operator_classes", classes),
    ("keywords", keywords),
):
    out.append(f"const std::string_view {name}[] = {{")
    out += [f'    "{line}",' for line in lines_of(table)]
    out += ["};", f"const std::size_t {name}_count = std::size({name});", ""]
out += ["}  // namespace termgate::sqlite_server::data", ""]
Path(path).write_text(
    "\n".join(out).replace('#include "catalog_data.hpp"', '#include "catalog_data.hpp"\n\n#include <iterator>'), encoding="utf-8"
)
