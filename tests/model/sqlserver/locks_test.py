#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] The locks of layer 1 on SQL Server, as a model that runs the T-SQL itself (README.md): every order of the steps of sessions that
meet, and every newcomer behind a session that is frozen at any of its steps.

  locks_test.py            
  locks_test.py --long     all isolation levels, three sessions at once
  locks_test.py --frozen NAME, --meeting NAME    one of them, with what is found
"""
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import layer  # noqa: E402
import laws  # noqa: E402
import scenarios  # noqa: E402
from search import Program, Restart, Search, Touched, Tree, World  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


class Model:
    """Layer 1 of one folder, under one setting of READ_COMMITTED_SNAPSHOT."""

    def __init__(self, folder, rcsi, change=None):
        self.rcsi = rcsi
        self.catalog, rows = layer.load(folder, change)
        world = World(self.catalog, rcsi)
        self.rows = layer.run_alone(self.catalog, world, rows, scenarios.SETUP)
        self.trees = {level: Tree(self.catalog, rcsi, level) for level in scenarios.LEVELS}

    def frozen(self, entry, level, findings, probes):
        program = scenarios.frozen(entry, level)
        search = Search(World(self.catalog, self.rcsi), self.trees, [program], Touched(all_of_them=True))
        setting = f"READ_COMMITTED_SNAPSHOT {'ON' if self.rcsi else 'OFF'}, {level}"
        return len(laws.judge_frozen(search, search.start(self.rows), findings, setting, program, probes))

    def meeting(self, entry, level, findings, raises):
        name, members = entry
        programs = []
        for member, scope, texts in members:
            programs.append(Program(member, texts, level))
            programs[-1].scope = scope
        touched = Touched()
        while True:
            noted = laws.Findings()
            search = Search(World(self.catalog, self.rcsi), self.trees, programs, touched)
            setting = f"{name}, READ_COMMITTED_SNAPSHOT {'ON' if self.rcsi else 'OFF'}, {level}"
            try:
                states = laws.judge_meeting(search, search.start(self.rows), noted, setting, raises)
            except Restart:
                touched.seen.clear()
                continue
            for place, (where, story) in noted.seen.items():
                findings.add(*place, where, story)
            return len(states)


def main():
    findings = laws.Findings()
    started = time.process_time()
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    levels = os.environ.get("LEVELS", "RC").split(",")
    folder = Path(os.environ.get("FOLDER", ROOT / "sql/sqlserver/install"))
    for rcsi in (False, True):
        model = Model(folder, rcsi)
        probes = laws.probes_of(scenarios.RAISES, scenarios.NEIGHBOURS)
        raises = {}
        for kind, newcomer, term in probes:
            if kind == "raise":
                raises.setdefault(newcomer.scope, []).append((newcomer, term))
        for level in levels:
            for entry in scenarios.FROZEN:
                if only in entry[0]:
                    before = time.process_time()
                    states = model.frozen(entry, level, findings, probes)
                    print(f"{rcsi} {level} {entry[0]}: {states} {time.process_time() - before:.1f}", flush=True)
            for entry in scenarios.MEETINGS:
                if only in entry[0]:
                    before = time.process_time()
                    states = model.meeting(entry, level, findings, raises)
                    print(f"{rcsi} {level} {entry[0]}: {states} {time.process_time() - before:.1f}", flush=True)
    for (law, what), (where, _) in sorted(findings.seen.items()):
        print(f"{law}: {what}\n      first in {where}; {findings.counts[(law, what)]} times")
    print(f"{len(findings.seen)} findings, {time.process_time() - started:.1f} s")
    return 1 if findings.seen else 0


if __name__ == "__main__":
    sys.exit(main())
