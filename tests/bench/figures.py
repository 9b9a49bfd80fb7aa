#!/usr/bin/env python3
"""The figures that README.md and docs/evidence/benchmarks.md quote, from commit to commit: tests/bench/history/COMMIT.json.

  figures.py sets               what track.sh can measure, a set of figures a command
  figures.py record FOLDER      reads what the commands of track.sh printed, FOLDER/SET, into the file of HEAD
  figures.py write              renews the table of benchmarks.md and docs/images/figures.svg from the newest file of each set
  figures.py check              fails where a set was never measured, or code that it measures has changed since, or a page has another
                                figure; packaging/release.sh runs it

A figure is what one machine measured at one commit. So a set names the commit, and the folders whose change makes it old.
"""
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(os.environ.get("TERMGATE_FIGURES_ROOT") or Path(__file__).resolve().parents[2])
HISTORY, PAGE, PLOT = "tests/bench/history", "docs/evidence/benchmarks.md", "docs/images/figures.svg"
BEGIN, END = "<!-- figures: tests/bench/figures.py write -->", "<!-- /figures -->"
# The command of each set, as track.sh runs it and benchmarks.md names it, and the code that it measures.
SETS = {
    "library": (
        "termgate bench --db postgresql://… --durable no --batches 1 --writers 1,8 --scenario unfenced --scenario library-execute",
        ("fencing", "storage/src", "storage/postgres", "sql/postgres", "cli/bench"),
    ),
    "sqlite": (
        (
            "termgate bench --db sqlite:scratch.db --writers 1,64 --batches 1 --scenario unfenced --scenario textbook --scenario"
            " check-insert --scenario append"
        ),
        ("fencing", "storage/src", "storage/sqlite", "sql/sqlite", "cli/bench"),
    ),
    "takeover": (
        "termgate bench takeover --db postgresql://…",
        ("fencing", "storage/src", "storage/postgres", "sql/postgres", "cli/bench"),
    ),
    "statement": ("tests/bench/protected_statement.py URL --rounds 7 --count 200", ("sql/postgres", "tests/bench/protected_statement.py")),
    "guard": (
        "tests/bench/guard_goals.py --library LIBRARY --rounds 7 --seconds 3 protected",
        ("guard", "sql/postgres", "tests/bench/guard_goals.py"),
    ),
    "proxy": (
        "tests/bench/proxy_bench.py 3 5 select_prepared insert_prepared",
        ("proxy", "wire", "sql/postgres", "tests/bench/proxy_bench.py"),
    ),
}


def bench_ratio(scenario, writers, scopes, durable):
    def read(text):
        wanted = {"scenario": scenario, "writers": writers, "scopes": scopes, "durable": durable, "batch": 1}
        run = next(one for one in json.loads(text)["runs"] if wanted.items() <= one.items())
        return run["ratio"], min(run["ratios"]), max(run["ratios"])

    return read


def beyond_grace(text):
    found = json.loads(text)["takeover"]
    return tuple(found[name] - found["grace_ms"] for name in ("p99_ms", "p50_ms", "max_ms"))


def matched(pattern):
    def read(text):
        # The first of several is the one without a seat, and the unguarded one.
        value, *ends = map(float, re.search(pattern, text).groups())
        return value, *(ends or (None, None))

    return read


# name: (set, what it is, unit, what the median, least and most are read from)
FIGURES = {
    "execute_1_1": ("library", "`Database::execute` to an unfenced INSERT, 1 writer", "", bench_ratio("library-execute", 1, 1, False)),
    "execute_1_64": ("library", "the same, 64 scopes", "", bench_ratio("library-execute", 1, 64, False)),
    "execute_8_1": ("library", "the same, 8 writers", "", bench_ratio("library-execute", 8, 1, False)),
    "execute_8_64": ("library", "the same, 8 writers, 64 scopes", "", bench_ratio("library-execute", 8, 64, False)),
    "sqlite_one": ("sqlite", "SQLite: check + INSERT to INSERT, not durable", "", bench_ratio("check-insert", 1, 1, False)),
    "sqlite_many": ("sqlite", "the same, durable, 64 writers and scopes: group commit", "", bench_ratio("check-insert", 64, 64, True)),
    "takeover": ("takeover", "a takeover past a frozen writer, p99 beyond the grace (p50 to max)", "ms", beyond_grace),
    "first": ("statement", "a protected INSERT, first of a transaction", "µs", matched(r"one scope, first +\+?(-?[\d.]+)")),
    "further": ("statement", "the same, each further one", "µs", matched(r"one scope, further +\+?(-?[\d.]+)")),
    "guard": (
        "guard",
        "a protected INSERT, the guard loaded, to one that is not protected",
        "",
        matched(r"INSERT, unguarded: table not protected, protected +[\d.]+ +[\d.]+ +([\d.]+) +\(([\d.]+)-([\d.]+)\)"),
    ),
    "proxy_select": ("proxy", "the proxy to PgBouncer, SELECT", "", matched(r"(?m)^select_prepared .* ratio ([\d.]+)")),
    "proxy_insert": ("proxy", "the same, a fenced INSERT to a plain one", "", matched(r"(?m)^insert_prepared .* ratio ([\d.]+)")),
}
# What README says with these figures in it, wherever its lines break.
QUOTES = {
    "README.md": (
        "reaches {execute_least} to {execute_most} of the rate of an unfenced INSERT",
        "{first} µs in a transaction's first statement and {further} in each further one",
        "they keep {guard} of the rate",
    )
}


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()


def history():
    """The files, the oldest commit first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / HISTORY).glob("*.json")]
    return sorted(found, key=lambda one: (one["moment"], one["height"]))


def newest(files):
    """{set: the newest file that has it}"""
    return {name: one for one in files for name in one["sets"]}


def shown(number, unit):
    return f"{number:.0f}" if unit or number >= 10 else f"{number:.2f}"


def parsed(name, text):
    figures = {}
    for key, (of, _, _, read) in FIGURES.items():
        if of == name:
            try:
                value, least, most = read(text)
            except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
                sys.exit(f"figures: what the command of {name} printed has no {key}")
            figures[key] = {name: one and round(one, 4) for name, one in (("value", value), ("least", least), ("most", most))}
    return figures


def rows(one):
    """As JSON, a set a line."""
    sets = one.pop("sets")
    lines = ",\n".join(f'  "{name}": {json.dumps(figures)}' for name, figures in sorted(sets.items()))
    return f'{json.dumps(one, sort_keys=True)[:-1]},\n "sets": {{\n{lines}\n}}}}'


def record(folder):
    commit = git("rev-parse", "HEAD")
    path = ROOT / HISTORY / f"{commit}.json"
    one = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"commit": commit, "sets": {}}
    # The height tells two commits of one second apart.
    one |= {"moment": int(git("log", "-1", "--format=%ct")), "height": int(git("rev-list", "--count", "HEAD"))}
    one |= {"cpus": os.cpu_count(), "kernel": platform.release()}
    printed = [name for name in SETS if (folder / name).exists()]
    if not printed:
        sys.exit(f"figures: there is nothing in {folder}")
    one["sets"] |= {name: parsed(name, (folder / name).read_text(encoding="utf-8")) for name in printed}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows(one) + "\n", encoding="utf-8")
    print(path.relative_to(ROOT))


def table(files):
    """The part of benchmarks.md between its marks."""
    if not files:
        return "\nNo run has been recorded yet.\n"
    latest, lines = newest(files), ["", "| what | median (range) | at commit |", "| --- | --- | --- |"]
    for key, (name, what, unit, _) in FIGURES.items():
        if name not in latest:
            continue
        figure = latest[name]["sets"][name][key]
        value = shown(figure["value"], unit) + (" " + unit if unit else "")
        if figure["least"] is not None:
            value += f" ({shown(figure['least'], unit)}–{shown(figure['most'], unit)})"
        lines.append(f"| {what} | {value} | {latest[name]['commit'][:8]} |")
    commands = (f"- `{command}`" for name, (command, _) in SETS.items() if name in latest)
    lines += ["", *(textwrap.fill(line, 98, subsequent_indent="  ", break_on_hyphens=False) for line in commands), ""]
    machines = sorted({f"{one['cpus']} cores, Linux {one['kernel']}" for one in latest.values()})
    where = textwrap.fill(f"Measured on: {'; '.join(machines)}. Ratios from commit to commit:", 98, break_on_hyphens=False)
    lines += [where, "", "![Ratios over commits](../images/figures.svg)"]
    return "\n".join(lines) + "\n"


COLOURS = ("#0969da", "#1a7f37", "#cf222e", "#8250df", "#9a6700", "#bf3989", "#1b7c83", "#57606a")


def plot(files):
    """Ratios below 2 over commits. What is above them, group commit, measures the disk."""
    names = [key for key, (_, _, unit, _) in FIGURES.items() if not unit and key != "sqlite_many"]
    left, top, width, height = 50, 20, 560, 300
    across = lambda at: left + (width * at / (len(files) - 1) if len(files) > 1 else width / 2)  # noqa: E731
    down = lambda ratio: top + height * (1 - min(ratio, 1.5) / 1.5)  # noqa: E731
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 150} {top + height + 40}" font-family="sans-serif"'
            ' font-size="11">'
        ),
        "<title>Ratios to the same write without a fence, over commits</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for ratio in (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5):
        out.append(f'<path d="M{left} {down(ratio):.1f}h{width}" stroke="{"#57606a" if ratio == 1 else "#d0d7de"}"/>')
        out.append(f'<text x="{left - 6}" y="{down(ratio) + 4:.1f}" text-anchor="end">{ratio:.2f}</text>')
    step = max(1, len(files) // 8)
    for at, one in enumerate(files):
        if at % step == 0:
            out.append(f'<text x="{across(at):.1f}" y="{top + height + 16}" text-anchor="middle">{one["commit"][:8]}</text>')
    for number, key in enumerate(names):
        colour, name = COLOURS[number % len(COLOURS)], FIGURES[key][0]
        points = [(across(at), down(one["sets"][name][key]["value"])) for at, one in enumerate(files) if name in one["sets"]]
        dashes = ' stroke-dasharray="4 3"' if number >= len(COLOURS) else ""
        if len(points) > 1:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = top + 16 * number + 8
        out.append(f'<path d="M{left + width + 12} {y}h20" stroke="{colour}" stroke-width="2"{dashes}/>')
        out.append(f'<text x="{left + width + 38}" y="{y + 4}">{key}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def with_table(page, files):
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"figures: {PAGE} lacks the marks {BEGIN} and {END}")
    return before + BEGIN + "\n" + table(files) + "\n" + END + after


def write():
    files = history()
    page = ROOT / PAGE
    page.write_text(with_table(page.read_text(encoding="utf-8"), files), encoding="utf-8")
    if files:
        (ROOT / PLOT).write_text(plot(files), encoding="utf-8")


def quoted(files):
    latest = newest(files)
    values = {key: latest[name]["sets"][name][key]["value"] for key, (name, *_) in FIGURES.items() if name in latest}
    executed = [value for key, value in values.items() if key.startswith("execute_")]
    words = {key: shown(value, FIGURES[key][2]) for key, value in values.items()}
    if executed:
        words |= {"execute_least": shown(min(executed), ""), "execute_most": shown(max(executed), "")}
    for page, phrases in QUOTES.items():
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        for phrase in phrases:
            if set(re.findall(r"{(\w+)}", phrase)) <= set(words) and phrase.format(**words) not in text:
                yield f"{page} does not say \"{phrase.format(**words)}\": correct it, or QUOTES in tests/bench/figures.py"


def problems():
    files = history()
    latest = newest(files)
    for name, (_, paths) in SETS.items():
        if name not in latest:
            yield f"the figures of {name} were never recorded: tests/bench/track.sh {name}"
            continue
        commit = latest[name]["commit"]
        if subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"], capture_output=True).returncode:
            yield f"the figures of {name} are of {commit[:8]}, which is no commit in front of this one: tests/bench/track.sh {name}"
            continue
        changed = git("log", "--format=%h", f"{commit}..HEAD", "--", *paths).split()
        if changed:
            yield (
                f"the figures of {name} are of {commit[:8]}, and {len(changed)} commits have changed what they measure:"
                f" tests/bench/track.sh {name}"
            )
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    if (
        with_table(page, files) != page
        or files
        and (not (ROOT / PLOT).exists() or (ROOT / PLOT).read_text(encoding="utf-8") != plot(files))
    ):
        yield f"{PAGE} or {PLOT} is not what the recorded figures give: tests/bench/figures.py write"
    yield from quoted(files)


def main():
    words = sys.argv[1:]
    if words == ["sets"]:
        print(*SETS, sep="\n")
    elif words[:1] == ["record"] and len(words) == 2:
        record(Path(words[1]))
    elif words == ["write"]:
        write()
    elif words == ["check"]:
        found = list(problems())
        print(*found, sep="\n", end="\n" if found else "")
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
