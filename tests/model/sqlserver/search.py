"""The search: every interleaving of sessions' batches, lock by lock. A state is the rows, the locks, and how far each
session is; a session that is never gone on with is a frozen one, so every state that is reached is also the one in
which everybody froze.

How far a session is, is a node in a tree of histories: the batch that runs and every response that it was sent. Nodes are run once.
"""
from collections import deque

from engine import Draft, Err, Session, new_session
from interpret import Interpreter
from server import FIRST_SESSION, HANDLERS, WAIT

# What the server is asked that nobody else can see or change: answered at once.
ALONE = {"env", "statement", "doom", "context_get", "context_set", "begin", "own_id", "applock_mode", "set_implicit"}
STEPS_MAX = 5000


class Versions(dict):
    def __init__(self):
        super().__init__()
        self.contents = {}


class Node:
    """A batch at the point where it asks for something, or its end."""

    __slots__ = ("tree", "text", "log", "run", "asks", "children", "result")

    def __init__(self, tree, text, log, run):
        self.tree, self.text, self.log, self.run = tree, text, log, run
        self.asks, self.children, self.result = None, {}, None


class Tree:
    """The histories of every batch, under one setting of READ_COMMITTED_SNAPSHOT and one isolation level of the client."""

    def __init__(self, catalog, rcsi, level):
        self.catalog, self.rcsi, self.level, self.roots = catalog, rcsi, level, {}

    def root(self, text):
        if text not in self.roots:
            node = Node(self, text, (), Interpreter(self.catalog, self.rcsi, self.level).batch(text))
            self.go_on(node, None)
            self.roots[text] = node
        return self.roots[text]

    def go_on(self, node, answer):
        try:
            node.asks = node.run.send(answer)
        except StopIteration as end:
            node.result, node.run = end.value, None
        if len(node.log) > STEPS_MAX:
            raise RuntimeError(f"a batch that does not end: {node.text[:80]}")

    def child(self, node, answer):
        if answer not in node.children:
            run, node.run = node.run, None
            if run is None:  # it went on another way before: run it again to here
                run = Interpreter(self.catalog, self.rcsi, self.level).batch(node.text)
                sent = None
                for known in node.log:
                    run.send(sent)
                    sent = known
                run.send(sent)
            found = Node(self, node.text, node.log + (answer,), run)
            self.go_on(found, answer)
            node.children[answer] = found
        return node.children[answer]


class World:
    """Rows, locks and sessions under small numbers, so that states are short and compare at once."""

    def __init__(self, catalog, rcsi):
        self.catalog, self.rcsi, self.versions = catalog, rcsi, Versions()
        self.kept = {"rows": ([], {}), "locks": ([], {}), "session": ([], {})}

    def number(self, kind, content, key):
        known, numbers = self.kept[kind]
        if key not in numbers:
            numbers[key] = len(known)
            known.append(content)
        return numbers[key]

    def draft(self, state):
        rows, locks, sessions = state
        draft = Draft(
            self.catalog,
            self.kept["rows"][0][rows],
            self.kept["locks"][0][locks],
            [self.kept["session"][0][session] for session in sessions],
            self.rcsi,
            self.versions,
        )
        draft.notes, draft.kills, draft.before = [], [], state
        return draft

    def state(self, draft):
        rows, locks, _ = draft.before or (None, None, None)
        if rows is None or draft.rows_changed:
            rows = self.number("rows", draft.rows, frozenset(draft.rows.items()))
        if locks is None or draft.locks_changed:
            locks = self.number("locks", draft.locks, frozenset(draft.locks.items()))
        return (rows, locks, tuple(self.number("session", values, values) for values in (session.values() for session in draft.sessions)))

    def first(self, rows):
        draft = Draft(self.catalog, rows, {}, [], self.rcsi, self.versions)
        draft.before, draft.notes, draft.kills = None, [], []
        return draft


class Program:
    """What a client does: batches, one after the other. `{term}` in a text is the term that an earlier batch of its was given. At an
    error it rolls back and ends."""

    def __init__(self, name, texts, level="RC"):
        self.name, self.texts, self.level = name, texts, level


class Step:
    """One step of the search, with what it showed."""

    __slots__ = ("who", "place", "what", "state", "committed", "notes", "kills")

    def __init__(self, who, place, what, draft, world):
        self.who, self.place, self.what = who, place, what
        self.committed, self.notes, self.kills = draft.committed, draft.notes, draft.kills
        self.state = world.state(draft)


class Restart(Exception):
    """A table or lock that was thought to be one session's alone, or to be read only, is not: the search begins anew."""


class Touched:
    """Which tables and application locks more than one session touches, one of them to change them. A step on any other is
    nobody's business: it is
    made at once with the step before it, as no order of it and another's step can be told apart. `all_of_them`: no such economy."""

    def __init__(self, all_of_them=False):
        self.all_of_them, self.shared, self.seen = all_of_them, set(), {}

    def is_alone(self, who, asks):
        request, arguments = asks[3], asks[4]
        if self.all_of_them or request in ("choose", "kill", "views", "list_locks", "list_sessions"):
            return False
        if request in ("commit", "rollback", "end_of_nothing"):
            return None
        if request in ("fetch", "drop_row", "insert", "change"):
            place, writes = arguments[0].name, request != "fetch" or (
                arguments[7][0] == "locked" and (arguments[7][1] != "S" or arguments[7][3])
            )
        else:
            place, writes = arguments[0], True
        by = self.seen.setdefault(place, {})
        by[who] = by.get(who, False) or writes
        if place not in self.shared and (place.startswith("tga:") or (len(by) > 1 and any(by.values()))):
            self.shared.add(place)
            raise Restart
        return place not in self.shared

    def ends_alone(self, draft, who):
        """Whether the end of this transaction is nobody else's business."""
        if any(writer == who and table in self.shared for (table, _), (_, _, writer) in draft.rows.items()):
            return False
        return not any(
            (resource[1] in self.shared) and any(grant[0] == who for grant in grants) for resource, (grants, _) in draft.locks.items()
        )


class Search:
    def __init__(self, world, trees, programs, touched=None):
        self.world, self.trees, self.programs, self.touched = world, trees, programs, touched or Touched()

    def start(self, rows):
        draft = self.world.first(rows)
        draft.sessions += [new_session() for _ in self.programs]
        for who in range(len(self.programs)):
            self.next_batch(draft, who)
            self.settle(draft, who)
        return self.world.state(draft)

    def add(self, state, program):
        """The state with one more session; its number."""
        draft = self.world.draft(state)
        draft.sessions.append(new_session())
        self.programs = self.programs[: len(draft.sessions) - 1] + [program]
        self.next_batch(draft, len(draft.sessions) - 1)
        self.settle(draft, len(draft.sessions) - 1)
        return self.world.state(draft), len(draft.sessions) - 1

    # --- one session ---
    def next_batch(self, draft, who):
        session, program = draft.sessions[who], self.programs[who]
        if session.step >= len(program.texts):
            session.status, session.node = "done", None
            return
        text = program.texts[session.step]
        for name, value in session.memory:
            text = text.replace("{" + name + "}", str(value))
        session.node = self.trees[program.level].root(text)

    def settle(self, draft, who):
        """Answers what is the session's alone, and takes up the next batch, until it asks for something that others can see or has
        ended."""
        session = draft.sessions[who]
        while session.status == "running":
            node = session.node
            if node.asks is None:
                self.end_of_batch(draft, who, node.result)
            elif node.asks[3] in ALONE or self.is_alone(draft, who, node.asks):
                response = self.answer(draft, who, node.asks)
                if response is WAIT:
                    raise RuntimeError(f"a wait where nobody else is: {node.asks}")
                self.reply(draft, who, response)
            else:
                return

    def is_alone(self, draft, who, asks):
        alone = self.touched.is_alone(who, asks)
        if alone is None:
            nested = asks[3] == "commit" and draft.sessions[who].trancount > 1
            return nested or self.touched.ends_alone(draft, who)
        return alone

    def end_of_batch(self, draft, who, result):
        session = draft.sessions[who]
        session.step += 1
        session.clock = 0
        if result[0] == "error":
            if session.trancount:
                draft.roll_back(who)
            session.memory = session.memory + (("error", result[1]),)
            session.status, session.node = "done", None
            return
        for names, rows in result[1]:
            if rows and "term" in names:
                session.memory = tuple(pair for pair in session.memory if pair[0] != "term") + (("term", rows[0][names.index("term")]),)
        self.next_batch(draft, who)

    def reply(self, draft, who, response):
        session = draft.sessions[who]
        session.node = session.node.tree.child(session.node, response)

    def answer(self, draft, who, asks):
        _, timeout, level, request, arguments = asks
        draft.lock_timeout = timeout
        session = draft.sessions[who]
        if request == "own_id":
            return FIRST_SESSION + who
        if request == "views":
            return ("views", self.look(draft, who, arguments[0]()))
        if request in ("fetch", "insert", "change"):
            refused = HANDLERS["level"](draft, who, level == "SNAP")
            if refused is not None:
                return refused
            if level == "SNAP" and session.snapshot is None:
                session.snapshot = draft.version()
        if session.doomed and request in ("insert", "change", "getapplock"):
            return Err((3930, "the transaction cannot be committed and cannot write"))
        return HANDLERS[request](draft, who, *arguments)

    def look(self, draft, who, run):
        """A statement that only looks at the server's views, run at once."""
        answer = None
        while True:
            try:
                asks = run.send(answer)
            except StopIteration as end:
                return tuple(end.value)
            answer = self.answer(draft, who, asks)

    # --- steps ---
    def steps(self, state, only=None):
        """Every next step of every session, or of one."""
        found = []
        for who in range(len(state[2])) if only is None else [only]:
            values = self.world.kept["session"][0][state[2][who]]
            session = Session(values)
            if session.status != "running":
                continue
            if session.killed:
                found.append(self.step_end(state, who))
            elif session.wait is None:
                found += self.step_on(state, who)
            else:
                found += self.step_out(state, who, session)
        return found

    def step_end(self, state, who):
        draft = self.world.draft(state)
        draft.end_session(who)
        return Step(who, ("the server", 0), "is rolled back and ended", draft, self.world)

    def step_on(self, state, who):
        asks = Session(self.world.kept["session"][0][state[2][who]]).node.asks
        if asks[3] == "choose":
            found = []
            for answer in range(asks[4][0]):
                draft = self.world.draft(state)
                self.reply(draft, who, answer)
                self.settle(draft, who)
                found.append(Step(who, asks[0], f"chooses {answer}", draft, self.world))
            return found
        draft = self.world.draft(state)
        session = draft.sessions[who]
        granted = session.granted
        response = self.answer(draft, who, asks)
        if response is WAIT:
            if granted is not None and granted[0] != session.wait[0]:
                self.forget(draft, who, granted)
            session.granted = None
            return [Step(who, asks[0], "waits for " + describe(session.wait), draft, self.world)]
        if granted is not None:
            self.forget(draft, who, granted, asks)
        session.granted = None
        self.reply(draft, who, response)
        self.settle(draft, who)
        return [Step(who, asks[0], told(asks, response), draft, self.world)]

    def forget(self, draft, who, granted, asks=None):
        """A row's lock that was waited for is kept no longer than the statement would keep it."""
        resource, _, mode = granted
        if (
            resource[0] == "key"
            and mode == "S"
            and not (asks and asks[3] == "fetch" and asks[4][7][2])
            and draft.holds(who, resource) == "S"
        ):
            draft.drop(who, resource)

    def step_out(self, state, who, session):
        """A wait that ends without the lock: its time is over, or the deadlock monitor has chosen it."""
        found = []
        resource, _, _, timeout = session.wait
        asks = session.node.asks
        pending = any(Session(self.world.kept["session"][0][other]).killed for other in state[2])
        outcomes = []
        if timeout is not None and not pending:
            outcomes.append(
                (
                    "waits in vain for " + describe(session.wait),
                    timeout,
                    -1 if resource[0] == "application" else Err((1222, "lock request time out period exceeded")),
                )
            )
        if self.world.draft(state).in_cycle(who):
            outcomes.append(
                (
                    "is the victim of a deadlock at " + describe(session.wait),
                    0,
                    -3 if resource[0] == "application" else Err((1205, "chosen as the deadlock victim")),
                )
            )
        for what, spent, response in outcomes:
            draft = self.world.draft(state)
            draft.stop_waiting(who)
            draft.sessions[who].clock += spent
            self.reply(draft, who, response)
            self.settle(draft, who)
            found.append(Step(who, asks[0], what, draft, self.world))
        return found


def describe(wait):
    resource, owner, mode, timeout = wait
    until = "without end" if timeout is None else f"for {timeout} ms at most"
    if resource[0] == "application":
        return f"application lock {resource[1][:12]}… ({mode}), {until}"
    return f"{mode} on {resource[1]}.{resource[2]} {shown(resource[3])}, {until}"


def shown(value):
    """A key or a row as people read it: names instead of their bytes."""
    if isinstance(value, tuple):
        return "(" + ", ".join(shown(part) for part in value) + ")"
    if isinstance(value, bytes) and len(value) % 2 == 0:
        return value.decode("utf-16-le", "replace")
    return repr(value)


def told(asks, response):
    request, arguments = asks[3], asks[4]
    if request == "views":
        return f"looks for holders and finds {response[1]!r}"
    if request == "fetch":
        return f"reads {arguments[0].name} {shown(arguments[2])}: {'nothing' if response is None else shown(response[1])}"
    if request in ("insert", "change"):
        return f"{request}s {arguments[0].name} {shown(arguments[1])}"
    return f"{request} {', '.join(repr(argument) for argument in arguments)} → {response!r}"


def explore(search, start, visit):
    """Visits every state once, breadth first; `visit(state, steps)` is told its next steps. Returns how many, and how each was reached."""
    origin, todo = {start: None}, deque([start])
    while todo:
        state = todo.popleft()
        steps = search.steps(state)
        visit(state, steps)
        for step in steps:
            if step.state not in origin:
                origin[step.state] = (state, step.who, step.place, step.what)
                todo.append(step.state)
    return origin


def history(origin, state):
    """The steps that led to a state, the first first."""
    found = []
    while origin[state] is not None:
        state, *step = origin[state]
        found.append(step)
    return found[::-1]
