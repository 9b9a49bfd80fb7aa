#!/usr/bin/env python3
"""[F1][F2][F6] The guard: code that a statement runs declares another claim, and the statement goes on writing. What follows is a write
under the new claim too: a stale or malformed one is refused, also where it is put back afterwards; a current one passes.

  pytest tests/live/guard/guard_declares_test.py [--library termgate_guard.so] [--major 18] [--only PART_OF_A_NAME]
"""
import itertools

import pytest

import given
from guard_rig import chosen

chosen()  # or skip
ONLY = given.option("only", [])

# How code declares. {scope} and {term}: literals.
WAYS = {
    "set_config": "PERFORM set_config('termgate.scope', {scope}, true), set_config('termgate.term', {term}, true)",
    "set_config, term first": "PERFORM set_config('termgate.term', {term}, true), set_config('termgate.scope', {scope}, true)",
    "set_config for the session": (
        "PERFORM set_config('termgate.scope', {scope}, false); PERFORM set_config('termgate.term', {term}, false)"
    ),
    "in expressions": "x := set_config('termgate.scope', {scope}, true); x := set_config('termgate.term', {term}, true)",
    "execute set": "EXECUTE 'SET LOCAL termgate.scope = ' || {scope}; EXECUTE 'SET LOCAL termgate.term = ' || {term}",
    "in a block with a handler": (
        "BEGIN PERFORM set_config('termgate.scope', {scope}, true), set_config('termgate.term', {term}, true);"
        " EXCEPTION WHEN division_by_zero THEN NULL; END"
    ),
}
# What is declared, and what the statement then gets.
CLAIMS = {
    "stale": ("'other'", "'3'", "TG001"),
    "malformed": ("'other'", "'x'", "TG005"),
    "half": ("'other'", "''", "TG002 TG005"),
    "current": ("'other'", "'9'", "ok"),
}
# The claim is changed for every row; for every second one, and put back by the other; or once, in the middle.
PATTERNS = {"always": "true", "in turns": "n % 2 = 0", "in the middle": "n % 11 = 5"}

STATEMENTS = {
    "update": "UPDATE t SET v = declares(id)",
    "delete": "DELETE FROM t WHERE declares(id) > 0",
    "insert": "INSERT INTO t SELECT 2000 + declares(g), 0 FROM generate_series(0, 10) g",
    "returning": "INSERT INTO t SELECT 2000 + g, 0 FROM generate_series(0, 10) g RETURNING declares(id)",
    "with": "WITH w AS (UPDATE t SET v = declares(id) RETURNING 1) SELECT count(*) FROM w",
    "trigger before": "INSERT INTO before SELECT generate_series(0, 10)",
    "trigger after": "INSERT INTO after SELECT generate_series(0, 10)",
    "default": "INSERT INTO filled (a) SELECT generate_series(0, 10)",
    "check": "INSERT INTO limited SELECT generate_series(0, 10)",
    "create table as": "CREATE TABLE made AS SELECT declares(g) FROM generate_series(0, 10) g",
    "do": "DO $$ BEGIN UPDATE t SET v = declares(id); END $$",
    "large objects": "SELECT lo_create(7000 + declares(g)) FROM generate_series(0, 10) g",
    "notify": "SELECT pg_notify('c', declares(g)::text) FROM generate_series(0, 10) g",
    "explain": "EXPLAIN ANALYZE UPDATE t SET v = declares(id)",
}
AROUND = {
    "alone": ["{}"],
    "in a block": ["BEGIN", "{}", "COMMIT"],
    "put back by the client": ["BEGIN", "{}", "SET LOCAL termgate.scope = 's'", "SET LOCAL termgate.term = '5'", "SELECT 1", "COMMIT"],
    "and reset": ["BEGIN", "{}", "RESET termgate.scope", "RESET termgate.term", "COMMIT"],
}
PREPARED = """
  CREATE FUNCTION declares(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN n; END';
  CREATE FUNCTION declares() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM declares(NEW.a); RETURN NEW; END';
  CREATE TABLE before (a int); CREATE TRIGGER d BEFORE INSERT ON before FOR EACH ROW EXECUTE FUNCTION declares();
  CREATE TABLE after (a int); CREATE TRIGGER d AFTER INSERT ON after FOR EACH ROW EXECUTE FUNCTION declares();
  CREATE TABLE filled (a int, b int DEFAULT declares(16)); CREATE TABLE limited (a int CHECK (declares(a) >= 0));
  GRANT ALL ON before, after, filled, limited TO PUBLIC;
"""


@pytest.fixture(scope="module")
def rig(rig):
    rig.admin.rows(PREPARED)
    return rig


def cases():
    everything = itertools.product(STATEMENTS, WAYS, CLAIMS, PATTERNS, AROUND)
    for number, case in enumerate(everything):
        # A plain run plays each statement with everything once, not everything with everything.
        if given.LONG or ONLY or number % 17 == 0:
            yield case


def test_what_a_statement_writes_after_its_own_code_has_declared(rig):
    failed = []
    with rig.session("app", "s", 5) as session:
        session.run("LISTEN c")
        for statement, way, claim, pattern, around in cases():
            name = f"{statement}, {way}, {claim}, {pattern}, {around}"
            if ONLY and not any(part in name for part in ONLY):
                continue
            scope, term, wanted = CLAIMS[claim]
            declare = WAYS[way].format(scope=scope, term=term)
            back = WAYS[way].format(scope="'s'", term="'5'")
            if way == "execute set":
                declare, back = (
                    text.replace("''''", "''")
                    for text in (
                        WAYS[way].format(scope=f"quote_literal({scope})", term=f"quote_literal({term})"),
                        WAYS[way].format(scope="quote_literal('s')", term="quote_literal('5')"),
                    )
                )
            condition = PATTERNS[pattern].replace("n %", "n % 1000 %")
            rig.admin.rows(
                "CREATE OR REPLACE FUNCTION declares(n int) RETURNS int LANGUAGE plpgsql AS $f$ DECLARE x text; BEGIN"
                f" IF {condition} THEN {declare}; ELSE {back}; END IF; RETURN n; END $f$"
            )
            session.run("SET termgate.scope = 's'; SET termgate.term = '5'")
            before = rig.state()
            answer = session.run(*(text.format(STATEMENTS[statement]) for text in AROUND[around]))
            session.run("ROLLBACK")
            after = rig.state()
            if answer not in wanted.split():
                failed.append(f"{name}: {answer}, not {wanted}: {session.message()}")
            if answer != "ok" and after != before:
                failed.append(f"{name}: {answer}, and something was written")
            if answer == "ok":
                rig.admin.rows(
                    "DROP TABLE IF EXISTS made; TRUNCATE t, before, after, filled, limited;"
                    " INSERT INTO t SELECT g, 0 FROM generate_series(1000, 1010) g; SELECT lo_unlink(oid) FROM pg_largeobject_metadata"
                )
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("function", ["lo_create(0)", "pg_notify('c', g::text)::text", "nextval('q')"])
@pytest.mark.parametrize("term", ["3", "9"])
def test_a_cursor_that_goes_on_under_another_claim(rig, function, term):
    with rig.session("app", "s", 5) as session:
        before = rig.state()
        answer = session.run(
            "BEGIN",
            f"DECLARE c CURSOR FOR SELECT {function} FROM generate_series(1, 9) g",
            (
                f"FETCH c | SET LOCAL termgate.scope = 'other' | SET LOCAL termgate.term = '{term}' | FETCH c | SET LOCAL termgate.scope ="
                " 's' | SET LOCAL termgate.term = '5' | COMMIT"
            ),
        )
        assert answer == ("TG001" if term == "3" else "ok"), session.message()
        session.run("ROLLBACK")
        if term == "3" and "nextval" not in function:
            assert rig.state() == before


def test_what_only_reads_may_declare_what_it_likes(rig):
    rig.admin.rows(
        "CREATE OR REPLACE FUNCTION declares(n int) RETURNS int LANGUAGE plpgsql AS"
        " $f$ BEGIN PERFORM set_config('termgate.scope', 'other', true), set_config('termgate.term', '3', true); RETURN n; END $f$"
    )
    with rig.session("app", "s", 5) as session:
        for script in (
            ["SELECT declares(g) FROM generate_series(1, 9) g"],
            ["BEGIN", "UPDATE t SET v = 1", "SET LOCAL termgate.scope = 'other'", "SET LOCAL termgate.term = '3'", "COMMIT"],
            [
                "BEGIN",
                "SELECT declares(1)",
                "SET LOCAL termgate.scope = 's'",
                "SET LOCAL termgate.term = '5'",
                "UPDATE t SET v = 2",
                "COMMIT",
            ],
            ["BEGIN", "UPDATE t SET v = 3", "SAVEPOINT a", "SELECT declares(1)", "ROLLBACK TO a", "UPDATE t SET v = 4", "COMMIT"],
        ):
            assert session.run(*script) == "ok", f"{script}: {session.message()}"
            session.run("ROLLBACK")


def test_append_many_can_be_cancelled(rig):
    """A batch of very many small payloads, which the library writes without SQL."""
    with rig.session("app", "s", 5) as session:
        call = "SELECT termgate.append_many('many', 5, (SELECT array_agg(''::bytea) FROM generate_series(1, {})), scope => 's')"
        assert session.run(call.format(10)) == "ok"
        session.start("SET statement_timeout = '200ms'; " + call.format(250000))
        assert session.finish(wait=10) == "57014"
        begun = rig.value("SELECT clock_timestamp()")
        session.run("SET statement_timeout = 0")
        session.start("BEGIN; " + call.format(250000))
        assert rig.value("SELECT (termgate.seal('s', 6, '0 s')).fence") == "6"
        assert float(rig.value(f"SELECT extract(epoch FROM clock_timestamp() - '{begun}')")) < 2
        rig.admin.rows("SELECT termgate.reset_fence('s', 5, 'the test', 'what comes next begins at 5')")


def test_create_extension_without_a_schema(rig):
    """It finds the schema of layer 1 by itself, or says what to type."""
    for schema, wanted in (("termgate", "ok"), ("public", "TG005")):
        rig.admin.rows("DROP EXTENSION termgate_guard")
        with rig.session("postgres") as session:
            session.run(f"SET search_path = {schema}, pg_catalog")
            answer = session.run("CREATE EXTENSION termgate_guard")
            message = str(session.errors)
        rig.admin.rows("DROP EXTENSION IF EXISTS termgate_guard; CREATE EXTENSION termgate_guard SCHEMA termgate")
        assert answer == wanted, message
        if wanted != "ok":
            assert "CREATE EXTENSION termgate_guard SCHEMA termgate" in message
