#!/usr/bin/env python3
# Long: a case for each rule of the guard.
"""[F1][F2][F4][F5][F6] The guard in a server: who is guarded and cannot leave,
layer 1's own functions, claims that change, savepoints, two sessions whose
steps are forced, two-phase commit, processes that are exempt, bad input, what others see, and taking it away.

  pytest tests/live/guard/guard_test.py [--library termgate_guard.so] [--major 15] [-k savepoint]
"""
import os
import random
import re
import struct
import threading
import time
import unittest

import pytest

from given import LONG, ROOT
from guard_rig import GUARD, OnARig, chosen, made, sh
from pgraw import Closed, bind, execute, function_call, parse, query, sync

CHOSEN = chosen()


def codes(messages):
    return [message.fields()["C"] for message in messages if message.type == "E"]


class Guarded(OnARig):
    def setUp(self):
        self.rig.admin.rows("DELETE FROM t; TRUNCATE log")

    def raise_to(self, term, scope=None):
        return self.rig.admin.value(f"SELECT (termgate.seal('{scope or self.scope}', {term})).fence")

    def rows(self):
        return int(self.rig.value("SELECT count(*) FROM t"))


class Settings(Guarded):
    def test_the_guarded_role_cannot_turn_it_off(self):
        session = self.session()
        for statement in (
            "SET termgate.guard = off",
            "SET LOCAL termgate.guard = off",
            "SELECT set_config('termgate.guard', 'off', false)",
            "ALTER ROLE app SET termgate.guard = off",
            "ALTER ROLE app RESET termgate.guard",
            "ALTER ROLE app RESET ALL",
            "ALTER SYSTEM SET termgate.guard = off",
            "SET SESSION AUTHORIZATION postgres",
            "UPDATE pg_settings SET setting = 'off' WHERE name = 'termgate.guard'",
            "CREATE FUNCTION off() RETURNS int LANGUAGE sql SET termgate.guard = off AS 'SELECT 1'",
            "LOAD 'auto_explain'",
            "SET termgate.guarded = off",
        ):
            session.run(statement)
            assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002", statement
        assert session.run("RESET ALL", "DISCARD ALL", "RESET termgate.guard") == "42501"
        assert session.value("SHOW termgate.guard") == "enforce"
        assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002"

    def test_nor_at_the_start(self):
        for parameters in (
            [("options", "-c termgate.guard=off")],
            [("termgate.guard", "off")],
            [("TERMGATE.GUARD", "observe")],
            [("options", "-c termgate.guarded=off")],
        ):
            with pytest.raises(Closed) as refused:
                self.rig.session("app", parameters=parameters)
            assert codes(refused.value.messages)[0] in ("42501", "55P02")
        for parameters in ([("options", "-c session_preload_libraries=")], [("options", "-c local_preload_libraries=auto_explain")]):
            try:
                with self.rig.session("app", parameters=parameters) as session:
                    assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002"
            except Closed:
                pass

    def test_a_superusers_set_does_not_leak_away_by_reset_all(self):
        session = self.session("postgres")
        assert session.run("SET termgate.guard = enforce", "SET SESSION AUTHORIZATION free", "RESET ALL", "DISCARD ALL") == "ok"
        assert session.run("SET SESSION AUTHORIZATION free", "INSERT INTO t VALUES (1, 1)") == "TG002"

    def test_a_database_is_guarded(self):
        self.rig.admin.rows("CREATE DATABASE whole")
        self.addCleanup(self.rig.admin.rows, "DROP DATABASE whole")
        self.rig.admin.rows("ALTER DATABASE whole SET termgate.guard = enforce")
        with self.rig.session("postgres", database="whole") as session:
            assert session.run("CREATE TABLE t (v int)") == "TG004", "no layer 1 there: closed"
            assert "extension termgate_guard was not created" in session.message()
        with self.rig.session("postgres", database="whole", options="-c termgate.guard=off") as session:
            session.gives(
                "ok",
                (
                    "CREATE TABLE t (v int) | INSERT INTO t VALUES (1) | CREATE SCHEMA termgate | CREATE EXTENSION termgate_guard SCHEMA"
                    " termgate"
                ),
            )
        with self.rig.session("postgres", database="whole") as session:
            assert session.run("INSERT INTO t VALUES (2)") == "TG004"
            assert "termgate init" in session.errors[0]["H"]
            assert session.run("SELECT * FROM t", "VACUUM (DISABLE_PAGE_SKIPPING) t") == "TG004"

    def test_the_ratchet(self):
        for on in (
            "SET termgate.guard_session = on",
            "BEGIN; SET LOCAL termgate.guard_session = on; ROLLBACK",
            "SELECT termgate.guard_session()",
        ):
            session = self.session("free")
            session.gives("ok", "INSERT INTO t VALUES (1, 1)", "DELETE FROM t")
            session.gives("ok", on)
            assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002", on
            assert session.run("SET termgate.guard_session = off") != "ok"
            for statement in (
                "RESET termgate.guard_session",
                "RESET ALL",
                "DISCARD ALL",
                "BEGIN; SET LOCAL termgate.guard_session = off; COMMIT",
                "SELECT set_config('termgate.guard_session', 'off', false)",
            ):
                session.run(statement, "ROLLBACK")
                assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002", statement
            assert session.value("SHOW termgate.guard_session") == "on"
            session.gives(
                "ok", f"SET termgate.scope = '{self.scope}' | SET termgate.term = 5 | INSERT INTO t VALUES (1, 1) | DELETE FROM t"
            )
        session = self.session("free", options="-c termgate.guard_session=on")
        assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002"
        session = self.session("free")
        session.gives(
            "TG002",
            "BEGIN | INSERT INTO t VALUES (1, 1) | SELECT termgate.guard_session() | COMMIT",
            why="what it wrote before is not committed either",
        )
        assert self.rows() == 0

    def test_a_required_lease_is_looked_at_after_all_deferred_triggers(self):
        self.rig.admin.rows(
            "CREATE TABLE slow (n int); GRANT ALL ON slow TO lead;"
            " CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.8); RETURN NULL; END';"
            " CREATE CONSTRAINT TRIGGER sleeps AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sleeps()"
        )
        term = int(self.rig.admin.rows(f"SELECT term FROM termgate.acquire_lease('{self.scope}', 'me', interval '1 s')")[0][0])
        session = self.session("lead", term)
        require = f"SELECT termgate.require_lease('{self.scope}', 'me')"
        session.gives("ok", "BEGIN", require, "INSERT INTO t VALUES (1, 1)", "COMMIT")
        # The trigger is queued after the look of the constraint trigger.
        renew = f"SELECT renewed FROM termgate.renew_lease('{self.scope}', 'me', {term}, interval '600 ms')"
        assert session.run(renew, "BEGIN", require, "INSERT INTO t VALUES (2, 1)", "INSERT INTO slow VALUES (1)", "COMMIT") == "TG007"
        assert self.rows() == 1
        assert self.rig.value("SELECT count(*) FROM slow") == "0"

    def test_observe_lets_pass_and_counts(self):
        before = {row[0]: int(row[1]) for row in self.rig.admin.rows("SELECT * FROM termgate.guard_observed")}
        session = self.session("watched")
        claims = f"SET termgate.scope = '{self.scope}' | SET termgate.term = 3", *(f"SET termgate.term = {term}" for term in ("'x'", 77, 5))
        session.gives(
            "ok", "INSERT INTO t VALUES (1, 1)", *(f"{claim} | INSERT INTO t VALUES ({n}, 1)" for n, claim in enumerate(claims, 2))
        )
        session.gives("ok", "NOTIFY c | SELECT nextval('q') | BEGIN READ ONLY | NOTIFY c | COMMIT")
        after = {row[0]: int(row[1]) for row in self.rig.admin.rows("SELECT * FROM termgate.guard_observed")}
        assert {code: after[code] - before[code] for code in after} == {
            "TG001": 1,
            "TG002": 1,
            "TG004": 0,
            "TG005": 2,
            "TG006": 0,
            "40001": 0,
        }
        assert self.rows() == 5
        assert "termgate_guard observes what it would have refused: TG002" in self.rig.log()

    def test_process_exit_drops_temporary_tables(self):
        session = self.session(term=5)
        assert session.run("CREATE TEMP TABLE passing (a int)", "INSERT INTO passing VALUES (1)") == "ok"
        pid = session.pid
        session.end()
        self.rig.wait_until(f"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})")
        assert self.rig.value("SELECT count(*) FROM pg_class WHERE relname = 'passing'") == "0"
        session = self.session(term=5)
        session.gives("ok", "CREATE TEMP TABLE passing (a int) ON COMMIT DELETE ROWS", "RESET termgate.term", "DISCARD ALL")

    def test_the_list_of_functions_is_the_servers(self):
        source = (ROOT / "guard" / "statements.c").read_text(encoding="utf-8")
        listed = re.findall(r"^    (\d+), +// (\w+)$", source, re.M)
        oids = ", ".join(oid for oid, _ in listed)
        found = self.rig.admin.rows(f"SELECT oid, proname FROM pg_proc WHERE oid IN ({oids}) ORDER BY oid")
        assert [tuple(row) for row in found] == listed, "each by its name, in ascending order"
        # Whatever this server has besides that writes and is volatile must be looked at by somebody.
        writing = "^(lo_|lowrite|nextval|setval|pg_notify|pg_logical_(emit|slot_get)|pg_(create|drop|copy|switch)_|pg_replication_slot_adv)"
        writing += "|^pg_replication_origin_(create|drop|adv)"
        others = self.rig.admin.rows(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v'"
            f" AND proname ~ '{writing}' AND oid NOT IN ({oids})"
        )
        assert {name for name, in others} <= {"lo_close", "lo_get", "lo_lseek", "lo_lseek64", "lo_open", "lo_tell", "lo_tell64"}


class Claims(Guarded):
    def test_a_pass_by_arguments_counts(self):
        session = self.session()
        session.gives("ok", "BEGIN", f"SELECT termgate.check_term('{self.scope}', 5)", "INSERT INTO t VALUES (1, 1)", "COMMIT")
        session.gives("ok", f"INSERT INTO t SELECT 2, 2 WHERE termgate.check_term('{self.scope}', 5) IS NOT NULL")
        assert session.run(f"INSERT INTO t SELECT 3, 3 WHERE termgate.check_term('{self.scope}', 4) IS NOT NULL") == "TG001"
        session.gives(
            "TG002",
            f"INSERT INTO t SELECT 3, 3 WHERE false AND termgate.check_term('{self.scope}', 5) IS NOT NULL",
            why="the planner has taken the check away",
        )
        session.gives(
            "TG002",
            f"WITH w AS (INSERT INTO t VALUES (3, 3)) SELECT CASE WHEN false THEN termgate.check_term('{self.scope}', 5) END",
            why="a check that is never run is none",
        )
        session.gives(
            "ok", "BEGIN", f"SELECT termgate.append('stream', 5, 'x', scope => '{self.scope}')", "INSERT INTO t VALUES (4, 1) | COMMIT"
        )
        session.gives(
            "ok", f"BEGIN | SELECT termgate.check_claim_text('{self.scope}', 5, NULL, NULL) | INSERT INTO t VALUES (5, 1) | COMMIT"
        )
        session.gives(
            "ok", f"BEGIN | SELECT termgate.check_claim_text('{self.scope}', 5, NULL, NULL) | INSERT INTO t VALUES (6, 1) | COMMIT"
        )
        assert session.run("INSERT INTO t VALUES (7, 1)") == "TG002", "a pass ends with its transaction"
        assert session.run(f"SELECT termgate.guard_passed('{self.scope}', 5)") == "42501", "only layer 1 may say so"
        assert session.run("SELECT termgate.guard_layer1_call(true)") == "42501"
        assert self.rows() == 5

    def test_a_raise_by_check_term_counts(self):
        session = self.session()
        session.gives("ok", "BEGIN", f"SELECT termgate.check_term('{self.scope}', 6)", "INSERT INTO t VALUES (1, 1)", "COMMIT")
        assert self.session(term=5).run("INSERT INTO t VALUES (2, 1)") == "TG001"

    def test_another_claim_is_checked_too(self):
        session = self.session(term=5)
        other = "other"
        for claim, wanted in (
            (f"'{other}', '9'", "ok"),
            (f"'{other}', '8'", "TG001"),
            ("'nowhere', '1'", "TG005"),
            (f"'{self.scope}', '6'", "TG005"),
            (f"'{self.scope}', '4'", "TG001"),
            (f"'{self.scope}', 'x'", "TG005"),
            ("'', ''", "ok"),
        ):
            scope, term = claim.split(", ")
            got = session.run(
                f"BEGIN | INSERT INTO t VALUES (1, 1) | SET LOCAL termgate.scope = {scope} | SET LOCAL termgate.term = {term} | INSERT INTO"
                " t VALUES (2, 2) | COMMIT"
            )
            assert got == wanted, f"{claim}: {session.errors}"
            assert self.rows() == (2 if wanted == "ok" else 0), claim
            self.rig.admin.rows("DELETE FROM t")

    def test_a_claim_that_came_after_the_last_write_is_asked_at_the_commit(self):
        session = self.session(term=5)
        assert session.run("BEGIN", "INSERT INTO t VALUES (1, 1)", "SET LOCAL termgate.term = 4", "SELECT 1", "COMMIT") == "TG001"
        assert session.run("BEGIN", "INSERT INTO t VALUES (1, 1)", "SET LOCAL termgate.term = 4", "COMMIT") == "ok", "nothing ran under it"
        assert session.run("BEGIN", "INSERT INTO t VALUES (2, 1)", "SET LOCAL termgate.term = ''", "SELECT 1", "COMMIT") == "ok"
        # Written by what no hook sees, under a claim that is stale by then.
        session.gives(
            "TG001",
            "BEGIN | SELECT nextval('q')",
            "DO $$ BEGIN FOR i IN 1..2 LOOP PERFORM nextval('q'); PERFORM set_config('termgate.term', '4', true); END LOOP; END $$",
            "COMMIT",
        )
        # The same by an expression that calls no hook the second time.
        body = "DECLARE x text; BEGIN FOR i IN 1..2 LOOP x := nextval('q'); x := set_config('termgate.term', '4', true); END LOOP; END"
        assert session.run("BEGIN", f"DO $$ {body} $$", "COMMIT") == "TG001"
        assert session.run(f"DO $$ {body.replace('nextval', 'length')} $$") == "ok", "what only reads under a stale claim"

    def test_a_role_without_any_grant(self):
        for term, wanted in ((None, "TG002"), (4, "TG001"), ("x", "TG005"), (5, "ok")):
            session = self.session("plain", term=term)
            assert session.run("INSERT INTO t VALUES (1, 1)") == wanted, session.errors

    def test_a_serial_column_and_a_check_in_the_same_statement(self):
        self.rig.admin.rows("CREATE TABLE numbered (id serial, v int); GRANT ALL ON numbered, numbered_id_seq TO PUBLIC")
        self.addCleanup(self.rig.admin.rows, "DROP TABLE numbered")
        session = self.session()
        insert = "INSERT INTO numbered (v) SELECT 1 WHERE termgate.check_term('%s', %s) IS NOT NULL"
        session.gives("ok", insert % (self.scope, 5))
        assert session.run(insert % (self.scope, 4)) == "TG001"
        assert session.run("INSERT INTO numbered (v) VALUES (2)") == "TG002"
        session.gives(
            "TG002",
            f"INSERT INTO numbered (v) SELECT lo_create(0)::int WHERE termgate.check_term('{self.scope}', 5) IS NOT NULL",
            why="only numbers are given on credit",
        )
        # Numbers for that statement's own defaults, and for no other.
        last = "SELECT last_value FROM q"
        before = self.rig.value(last)
        merely_named = f"INSERT INTO t SELECT 1, 1 WHERE false AND termgate.check_term('{self.scope}', 5) IS NOT NULL"
        assert session.run("BEGIN", merely_named, "SELECT nextval('q') FROM generate_series(1, 100)", "COMMIT") == "TG002"
        assert session.run("ROLLBACK", merely_named) == "TG002"
        assert self.rig.value(last) == before
        assert self.rig.value("SELECT count(*) FROM numbered") == "1"

    def test_an_append_that_happened_stands_for_no_check(self):
        one = f"SELECT termgate.append('{self.scope}', 5, 'x', scope => '{self.scope}', write_id => '{{}}')"
        known, other = [f"00000000-0000-4000-8000-{int(self.scope[5:]) * 10 + number:012}" for number in range(2)]
        row, session = "INSERT INTO log VALUES (1)", self.session()
        assert session.run(one.format(known)) == "ok"
        assert session.run("BEGIN", one.format(known), row) == "TG002"
        session.run("ROLLBACK")
        # One that is new is a check, before and after it; and what was passed before an old one stays passed.
        assert session.run("BEGIN", one.format(other), one.format(known), row, "COMMIT") == "ok"
        assert session.run("BEGIN", f"SELECT termgate.check_term('{self.scope}', 5)", one.format(known), row, "COMMIT") == "ok"
        assert session.run("BEGIN", one.format(known), f"SELECT termgate.check_term('{self.scope}', 5)", row, "COMMIT") == "ok"
        # Its number is given once.
        assert session.value(one.format(known)) == "1"

    def test_comments(self):
        row, s = "INSERT INTO log VALUES (1)", self.scope
        good, stale = [f"/*termgate.scope='{s}',termgate.term='{term}'*/" for term in (5, 4)]
        session = self.session()
        for text, wanted in (
            (f"{good} {row}", "ok"),
            (f"{row} {good}", "ok"),
            (f"{row}; {good}", "ok"),
            (f"-- one line\n/* any, /* nested */ */ {good} {row}", "ok"),
            (f"/*traceparent='00-a',termgate.term='5',termgate.scope='{s.replace('s', '%73')}',route='%2Fx'*/ {row}", "ok"),
            (f"{stale} {row}", "TG001"),
            (f"{row} {stale}", "TG001"),
            (f"{good} {row} {stale}", "TG005"),
            (f"INSERT INTO log {good} VALUES (1)", "TG002"),
            (f"INSERT INTO log SELECT length('{good.replace(chr(39), chr(34))}') /* x */", "TG002"),
            (f"INSERT INTO log SELECT length($a$ {good} $a$)", "TG002"),
            (f"INSERT INTO log SELECT length(E'\\'{good.replace(chr(39), chr(34))}')", "TG002"),
            (f"/*termgate.scope='{s}'*/ {row}", "TG002"),
            (f"/*termgate.term='5'*/ {row}", "TG002"),
            (f"/*termgate.scope='{s}',termgate.term='x'*/ {row}", "TG005"),
            (f"/*termgate.scope='{s}',termgate.term='{10**30}'*/ {row}", "TG005"),
            (f"/*termgate.scope='{s}' termgate.term='5'*/ {row}", "TG005"),
            (f"/*Termgate.Scope='{s}',termgate.term='5'*/ {row}", "TG005"),
            (f"/*termgate.scope='{s}',termgate.term='5*/ {row}", "TG005"),
            (f"/*termgate.scope='%zz',termgate.term='5'*/ {row}", "TG005"),
            (f"/*termgate.scope='a%00b',termgate.term='5'*/ {row}", "TG005"),
            (f"/*termgate.scope='%ff%fe',termgate.term='5'*/ {row}", "TG005"),
            (f"/*termgate.scope='{'x' * 5000}',termgate.term='5'*/ {row}", "TG005"),
            (f"/*termgate.scope='{'x' * 201}',termgate.term='5'*/ {row}", "TG005"),
            # Each statement of a text has its own.
            (f"{good} {row}; {row}", "ok"),
            (f"BEGIN; {good} {row}; {stale} {row}; COMMIT", "TG001"),
            (f"SELECT 1; {row} {stale}; SELECT 2", "TG001"),
            (f"SELECT 1; {row} {good}; SELECT 2", "ok"),
            # What the statement runs.
            (f"DO $$ BEGIN {row}; {row}; END $$ {good}", "ok"),
            (f"DO $$ BEGIN {row}; COMMIT; {row}; END $$ {stale}", "TG001"),
            (f"DO $$ DECLARE r record; BEGIN FOR r IN SELECT 1 LOOP {row}; END LOOP; END $$ {good}", "ok"),
            (f"{good} SELECT nextval('q')", "ok"),
            (f"{stale} NOTIFY x", "TG001"),
            (f"{stale} SELECT 1", "ok"),
        ):
            assert session.run(text) == wanted, f"{text}: {session.message()}"
            session.run("ROLLBACK")
        # By Parse, for good; and beside what the session declares.
        for number, (comment, wanted) in enumerate(((good, []), (stale, ["TG001"]))):
            session.send(parse(f"p{number}", f"{comment} {row}"), bind("", f"p{number}"), execute(), sync())
            assert codes(session.until("Z")) == wanted
        session.rows(f"SET termgate.scope = '{s}'; SET termgate.term = 4")
        session.gives("ok", f"{good} {row}", f"/*termgate.term='5'*/ {row}")
        assert session.run(row) == "TG001"
        assert session.run("BEGIN", f"{good} {row}", "SELECT 1", row, "COMMIT") == "TG001"
        session.run("ROLLBACK")
        session.gives("ok", "BEGIN", f"{good} {row}", "COMMIT")
        session.rows("SET termgate.term = 5")
        assert session.run("BEGIN", row, f"{stale} {row}", "COMMIT") == "TG001"
        session.run("ROLLBACK")
        # Nothing that is not guarded looks at comments.
        with self.rig.session("free") as free:
            free.gives("ok", f"{stale} {row}", f"/*termgate.scope='x*/ {row}")

    def test_a_functions_own_claim(self):
        self.rig.admin.rows(
            f"CREATE OR REPLACE FUNCTION writes_for_s(n int) RETURNS int LANGUAGE plpgsql SET termgate.scope = '{self.scope}' SET"
            " termgate.term = '5' AS 'BEGIN INSERT INTO t VALUES (n, n); RETURN n; END'"
        )
        session = self.session()
        session.gives("ok", "SELECT writes_for_s(1)")
        assert session.run("INSERT INTO t VALUES (2, 2)") == "TG002"
        session = self.session(term=4)
        session.gives("ok", "SELECT writes_for_s(2)")
        assert session.run("BEGIN", "SELECT writes_for_s(3)", "INSERT INTO t VALUES (4, 4)", "COMMIT") == "TG001"
        assert self.rows() == 2

    def test_savepoints(self):
        check, s = "SELECT termgate.check_term('%s', %d)", self.scope
        for number, (term, wanted, script) in enumerate(
            (
                (5, "ok", "SAVEPOINT a | ROW | ROLLBACK TO a | ROW"),
                (None, "TG002", f"SAVEPOINT a | {check % (s, 5)} | ROLLBACK TO a | ROW"),
                (None, "ok", f"{check % (s, 5)} | SAVEPOINT a | ROW | ROLLBACK TO a | ROW"),
                (None, "ok", f"SAVEPOINT a | SAVEPOINT b | {check % (s, 5)} | RELEASE b | RELEASE a | ROW"),
                (None, "TG002", f"SAVEPOINT a | SAVEPOINT b | {check % (s, 5)} | RELEASE b | ROLLBACK TO a | ROW"),
                (None, "ok", f"DO $$ BEGIN BEGIN PERFORM {check[7:] % (s, 5)}; EXCEPTION WHEN OTHERS THEN NULL; END; ROW; END $$"),
                # A raise that the session itself has made in a savepoint is undone with it.
                (7, "TG005", f"SAVEPOINT a | {check % (s, 7)} | ROLLBACK TO a | ROW"),
            )
        ):
            script = script.replace("ROW", f"INSERT INTO t VALUES ({number}, 1)")
            self.session(term=term).gives(wanted, f"BEGIN | {script} | COMMIT", why=script)
        seal = f"SAVEPOINT a | SELECT termgate.seal('{s}', 7) | INSERT INTO t VALUES (10, 6) | RELEASE a"
        later = "SAVEPOINT b | INSERT INTO t VALUES (11, 7) | ROLLBACK TO b | INSERT INTO t VALUES (12, 8)"
        self.session("lead", term=7).gives("ok", "BEGIN", seal, later, "COMMIT")
        assert self.rows() == 6

    def test_layer1s_own_functions_work_for_a_guarded_role(self):
        session = self.session("lead")
        scope = self.scope + "leased"
        assert session.value(f"SELECT acquired FROM termgate.acquire_lease('{scope}', 'me', '10 s')") == "t"
        assert session.value(f"SELECT renewed FROM termgate.renew_lease('{scope}', 'me', 1, '10 s')") == "t"
        assert session.value(f"SELECT termgate.append('{scope}', 1, 'x')") == "1"
        assert session.value(f"SELECT termgate.append_many('{scope}', 1, ARRAY['x', 'y']::bytea[])") == "3"
        assert session.value(f"SELECT termgate.append('{scope}', 1, 'x', write_id => gen_random_uuid())") == "4"
        assert session.value(f"SELECT fresh FROM termgate.claim_write('{scope}', 1, gen_random_uuid())") == "t"
        assert session.value(f"SELECT fence FROM termgate.seal('{self.scope}', 6)") == "6"
        assert session.value(f"SELECT termgate.check_term('{self.scope}', 8)") == "8"
        assert session.value(f"SELECT termgate.release_lease('{scope}', 'me', 1)") == "t"
        assert session.value(f"SELECT term FROM termgate.acquire_lease('{scope}', 'me', '10 s')") == "2"
        assert session.run(f"SELECT termgate.check_term('{scope}', 1)") == "TG001", "and the refusal is layer 1's"
        assert session.run("SELECT * FROM termgate.doctor()", "SELECT * FROM termgate.fence_list" if False else "SELECT 1") == "ok"
        assert int(self.rig.value("SELECT count FROM termgate.refusal_counts WHERE code = 'TG001'")) > 0
        # None of them is a way in for something else. A release notifies by itself, and so much is layer 1's.
        session.gives(
            "TG002", f"BEGIN | SELECT termgate.release_lease('{scope}', 'me', 2) | SELECT pg_notify('termgate_leases', 'x') | COMMIT"
        )
        session.gives("TG002", "BEGIN", f"SELECT termgate.renew_lease('{scope}', 'me', 2, '10 s')", "INSERT INTO t VALUES (1, 1)", "COMMIT")
        assert session.run("BEGIN", f"SELECT termgate.renew_lease('{scope}', 'me', 2, '10 s')", "SELECT lo_create(0)", "COMMIT") == "TG002"
        session.gives(
            "TG002", f"BEGIN | SELECT termgate.seal('{self.scope}', 9) | INSERT INTO t VALUES (1, 1) | COMMIT", why="a seal is no check"
        )
        session.gives(
            "TG002", f"WITH w AS (INSERT INTO t VALUES (1, 1) RETURNING 1) SELECT termgate.seal('{self.scope}', 9), count(*) FROM w"
        )
        assert session.run("BEGIN", f"SELECT termgate.seal('{self.scope}', 9)", "SELECT pg_notify('c', 'x')", "COMMIT") == "TG002"
        assert self.rows() == 0

    def test_very_many_scopes_in_one_transaction(self):
        for first in (1, 101, 201):
            self.rig.admin.rows(f"SELECT count(termgate.seal('{self.scope}many' || g, 3)) FROM generate_series({first}, {first + 99}) g")
        session = self.session()
        body = f"""DO $$ BEGIN FOR i IN 1..300 LOOP
          PERFORM set_config('termgate.scope', '{self.scope}many' || i, true), set_config('termgate.term', '3', true);
          INSERT INTO t VALUES (i, 1); END LOOP; END $$"""
        session.gives("ok", "BEGIN", body)
        assert int(self.rig.value(f"SELECT count(*) FROM pg_locks WHERE pid = {session.pid} AND locktype = 'advisory'")) < 150
        # Each of them is held all the same.
        for number in (7, 299):
            with self.rig.session("lead") as leader:
                assert leader.run("SET statement_timeout = '300ms'", f"SELECT termgate.seal('{self.scope}many{number}', 4)") == "57014"
        assert session.run("COMMIT") == "ok"
        assert self.rows() == 300
        session.gives(
            "TG001", body.replace("(i, 1)", "(i + 1000, 1)").replace("'3', true)", "CASE WHEN i = 250 THEN '2' ELSE '3' END, true)")
        )
        assert self.rows() == 300

    def test_scopes_of_200_code_points_and_odd_names(self):
        for scope in ("é" * 200, "€" * 200, "𝄞" * 200, "a b", "quote'd", 'double"', "back\\slash", "|", " "):
            quoted = scope.replace("'", "''")
            self.rig.admin.rows(f"SELECT termgate.seal('{quoted}', 5)")
            session = self.session()
            for term, wanted in ((4, "TG001"), (5, "ok")):
                assert (
                    session.run(
                        f"SET termgate.scope = '{quoted}' | SET termgate.term = {term} | INSERT INTO t VALUES (1, 1) | DELETE FROM t"
                    )
                    == wanted
                ), f"{scope}: {session.errors}"
        session = self.session()
        assert session.run(f"SET termgate.scope = '{'é' * 201}'", "SET termgate.term = 5", "INSERT INTO t VALUES (1, 1)") == "TG005"
        assert session.run(f"SET termgate.scope = '{'x' * 100000}'", "INSERT INTO t VALUES (1, 1)") == "TG005"
        session.gives("ok", f"SET termgate.scope = '{self.scope}'", "SET termgate.term = '005'", "INSERT INTO t VALUES (1, 1)")
        for term in ("0", "5 ", "+5", "5.0", "0x5", "4611686018427387905", "9" * 19, "9" * 5000, "-5"):
            assert session.run(f"SET termgate.term = '{term}'", "INSERT INTO t VALUES (2, 2)") == "TG005", term
        session.gives(
            "TG005", "SET termgate.term = '4611686018427387904' | INSERT INTO t VALUES (2, 2)", why="the highest term is above this fence"
        )


class Interleaved(Guarded):
    def test_a_raise_evicts_a_session_that_rolled_back_to_a_savepoint(self):
        session = self.session(term=5)
        assert session.run("BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1, 1)", "ROLLBACK TO a") == "ok"
        self.raise_to(6)
        with pytest.raises((Closed, ConnectionError)):
            session.run("INSERT INTO t VALUES (2, 2)", "COMMIT")
        assert self.rows() == 0

    def test_no_sql_gives_the_lock_up(self):
        session = self.session(term=5)
        session.gives(
            "ok",
            "BEGIN | INSERT INTO t VALUES (1, 1) | SELECT pg_advisory_unlock_all()",
            "DO $$ BEGIN PERFORM pg_advisory_unlock_all(); END $$",
            "SAVEPOINT a | ROLLBACK TO a",
        )
        leader = self.session("lead")
        assert leader.run("SET statement_timeout = '300ms'", f"SELECT termgate.seal('{self.scope}', 6)") == "57014"
        assert session.run("COMMIT") == "ok"
        assert self.raise_to(6) == "6"

    def test_a_write_waits_for_a_raise_and_is_refused(self):
        leader = self.session("lead")
        assert leader.run("BEGIN", f"SELECT termgate.seal('{self.scope}', 6)") == "ok"
        writers = {term: self.session(term=term) for term in (5, 6)}
        for term, writer in writers.items():
            writer.start(f"INSERT INTO t VALUES ({term}, {term})")
        self.rig.wait_until("SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE NOT granted")
        assert leader.run("COMMIT") == "ok"
        assert writers[5].finish() == "TG001"
        # Its own term, but its statement began before the raise.
        assert writers[6].finish() == "40001"
        assert writers[6].run("INSERT INTO t VALUES (6, 6)") == "ok"

    def test_data_that_is_older_than_the_raise(self):
        old, new, leader = self.session(term=5), self.session(term=6), self.session("lead")
        assert old.run("BEGIN", "INSERT INTO t VALUES (1, 1)") == "ok"
        leader.start(f"SELECT termgate.seal('{self.scope}', 6, '5 s')")
        self.waits(leader)
        new.start("INSERT INTO log SELECT count(*) FROM t")
        self.waits(new)
        assert old.run("COMMIT") == "ok"
        assert leader.finish() == "ok"
        assert new.finish() == "40001", "it would have counted without its predecessor's row"
        assert new.run("INSERT INTO log SELECT count(*) FROM t") == "ok"
        assert self.rig.value("SELECT n FROM log") == "1"

    def test_the_same_behind_a_function_and_on_a_protected_table(self):
        self.rig.admin.rows(
            "CREATE FUNCTION logs(n bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (n); RETURN n; END';"
            "CREATE TABLE scoped (scope text, n bigint); GRANT ALL ON scoped TO PUBLIC; SELECT termgate.protect('scoped', 'scope')"
        )
        self.addCleanup(self.rig.admin.rows, "DROP TABLE scoped; DROP FUNCTION logs")
        for next_term, declared, text in (
            (6, 6, "SELECT logs((SELECT count(*) FROM t))"),
            (
                7,
                None,
                f"INSERT INTO scoped SELECT '{self.scope}', count(*) FROM t HAVING termgate.check_term('{self.scope}', 7) IS NOT NULL",
            ),
        ):
            new, leader = self.session(term=declared), self.session("lead")
            assert leader.run("BEGIN", f"SELECT termgate.seal('{self.scope}', {next_term})") == "ok"
            new.start(text)
            self.waits(new)
            assert leader.run("COMMIT") == "ok"
            assert new.finish() == "40001", text
            new.gives("ok", text, text)
        assert self.rig.value("SELECT count(*) FROM scoped") == "2"

    def test_repeatable_read_that_is_older_than_the_raise(self):
        for level in ("REPEATABLE READ", "SERIALIZABLE"):
            for term, wanted in ((6, "40001"), (5, "TG001")):
                self.rig.admin.rows(f"SELECT termgate.seal('{self.scope}{level}{term}', 5)")
                session = self.session(term=term, scope=f"{self.scope}{level}{term}".replace(" ", "\\ "))
                assert session.run(f"BEGIN ISOLATION LEVEL {level}", "SELECT * FROM t") == "ok"
                self.raise_to(6, f"{self.scope}{level}{term}")
                assert session.run("INSERT INTO t VALUES (1, 1)", "COMMIT") == wanted
                session.run("ROLLBACK")
        # A lock first, the snapshot later: as it works without the guard.
        session = self.session(term=5)
        session.gives("ok", "BEGIN ISOLATION LEVEL REPEATABLE READ | LOCK TABLE t IN ROW EXCLUSIVE MODE | UPDATE t SET v = v + 1 | COMMIT")
        session.gives("ok", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1", "INSERT INTO t VALUES (1, 1)", "COMMIT")

    def test_a_procedure_between_whose_transactions_the_fence_rises(self):
        self.rig.admin.rows(
            "CREATE OR REPLACE PROCEDURE in_two() LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (1, 1); COMMIT; PERFORM pg_sleep(1);"
            " INSERT INTO t VALUES (2, 2); COMMIT; INSERT INTO t VALUES (3, 3); END'"
        )
        session = self.session(term=5)
        session.start("CALL in_two()")
        self.rig.wait_until("SELECT count(*) = 1 FROM t")
        self.raise_to(6)
        assert session.finish() == "TG001"
        assert self.rows() == 1

    def test_a_wait_has_an_end_and_can_be_cancelled(self):
        leader, writer = self.session("lead"), self.session(term=5)
        assert leader.run("BEGIN", f"SELECT termgate.seal('{self.scope}', 6)") == "ok"
        assert writer.run("SET statement_timeout = '200ms'", "INSERT INTO t VALUES (1, 1)") == "57014"
        assert writer.run("SET statement_timeout = 0", "SET lock_timeout = '100ms'", "INSERT INTO t VALUES (1, 1)") == "TG006"
        assert "lead" in writer.message()
        self.rig.admin.rows("SELECT termgate.set_setting('check_wait_ms', '300')")
        self.addCleanup(self.rig.admin.rows, "SELECT termgate.set_setting('check_wait_ms', '5000')")
        begun = time.monotonic()
        assert writer.run("SET lock_timeout = 0", "BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (1, 1)") == "TG006"
        assert time.monotonic() - begun < 3
        assert leader.run("ROLLBACK") == "ok"
        assert writer.run("ROLLBACK TO a", "INSERT INTO t VALUES (1, 1)", "COMMIT") == "ok", "after a cancelled wait all is as before"

    def test_fences_that_somebody_has_locked_by_hand(self):
        self.rig.admin.rows("SELECT termgate.set_setting('check_wait_ms', '300')")
        self.addCleanup(self.rig.admin.rows, "SELECT termgate.set_setting('check_wait_ms', '5000')")
        for lock, wanted in (
            ("LOCK TABLE termgate.fences IN ACCESS EXCLUSIVE MODE", "TG006"),
            ("LOCK TABLE termgate.fences IN EXCLUSIVE MODE", "ok"),
            ("SELECT * FROM termgate.fences FOR UPDATE", "ok"),
            (f"SELECT pg_advisory_xact_lock(termgate._queue_key('{self.scope}'))", "TG006"),
            (f"SELECT pg_advisory_xact_lock(termgate._turnstile_key('{self.scope}'))", "TG006"),
        ):
            with self.rig.session("postgres") as holder:
                holder.rows(f"BEGIN; {lock}")
                for script in (["INSERT INTO log VALUES (1)"], ["BEGIN", "SAVEPOINT a", "SELECT txid_current()", "COMMIT"]):
                    writer = self.session(term=5)
                    writer.rows("SET lock_timeout = '500ms'")
                    assert writer.run(*script) == wanted, (lock, script, writer.errors)
                    if wanted != "ok":
                        assert str(holder.pid) in writer.message(), lock
                    writer.run("ROLLBACK")
                holder.rows("ROLLBACK")
            assert writer.run("INSERT INTO log VALUES (1)") == "ok", (lock, writer.errors)

    def test_a_write_goes_on_while_another_scope_is_raised(self):
        leader, writer = self.session("lead"), self.session(term=5)
        self.rig.admin.rows(f"SELECT termgate.seal('{self.scope}b', 1)")
        assert leader.run("BEGIN", f"SELECT termgate.seal('{self.scope}b', 2)") == "ok"
        assert writer.run("SET statement_timeout = '2s'", "INSERT INTO t VALUES (1, 1)") == "ok"


class TwoPhase(Guarded):
    def tearDown(self):
        for (gid,) in self.rig.admin.rows("SELECT gid FROM pg_prepared_xacts"):
            self.rig.admin.rows(f"ROLLBACK PREPARED '{gid}'")

    def test_prepared_transactions(self):
        session, stranger = self.session(term=5), self.session()
        session.gives("ok", "BEGIN", "INSERT INTO t VALUES (1, 1)", "PREPARE TRANSACTION 'mine'")
        assert stranger.run("COMMIT PREPARED 'mine'") == "TG002"
        assert stranger.run("ROLLBACK PREPARED 'mine'") == "TG002"
        assert self.session(term=4).run("ROLLBACK PREPARED 'mine'") == "TG001"
        leader = self.session("lead")
        assert leader.run("SELECT termgate.seal('%s', 6, '100 ms')" % self.scope) == "TG006"
        assert 'prepared transaction "mine"' in leader.message()
        session.gives("ok", "COMMIT PREPARED 'mine'")
        assert self.raise_to(6) == "6"
        assert self.rows() == 1
        assert session.run("BEGIN", "INSERT INTO t VALUES (2, 1)", "PREPARE TRANSACTION 'mine'") == "TG001"
        assert stranger.run("BEGIN", "PREPARE TRANSACTION 'empty'") == "TG002"
        # One that was prepared where nothing is guarded is not committed from here either.
        with self.rig.session("free") as free:
            assert free.run("BEGIN", "INSERT INTO t VALUES (9, 1)", "PREPARE TRANSACTION 'slipped'") == "ok"
        assert stranger.run("COMMIT PREPARED 'slipped'") == "TG002"

    def test_locks_of_a_prepared_transaction_survive_a_crash(self):
        session = self.session(term=5)
        assert session.run("BEGIN", "INSERT INTO t VALUES (1, 1)", "PREPARE TRANSACTION 'kept'") == "ok"
        self.rig.stop("immediate")
        self.rig.start()
        self.rig.admin = self.rig.session("postgres")
        with self.rig.session("lead") as leader:
            assert leader.run("SELECT termgate.seal('%s', 6, '100 ms')" % self.scope) == "TG006"
            assert "kept" in leader.message()
        with self.rig.session("app", self.scope, 5) as app:
            app.gives("ok", "COMMIT PREPARED 'kept'")
        assert self.rows() == 1


class Wire(Guarded):
    def test_extended_protocol_and_pipelines(self):
        session = self.session()
        session.send(parse("w", "INSERT INTO t VALUES ($1, 0)"), bind("", "w", ["1"]), execute(), sync())
        assert codes(session.until("Z")) == ["TG002"]
        session = self.session(term=5)
        session.send(
            parse("w", "INSERT INTO t VALUES ($1, 0)"),
            bind("", "w", ["1"]),
            execute(),
            bind("", "w", ["2"]),
            execute(),
            sync(),
            bind("", "w", ["3"]),
            execute(),
            sync(),
        )
        assert codes(session.until("Z", 2)) == []
        self.raise_to(6)
        session.send(bind("", "w", ["4"]), execute(), sync(), bind("", "w", ["5"]), execute(), sync())
        assert codes(session.until("Z", 2)) == ["TG001", "TG001"]
        # A statement that was prepared and planned while the term held.
        assert self.rows() == 3

    def test_a_refusal_at_sync(self):
        session = self.session()
        session.send(parse("", "SELECT txid_current()"), bind(), execute(), sync())
        answer = session.until("Z")
        assert [message.type for message in answer] == [
            "1",
            "2",
            "D",
            "C",
            "E",
            "Z",
        ], "an error behind a success, as of a deferred constraint"
        assert codes(answer) == ["TG002"]

    def test_fast_path(self):
        session = self.session()
        for oid, arguments in (
            (715, [struct.pack("!I", 4711)]),
            (957, [struct.pack("!i", 0x20000)]),
            (1574, [struct.pack("!I", int(self.rig.value("SELECT 'q'::regclass::oid")))]),
        ):
            session.send(function_call(oid, arguments))
            assert codes(session.until("Z")) == ["TG002"], oid
        assert self.rig.value("SELECT count(*) FROM pg_largeobject_metadata") == "0"
        session = self.session(term=5)
        session.send(function_call(715, [struct.pack("!I", 4711)]))
        assert codes(session.until("Z")) == []
        self.rig.admin.rows("SELECT lo_unlink(4711)")
        # An id that no statement has taken (txid_current), behind a DISCARD, which may take one by itself.
        session = self.session()
        for discard in ("DISCARD PLANS", "DISCARD TEMP", "DISCARD SEQUENCES"):
            session.rows(f"BEGIN; {discard}")
            session.send(function_call(2943, []))
            assert codes(session.until("Z")) == []
            assert session.run("COMMIT") == "TG002", discard

    def test_copy(self):
        for term, wanted in ((None, ["TG002"]), (4, ["TG001"]), (5, [])):
            session = self.session(term=term)
            session.send(query("COPY t FROM STDIN"))
            answer = session.until("ZG")
            if answer[-1].type == "G":
                session.send(b"d\0\0\0\x08" + b"7\t7\n", b"c\0\0\0\4")
                answer = session.until("Z")
            assert codes(answer) == wanted
        assert self.rows() == 1
        # The fence cannot rise while the rows come in.
        session = self.session(term=5)
        session.send(query("COPY t FROM STDIN"))
        session.until("G")
        leader = self.session("lead")
        assert leader.run("SET statement_timeout = '300ms'", f"SELECT termgate.seal('{self.scope}', 6)") == "57014"
        session.send(b"d\0\0\0\x08" + b"8\t8\n", b"c\0\0\0\4")
        assert codes(session.until("Z")) == []

    def test_a_walsender_that_runs_sql_is_guarded(self):
        self.rig.admin.rows("ALTER ROLE plain REPLICATION")
        self.addCleanup(self.rig.admin.rows, "ALTER ROLE plain NOREPLICATION")
        session = self.session("plain", parameters=[("replication", "database")])
        session.gives("TG002", "INSERT INTO t VALUES (1, 1)")
        assert session.run("IDENTIFY_SYSTEM") == "ok"
        # Not stopped: replication commands reach no hook. Do not give guarded roles REPLICATION.
        assert session.run("CREATE_REPLICATION_SLOT made PHYSICAL", "DROP_REPLICATION_SLOT made") == "ok"


class Servers(Guarded):
    def test_parallel_queries(self):
        session = self.session()
        self.rig.admin.rows(
            "CREATE TABLE IF NOT EXISTS wide AS SELECT g AS a FROM generate_series(1, 20000) g; GRANT SELECT ON wide TO PUBLIC; ANALYZE"
            " wide"
        )
        self.rig.admin.rows(
            "CREATE OR REPLACE FUNCTION emits(n int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN PERFORM"
            " pg_logical_emit_message(false, 'p', 'x'); RETURN n; END $$"
        )
        force = "force_parallel_mode" if CHOSEN.major in ("13", "14", "15") else "debug_parallel_query"
        settings = (
            "SET parallel_setup_cost = 0",
            "SET parallel_tuple_cost = 0",
            "SET min_parallel_table_scan_size = 0",
            "SET max_parallel_workers_per_gather = 2",
        )
        session.gives("ok", *settings, "SELECT count(*) FROM wide")
        before = self.rig.value("SELECT pg_current_wal_insert_lsn()")
        assert session.run(f"SET {force} = on", "SELECT emits(1)") == "0A000", "a worker cannot be checked"
        assert session.run("SELECT count(*) FROM wide WHERE emits(a) > 0") == "0A000"
        ratchet = self.session("free")
        assert ratchet.run("BEGIN; SET LOCAL termgate.guard_session = on; ROLLBACK", f"SET {force} = on", "SELECT emits(1)") == "0A000"
        assert before
        writer = self.session(term=5)
        writer.gives(
            "ok",
            *settings,
            f"SET {force} = regress | INSERT INTO t SELECT a, a FROM wide LIMIT 10 | SELECT count(*) FROM wide | UPDATE t SET v = 1",
        )

    def test_autovacuum_and_apply_are_exempt(self):
        self.rig.admin.rows("CREATE TABLE busy (a int); INSERT INTO busy SELECT generate_series(1, 1000)")
        self.rig.admin.rows("ALTER DATABASE postgres SET termgate.guard = enforce; ALTER ROLE postgres SET termgate.guard = off")
        self.addCleanup(
            self.rig.admin.rows, "ALTER DATABASE postgres RESET termgate.guard; ALTER ROLE postgres RESET termgate.guard; DROP TABLE busy"
        )
        self.rig.admin.rows(
            "ALTER TABLE busy SET (autovacuum_vacuum_threshold = 1, autovacuum_analyze_threshold = 1, autovacuum_vacuum_scale_factor = 0,"
            " autovacuum_analyze_scale_factor = 0)"
        )
        self.rig.admin.rows("ALTER SYSTEM SET autovacuum_naptime = 1")
        self.rig.admin.rows("SELECT pg_reload_conf()")
        self.rig.admin.rows("UPDATE busy SET a = a + 1")
        self.rig.wait_until("SELECT last_autoanalyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'busy'", 20)
        with self.rig.session("free") as session:
            assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002", "while others are guarded by the database"

    def test_what_sessions_show(self):
        session = self.session(term=5)
        assert session.run("BEGIN", "INSERT INTO t VALUES (1, 1)") == "ok"
        shown = f"SELECT role, scope, term, passed, since IS NOT NULL FROM termgate.guarded_sessions WHERE pid = {session.pid}"
        assert self.rig.admin.rows(shown) == [["app", self.scope, "5", "t", "t"]]
        session.rows("COMMIT")
        assert self.rig.admin.rows(shown) == [["app", self.scope, "5", "f", "t"]]
        pid = session.pid
        session.end()
        self.rig.wait_until(f"SELECT NOT EXISTS (SELECT FROM termgate.guarded_sessions WHERE pid = {pid})")
        assert self.session("plain").run("SELECT * FROM termgate.guarded_sessions") == "42501"

    def test_layer1_that_the_guard_does_not_know(self):
        admin = self.rig.admin
        for text, right, wrong, words in (
            ("ALTER FUNCTION termgate.{} RENAME TO {}", "_guard_verdict", "gone", "no function _guard_verdict"),
            ("ALTER TABLE termgate.{} RENAME TO {}", "fences", "gone", "holds no layer 1"),
            ("ALTER TABLE termgate.fences RENAME COLUMN {} TO {}", "raised_xid", "gone", "no column raised_xid"),
            ("ALTER TABLE termgate.fences OWNER TO {1}", "termgate_owner", "app", "as which this session may act"),
        ):
            change, back = text.format(right, wrong), text.format(wrong, right)
            session = self.session(term=5)
            session.gives("ok", "INSERT INTO t VALUES (1, 1)", "DELETE FROM t")
            admin.rows(change)
            try:
                for one in (session, self.session(term=5)):
                    assert one.run("INSERT INTO t VALUES (1, 1)") == "TG004", f"{change}: {one.errors}"
                    assert words in one.message()
                    assert one.run("SELECT * FROM t") == "ok"
                assert self.session("watched").run("INSERT INTO log VALUES (1)") == "ok", "mode observe refuses nothing"
            finally:
                admin.rows(back)
            assert session.run("INSERT INTO t VALUES (1, 1)", "DELETE FROM t") == "ok", f"{change}: {session.errors}"

    def test_a_schema_of_ones_own_proves_nothing(self):
        self.rig.admin.rows("CREATE DATABASE bare")
        self.addCleanup(self.rig.admin.rows, "DROP DATABASE bare")
        self.rig.admin.rows("GRANT CREATE ON DATABASE bare TO app")
        forged = [
            "CREATE SCHEMA termgate",
            (
                'CREATE TABLE termgate.fences (scope text COLLATE "C" PRIMARY KEY, term bigint, generation bigint DEFAULT 1, vouched oid,'
                ' raised_xid xid8)'
            ),
            "INSERT INTO termgate.fences VALUES ('s', 5, 1, 'termgate.fences'::regclass)",
            "CREATE TABLE termgate.mine (a int)",
        ]
        with self.rig.session("postgres", database="bare") as admin:
            admin.rows("SET SESSION AUTHORIZATION app")
            for statement in forged:
                admin.run(statement)
            admin.rows("RESET SESSION AUTHORIZATION")
            with self.rig.session("app", "s", 5, database="bare") as session:
                assert session.run("INSERT INTO termgate.mine VALUES (1)") == "TG004"
            # A superuser creates the extension in the schema that lies in wait.
            admin.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")
            with self.rig.session("app", "s", 5, database="bare") as session:
                session.gives("TG004", "INSERT INTO termgate.mine VALUES (1)")
                assert "as which this session may act" in session.message()

    def test_layer1_is_upgraded_and_granted_beside_the_extension(self):
        self.rig.layer1()
        owner = self.rig.session("termgate_owner")
        self.sessions.append(owner)
        owner.rows("SELECT termgate.grant_level('plain', 'operate')")
        assert owner.rows("SELECT * FROM termgate.revoke_level('plain')") == []
        assert self.session(term=5).run("INSERT INTO t VALUES (1, 1)") == "ok"
        assert self.session("plain").run("SELECT termgate.guard_session()") == "42501", "the schema is not for it any more"

    def doctor(self):
        return {(row[0], row[1]): row[2] for row in self.rig.admin.rows("SELECT * FROM termgate.doctor()")}

    def test_doctor(self):
        found = self.doctor()
        assert "is not guarded" in found["warning", "role free"]
        assert "observe" in found["info", "role watched"]
        assert "is not guarded" not in found.get(("warning", "role app"), "")
        assert (
            "is not guarded, and can SET ROLE to"
            in {**found, **self.with_("GRANT lead TO free", "REVOKE lead FROM free")}["warning", "role free"]
        )
        assert "REPLICATION" in self.with_("ALTER ROLE app REPLICATION", "ALTER ROLE app NOREPLICATION")["warning", "role app"]
        if int(CHOSEN.major) >= 15:
            assert (
                "may change termgate.guard"
                in self.with_("GRANT SET ON PARAMETER termgate.guard TO app", "REVOKE SET ON PARAMETER termgate.guard FROM app")[
                    "warning", "role app"
                ]
            )
        gone = self.with_("DROP EXTENSION termgate_guard", "CREATE EXTENSION termgate_guard SCHEMA termgate")
        assert "TG004" in gone["error", "database postgres"]
        assert (
            "is not guarded"
            in self.with_(
                "ALTER ROLE app IN DATABASE postgres SET termgate.guard = off", "ALTER ROLE app IN DATABASE postgres RESET termgate.guard"
            )["warning", "role app"]
        )

    def with_(self, change, back):
        self.rig.admin.rows(change)
        try:
            return self.doctor()
        finally:
            self.rig.admin.rows(back)

    def test_foreign_tables(self):
        admin = self.rig.admin
        admin.rows(
            "CREATE FUNCTION writes_far() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.log VALUES (7); RETURN 1; END'; CREATE"
            " VIEW far_view AS SELECT public.writes_far() AS a; CREATE EXTENSION postgres_fdw"
        )
        admin.rows(
            f"""CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{self.rig.port}',
              dbname 'postgres'); CREATE USER MAPPING FOR PUBLIC SERVER here OPTIONS (user 'postgres', password_required 'false');
                       CREATE FOREIGN TABLE far (a int) SERVER here OPTIONS (table_name 'far_view'); GRANT SELECT ON far TO PUBLIC;
                         CREATE FOREIGN TABLE far_log (n bigint) SERVER here OPTIONS (table_name 'log'); GRANT ALL ON far_log TO PUBLIC"""
        )
        self.addCleanup(admin.rows, "DROP EXTENSION postgres_fdw CASCADE; DROP VIEW far_view; DROP FUNCTION writes_far()")
        session = self.session()
        assert session.run("SELECT * FROM far") == "ok", "what docs/evidence/bypasses.md says: it writes over there"
        assert self.rig.value("SELECT count(*) FROM log") == "1"
        admin.rows("ALTER ROLE app SET termgate.guard_foreign = on")
        self.addCleanup(admin.rows, "ALTER ROLE app RESET termgate.guard_foreign")
        session = self.session()
        assert session.run("SELECT * FROM far") == "TG002"
        assert session.run("SET termgate.guard_foreign = off") == "42501"
        assert self.session(term=4).run("INSERT INTO far_log VALUES (1)") == "TG001"
        session.gives(
            "TG002",
            f"INSERT INTO far_log SELECT 1 WHERE termgate.check_term('{self.scope}', 5) IS NOT NULL",
            why="its rows may be committed over there before our last look",
        )
        assert session.run(f"SELECT termgate.check_term('{self.scope}', 4) FROM far") == "TG002", "the check comes too late"
        assert self.rig.value("SELECT count(*) FROM log") == "1"
        assert self.session(term=5).run("SELECT * FROM far", "INSERT INTO far_log VALUES (1)") == "ok"
        assert "leads to a database of this name" in self.doctor()["info", "server here"]

    def test_concurrent_index_builds_and_vacuum(self):
        self.rig.admin.rows(
            "CREATE TABLE indexed (a int PRIMARY KEY); INSERT INTO indexed SELECT generate_series(1, 1000); ALTER TABLE indexed OWNER TO"
            " app; GRANT SELECT ON indexed TO free"
        )
        self.addCleanup(self.rig.admin.rows, "DROP TABLE indexed")
        # A raise while it waits for an older snapshot: its next transaction is refused.
        session, old = self.session(term=5), self.session("free")
        session.gives("ok", "CREATE INDEX CONCURRENTLY i ON indexed (a) | VACUUM (FULL) indexed | DROP INDEX CONCURRENTLY i")
        assert old.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM indexed LIMIT 1") == "ok"
        session.start("CREATE INDEX CONCURRENTLY late ON indexed (a)")
        self.waits(session)
        self.raise_to(6)
        assert old.run("COMMIT") == "ok"
        assert session.finish() == "TG001"
        assert (
            self.rig.value("SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid = 'indexed'::regclass") == "f"
        ), "an invalid index stays, as of any build that failed"

    def test_protected_tables_in_a_guarded_session(self):
        self.rig.admin.rows(
            f"CREATE TABLE kept (a int); GRANT ALL ON kept TO PUBLIC; SELECT termgate.protect('kept', scope => '{self.scope}')"
        )
        self.addCleanup(self.rig.admin.rows, "DROP TABLE kept")
        for term, wanted in ((None, "TG002"), (4, "TG001"), (5, "ok")):
            assert self.session(term=term).run("INSERT INTO kept VALUES (1)") == wanted
        session = self.session()
        session.gives("ok", "BEGIN", f"SELECT termgate.check_term('{self.scope}', 5)", "INSERT INTO kept VALUES (2)", "COMMIT")
        other = self.session(term=9, scope="other")
        assert other.run("INSERT INTO kept VALUES (3)") == "TG002", "the guard is content with any scope, the table is not"

    def test_a_dump_is_restored(self):
        programs = self.rig.bin
        if not (programs / "pg_dump").exists():
            pytest.skip("this server comes without pg_dump")
        dump = self.rig.scratch / "dump.sql"
        address = ["-h", "127.0.0.1", "-p", str(self.rig.port), "-U", "postgres"]
        sh(programs / "pg_dump", *address, "-f", dump, "postgres")
        assert "CREATE EXTENSION IF NOT EXISTS termgate_guard WITH SCHEMA termgate" in dump.read_text()
        self.rig.admin.rows("CREATE DATABASE restored")
        self.addCleanup(self.rig.admin.rows, "DROP DATABASE restored")
        self.rig.admin.rows("ALTER DATABASE restored SET termgate.guard = enforce")
        with pytest.raises(AssertionError, match="TG00"):
            self.rig.psql("-f", dump, database="restored")
        self.rig.psql("-f", dump, database="restored", env=dict(os.environ, PGOPTIONS="-c termgate.guard=off"))
        with self.rig.session("app", "s", 5, database="restored") as session:
            session.gives("TG004", "INSERT INTO t VALUES (77, 1)")
            assert "untrusted" in session.message()

    def test_uninstall_names_the_extension(self):
        text = (ROOT / "sql/postgres/uninstall.sql").read_text().replace("@schema_lit@", "'termgate'").replace("@schema@", '"termgate"')
        text = text.replace("@own_relations@", "ARRAY['fences']").replace("@own_functions@", "ARRAY['check_term']")
        with pytest.raises(AssertionError, match="DROP EXTENSION termgate_guard"):
            self.rig.psql("-1", "-c", text)

    def test_pg_regress(self):
        """The extension's own script, by the server's own test program."""
        program = "/usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress"
        if CHOSEN.major != "15" or not os.path.exists(program):
            pytest.skip("pg_regress of PostgreSQL 15 only")
        self.rig.admin.rows("CREATE DATABASE regression")
        self.addCleanup(self.rig.admin.rows, "DROP DATABASE regression")
        self.rig.admin.rows("GRANT CREATE ON DATABASE regression TO termgate_owner")
        self.rig.layer1("regression")
        with self.rig.session("postgres", database="regression") as admin:
            admin.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")
        out = self.rig.scratch / "regress"
        out.mkdir()
        try:
            place = ["--dbname=regression", "--host=127.0.0.1", f"--port={self.rig.port}", "--user=postgres"]
            folders = ["--bindir=/usr/lib/postgresql/15/bin", f"--inputdir={GUARD}", f"--outputdir={out}"]
            sh(program, "--use-existing", *place, *folders, "guard")
        except AssertionError as failure:
            pytest.fail((out / "regression.diffs").read_text() if (out / "regression.diffs").exists() else str(failure))

    def test_drop_extension_closes(self):
        session = self.session(term=5)
        assert session.run("INSERT INTO t VALUES (1, 1)") == "ok"
        self.rig.admin.rows("DROP EXTENSION termgate_guard")
        try:
            assert session.run("INSERT INTO t VALUES (2, 2)") == "TG004"
            with self.rig.session("free") as free:
                free.gives("ok", "INSERT INTO t VALUES (3, 3)", f"SELECT termgate.check_term('{self.scope}', 5)")
        finally:
            self.rig.admin.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")
        session.gives("ok", "INSERT INTO t VALUES (2, 2)")


class Storm(Guarded):
    def test_terms_never_decrease_in_commit_order(self):
        """[F1][F2] Leaders that take turns, writers that are stale more often than not, by every way to declare and write;
        judged by commit times."""
        seed = random.randrange(1 << 30)
        breaches, counts, ways = self.play("free", 1, seed)
        assert breaches != [], "the judge finds nothing where nothing is guarded"
        breaches, counts, ways = self.play("app", 60 if LONG else 4, seed)
        assert breaches == [], f"seed {seed}"
        assert counts.get("ok", 0) > 50, counts
        assert counts.get("TG001", 0) > 20, counts
        assert ways == 8, counts

    def play(self, role, seconds, seed):
        self.rig.admin.rows(
            "DROP TABLE IF EXISTS written, raised; CREATE TABLE written (term bigint, way text); CREATE TABLE raised (term bigint); GRANT"
            " ALL ON written, raised TO PUBLIC"
        )
        self.addCleanup(self.rig.admin.rows, "DROP TABLE IF EXISTS written, raised")
        fence = int(self.rig.value(f"SELECT term FROM termgate.fences WHERE scope = '{self.scope}'"))
        state, until, counts, failures = {"term": fence}, time.monotonic() + seconds, {}, []
        passed = set()

        def goes_on():
            """For so long, and on a busy machine for as long as it takes to see enough."""
            few = counts.get("ok", 0) <= 50 or state["term"] <= fence + 5
            few = few or role == "app" and (counts.get("TG001", 0) <= 20 or len(passed) < len(ways))
            return not failures and time.monotonic() < until + (60 if few else 0)

        row = "INSERT INTO written VALUES ({term}, '{way}')"
        claim = f"SET LOCAL termgate.scope = '{self.scope}'; SET LOCAL termgate.term = {{term}}"
        ways = {
            "declared": ["BEGIN; " + claim, row, "COMMIT"],
            "savepoint": ["BEGIN; " + claim, "SAVEPOINT a", row, "ROLLBACK TO a", row, "COMMIT"],
            "arguments": ["BEGIN", f"SELECT termgate.check_term('{self.scope}', {{term}})", row, "COMMIT"],
            "session": [f"SET termgate.scope = '{self.scope}'; SET termgate.term = {{term}}", row, "SET termgate.term = ''"],
            "do": [
                "BEGIN; " + claim,
                "DO $$ BEGIN BEGIN " + row + "; RAISE 'x'; EXCEPTION WHEN raise_exception THEN NULL; END; " + row + "; END $$",
                "COMMIT",
            ],
            "one statement": [
                f"INSERT INTO written SELECT {{term}}, '{{way}}' WHERE termgate.check_term('{self.scope}', {{term}}) IS NOT NULL"
            ],
            "repeatable read": ["BEGIN ISOLATION LEVEL REPEATABLE READ; " + claim, "SELECT 1", row, "COMMIT"],
            "two writes": ["BEGIN; " + claim, row, "SELECT pg_sleep(0.002)", row, "COMMIT"],
        }

        def write(number):
            chance, session = random.Random(seed + number), None
            try:
                while goes_on():
                    session = session or self.rig.session(role)
                    way = chance.choice(list(ways))
                    term = max(1, state["term"] - chance.choice((0, 0, 0, 1, 2)))
                    try:
                        got = session.run(*[statement.format(term=term, way=way) for statement in ways[way]])
                        session.run("ROLLBACK")
                    except (Closed, ConnectionError):
                        got, session = "evicted", None
                    counts[got] = counts.get(got, 0) + 1
                    if got == "ok":
                        passed.add(way)
                    if got not in ("ok", "TG001", "TG005", "TG006", "40001", "evicted", "25P02", "57P01"):
                        failures.append((way, term, got, session and session.errors))
            except Exception as failure:  # pylint: disable=broad-except
                failures.append(failure)

        def lead():
            with self.rig.session("lead") as session:
                while goes_on():
                    term, done, begun = state["term"] + 1, counts.get("ok", 0), time.monotonic()
                    got = session.run(
                        f"BEGIN | SELECT termgate.seal('{self.scope}', {term}, '20 ms')",
                        f"SET LOCAL termgate.scope = '{self.scope}'; SET LOCAL termgate.term = {term}",
                        f"INSERT INTO raised VALUES ({term}) | COMMIT",
                    )
                    if got == "ok":
                        state["term"] = term
                    session.run("ROLLBACK")
                    time.sleep(0.03)
                    # Somebody gets to write under each term.
                    while counts.get("ok", 0) == done and time.monotonic() < begun + 2:
                        time.sleep(0.01)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(5)] + [threading.Thread(target=lead)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == [], f"seed {seed}"
        history = """SELECT pg_xact_commit_timestamp(xmin) AS at, term, way FROM written UNION ALL SELECT pg_xact_commit_timestamp(xmin),
          term, 'raise' FROM raised"""
        breaches = self.rig.admin.rows(
            "SELECT * FROM (SELECT h.*, max(term) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM"
            f" ({history}) h) w WHERE term < before LIMIT 5"
        )
        assert state["term"] > fence + 5, counts
        return breaches, counts, len(self.rig.admin.rows("SELECT DISTINCT way FROM written"))


class Memory(Guarded):
    def test_memory_stays_flat(self):
        """Passes, refusals, savepoints, claims that change."""
        check = f"SELECT termgate.check_term('{self.scope}', 5)"
        texts = [
            "INSERT INTO log VALUES (1)",
            "BEGIN; SAVEPOINT a; INSERT INTO log VALUES (1); ROLLBACK TO a; INSERT INTO log VALUES (2); COMMIT",
            "SET termgate.term = 4; INSERT INTO log VALUES (1)",
            f"SET termgate.term = 5; {check}",
            "BEGIN; SET LOCAL termgate.term = ''; INSERT INTO log VALUES (1); COMMIT",
            "ROLLBACK",
            "SET termgate.term = 'x'; NOTIFY c",
            f"BEGIN; SET LOCAL termgate.term = ''; {check}; INSERT INTO log VALUES (1); COMMIT",
            "SET termgate.term = 5",
            "DELETE FROM t",
        ]
        self.memory_of(self.session(term=5), ["TG001", "TG002", "TG005"], texts, "TRUNCATE log")


class WithoutShortcuts(unittest.TestCase):
    """The guard's library alone: the same refusals, and layer 1's SQL runs."""

    def test_refuses_the_same_until_the_shortcuts_are_loaded(self):
        rig = made(preload="termgate_guard")
        self.addCleanup(rig.close)
        rig.admin.rows("CREATE TABLE covered (id int); GRANT ALL ON covered TO app; SELECT termgate.protect('covered', scope => 's')")
        append = "SELECT termgate.append('alone', 5, 'x', NULL, 's')"
        with rig.session("app") as session:
            assert session.run("SHOW termgate.guard_appends") == "42704"
            assert session.run("INSERT INTO covered VALUES (1)") == "TG002"
            assert session.run("BEGIN", "SELECT termgate.check_term('s', 5)", "INSERT INTO covered VALUES (1)", "COMMIT") == "ok"
            assert session.run(append) == "ok"
        with rig.session("app", "s", 4) as session:
            assert session.run("INSERT INTO covered VALUES (1)") == "TG001"
        with rig.session("app", "s", 5) as session:
            assert session.run("INSERT INTO covered VALUES (2)", append) == "ok"
        carried = "SELECT termgate.guard_append('alone', 5, 'x', NULL, NULL, NULL)"
        with rig.session("postgres") as session:
            assert session.run("SET ROLE termgate_owner") == "ok"
            assert session.value(carried) is None
            assert session.run("RESET ROLE", "LOAD 'termgate_shortcuts'") == "ok"
            assert session.value("SHOW termgate.guard_appends") == "termgate"
        assert rig.value("SELECT last_no FROM termgate.streams WHERE stream_id = 'alone'") == "2"
        assert rig.value("SELECT count(*) FROM covered") == "2"


class SessionLibrary(unittest.TestCase):
    """Loaded by session_preload_libraries: weaker, as docs/use/guard.md says."""

    def test_what_it_guards_and_what_not(self):
        rig = made(preload=None)
        self.addCleanup(rig.close)
        rig.admin.rows("ALTER ROLE app RESET termgate.guard")
        rig.admin.rows("ALTER ROLE app SET session_preload_libraries = 'termgate_guard'")
        for options in ("", "-c termgate.guard=off", "-c termgate.guard=observe"):
            with rig.session("app", options=options) as session:
                assert session.run("INSERT INTO t VALUES (1, 1)") == "TG002", options
        with rig.session("app", "s", 4) as session:
            assert session.run("INSERT INTO t VALUES (1, 1)") == "TG001"
        with rig.session("app", "s", 5) as session:
            session.gives("ok", "INSERT INTO t VALUES (1, 1)", "SET termgate.term = 'x'")
            assert session.run("INSERT INTO t VALUES (2, 1)") == "TG005"
        with rig.session("app", options="-c termgate.scope=s -c termgate.term=x") as session:
            assert session.run("INSERT INTO t VALUES (2, 1)") == "TG005", "malformed at the start is not undeclared"
        with pytest.raises(Closed):
            rig.session("app", options="-c session_preload_libraries=")
        with rig.session("postgres") as session:
            assert session.run("LOAD 'termgate_shortcuts'") == "55000", "not before the guard"
        with rig.session("free") as session:
            assert session.run("INSERT INTO t VALUES (2, 1)") == "ok"
            session.gives(
                "TG002", "SELECT * FROM termgate.guard_session() | INSERT INTO t VALUES (3, 1)", why="the function brings the library"
            )
        found = {(row[0], row[1]): row[2] for row in rig.admin.rows("SELECT * FROM termgate.doctor()")}
        assert ("error", "database postgres") in found or ("warning", "library termgate_guard") in found, found
        rig.admin.rows("ALTER ROLE app REPLICATION")
        with rig.session("app", parameters=[("replication", "database")]) as session:
            assert session.run("INSERT INTO t VALUES (4, 1)") == (
                "TG002" if CHOSEN.major in ("13", "14") else "ok"
            ), "not loaded there from 15 on"
