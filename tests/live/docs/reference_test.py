#!/usr/bin/env python3
"""The pages of docs/reference/ against what the program prints: every command and option, every option of the proxy
and environment variable, every metric with its type and labels, every public header; and the C++ of README.md and
docs/use/ against tests/package/, which builds and runs it. Needs a PostgreSQL 15; takes a few seconds.

  pytest tests/live/docs/reference_test.py [--write]

--write renews the generated part of docs/reference/command.md from `--help`, before it is compared.
"""
import itertools
import json
import re
import subprocess
import textwrap

import pytest

import given
from given import TERMGATE
from pgraw import Connection
from plain_server import server

SOURCE = given.ROOT
REFERENCE = SOURCE / "docs" / "reference"
BEGIN, END = "<!-- begin: from --help -->\n", "<!-- end: from --help -->\n"


def said(*words):
    done = subprocess.run([TERMGATE, *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, (words, done)
    return done.stdout


def described():
    """The commands, as `--help --json` has them; tests/package/manual_test.py compares that with `--help`."""
    return json.loads(said("--help", "--json"))


def as_markdown(text):
    """Lines that begin with two blanks are examples or lists, the others prose."""
    out = []
    kind_of = lambda line: "gap" if not line.strip() else "code" if line.startswith("  ") else "prose"
    for kind, lines in itertools.groupby(text.split("\n"), kind_of):
        if kind == "code":
            out += ["```text", *(line[2:] for line in lines), "```", ""]
        elif kind == "prose":
            prose = re.sub(r"([<>|*])", r"\\\1", " ".join(lines))
            out += [*textwrap.wrap(prose, 100, break_long_words=False, break_on_hyphens=False), ""]
    return "\n".join(out)


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*")


def generated():
    out, overview = [], said("--help")
    in_order = sorted(described()["commands"], key=lambda one: overview.index(f"\n  {one['name']} "))
    for group, commands in itertools.groupby(in_order, lambda one: one["group"]):
        out.append(f"## {group}\n")
        for one in commands:
            out.append(f"### `termgate {one['name']}`\n\n{one['summary'][0].upper() + one['summary'][1:]}.\n")
            if one["help"]:
                out.append(as_markdown(one["help"]))
            if one["name"] == "proxy":
                out.append("Its options: [configuration](configuration.md#options-of-termgate-proxy).\n")
            elif one["options"]:
                rows = "".join(f"| `--{each['name']}{' …' * each['value']}` | {cell(each['meaning'])} |\n" for each in one["options"])
                out.append("| option | meaning (default) |\n| --- | --- |\n" + rows)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out))


def setUpModule():
    if given.option("write"):
        path = REFERENCE / "command.md"
        page = path.read_text(encoding="utf-8")
        path.write_text(
            page.partition(BEGIN)[0] + BEGIN + "\n" + generated().strip("\n") + "\n\n" + END + page.partition(END)[2], encoding="utf-8"
        )


class TestReference:
    def test_every_command_and_option_is_on_the_page_of_commands(self):
        page = (REFERENCE / "command.md").read_text(encoding="utf-8")
        inside = page.partition(BEGIN)[2].partition(END)[0].strip("\n")
        assert inside, "docs/reference/command.md has lost its markers"
        if inside != generated().strip("\n"):
            pytest.fail(f"docs/reference/command.md is not what --help prints: {__file__} {TERMGATE} --write")
        for option in described()["every_command"]:
            assert f"`--{option['name']}" in page.partition(BEGIN)[0]

    def test_every_exit_status_is_on_the_page_of_commands(self):
        statuses = set(re.findall(r"(?:^| |\n)(\d) [a-z]", said("--help").partition("Exit status:")[2]))
        rows = set(re.findall(r"^\| (\d) \|", (REFERENCE / "command.md").read_text(encoding="utf-8"), re.M))
        assert rows == statuses

    def test_every_option_of_the_proxy_and_its_default_is_on_the_page_of_configuration(self):
        page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
        rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \|", page, re.M))
        own = next(one["options"] for one in described()["commands"] if one["name"] == "proxy")
        assert set(rows) == {one["name"] for one in own}
        for name, one in ((one["name"], one) for one in own):
            default = re.search(r"\(([^()]*)\)$", one["meaning"])
            wanted = (default.group(1) if default else "none" if one["value"] else "off").split("; ")[0]
            if name in ("config", "rules"):
                wanted = "none"  # what is in its brackets is no default
            assert rows[name].replace("`", "") == wanted, name

    def test_what_a_reload_does_not_apply_is_on_the_page_of_configuration(self):
        page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
        source = (SOURCE / "cli/commands/proxy.cpp").read_text(encoding="utf-8")
        listed = re.search(r"options are not reloaded: ([^.]*)\.", page).group(1)
        names = re.search(r"not_reloaded\{([^}]*)\}", source).group(1)
        # backend-file has no entry there: the URL in it is compared.
        assert set(re.findall(r"`([a-z-]+)`", listed)) == set(re.findall(r'"([a-z-]+)"', names)) | {"backend-file"}

    def test_every_environment_variable_that_is_read_is_on_the_page_of_configuration(self):
        page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
        read = set()
        for folder in ("admin", "cli", "fencing", "storage", "proxy", "sqlite_server", "wire"):
            for path in (SOURCE / folder).rglob("*.cpp"):
                text = path.read_text(encoding="utf-8")
                read |= set(re.findall(r'getenv\("([A-Z_]+)"', text)) | set(re.findall(r'"(TERMGATE_[A-Z_]+)=', text))
        assert read
        assert {name for name in read if f"`{name}`" not in page} == set()

    def test_every_metric_with_its_type_and_labels_is_on_the_page_of_metrics(self, lab):
        page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(termgate_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", page, re.M)
        told = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows}
        subprocess.run([TERMGATE, "init", "--db", server()], check=True, capture_output=True, timeout=30)
        proxy = lab.proxy(server())
        with Connection(proxy.port) as session:
            session.query("CREATE TABLE x (a integer)")  # refused, and counted
        text = proxy.get("/metrics")[1]
        served = {}
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
            labels = set()
            for one in re.findall(rf"^{name}(?:_bucket)?\{{([^}}]*)\}}", text, re.M):
                labels |= set(re.findall(r'(\w+)="', one))
            meaning = re.search(rf"^# HELP {name} (.*)\.$", text, re.M).group(1)
            served[name] = (kind, frozenset(labels), meaning[0].upper() + meaning[1:])
        assert told == served

    def test_every_public_header_is_on_the_page_of_the_library(self):
        page = (REFERENCE / "library.md").read_text(encoding="utf-8")
        named = set(re.findall(r"^\| \[?`<termgate/([\w/.]+)>`", page, re.M))
        there = set()
        for folder in ("fencing", "storage", "storage/postgres", "storage/sqlite", "storage/odbc", "testkit", "term_sources"):
            include = SOURCE / folder / "include" / "termgate"
            there |= {path.relative_to(include).as_posix() for path in include.rglob("*.hpp") if "detail" not in path.parts}
        assert named == there

    def test_every_piece_of_cpp_in_the_documents_is_in_what_the_package_test_runs(self):
        def statements(code):
            code = re.sub(r"//[^\n]*", "", re.sub(r"Database::open\([^)]*\)", "Database::open()", code))
            code = re.sub(r"\s+", "", re.sub(r"^(#.*)$", r"\1;", code, flags=re.M))
            return [one for one in re.split(r"[;{}]", code) if one]

        sources = {path.name: statements(path.read_text(encoding="utf-8")) for path in (SOURCE / "tests" / "package").glob("*.cpp")}
        pages = [SOURCE / "README.md", *(SOURCE / "docs" / "use").glob("*.md")]
        blocks = [
            (page.name, code)
            for page in pages
            for code in re.findall(r"^```cpp\n(.*?)\n^```$", page.read_text(encoding="utf-8"), re.S | re.M)
        ]
        assert len(blocks) > 6
        for page, code in blocks:
            missing = {}
            for name, lines in sources.items():
                rest = iter(lines)
                missing[name] = [one for one in statements(code) if not any(one == line for line in rest)]
            assert (
                [] in missing.values()
            ), f"{page}: no program of tests/package/ has all of\n{code}\nmissing: {min(missing.values(), key=len)}"
