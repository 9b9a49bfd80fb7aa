#!/usr/bin/env python3
"""The generated files of the Debian packages: man pages, completions, changelogs, and the pages of docs/ and the README,
in which a link to a file that no package has becomes plain text.

  files.py VERSION OUT_DIR CHANGELOG.md (TERMGATE_COMMAND | --json FILE) -- PACKAGE …

The moment in the changelog is SOURCE_DATE_EPOCH, or that of the newest commit; the packager is DEBFULLNAME and
DEBEMAIL. The same input gives the same bytes.
"""
import gzip
import os
import re
import shutil
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

HERE = Path(__file__).resolve().parent


def moment():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    newest = subprocess.run(["git", "-C", str(HERE), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return int(newest.stdout) if newest.returncode == 0 and newest.stdout.strip() else 0


def write_packed(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


# Folders of the repository that share/doc/termgate has in addition to the pages.
INSTALLED = ("packaging/prometheus", "packaging/grafana")


def pages(root, out):
    """README.md and docs/ with the links that still lead somewhere."""
    sources = [root / "README.md", *sorted((root / "docs").rglob("*.*"))]
    there = {source.resolve() for source in sources}

    def link(page, match):
        text, target = match.groups()
        path = target.partition("#")[0]
        if not path or "://" in path or path.startswith("mailto:"):
            return match.group(0)
        found = (page.parent / path).resolve()
        inside = any(found.is_relative_to((root / folder).resolve()) for folder in INSTALLED)
        return match.group(0) if found in there or inside else text

    for source in sources:
        if source.is_dir():
            continue
        to = out / source.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            to.write_bytes(source.read_bytes())
            continue
        text = source.read_text(encoding="utf-8")
        to.write_text(re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", lambda match: link(source, match), text), encoding="utf-8")


def main():
    at = sys.argv.index("--")
    version, out, changelog = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    command, packages = sys.argv[4:at], sys.argv[at + 1 :]
    subprocess.run([sys.executable, str(HERE / "manual.py"), *command, str(out)], check=True)
    for old in (out / "man").glob("*.gz"):
        old.unlink()
    for page in sorted((out / "man").glob("*.1")):
        write_packed(out / "man" / (page.name + ".gz"), page.read_bytes())
    write_packed(out / "CHANGELOG.md.gz", changelog.read_bytes())
    shutil.rmtree(out / "doc", ignore_errors=True)
    pages(HERE.parent, out / "doc")
    who = f"{os.environ.get('DEBFULLNAME', 'Termgate maintainers')} <{os.environ.get('DEBEMAIL', 'maintainers@termgate.example')}>"
    for package in packages:
        text = (
            f"termgate ({version}) unstable; urgency=medium\n\n  * What changed: CHANGELOG.md in /usr/share/doc/termgate.\n\n -- {who} "
            f" {formatdate(moment())}\n"
        )
        write_packed(out / "changelog" / package / "changelog.gz", text.encode())


if __name__ == "__main__":
    main()
