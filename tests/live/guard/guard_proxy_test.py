"""[F1][F2][F4][F6] `termgate proxy --guard`: sessions that the guard inside the server covers, those that it cannot cover,
and servers without it. The tables of attacks run through such a proxy in live_guard_findings.

  pytest tests/live/guard/guard_proxy_test.py
"""
import os
import subprocess
import time

import pytest

from given import TERMGATE
from guard_rig import made

CLAIM = {"scope": "s", "term": 5}


@pytest.fixture(scope="module")
def rig():
    one = made()
    # The proxy turns the guard on, session by session; the roles themselves are not guarded.
    one.psql("-c", "ALTER ROLE app RESET termgate.guard; ALTER ROLE lead RESET termgate.guard; ALTER ROLE plain RESET termgate.guard")
    one.psql("-c", "CREATE ROLE proxy_role LOGIN; SELECT termgate.grant_level('proxy_role', 'operate')")
    one.psql("-c", "CREATE DATABASE bare", "-c", "GRANT ALL ON DATABASE bare TO PUBLIC")
    yield one
    one.close()


class Front:
    """A proxy with --guard, and psql through it."""

    def __init__(self, lab, rig, guard):
        self.proxy = lab.proxy(f"postgresql://proxy_role@127.0.0.1:{rig.port}/postgres", "--guard", guard)

    def psql(self, user="app", database="postgres", scope=None, term=None, **more):
        """Words and environment; a session that declares."""
        url = f"postgresql://{user}@127.0.0.1:{self.proxy.port}/{database}"
        declared = f"-c termgate.scope={scope} -c termgate.term={term}" if scope else ""
        return {
            "args": ["psql", "-qXAt", "-v", "VERBOSITY=verbose", url],
            "env": dict(os.environ, PGOPTIONS=declared),
            "text": True,
            **more,
        }

    def sql(self, text, **session):
        """What psql prints, in one session: rows, or the error with its code."""
        done = subprocess.run(**self.psql(**session), input=text, capture_output=True)
        return (done.stdout + done.stderr).strip()


@pytest.fixture
def front(lab, rig):
    """Makes such a proxy."""
    fronts = []

    def make(guard):
        fronts.append(Front(lab, rig, guard))
        return fronts[-1]

    yield make
    for one in fronts:
        one.proxy.stop()


@pytest.fixture(params=["require", "auto"])
def proxy(front, request):
    made = front(request.param)
    # With auto the first login of a user looks whether the guard is there, and the next one uses it.
    made.sql("SELECT 1"), made.sql("SELECT 1", user="plain")
    return made


def test_the_session_is_guarded_and_not_read_only(proxy):
    assert proxy.sql("SHOW termgate.guarded; SHOW transaction_read_only", **CLAIM).split() == ["on", "off"]


def test_writes_pass_under_a_current_term_and_under_no_other(rig, proxy):
    rig.psql("-c", "TRUNCATE log")
    insert = "INSERT INTO log VALUES (1);"
    assert proxy.sql(f"{insert} BEGIN; {insert} COMMIT; PREPARE p AS {insert} EXECUTE p; EXECUTE p;", **CLAIM) == ""
    assert "TG001" in proxy.sql(insert, scope="s", term=4)
    assert "TG002" in proxy.sql(insert)
    assert "TG002" in proxy.sql(f"SET termgate.guard_session = off; SET termgate.guard = off; {insert}")
    assert "TG002" in proxy.sql(f"BEGIN; SELECT 1; {insert} COMMIT;")
    assert "TG002" in proxy.sql(f"DO $$BEGIN {insert} END$$;")
    assert rig.psql("-c", "SELECT count(*) FROM log") == "4"


def test_a_higher_term_raises_the_fence_however_it_is_declared(rig, proxy):
    ways = {
        "options": lambda scope, term: proxy.sql("INSERT INTO log VALUES (1);", scope=scope, term=term),
        "SET": lambda scope, term: proxy.sql(f"SET termgate.scope = '{scope}'; SET termgate.term = {term}; INSERT INTO log VALUES (1);"),
        "SET LOCAL": lambda scope, term: proxy.sql(
            f"BEGIN; SET LOCAL termgate.scope = '{scope}'; SET LOCAL termgate.term = {term}; INSERT INTO log VALUES (1); COMMIT;"
        ),
        "a comment": lambda scope, term: proxy.sql(f"/* termgate.scope='{scope}', termgate.term='{term}' */ INSERT INTO log VALUES (1);"),
    }
    for number, (name, write) in enumerate(ways.items()):
        scope = f"raised-{number}-{time.monotonic_ns()}"
        assert write(scope, 7) == "", name
        assert rig.psql("-c", f"SELECT term FROM termgate.fences WHERE scope = '{scope}'") == "7", name
        assert write(scope, 7) == "", name
        assert "TG001" in write(scope, 6), name
        assert write(scope, 8) == "", name


def test_a_higher_term_that_code_declares_is_raised_by_the_second_try(rig, proxy):
    both = "set_config('termgate.scope', $1, false) || set_config('termgate.term', $2::text, false)"
    rig.psql("-c", f"CREATE FUNCTION lead_as(text, int) RETURNS text LANGUAGE sql AS $$ SELECT {both} $$")
    try:
        scope = f"coded-{time.monotonic_ns()}"
        one, two, three, four, five = [f"INSERT INTO log VALUES ({number});" for number in range(1, 6)]
        rig.psql("-c", "TRUNCATE log")
        said = proxy.sql(f"SELECT lead_as('{scope}', 7); {one} {two} {three} BEGIN; {four} COMMIT;")
        assert said.count("ERROR:  TG005") == 1, said
        said = proxy.sql(f"SELECT lead_as('{scope}', 6); {five}")
        assert said.count("ERROR:  TG001") == 1, said
        assert rig.psql("-c", "SELECT array_agg(n ORDER BY n) FROM log") == "{2,3,4}", said
        assert rig.psql("-c", f"SELECT term FROM termgate.fences WHERE scope = '{scope}'") == "7"
        # A block fails as a whole, and passes as a whole when it is tried again.
        said = proxy.sql(f"SELECT lead_as('{scope}', 8); BEGIN; {one} COMMIT; BEGIN; {two} {three} COMMIT;")
        assert said.count("ERROR:  TG005") == 1, said
        assert rig.psql("-c", "SELECT array_agg(n ORDER BY n) FROM log") == "{2,2,3,3,4}", said
    finally:
        rig.psql("-c", "DROP FUNCTION lead_as")


def test_a_comment_counts_above_what_the_session_declares(rig, proxy):
    comment = "/* termgate.scope='other', termgate.term='9' */"
    assert proxy.sql(f"{comment} INSERT INTO log VALUES (1);", scope="s", term=4) == ""
    assert "TG001" in proxy.sql(f"{comment} INSERT INTO log VALUES (1); INSERT INTO log VALUES (2);", scope="s", term=4)


def test_a_comment_counts_where_the_proxy_sends_a_text_in_pieces(rig, proxy):
    """A table with a rule, and a text of several statements: both go inside a block of the proxy's."""
    rig.psql("-c", "TRUNCATE log", "-c", "CREATE TABLE ruled (n int)", "-c", "CREATE RULE twice AS ON INSERT TO ruled DO ALSO SELECT 1")
    rig.psql("-c", "GRANT ALL ON ruled TO app")
    later = "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (4); RETURN NULL; END'"
    deferred = "CREATE CONSTRAINT TRIGGER later AFTER INSERT ON ruled INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION later()"
    rig.psql("-c", later, "-c", deferred)
    front, behind = [f"/* termgate.scope='other', termgate.term='{term}' */" for term in (9, 9)]
    stale = "/* termgate.scope='other', termgate.term='8' */"
    try:
        assert proxy.sql(f"{front} INSERT INTO ruled VALUES (1)", scope="s", term=4) == "1"
        assert proxy.sql(f"INSERT INTO ruled VALUES (1) {behind}", scope="s", term=4) == "1"
        assert "TG001" in proxy.sql(f"{stale} INSERT INTO ruled VALUES (1)", scope="s", term=4)
        assert "TG001" in proxy.sql("INSERT INTO ruled VALUES (1)", scope="s", term=4)
        assert rig.psql("-c", "SELECT count(*) FROM ruled") == rig.psql("-c", "SELECT count(*) FROM log") == "2"
        insert = "INSERT INTO log VALUES (5)"
        pieces = f"{front} {insert}\\; /* ; */ {front} {insert}\\;\\; {insert} {behind} \\; SET DateStyle = ISO;"
        assert proxy.sql(pieces, scope="s", term=4) == ""
        assert rig.psql("-c", "SELECT count(*) FROM log WHERE n = 5") == "3"
        assert "TG001" in proxy.sql(f"{front} {insert}\\; {stale} {insert}\\; {front} {insert};", scope="s", term=4)
        assert "TG001" in proxy.sql(f"{front} {insert}\\; {insert};", scope="s", term=4)
        assert rig.psql("-c", "SELECT count(*) FROM log WHERE n = 5") == "3"
    finally:
        rig.psql("-c", "DROP TABLE ruled", "-c", "DROP FUNCTION later")


def test_a_reader_goes_on_reading_behind_code_that_may_have_declared(rig, proxy):
    rig.psql("-c", "CREATE FUNCTION unclear(text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; RETURN 1; END'")
    try:
        read, call = "SELECT count(*) >= 0 FROM log;", "SELECT unclear('SELECT 1');"
        assert proxy.sql(f"BEGIN; SAVEPOINT a; {call} RELEASE a; {read} COMMIT; {read}").split() == ["1", "t", "t"]
        assert proxy.sql(f"BEGIN; {call} {read} SAVEPOINT a; {read} ROLLBACK TO a; {read} COMMIT; {read}").split() == ["1", *"tttt"]
        assert proxy.sql(f"BEGIN; {call} {read} COMMIT; {read}", scope="s", term=4).split() == ["1", "t", "t"]
        assert "TG002" in proxy.sql(f"BEGIN; {call} INSERT INTO log VALUES (6); COMMIT;")
        assert "TG002" in proxy.sql("BEGIN; SELECT unclear('INSERT INTO log VALUES (6)'); COMMIT;")
        hidden = "SELECT unclear('SELECT set_config(''termgate.term'', ''4'', true)'); SELECT unclear('INSERT INTO log VALUES (6)')"
        assert "TG001" in proxy.sql(f"BEGIN; SET LOCAL termgate.scope = 's'; {hidden}; COMMIT;")
        assert rig.psql("-c", "SELECT count(*) FROM log WHERE n = 6") == "0"
    finally:
        rig.psql("-c", "DROP FUNCTION unclear")


def test_a_role_without_any_grant_cannot_raise(rig, proxy):
    assert proxy.sql("SELECT 1; SELECT count(*) >= 0 FROM t", user="plain") == "1\nt"
    assert "TG002" in proxy.sql("INSERT INTO log VALUES (1)", user="plain")
    assert "TG001" in proxy.sql("INSERT INTO log VALUES (1)", user="plain", scope="s", term=4)
    assert "42501" in proxy.sql("INSERT INTO log VALUES (1)", user="plain", scope="s", term=6)
    assert rig.psql("-c", "SELECT term FROM termgate.fences WHERE scope = 's'") == "5"


def test_a_block_is_ended_when_another_leader_takes_over(rig, proxy):
    scope = f"taken-{time.monotonic_ns()}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    client = subprocess.Popen(**proxy.psql(scope=scope, term=1), **pipes)
    client.stdin.write("INSERT INTO log VALUES (70);\nBEGIN;\nINSERT INTO log VALUES (71);\n\\echo inside\n")
    client.stdin.flush()
    assert client.stdout.readline().strip() == "inside"
    begun = time.monotonic()
    rig.psql("-c", f"SELECT termgate.seal('{scope}', 2)", user="lead")
    waited = time.monotonic() - begun
    told, _ = client.communicate("COMMIT;\n", timeout=20)
    assert "TG001" in told or "terminat" in told or "closed" in told, told
    assert waited < 5, waited
    assert rig.psql("-c", "SELECT count(*) FROM log WHERE n = 71") == "0"
    rig.psql("-c", "DELETE FROM log WHERE n = 70")


def test_require_admits_nobody_where_there_is_no_guard(front):
    refused = front("require").sql("SELECT 1", database="bare")
    assert "57P03" in refused or "no guard over schema" in refused, refused


def test_auto_checks_by_itself_where_there_is_no_guard(rig, front):
    shell = subprocess.run([TERMGATE, "init", "--db", f"{rig.url.rsplit('/', 1)[0]}/bare", "--grant", "app=write"], capture_output=True)
    assert shell.returncode == 0, shell.stderr
    rig.psql("-c", "CREATE TABLE IF NOT EXISTS log (n bigint); GRANT ALL ON log TO PUBLIC", database="bare")
    proxy = front("auto")
    for _ in range(2):
        assert "TG002" in proxy.sql("INSERT INTO log VALUES (1);", database="bare")
        assert proxy.sql("INSERT INTO log VALUES (1);", database="bare", **CLAIM) == ""
        assert proxy.sql("SHOW termgate.guarded;", database="bare", **CLAIM) == "off"


def test_off_never_uses_it(front):
    proxy = front("off")
    for _ in range(2):
        assert proxy.sql("SHOW termgate.guarded;", **CLAIM) == "off"
    assert "TG002" in proxy.sql("INSERT INTO log VALUES (1);")


def test_a_session_that_may_act_as_layer_1s_owner_stays_the_proxys_with_auto(front):
    proxy = front("auto")
    for _ in range(2):
        assert proxy.sql("SHOW termgate.guarded;", user="postgres", **CLAIM) == "off"
    assert proxy.sql("INSERT INTO log VALUES (1);", user="postgres", **CLAIM) == ""


def test_bad_options():
    for words, message in (
        (["--backend", "postgresql://a@127.0.0.1:1/x", "--guard", "maybe"], "--guard"),
        (["--backend", "postgresql://a@127.0.0.1:1/x", "--guard", "require", "--server-pooler", "session"], "pooler"),
        (["--backend", "sqlserver://a@127.0.0.1:1/x", "--guard", "require"], "only PostgreSQL has the guard"),
    ):
        done = subprocess.run([TERMGATE, "proxy", "--listen", "127.0.0.1:0", *words], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and message in done.stderr, (words, done)
