#!/usr/bin/env python3
# Long: a table, one row for each way.
"""[F6][F1][F2] Every way past the proxy that is known, one row each; docs/evidence/bypasses.md describes them to operators.

  pytest tests/live/proxy/proxy_bypasses_test.py [--majors 13,15,18] [--show] [-k 'a part of a name']

An attack mostly waits, so several are made at a time, those of all selected tests. `--show` prints the conversations.

A row is tried by these, with --long or -k by each, else by two of them in turn, or by one of the last two:
  none   a session that has declared no term;
  stale  a session that declared (PGOPTIONS) term 5 of a scope whose fence is at 9, of which this proxy has not heard;
  known  the same, and this proxy has the fence in its memory;
  rule   a session that a rule of the proxy's gives term 5;
  lost   a session that passed the check with term 5, after which the fence is raised to 9 (RAISE in the row) wherever its lock is gone;
  told   the same, and this proxy hears of every raise at once.
Afterwards a direct connection looks whether anything that outlives the session has changed: rows, large objects, sequences, catalogs,
settings, prepared transactions, files, notifications. For the last two, what was written before the raise is the session's right: only
666 is not.
"""
import os
import re
import threading
import time
from concurrent.futures import Future

import pytest

import given
from checks import eventually, note
from pgraw import (
    Closed,
    Connection,
    Silent,
    bind,
    close,
    copy_data,
    copy_done,
    describe,
    execute,
    flush,
    function_call,
    parse,
    query,
    sync,
    terminate,
)
from proxy_under_test import Server, proxy

SCHEMA = r"""
DROP SCHEMA IF EXISTS app CASCADE;
CREATE SCHEMA app;
CREATE TABLE app.t (i int);
CREATE TABLE app.parent (i int) WITH (autovacuum_enabled = off); CREATE TABLE app.child () INHERITS (app.parent);
CREATE TABLE app.part (i int) PARTITION BY RANGE (i); CREATE TABLE app.part1 PARTITION OF app.part FOR VALUES FROM (0) TO (1000);
CREATE TABLE app.rls (i int); INSERT INTO app.rls VALUES (1);
CREATE TABLE app.deferred (i int);
CREATE SEQUENCE app.seq;
CREATE FUNCTION app.writer(v int DEFAULT 666) RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO app.t VALUES ($1) RETURNING i';
CREATE FUNCTION app.writer2(a int, b int) RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO app.t VALUES (666) RETURNING i';
CREATE FUNCTION app.writes(v int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS 'BEGIN INSERT INTO app.t VALUES (666); RETURN true; END';
CREATE FUNCTION app.called_immutable() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN INSERT INTO app.t VALUES (666); RETURN 1; END';
CREATE FUNCTION app.flip() RETURNS text LANGUAGE sql AS $$SELECT set_config('default_transaction_read_only', 'off', false)$$;
CREATE FUNCTION app.unlock() RETURNS text LANGUAGE sql AS $$SELECT set_config('transaction_read_only', 'off', true)$$;
CREATE FUNCTION app.unlock_write() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM set_config('transaction_read_only', 'off', false);
  INSERT INTO app.t VALUES (666); RETURN 1; END$$;
CREATE FUNCTION app.unlock_set() RETURNS int LANGUAGE plpgsql AS $$BEGIN SET LOCAL transaction_read_only = off;
  INSERT INTO app.t VALUES (666); RETURN 1; END$$;
CREATE FUNCTION app.with_set() RETURNS int LANGUAGE sql SET default_transaction_read_only = off AS
  'INSERT INTO app.t VALUES (666) RETURNING 1';
CREATE FUNCTION app.conforming(v text) RETURNS text LANGUAGE sql AS $$SELECT set_config('standard_conforming_strings', $1, false)$$;
CREATE FUNCTION app.dynamic(v text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE v; RETURN 1; END';
CREATE PROCEDURE app.writes_twice() LANGUAGE plpgsql AS 'BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO app.t VALUES (666); END';
CREATE OPERATOR app.&&& (LEFTARG = int, RIGHTARG = int, FUNCTION = app.writer2);
CREATE TYPE app.wrapped AS (i int);
CREATE FUNCTION app.to_wrapped(v int) RETURNS app.wrapped LANGUAGE sql AS 'INSERT INTO app.t VALUES (666); SELECT ROW($1)::app.wrapped';
CREATE CAST (int AS app.wrapped) WITH FUNCTION app.to_wrapped(int);
CREATE DOMAIN app.checked AS int CHECK (app.writes(VALUE));
CREATE AGGREGATE app.sums (int) (SFUNC = app.writer2, STYPE = int, INITCOND = '0');
CREATE VIEW app.view AS SELECT app.writer() AS i;
CREATE VIEW app.flipper AS SELECT app.flip();
CREATE FUNCTION app.encoding(v text) RETURNS text LANGUAGE sql AS $$SELECT set_config('client_encoding', $1, false)$$;
CREATE VIEW app.encoding_view AS SELECT app.encoding('SJIS');
CREATE VIEW app.deallocator AS SELECT app.dynamic('DEALLOCATE ALL');
CREATE FUNCTION app.forge() RETURNS int LANGUAGE plpgsql AS $f$DECLARE s record; BEGIN
  FOR s IN SELECT name, '(' || nullif(array_to_string(parameter_types, ','), '') || ')' AS types FROM pg_prepared_statements
    WHERE statement ~ 'check_|hold_' LOOP
    EXECUTE format('DEALLOCATE %I', s.name);
    EXECUTE format('PREPARE %I %s AS SELECT %L::text', s.name, s.types, '5 5 ' || current_setting('termgate.scope', true));
  END LOOP; RETURN 1; END$f$;
CREATE VIEW app.replacer AS SELECT app.forge();
CREATE VIEW app.conforming_view AS SELECT app.conforming('off');
CREATE VIEW app.rule AS SELECT i FROM app.t; CREATE RULE inserts AS ON INSERT TO app.rule DO INSTEAD INSERT INTO app.t VALUES (666);
CREATE VIEW app.large_object AS SELECT lo_create(7001);
CREATE VIEW app.notifier AS SELECT pg_notify('bypass', 'hidden')::text;
CREATE FUNCTION app.program() RETURNS int LANGUAGE plpgsql AS $$BEGIN COPY (SELECT 1) TO PROGRAM 'cat > PROGRAM_FILE'; RETURN 1; END$$;
ALTER TABLE app.rls ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON app.rls USING (app.writes(i));
GRANT USAGE ON SCHEMA app TO app_user; GRANT ALL ON ALL TABLES IN SCHEMA app TO app_user;
CREATE FUNCTION app.trigger_writes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO app.t VALUES (666); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON app.deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION
  app.trigger_writes();
"""
RESET = """TRUNCATE app.t, app.parent, app.child, app.part, app.deferred; INSERT INTO app.parent VALUES (1);
  INSERT INTO app.child VALUES (2); INSERT INTO app.part VALUES (3);
SELECT setval('app.seq', 1); SELECT lo_unlink(oid) FROM pg_largeobject_metadata; SELECT lo_create(7000); DROP TABLE IF EXISTS app.new;
  ALTER ROLE app_user RESET ALL"""
# What outlives a session, as one text.
STATE = """SELECT concat_ws(' | ', (SELECT 't ' || coalesce(string_agg(i::text, ',' ORDER BY i), '') FROM app.t),
  (SELECT string_agg(tableoid::regclass || ':' || i, ',' ORDER BY i) FROM app.parent),
  (SELECT string_agg(i::text, ',') FROM app.part), (SELECT count(*) FROM app.deferred), (SELECT last_value || ',' || is_called FROM
    app.seq),
  'lo ' || (SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_largeobject_metadata), 'lo data ' || (SELECT count(*)
    FROM pg_largeobject),
  'relations ' || (SELECT count(*) FROM pg_class WHERE relnamespace = 'app'::regnamespace), 'functions ' || (SELECT count(*)
    FROM pg_proc WHERE pronamespace = 'app'::regnamespace),
  'databases ' || (SELECT count(*) FROM pg_database), 'roles ' || (SELECT count(*) FROM pg_roles),
    'grants ' || (SELECT string_agg(relacl::text, ',' ORDER BY oid) FROM pg_class WHERE relnamespace = 'app'::regnamespace),
  'settings ' || (SELECT count(*) FROM pg_db_role_setting), 'system ' || (SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE
    '%auto.conf'),
  'prepared ' || (SELECT count(*) FROM pg_prepared_xacts), 'slots ' || (SELECT count(*) FROM pg_replication_slots),
    'comments ' || (SELECT count(*) FROM pg_description WHERE objoid = 'app.t'::regclass),
  'analyzed ' || (SELECT count(*) FROM pg_statistic WHERE starelid = 'app.parent'::regclass), 'leases ' || (SELECT count(*)
    FROM termgate.leases), 'writes ' || (SELECT count(*) FROM termgate.stream_writes))"""
DOCUMENT = given.ROOT / "docs" / "evidence" / "bypasses.md"
RAISE, RAISE_OTHER = object(), object()
# Longer than what the proxy gives to the grammar, shorter than what it refuses: readable for the server alone.
LONG = "/*" + "x" * 1_100_000 + "*/"
DO_COMMIT = "DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; INSERT INTO app.t VALUES (666); END $$"
NEVER = "CASE WHEN false THEN termgate.seal('x', 1) IS NULL ELSE true END"
READ_WRITE = "BEGIN READ WRITE; INSERT INTO app.t VALUES (666); COMMIT"
ONE, INSERT = "INSERT INTO app.t VALUES (1)", "INSERT INTO app.t VALUES (666)"
WRITER = "SELECT app.writer()"
READ_ONLY = "SET default_transaction_read_only = on"
NOT_READ_ONLY = "SET default_transaction_read_only = off"
FLIP = "SELECT app.flip()"
VIEW = "SELECT * FROM app.view"
SJIS = "SET client_encoding = 'SJIS'"
PROGRAM = "COPY (SELECT 1) TO PROGRAM 'cat > PROGRAM_FILE'"
SYSTEM = "ALTER SYSTEM SET work_mem = '5MB'"
FORGED = "PREPARE _termgate_check(text, bigint) AS SELECT 9::bigint"
FORGED_SESSION = "PREPARE _termgate_session(text, bigint) AS SELECT 'x'::text, 1::bigint, 1::bigint"
LATER = ("SET TRANSACTION READ WRITE", "PERFORM pg_sleep(0.6)")
OFF_IN_CODE = "SELECT set_config('default_transaction_read_only', 'off', false)"
OTHERS = " /*termgate.scope='OTHER',termgate.term='5'*/"
CONFORMING = "SELECT 'x\\' || ', lo_create(7001) --'"
HIDDEN = b"SELECT E'\x83\x5c', pg_notify($$bypass$$, $$x$$) --'"


def group(*statements):
    """Parse, Bind, Execute of each, one Sync behind them."""
    return unsynced(*statements) + sync()


def unsynced(*statements):
    return b"".join(parse("", sql) + bind() + execute() for sql in statements)


def do(*statements):
    return f"DO $$ BEGIN {'; '.join(statements)}; END $$"


def forged(name):
    """Its name given to what always passes, by the protocol."""
    sql = {
        "check": "SELECT 9::bigint WHERE $1 <> '' OR $2 > 0",
        "session": "SELECT 'x'::text, 1::bigint, 1::bigint WHERE $1 IS NULL OR $2 <> 0",
    }
    return close("S", f"_termgate_{name}") + parse(f"_termgate_{name}", sql[name], (25, 20))


def block(*steps):
    return "BEGIN", *steps, "COMMIT"


def run(name):
    return bind("", name) + execute() + sync()


def unreadable(*texts):
    return [query(text.encode() + b" /* \x83\x5c */") for text in texts]


def meanwhile(frames, answers=1):
    """The fence is raised while the frames run."""
    return ("send", frames), ("sleep", 0.2), RAISE, ("read", answers)


class Row:
    """A step: the texts of simple queries with | between them, frames, or (what, with what)."""

    def __init__(self, name, *steps, start=(), by=("none", "stale", "known", "rule"), majors=None):
        self.name, self.start, self.by, self.majors = name, list(start), by, majors
        self.steps = [one for step in steps for one in (map(query, step.split(" | ")) if isinstance(step, str) else [step])]


def lost(name, *steps, **more):
    return Row(name, *steps, by=("lost", "told"), **more)


ROWS = [
    # --- plain ---
    Row("insert", INSERT),
    Row("insert, extended", group(INSERT)),
    Row("insert in a block", "BEGIN", INSERT, "COMMIT"),
    Row("insert in a block, extended", group("BEGIN"), group(INSERT), group("COMMIT")),
    Row("insert in one group with BEGIN and COMMIT", group("BEGIN", INSERT, "COMMIT")),
    Row("everything pipelined without waiting", group("BEGIN") + group(INSERT) + group("COMMIT") + group(INSERT)),
    Row("simple queries pipelined without waiting", query("BEGIN") + query(INSERT) + query("COMMIT") + query(INSERT)),
    Row("update of an inheritance child", "UPDATE app.child SET i = 666", "UPDATE ONLY app.parent SET i = 666"),
    Row("truncate of a partition", "TRUNCATE app.part1", "TRUNCATE app.part"),
    Row("attach and detach of a partition", "ALTER TABLE app.part DETACH PARTITION app.part1", "DROP TABLE app.part1"),
    Row("COPY FROM STDIN", query("COPY app.t FROM STDIN") + copy_data("666\n") + copy_done()),
    Row("COPY FROM STDIN, extended", unsynced("COPY app.t FROM STDIN") + copy_data("666\n") + copy_done() + sync()),
    Row("COPY FROM PROGRAM", "COPY app.t FROM PROGRAM 'echo 666'"),
    Row("COPY TO PROGRAM", PROGRAM),
    Row("COPY TO a file", "COPY (SELECT 1) TO 'PROGRAM_FILE'"),
    Row("COPY of an INSERT RETURNING", "COPY (INSERT INTO app.t VALUES (666) RETURNING i) TO STDOUT"),
    Row("CREATE TABLE, AS, SELECT INTO", "CREATE TABLE app.new (i int)", "CREATE TABLE app.new AS SELECT 1", "SELECT 1 AS i INTO app.new"),
    Row("CREATE TABLE AS EXECUTE", "PREPARE p AS SELECT 1", "CREATE TABLE app.new AS EXECUTE p"),
    Row("WITH that modifies", "WITH x AS (INSERT INTO app.t VALUES (666) RETURNING i) SELECT * FROM x"),
    Row(
        "EXPLAIN ANALYZE",
        "EXPLAIN ANALYZE INSERT INTO app.t VALUES (666) | EXPLAIN (ANALYZE true) INSERT INTO app.t VALUES (666)",
        'EXPLAIN ("analyze" on) INSERT INTO app.t VALUES (666)',
    ),
    Row(
        "GRANT, COMMENT, ALTER ROLE",
        "GRANT SELECT ON app.t TO PUBLIC | COMMENT ON TABLE app.t IS 'x' | ALTER ROLE app_user SET work_mem = '5MB' | CREATE ROLE bypass",
    ),
    Row("MERGE", "MERGE INTO app.t USING (SELECT 666 AS i) s ON false WHEN NOT MATCHED THEN INSERT VALUES (666)", majors=(15, 18)),
    Row("NOTIFY", "NOTIFY bypass, 'x'", "SELECT pg_notify('bypass', 'x')", "BEGIN; NOTIFY bypass; COMMIT"),
    Row("ALTER SYSTEM", SYSTEM),
    Row("ALTER SYSTEM, extended", group(SYSTEM)),
    Row("ANALYZE and VACUUM", "ANALYZE app.parent", "VACUUM ANALYZE app.parent"),
    Row("sequences", "SELECT nextval('app.seq')", "SELECT setval('app.seq', 100)"),
    Row("CREATE DATABASE", "CREATE DATABASE bypass"),
    Row("CREATE INDEX CONCURRENTLY", "CREATE INDEX CONCURRENTLY ON app.t (i)"),
    Row("replication slots", "SELECT pg_create_physical_replication_slot('bypass', true)"),
    Row("writable pg_settings", "UPDATE pg_settings SET setting = 'off' WHERE name = 'default_transaction_read_only'", WRITER),
    # --- large objects ---
    Row(
        "large objects by SQL",
        (
            "SELECT lo_create(7001) | SELECT lo_unlink(7000) | SELECT lo_from_bytea(7002, 'x') | SELECT lowrite(lo_open(7000, 131072), 'x')"
            " | SELECT lo_put(7000, 0, 'x')"
        ),
        'SELECT "lo_create"(7003)',
        "SELECT pg_catalog . lo_create /* */ (7004)",
        "SELECT U&\"lo\\005fcreate\"(7005)",
    ),
    Row(
        "large objects by functional notation",
        "SELECT (7001).lo_create | SELECT (x.o).lo_unlink FROM (SELECT 7000::oid AS o) x",
        'SELECT (7001)."lo_create"',
        "SELECT ((7001)).lo_create, (7002) . lo_create",
    ),
    Row(
        "large objects by the fast path",
        function_call(957, [b"\0\0\x40\0"]),
        function_call(715, [b"\0\0\x1b\x59"]),
        function_call(964, [b"\0\0\x1b\x58"]),
    ),
    Row(
        "large objects by the fast path in a block",
        *block(function_call(952, [b"\0\0\x1b\x58", b"\0\2\0\0"]), function_call(955, [b"\0\0\0\0", b"data"])),
    ),
    Row(
        "large objects by the fast path in a READ ONLY block",
        "BEGIN READ ONLY",
        function_call(715, [b"\0\0\x1b\x59"]),
        function_call(952, [b"\0\0\x1b\x58", b"\0\2\0\0"]),
        function_call(955, [b"\0\0\0\0", b"data"]),
        "COMMIT",
    ),
    Row(
        "large objects in a READ ONLY block",
        "BEGIN READ ONLY | SELECT lo_create(7001) | COMMIT | BEGIN READ ONLY; SELECT lo_create(7002); COMMIT",
    ),
    Row(
        "large objects in a READ ONLY block, extended",
        group("BEGIN READ ONLY", "SELECT lo_create(7001)", "COMMIT"),
        group("BEGIN READ ONLY"),
        group("SELECT lo_create(7001)"),
        group("COMMIT"),
    ),
    Row("large objects after SET default_transaction_read_only = on", READ_ONLY, "SELECT lo_create(7001)", group("SELECT lo_create(7002)")),
    Row(
        "an arbitrary function by the fast path", function_call(1574, [b"\0\0\0\0"]), "BEGIN", function_call(1574, [b"\0\0\0\0"]), "COMMIT"
    ),
    # --- behind what looks like a read ---
    Row("a function", WRITER, "SELECT * FROM app.writer()", "VALUES (app.writer())", "TABLE app.view", group(WRITER)),
    Row("a function in a block", "BEGIN", WRITER, "COMMIT", "BEGIN; SELECT app.writer(); COMMIT", group("BEGIN", WRITER, "COMMIT")),
    Row("a view", VIEW, group(VIEW)),
    Row("an operator", "SELECT 1 OPERATOR(app.&&&) 2", "SET search_path = app", "SELECT 1 &&& 2"),
    Row("a cast", "SELECT 1::app.wrapped", "SELECT CAST(1 AS app.wrapped)"),
    Row("a domain", "SELECT 1::app.checked", parse("", "SELECT $1::app.checked", ()) + bind("", "", ["1"]) + execute() + sync()),
    Row("an aggregate", "SELECT app.sums(i) FROM app.parent", "SELECT app.sums(i) OVER () FROM app.parent"),
    Row("a row security policy", "SET ROLE app_user", "SELECT * FROM app.rls", "RESET ROLE"),
    Row("a rule", "INSERT INTO app.rule VALUES (1)"),
    Row(
        "a function called immutable, at planning",
        "EXPLAIN SELECT app.called_immutable() | SELECT 1 WHERE app.called_immutable() = 1",
        parse("", "SELECT app.called_immutable()") + bind() + describe("P") + sync(),
    ),
    Row(
        "a function that asks for READ WRITE",
        "SELECT app.unlock(), app.writer() | SELECT app.unlock_write() | SELECT app.unlock_set() | SELECT app.with_set()",
    ),
    Row("a function that asks for READ WRITE, in a block", *block("SELECT app.unlock_write()"), *block("SELECT app.with_set()")),
    Row(
        "XML functions that run SQL",
        "SELECT query_to_xml('SELECT app.writer()', true, false, '')",
        "SELECT table_to_xml('app.view', true, false, '')",
    ),
    Row("ts_stat", "SELECT * FROM ts_stat('SELECT to_tsvector(app.writer()::text)')"),
    Row("EXECUTE of text inside a function", "SELECT app.dynamic('INSERT INTO app.t VALUES (666)')"),
    Row("session_replication_role = replica", "SET session_replication_role = replica", INSERT),
    Row("SET ROLE and SESSION AUTHORIZATION", "SET ROLE app_user", INSERT, "SET SESSION AUTHORIZATION app_user", INSERT),
    Row("a hole of READ ONLY behind a view: large object", "SELECT * FROM app.large_object"),
    Row("a hole of READ ONLY behind a view: NOTIFY", "SELECT * FROM app.notifier"),
    Row("a hole of READ ONLY behind a function: COPY TO PROGRAM", "SELECT app.program()"),
    # --- cursors and portals ---
    Row("a cursor", "BEGIN", "DECLARE c CURSOR FOR SELECT app.writer()", "FETCH c", "COMMIT"),
    Row(
        "a cursor WITH HOLD",
        "DECLARE c CURSOR WITH HOLD FOR SELECT app.writer()",
        "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT app.writer(); COMMIT",
    ),
    Row(
        "a suspended portal",
        parse("", "SELECT app.writer(i) FROM generate_series(666, 670) i") + bind("p") + execute("p", 1) + execute("p", 1) + sync(),
    ),
    Row(
        "a portal with a row limit of a write",
        parse("", "INSERT INTO app.t SELECT 666 FROM generate_series(1, 3) RETURNING i")
        + bind("p")
        + execute("p", 1)
        + execute("p", 0)
        + sync(),
    ),
    # --- prepared statements ---
    Row("PREPARE and EXECUTE", "PREPARE p AS INSERT INTO app.t VALUES (666)", "EXECUTE p", "EXPLAIN ANALYZE EXECUTE p"),
    Row("EXECUTE of a statement prepared by the protocol", parse("p", INSERT) + sync(), "EXECUTE p"),
    Row(
        "a read's name given to a write by SQL",
        parse("p", "SELECT 1") + sync(),
        "DEALLOCATE p | PREPARE p AS INSERT INTO app.t VALUES (666) | EXECUTE p",
        run("p"),
    ),
    Row("a read's name given to a write in one pipeline", parse("p", "SELECT 1") + sync(), close("S", "p") + parse("p", INSERT) + run("p")),
    Row(
        "a read's name given to a write, DEALLOCATE in the pipeline",
        parse("p", "SELECT 1") + sync(),
        group("DEALLOCATE p") + parse("p", INSERT) + sync() + run("p"),
    ),
    Row(
        "a read's name given to a write, DISCARD ALL in the pipeline",
        parse("p", "SELECT 1") + sync(),
        group("DISCARD ALL") + parse("p", INSERT) + sync() + run("p"),
    ),
    Row(
        "names that differ behind 63 bytes",
        parse("n" * 63 + "1", INSERT) + sync(),
        parse("n" * 63 + "2", "SELECT 1") + sync(),
        run("n" * 63 + "2"),
        "EXECUTE " + "n" * 63 + "2",
    ),
    Row(
        "portals that differ behind 63 bytes",
        "BEGIN",
        parse("w", INSERT)
        + parse("r", "SELECT 1")
        + bind("n" * 63 + "1", "r")
        + close("P", "n" * 63 + "2")
        + bind("n" * 63 + "2", "w")
        + execute("n" * 63 + "1")
        + sync(),
        "COMMIT",
    ),
    Row(
        "a Parse that the server skipped",
        parse("p", INSERT) + sync(),
        unsynced("SELECT 1/0") + close("S", "p") + parse("p", "SELECT 1") + sync(),
        run("p"),
        "EXECUTE p",
    ),
    Row("Bind flushed before it is judged", parse("", INSERT) + flush() + bind() + flush() + execute() + sync()),
    Row("a read that is flushed, then a write", unsynced("SELECT 1") + flush() + group(INSERT)),
    Row("Describe, then Execute", parse("p", INSERT) + describe("S", "p") + sync(), bind("", "p") + describe("P") + execute() + sync()),
    # --- what makes a transaction READ WRITE ---
    Row("BEGIN READ WRITE", "BEGIN READ WRITE", INSERT, "COMMIT", READ_WRITE),
    Row("BEGIN READ WRITE, a function", "BEGIN READ WRITE", WRITER, "COMMIT", group("START TRANSACTION READ WRITE", WRITER, "COMMIT")),
    Row(
        "BEGIN READ /* */ WRITE",
        f"BEGIN READ/* - */WRITE | {WRITER} | COMMIT",
        "BEGIN ISOLATION LEVEL READ COMMITTED, READ --\nWRITE",
        f"{WRITER} | COMMIT",
    ),
    Row(
        "SET TRANSACTION READ WRITE",
        *block("SET TRANSACTION READ WRITE", WRITER),
        group("BEGIN", "SET TRANSACTION READ WRITE", WRITER, "COMMIT"),
    ),
    Row(
        "SET transaction_read_only",
        *block("SET transaction_read_only = off", WRITER),
        *block("SET LOCAL transaction_read_only TO DEFAULT", WRITER),
        *block('SET SESSION "transaction_read_only" = \'off\'', WRITER),
    ),
    Row("RESET transaction_read_only", "BEGIN READ ONLY", "RESET transaction_read_only", WRITER, "COMMIT"),
    Row(
        "SET default_transaction_read_only",
        (
            f"{NOT_READ_ONLY} | {WRITER} | SET SESSION default_transaction_read_only TO 'no' | {WRITER} | SET LOCAL"
            f" Default_Transaction_Read_Only = 0 | {WRITER}"
        ),
    ),
    Row("SET default_transaction_read_only, extended", group(NOT_READ_ONLY), group(WRITER), group(NOT_READ_ONLY, WRITER)),
    Row("SET default_transaction_read_only, pipelined", group(NOT_READ_ONLY) + group(WRITER) + group(WRITER)),
    Row(
        "SET SESSION CHARACTERISTICS",
        f"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE | {WRITER}",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
        WRITER,
    ),
    Row("RESET ALL and DISCARD ALL", "RESET ALL", WRITER, "DISCARD ALL", WRITER, "RESET default_transaction_read_only", WRITER),
    Row(
        "RESET in a pipeline",
        group("RESET ALL", WRITER),
        group("RESET default_transaction_read_only", WRITER),
        group("SET default_transaction_read_only TO DEFAULT", WRITER),
        group("RESET transaction_read_only", WRITER),
        unsynced("RESET ALL") + flush() + group(WRITER),
        group("RESET ALL") + group(WRITER),
    ),
    Row(
        "more after DISCARD ALL in a pipeline",
        parse("w", WRITER) + sync(),
        group("DISCARD ALL", WRITER),
        group("DISCARD ALL") + group(WRITER),
        unsynced("DISCARD ALL") + flush() + group(WRITER),
        parse("w", WRITER) + sync(),
        unsynced("DISCARD ALL") + flush() + run("w"),
        parse("d", "DISCARD ALL") + bind("d", "d") + execute("d") + group(WRITER),
        WRITER,
        unsynced("DISCARD ALL") + flush() + function_call(957, [b"\0\0\x40\0"]),
        WRITER,
    ),
    Row("a simple query after DISCARD ALL without Sync", unsynced("DISCARD ALL") + flush() + query(WRITER)),
    Row(
        "set_config",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
        WRITER,
        "SELECT set_config('default_' || 'transaction_read_only', 'off', false)",
        WRITER,
    ),
    Row(
        "ALTER ROLE and ALTER DATABASE",
        "ALTER ROLE postgres SET default_transaction_read_only = off",
        "ALTER DATABASE postgres SET default_transaction_read_only = off",
    ),
    Row("a setting at start-up", WRITER, start=[("default_transaction_read_only", "off")]),
    Row("a setting at start-up, in capitals", WRITER, start=[("Default_Transaction_Read_Only", "off")]),
    Row("a setting at start-up, twice", WRITER, start=[("default_transaction_read_only", "on"), ("DEFAULT_TRANSACTION_READ_ONLY", "off")]),
    Row("a setting among the options", WRITER, start=[("options", "-c default_transaction_read_only=off")], by=("none",)),
    Row(
        "a setting among the options, twice",
        WRITER,
        start=[("options", "--default-transaction-read-only=off"), ("options", "-cdefault_transaction_read_only=off")],
        by=("none",),
    ),
    Row("options that swallow what follows: -r", WRITER, start=[("options", "-c default_transaction_read_only=off -r")], by=("none",)),
    Row("options that swallow what follows: --", WRITER, start=[("options", "-c default_transaction_read_only=off --")], by=("none",)),
    Row(
        "options that swallow what follows: backslash",
        WRITER,
        start=[("options", "-c default_transaction_read_only=off -c search_path=a\\")],
        by=("none",),
    ),
    Row("options that swallow what follows: -c", WRITER, start=[("options", "-c default_transaction_read_only=off -c")], by=("none",)),
    Row("transaction_read_only at start-up", WRITER, start=[("transaction_read_only", "off"), ("session_replication_role", "replica")]),
    Row("a replication connection", WRITER, "CREATE_REPLICATION_SLOT bypass PHYSICAL", start=[("replication", "database")]),
    Row(
        "a replication connection, said twice",
        f"{WRITER} | CREATE_REPLICATION_SLOT bypass PHYSICAL",
        start=[("replication", "off"), ("replication", "database")],
    ),
    Row("a replication connection, in odd spelling", "CREATE_REPLICATION_SLOT bypass PHYSICAL", start=[("replication", "TRUE")]),
    Row("a function that changes the default", FLIP, WRITER, group(FLIP), group(WRITER)),
    Row("a view that changes the default", "SELECT * FROM app.flipper", WRITER),
    Row("a function that changes the default, pipelined", group(FLIP) + group(WRITER)),
    Row("a view that changes the default, pipelined", group("SELECT * FROM app.flipper") + group(VIEW)),
    Row("a function that changes the default, simple queries pipelined", query(FLIP) + query(WRITER)),
    Row(
        "a function that changes the default, in one text",
        (
            "SELECT app.flip(); COMMIT; SELECT app.writer() | SELECT app.flip(); BEGIN; SELECT app.writer(); COMMIT | SELECT app.flip();"
            " ROLLBACK; SELECT app.writer()"
        ),
    ),
    Row("a function that changes the default, in one group", group(FLIP, "COMMIT", WRITER)),
    Row(
        "a function that changes the default, in a block",
        *block(FLIP),
        f"{WRITER} | BEGIN | SAVEPOINT a | {FLIP} | ROLLBACK TO a | COMMIT AND CHAIN | {WRITER} | COMMIT",
    ),
    Row(
        "a function that changes the default, in a block that goes on",
        group("BEGIN", FLIP, "COMMIT AND CHAIN", WRITER, "COMMIT"),
        group("BEGIN", FLIP, "COMMIT", "BEGIN", WRITER, "COMMIT"),
    ),
    # --- what the client believes, and what may therefore go out untouched ---
    Row("read-only by its own word, then DO", READ_ONLY, DO_COMMIT, group(DO_COMMIT)),
    Row("read-only by its own word, then CALL", READ_ONLY, "CALL app.writes_twice()", group("CALL app.writes_twice()")),
    Row("read-only at start-up, then DO", DO_COMMIT, start=[("default_transaction_read_only", "on")]),
    Row("read-only by its own word, then a text that cannot be read", READ_ONLY, READ_WRITE + LONG),
    Row("read-only by its own word, then holes", READ_ONLY, SYSTEM, "NOTIFY bypass", PROGRAM, "ANALYZE app.parent"),
    Row(
        "read-only by its own word, then holes, extended",
        READ_ONLY,
        group(SYSTEM),
        group("NOTIFY bypass"),
        group(PROGRAM),
        group("ANALYZE app.parent"),
    ),
    Row(
        "read-only by its own word, BEGIN READ WRITE",
        f"{READ_ONLY} | BEGIN READ WRITE | {WRITER} | COMMIT | {READ_WRITE}",
        group("BEGIN READ WRITE", WRITER, "COMMIT"),
    ),
    Row("read-only by its own word, taken back in the pipeline", READ_ONLY, group(NOT_READ_ONLY, WRITER) + group(WRITER)),
    Row("a READ ONLY block, then holes", "BEGIN READ ONLY", "NOTIFY bypass", PROGRAM, "ANALYZE app.parent", "COMMIT"),
    Row("a READ ONLY block, then holes, extended", group("BEGIN READ ONLY"), group("NOTIFY bypass"), group(PROGRAM), group("COMMIT")),
    Row("a READ ONLY block and a text that cannot be read", "BEGIN READ ONLY", "COMMIT; " + READ_WRITE + LONG),
    Row("a failed block and a text that cannot be read", "BEGIN", "SELECT 1/0", "ROLLBACK; " + READ_WRITE + LONG),
    Row(
        "a failed block and a text of several statements",
        f"BEGIN | SELECT 1/0 | ROLLBACK; {READ_WRITE} | BEGIN | SELECT 1/0",
        "ROLLBACK AND CHAIN; SET TRANSACTION READ WRITE; SELECT app.writer(); COMMIT",
    ),
    Row(
        "a failed block and DO",
        f"BEGIN | SELECT 1/0 | ROLLBACK; {DO_COMMIT}",
        query("BEGIN") + query("SELECT 1/0") + query("ROLLBACK") + query(DO_COMMIT),
    ),
    # --- texts ---
    Row("several statements", "SELECT 1; " + INSERT, INSERT + "; SELECT 1", "SELECT 1; COMMIT; " + INSERT, "SELECT 1;; ;" + INSERT + ";"),
    Row(
        "several statements with READ WRITE",
        "COMMIT; " + READ_WRITE,
        "SELECT 1; ROLLBACK; BEGIN READ WRITE; SELECT app.writer(); COMMIT",
        "SET default_transaction_read_only = off; COMMIT; SELECT app.writer()",
    ),
    Row("a text that cannot be read", READ_WRITE + LONG, NOT_READ_ONLY + LONG, WRITER, "BEGIN READ WRITE" + LONG, WRITER, "COMMIT"),
    Row(
        "a text that cannot be read, extended",
        group("BEGIN READ WRITE" + LONG, WRITER, "COMMIT"),
        group(NOT_READ_ONLY + LONG),
        group(WRITER),
    ),
    Row(
        "syntax that only newer servers know",
        "BEGIN; SELECT 0x1F; COMMIT; BEGIN READ WRITE; SELECT app.writer(), 1_000; COMMIT",
        majors=(18,),
    ),
    Row("comments", "/* SELECT */ " + INSERT, "-- SELECT\n" + INSERT, "/* /* */ */" + INSERT, "SELECT 1 /* ; */ ; " + INSERT),
    Row("strings that do not conform", "SET standard_conforming_strings = off", "SELECT 'x\\'; " + INSERT + " --'", CONFORMING),
    Row("strings that do not conform, pipelined", group("SET standard_conforming_strings = off") + group(CONFORMING)),
    Row("strings that do not conform, by a function", "SELECT app.conforming('off')", CONFORMING),
    Row("strings that do not conform, by a function, pipelined", group("SELECT app.conforming('off')") + group(CONFORMING)),
    Row("strings that do not conform, by a function, in one group", group("SELECT app.conforming('off')", CONFORMING)),
    Row(
        "another encoding",
        SJIS,
        query(b"SELECT '\x83\x5c'; " + INSERT.encode() + b" --'"),
        query(b"SELECT '\x83\x5c', lo_create(7001) --'"),
    ),
    Row(
        "another encoding, in a failed block",
        f"{SJIS} | BEGIN | SELECT 1/0",
        query(b"ROLLBACK; BEGIN READ WRITE; INSERT INTO app.t VALUES (666); COMMIT /* \x83\x5c */"),
    ),
    Row("a NUL in the text", query(b"SELECT 1\0; " + INSERT.encode())),
    # --- CALL and DO ---
    Row(
        "DO and CALL",
        f"{DO_COMMIT} | CALL app.writes_twice()",
        group(DO_COMMIT),
        group("CALL app.writes_twice()"),
        group("SELECT 1", DO_COMMIT),
    ),
    Row("DO and CALL in a block", "BEGIN", DO_COMMIT, "COMMIT", "BEGIN", "CALL app.writes_twice()", "COMMIT"),
    Row(
        "DO that sets the default and commits",
        "DO $$ BEGIN PERFORM set_config('default_transaction_read_only', 'off', false); COMMIT; INSERT INTO app.t VALUES (666); END $$",
    ),
    # --- prepared transactions, locks, other sessions ---
    Row(
        "PREPARE TRANSACTION",
        f"BEGIN | {INSERT} | PREPARE TRANSACTION 'bypass' | BEGIN; {INSERT}; PREPARE TRANSACTION 'bypass' | COMMIT PREPARED 'bypass'",
    ),
    Row("PREPARE TRANSACTION of nothing", "BEGIN", "SELECT 1", "PREPARE TRANSACTION 'bypass'"),
    # --- functions of layer 1 ---
    Row(
        "a layer-1 function that refuses nothing",
        "SELECT app.writer(), termgate.release_lease('no', 'no', 1)",
        "WITH x AS (INSERT INTO app.t VALUES (666)) SELECT termgate.release_lease('no', 'no', 1)",
        by=("none", "stale", "rule"),
    ),
    Row(
        "a layer-1 function that is never called",
        f"SELECT app.writer() WHERE {NEVER}",
        f"WITH x AS (INSERT INTO app.t VALUES (666)) SELECT 1 WHERE {NEVER}",
        f"SELECT 666 AS i INTO app.new WHERE {NEVER}",
        group(f"SELECT app.writer() WHERE {NEVER}"),
    ),
    Row(
        "a layer-1 function that is never called, in a block",
        *block(f"SELECT 1 WHERE {NEVER.replace('seal', 'check_term').replace('IS NULL', '> 0')}", INSERT),
    ),
    Row("a layer-1 function and its name in a comment", "BEGIN", f"SELECT 1 WHERE {NEVER} /* append check_term */", INSERT, "COMMIT"),
    Row(
        "a layer-1 function in EXPLAIN and DECLARE",
        f"EXPLAIN ANALYZE SELECT app.writer() WHERE {NEVER}",
        f"BEGIN; DECLARE c CURSOR FOR SELECT app.writer() WHERE {NEVER}; FETCH c; COMMIT",
    ),
    # --- errors in the middle ---
    Row(
        "an error, then writes in the pipeline",
        group("SELECT 1/0", INSERT) + group(INSERT) + group("BEGIN", "SELECT 1/0", "COMMIT") + group(INSERT),
    ),
    Row("an error, then a block in the pipeline", group("SELECT 1/0", "BEGIN READ WRITE") + group(INSERT) + group("COMMIT")),
    Row("BEGIN that was skipped", group("SELECT 1/0", "BEGIN") + group(WRITER) + group("COMMIT")),
    Row("a refusal, then ROLLBACK TO in the pipeline", group("BEGIN", "SAVEPOINT a", INSERT) + group("ROLLBACK TO a", WRITER, "COMMIT")),
    Row("a refusal, then ROLLBACK TO", "BEGIN", "SAVEPOINT a", INSERT, "ROLLBACK TO a", WRITER, INSERT, "COMMIT"),
    Row("a Query behind messages without Sync", unsynced("SELECT 1") + query(INSERT) + sync()),
    Row("Terminate in the middle", unsynced(INSERT) + terminate()),
    Row("Terminate in the middle of a block", query("BEGIN") + group(INSERT) + query("COMMIT") + terminate()),
    # --- what closed the rows above, turned against it ---
    Row(
        "a read's name for a hole, by a PREPARE that fails",
        parse("p", "NOTIFY bypass") + parse("q", SYSTEM) + parse("r", "SELECT lo_create(7001)") + sync(),
        "PREPARE p AS SELECT 1 | PREPARE q AS SELECT 1 | PREPARE r AS SELECT 1",
        *[run(name) for name in "pqr"],
        "EXECUTE r",
    ),
    Row(
        "a read's name for a hole, by a PREPARE that is never run",
        parse("p", "NOTIFY bypass") + parse("q", SYSTEM) + parse("r", "SELECT lo_create(7001)") + sync(),
        *[parse("", f"PREPARE {name} AS SELECT 1") + sync() for name in "pqr"],
        *[run(name) for name in "pqr"],
        "EXECUTE r",
    ),
    Row(
        "a comment that hides a call from the eye that looks for a layer-1 function alone",
        "SELECT termgate.release_lease('a', --'\n 'b', app.writer() --'\n )",
        group("SELECT termgate.release_lease('a', --'\n 'b', app.writer() --'\n )"),
    ),
    Row(
        "a layer-1 function that answers NULL",
        *block("SELECT termgate.check_term(NULL, NULL)", INSERT),
        *block("SELECT termgate.append(NULL, NULL, NULL)", INSERT),
        *block("SELECT termgate.append_many('x', 1, '{}')", INSERT),
    ),
    Row(
        "our own statement's name, by SQL",
        f"{INSERT} | DEALLOCATE _termgate_check | DEALLOCATE _termgate_session | DEALLOCATE _termgate_writable",
        f"{FORGED_SESSION} | {FORGED} | PREPARE _termgate_writable AS SELECT 1 | {INSERT} | DEALLOCATE _termgate_writable | {INSERT}",
    ),
    Row(
        "our own statement's name, by SQL, only the check",
        f"{INSERT} | DEALLOCATE _termgate_check | DEALLOCATE _termgate_session",
        f"{FORGED_SESSION} | {FORGED} | {INSERT}",
        *block(INSERT),
        group(INSERT),
    ),
    Row("our own statement's name, by the protocol", INSERT, forged("session") + sync(), forged("check") + sync(), INSERT, group(INSERT)),
    Row(
        "our own statement's name, in one text",
        INSERT,
        f'DEALLOCATE "_termgate_check"; DEALLOCATE "_termgate_session"; {FORGED_SESSION}; {FORGED}',
        INSERT,
    ),
    Row("our own statement's name, by the protocol, in the same group", INSERT, forged("session") + group(INSERT)),
    Row(
        "our own statement's name, inside a function",
        INSERT,
        *[
            f"SELECT app.dynamic('{text}')"
            for text in ("DEALLOCATE _termgate_session", FORGED_SESSION.replace("'", "''"), "DEALLOCATE _termgate_check", FORGED)
        ],
        INSERT,
        group(INSERT),
    ),
    Row(
        "our own statement's name, looked up and inside a function",
        INSERT,
        group(INSERT),
        f"SELECT app.forge() | {INSERT}",
        group(INSERT),
        *block(INSERT),
    ),
    Row(
        "our own statement's name, in odd spelling",
        INSERT,
        'DEALLOCATE U&"_termgate_session"',
        "PREPARE _TERMGATE_SESSION(text, bigint) AS SELECT 'x'::text, 1::bigint, 1::bigint",
        'PREPARE U&"_termgate_locked" AS SELECT 1',
        "EXECUTE _Termgate_Check('x', 1)",
        'CLOSE "_termgate"',
        INSERT,
    ),
    Row(
        "our own read-only statement's name",
        parse("_termgate_locked", "SELECT 1") + sync(),
        group(FLIP) + group(WRITER),
        "DEALLOCATE _termgate_locked | PREPARE _termgate_locked AS SELECT 1",
        group(FLIP) + group(WRITER),
    ),
    Row("our own statements, gone by a function", FLIP, "SELECT app.dynamic('DEALLOCATE ALL')", FLIP, WRITER, group(WRITER)),
    Row(
        "our own statements, gone in a view",
        f"{INSERT} | SELECT * FROM app.deallocator | SELECT * FROM app.flipper | {VIEW} | {INSERT}",
        group("SELECT * FROM app.deallocator", "SELECT * FROM app.flipper") + group(VIEW),
        group(VIEW),
    ),
    Row(
        "our own statements that keep the default, replaced in a function",
        FLIP,
        (
            "SELECT app.dynamic(format('DEALLOCATE %I', name)), app.dynamic(format('PREPARE %I AS SELECT 1', name)) FROM"
            " pg_prepared_statements WHERE name ~ '^_termgate_(default|locked|writable)'"
        ),
        f"{FLIP} | {WRITER}",
        group(FLIP) + group(WRITER),
    ),
    Row(
        "our own statement's name, replaced by a view",
        INSERT,
        group(INSERT),
        f"SELECT * FROM app.replacer | {INSERT}",
        *block(INSERT),
        group(INSERT),
    ),
    Row(
        "a CopyDone before its COPY",
        ("send", group("SELECT pg_sleep(0.1)") + copy_done() + group("COPY app.t FROM STDIN") + copy_data("666\n") + copy_done() + sync()),
        ("sleep", 0.3),
        ("send", group(INSERT)),
    ),
    Row(
        "our own portal's name",
        "BEGIN",
        bind("_termgate", "") + sync(),
        f"DECLARE _termgate CURSOR FOR SELECT app.writer() | {INSERT} | ROLLBACK",
        *block("DECLARE _termgate CURSOR WITH HOLD FOR SELECT 1"),
        INSERT,
    ),
    Row(
        "read-only by its own word, and texts that cannot be read",
        f"{SJIS} | {READ_ONLY}",
        *unreadable(SYSTEM, "NOTIFY bypass", "SELECT lo_create(7001)", PROGRAM, "ANALYZE app.parent", DO_COMMIT, "CALL app.writes_twice()"),
    ),
    Row(
        "read-only by its own word, and BEGIN that cannot be read",
        f"{SJIS} | {READ_ONLY}",
        query(b"BEGIN READ WRITE /* \x83\x5c */"),
        f"{WRITER} | COMMIT",
        group(b"BEGIN READ WRITE /* \x83\x5c */"),
        f"{WRITER} | COMMIT",
    ),
    Row(
        "read-only by its own word, and COMMIT that cannot be read in a group",
        f"{SJIS} | {READ_ONLY}",
        group(FLIP, b"COMMIT /* \x83\x5c */", WRITER),
        WRITER,
    ),
    Row(
        "a READ ONLY block and texts that cannot be read",
        f"{SJIS} | BEGIN READ ONLY",
        *unreadable("NOTIFY bypass", "SELECT lo_create(7001)", PROGRAM, "COMMIT"),
        "BEGIN READ ONLY",
        *unreadable("COMMIT", "BEGIN READ WRITE", "SELECT app.writer()", "COMMIT"),
        "BEGIN READ ONLY",
        *unreadable("COMMIT AND CHAIN", "SET TRANSACTION READ WRITE", "SELECT app.writer()", "COMMIT"),
    ),
    Row(
        "a failed block and texts that cannot be read",
        f"{SJIS} | BEGIN | SELECT 1/0",
        *unreadable("ROLLBACK AND CHAIN", "SET TRANSACTION READ WRITE", "SELECT app.writer()", "COMMIT"),
    ),
    Row("strings that do not conform, by a view, pipelined", group("SELECT * FROM app.conforming_view") + group(CONFORMING)),
    Row("another encoding, by a function, pipelined", group("SELECT app.encoding('SJIS')") + group(HIDDEN)),
    Row("another encoding, by a view, pipelined", group("SELECT * FROM app.encoding_view") + group(HIDDEN)),
    Row("another encoding, by a view, in one group", group("SELECT * FROM app.encoding_view", HIDDEN)),
    Row(
        "strings that do not conform, by a view, in one group",
        group("SELECT * FROM app.conforming_view", "SELECT 'x\\' || ', pg_notify($$bypass$$, $$x$$) --'"),
    ),
    Row(
        "strings that do not conform, by a view, in a block",
        group("BEGIN", "SELECT * FROM app.conforming_view", "SELECT 'x\\' || ', pg_notify($$bypass$$, $$x$$) --'", "COMMIT"),
        "BEGIN; SELECT * FROM app.conforming_view; SELECT 'x\\' || ', pg_notify($$bypass$$, $$x$$) --'; COMMIT",
    ),
    Row(
        "a function that changes the default, then COPY and EXECUTE in the pipeline",
        "PREPARE p AS SELECT app.writer()",
        group(FLIP) + group("EXECUTE p") + group("COPY (SELECT app.writer()) TO STDOUT") + group("EXPLAIN ANALYZE SELECT app.writer()"),
    ),
    Row(
        "a function that changes the default, then Flush in the pipeline",
        group(FLIP) + parse("", WRITER) + flush() + bind() + flush() + execute() + flush() + sync(),
    ),
    Row(
        "a function that changes the default, then a portal in the pipeline",
        parse("w", WRITER) + sync(),
        group(FLIP) + bind("p", "w") + execute("p", 1) + sync() + bind("", "w") + flush() + execute() + sync(),
    ),
    Row(
        "a function that changes the default, then BEGIN in the pipeline",
        group(FLIP) + group("BEGIN", WRITER, "COMMIT"),
        group(FLIP) + group("BEGIN") + group(WRITER) + group("COMMIT"),
    ),
    Row(
        "a function that changes the default, then a write before BEGIN in one group",
        group(FLIP) + group(WRITER, "BEGIN", "COMMIT"),
        group(FLIP) + group(VIEW, "BEGIN") + group("COMMIT"),
    ),
    Row(
        "a function that changes the default, then SET TRANSACTION READ WRITE in the pipeline",
        group(FLIP) + group("BEGIN", "SET TRANSACTION READ WRITE", WRITER, "COMMIT"),
        group(FLIP) + group("SET transaction_read_only = off", WRITER),
    ),
    Row(
        "a function that changes the default, then ROLLBACK TO in the group",
        group("BEGIN", "SAVEPOINT a", FLIP, "RELEASE a", "COMMIT", WRITER),
        group(WRITER),
    ),
    Row("a function that changes the default, and a cancelled SET", *(3 * ("SET statement_timeout = 1", FLIP, WRITER))),
    # --- fenced, and then without its lock ---
    lost("COMMIT, then another write", "BEGIN", ONE, "COMMIT", RAISE, INSERT, WRITER, "BEGIN", INSERT, "COMMIT"),
    lost("ROLLBACK TO", "BEGIN", "SAVEPOINT a", ONE, "ROLLBACK TO a", RAISE, INSERT, "COMMIT"),
    lost("ROLLBACK TO, a function", "BEGIN", "SAVEPOINT a", ONE, "ROLLBACK TO a", RAISE, WRITER, "COMMIT"),
    lost("COMMIT AND CHAIN", "BEGIN", ONE, "COMMIT AND CHAIN", RAISE, INSERT, "COMMIT"),
    lost("COMMIT AND CHAIN, a function", "BEGIN", ONE, "COMMIT AND CHAIN", RAISE, WRITER, "COMMIT"),
    lost("COMMIT AND CHAIN, a view", "BEGIN", ONE, "COMMIT AND CHAIN", RAISE, group(VIEW), group("COMMIT")),
    lost(
        "COMMIT AND CHAIN, a cursor",
        f"BEGIN | {ONE} | COMMIT AND CHAIN",
        RAISE,
        "DECLARE c CURSOR FOR SELECT app.writer() | FETCH c | COMMIT",
    ),
    lost("ROLLBACK AND CHAIN", "BEGIN", ONE, "ROLLBACK AND CHAIN", RAISE, INSERT, "COMMIT"),
    lost("COMMIT AND CHAIN of a failed block", "BEGIN", ONE, "SELECT 1/0", "COMMIT AND CHAIN", RAISE, WRITER, "COMMIT"),
    lost(
        "COMMIT AND CHAIN in one text",
        "BEGIN; INSERT INTO app.t VALUES (1); COMMIT AND CHAIN; SELECT 1",
        RAISE,
        f"{WRITER} | {INSERT} | COMMIT",
    ),
    lost("COMMIT AND CHAIN that cannot be read", "BEGIN", ONE, "COMMIT AND CHAIN" + LONG, RAISE, INSERT, WRITER, "COMMIT"),
    lost(
        "COMMIT AND CHAIN that cannot be read, extended",
        group("BEGIN"),
        group(ONE),
        group("COMMIT AND CHAIN" + LONG),
        RAISE,
        group(INSERT),
        group("COMMIT"),
    ),
    lost("COMMIT AND CHAIN in another encoding", SJIS, "BEGIN", ONE, query(b"COMMIT AND CHAIN /* \x83\x5c */"), RAISE, INSERT, "COMMIT"),
    lost("ROLLBACK TO that cannot be read", "BEGIN", "SAVEPOINT a", ONE, "ROLLBACK TO a" + LONG, RAISE, INSERT, "COMMIT"),
    *(
        lost(name, f"BEGIN | {ONE} | SAVEPOINT a", ONE + OTHERS, back, RAISE_OTHER, INSERT + OTHERS, "COMMIT")
        for name, back in (
            ("ROLLBACK TO behind a second scope", "ROLLBACK TO a"),
            ("ROLLBACK TO a name in Unicode escapes behind a second scope", 'ROLLBACK TO U&"a"'),
        )
    ),
    lost(
        "a group that ends a block and goes on",
        group("BEGIN"),
        group(ONE),
        *meanwhile(group("COMMIT", "SELECT pg_sleep(0.6)", WRITER) + group(WRITER), 2),
    ),
    lost(
        "a group that ends a block, commits again and goes on",
        group("BEGIN"),
        group(ONE),
        *meanwhile(group("COMMIT", ONE, "COMMIT", "SELECT pg_sleep(0.6)", "COMMIT", WRITER, INSERT)),
    ),
    lost("a group that rolls back and goes on", group("BEGIN"), group(ONE), *meanwhile(group("ROLLBACK", "SELECT pg_sleep(0.6)", INSERT))),
    lost("COMMIT in the middle of a group", group(ONE, "COMMIT"), RAISE, group("SELECT 1", "COMMIT", INSERT)),
    lost("COMMIT without a block in the middle of a group", unsynced(ONE, "COMMIT") + flush(), RAISE, group(INSERT)),
    lost("COMMIT in a text of several", "INSERT INTO app.t VALUES (1); COMMIT", RAISE, "COMMIT; " + INSERT),
    lost("the default was changed behind the check", OFF_IN_CODE, RAISE, WRITER),
    lost(
        "the default was changed behind the check, pipelined",
        *meanwhile(group(OFF_IN_CODE) + group("SELECT pg_sleep(0.6)") + group(WRITER), 3),
    ),
    lost(
        "the default was changed behind the check, in one text",
        *meanwhile(query(f"{OFF_IN_CODE}; COMMIT; SELECT pg_sleep(0.6); COMMIT; {WRITER}")),
    ),
    lost("the default was changed behind the check, in a block", *block(OFF_IN_CODE), RAISE, WRITER, *block(WRITER)),
    lost("UPDATE pg_settings", "UPDATE pg_settings SET setting = 'off' WHERE name = 'default_transaction_read_only'", RAISE, WRITER),
    lost("the default was changed in DO", do(OFF_IN_CODE.replace("SELECT", "PERFORM")), RAISE, WRITER),
    lost("DO with BEGIN behind it in the group", group(do(ONE), "BEGIN"), RAISE, f"{WRITER} | COMMIT | {WRITER}"),
    lost("DO with BEGIN behind it in the group, ROLLBACK", group(do(ONE), "BEGIN"), "ROLLBACK", RAISE, WRITER),
    lost("DO in front of a write in the group", *meanwhile(group(do(ONE, "COMMIT", *LATER, INSERT), ONE))),
    lost("DO in front of a write in the group, committing twice", *meanwhile(group(do(ONE, "COMMIT", *LATER, INSERT, "COMMIT"), ONE))),
    lost(
        "DO in front of a Bind of a write in the group",
        parse("w", ONE) + sync(),
        *meanwhile(unsynced(do("COMMIT", *LATER, INSERT, "COMMIT")) + bind("", "w") + sync()),
    ),
    lost("DO in front of a Flush in the group", *meanwhile(unsynced(do("COMMIT", *LATER, INSERT, "COMMIT")) + flush() + sync())),
    lost("DO in a frame", *meanwhile(query("SELECT 1; " + do("COMMIT", *LATER, INSERT, "COMMIT")))),
    lost(
        "an append that happened before",
        "SELECT termgate.append('SCOPE', 5, 'x', write_id => '11111111-1111-1111-1111-111111111111')",
        RAISE,
        *block("SELECT termgate.append('SCOPE', 5, 'x', write_id => '11111111-1111-1111-1111-111111111111')", INSERT),
    ),
    lost(
        "DO that gives the lock up by dynamic SQL",
        *meanwhile(query(do("COMMIT", "EXECUTE 'SELECT pg_advis' || 'ory_unlock_all()'", "COMMIT", LATER[1], INSERT))),
    ),
    lost(
        "DO whose body goes on in the next line",
        *meanwhile(query(f"DO 'BEGIN {ONE}; COMM'\n'IT; {'; '.join(LATER)}; {INSERT}; COMM'\n'IT; END'")),
    ),
    lost(
        "DO that gives the lock up by release_session",
        *meanwhile(query(do("COMMIT", "PERFORM termgate.release_session('SCOPE')", "COMMIT", LATER[1], INSERT))),
    ),
    lost("our own statement's name, by the protocol, while the term held", ONE, forged("check") + sync(), RAISE, INSERT, group(INSERT)),
    lost(
        "our own statement's name, in DO, while the term held",
        ONE,
        "DO $$ BEGIN EXECUTE 'DEALLOCATE _termgate_check'; EXECUTE 'PREPARE _termgate_check(text, bigint) AS SELECT 9::bigint'; END $$",
        RAISE,
        INSERT,
        group(INSERT),
    ),
    lost("DO that commits", *meanwhile(query(do(ONE, "COMMIT", LATER[1], INSERT)))),
    lost("DO that commits, extended", *meanwhile(group(do(ONE, "COMMIT", LATER[1], INSERT)))),
    lost("DO that gives the lock up", *meanwhile(query(do(ONE, "COMMIT", "PERFORM pg_advisory_unlock_all()", "COMMIT", LATER[1], INSERT)))),
    lost(
        "a suspended portal and a COMMIT",
        *block(parse("", "SELECT app.writer(i) FROM generate_series(1, 3) i") + bind("p") + execute("p", 1) + sync()),
        RAISE,
        execute("p", 0) + sync(),
    ),
    lost(
        "a held cursor",
        *block("DECLARE c CURSOR WITH HOLD FOR SELECT app.writer(i) FROM generate_series(1, 3) i"),
        RAISE,
        f"FETCH ALL c | MOVE c | {INSERT}",
    ),
    lost("a statement prepared while the term held", parse("p", INSERT) + sync(), bind("", "p") + sync(), RAISE, run("p"), "EXECUTE p"),
    lost(
        "a read's name given to a hole while the term held",
        parse("p", "SELECT 1") + sync(),
        "DEALLOCATE p | PREPARE p AS SELECT lo_create(7666)",
        RAISE,
        "EXECUTE p",
        run("p"),
    ),
    lost("a deferred trigger", "BEGIN", "SAVEPOINT a", ONE, "ROLLBACK TO a", RAISE, "INSERT INTO app.deferred VALUES (1)", "COMMIT"),
    lost(
        "an error behind a flush, then ROLLBACK TO",
        f"BEGIN | SAVEPOINT a | {ONE}",
        unsynced("SELECT 1/0") + flush(),
        ("sleep", 0.1),
        group("COMMIT"),
        "ROLLBACK TO a",
        RAISE,
        f"{WRITER} | {INSERT} | COMMIT",
    ),
    lost(
        "a COMMIT that was skipped",
        f"BEGIN | SAVEPOINT a | {ONE}",
        group("SELECT 1/0", "COMMIT"),
        "ROLLBACK TO a",
        RAISE,
        f"{WRITER} | {INSERT} | COMMIT",
    ),
    lost(
        "two blocks in one pipeline",
        *meanwhile(group("BEGIN", ONE, "COMMIT") + group("SELECT pg_sleep(0.6)") + group("BEGIN", INSERT, "COMMIT"), 3),
    ),
    lost(
        "one group with two blocks", *meanwhile(group("BEGIN", ONE, "COMMIT", "SELECT pg_sleep(0.6)", "COMMIT", "BEGIN", INSERT, "COMMIT"))
    ),
    lost(
        "PREPARE TRANSACTION, then another write",
        f"BEGIN | {ONE} | PREPARE TRANSACTION 'bypass' | COMMIT PREPARED 'bypass'",
        RAISE,
        f"{INSERT} | {WRITER}",
    ),
    lost(
        "COPY in two halves",
        "COPY app.t FROM STDIN",
        copy_data("1\n") + copy_done(),
        RAISE,
        "COPY app.t FROM STDIN",
        copy_data("666\n") + copy_done(),
    ),
    lost(
        "its declaration is taken back in the block",
        f"BEGIN | {ONE} | COMMIT AND CHAIN | SET termgate.term = ''",
        RAISE,
        f"{WRITER} | {INSERT} | COMMIT",
    ),
]


def letters(frames):
    """How many ReadyForQuery the frames of one step earn."""
    count, at = 0, 0
    while at < len(frames):
        kind = chr(frames[at])
        count += kind in "QSF"
        at += 1 + int.from_bytes(frames[at + 1 : at + 5], "big")
    return count


class Bench:
    def __init__(self, major):
        self.server = Server(major)
        self.direct = Connection(self.server.port, parameters=[("application_name", "observer")])
        self.direct.query("CREATE DATABASE elsewhere")
        self.server.install(self.server.url_of("elsewhere"))
        # It hears of raises as soon as they are committed; `deaf` never does, for it watches another database only.
        self.port = proxy(self.server)
        self.deaf = proxy(self.server, database="elsewhere", options=("--max-watched-databases", "0"))
        self.ruled = proxy(self.server, scope="bypass by rule", term=5)
        self.listener = Connection(self.server.port, parameters=[("application_name", "observer")])
        self.listener.query("LISTEN bypass")
        self.file = str(self.server.folder / "data" / "written_by_a_program")
        self.direct.query("CREATE ROLE app_user")
        answer = self.direct.query(SCHEMA.replace("PROGRAM_FILE", self.file))
        assert all(message.type != "E" for message in answer), [message for message in answer if message.type == "E"]
        self.scopes, self.run = 0, f"bypass{time.time_ns() // 1_000_000}."  # fences are for ever

    def raise_to_nine(self, scope):
        return self.direct.value(f"SELECT (termgate.seal('{scope}', 9, '50 ms')).fence")

    def tell(self, scope):
        """The proxy sees the fence at nine, by a write of the newer term's."""
        with Connection(self.port, parameters=[("options", f"-c termgate.scope={scope} -c termgate.term=9")]) as newer:
            newer.query("CREATE TEMP TABLE passed (i int)")

    def quiet(self):
        """Until no session but ours is left: what was on its way has arrived by then."""
        names = "('observer', 'termgate', 'termgate watch')"
        others = f"FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name NOT IN {names}"
        if not eventually(lambda: self.direct.value(f"SELECT count(*) {others}") == "0"):
            self.direct.query(f"SELECT pg_terminate_backend(pid) {others}")
            eventually(lambda: self.direct.value(f"SELECT count(*) {others}") == "0")

    def clean(self):
        self.quiet()
        for (gid,) in self.direct.rows("SELECT gid FROM pg_prepared_xacts"):
            self.direct.query(f"ROLLBACK PREPARED '{gid}'")
        for text in (
            "ALTER SYSTEM RESET ALL",
            "ALTER ROLE postgres RESET ALL",
            "ALTER DATABASE postgres RESET ALL",
            "DROP ROLE IF EXISTS bypass",
            "DROP DATABASE IF EXISTS bypass",
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
            "DELETE FROM pg_statistic WHERE starelid = 'app.parent'::regclass",
            (
                "DO $$ BEGIN IF to_regclass('app.part1') IS NULL THEN CREATE TABLE app.part1 PARTITION OF app.part FOR VALUES FROM (0) TO"
                " (1000); END IF; END $$"
            ),
            RESET,
        ):
            self.direct.query(text)
        if os.path.exists(self.file):
            os.remove(self.file)
        self.notifications()

    def notifications(self):
        return [message for message in self.listener.query("SELECT 1") if message.type == "A"]

    def attack(self, row, by):
        """What got in: an empty list is what is wanted. And the conversation."""
        self.clean()
        self.scopes += 1
        scope, other = f"{self.run}{self.scopes}", f"{self.run}{self.scopes}b"
        start = [(name, value) for name, value in row.start if name != "options"]
        options = [value for name, value in row.start if name == "options"]
        if by in ("stale", "known"):
            self.raise_to_nine(scope)
        if by == "known":
            self.tell(scope)
        if by == "rule":
            self.raise_to_nine("bypass by rule")
        if by not in ("none", "rule"):
            options.append(f"-c termgate.scope={scope} -c termgate.term=5")
        start += [("options", value) for value in options]
        self.quiet()
        before, told, client = self.direct.value(STATE), [], None
        try:
            client = Connection({"rule": self.ruled, "known": self.port, "told": self.port}.get(by, self.deaf), parameters=start, wait=4)
            for step in row.steps:
                kind, what = step if isinstance(step, tuple) else ("both", step)
                if step in (RAISE, RAISE_OTHER):
                    if "TG001" in str(told) or "TG002" in str(told):
                        return ["void: refused before the fence was raised"], told
                    raised = other if step is RAISE_OTHER else scope
                    told.append(f"-- fence {self.raise_to_nine(raised)}")
                    if by == "told":
                        self.tell(raised)
                elif kind == "sleep":
                    time.sleep(what)
                elif kind == "read":
                    told.append(client.until("Z", what))
                else:
                    for mark, name in ((b"OTHER", other), (b"SCOPE", scope), (b"PROGRAM_FILE", self.file)):
                        what = self.named(what, name, mark) if mark in what else what
                    client.send(what)
                    count = letters(what)
                    if kind == "both" and count:
                        told.append(client.until("Z", count))
        except (Closed, Silent) as failure:
            told.append(f"{type(failure).__name__}: {failure.messages}")
        except OSError as failure:
            told.append(str(failure))
        if client is not None:
            client.end()
        self.quiet()
        after = self.direct.value(STATE)
        got_in = []
        if by in ("lost", "told"):
            got_in += [part for part in after.split(" | ") if "666" in part]
        elif after != before:
            got_in += [f"{old} → {new}" for old, new in zip(before.split(" | "), after.split(" | ")) if old != new]
        if os.path.exists(self.file):
            got_in.append("a file")
        if by not in ("lost", "told"):
            got_in += [f"notification {message.body[4:]}" for message in self.notifications()]
        return got_in, told

    @staticmethod
    def named(frames, name, mark):
        """A name put into the texts of the frames, whose lengths change with it."""
        result, at = b"", 0
        while at < len(frames):
            size = int.from_bytes(frames[at + 1 : at + 5], "big")
            body = frames[at + 5 : at + 1 + size].replace(mark, name.encode())
            result += frames[at : at + 1] + (len(body) + 4).to_bytes(4, "big") + body
            at += 1 + size
        return result


def is_open(line, major):
    """Whether the document says that this is not stopped: on that major, on every one where it names none."""
    said = re.search(r"\*\*Not stopped(?: on (\d+)(?: to (\d+))?)?\.", line)
    return bool(said) and (said[1] is None or int(said[1]) <= major <= int(said[2] or said[1]))


TABLE = {line[2:].split(" | ")[0]: line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")}
MAJORS = [int(major) for major in given.majors("15", "13,15,18")]
CASES = [(major, row) for major in MAJORS for row in ROWS if not row.majors or major in row.majors]


def tried_by(row):
    if given.LONG or given.option("keyword"):
        return row.by
    number, (first, *others) = ROWS.index(row), row.by
    if row.by == ("lost", "told"):
        return [row.by[number % 2]]
    return [first, others[number % len(others)]] if others else [first]


class Workers:
    """Makes the attacks of the selected tests, several at a time; each worker has a server and proxies of its own."""

    def __init__(self, cases):
        self.outcomes = {(major, row.name): Future() for major, row in cases}
        self.tried, self.lock = 0, threading.Lock()
        self.left = {}
        for major, row in cases:
            self.left.setdefault(major, []).append(row)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for major, rows in self.left.items():
            workers = [threading.Thread(target=self.work, args=(major, rows)) for _ in range(min(4, len(rows)))]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

    def work(self, major, rows):
        """Takes rows until none is left. If its server cannot be used, each row that it takes fails with the reason."""
        bench = broken = None
        try:
            bench = Bench(major)
        except Exception as error:
            broken = error
        while True:
            with self.lock:
                if not rows:
                    break
                row = rows.pop(0)
            outcome = self.outcomes[major, row.name]
            try:
                if broken:
                    raise broken
                attacks = [(by, *bench.attack(row, by)) for by in tried_by(row)]
                outcome.set_result(attacks)
                with self.lock:
                    self.tried += len(attacks)
            except Exception as error:
                outcome.set_exception(error)
        if bench:
            bench.clean()
            bench.direct.end()
            bench.listener.end()


@pytest.fixture(scope="module")
def workers(request):
    selected = [item.callspec.params["case"] for item in request.session.items if "workers" in getattr(item, "fixturenames", ())]
    workers = Workers(selected)
    yield workers
    with workers.lock:
        for rows in workers.left.values():  # those that nobody waits for, where the run was broken off
            rows.clear()
    workers.thread.join()
    note(f"{workers.tried} attacks")


def test_the_rows_are_those_of_the_document():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    assert set(TABLE) - {"test", "---"} == set(names), "docs/evidence/bypasses.md and the rows here"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1].name}")
def test_nothing_gets_in_by(case, workers):
    major, row = case
    attacks = workers.outcomes[major, row.name].result()
    assert attacks
    failed = []
    for by, got_in, told in attacks:
        known = got_in and is_open(TABLE[row.name], major)
        lines = [f"{'open' if known else 'GOT IN' if got_in else 'closed'}  {major}  {by:5}  {row.name}: {got_in}"]
        lines += [f"        {str(answer)[:600]}" for answer in told]
        if got_in and not known:
            failed += lines
        elif given.option("show"):
            note("\n".join(lines))
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
