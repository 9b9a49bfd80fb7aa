#!/usr/bin/env python3
"""[F1][F2][F5][F6] The guard: every known way for a guarded session to write without a passed check, each with its expected answer.

  pytest tests/live/guard/guard_attacks_test.py [--library termgate_guard.so] [--major 15] [--only PART_OF_A_NAME]

Each attack is played twice, by a session without a term and by one with a stale term, as plain roles. What is there
afterwards is compared with what was there before. Then by a session with the current term, for which it must work
(F7), where the attack is ordinary SQL.
"""
import pytest

import given
from guard_rig import OnARig, chosen

CHOSEN = chosen()
ONLY = given.option("only", [])

# Refused before it does anything, without a term and with a stale one; fine with the current one. What it leaves is undone by the test.
# name, statements; one that needs a superuser's preparation says so in PREPARED.
ORDINARY = {
    "insert": ["INSERT INTO t VALUES (1, 1)"],
    "update": ["UPDATE t SET v = 1 WHERE id = 1000"],
    "delete": ["DELETE FROM t WHERE id = 1001"],
    "update of nothing": ["UPDATE t SET v = 1 WHERE false"],
    "with that modifies": ["WITH w AS (INSERT INTO t VALUES (2, 2) RETURNING id) SELECT * FROM w"],
    "select for update": ["SELECT * FROM t WHERE id = 1000 FOR UPDATE"],
    "select for key share in a view": ["SELECT * FROM locking_view"],
    "in a block": ["BEGIN", "INSERT INTO t VALUES (3, 3)", "COMMIT"],
    "several statements in one text": ["INSERT INTO t VALUES (4, 4); INSERT INTO t VALUES (5, 5)"],
    "prepared": ["PREPARE w AS INSERT INTO t VALUES ($1, 0)", "EXECUTE w(6)"],
    "explain analyze": ["EXPLAIN ANALYZE INSERT INTO t VALUES (7, 7)"],
    "explain analyze create table as": ["EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1"],
    "create table as": ["CREATE TABLE made AS SELECT 1"],
    "select into": ["SELECT 1 AS a INTO made"],
    "create table as execute": ["PREPARE w AS SELECT 1", "CREATE TABLE made AS EXECUTE w"],
    "create table": ["CREATE TABLE made (a int)"],
    "create temp table": ["CREATE TEMP TABLE passing (a int)"],
    "create function": ["CREATE FUNCTION made() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    "comment": ["CREATE TABLE made (a int); COMMENT ON TABLE made IS 'x'"],
    "grant": ["BEGIN; CREATE TABLE made (a int); GRANT SELECT ON made TO PUBLIC; COMMIT"],
    "truncate": ["TRUNCATE log"],
    "merge": ["MERGE INTO t USING (SELECT 1000 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 2"],
    "do": ["DO $$ BEGIN INSERT INTO t VALUES (8, 8); END $$"],
    "do with commit": ["DO $$ BEGIN INSERT INTO t VALUES (9, 9); COMMIT; INSERT INTO t VALUES (10, 10); END $$"],
    "function": ["SELECT writes(11)"],
    "function in a view": ["SELECT * FROM writing_view"],
    "procedure": ["CALL writes_twice(12)"],
    "security definer function": ["SELECT writes_as_owner(14)"],
    "function called immutable, at planning": ["SELECT * FROM t WHERE id = writes_immutable(15)"],
    "trigger": ["INSERT INTO traced VALUES (1)"],
    "deferred trigger": ["BEGIN", "INSERT INTO late VALUES (1)", "COMMIT"],
    "cursor": ["BEGIN", "DECLARE c CURSOR FOR SELECT writes(16)", "FETCH c", "COMMIT"],
    "cursor with hold": ["DECLARE c CURSOR WITH HOLD FOR SELECT writes(17)", "CLOSE c"],
    "rule": ["INSERT INTO ruled VALUES (1)"],
    "instead of trigger": ["INSERT INTO instead VALUES (1)"],
    "copy of insert returning": ["COPY (INSERT INTO t VALUES (18, 18) RETURNING id) TO STDOUT"],
    "large object": ["SELECT lo_create(4711)"],
    "large object in do": ["DO $$ BEGIN PERFORM lo_from_bytea(4712, 'x'); END $$"],
    "nextval": ["SELECT nextval('q')"],
    "cached nextval": ["SELECT nextval('cached')"],
    "nextval in a view": ["SELECT * FROM counting_view"],
    "nextval in a lateral join": ["SELECT n FROM t, LATERAL (SELECT nextval('q') AS n) l LIMIT 1"],
    "nextval in an aggregate's filter": ["SELECT count(*) FILTER (WHERE nextval('q') > 0) FROM t"],
    "nextval by execute": ["DO $$ BEGIN EXECUTE 'SELECT nextval(''q'')'; END $$"],
    "explain of nextval": ["EXPLAIN SELECT nextval('q')"],
    "code that explain runs": ["EXPLAIN SELECT * FROM parted WHERE a = counts()"],
    "setval": ["SELECT setval('q', 1000)"],
    "notify": ["NOTIFY channel, 'x'"],
    "pg_notify": ["SELECT pg_notify('channel', 'x')"],
    "pg_notify in a read only transaction": ["BEGIN READ ONLY", "SELECT pg_notify('channel', 'x')", "COMMIT"],
    "transactional message": ["SELECT pg_logical_emit_message(true, 'p', 'x')"],
    "message": ["SELECT pg_logical_emit_message(false, 'p', 'x')"],
    "lock access exclusive": ["BEGIN", "LOCK TABLE log IN ACCESS EXCLUSIVE MODE", "COMMIT"],
    "analyze": ["ANALYZE t"],
    "vacuum": ["VACUUM t"],
    "refresh": ["REFRESH MATERIALIZED VIEW kept"],
    "create index concurrently": ["CREATE INDEX CONCURRENTLY made_index ON mine (a)"],
    "reindex concurrently": ["REINDEX TABLE CONCURRENTLY mine"],
    "cluster": ["CLUSTER mine USING mine_pkey"],
    "alter type add value": ["ALTER TYPE mood ADD VALUE 'made'"],
    "alter role of itself": ["ALTER ROLE CURRENT_USER SET work_mem = '8MB'"],
    "txid_current": ["SELECT txid_current()"],
    "prepare transaction of nothing": ["BEGIN", "PREPARE TRANSACTION 'nothing'"],
    "rollback to, then write": ["BEGIN", "SAVEPOINT a", "SELECT 1", "ROLLBACK TO a", "INSERT INTO t VALUES (19, 19)", "COMMIT"],
    "set role to an unguarded role": ["SET ROLE free", "INSERT INTO t VALUES (20, 20)"],
    "session_replication_role": ["SET search_path = public", "INSERT INTO t VALUES (21, 21)"],
    "foreign table": ["INSERT INTO far VALUES (22, 22)"],
    "repeatable read": ["BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO t VALUES (23, 23)", "COMMIT"],
    "serializable": ["BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT INTO t VALUES (24, 24)", "COMMIT"],
    "array literal of a domain": ["SELECT '{1}'::writing_domain[]"],
    "row security policy": ["SELECT * FROM secured"],
    "query_to_xml": ["SELECT query_to_xml('SELECT writes(25)', true, false, '')"],
    "commit and chain": ["BEGIN", "SELECT 1", "COMMIT AND CHAIN", "INSERT INTO t VALUES (26, 26)", "COMMIT"],
    "implicit transaction with rollback": ["SELECT 1; ROLLBACK; INSERT INTO t VALUES (27, 27)"],
    "create database": ["CREATE DATABASE made TEMPLATE template0"],
}

PREPARED = """
  CREATE VIEW locking_view AS SELECT * FROM t WHERE id = 1000 FOR KEY SHARE; GRANT ALL ON locking_view TO PUBLIC;
  CREATE FUNCTION writes(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (n, n); RETURN n; END';
  CREATE FUNCTION writes_as_owner(n int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN INSERT INTO t VALUES (n, n); RETURN n; END';
  CREATE FUNCTION writes_immutable(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN writes(n); END';
  CREATE VIEW writing_view AS SELECT writes(50); GRANT SELECT ON writing_view TO PUBLIC;
  CREATE PROCEDURE writes_twice(n int) LANGUAGE plpgsql AS
    'BEGIN INSERT INTO t VALUES (n, n); COMMIT; INSERT INTO t VALUES (n + 1, n); END';
  CREATE FUNCTION traces() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (1); RETURN NULL; END';
  CREATE TABLE traced (a int); CREATE TRIGGER traces AFTER INSERT ON traced FOR EACH ROW EXECUTE FUNCTION traces();
  CREATE TABLE late (a int); CREATE CONSTRAINT TRIGGER traces AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE
    FUNCTION traces();
  CREATE TABLE ruled (a int); CREATE RULE also AS ON INSERT TO ruled DO INSTEAD INSERT INTO log VALUES (2);
  CREATE VIEW instead AS SELECT 1 AS a;
  CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (3); RETURN NEW; END';
  CREATE TRIGGER instead INSTEAD OF INSERT ON instead FOR EACH ROW EXECUTE FUNCTION instead();
  CREATE VIEW counting_view AS SELECT nextval('q'); GRANT ALL ON traced, late, ruled, instead, counting_view TO PUBLIC;
  CREATE TABLE mine (a int PRIMARY KEY); CREATE TYPE mood AS ENUM ('glad'); CREATE MATERIALIZED VIEW kept AS SELECT 1 AS a;
  CREATE FUNCTION checks(n int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (n); RETURN true; END';
  CREATE TABLE parted (a bigint) PARTITION BY LIST (a); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
    CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2); GRANT SELECT ON parted TO PUBLIC;
  CREATE FUNCTION counts() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN nextval(''q''); END';
  CREATE DOMAIN writing_domain AS int CHECK (checks(VALUE));
  CREATE TABLE secured (a int); INSERT INTO secured VALUES (1); ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
    CREATE POLICY p ON secured USING (checks(a)); GRANT SELECT ON secured TO PUBLIC;
  CREATE EXTENSION postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO app;
"""


@pytest.fixture(scope="module")
def rig(rig):
    rig.admin.rows(PREPARED)
    for kind, name in (("TABLE", "mine"), ("TYPE", "mood"), ("MATERIALIZED VIEW", "kept")):
        rig.admin.rows(f"ALTER {kind} {name} OWNER TO app")
    rig.admin.rows(
        f"CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{rig.port}', dbname 'postgres');"
        " CREATE USER MAPPING FOR PUBLIC SERVER here OPTIONS (user 'postgres', password_required 'false');"
        " CREATE FOREIGN TABLE far (id int, v int) SERVER here OPTIONS (table_name 't'); GRANT ALL ON far TO PUBLIC"
    )
    rig.admin.rows("ALTER ROLE app CREATEDB")
    return rig


class Attacks(OnARig):
    def setUp(self):
        self.before = self.rig.state()

    def assert_untouched(self):
        assert self.rig.state() == self.before

    def clean(self):
        """Takes back what a session with the current term was allowed to do."""
        admin = self.rig.admin
        admin.run(
            "DROP TABLE IF EXISTS made",
            "DROP FUNCTION IF EXISTS made()",
            "DROP INDEX IF EXISTS made_index",
            "SELECT lo_unlink(oid) FROM pg_largeobject_metadata",
            "DROP DATABASE IF EXISTS made",
            "DELETE FROM t",
            "TRUNCATE log",
            "INSERT INTO t SELECT g, 0 FROM generate_series(1000, 1010) g",
            "SELECT setval('q', 1)",
            "SELECT setval('cached', 50)",
            "ALTER ROLE app RESET work_mem",
        )
        for gid in admin.rows("SELECT gid FROM pg_prepared_xacts"):
            admin.run(f"ROLLBACK PREPARED '{gid[0]}'")
        self.before = self.rig.state()

    def test_ordinary_sql_is_refused_without_a_current_term_and_works_with_it(self):
        if CHOSEN.major in ("13", "14"):
            ORDINARY.pop("merge", None)
        for name, statements in ORDINARY.items():
            if ONLY and not any(part in name for part in ONLY):
                continue
            with self.subTest(name):
                claims = [((None, None), "TG002"), (("s", 4), "TG001")]
                if name in ("insert", "nextval", "do with commit"):
                    claims += [
                        (("s", 99), "TG005"),
                        (("s", "x"), "TG005"),
                        (("nowhere", 1), "TG005"),
                        (("s", ""), "TG002"),
                        (("", 5), "TG002"),
                        (("s", "-1"), "TG005"),
                        (("s" * 201, 5), "TG005"),
                        (("s", "9" * 40), "TG005"),
                    ]
                for claim, wanted in claims:
                    with self.rig.session("app", *claim) as session:
                        got = session.run(*statements)
                        assert got == wanted, f"{name} with {claim}: {session.message()}"
                    self.assert_untouched()
                with self.rig.session("app", "s", 5) as session:
                    assert session.run(*statements) == "ok", f"{name} with the current term: {session.message()}"
                self.clean()

    def test_what_reads_needs_no_term(self):
        with self.rig.session("app") as session:
            for statement in (
                "SELECT * FROM t",
                "EXPLAIN INSERT INTO t VALUES (1)",
                "EXPLAIN UPDATE t SET v = 1",
                "SHOW work_mem",
                "SET work_mem = '8MB'",
                "RESET ALL",
                "BEGIN; SELECT 1; COMMIT",
                "COPY t TO STDOUT",
                "PREPARE r AS SELECT 1",
                "EXECUTE r",
                "DEALLOCATE r",
                "LISTEN channel",
                "UNLISTEN *",
                "BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; COMMIT",
                "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
                "FETCH c",
                "CLOSE c",
                "DO $$ BEGIN PERFORM 1; END $$",
                "DISCARD ALL",
                "SELECT pg_advisory_lock(1)",
                "SELECT pg_advisory_unlock_all()",
                "BEGIN; SAVEPOINT a; ROLLBACK TO a; RELEASE a; COMMIT",
                "SELECT currval('q') WHERE false",
                "SELECT pg_stat_get_activity(NULL) LIMIT 1",
                "BEGIN; ROLLBACK",
            ):
                assert session.run(statement) == "ok", f"{statement}: {session.message()}"
        self.assert_untouched()
