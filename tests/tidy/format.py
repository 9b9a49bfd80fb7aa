#!/usr/bin/env python3
"""Every C and C++ file is as clang-format 14 (Debian 12) writes it, every Python file as black writes it. No function is longer
than 100 lines, no source file longer than 700, no line of Python wider than 140 characters: a test's tables have a row a line.
C and C++ are 100 columns wide.

  tests/tidy/format.py          names what differs; exit 1 if anything does. Formats only what the last 30 commits and the
                                working tree changed: all of it, with TERMGATE_TEST_LONG, takes two minutes of a processor
  tests/tidy/format.py --fix    formats in place what differs

A table that reads better as it stands is put between "// clang-format off" and "// clang-format on". A function that has
to be longer says why in a comment right above it that begins with "Long:"; a file has such a line in its first 20.
"""
import itertools
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

root = Path(__file__).resolve().parents[2]
longest = 100  # lines of a function
longest_file = 700


def sources(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return [line for line in listed.splitlines() if (root / line).exists()]


def formatter():
    """clang-format 14: another version breaks lines elsewhere."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name) and " 14." in subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout:
            return name
    sys.exit("format: clang-format 14 is missing (Debian 12: clang-format)")


def breach_of(name, path):
    """Where the file first differs. Not by --dry-run, which complains of replacements that change nothing."""
    answer = subprocess.run([name, path], cwd=root, capture_output=True)
    if answer.returncode:
        sys.exit(f"format: {answer.stderr.decode().strip()}")
    here, there = (root / path).read_bytes(), answer.stdout
    if here == there:
        return []
    pairs = itertools.zip_longest(here.split(b"\n"), there.split(b"\n"))
    line = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
    return [f"{path}: line {line} is not as clang-format has it; tests/tidy/format.py --fix"]


# One width for every language; quotation marks and trailing commas stay as they are written.
black = ["black", "--quiet", "--line-length", "140", "--skip-string-normalization", "--skip-magic-trailing-comma", "--preview"]
widest = 140


def python_breaches(paths):
    if not shutil.which("black"):
        sys.exit("format: black is missing (Debian 12: black)")
    for path in paths:
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > widest:
                yield f"{path}: line {number}: {len(line)} characters, {widest} at most"
    if not paths:
        return
    answer = subprocess.run([*black[:1], *black[2:], "--check", *paths], cwd=root, capture_output=True, text=True)
    for line in answer.stderr.splitlines():
        if line.startswith(("would reformat ", "error: ")):
            yield f"{line.removeprefix('would reformat ')}: not as black has it; tests/tidy/format.py --fix"


# Formatted code makes this simple: a declaration that ends in a brace is over at the brace of its own indentation.
beginning = re.compile(
    r"^( {0,4})(?!namespace|class |struct |enum |union |extern |#|//|[{})]|if |for |while |switch |try |do |else|return |case"
    r" |CHECK|REQUIRE)\S"
)


def long_functions(path):
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        match, begin = beginning.match(lines[at]), at
        while match and at + 1 < len(lines) and not lines[at].endswith(("{", "}", ";")):
            at += 1
        at += 1
        head = " ".join(lines[begin:at])
        if not match or not re.search(r"\)[^()=;]*\{$", head) or head.count("{") != head.count("}") + 1:
            continue
        indent, above = match[1], begin
        end = next((i for i in range(at, len(lines)) if re.match(rf"{indent}\}}(?:\)?;|,)?$", lines[i])), at)
        while above > 0 and lines[above - 1].startswith(indent + "//"):
            above -= 1
        if end - begin + 1 > longest and "Long:" not in "\n".join(lines[above:begin]):
            yield (
                f"{path}: line {begin + 1}: a function of {end - begin + 1} lines, {longest} at most, or a comment above it with \"Long:\""
            )
        at = end + 1


def long_files():
    for path in sources("*.cpp", "*.hpp", "*.c", "*.h", "*.py"):
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        if len(lines) > longest_file and not any("Long:" in line for line in lines[:20]):
            yield f"{path}: {len(lines)} lines, {longest_file} at most, or a line at its head that begins with \"Long:\""


def changed(paths):
    """Those that may be formatted otherwise than when all were. Without that much history: all."""
    answer = subprocess.run(["git", "diff", "--name-only", "HEAD~30"], cwd=root, capture_output=True, text=True)
    added = subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True)
    if "TERMGATE_TEST_LONG" in os.environ or answer.returncode or added.returncode:
        return paths
    newer = {*answer.stdout.splitlines(), *added.stdout.splitlines()}
    # The rules themselves.
    return paths if ".clang-format" in newer else [path for path in paths if path in newer]


def main():
    name, paths = formatter(), sources("*.cpp", "*.hpp", "*.c", "*.h")
    # What tools/client_statements.py writes has a statement a line.
    written = "clients/python/termgate/_statements.py"
    looked_at, python = changed(paths), changed([path for path in sources("*.py") if path != written])
    if sys.argv[1:] == ["--fix"]:
        failed = subprocess.run([name, "-i", *looked_at], cwd=root).returncode if looked_at else 0
        sys.exit((subprocess.run([*black, *python], cwd=root).returncode if python else 0) or failed)
    if sys.argv[1:]:
        sys.exit(__doc__)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        breaches = [line for lines in pool.map(lambda path: breach_of(name, path), looked_at) for line in lines]
    breaches += [line for path in paths for line in long_functions(path)]
    breaches += long_files()
    breaches += python_breaches(python)
    for line in breaches:
        print(line)
    print(f"{len(looked_at) + len(python)} files, {len(breaches)} breaches")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
