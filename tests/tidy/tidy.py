#!/usr/bin/env python3
"""The house rules that a machine can check. Prints each breach with the file and the reason; exit 1 if any.

The tree is the architecture (docs/architecture.md): a folder may include only what the table below says.
"""
import ast
import re
import subprocess
import sys
from pathlib import Path

import comments

root = Path(__file__).resolve().parents[2]

# Which folders each folder may include besides itself, and behind the bar which third-party headers. A header <termgate/x.hpp>
# belongs to the folder whose include/ holds it.
allowed = {folder: (None, None) for folder in ("cli", "examples", "tests")}
folders = """
text:
fencing: | fmt
storage/port: fencing | fmt
storage/postgres: fencing generated storage/port | fmt libpq pqxx
storage/sqlite: fencing generated storage/port | fmt sqlite
storage/odbc: fencing generated storage/port | fmt odbc
storage: fencing generated storage/odbc storage/port storage/postgres storage/sqlite | fmt
http: fencing | boost fmt openssl
wire/pgwire:
wire/tds:
proxy/statements: fencing | pg_query
sqlite_server/hrana: fencing | boost fmt
sqlite_server/file: fencing sqlite_server/hrana storage/sqlite | fmt sqlite
sqlite_server/front: fencing http proxy/authority proxy/conversation sqlite_server/claim sqlite_server/file sqlite_server/hrana | fmt
  openssl
sqlite_server/claim: fencing sqlite_server/hrana | boost fmt openssl
proxy/conversation: fencing
proxy/postgres: fencing proxy/conversation proxy/statements wire/pgwire | fmt
proxy/sqlserver: fencing proxy/conversation proxy/statements wire/tds
proxy/authority: fencing proxy/conversation storage | fmt
proxy/net: fencing http proxy/authority proxy/conversation proxy/postgres proxy/sqlserver proxy/statements storage wire/pgwire
  wire/tds | boost fmt openssl
term_sources/net: fencing | boost fmt openssl
term_sources/redis: fencing term_sources/net | boost fmt hiredis
term_sources/etcd: fencing term_sources/net | boost fmt
term_sources/zookeeper: fencing term_sources/net | fmt zookeeper
term_sources/consul: fencing term_sources/net | boost fmt
term_sources/kubernetes: fencing term_sources/net | boost fmt openssl
term_sources/file: fencing term_sources/net | fmt
term_sources: fencing term_sources/consul term_sources/etcd term_sources/file term_sources/kubernetes term_sources/net
  term_sources/redis term_sources/zookeeper | fmt
testkit: fencing storage | catch2 fmt libpq
admin: fencing http storage | boost fmt
"""
for row in folders.replace("\n  ", " ").split("\n"):
    folder, _, rest = row.partition(":")
    ours, _, foreign = rest.partition("|")
    if folder:
        allowed[folder] = ({folder, *ours.split()}, set(foreign.split()))
# What a name in <…> means; everything else in <…> is the standard library or the system.
third_party = {
    "fmt/": "fmt",
    "pqxx/": "pqxx",
    "boost/": "boost",
    "sqlite3": "sqlite",
    "openssl/": "openssl",
    "libpq": "libpq",
    "pg_query": "pg_query",
    "sql.h": "odbc",
    "sqlext.h": "odbc",
    "odbcinst.h": "odbc",
    "catch2/": "catch2",
    "hiredis/": "hiredis",
    "zookeeper/": "zookeeper",
}

breaches = []


def breach(path, reason):
    breaches.append(f"{path.relative_to(root)}: {reason}")


def tracked(*patterns):
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return [root / line for line in out.splitlines() if (root / line).exists()]


def home_of(path):
    relative = path.relative_to(root).as_posix()
    return max((folder for folder in allowed if relative.startswith(folder + "/")), key=len, default=None)


public = {}
for folder in allowed:
    for header in (root / folder / "include").glob("**/*.hpp") if (root / folder / "include").is_dir() else []:
        public[header.relative_to(root / folder / "include").as_posix()] = home_of(header)


# Where a quoted include of a folder's own source may lie. A unit test may look inside the folder that it tests.
def private_roots(home):
    if home in ("tests", "tools"):
        return [
            root / "tests",
            root,
            root / "cli",
            root / "sqlite_server",
            *(root / folder / "src" for folder in allowed if folder not in ("tests", "cli")),
        ]
    if home.startswith("sqlite_server/"):
        return [root / "sqlite_server"]
    return [root / home / "src" if (root / home / "src").is_dir() else root / home]


for path in tracked("*.hpp", "*.cpp"):
    text = path.read_text(encoding="utf-8")
    home = home_of(path)
    if home is None:
        breach(path, "stands in no folder of the architecture; see tests/tidy/tidy.py")
        continue
    own, outside = allowed[home]
    own = own and own | {"text"}
    for kind, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.M):
        if name == "sql/statements.hpp":
            target, third = "generated", None
        elif name in public:
            target, third = public[name], None
        elif kind == '"':
            found = next((place / name for place in [path.parent, *private_roots(home)] if (place / name).exists()), None)
            if found is None:
                breach(path, f'includes "{name}", which is in no folder of {home}/; declare what others need in include/termgate/detail/')
                continue
            target, third = home_of(found.resolve()), None
        else:
            target, third = None, next((value for key, value in third_party.items() if name.startswith(key)), None)
        if own is not None and target is not None and target not in own:
            breach(path, f"includes {name} of {target}/, which {home}/ must not know")
        if outside is not None and third is not None and third not in outside:
            breach(path, f"includes {name}: {third} stays out of {home}/")
    if path.suffix == ".hpp" and "#pragma once" not in text:
        breach(path, "has no #pragma once")
    if not text.startswith("//") and not (path.suffix == ".cpp" and path.with_suffix(".hpp").name in text):
        breach(path, "has no head that says what it is for")
    if re.search(r"\busing namespace\b", text) and path.suffix == ".hpp":
        breach(path, "opens a namespace in a header")
    if re.search(r"^namespace [\w:]*::inline ", text, re.M):
        breach(path, "opens an inline namespace in one line with another: ctags then sees nothing that is in it")
    if re.search(
        r"\b(fencing|wire/pgwire|wire/tds|proxy/statements|proxy/conversation|sqlite_server/hrana)/", path.relative_to(root).as_posix()
    ) and re.search(r"(steady|system|high_resolution)_clock::now", text):
        breach(path, "reads a clock; here time comes in as an argument")
    # A database's own errors may have no finer code than their words; those are read in one place for each driver.
    if (
        path.name not in ("errors.cpp", "server_error.cpp")
        and home != "tests"
        and re.search(r"\b(message|what|reason)\(\)\)?\.(find|starts_with|ends_with|contains)\(", text)
    ):
        breach(path, "decides by the words of a message; give it a code, a field or an enum")

python_mains = {("sys", "argv"), ("unittest", "main")}

for header, home in public.items():
    # These are no libraries: nobody outside sees their headers.
    if (
        "/detail/" not in header
        and home
        and not home.startswith(("proxy/", "wire/", "sqlite_server", "admin"))
        and re.search(r"\bpqxx::|\bsqlite3\b", (root / home / "include" / header).read_text())
        and "_check.hpp" not in header
    ):
        breach(root / home / "include" / header, "shows a driver's type; only the check headers may")

for path in tracked("CMakeLists.txt", "*/CMakeLists.txt"):
    home = home_of(path)
    for folder in re.findall(
        r"PROJECT_SOURCE_DIR}/((?:storage|proxy|wire|sqlite_server|fencing|testkit)[\w/]*)/src\b(?!/)", path.read_text(encoding="utf-8")
    ):
        if home != "tests" and folder != home:
            breach(path, f"puts the private headers of {folder}/ on the path of {home}/")

for path in tracked("sql/*.sql"):
    if not path.read_text(encoding="utf-8").lstrip().startswith("--"):
        breach(path, "has no head: parameters, rows, locks, which of F1 to F7 it keeps")

# The body of a function is read anew in each session, under that session's standard_conforming_strings and
# client_encoding: there a backslash in a
# literal means this or that, and a message with other than ASCII cannot be sent to everybody.
for path in tracked("sql/postgres/*.sql", "sql/postgres/install/*.sql"):
    if path.parent.name == "sql":
        continue  # a script of the guard's own test, for psql
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = line if "--" not in line else re.sub(r"(^|\s)--\s.*", "", line)
        if "\\" in code:
            breach(path, f"line {number}: a backslash in a literal depends on standard_conforming_strings; use chr(92)")
        if "…" in code and path.name not in ("0011_doctor.sql", "0012_grants.sql"):
            breach(path, f"line {number}: a message with … cannot be sent to a client of another encoding")

for folder in (
    "fencing guard guard/shortcuts sql storage/port storage/postgres storage/sqlite storage/odbc proxy wire wire/pgwire wire/tds"
    " proxy/statements proxy/conversation sqlite_server/hrana sqlite_server/claim sqlite_server/file sqlite_server/front sqlite_server"
    " proxy/authority admin cli clients tests tools docs"
).split():
    readme = root / folder / "README.md"
    if not readme.exists():
        breach(root / folder, "has no README.md")
    elif len(readme.read_text().splitlines()) > 140:
        breach(readme, "is longer than a screen or two")


# A heading's anchor, as GitHub makes it.
def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


for path in tracked("*.md"):
    text = path.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text):
        page = path.parent / target if target else path
        if not page.exists():
            breach(path, f"links to {target}, which is not there")
        elif anchor and page.suffix == ".md" and anchor not in anchors(page):
            breach(path, f"links to {target}#{anchor}: the page has no such heading")

# Prose, that is Markdown outside tables and code: its width, and the words that have a standard term instead (docs/style.md).
retired_words = {
    r"(the|this|its|no|whose) law": "the guarantees, or layer 1",
    r"law is (kept|broken)": "the guarantees hold, or a breach",
    r"in doubt": "untrusted, or outcome unknown",
    r"(is|are|was|were|be) told|told (of|by|once|at)": "reported, notified, receives",
    r"(is|are|was|were) asked|asked (for|by)": "requested",
    r"(is|are|was|were) (said|heard)": "reported",
    r"stands? (at|in|on|below|above|there|here|behind|before|between|for)": "is",
    r"before (PostgreSQL|SQLite|an SQLite file|a PostgreSQL|one database|the proxy)": "in front of",
    r"behind (PostgreSQL|the proxy|it|the write|the check|a pooler|poolers|BEGIN)": "after, under, or through",
    r"(is|are|was) none": "is not one",
}


def prose_lines(text):
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or mark.group(1).startswith(fence)):
            fence = mark.group(1) if fence is None else None
        elif fence is None and not re.match(r"\s*[|<]", line):
            yield number, line


def words_in(line):
    line = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line)
    return [(found.group(0), better) for word, better in retired_words.items() for found in re.finditer(rf"\b(?:{word})\b", line, re.I)]


for path in tracked("*.md"):
    for number, line in prose_lines(path.read_text(encoding="utf-8")):
        # A word without a space, such as a link, cannot be broken.
        if len(line) > 100 and " " in line[:100].strip():
            breach(path, f"line {number}: prose of {len(line)} columns; at most 100")
        for word, better in words_in(line):
            breach(path, f"line {number}: \"{word}\"; say: {better}")

# The same in code: what is printed and what is commented. Earlier versions of layer 1 in fixtures stay as they were.
for path in tracked("*.cpp", "*.hpp", "*.c", "*.h", "*.sql", "*.py", "*.cmake"):
    name = path.relative_to(root).as_posix()
    if name == "tests/tidy/tidy.py" or "/fixtures/" in name:
        continue
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for found in re.findall(r"\b(?:the|this|its|no|whose|one) law\b|\blaw is (?:kept|broken)\b", line, re.I):
            breach(path, f"line {number}: \"{found}\"; say: the guarantees, or layer 1")

# The stops of the walks in the architecture: the function is in the file, and a walk has at most six.
for walk in re.split(r"^### ", (root / "docs/architecture.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
    stops = re.findall(r"^\d+\. `(?:\w+::)?(\w+)` in\s+\[([^\]]+)\]", walk, re.M)
    if not 3 <= len(stops) <= 6:
        breach(root / "docs/architecture.md", f"a walk of {len(stops)} stops: {walk.splitlines()[0]}")
    for function, name in stops:
        if not re.search(rf"\b{function}\(", (root / name).read_text(encoding="utf-8")):
            breach(root / "docs/architecture.md", f"{name} has no {function}()")

# No file of a client is long, and its statements are generated: tools/client_statements.py.
client_sources = (
    "python/termgate/__init__.py node/index.js go/termgate.go go/watch.go java/src/main/java/termgate/Termgate.java"
    " java/src/main/java/termgate/Watch.java dotnet/Termgate.cs dotnet/Watch.cs"
).split()
for path in (root / "clients" / name for name in client_sources):
    text = path.read_text(encoding="utf-8")
    if len(text.splitlines()) > 300:
        breach(path, f"has {len(text.splitlines())} lines; a file of a client has at most 300")
    if re.search(r"\b(SELECT|EXEC)\b[^\n]*termgate", text, re.I):
        breach(path, "has a statement of its own; they come from sql/")

# The guard is C, and knows of the project only names in SQL.
guard_headers = {"guard": ("guard.h", "interface.h", "server.h", "stdlib.h"), "shortcuts": ("shortcuts.h", "interface.h")}
for path in tracked("guard/*.c", "guard/*.h"):
    text = path.read_text(encoding="utf-8")
    for kind, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.M):
        if path.name != "server.h" and name not in guard_headers[path.parent.name]:
            breach(path, f"includes {name}: the server's headers come by way of server.h, and nothing else of ours belongs here")
    if not text.startswith("//"):
        breach(path, "has no head that says what it is for")

# A live test in Python is run by pytest: what it is given is in tests/support/given.py, its options are in a conftest.py. It says `assert`.
for path in tracked("tests/live/*_test.py", "tests/live/*conftest.py", "tests/support/*.py"):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in python_mains:
            breach(path, f"line {node.lineno}: {node.value.id}.{node.attr} in a live test; pytest runs it (tests/live/conftest.py)")
        if isinstance(node, ast.Attribute) and re.match("assert[A-Z]", node.attr):
            breach(path, f"line {node.lineno}: {node.attr}(); a live test says assert, or check (tests/support/checks.py)")
for path in tracked("tests/live/*.py", "tests/live/*.cpp"):
    if path.parent == root / "tests/live" and path.name not in ("conftest.py", "harness_test.py"):
        breach(path, "belongs to a subject's folder of tests/live/ (tests/live/README.md)")
for path in tracked("tests/unit/*"):
    if not (root / path.parent.relative_to(root / "tests/unit")).is_dir():
        breach(path, "tests/unit/ has the folders of the sources, and this is none")

# A word that means a date for someone to come back belongs in an issue.
for path in tracked("*.cpp", "*.hpp", "*.sql", "*.sh", "*.cmake", "run", "test"):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", line) and "XXXXXX" not in line:
            breach(path, f"line {number}: unfinished work")

# Comments of C and C++: they name files that exist, and begin with words of their own.
repository = ["/" + path.relative_to(root).as_posix() for path in tracked()]
names = {path.rsplit("/", 1)[1] for path in repository}
foreign = ("postgres.h", "libpq/")  # PostgreSQL's own
spoken_words = (
    "(is|are|was|were|be) told",
    "(is|are|was|were) asked",
    "(is|are|was|were) (said|heard)",
    "stands? (at|in|on|below|above|there|here|behind|before|between)",
)
for path in tracked("*.cpp", "*.hpp", "*.c", "*.h"):
    home = home_of(path) or path.relative_to(root).parts[0]
    for line, text in comments.of(path):
        if text.startswith(("…", "Of ")):
            breach(path, f"line {line}: a comment begins with \"{text.split()[0]}\"; say what it is about")
        for name in re.findall(r"(?<![\w.<*/-])((?:[\w.-]+/)*[\w-]+\.(?:cpp|hpp|c|h|sql|py|md|sh|cmake))\b(?!\()", text):
            known = name in names or ("/" in name and any(one.endswith("/" + name) for one in repository))
            if not known and not name.startswith(foreign):
                breach(path, f"line {line}: names {name}, which is not there")
        unquoted = re.sub(r"`[^`]*`|\"[^\"]*\"", " ", text)
        spoken = re.search(rf"\b(?:{'|'.join(spoken_words)})\b", unquoted, re.I)
        if spoken and not home.startswith("tests"):
            breach(path, f"line {line}: a comment says \"{spoken.group()}\"; say who requests, reports or is where")

# A class has one purpose and at most 40 functions.
functions_max = 40
for path in tracked("*.cpp", "*.hpp"):
    for name, count in comments.functions_of(path).items():
        if count > functions_max:
            breach(path, f"class {name} has {count} functions; {functions_max} at most")

# Subjects of commits, from the one after this rule was made. A checkout without that much history has none to look at.
rule_made = "a3db50e9"
log = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", f"{rule_made}..HEAD"], cwd=root, capture_output=True, text=True)
for line in log.stdout.splitlines() if log.returncode == 0 else ():
    commit, subject = line.split(" ", 1)
    if len(subject) > 72:
        breach(root / ".git", f"commit {commit} has a subject of {len(subject)} characters; at most 72")

# What a script of tools/ writes is as it writes it.
for tool in tracked("tools/*.py"):
    answer = subprocess.run([sys.executable, tool, "--check"], cwd=root, capture_output=True, text=True)
    if answer.returncode:
        breach(tool, f"--check fails: {(answer.stdout + answer.stderr).strip()}")

for line in breaches:
    print(line)
print(f"{len(breaches)} breaches")
sys.exit(1 if breaches else 0)
