"""What the rows of findings_test.py are made of: forms of sending statements, one attack and its judge, servers with roles and proxies.

The judge knows nothing of how the proxy decides. A row of a table says whether it should have been committed ("good") or not
("bad"), and a direct connection of the superuser's looks afterwards which rows are there. Every attack that must be refused
runs on a direct connection too, where its "bad" rows must commit: an attack that does nothing there proves nothing here.
"""
import os
import re
import time
import zlib
from dataclasses import dataclass

import given
import pgraw
from given import ROOT
from pgraw import Closed, Connection, Silent

ROLES = {"none": None, "read": "read", "write": "write", "lead": "lead", "operate": "operate", "maker": "write"}
STALE, FENCE, OTHER, OTHER_FENCE = 3, 5, 9, 9


# --- messages, whose text is completed when they are sent: @N@ a number of this attack's own, @A@ and @B@ its scopes ---


def Q(sql):
    return lambda fill: pgraw.query(fill(sql))


def P(name, sql, types=()):
    return lambda fill: pgraw.parse(name, fill(sql), types)


def B(portal="", statement="", values=()):
    return lambda fill: pgraw.bind(portal, statement, [value if value is None else fill(value) for value in values])


def D(kind, name=""):
    return lambda fill: pgraw.describe(kind, name)


def E(portal="", rows=0):
    return lambda fill: pgraw.execute(portal, rows)


def C(kind, name=""):
    return lambda fill: pgraw.close(kind, name)


def copy_in(text):
    return lambda fill: pgraw.copy_data(fill(text)) + pgraw.copy_done()


def F(oid, *values):
    return lambda fill: pgraw.function_call(oid, [fill(value).encode() for value in values], formats=(0,), result=0)


def S(fill):
    return pgraw.sync()


def H(fill):
    return pgraw.flush()


def one(sql, values=()):
    """Parse, Bind, Execute of an unnamed statement."""
    return [P("", sql), B("", "", values), E()]


def group(*statements):
    return [message for sql in statements for message in one(sql)] + [S]


# --- forms: how the statements of one transaction are sent. Each gives steps; a step is sent at once, then its answers are read ---


def quoted(sql):
    return "$form$" + sql + "$form$"


def prepared(statements):
    """By SQL's PREPARE, outside of the block."""
    return [[Q(f"PREPARE p{i} AS {sql}")] for i, sql in enumerate(statements)] + [
        [Q("BEGIN")],
        *[[Q(f"EXECUTE p{i}")] for i in range(len(statements))],
        [Q("COMMIT")],
    ]


def named(statements):
    """Named statements, then one group that executes them all."""
    return [
        [*[P(f"s{i}", sql) for i, sql in enumerate(statements)], S],
        [*[m for i in range(len(statements)) for m in (B("", f"s{i}"), E())], S],
    ]


def portals(statements):
    """All portals bound first, then executed with a limit of one row, then to their end."""
    count = len(statements)
    return [
        [Q("BEGIN")],
        [
            *[m for i, sql in enumerate(statements) for m in (P(f"s{i}", sql), B(f"c{i}", f"s{i}"))],
            *[m for i in range(count) for m in ([E(f"c{i}", 1)] if statements[i].startswith("SELECT") else []) + [E(f"c{i}")]],
            S,
        ],
        [Q("COMMIT")],
    ]


def mixed(statements):
    """Simple and extended in turn."""
    return [[Q("BEGIN")], *[group(sql) if i % 2 else [Q(sql)] for i, sql in enumerate(statements)], group("COMMIT")]


def flushed(statements):
    """One group; a Flush after each statement, whose answer is read."""
    return [*[[*one(sql), H] for sql in statements], [S]]


FORMS = {
    "text": lambda ss: [[Q("; ".join(ss))]],
    "text with BEGIN": lambda ss: [[Q("BEGIN; " + "; ".join(ss) + "; COMMIT")]],
    "block": lambda ss: [[Q("BEGIN")], *[[Q(sql)] for sql in ss], [Q("COMMIT")]],
    "block, repeatable read": lambda ss: [[Q("BEGIN ISOLATION LEVEL REPEATABLE READ")], *[[Q(sql)] for sql in ss], [Q("COMMIT")]],
    "block, serializable": lambda ss: [
        [Q("START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ WRITE")],
        *[[Q(sql)] for sql in ss],
        [Q("END")],
    ],
    "group": lambda ss: [group(*ss)],
    "group with BEGIN": lambda ss: [group("BEGIN", *ss, "COMMIT")],
    "group, described": lambda ss: [[*[m for sql in ss for m in (P("", sql), D("S"), B(), D("P"), E())], S]],
    "flushed": flushed,
    "extended block": lambda ss: [group("BEGIN"), *[group(sql) for sql in ss], group("COMMIT")],
    "pipelined": lambda ss: [[Q("BEGIN"), *[Q(sql) for sql in ss], Q("COMMIT")]],
    "named": named,
    "PREPARE": prepared,
    "portals": portals,
    "mixed": mixed,
    "savepoint": lambda ss: [[Q("BEGIN")], [Q("SAVEPOINT a")], *[[Q(sql)] for sql in ss], [Q("RELEASE a")], [Q("COMMIT")]],
    "savepoint rolled back": lambda ss: [
        [Q("BEGIN")],
        [Q("SAVEPOINT a")],
        [Q("SELECT 1/0")],
        [Q("ROLLBACK TO a")],
        *[[Q(sql)] for sql in ss],
        [Q("COMMIT")],
    ],
    "chain": lambda ss: [[Q("BEGIN")], [Q("SELECT 1")], [Q("COMMIT AND CHAIN")], *[[Q(sql)] for sql in ss], [Q("COMMIT")]],
    "chained out of a savepoint": lambda ss: [
        [Q("BEGIN")],
        [Q("SAVEPOINT a")],
        [Q("SELECT 1")],
        [Q("ROLLBACK AND CHAIN")],
        *[[Q(sql)] for sql in ss],
        [Q("COMMIT")],
    ],
    "chained out of a failed block": lambda ss: [
        [Q("BEGIN")],
        [Q("SAVEPOINT a")],
        [Q("SELECT 1/0")],
        [Q("COMMIT AND CHAIN")],
        *[[Q(sql)] for sql in ss],
        [Q("COMMIT")],
    ],
    "two-phase": lambda ss: [
        [Q("BEGIN")],
        *[[Q(sql)] for sql in ss],
        [Q("PREPARE TRANSACTION 'attack @N@'")],
        [Q("COMMIT PREPARED 'attack @N@'")],
    ],
    "comments": lambda ss: [[Q("/* a */ BEGIN -- x\n")], *[[Q(f"/* x */ -- y\n {sql} /* ; */")] for sql in ss], [Q("COMMIT /* x */")]],
    "functions": lambda ss: [[Q("BEGIN")], *[[Q(f"SELECT app.run({quoted(sql)})")] for sql in ss], [Q("COMMIT")]],
    "one function": lambda ss: [[Q("SELECT " + ", ".join(f"app.run({quoted(sql)})" for sql in ss))]],
    "DO": lambda ss: [[Q("DO $do$ BEGIN " + " ".join(f"EXECUTE {quoted(sql)};" for sql in ss) + " END $do$")]],
    "CALL": lambda ss: [group("BEGIN"), *[group(f"CALL app.execute({quoted(sql)})") for sql in ss], group("COMMIT")],
}
# A statement alone, outside of a block.
ALONE = {
    "simple": lambda sql: [[Q(sql)]],
    "extended": lambda sql: [group(sql)],
    "extended, flushed": lambda sql: [[*one(sql), H], [S]],
    "extended, described and flushed": lambda sql: [[P("", sql), D("S"), H], [B(), D("P"), H], [E(), H], [S]],
    "named, twice": lambda sql: [[P("n", sql), S], [B("", "n"), E(), S], [B("", "n"), E(), S]],
    "twice": lambda sql: [[Q(sql)], [Q(sql)]],
    "extended, twice": lambda sql: [group(sql), group(sql)],
    "a portal, row by row": lambda sql: [
        [P("", sql), B("p"), E("p", 1), *([E("p", 1)] if "SELECT" in sql and "INSERT" not in sql else []), S]
    ],
}
PLAIN = [name for name in FORMS if name not in ("functions", "one function", "DO", "CALL")]


def pick(names, key, count):
    """`count` of the names, which ones depends on the key: rows differ in their forms, and a run is the same every time."""
    names = list(names)
    return sorted(names, key=lambda name: zlib.crc32(f"{key} {name}".encode()))[:count]


@dataclass
class Row:
    """One attack. `claim`: what the session declares at its start: none, stale (A below its fence), other (B, valid), current (A, valid).

    `expect`: "refused": no "bad" row; "works": so many "good" rows. `same`: the answers are those of a direct connection. `setup`: SQL of
    the superuser's, first. `start`: more of the start-up message. `guarded`: does not commit on a direct connection either. `state`: all
    that outlives a session is looked at. `learned`: refused once, and known from then on.
    """

    finding: str
    name: str
    steps: list
    expect: str = "refused"
    claim: str = "none"
    roles: tuple = ("write", "lead", "operate", "maker")
    modes: tuple = None
    good: int = 1
    same: bool = False
    setup: tuple = ()
    majors: tuple = None
    guarded: bool = False
    state: bool = False
    start: tuple = ()
    learned: bool = False

    def __post_init__(self):
        nobody = self.claim == "none" and self.expect == "refused"
        self.modes = self.modes or (("reject", "read-only") if nobody else ("reject", "read-only", "allow"))

    def role(self, mode):
        return self.roles[zlib.crc32(f"{self.finding} {self.name} {mode}".encode()) % len(self.roles)]


SCHEMA = r"""
CREATE SCHEMA app;
CREATE TABLE app.t (id bigserial, n bigint NOT NULL, v text, scope text DEFAULT current_setting('termgate.scope', true),
  term text DEFAULT current_setting('termgate.term', true));
CREATE INDEX ON app.t (n);
CREATE TABLE app.scratch (n bigint, v text);
CREATE TABLE app.defaulted (n bigint, v text, w bigint);
CREATE TABLE app.updated (n bigint, v text); INSERT INTO app.updated VALUES (0, 'x');
CREATE FUNCTION app.wr(n bigint, v text DEFAULT 'bad') RETURNS bigint LANGUAGE sql VOLATILE AS
  'INSERT INTO app.t (n, v) VALUES ($1, $2) RETURNING n';
CREATE FUNCTION app.bad(n bigint, m bigint DEFAULT 0) RETURNS bigint LANGUAGE sql VOLATILE AS
  'INSERT INTO app.t (n, v) VALUES ($1, ''bad'') RETURNING n';
CREATE FUNCTION app.bad_true(n bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$BEGIN INSERT INTO app.t (n, v) VALUES ($1, 'bad');
  RETURN true; END$$;
CREATE FUNCTION app.rows(n bigint, v text) RETURNS SETOF bigint LANGUAGE plpgsql AS $$BEGIN FOR i IN 1..3 LOOP INSERT INTO app.t (n, v)
  VALUES ($1, $2); RETURN NEXT i; END LOOP; END$$;
CREATE FUNCTION app.planned(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM app.wr(n, 'bad'); RETURN n; END$$;
CREATE FUNCTION app.run(sql text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN 1; END';
CREATE PROCEDURE app.execute(sql text) LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION app.declare(scope text, term text, local boolean DEFAULT true) RETURNS text LANGUAGE sql AS $$SELECT
  set_config('termgate.scope', $1, $3) || set_config('termgate.term', $2, $3)$$;
CREATE FUNCTION app.declare_and_write(scope text, term text, n bigint) RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM app.declare(scope,
  term); INSERT INTO app.t (n, v) VALUES ($3, 'bad'); RETURN 1; END$$;
CREATE PROCEDURE app.declaring(scope text, term text) LANGUAGE plpgsql AS $$BEGIN PERFORM app.declare(scope, term); END$$;
CREATE OPERATOR app.<<% (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = app.bad);
CREATE DOMAIN app.checked AS bigint CHECK (app.bad_true(VALUE));
CREATE TYPE app.wrapped AS (i bigint);
CREATE TYPE app.composed AS (i app.checked);
CREATE TYPE app.ranged AS RANGE (SUBTYPE = app.checked);
CREATE TABLE app.arrays (a app.checked[]);
-- Writes only once app.go is set, so that a text can be parsed before; and what declares the stale claim of that setting and writes
-- under it.
CREATE FUNCTION app.later(n bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN IF current_setting('app.go', true)
  <> '' THEN PERFORM app.bad(n); END IF; RETURN true; END$$;
CREATE DOMAIN app.checked_later AS bigint CHECK (app.later(VALUE));
CREATE FUNCTION app.claims(n bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM app.declare_and_write('a' || n, '3', n);
  RETURN true; END$$;
CREATE DOMAIN app.claiming AS bigint CHECK (app.claims(VALUE));
CREATE SCHEMA own; GRANT USAGE ON SCHEMA own TO PUBLIC;
CREATE FUNCTION own.md5(n bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT app.claims($1)';
CREATE FUNCTION own.termgate_fence(n bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT app.claims($1)';
CREATE FUNCTION own.length(n text) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT app.claims($1::bigint)';
CREATE DOMAIN own.zone AS bigint CHECK (app.claims(VALUE));
CREATE DOMAIN own.writing AS text CHECK (app.bad_true(VALUE::bigint));
CREATE SCHEMA words; GRANT USAGE ON SCHEMA words TO PUBLIC;
CREATE DOMAIN words."integer" AS pg_catalog.text CHECK (app.bad_true(VALUE::bigint));
DO $$DECLARE word pg_catalog.text; BEGIN FOREACH word IN ARRAY
  ARRAY['by','set','escape','varying','is','like','uescape'] LOOP EXECUTE
  format('CREATE DOMAIN words.%I AS bigint CHECK (app.claims(VALUE))', word); END LOOP;
  FOREACH word IN ARRAY ARRAY['by','over','filter','sets','recursive','rollup','within','varying','like',
  'join'] LOOP EXECUTE
  format('CREATE FUNCTION words.%I(pg_catalog.text)
  RETURNS boolean LANGUAGE sql VOLATILE AS ''SELECT app.claims($1::bigint)''', word); END LOOP; END$$;
CREATE FUNCTION app.to_wrapped(v bigint) RETURNS app.wrapped LANGUAGE sql AS 'SELECT app.bad($1); SELECT ROW($1)::app.wrapped';
CREATE CAST (bigint AS app.wrapped) WITH FUNCTION app.to_wrapped(bigint);
CREATE AGGREGATE app.sums (bigint) (SFUNC = app.bad, STYPE = bigint, INITCOND = '0');
CREATE VIEW app.ids AS SELECT i::bigint AS n FROM generate_series(1, 1000000) i;
CREATE VIEW app.writing AS SELECT g.n, app.bad(g.n) AS w FROM (SELECT current_setting('application_name')::bigint AS n) g;
CREATE VIEW app.ruled AS SELECT 0::bigint AS n; CREATE RULE r AS ON INSERT TO app.ruled DO INSTEAD INSERT INTO app.t (n, v)
  VALUES (NEW.n, 'bad');
CREATE TABLE app.secure (n bigint); INSERT INTO app.secure VALUES (1); ALTER TABLE app.secure ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON app.secure USING (app.bad_true(current_setting('application_name')::bigint));
CREATE TABLE app.triggered (n bigint);
CREATE FUNCTION app.on_triggered() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO app.t (n, v) VALUES (NEW.n, 'bad');
  RETURN NULL; END$$;
CREATE TRIGGER t AFTER INSERT ON app.triggered FOR EACH ROW EXECUTE FUNCTION app.on_triggered();
CREATE TABLE app.late (n bigint);
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON app.late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.on_triggered();
-- Functions that announce, lock, and then write; each with rows that a client sees.
CREATE FUNCTION app.noticed(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'first'; INSERT INTO app.t (n, v)
  VALUES ($1, 'good'); RAISE NOTICE 'second'; RETURN 7; END$$;
CREATE FUNCTION app.warned(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'first'; RAISE INFO 'info';
  INSERT INTO app.t (n, v) VALUES ($1, 'good'); RETURN 7; END$$;
CREATE FUNCTION app.locked(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock($1); INSERT INTO app.t (n, v)
  VALUES ($1, 'good'); RETURN 7; END$$;
CREATE FUNCTION app.noticed_true(n bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM app.noticed(n); RETURN true; END$$;
CREATE VIEW app.noticing AS SELECT app.noticed(current_setting('application_name')::bigint) AS n;
CREATE DOMAIN app.noticed_domain AS bigint CHECK (app.noticed_true(VALUE));
CREATE FUNCTION app.notice_only() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'only'; RETURN 1; END$$;
-- Tables whose rules answer with rows.
CREATE TABLE app.also (n bigint, v text); CREATE RULE r AS ON INSERT TO app.also DO ALSO SELECT 'also' AS said, 1 AS one;
CREATE TABLE app.also_all (n bigint, v text); INSERT INTO app.also_all VALUES (0, 'kept');
CREATE RULE u AS ON UPDATE TO app.also_all DO ALSO SELECT 'update' AS said;
CREATE TABLE app.instead (n bigint, v text); CREATE RULE r AS ON INSERT TO app.instead DO INSTEAD SELECT 'instead' AS said;
CREATE TABLE app.two (n bigint, v text); CREATE RULE r AS ON INSERT TO app.two DO ALSO (SELECT 'one' AS said; INSERT INTO app.t (n, v)
  VALUES (NEW.n, 'good'); SELECT 'two' AS said, 2 AS two);
CREATE TABLE app.instead_two (n bigint, v text);
CREATE RULE r AS ON INSERT TO app.instead_two DO INSTEAD (INSERT INTO app.t (n, v) VALUES (NEW.n, 'good') RETURNING n, v;
  SELECT 'after' AS said);
GRANT USAGE ON SCHEMA app TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA app TO PUBLIC; GRANT ALL ON ALL SEQUENCES IN SCHEMA app TO PUBLIC;
"""
# A database whose own code declares has no seats (docs/decisions/0026). With --seats this code is dropped, and the rows that use it
# are skipped.
DECLARES = """DROP FUNCTION app.declare, app.declare_and_write, app.claims, own.termgate_fence CASCADE;
DROP PROCEDURE app.declaring"""
DECLARES_OF = re.compile(r"app\.(declar|claim)|\b(own|words)\b")


def uses(row, what):
    texts = [message(str).decode("latin-1") for step in row.steps if not callable(step) for message in step]
    return any(what.search(text) for text in [*texts, *row.setup])


# What outlives a session besides rows, as one text.
STATE = """SELECT concat_ws(' | ', 'lo ' || (SELECT count(*) FROM pg_largeobject_metadata), 'prepared ' || (SELECT count(*)
  FROM pg_prepared_xacts),
  'settings ' || (SELECT count(*) FROM pg_db_role_setting), 'functions ' || (SELECT count(*) FROM pg_proc WHERE pronamespace IN
    ('app'::regnamespace, 'termgate'::regnamespace)),
  'relations ' || (SELECT count(*) FROM pg_class WHERE relnamespace = 'app'::regnamespace), 'sequence ' || (SELECT count(*)
    FROM pg_class WHERE relname = 'bypass'))"""


# The library of the guard: the server has it, and where a session without a term may read, the proxy admits no session without it.
GUARD = os.environ.get("TERMGATE_TEST_GUARD")


class Server:
    """A server with layer 1, whose owner is no superuser, and a role for each level."""

    def __init__(self, lab, major, *settings):
        self.folder = f"{lab.folder}/attacked{major}-{len(lab.servers)}"
        self.lab = lab
        self.environment = dict(os.environ)
        if GUARD:
            guard = ROOT / "guard"
            files = [GUARD, *guard.glob("termgate_guard*.sql"), guard / "termgate_guard.control"]
            self.environment["PG_SERVER_BIN"] = lab.run(ROOT / "tests/support/pg_home.sh", major, self.folder + "-home", *files)
            settings = [*settings, "shared_preload_libraries=termgate_guard, termgate_shortcuts"]
        self.url = lab.run(lab.pg_server, "start", major, self.folder, "fsync=off", *settings, env=self.environment)
        self.port = int(re.search(r":(\d+)/", self.url).group(1))
        lab.servers.append(self)
        with Connection(self.port, wait=60) as direct:
            rights = "GRANT pg_signal_backend, pg_read_all_stats TO layer1; GRANT ALL ON DATABASE postgres TO layer1"
            direct.rows(f"CREATE ROLE layer1 LOGIN; {rights}; " + "; ".join(f"CREATE ROLE a_{role} LOGIN" for role in ROLES))
            self.layer1 = self.url.replace("postgres@", "layer1@")
            grants = [word for role, level in ROLES.items() if level for word in ("--grant", f"a_{role}={level}")]
            lab.run(lab.termgate, "init", "--db", self.layer1, *grants)
            if GUARD:
                direct.rows("CREATE EXTENSION termgate_guard SCHEMA termgate")

    def stop(self):
        self.lab.run(self.lab.pg_server, "stop", self.folder, "immediate")


class Bench:
    """A server of one major, what is attacked on it, and a proxy a mode."""

    def __init__(self, lab, major, modes, scopes):
        self.lab, self.major = lab, int(major)
        self.server = Server(lab, major, "wal_level=logical")
        self.direct = Connection(self.server.port, parameters=[("application_name", "observer")], wait=60)
        self.url = self.server.layer1
        for text in re.split(r";\n(?=\S)", SCHEMA):  # a statement goes on in lines that are indented
            if text.strip():
                self.ask(text)
        if given.option("seats"):
            self.ask(DECLARES)
        self.ask("SELECT termgate.append('known', 1, 'x', write_id => '11111111-1111-1111-1111-111111111111')")
        self.n, self.ready = 100, 0  # no number that answers bear anyway
        self.more_scopes(scopes)
        self.listener = Connection(self.server.port, parameters=[("application_name", "observer")])
        self.listener.query("LISTEN attack")
        self.decoding = all(
            m.type != "E" for m in self.direct.query("SELECT pg_create_logical_replication_slot('attack', 'test_decoding')")
        )
        self.modes, self.proxies, self.renewed, self.sat = modes, {}, 0, 0
        for mode in modes:
            self.renew(mode)

    def renew(self, mode):
        """A proxy that remembers nothing, in place of the one before."""
        if mode in self.proxies:
            assert self.proxies[mode].process.poll() is None, "the proxy died"
            self.proxies[mode].stop()
            self.renewed += 1
        guarded = ["--guard", "require"] if GUARD and mode == "read-only" else []
        self.proxies[mode] = self.lab.proxy(self.url, "--without-term", mode, *guarded)

    def ask(self, sql):
        answer = self.direct.query(sql)
        for message in answer:
            assert message.type != "E", f"{sql}: {message}"
        return [[None if value is None else value.decode() for value in message.row()] for message in answer if message.type == "D"]

    def value(self, sql):
        return self.ask(sql)[0][0]

    def close(self):
        self.quiet()
        self.direct.end()
        self.listener.end()
        for proxy in self.proxies.values():
            proxy.stop()
        self.server.stop()

    def more_scopes(self, count):
        """Fences that stand before a proxy could hear of them."""
        while self.ready < count:
            upto = min(count, self.ready + 400)
            self.ask(
                f"DO $$ BEGIN FOR i IN {self.ready + 1}..{upto} LOOP PERFORM termgate.seal('a' || i, {FENCE}), termgate.seal('b' || i,"
                f" {OTHER_FENCE}); COMMIT; END LOOP; END $$"
            )
            self.ready = upto

    def notifications(self):
        return [message for message in self.listener.query("SELECT 1") if message.type == "A"]

    def decoded(self):
        rows = self.ask("SELECT data FROM pg_logical_slot_get_changes('attack', NULL, NULL)") if self.decoding else []
        return [row[0] for row in rows if "attack" in row[0] and row[0].startswith("message")]

    def quiet(self):
        until = time.monotonic() + 5
        mine = "backend_type = 'client backend' AND application_name NOT IN ('observer', 'termgate') AND usename <> 'layer1'"
        while self.value(f"SELECT count(*) FROM pg_stat_activity WHERE {mine}") != "0":
            if time.monotonic() > until:
                self.ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")
            time.sleep(0.01)

    def play(self, row, role, port, claim=True):
        """Plays the steps in a session of its own. Returns the number of the attack and the answers of each step."""
        self.n += 1
        n = self.n
        self.more_scopes(n)
        fill = filler(n)
        for sql in row.setup:
            self.ask(fill(sql))
        start = [(name, fill(value)) for name, value in row.start]
        pair = {"stale": (f"a{n}", STALE), "other": (f"b{n}", OTHER), "current": (f"a{n}", FENCE)}.get(row.claim)
        if pair and claim:
            start.append(("options", f"-c termgate.scope={pair[0]} -c termgate.term={pair[1]}"))
        if not any(name == "application_name" for name, _ in start):
            start.append(("application_name", str(n)))
        answers, client = [], None
        try:
            client = Connection(port, user=f"a_{role}", parameters=start, wait=15)
            if given.option("seats") and pair and port != self.server.port:
                self.sit(client, pair[0])
            for step in row.steps:
                if callable(step):
                    step(self, n)
                    continue
                answers.append(converse(client, step, fill))
        except (Closed, Silent) as failure:
            answers.append([f"{type(failure).__name__}: {failure.messages}"])
        except OSError as failure:
            answers.append([str(failure)])
        if client is not None:
            client.end()
        return n, answers

    def sit(self, client, scope):
        """Until the session has a seat, or its writes are refused."""
        until = time.monotonic() + 1
        while time.monotonic() < until and all(
            message.type != "E" for message in client.query("INSERT INTO app.scratch VALUES (0, 'sits')")
        ):
            if self.value(f"SELECT count(*) FROM termgate.seats WHERE scope = '{scope}'") != "0":
                self.sat += 1
                return

    def committed(self, n):
        return [value for (value,) in self.ask(f"SELECT v FROM app.t WHERE n = {n} ORDER BY id")]

    def judge(self, row, mode, role):
        """None where all is well, else what is wrong and the conversation.

        A proxy that believes in a fence that no database shows answers TG004 to everybody, which would also hide what else is wrong.
        Where an earlier attack made it so, the row is tried again with a fresh proxy. The row that did it fails where it asks for `works`.
        """
        wrong, answers = self.once(row, mode, role)
        if "TG004" in str(answers):
            strange = not re.search(rf'scope "[ab]({self.n}|{self.n - row.same})"', str(answers))
            self.renew(mode)
            if strange:
                wrong, answers = self.once(row, mode, role)
        return (wrong, answers) if wrong else None

    def once(self, row, mode, role):
        state = self.value(STATE) if row.state else None
        if row.state:
            self.notifications(), self.decoded()
        if row.learned:
            # What looks like a read and writes is refused once, and known from then on.
            n, answers = self.play(row, role, self.proxies[mode].port)
            if "send it again" in str(answers) and self.committed(n):
                return ["refused, and committed"], answers
        n, answers = self.play(row, role, self.proxies[mode].port)
        if row.state or any(isinstance(m, str) for answer in answers for m in answer):
            self.quiet()
        found = self.committed(n)
        wrong = []
        hung = [m for answer in answers for m in answer if isinstance(m, str) and m.startswith("Silent")]
        if hung:
            wrong.append("no answer")
        if row.expect == "refused":
            if "bad" in found:
                wrong.append(f"committed {found}")
            if row.state:
                now = self.value(STATE)
                wrong += [f"{old} is now {new}" for old, new in zip(state.split(" | "), now.split(" | ")) if old != new]
                wrong += [f"notification {message.body[4:]}" for message in self.notifications()]
                wrong += self.decoded()
        else:
            if found.count("good") != row.good or "bad" in found:
                wrong.append(f"committed {found} instead of {row.good} good")
        if row.same:
            m, direct = self.play(row, role, self.server.port)
            seen, wanted = shown(answers, n), shown(direct, m)
            if seen != wanted:
                wrong.append(f"answers differ; directly: {wanted}")
        for (gid,) in self.ask("SELECT gid FROM pg_prepared_xacts") if row.state or "two-phase" in row.name else []:
            self.ask(f"ROLLBACK PREPARED '{gid}'")
        return wrong, answers

    def proves(self, row, role):
        """Whether a refused attack does its harm on a direct connection."""
        state = self.value(STATE) if row.state else None
        n, answers = self.play(row, role, self.server.port)
        if row.state or any(isinstance(m, str) for answer in answers for m in answer):
            self.quiet()
        harm = "bad" in self.committed(n) or (row.state and (state != self.value(STATE) or self.notifications() or self.decoded()))
        for (gid,) in self.ask("SELECT gid FROM pg_prepared_xacts") if row.state or "two-phase" in row.name else []:
            self.ask(f"ROLLBACK PREPARED '{gid}'")
        return harm, answers


def filler(n):
    def fill(text):
        return text.replace("@N@", str(n)).replace("@A@", f"a{n}").replace("@B@", f"b{n}")

    return fill


def converse(client, step, fill):
    """Sends the messages of a step at once and reads their answers: up to its last ReadyForQuery, or what a Flush asks for."""
    frames = b"".join(message(fill) for message in step)
    kinds, at = "", 0
    while at < len(frames):
        kinds += chr(frames[at])
        at += 1 + int.from_bytes(frames[at + 1 : at + 5], "big")
    client.send(frames)
    ready = sum(kinds.count(kind) for kind in "QSF")
    if ready:
        return client.until("Z", ready)
    answers, wanted = [], kinds.count("E") or kinds.count("D") or 1
    while wanted > 0:
        try:
            answers.append(client.read(1.5))
        except Silent:
            break  # after an error nothing comes until Sync
        if answers[-1].type == "E":
            break
        wanted -= answers[-1].type in ("CsI" if "E" in kinds else "Tn" if "D" in kinds else "12")
    return answers


def shown(answers, n):
    """The answers as text that is the same for every attack of this kind."""
    text = []
    for answer in answers:
        for message in answer:
            body = repr(message) if isinstance(message, str) or message.type in "ENCZD" else f"{message.type}{message.body!r}"
            if not isinstance(message, str) and message.type == "S":
                continue
            text.append(re.sub(rf"\b(a|b)?{n}(?=\b|5\b)", r"\1@N@", body))
    return " ".join(text)
