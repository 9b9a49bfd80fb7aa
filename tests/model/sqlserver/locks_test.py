#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] The locks of layer 1 on SQL Server, as a model that runs the T-SQL itself (README.md): every
order of the steps of sessions that meet, and every newcomer behind a session that is frozen at any of its steps. With
--long mistakes are put in, each of which must be found.

  locks_test.py                READ COMMITTED: frozen sessions without row versions, where a look may wait; meetings with them, where
                               it may see too little
  locks_test.py --long         both with and without, at every isolation level
  locks_test.py --only WORDS   what has these words in its name, and the steps that lead to what is found

TERMGATE_TEST_LONG in the environment is --long. Exit 1 where something is found that known.txt does not list, or a mistake is not found.
"""
import functools
import os
import re
import sys
import time
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import layer  # noqa: E402
import laws  # noqa: E402
import mistakes  # noqa: E402
import scenarios  # noqa: E402
from search import Restart, Search, Touched, Tree, World  # noqa: E402

HERE = Path(__file__).resolve().parent


class Model:
    """Layer 1 of one text, under one setting of READ_COMMITTED_SNAPSHOT. mistake: the name of one that is put in."""

    def __init__(self, rcsi, mistake=None):
        self.rcsi = rcsi
        self.catalog, rows = layer.load(mistakes.changed(mistake) if mistake else None)
        self.rows = layer.run_alone(self.catalog, World(self.catalog, rcsi), rows, scenarios.SETUP)
        self.trees = {level: Tree(self.catalog, rcsi, level) for level in scenarios.LEVELS}
        self.probes = laws.probes_of(scenarios.RAISES, scenarios.NEIGHBOURS)
        self.raises = {}
        for kind, newcomer, term in self.probes:
            if kind == "raise":
                self.raises.setdefault(newcomer.scope, []).append((newcomer, term))

    def setting(self, name, level):
        return f"{name}, READ_COMMITTED_SNAPSHOT {'ON' if self.rcsi else 'OFF'}, {level}"

    def frozen(self, entry, level):
        """How many states, and what was found."""
        findings, programs = laws.Findings(), [scenarios.program(entry, level)]
        search = Search(World(self.catalog, self.rcsi), self.trees, programs, Touched(all_of_them=True))
        origin = laws.judge_frozen(search, search.start(self.rows), findings, self.setting(entry[0], level), programs[0], self.probes)
        return len(origin), findings.told(origin, programs)

    def meeting(self, entry, level):
        programs, touched = [scenarios.program(member, level) for member in entry[1]], Touched()
        while True:
            findings = laws.Findings()
            search = Search(World(self.catalog, self.rcsi), self.trees, programs, touched)
            try:
                origin = laws.judge_meeting(search, search.start(self.rows), findings, self.setting(entry[0], level), self.raises)
                return len(origin), findings.told(origin, programs)
            except Restart:
                touched.seen.clear()


@functools.lru_cache(maxsize=3)
def model(rcsi, mistake=None):
    return Model(rcsi, mistake)


def run(task):
    """One search, in a process of the pool: (task, states, findings, seconds)."""
    rcsi, mistake, kind, entry, level = task
    began = time.process_time()
    states, found = getattr(model(rcsi, mistake), kind)(entry, level)
    return task, states, found, time.process_time() - began


def tasks_of(long, only):
    tasks = []
    for kind, entries in (("frozen", scenarios.FROZEN), ("meeting", scenarios.MEETINGS)):
        for entry in entries:
            if long:
                tasks += [(rcsi, None, kind, entry, level) for rcsi in (False, True) for level in scenarios.LEVELS]
            else:
                tasks.append((kind == "meeting" and entry[0] not in scenarios.LARGE, None, kind, entry, "RC"))
            if not long and kind == "frozen" and entry[0] in scenarios.SNAPSHOTS:
                tasks.append((True, None, kind, entry, "SNAP"))
    return [task for task in tasks if only in task[3][0]]


def known_of():
    """Regular expressions of what is known and accepted, each with its reason behind a #."""
    lines = (HERE / "known.txt").read_text(encoding="utf-8").splitlines()
    return [re.compile(line.split("  # ")[0]) for line in lines if line.strip() and not line.startswith("#")]


def report(answers, verbose):
    """Prints what is found and not known; how many."""
    known, bad, states, merged = known_of(), 0, 0, {}
    for _, count, found, _ in answers:
        states += count
        for law, what, where, times, steps in found:
            merged.setdefault(f"{law}: {what}", []).append((where, times, steps))
    for what, seen in sorted(merged.items()):
        if any(pattern.search(what) for pattern in known):
            continue
        bad += 1
        print(f"FOUND  {what}\n       in {seen[0][0]}; {sum(times for _, times, _ in seen)} times in all")
        for step in seen[0][2] if verbose else []:
            print(f"         {step}")
    print(f"{len(answers)} searches, {states:,} states, {sum(seconds for _, _, _, seconds in answers):.1f} s: {bad} findings")
    return bad


def main():
    arguments = sys.argv[1:]
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    long = "--long" in arguments or "TERMGATE_TEST_LONG" in os.environ
    mistakes.check_places()
    with Pool(2) as pool:
        bad = report(pool.map(run, tasks_of(long, only), chunksize=1), bool(only))
        wanted = [] if only or not long else mistakes.tasks()
        for (name, pattern, _), (_, states, found, _) in zip(wanted, pool.map(run, [task for _, _, task in wanted], chunksize=1)):
            hits = [what for law, what, *_ in found if re.search(pattern, f"{law}: {what}")]
            print(f"found  {name}: {hits[0]}" if hits else f"NOT FOUND  {name} ({states} states)")
            bad += not hits
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
