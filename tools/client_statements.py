#!/usr/bin/env python3
"""Writes the statements of the clients (clients/) from sql/<database>/calls/: one file a language.

  tools/client_statements.py            writes what has changed
  tools/client_statements.py --check    names the files that are not current; exit 1 if there is one

A text keeps @schema@ and its parameters $1, $2, …, which each client replaces by what its driver wants. Drivers that know only ? bind by
place, so each parameter must be there once and in order.
"""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[1]
CALLS = ("acquire_lease", "renew_lease", "release_lease", "lease", "check_term")
DATABASES = {"postgresql": "postgres", "sqlserver": "sqlserver", "sqlite": "sqlite"}
HEAD = "Generated from sql/ by tools/client_statements.py: edit the .sql files."


def text_of(folder, call):
    path = root / "sql" / folder / "calls" / f"{call}.sql"
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    text = " ".join(line for line in lines if line)
    found = re.findall(r"\$(\d)", text)
    if found != [str(number) for number in range(1, len(found) + 1)]:
        sys.exit(f"{path.relative_to(root)}: binds {found}; the clients need each parameter once and in order")
    if re.search(r"[\"\\?%]", text):
        sys.exit(f"{path.relative_to(root)}: has a character that a client's language or driver reads as its own")
    return text


def statements():
    return [(database, [(call, text_of(folder, call)) for call in CALLS]) for database, folder in DATABASES.items()]


def table(database_line, call_line, after, key="{}"):
    """The nested table, in the syntax of one language."""
    lines = []
    for database, calls in statements():
        lines.append(database_line.format(database))
        lines += [call_line.format(key.format(call), text) for call, text in calls]
        lines.append(after)
    return "\n".join(lines)


def python():
    return f'"""{HEAD}"""\n\n# fmt: off\nSTATEMENTS = {{\n' + table('    "{}": {{', '        "{}": "{}",', "    },") + "\n}\n"


def node():
    return f"// {HEAD}\nexport const STATEMENTS = {{\n" + table("  {}: {{", '    {}: "{}",', "  },") + "\n};\n"


def go():
    body = table('\tDatabase("{}"): {{', '\t\t{0:<16} "{1}",', "\t},", key='"{}":')
    kinds = "// Database says whose statements are sent.\ntype Database string\n\nconst (\n"
    kinds += "".join(f'\t{name:<10} Database = "{name.lower()}"\n' for name in ("PostgreSQL", "SQLServer", "SQLite")) + ")\n"
    return (
        f"// Code generated from sql/ by tools/client_statements.py; DO NOT EDIT.\n\npackage termgate\n\n{kinds}\nvar statements ="
        f" map[Database]map[string]string{{\n{body}\n}}\n"
    )


def java():
    body = table('      "{}", Map.of(', '          "{}", "{}",', "      ),")
    body = re.sub(r",(\n\s*\))", r"\1", body).rstrip(",")
    return (
        f"// {HEAD}\npackage termgate;\n\nimport java.util.Map;\n\nfinal class Statements {{\n  static final Map<String, Map<String,"
        f" String>> ALL = Map.of(\n{body});\n\n  private Statements() {{}}\n}}\n"
    )


def dotnet():
    body = table('      {{ "{}", new Dictionary<string, string> {{', '        {{ "{}", "{}" }},', "      } },")
    return (
        f"// {HEAD}\nusing System.Collections.Generic;\n\nnamespace Termgate\n{{\n  internal static class Statements\n  {{\n    internal"
        " static readonly Dictionary<string, Dictionary<string, string>> All = new Dictionary<string, Dictionary<string, string>>"
        f" {{\n{body}\n    }};\n  }}\n}}\n"
    )


FILES = {
    "clients/python/termgate/_statements.py": python,
    "clients/node/statements.js": node,
    "clients/go/statements.go": go,
    "clients/java/src/main/java/termgate/Statements.java": java,
    "clients/dotnet/Statements.cs": dotnet,
}


def main():
    stale = []
    for name, made in FILES.items():
        path, text = root / name, made()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if sys.argv[1:] != ["--check"] and path.parent.exists():
            path.write_text(text, encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        for name in stale:
            print(f"{name}: not what sql/ says; run tools/client_statements.py")
        sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
