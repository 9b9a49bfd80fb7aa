#!/usr/bin/env python3
# Long: a case for each right, and for each refusal that a role meets.
"""[F3] [F6] Who may do what in layer 1 on PostgreSQL: each function by its level, what default privileges and installations by hand
give to nobody, what a role without rights can
change, forge or hold up, and arguments and columns of every collation.

  pytest tests/live/postgres/pg_rights_test.py [--majors 13,18]
"""
import io
import re
import subprocess
import time

import given
import psycopg2
import pytest
from checks import check
from layer1_lab import CLEAN, LEVELS, Server

ROOT = given.ROOT


PLAIN_SHARE = 2


@pytest.fixture(scope="module", params=given.majors("18"))
def server(request):
    started = Server(request.param)
    yield started
    started.stop()


@pytest.fixture
def lab(server):
    return server.fresh()


@pytest.fixture(scope="module")
def loaded():
    """A server that has loaded the guard's library, which carries out the common cases of layer 1 itself, where it was built."""
    started = Server("15", library=given.GUARD) if given.GUARD else None
    yield started
    if started:
        started.stop()


@pytest.fixture
def labs(lab, loaded):
    return [lab, loaded.fresh()] if loaded else [lab]


# ---------------------------------------------------------------------------------------------------- functions by level

# Every function that anybody besides the owner of layer 1 may call. A new one belongs here, with what it could change, hold up or forge
# in mind; all
# others are the owner's alone. The trigger functions are made for column names.
EVERYBODY = """_adopt_unregister _guard_rows _need_column _need_own_table _need_prefix _need_scope _place_in_tree _protect_arguments
_protect_attached
 _protect_below _protect_drop _protect_function _protect_register _protect_scopes _protect_statement _protect_truncate
 _protect_unregister _prove _tree protect unadopt unprotect"""
READ = "_untrusted doctor fence follower_behind lease outcome read_stream schema_version server_time verify_findings _refused_since"
WRITE = """append append_many check_again check_claim check_claim_text check_prepared check_session check_term claim_write
follower_advance follower_remove require_lease
 follower_start hold_claim hold_session job_finish job_heartbeat job_start job_take notify_raised record_refusal release_session
 seats_wanted
 sit stand"""
LEAD = "acquire_lease job_heartbeat job_request release_lease renew_lease renew_leases request_hand_over seal"
OPERATE = """_adopt_function _adopt_register adopt declare_nothing_lost declare_restored declare_untrusted force_release prune
prune_history reset_fence set_raise_by
 set_setting stream_move"""
BY_LEVEL = {"nobody": EVERYBODY, "reader": READ, "writer": WRITE, "leader": LEAD, "operator": OPERATE}


def may_call(lab, role):
    # A role without USAGE on the schema calls nothing there, whatever the function says.
    return {
        name
        for (name,) in lab.sql(
            "postgres",
            (
                f"SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace AND has_function_privilege('{role}',"
                " p.oid, 'EXECUTE')"
            ),
        )
    }


def levels(lab):
    return sorted(lab.sql("tg_owner", "SELECT role::text, level FROM termgate._levels()"))


def privileges(lab):
    """Everything that anybody but the owner has in the schema."""
    return sorted(
        tuple(map(str, row))
        for row in lab.sql(
            "postgres",
            """SELECT o.kind, o.name, a.grantee, a.privilege_type FROM (
                 SELECT 'f' AS kind, p.oid::regprocedure::text AS name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl,
                 p.proowner AS owner FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace
                 UNION ALL SELECT c.relkind::text, c.relname, c.relacl, c.relowner FROM pg_class c WHERE c.relnamespace =
                 'termgate'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'S')
                 UNION ALL SELECT 't', t.typname, t.typacl, t.typowner FROM pg_type t WHERE t.typnamespace = 'termgate'::regnamespace
                 UNION ALL SELECT 'n', n.nspname, n.nspacl, n.nspowner FROM pg_namespace n WHERE n.nspname = 'termgate') o, LATERAL
                 aclexplode(o.acl) a
               WHERE a.grantee <> o.owner""",
        )
    )


def test_every_function_has_its_level(lab):
    seen = set()
    for role, names in BY_LEVEL.items():
        seen |= set(names.split())
        found = {name for name in may_call(lab, role) if not re.match("_(protected|adopted)_row_", name)}
        check(f"{role}: not in the table of this test {sorted(found - seen)}, only there {sorted(seen - found)}", found == seen)
    tables = [row for row in privileges(lab) if row[0] in ("r", "m", "S")]
    check(f"nobody may look at or change a table: {tables}", tables == [])
    check("without USAGE on the schema none can be called", lab.code("nobody", "SELECT termgate.protect('pg_class', 'x')") == "42501")


def test_grant_level_gives_nothing_that_GRANT_would_not(lab):
    """It runs as its caller: whoever was let call it by hand still gives and takes nothing."""
    lab.sql("tg_owner", "GRANT EXECUTE ON FUNCTION termgate.grant_level(name, text), termgate.revoke_level(name) TO operator")
    before = privileges(lab)
    for call in (
        "grant_level('operator', 'operate')",
        "grant_level('nobody', 'read')",
        "grant_level('nobody', 'dump')",
        "revoke_level('writer')",
    ):
        check(call, lab.code("operator", f"SELECT termgate.{call}") == "42501")
    check("nothing was given or taken", privileges(lab) == before)


def test_what_a_role_of_level_read_cannot_change(lab):
    """Each call that it may make, with arguments that fit: the tables of layer 1 are what they were."""
    lab.sql(
        "owner",
        "CREATE TABLE app.t (s text, n int)",
        "CREATE TABLE app.seen (s text)",
        "SELECT termgate.protect('app.t', 's')",
        "SELECT termgate.protect('app.seen', scope => 'x', mode => 'observe')",
    )
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n')")

    def kept():
        tables = lab.sql(
            "postgres",
            (
                "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'termgate'::regnamespace AND c.relkind IN ('r', 'm')"
                " ORDER BY 1"
            ),
        )
        rows = {name: lab.sql("postgres", f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t") for (name,) in tables}
        return rows, lab.value("postgres", "SELECT count(*) FROM pg_proc WHERE pronamespace = 'termgate'::regnamespace")

    before = kept()
    fits = {
        "regclass": ("'app.t'::regclass", "'app.seen'::regclass"),
        "oid": ("'app.t'::regclass::oid",),
        "name": ("'s'::name", "'termgate_statement'::name"),
        "boolean": ("true", "false"),
        "integer": ("1",),
        "bigint": ("1",),
        "regtype[]": ("'{text}'::regtype[]",),
        "timestamp with time zone": ("now()",),
        "uuid": ("gen_random_uuid()",),
    }
    words = {"p_mode": "observe", "mode": "observe", "p_scope": "x", "p_prefix": "", "prefix": "", "p_column": "s"}
    for oid, called, names, types in lab.sql(
        "postgres",
        """SELECT p.oid, p.proname, coalesce(p.proargnames[1:p.pronargs], '{}'), ARRAY(SELECT format_type(t, NULL) FROM
        unnest(p.proargtypes) WITH ORDINALITY a(t, n) ORDER BY n) FROM pg_proc p
            WHERE p.pronamespace = 'termgate'::regnamespace AND p.prorettype <> 'trigger'::regtype AND has_function_privilege('reader',
            p.oid, 'EXECUTE')""",
    ):
        for turn in range(2):
            values = []
            for name, kind in zip(names, types):
                options = fits.get(kind, (f"'{words.get(name, 'x')}'::text",) if kind == "text" else ("NULL",))
                values.append(options[turn % len(options)])
            lab.code("reader", f"SELECT * FROM termgate.{called}({', '.join(values)})")
    check("nothing has changed", kept() == before)


@pytest.mark.parametrize(
    "call",
    [
        "_protect_function('app.t', 's')",
        "_protect_function('tt', 'c_1')",
        "_protect_register('app.t', 's', NULL, 'enforce', '')",
        "_protect_unregister('app.t')",
        "_adopt_unregister('app.t')",
    ],
)
def test_helpers_ask_for_proof_that_the_caller_owns_the_table(lab, call):
    lab.sql("owner", "CREATE TABLE app.t (s text, n int)", "GRANT TRIGGER ON app.t TO reader", "SELECT termgate.protect('app.t', 's')")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n')")
    for role in ("reader", "writer", "owner"):
        check(f"{role}: outside protect()", lab.code(role, "CREATE TEMP TABLE tt (c_1 text)", f"SELECT termgate.{call}") == "42501")
    # What its owner has taken away by hand stays on doctor's list.
    lab.sql("owner", "DROP TRIGGER termgate_row ON app.t", "DROP TRIGGER termgate_adopted ON app.t")
    lab.code("reader", f"SELECT termgate.{call}")
    found = lab.sql("reader", "SELECT problem FROM termgate.doctor() WHERE severity = 'error' AND object = 'app.t'")
    check(f"doctor still finds both: {found}", len(found) == 2)


def test_wrappers_of_the_tables_owner_may_protect(lab):
    lab.sql(
        "owner",
        "CREATE TABLE app.t (s text)",
        (
            "CREATE FUNCTION app.prepare() RETURNS int SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN RETURN termgate.protect('app.t', 's');"
            " END $$"
        ),
        "GRANT EXECUTE ON FUNCTION app.prepare() TO reader",
    )
    check("called by another role", lab.value("reader", "SELECT app.prepare()") == 1)
    for call in ("protect('app.t', scope => 'b')", "unprotect('app.t')"):
        check(f"who may not do it itself: {call}", lab.code("reader", f"SELECT termgate.{call}") == "42501")
    with lab.open("owner") as owner:
        owner.run("BEGIN")
        owner.run("SAVEPOINT s")
        check("in a savepoint", owner.value("SELECT termgate.unprotect('app.t')") == 1)
        check("and again", owner.value("SELECT termgate.protect('app.t', 's')") == 1)
        owner.run("COMMIT")


def test_an_open_protect_holds_up_others_for_a_bounded_time(lab):
    lab.sql("operator", "SELECT termgate.set_setting('check_wait_ms', '300')")
    lab.server.admin(lab.name, "GRANT CREATE ON SCHEMA app TO reader")
    lab.sql(
        "owner",
        "CREATE TABLE app.t (fresh_1 text, n int)",
        "CREATE TABLE app.u (fresh_2 text, n int)",
        "CREATE TABLE app.k (known text)",
        "SELECT termgate.protect('app.k', 'known')",
    )
    with lab.open("reader") as reader:
        reader.run("CREATE TABLE app.mine (fresh_1 text)")
        reader.run("BEGIN")
        reader.run("SELECT termgate.protect('app.mine', 'fresh_1')")
        for call in ("protect('app.t', 'fresh_1')", "protect('app.u', 'fresh_2')"):
            began = time.monotonic()
            check(call, lab.code("owner", "SET statement_timeout = '5 s'", f"SELECT termgate.{call}") == "TG006")
            check(f"{call}: in time", time.monotonic() - began < 3)
        check("adopt", lab.code("operator", "SELECT termgate.adopt('app.t', 'fresh_1', 'n')") == "TG006")
        check("a column name that is known waits for nobody", lab.code("owner", "SELECT termgate.protect('app.k', 'known')") == "")
        reader.run("ROLLBACK")
    check("then it goes on", lab.code("owner", "SELECT termgate.protect('app.t', 'fresh_1')") == "")


def test_refusals_and_followers_of_others_cannot_be_forged(lab):
    lab.sql("leader", "SELECT termgate.seal('a', 5)", "SELECT termgate.append('s', 5, 'x', scope => 'a')")
    for term, count in ((5, 1), (9223372036854775807, 1), (1, 0), (1, 10**12)):
        check(
            f"term {term}, {count} times",
            lab.code("writer", f"SELECT termgate.record_refusal('a', {term}, {count}, now(), now())") == "TG005",
        )
    check("a scope that was never raised", lab.code("writer", "SELECT termgate.record_refusal('unknown', 1, 1, now(), now())") == "TG005")
    lab.sql("writer", "SELECT termgate.record_refusal('a', 4, 2, '1970-01-01', '2999-01-01', 'me')")
    ((early, late, who),) = lab.sql(
        "reader",
        """SELECT (detail->>'first')::timestamptz < now() - interval '2 days', (detail->>'last')::timestamptz > now() + interval '1 s',
        "session_user" FROM termgate.audit_log WHERE action = 'refuse'""",
    )
    check("the times are possible ones, and the reporter is named", (early, late, who) == (False, False, "writer"))
    run = lab.value("writer", "SELECT termgate.follower_start('f', 's')")
    for call in ("follower_start('f', 's')", f"follower_advance('f', {run}, 's', 0, 1)", "follower_remove('f')"):
        check(f"another role: {call}", lab.code("owner", f"SELECT termgate.{call}") == "42501")
    check("its own role goes on", lab.value("writer", f"SELECT termgate.follower_advance('f', {run}, 's', 0, 1)") == "moved")
    check("level operate may", lab.value("operator", "SELECT termgate.follower_remove('f')") is True)
    lab.server.admin(lab.name, "GRANT writer TO leader")
    lab.sql("writer", "SELECT termgate.follower_start('g', 's')")
    check("a member of the role may", lab.value("leader", "SELECT termgate.follower_start('g', 's')") == 2)
    lab.server.admin(lab.name, "REVOKE writer FROM leader")


def test_observations_are_made_by_who_writes(lab):
    lab.sql(
        "owner",
        "CREATE TABLE app.t (k int) PARTITION BY LIST (k)",
        "CREATE TABLE app.t1 PARTITION OF app.t FOR VALUES IN (1)",
        "SELECT termgate.protect('app.t1', scope => 'x', mode => 'observe')",
        "GRANT SELECT ON app.t, app.t1 TO reader",
    )
    for level in ("READ COMMITTED", "REPEATABLE READ"):
        lab.sql("reader", f"BEGIN ISOLATION LEVEL {level}", "SELECT termgate._guard_rows('app.t1', 'observe', 'x')", "COMMIT")
    check("by hand nobody reports anything", lab.value("postgres", "SELECT count(*) FROM termgate.observed") == 0)
    lab.sql("owner", "INSERT INTO app.t VALUES (1)")
    check("by way of the parent", lab.value("postgres", "SELECT count(*) FROM termgate.observed") == 1)


# -------------------------------------------------------------------------------------------- levels that nobody granted

ALTER = "ALTER DEFAULT PRIVILEGES FOR ROLE tg_owner"
DEFAULTS = {
    "to a role": (
        f"{ALTER} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; {ALTER} GRANT EXECUTE ON FUNCTIONS TO nobody WITH GRANT OPTION",
        *(f"{ALTER} GRANT ALL ON {what} TO nobody" for what in ("TABLES", "SEQUENCES", "SCHEMAS", "TYPES")),
    ),
    "to everybody": (
        f"{ALTER} GRANT ALL ON FUNCTIONS TO PUBLIC, writer",
        *(f"{ALTER} GRANT ALL ON {what} TO PUBLIC" for what in ("TABLES", "SCHEMAS")),
    ),
    "in its schema": (
        "CREATE SCHEMA termgate AUTHORIZATION tg_owner",
        f"{ALTER} IN SCHEMA termgate GRANT ALL ON FUNCTIONS TO nobody",
        f"{ALTER} IN SCHEMA termgate GRANT ALL ON TABLES TO nobody, PUBLIC",
    ),
}


def test_default_privileges_give_nobody_anything(server, lab):
    """init, an upgrade and new trigger functions end with what was granted, and nothing else."""
    expected = privileges(lab)
    for name, defaults in DEFAULTS.items():
        other = server.bare()
        server.admin(other.name, *defaults)
        grants = [word for role, level in LEVELS.items() for word in ("--grant", f"{role}={level}")]
        other.must("init", *grants)
        check(f"{name}, after init: {set(privileges(other)) ^ set(expected)}", privileges(other) == expected)
        # Functions and a view that an upgrade makes anew.
        other.sql(
            "tg_owner",
            "DROP FUNCTION termgate.seal, termgate.outcome",
            "DROP VIEW termgate.audit_log",
            "DELETE FROM termgate.migrations WHERE version > 19",
        )
        other.must("init")
        check(f"{name}, after an upgrade: {set(privileges(other)) ^ set(expected)}", privileges(other) == expected)
        check(f"{name}: the levels", levels(other) == levels(lab))
        other.sql("owner", "CREATE TABLE app.t (s text, n int)", "SELECT termgate.protect('app.t', 's')")
        other.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n')")
        made = {row for row in set(privileges(other)) - set(expected) if row[1].startswith("termgate._adopted_row")}
        nobody = other.value("postgres", "SELECT 'nobody'::regrole::oid::text")
        check(f"{name}: a trigger function that was made since: {made}", nobody not in {grantee for _, _, grantee, _ in made})


FOREIGN = {
    "the schema": ("CREATE SCHEMA termgate",),
    "with a table": ("CREATE SCHEMA termgate", "CREATE TABLE termgate.settings (name text PRIMARY KEY, value text, what text)"),
    "as if installed": (
        "CREATE SCHEMA termgate",
        "CREATE TABLE termgate.migrations (version int PRIMARY KEY, name text, applied_at timestamptz)",
    ),
}


@pytest.mark.parametrize("made", FOREIGN)
def test_layer_1_is_not_installed_into_what_belongs_to_another(server, made):
    lab = server.bare()
    server.admin(
        lab.name, f"GRANT CREATE ON DATABASE {lab.name} TO owner", "CREATE TABLE app.ran_as (who text)", "GRANT ALL ON app.ran_as TO PUBLIC"
    )
    lab.sql(
        "owner",
        *FOREIGN[made],
        "GRANT ALL ON SCHEMA termgate TO PUBLIC",
        "GRANT ALL ON ALL TABLES IN SCHEMA termgate TO PUBLIC",
        (
            "CREATE FUNCTION app.pwn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.ran_as VALUES (current_user); RETURN"
            " NEW; END $$"
        ),
        *(
            f"CREATE TRIGGER pwn BEFORE INSERT ON {statement.split()[2]} FOR EACH ROW EXECUTE FUNCTION app.pwn()"
            for statement in FOREIGN[made]
            if "TABLE" in statement
        ),
    )
    done = lab.termgate("tg_owner", "init")
    check(f"refused, with the role's name: {done.stderr}", done.returncode != 0 and "belongs to role owner" in done.stderr)
    check("nothing of the owner's ran", lab.sql("postgres", "SELECT * FROM app.ran_as") == [])
    for (table,) in lab.sql(
        "postgres", "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'termgate'::regnamespace AND relkind = 'r'"
    ):
        server.admin(lab.name, f"DROP TABLE {table}")
    server.admin(lab.name, "ALTER SCHEMA termgate OWNER TO tg_owner")
    lab.must("init", "--grant", "reader=read")
    mine = "SELECT count(*) FROM termgate.doctor() WHERE object = 'schema \"termgate\"'"
    check("then it is not", lab.value("reader", mine) == 0)
    server.admin(lab.name, "ALTER SCHEMA termgate OWNER TO owner")
    check("doctor names a schema that was given away", lab.value("reader", mine) == 1)


def test_an_age_or_length_in_months_is_none(lab):
    """PostgreSQL compares a month as 30 days and adds what the calendar has: such a sum passes as an hour and comes to days or years."""
    with lab.open("operator") as operator:
        operator.run("SELECT termgate.seal('x', 1)")
        for months in range(1, 13):
            for older in (f"-{months} months {30 * months} days 1 hour", f"{months} months -{30 * months} days 1 hour"):
                operator.code(f"SELECT termgate.prune_history('{older}')")
        check(
            "nothing that is younger than an hour is gone", operator.value("SELECT count(*) FROM termgate.audit_log WHERE scope = 'x'") == 1
        )
        check("an age that is one", operator.code("SELECT termgate.prune_history('2 months')") == "")
        for _ in range(2):
            lab.sql("postgres", "UPDATE termgate.audit SET at = at - interval '1 day'")
            operator.run("SELECT termgate.prune_history('2 hours')")
        kept = operator.run("SELECT DISTINCT action FROM termgate.audit_log")
        check(f"a pruning stays on record: {kept}", kept == [("prune_history",)])
        for length in ("1200 months -36000 days 1 s", "-1 month 30 days 1 s"):
            for call in (
                f"acquire_lease('l', 'me', '{length}')",
                f"acquire_lease('l', 'me', '1 s', grace => '{length}')",
                f"renew_lease('l', 'me', 1, '{length}')",
                f"seal('s', 1, '{length}')",
            ):
                check(call, operator.code(f"SELECT termgate.{call}") == "TG005")


def test_an_upgrade_leaves_no_trigger_function_as_it_was(lab):
    """protect and adopt take a function that is there: one that no table uses at the upgrade must not wait for them as it was."""
    lab.sql("owner", "CREATE TABLE app.t (s text, n int)", "SELECT termgate.protect('app.t', 's')", "SELECT termgate.unprotect('app.t')")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n')", "SELECT termgate.unadopt('app.t')")
    old = lab.sql("postgres", "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname ~ '^_(protected|adopted)_row_'")
    check("both were made", len(old) == 2)
    for (name,) in old:
        lab.sql(
            "tg_owner",
            f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'of an older version'; END $$",
        )
    lab.sql("tg_owner", "DELETE FROM termgate.migrations WHERE version > 19")
    lab.must("init")
    lab.sql("operator", "SELECT termgate.adopt('app.t', 's', 'n', 'a/')")
    lab.sql("owner", "INSERT INTO app.t VALUES ('x', 1)", "SELECT termgate.protect('app.t', 's', prefix => 'a/')")
    with lab.open("owner") as owner:
        owner.run("SET termgate.scope = 'a/x'; SET termgate.term = '1'; INSERT INTO app.t VALUES ('x', 1)")


def test_what_was_granted_by_hand_stays(lab):
    lab.sql(
        "tg_owner",
        "GRANT USAGE ON SCHEMA termgate TO nobody",
        "GRANT EXECUTE ON FUNCTION termgate.reset_fence TO nobody",
        "GRANT SELECT ON termgate.audit TO nobody",
        "GRANT SELECT ON termgate.fence_status TO PUBLIC",
    )
    before = privileges(lab)
    lab.must("init")
    check(f"{set(privileges(lab)) ^ set(before)}", privileges(lab) == before)
    check("one function is no level", ("nobody", 4) not in levels(lab))


def test_grant_lowers(lab):
    for number, role in ((4, "operator"), (3, "leader"), (2, "writer"), (1, "reader")):
        lab.must("init", "--grant", f"nobody={LEVELS[role]}")
        check(f"to {LEVELS[role]}", ("nobody", number) in levels(lab) and may_call(lab, "nobody") == may_call(lab, role))


def test_doctor_names_a_function_that_the_owner_of_layer_1_may_not_call(lab):
    remedies = "SELECT remedy FROM termgate.doctor() WHERE severity = 'error' AND object LIKE 'function %'"
    lab.sql("postgres", "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_advisory_unlock_shared(bigint) FROM PUBLIC")
    ((remedy,),) = lab.sql("reader", remedies)
    check(remedy, remedy == "GRANT EXECUTE ON FUNCTION pg_advisory_unlock_shared(bigint) TO tg_owner")
    lab.sql("postgres", remedy)
    check("it works", lab.sql("reader", remedies) == [])


# --------------------------------------------------------------------------------------------- by hand, as the page says


def hand_install(lab, text):
    env = {**CLEAN, "URL": lab.url("tg_owner")}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def recipe():
    page = (ROOT / "sql/postgres/README.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.S) if "install/*.sql" in block]
    return block


def test_the_recipe_without_the_command_is_safe(server, lab):
    other = server.bare()
    server.admin(other.name, "DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    hand_install(other, recipe())
    check(f"{levels(other)}", levels(other) == [("app", 2)])
    check("app has what level write has", may_call(other, "app") == may_call(lab, "writer"))
    check("everybody else what everybody has", may_call(other, "nobody") == may_call(lab, "nobody"))
    check("which works", other.code("app", "SELECT termgate.check_term('a', 1)") == "")
    other.must("init")
    check(
        "and the command goes on from it",
        other.value("tg_owner", "SELECT termgate.schema_version()") == lab.value("tg_owner", "SELECT termgate.schema_version()"),
    )


@pytest.mark.parametrize("mend", [("init",), ("init", "--revoke", "PUBLIC"), ("init", "--grant", "writer=write")])
def test_an_installation_that_left_everything_to_PUBLIC_is_mended(server, lab, mend):
    """The files of install/ alone, as older pages had it, and a level granted by hand."""
    other = server.bare()
    hand_install(
        other,
        """cat sql/postgres/install/*.sql | sed "s/@schema_lit@/'termgate'/g; s/@schema@/\\"termgate\\"/g" | psql -qX -1 \\
        -v ON_ERROR_STOP=1 "$URL" > /dev/null""",
    )
    other.sql("tg_owner", "SELECT termgate.grant_level('writer', 'write')")
    check("before: anybody may do anything", other.code("writer", "SELECT termgate.seal('a', 1)") == "")
    other.must(*mend)
    check(f"{levels(other)}", levels(other) == [("writer", 2)])
    check(
        "level write is left",
        other.code("writer", "SELECT termgate.seal('a', 1)") == "42501"
        and other.code("writer", "SELECT termgate.check_term('a', 1)") == "",
    )
    check("and nothing to everybody", may_call(other, "nobody") == may_call(lab, "nobody"))


# ------------------------------------------------------------------------------------------------------------ collations

COLLATIONS = ("POSIX", "en-x-icu", "unusual", "C")


def with_collations(lab):
    lab.sql(
        "postgres", "CREATE COLLATION IF NOT EXISTS pg_catalog.unusual (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    return COLLATIONS


def test_every_public_function_takes_arguments_of_any_collation(labs):
    for lab in labs:
        public_functions_take_any_collation(lab)


def public_functions_take_any_collation(lab):
    """The same call with arguments of each collation ends as it does without: generated from pg_proc."""
    collations = with_collations(lab)
    words = {"mode": "enforce", "status": "failed", "raise_by": "seal", "name": "check_wait_ms", "value": "5000", "leases": "[]"}
    fits = {
        "bigint": "1",
        "integer": "1",
        "interval": "interval '1 s'",
        "boolean": "false",
        "bytea": "'x'::bytea",
        "bytea[]": "ARRAY['x'::bytea]",
        "uuid": "NULL::uuid",
        "uuid[]": "NULL::uuid[]",
        "timestamp with time zone": "now()",
        "json": "'[]'::json",
        "regclass": "'app.t'::regclass",
    }
    functions = lab.sql(
        "postgres",
        """SELECT p.proname, coalesce(p.proargnames[1:p.pronargs], '{}'), ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes)
        WITH ORDINALITY a(t, n) ORDER BY n) FROM pg_proc p
            WHERE p.pronamespace = 'termgate'::regnamespace AND p.proname !~ '^_' AND p.proargtypes && ARRAY['text',
            'name']::regtype[]::oid[] ORDER BY 1""".replace(
            "p.proargtypes &&", "p.proargtypes::oid[] &&"
        ),
    )
    check(f"{len(functions)} functions", len(functions) > 30)
    lab.sql("owner", "CREATE TABLE app.t (s text, n int)", "INSERT INTO app.t VALUES ('a', 1)")
    for called, names, types in given.share(functions, of=4):

        def call(collation):
            values = []
            for name, kind in zip(names, types):
                if kind in ("text", "name"):
                    word = words.get(name, {"scope_column": "s", "term_column": "n", "prefix": "p"}.get(name, "a"))
                    if (called, name) == ("protect", "scope"):
                        values.append("NULL")
                        continue
                    values.append(f"'{word}'::{kind}" + (f' COLLATE "{collation}"' if collation else ""))
                else:
                    values.append(fits[kind])
            return f"SELECT * FROM termgate.{called}({', '.join(values)})"

        role = "owner" if called == "protect" else "operator"

        def played(collation):
            with lab.open("tg_owner" if role == "operator" and called != "adopt" else role) as session:
                session.run("BEGIN")
                code = session.code(call(collation))
                session.run("ROLLBACK")
                return code

        expected = played(None)
        check(f"{called} by itself: {expected}", expected in ("", "TG001", "TG003", "TG005", "TG007", "42704"))
        for collation in collations:
            check(f"{called} with {collation}: {played(collation)}, not {expected!r}", played(collation) == expected)


@pytest.mark.parametrize("collation", COLLATIONS)
def test_columns_of_any_collation_can_be_protected(labs, collation):
    for lab in labs:
        column_can_be_protected(lab, collation)


def column_can_be_protected(lab, collation):
    with_collations(lab)
    lab.sql("leader", "SELECT termgate.seal('X1', 5)", "SELECT termgate.seal('x1', 3)")
    lab.sql("owner", f'CREATE TABLE app.t (s text COLLATE "{collation}", i int)', "SELECT termgate.protect('app.t', 's')")
    claim = ("SET termgate.scope = 'X1'", "SET termgate.term = '5'")
    statements = (
        "INSERT INTO app.t VALUES ('X1', 1)",
        "UPDATE app.t SET i = 2",
        "INSERT INTO app.t SELECT 'X1', 3",
        "DELETE FROM app.t WHERE i = 3",
        "TRUNCATE app.t",
    )
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        begin = f"BEGIN ISOLATION LEVEL {level}"
        for statement in statements[: None if level == "READ COMMITTED" else -1]:
            check(f"{level}: {statement}", lab.code("owner", *claim, begin, statement, "COMMIT") == "")
        stale = (claim[0], "SET termgate.term = '4'", begin, statements[0], "COMMIT")
        check(f"{level}: stale", lab.code("owner", *stale) == "TG001")
    check("another case is another scope", lab.code("owner", *claim, "INSERT INTO app.t VALUES ('x1', 1)") == "TG002")
    check(
        "also where an UPDATE moves the row there",
        lab.code("owner", *claim, "INSERT INTO app.t VALUES ('X1', 1)", "UPDATE app.t SET s = 'x1'") == "TG002",
    )
    with lab.open("owner") as owner, owner.connection.cursor() as cursor:
        owner.run("; ".join(claim))
        cursor.copy_expert("COPY app.t FROM STDIN", io.StringIO("X1\t7\n"))
        check("COPY", cursor.rowcount == 1)


# ---------------------------------------------------------------------------------------------------------- what is said


def test_protect_says_what_it_replaces(lab):
    lab.sql("owner", "CREATE TABLE app.t (s text)")
    with lab.open("owner") as owner:
        for call, said in (
            ("scope => 'billing'", None),
            ("scope => 'billing'", None),
            ("scope => 'report'", "billing"),
            ("scope_column => 's'", "report"),
            ("scope_column => 's', prefix => 'p/'", "scope column"),
            ("scope_column => 's', prefix => 'p/', mode => 'observe'", "observe"),
            ("scope_column => 's', prefix => 'p/'", None),
        ):
            del owner.notices[:]
            owner.run(f"SELECT termgate.protect('app.t', {call})")
            warned = [line for line in owner.notices if line.startswith("WARNING")]
            check(f"{call}: {warned}", bool(warned) == bool(said) and (not said or said in warned[0]))
    check(
        "the audit has it too",
        lab.value("reader", "SELECT count(*) FROM termgate.audit_log WHERE action = 'protect' AND detail ? 'previous'") == 6,
    )


INSERT = "INSERT INTO app.t VALUES (1)"


def declared(scope, term):
    return ("BEGIN", *(f"SET LOCAL termgate.{name} = '{value}'" for name, value in (("scope", scope), ("term", term)) if value))


def refused(lab, role, *statements):
    """Code, message and hint of what ends the statements."""
    with pytest.raises(psycopg2.Error) as error:
        lab.sql(role, *statements)
    return error.value.pgcode, error.value.diag.message_primary, error.value.diag.message_hint


@pytest.fixture
def billing(lab):
    """A table that is protected under scope billing, at term 5."""
    lab.sql("leader", "SELECT termgate.seal('billing', 5)")
    lab.sql("owner", "CREATE TABLE app.t (v int)", "GRANT ALL ON app.t TO PUBLIC", "SELECT termgate.protect('app.t', scope => 'billing')")
    return lab


def test_a_refusal_says_what_was_declared_and_what_is_needed(billing):
    for claim, seen in (
        (declared(None, None), "nothing is declared"),
        (declared("other", 6), 'term 6 is declared for scope "other"'),
        (declared("billing", None), 'scope "billing" is declared without a term'),
        (declared(None, 5), "term 5 is declared without a scope"),
    ):
        code, message, hint = refused(billing, "writer", *claim, INSERT)
        check(message, (code, message) == ("TG002", f'TG002 no term declared for scope "billing": table app.t is protected; {seen}'))
        for part in ("SET LOCAL termgate.scope = 'billing'", "check_term('billing', N)", "Outside a transaction block"):
            check(f"{seen}: {hint}", part in hint)
    # What the hint says works, once the leader's term is in the place of N.
    check("as it says", billing.code("writer", *declared("billing", 5), INSERT, "COMMIT") == "")


def test_a_hint_names_what_the_role_may_do(billing):
    above = (*declared("billing", 6), INSERT)
    check("level write", "\"termgate\".check_term('billing', 6)" in refused(billing, "writer", *above)[2])
    check("level lead", "\"termgate\".seal('billing', 6)" in refused(billing, "leader", *above)[2])
    billing.sql("operator", "SELECT termgate.set_raise_by('billing', 'seal')")
    for statements in (above, ("SELECT termgate.check_term('billing', 6)",)):
        check(statements[-1], "termgate init --grant writer=lead" in refused(billing, "writer", *statements)[2])


def test_refusals_of_plain_sql_are_counted_although_they_were_rolled_back(billing):
    stale = "SELECT termgate.check_term('billing', 4)"
    for statements, code in (
        *(((stale,), "TG001"),) * 3,
        ((*declared("billing", 4), INSERT), "TG001"),
        ((INSERT,), "TG002"),
        (("SELECT termgate.check_session()",), "TG002"),
    ):
        check(statements[-1], billing.code("writer", *statements) == code)
    counts = dict(billing.sql("reader", "SELECT code, count FROM termgate.refusal_counts"))
    check(f"{counts}", (counts["TG001"], counts["TG002"]) == (4, 2))
    told = billing.value("reader", "SELECT problem FROM termgate.doctor() WHERE object = 'refusals'")
    check(told, "TG001: 4" in told)
    # A read-only transaction cannot count, and is refused all the same; nobody else can write the counts.
    check("read-only", billing.code("writer", "BEGIN READ ONLY", stale) == "TG001")
    for call in ("nextval('termgate.refused_tg001')", "setval('termgate.refused_tg001', 1)"):
        check(call, billing.code("writer", f"SELECT {call}") == "42501")


def test_prepared_transactions_that_hold_an_untrusted_scope_are_listed(lab):
    lab.sql("leader", "SELECT termgate.seal('prepared', 5), termgate.seal('other', 5)")
    gid = f"untrusted {lab.name}"
    lab.sql("writer", "BEGIN", "SELECT termgate.check_term('prepared', 5)", f"PREPARE TRANSACTION '{gid}'")
    doubt = "SELECT gid, scope FROM termgate._prepared_in_doubt()"
    check("not while it is trusted", lab.sql("postgres", doubt) == [])
    lab.sql("operator", "SELECT termgate.declare_untrusted('test', 'a restore')")
    check("then it is", lab.sql("postgres", doubt) == [(gid, "prepared")])
    errors = lab.sql("reader", "SELECT object FROM termgate.doctor() WHERE severity = 'error'")
    check(f"by doctor too: {errors}", gid in str(errors))
    lab.sql("operator", "SELECT termgate.declare_nothing_lost('test', 'a restore')")
    noted = lab.value("reader", "SELECT detail::text FROM termgate.audit_log WHERE action = 'prepared_in_doubt'")
    check(f"the audit has it: {noted}", gid in noted and lab.sql("postgres", doubt) == [])
    lab.sql("writer", f"ROLLBACK PREPARED '{gid}'")
