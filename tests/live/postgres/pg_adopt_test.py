#!/usr/bin/env python3
"""[F2] [F3] [F4] adopt on PostgreSQL, as plain roles: tables with a version column, tables that are changed, locked, renamed or hostile and
stop nobody, scopes compared byte by byte.

  pytest tests/live/postgres/pg_adopt_test.py [--majors 13,18] [--long]
"""
import time

import given
import pytest
from checks import check
from layer1_lab import Server

PLAIN_SHARE = 3
ADOPT = "SELECT termgate.adopt('app.t', 's', 'n')"


@pytest.fixture(scope="module", params=given.majors("13"))
def server(request):
    started = Server(request.param, "max_prepared_transactions=4")
    yield started
    started.stop()


@pytest.fixture
def lab(server):
    return server.fresh()


def fence(lab, scope):
    rows = lab.sql("reader", f"SELECT term FROM termgate.fence('{scope}')")
    return rows[0][0] if rows else None


def in_claim(scope, term, *statements):
    return ("BEGIN", f"SET LOCAL termgate.scope = '{scope}'", f"SET LOCAL termgate.term = '{term}'", *statements, "COMMIT")


def test_protect_and_adopt_on_one_table(lab):
    """Who changes the version has raised the fence by it, and everybody with an older one is refused."""
    lab.sql(
        "owner",
        "CREATE TABLE app.documents (id bigint PRIMARY KEY, body text, version int NOT NULL)",
        "INSERT INTO app.documents VALUES (1, 'a', 4)",
    )
    lab.sql("operator", "SELECT termgate.adopt('app.documents', 'id', 'version', 'doc:')")
    lab.sql("owner", "SELECT termgate.protect('app.documents', 'id', prefix => 'doc:')")
    check("under the current version", lab.code("owner", *in_claim("doc:1", 4, "UPDATE app.documents SET body = 'b'")) == "")
    check("a higher version is the claim itself", lab.code("owner", "UPDATE app.documents SET version = 5, body = 'c'") == "")
    check("an older version is stale", lab.code("owner", *in_claim("doc:1", 4, "UPDATE app.documents SET body = 'd'")) == "TG001")
    check("the id alone is another scope", lab.code("owner", *in_claim("1", 4, "UPDATE app.documents SET body = 'd'")) == "TG002")
    check("TRUNCATE asks for the same scopes", lab.code("owner", *in_claim("doc:1", 5, "TRUNCATE app.documents")) == "")


def test_ids_of_two_tables_are_two_scopes(lab):
    for name in ("a", "b"):
        lab.sql("owner", f"CREATE TABLE app.{name} (id int, attempt int)", f"INSERT INTO app.{name} VALUES (7, {3 if name == 'a' else 5})")
        lab.sql("operator", f"SELECT termgate.adopt('app.{name}', 'id', 'attempt', '{name}/')")
    check("one fence each", (fence(lab, "a/7"), fence(lab, "b/7"), fence(lab, "7")) == (3, 5, None))
    check(
        "a prefix leaves room for the value",
        lab.code("operator", f"SELECT termgate.adopt('app.a', 'id', 'attempt', '{'x' * 151}')") == "TG005",
    )
    check("NULL is none", lab.code("operator", "SELECT termgate.adopt('app.a', 'id', 'attempt', NULL)") == "TG005")


@pytest.mark.parametrize(
    "kind, value, other",
    [
        ("smallint", "7", "8"),
        ("integer", "-7", "8"),
        ("bigint", "70000000000", "8"),
        ("uuid", "6f1e0000-0000-4000-8000-00000000000a", "6f1e0000-0000-4000-8000-00000000000b"),
        ("text", "x", "X"),
        ("varchar(50)", "x", "X"),
    ],
)
def test_every_type_of_scope_column_and_every_first_check(lab, kind, value, other):
    lab.sql(
        "owner",
        f"CREATE TABLE app.t (s {kind}, n int)",
        f"INSERT INTO app.t VALUES ('{value}', 3), ('{value}', 0), ('{other}', NULL), (NULL, 9)",
    )
    check("one scope has a term", lab.value("operator", ADOPT) == 1)
    for scope in ("abc", "07", "7.0", " 7", "12345678901234567890123", value + "x", "' AND"):
        with lab.open("leader") as leader:
            check(f"first check of {scope}", leader.code("SELECT termgate.check_term(%s, 1)", (scope,)) == "")
            check(f"acquisition of {scope}", leader.code("SELECT termgate.acquire_lease(%s, 'me', '1 s')", (scope,)) == "")
            check(f"append under {scope}", leader.code("SELECT termgate.append(%s, 2, 'x', scope => %s)", (scope, scope)) == "")
    check("the rows' own", fence(lab, value) == 3 and fence(lab, other) is None)
    check("below what the row shows", lab.code("writer", f"SELECT termgate.check_term('{value}', 2)") == "TG001")
    lab.sql("owner", f"CREATE TABLE app.p (s {kind}, v int)", "SELECT termgate.protect('app.p', 's')")
    for write, code in (
        (f"INSERT INTO app.p VALUES ('{value}', 1)", ""),
        (f"INSERT INTO app.p VALUES ('{other}', 1)", "TG002"),
        ("INSERT INTO app.p VALUES (NULL, 1)", "TG005"),
        ("UPDATE app.p SET v = 2", ""),
        ("TRUNCATE app.p", ""),
    ):
        check(f"protected: {write}", lab.code("owner", *in_claim(value, 3, write)) == code)
    check("and without a term", lab.code("owner", f"INSERT INTO app.p VALUES ('{value}', 1)") == "TG002")


REFUSED = ("char(8)", "citext_like", "json", "numeric", "bytea", "timestamptz", "app.d")


def test_columns_that_are_no_scope_or_term_are_refused(lab):
    lab.sql("owner", "CREATE DOMAIN app.d AS text", "CREATE TYPE app.citext_like AS ENUM ('a')")
    for kind in REFUSED:
        name = "app.citext_like" if kind == "citext_like" else kind
        lab.sql(
            "owner",
            "DROP TABLE IF EXISTS app.t",
            f"CREATE TABLE app.t (s {name}, n int)",
            "CREATE TABLE IF NOT EXISTS app.fine (s text, n int)",
        )
        check(kind, lab.code("operator", ADOPT) == "TG005")
        check(f"protect: {kind}", lab.code("owner", "SELECT termgate.protect('app.t', 's')") == "TG005")
    for kind in ("text", "numeric", "real", "app.d"):
        lab.sql("owner", "DROP TABLE IF EXISTS app.t", f"CREATE TABLE app.t (s text, n {kind})")
        check(f"term: {kind}", lab.code("operator", ADOPT) == "TG005")


# What an owner may do to an adopted table later, and whether the writes to that table itself go on. Nobody else may notice any of it.
FAULTS = {
    "renamed scope column": ("ALTER TABLE app.t RENAME s TO z", False),
    "dropped term column": ("ALTER TABLE app.t DROP n CASCADE", False),
    "another type": ("ALTER TABLE app.t ALTER n TYPE numeric", False),
    "renamed table": ("ALTER TABLE app.t RENAME TO u", True),
    "dropped table": ("DROP TABLE app.t", True),
    "row security": ("ALTER TABLE app.t ENABLE ROW LEVEL SECURITY; ALTER TABLE app.t FORCE ROW LEVEL SECURITY", True),
    "no privileges": ("REVOKE ALL ON app.t FROM PUBLIC, tg_owner; REVOKE ALL ON SCHEMA app FROM PUBLIC", True),
    "triggers off, the highest term": (
        (
            "ALTER TABLE app.t DISABLE TRIGGER USER; INSERT INTO app.t VALUES ('x', 9223372036854775807), ('new', -5), ('new',"
            " 4611686018427387905)"
        ),
        True,
    ),
    "a hostile index": ("CREATE INDEX ON app.t ((n + app.imm(1))) WHERE app.imm(2) > 0", True),
    "a view in its place": ("ALTER TABLE app.t RENAME TO hidden; CREATE VIEW app.t AS SELECT s, n + app.imm(1) AS n FROM app.hidden", True),
    "unlogged and truncated": ("TRUNCATE app.t; ALTER TABLE app.t SET UNLOGGED", True),
}
HOSTILE = (
    "CREATE TABLE app.ran_as (who text)",
    "GRANT ALL ON app.ran_as TO PUBLIC",
    "CREATE FUNCTION app.pwn() RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.ran_as VALUES (current_user); END $$",
    "CREATE FUNCTION app.imm(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM app.pwn(); RETURN 1; END $$",
)


def first_raises(lab, name):
    """What anybody else does with scopes that are not in the table, and how long it takes."""
    began = time.monotonic()
    with lab.open("leader") as leader:
        check(f"{name}: a first check", leader.code(f"SELECT termgate.check_term('other {name}', 1)") == "")
        check(f"{name}: an acquisition", leader.code(f"SELECT termgate.acquire_lease('lease {name}', 'me', '1 s')") == "")
        check(f"{name}: an append", leader.code(f"SELECT termgate.append('stream {name}', 1, 'x', scope => 'appended {name}')") == "")
        check(f"{name}: a seal", leader.code(f"SELECT termgate.seal('sealed {name}', 1)") == "")
    lab.sql("reader", "SELECT * FROM termgate.doctor()", "SELECT * FROM termgate.verify_findings()")
    check(f"{name}: nobody waits", time.monotonic() - began < 4)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_an_adopted_table_stops_no_other_scope(lab, fault):
    change, writes = FAULTS[fault]
    lab.sql("owner", *HOSTILE, "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 3)")
    lab.sql("operator", ADOPT)
    with lab.open("owner") as owner:
        owner.run("SET check_function_bodies = off")
        for statement in change.split("; "):
            owner.run(statement)
    # Its own code has run as itself, if at all.
    first_raises(lab, fault)
    check("its own scope goes on", lab.code("leader", "SELECT termgate.check_term('x', 3)") == "")
    check("and keeps its fence", lab.code("leader", "SELECT termgate.check_term('x', 2)") == "TG001")
    check("and can be leased", lab.code("leader", "SELECT termgate.acquire_lease('x', 'me', '1 s')") == "")
    check(
        "no code of the owner's ran as another",
        lab.sql("postgres", "SELECT DISTINCT who FROM app.ran_as WHERE who NOT IN ('owner', 'operator')") == [],
    )
    if not writes:
        check("what cannot be reported is not written", lab.code("owner", "INSERT INTO app.t VALUES ('x', 9)") != "")
        check(
            "doctor names the table",
            [row for row in lab.sql("reader", "SELECT severity FROM termgate.doctor() WHERE object = 'app.t' AND severity = 'error'")]
            != [],
        )


@pytest.mark.parametrize("mode", ["ACCESS EXCLUSIVE", "EXCLUSIVE", "prepared"])
def test_a_locked_adopted_table_holds_up_nobody(lab, mode):
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 3)")
    lab.sql("operator", ADOPT)
    with lab.open("owner") as owner:
        owner.run("BEGIN")
        owner.run(f"LOCK TABLE app.t IN {'ACCESS EXCLUSIVE' if mode == 'prepared' else mode} MODE")
        if mode == "prepared":
            owner.run(f"PREPARE TRANSACTION 'held {lab.name}'")
        first_raises(lab, mode)
        owner.run(f"ROLLBACK PREPARED 'held {lab.name}'" if mode == "prepared" else "ROLLBACK")


def test_the_owner_makes_and_attaches_partitions(lab):
    """Without level operate: what adopt put on the table comes with each partition, and reports from there."""
    lab.sql("owner", "CREATE TABLE app.t (s text, n int, d date) PARTITION BY RANGE (d)")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n', 't/')")
    lab.sql(
        "owner",
        "CREATE TABLE app.t1 PARTITION OF app.t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY LIST (s)",
        "CREATE TABLE app.t11 PARTITION OF app.t1 DEFAULT",
        "CREATE TABLE app.t2 (d date, n int, s text)",
        "ALTER TABLE app.t ATTACH PARTITION app.t2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
        "INSERT INTO app.t VALUES ('x', 3, '2026-01-05'), ('y', 4, '2026-02-05')",
        "INSERT INTO app.t11 VALUES ('z', 5, '2026-01-05')",
    )
    check("each reports", (fence(lab, "t/x"), fence(lab, "t/y"), fence(lab, "t/z")) == (3, 4, 5))
    with lab.open("owner") as owner:
        owner.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        owner.run("SELECT 1 FROM app.t")
        lab.sql(
            "owner",
            "CREATE TABLE app.t3 (s text, n int, d date)",
            "ALTER TABLE app.t ATTACH PARTITION app.t3 FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')",
        )
        owner.run("INSERT INTO app.t VALUES ('v', 6, '2026-03-05'); COMMIT")
    check("also one that the transaction's snapshot does not show", fence(lab, "t/v") == 6)
    check(f"doctor finds nothing wrong: {faults(lab)}", faults(lab) == [])


def test_only_an_adopted_table_raises(lab):
    """Anybody may put the trigger on a table: of another's scopes it raises none."""
    lab.sql("owner", "CREATE TABLE app.t (s text, n int)")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n', 't/')")
    function = lab.value("postgres", "SELECT oid::regproc::text FROM pg_proc WHERE proname ~ '^_adopted_row_'")
    for role in ("reader", "owner"):
        for prefix in ("'t/'", "''", "'other/'", ""):
            code = lab.code(
                role,
                "CREATE TEMP TABLE mine (s text, n bigint)",
                f"CREATE TRIGGER termgate_adopted AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION {function}({prefix})",
                "INSERT INTO mine VALUES ('x', 4611686018427387904)",
            )
            check(f"{role}, prefix {prefix}: {code}", code == "TG005")
    check("another prefix on the adopted table itself", lab.code(
        "owner",
        f"CREATE TRIGGER more AFTER INSERT ON app.t FOR EACH ROW EXECUTE FUNCTION {function}('other/')",
        "INSERT INTO app.t VALUES ('x', 7)",
    ) == "TG005")  # fmt: skip
    check("no fence", [fence(lab, scope) for scope in ("x", "t/x", "other/x")] == [None] * 3)
    check("doctor names a table that bears it and is not adopted", "app.kept" in faults(
        lab,
        (
            "owner",
            "CREATE TABLE app.kept (s text, n int)",
            f"CREATE TRIGGER termgate_adopted AFTER INSERT ON app.kept FOR EACH ROW EXECUTE FUNCTION {function}('')",
        ),
    ))  # fmt: skip


def faults(lab, done=()):
    if done:
        lab.sql(*done)
    return [
        row[0]
        for row in lab.sql("reader", "SELECT object FROM termgate.doctor() WHERE severity = 'error' AND object LIKE 'app.%' ORDER BY 1")
    ]


REPLACE = "DROP TRIGGER termgate_adopted ON app.plain; CREATE TRIGGER termgate_adopted AFTER {}"
SILENT = {
    "a child that came later": ("CREATE TABLE app.c () INHERITS (app.plain)", "app.c"),
    "disabled": ("ALTER TABLE app.plain DISABLE TRIGGER termgate_adopted", "app.plain"),
    "disabled on a partition": ("ALTER TABLE app.p1 DISABLE TRIGGER USER", "app.p1"),
    "for replicas only": ("ALTER TABLE app.p1 ENABLE REPLICA TRIGGER termgate_adopted", "app.p1"),
    "dropped from a child": ("DROP TRIGGER termgate_adopted ON app.child", "app.child"),
    "another function": (REPLACE.format("INSERT OR UPDATE ON app.plain FOR EACH ROW EXECUTE FUNCTION app.nothing()"), "app.plain"),
    "never when": (REPLACE.format("INSERT OR UPDATE ON app.plain FOR EACH ROW WHEN (NEW.n < 0) EXECUTE FUNCTION @('')"), "app.plain"),
    "inserts alone": (REPLACE.format("INSERT ON app.plain FOR EACH ROW EXECUTE FUNCTION @('')"), "app.plain"),
    "another prefix": (REPLACE.format("INSERT OR UPDATE ON app.plain FOR EACH ROW EXECUTE FUNCTION @('x/')"), "app.plain"),
}


@pytest.mark.parametrize("fault", SILENT)
def test_doctor_names_each_part_that_reports_nothing(lab, fault):
    lab.sql(
        "owner",
        "CREATE TABLE app.plain (s text, n int)",
        "CREATE TABLE app.child () INHERITS (app.plain)",
        "CREATE TABLE app.p (s text, n int) PARTITION BY LIST (s)",
        "CREATE TABLE app.p1 PARTITION OF app.p DEFAULT",
        "CREATE FUNCTION app.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    )
    lab.sql("operator", "SELECT termgate.adopt('app.plain', 's', 'n')", "SELECT termgate.adopt('app.p', 's', 'n')")
    check("nothing is wrong yet", faults(lab) == [])
    change, table = SILENT[fault]
    function = lab.value("postgres", "SELECT oid::regproc::text FROM pg_proc WHERE proname ~ '^_adopted_row_'")
    for statement in change.replace("@", function).split("; "):
        lab.sql("owner", statement)
    check(f"it is named, and nothing else: {faults(lab)}", faults(lab) == [table])
    lab.sql("operator", f"SELECT termgate.adopt('{'app.p' if table == 'app.p1' else 'app.plain'}', 's', 'n')")
    check("adopt() mends it" + str(faults(lab)), faults(lab) == [])


def test_a_virtual_column_is_neither_scope_nor_term(lab):
    """Triggers see NULL there: an adopted row would report nothing."""
    if lab.server.major < 18:
        pytest.skip("virtual columns came with 18")
    lab.sql(
        "owner",
        (
            "CREATE TABLE app.t (id int, n int, s text GENERATED ALWAYS AS ('job ' || id::text), v int GENERATED ALWAYS AS (n + 0), k text"
            " GENERATED ALWAYS AS ('job ' || id::text) STORED)"
        ),
    )
    for columns in ("'s', 'n'", "'k', 'v'"):
        check(columns, lab.code("operator", f"SELECT termgate.adopt('app.t', {columns})") == "TG005")
    check("nor the scope of protect", lab.code("owner", "SELECT termgate.protect('app.t', 's')") == "TG005")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 'k', 'n')")
    lab.sql("owner", "INSERT INTO app.t VALUES (1, 5)")
    check("a stored one is", fence(lab, "job 1") == 5)
    lab.sql("owner", "ALTER TABLE app.t DROP k", "ALTER TABLE app.t ADD k text GENERATED ALWAYS AS ('job ' || id::text)")
    check("doctor names it", faults(lab) == ["app.t"])


def test_adopt_takes_level_operate_and_the_table(lab):
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 3)")
    check(
        "without the triggers",
        lab.code("operator", "SELECT termgate._adopt_register('app.t', 's', 'n', '', ARRAY['x'], ARRAY[9::bigint])") == "42501",
    )
    lab.server.admin(lab.name, "CREATE TABLE app.of_another (s text, n int)")
    check("another's table", lab.code("operator", "SELECT termgate.adopt('app.of_another', 's', 'n')") == "42501")
    check("operate and owner", lab.value("operator", ADOPT) == 1)
    check("raised", fence(lab, "x") == 3)
    check("unadopt takes the table", lab.code("reader", "SELECT termgate.unadopt('app.t')") == "42501")
    check("its owner may", lab.value("owner", "SELECT termgate.unadopt('app.t')") is True)


def test_scopes_are_compared_byte_by_byte_whatever_the_collation(lab):
    lab.sql("postgres", "CREATE COLLATION app.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    for collation in ("app.ci", '"POSIX"', '"en-x-icu"', '"C"'):
        for kind in ("text", "varchar(20)"):
            lab.sql(
                "owner",
                "DROP TABLE IF EXISTS app.t",
                f"CREATE TABLE app.t (s {kind} COLLATE {collation}, n bigint)",
                "INSERT INTO app.t VALUES ('acct-a', 5), ('ACCT-A', 9)",
            )
            prefix = f"{collation}{kind}"
            check(f"{prefix}: two scopes", lab.value("operator", f"SELECT termgate.adopt('app.t', 's', 'n', '{prefix}')") == 2)
            check(f"{prefix}: two fences", (fence(lab, prefix + "acct-a"), fence(lab, prefix + "ACCT-A")) == (5, 9))
            lab.sql("owner", "INSERT INTO app.t VALUES ('ACCT-A', 12)", "UPDATE app.t SET s = 'Acct-A' WHERE n = 5")
            check(
                f"{prefix}: a change of case is another scope",
                (fence(lab, prefix + "acct-a"), fence(lab, prefix + "ACCT-A"), fence(lab, prefix + "Acct-A")) == (5, 12, 5),
            )
            check(f"{prefix}: stale", lab.code("writer", f"SELECT termgate.check_term('{prefix}ACCT-A', 9)") == "TG001")
            check(prefix, lab.sql("reader", "SELECT * FROM termgate.verify_findings()") == [])


def test_what_a_reset_took_back_is_no_evidence(lab):
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint, v int)", "INSERT INTO app.t VALUES ('x', 3)")
    lab.sql("operator", ADOPT)
    lab.sql("owner", "INSERT INTO app.t VALUES ('x', 1000000000000000000)")
    lab.sql("operator", "SELECT termgate.reset_fence('x', 4, 'me', 'mistyped')")
    lab.sql("owner", "UPDATE app.t SET v = 1")
    check("an UPDATE of another column reports nothing", fence(lab, "x") == 4)
    check("nor does adopt", lab.value("operator", ADOPT) == 0)
    lab.sql("owner", "INSERT INTO app.t VALUES ('x', 6)")
    check("a new row with a higher term does", fence(lab, "x") == 6)
    check("nothing is broken", lab.sql("reader", "SELECT * FROM termgate.verify_findings()") == [])


def test_what_was_reported_is_evidence_where_a_fence_is_lost(lab):
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 3)")
    lab.sql("operator", ADOPT)
    lab.sql("owner", "INSERT INTO app.t VALUES ('x', 7)")
    lab.sql(
        "postgres",
        "ALTER TABLE termgate.fences DISABLE TRIGGER ALL",
        "DELETE FROM termgate.fences",
        "ALTER TABLE termgate.fences ENABLE ALWAYS TRIGGER fences_guard",
    )
    check(
        "verify finds it", ("adopted row above the fence", "x") in lab.sql("reader", "SELECT kind, scope FROM termgate.verify_findings()")
    )
    check("a stale leader stays out", lab.code("writer", "SELECT termgate.check_term('x', 6)") == "TG001")
    check("the rightful one gets in", lab.code("writer", "SELECT termgate.check_term('x', 7)") == "")


def test_rows_out_of_range_are_refused_by_name(lab):
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 9223372036854775807)")
    check("no such term", lab.code("operator", ADOPT) == "TG005")
    lab.sql("owner", "UPDATE app.t SET n = -3")
    check("below 1 it is none", lab.value("operator", ADOPT) == 0)
    check("nor by a row", lab.code("owner", "INSERT INTO app.t VALUES ('x', 4611686018427387905)") == "TG005")
    check("the highest", lab.code("owner", "INSERT INTO app.t VALUES ('x', 4611686018427387904)") == "")
    for call in ("acquire_lease('x', 'me', '1 s')", "seal('x', 4611686018427387904)"):
        code = lab.code("leader", f"SELECT termgate.{call}")
        check(f"{call}: {code}", code == ("TG005" if "lease" in call else ""))
    check("with its remedy", "reset_fence" in str(refusal(lab, "leader", "SELECT termgate.acquire_lease('x', 'me', '1 s')")))
    lab.sql("operator", "SELECT termgate.reset_fence('x', 5, 'me', 'mistyped')")
    check("which works", lab.code("leader", "SELECT termgate.acquire_lease('x', 'me', '1 s')") == "")


def refusal(lab, role, statement):
    import psycopg2

    try:
        lab.sql(role, statement)
    except psycopg2.Error as error:
        return f"{error.pgcode} {error.diag.message_primary} {error.diag.message_hint}"
    return ""


def test_stored_terms_at_the_limit_close_no_scope_for_good(lab):
    """Terms that only the owner of layer 1 could have stored: every call that computes the next one ends with TG005."""
    lab.sql("leader", "SELECT termgate.append('s', 1, 'x', scope => 'a')", "SELECT termgate.acquire_lease('b', 'me', '1 h')")
    lab.sql(
        "tg_owner",
        "UPDATE termgate.stream_writes SET term = 9223372036854775807",
        "UPDATE termgate.leases SET term = 4611686018427387904",
        "UPDATE termgate.fences SET term = 4611686018427387904 WHERE scope = 'b'",
        "INSERT INTO termgate.adopted_terms VALUES ('c', 9223372036854775807)",
    )
    for scope in "abc":
        check(f"acquisition of {scope}", lab.code("leader", f"SELECT termgate.acquire_lease('{scope}', 'me', '1 s')") == "TG005")
    check("a forced release", lab.code("operator", "SELECT termgate.force_release('b', 'me', 'why')") == "TG005")
    for scope in "ab":
        check(f"a reset of {scope}", lab.code("operator", f"SELECT termgate.reset_fence('{scope}', 1, 'me', 'mistyped')") == "")
        check(f"after which {scope} goes on", lab.code("leader", f"SELECT termgate.acquire_lease('{scope}', 'me', '1 s')") == "")


def test_no_scope_is_raised_above_what_its_leases_have_issued(lab):
    lab.sql("leader", "SELECT termgate.acquire_lease('leased', 'me', '1 hour')")
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('leased', 777)")
    check("by what is there", lab.code("operator", ADOPT) == "TG005")
    lab.sql("owner", "TRUNCATE app.t")
    lab.sql("operator", ADOPT)
    check("by a row", lab.code("owner", "INSERT INTO app.t VALUES ('leased', 777)") == "TG005")
    check("its fence", fence(lab, "leased") == 1)


def test_an_adopt_that_is_still_open_delays_raises_of_its_scopes_for_a_bounded_time(lab):
    lab.sql("operator", "SELECT termgate.set_setting('check_wait_ms', '300')")
    lab.sql("owner", "CREATE TABLE app.t (s text, n bigint)", "INSERT INTO app.t VALUES ('x', 3)")
    with lab.open("operator") as operator:
        operator.run("BEGIN")
        operator.run(ADOPT)
        began = time.monotonic()
        said = refusal(lab, "leader", "SELECT termgate.check_term('x', 4)")
        check(f"it is named: {said}", said.startswith("TG006") and str(operator.pid) in said)
        check("in time", time.monotonic() - began < 3)
        check("other scopes go on", lab.code("leader", "SELECT termgate.check_term('y', 4)") == "")
        check("it cannot be prepared", operator.code(f"PREPARE TRANSACTION 'kept {lab.name}'") != "")
    check("nothing is left of it", lab.code("leader", "SELECT termgate.check_term('x', 1)") == "")
