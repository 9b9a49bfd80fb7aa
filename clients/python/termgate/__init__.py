"""Hold a lease of Termgate, and write under its term.

    leases = termgate.Termgate(lambda: psycopg.connect(URL))   # any DB-API driver; each held lease has a connection of its own
    with leases.hold("billing", ttl=10, wait=30) as lease:
        while not lease.lost.is_set():
            with psycopg.connect(URL) as connection:           # one transaction
                lease.declare(connection)                      # TG001: another leads by now
                connection.execute("UPDATE accounts SET balance = balance - 30 WHERE id = 42")

The lease is renewed in the background. `lost` is set a margin (a fifth of the TTL) before the lease can be another's, counted from the
moment when the last renewal that succeeded was sent, on a clock that never steps. What was written too late is refused by the database.
`asked_to_leave` is set by the renewal after somebody has asked for the lease (`termgate lease hand-over`): finish, and leave the block.
`watch` tells others who leads.
"""
import collections
import contextlib
import functools
import logging
import os
import queue
import random
import re
import socket
import sys
import threading
import time
import uuid
from concurrent.futures import Future

from ._statements import STATEMENTS

__all__ = ["Leader", "Lease", "Termgate"]
_log = logging.getLogger("termgate")
Leader = collections.namedtuple("Leader", "owner term endpoint")  # endpoint: None where the holder gave none
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}"}


def _clock():
    """Seconds on a clock that no one sets. On Linux it also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _check(what, seconds, least):
    if not least <= seconds <= 86400:
        raise ValueError(f"TG005 {what} is {seconds} s; it must be {least} s to 1 day")


class Termgate:
    """The leases of one database: "postgresql", "sqlserver" or "sqlite". Any thread may call it."""

    def __init__(self, connect, database="postgresql", schema="termgate"):
        """connect: opens a connection of any DB-API driver. It is called in threads of Termgate's own."""
        quoted = f"[{schema.replace(']', ']]')}]" if database == "sqlserver" else '"' + schema.replace('"', '""') + '"'
        self._texts = {name: text.replace("@schema@", quoted) for name, text in STATEMENTS[database].items()}
        self._connect = connect

    def hold(self, scope, ttl=10.0, wait=30.0, owner=None, endpoint=None):
        """Returns the Lease. Raises TimeoutError where another has held it for `wait` seconds (0: one try), and what the driver raises."""
        lease = self._hold(scope, ttl, wait, owner, endpoint, threading.Event())
        if lease is None:
            raise TimeoutError(f'TG006 the lease of scope "{scope}" is held by another')
        return lease

    def lead(self, scope, work, ttl=10.0, stop=None, endpoint=None):
        """Calls work(lease) each time this process has become the leader, until it returns while the lease is still held.

        Where the lease is lost or asked for, work has to return, and the loop goes on; an error of a work that lost it is logged. stop, an
        Event, ends the loop while it waits; work looks at it too. Returns what work returned, or None.
        """
        stop, owner = stop or threading.Event(), None
        while not stop.is_set():
            try:
                lease = self._hold(scope, ttl, 3600.0, owner, endpoint, stop)
            except ValueError:
                raise
            except Exception as error:  # the database is away, or refuses
                _log.warning('no lease of scope "%s": %s', scope, error)
                stop.wait(min(ttl / 3, 1.0) * random.uniform(0.75, 1))
                continue
            if lease is None:
                continue
            owner = lease.owner  # whoever is asked to leave has no part in the next election
            with lease:
                try:
                    result = work(lease)
                except Exception as error:
                    if lease.held():
                        raise
                    _log.warning('the work under term %d of scope "%s" ended after its lease: %s', lease.term, scope, error)
                    continue
                if stop.is_set() or (lease.held() and not lease.asked_to_leave.is_set()):
                    return result
        return None

    def watch(self, scope, interval=1.0, stop=None):
        """Yields who leads, a Leader or None for nobody, and then each change of owner or term, until stop, an Event, is set.

        It looks every `interval` seconds, when the lease can end, and ten times a second while nobody leads. An error ends it: what the
        driver raises, or a timeout where no answer comes for 10 s. That is no change, so watch again. Never write because of a watch.
        """
        _check("interval", interval, 0.01)
        stop, last = stop or threading.Event(), ()
        with contextlib.closing(_Line(self)) as line:
            while not stop.is_set():
                leader, left = line.leader(scope, 10)
                if leader != last:
                    yield leader
                last = leader
                stop.wait(min(interval, left + 0.001 if leader else 0.1))

    def _hold(self, scope, ttl, wait, owner, endpoint, stop):
        _check("ttl", ttl, 0.1)
        owner = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        give_up, step, held_for, line = _clock() + wait, 0.01, 0.0, _Line(self)
        lease = None
        try:
            while not stop.is_set():
                patience = max(give_up - _clock(), 0.0) + ttl
                if held_for <= 0:
                    sent = _clock()
                    row = line.call("acquire_lease", scope, owner, round(ttl * 1000), endpoint, None).result(patience)
                    # A grant that had to wait, for an eviction perhaps, comes late: a renewal counts anew.
                    while row["acquired"] and _clock() - sent > ttl / 2:
                        sent = _clock()
                        if not line.call("renew_lease", scope, owner, row["term"], round(ttl * 1000)).result(patience)["renewed"]:
                            raise TimeoutError(f'the lease of scope "{scope}" came too late: a call takes as long as its TTL of {ttl} s')
                    if row["acquired"]:
                        lease = Lease(line, self, scope, owner, int(row["term"]), ttl, sent)
                        return lease
                _, held_for = line.leader(scope, patience)
                left = give_up - _clock()
                if left <= 0:
                    return None
                stop.wait(min(step * random.uniform(0.5, 1.5), held_for + random.uniform(0.001, 0.01), left))
                step = min(step * 2, 0.5)
            return None
        finally:
            if lease is None:
                line.close()

    def _row(self, connection, name, values):
        """The first row of a call as a dictionary, None where there is no row."""
        marks = _MARKS[sys.modules[type(connection).__module__.partition(".")[0]].paramstyle]
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(re.sub(r"\$(\d)", lambda found: marks.format(found[1]), self._texts[name]), values)
            while cursor.description is None and cursor.nextset():
                pass
            row = cursor.fetchone()
            return row and dict(zip((column[0] for column in cursor.description), row))


class _Line:
    """A connection with a thread. A call that hangs hangs there; whoever waits for its answer gives up when he wants."""

    def __init__(self, termgate):
        self._termgate, self._jobs = termgate, queue.SimpleQueue()
        threading.Thread(target=self._run, name="termgate calls", daemon=True).start()

    def call(self, name, *values):
        future = Future()
        self._jobs.put((future, name, values))
        return future

    def leader(self, scope, patience):
        """Who leads, and for how many seconds if it does not renew. It locks nothing."""
        row = self.call("lease", scope).result(patience)
        left = int(row["remaining_ms"]) / 1000 if row else 0.0
        return (Leader(row["owner_id"], int(row["term"]), row["endpoint"]), left) if left > 0 else (None, 0.0)

    def close(self):
        """After the calls that were made before."""
        self._jobs.put(None)

    def _run(self):
        connection = None
        for future, name, values in iter(self._jobs.get, None):
            try:
                connection = connection or self._opened()
                row = self._termgate._row(connection, name, values)
                connection.commit()
                future.set_result(row)
            except Exception as error:
                self._drop(connection)
                connection = None
                future.set_exception(error)
        self._drop(connection)

    def _opened(self):
        connection = self._termgate._connect()
        # Not part of DB-API, but most drivers have it; without it each call is a transaction of three round trips.
        if callable(getattr(connection, "autocommit", None)):
            connection.autocommit(True)
        elif hasattr(connection, "autocommit"):
            connection.autocommit = True
        return connection

    @staticmethod
    def _drop(connection):
        try:
            if connection is not None:
                connection.close()
        except Exception as error:
            _log.debug("a connection did not close: %s", error)


class Lease(contextlib.AbstractContextManager):
    """A lease that is held, from Termgate.hold(). `with` gives it back. Any thread may use it."""

    def __init__(self, line, termgate, scope, owner, term, ttl, sent):
        self.scope, self.owner, self.term = scope, owner, term
        self.lost = threading.Event()  # set when the lease can no longer be trusted, or was given back
        self.asked_to_leave = threading.Event()  # set when somebody asks for the lease, which is held as before for a while
        self._line, self._termgate, self._ttl = line, termgate, ttl
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._given_back = False
        self._until = sent
        self._renewed_from(sent)
        threading.Thread(target=self._keep, name="termgate lease", daemon=True).start()

    def held(self):
        """Whether the lease may be trusted at this moment, by the clock: false even where `lost` is not set yet."""
        return not self.lost.is_set() and _clock() < self._until

    def declare(self, connection):
        """First in a transaction that writes: checks the term and declares it. The driver raises TG001 where another leads by now."""
        self._termgate._row(connection, "check_term", (self.scope, self.term))

    def release(self):
        """Gives the lease back, so that another can have it at once. False: it was no longer held. Raises what the driver raises."""
        with self._lock:
            held, self._given_back = self.held() and not self._given_back, True
        self.lost.set()
        self._wake.set()
        try:
            for attempt in range(5):
                left = self._until - _clock()
                if not held or left <= 0:
                    return False
                try:
                    return bool(self._line.call("release_lease", self.scope, self.owner, self.term).result(left)["released"])
                except Exception:
                    if attempt == 4:
                        raise
                time.sleep(0.01 * 2**attempt)
        finally:
            self._line.close()
        return False

    def __exit__(self, *_):
        try:
            self.release()
        except Exception as error:  # it ends by itself
            _log.warning('the lease of scope "%s" was not given back: %s', self.scope, error)

    def _renewed_from(self, sent):
        """`sent` is the moment from which the database counts at the earliest. The next renewal follows a third of the TTL later, up to a
        quarter earlier at random: holders elected together do not renew together."""
        self._until = max(self._until, sent + self._ttl - self._ttl / 5)
        self._due = sent + self._ttl / 3 * random.uniform(0.75, 1)

    def _keep(self):
        """The lease's thread: sends the renewals and watches the clock, whatever a renewal does."""
        pending, given_up = None, 0.0
        try:
            while not self.lost.is_set():
                self._wake.clear()
                now = _clock()
                if now >= self._until:
                    break
                if pending is not None and pending.done():
                    pending = None
                elif pending is not None and now >= given_up:
                    # That connection may be dead, so the next try has another. The answer counts if it still comes.
                    with self._lock:
                        if self._given_back:
                            break
                        self._line.close()
                        self._line, pending, self._due = _Line(self._termgate), None, now
                if pending is None and now >= self._due:
                    given_up, self._due = now + self._ttl / 4, now
                    pending = self._line.call("renew_lease", self.scope, self.owner, self.term, round(self._ttl * 1000))
                    pending.add_done_callback(functools.partial(self._answered, now))
                    continue
                self._wake.wait(max(min(self._until, given_up if pending else self._due) - now, 0.0))
        finally:
            self.lost.set()

    def _answered(self, sent, future):
        """In the thread of the call."""
        with self._lock:
            if future.exception() is not None:
                _log.warning('the lease of scope "%s" was not renewed: %s', self.scope, future.exception())
                self._due = _clock() + self._ttl / 20 * random.uniform(0.75, 1.25)
            elif not future.result()["renewed"]:
                self.lost.set()
            elif self.held():
                self._renewed_from(sent)
                if future.result().get("leave_in_ms") is not None:
                    self.asked_to_leave.set()
        self._wake.set()
