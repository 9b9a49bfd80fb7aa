#!/usr/bin/env python3
"""Writes docs/images/stale-write-light.svg and stale-write-dark.svg, README's picture of one stale write.

Two files because an image in a README cannot follow the reader's colour scheme by itself; README picks one with
<picture>. Text is kept as text, with generic font families, so that it stays sharp and searchable.

  tools/readme_picture.py            writes them
  tools/readme_picture.py --check    names those that are not current; exit 1 if there is one
"""
import sys
from pathlib import Path

THEMES = {
    "light": {
        "text": "#1f2328",
        "quiet": "#59636e",
        "line": "#8c959f",
        "a": "#0969da",
        "b": "#1a7f37",
        "bad": "#cf222e",
        "pause": "#eaeef2",
        "database": "#f6f8fa",
        "edge": "#d1d9e0",
    },
    "dark": {
        "text": "#f0f6fc",
        "quiet": "#9198a1",
        "line": "#656c76",
        "a": "#4493f8",
        "b": "#3fb950",
        "bad": "#f85149",
        "pause": "#2a313c",
        "database": "#151b23",
        "edge": "#3d444d",
    },
}

A, B, DATABASE = 62, 142, 230  # the three lanes' heights


def text(x, y, words, fill, anchor="middle", size=14, weight=400):
    return f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{words}</text>'


def lane(y, beginning, end, colour, dashed=False):
    dashes = ' stroke-dasharray="3 5"' if dashed else ""
    return f'<line x1="{beginning}" y1="{y}" x2="{end}" y2="{y}" stroke="{colour}" stroke-width="3"{dashes}/>'


def write(x, top, colour, label, bottom=DATABASE - 26):
    arrow = f"M{x} {top} V{bottom - 8} M{x - 6} {bottom - 14} L{x} {bottom - 3} L{x + 6} {bottom - 14}"
    return f'<circle cx="{x}" cy="{top}" r="5" fill="{colour}"/><path d="{arrow}" fill="none" stroke="{colour}" stroke-width="2"/>' + text(
        x + 9, bottom - 22, label, colour, anchor="start", size=13
    )


def picture(c):
    parts = [
        text(20, A + 5, "Leader A", c["a"], anchor="start", weight=600),
        text(20, B + 5, "Leader B", c["b"], anchor="start", weight=600),
        text(20, DATABASE - 2, "Database", c["text"], anchor="start", weight=600),
        text(20, DATABASE + 17, "(the fence)", c["quiet"], anchor="start", size=13),
        # A leads, pauses past its lease, and goes on as if nothing had happened.
        lane(A, 110, 230, c["a"]),
        f'<rect x="230" y="{A - 20}" width="430" height="40" rx="6" fill="{c["pause"]}" stroke="{c["edge"]}"/>',
        text(500, A + 5, "paused: GC, stalled machine, cut link", c["quiet"]),
        lane(A, 660, 800, c["a"]),
        f'<line x1="330" y1="{A - 30}" x2="330" y2="{A + 30}" stroke="{c["line"]}" stroke-width="2" stroke-dasharray="4 4"/>',
        text(330, A - 36, "lease expires", c["quiet"], size=13),
        text(668, A - 36, "wakes up, still believes it leads", c["quiet"], size=13),
        # B takes over.
        lane(B, 110, 400, c["line"], dashed=True),
        lane(B, 400, 800, c["b"]),
        text(400, B - 14, "takes over", c["quiet"], size=13),
        # The database and its fence.
        f'<rect x="110" y="{DATABASE - 26}" width="690" height="52" rx="6" fill="{c["database"]}" stroke="{c["edge"]}"/>',
        f'<line x1="400" y1="{DATABASE - 26}" x2="400" y2="{DATABASE + 26}" stroke="{c["edge"]}" stroke-width="2"/>',
        text(255, DATABASE + 5, "highest accepted term: 1", c["text"]),
        text(525, DATABASE + 5, "highest accepted term: 2", c["text"]),
        # The writes.
        write(160, A, c["a"], "term 1"),
        write(400, B, c["b"], "term 2"),
        write(520, B, c["b"], "term 2"),
        write(700, A, c["bad"], "term 1", bottom=DATABASE - 32),
        f'<circle cx="700" cy="{DATABASE}" r="13" fill="{c["bad"]}"/>',
        (
            f'<path d="M694.5 {DATABASE - 5.5} l11 11 M705.5 {DATABASE - 5.5} l-11 11" stroke="{c["database"]}" stroke-width="3"'
            ' stroke-linecap="round"/>'
        ),
        text(160, DATABASE + 48, "accepted", c["quiet"], size=13),
        text(460, DATABASE + 48, "accepted", c["quiet"], size=13),
        text(700, DATABASE + 48, "refused: TG001, stale term", c["bad"], size=13, weight=600),
    ]
    title = "Leader A pauses past its lease, leader B takes over with term 2, and the database refuses A's late write with term 1"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 290" width="820" height="290" role="img" aria-label="{title}" '
        'font-family="-apple-system, \'Segoe UI\', \'Noto Sans\', Helvetica, Arial, sans-serif">\n'
        f'<title>{title}</title>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main():
    folder = Path(__file__).resolve().parents[1] / "docs" / "images"
    files = {folder / f"stale-write-{name}.svg": picture(colours) for name, colours in THEMES.items()}
    if "--check" in sys.argv[1:]:
        old = [path.name for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        sys.exit(f"not current, run tools/readme_picture.py: {', '.join(old)}" if old else 0)
    folder.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
