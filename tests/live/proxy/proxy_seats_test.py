#!/usr/bin/env python3
"""[F1] [F2] [F4] [F6] A session behind the proxy that writes without a check: when it has a seat, and when no more (decision 0026).

  pytest tests/live/proxy/proxy_seats_test.py [--majors 13,18]

The client is a role of level write, the owner of layer 1 one that may see and end sessions. `--seats eager`: the first
check is enough. What a takeover may find a session doing is one test each; afterwards the seat is gone, and nothing of the
old term was written after the raise.
"""
import subprocess
import threading
import time

import given
import pytest
from checks import eventually, stays
from pgraw import Closed, Connection, bind, execute, flush, parse, query, sync
from proxy_under_test import Server, proxy

GRACE = 1.0  # raise_grace_ms
SCHEMA = """
CREATE TABLE t (i int, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION writes(v int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES ($1) RETURNING i';
CREATE ROLE client LOGIN; CREATE ROLE other LOGIN; GRANT other TO client;
GRANT ALL ON t TO client, other;
"""


class Rig:
    def __init__(self, major):
        self.server = Server(major)
        self.direct = Connection(self.server.port)
        self.direct.query(SCHEMA)
        grants = [word for role in ("client", "other") for word in ("--grant", f"{role}=write")]
        subprocess.run([given.TERMGATE, "init", "--db", self.server.url, *grants], check=True, capture_output=True)
        self.port = proxy(self.server, options=["--seats", "eager", "--threads", "1"])
        self.scopes = 0

    def rows(self, sql):
        return self.direct.rows(sql)

    def seats(self, scope):
        return self.rows(f"SELECT pid, term FROM termgate.seats WHERE scope = '{scope}'")

    def written(self, value):
        return self.direct.value(f"SELECT count(*) FROM t WHERE i = {value}") != "0"

    def raise_to(self, scope, term):
        """How long it took."""
        with Connection(self.server.port) as c:
            begun = time.monotonic()
            answer = c.query(f"SELECT termgate.seal('{scope}', {term})")
            assert answer[0].type == "T", answer
            return time.monotonic() - begun

    def session(self, scope=None, term=1, port=None):
        self.scopes += 1
        name = scope or f"s{self.scopes}"
        c = Connection(
            port or self.port, user="client", parameters=[("options", f"-c termgate.scope={name} -c termgate.term={term}")], wait=20
        )
        c.scope = name
        return c

    def seated(self, **more):
        c = self.session(**more)

        def sits():
            assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"
            return len(self.seats(c.scope)) == 1

        assert eventually(sits, 12, 0.05), "no seat"
        return c


def said(c, sql):
    """The tag of its answer, or the code of its error."""
    return outcome(c.query(sql))


def outcome(answer):
    failed = [message.fields()["C"] for message in answer if message.type == "E"]
    tags = [message.body[:-1].decode() for message in answer if message.type == "C"]
    return failed[0] if failed else tags[-1] if tags else None


class Later(threading.Thread):
    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.result = work, None
        self.start()

    def run(self):
        self.result = self.work()

    def wait(self):
        self.join(20)
        assert not self.is_alive(), "it still runs"
        return self.result


@pytest.fixture(scope="module", params=given.majors("15"))
def rig(request):
    return Rig(request.param)


# --- having one ---


def test_taking_a_seat_leaves_the_client_its_lastval(rig):
    rig.direct.query("CREATE TABLE numbered (id serial, v int); GRANT ALL ON numbered, numbered_id_seq TO client")
    try:
        rig.seated().end()  # from here on the first check takes one
        for _ in range(3):
            c = rig.session()
            (number,) = [row[0] for row in c.rows("INSERT INTO numbered (v) VALUES (1) RETURNING id")]
            assert eventually(lambda: len(rig.seats(c.scope)) == 1, 5, 0.02)
            assert c.rows("SELECT lastval(), currval('numbered_id_seq')") == [[number, number]]
            c.end()
    finally:
        rig.direct.query("DROP TABLE numbered")


def test_it_spares_the_check_and_the_session_is_as_without_a_proxy(rig):
    c = rig.seated()
    assert c.value("SHOW default_transaction_read_only") == "off"
    before = rig.rows(f"SELECT xmin FROM termgate.fences WHERE scope = '{c.scope}'")
    assert c.value("SELECT writes(3)") == "3"  # no user code speaks of terms: it is not looked at
    assert said(c, "BEGIN") == "BEGIN" and said(c, "INSERT INTO t VALUES (2)") == "INSERT 0 1"
    # No lock of the scope is held: whoever raises waits for the seat.
    assert rig.rows(f"SELECT 1 FROM pg_locks WHERE pid = {c.pid} AND locktype = 'advisory'") == []
    assert said(c, "COMMIT") == "COMMIT"
    assert rig.rows(f"SELECT xmin FROM termgate.fences WHERE scope = '{c.scope}'") == before
    assert [name for name in ("default_transaction_read_only",) if c.parameters.get(name, "off") != "off"] == []


def test_it_is_given_back_when_it_is_not_used(rig):
    c = rig.seated()
    for _ in range(30):
        assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1" and len(rig.seats(c.scope)) == 1
        time.sleep(0.1)
    assert eventually(lambda: rig.seats(c.scope) == [], 4)
    assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"


# --- a raise, whatever the session is doing ---


def test_a_raise_finds_it_idle(rig):
    c = rig.seated()
    assert rig.raise_to(c.scope, 2) < GRACE
    assert rig.seats(c.scope) == [] and said(c, "INSERT INTO t VALUES (10)") == "TG001"
    assert said(c, "SELECT writes(10)") in ("TG001", "TG002") and not rig.written(10)


def test_a_raise_finds_it_in_a_block(rig):
    c = rig.seated()
    assert said(c, "BEGIN") == "BEGIN" and said(c, "INSERT INTO t VALUES (11)") == "INSERT 0 1"
    took = rig.raise_to(c.scope, 2)
    assert GRACE * 0.8 < took < GRACE + 1
    with pytest.raises(Closed):
        c.query("COMMIT")
    assert not rig.written(11)


def test_a_block_that_ends_within_the_grace_ends_the_wait(rig):
    c = rig.seated()
    said(c, "BEGIN"), said(c, "INSERT INTO t VALUES (12)")
    raising = Later(lambda: rig.raise_to(c.scope, 2))
    assert stays(raising.is_alive, 0.3)
    assert said(c, "COMMIT") == "COMMIT" and raising.wait() < GRACE * 0.9
    assert rig.written(12) and said(c, "INSERT INTO t VALUES (12)") == "TG001"


def test_a_pipeline_that_was_answered_and_not_synced_is_not_at_rest(rig):
    c = rig.seated()
    c.send(parse("", "INSERT INTO t VALUES (13)"), bind(), execute(), flush())
    c.until("C")
    took = rig.raise_to(c.scope, 2)
    assert GRACE * 0.8 < took < GRACE + 1
    with pytest.raises(Closed):
        c.send(sync())
        c.until("Z")
    assert not rig.written(13)


def test_half_a_message_is_not_at_rest(rig):
    c = rig.seated()
    whole = query("INSERT INTO t VALUES (14) --" + "x" * 3_000_000)
    c.send(whole[: len(whole) // 2])
    raising = Later(lambda: rig.raise_to(c.scope, 2))
    time.sleep(0.1)
    try:
        c.send(whole[len(whole) // 2 :])
        result = outcome(c.until("Z"))
    except (Closed, ConnectionError):
        result = "gone"
    raising.wait()
    # Either it was complete in time, and the raise has waited for it, or it is refused, or the session has gone.
    assert (result == "INSERT 0 1") == rig.written(14), result
    assert said(rig.session(scope=c.scope), "INSERT INTO t VALUES (14)") == "TG001"


def test_statements_that_pour_in_do_not_keep_it(rig):
    c = rig.seated()
    tags, stop = [], threading.Event()

    def pour():
        while not stop.is_set():
            tags.append(said(c, "INSERT INTO t VALUES (15)"))
            if tags[-1] != "INSERT 0 1":
                return

    pouring = Later(pour)
    time.sleep(0.3)
    assert rig.raise_to(c.scope, 2) < GRACE
    raised = rig.direct.value(f"SELECT raised_at FROM termgate.fences WHERE scope = '{c.scope}'")
    time.sleep(0.2)
    stop.set()
    pouring.wait()
    assert tags[-1] == "TG001" and len(tags) > 50
    assert rig.direct.value(f"SELECT count(*) FROM t WHERE i = 15 AND at > '{raised}'") == "0"


def test_what_it_prepared_keeps_a_raise_waiting(rig):
    if rig.direct.value("SHOW max_prepared_transactions") == "0":
        pytest.skip("max_prepared_transactions is 0")
    for begin in (lambda c: said(c, "BEGIN"), lambda c: outcome(c.query("BEGIN; INSERT INTO t VALUES (0)"))):
        c = rig.seated()
        begin(c)
        assert said(c, "INSERT INTO t VALUES (16)") == "INSERT 0 1"
        assert said(c, "PREPARE TRANSACTION 'seated'") == "PREPARE TRANSACTION"
        with Connection(rig.server.port) as other:
            assert said(other, f"SELECT termgate.seal('{c.scope}', 2)") == "TG006"
        rig.direct.query("ROLLBACK PREPARED 'seated'")
        rig.raise_to(c.scope, 2)
    assert not rig.written(16)


def test_a_proxy_that_hears_nothing_gives_seats_back(rig):
    """Its own connection for the question is ended again and again."""
    c = rig.seated()
    name = "termgate seats"
    ended = []

    def end():
        ended.extend(rig.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"))
        return rig.seats(c.scope) == []

    assert eventually(end, 5, 0.01) and ended
    assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"


# --- what does not pass under it ---

FORMS = {
    "SET": ["SET termgate.term = 1"],
    "set_config": ["SELECT set_config('termgate.term', '1', false)"],
    "SET LOCAL": ["BEGIN", "SET LOCAL termgate.term = 1"],
    "in a block": ["BEGIN", "INSERT INTO t VALUES (0)", "SET termgate.term = 1"],
    "several": ["BEGIN; SET termgate.term = 1"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extended", (False, True), ids=("simple", "extended"))
def test_a_stale_claim_that_is_declared_meanwhile(rig, form, extended):
    c = rig.seated(term=2)
    for sql in FORMS[form]:
        if extended and ";" not in sql:
            c.send(parse("", sql), bind(), execute(), sync())
            c.until("Z")
        else:
            c.query(sql)
    assert said(c, "INSERT INTO t VALUES (20)") == "TG001"
    c.query("COMMIT")
    assert not rig.written(20)


@pytest.mark.parametrize("block", (False, True), ids=("alone", "in a block"))
def test_a_stale_claim_in_a_comment(rig, block):
    c = rig.seated(term=2)
    if block:
        said(c, "BEGIN"), said(c, "INSERT INTO t VALUES (0)")
    statement = f"/*termgate.scope='{c.scope}',termgate.term='1'*/ INSERT INTO t VALUES (21)"
    assert said(c, statement) == "TG001"
    c.query("COMMIT")
    c.send(parse("named", statement), sync())
    c.until("Z")
    assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"
    c.send(bind("", "named"), execute(), sync())
    assert outcome(c.until("Z")) == "TG001"
    for sql in ("EXECUTE named", "SELECT 1; EXECUTE named", "EXPLAIN ANALYZE EXECUTE named"):
        c = rig.seated(scope=c.scope, term=2)
        c.send(parse("named", statement), sync())
        c.until("Z")
        assert said(c, sql) == "TG001", sql
        c.end()
    assert not rig.written(21)


def test_a_session_raises_its_own_scope(rig):
    for term, sql in ((2, "SELECT termgate.check_term('own', 2)"), (3, "SET termgate.term = 3"), (4, "BEGIN; SET termgate.term = 4")):
        c = rig.seated(scope="own", term=term - 1)
        assert said(c, sql) in ("SELECT 1", "SET"), sql
        assert said(c, "INSERT INTO t VALUES (22)") == ("TG001" if term == 2 else "INSERT 0 1")
        c.query("COMMIT")
        assert rig.direct.value("SELECT term FROM termgate.fences WHERE scope = 'own'") == str(term)
        c.end()


@pytest.mark.parametrize(
    "sql",
    (
        "DISCARD ALL",
        "DISCARD SEQUENCES",
        "RESET ALL",
        "SET ROLE other",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET default_transaction_read_only = on",
    ),
)
def test_what_changes_the_session_gives_it_back(rig, sql):
    c = rig.seated()
    assert said(c, sql) is not None and rig.seats(c.scope) == []
    expected = "25006" if "read_only" in sql else "INSERT 0 1"
    assert said(c, "INSERT INTO t VALUES (0)") == expected
    assert rig.raise_to(c.scope, 2) < GRACE


def test_vacuum_and_do_run_as_without_a_seat(rig):
    c = rig.seated(term=2)
    assert said(c, "DO $$BEGIN PERFORM set_config('termgate.term', '1', false); END$$") == "TG001"
    c = rig.seated()
    assert said(c, "VACUUM t") == "VACUUM"
    c = rig.seated()
    assert said(c, "DO $$BEGIN INSERT INTO t VALUES (0); COMMIT; INSERT INTO t VALUES (0); END$$") == "DO"


def test_code_of_the_database_that_speaks_of_terms_ends_all_seats(rig):
    c = rig.seated()
    made = (
        "CREATE FUNCTION declares() RETURNS text LANGUAGE sql AS $$SELECT set_config('termgate.term', '1', false)$$",
        "CREATE VIEW declares AS SELECT set_config('termgate.' || 'term', '1', false)",
        "CREATE TABLE declares (i text DEFAULT set_config('termgate.term', '1', false))",
        "CREATE PROCEDURE declares() LANGUAGE plpgsql AS $$BEGIN PERFORM termgate.seal('x', 1); END$$",
    )
    for create in made if given.LONG else made[1:2]:
        assert said(rig.direct, create) is not None
        kind = create.split()[1]
        try:
            written_unseated = lambda: said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1" and rig.seats(c.scope) == []
            assert eventually(lambda: stays(written_unseated, 0.5), 9), create
        finally:
            assert said(rig.direct, f"DROP {kind} declares") == f"DROP {kind}"
        c.end()
        c = rig.seated()  # once it has gone


def test_code_that_was_made_while_nobody_had_a_seat_is_found_with_the_first(rig):
    time.sleep(7)  # seats are given up after a second, and code is looked at every five
    said(rig.direct, "CREATE FUNCTION declares() RETURNS text LANGUAGE sql AS $$SELECT set_config('termgate.term', '1', false)$$")
    try:
        c = rig.session()
        written_unseated = lambda: said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1" and rig.seats(c.scope) == []
        assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"
        assert eventually(lambda: stays(written_unseated, 0.3), 1.5)
    finally:
        said(rig.direct, "DROP FUNCTION declares()")
    rig.seated().end()


def test_functions_that_run_what_they_are_given_are_looked_at(rig):
    rig.direct.query("CREATE FUNCTION runs(sql text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN 1; END'")
    try:
        port = proxy(rig.server, options=["--seats", "eager", "--threads", "1"])
        c = rig.seated(term=2, port=port)
        c.send(parse("", "SELECT runs($1)"), bind("", "", ["SET termgate.term = 1"]), execute(), sync())
        assert outcome(c.until("Z")) == "TG001"
    finally:
        rig.direct.query("DROP FUNCTION runs")


def test_seats_off(rig):
    port = proxy(rig.server, options=["--seats", "off"])
    c = rig.session(port=port)
    for _ in range(20):
        assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"
    assert rig.seats(c.scope) == []


def test_the_log_says_why_there_is_none(rig):
    server = rig.server
    direct = Connection(server.port)

    def writing_session():
        run = server.lab.proxy(server.url_of("postgres"), "--seats", "eager")
        c = rig.session(port=run.port)
        for _ in range(5):
            assert said(c, "INSERT INTO t VALUES (0)") == "INSERT 0 1"
        return run, c

    direct.query("ALTER ROLE client SET default_transaction_isolation = 'repeatable read'")
    try:
        run, _ = writing_session()
        assert run.logged(r" no_seat .*scope=s\d+ .*user=client .*READ COMMITTED"), run.log()
    finally:
        direct.query("ALTER ROLE client RESET default_transaction_isolation")
    direct.query("CREATE FUNCTION declares() RETURNS text LANGUAGE sql AS $$SELECT set_config('termgate.term', '1', false)$$")
    try:
        run, c = writing_session()
        assert run.logged(r"no session takes a seat: this database has code"), run.log()
        assert rig.seats(c.scope) == []
    finally:
        direct.query("DROP FUNCTION declares()")
    # A login of the proxy that may watch the fences, but may not ask who waits.
    direct.query("CREATE ROLE asker LOGIN; SELECT termgate.grant_level('asker', 'read')")
    direct.query("REVOKE EXECUTE ON FUNCTION termgate.seats_wanted FROM asker")
    try:
        run = server.lab.proxy(server.url.replace("postgres@", "asker@", 1), "--seats", "eager")
        # Asked again after five seconds, when the fences are watched.
        assert run.logged(r" info authority .*cannot ask which raises wait .*take no seats.*permission denied", 15), run.log()
        assert len(run.log().split("cannot ask which raises")) == 2, "once for each change"
    finally:
        direct.query("DROP OWNED BY asker; DROP ROLE asker")
