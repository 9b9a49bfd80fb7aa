"""What must hold in every state and at every step (docs/contract.md, section 2), and what breaks it, in words.

  F1, F2  a commit adds no row whose term is below the fence or below a row that was committed before
  F3      no commit lowers a fence, or issues a lease's term twice
  F4      in whatever state a session freezes, a raise that comes then gets through: it waits for nobody without a bound,
  and it does not give up (TG006) because of
          a session that it could end; a session of another scope is held up by nothing; nobody is ended who is not in the way,
  or has the term that is raised to
  further no deadlock; no application lock upgraded in place, or asked for both ways
"""
from collections import Counter

from engine import Session
from search import Program, describe, explore, history
from server import CLIENT, FIRST_SESSION


class Findings:
    """Each breach once, with where it was seen first, the steps that led there, and how often it was seen."""

    def __init__(self):
        self.seen, self.counts = {}, Counter()

    def add(self, law, what, where, state):
        self.counts[(law, what)] += 1
        self.seen.setdefault((law, what), (where, state))

    def told(self, origin, programs):
        """With the steps that led to each in place of its state: (law, what, where, how often, steps)."""
        found = []
        for (law, what), (where, state) in self.seen.items():
            steps = (
                [f"{programs[who].name}, {place[0]} line {place[1]}: {step}" for who, place, step in history(origin, state)]
                if state in origin
                else []
            )
            found.append((law, what, where, self.counts[(law, what)], steps))
        return found


def suffix(catalog, scope):
    """The hash in the names of a scope's application locks."""
    return catalog.computed[("_resource", ("q", scope.encode("utf-16-le")))][4:]


def committed(world, state, table):
    return {key: version[0] for (name, key), version in world.kept["rows"][0][state[0]].items() if name == table and version[0] is not None}


def broken_by_commit(world, state, changes):
    """F1 to F3: what a commit, which changed these rows, breaks."""
    catalog, found = world.catalog, []
    fences, writes = catalog.tables["fences"], catalog.tables["stream_writes"]
    known = {row[fences.at["scope_key"]]: row[fences.at["term"]] for row in committed(world, state, "fences").values()}
    highest = {}
    for name, at in [("stream_writes", writes.at)] + [
        (name, catalog.tables[name].at) for name in ("dbo.work", "dbo.guarded") if name in catalog.tables
    ]:
        for row in committed(world, state, name).values():
            scope = row[at["scope_key"]]
            highest[scope] = max(highest.get(scope, 0), row[at["term"]])
    for (name, _), (before, after) in changes.items():
        if name in ("stream_writes", "dbo.work", "dbo.guarded") and before is None and after is not None:
            at = catalog.tables[name].at
            scope, term = after[at["scope_key"]], after[at["term"]]
            if term < known.get(scope, 0):
                found.append(("F2", f"a row of term {term} is committed, and the fence stands at {known[scope]}"))
            if term < highest.get(scope, 0):
                found.append(("F1", f"a row of term {term} is committed behind one of {highest[scope]}"))
        if (
            name == "fences"
            and before is not None
            and not any(table == "resets" for table, _ in changes)
            and (after is None or after[fences.at["term"]] < before[fences.at["term"]])
        ):
            found.append(("F3", "a fence goes down"))
        if name == "leases" and after is not None:
            at = catalog.tables["leases"].at
            scope, term = after[at["scope_key"]], after[at["term"]]
            if (before is None or before[at["term"]] < term) and term <= known.get(scope, 0):
                found.append(("F3", f"a lease is issued the term {term}, and the fence stood at {known[scope]}"))
    return found


def announced(world, state, who, scope):
    """The highest term that a session announces for a scope, by the lock that other raises see."""
    start = "tga:" + suffix(world.catalog, scope)[:9]
    terms = [
        int(resource[1][len(start) :])
        for resource, (grants, _) in world.kept["locks"][0][state[1]].items()
        if resource[0] == "application" and resource[1].startswith(start) and any(grant[0] == who for grant in grants)
    ]
    return max(terms, default=0)


def in_the_way(world, state, who, scope):
    """Whether a session holds anything that orders a scope's raises and writers: its application locks, or its rows."""
    hashed, key = suffix(world.catalog, scope), scope.encode("utf-16-le")
    for resource, (grants, _) in world.kept["locks"][0][state[1]].items():
        if any(grant[0] == who for grant in grants):
            if resource[0] == "application" and resource[1][4:] == hashed and resource[1][2] in "tgql":
                return True
            if resource[0] == "key" and isinstance(resource[3], tuple) and key in resource[3]:
                return True
    return False


class Judge:
    """Watches one search."""

    def __init__(self, search, findings, setting):
        self.search, self.world, self.findings, self.setting, self.known = search, search.world, findings, setting, {}

    def session(self, state, who):
        return Session(self.world.kept["session"][0][state[2][who]])

    def where(self, state, who):
        session = self.session(state, who)
        if session.node is None:
            return "at its end"
        if session.node.asks[0][0] == CLIENT:
            return "between two batches"
        return "inside {} (line {})".format(*session.node.asks[0])

    def step(self, state, step, programs):
        """The laws at one step."""
        for _, changes in step.committed:
            for law, what in broken_by_commit(self.world, state, changes):
                self.add(law, f"{programs[step.who].name}: {what}", state)
        for what, who, name in step.notes:
            self.add("locks", f"{what}: {name[:3]}, by {programs[who].name}", state)
        for killer, victim in step.kills:
            scope = programs[killer].scope
            if not in_the_way(self.world, state, victim, scope) and not self.was_listed(state, killer, victim):
                self.add("F4", f"{programs[killer].name} ends a session that holds nothing of {scope}", state)
            spared, term = getattr(programs[victim], "term", None), getattr(programs[killer], "term", None)
            if None not in (spared, term) and spared >= term:
                self.add("F4", f"{programs[killer].name} ends a writer of its own term", state)
        if "victim of a deadlock" in step.what:
            self.add("deadlock", f"{programs[step.who].name}, {step.place[0]} line {step.place[1]}: {step.what}", state)

    def was_listed(self, state, killer, victim):
        """Whether it was in the way when the raise looked last. In between it may have let go, which KILL cannot know."""
        looks = [answer[1] for answer in self.session(state, killer).node.log if isinstance(answer, tuple) and answer[:1] == ("views",)]
        return any(FIRST_SESSION + victim in row for rows in looks[-3:] for row in rows)

    def add(self, law, what, state):
        self.findings.add(law, what, self.setting, state)

    # --- frozen ---
    def probe(self, state, program, term=None):
        """Lets a newcomer run while everybody else is frozen. Returns how it may end: {("done",), ("error", number, place), ("hang",
        place, wait)}."""
        kept = self.search.programs
        start, who = self.search.add(state, program)
        ends, todo, seen = set(), [start], {start}
        programs = self.search.programs
        while todo:
            at = todo.pop()
            session = self.session(at, who)
            if session.status != "running":
                failed = [value for name, value in session.memory if name == "error"]
                ends.add(("error", failed[0], self.blamed(at, who, program, term)) if failed else ("done",))
                continue
            steps = self.search.steps(at, who)
            if session.wait is not None:
                others = [step for other in range(who) for step in self.search.steps(at, other) if self.session(at, other).killed]
                others = others or [
                    step
                    for other in range(who)
                    if self.session(at, other).wait
                    for step in self.search.steps(at, other)
                    if "in vain" in step.what
                ]
                steps = others[:1] or steps
                if not steps:
                    place = session.node.asks[0]
                    ends.add(("hang", f"{place[0]} line {place[1]}", describe(session.wait)))
            for step in steps:
                self.step(at, step, programs)
                if step.state not in seen:
                    seen.add(step.state)
                    todo.append(step.state)
        self.search.programs = kept
        return ends

    def blamed(self, state, who, program, term):
        """Whether the failure of a raise is a higher raise's doing."""
        for other in range(who):
            if (
                term is not None
                and self.session(state, other).status == "running"
                and announced(self.world, state, other, program.scope) >= term
            ):
                return "behind a raise to the same or a higher term"
        return ""


def probes_of(raises, neighbours):
    found = []
    for name, scope, term, text in raises:
        program = Program(f"{name} of {scope}", [text])
        program.scope = scope
        found.append(("raise", program, term))
    for name, scope, text in neighbours:
        program = Program(f"the neighbour's {name} of {scope}", [text])
        program.scope = scope
        found.append(("neighbour", program, None))
    return found


def judge_frozen(search, start, findings, setting, program, probes):
    """Freezes the one session of a search in each of its states, and lets every newcomer come."""
    judge, asked = Judge(search, findings, setting), set()

    def visit(state, steps):
        session = judge.session(state, 0)
        for step in steps:
            judge.step(state, step, search.programs)
        for name, value in session.memory:
            if name == "error" and not (value == 50005 and "in a transaction" in program.name):
                findings.add("alone", f"{program.name}, alone: error {value}", setting, state)
        memory = (state[0], state[1], session.trancount, session.status)
        if memory in asked or not search.world.kept["locks"][0][state[1]]:
            return
        asked.add(memory)
        for kind, newcomer, term in probes:
            for end in judge.probe(state, newcomer, term):
                if end[0] == "done" or (end[0] == "error" and (end[2] or end[1] == 50001)):
                    continue
                how = f"waits {end[2]}, at {end[1]}" if end[0] == "hang" else f"ends with error {end[1]}"
                at = "between two batches" if judge.where(state, 0) == "between two batches" else "inside a call"
                findings.add(
                    "F4",
                    f"{newcomer.name} {how}, behind {program.name} of {program.scope} frozen {at}",
                    f"{setting}, {judge.where(state, 0)}",
                    state,
                )

    return explore(search, start, visit)


def judge_meeting(search, start, findings, setting, raises):
    """Every order of the steps of sessions that nobody freezes for good; whoever waits without a bound must be one that a raise of its
    scope sets free."""
    judge = Judge(search, findings, setting)
    asked = set()

    def visit(state, steps):
        for step in steps:
            judge.step(state, step, search.programs)
        for who, program in enumerate(search.programs):
            session = judge.session(state, who)
            if session.wait and session.wait[3] is None and (state[0], state[1], who) not in asked:
                asked.add((state[0], state[1], who))
                place = session.node.asks[0]
                for newcomer, term in raises.get(program.scope, ()):
                    ends = {end for end in judge.probe(state, newcomer, term) if end[0] != "done" and end[1:2] != (50001,)}
                    if ends:
                        findings.add(
                            "F4",
                            (
                                f"{program.name} waits {describe(session.wait)}, at {place[0]} line {place[1]}, and {newcomer.name} does"
                                f" not set it free: {sorted(ends)}"
                            ),
                            setting,
                            state,
                        )
        if not steps and any(judge.session(state, who).status == "running" for who in range(len(search.programs))):
            findings.add("stuck", f"{setting}: nobody can go on", setting, state)

    return explore(search, start, visit)
