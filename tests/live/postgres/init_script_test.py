#!/usr/bin/env python3
"""`termgate init --print`: the script and the command leave the same database behind, rights included, and so does an upgrade; a script
that must not run changes nothing.

  pytest tests/live/postgres/init_script_test.py [--majors 13,18]
"""
import gzip
import os
import re
import sqlite3
import subprocess
import time

from checks import captured
import given
import psycopg2
import pytest
from given import TERMGATE
from layer1_lab import CLEAN, LEVELS, Server

ROOT = given.ROOT
PLAIN_SHARE = 2
GRANTS = [word for role, level in LEVELS.items() for word in ("--grant", f"{role}={level}")]
HOSTILE = 'strange "schema" \\ 1'


def printed(*words, code=0):
    done = subprocess.run([TERMGATE, "init", "--print", *words], capture_output=True, text=True, env=CLEAN, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


# ------------------------------------------------------------------------------------------------------------ PostgreSQL


@pytest.fixture(scope="module", params=given.majors("13"))
def server(request):
    started = Server(request.param)
    yield started
    started.stop()


def psql(lab, role, script, *words):
    return captured(
        ["psql", "-X", "-q", *(words or ["-v", "ON_ERROR_STOP=1"]), "-d", lab.url(role), "-f", "-"], input=script, env=CLEAN, timeout=120
    )


def run_script(lab, script, role="tg_owner"):
    done = psql(lab, role, script)
    assert done.returncode == 0, done.stderr


def acl(column):
    return f"(SELECT string_agg(one::text, ' ' ORDER BY one::text) FROM unnest({column}) one)"


def left_behind(lab, schema="termgate"):
    """Everything of the schema: definitions, owners, rights, comments, settings, versions."""
    name = '"' + schema.replace('"', '""') + '"'
    literal = "E'" + schema.replace("\\", "\\\\") + "'"
    objects = lab.sql(
        "postgres",
        f"""
        SELECT 'schema', n.nspname::text, pg_get_userbyid(n.nspowner)::text, {acl('n.nspacl')}, ''
          FROM pg_namespace n WHERE n.nspname = {literal}
        UNION ALL
        SELECT 'function', p.oid::regprocedure::text, pg_get_userbyid(p.proowner), {acl('p.proacl')},
               pg_get_functiondef(p.oid) || coalesce(obj_description(p.oid, 'pg_proc'), '')
          FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = {literal}
        UNION ALL
        SELECT c.relkind::text, c.relname, pg_get_userbyid(c.relowner), {acl('c.relacl')},
               coalesce(CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END, '')
               || coalesce(obj_description(c.oid, 'pg_class'), '') || coalesce(c.reloptions::text, '') || c.relpersistence::text
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {literal}
        UNION ALL
        SELECT 'column', c.relname || '.' || a.attname, a.attnum::text, {acl('a.attacl')},
               format_type(a.atttypid, a.atttypmod) || a.attnotnull::text || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
          FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE n.nspname = {literal} AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT 'constraint', o.conname, '', '', pg_get_constraintdef(o.oid)
          FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace WHERE n.nspname = {literal}
        UNION ALL
        SELECT 'trigger', t.tgname, '', '', pg_get_triggerdef(t.oid) || t.tgenabled::text
          FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = {literal} AND NOT t.tgisinternal
        UNION ALL
        SELECT 'event trigger', e.evtname, pg_get_userbyid(e.evtowner), '', e.evtevent || e.evtfoid::regprocedure::text
          FROM pg_event_trigger e
        ORDER BY 1, 2, 3, 5
        """,
    )
    assert len(objects) > 100
    rows = {
        table: lab.sql("postgres", f"SELECT {columns} FROM {name}.{table} ORDER BY 1")
        for table, columns in {"settings": "name, value", "migrations": "version, name"}.items()
    }
    return objects, rows


def same(one, other):
    for ours, theirs in zip(one[0], other[0]):
        assert ours == theirs
    assert one == other


def test_the_script_leaves_what_init_leaves(server):
    by_command, by_script = server.bare(), server.bare()
    by_command.must("init", *GRANTS, "--failover", "synchronous")
    run_script(by_script, printed(*GRANTS, "--failover", "synchronous"))
    same(left_behind(by_command), left_behind(by_script))
    # Once more, over what the command made and over what the script made: nothing changes.
    before = left_behind(by_command)
    for lab in by_command, by_script:
        run_script(lab, printed())
        same(before, left_behind(lab))
    # The levels work as granted, and a stale write is refused.
    assert (
        by_script.sql("writer", "SELECT termgate.check_term('s', 5)")
        and by_script.code("writer", "SELECT termgate.check_term('s', 4)") == "TG001"
    )
    assert by_script.code("reader", "SELECT termgate.check_term('s', 6)") == "42501"
    assert by_script.code("nobody", "SELECT termgate.check_term('s', 6)") == "42501"


def test_a_database_of_another_owner_and_default_privileges(server):
    """What ALTER DEFAULT PRIVILEGES gives, and what the database's owner needs for pg_dump, are the same by both ways."""
    labs = server.bare(), server.bare()
    for lab in labs:
        lab.sql("postgres", f"ALTER DATABASE {lab.name} OWNER TO owner")
        for what in "TABLES", "SEQUENCES", "FUNCTIONS":
            lab.sql("postgres", f"ALTER DEFAULT PRIVILEGES FOR ROLE tg_owner GRANT ALL ON {what} TO nobody")
    labs[0].must("init", "--grant", "PUBLIC=read")
    run_script(labs[1], printed("--grant", "PUBLIC=read"))
    same(*(left_behind(lab) for lab in labs))
    assert labs[1].sql("owner", "SELECT count(*) FROM termgate.settings")
    assert labs[1].code("nobody", "SELECT count(*) FROM termgate.settings") == "42501"


def test_a_schema_of_a_hostile_name(server):
    labs = server.bare(), server.bare()
    labs[0].must("init", "--schema", HOSTILE, "--grant", "writer=write")
    script = printed("--schema", HOSTILE, "--grant", "writer=write")
    # Where a backslash begins an escape, too.
    labs[1].sql("postgres", f"ALTER DATABASE {labs[1].name} SET standard_conforming_strings = off")
    run_script(labs[1], script)
    same(*(left_behind(lab, HOSTILE) for lab in labs))


def test_migration_tools(server):
    """They send the whole text at once, in a transaction of their own."""
    labs = server.bare(), server.bare()
    labs[0].must("init", *GRANTS)
    script = printed("--no-transaction", *GRANTS)
    assert not re.search(r"(?m)^(BEGIN ISOLATION|COMMIT;)", script)
    assert "${" not in script  # Flyway's placeholders
    connection = psycopg2.connect(labs[1].url("tg_owner"))
    with connection, connection.cursor() as cursor:
        cursor.execute(script)
    connection.close()
    same(*(left_behind(lab) for lab in labs))


def nothing_was_made(lab):
    return lab.value("postgres", "SELECT count(*) FROM pg_namespace WHERE nspname = 'termgate'") == 0


def test_a_script_without_its_transaction_changes_nothing(server):
    lab = server.bare()
    done = psql(lab, "tg_owner", printed("--no-transaction"))
    assert done.returncode == 3 and "run this script in one transaction" in done.stderr
    assert nothing_was_made(lab)


@pytest.mark.parametrize("words", ([], ["-v", "ON_ERROR_STOP=1"]))
def test_an_error_leaves_nothing(server, words):
    """psql goes on after an error unless it is told not to; the transaction does not."""
    lab = server.bare()
    done = psql(lab, "tg_owner", printed("--grant", "writer=write", "--grant", "missing=read"), *words)
    assert 'role "missing" does not exist' in done.stderr
    assert nothing_was_made(lab)


def test_whose_it_is_and_what_is_newer(server):
    lab = server.fresh()
    before = left_behind(lab)
    lab.sql("postgres", f"GRANT CREATE ON DATABASE {lab.name} TO nobody")
    done = psql(lab, "nobody", printed())
    assert done.returncode == 3 and "belongs to role tg_owner, and role nobody is not a member" in done.stderr
    same(before, left_behind(lab))
    lab.sql("tg_owner", "INSERT INTO termgate.migrations (version, name) VALUES (999, 'later')")
    later = left_behind(lab)
    done = psql(lab, "tg_owner", printed("--grant", "nobody=operate"))
    assert done.returncode == 3 and "version 999 of layer 1 is installed" in done.stderr
    same(later, left_behind(lab))


# -------------------------------------------------------------------------------------------------------------- upgrades


def old_layer1(server):
    """A database with schema version 13 as it was made then, rows of migrations included."""
    lab = server.bare()
    with gzip.open(ROOT / "tests/live/postgres/fixtures/postgres_schema_13.sql.gz", "rt", encoding="utf-8") as script:
        lab.sql("tg_owner", "BEGIN; " + script.read() + "; COMMIT")
    assert lab.value("tg_owner", "SELECT termgate.schema_version()") == 13
    return lab


def upgraded(lab):
    """What is left behind but for the settings, and for the places of columns: an upgrade adds some at the end."""
    objects, rows = left_behind(lab)
    return [(kind, name, None if kind == "column" else owner, *more) for kind, name, owner, *more in objects], rows["migrations"]


def test_an_upgrade_leaves_what_a_fresh_init_leaves(server):
    fresh, old = server.fresh(), old_layer1(server)
    for role, level in LEVELS.items():
        old.sql("tg_owner", f"SELECT termgate._grant('{role}', '{level}')")
    for lab in fresh, old:
        # Grants by hand, one with the right to pass it on, and some to everybody.
        lab.sql(
            "tg_owner",
            "GRANT EXECUTE ON FUNCTION termgate.prune(text, bigint) TO reader WITH GRANT OPTION",
            "GRANT EXECUTE ON FUNCTION termgate.fence(text) TO PUBLIC",
            "GRANT SELECT ON termgate.fence_status TO PUBLIC",
            "GRANT USAGE ON SCHEMA termgate TO PUBLIC",
        )
        lab.sql(
            "owner",
            "CREATE TABLE app.rows (scope text, term bigint, v int)",
            "CREATE INDEX ON app.rows (scope, term)",
            "SELECT termgate.protect('app.rows', scope_column => 'scope')",
        )
        lab.sql("operator", "SELECT termgate.adopt('app.rows', 'scope', 'term')")
    old.sql(
        "operator",
        "SELECT termgate.set_setting('eviction_grace_ms', '700')",
        "SELECT termgate.append('s', 5, 'x'), termgate.seal('other', 9)",
        "SELECT termgate.acquire_lease('led', 'one', '1 day'), termgate.job_start('nightly', 'led', 'one', 1)",
    )
    old.must("init")
    same(upgraded(fresh), upgraded(old))
    # Data, settings and levels are what they were.
    assert old.value("reader", "SELECT value FROM termgate.setting_list WHERE name = 'eviction_grace_ms'") == "700"
    fences = old.sql("reader", "SELECT scope, term FROM termgate.fence_status ORDER BY scope")
    assert fences == [("led", 1), ("other", 9), ("s", 5)]
    assert old.value("writer", "SELECT termgate.append('s', 5, 'y')") == 2
    assert old.code("writer", "SELECT termgate.append('s', 4, 'y')") == "TG001"
    assert old.code("writer", "SELECT termgate.seal('s', 8)") == "42501"
    assert old.value("leader", "SELECT renewed FROM termgate.renew_lease('led', 'one', 1, '1 hour')") is True
    # Nothing is pending any more, and an upgrade that is run again changes nothing.
    assert "nothing to upgrade" in old.must("init")
    before = upgraded(old)
    old.sql("tg_owner", "DELETE FROM termgate.migrations WHERE version > 12")
    old.must("init")
    same(before, upgraded(old))


def test_an_upgrade_names_the_tables_that_must_be_protected_again(server):
    lab = old_layer1(server)
    protect = "SELECT termgate.protect('app.part1', scope => 'a')"
    lab.sql("tg_owner", "SELECT termgate._grant('owner', 'write')")
    lab.sql(
        "owner",
        "CREATE TABLE app.root (k int) PARTITION BY LIST (k)",
        "CREATE TABLE app.part1 PARTITION OF app.root FOR VALUES IN (1)",
        protect,
    )
    lab.must("init")
    problems = "SELECT problem FROM termgate.doctor() WHERE severity = 'error' AND object = 'app.part1'"
    assert "termgate_below" in str(lab.sql("tg_owner", problems))
    lab.sql("owner", protect)
    assert lab.sql("tg_owner", problems) == []
    assert lab.code("owner", "INSERT INTO app.root VALUES (1)") == "TG002"


def test_a_frozen_writer_holds_an_upgrade_up_for_seconds_and_not_for_ever(server):
    lab = old_layer1(server)
    with lab.open("tg_owner") as frozen:
        frozen.run("BEGIN")
        frozen.run("SELECT termgate.append('s', 5, 'x')")
        start = time.monotonic()
        assert lab.termgate("tg_owner", "init").returncode != 0
        assert time.monotonic() - start < 30
        assert lab.value("tg_owner", "SELECT termgate.schema_version()") == 13
        frozen.run("COMMIT")
    lab.must("init")
    assert lab.value("tg_owner", "SELECT termgate.append('s', 5, 'x')") == 2


def test_every_public_function_and_view_has_a_comment(server):
    """Names that begin with _ are internal."""
    missing = """
        SELECT p.proname AS name FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace AND p.proname !~ '^_'
           AND coalesce(obj_description(p.oid, 'pg_proc'), '') = ''
        UNION ALL
        SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'termgate'::regnamespace AND c.relkind = 'v' AND c.relname !~ '^_'
           AND coalesce(obj_description(c.oid, 'pg_class'), '') = '' ORDER BY 1"""
    lab = server.fresh()
    assert lab.sql("postgres", missing) == []
    lab.sql("postgres", "COMMENT ON FUNCTION termgate.unadopt(regclass) IS NULL", "COMMENT ON VIEW termgate.audit_log IS NULL")
    assert lab.sql("postgres", missing) == [("audit_log",), ("unadopt",)]


# ---------------------------------------------------------------------------------------------------------------- SQLite


def shell(path, script):
    return subprocess.run(["sqlite3", "-bail", path], input=script, capture_output=True, text=True, timeout=60)


def file_state(path):
    with sqlite3.connect(path) as connection:
        return [
            connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall(),
            connection.execute("SELECT name, value, what FROM termgate_settings ORDER BY name").fetchall(),
            connection.execute("SELECT version, name FROM termgate_migrations ORDER BY version").fetchall(),
            connection.execute("SELECT * FROM termgate_incarnation").fetchall(),
            connection.execute("SELECT action, scope, detail FROM termgate_audit").fetchall(),
        ]


def termgate(path, *words):
    return subprocess.run([TERMGATE, *words, "--db", f"sqlite:{path}"], capture_output=True, text=True, env=CLEAN, timeout=60)


def test_an_sqlite_file(tmp_path):
    by_command, by_script = str(tmp_path / "command.db"), str(tmp_path / "script.db")
    assert termgate(by_command, "init").returncode == 0
    done = shell(by_script, printed("--db-kind", "sqlite"))
    assert done.returncode == 0, done.stderr
    assert file_state(by_command) == file_state(by_script)
    # init finds nothing to do, and the fences stand.
    assert "nothing to upgrade" in termgate(by_script, "init").stdout
    assert termgate(by_script, "seal", "--scope", "s", "--term", "5").returncode == 0
    assert termgate(by_script, "append", "--stream", "s", "--term", "4", "--payload", "x").returncode == 3
    # A second run says so, and changes nothing.
    before = file_state(by_script)
    done = shell(by_script, printed("--db", f"sqlite:{by_script}"))
    assert done.returncode == 1 and "Termgate is installed here already" in done.stderr
    assert file_state(by_script) == before


# ------------------------------------------------------------------------------------------------------------ SQL Server


def test_sql_server():
    """No server is here: that the script holds every file, in order, and executes nothing after a batch that failed."""
    script = printed("--db-kind", "sqlserver", "--schema", "a]b", "--grant", "o'neil=write", "--failover", "declared")
    batches = re.split(r"(?m)^GO\n", script)
    assert batches[-1] == ""
    guarded = [batch for batch in batches if batch == "IF @@TRANCOUNT = 0 SET NOEXEC ON;\n"]
    own = [batch for batch in batches[:-1] if batch not in guarded]
    assert own[-2:] == ["COMMIT TRANSACTION;\n", "SET NOEXEC OFF;\n"]
    assert len(guarded) == len(own) - 2
    at = 0
    for file in sorted((ROOT / "sql" / "sqlserver" / "install").glob("*.sql")):
        for batch in re.split(r"(?m)^GO\n", file.read_text().replace("@schema@", "[a]]b]").replace("@schema_lit@", "N'a]b'")):
            if batch.strip():
                at = own.index(batch if batch.endswith("\n") else batch + "\n", at) + 1
    assert own[at - 1 :][-4:-2] == [
        "EXEC [a]]b]._grant @role = N'o''neil', @level = N'write';\n",
        "EXEC [a]]b].set_setting @name = N'failover', @value = N'declared';\n",
    ]
    assert "@schema" not in script


# ------------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "words, said",
    (
        (["--db-kind", "oracle"], "postgresql, sqlserver or sqlite"),
        (["--db-kind", "sqlite", "--grant", "a=read"], "SQLite has no roles"),
        (["--db-kind", "sqlserver", "--no-transaction"], "for PostgreSQL alone"),
        (["--db-kind", "sqlserver", "--revoke", "a"], "DROP MEMBER"),
        (["--grant", "app"], "write ROLE=read"),
        (["--schema", "it's"], "malformed schema name"),
    ),
)
def test_bad_words(words, said):
    done = subprocess.run([TERMGATE, "init", "--print", *words], capture_output=True, text=True, env=CLEAN, timeout=60)
    assert done.returncode in (1, 2, 9) and said in done.stderr and done.stdout == ""


def test_the_kind_by_the_url():
    """By --db, else TERMGATE_DB; nothing is opened."""
    for words, environment, kind in (
        (["--db", "sqlite:/no/such/folder/a.db"], "", "SQLite"),
        (["--db", "sqlserver://nobody@127.0.0.1:1/a"], "sqlite:a.db", "SQL Server"),
        ([], "sqlite:/no/such/folder/a.db", "SQLite"),
        (["--db-kind", "postgresql"], "sqlite:a.db", "PostgreSQL"),
        ([], "", "PostgreSQL"),
    ):
        done = captured([TERMGATE, "init", "--print", *words], env=dict(CLEAN, TERMGATE_DB=environment), timeout=60)
        assert done.returncode == 0 and f", for {'an ' if kind == 'SQLite' else ''}{kind}" in done.stdout.split("\n")[0], done


def test_options_of_print_alone(tmp_path):
    path = tmp_path / "app.db"
    done = termgate(path, "init", "--db-kind", "sqlite")
    assert done.returncode == 2 and "goes with --print" in done.stderr and not os.path.exists(path)
