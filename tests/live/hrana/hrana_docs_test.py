#!/usr/bin/env python3
"""The code of docs/use/sqlite-proxy.md, cut out of the page and run: what curl sends, and what the page says of the answers.
Ports are replaced by this run's; nothing else is.

  pytest tests/live/hrana/hrana_docs_test.py
"""
import re
import subprocess

from given import ROOT, TERMGATE
from hrana_served import Served

PAGE = (ROOT / "docs/use/sqlite-proxy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)\n^```$", PAGE, re.S | re.M)


def consoles():
    """[(command, what the page shows of its answer)]"""
    found = []
    for kind, block in BLOCKS:
        for line in block.splitlines() if kind == "console" else ():
            if line.startswith("$ "):
                found.append([line[2:], ""])
            else:
                found[-1][1] = line
    return found


def test_the_ten_minutes(lab):
    subprocess.run([TERMGATE, "init", "--db", "sqlite:app.db"], cwd=lab.folder, check=True, capture_output=True)
    served = Served(lab, f"{lab.folder}/app.db")
    shown = consoles()
    assert len(shown) == 3, shown
    for number, (command, answer) in enumerate(shown):
        if number == 2:
            seal = next(block for kind, block in BLOCKS if "termgate seal" in block).replace("build/termgate", TERMGATE)
            subprocess.run(["sh", "-ec", seal], cwd=lab.folder, check=True, capture_output=True)
        done = subprocess.run(
            ["sh", "-ec", command.replace("http://127.0.0.1:8080", served.url)], capture_output=True, text=True, timeout=60
        )
        at = 0
        for part in answer.split("…"):  # which leaves something out
            at = done.stdout.find(part.strip(" ,"), at)
            assert at >= 0, (command, part, done)
        assert answer or '"code"' not in done.stdout, (command, done)
    assert served.stop() == 0
