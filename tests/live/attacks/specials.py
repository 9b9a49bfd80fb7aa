# Long: the attacks that need a stage of their own.
"""The attacks that take several sessions, several databases, files or sockets: findings 4, 5, 6, 7, 10, 14, L1, L2, L3.

Each yields (mode, name, problem), problem None where all is well. "direct" as mode: layer 1 alone, without a proxy.
"""
import os
import socket
import threading
import time

from checks import eventually, stays
from pgraw import Closed, Connection, Silent, bind, execute, parse, sync
from rig import PlainServer

SPECIALS = []


class Special:
    def __init__(self, finding, name, run, modes):
        self.finding, self.name, self.run, self.modes = finding, name, run, modes


def special(finding, name, modes=("reject", "read-only", "allow")):
    def register(function):
        SPECIALS.append(Special(finding, name, function, modes))
        return function

    return register


class Rig:
    """A server with layer 1 under a role without superuser, a writer and a leader, and table app.t."""

    made = {}

    def __init__(self, lab, major, *settings):
        self.lab, self.major = lab, int(major)
        self.server = PlainServer(lab, major, *settings)
        self.direct = Connection(self.server.port, wait=60)
        self.sql(
            "CREATE ROLE layer1 LOGIN; GRANT pg_signal_backend TO layer1; GRANT pg_read_all_stats TO layer1; GRANT ALL ON DATABASE postgres"
            " TO layer1"
        )
        self.sql("CREATE ROLE writer LOGIN; CREATE ROLE leader LOGIN; CREATE ROLE operator LOGIN; CREATE ROLE evil LOGIN")
        self.url = self.server.url.replace("postgres@", "layer1@")
        self.init("postgres")
        self.sql(
            "CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC; CREATE TABLE app.t (n bigserial, v text); GRANT ALL ON app.t TO PUBLIC;"
            " GRANT ALL ON SEQUENCE app.t_n_seq TO PUBLIC"
        )
        self.proxies, self.scopes = {}, 0

    @classmethod
    def of(cls, lab, major):
        key = (id(lab), major)
        if key not in cls.made:
            cls.made[key] = cls(lab, major)
        return cls.made[key]

    def init(self, database, role="layer1"):
        url = self.server.url.replace("postgres@", f"{role}@").rsplit("/", 1)[0] + "/" + database
        self.lab.run(
            self.lab.termgate, "init", "--db", url, "--grant", "writer=write", "--grant", "leader=lead", "--grant", "operator=operate"
        )

    def proxy(self, mode, *options):
        key = (mode, *options)
        if key not in self.proxies:
            self.proxies[key] = self.lab.proxy(self.url, "--without-term", mode, *options)
        return self.proxies[key]

    def scope(self):
        self.scopes += 1
        return f"special{self.scopes}"

    def sql(self, text):
        answer = self.direct.query(text)
        errors = [message for message in answer if message.type == "E"]
        assert not errors, f"{text}: {errors}"
        return [[None if value is None else value.decode() for value in message.row()] for message in answer if message.type == "D"]

    def value(self, text):
        return self.sql(text)[0][0]

    def session(self, port=None, user="writer", scope=None, term=None, database="postgres", wait=15, **parameters):
        options = [("options", f"-c termgate.scope={scope} -c termgate.term={term}")] if scope else []
        return Connection(port or self.server.port, user, database, [*options, *parameters.items()], wait)


class Slow:
    """Before a server: connections of one user are passed on so many seconds late."""

    def __init__(self, port, user, seconds):
        self.to, self.user, self.seconds = port, user.encode(), seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        first = client.recv(65536)
        with client, socket.create_connection(("127.0.0.1", self.to)) as server:
            if b"user\0" + self.user + b"\0" in first:
                time.sleep(self.seconds)
            server.sendall(first)
            back = threading.Thread(target=self.copy, args=(server, client), daemon=True)
            back.start()
            self.copy(client, server)
            back.join()

    @staticmethod
    def copy(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def error_of(answer):
    return next((message.fields().get("C") for message in answer if message.type == "E"), None)


def say(client, *texts):
    """The first error's code of these simple queries, None where there is none; a closed connection counts as one."""
    for text in texts:
        try:
            code = error_of(client.query(text))
        except Closed as closed:
            return error_of(closed.messages) or "closed"
        except Silent:
            return "silent"
        except OSError:
            return "closed"
        if code:
            return code
    return None


# --- finding 4: what happens in one database is no evidence in another ---


@special("4", "fences of another database")
def other_databases(lab, major, modes):
    rig = Rig.of(lab, major)
    rig.sql("CREATE DATABASE red")
    rig.sql("CREATE DATABASE red2")
    rig.sql("CREATE DATABASE poison OWNER evil")
    rig.sql("GRANT ALL ON DATABASE red TO layer1; GRANT ALL ON DATABASE red2 TO layer1")
    for database in ("red", "red2"):
        rig.init(database)
        rig.session(user="postgres", database=database).query("CREATE TABLE public.t (v text); GRANT ALL ON public.t TO PUBLIC")
    forged = """CREATE SCHEMA termgate; CREATE TABLE public.t (v text); GRANT ALL ON public.t TO PUBLIC;
      GRANT USAGE ON SCHEMA termgate TO PUBLIC;
      CREATE TABLE termgate.fences (scope text, term bigint); INSERT INTO termgate.fences VALUES ('@S@', 4000000000000000000);
        GRANT ALL ON termgate.fences TO PUBLIC;
      CREATE FUNCTION termgate.check_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
        LANGUAGE sql AS $$SELECT '@S@'::text, 4000000000000000000, 4000000000000000000$$;
      CREATE FUNCTION termgate.check_term(scope text, term bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 4000000000000000000';
      CREATE FUNCTION termgate.hold_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
        LANGUAGE sql AS $$SELECT '@S@'::text, 4000000000000000000, 4000000000000000000$$"""
    insert = "INSERT INTO public.t VALUES ('x')"
    extended = parse("", insert) + bind() + execute() + sync()
    for mode in modes:
        for way in (
            "a declared writer",
            "a block",
            "extended",
            "by SET",
            "check_term",
            "a forged check_session",
            "a forged check_term",
            "a forged layer 1, block",
            "a forged layer 1, no term",
            "a notification",
            "two hundred scopes",
        ):
            proxy, scope = lab.proxy(rig.url, "--without-term", mode), f"{mode} {way}".replace(" ", "")
            for database, term in (("red", 7), ("red2", 50)):
                with rig.session(user="postgres", database=database) as root:
                    root.rows(f"SELECT termgate.seal('{scope}', {term})")
            leader = rig.session(proxy.port, scope=scope, term=7, database="red")
            server_only = rig.session(proxy.port, database="red")
            said = say(leader, insert, "BEGIN", insert)
            if said:
                yield mode, f"{way}: the leader writes first", said
                continue
            if "forged" in way:
                with rig.session(user="evil", database="poison") as evil:
                    evil.query("DROP SCHEMA IF EXISTS termgate CASCADE; DROP TABLE IF EXISTS public.t")
                    evil.query(forged.replace("@S@", scope))
                with rig.session(proxy.port, user="evil", scope=None if "no term" in way else scope, term=7, database="poison") as evil:
                    say(
                        evil,
                        insert,
                        f"SELECT * FROM termgate.check_term('{scope}', 7)",
                        "BEGIN",
                        insert,
                        "COMMIT",
                        f"SELECT * FROM termgate.check_session('{scope}', 7)",
                    )
            elif way == "a notification":
                for database in ("red2", "poison", "red"):
                    with rig.session(user="evil", database=database) as evil:
                        for channel in ("termgate", "termgate_raise", "termgate_fences", "termgate_raised"):
                            evil.query(
                                f"NOTIFY {channel}, '{scope} 4000000000000000000'; NOTIFY {channel},"
                                f" '{{\"scope\":\"{scope}\",\"term\":4000000000000000000}}'"
                            )
            elif way == "two hundred scopes":
                with rig.session(proxy.port, database="red2") as other:
                    for i in range(200):
                        say(other, f"BEGIN; SET LOCAL termgate.scope = '{scope}{i}'; SET LOCAL termgate.term = 9; {insert}; COMMIT")
                    say(other, f"SET termgate.scope = '{scope}'; SET termgate.term = 50; {insert}")
            else:
                with rig.session(
                    proxy.port, user="leader", scope=None if way in ("by SET", "check_term") else scope, term=50, database="red2"
                ) as other:
                    if way == "extended":
                        other.send(extended)
                        other.until("Z")
                    elif way == "by SET":
                        say(other, f"SET termgate.scope = '{scope}'", "SET termgate.term = 50", insert)
                    elif way == "check_term":
                        say(
                            other,
                            f"BEGIN; SELECT termgate.check_term('{scope}', 50); {insert}; COMMIT",
                            f"SELECT termgate.seal('{scope}', 51)",
                        )
                    else:
                        say(other, *(["BEGIN"] if way == "a block" else []), insert, *([insert, "COMMIT"] if way == "a block" else []))
            time.sleep(0.3)
            said = say(leader, insert, "COMMIT")
            yield mode, f"{way}: the leader's open block goes on", said
            said = say(leader, insert, "BEGIN", insert, "COMMIT")
            yield mode, f"{way}: the leader goes on", said
            leader.send(extended)
            yield mode, f"{way}: the leader goes on, extended", error_of(leader.until("Z"))
            yield mode, f"{way}: a declaration that only the server knows", say(
                server_only, f"SET termgate.scope = '{scope}'", "SET termgate.term = 7", insert
            )
            with rig.session(proxy.port, scope=scope, term=7, database="red") as anew:
                yield mode, f"{way}: a new session of the leader's", say(anew, insert)
            with rig.session(proxy.port, scope=scope, term=6, database="red") as stale:
                yield mode, f"{way}: a stale session is still refused", None if say(stale, insert) else "committed"
            leader.end()
            server_only.end()
            proxy.stop()


# --- finding 5: TRUNCATE sees what its snapshot does not ---


@special("5", "TRUNCATE at a snapshot's isolation")
def truncate(lab, major, modes):
    rig = Rig.of(lab, major)
    shapes = {
        "table": ("CREATE TABLE app.@T@ (scope text, v text)", "TRUNCATE app.@T@"),
        "partitions": (
            "CREATE TABLE app.@T@ (scope text, v text) PARTITION BY LIST (v); CREATE TABLE app.@T@1 PARTITION OF app.@T@ DEFAULT",
            "TRUNCATE app.@T@",
        ),
        "one partition": (
            "CREATE TABLE app.@T@ (scope text, v text) PARTITION BY LIST (v); CREATE TABLE app.@T@1 PARTITION OF app.@T@ DEFAULT",
            "TRUNCATE app.@T@1",
        ),
        "inheritance": ("CREATE TABLE app.@T@0 (scope text, v text); CREATE TABLE app.@T@ () INHERITS (app.@T@0)", "TRUNCATE app.@T@0"),
        "CASCADE": (
            "CREATE TABLE app.@T@0 (i int PRIMARY KEY); CREATE TABLE app.@T@ (scope text, v text, i int REFERENCES app.@T@0)",
            "TRUNCATE app.@T@0 CASCADE",
        ),
        "beside another": (
            "CREATE TABLE app.@T@0 (i int); CREATE TABLE app.@T@ (scope text, v text)",
            "TRUNCATE app.@T@0, ONLY app.@T@ RESTART IDENTITY",
        ),
        "in DO": ("CREATE TABLE app.@T@ (scope text, v text)", "DO $$ BEGIN EXECUTE 'TRUNCATE app.@T@'; END $$"),
        "after a savepoint": ("CREATE TABLE app.@T@ (scope text, v text)", "SAVEPOINT a; TRUNCATE app.@T@; RELEASE a"),
    }
    count = 0
    for (shape, (create, attack)), isolation in (
        (s, i) for s in shapes.items() for i in ("REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED")
    ):
        for where in ("direct", *modes):
            count += 1
            table, a, b = f"truncated{count}", rig.scope(), rig.scope()
            rig.sql(f"SELECT termgate.seal('{a}', 5)")
            rig.sql(f"SELECT termgate.seal('{b}', 5)")
            rig.sql(create.replace("@T@", table))
            rig.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA app TO writer; SELECT termgate.protect('app.{table}', scope_column => 'scope')")
            port = rig.server.port if where == "direct" else rig.proxy(where).port
            for declared in ("check_term", "SET LOCAL"):
                rig_says = f"{shape}, {isolation}, {declared}"
                declare = (
                    [f"SELECT termgate.check_term('{a}', 5)"]
                    if declared == "check_term"
                    else [f"SET LOCAL termgate.scope = '{a}'", "SET LOCAL termgate.term = 5"]
                )
                with rig.session(port) as first, rig.session(scope=b, term=5) as second:
                    say(first, f"BEGIN ISOLATION LEVEL {isolation}", *declare, f"SELECT count(*) FROM app.{table}")
                    written = say(second, f"INSERT INTO app.{table} (scope, v) VALUES ('{b}', 'of b')")
                    say(first, attack.replace("@T@", table), "COMMIT")
                left = rig.value(f"SELECT count(*) FROM app.{table} WHERE scope = '{b}'")
                yield where, rig_says, (
                    f"the other leader could not write: {written}" if written else None if int(left) else "the other scope's row is gone"
                )
                rig.sql(
                    f"BEGIN; SET LOCAL termgate.scope = '{b}'; SET LOCAL termgate.term = 5; DELETE FROM app.{table} WHERE scope = '{b}';"
                    " COMMIT"
                )
            if isolation == "READ COMMITTED":
                with rig.session(port, scope=a, term=5) as first:
                    wrong = say(
                        first,
                        f"INSERT INTO app.{table} (scope, v) VALUES ('{a}', 'of a')",
                        attack.replace("@T@", table) if "SAVEPOINT" not in attack else f"TRUNCATE app.{table}",
                    )
                yield where, f"{shape}: the only scope's own leader may", wrong


# --- finding 6: a child under protection, its parent not ---


@special("6", "protect on a child")
def children(lab, major, modes):
    rig = Rig.of(lab, major)
    partition = (
        "CREATE TABLE app.@T@ (k int, v text) PARTITION BY RANGE (k); CREATE TABLE app.@T@1 PARTITION OF app.@T@ FOR VALUES FROM (0) TO"
        " (10); CREATE TABLE app.@T@2 PARTITION OF app.@T@ FOR VALUES FROM (10) TO (20); INSERT INTO app.@T@ VALUES (1, 'kept'), (11,"
        " 'kept')"
    )
    deep = (
        "CREATE TABLE app.@T@ (k int, v text) PARTITION BY RANGE (k); CREATE TABLE app.@T@0 PARTITION OF app.@T@ FOR VALUES FROM (0) TO"
        " (10) PARTITION BY LIST (k); CREATE TABLE app.@T@1 PARTITION OF app.@T@0 DEFAULT; CREATE TABLE app.@T@2 PARTITION OF app.@T@ FOR"
        " VALUES FROM (10) TO (20); INSERT INTO app.@T@ VALUES (1, 'kept'), (11, 'kept')"
    )
    inherit = (
        "CREATE TABLE app.@T@ (k int, v text); CREATE TABLE app.@T@1 () INHERITS (app.@T@); CREATE TABLE app.@T@2 () INHERITS (app.@T@);"
        " INSERT INTO app.@T@1 VALUES (1, 'kept'); INSERT INTO app.@T@2 VALUES (11, 'kept')"
    )
    deep_inherit = (
        "CREATE TABLE app.@T@ (k int, v text); CREATE TABLE app.@T@0 () INHERITS (app.@T@); CREATE TABLE app.@T@1 () INHERITS (app.@T@0);"
        " CREATE TABLE app.@T@2 () INHERITS (app.@T@); INSERT INTO app.@T@1 VALUES (1, 'kept'); INSERT INTO app.@T@2 VALUES (11, 'kept')"
    )
    later = (
        "CREATE TABLE app.@T@ (k int, v text) PARTITION BY RANGE (k); CREATE TABLE app.@T@1 (k int, v text); CREATE TABLE app.@T@2"
        " PARTITION OF app.@T@ FOR VALUES FROM (10) TO (20); INSERT INTO app.@T@1 VALUES (1, 'kept'); INSERT INTO app.@T@2 VALUES (11,"
        " 'kept')"
    )
    writes = {
        "INSERT": "INSERT INTO app.@T@ VALUES (2, 'bad')",
        "UPDATE": "UPDATE app.@T@ SET v = 'bad' WHERE k = 1",
        "DELETE": "DELETE FROM app.@T@ WHERE k = 1",
        "a move into it": "UPDATE app.@T@ SET k = 3, v = 'bad' WHERE k = 11",
        "a move out of it": "UPDATE app.@T@ SET k = 13, v = 'bad' WHERE k = 1",
        "COPY FROM a SELECT": "INSERT INTO app.@T@ SELECT 4, 'bad'",
        "a CTE": "WITH x AS (DELETE FROM app.@T@ WHERE k = 1 RETURNING k) SELECT * FROM x",
        "TRUNCATE": "TRUNCATE app.@T@",
        "in a function": "DO $$ BEGIN UPDATE app.@T@ SET v = 'bad' WHERE k < 10; END $$",
        "a rule's view": "UPDATE app.@T@v SET v = 'bad' WHERE k = 1",
        "FROM": "DELETE FROM app.@T@ USING (SELECT 1 AS k) x WHERE app.@T@.k = x.k",
    }
    if int(major) >= 15:
        writes["MERGE"] = "MERGE INTO app.@T@ t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'bad'"
    count = 0
    for (shape, create), target in (
        (s, t)
        for s in {
            "partition": partition,
            "partition of a partition": deep,
            "inheritance child": inherit,
            "child of a child": deep_inherit,
            "attached later": later,
        }.items()
        for t in ("fixed scope", "any scope")
    ):
        for name, write in writes.items():
            if "inheritance" in shape or shape == "child of a child":
                if name in ("INSERT", "COPY FROM a SELECT", "a move into it", "a move out of it") or (name == "MERGE" and int(major) < 17):
                    continue
            count += 1
            table = f"child{count}_"
            rig.sql(create.replace("@T@", table))
            rig.sql(f"CREATE VIEW app.{table}v AS SELECT * FROM app.{table}; GRANT ALL ON ALL TABLES IN SCHEMA app TO writer")
            scope = rig.scope()
            rig.sql(f"SELECT termgate.seal('{scope}', 5)")
            with rig.session(user="postgres") as owner:
                refused = say(owner, f"SELECT termgate.protect('app.{table}1', scope => '{'*' if target == 'any scope' else scope}')")
                if shape == "attached later" and not refused:
                    refused = say(owner, f"ALTER TABLE app.{table} ATTACH PARTITION app.{table}1 FOR VALUES FROM (0) TO (10)")
            state = f"SELECT coalesce(string_agg(tableoid::regclass || ':' || k || v, ',' ORDER BY k), '') FROM app.{table}1"
            for where in ("direct", *(mode for mode in modes if mode == "allow")):
                before = rig.value(state)
                port = rig.server.port if where == "direct" else rig.proxy(where).port
                for form in ("simple", "extended", "in a block"):
                    with rig.session(port) as client:
                        sql = write.replace("@T@", table)
                        if form == "simple":
                            say(client, sql)
                        elif form == "extended":
                            client.send(parse("", sql) + bind() + execute() + sync())
                            client.until("Z")
                        else:
                            say(client, "BEGIN", sql, "COMMIT")
                after = rig.value(state)
                yield where, f"{shape}, {target}, {name}", None if refused or before == after else f"{before} is now {after}"


# --- finding 7: what a stale leader can lock holds up nobody ---


@special("7", "a frozen stale leader")
def frozen(lab, major, modes):
    rig = Rig.of(lab, major)
    rig.sql(
        "CREATE TABLE app.adopted (scope text, term bigint); CREATE INDEX ON app.adopted (scope, term); CREATE TABLE app.adopted2 (scope"
        " text, term bigint); CREATE INDEX ON app.adopted2 (scope, term)"
    )
    rig.sql(
        "ALTER TABLE app.adopted OWNER TO writer; ALTER TABLE app.adopted2 OWNER TO writer; GRANT ALL ON app.adopted, app.adopted2 TO"
        " leader, layer1"
    )
    rig.sql("SELECT termgate.adopt('app.adopted', 'scope', 'term'), termgate.adopt('app.adopted2', 'scope', 'term')")
    locks = {
        "TRUNCATE": "TRUNCATE app.adopted",
        "LOCK TABLE": "LOCK TABLE app.adopted IN ACCESS EXCLUSIVE MODE",
        "TRUNCATE of both": "TRUNCATE app.adopted, app.adopted2",
        "ALTER TABLE": "ALTER TABLE app.adopted SET (fillfactor = 90)",
        "REINDEX": "REINDEX TABLE app.adopted",
        "CLUSTER": "CLUSTER app.adopted USING adopted_scope_term_idx",
        "DROP": "DROP TABLE app.adopted2",
        "an append": None,
        "SERIALIZABLE": "SELECT count(*) FROM app.adopted",
        "CREATE INDEX": "CREATE INDEX ON app.adopted (term)",
        "a row of it": "INSERT INTO app.adopted VALUES ('@H@', 5)",
    }
    for name, lock in locks.items():
        for where in ("direct", *[mode for mode in modes if mode == "read-only"]):
            held, other = rig.scope(), rig.scope()
            rig.sql(f"SELECT termgate.acquire_lease('{held}', 'old', '100 ms', grace => '100 ms')")
            rig.sql(f"SELECT termgate.acquire_lease('{other}', 'old', '100 ms', grace => '100 ms')")
            term = rig.value(f"SELECT term FROM termgate.fence('{held}')")
            late = f"SELECT bool_and(expires_at < clock_timestamp()) FROM termgate.leases WHERE scope IN ('{held}', '{other}')"
            assert eventually(lambda: rig.value(late) == "t"), "the leases run out"
            old = rig.session(rig.server.port if where == "direct" else rig.proxy(where).port, scope=held, term=term)
            begin = say(
                old,
                "BEGIN ISOLATION LEVEL SERIALIZABLE" if name == "SERIALIZABLE" else "BEGIN",
                f"SELECT termgate.check_term('{held}', {term})",
            )
            begin = begin or say(
                old,
                (
                    lock.replace("@H@", held).replace(", 5)", f", {term})")
                    if lock
                    else f"SELECT termgate.append('s{held}', {term}, 'x', scope => '{held}')"
                ),
                "INSERT INTO app.t (v) VALUES ('of the frozen')",
            )
            if begin:
                yield where, f"{name}: the old leader's transaction", begin
                old.end()
                continue
            written = rig.value("SELECT count(*) FROM app.t WHERE v = 'of the frozen'")
            with rig.session(user="leader", wait=20) as leader:
                # The fence row of the other scope is there and trusted: nothing of it is locked.
                started = time.monotonic()
                wrong = say(leader, f"SELECT termgate.acquire_lease('{other}', 'new', '1 min', grace => '500 ms')")
                took = time.monotonic() - started
                yield where, f"{name}: another scope is acquired", wrong or (None if took < 3 else f"after {took:.1f} s")
                started = time.monotonic()
                wrong = say(leader, f"SELECT 1 / acquired::int FROM termgate.acquire_lease('{held}', 'new', '1 min', grace => '500 ms')")
                took = time.monotonic() - started
                yield where, f"{name}: its own scope is acquired", wrong or (None if took < 3 else f"after {took:.1f} s")
                if name == "TRUNCATE" and where == "direct":
                    # Another owner's table may hold evidence for it, so it has to wait, and says for whom.
                    started = time.monotonic()
                    wrong = say(leader, f"SELECT termgate.seal('new{held}', 5)")
                    took = time.monotonic() - started
                    yield where, f"{name}: a scope that is new answers in time", (
                        None if took < 8 and wrong in (None, "TG006") else f"{wrong} after {took:.1f} s"
                    )
            say(old, "COMMIT")
            old.end()
            none = stays(lambda: rig.value("SELECT count(*) FROM app.t WHERE v = 'of the frozen'") == written, 0.1)
            yield where, f"{name}: the old leader cannot commit any more", None if none else "committed"
            rig.sql("CREATE TABLE IF NOT EXISTS app.adopted2 (scope text, term bigint)")


# --- finding 10: a login event trigger ---


@special("10", "a login event trigger that writes")
def login_trigger(lab, major, modes):
    if int(major) < 17:
        return
    rig = Rig(lab, major)
    rig.sql("CREATE TABLE app.logins (who text); GRANT ALL ON app.logins TO PUBLIC")
    bodies = {
        "INSERT": "INSERT INTO app.logins VALUES (session_user)",
        "nextval": "PERFORM nextval('app.t_n_seq')",
        "UPDATE": "UPDATE app.logins SET who = who",
        "a function": "PERFORM app.count_login()",
        "INSERT with a notice": "RAISE NOTICE 'welcome'; INSERT INTO app.logins VALUES (session_user)",
    }
    rig.sql("CREATE FUNCTION app.count_login() RETURNS void LANGUAGE sql AS $$INSERT INTO app.logins VALUES ('f')$$")
    for name, body in bodies.items():
        rig.sql(f"CREATE OR REPLACE FUNCTION app.on_login() RETURNS event_trigger LANGUAGE plpgsql AS $f$BEGIN {body}; END$f$")
        rig.sql("DROP EVENT TRIGGER IF EXISTS on_login")
        rig.sql("CREATE EVENT TRIGGER on_login ON login EXECUTE FUNCTION app.on_login()")
        with rig.session(user="writer") as client:
            yield "direct", name, say(client, "SELECT 1")
        for mode in modes:
            scope = rig.scope()
            for claim in (None, scope):
                try:
                    with rig.session(rig.proxy(mode).port, scope=claim, term=5) as client:
                        wrong = say(client, "SELECT 1", *(["INSERT INTO app.t (v) VALUES ('x')"] if claim else []))
                except Closed as closed:
                    wrong = str([message for message in closed.messages if message.type == "E"])
                yield mode, f"{name}, {'with a term' if claim else 'without a term'}", (
                    wrong if not (mode == "reject" and not claim and wrong == "TG002") else None
                )
    # The proxy's own connection, which finds out that there may be such triggers, is slower than the first client.
    for mode in modes:
        with Slow(rig.server.port, "layer1", 0.7) as slow:
            proxy = lab.proxy(rig.url.replace(f":{rig.server.port}/", f":{slow.port}/"), "--without-term", mode)
            try:
                with rig.session(proxy.port, scope=rig.scope(), term=5) as client:
                    wrong = say(client, "SELECT 1", "INSERT INTO app.t (v) VALUES ('x')")
            except Closed as closed:
                wrong = str([message for message in closed.messages if message.type == "E"])
            yield mode, "the first client after the start", wrong
            proxy.stop()
    rig.sql("DROP EVENT TRIGGER on_login")


# --- finding 14: HTTP, and names of statements ---


def http(port, *lines, wait=5):
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as client:
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        answer = b""
        try:
            while b"\r\n\r\n" not in answer:
                piece = client.recv(4096)
                if not piece:
                    break
                answer += piece
        except socket.timeout:
            return "silent"
        return answer.split(b"\r\n")[0].decode().split(" ")[1] if answer else "closed"


@special("14", "HTTP, and memory", modes=("read-only",))
def small(lab, major, modes):
    rig = Rig.of(lab, major)
    if not modes:
        return
    mode = modes[0]
    proxy = rig.proxy(mode)
    request = "GET /healthz HTTP/1.1"
    for name, lines, wanted in (
        ("two Hosts", (request, "Host: localhost", "Host: evil"), "400"),
        ("two Hosts, the second right", (request, "Host: evil", "Host: localhost"), "400"),
        ("the same Host twice", (request, "Host: localhost", "Host: localhost"), "400"),
        ("two Hosts, other letters", (request, "HOST: localhost", "host: evil"), "400"),
        ("no Host", (request,), "400"),
        ("another Host", (request, "Host: evil"), "421"),
        ("one Host", (request, "Host: localhost"), "200"),
        ("a NUL in the scope", ("GET /leader?scope=%00 HTTP/1.1", "Host: localhost"), "400"),
        ("a NUL within the scope", ("GET /leader?scope=a%00b HTTP/1.1", "Host: localhost"), "400"),
        ("a scope of 5,000 letters", (f"GET /leader?scope={'x' * 5000} HTTP/1.1", "Host: localhost"), "400"),
        ("a scope of 201 letters", (f"GET /leader?scope={'x' * 201} HTTP/1.1", "Host: localhost"), "400"),
        ("a scope of 200 letters", (f"GET /leader?scope={'x' * 200} HTTP/1.1", "Host: localhost"), "503"),
        ("a scope of 801 bytes", (f"GET /leader?scope={'%F0%9F%99%82' * 200}x HTTP/1.1", "Host: localhost"), "400"),
        ("no UTF-8", ("GET /leader?scope=%ff HTTP/1.1", "Host: localhost"), "400"),
        ("an empty scope", ("GET /leader?scope= HTTP/1.1", "Host: localhost"), "400"),
        ("a broken escape", ("GET /leader?scope=%4 HTTP/1.1", "Host: localhost"), "400"),
    ):
        got = http(proxy.http, *lines)
        yield mode, f"HTTP: {name}", None if got == wanted else f"{got} instead of {wanted}"
    for count, first in ((64, ""), (200, "GET /healthz HTTP/1.1\r\nHost: local"), (80, "G")):
        half = []
        try:
            for _ in range(count):
                client = socket.create_connection(("127.0.0.1", proxy.http), timeout=1)
                half.append(client)
                client.sendall(first.encode())
        except OSError:
            pass  # full: that is what is asked about
        started = time.monotonic()
        try:
            got = http(proxy.http, request, "Host: localhost", wait=4)
        except OSError as error:
            got = str(error)
        took = time.monotonic() - started
        yield mode, f"HTTP: {count} that {'say nothing' if not first else 'stop in the middle'}", (
            None if got == "200" and took < 3 else f"{got} after {took:.1f} s"
        )
        for client in half:
            client.close()
    for name, text in {
        "COMMIT PREPARED": "COMMIT PREPARED '{}'",
        "ROLLBACK PREPARED": "ROLLBACK PREPARED '{}'",
        "DEALLOCATE": 'DEALLOCATE "{}"',
        "SAVEPOINT": 'SAVEPOINT "{}"',
        "RELEASE": 'RELEASE "{}"',
        "CLOSE": 'CLOSE "{}"',
        "FETCH": 'FETCH "{}"',
        "LISTEN": 'LISTEN "{}"',
    }.items():
        with rig.session(proxy.port, wait=60) as client:
            say(client, "SELECT 1")
            before = proxy.resident_kb()
            for i in range(60):
                client.send(parse(f"p{i}", text.format(f"{i}" + "x" * 400_000)) + sync())
                client.until("Z")
            more = proxy.resident_kb() - before
        yield mode, f"memory: 60 statements {name} of 400 kB", None if more < 10_000 else f"{more} kB more"


# --- L1: the watched file ---


@special("L1", "the file of a rule is withdrawn")
def watched(lab, major, modes):
    rig = Rig.of(lab, major)
    insert = "INSERT INTO app.t (v) VALUES ('x')"

    def write(path, text):
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    changes = {
        "removed": lambda path, scope: os.remove(path),
        "garbage": lambda path, scope: write(path, "garbage\n"),
        "empty": lambda path, scope: write(path, ""),
        "another scope": lambda path, scope: write(path, f"scope=other{scope} term=105\n"),
        "no term": lambda path, scope: write(path, f"scope={scope}\n"),
        "a higher term": lambda path, scope: write(path, f"scope={scope} term=101\n"),
        "a lower term": lambda path, scope: write(path, f"scope={scope} term=99\n"),
        "a directory": lambda path, scope: (os.remove(path), os.mkdir(path)),
        "a dangling link": lambda path, scope: (os.remove(path), os.symlink("/nowhere", path)),
        "two lines": lambda path, scope: write(path, f"scope={scope} term=100\nscope={scope} term=100\n"),
    }
    for mode in modes:
        for name, change in changes.items():
            if mode == "allow" and name == "removed":
                continue  # no term: then the mode lets it write
            scope = rig.scope()
            path = f"{lab.folder}/{scope}.term"
            write(path, f"scope={scope} term=100\n")
            rules = f"{lab.folder}/{scope}.rules"
            with open(rules, "w") as file:
                file.write(f"[rule watched]\nuser = writer\nfile = {path}\n")
            proxy = lab.proxy(rig.url, "--without-term", mode, "--rules", rules)
            idle, block, extended, watching = clients = [rig.session(proxy.port) for _ in range(4)]
            first = [say(client, insert) for client in clients]
            if any(first):
                yield mode, f"{name}: the first writes", str(first)
            change(path, scope)
            # The proxy looks at the file every 200 ms; this session finds out when it has.
            yield mode, f"{name}: the proxy notices", None if eventually(lambda: say(watching, insert)) else "it goes on"
            yield mode, f"{name}: autocommit", None if say(idle, insert) else "committed"
            yield mode, f"{name}: block", None if say(block, "BEGIN", insert, "COMMIT") else "committed"
            extended.send(parse("", insert) + bind() + execute() + sync())
            yield mode, f"{name}: extended", None if error_of(extended.until("Z")) else "committed"
            yield mode, f"{name}: again", None if say(idle, insert) else "committed"
            if name == "removed":
                write(path, f"scope={scope} term=100\n")
                eventually(lambda: not say(watching, insert))
                yield mode, f"{name}, and back: the same session", say(idle, insert)
            for client in clients:
                client.end()
            proxy.stop()


# --- L2: names that the server cuts ---


@special("L2", "names of more than 63 bytes", modes=("reject",))
def long_names(lab, major, modes):
    rig = Rig.of(lab, major)
    if not modes:
        return
    insert = "INSERT INTO app.t (v) VALUES ('long')"
    user, database = "u" * 63, "d" * 63
    rig.sql(f"CREATE ROLE {user} LOGIN")
    rig.sql(f"CREATE DATABASE {database}")
    wide = "ü" * 31 + "u"
    rig.sql(f'CREATE ROLE "{wide}" LOGIN')
    rule = {
        "user refused": f"[rule r]\nuser = {user}\nrefuse = no\n",
        "pattern refused": f"[rule r]\nuser = *{'u' * 10}\nrefuse = no\n",
        "database refused": f"[rule r]\ndatabase = {database}\nrefuse = no\n",
        "user with a fixed term": f"[rule r]\nuser = {user}\nscope = long\nterm = 5\n[rule rest]\nwithout-term = allow\n",
        "user with a lease": f"[rule r]\nuser = {user}\nlease = longlease\n[rule rest]\nwithout-term = allow\n",
        "wide user refused": f"[rule r]\nuser = {wide}\nrefuse = no\n",
    }
    for name, text in rule.items():
        rules = f"{lab.folder}/long-{name.replace(' ', '-')}-{major}.rules"
        with open(rules, "w") as file:
            file.write(text)
        proxy = lab.proxy(rig.url, "--rules", rules)
        for more in ("x", "u", "d", "uuuu", "é", " ", "\\"):
            who, where = (wide if "wide" in name else user) + more, "postgres"
            if "database" in name:
                who, where = "writer", database + more
            try:
                with rig.session(proxy.port, user=who, database=where) as client:
                    came = say(client, "SELECT 1" if "term" not in name and "lease" not in name else insert)
                yield "rules", f"{name}, with {more!r} behind it", (
                    None if came else "was let in" if "refused" in name else "wrote without a term"
                )
            except Closed:
                yield "rules", f"{name}, with {more!r} behind it", None
        proxy.stop()
    proxy = lab.proxy(rig.url, "--max-connections-per-user", "1")
    for more in ("", "x"):
        with rig.session(proxy.port, user=user):
            try:
                rig.session(proxy.port, user=user + (more or "y")).end()
                yield "limits", f"a second connection with {more or 'y'!r} behind it", "was let in"
            except Closed:
                yield "limits", f"a second connection with {more or 'y'!r} behind it", None
        assert eventually(lambda: proxy.metric("termgate_connections") == 0), "the place is free again"
    proxy.stop()


# --- L3: COMMIT PREPARED while a scope is untrusted ---


@special("L3", "COMMIT PREPARED while a scope is untrusted")
def prepared(lab, major, modes):
    rig = Rig(lab, major, "max_prepared_transactions=60")
    declare = rig.value(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'termgate'::regnamespace AND proname IN ('declare_in_doubt', 'declare_untrusted')"
    )
    rig.sql("ALTER ROLE writer SET client_min_messages = error")
    ways = {
        "without a term": (None, lambda gid: [f"COMMIT PREPARED '{gid}'"]),
        "its own term": ("own", lambda gid: [f"COMMIT PREPARED '{gid}'"]),
        "the term of another scope": ("other", lambda gid: [f"COMMIT PREPARED '{gid}'"]),
        "one text": ("other", lambda gid: [f"SELECT 1; COMMIT PREPARED '{gid}'"]),
        "a comment": (None, lambda gid: [f"/*termgate.scope='bystander',termgate.term='{trusted}'*/ COMMIT PREPARED '{gid}'"]),
        "extended": ("other", None),
        "odd spelling": ("other", lambda gid: [f"commit /* x */ prepared U&'{gid}'"]),
        "after SET": (None, lambda gid: ["SET termgate.scope = 'bystander'", f"SET termgate.term = {trusted}", f"COMMIT PREPARED '{gid}'"]),
    }
    gids, trusted = {}, 0
    for mode in modes:
        for name in ways:
            scope = rig.scope()
            rig.sql(f"SELECT termgate.seal('{scope}', 5)")
            gid = f"{mode} {name}"
            with rig.session() as client:
                said = say(
                    client,
                    "BEGIN",
                    f"SELECT termgate.check_term('{scope}', 5)",
                    f"INSERT INTO app.t (v) VALUES ('{gid}')",
                    f"PREPARE TRANSACTION '{gid}'",
                )
                assert not said, said
            gids[gid] = scope
    rig.sql("SELECT termgate.acquire_lease('bystander', 'before', '100 ms')")
    rig.sql(f"SELECT termgate.{declare}('test', 'lost raises')")
    late = "SELECT expires_at < clock_timestamp() FROM termgate.leases WHERE scope = 'bystander'"
    assert eventually(lambda: rig.value(late) == "t"), "the lease runs out"
    # A lease of our own jumps, so this scope is trusted again.
    trusted = rig.value("SELECT term FROM termgate.acquire_lease('bystander', 'after', '10 min')")
    for mode in modes:
        with rig.session(rig.proxy(mode).port, scope="bystander", term=trusted) as client:
            yield mode, "the scope of a new lease writes", say(client, "INSERT INTO app.t (v) VALUES ('bystander')")
    for mode in modes:
        for name, (claim, texts) in ways.items():
            gid = f"{mode} {name}"
            scope = {"own": gids[gid], "other": "bystander"}.get(claim)
            with rig.session(rig.proxy(mode).port, scope=scope, term=trusted if claim == "other" else 5) as client:
                if texts:
                    say(client, *texts(gid))
                else:
                    client.send(parse("", f"COMMIT PREPARED '{gid}'") + bind() + execute() + sync())
                    client.until("Z")
            found = rig.value(f"SELECT count(*) FROM app.t WHERE v = '{gid}'")
            # Under `allow` a session without a term may write what it likes, and so may commit it.
            yield mode, name, None if found == "0" or (mode == "allow" and name == "without a term") else "committed"
            rig.direct.query(f"ROLLBACK PREPARED '{gid}'")


# --- contract 5.4: ALTER ROLE or DATABASE … SET is a start-up option ---


@special("5.4", "declared by ALTER ROLE and ALTER DATABASE")
def altered(lab, major, modes):
    rig = Rig.of(lab, major)
    insert = "INSERT INTO app.t (v) VALUES ('altered')"
    for target in ("ROLE writer", "DATABASE postgres", "ROLE writer IN DATABASE postgres"):
        for mode in modes:
            scope = rig.scope()
            rig.sql(f"SELECT termgate.seal('{scope}', 5)")
            for term, name in ((5, "current"), (3, "stale"), (6, "higher"), ("x", "malformed")):
                rig.sql(f"ALTER {target} SET termgate.scope = '{scope}'")
                rig.sql(f"ALTER {target} SET termgate.term = '{term}'")
                with rig.session(rig.proxy(mode).port) as client:
                    rig.sql(f"ALTER {target} RESET termgate.scope")
                    rig.sql(f"ALTER {target} RESET termgate.term")
                    autocommit = say(client, insert)
                    block = say(client, "BEGIN", insert, "COMMIT")
                    client.query("ROLLBACK")
                    client.send(parse("", insert) + bind() + execute() + sync())
                    extended = error_of(client.until("Z"))
                for form, said in (("autocommit", autocommit), ("block", block), ("extended", extended)):
                    rightful = name in ("current", "higher")
                    yield mode, f"{target}, {name}, {form}", said if rightful else None if said else "committed"
