"""The part of SQL Server that decides who waits for whom: row and key-range locks, application locks, row versions,
transactions, KILL. Sessions are interpreters (interpret.py) that ask it one thing at a time; a Draft is a state in
the making.

From Microsoft's documentation, by the titles of its pages:
  Transaction locking and row versioning guide  which locks conflict, key-range locks, what an isolation level locks and until when
  SET TRANSACTION ISOLATION LEVEL               READ_COMMITTED_SNAPSHOT, SNAPSHOT (errors 3951, 3960)
  Table hints                                   what UPDLOCK, HOLDLOCK, READCOMMITTEDLOCK, NOLOCK change
  sp_getapplock, sp_releaseapplock              modes, owners, return codes
  SET LOCK_TIMEOUT                              error 1222
  KILL                                          not inside a transaction (error 6115)
Who waits is served in the order of asking, conversions first. What is left out: pages, lock escalation, the memory of locks.
"""

ROW_COMPATIBLE = {  # what is asked for: what others may hold meanwhile
    "S": {"S", "U", "RangeS-S", "RangeS-U"},
    "U": {"S", "RangeS-S"},
    "X": set(),
    "RangeS-S": {"S", "U", "RangeS-S", "RangeS-U"},
    "RangeS-U": {"S", "RangeS-S"},
    "RangeI-N": {"S", "U", "X"},
    "RangeX-X": set(),
}
APP_COMPATIBLE = {
    "IntentShared": {"IntentShared", "Shared", "Update", "IntentExclusive"},
    "Shared": {"IntentShared", "Shared", "Update"},
    "Update": {"IntentShared", "Shared"},
    "IntentExclusive": {"IntentShared", "IntentExclusive"},
    "Exclusive": set(),
}
STRENGTH = ["S", "U", "RangeS-S", "RangeS-U", "X", "RangeX-X"]
LAST = ("the end of the index",)


class Err(tuple):
    """An error of the server: (number, message)."""


def stronger(first, second):
    """The one mode that stands for both."""
    if {first, second} == {"U", "RangeS-S"}:
        return "RangeS-U"
    if "X" in (first, second) and any(mode.startswith("Range") for mode in (first, second)):
        return "RangeX-X"
    return max(first, second, key=STRENGTH.index)


def order(value):
    """A key as Python can compare it: NULL first."""
    if isinstance(value, tuple):
        return tuple(order(part) for part in value)
    return (0, 0) if value is None else (1, value)


class Session:
    """What the server knows of a session. node: how far its batch is (search.py)."""

    FIELDS = tuple("node step memory status trancount doomed began snapshot context clock wait granted killed implicit seen".split())
    __slots__ = FIELDS

    def __init__(self, values):
        for field, value in zip(self.FIELDS, values):
            setattr(self, field, value)

    def values(self):
        return tuple(getattr(self, field) for field in self.FIELDS)


def new_session():
    return Session((None, 0, (), "running", 0, False, None, None, (), 0, None, None, False, False, None))


class Draft:
    """A state that a step changes: rows {(table, key): (committed, current, writer)}, locks {resource: (grants, queue)}, sessions."""

    def __init__(self, catalog, rows, locks, sessions, rcsi, versions):
        self.catalog, self.rows, self.locks, self.rcsi, self.versions = catalog, rows, locks, rcsi, versions
        self.sessions = [Session(session) for session in sessions]
        self.rows_changed = self.locks_changed = False
        self.committed = []  # (session, {(table, key): (before, after)}) of this step

    # --- rows ---
    def set_row(self, table, key, version):
        if not self.rows_changed:
            self.rows, self.rows_changed = dict(self.rows), True
        if version is None:
            self.rows.pop((table, key), None)
        else:
            self.rows[(table, key)] = version

    def entries(self, table, index):
        """Every key of an index, uncommitted and not yet removed ones included, with the row's own key."""
        found = set()
        for (name, key), (committed, current, _) in self.rows.items():
            if name == table.name:
                for row in (committed, current):
                    if row is not None:
                        found.add((table.entry(index, row), key))
        return sorted(found, key=lambda pair: order(pair[0]))

    def version(self):
        """The number of what is committed now."""
        content = tuple(sorted(((place, committed) for place, (committed, _, _) in self.rows.items() if committed is not None), key=repr))
        return self.versions.setdefault(content, len(self.versions))

    def at_version(self, number, table, key):
        if number not in self.versions.contents:
            self.versions.contents[number] = dict(next(content for content, known in self.versions.items() if known == number))
        return self.versions.contents[number].get((table, key))

    # --- locks ---
    def set_lock(self, resource, grants, queue):
        if not self.locks_changed:
            self.locks, self.locks_changed = dict(self.locks), True
        if grants or queue:
            self.locks[resource] = (tuple(sorted(grants)), tuple(queue))
        else:
            self.locks.pop(resource, None)

    @staticmethod
    def compatible(resource, asked, held):
        if resource[0] == "application":
            return held in APP_COMPATIBLE[asked]
        return held in ROW_COMPATIBLE[asked]

    def holds(self, who, resource):
        """The mode in which a session holds a row's lock, or None."""
        return next((mode for holder, _, mode, _ in self.locks.get(resource, ((), ()))[0] if holder == who), None)

    def in_the_way(self, who, resource, asked, converting):
        """Who keeps this session from the lock: holders, and those who have asked before."""
        grants, queue = self.locks.get(resource, ((), ()))
        blockers = [holder for holder, _, mode, _ in grants if holder != who and not self.compatible(resource, asked, mode)]
        if converting:
            return blockers
        for waiter, _, mode in queue:
            if waiter == who:
                break
            blockers.append(waiter)
        return blockers

    def grant(self, who, resource, owner, mode):
        grants, queue = self.locks.get(resource, ((), ()))
        grants = list(grants)
        for at, (holder, of, held, count) in enumerate(grants):
            if holder == who and of == owner and (resource[0] != "application" or held == mode):
                grants[at] = (who, owner, mode, count + 1) if resource[0] == "application" else (who, owner, stronger(held, mode), 1)
                break
        else:
            grants.append((who, owner, mode, 1))
        self.set_lock(resource, grants, [waiting for waiting in queue if waiting[0] != who])

    def ask(self, who, resource, owner, mode, timeout):
        """True: granted. False: the session waits from here on."""
        session = self.sessions[who]
        held = [grant for grant in self.locks.get(resource, ((), ()))[0] if grant[0] == who]
        converting = bool(held)
        if session.granted == (resource, owner, mode):
            return True
        if not self.in_the_way(who, resource, mode, converting):
            self.grant(who, resource, owner, mode)
            return True
        grants, queue = self.locks.get(resource, ((), ()))
        self.set_lock(resource, grants, [*queue, (who, owner, mode)] if not converting else [(who, owner, mode), *queue])
        session.wait = (resource, owner, mode, timeout)
        return False

    def serve(self, resource):
        """Hands a lock on to those who wait for it, in their order."""
        while True:
            grants, queue = self.locks.get(resource, ((), ()))
            for at, (waiter, owner, mode) in enumerate(queue):
                converting = any(holder == waiter for holder, _, _, _ in grants)
                others = [held for holder, _, held, _ in grants if holder != waiter]
                if (at == 0 or converting) and all(self.compatible(resource, mode, held) for held in others):
                    self.grant(waiter, resource, owner, mode)
                    session = self.sessions[waiter]
                    session.wait, session.granted = None, (resource, owner, mode)
                    break
            else:
                return

    def drop(self, who, resource, owner="T", mode=None, all_of_it=True):
        """Gives up one lock, or one count of it. False: it was not held."""
        grants, queue = self.locks.get(resource, ((), ()))
        kept, found = [], False
        for holder, of, held, count in grants:
            if not found and holder == who and of == owner and mode in (None, held):
                found = True
                if not all_of_it and count > 1:
                    kept.append((holder, of, held, count - 1))
            else:
                kept.append((holder, of, held, count))
        if found:
            self.set_lock(resource, kept, queue)
            self.serve(resource)
        return found

    def stop_waiting(self, who):
        session = self.sessions[who]
        if session.wait:
            resource = session.wait[0]
            grants, queue = self.locks[resource]
            self.set_lock(resource, grants, [waiting for waiting in queue if waiting[0] != who])
            session.wait = None
            self.serve(resource)

    def release_all(self, who, owners):
        for resource in [
            resource for resource, (grants, _) in self.locks.items() if any(grant[0] == who and grant[1] in owners for grant in grants)
        ]:
            grants, queue = self.locks[resource]
            self.set_lock(resource, [grant for grant in grants if grant[0] != who or grant[1] not in owners], queue)
            self.serve(resource)

    # --- transactions ---
    def commit(self, who):
        changes = {}
        for (table, key), (committed, current, writer) in list(self.rows.items()):
            if writer == who:
                changes[(table, key)] = (committed, current)
                self.set_row(table, key, (current, current, None) if current is not None else None)
        self.committed.append((who, changes))
        self.end_transaction(who)

    def roll_back(self, who):
        for (table, key), (committed, _, writer) in list(self.rows.items()):
            if writer == who:
                self.set_row(table, key, (committed, committed, None) if committed is not None else None)
        self.end_transaction(who)

    def end_transaction(self, who):
        session = self.sessions[who]
        session.trancount, session.doomed, session.began, session.snapshot = 0, False, None, None
        self.release_all(who, ("T",))

    def end_session(self, who, status="ended"):
        """A session that is gone: rolled back, its locks free."""
        self.stop_waiting(who)
        session = self.sessions[who]
        self.roll_back(who)
        self.release_all(who, ("S",))
        session.status, session.killed, session.granted, session.seen = status, False, None, None

    # --- who waits for whom ---
    def blockers(self, who):
        session = self.sessions[who]
        if not session.wait:
            return []
        resource, _, mode, _ = session.wait
        return self.in_the_way(who, resource, mode, any(grant[0] == who for grant in self.locks[resource][0]))

    def in_cycle(self, who):
        """Whether this session waits for itself by way of others."""
        seen, todo = set(), list(self.blockers(who))
        while todo:
            other = todo.pop()
            if other == who:
                return True
            if other not in seen:
                seen.add(other)
                todo += self.blockers(other)
        return False
