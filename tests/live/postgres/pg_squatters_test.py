#!/usr/bin/env python3
"""[F4] Strangers in the way: roles without a grant, with `read` or with `write` take every lock that they can get, in every way that
sessions can hold one. Takeovers, renewals and checks are through when the grace is over, or TG006 names who cannot be evicted.

  pytest tests/live/postgres/pg_squatters_test.py [-k notifications] [--majors 13,18] [--only "turnstile by changing"]

The advisory keys are not listed here: they are whatever an acquisition, a renewal and a check are seen to hold.
"""
import concurrent.futures
import itertools
import threading
import time

import psycopg
import pytest

import given
import layer1_lab
from checks import check, eventually

GRACE = 0.4
# Two cores are shared with other tests.
SLACK = 2.5
ROLES = ("nobody", "reader", "writer")
numbers = itertools.count(1)


class Server(layer1_lab.Server):
    """With one lab, in which nothing waits for longer than 20 s, whoever is in its way."""

    def __init__(self, major):
        super().__init__(major, "max_prepared_transactions=40", "log_min_messages=fatal")
        self.lab = self.fresh()
        self.admin(self.lab.name, f"GRANT CREATE ON DATABASE {self.lab.name} TO writer, reader")
        self.lab.sql("tg_owner", f"SELECT termgate.set_setting('eviction_grace_ms', '{int(GRACE * 1000)}')")
        for role in ("writer", "reader"):
            self.lab.sql(
                role,
                f"CREATE SCHEMA {role}; CREATE TABLE {role}.t (scope text, term bigint, v text); CREATE INDEX ON {role}.t (scope, term)",
                f"GRANT USAGE ON SCHEMA {role} TO tg_owner; GRANT SELECT ON {role}.t TO tg_owner",
            )

    def connect(self, role, timeout="20s", **more):
        return psycopg.connect(self.lab.url(role), autocommit=True, options=f"-c statement_timeout={timeout}", **more)


@pytest.fixture(scope="module", params=given.majors("15"))
def server(request):
    one = Server(request.param)
    yield one
    one.stop()


def new_scope(server, name="acquire"):
    """A scope at term 1; with a lease, where the call of that name has something to do with leases."""
    scope = f"scope {next(numbers)}"
    with server.connect("leader") as leader:
        if name in ("seal", "raise"):
            leader.execute("SELECT termgate.seal(%s, 1)", (scope,))
        else:
            leader.execute("SELECT termgate.acquire_lease(%s, 'me', '3 s')", (scope,))
    return scope


def run(connection, statement, *values):
    """What the call gave: (SQLSTATE, message), and in which time."""
    begun = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            answer = (None, cursor.fetchone())
    except psycopg.Error as error:
        answer = (error.sqlstate, str(error))
    return answer, time.monotonic() - begun


# What must get through, and as whom. Each has a scope of its own, whose lease has just been taken.
CALLS = {
    "seal": ("leader", "SELECT fence FROM termgate.seal(%s, %s + 1)"),
    "raise": ("writer", "SELECT termgate.check_term(%s, %s + 1)"),
    "acquire": ("leader", "SELECT acquired FROM termgate.acquire_lease(%s, 'me', '3 s')"),
    "renew": ("leader", "SELECT renewed FROM termgate.renew_lease(%s, 'me', %s, '3 s')"),
    "renew many": (
        "leader",
        (
            "SELECT outcome FROM termgate.renew_leases(json_build_array(json_build_object('scope', %s::text, 'owner', 'me', 'term',"
            " %s::bigint, 'ttl_ms', 3000)))"
        ),
    ),
    "check": ("writer", "SELECT termgate.check_term(%s, %s)"),
    "check on a snapshot": ("writer", "SELECT termgate.check_term(%s, %s)"),
}


def call(server, name, scope, term):
    role, statement = CALLS[name]
    with server.connect(role, application_name="call") as connection:
        if name == "check on a snapshot":
            connection.execute("SET default_transaction_isolation = 'repeatable read'")
        values = (scope,) if name == "acquire" else (scope, term)
        return run(connection, statement, *values)


def keys_of(server):
    """The advisory keys that an acquisition, a renewal and a check of a scope hold, by scope: (classid, objid, objsubid)."""
    scope = new_scope(server)
    found = set()
    for role, statement in (
        ("leader", f"SELECT termgate.acquire_lease('{scope}', 'me', '3 s')"),
        ("leader", f"SELECT termgate.renew_lease('{scope}', 'me', 1, '3 s')"),
        ("writer", f"SELECT termgate.check_term('{scope}', 1)"),
    ):
        with server.connect(role) as connection:
            connection.execute("BEGIN")
            connection.execute(statement)
            found |= set(
                connection.execute(
                    "SELECT classid::bigint, objid::bigint, objsubid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                ).fetchall()
            )
            connection.execute("ROLLBACK")
    return scope, found


def signed(number):
    return number - 2**32 if number >= 2**31 else number


def arguments_of(key):
    high, low, space = key
    if space == 2:
        return f"{signed(high)}, {signed(low)}"
    number = (high << 32) | low
    return str(number - 2**64 if number >= 2**63 else number)


class Squatter:
    """Sessions of a role that hold a key in some way until they are ended."""

    def __init__(self, server, role, key, mode, way):
        self.server, self.role, self.mode, self.way = server, role, mode, way
        self.key = arguments_of(key)
        self.name = f"squatter {next(numbers)}"
        self.stopping = False
        self.sessions = []
        self.pids = []
        self.threads = []
        self.prepared = None
        getattr(self, way.replace(" ", "_"))()

    def connect(self):
        connection = self.server.connect(self.role, timeout="0", application_name=self.name)
        self.sessions.append(connection)
        self.pids.append(connection.info.backend_pid)  # a connection that was ended has none any more
        return connection

    def lock(self, level="", mode=None):
        return f"pg_advisory_{level}lock{'_shared' if (mode or self.mode) == 'shared' else ''}({self.key})"

    def idle(self):
        self.connect().execute(f"SELECT {self.lock()}")

    def in_a_transaction(self):
        self.connect().execute(f"BEGIN; SELECT {self.lock('xact_')}")

    def twice(self):
        # In a session's lock and a transaction's, and of both modes.
        self.connect().execute(f"SELECT {self.lock()}; BEGIN; SELECT {self.lock('xact_')}; SELECT {self.lock(mode='shared')}")

    def by_changing_transactions(self):
        session = self.connect()
        session.execute(f"SELECT {self.lock()}")
        self.background(lambda: session.execute("DO $$ BEGIN LOOP PERFORM pg_sleep(0.0005); COMMIT; END LOOP; END $$"))

    def by_a_busy_loop(self):
        session = self.connect()
        session.execute(f"SELECT {self.lock()}")
        self.background(lambda: session.execute("DO $$ BEGIN LOOP PERFORM count(*) FROM pg_class; COMMIT; END LOOP; END $$"))

    def in_the_queue(self):
        # A lock that excludes nobody, and a session that waits behind it for one that would.
        self.connect().execute(f"SELECT {self.lock(mode='shared')}")
        second = self.connect()
        self.background(lambda: second.execute(f"SELECT {self.lock(mode='exclusive')}"))
        with self.server.connect("postgres") as admin:
            waits = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"
            eventually(
                lambda: admin.execute(waits, (second.info.backend_pid,)).fetchone()[0] or (second.closed or not self.threads[-1].is_alive())
            )

    def by_many_that_come_again(self):
        def again():
            while not self.stopping:
                try:
                    session = self.connect()
                    session.execute(f"SELECT {self.lock()}")
                    session.execute("DO $$ BEGIN LOOP PERFORM pg_sleep(0.0005); COMMIT; END LOOP; END $$")
                except psycopg.Error:
                    pass

        for _ in range(4):
            self.background(again)
        time.sleep(0.2)

    def by_turns(self):
        def turns():
            while not self.stopping:
                try:
                    session = self.connect()
                    while not self.stopping:
                        session.execute(f"SELECT {self.lock()}; SELECT pg_sleep(0.1); SELECT pg_advisory_unlock_all()")
                except psycopg.Error:
                    pass

        for _ in range(6):
            self.background(turns)
            time.sleep(0.03)

    def prepared_transaction(self):
        self.prepared = f"prepared {next(numbers)}"
        session = self.connect()
        session.execute(f"BEGIN; SELECT {self.lock('xact_')}; PREPARE TRANSACTION '{self.prepared}'")

    def background(self, work):
        def quietly():
            try:
                work()
            except psycopg.Error:
                pass

        self.threads.append(threading.Thread(target=quietly, daemon=True))
        self.threads[-1].start()

    def stop(self):
        self.stopping = True
        with self.server.connect("postgres") as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (self.name,))
            if self.prepared:
                admin.execute(f"ROLLBACK PREPARED '{self.prepared}'")
        for thread in self.threads:
            thread.join(20)
        for session in self.sessions:
            session.close()


WAYS = (
    "idle",
    "in a transaction",
    "twice",
    "by changing transactions",
    "by a busy loop",
    "in the queue",
    "by many that come again",
    "by turns",
    "prepared transaction",
)


def faults_of(answer, took, prepared):
    """What is wrong with a call's answer, in words."""
    state, text = answer
    # A prepared transaction may be in nobody's way: a shared lock excludes no check.
    if prepared and (state == "TG006" or text == ("busy",)):
        return [] if state is None or prepared in text else [f"names {prepared}, not {text}"]
    faults = [] if state is None and text[0] not in (False, "busy", "lost") else [f"{answer}"]
    return faults if took < GRACE + SLACK else [*faults, f"took {took:.2f} s"]


def unaudited(server, scope, squatter):
    """Whoever was ended is in the audit, by whatever call. Of ways that begin again by themselves nobody can tell."""
    if squatter.way in ("by many that come again", "by turns", "prepared transaction"):
        return []
    with server.connect("postgres") as admin:
        gone = {pid for pid in squatter.pids if not admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()}
        noted = "SELECT p::int FROM termgate.audit, jsonb_array_elements_text(detail -> 'pids') p WHERE action = 'evict' AND scope = %s"
        missing = gone - {pid for (pid,) in admin.execute(noted, (scope,)).fetchall()}
    return [f"ended and not in the audit: {missing}"] if missing else []


def judge(what, answer, took, prepared):
    for fault in faults_of(answer, took, prepared) or [None]:
        check(f"{what}: {fault}", fault is None)


def test_every_advisory_key_in_every_way(server):
    template, found = keys_of(server)
    check(f"turnstile, queue, lease and an announcement are seen: {found}", len(found) >= 5)
    # The same key of another scope is told by its kind: its place among the keys of that scope.
    with server.connect("tg_owner") as keeper:
        kinds = {
            kind: keeper.execute(f"SELECT termgate._{kind}_key(%s)", (template,)).fetchone()[0] for kind in ("turnstile", "queue", "lease")
        }
    unnamed = [key for key in found if key[2] == 2]
    check(f"all keys of one number are turnstile, queue or lease: {found}", len(found) - len(unnamed) == 3)
    cases = []
    for number, (kind, way, mode) in enumerate(itertools.product([*kinds, *unnamed], WAYS, ("shared", "exclusive"))):
        if (way in ("in the queue", "by turns") and mode == "shared" and kind != "turnstile") or (
            isinstance(kind, tuple) and way not in ("idle", "prepared transaction")
        ):
            continue
        for name in CALLS:
            cases.append((kind, way, mode, name, ROLES[number % len(ROLES)]))
    only = given.option("only")
    if not only:
        cases = given.share(cases, of=7)

    def play(case):
        kind, way, mode, name, role = case
        what = f"{name}, {kind} {way}, {mode}, {role}"
        if only and not any(part in what for part in only):
            return []
        scope = new_scope(server, name)
        if isinstance(kind, tuple):
            key = kind
        else:
            with server.connect("tg_owner") as keeper:
                number = keeper.execute(f"SELECT termgate._{kind}_key(%s)", (scope,)).fetchone()[0] & (2**64 - 1)
            key = (number >> 32, number & (2**32 - 1), 1)
        squatter = Squatter(server, role, key, mode, way)
        try:
            if name.startswith("renew"):
                with server.connect("tg_owner") as keeper:
                    # It took its time to begin, on a busy machine for longer than the lease.
                    keeper.execute("UPDATE termgate.leases SET expires_at = clock_timestamp() + interval '3 s' WHERE scope = %s", (scope,))
            answer, took = call(server, name, scope, 1)
            return faults_of(answer, took, squatter.prepared) + unaudited(server, scope, squatter)
        finally:
            squatter.stop()

    # Six at a time are more than a busy machine can serve in time, and squatters of other scopes are no part of a case: what is too
    # slow among others is played again by itself, where it has to hold.
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        suspects = [case for case, faults in zip(cases, pool.map(play, cases)) if faults]
    check(f"few need a second look: {suspects}", len(suspects) <= len(cases) // 10)
    for case in suspects:
        # A machine may be busy twice; a lock that holds somebody up does so each time.
        faults = play(case) and play(case)
        check(f"{case}: {faults}", not faults)


MODES = (
    "ACCESS SHARE",
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)


def all_get_through(server, what, excused=""):
    """Every call of a scope that is there, and the first raise of one that is not. `excused`: TG006 may name that prepared transaction."""
    for name in CALLS:
        scope = new_scope(server, name)
        answer, took = call(server, name, scope, 1)
        judge(f"{name} with {what}", answer, took, excused)
    with server.connect("leader") as leader:
        answer, took = run(leader, "SELECT fence FROM termgate.seal(%s, 1)", f"first {next(numbers)}")
        judge(f"first seal with {what}", answer, took, excused)


@pytest.mark.parametrize("role", ROLES)
def test_every_lock_on_tables_and_rows_of_layer_1(server, role):
    with server.connect("postgres") as admin:
        relations = [
            row[0]
            for row in admin.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'S', 'p')"
                " AND (relnamespace = 'termgate'::regnamespace OR relnamespace = 'pg_catalog'::regnamespace)"
            )
        ]
    attempts = [f"LOCK TABLE {relation} IN {mode} MODE NOWAIT" for relation in relations for mode in MODES]
    attempts += [
        f"SELECT 1 FROM {relation} FOR {lock}" for relation in relations if "." in relation for lock in ("UPDATE", "SHARE", "KEY SHARE")
    ]
    with server.connect(role) as session:
        session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        for attempt in attempts:
            session.execute("SAVEPOINT s")
            answer, _ = run(session, attempt)
            session.execute("RELEASE s" if answer[0] is None else "ROLLBACK TO s")
        all_get_through(server, f"{role} at every table")


# What a role may call in a transaction that stays open. SCOPE is one of its own.
WORK = {
    "reader": [
        "SELECT termgate.protect('reader.t', 'scope')",
        "CREATE TABLE reader.fresh (new_scope_column text); SELECT termgate.protect('reader.fresh', 'new_scope_column')",
        "SELECT termgate.protect('reader.t', scope => '*')",
        "SELECT termgate.protect('reader.t', 'scope'); SELECT termgate.unprotect('reader.t')",
        "SELECT count(*) FROM termgate.doctor(); SELECT count(*) FROM termgate.verify_findings()",
        "LOCK TABLE reader.t",
    ],
    "writer": [
        "SELECT termgate.protect('writer.t', 'scope')",
        "SELECT termgate.check_term('SCOPE', 7)",
        "SELECT termgate.append('stream of SCOPE', 7, '', scope => 'SCOPE')",
        "SELECT termgate.claim_write('SCOPE', 7, gen_random_uuid())",
        "SELECT termgate.job_start('job of SCOPE', 'SCOPE', 'me', 7)",
        "SELECT termgate.follower_start('follower of SCOPE', scope => 'SCOPE')",
        "SELECT termgate.check_term('SCOPE', 7); SELECT termgate.record_refusal('SCOPE', 1, 1, now(), now(), 'me')",
        "SELECT termgate.check_term('SCOPE ' || i, 1) FROM generate_series(1, 30) i",
        "SAVEPOINT s; SELECT termgate.check_term('SCOPE', 7); RELEASE s",
        "LOCK TABLE writer.t",
    ],
}


@pytest.mark.parametrize("role", WORK)
def test_every_call_in_a_transaction_that_stays_open_or_is_prepared(server, role):
    prepared = 0
    for number, work in enumerate(given.share(WORK[role], of=3)):
        for how in ("open", "prepared"):
            if not given.LONG and how == "open" and number % 2:
                continue
            gid = f"work {next(numbers)}"
            with server.connect(role, application_name="work") as session:
                session.execute("BEGIN")
                answer, _ = run(session, work.replace("SCOPE", f"own {next(numbers)}"))
                check(f"{role}: {work} is a call that it may make: {answer}", answer[0] is None)
                if how == "prepared":
                    if answer[0] is not None or run(session, f"PREPARE TRANSACTION '{gid}'")[0][0] is not None:
                        session.execute("ROLLBACK")
                        continue
                    prepared += 1
                all_get_through(server, f"{how} by {role}: {work}")
                run(session, "ROLLBACK")  # or it was ended
            if how == "prepared":
                with server.connect("postgres") as admin:
                    admin.execute(f"ROLLBACK PREPARED '{gid}'")
    check(f"{role}: some of it can be prepared", prepared > 0)


@pytest.mark.parametrize(
    "prepare",
    ["PREPARE TRANSACTION 'a raise'", "pRepare/**/transaction 'a raise'", "PREPARE /* /* in */ */ -- to the end\n\tTRANSACTION 'a raise'"],
    ids=["plain", "comment", "comments"],
)
def test_a_prepared_raise_is_refused(server, prepare):
    with server.connect("writer") as session:
        session.execute("BEGIN; SELECT termgate.check_term('raised and prepared', 7)")
        answer, _ = run(session, prepare)
        check(f"it cannot be prepared: {answer}", answer[0] == "0A000" and "raised and prepared" in answer[1])


def announced_by(keeper, session):
    """The classes of the two locks by which the session's transaction announces its raise, as every role can read them."""
    return [
        row[0]
        for row in keeper.execute(
            "SELECT classid::bigint::bit(32)::int FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND objsubid = 2 ORDER BY classid",
            (session.info.backend_pid,),
        )
    ]


def test_an_announcement_is_worth_nothing_after_its_transaction(server):
    """A session that comes to the pid of one that has raised, or has raised itself, takes the same locks by hand, and squats with them."""
    for kind, name in itertools.product(("turnstile", "queue"), ("seal", "check")):
        scope = new_scope(server, "seal")
        with server.connect("writer") as forger, server.connect("tg_owner") as keeper:
            forger.execute("BEGIN; SELECT termgate.check_term(%s, 5)".replace("%s", f"'{scope}'"))
            classes = announced_by(keeper, forger)
            check(f"it announces: {classes}", len(classes) == 2)
            forger.execute("ROLLBACK")
            for number in classes:
                forger.execute("SELECT pg_advisory_lock_shared(%s::int, 2147483647)", (number,))
            forger.execute("SELECT pg_advisory_lock(%s)", keeper.execute(f"SELECT termgate._{kind}_key(%s)", (scope,)).fetchone())
            answer, took = call(server, name, scope, 1)
            judge(f"{name} beside {kind}", answer, took, None)
            run(forger, "SELECT 1")
            check("the forger is ended", forger.broken)


def test_locks_that_look_like_an_announcement(server):
    """A role of level write raises a scope of its own, copies what it announced with, and takes the keys of another scope by hand."""
    scope = new_scope(server, "seal")
    with server.connect("writer", application_name="forger") as forger, server.connect("tg_owner") as keeper:
        forger.execute("BEGIN; SELECT termgate.check_term('of the forger', 4000000000000)")
        guesses = announced_by(keeper, forger) + [
            keeper.execute("SELECT (hashtextextended(%s, hashtextextended('termgate', %s)) >> 32)::int", (scope, seed)).fetchone()[0]
            for seed in (4, 5)
        ]
        for guess in guesses:
            forger.execute("SELECT pg_try_advisory_xact_lock_shared(%s::int, 931)", (guess,))
        for kind in ("turnstile", "queue"):
            forger.execute("SELECT pg_advisory_xact_lock(%s)", keeper.execute(f"SELECT termgate._{kind}_key(%s)", (scope,)).fetchone())
        answer, took = call(server, "seal", scope, 1)
        judge("seal beside a forger", answer, took, None)
        run(forger, "SELECT 1")
        check("the forger is ended", forger.broken)


def test_checks_that_pass_through_a_squatted_turnstile_are_not_ended(server):
    """The writers who wait for the turnstile, and have it for a moment each, are left alone while a squatter in it is ended."""
    scope = new_scope(server, "seal")
    stopping = threading.Event()
    ended = []

    def write(number):
        with server.connect("writer", application_name=f"passing {number}") as session:
            while not stopping.is_set():
                state, text = run(session, "SELECT termgate.check_term(%s, %s)", scope, 1)[0]
                if state not in (None, "TG001", "TG006"):
                    ended.append(text)
                    return

    with server.connect("tg_owner") as keeper:
        number = keeper.execute("SELECT termgate._turnstile_key(%s)", (scope,)).fetchone()[0] & (2**64 - 1)
    squatter = Squatter(server, "nobody", (number >> 32, number & (2**32 - 1), 1), "shared", "by changing transactions")
    writers = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for writer in writers:
        writer.start()
    time.sleep(0.2)
    for term in range(1, 6):
        answer, took = call(server, "seal", scope, term)
        judge("seal", answer, took, None)
    stopping.set()
    for writer in writers:
        writer.join(20)
    squatter.stop()
    check(f"no writer was ended: {ended}", not ended)


def test_a_full_lock_table_is_named(server):
    """PostgreSQL's own limit: then nobody gets a lock, and a raise says why."""
    leased, sealed = new_scope(server), new_scope(server, "seal")
    with server.connect("nobody") as squatter, server.connect("leader") as leader, server.connect("writer") as writer:
        check(
            "the lock table is filled",
            run(squatter, "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 100000) i")[0][0] == "53200",
        )
        for session, statement in (
            (leader, f"SELECT termgate.acquire_lease('{leased}', 'me', '3 s')"),
            (leader, f"SELECT termgate.seal('{sealed}', 2)"),
            (writer, f"SELECT termgate.check_term('{sealed}', 2)"),
        ):
            answer, _ = run(session, statement)
            check(
                f"{statement}: {answer}",
                answer[0] == "53200" or (answer[0] == "TG006" and f"pid {squatter.info.backend_pid} " in answer[1]),
            )
        squatter.close()
        eventually(lambda: run(leader, f"SELECT termgate.seal('{sealed}', 2)")[0][0] is None)
        check("it goes on when that session has ended", run(leader, f"SELECT termgate.seal('{sealed}', 2)")[0][0] is None)


def test_notifications_of_others_hold_up_no_raise(server):
    """The server lets one transaction notify at a time, to the end of its COMMIT: a role without a grant does nothing else, in another
    database."""

    def flood(number):
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with server.connect("nobody", dbname="template1", application_name="flood") as session:
                values = f"'{number} {time.time()} ' || i || repeat('y', 7900)"
                run(session, f"SELECT count(pg_notify('x', {values})) FROM generate_series(1, 8000) i")

    scope = f"notified {next(numbers)}"
    threads = [threading.Thread(target=flood, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    slowest = (0, "")
    with server.connect("leader") as leader:
        for term in itertools.count(1):
            if not any(thread.is_alive() for thread in threads):
                break
            for statement in (
                f"SELECT term FROM termgate.acquire_lease('{scope}', 'me', '3 s')",
                f"SELECT renewed FROM termgate.renew_lease('{scope}', 'me', {term}, '3 s')",
                f"SELECT termgate.check_term('{scope}', {term})",
                f"SELECT termgate.release_lease('{scope}', 'me', {term})",
                f"SELECT fence FROM termgate.seal('{scope} sealed', {term})",
                f"SELECT termgate.check_term('{scope} raised', {term})",
            ):
                answer, took = run(leader, statement)
                check(f"{statement}: {answer}", answer[0] is None and answer[1][0] in (True, term))
                slowest = max(slowest, (took, statement))
            answer, took = run(leader, "SELECT termgate.notify_raised(%s)", scope)
            check(f"a notice is sent, or fails soon: {answer}, {took:.2f} s", answer[0] in (None, "55P03") and took < 1)
    check(f"slowest: {slowest}", slowest[0] < 1)
