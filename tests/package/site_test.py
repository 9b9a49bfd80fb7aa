#!/usr/bin/env python3
"""The site of the pages: it builds, twice with the same bytes; each page has as many list items, blocks of code and rows of tables as
its Markdown; nothing is fetched from elsewhere; and a dead link, a dead anchor and a foreign script are found. Skipped without mkdocs.

  site_test.py
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
try:
    import docs_site  # noqa: E402
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.M | re.S)


def in_markdown(text):
    prose = FENCE.sub("", text)
    rows = len(re.findall(r"^ *\|", prose, re.M)) - len(re.findall(r"^ *\|[ :|-]+\|$", prose, re.M))
    return len(re.findall(r"^ *(?:- |\d+\. )", prose, re.M)), len(FENCE.findall(text)), rows


def in_page(text):
    article = text[text.index("<article") : text.index("</article>")]
    return article.count("<li"), article.count("<pre"), article.count("<tr>")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def main():
    if not shutil.which("mkdocs"):
        print("skipped: mkdocs is missing (Debian: mkdocs, mkdocs-material)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        out, again = Path(folder) / "site", Path(folder) / "again"
        for where, version in ((out, "0.1.0"), (out, "0.1.0~2.gabc"), (again, "0.1.0")):
            subprocess.run([sys.executable, ROOT / "packaging/docs_site.py", where, version], check=True)
        assert contents(out / "0.1.0") == contents(again / "0.1.0"), "not the same bytes twice"
        versions = re.findall(r'href="([^"]+)/index.html"', (out / "index.html").read_text())
        assert versions == ["0.1.0", "0.1.0~2.gabc"], versions
        site = out / "0.1.0"
        for source in sorted((ROOT / "docs").rglob("*.md")):
            page = site / source.relative_to(ROOT).with_suffix(".html")
            page = page.with_name("index.html") if source.name == "README.md" else page
            there, here = in_markdown(source.read_text(encoding="utf-8")), in_page(page.read_text(encoding="utf-8"))
            assert there == here, f"{source.relative_to(ROOT)}: items, code and rows are {there} in Markdown and {here} on the page"
        page = site / "docs/style.html"
        text = page.read_text(encoding="utf-8")
        for plant, found in (
            ('<a href="gone.html">', "gone.html is not there"),
            ('<a href="contract.html#gone">', "no such heading"),
            ('<script src="https://cdn.example/x.js"></script>', "fetches https://cdn.example/x.js"),
            ('<link rel="stylesheet" href="//fonts.example/x.css">', "fetches //fonts.example/x.css"),
            ('<img src="../gone.png">', "../gone.png is not there"),
        ):
            page.write_text(text.replace("</body>", plant + "</body>"), encoding="utf-8")
            assert any(found in one for one in docs_site.site_breaches(site)), f"not found: {plant}"
    print("site_test: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
