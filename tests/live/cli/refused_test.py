#!/usr/bin/env python3
"""Who was refused: a stale write that a trigger refuses is rolled back, and still `explain`, the audit and the metrics name its role,
address and application. Played by the program itself, whose role has no level at all.

  pytest tests/live/cli/refused_test.py

The servers are those of ./test (TERMGATE_TEST_POSTGRESQL_13, …).
"""
import json
import os
import threading
import uuid

import psycopg
import pytest

from both_databases import command

MAJORS = [major for major in ("13", "14", "15", "16", "17", "18") if os.environ.get("TERMGATE_TEST_POSTGRESQL_" + major)]
if not MAJORS:
    pytest.skip("no PostgreSQL", allow_module_level=True)
WRITES = {
    "update": "UPDATE accounts SET balance = 1 WHERE scope = 'billing'",
    "insert": "INSERT INTO accounts VALUES ('billing', 2)",
    "delete": "DELETE FROM accounts",
    "upsert": "INSERT INTO accounts VALUES ('billing', 2) ON CONFLICT (balance) DO UPDATE SET balance = 3",
    "copy": "COPY accounts FROM STDIN",
    "truncate": "TRUNCATE accounts",
    "by a function": "SELECT write_it()",
    "caught": "DO $$ BEGIN DELETE FROM accounts; EXCEPTION WHEN SQLSTATE 'TG001' THEN NULL; END $$",
}


class Ground:
    def __init__(self, url):
        self.server, self.name = url, "refused_" + uuid.uuid4().hex[:12]
        self.owner, self.app, self.reader = (f"{self.name}_{who}" for who in ("owner", "app", "reader"))
        with psycopg.connect(url, autocommit=True) as admin:
            for role in (self.owner, self.app, self.reader):
                admin.execute(f"CREATE ROLE {role} LOGIN")
            admin.execute(f"GRANT pg_signal_backend TO {self.owner}")
            admin.execute(f"CREATE DATABASE {self.name} OWNER {self.owner}")
        self.run(self.owner, "init", "--grant", f"{self.reader}=read")
        with self.connect(self.owner) as owner:
            owner.execute("CREATE TABLE accounts (scope text, balance int PRIMARY KEY); INSERT INTO accounts VALUES ('billing', 0)")
            owner.execute("CREATE FUNCTION write_it() RETURNS void LANGUAGE sql AS 'UPDATE accounts SET balance = 5'")
            owner.execute(f"GRANT ALL ON accounts TO {self.app}")
            owner.execute("SELECT termgate.protect('accounts', scope_column => 'scope'), termgate.check_term('billing', 6)")

    def url(self, role, application="t"):
        with psycopg.connect(self.server) as known:
            info = known.info
            return f"postgresql://{role}@127.0.0.1:{info.port}/{self.name}?application_name={application}"

    def connect(self, role, application="t"):
        return psycopg.connect(self.url(role, application), autocommit=True)

    def run(self, role, *words):
        done = command(self.url(role), *words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def refuse(self, application="old-leader", times=1, statement=WRITES["update"], scope="billing", term=5, isolation="READ COMMITTED"):
        for _ in range(times):
            with self.connect(self.app, application) as app:
                app.execute(f"BEGIN ISOLATION LEVEL {isolation}")
                app.execute("SELECT set_config('termgate.scope', %s, true), set_config('termgate.term', %s, true)", (scope, str(term)))
                try:
                    if statement.startswith("COPY"):
                        with app.cursor().copy(statement) as copy:
                            copy.write("billing\t9\n")
                    else:
                        app.execute(statement)
                except psycopg.Error as error:
                    assert error.sqlstate == "TG001", error
                app.execute("ROLLBACK")

    def events(self, scope="billing"):
        events = json.loads(self.run(self.reader, "explain", "--scope", scope, "--json"))["events"]
        return [event for event in events if event["action"] == "refuse"]

    def counted(self):
        counts = "SELECT coalesce(sum((detail ->> 'count')::int), 0) FROM termgate.audit_log WHERE action = 'refuse'"
        with self.connect(self.owner) as owner:
            return owner.execute(counts).fetchone()[0]

    def close(self):
        with psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.name,))
            admin.execute(f"DROP DATABASE {self.name}")
            for role in (self.owner, self.app, self.reader):
                admin.execute(f"DROP ROLE {role}")


# On the oldest and the newest major; the rest on one, for it is the same SQL.
EVERY = ("test_each_kind_of_write_is_told_of_with_who_it_was", "test_a_long_name_and_scopes_of_any_letters")


def pytest_generate_tests(metafunc):
    one = [major for major in MAJORS if major == "15"] or MAJORS[:1]
    metafunc.parametrize("ground", {MAJORS[0]: 0, MAJORS[-1]: 0} if metafunc.function.__name__ in EVERY else one, indirect=True)


@pytest.fixture
def ground(request):
    made = Ground(os.environ["TERMGATE_TEST_POSTGRESQL_" + request.param])
    yield made
    made.close()


def test_each_kind_of_write_is_told_of_with_who_it_was(ground):
    before = 0
    for name, statement in WRITES.items():
        application = "app " + name
        ground.refuse(application.replace(" ", "%20"), 2, statement)
        newest = ground.events()[0]
        assert (newest["actor"], newest["client"]) == (ground.app, "127.0.0.1 " + application), name
        assert (newest["detail"]["count"], newest["detail"]["term"], newest["detail"]["from"]) == (2, 5, "database"), (name, newest)
        before += 2
        assert ground.counted() == before, name
    with ground.connect(ground.reader) as reader:
        assert reader.execute("SELECT count FROM termgate.refusal_counts WHERE code = 'TG001'").fetchone()[0] == before


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_at_other_isolation_levels(ground, isolation):
    ground.refuse(isolation=isolation, times=3)
    assert [event["detail"]["count"] for event in ground.events()] == [3]


def test_nothing_is_counted_twice_and_more_come_on_top(ground):
    ground.refuse(times=3)
    assert ground.counted() == 3 and ground.counted() == 3
    ground.refuse(times=2)
    ground.refuse("another", 1)
    assert ground.counted() == 6
    assert sorted((event["client"], event["detail"]["count"]) for event in ground.events()) == [
        ("127.0.0.1 another", 1),
        ("127.0.0.1 old-leader", 2),
        ("127.0.0.1 old-leader", 3),
    ]


def test_who_loses_its_place_is_in_the_sum(ground):
    for number in range(12):
        ground.refuse(f"app-{number}", 2)
    assert ground.counted() == 24
    named = ground.events()
    assert len(named) == 8 and {event["client"] for event in named} == {f"127.0.0.1 app-{number}" for number in range(4, 12)}
    with ground.connect(ground.reader) as reader:
        rest = reader.execute(
            "SELECT detail ->> 'count' FROM termgate.audit_log WHERE action = 'refuse' AND scope IS NULL AND actor = 'others'"
        ).fetchall()
    assert rest == [("8",)]


def test_many_at_once_add_up(ground):
    threads = [threading.Thread(target=ground.refuse, args=(f"app-{number % 3}", 5)) for number in range(6)]
    readers = [threading.Thread(target=ground.counted) for _ in range(6)]
    for thread in threads + readers:
        thread.start()
    for thread in threads + readers:
        thread.join()
    assert ground.counted() == 30


def test_a_long_name_and_scopes_of_any_letters(ground):
    with ground.connect(ground.owner) as owner:
        owner.execute("SELECT termgate.check_term(%s, 6)", ("日本 'x'|y",))
    ground.refuse("n" * 63, 1, "INSERT INTO accounts VALUES ('日本 ''x''|y', 1)", scope="日本 'x'|y")
    (event,) = ground.events("日本 'x'|y")
    assert event["client"] == "127.0.0.1 " + "n" * 46


def test_who_reads_only_sees_them_and_they_stay_to_be_written(ground):
    ground.refuse(times=2)
    with ground.connect(ground.reader) as reader:
        for begin in ("BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ"):
            reader.execute(begin)
            rows = reader.execute("SELECT id, actor, detail ->> 'count' FROM termgate.audit_log WHERE action = 'refuse'").fetchall()
            assert rows == [(None, ground.app, "2")], begin
            reader.execute("COMMIT")
        # One who has read them and does not commit keeps nobody from seeing them.
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM termgate.audit_log WHERE action = 'refuse'").fetchone() == (1,)
        assert len(ground.events()) == 1
        reader.execute("ROLLBACK")
    assert ground.counted() == 2 and ground.counted() == 2


def test_the_refused_may_do_nothing_else(ground):
    with ground.connect(ground.app) as app:
        for attempt in (
            "SELECT * FROM termgate.audit_log",
            "SELECT setval('termgate.refused_1_0', 5)",
            "SELECT nextval('termgate.refused_1_0')",
            "SELECT * FROM termgate.refused_known",
            "SELECT termgate._note_refused('billing', 5)",
            "SELECT termgate._refused_since()",
        ):
            with pytest.raises(psycopg.Error) as failed:
                app.execute(attempt)
            assert failed.value.sqlstate == "42501", attempt
    with ground.connect(ground.reader) as reader, pytest.raises(psycopg.Error) as failed:
        reader.execute("SELECT setval('termgate.refused_1_0', 5)")
    assert failed.value.sqlstate == "42501"


def test_observe_names_the_address_too(ground):
    with ground.connect(ground.owner) as owner:
        owner.execute("SELECT termgate.protect('accounts', scope_column => 'scope', mode => 'observe')")
    with ground.connect(ground.app, "replica") as app:
        app.execute("UPDATE accounts SET balance = 1")
    assert 'client "127.0.0.1 replica", first at' in ground.run(ground.reader, "doctor")


def test_doctor_says_how_many_more_there_are(ground):
    with ground.connect(ground.owner) as owner:
        owner.execute(
            "INSERT INTO termgate.leases (scope, owner_id, term, expires_at, acquired_at, renewed_at, endpoint)"
            " SELECT 's' || i, 'gone', 1, now() - interval '1 min', now(), now(), '' FROM generate_series(1, 120) i"
        )
        for number in range(101):
            owner.execute(f"CREATE TABLE plain_{number} (a int)")
    told = ground.run(ground.reader, "doctor")
    assert told.count("'gone'") + told.count("the lease of gone ran out") == 100 and "20 more leases ran out" in told
    assert "1 more tables are neither protected nor adopted" in told


def test_uninstall_takes_it_all_away(ground):
    ground.refuse()
    with ground.connect(ground.owner) as owner:
        owner.execute("DROP TABLE accounts")
    ground.run(ground.owner, "uninstall", "--yes")
    with ground.connect(ground.owner) as owner:
        assert owner.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'refused%'").fetchone() == (0,)
