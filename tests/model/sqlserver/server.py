"""What the server does with one request of a session: the only way in which interpreters (interpret.py) see or change
what others see. Each handler answers with the response, or WAIT when the session now waits for a lock; it is called
again when the lock is there.
"""
from engine import Err, LAST, order

WAIT = ("waiting",)
FIRST_SESSION = 51
# Kinds of application locks that no procedure looks up: marks of a pass and of an acquisition.
UNLISTED = "pmhw"
# The place of what a client's batch asks for by itself, outside any procedure.
CLIENT = "the client's batch"


def fetch(draft, who, table, index, prefix, low, high, after, backward, spec):
    """The next row of an index range: (entry, row), or None at its end. spec: (version, mode, hold, ranged, lookup, past)."""
    version, mode, hold, ranged, lookup, past = spec
    session = draft.sessions[who]
    if version == "snapshot" and session.snapshot is None:
        session.snapshot = draft.version()
    if version == "statement" and session.seen is None:
        session.seen = draft.version()
    entries = draft.entries(table, index)
    inside = [pair for pair in entries if within(index, pair[0], prefix, low, high)]
    if backward:
        inside.reverse()
    for entry, key in inside:
        if after is not None and not (order(entry) < order(after) if backward else order(entry) > order(after)):
            continue
        committed, current, writer = draft.rows[(table.name, key)]
        if version != "locked":
            row = (
                current
                if version == "dirty" or writer == who
                else draft.at_version(session.snapshot if version == "snapshot" else session.seen, table.name, key)
            )
        else:
            exact = index.unique and len(prefix) == len(index.keys)
            row = lock_and_read(
                draft, who, table, index, entry, key, "RangeS-" + mode if ranged and not exact else mode, hold, lookup, past
            )
            if row is WAIT:
                return WAIT
        if row is not None and table.entry(index, row) == entry:
            return (entry, row)
    if ranged and version == "locked" and not (after is not None and index.unique and len(prefix) == len(index.keys)):
        return lock_behind(draft, who, table, index, entries, prefix, high, mode)
    return None


def within(index, entry, prefix, low, high):
    if tuple(entry[: len(prefix)]) != tuple(prefix):
        return False
    value = entry[len(prefix)] if len(entry) > len(prefix) else None
    if low is not None and (value is None or not (order(value) > order(low[0]) or (low[1] and value == low[0]))):
        return False
    return high is None or (value is not None and (order(value) < order(high[0]) or (high[1] and value == high[0])))


def lock_and_read(draft, who, table, index, entry, key, mode, hold, lookup, past):
    """The row, once its locks are there. past: where they are not to be had at once, the row is passed over (READPAST)."""
    for resource in [("key", table.name, index.name, entry)] + ([("key", table.name, table.primary.name, key)] if lookup else []):
        before = draft.holds(who, resource) if not is_granted(draft, who, resource) else None
        if before is not None and covers(before, mode):
            continue
        if past and draft.in_the_way(who, resource, mode, before is not None):
            return None
        if not draft.ask(who, resource, "T", mode, draft.lock_timeout):
            return WAIT
        if not hold and before is None:
            draft.drop(who, resource)
    version = draft.rows.get((table.name, key))
    return version[1] if version else None


def covers(held, asked):
    """Whether a lock that is held already stands for the one that is asked for."""
    if held == asked or held == "RangeX-X":
        return True
    return {"S": held in ("U", "X", "RangeS-S", "RangeS-U"), "U": held in ("X", "RangeS-U"), "RangeS-S": held == "RangeS-U"}.get(
        asked, False
    )


def is_granted(draft, who, resource):
    granted = draft.sessions[who].granted
    return granted is not None and granted[0] == resource


def lock_behind(draft, who, table, index, entries, prefix, high, mode):
    """The range behind the last key of a scan: the lock of the next key, or of the end of the index."""
    beyond = [
        entry
        for entry, _ in entries
        if order(tuple(entry[: len(prefix)])) > order(tuple(prefix))
        or (high is not None and tuple(entry[: len(prefix)]) == tuple(prefix) and order(entry[len(prefix)]) > order(high[0]))
    ]
    resource = ("key", table.name, index.name, beyond[0] if beyond else LAST)
    before = draft.holds(who, resource) if not is_granted(draft, who, resource) else None
    if before is not None and covers(before, "RangeS-" + mode):
        return None
    return None if draft.ask(who, resource, "T", "RangeS-" + mode, draft.lock_timeout) else WAIT


def drop_row(draft, who, table, index, entry):
    """The update lock of a row that was looked at and is none of the statement's."""
    if draft.holds(who, ("key", table.name, index.name, entry)) == "U":
        draft.drop(who, ("key", table.name, index.name, entry))


def own(draft, who, table, index, entry, new):
    """The exclusive lock of an index entry; before a new one the range that it falls into is asked for."""
    if new:
        entries = [other for other, _ in draft.entries(table, index)]
        beyond = [other for other in entries if order(other) > order(entry)]
        resource = ("key", table.name, index.name, beyond[0] if beyond else LAST)
        if entry not in entries and draft.in_the_way(who, resource, "RangeI-N", True):
            if not draft.ask(who, resource, "T", "RangeI-N", draft.lock_timeout):
                return WAIT
        if draft.holds(who, resource) == "RangeI-N":
            draft.drop(who, resource)
    resource = ("key", table.name, index.name, entry)
    before = draft.holds(who, resource) if not is_granted(draft, who, resource) else None
    if before is not None and covers(before, "X"):
        return None
    return None if draft.ask(who, resource, "T", "X", draft.lock_timeout) else WAIT


def insert(draft, who, table, row):
    key = table.key(row)
    for index in table.indexes:
        if own(draft, who, table, index, table.entry(index, row), new=True) is WAIT:
            return WAIT
    committed, current, _ = draft.rows.get((table.name, key), (None, None, None))
    if current is not None:
        return Err((2627, f"a row with the key {key} is in {table.name} already"))
    draft.set_row(table.name, key, (committed, row, who))
    return None


def change(draft, who, table, key, row, snapshot):
    """Updates a row, or deletes it where row is None."""
    session = draft.sessions[who]
    committed, current, _ = draft.rows[(table.name, key)]
    if own(draft, who, table, table.primary, key, new=False) is WAIT:
        return WAIT
    if snapshot and session.snapshot is not None and draft.at_version(session.snapshot, table.name, key) != committed:
        return Err((3960, f"the row {key} of {table.name} was changed behind the snapshot"))
    for index in table.indexes:
        if index is table.primary:
            continue
        old, new = table.entry(index, current), table.entry(index, row) if row is not None else None
        if old != new or any(current[table.at[column]] != row[table.at[column]] for column in index.include):
            if own(draft, who, table, index, old, new=False) is WAIT or (
                new is not None and own(draft, who, table, index, new, new=True) is WAIT
            ):
                return WAIT
    draft.set_row(table.name, key, (committed, row, who))
    return None


def begin(draft, who):
    draft.sessions[who].trancount += 1


def commit(draft, who):
    session = draft.sessions[who]
    if session.trancount == 0:
        return Err((3902, "COMMIT without a transaction"))
    if session.doomed:
        return Err((3930, "the transaction cannot be committed"))
    session.trancount -= 1
    if session.trancount == 0:
        draft.commit(who)
    return None


def end_of_nothing(draft, who):
    """The end of a transaction that has touched nothing."""
    draft.end_transaction(who)


def rollback(draft, who):
    if draft.sessions[who].trancount == 0:
        return Err((3903, "ROLLBACK without a transaction"))
    draft.roll_back(who)
    return None


def getapplock(draft, who, name, mode, owner, timeout):
    session = draft.sessions[who]
    if owner == "T" and session.trancount == 0:
        return -999
    resource = ("application", name)
    waited = session.granted == (resource, owner, mode)
    held = [(of, held_mode) for holder, of, held_mode, _ in draft.locks.get(resource, ((), ()))[0] if holder == who]
    if not waited:
        if any(of != owner for of, _ in held):
            draft.notes.append(("one application lock for a session and for its transaction", who, name))
        if mode == "Exclusive" and any(held_mode != "Exclusive" for _, held_mode in held):
            draft.notes.append(("an application lock upgraded in place", who, name))
    if timeout == 0 and draft.in_the_way(who, resource, mode, bool(held)):
        return -1
    if not draft.ask(who, resource, owner, mode, timeout if timeout >= 0 else None):
        return WAIT
    return 1 if waited else 0


def releaseapplock(draft, who, name, owner):
    return 0 if draft.drop(who, ("application", name), owner, all_of_it=False) else -999


def applock_mode(draft, who, name, owner):
    if owner == "T" and draft.sessions[who].trancount == 0:
        return Err((3918, "the statement or function must be executed in the context of a user transaction"))
    held = {mode for holder, of, mode, _ in draft.locks.get(("application", name), ((), ()))[0] if holder == who and of == owner}
    return next((mode for mode in ("Exclusive", "Update", "Shared", "IntentExclusive", "IntentShared") if mode in held), "NoLock")


def applock_test(draft, who, name, mode, owner):
    if owner == "T" and draft.sessions[who].trancount == 0:
        return Err((3918, "the statement or function must be executed in the context of a user transaction"))
    return 0 if draft.in_the_way(who, ("application", name), mode, False) else 1


def kill(draft, who, session_id):
    victim = session_id - FIRST_SESSION
    if draft.sessions[who].trancount > 0:
        return Err((6115, "KILL cannot be used inside user transactions"))
    if not 0 <= victim < len(draft.sessions) or draft.sessions[victim].status == "ended":
        return Err((6106, f"process {session_id} is not an active process"))
    draft.kills.append((who, victim))
    draft.stop_waiting(victim)
    draft.sessions[victim].killed = True
    return None


def list_locks(draft, who):
    """The application locks of sys.dm_tran_locks: (type, entity, description, mode, status, session)."""
    found = []
    for resource, (grants, queue) in sorted(draft.locks.items(), key=repr):
        if resource[0] != "application" or resource[1][2:3] in UNLISTED:
            continue
        place = ("APPLICATION", None, f"0:[{resource[1][:32]}]:(0123abcd)")
        found += [(*place, mode, "GRANT", FIRST_SESSION + holder) for holder, _, mode, _ in grants]
        found += [(*place, mode, "WAIT", FIRST_SESSION + waiter) for waiter, _, mode in queue]
    return tuple(found)


def list_sessions(draft, who):
    """sys.dm_exec_sessions: (session, open transactions, whether a batch runs)."""
    found = []
    for at, session in enumerate(draft.sessions):
        if session.status != "ended":
            idle = session.status == "done" or session.node.asks[0][0] == CLIENT
            found.append((FIRST_SESSION + at, min(session.trancount, 1), "sleeping" if idle else "running"))
    return tuple(found)


def level(draft, who, snapshot):
    """The first access of a transaction decides whether it is a snapshot's (errors 3951)."""
    session = draft.sessions[who]
    if session.implicit and session.trancount == 0:
        session.trancount = 1
    if session.trancount > 0 and session.began is None:
        session.began = snapshot
    if snapshot and session.trancount > 0 and not session.began:
        return Err((3951, "a transaction that began at another isolation level cannot go on as SNAPSHOT"))
    return None


def env(draft, who, what):
    session = draft.sessions[who]
    if what == "xact_state":
        return 0 if session.trancount == 0 else -1 if session.doomed else 1
    return getattr(session, what)


def statement(draft, who):
    draft.sessions[who].seen = None


def doom(draft, who):
    if draft.sessions[who].trancount > 0:
        draft.sessions[who].doomed = True


def context_get(draft, who, key):
    return dict(draft.sessions[who].context).get(key)


def context_set(draft, who, key, value):
    session = draft.sessions[who]
    session.context = tuple(sorted({**dict(session.context), key: value}.items()))


def set_implicit(draft, who, value):
    draft.sessions[who].implicit = value


HANDLERS = {
    handler.__name__: handler
    for handler in [
        fetch,
        drop_row,
        insert,
        change,
        begin,
        commit,
        end_of_nothing,
        rollback,
        getapplock,
        releaseapplock,
        applock_mode,
        applock_test,
        kill,
        list_locks,
        list_sessions,
        level,
        env,
        statement,
        doom,
        context_get,
        context_set,
        set_implicit,
    ]
}
