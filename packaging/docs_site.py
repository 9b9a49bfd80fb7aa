#!/usr/bin/env python3
"""README.md and docs/ as a site, with a search, in a folder OUT/VERSION, and OUT/index.html, which lists the versions.

  docs_site.py OUT [VERSION]     VERSION: packaging/version.sh's

The site has every file of the repository that its pages link to, so it needs no other place. Fails where a link, an
anchor, an image or a script does not lead to a file of the site, or where a page fetches something from elsewhere.
Needs mkdocs and mkdocs-material, as Debian has them. The same commit gives the same bytes.
"""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

import yaml

root = Path(__file__).resolve().parents[1]
link = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
image = re.compile(r"!\[[^\]]*\]\(([^)\s#]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def outside(target):
    return not target or bool(re.match(r"[a-z]+:", target))


def fences(text):
    """(is a block of code, part)"""
    for number, part in enumerate(re.split(r"(^```.*?^```[^\n]*$|^~~~.*?^~~~[^\n]*$)", text, flags=re.M | re.S)):
        yield number % 2 == 1, part


def for_python(text):
    """GitHub begins a list, a table or code after any line; Python's Markdown only after an empty one. GitHub indents what belongs to
    an item by the width of its mark; Python's Markdown by four columns."""
    out, items, fenced = [], [], False  # items: the column of the text of each list item that is open
    previous, parted = "", False  # parted: the open item has more than one block
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        mark = None if fenced else re.match(r"(- +|\d+\. +)\S", line.lstrip())
        listed = bool(items)
        while line.strip() and items and indent < items[-1] and (mark or not previous.strip()):
            items.pop()
        body = line[min(indent, items[-1]) if items else 0 :]
        begins = (
            mark
            and (parted or not listed)
            or not fenced
            and body.startswith("```")
            or body.startswith("|")
            and not previous.lstrip().startswith("|")
        )
        if begins and previous.strip():
            out.append("")
        out.append(("    " * len(items) + body).rstrip())
        if mark:
            items.append((items[-1] if items else 0) + len(mark[1]))
        if body.startswith("```"):
            fenced = not fenced
        parted = not mark and (parted or not line.strip())
        previous = line
    return "\n".join(out) + "\n"


class Pages:
    def __init__(self, to):
        self.to, self.known, self.waiting = to, set(), []

    def want(self, path):
        """The file of the repository that a link to `path` leads to on the site, or nothing."""
        path = Path(os.path.normpath(path))
        if (root / path).is_dir():
            path = path / "README.md"
        # mkdocs leaves out what begins with a dot.
        if not (root / path).is_file() or path.is_absolute() or any(part.startswith(".") for part in path.parts):
            return None
        if path not in self.known:
            self.known.add(path)
            self.waiting.append(path)
        return path

    def page(self, path):
        def replaced(match):
            text, target = match.groups()
            if outside(target) or target.startswith("#"):
                return match.group(0)
            file, hash_mark, anchor = target.partition("#")
            found = self.want(path.parent / file)
            return f"[{text}]({os.path.relpath(found, path.parent)}{hash_mark}{anchor})" if found else text

        text = for_python((root / path).read_text(encoding="utf-8"))
        for names in image.findall(text):
            self.want(path.parent / (names[0] or names[1]))
        return "".join(part if code else link.sub(replaced, part) for code, part in fences(text))

    def write(self):
        for path in (
            *map(Path, ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
            *sorted(one.relative_to(root) for one in (root / "docs").rglob("*") if one.is_file()),
        ):
            self.want(path)
        while self.waiting:
            path = self.waiting.pop()
            (self.to / path).parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                (self.to / path).write_text(self.page(path), encoding="utf-8")
            else:
                shutil.copyfile(root / path, self.to / path)


def navigation():
    """The sections of docs/README.md with the pages that they list, in their order."""
    nav = [{"Termgate": "README.md"}, {"Architecture": "docs/architecture.md"}, {"Contract": "docs/contract.md"}]
    for section in re.split(r"^## ", (root / "docs/README.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
        title = re.match(r"\w+", section)[0]
        folder = Path("docs/decisions" if title == "Decisions" else "docs")
        text = (root / folder / "README.md").read_text(encoding="utf-8") if title == "Decisions" else section
        entries = []
        for name, target in link.findall(text):
            path = os.path.normpath(folder / target.partition("#")[0])
            if path.endswith(".md") and not any(path in one.values() for one in entries):
                entries.append({name.replace("`", "")[:1].upper() + name.replace("`", "")[1:]: path})
        nav.append({title: entries})
    nav.append({"About": [{"Changes": "CHANGELOG.md"}, {"Contributing": "CONTRIBUTING.md"}, {"All pages": "docs/README.md"}]})
    return nav


class References(html.parser.HTMLParser):
    """What a page names: ids, links, and what a browser fetches for it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("href") and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given["href"])
        for name in ("src", "srcset", "poster", "data"):
            if given.get(name):
                self.fetched.append(given[name].split()[0])


def site_breaches(site):
    pages = {path: References(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.fetched:
            if outside(target) or target.startswith("//"):
                yield f"{name}: fetches {target}"
        for target in page.links + page.fetched:
            file, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:|//", target):
                continue
            # 404.html is served for any path, so its links begin at the server's root.
            to = site / file.lstrip("/") if file.startswith("/") else path.parent / file
            to = Path(os.path.normpath(urllib.parse.unquote(str(to if file else path))))
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                yield f"{name}: {target} is not there"
            elif anchor and to in pages and urllib.parse.unquote(anchor) not in pages[to].ids:
                yield f"{name}: {target}: no such heading"
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        yield from (
            f"{path.relative_to(site)}: fetches {one}" for one in re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\"')]+", text)
        )


def quiet_scripts(site):
    """material's script would fetch mermaid from elsewhere for a page with a diagram. No page has one, so the address is replaced."""
    for path in sorted(site.rglob("*.js")):
        path.write_text(path.read_text(encoding="utf-8").replace("https://unpkg.com/", "about:blank#"), encoding="utf-8")


def index(out):
    def order(name):
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]

    versions = sorted(
        (one.parent.name for one in out.glob("*/index.html")), key=lambda name: ("+" not in name and "~" not in name, order(name))
    )
    items = "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in reversed(versions))
    (out / "index.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Termgate: versions</title><h1>Termgate</h1><ul>{items}</ul></html>\n',
        encoding="utf-8",
    )


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = Path(sys.argv[1]).resolve()
    version = (
        sys.argv[2]
        if len(sys.argv) == 3
        else subprocess.run([root / "packaging/version.sh"], capture_output=True, text=True, check=True).stdout.strip()
    )
    moment = subprocess.run(["git", "-C", root, "log", "-1", "--format=%ct"], capture_output=True, text=True).stdout.strip() or "0"
    environment = {"SOURCE_DATE_EPOCH": moment, **os.environ, "PYTHONHASHSEED": "0"}
    site = out / version
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        Pages(work / "pages").write()
        given = (root / "packaging/mkdocs.yml").read_text(encoding="utf-8")
        nav = yaml.safe_dump({"nav": navigation(), "copyright": f"Termgate {version}"}, sort_keys=False)
        (work / "mkdocs.yml").write_text(given + nav, encoding="utf-8")
        built = subprocess.run(
            ["mkdocs", "build", "--strict", "--site-dir", site], cwd=work, env=environment, capture_output=True, text=True
        )
        if built.returncode:
            sys.exit(f"docs_site: mkdocs fails:\n{built.stderr}")
    quiet_scripts(site)
    # Their compressed copies have the moment of the build in them, and a server compresses by itself.
    for path in site.rglob("*.gz"):
        path.unlink()
    breaches = list(site_breaches(site))
    print(*breaches, sep="\n", end="\n" if breaches else "")
    if breaches:
        sys.exit(f"docs_site: {len(breaches)} breaches")
    index(out)
    print(f"{site}: {len(list(site.rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
