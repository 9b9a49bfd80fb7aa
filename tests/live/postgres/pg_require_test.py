#!/usr/bin/env python3
"""require_lease() on PostgreSQL as a plain role: COMMIT fails once the lease has ended, and what would take COMMIT's look away is refused.

  pytest tests/live/postgres/pg_require_test.py [--majors 13,18]
"""
import time

import given
import pytest
from layer1_lab import Server


@pytest.fixture(scope="module", params=given.majors("18"))
def server(request):
    started = Server(request.param, "max_prepared_transactions=2")
    yield started
    started.stop()


@pytest.fixture
def lab(server):
    made = server.fresh()
    made.sql("owner", "CREATE TABLE app.t (n int)", "GRANT ALL ON app.t TO PUBLIC")
    return made


def lease(lab, ttl):
    return lab.value("leader", f"SELECT term FROM termgate.acquire_lease('s', 'me', '{ttl}')")


WRITE = "INSERT INTO app.t VALUES (1)"
REQUIRE = "SELECT termgate.require_lease('s', 'me')"


def play(lab, *statements):
    """The code with which the transaction ends, and whether its row is there."""
    lab.sql("owner", "TRUNCATE app.t")
    with lab.open("writer") as session:
        code = ""
        for statement in ("BEGIN", WRITE, *statements, "COMMIT"):
            if callable(statement):
                statement()
            else:
                code = code or session.code(statement)
    return code, lab.value("owner", "SELECT count(*) FROM app.t") == 1


def test_commit_looks_once_more(lab):
    lease(lab, "1 hour")
    assert play(lab, REQUIRE) == ("", True)
    assert play(lab, REQUIRE, REQUIRE) == ("", True)
    assert play(lab, "SELECT termgate.require_lease('s', 'another')") == ("TG007", False)
    ends = lambda: lab.sql("leader", "SELECT termgate.release_lease('s', 'me', 1)")  # noqa: E731
    assert play(lab, REQUIRE, ends) == ("TG007", False)
    lease(lab, "300 ms")
    assert play(lab, REQUIRE, lambda: time.sleep(0.5)) == ("TG007", False)
    # Nothing of it is left behind.
    assert lab.value("postgres", "SELECT count(*) FROM termgate.lease_requirements") == 0


@pytest.mark.parametrize(
    "early",
    (
        "SET CONSTRAINTS ALL IMMEDIATE",
        "set /* a */ constraints all\nimmediate",
        "DO $$ BEGIN SET CONSTRAINTS ALL IMMEDIATE; END $$",
        "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED",
    ),
)
def test_what_would_make_it_look_earlier_is_refused(lab, early):
    lease(lab, "1 hour")
    assert play(lab, REQUIRE, early) == ("0A000", False)
    if not early.endswith("DEFERRED"):
        assert play(lab, early, REQUIRE) == ("TG005", False)
    # Afterwards deferred again, and constraints of one's own.
    assert play(lab, early, "SET CONSTRAINTS ALL DEFERRED", REQUIRE) == ("", True)
    lab.sql("owner", "CREATE TABLE app.u (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    assert play(lab, REQUIRE, "SET CONSTRAINTS app.u_n_key IMMEDIATE") == ("", True)


def test_neither_prepared_nor_on_an_old_snapshot(lab):
    lease(lab, "1 hour")
    assert play(lab, REQUIRE, "PREPARE TRANSACTION 'one'") == ("0A000", False)
    assert lab.code("writer", "BEGIN ISOLATION LEVEL REPEATABLE READ", REQUIRE) == "TG005"
    assert lab.code("reader", REQUIRE) == "42501"
