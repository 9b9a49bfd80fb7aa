#!/usr/bin/env python3
"""[F1][F2][F6] What guard/shortcuts/ carries out without SQL: check_term(), append() and the
triggers of protect(), against the same functions in SQL. In a second database of the server there is layer 1 and no extension: the same
scripts must give the same answers, the same SQLSTATEs and messages, and the same rows. Then what the comparison cannot show: that SQL
does not run, that locks are given up where SQL gives them up, and that nothing outlives a change of the tables.

  pytest tests/live/guard/guard_shortcuts_test.py [--library termgate_guard.so] [--major 15] [-k random]
"""
import contextlib
import random
import threading

import pytest

from checks import eventually
from given import LONG
from guard_rig import OnARig, chosen, made

chosen()  # or skip

TABLES = """
  CREATE TABLE one (id int, v int DEFAULT 0); CREATE TABLE any_scope (id int, v int DEFAULT 0); CREATE TABLE watched (id int);
  CREATE TABLE by_text (scope text, id int); CREATE TABLE by_number (id int, "Sco pe" bigint); CREATE TABLE by_uuid (scope uuid, id int);
  CREATE TABLE parts (scope text, id int) PARTITION BY LIST (id); CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1);
  CREATE TABLE part_2 PARTITION OF parts FOR VALUES IN (2);
  CREATE TABLE above (id int); CREATE TABLE below () INHERITS (above);
  CREATE INDEX ON by_text (id, scope); CREATE INDEX ON by_number (id, "Sco pe"); CREATE INDEX ON parts (id, scope);
  SELECT termgate.protect('one', scope => 'a'), termgate.protect('any_scope', scope => '*'), termgate.protect('by_text', 'scope'),
    termgate.protect('by_number', 'Sco pe'), termgate.protect('by_uuid', 'scope'), termgate.protect('parts', 'scope'),
    termgate.protect('above', scope => 'a'), termgate.protect('watched', scope => 'a', mode => 'observe');
  GRANT ALL ON ALL TABLES IN SCHEMA public TO free, watched;
  SELECT termgate.grant_level('free', 'write'), termgate.grant_level('watched', 'write');
  SELECT termgate.seal('a', 5), termgate.seal('b', 3), termgate.seal('7', 5),
    termgate.seal('00000000-0000-0000-0000-000000000007', 5), termgate.seal(repeat('é', 200), 5)"""
WRITES = [
    "INSERT INTO {t} VALUES (1)",
    "INSERT INTO {t} SELECT g FROM generate_series(1, 3) g",
    "UPDATE {t} SET id = id + 1",
    "DELETE FROM {t} WHERE id > 3",
    "UPDATE {t} SET id = 1 WHERE false",
    "WITH w AS (INSERT INTO {t} VALUES (9) RETURNING id) SELECT count(*) FROM w",
    "DO $$ BEGIN BEGIN INSERT INTO {t} VALUES (4); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$",
    "DO $$ BEGIN INSERT INTO {t} VALUES (5); EXCEPTION WHEN OTHERS THEN NULL; END $$",
    "TRUNCATE {t}",
    "EXECUTE w_{t}",
]
ROWS = [
    "INSERT INTO by_text VALUES ({s}, 1)",
    "INSERT INTO by_text VALUES ('a', 1), ({s}, 2)",
    "UPDATE by_text SET scope = {s} WHERE id > 0",
    "UPDATE by_text SET id = id + 1 WHERE scope = {s}",
    "DELETE FROM by_text WHERE scope = {s}",
    "INSERT INTO by_number VALUES (1, 7), (2, 7)",
    "INSERT INTO by_number VALUES (1, NULL)",
    'UPDATE by_number SET "Sco pe" = 8 - id WHERE id > 0',
    "INSERT INTO by_uuid VALUES ('00000000-0000-0000-0000-000000000007', 1)",
    "INSERT INTO parts VALUES ({s}, 1)",
    "UPDATE parts SET id = 3 - id WHERE id > 0",
    "INSERT INTO part_2 VALUES ({s}, 2)",
]
CALLS = [
    "SELECT termgate.check_term({s}, {n})",
    "SELECT termgate.check_term({s}, {n})",
    "SELECT termgate.check_term(scope => {s}, term => {n}) FROM generate_series(1, 2)",
    "INSERT INTO one SELECT 1 WHERE termgate.check_term({s}, {n}) IS NOT NULL",
    "INSERT INTO one VALUES (1, termgate.check_term({s}, {n})::int)",
    "EXECUTE c({s}, {n})",
    "DO $$ BEGIN PERFORM termgate.check_term({s}, {n}); EXCEPTION WHEN OTHERS THEN NULL; END $$",
    "SELECT termgate.check_session({s}, {n})",
]
CONTROL = [
    "BEGIN",
    "BEGIN",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT p",
    "ROLLBACK TO p",
    "RELEASE p",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN READ ONLY",
    "SAVEPOINT p; ROLLBACK TO p",
    "BEGIN; SELECT termgate.check_term('a', 5); SAVEPOINT p",
]


def call(session, sql):
    """The rows of a statement, or its SQLSTATE and message."""
    answer = session.query(sql)
    error = next((message.fields() for message in answer if message.type == "E"), None)
    return (error["C"], error["M"]) if error else [message.row() for message in answer if message.type == "D"]


@pytest.fixture(scope="module")
def rig():
    one = made()
    for database in ("shortcuts", "plain"):
        one.admin.rows(f"CREATE DATABASE {database}")
        one.admin.rows(f"GRANT CREATE ON DATABASE {database} TO termgate_owner")
        one.layer1(database)
        with one.session("postgres", database=database) as admin:
            if database == "shortcuts":
                admin.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")
            admin.rows(TABLES)
            # A message names the first row that is refused. Where the rows lie in the table depends on when each database was vacuumed;
            # an index gives them the same order in both. (The planner gives what is off a cost at which PostgreSQL compiles.)
            for setting in ("enable_seqscan", "enable_bitmapscan", "jit"):
                admin.rows(f"ALTER DATABASE {database} SET {setting} = off")
    yield one
    one.close()


class Shortcuts(OnARig):
    def session(self, role="free", database="shortcuts", **more):
        return super().session(role, database=database, **more)

    @contextlib.contextmanager
    def meanwhile(self, *texts):
        """Somebody runs these as fast as it goes. Yields a list with an entry for each time."""
        ended, rounds = threading.Event(), []

        def change():
            with self.rig.session("postgres", database="shortcuts") as admin:
                while not ended.is_set():
                    for text in texts:
                        admin.rows(text)
                    rounds.append(1)

        changer = threading.Thread(target=change)
        changer.start()
        try:
            yield rounds
        finally:
            ended.set()
            changer.join()


class Uncached(Shortcuts):
    def test_caches_that_are_thrown_away(self):
        """A server with assertions, which forgets what it knows of the catalogs whenever it may."""
        admin = self.session("postgres")
        if admin.value("SHOW debug_assertions") != "on":
            pytest.skip("a server built with --enable-cassert, named by --programs")
        admin.rows("SELECT termgate.append('uncached', 5, 'x', NULL, 'a')")
        admin.rows("ALTER DATABASE shortcuts SET debug_discard_caches = 1")
        self.addCleanup(admin.rows, "ALTER DATABASE shortcuts RESET debug_discard_caches")
        # Minutes for each statement: as few as go through every look-up.
        for options in ("", " -c termgate.guard_session=on"):
            session, stale = [self.session(scope="a", term=term, options=options) for term in (5, 4)]
            session.wait = stale.wait = 1200
            assert session.value("SHOW debug_discard_caches") == "1"
            for text in ("INSERT INTO one VALUES (1)", "SELECT termgate.append('uncached', 5, 'x', NULL, 'a')"):
                assert not isinstance(call(session, text), tuple), (options, text)
            assert call(stale, "INSERT INTO one VALUES (1)")[0] == "TG001", options
        assert admin.value("SELECT last_no FROM termgate.streams WHERE stream_id = 'uncached'") == "3"
        assert admin.value("SELECT count(*) FROM termgate.stream_writes WHERE stream_id = 'uncached'") == "3"


class Same(Shortcuts):
    def statement(self, chance):
        # None above 5, where the other tests of this module find scope a.
        scope = chance.choice(
            ["'a'"] * 6
            + [
                "'b'",
                "'b'",
                "'7'",
                "'00000000-0000-0000-0000-000000000007'",
                "''",
                "NULL",
                "'nowhere'",
                "repeat('é', 200)",
                "repeat('é', 201)",
            ]
        )
        number = chance.choice(["5"] * 12 + ["3", "3", "4", "NULL", "0", "-1"])
        kind = chance.random()
        if kind < 0.22:
            return chance.choice(CONTROL)
        if kind < 0.42:
            # Unlike set_config(), SET LOCAL knows no expressions.
            local = chance.choice(["true", "true", "false"])
            if chance.random() < 0.5:
                return f"SELECT set_config('termgate.scope', coalesce({scope}, ''), {local})"
            return f"SELECT set_config('termgate.term', '{chance.choice(['5', '5', '5', '3', '4', '4', '', 'x', '05'])}', {local})"
        if kind < 0.65:
            return chance.choice(WRITES).format(t=chance.choice(["one", "one", "any_scope", "any_scope", "watched", "above", "below"]))
        if kind < 0.85:
            return chance.choice(ROWS).format(s=scope)
        if kind < 0.94:
            return self.append(chance, scope, number)
        return chance.choice(CALLS).format(s=scope, n=number)

    def append(self, chance, scope, number):
        given = [chance.choice(["'a'", "'b'", "'c'", "'dé'"]), chance.choice(["5"] * 6 + [number, "9223372036854775807"])]
        behind = [chance.choice(["NULL"] * 6 + ["0", "1", "5", "-1"]), chance.choice(["NULL", "NULL", scope])]
        write_id = "NULL" if chance.random() < 0.8 else f"'00000000-0000-0000-0000-0000000000{chance.randrange(16, 40)}'"
        if chance.random() < 0.7:
            large = "decode(repeat('00', 1100000), 'hex')"
            payload = chance.choice(["'x'", "''", "'\\x00ff'", "NULL", "convert_to(repeat('abc', 700), 'UTF8')", large])
            return f"SELECT termgate.append({', '.join([*given, payload, *behind, write_id])})"
        payloads = chance.choice(["'{x,y,z}'", "'{\"\"}'", "'{}'", "'{x,NULL}'", "'{{x},{y}}'", "'[3:4]={x,y}'", "NULL"])
        write_ids = write_id if write_id == "NULL" else f"ARRAY[{write_id}]::uuid[]"
        return f"SELECT termgate.append_many({', '.join([*given, payloads, *behind, write_ids])})"

    def play(self, role, seed, count):
        chance, seen = random.Random(seed), {}
        both = [self.session(role), self.session(role, database="plain")]
        assert [one.value("SHOW termgate.guard_checks") for one in both] == ["termgate", ""]
        for text in (text for text in ROWS if "id > 0" in text):
            for one in both:
                plan = "\n".join(row[0] for row in one.rows("EXPLAIN " + text.format(s="'a'")))
                assert "Index Scan" in plan and "Seq Scan" not in plan, plan
        for one in both:
            one.rows("PREPARE c(text, bigint) AS SELECT termgate.check_term($1, $2)")
            for table in ("one", "any_scope", "watched", "above", "below"):
                one.rows(f"PREPARE w_{table} AS INSERT INTO {table} VALUES (7)")
        story = []
        for number in range(count):
            # A transaction that has failed goes on only now and then.
            failed = story and isinstance(here, tuple) and chance.random() < 0.6
            text = chance.choice(["ROLLBACK", "ROLLBACK", "ROLLBACK TO p"]) if failed else self.statement(chance)
            story = story[-30:] + [text]
            here, there = [call(one, text) for one in both]
            assert here == there, f"role {role}, seed {seed}, statement {number}: {story}"
            key = here[0] if isinstance(here, tuple) else "ok"
            seen[key] = seen.get(key, 0) + 1
        for one in both:
            call(one, "ROLLBACK")
        looks = [self.session("postgres", database=database) for database in ("shortcuts", "plain")]
        for look in (
            *(f"SELECT * FROM {table} ORDER BY 1, 2" for table in ("one", "any_scope", "by_text", "by_number", "parts")),
            "SELECT * FROM above ORDER BY 1",
            "SELECT table_name, scope, code, reason, count(*) FROM termgate.observed GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
            "SELECT scope, term FROM termgate.fences ORDER BY 1",
            "SELECT stream_id, scope, last_no FROM termgate.streams ORDER BY 1",
            "SELECT stream_id, sequence_no, scope, term, payload, write_id FROM termgate.stream_writes ORDER BY 1, 2",
            "SELECT * FROM termgate.verify_findings()",
        ):
            here, there = [one.rows(look) for one in looks]
            assert here == there, f"role {role}, seed {seed}: {look}"
        while self.sessions:
            self.sessions.pop().end()
        return seen

    def test_random_scripts(self):
        """3,000 statements, with TERMGATE_TEST_LONG 60,000."""
        seen = {}
        for _ in range(200 if LONG else 10):
            for answer, times in self.play("free", random.randrange(1 << 30), 300).items():
                seen[answer] = seen.get(answer, 0) + times
        assert {"ok", "TG001", "TG002", "TG003", "TG005", "25P02"} <= set(seen)
        assert seen["ok"] > 900, seen

    def test_random_scripts_while_the_catalogs_change(self):
        """Somebody changes what the library remembers, without changing what it means, as fast as it goes."""
        changes = (
            "ANALYZE termgate.fences, termgate.streams, termgate.protected",
            "ALTER FUNCTION termgate.check_term(text, bigint) COST 101; ALTER FUNCTION termgate.check_term(text, bigint) COST 100",
            "CREATE OR REPLACE FUNCTION noise() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE SCHEMA noise; DROP SCHEMA noise",
            "ALTER TABLE one SET (fillfactor = 90); ALTER TABLE by_text RESET (fillfactor)",
            "ALTER TABLE termgate.fences SET (fillfactor = 70); ALTER TABLE termgate.streams SET (fillfactor = 50)",
        )
        with self.meanwhile(*changes) as rounds:
            self.play("free", random.randrange(1 << 30), 400)
        assert len(rounds) > 1

    def test_a_row_trigger_stays_one_while_functions_change(self):
        """A session's first write looks up what the trigger is and then the column. Functions that change in between once made it the
        trigger of a whole statement, which let every row pass."""
        noise = "CREATE OR REPLACE FUNCTION noise() RETURNS int LANGUAGE sql AS ''SELECT 1''"
        with self.meanwhile(f"DO $$ BEGIN FOR i IN 1..50 LOOP EXECUTE '{noise}'; COMMIT; END LOOP; END $$"):
            for number in range(3000 if LONG else 150):
                with self.rig.session("free", database="shortcuts") as session:
                    assert call(session, "INSERT INTO by_number VALUES (1, 7)")[0:1] == ("TG002",), number
                    assert call(session, "INSERT INTO by_text VALUES ('a', 1)")[0:1] == ("TG002",), number

    def test_random_scripts_of_a_session_that_the_guard_observes(self):
        self.play("watched", random.randrange(1 << 30), 600)


class CarriedOut(Shortcuts):
    def calls(self):
        """How often each function of layer 1 has run."""
        self.session("postgres").rows("SELECT 1")
        rows = self.rig.session("postgres", database="shortcuts")
        with rows:
            return dict(rows.rows("SELECT funcname, calls FROM pg_stat_user_functions WHERE schemaname = 'termgate'"))

    def test_sql_does_not_run(self):
        session = self.session("postgres")
        session.rows("SELECT termgate.append('carried', 5, 'x', NULL, 'a')")
        session.rows("SET track_functions = 'all'; SET termgate.scope = 'a'; SET termgate.term = 5")
        for text in (
            "INSERT INTO one VALUES (1)",
            "UPDATE one SET v = 1",
            "INSERT INTO any_scope VALUES (1)",
            "INSERT INTO by_text VALUES ('a', 1), ('a', 2)",
            "UPDATE by_text SET id = 3 WHERE scope = 'a'",
            "DELETE FROM by_text WHERE scope = 'a'",
            "SELECT termgate.check_term('a', 5)",
            "INSERT INTO one VALUES (1, termgate.check_term('a', 5))",
            "SELECT termgate.append('carried', 5, 'x', NULL, 'a')",
            "SELECT termgate.append('carried', 5, 'x', NULL, 'a')",
        ):
            assert not isinstance(call(session, text), tuple), text
        # One that nobody carries out, so that there is something to count.
        session.rows("SELECT termgate.check_session('a', 5)")
        session.end()
        self.sessions.remove(session)
        self.rig.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'shortcuts' AND state = 'active')")
        # Some servers collect them in a process of their own.
        assert eventually(lambda: "check_session" in self.calls(), 20)
        ran = self.calls()
        assert ran.get("check_session") == "1", ran
        for name in ("_guard", "_protect_named", "_protect_statement", "_claim", "append", "_advance"):
            assert name not in ran

    def test_a_superuser_alone_and_one_who_may_not_call(self):
        self.rig.session("postgres", database="shortcuts").rows(
            "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM plain; GRANT INSERT ON one TO plain"
        )
        session = self.session("plain", scope="a", term=5)
        assert call(session, "SELECT termgate.check_term('a', 5)")[0] == "42501"
        assert call(session, "INSERT INTO one VALUES (1)") == []

    def test_the_lock_goes_where_sql_gives_it_up(self):
        for wanted, *script in (
            (1, "BEGIN", "SELECT termgate.check_term('a', 5)"),
            (0, "BEGIN", "SAVEPOINT p", "SELECT termgate.check_term('a', 5)", "ROLLBACK TO p"),
            (1, "BEGIN", "SAVEPOINT p", "SELECT termgate.check_term('a', 5)", "RELEASE p"),
            (
                0,
                "BEGIN",
                "SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = 5; SAVEPOINT p",
                "INSERT INTO one VALUES (1)",
                "ROLLBACK TO p",
            ),
            (0, "SELECT termgate.check_term('a', 5)"),
            # The fence has been lowered since this session saw it: nothing is left that would be in the way of the raise.
        ):
            session = self.session()
            for text in script:
                assert not isinstance(call(session, text), tuple), text
            held = self.rig.value(
                f"SELECT count(*) FROM pg_locks WHERE pid = {session.pid} AND locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1"
            )
            assert int(held) == wanted, script

    CURSOR = "DECLARE c CURSOR FOR SELECT CASE g WHEN 1 THEN termgate.check_term('{}', 5) ELSE 1 / (2 - g) END FROM generate_series(1, 2) g"

    def with_a_cursor_that_failed(self, session, scope="cursor"):
        """Locks taken by a cursor go with the savepoint in which the cursor fails, although they were taken before it."""
        for text in ("BEGIN", self.CURSOR.format(scope), "FETCH c", "SAVEPOINT p"):
            assert not isinstance(call(session, text), tuple), text
        assert call(session, "FETCH c")[0] == "22012"
        assert call(session, "ROLLBACK TO p") == []

    def test_a_lock_that_went_with_a_cursor_is_taken_again(self):
        admin, session = self.session("postgres"), self.session()
        admin.rows("SELECT termgate.seal('cursor', 5); CREATE TABLE by_cursor (id int, scope text); GRANT ALL ON by_cursor TO free")
        self.addCleanup(admin.rows, "DROP TABLE by_cursor")
        session.rows("SELECT termgate.append('cursor', 5, 'x', NULL, 'cursor')")
        for more in ("scope => 'cursor'", "scope => '*'", "scope_column => 'scope'"):
            admin.rows(f"SELECT termgate.protect('by_cursor', {more})")
            for write, number in (("INSERT INTO by_cursor VALUES (1, 'cursor')", 5), ("SELECT termgate.append('cursor', 5, 'x')", 5)):
                self.with_a_cursor_that_failed(session)
                assert not isinstance(call(session, write), tuple), (more, write)
                held = f"SELECT count(*) FROM pg_locks WHERE pid = {session.pid} AND locktype = 'advisory' AND objsubid = 1"
                assert self.rig.value(held) == "1", (more, write)
                call(session, "ROLLBACK")
            admin.rows("SELECT termgate.unprotect('by_cursor')")
        # And where somebody has raised meanwhile, the write is stale.
        admin.rows("SELECT termgate.protect('by_cursor', scope => 'cursor')")
        self.with_a_cursor_that_failed(session)
        admin.rows("SELECT termgate.seal('cursor', 6)")
        assert call(session, "INSERT INTO by_cursor VALUES (1, 'cursor')")[0] == "TG001"
        call(session, "ROLLBACK")

    def test_guarded_from_the_middle_of_a_transaction_on(self):
        """What was passed before, by locks of a cursor's, does not count."""
        admin = self.session("postgres")
        admin.rows("SELECT termgate.seal('late', 5); CREATE TABLE late (id int); GRANT ALL ON late TO free")
        self.addCleanup(admin.rows, "DROP TABLE late")
        session = self.session()
        for text in (
            "BEGIN",
            self.CURSOR.format("late"),
            "FETCH c",
            "INSERT INTO late VALUES (1)",
            "SET termgate.guard_session = on",
            "SAVEPOINT p",
        ):
            assert not isinstance(call(session, text), tuple), text
        assert call(session, "FETCH c")[0] == "22012"
        call(session, "ROLLBACK TO p")
        assert call(session, "COMMIT")[0] == "TG002"

    def test_a_fence_that_was_reset(self):
        session, admin = self.session(), self.session("postgres")
        for statement in ("SELECT termgate.seal('r', 9)", "SELECT termgate.check_term('r', 9)"):
            admin.rows(statement)
        assert call(session, "SELECT termgate.check_term('r', 9)") == [[b"9"]]
        admin.rows("SELECT termgate.reset_fence('r', 4, 'test', 'test')")
        # As in SQL: the term is above the fence now, and a writer may raise it.
        assert call(session, "SELECT termgate.check_term('r', 9)") == [[b"9"]]
        assert admin.value("SELECT term FROM termgate.fences WHERE scope = 'r'") == "9"

    def test_a_table_that_changes(self):
        admin, session = self.session("postgres"), self.session(scope="a", term=5)
        admin.rows("CREATE TABLE moves (scope text, id int); GRANT ALL ON moves TO free; SELECT termgate.protect('moves', scope => 'a')")
        self.addCleanup(admin.rows, "DROP TABLE moves")
        session.rows("PREPARE w AS INSERT INTO moves VALUES ('b', 1)")
        stale = self.session(scope="a", term=4)
        stale.rows("PREPARE w AS INSERT INTO moves VALUES ('b', 1)")
        assert [call(one, "EXECUTE w") and call(one, "EXECUTE w")[0] for one in (session, stale)] == [[], "TG001"]
        admin.rows("SELECT termgate.unprotect('moves')")
        assert [call(one, "EXECUTE w") for one in (session, stale)] == [[], []]
        admin.rows("SELECT termgate.protect('moves', scope => 'b')")
        assert [call(one, "EXECUTE w")[0] for one in (session, stale)] == ["TG002", "TG002"]
        admin.rows("SELECT termgate.protect('moves', 'scope')")
        assert [call(one, "EXECUTE w")[0] for one in (session, stale)] == ["TG002", "TG002"]
        admin.rows("SELECT termgate.unprotect('moves'); TRUNCATE moves; SELECT termgate.protect('moves', 'scope')")
        # By the column's new name the triggers find nothing: SQL says so.
        admin.rows("ALTER TABLE moves RENAME scope TO other")
        assert call(session, "EXECUTE w")[0] == "42703"
        admin.rows("ALTER TABLE moves RENAME other TO scope; CREATE TABLE child () INHERITS (moves)")
        # An INSERT puts nothing into a child.
        assert call(session, "INSERT INTO moves VALUES ('a', 1)") == []
        assert call(session, "UPDATE moves SET id = 1")[0] == "TG005", "a child that is not covered"
        admin.rows("DROP TABLE child")
        assert call(session, "INSERT INTO moves VALUES ('a', 1)") == []
        # In a block, protect() and its rollback.
        admin.rows("SELECT termgate.unprotect('moves')")
        admin.rows("SET termgate.scope = 'a'; SET termgate.term = 5; BEGIN; SELECT termgate.protect('moves', scope => 'a')")
        admin.rows("INSERT INTO moves VALUES ('a', 2); ROLLBACK; RESET termgate.scope; RESET termgate.term")
        assert call(admin, "INSERT INTO moves VALUES ('a', 2)") == []

    def test_data_that_is_older_than_the_raise(self):
        """A statement that began before the raise to its own term."""
        admin, lead, writer = self.session("postgres"), self.session("postgres"), self.session()
        admin.rows("SELECT termgate.seal('old', 5); CREATE TABLE o (n bigint); GRANT ALL ON o TO free")
        self.addCleanup(admin.rows, "DROP TABLE o")
        admin.rows("SELECT termgate.protect('o', scope => 'old')")
        admin.rows("CREATE FUNCTION writes_o() RETURNS void LANGUAGE sql AS 'INSERT INTO o VALUES (1)'")
        self.addCleanup(admin.rows, "DROP FUNCTION writes_o()")
        for number, ways in ((6, ["SET LOCAL termgate.scope = 'old'; SET LOCAL termgate.term = 6"]), (7, [])):
            lead.rows(f"BEGIN; SELECT termgate.seal('old', {number})")
            writer.rows("BEGIN")
            for way in ways:
                writer.rows(way)
            # The table with rows: its trigger fires behind the check that waits.
            text = "INSERT INTO o SELECT count(*) FROM o" if ways else "SELECT termgate.check_term('old', 7), writes_o()"
            writer.start(text)
            self.waits(writer)
            lead.rows("COMMIT")
            assert writer.finish() == ("40001" if ways else "ok")
            assert call(writer, "ROLLBACK") == []
        # One to a lower term is stale by then.
        declared = "SET LOCAL termgate.scope = 'old'; SET LOCAL termgate.term = 7"
        for text in ("BEGIN; SELECT termgate.check_term('old', 7)", f"BEGIN; {declared}; INSERT INTO o VALUES (1)"):
            lead.rows("BEGIN; SELECT termgate.seal('old', 8)")
            writer.start(text)
            self.waits(writer)
            lead.rows("COMMIT")
            assert writer.finish() == "TG001", text
            call(writer, "ROLLBACK")
            lead.rows("SELECT termgate.reset_fence('old', 7, 'test', 'test')")
