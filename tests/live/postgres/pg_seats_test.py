#!/usr/bin/env python3
# Long: a case for each flaw.
"""[F1] [F2] [F4] Seats on PostgreSQL: what could go wrong with them, by name. When each was written, it failed without the line that keeps
it from happening.

  pytest tests/live/postgres/pg_seats_test.py [--majors 13,18]

The sessions are those of plain roles; the owner of layer 1 is no superuser, and may see and end sessions.
"""
import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import given
import psycopg2
import pytest
from layer1_lab import Server

SECRET = b"what the holder alone knows"
HASH = hashlib.sha256(SECRET).digest()
GRACE = 0.3
PATIENCE = 20  # the grace where somebody stands up in it, however busy the machine is


@pytest.fixture(scope="module", params=given.majors("15"))
def server(request):
    started = Server(request.param, "max_prepared_transactions=10")
    started.admin("postgres", "GRANT pg_read_all_stats TO tg_owner")
    yield started
    started.stop()


class Ground:
    def __init__(self, lab):
        self.lab, self.sessions = lab, []
        lab.sql("operator", "SELECT termgate.set_setting('check_wait_ms', '1000')")
        self.grace(PATIENCE)
        lab.sql("leader", "SELECT termgate.seal('billing', 1)", "SELECT termgate.seal('other', 1)")
        lab.sql("owner", "CREATE TABLE app.notes (v text)", "GRANT ALL ON app.notes TO PUBLIC")

    def open(self, role="writer"):
        self.sessions.append(self.lab.open(role))
        return self.sessions[-1]

    def grace(self, seconds):
        self.lab.sql("operator", f"SELECT termgate.set_setting('eviction_grace_ms', '{seconds * 1000:.0f}')")

    def close(self):
        for session in self.sessions:
            session.close()

    def sit(self, session, scope="billing", term=1, secret=SECRET):
        return session.run("SELECT fence, nonce, why FROM termgate.sit(%s, %s, %s)", (scope, term, hashlib.sha256(secret).digest()))[0]

    def seated(self, scope="billing", role="writer"):
        session = self.open(role)
        fence, nonce, why = self.sit(session, scope)
        assert nonce and why is None, why
        return session, nonce

    def stand(self, *nonces, session=None, secret=SECRET):
        return (session or self.open()).value("SELECT termgate.stand(%s::uuid[], %s)::text[]", (list(nonces), secret))

    def rows(self, scope="billing"):
        return self.admin(f"SELECT count(*) FROM termgate.seats WHERE scope = '{scope}'")

    def admin(self, statement):
        return self.lab.value("postgres", statement)

    def wanted(self, seen=-1, session=None, secret=SECRET):
        return (session or self.open()).run(
            "SELECT bell, place, wanted, nonces::text[] FROM termgate.seats_wanted(%s, %s)", (secret, seen)
        )[0]

    def lives(self, session):
        try:
            return session.value("SELECT 1") == 1
        except psycopg2.Error:
            return False

    @contextlib.contextmanager
    def revoked(self, right):
        self.lab.sql("postgres", f"REVOKE {right} FROM tg_owner")
        try:
            yield
        finally:
            self.lab.sql("postgres", f"GRANT {right} TO tg_owner")

    def change(self, function, old, new):
        """Plants something in a function of layer 1."""
        (text,) = self.lab.sql(
            "postgres",
            f"SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace AND p.proname = '{function}'",
        )[0]
        assert old in text, f"{function} has no {old!r}"
        self.lab.sql("postgres", text.replace(old, new))


@pytest.fixture
def ground(server):
    made = Ground(server.fresh())
    yield made
    made.close()


class Later:
    """A statement that runs meanwhile, in a session of its own."""

    def __init__(self, ground, role, *statements):
        self.session = ground.open(role)
        self.pid = self.session.pid
        self.code = self.rows = self.message = None
        self.begun, self.ended = time.monotonic(), None
        self.ground = ground

        def run():
            try:
                for statement in statements:
                    self.rows = self.session.run(statement)
                self.code = ""
            except psycopg2.Error as error:
                self.code = error.pgcode or "connection"
                self.message = str(error)
            self.ended = time.monotonic()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def wait(self):
        self.thread.join(40)
        assert self.ended, "it still runs"
        return self.code

    @property
    def took(self):
        return self.ended - self.begun

    def until(self, condition):
        def there():
            assert not self.ended, f"it has ended: {self.message}"
            return self.ground.admin(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {self.pid} AND {condition}") == 1

        eventually(there)

    def waits_at_lock(self):
        self.until("wait_event_type = 'Lock'")

    def sweeps(self):
        self.until("wait_event = 'PgSleep'")


def eventually(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "never"
        time.sleep(0.005)


SEAL = "SELECT termgate.seal('billing', (SELECT term + 1 FROM termgate.fence('billing')))"


def fence(ground):
    return ground.lab.value("reader", "SELECT term FROM termgate.fence('billing')")


# ------------------------------------------------------------------------------------------------------------------- what a seat is


def test_a_seat_is_a_row_behind_a_check(ground):
    session = ground.open()
    fence_, nonce, why = ground.sit(session)
    assert (fence_, why) == (1, None) and nonce
    assert ground.admin(f"SELECT pid = {session.pid} AND term = 1 AND nonce = '{nonce}' FROM termgate.seats") is True
    assert session.code("SELECT termgate.sit('billing', 0, %s)", (HASH,)) == "TG005"
    ground.lab.sql("leader", "SELECT termgate.seal('other', 3)")
    assert session.code("SELECT termgate.sit('other', 2, %s)", (HASH,)) == "TG001"
    assert session.code("SELECT termgate.sit('billing', 1, 'short')") == "TG005"
    assert ground.lab.code("reader", "SELECT termgate.sit('billing', 1, sha256('x'))") == "42501"
    for statement in (
        "SELECT * FROM termgate.seats",
        "DELETE FROM termgate.seats",
        "SELECT nextval('termgate.bell')",
        "SELECT setval('termgate.seat_sessions', 1)",
    ):
        assert ground.lab.code("operator", statement) == "42501"


def test_who_knows_the_secret_stands(ground):
    _, nonce = ground.seated()
    assert ground.stand(nonce, secret=b"a guess") == [] and ground.rows() == 1
    assert ground.stand(nonce) == [nonce] and ground.rows() == 0
    assert ground.stand(nonce) == []


def test_a_rolled_back_sit_is_none(ground):
    session = ground.open()
    session.run("BEGIN")
    ground.sit(session)
    session.run("ROLLBACK")
    assert ground.rows() == 0
    assert session.value("SELECT coalesce(current_setting('termgate.seat', true), '')") == ""


# ------------------------------------------------------------------------------------------------------- stale writes: flaws 1 to 7


def test_1_a_session_that_cannot_be_seen_any_more_is_waited_for(ground):
    ground.grace(GRACE)
    session, _ = ground.seated()
    with ground.revoked("pg_read_all_stats"):
        raising = Later(ground, "leader", SEAL)
        assert raising.wait() == "TG006" and "pg_read_all_stats" in raising.message
        assert ground.lives(session) and fence(ground) == 1


@pytest.mark.parametrize(
    "raising",
    [
        "SELECT termgate.seal('billing', 2)",
        "SELECT termgate.acquire_lease('billing', 'me', '1 min')",
        "SELECT termgate.check_term('billing', 2)",
    ],
)
def test_2_a_session_does_not_raise_the_scope_in_which_it_sits(ground, raising):
    session, nonce = ground.seated(role="leader")
    assert session.code(raising) == "TG005" and fence(ground) == 1
    ground.stand(nonce)
    assert session.code(raising) == ""


def test_4_a_stand_that_arrives_late_removes_no_younger_seat(ground):
    session, old = ground.seated()
    ground.stand(old)
    _, young, _ = ground.sit(session)
    assert ground.stand(old) == [] and ground.rows() == 1
    assert young != old


def test_4_a_crash_ends_all_seats(ground):
    session, nonce = ground.seated()
    os.kill(session.pid, signal.SIGKILL)  # the server ends all others, and recovers

    def answers():
        try:
            return ground.rows() == 0
        except psycopg2.Error:
            return False

    eventually(answers)
    assert ground.stand(nonce) == []
    _, young, _ = ground.sit(ground.open())
    assert young != nonce and ground.stand(nonce) == [] and ground.rows() == 1


def test_6_seats_are_not_removed_by_hand(ground):
    session, nonce = ground.seated()
    for role in ("tg_owner", "postgres"):
        for statement in ("TRUNCATE termgate.seats", "DELETE FROM termgate.seats", "UPDATE termgate.seats SET term = 2"):
            assert ground.lab.code(role, statement) == "TG005", (role, statement)
    assert ground.lab.code("postgres", "SET session_replication_role = replica", "TRUNCATE termgate.seats") == "TG005"
    assert ground.rows() == 1
    ground.lab.sql("postgres", "ALTER TABLE termgate.seats DISABLE TRIGGER seats_guard_truncate", "TRUNCATE termgate.seats")
    assert "trigger seats_guard_truncate on seats" in [
        row[0] for row in ground.lab.sql("reader", "SELECT object FROM termgate.doctor() WHERE severity = 'error'")
    ]
    assert ground.rows() == 0


def test_6_a_restore_in_place_ends_who_is_older_than_it(ground):
    """Its seats are those of the moment of the dump."""
    dumps = int(re.search(r"\d+", subprocess.run(["pg_dump", "--version"], check=True, capture_output=True, text=True).stdout)[0])
    if ground.lab.server.major > dumps:
        pytest.skip(f"this pg_dump is of PostgreSQL {dumps}")

    ground.grace(GRACE)
    session = ground.open()
    url = ground.lab.url("postgres")
    dump = subprocess.run(["pg_dump", "--clean", "-n", "termgate", url], check=True, capture_output=True, text=True).stdout
    dump = "\n".join(line for line in dump.splitlines() if "transaction_timeout" not in line)
    assert ground.sit(session)[1]
    subprocess.run(["psql", "-qXv", "ON_ERROR_STOP=1", url], input=dump, check=True, capture_output=True, text=True)
    raising = Later(ground, "leader", "SELECT termgate.acquire_lease('billing', 'me', '1 min')")
    assert raising.wait() == "", raising.message
    assert not ground.lives(session)


# ------------------------------------------------------------------------------------- takeovers held up, innocents ended: flaws 8 to 14


def test_8_a_raise_above_read_committed_ends_nobody_who_has_stood(ground):
    ground.grace(6)
    session, nonce = ground.seated()
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        raising = ground.open("leader")
        raising.run(f"BEGIN ISOLATION LEVEL {level}")
        raising.run("SELECT 1")
        ground.stand(nonce)
        begun = time.monotonic()
        assert raising.code("SELECT termgate.seal('billing', 2)") == "" and time.monotonic() - begun < 3
        raising.run("ROLLBACK")
        assert ground.lives(session)
        _, nonce, _ = ground.sit(session)


def test_8_a_raise_above_read_committed_does_not_pass_over_a_seat_that_its_snapshot_hides(ground):
    ground.seated("other")  # or there is nothing to look at
    raising = ground.open("leader")
    raising.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    raising.run("SELECT 1")
    session, _ = ground.seated()
    assert raising.code("SELECT termgate.seal('billing', 2)") == "40001"
    raising.run("ROLLBACK")
    assert ground.lives(session) and fence(ground) == 1


def test_9_who_stands_while_others_are_ended_is_not(ground):
    ground.grace(GRACE)
    ground.change("_end_seated", "BEGIN", "BEGIN PERFORM pg_sleep(0.5);")
    frozen, _ = ground.seated()
    healthy, nonce = ground.seated()
    first = min((frozen, healthy), key=lambda s: s.pid)
    raising = Later(ground, "leader", SEAL)
    eventually(lambda: not ground.lives(first) or time.monotonic() - raising.begun > GRACE + 0.2)
    ground.stand(nonce)
    assert raising.wait() == ""
    assert ground.lives(healthy), "it had stood"


def test_10_a_stand_in_an_open_transaction_holds_up_no_raise(ground):
    ground.grace(GRACE)
    session, nonce = ground.seated()
    standing = ground.open()
    standing.run("BEGIN")
    ground.stand(nonce, session=standing)
    raising = Later(ground, "leader", "SET statement_timeout = '4 s'", SEAL)
    assert raising.wait() == "" and raising.took < GRACE + 1, raising.message


def test_11_whom_the_owner_may_not_end_gets_no_seat(ground):
    session = ground.open("postgres")
    for role in ("NONE", "writer"):
        session.run(f"SET ROLE {role}")
        fence_, nonce, why = ground.sit(session)
        assert fence_ == 1 and nonce is None and "may not end" in why
    with ground.revoked("pg_signal_backend"):
        _, nonce, why = ground.sit(ground.open())
        assert nonce is None and "pg_signal_backend" in why


def test_11_who_may_not_be_ended_any_more_is_named(ground):
    ground.grace(GRACE)
    ground.lab.sql("postgres", "CREATE ROLE rises LOGIN; GRANT writer TO rises")
    try:
        session, _ = ground.seated(role="rises")
        ground.lab.sql("postgres", "ALTER ROLE rises SUPERUSER")
        assert any(
            "TG006" in problem
            for (problem,) in ground.lab.sql("reader", "SELECT problem FROM termgate.doctor() WHERE object = 'scope \"billing\"'")
        )
        raising = Later(ground, "leader", SEAL)
        assert raising.wait() == "TG006" and f"pid {session.pid}" in raising.message
        session.close()
    finally:
        for session in ground.sessions:
            session.close()
        ground.lab.sql("postgres", "DROP ROLE rises")


def test_13_nobody_sits_in_a_savepoint(ground):
    session = ground.open()
    session.run("BEGIN")
    session.run("SAVEPOINT a")
    assert session.code("SELECT termgate.sit('billing', 1, %s)", (HASH,)) == "TG005"
    session.run("ROLLBACK")
    assert (
        session.code("DO $$ BEGIN PERFORM termgate.sit('billing', 1, sha256('x')); EXCEPTION WHEN division_by_zero THEN NULL; END $$")
        == "TG005"
    )
    assert ground.rows() == 0


def test_13_the_keeper_learns_of_seats_that_it_does_not_know(ground):
    session, nonce = ground.seated()
    raising = Later(ground, "leader", SEAL)
    raising.sweeps()
    assert ground.wanted()[2:] == (["billing"], [nonce])
    assert ground.wanted(secret=b"another holder's")[2:] == ([], [])
    ground.stand(nonce)
    assert raising.wait() == "" and ground.lives(session)


def test_14_a_transaction_that_sits_is_not_prepared(ground):
    session = ground.open()
    session.run("BEGIN")
    ground.sit(session)
    try:
        assert session.code("PREPARE TRANSACTION 'sat'") == "0A000"
    finally:
        if ground.admin("SELECT count(*) FROM pg_prepared_xacts"):
            session.run("ROLLBACK PREPARED 'sat'")


def test_14_where_it_was_prepared_all_the_same_the_next_one_does_not_wait(ground):
    session = ground.open()
    session.run("SET statement_timeout = '3 s'")
    session.run("BEGIN")
    ground.sit(session)
    session.run("SET CONSTRAINTS ALL IMMEDIATE")
    session.run("PREPARE TRANSACTION 'sat'")
    try:
        assert session.code("SELECT termgate.sit('billing', 1, %s)", (HASH,)) == "55P03"
    finally:
        session.run("ROLLBACK PREPARED 'sat'")


def test_the_same_key_in_another_database_is_not_wanted(ground):
    ground.seated()
    elsewhere = psycopg2.connect(ground.lab.server.url("postgres", "postgres"))
    try:
        key = ground.admin("SELECT termgate._turnstile_key('billing')")
        elsewhere.cursor().execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        assert ground.wanted()[2] == []
    finally:
        elsewhere.close()


# ----------------------------------------------------------------------------------------------------------- dangerous interleavings


def test_a_sit_whose_commit_is_under_way_is_seen_by_the_raise(ground):
    session = ground.open()
    session.run("BEGIN")
    _, nonce, _ = ground.sit(session)
    raising = Later(ground, "leader", SEAL)
    raising.waits_at_lock()
    session.run("COMMIT")
    raising.sweeps()
    ground.stand(nonce)
    assert raising.wait() == "" and ground.lives(session)


def test_the_bell_rings_again_for_who_sat_since(ground):
    session = ground.open()
    session.run("BEGIN")
    _, nonce, _ = ground.sit(session)
    raising = Later(ground, "leader", SEAL)
    raising.waits_at_lock()
    seen = ground.wanted()[0]  # the keeper has heard it, and nobody sits yet
    session.run("COMMIT")
    raising.sweeps()
    assert ground.wanted(seen)[2] == ["billing"]
    ground.stand(nonce)
    raising.wait()


def test_a_session_whose_client_has_gone_commits_before_the_raise(ground):
    session, _ = ground.seated()
    socket_ = socket.socket(fileno=os.dup(session.connection.fileno()))
    writing = threading.Thread(target=session.code, args=("INSERT INTO app.notes SELECT 'last' FROM pg_sleep(0.8)",))
    writing.start()
    eventually(lambda: ground.admin(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {session.pid} AND wait_event = 'PgSleep'") == 1)
    socket_.shutdown(socket.SHUT_RDWR)
    writing.join()
    raising = Later(ground, "leader", "SELECT termgate.seal('billing', 2)", "SELECT count(*) FROM app.notes")
    assert raising.wait() == "" and raising.rows == [(1,)] and raising.took > 0.3


def test_a_frozen_holder_is_ended_with_the_grace_and_writes_nothing_more(ground):
    ground.grace(GRACE)
    session, _ = ground.seated()
    bystander, _ = ground.seated("other")
    raising = Later(ground, "leader", SEAL)
    assert raising.wait() == "" and GRACE <= raising.took < GRACE + 1
    assert session.code("INSERT INTO app.notes VALUES ('stale')") != "", "it wrote under term 1 behind the raise to 2"
    assert ground.lives(bystander)
    again_ = ground.open()  # connects again: the new session has no seat
    assert again_.code("SELECT termgate.check_term('billing', 1)") == "TG001"


def test_a_raise_passes_the_rows_of_who_is_gone_and_removes_them(ground):
    """A session that has looked at pg_stat_activity before would see it as it was."""

    ground.grace(6)
    session, _ = ground.seated()
    raising = ground.open("leader")
    raising.run("BEGIN")
    assert raising.value(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {session.pid}") == 1
    session.close()
    eventually(lambda: ground.admin(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {session.pid}") == 0)
    begun = time.monotonic()
    assert raising.code("SELECT termgate.seal('billing', 2)") == "" and time.monotonic() - begun < 3
    raising.run("COMMIT")
    assert ground.rows() == 0


def test_who_sits_while_a_raise_is_open_waits_and_is_refused(ground):
    raising = ground.open("leader")
    raising.run("BEGIN")
    raising.run("SELECT termgate.seal('billing', 2)")
    sitting = Later(ground, "writer", "SELECT termgate.sit('billing', 1, sha256('x'))")
    sitting.waits_at_lock()
    raising.run("COMMIT")
    assert sitting.wait() == "TG001" and ground.rows() == 0


def test_two_holders_under_one_term_and_two_raises_at_once(ground):
    one, nonce_one = ground.seated()
    other = ground.open()
    _, nonce_other, _ = ground.sit(other, secret=b"the other process")
    raises = [Later(ground, "leader", f"SELECT termgate.seal('billing', {term})") for term in (2, 3)]
    eventually(lambda: ground.wanted()[2] == ["billing"])
    assert ground.stand(nonce_one, nonce_other) == [nonce_one]
    assert ground.stand(nonce_other, secret=b"the other process") == [nonce_other]
    assert sorted(raising.wait() for raising in raises) in (["", ""], ["", "TG001"])
    assert ground.lives(one) and ground.lives(other) and fence(ground) == 3


def test_nobody_sits_while_a_transaction_from_before_the_upgrade_runs(ground):
    ground.admin("UPDATE termgate.seats_from SET settled = false, at = NULL, xid = NULL RETURNING 1")
    older = ground.open("leader")
    older.run("BEGIN")
    older.run("SELECT 1")
    session = ground.open()
    for _ in range(3):
        fence_, nonce, why = ground.sit(session)
        assert fence_ == 1 and nonce is None and "upgrade" in why
    older.run("COMMIT")
    eventually(lambda: ground.sit(session)[1] is not None)


SWEEPS = {
    "seal": "SELECT termgate.seal('billing', 2)",
    "acquire": "SELECT termgate.acquire_lease('billing', 'me', '1 min')",
    "check above the fence": "SELECT termgate.check_term('billing', 2)",
    "force release": "SELECT termgate.force_release('billing', 'test', 'a reason')",
    "reset": "SELECT termgate.reset_fence('billing', 1, 'test', 'a reason')",
    "set raise_by": "SELECT termgate.set_raise_by('billing', 'seal')",
    "move": "SELECT termgate.stream_move('of billing', 'other', 'test', 'a reason')",
    "declare restored": "SELECT termgate.declare_restored('billing', 5, 'test', 'a reason')",
    "declare untrusted": "SELECT termgate.declare_untrusted('test', 'a reason')",
}


@pytest.mark.parametrize("what", SWEEPS)
def test_whatever_shuts_a_term_out_waits_for_the_seats(ground, what):
    term = 1
    if what == "force release":
        term = ground.lab.value("leader", "SELECT term FROM termgate.acquire_lease('billing', 'me', '1 min')")
    ground.lab.sql("writer", f"SELECT termgate.append('of billing', {term}, 'x', scope => 'billing')")
    session, frozen = ground.open(), ground.open()
    nonce = ground.sit(session, term=term)[1]
    changing = Later(ground, "operator", SWEEPS[what])
    changing.sweeps()
    assert ground.wanted()[2] == ["billing"]
    ground.stand(nonce)
    assert changing.wait() == "" and ground.lives(session), changing.message
    if "declare" in what or what in ("move", "set raise_by"):
        return
    ground.sit(frozen, term=fence(ground))
    ground.grace(GRACE)
    changing = Later(
        ground,
        "operator",
        SEAL if "acquire" not in what and "release" not in what else "SELECT termgate.acquire_lease('billing', 'me', '1 min')",
    )
    assert changing.wait() == "" and not ground.lives(frozen), changing.message


def test_nobody_sits_while_all_scopes_become_untrusted(ground):
    declaring = ground.open("operator")
    declaring.run("BEGIN")
    declaring.run("SELECT termgate.declare_untrusted('test', 'a reason')")
    fence_, nonce, why = ground.sit(ground.open())
    assert fence_ == 1 and nonce is None and "untrusted" in why
    declaring.run("COMMIT")
    assert ground.lab.code("writer", "SELECT termgate.sit('billing', 1, sha256('x'))") == "TG004"


# ------------------------------------------------------------------------------------------------------------- where there is no seat


def test_without_the_right_to_see_sessions_there_is_no_seat_and_doctor_says_so(ground):
    with ground.revoked("pg_read_all_stats"):
        fence_, nonce, why = ground.sit(ground.open())
        assert fence_ == 1 and nonce is None and "GRANT pg_read_all_stats TO tg_owner" in why
        assert ("info", "GRANT pg_read_all_stats TO tg_owner") in ground.lab.sql("reader", "SELECT severity, remedy FROM termgate.doctor()")
        begun = time.monotonic()
        assert ground.lab.code("leader", SEAL) == "" and time.monotonic() - begun < PATIENCE / 2
    assert not ground.lab.sql("reader", "SELECT 1 FROM termgate.doctor() WHERE remedy LIKE '%pg_read_all_stats%'")


@pytest.mark.parametrize("begin", ["BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN READ ONLY"])
def test_no_seat_is_taken_above_read_committed_or_read_only(ground, begin):
    session = ground.open()
    session.run(begin)
    fence_, nonce, why = ground.sit(session)
    assert fence_ == 1 and nonce is None and why
    session.run("COMMIT")
    assert ground.rows() == 0


# ----------------------------------------------------------------------------------------------------------- who looks for the seat first

INSERT = "INSERT INTO app.seated VALUES ('billing', 1)"


@pytest.fixture
def protected(ground):
    ground.lab.sql(
        "owner",
        "CREATE TABLE app.seated (scope text, v int)",
        "CREATE TABLE app.whole (v int)",
        "CREATE TABLE app.any (v int)",
        "CREATE TABLE app.watched (v int)",
        "GRANT ALL ON app.seated, app.whole, app.any, app.watched TO PUBLIC",
        "SELECT termgate.protect('app.seated', scope_column => 'scope')",
        "SELECT termgate.protect('app.whole', scope => 'billing')",
        "SELECT termgate.protect('app.any', scope => '*')",
        "SELECT termgate.protect('app.watched', scope => 'billing', mode => 'observe')",
    )
    return ground


def test_a_seat_is_enough_for_a_protected_table(protected):
    session, nonce = protected.seated()
    for _ in range(2):
        for statement in (
            INSERT,
            "UPDATE app.seated SET v = 2",
            "INSERT INTO app.whole VALUES (1)",
            "UPDATE app.whole SET v = 2",
            "INSERT INTO app.any VALUES (1)",
        ):
            assert session.code(statement) == "", statement
    assert session.code("TRUNCATE app.whole") == "" and session.code("INSERT INTO app.watched VALUES (1)") == ""
    assert protected.admin("SELECT count(*) FROM termgate.observed") == 0
    assert session.code("INSERT INTO app.seated VALUES ('other', 1)") == "TG002"
    assert session.code("UPDATE app.seated SET scope = 'other'") == "TG002"
    # What is declared for the scope counts, and is checked.
    for term, code in (("1", ""), ("2", "TG005"), ("nonsense", "TG005")):
        session.run(f"SET termgate.scope = 'billing'; SET termgate.term = '{term}'")
        assert session.code(INSERT) == code, term
    session.run("SET termgate.scope = ''; SET termgate.term = ''")
    protected.stand(nonce)
    assert session.code(INSERT) == "TG002" and session.code("INSERT INTO app.any VALUES (1)") == "TG002"


def test_a_seat_that_somebody_makes_up_is_none(protected):
    for setting in ("on", "1", "00000000-0000-0000-0000-000000000000"):
        session = protected.open()
        session.run(f"SET termgate.seat = '{setting}'")
        for statement in (INSERT, "INSERT INTO app.whole VALUES (1)", "INSERT INTO app.any VALUES (1)"):
            assert session.code(statement) == "TG002"
    protected.lab.sql("leader", "SELECT termgate.seal('billing', 2)")
    assert session.code("SELECT termgate.check_term('billing', 1)") == "TG001"


def test_3_an_older_snapshot_that_shows_the_seat_does_not_pass(protected):
    session, nonce = protected.seated()
    session.run(INSERT)
    exporting = protected.open()
    exporting.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    snapshot = exporting.value("SELECT pg_export_snapshot()")
    protected.stand(nonce)
    protected.lab.sql("leader", SEAL)
    for statement in ("SELECT termgate.check_term('billing', 1)", INSERT):
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        session.run(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        assert session.code(statement) in ("40001", "TG002"), statement
        session.run("ROLLBACK")


def test_7_the_row_of_another_session_with_this_pid_does_not_pass(protected):
    session, nonce = protected.seated()
    protected.stand(nonce)
    session.run("DISCARD SEQUENCES")  # or it is a session that never sat
    protected.lab.sql("leader", SEAL)
    protected.lab.sql(
        "postgres",
        (
            f"INSERT INTO termgate.seats (scope, pid, started, session, term, nonce, secret) VALUES ('billing', {session.pid}, now() -"
            f" interval '1 day', 1, 1, '{nonce}', '')"
        ),
    )
    session.run("SET termgate.seat = 'on'")
    assert session.code("SELECT termgate.check_term('billing', 1)") == "TG001"
    assert session.code(INSERT) == "TG002"
    protected.sit(session, term=2)  # replaces the row
    assert session.code("SELECT termgate.check_term('billing', 1)") == "TG001"
    assert session.code("SELECT termgate.check_term('billing', 2)") == ""


def test_10_a_session_that_sits_does_not_wait_for_the_raise_that_waits_for_it(protected):
    """A check, an append, an append with a write id, a claim and a protected write, in an open transaction."""
    session, nonce = protected.seated()
    raising = Later(protected, "leader", SEAL)
    raising.sweeps()
    session.run("SET statement_timeout = '3 s'")
    session.run("BEGIN")
    for statement in (
        "SELECT termgate.check_term('billing', 1)",
        "SELECT termgate.append('s', 1, 'x', scope => 'billing')",
        "SELECT termgate.append('s', 1, 'x', scope => 'billing', write_id => gen_random_uuid())",
        "SELECT termgate.claim_write('billing', 1, gen_random_uuid())",
        "SELECT termgate.check_claim_text('billing', 1, NULL, NULL)",
        INSERT,
    ):
        assert session.code(statement) == "", statement
    session.run("COMMIT")
    protected.stand(nonce)
    assert raising.wait() == ""


def test_a_look_takes_no_lock_and_the_check_of_a_sit_does(protected):
    session, _ = protected.seated()
    held = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = {session.pid}"
    session.run("BEGIN")
    for statement in ("SELECT termgate.check_term('billing', 1)", INSERT, "INSERT INTO app.whole VALUES (1)"):
        session.run(statement)
        assert protected.admin(held) == 0, statement
    session.run("COMMIT")
    session.run("BEGIN")
    protected.sit(session)
    assert protected.admin(held) == 2
    # Judged by its check: the row that this transaction writes is no pass of its own.
    session.run("SELECT termgate.check_term('billing', 1)")
    session.run("ROLLBACK")
    assert session.value("SELECT fence FROM termgate.hold_session('billing', 1)") == 1 and protected.admin(held) == 1


def test_a_new_stream_takes_the_scope_of_the_seat(protected):
    session, _ = protected.seated()
    session.run("SELECT termgate.append('new stream', 1, 'x')")
    assert protected.admin("SELECT scope FROM termgate.streams WHERE stream_id = 'new stream'") == "billing"


@pytest.mark.parametrize("discard", ("DISCARD ALL", "DISCARD SEQUENCES", "DO $$BEGIN DISCARD SEQUENCES; END$$"))
def test_discard_needs_a_new_seat_for_protected_tables(protected, discard):
    session, nonce = protected.seated()
    session.run(discard)
    assert session.code(INSERT) == "TG002" and session.code("SELECT termgate.check_term('billing', 1)") == ""
    assert protected.rows() == 1
    _, again_, _ = protected.sit(session)
    assert session.code(INSERT) == "" and protected.stand(nonce) == [] and protected.stand(again_) == [again_]
