#!/usr/bin/env python3
"""[F1][F2][F4][F5] append() and append_many() as guard/shortcuts/append.c carries them out: what must not come out of step
with SQL, by two writers of one stream, savepoints, raises, evictions, tables that their owner has changed. That single
calls give what SQL gives is for guard_shortcuts_test.py.

  pytest tests/live/guard/guard_append_test.py [--library termgate_guard.so] [--major 15] [-k many]
"""
import random
import threading
import time

from guard_rig import OnARig, chosen, made

chosen()  # or skip
CARRIED_OUT = "SHOW termgate.guard_appends"


def call(session, sql):
    """The rows of a statement, or its SQLSTATE."""
    answer = session.query(sql)
    error = next((message.fields()["C"] for message in answer if message.type == "E"), None)
    return error or [message.row() for message in answer if message.type == "D"]


class Appends(OnARig):
    def append(self, session, stream, term=5, payload="x", **more):
        named = "".join(f", {name} => {value}" for name, value in more.items())
        return call(session, f"SELECT termgate.append('{stream}', {term}, '{payload}'{named})")

    def stream(self, name, rows=1):
        """A stream of self.scope that stands at `rows`."""
        stream = f"{self.scope}-{name}"
        with self.rig.session("free") as session:
            for _ in range(rows):
                assert not isinstance(self.append(session, stream, scope=f"'{self.scope}'"), str)
        return stream

    def numbers(self, stream):
        return [
            int(row[0])
            for row in self.rig.admin.rows(f"SELECT sequence_no FROM termgate.stream_writes WHERE stream_id = '{stream}' ORDER BY 1")
        ]


class CarriedOut(Appends):
    def test_it_is_carried_out_at_all(self):
        stream = self.stream("s")
        owner = self.session("postgres")
        owner.rows("SET ROLE termgate_owner")
        assert owner.value(f"SELECT termgate.guard_append('{stream}', 5, 'x', NULL, NULL, NULL)") == "2"
        assert owner.value(f"SELECT termgate.guard_append_many('{stream}', 5, '{{x,y}}', 2, '{self.scope}', NULL)") == "4"
        with_id = f"SELECT termgate.guard_append('{stream}', 5, 'x', NULL, NULL, '00000000-0000-0000-0000-000000000099')"
        assert owner.value(with_id) == "5"
        assert owner.value(f"SELECT termgate.guard_append('{stream}-new', 5, 'x', 0, '{self.scope}', gen_random_uuid())") == "1"
        for refused in (
            f"'{stream}', 4, 'x', NULL, NULL, NULL",
            f"'{stream}', 5, 'x', 3, NULL, NULL",
            f"'{stream}', 5, 'x', NULL, 's', NULL",
            "'nowhere', 5, 'x', NULL, NULL, NULL",
            f"'{stream}', 5, 'x', NULL, NULL, '00000000-0000-0000-0000-000000000099'",
            f"'{stream}', 5, decode(repeat('00', 1048577), 'hex'), NULL, NULL, NULL",
        ):
            assert owner.value(f"SELECT termgate.guard_append({refused})") is None, refused
        assert self.numbers(stream) == [1, 2, 3, 4, 5]
        assert self.rig.value(f"SELECT last_no FROM termgate.streams WHERE stream_id = '{stream}'") == "5"

    def test_nobody_else_may_call_it(self):
        stream = self.stream("s")
        for role in ("app", "free", "postgres"):
            assert call(self.session(role), f"SELECT termgate.guard_append('{stream}', 5, 'x', NULL, NULL, NULL)") == "42501", role

    def test_it_is_asked_where_there_is_no_database(self):
        session = self.session("postgres", parameters=[("replication", "true")])
        assert [row[0] for row in session.rows(CARRIED_OUT)] == [""]

    def test_a_guarded_and_an_unguarded_session(self):
        stream = self.stream("s")
        for role in ("app", "free", "watched"):
            session = self.session(role)
            assert session.value(CARRIED_OUT) == "termgate", role
            for _ in range(3):
                assert not isinstance(self.append(session, stream), str), session.unread
            assert self.append(session, stream, term=4) == "TG001", role
            assert call(session, "BEGIN; SELECT 1; COMMIT") == [[b"1"]]
        assert self.numbers(stream) == list(range(1, 11))
        # What passed by append() counts for the rest of the transaction.
        guarded = self.session("app")
        guarded.gives("ok", "BEGIN", f"SELECT termgate.append('{stream}', 5, 'x')", "INSERT INTO log VALUES (1)", "COMMIT")


class OutOfStep(Appends):
    def at_once(self, writers, turns, text):
        """What text(number, turn) gives is run by that many writers at once, guarded and not."""
        failed = []

        def write(number):
            with self.rig.session("app" if number % 2 else "free") as session:
                failed.extend(one for one in (text(number, turn) for turn in range(turns)) if isinstance(call(session, one), str))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []

    def test_many_writers_of_one_stream(self):
        stream = self.stream("s")
        texts = [
            f"SELECT termgate.append('{stream}', 5, 'x')",
            f"SELECT termgate.append_many('{stream}', 5, '{{x,y}}')",
            f"SELECT termgate.append('{stream}', 5, 'x', write_id => gen_random_uuid())",
            f"BEGIN; SELECT termgate.append('{stream}', 5, 'x'); ROLLBACK",
        ]
        self.at_once(8, 40, lambda number, turn: texts[(number + turn) % 4])
        assert self.numbers(stream) == list(range(1, 2 + 8 * 40))
        assert self.rig.value(f"SELECT last_no FROM termgate.streams WHERE stream_id = '{stream}'") == str(1 + 8 * 40)

    def test_many_writers_make_the_same_streams(self):
        texts = [
            f"SELECT termgate.append_many('{self.scope}-%d', 5, '{{x,y}}', NULL, '{self.scope}')",
            f"SELECT termgate.append('{self.scope}-%d', 5, 'x', NULL, '{self.scope}')",
        ]
        self.at_once(6, 20, lambda number, turn: texts[number % 3 > 0] % turn)
        for turn in range(20):
            assert self.numbers(f"{self.scope}-{turn}") == list(range(1, 9))
        assert self.rig.admin.rows(f"SELECT * FROM termgate.verify_findings() WHERE scope = '{self.scope}'") == []

    def test_a_new_stream(self):
        session = self.session("free")
        for name, more, answer in (
            ("", "", "TG005"),
            ("n" * 201, "", "TG005"),
            ("n" * 200, "", [[b"1"]]),
            (f"{self.scope}a", ", expected => 1", "TG003"),
            (f"{self.scope}a", ", expected => -1", "TG005"),
            (f"{self.scope}a", ", expected => 0", [[b"1"]]),
            (f"{self.scope}a", ", expected => 0", "TG003"),
        ):
            stream = f"{self.scope}{name}"[:200] if len(name) == 200 else name
            assert call(session, f"SELECT termgate.append('{stream}', 5, 'x', scope => '{self.scope}'{more})") == answer, (name, more)
        assert call(session, f"SELECT termgate.append('{self.scope}a', 5, 'x', scope => 's')") == "TG005", "another scope's"
        assert call(session, f"SELECT termgate.append('{self.scope}b', 4, 'x', scope => '{self.scope}')") == "TG001"
        assert self.rig.value(f"SELECT count(*) FROM termgate.streams WHERE stream_id = '{self.scope}b'") == "0"

    def test_one_waits_for_the_other(self):
        stream = self.stream("s")
        for ends, expected in (("COMMIT", [b"3"]), ("ROLLBACK", [b"4"])):
            first, second = self.session(), self.session("free")
            first.rows("BEGIN")
            self.append(first, stream)
            second.start(f"SELECT termgate.append('{stream}', 5, 'second')")
            self.waits(second)
            first.rows(ends)
            assert [message.row() for message in second.until("Z") if message.type == "D"] == [expected]
        # What was expected is compared with what is there after the wait.
        first, second = self.session(), self.session("free")
        first.rows("BEGIN")
        self.append(first, stream)
        second.start(f"SELECT termgate.append('{stream}', 5, 'second', 4)")
        self.waits(second)
        first.rows("COMMIT")
        assert second.finish() == "TG003"

    def test_a_wait_is_cancelled(self):
        stream = self.stream("s")
        first, second = self.session(), self.session()
        first.rows("BEGIN")
        self.append(first, stream)
        assert second.run("SET lock_timeout = 100", f"SELECT termgate.append('{stream}', 5, 'x')") == "55P03"
        assert second.run("SET lock_timeout = 0", "SET statement_timeout = 100", f"SELECT termgate.append('{stream}', 5, 'x')") == "57014"
        first.rows("COMMIT")
        assert self.append(second, stream) == [[b"3"]]

    def test_savepoints_and_several_in_one_statement(self):
        stream, session = self.stream("s"), self.session()
        session.rows("BEGIN")
        assert self.append(session, stream) == [[b"2"]]
        session.rows("SAVEPOINT a")
        assert self.append(session, stream) == [[b"3"]]
        session.rows("ROLLBACK TO a")
        assert self.append(session, stream) == [[b"3"]]
        assert call(session, f"SELECT termgate.append('{stream}', 5, 'x') FROM generate_series(1, 4)") == [[b"4"], [b"5"], [b"6"], [b"7"]]
        session.rows("COMMIT")
        assert self.numbers(stream) == list(range(1, 8))
        # Rows that no longer fit on their page, and so get new index entries.
        assert len(call(session, f"SELECT termgate.append('{stream}', 5, 'x') FROM generate_series(1, 300)")) == 300
        for path in (
            "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off",
            "RESET ALL; SET enable_seqscan = off",
        ):
            self.rig.admin.rows(path)
            assert self.rig.admin.rows(f"SELECT last_no FROM termgate.streams WHERE stream_id = '{stream}'") == [["307"]]
            assert self.rig.value(f"SELECT count(*) FROM termgate.stream_writes WHERE stream_id = '{stream}'") == "307"
            assert self.rig.value(f"SELECT count(*) FROM termgate.stream_writes WHERE scope = '{self.scope}' AND term = 5") == "307"
        self.rig.admin.rows("RESET ALL")

    def test_a_raise(self):
        stream, session = self.stream("s"), self.session()
        session.rows("BEGIN")
        self.append(session, stream)
        # The lock is held to the end of the transaction: a raise waits for the grace and then evicts.
        begun = time.monotonic()
        self.rig.admin.rows(f"SELECT termgate.seal('{self.scope}', 6, '300 ms')")
        assert time.monotonic() - begun > 0.25
        assert self.numbers(stream) == [1]
        for role in ("app", "free"):
            assert self.append(self.session(role), stream) == "TG001"
            assert not isinstance(self.append(self.session(role), stream, term=6), str)
        assert self.numbers(stream) == [1, 2, 3]
        # Above the fence append raises it, as ever.
        assert self.append(self.session("free"), stream, term=7) == [[b"4"]]
        assert self.rig.value(f"SELECT term FROM termgate.fences WHERE scope = '{self.scope}'") == "7"

    def test_a_raise_under_way_is_waited_for(self):
        stream, session, lead = self.stream("s"), self.session("free"), self.session("postgres")
        self.append(session, stream)
        lead.rows(f"BEGIN; SELECT termgate.seal('{self.scope}', 6)")
        session.start(f"SELECT termgate.append('{stream}', 5, 'late')")
        self.waits(session)
        lead.rows("COMMIT")
        assert session.finish() == "TG001"

    def test_rows_above_a_fence_that_was_lowered_by_hand(self):
        stream, other = self.stream("s"), self.stream("other")
        self.rig.admin.rows(f"SELECT termgate.append('{other}', 9, 'x')")
        for statement in (
            "ALTER TABLE termgate.fences DISABLE TRIGGER fences_guard",
            f"UPDATE termgate.fences SET term = 5 WHERE scope = '{self.scope}'",
            "ALTER TABLE termgate.fences ENABLE ALWAYS TRIGGER fences_guard",
        ):
            self.rig.admin.rows(statement)
        for role in ("app", "free"):
            assert self.append(self.session(role), stream) == "TG001"

    def test_two_phase(self):
        stream, session = self.stream("s"), self.session()
        session.gives("ok", "BEGIN", f"SELECT termgate.append('{stream}', 5, 'x')", f"PREPARE TRANSACTION '{self.scope}'")
        assert call(self.rig.admin, f"SELECT termgate.seal('{self.scope}', 6, '100 ms')") == "TG006", "its lock outlives its session"
        self.rig.admin.rows(f"COMMIT PREPARED '{self.scope}'")
        assert self.numbers(stream) == [1, 2]


class WhereItWas(Appends):
    """A session remembers the row of the stream that it has appended to last. Whatever happens to the row, numbers are consecutive."""

    def test_numbers_are_consecutive_whatever_happens_in_between(self):
        stream = self.stream("events", 0)
        admin, session, other = [self.session(role) for role in ("postgres", "app", "app")]
        append, count = f"SELECT termgate.append('{stream}', 5, 'x', NULL, '{self.scope}')", [0]

        def took(by, statement=append, more=1):
            count[0] += more
            assert by.value(statement) == str(count[0]), (statement, self.story)

        def undone(*script):
            for statement in script:
                assert session.run(statement) == "ok", (script, session.errors)

        def updated_in_vain():
            admin.rows(f"BEGIN; UPDATE termgate.streams SET last_no = last_no + 7 WHERE stream_id = '{stream}'; ROLLBACK")

        def not_expected():
            assert session.run(f"SELECT termgate.append('{stream}', 5, 'x', {count[0] + 1})") == "TG003"

        events = {
            "rolled back": lambda: undone("BEGIN", append, append, "ROLLBACK"),
            "savepoint": lambda: undone("BEGIN", "SAVEPOINT p", append, "ROLLBACK TO p", "COMMIT"),
            "released": lambda: (undone("BEGIN", "SAVEPOINT p"), took(session), undone("RELEASE p"), took(session), undone("COMMIT")),
            "another": lambda: took(other),
            "many": lambda: [took(session) for _ in range(40)],
            "batch": lambda: took(session, f"SELECT termgate.append_many('{stream}', 5, '{{a,b,c}}')", 3),
            "not named": lambda: took(session, f"SELECT termgate.append('{stream}', 5, 'x')"),
            "expected": lambda: took(session, f"SELECT termgate.append('{stream}', 5, 'x', {count[0]})"),
            "not expected": not_expected,
            "another stream": lambda: session.rows(f"SELECT termgate.append('{stream} too', 5, 'x', NULL, '{self.scope}')"),
            "vacuum": lambda: admin.rows("VACUUM termgate.streams"),
            "freeze": lambda: admin.rows("VACUUM FREEZE termgate.streams"),
            "rewritten": lambda: admin.rows("VACUUM FULL termgate.streams"),
            "locked": lambda: admin.rows("BEGIN; SELECT * FROM termgate.streams FOR SHARE; COMMIT"),
            "updated in vain": updated_in_vain,
            "updated": lambda: admin.rows(f"UPDATE termgate.streams SET created_at = now() WHERE stream_id = '{stream}'"),
            "prepared": lambda: (undone("BEGIN"), took(session), undone("PREPARE TRANSACTION 'w'"), admin.rows("COMMIT PREPARED 'w'")),
        }
        self.story = []
        took(session)
        chance = random.Random()
        for _ in range(3):
            for name in chance.sample(list(events), len(events)):
                self.story.append(name)
                events[name]()
                took(session)
                took(session)
        # Moved to another scope: the scope that the session remembers is not the stream's any more.
        admin.rows(f"SELECT termgate.stream_move('{stream}', '{self.scope} new', 'test', 'test')")
        session.gives("TG005", append)
        session.gives("TG001", f"SELECT termgate.append('{stream}', 4, 'x')")
        for _ in range(2):
            took(session, f"SELECT termgate.append('{stream}', 5, 'x')")
        assert self.numbers(stream) == list(range(1, count[0] + 1))


class Memory(Appends):
    def test_memory_stays_flat(self):
        stream = self.stream("s")
        append = f"SELECT termgate.append('{stream}', 5, 'x')"
        texts = [append] * 4 + [
            f"SELECT termgate.append_many('{stream}', 5, '{{x,y}}', NULL, '{self.scope}')",
            f"SELECT termgate.append('{stream}', 4, 'x')",
            f"SELECT termgate.append('{stream}', 5, 'x', 0)",
            f"BEGIN; SAVEPOINT a; {append}; ROLLBACK TO a; {append}; COMMIT",
            f"SELECT termgate.append('{stream}', 5, repeat('x', 3000)::bytea)",
            f"BEGIN; {append}; ROLLBACK",
        ]
        self.memory_of(self.session(), ["TG001", "TG003"], texts, "VACUUM termgate.streams")


class Changed(OnARig):
    """On a server of its own: the owner changes the tables, and layer 1 does it in SQL then."""

    def test_tables_that_are_no_longer_as_made(self):
        rig = made()
        self.addCleanup(rig.close)
        session = rig.session("app")
        self.addCleanup(session.end)
        append = "SELECT termgate.append('stream', 5, 'x', NULL, 's')"
        session.gives("ok", append, append, append)
        # A change, its undoing, and what an append says meanwhile: also what the owner's role may not do.
        rows_only = "ALTER TABLE termgate.streams %s ROW LEVEL SECURITY"
        refusing = "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ001'; END $$"
        trigger = "CREATE TRIGGER no BEFORE INSERT ON termgate.stream_writes FOR EACH ROW EXECUTE FUNCTION no()"
        for change, undo, expected in (
            (
                "ALTER TABLE termgate.streams ADD CONSTRAINT few CHECK (last_no < 4)",
                "ALTER TABLE termgate.streams DROP CONSTRAINT few",
                "23514",
            ),
            ("CREATE INDEX one ON termgate.stream_writes (lower(scope))", "DROP INDEX termgate.one", "ok"),
            ("CREATE INDEX one ON termgate.stream_writes (term) WHERE term > 7", "DROP INDEX termgate.one", "ok"),
            ("CREATE INDEX one ON termgate.streams USING brin (last_no)", "DROP INDEX termgate.one", "ok"),
            ("REVOKE INSERT ON termgate.stream_writes FROM %s", "GRANT INSERT ON termgate.stream_writes TO %s", "42501"),
            ("REVOKE UPDATE ON termgate.streams FROM %s", "GRANT UPDATE ON termgate.streams TO %s", "42501"),
            (f"{rows_only % 'ENABLE'}; {rows_only % 'FORCE'}", rows_only % "DISABLE", "42501"),
            (f"{refusing}; {trigger}", "DROP TRIGGER no ON termgate.stream_writes; VACUUM termgate.stream_writes", "ZZ001"),
        ):
            change, undo = [text.replace("%s", "termgate_owner") for text in (change, undo)]
            assert session.value(CARRIED_OUT) == "termgate", change
            rig.admin.rows(change)
            assert session.value(CARRIED_OUT) == "", change
            assert session.run(append) == expected, (change, session.errors)
            for statement in undo.split("; "):
                rig.admin.rows(statement)
        # What SQL refuses to update because it is published in a way that needs more than the key.
        if int(rig.major) >= 15:
            rig.admin.rows("CREATE PUBLICATION half FOR TABLE termgate.streams WHERE (last_no > 0)")
            session.gives("42P10", append)
            rig.admin.rows("DROP PUBLICATION half")
        # A plain index of the owner's is kept up, also by updates that leave their page.
        rig.admin.rows("CREATE INDEX by_last ON termgate.streams (last_no); CREATE INDEX by_time ON termgate.stream_writes (created_at)")
        assert session.value(CARRIED_OUT) == "termgate"
        session.gives("ok", *[append] * 20)
        last = rig.value("SELECT last_no FROM termgate.streams")
        rig.admin.rows("SET enable_seqscan = off; SET enable_bitmapscan = off")
        assert rig.value(f"SELECT stream_id FROM termgate.streams WHERE last_no = {last}") == "stream"
        assert rig.value("SELECT count(*) FROM termgate.stream_writes WHERE created_at > '2000-01-01'") == last
        rig.admin.rows("REINDEX TABLE CONCURRENTLY termgate.stream_writes")
        session.gives("ok", append)
        # A column more is filled by SQL, and leaves its place when it is dropped.
        rig.admin.rows("ALTER TABLE termgate.stream_writes ADD COLUMN more text DEFAULT 'there'")
        assert (session.value(CARRIED_OUT), session.run(append)) == ("", "ok")
        assert rig.value("SELECT more FROM termgate.stream_writes ORDER BY sequence_no DESC LIMIT 1") == "there"
        rig.admin.rows("ALTER TABLE termgate.stream_writes DROP COLUMN more")
        assert session.value(CARRIED_OUT) == ""
        rig.admin.rows("DROP INDEX termgate.stream_writes_scope_term")
        assert (session.value(CARRIED_OUT), session.run(append)) == ("", "ok")
