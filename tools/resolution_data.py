#!/usr/bin/env python3
"""Writes sqlite_server/dialect/src/resolution_data.cpp: PostgreSQL 15's operators, functions, casts and types, by
which expressions are typed.

    tests/support/pg_server.sh start 15 DIR          # prints URL
    tools/resolution_data.py URL sqlite_server/dialect/src/resolution_data.cpp

Functions that no SQL text can call (with internal or cstring arguments, triggers and the like) are left out.
"""
import sys
from pathlib import Path

import psycopg2

url, path = sys.argv[1], sys.argv[2]
cursor = psycopg2.connect(url).cursor()


def rows(sql):
    cursor.execute(sql)
    out = []
    for row in cursor.fetchall():
        cells = ["" if cell is None else ("t" if cell is True else "f" if cell is False else str(cell)) for cell in row]
        assert not any("|" in cell or '"' in cell or "\\" in cell for cell in cells if cell is not row[0]), cells
        out.append("\t".join(cells).replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t"))
    return out


tables = {
    # oid, name, category, preferred, element, array, type of type, length
    "types": rows(
        """
      SELECT oid, typname, typcategory, typispreferred, typelem, typarray, typtype, typlen FROM pg_type
      WHERE typrelid = 0 AND typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'p', 'r', 'm')
        AND (typelem = 0 OR NOT EXISTS (SELECT 1 FROM pg_type e WHERE e.oid = pg_type.typelem AND e.typrelid <> 0))
      ORDER BY oid"""
    ),
    # name, left, right, result, the function, its arguments
    "operators": rows(
        """
      SELECT oprname, oprleft, oprright, oprresult, proname FROM pg_operator o JOIN pg_proc p ON p.oid = oprcode
      WHERE oprnamespace = 'pg_catalog'::regnamespace ORDER BY oprname, oprleft, oprright"""
    ),
    # source, target, context, how, the function
    "casts": rows(
        """
      SELECT castsource, casttarget, castcontext, castmethod, coalesce(proname, '') FROM pg_cast c LEFT JOIN pg_proc p ON p.oid =
        castfunc ORDER BY 1, 2"""
    ),
    # name, arguments, result, kind, of a set, element type of VARIADIC, how many have a default
    "functions": rows(
        """
      SELECT proname, replace(proargtypes::text, ' ', ','), prorettype, prokind, proretset, provariadic, pronargdefaults FROM pg_proc p
      WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind <> 'p' AND prorettype NOT IN ('internal'::regtype, 'trigger'::regtype,
        'event_trigger'::regtype, 'cstring'::regtype)
        AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[] AND proname !~
          '^(RI_|binary_upgrade|.*(_transfn|_accum|_combine|_serialize|_deserialize)$)'
      ORDER BY proname, proargtypes"""
    ),
}
out = [
    "// Written by tools/resolution_data.py from what a PostgreSQL 15 says of itself; not edited by hand. Long: data.",
    "// clang-format off",
    '#include "resolution.hpp"',
    "",
    "namespace termgate::dialect::resolution {",
    "",
]
for name, table in tables.items():
    out.append(f"// {len(table)} lines")
    out.append(f"const std::string_view {name}_text =")
    line = '    "'
    for row in table:
        if len(line) + len(row) > 155:
            out.append(line + '"')
            line = '    "'
        line += row + "\\n"
    out.append(line + '";')
    out.append("")
out += ["}  // namespace termgate::dialect::resolution", ""]
Path(path).write_text("\n".join(out), encoding="utf-8")
