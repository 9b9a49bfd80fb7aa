#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] The guarantees as a model (fence.pml): spin visits every state of it, and finds every mistake that is put in.

  model_test.py               small sizes, and a third of the mistakes
  model_test.py --long        all mistakes; besides: three leaders and two scopes with a failover, on both isolation levels; two failovers
  model_test.py --show NAME   the shortest history, as far as spin finds one, to the breach that a mistake leads to

TERMGATE_TEST_LONG in the environment is --long. Needs spin and a C compiler.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODEL = Path(__file__).parent / "fence.pml"
LONG = "--long" in sys.argv or "TERMGATE_TEST_LONG" in os.environ

F12 = r"assertion violated \(term\[i\]>=shut\[i\]\)"
SEATED = r"assertion violated \((under\[who\]|prepared)>=shut\[0\]\)"
ISSUED_TWICE = r"assertion violated \(owner"
STUCK = "invalid end state"

# What is put in, the sizes it is found with, and what it is found as.
MISTAKES = [
    ("NO_LOCK", "", F12),
    ("NO_LOCK", "SNAPSHOT", F12),
    ("ONE_STATEMENT", "", F12),
    ("OLD_SNAPSHOT", "SNAPSHOT", F12),
    ("SEAL_LATE", "", F12),
    ("ROLLBACK_IGNORED", "", F12),
    ("BLIND_EVICTION", "", F12),
    ("NO_EVICTION", "", STUCK),
    ("NO_DOUBT", "FAILOVERS=1", ISSUED_TWICE),
    ("NO_JUMP", "FAILOVERS=1", ISSUED_TWICE),
    ("SAME_JUMP", "FAILOVERS=2 ACQUISITIONS=4", ISSUED_TWICE),
]
SEATS = "SEATS SCOPES=1 TRANSACTIONS=2"
MISTAKES += [
    (mistake, SEATS, SEATED)
    for mistake in (
        "NO_SWEEP SWEEP_BLIND IDLE_VOID OWN_RAISE LATE_SIT STAND_BUSY FLUSH_IDLE STAND_LOST STAND_LATE MEMORY_LAST PREPARE_SEATED".split()
    )
]
MISTAKES += [("RENUMBER", f"{SEATS} FAILOVERS=1 ACQUISITIONS=4", SEATED), ("PROBE_EARLY", SEATS, F12), ("STALE_LOOK", SEATS, F12)]
RIGHT = [
    "LEADERS=2 FAILOVERS=1",
    "LEADERS=2 FAILOVERS=1 SNAPSHOT",
    "LEADERS=2 TRANSACTIONS=2 FAILOVERS=0",
    f"LEADERS=2 FAILOVERS=0 {SEATS}",
]
LONG_RIGHT = [
    "LEADERS=3 FAILOVERS=1",
    "LEADERS=3 FAILOVERS=1 SNAPSHOT",
    "LEADERS=3 FAILOVERS=0 ACQUISITIONS=4",
    "LEADERS=2 FAILOVERS=2 ACQUISITIONS=4",
    f"LEADERS=2 FAILOVERS=1 {SEATS}",
    f"LEADERS=2 FAILOVERS=0 ACQUISITIONS=4 SITS=3 {SEATS}",
]


def visit(sizes, shortest=False, replay=False):
    """What the search printed; with `replay` the history that it ended with."""
    with tempfile.TemporaryDirectory(prefix="termgate-model.") as folder:
        shutil.copy(MODEL, folder)
        defines = [f"-D{size}" for size in sizes.split()]

        def run(*words):
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
            return done.stdout

        run("spin", *defines, "-a", MODEL.name)
        reach = ["-DREACH"] if shortest else []
        run("cc", "-O2" if LONG else "-O0", *"-w -DSAFETY -DCOLLAPSE -DMEMLIM=6000 -o pan pan.c".split(), *reach)
        said = run("./pan", "-m20000", *(["-i"] if shortest else []))
        if not replay:
            return said
        history = run("spin", *defines, "-T", "-k", f"{MODEL.name}.trail", MODEL.name)
        return (
            "\n".join(line for line in history.splitlines() if re.match("leader|the |a snapshot|failover|COMMIT|spin: text", line))
            + "\n"
            + re.search(r"pan:1: (.*)", said).group(1)
        )


def main():
    if "--show" in sys.argv:
        name = sys.argv[sys.argv.index("--show") + 1]
        extra = next((sizes for mistake, sizes, _ in MISTAKES if mistake == name), None)
        if extra is None:
            print(f"{name} is none of {', '.join(sorted({mistake for mistake, _, _ in MISTAKES}))}", file=sys.stderr)
            return 2
        print(
            visit(
                f"LEADERS=2 FAILOVERS=0 {name} {extra}" if "FAILOVERS" not in extra else f"LEADERS=2 {name} {extra}",
                shortest=True,
                replay=True,
            )
        )
        return 0
    failures = 0
    right = RIGHT + (LONG_RIGHT if LONG else [])
    mistakes = MISTAKES if LONG else MISTAKES[::3]
    wrong = [
        " ".join(["LEADERS=2", *([] if "FAILOVERS" in extra else ["FAILOVERS=0"]), mistake, *extra.split()])
        for mistake, extra, _ in mistakes
    ]
    with ThreadPoolExecutor(1 if LONG else 2) as pool:  # the large ones want the memory for themselves
        answers = list(pool.map(visit, right + wrong))
    for sizes, said in zip(right, answers):
        states = re.search(r"(\d+) states, stored", said)
        complete = "errors: 0" in said and "Search not completed" not in said and "max search depth too small" not in said and states
        print(f"right  {sizes}: every one of {int(states.group(1)):,} states" if complete else f"WRONG  {sizes}: {said}", flush=True)
        failures += not complete
    for sizes, said, (_, _, expected) in zip(wrong, answers[len(right) :], mistakes):
        found = re.search(expected, said)
        print(f"found  {sizes}: {found.group(0)}" if found else f"NOT FOUND  {sizes}: {said}", flush=True)
        failures += not found
    return 1 if failures else 0


sys.exit(main())
