#!/usr/bin/env python3
"""Many databases behind one proxy, and who a client is there: nothing that happens in one database is held against another.

  pytest tests/live/proxy/proxy_databases_test.py [--long] [-k login]

Scopes of one name with other fences in each database, a layer 1 that somebody has forged in a database of his own, many databases at once
(200 with --long), [F3] a database that has forgotten a fence; names that the server would cut, logins that trigger a write, and what a
proxy says that cannot do its job.
"""
import os

import pytest

from checks import check, eventually, stays
from given import LONG
from proxy_lab import Wire, declared, query, refusal, startup

MANY = 200 if LONG else 40
PLACES = 5


def code(error):
    return error["C"] if error else None


class Into:
    """The server with its sql() in another database."""

    def __init__(self, server, database):
        self.port, self.database, self.url = server.port, database, f"{server.url.rsplit('/', 1)[0]}/{database}"

    def sql(self, text):
        client = Wire(self.port, database=self.database)
        rows, error = client.ask(text)
        client.close()
        assert not error, f"{self.database}: {text}: {error}"
        return rows


def writes(proxy, database, scope, term):
    """The code with which a new session's write is refused, or None."""
    client = Wire(proxy.port, user="clerk", database=database, **declared(scope, term))
    try:
        return code(client.ask(INSERT)[1])
    finally:
        client.close()


def watchers(server, like="%"):
    return int(server.sql(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'termgate watch' AND datname LIKE '{like}'")[0])


def threads(proxy):
    with open(f"/proc/{proxy.process.pid}/status") as file:
        return int(next(line for line in file if line.startswith("Threads:")).split()[1])


def prepare(server, name, term, template="template1"):
    server.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
    if template == "template1":
        server.lab.run(server.lab.termgate, "init", "--db", server.url.rsplit("/", 1)[0] + "/" + name)
        Into(server, name).sql("CREATE TABLE written (what text)")
    else:
        # A copy does not know what its original has raised since.
        Into(server, name).sql("SELECT termgate.declare_nothing_lost('test', 'made just now')")
    if term:
        Into(server, name).sql(f"SELECT termgate.seal('payroll', {term})")


@pytest.fixture(scope="module")
def server(lab):
    server = lab.server("15", "max_connections=300")
    prepare(server, "red", 7)
    prepare(server, "red2", 50)
    return server


INSERT = "INSERT INTO written VALUES ('x')"


def test_a_raise_a_forged_layer_1_and_a_lost_fence_stay_in_their_database(lab, server):
    server.sql("CREATE ROLE mallory LOGIN; CREATE ROLE clerk LOGIN")
    server.sql("CREATE DATABASE mine OWNER mallory")
    for database in ("red", "red2"):
        lab.run(lab.termgate, "init", "--db", server.url.rsplit("/", 1)[0] + "/" + database, "--grant", "clerk=write")
        Into(server, database).sql("GRANT INSERT ON written TO clerk")
    proxy = lab.proxy(server.url.rsplit("/", 1)[0] + "/red")
    leader = Wire(proxy.port, user="clerk", database="red", **declared("payroll", 7))
    other = Wire(proxy.port, user="clerk", database="red2", **declared("payroll", 50))
    check("two: both leaders write", leader.ask(INSERT)[1] is None and other.ask(INSERT)[1] is None)
    check("two: each database is watched", eventually(lambda: watchers(server, "red%") == 2))
    leader.ask("BEGIN")
    leader.ask(INSERT)
    check(
        "two: a raise in the other ends no transaction here",
        Into(server, "red2").sql("SELECT termgate.seal('payroll', 60)") is not None
        and not proxy.logged(r" evicted ", 1)
        and leader.ask("COMMIT")[1] is None
        and leader.status == "I",
    )
    check("two: and refuses nobody here", all(leader.ask(INSERT)[1] is None for _ in range(20)))
    check(
        "two: but the stale one there, from memory",
        eventually(lambda: code(other.ask(INSERT)[1]) == "TG001")
        and eventually(
            lambda: (
                proxy.metric('termgate_refusals_total{scope_class="payroll",code="TG001",from="memory"}') > 0
                if other.ask(INSERT)[1]
                else False
            )
        ),
    )

    # A layer 1 of his own: whatever the proxy may call there answers with the highest term of all.
    mallory = Wire(server.port, user="mallory", database="mine")
    high = 4_000_000_000_000_000_000
    mallory.ask(
        f"""CREATE SCHEMA termgate;
        CREATE FUNCTION termgate.check_term(s text, t bigint) RETURNS bigint LANGUAGE sql AS 'SELECT {high}::bigint';
        CREATE FUNCTION termgate.check_session(OUT scope text, OUT term bigint, OUT fence bigint) LANGUAGE sql AS $$ SELECT
          'payroll'::text, {high}::bigint, {high}::bigint $$;
        CREATE FUNCTION termgate.ran() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('ran', current_user); RETURN {high};
          END $$;
        CREATE VIEW termgate.fence_status AS SELECT 'payroll'::text AS scope, termgate.ran() AS term, now() AS raised_at,
          ''::text AS raised_by, 'writer'::text AS raise_by,
          false AS untrusted, NULL::bigint AS reset_from;
        GRANT USAGE ON SCHEMA termgate TO PUBLIC; GRANT SELECT ON termgate.fence_status TO PUBLIC; CREATE TABLE written (what text)"""
    )
    mallory.ask("LISTEN ran")
    forger = Wire(proxy.port, user="mallory", database="mine", **declared("payroll", high))
    hidden = Wire(proxy.port, user="mallory", database="mine")
    hidden.ask("SET termgate.scope = 'payroll'")
    hidden.ask(f"SET termgate.term = '{high}'")
    for _ in range(10):
        forger.ask(INSERT)
        hidden.ask(INSERT)
    # Longer than the proxy waits until it looks at a database again.
    check("forged: shuts nobody out", stays(lambda: leader.ask(INSERT)[1] is None and leader.status == "I", 2.5, 0.1))
    undeclared = Wire(proxy.port, user="clerk", database="red")
    undeclared.ask("SET termgate.scope = 'payroll'")
    undeclared.ask("SET termgate.term = '7'")
    check("forged: nor who declares by SET", undeclared.ask(INSERT)[1] is None)
    mallory.socket.settimeout(0.5)
    try:
        heard = mallory.ask("SELECT 1")[0] == ["1"]
        kinds = []
        while True:
            kinds.append(mallory.message()[0])
    except OSError:
        pass
    check("forged: and its code never ran with the proxy's rights", heard and "A" not in kinds, kinds)
    check(
        "forged: the log says so once",
        len([line for line in proxy.log().splitlines() if "cannot watch" in line and '\\"mine\\"' in line]) == 1,
        proxy.log()[-2000:],
    )

    # One that has forgotten, as a restore from a snapshot of the storage leaves it, is its own affair.
    there = Into(server, "red2")
    rows = there.sql("SELECT count(*) FROM written")
    for scope, settled in (("payroll", "fence reset --term 4"), ("raised", "seal --term 90")):
        writes(proxy, "red2", scope, 60)
        there.sql(
            f"ALTER TABLE termgate.fences DISABLE TRIGGER ALL; UPDATE termgate.fences SET term = 40 WHERE scope = '{scope}'; ALTER TABLE"
            " termgate.fences ENABLE TRIGGER ALL"
        )
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'red2'")
        forgotten = eventually(lambda: writes(proxy, "red2", scope, 50) == "TG004", 20, 0.1)
        check(f"forgotten {scope}: TG004 there", forgotten)
        answers = [writes(proxy, "red2", scope, term) for term in (40, 60, 70)]
        check(f"forgotten {scope}: whatever the term", answers == ["TG004"] * 3, answers)
        check(f"forgotten {scope}: another scope is not", writes(proxy, "red2", "another", 1) is None)
        check(f"forgotten {scope}: and nothing of it here", leader.ask(INSERT)[1] is None and code(undeclared.ask(INSERT)[1]) is None)
        words = [*settled.split(), "--scope", scope, "--db", there.url, *(["--reason", "restored"] if "reset" in settled else [])]
        lab.run(lab.termgate, *words)
        check(f"forgotten {scope}: settled by {settled}", eventually(lambda: writes(proxy, "red2", scope, 90) is None, 40, 0.1))
    check("forgotten: only what may was written", int(there.sql("SELECT count(*) FROM written")[0]) == int(rows[0]) + 6)
    check("two: the main one stays ready", proxy.get("/readyz") == (200, "ok\n"))
    for one in (leader, other, forger, hidden, undeclared, mallory):
        one.close()
    proxy.stop()


def test_many_databases_are_watched_with_bounded_connections(lab, server):
    names = [f"many{number}" for number in range(MANY)]
    prepare(server, "many_template", 0)
    for number, name in enumerate(names):
        prepare(server, name, 10 + number, "many_template")
    proxy = lab.proxy(server.url.rsplit("/", 1)[0] + "/red", "--max-watched-databases", str(PLACES))
    first = Wire(proxy.port, database="red2", **declared("other", 1))
    first.ask(INSERT)
    check("many: the first is watched", eventually(lambda: proxy.metric("termgate_databases_watched") == 1))
    first.close()
    before_threads, before_kb = threads(proxy), proxy.resident_kb()
    leaders = [Wire(proxy.port, database=name, **declared("payroll", 10 + number)) for number, name in enumerate(names)]
    refused, most = [], 0
    for round_number in range(3):
        for name, leader in zip(names, leaders):
            error = leader.ask(INSERT)[1]
            if error:
                refused.append((name, error))
        most = max(most, watchers(server, "many%"))
    check(f"many: {MANY} leaders of one scope's name write side by side", not refused, refused[:3])
    check("many: connections are bounded", 1 <= most <= PLACES and eventually(lambda: watchers(server, "many%") <= PLACES), most)
    check("many: threads too", threads(proxy) == before_threads, (before_threads, threads(proxy)))
    check("many: and memory", proxy.resident_kb() - before_kb < 40_000 + 400 * MANY, proxy.resident_kb() - before_kb)
    check(
        "many: metrics say how many",
        0 < proxy.metric("termgate_databases_watched") <= PLACES == proxy.metric("termgate_databases_watched_limit")
        and proxy.metric("termgate_fences_watched") == 1,
    )
    stale = []
    for number, name in enumerate(names):
        client = Wire(proxy.port, database=name, **declared("payroll", 9 + number))
        stale.append(code(client.ask(INSERT)[1]))
        client.close()
    check("many: a stale one is refused in each", stale == ["TG001"] * MANY, stale)
    check("many: nothing was logged of any", "cannot watch" not in proxy.log(), proxy.log()[-1000:])
    for leader in leaders:
        leader.close()
    proxy.stop()


def test_names_that_the_server_would_cut_are_refused(lab, server):
    """What the server makes of a name must be what the rules were asked about."""
    long_name = "u" * 63
    server.sql(f"CREATE ROLE {long_name} LOGIN; CREATE ROLE plain LOGIN")
    server.sql(f"CREATE DATABASE {'d' * 63}")
    path = os.path.join(lab.folder, "rules")
    with open(path, "w") as file:
        file.write(
            f"[rule out]\nuser = {long_name}\nrefuse = not you\n[rule base]\ndatabase = {'d' * 63}\nrefuse = not there\n[rule plain]\nuser"
            " = plain\nrefuse = not plain\n[rule rest]\nwithout-term = allow\n"
        )
    proxy = lab.proxy(server.url, "--rules", path)
    check("the rule holds for the name itself", refusal(lambda: Wire(proxy.port, user=long_name))["M"] == "not you")
    for name, who in (
        ("one byte more", dict(user=long_name + "x")),
        ("many more", dict(user=long_name + "x" * 900)),
        ("a blank at its end", dict(user=long_name + " ")),
        ("a database of one byte more", dict(database="d" * 63 + "x")),
        ("no database and such a user", dict(user=long_name + "x", database="")),
        ("of the 63rd byte in the middle of a letter", dict(user="ä" * 31 + "uü")),
        ("a user of the database's name", dict(user="d" * 64, database="")),
    ):
        error = refusal(lambda: Wire(proxy.port, **who))
        check(f"{name} is refused", error and error["C"] == "28000" and "63" in error["M"], error)
    # The last of two counts, for the server as for the rules.
    body = b"user\0postgres\0database\0postgres\0user\0plain\0\0"
    client = Wire(proxy.port, login=False)
    client.send((len(body) + 8).to_bytes(4, "big") + (3 << 16).to_bytes(4, "big") + body)
    error = refusal(lambda: client.until("Z"))
    check("of two users the last one counts", error and error["M"] == "not plain", error)
    # Another name than the one that was given: a server up to 16 that puts the database behind it.
    administrator = Wire(server.port)  # whose own name means nobody while it is on
    server.sql("ALTER SYSTEM SET db_user_namespace = on")
    server.sql("SELECT pg_reload_conf()")
    check(
        "who comes in under another name is refused",
        eventually(lambda: 'as "plain"' in refusal(lambda: Wire(proxy.port, user="plain@"))["M"], 5, 0.2),
    )
    for text in ("ALTER SYSTEM RESET db_user_namespace", "SELECT pg_reload_conf()"):
        administrator.ask(text)
    administrator.close()
    assert eventually(lambda: refusal(lambda: Wire(server.port)) is None, 10, 0.1)
    proxy.stop()


def test_a_login_trigger_writes_and_its_client_does_not(lab):
    """18: a trigger that writes down who logs in, for a role that owns its table."""
    server = lab.server("18")
    server.sql("CREATE ROLE keeper LOGIN; CREATE TABLE public.seen (who text); ALTER TABLE seen OWNER TO keeper")
    lab.run(lab.termgate, "init", "--db", server.url, "--grant", "keeper=write")
    server.sql(
        "CREATE FUNCTION note_login() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF session_user = 'keeper' THEN INSERT INTO"
        " public.seen VALUES ('trigger'); END IF; END $$; CREATE EVENT TRIGGER note_login ON login EXECUTE FUNCTION note_login()"
    )
    write = "INSERT INTO seen VALUES ('client')"
    for mode in ("read-only", "reject"):
        server.sql("DELETE FROM seen")
        proxy = lab.proxy(server.url, "--without-term", mode)
        check(f"login trigger, {mode}: it is known what serves", eventually(lambda: proxy.metric("termgate_fences_watched") == 1))
        client = Wire(proxy.port, user="keeper")
        check(f"login trigger, {mode}: who logs in is written down", server.sql("SELECT who FROM seen") == ["trigger"])
        for text in ("SELECT 1", "RESET ALL", "SET default_transaction_read_only = off"):
            client.ask(text)
            got = client.ask(write)[1]
            check(f"login trigger, {mode}: and cannot write all the same, behind {text}", code(got) == "TG002", got)
        client.close()
        # No word of the client's comes before the default: all of it is on its way before the login's end.
        early = Wire(proxy.port, login=False)
        early.send(startup(user="keeper"), query(write))
        early.until("Z")
        check(f"login trigger, {mode}: nor before it has come in", code(early.until("Z")[1]) == "TG002")
        early.close()
        check(f"login trigger, {mode}: nothing of the clients was written", server.sql("SELECT DISTINCT who FROM seen") == ["trigger"])
        writer = Wire(proxy.port, user="keeper", **declared("logins", 3))
        check(f"login trigger, {mode}: with a term it writes", writer.ask(write)[1] is None)
        writer.close()
        proxy.stop()


@pytest.mark.parametrize(
    "word, database", (("not-installed", "bare"), ("login-refused", "red"), ("unreachable", "red")), ids=lambda value: value
)
def test_a_proxy_that_cannot_watch_says_why(word, database, lab, server):
    """What keeps a proxy from its job, in one word and one line."""
    base = server.url.rsplit("/", 1)[0]
    if word == "not-installed":
        server.sql("CREATE DATABASE bare")
    if word == "login-refused":
        base = base.replace("postgres@", "nobody_at_all@")
    if word == "unreachable":
        base = "postgresql://postgres@127.0.0.1:1"
    url = f"{base}/{database}"
    proxy = lab.proxy(url)
    check(f"{word}: /readyz has the word", eventually(lambda: proxy.get("/readyz") == (503, word + "\n")), proxy.get("/readyz"))
    check(f"{word}: it lives", proxy.get("/healthz")[0] == 200)
    check(f"{word}: it tries again and again", eventually(lambda: proxy.metric("termgate_watch_failures_total") > 2, 20, 0.05))
    lines = [line for line in proxy.log().splitlines() if "watch" in line and "message=" in line]
    check(
        f"{word}: one line, an error",
        len(lines) == 1 and " error " in lines[0] and "cannot watch for fence changes (retrying): " in lines[0],
        lines,
    )
    check(f"{word}: a metric", proxy.metric("termgate_fences_watched") == 0 and proxy.metric("termgate_watch_failures_total") > 1)
    if word == "not-installed":
        lab.run(lab.termgate, "init", "--db", url)
        check("installed: it is ready", eventually(lambda: proxy.get("/readyz") == (200, "ok\n")))
        check("installed: one more line", proxy.logged("fence changes are watched again"))
    proxy.stop()


def test_rules_that_cannot_be_read_end_the_proxy_with_2(lab, server, refused_start):
    wrong = os.path.join(lab.folder, "wrong_rules")
    with open(wrong, "w") as file:
        file.write("[rule a]\nscope = s\n")
    for path, says in ((wrong, f"{wrong}:1: "), ("/nowhere/rules", "/nowhere/rules: the file of rules cannot be read: No such file")):
        said = refused_start(server.url, "--rules", path)
        check(f"rules at {path}: status 2 and why", "ended with 2" in said and says in said, said)


def test_logins_that_are_refused_are_in_the_log_and_in_no_count_of_sessions(lab, server):
    proxy = lab.proxy(f"{server.url.rsplit('/', 1)[0]}/red")
    for name, who, line in (
        ("a login that the server refuses", {"user": "nobody_at_all"}, r"user=nobody_at_all .*code=28000 message=\"role .*does not exist"),
        ("a malformed declaration", {"application_name": "termgate.scope=a;termgate.term=x;"}, "code=TG005"),
    ):
        refused = refusal(lambda: Wire(proxy.port, **who))
        check(f"{name} is in the log", refused and proxy.logged(f"warning login_refused .*{line}"), proxy.log()[-800:])
    counted = [proxy.metric(f"termgate_{what}_total") for what in ("connections_opened", "logins_refused")]
    check("and is no client that was let in", counted == [0, 2] and "connection_opened" not in proxy.log(), counted)
    Wire(proxy.port).close()
    counted = eventually(lambda: proxy.metric("termgate_connections_opened_total") == 1)
    check("one that is let in is counted", counted and proxy.logged("connection_opened .*user=postgres"))
    proxy.stop()
