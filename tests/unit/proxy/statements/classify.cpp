// What a text is: one row a form, and one a way round READ ONLY. Every row is also held against the
// full parse tree. Long: tables of statements and what they are.
#include <catch2/catch.hpp>

#include <pthread.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <termgate/statements/cache.hpp>
#include <termgate/statements/classify.hpp>

#include "oracle.hpp"

using namespace termgate::statements;

namespace {

// e might_end_transaction · h read_only_hole · r sets_read_only · l changes_lexing · f
// calls_functions · t calls_termgate p perhaps_alone · c and_chain · a all · d to_default
std::string flags_of(const Statement& statement) {
  std::string flags;
  if (statement.might_end_transaction) flags += 'e';
  if (statement.read_only_hole) flags += 'h';
  if (statement.sets_read_only) flags += 'r';
  if (statement.changes_lexing) flags += 'l';
  if (statement.calls_functions) flags += 'f';
  if (statement.calls_termgate) flags += 't';
  if (statement.perhaps_alone) flags += 'p';
  if (statement.and_chain) flags += 'c';
  if (statement.all) flags += 'a';
  if (statement.to_default) flags += 'd';
  return flags;
}

struct Row {
  const char* sql;
  Kind kind;
  const char* flags = "";
  Kind inner = Kind::empty;
  const char* name = "";
};

void check_rows(const std::vector<Row>& rows, bool read) {
  for (const Row& row : rows) {
    INFO(row.sql);
    const Classified classified = classify(row.sql);
    REQUIRE(classified.statements.size() == 1);
    const Statement& statement = classified.statements[0];
    CHECK(static_cast<int>(statement.kind) == static_cast<int>(row.kind));
    CHECK(flags_of(statement) == row.flags);
    CHECK(static_cast<int>(statement.inner) == static_cast<int>(row.inner));
    CHECK(statement.name == row.name);
    CHECK(classified.is_read() == read);
    CHECK(objection(row.sql, classified) == "");
    // The same with white space, comments and a `;` around it, in capitals unless it holds quotes.
    const std::string dressed =
        std::string(" -- note\n/* /* nested */ */ ") + row.sql + " /* end */ ; ";
    const Classified again = classify(dressed);
    REQUIRE(again.statements.size() == 1);
    CHECK(static_cast<int>(again.statements[0].kind) == static_cast<int>(row.kind));
    CHECK(flags_of(again.statements[0]) == row.flags);
    CHECK(dressed.substr(again.statements[0].offset, again.statements[0].length) ==
          std::string(row.sql).substr(statement.offset, statement.length));
  }
}

constexpr const char* unknown_flags = "ehrlf";

std::string repeated(std::string_view part, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += part;
  return all;
}

}  // namespace

TEST_CASE("classify: reads", "[F6][proxy][statements]") {
  check_rows(
      {
          {"SELECT 1", Kind::provably_read},
          {"select a, b from t where id = $1 and name = 'x;y' order by 2 limit 3",
           Kind::provably_read},
          {"SELECT \"INTO\", t.into, 'FOR UPDATE' AS update FROM \"delete\" t",
           Kind::provably_read},
          {"SELECT count(*) FROM t", Kind::provably_read, "f"},
          {"SELECT my_schema.writes_perhaps(1)", Kind::provably_read, "f"},
          {"SELECT a FROM t WHERE b IN (1, 2) AND EXISTS (SELECT 1)", Kind::provably_read},
          {"SELECT CAST(a AS numeric(10, 2)), coalesce(a, 1) FROM t", Kind::provably_read},
          {"SELECT substring(a FROM 1 FOR 2) FROM t", Kind::provably_read},
          {"SELECT delete FROM t", Kind::provably_read},
          {"SELECT update, set FROM t", Kind::provably_read},
          {"VALUES (1, 'a'), (2, 'b')", Kind::provably_read},
          {"TABLE t", Kind::provably_read},
          {"(SELECT 1) UNION (SELECT 2)", Kind::provably_read},
          {"((SELECT 1))", Kind::provably_read},
          {"(VALUES (1)) UNION ALL TABLE t", Kind::provably_read},
          {"WITH a AS (SELECT 1) SELECT * FROM a", Kind::provably_read},
          {"WITH RECURSIVE a(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM a WHERE n < 9) SELECT * "
           "FROM a",
           Kind::provably_read, "f"},
          {"SELECT * FROM t, LATERAL (SELECT 1) x WHERE E'\\'' = $1", Kind::provably_read},
          {"SELECT $$it's; DELETE FROM t$$, $a$ $$ ; $a$", Kind::provably_read},
          {"SELECT U&'d\\0061t\\+000061' ", Kind::provably_read},
          {"SELECT 'a'\n'b;' FROM t", Kind::provably_read},
          {"SELECT E'a'\n'\\'; DELETE FROM t; --' FROM t", Kind::provably_read},
          {"SELECT pg_catalog.set_config('search_path', '', false)", Kind::provably_read, "f"},
          {"SELECT lo_get(1)", Kind::provably_read, "f"},
          {"SELECT pg_is_in_recovery(), txid_current()", Kind::provably_read, "f"},
          {"SELECT 1 FOR READ ONLY", Kind::provably_read},
          {"SHOW server_version", Kind::show, "", Kind::empty, "server_version"},
          {"SHOW ALL", Kind::show},
          {"SHOW TIME ZONE", Kind::show, "", Kind::empty, "timezone"},
          {"SHOW transaction isolation level", Kind::show, "", Kind::empty,
           "transaction_isolation"},
          {"EXPLAIN SELECT 1", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN DELETE FROM t", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN (VERBOSE, COSTS off) INSERT INTO t VALUES (1)", Kind::explain, "",
           Kind::provably_read},
          {"EXPLAIN (ANALYZE false) DELETE FROM t", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN (ANALYZE off, VERBOSE) DELETE FROM t", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN ANALYZE SELECT f(1)", Kind::explain, "f", Kind::provably_read},
          {"EXPLAIN (ANALYZE, BUFFERS) SELECT 1", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN (SELECT 1)", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN (VALUES (1))", Kind::explain, "", Kind::provably_read},
          {"EXPLAIN ANALYZE EXECUTE p(1)", Kind::explain, "", Kind::execute, "p"},
          {"FETCH ALL FROM c", Kind::fetch, "", Kind::empty, "c"},
          {"FETCH c", Kind::fetch, "", Kind::empty, "c"},
          {"FETCH BACKWARD -3 IN \"C c\"", Kind::fetch, "", Kind::empty, "C c"},
          {"MOVE NEXT c", Kind::move, "", Kind::empty, "c"},
          {"CLOSE c", Kind::close, "", Kind::empty, "c"},
          {"CLOSE ALL", Kind::close, "a"},
          {"DECLARE c CURSOR FOR SELECT 1", Kind::declare_cursor, "", Kind::provably_read, "c"},
          {"DECLARE c BINARY NO SCROLL CURSOR WITH HOLD FOR TABLE t", Kind::declare_cursor, "",
           Kind::provably_read, "c"},
          {"COPY t TO STDOUT", Kind::copy_out},
          {"COPY s.t (a, b) TO STDOUT WITH (FORMAT csv)", Kind::copy_out},
          {"COPY (SELECT f(a) FROM t) TO STDOUT", Kind::copy_out, "f", Kind::provably_read},
          {"PREPARE p AS SELECT 1", Kind::prepare, "", Kind::provably_read, "p"},
          {"PREPARE p (int, text) AS INSERT INTO t VALUES ($1, $2)", Kind::prepare, "", Kind::write,
           "p"},
          {"EXECUTE p", Kind::execute, "", Kind::empty, "p"},
          {"EXECUTE \"P\"\"q\" (1, f(2))", Kind::execute, "f", Kind::empty, "P\"q"},
          {"DEALLOCATE p", Kind::deallocate, "", Kind::empty, "p"},
          {"DEALLOCATE PREPARE p", Kind::deallocate, "", Kind::empty, "p"},
          {"DEALLOCATE ALL", Kind::deallocate, "a"},
          {"LISTEN chan", Kind::listen, "", Kind::empty, "chan"},
          {"UNLISTEN *", Kind::unlisten, "a"},
          {"LOCK TABLE a, b IN ACCESS SHARE MODE", Kind::lock_table},
          {"LOCK a IN ACCESS SHARE MODE NOWAIT", Kind::lock_table},
          {"", Kind::empty},
      },
      true);
}

TEST_CASE("classify: writes and what hides them", "[F6][proxy][statements]") {
  check_rows(
      {
          {"INSERT INTO t VALUES (1)", Kind::write},
          {"UPDATE t SET a = 1", Kind::write},
          {"DELETE FROM t", Kind::write},
          {"MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE", Kind::write},
          {"TRUNCATE t", Kind::write},
          {"CREATE TABLE t (a int)", Kind::write},
          {"CREATE TEMP TABLE t AS SELECT 1", Kind::write},
          {"CREATE TABLE t AS EXECUTE p", Kind::write},
          {"GRANT SELECT ON t TO anna", Kind::write},
          {"COMMENT ON TABLE t IS 'x'", Kind::write},
          {"REFRESH MATERIALIZED VIEW CONCURRENTLY v", Kind::write},
          {"ALTER TYPE e ADD VALUE 'x'", Kind::write},
          {"SELECT 1 INTO t", Kind::write},
          {"SELECT a INTO TEMP t FROM s", Kind::write},
          {"SELECT 1 AS a INTO t", Kind::write},
          {"SELECT * FROM t FOR UPDATE", Kind::write},
          {"SELECT * FROM t FOR NO KEY UPDATE SKIP LOCKED", Kind::write},
          {"SELECT * FROM t FOR SHARE", Kind::write},
          {"SELECT * FROM t FOR KEY SHARE NOWAIT", Kind::write},
          {"SELECT * FROM (SELECT * FROM t FOR UPDATE) x", Kind::write},
          {"(SELECT * FROM t) FOR UPDATE", Kind::write},
          {"WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", Kind::write},
          {"WITH d AS MATERIALIZED (UPDATE t SET a = 1 RETURNING *) SELECT * FROM d", Kind::write},
          {"WITH d AS (INSERT INTO t VALUES (1) RETURNING *) TABLE d", Kind::write},
          {"WITH a AS (SELECT 1) DELETE FROM t", Kind::write},
          {"WITH x AS (SELECT 1), y AS (WITH z AS (SELECT 2) DELETE FROM t RETURNING 1) SELECT 1",
           Kind::write},
          {"(WITH a AS (WITH b AS (UPDATE t SET x = 1 RETURNING 1) SELECT * FROM b) SELECT * FROM "
           "a)",
           Kind::write},
          {"/* hint */ SELECT/**/1/**/INTO/**/t", Kind::write},
          {"SELECT * FROM t FOR/**/UPDATE", Kind::write},
          {"EXPLAIN ANALYZE DELETE FROM t", Kind::explain, "", Kind::write},
          {"EXPLAIN ANALYSE VERBOSE INSERT INTO t VALUES (1)", Kind::explain, "", Kind::write},
          {"EXPLAIN (COSTS off, ANALYZE) UPDATE t SET a = 1", Kind::explain, "", Kind::write},
          {"EXPLAIN (ANALYZE false, ANALYZE) DELETE FROM t", Kind::explain, "", Kind::write},
          {"EXPLAIN (\"analyze\") DELETE FROM t", Kind::explain, "", Kind::write},
          {"EXPLAIN (U&\"\\0061nalyze\") DELETE FROM t", Kind::explain, "", Kind::write},
          {"EXPLAIN ANALYZE SELECT 1 INTO t", Kind::explain, "", Kind::write},
          {"EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1", Kind::explain, "", Kind::write},
          {"EXPLAIN ANALYZE SELECT nextval('s')", Kind::explain, "hf", Kind::write},
          {"DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE", Kind::declare_cursor, "", Kind::write,
           "c"},
          {"COPY t FROM STDIN", Kind::copy_in},
          {"COPY BINARY t (a) FROM STDIN", Kind::copy_in},
          {"COPY (DELETE FROM t RETURNING *) TO STDOUT", Kind::write, "", Kind::write},
          {"COPY (SELECT 1 INTO t) TO STDOUT", Kind::write, "", Kind::write},
          {"COPY t FROM '/tmp/x'", Kind::copy_file, "h"},
          {"COPY t TO '/tmp/x'", Kind::copy_file, "h"},
          {"COPY (SELECT 1) TO PROGRAM 'sh'", Kind::copy_program, "h", Kind::provably_read},
          {"COPY t FROM PROGRAM 'sh'", Kind::copy_program, "h"},
          {"CALL p(1)", Kind::call, "ef"},
          {"DO $$ BEGIN COMMIT; INSERT INTO t VALUES (1); END $$", Kind::do_block, "ef"},
          {"PREPARE TRANSACTION 'g'", Kind::prepare_transaction, "e", Kind::empty, "g"},
          {"COMMIT PREPARED 'g'", Kind::commit_prepared, "", Kind::empty, "g"},
          {"ROLLBACK PREPARED 'it''s'", Kind::rollback_prepared, "", Kind::empty, "it's"},
      },
      false);
}

TEST_CASE("classify: what READ ONLY lets through counts as a write", "[F6][proxy][statements]") {
  check_rows(
      {
          {"SELECT lo_create(0)", Kind::write, "hf"},
          {"SELECT lo_from_bytea(0, 'x')", Kind::write, "hf"},
          {"SELECT lo_open(1, 131072)", Kind::write, "hf"},
          {"SELECT pg_catalog.lo_unlink(1)", Kind::write, "hf"},
          {"SELECT \"lo_unlink\"(1)", Kind::write, "hf"},
          {"SELECT LO_UNLINK (1)", Kind::write, "hf"},
          {"SELECT lo_unlink/* */(1)", Kind::write, "hf"},
          {"SELECT U&\"lo\\005funlink\"(1)", Kind::write, "hf"},
          {"SELECT U&\"lo!005funlink\" UESCAPE '!' (1)", Kind::write, "hf"},
          {"SELECT TREAT(1 AS lo_unlink)", Kind::write, "hf"},
          {"SELECT lowrite(0, 'x')", Kind::write, "hf"},
          {"SELECT nextval('s')", Kind::write, "hf"},
          {"SELECT setval('s', 1)", Kind::write, "hf"},
          {"SELECT pg_notify('c', 'x')", Kind::write, "hf"},
          {"SELECT pg_advisory_lock(1)", Kind::write, "hf"},
          {"SELECT pg_try_advisory_xact_lock(1)", Kind::write, "hf"},
          {"SELECT pg_terminate_backend(1)", Kind::write, "hf"},
          {"SELECT pg_switch_wal()", Kind::write, "hf"},
          {"SELECT pg_logical_emit_message(true, 'a', 'b')", Kind::write, "hf"},
          {"SELECT pg_create_logical_replication_slot('a', 'b')", Kind::write, "hf"},
          {"SELECT pg_drop_replication_slot('a')", Kind::write, "hf"},
          {"SELECT * FROM pg_logical_slot_get_changes('a', NULL, NULL)", Kind::write, "hf"},
          {"SELECT * FROM dblink('c', 'DELETE FROM t') AS x(a int)", Kind::write, "hf"},
          {"SELECT dblink_exec('DELETE FROM t')", Kind::write, "hf"},
          {"SELECT query_to_xml('SELECT lo_create(0)', true, true, '')", Kind::write, "hf"},
          {"SELECT pg_reload_conf()", Kind::write, "hf"},
          {"SELECT set_config('transaction_read_only', 'off', true)", Kind::write, "hrf"},
          {"SELECT set_config('Default_Transaction_Read_Only', 'off', false)", Kind::write, "hrf"},
          {"SELECT set_config($$role$$, 'x', false)", Kind::write, "hrf"},
          {"SELECT set_config('session_replication_role', 'replica', false)", Kind::write, "hrf"},
          {"SELECT set_config(E'r\\157le', 'x', false)", Kind::write, "hrlf"},
          {"SELECT set_config('ro' || 'le', 'x', false)", Kind::write, "hrlf"},
          {"SELECT set_config(name, 'off', false) FROM pg_settings", Kind::write, "hrlf"},
          {"SELECT set_config('standard_conforming_strings', 'off', false)", Kind::write, "hlf"},
          {"SELECT set_config('termgate.term', '42', false)", Kind::write, "f", Kind::empty,
           "termgate.term"},
          {"EXPLAIN EXECUTE p(pg_notify('a', 'b'))", Kind::explain, "hf", Kind::provably_read},
          {"EXECUTE p(lo_create(0))", Kind::execute, "hf", Kind::empty, "p"},
          {"SELECT (SELECT pg_notify('a', 'b') FROM t WHERE x IN (1))", Kind::write, "hf"},
          {"SELECT termgate.append('s', 5, 'x')", Kind::write, "ft"},
          {"SELECT * FROM termgate.acquire_lease('s', 'me', '10 s')", Kind::write, "ft"},
          {"NOTIFY chan, 'x'", Kind::notify, "h", Kind::empty, "chan"},
          {"LOCK TABLE t", Kind::lock_table, "h"},
          {"LOCK TABLE t IN ACCESS EXCLUSIVE MODE", Kind::lock_table, "h"},
          {"LOCK TABLE t IN SHARE MODE", Kind::lock_table, "h"},
          {"ANALYZE t", Kind::write, "h"},
          {"CHECKPOINT", Kind::write, "h"},
          {"LOAD 'x'", Kind::write, "h"},
          {"CLUSTER t USING i", Kind::write, "hp"},
          {"CLUSTER VERBOSE t", Kind::write, "hp"},
          {"REINDEX TABLE t", Kind::write, "hp"},
          {"REINDEX (VERBOSE) INDEX i", Kind::write, "hp"},
          {"VACUUM", Kind::must_run_alone, "h"},
      },
      false);
}

TEST_CASE("classify: what must run alone", "[F5][proxy][statements]") {
  check_rows(
      {
          {"VACUUM (ANALYZE, VERBOSE) t", Kind::must_run_alone, "h"},
          {"VACUUM FULL", Kind::must_run_alone, "h"},
          {"CREATE DATABASE d", Kind::must_run_alone},
          {"DROP DATABASE IF EXISTS d WITH (FORCE)", Kind::must_run_alone},
          {"ALTER DATABASE d SET TABLESPACE x", Kind::must_run_alone},
          {"CREATE TABLESPACE x LOCATION '/x'", Kind::must_run_alone},
          {"DROP TABLESPACE x", Kind::must_run_alone},
          {"ALTER SYSTEM SET work_mem = '1MB'", Kind::must_run_alone, "h"},
          {"ALTER SYSTEM RESET ALL", Kind::must_run_alone, "h"},
          {"CLUSTER", Kind::must_run_alone, "h"},
          {"CLUSTER VERBOSE", Kind::must_run_alone, "h"},
          {"CLUSTER (VERBOSE)", Kind::must_run_alone, "h"},
          {"REINDEX DATABASE d", Kind::must_run_alone, "h"},
          {"REINDEX SYSTEM d", Kind::must_run_alone, "h"},
          {"REINDEX SCHEMA s", Kind::must_run_alone, "h"},
          {"REINDEX TABLE CONCURRENTLY t", Kind::must_run_alone, "h"},
          {"REINDEX (CONCURRENTLY) INDEX i", Kind::must_run_alone, "h"},
          {"CREATE INDEX CONCURRENTLY i ON t (a)", Kind::must_run_alone},
          {"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a)", Kind::must_run_alone},
          {"DROP INDEX CONCURRENTLY i", Kind::must_run_alone},
          {"ALTER TABLE t DETACH PARTITION p CONCURRENTLY", Kind::must_run_alone},
          {"CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p", Kind::must_run_alone},
          {"DROP SUBSCRIPTION s", Kind::must_run_alone},
          {"ALTER SUBSCRIPTION s REFRESH PUBLICATION", Kind::must_run_alone},
          {"ALTER SUBSCRIPTION s SET PUBLICATION p", Kind::must_run_alone},
          {"ALTER SUBSCRIPTION s ADD PUBLICATION p", Kind::must_run_alone},
          {"ALTER SUBSCRIPTION s SET (failover = true)", Kind::must_run_alone},
          // What only looks like it.
          {"CREATE INDEX i ON t (\"concurrently\")", Kind::write},
          {"CREATE INDEX i ON t (a)", Kind::write},
          {"DROP INDEX i", Kind::write},
          {"ALTER TABLE t DETACH PARTITION p", Kind::write},
          {"ALTER TABLE t DETACH PARTITION p FINALIZE", Kind::write},
          {"ALTER DATABASE d SET work_mem = '1MB'", Kind::write},
          {"CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p WITH (create_slot = false)",
           Kind::write},
          {"CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p WITH (connect = 'off', enabled = "
           "true)",
           Kind::write},
          {"ALTER SUBSCRIPTION s SET PUBLICATION p WITH (refresh = false)", Kind::write},
          {"ALTER SUBSCRIPTION s SET (binary = true)", Kind::write},
          {"ALTER SUBSCRIPTION s DISABLE", Kind::write},
          {"DISCARD ALL", Kind::discard_all, "rl"},
      },
      false);
}

TEST_CASE("classify: transaction control", "[proxy][statements]") {
  check_rows(
      {
          {"BEGIN", Kind::begin},
          {"BEGIN WORK", Kind::begin},
          {"START TRANSACTION READ ONLY", Kind::begin},
          {"BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, NOT DEFERRABLE", Kind::begin},
          {"COMMIT", Kind::commit, "e"},
          {"END TRANSACTION", Kind::commit, "e"},
          {"COMMIT AND CHAIN", Kind::commit, "ec"},
          {"COMMIT AND NO CHAIN", Kind::commit, "e"},
          {"ROLLBACK", Kind::rollback, "e"},
          {"ABORT WORK AND CHAIN", Kind::rollback, "ec"},
          {"SAVEPOINT s", Kind::savepoint, "", Kind::empty, "s"},
          {"SAVEPOINT \"S\"", Kind::savepoint, "", Kind::empty, "S"},
          {"ROLLBACK TO s", Kind::rollback_to, "", Kind::empty, "s"},
          {"ROLLBACK WORK TO SAVEPOINT S", Kind::rollback_to, "", Kind::empty, "s"},
          {"ROLLBACK TO savepoint", Kind::rollback_to, "", Kind::empty, "savepoint"},
          {"RELEASE s", Kind::release, "", Kind::empty, "s"},
          {"RELEASE SAVEPOINT s", Kind::release, "", Kind::empty, "s"},
          {"SET TRANSACTION READ ONLY", Kind::set_transaction},
          {"SET TRANSACTION SNAPSHOT '00-1'", Kind::set_transaction, "", Kind::empty, "snapshot"},
          {"SET LOCAL TRANSACTION ISOLATION LEVEL REPEATABLE READ", Kind::set_transaction},
          {"SET CONSTRAINTS ALL IMMEDIATE", Kind::set_constraints},
      },
      true);
  check_rows(
      {
          {"BEGIN READ WRITE", Kind::begin, "r"},
          {"START TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE", Kind::begin, "r"},
          {"SET TRANSACTION READ WRITE", Kind::set_transaction, "r"},
      },
      false);
  const auto first = [](const char* sql) { return classify(sql).statements.at(0); };
  CHECK(first("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").isolation == Isolation::serializable);
  CHECK(first("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").access == Access::read_only);
  CHECK(first("BEGIN READ ONLY, READ WRITE").access == Access::read_write);
  CHECK(first("BEGIN ISOLATION LEVEL READ UNCOMMITTED").isolation == Isolation::read_uncommitted);
  CHECK(first("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").isolation ==
        Isolation::repeatable_read);
  CHECK(first("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
            .isolation == Isolation::read_committed);
}

TEST_CASE("classify: READ WRITE is found where it is words and nowhere else",
          "[F6][proxy][statements]") {
  struct Row {
    const char* sql;
    std::vector<std::size_t> at;
  };
  for (const Row& row :
       {Row{"BEGIN READ WRITE", {11}},
        Row{"begin /* read write */ isolation level serializable,read--x\nwrite", {60}},
        Row{"BEGIN READ WRITE, READ WRITE", {11, 23}},
        Row{"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", {48}},
        Row{"SELECT 1; SET TRANSACTION READ WRITE", {31}}, Row{"BEGIN READ ONLY", {}},
        Row{"COPY t FROM 'read write'", {}}, Row{"SELECT read write FROM t", {}}}) {
    CAPTURE(row.sql);
    CHECK(classify(row.sql).statements.back().write_words == row.at);
  }
}

TEST_CASE("classify: one call of layer 1 and nothing else", "[F6][proxy][statements]") {
  const auto call = [](const std::string& sql) {
    return classify(sql).statements.back().lone_call;
  };
  for (const char* sql :
       {"SELECT termgate.check_term('s', 5)", "select * from Termgate.Check_Term ( $1 , $2 ) ;",
        "SELECT termgate.\"check_term\"('s', -5)",
        "SELECT termgate.check_term(scope => 's', term := 5)",
        "SELECT termgate.check_term(NULL, true)", "BEGIN; SELECT termgate.check_term('s', 5);"}) {
    CAPTURE(sql);
    CHECK(call(sql).function == "check_term");
    CHECK_FALSE(call(sql).casts);
  }
  CHECK(call("SELECT termgate.check_term('s'::varchar, bigint '5')").casts);
  CHECK_FALSE(call("SELECT termgate.check_term('s'::varchar, bigint '5')").runs_casts);
  CHECK(call("SELECT termgate.check_term('s'::mine, 5)").runs_casts);
  CHECK(call("SELECT termgate.check_term('s'::\"bigint\", 5)").runs_casts);
  CHECK_FALSE(call("SELECT termgate.check_term('a::b', 5)").casts);
  // Whatever else the statement holds would run without a check.
  for (const char* sql : {"SELECT termgate.check_term('s', f(5))",
                          "SELECT termgate.check_term('s', 5), f()",
                          "SELECT termgate.check_term('s', 5) FROM t",
                          "SELECT termgate.check_term('s', 5) WHERE f()",
                          "SELECT termgate.check_term(mine '5', 5)",
                          "SELECT termgate.check_term(\"bigint\" '5', 5)",
                          "SELECT termgate.check_term(E's', 5)",
                          "SELECT termgate.check_term(N's', 5)",
                          "SELECT termgate.check_term('s\\', 5)",
                          "SELECT termgate.check_term('s' || 'x', 5)",
                          "SELECT termgate.check_term($$s$$, 5)",
                          "SELECT termgate.check_term('s', - 5 + 1)",
                          "SELECT /* a comment */ termgate.check_term('s', 5)",
                          "SELECT termgate.check_term('s', --\n 5)",
                          "SELECT check_term('s', 5)",
                          "SELECT termgate.check_term('s', (5))",
                          "SELECT termgate.check_term('s', 5)::text",
                          "SELECT ALL termgate.check_term('s', 5)",
                          "SELECT a.termgate.check_term('s', 5)",
                          "WITH x AS (SELECT termgate.check_term('s', 5)) SELECT 1",
                          "SELECT termgate.check_term(VARIADIC ARRAY[5])"}) {
    CAPTURE(sql);
    CHECK(call(sql).function.empty());
  }
}

TEST_CASE("classify: what the tokens of a statement show", "[F6][proxy][statements]") {
  const auto of = [](const std::string& sql) {
    const auto text = classify(sql);
    const Statement& one = text.statements.back();
    std::string shown;
    if (one.parameters) shown += " parameters";
    if (one.literals) shown += " literals";
    if (one.names_tables) shown += " tables";
    if (one.bare_begin) shown += " begin";
    if (one.describes_first) shown += " describes";
    return shown;
  };
  CHECK(of("SELECT 1") == " describes");
  CHECK(of("/* c */ -- d\n (SELECT $1)") == " parameters describes");
  CHECK(of("SELECT '$1' || $$ FROM $$, \"from\"") == " literals describes");
  CHECK(of("SELECT E'a' FROM t") == " literals tables describes");
  CHECK(of("SELECT b'1', x'f', U&'a'") == " literals describes");
  CHECK(of("TABLE t") == " tables describes");
  CHECK(of("SHOW all") == " describes");
  CHECK(of("WITH a AS (SELECT 1) SELECT 2") == " describes");
  CHECK(of("WITH a AS (SELECT 1) SELECT a.update, delete FROM a FOR UPDATE") ==
        " tables describes");
  CHECK(of("WITH a AS (SELECT 1) INSERT INTO t SELECT 2 RETURNING 3").empty());
  CHECK(of("WITH a AS (SELECT 1) UPDATE t SET b = 2 RETURNING 3").empty());
  CHECK(of("WITH a AS (DELETE FROM t RETURNING 1) SELECT 2") == " tables");
  CHECK(of("INSERT INTO t VALUES ($1) RETURNING a") == " parameters");
  CHECK(of("SAVEPOINT s").empty());
  for (const char* bare :
       {"BEGIN", "begin WORK;", "Begin /* c */ transaction", "START -- d\n TRANSACTION"})
    CHECK(of(bare) == " begin");
  for (const char* other :
       {"BEGIN READ ONLY", "START TRANSACTION ISOLATION LEVEL SERIALIZABLE", "COMMIT", "\"begin\""})
    CHECK(of(other).find("begin") == std::string::npos);
  // What cannot be read may have all of them.
  CHECK(of("SELECT 'open") == " parameters literals tables describes");
  std::string many = "INSERT INTO t VALUES (1";
  for (int i = 0; i < 300'000; ++i) many += ",1";
  CHECK(of(many + ")") == " parameters literals tables");
}

TEST_CASE("classify: settings", "[proxy][statements]") {
  check_rows(
      {
          {"SET work_mem = '1MB'", Kind::set, "", Kind::empty, "work_mem"},
          {"SET SESSION work_mem TO 64", Kind::set, "", Kind::empty, "work_mem"},
          {"SET LOCAL \"Work_Mem\" = 64", Kind::set_local, "", Kind::empty, "work_mem"},
          {"SET a.b TO x, y", Kind::set, "", Kind::empty, "a.b"},
          {"SET session.x = 1", Kind::set, "", Kind::empty, "session.x"},
          {"SET local.x = 1", Kind::set, "", Kind::empty, "local.x"},
          {"SET TIME ZONE 'UTC'", Kind::set, "", Kind::empty, "timezone"},
          {"SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", Kind::set, "", Kind::empty, "timezone"},
          {"SET NAMES 'LATIN1'", Kind::set, "l", Kind::empty, "client_encoding"},
          {"SET client_encoding = 'SJIS'", Kind::set, "l", Kind::empty, "client_encoding"},
          {"SET standard_conforming_strings = off", Kind::set, "l", Kind::empty,
           "standard_conforming_strings"},
          {"SET SCHEMA 'x'", Kind::set, "", Kind::empty, "search_path"},
          {"SET search_path FROM CURRENT", Kind::set, "", Kind::empty, "search_path"},
          {"SET work_mem TO DEFAULT", Kind::reset, "", Kind::empty, "work_mem"},
          {"SET LOCAL work_mem TO DEFAULT", Kind::set_local, "d", Kind::empty, "work_mem"},
          {"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", Kind::set, "",
           Kind::empty, "default_transaction_isolation"},
          {"RESET work_mem", Kind::reset, "", Kind::empty, "work_mem"},
          {"RESET termgate.scope", Kind::reset, "", Kind::empty, "termgate.scope"},
          {"RESET TIME ZONE", Kind::reset, "", Kind::empty, "timezone"},
          {"DISCARD PLANS", Kind::discard, "", Kind::empty, "plans"},
          {"DISCARD TEMPORARY", Kind::discard, "", Kind::empty, "temporary"},
      },
      true);
  check_rows(
      {
          {"SET transaction_read_only = off", Kind::set, "r", Kind::empty, "transaction_read_only"},
          {"SET \"transaction_read_only\" = off", Kind::set, "r", Kind::empty,
           "transaction_read_only"},
          {"SET LOCAL Transaction_Read_Only TO off", Kind::set_local, "r", Kind::empty,
           "transaction_read_only"},
          {"SET default_transaction_read_only = off", Kind::set, "r", Kind::empty,
           "default_transaction_read_only"},
          {"RESET default_transaction_read_only", Kind::reset, "r", Kind::empty,
           "default_transaction_read_only"},
          {"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", Kind::set, "r", Kind::empty,
           "default_transaction_read_only"},
          {"SET session_replication_role = replica", Kind::set, "r", Kind::empty,
           "session_replication_role"},
          {"SET ROLE anna", Kind::set, "r", Kind::empty, "role"},
          {"SET role TO anna", Kind::set, "r", Kind::empty, "role"},
          {"RESET ROLE", Kind::reset, "r", Kind::empty, "role"},
          {"SET SESSION AUTHORIZATION anna", Kind::set, "r", Kind::empty, "session_authorization"},
          {"SET LOCAL SESSION AUTHORIZATION DEFAULT", Kind::set_local, "rd", Kind::empty,
           "session_authorization"},
          {"RESET SESSION AUTHORIZATION", Kind::reset, "r", Kind::empty, "session_authorization"},
          {"RESET ALL", Kind::reset_all, "rl"},
      },
      false);
}

TEST_CASE("classify: values of settings as the server would take them", "[proxy][statements]") {
  const std::pair<const char*, std::optional<std::string>> rows[] = {
      {"SET termgate.scope = 'order-7'", "order-7"},
      {"SET termgate.scope TO 'it''s'", "it's"},
      {"SET termgate.scope = E'order'", "order"},
      {"SET termgate.scope = $$order$$", "order"},
      {"SET termgate.scope = $a$or'der$a$", "or'der"},
      {"SET termgate.scope = Billing", "billing"},
      {"SET termgate.scope = \"Billing\"", "Billing"},
      {"SET \"termgate.scope\" = x", "x"},
      {"SET TermGate . \"SCOPE\" = x", "x"},
      {"SET termgate.scope = ''", ""},
      {"SET termgate.term = 42", "42"},
      {"SET termgate.term = +42", "42"},
      {"SET termgate.term = -1", "-1"},
      {"SET termgate.term = '42'", "42"},
      // More than a plain literal: the caller must not guess.
      {"SET termgate.scope = E'a\\x62'", std::nullopt},
      {"SET termgate.scope = 'a'\n'b'", std::nullopt},
      {"SET termgate.scope = U&'a'", std::nullopt},
      {"SET termgate.scope = a, b", std::nullopt},
      {"SET termgate.term = 4.2e1", std::nullopt},
      {"SET termgate.term FROM CURRENT", std::nullopt},
  };
  for (const auto& [sql, value] : rows) {
    INFO(sql);
    const Classified classified = classify(sql);
    REQUIRE(classified.statements.at(0).kind == Kind::set);
    CHECK(is_declared_setting(classified.statements[0].name));
    CHECK(classified.statements[0].value == value);
    CHECK(objection(sql, classified) == "");
  }
  const Statement call =
      classify("SELECT set_config('termgate.scope', 'order-7', true)").statements.at(0);
  CHECK(call.value == "order-7");
  CHECK_FALSE(
      classify("SELECT set_config('termgate.scope', 'a' || 'b', true)").statements.at(0).value);
}

TEST_CASE("classify: several statements keep their places and their order",
          "[F6][proxy][statements]") {
  const std::string sql =
      "BEGIN; -- start\n SELECT ';' ;; INSERT INTO t VALUES ($$;$$) ; COMMIT /* end; */ ;";
  const Classified classified = classify(sql);
  CHECK_FALSE(classified.single);
  CHECK(objection(sql, classified) == "");
  std::vector<std::string> texts;
  std::vector<Kind> kinds;
  for (const Statement& statement : classified.statements) {
    texts.push_back(sql.substr(statement.offset, statement.length));
    kinds.push_back(statement.kind);
  }
  CHECK(texts ==
        std::vector<std::string>{"BEGIN", "SELECT ';'", "INSERT INTO t VALUES ($$;$$)", "COMMIT"});
  CHECK(kinds == std::vector<Kind>{Kind::begin, Kind::provably_read, Kind::write, Kind::commit});
  CHECK(classified.might_end_transaction());
  CHECK_FALSE(classified.is_read());

  // The bypasses that were seen to write rows although the session was read only.
  for (const char* bypass : {
           "SET default_transaction_read_only = off; COMMIT; INSERT INTO t VALUES (1)",
           "SELECT 1; DO $$ BEGIN COMMIT; END $$",
           "SELECT 1 /* ; */ ; /* x */ DELETE FROM t --",
           "SELECT $a$ $b$ $a$; DELETE FROM t; --$a$",
           "SELECT E'\\'; --'; DELETE FROM t",
           "SELECT '\\'; DELETE FROM t; --'",
           "SELECT \"a;\"\"b\"; DELETE FROM t",
           "SELECT 1 --\n; DELETE FROM t",
           "SELECT 1 --\r; DELETE FROM t",
       }) {
    INFO(bypass);
    const Classified seen = classify(bypass);
    CHECK_FALSE(seen.is_read());
    CHECK_FALSE(seen.single);
    CHECK(objection(bypass, seen) == "");
  }
}

TEST_CASE("classify: a string goes on after a comment and the end of its line",
          "[F6][proxy][statements]") {
  // As servers read it (asked: 15.18); libpg_query's scanner does not, so no oracle here.
  const Classified one = classify("SELECT E'a' -- '\n'\\'; DELETE FROM t; --'");
  CHECK(one.single);
  CHECK(one.statements.at(0).kind == Kind::provably_read);
  CHECK_FALSE(classify("SELECT E'a' /* c */\n'\\'; DELETE FROM t; --'").is_read());
}

TEST_CASE("classify: a function body of SQL is one statement", "[proxy][statements]") {
  const std::string body =
      "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; "
      "END; SELECT 3";
  const Classified classified = classify(body);
  REQUIRE(classified.statements.size() == 2);
  CHECK(classified.statements[0].kind == Kind::write);
  CHECK(body.substr(classified.statements[1].offset) == "SELECT 3");
  const Classified rule =
      classify("CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; DELETE FROM t)");
  REQUIRE(rule.statements.size() == 1);
  CHECK(rule.statements[0].kind == Kind::write);
}

TEST_CASE("classify: what cannot be read is unparsable and so a write", "[F6][proxy][statements]") {
  struct Hostile {
    const char* name;
    std::string sql;
  };
  const Hostile rows[] = {
      {"no SQL", "hello world"},
      {"an unterminated string", "SELECT 'x"},
      {"an unterminated name", "SELECT \"x"},
      {"an empty name", "SELECT \"\""},
      {"an unterminated comment", "SELECT 1 /* x"},
      {"an unterminated nested comment", "SELECT 1 /* /* x */"},
      {"an unterminated dollar quote", "SELECT $a$ x $b$"},
      {"a string that a backslash keeps open", "SELECT E'\\'"},
      {"a NUL", std::string("SELECT 1\0; DELETE FROM t", 24)},
      {"a NUL at the end", std::string("SELECT 1\0", 9)},
      {"a vertical tab which only 16 and later pass over", "SELECT 1 \vINTO t"},
      {"a number that runs into a word", "SELECT 1FOR UPDATE"},
      {"a parameter that runs into a word", "SELECT $1INTO t"},
      {"a backslash outside of strings", "SELECT 1 \\; DELETE FROM t"},
      {"a control character", "SELECT 1 \x01"},
      {"a lone dollar", "SELECT $x"},
      {"WITH that goes nowhere", "WITH a AS (SELECT 1)"},
      {"two statements of which one is none", "SELECT 1; SELEKT 2"},
      {"GROUP BY ALL of 19", "WITH a AS (SELECT 1) SELECT b FROM t GROUP BY ALL"},
      {"an unknown command", "FROBNICATE t"},
      {"BEGIN with a tail", "BEGIN foo"},
      {"COMMIT with a tail", "COMMIT AND"},
      {"a prepared transaction without a name", "PREPARE TRANSACTION x"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Classified classified = classify(row.sql);
    REQUIRE(classified.statements.size() == 1);
    CHECK(classified.statements[0].kind == Kind::unparsable);
    CHECK(flags_of(classified.statements[0]) == unknown_flags);
    CHECK_FALSE(classified.is_read());
    CHECK(classified.might_end_transaction());
    CHECK(classified.statements[0].offset + classified.statements[0].length <= row.sql.size());
  }
}

TEST_CASE("classify: newer syntax than the grammar's is a write where its first word says so",
          "[F6][proxy][statements]") {
  for (const char* sql : {"MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED BY SOURCE THEN "
                          "DELETE RETURNING merge_action()",
                          "INSERT INTO t VALUES (1) RETURNING WITH (OLD AS o) o.*"}) {
    INFO(sql);
    const Classified classified = classify(sql);
    CHECK(classified.statements.at(0).kind == Kind::write);
    CHECK(classified.single);
  }
  CHECK(classify("VACUUM (ONLY_DATABASE_STATS)").statements.at(0).kind == Kind::must_run_alone);
  CHECK(classify("VACUUM ONLY t").statements.at(0).kind == Kind::must_run_alone);
  CHECK(classify("SELECT 0x1F, 1_000").statements.at(0).kind == Kind::provably_read);
}

TEST_CASE("classify: strings with backslashes depend on a setting that must be known",
          "[F6][proxy][statements]") {
  Settings off;
  off.standard_conforming_strings = ConformingStrings::off;
  Settings unknown;
  unknown.standard_conforming_strings = ConformingStrings::unknown;
  const std::string hidden = "SELECT 'a\\'; DELETE FROM t; --'";
  const std::string shown = "SELECT 'a\\', 1";
  for (const Settings& settings : {off, unknown}) {
    CHECK(classify(hidden, settings).statements.at(0).kind == Kind::unparsable);
    CHECK(classify(shown, settings).statements.at(0).kind == Kind::unparsable);
    CHECK(classify("SELECT N'\\'", settings).statements.at(0).kind == Kind::unparsable);
    CHECK(classify("SELECT U&'\\0061'", settings).statements.at(0).kind == Kind::unparsable);
    CHECK(classify("SELECT 'plain', E'a\\'b', $$\\$$", settings).statements.at(0).kind ==
          Kind::provably_read);
  }
  CHECK(classify(shown).statements.at(0).kind == Kind::provably_read);
}

TEST_CASE("classify: encodings in which half a letter may be a quote or a backslash",
          "[F6][proxy][statements]") {
  for (const char* safe :
       {"UTF8", "utf-8", "UNICODE", "LATIN1", "iso-8859-15", "WIN1252", "windows-1251", "EUC_JP",
        "euc-kr", "SQL_ASCII", "KOI8R", "MULE_INTERNAL"})
    CHECK(encoding_is_ascii_safe(safe));
  for (const char* unsafe : {"SJIS", "Shift_JIS", "MSKANJI", "WIN932", "windows-932", "windows936",
                             "BIG5", "GBK", "WIN936", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004",
                             "", "no such", "a name that is longer than any"}) {
    INFO(unsafe);
    CHECK_FALSE(encoding_is_ascii_safe(unsafe));
  }
  Settings sjis;
  sjis.ascii_safe_encoding = false;
  // In SJIS 0x95 0x5c is one letter: the server sees the string end where bytes alone would see an
  // escaped quote.
  CHECK(classify("SELECT E'\x95\x5c'; DELETE FROM t; --'", sjis).statements.at(0).kind ==
        Kind::unparsable);
  CHECK(classify("SELECT 'plain'", sjis).statements.at(0).kind == Kind::provably_read);
  // Bytes that are no UTF-8 are letters to the lexer and the server's business.
  CHECK(classify("SELECT \xff\xfe FROM t").statements.at(0).kind == Kind::provably_read);
  CHECK(classify("SELECT pg_not\xdd"
                 "fy('a', 'b')")
            .statements.at(0)
            .read_only_hole);
}

TEST_CASE("classify: hostile sizes and depths end in time and on a small stack",
          "[F6][proxy][statements]") {
  std::thread([] {}).join();
  const std::vector<std::string> rows = {
      "SELECT 1" + repeated("+1", 100'000),
      "WITH a AS (SELECT 1) SELECT 1" + repeated("+1", 100'000),
      "(SELECT " + repeated("NOT ", 50'000) + "true)",
      "(SELECT " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + ")",
      repeated("(", 100'000),
      repeated("WITH a AS (", 10'000) + "SELECT 1",
      "(SELECT " + repeated("CASE WHEN true THEN ", 20'000) + "1" + repeated(" END", 20'000) + ")",
      "(SELECT a" + repeated("[1]", 100'000) + ")",
      "EXPLAIN " + repeated("ANALYZE EXPLAIN ", 10'000) + "SELECT 1",
      "PREPARE a AS " + repeated("PREPARE a AS ", 10'000) + "SELECT 1",
      "COPY " + repeated("(COPY ", 10'000),
      repeated("/*", 100'000),
      repeated("SELECT 1;", 50'000),
      repeated(";", 300'000),
      repeated("'", 99'999),
      repeated("$a", 100'000),
      "SELECT " + repeated("$$", 99'999),
      "SELECT '" + std::string(10u << 20, 'x') + "'",
      std::string(10u << 20, 'x'),
      std::string(20u << 20, ' '),
      "(" + repeated("SELECT 1 UNION ", 100'000) + "SELECT 1)",
  };
  // A stack a fifth of what a thread usually has.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 400 * 1024);
  pthread_t thread{};
  struct Work {
    const std::vector<std::string>& rows;
    std::size_t statements = 0;
  } work{rows};
  const auto run = [](void* argument) -> void* {
    auto& todo = *static_cast<Work*>(argument);
    for (const std::string& row : todo.rows) todo.statements += classify(row).statements.size();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &work) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(work.statements >= rows.size());

  // Beyond the grammar's bound a plain write is still known, anything else is not.
  const std::string big(2u << 20, 'x');
  const Classified insert = classify("INSERT INTO t VALUES ('" + big + "')");
  CHECK(insert.statements.at(0).kind == Kind::write);
  CHECK(insert.single);
  CHECK(classify("(SELECT '" + big + "')").statements.at(0).kind == Kind::unparsable);
  CHECK(classify("INSERT INTO t VALUES ('" + big + "'); COMMIT").statements.at(0).kind ==
        Kind::unparsable);
  const Classified many = classify("INSERT INTO t VALUES (1)" + repeated(",(1)", 150'000));
  CHECK(many.statements.at(0).kind == Kind::write);
  CHECK(many.single);
  CHECK_FALSE(classify("SELECT 1" + repeated(",1", 150'000)).is_read());
  CHECK_FALSE(classify("INSERT INTO t VALUES (1)" + repeated(",(1)", 150'000) + "; COMMIT").single);
  CHECK(classify(std::string(17u << 20, ' ') + "SELECT 1").statements.at(0).kind ==
        Kind::unparsable);
}

TEST_CASE("classify: threads do not disturb each other", "[proxy][statements]") {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&wrong, i] {
      Cache cache;
      for (int round = 0; round < 200; ++round) {
        if (cache
                .classify("WITH a AS (SELECT " + std::to_string(round % 7 + i) +
                          ") SELECT * FROM a")
                ->is_read() != true)
          ++wrong;
        if (cache.classify("BEGIN; DELETE FROM t; COMMIT")->statements.size() != 3) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("cache: keeps what cost the grammar and forgets what was used longest ago",
          "[proxy][statements]") {
  Cache cache({3, 1000, 200});
  const auto text = [](int i) {
    return "WITH a AS (SELECT " + std::to_string(i) + ") SELECT * FROM a";
  };
  const auto first = cache.classify(text(1));
  CHECK(cache.classify(text(1)) == first);
  const auto second = cache.classify(text(2));
  cache.classify(text(3));
  CHECK(cache.classify(text(1)) == first);
  cache.classify(text(4));
  CHECK(cache.entries() == 3);
  CHECK(cache.classify(text(1)) == first);
  CHECK(cache.classify(text(2)) != second);
  // Plain texts and long ones take no place.
  cache.classify("SELECT 1");
  cache.classify("(SELECT '" + std::string(300, 'x') + "')");
  CHECK(cache.entries() == 3);
  // Settings are part of the text.
  const std::string string = "BEGIN; SELECT '\\'";
  CHECK(cache.classify(string)->statements.size() == 2);
  Settings off;
  off.standard_conforming_strings = ConformingStrings::off;
  CHECK(cache.classify(string, off)->statements.size() == 1);
  // Bytes are bounded too.
  Cache small({100, 100, 200});
  for (int i = 0; i < 50; ++i) {
    small.classify(text(i));
    CHECK(small.bytes() <= 100);
  }
}

TEST_CASE("classify: what declares scope and term is told apart from what may do more",
          "[F2][F6][proxy]") {
  const auto one = [](std::string_view sql) { return classify(sql).statements.at(0); };
  for (const std::string_view sql :
       {"SELECT set_config('termgate.scope', 'a', true), set_config('termgate.term', $1, true)",
        "SELECT pg_catalog.set_config('TERMGATE.term', '5', false) AS x",
        "SELECT \"pg_catalog\".\"set_config\"('termgate.scope', 'a', true)",
        "select set_config ( 'termgate.scope' , $$a$$ , 't' ) ;"}) {
    CAPTURE(sql);
    CHECK(one(sql).only_declares);
    CHECK(one(sql).exactly_declares);
  }
  // A read that declares on its way; a cast is looked up by the search_path.
  for (const std::string_view sql :
       {"SELECT (SELECT set_config('termgate.scope', 'a', true))",
        "SELECT set_config('termgate.term', v, true) FROM t",
        "SELECT set_config('termgate.term', $1::text, true)",
        "WITH c AS (SELECT set_config('termgate.scope', 'a', true)) SELECT * FROM c",
        "SELECT lower(set_config('termgate.scope', 'a', true))"}) {
    CAPTURE(sql);
    CHECK(one(sql).only_declares);
    CHECK_FALSE(one(sql).exactly_declares);
  }
  for (const std::string_view sql :
       {"SELECT set_config('termgate.scope', 'a', true), wr()",
        "SELECT app.set_config('termgate.scope', 'a', true)", "SELECT set_config(name, 'a', true)",
        "SELECT set_config('termgate.scope', 'a', true), set_config('role', 'b', true)",
        "SELECT set_config('termgate.scope', 'a', true), nextval('s')",
        "SELECT set_config('termgate.scope', 'a', true) INTO t",
        "SELECT set_config('termgate.scope', 'a', true) FROM t FOR UPDATE",
        "SELECT set_config('termgate.scope', 'x'::app.dom, true)",
        "SELECT set_config('termgate.scope', 'a' &&& 'b', true)"}) {
    CAPTURE(sql);
    CHECK_FALSE(one(sql).only_declares);
    CHECK(one(sql).declares | one(sql).calls_unknown);
  }
  for (const std::string_view sql :
       {"INSERT INTO t SELECT set_config('termgate.scope', 'a', true)",
        "INSERT INTO t VALUES (f(1))", "UPDATE t SET a = f(a)", "DELETE FROM t WHERE f(a)",
        "INSERT INTO app.t AS x (a, b) VALUES (1, f(2))", "SELECT 1 OPERATOR(app.+) 2",
        "SELECT 'x'::dom", "EXPLAIN SELECT f()", "SELECT CAST('x' AS dom)",
        "SELECT CAST((SELECT CAST(1 AS int)) AS app.dom)",
        "SELECT cast(CASE WHEN a THEN (b) END AS \"Dom\")", "SELECT dom 'x'", "SELECT app.dom 'x'",
        "SELECT a FROM t WHERE b = \"Dom\" $$x$$", "SELECT CAST(CAST(1 AS dom) AS text)"}) {
    CAPTURE(sql);
    CHECK(one(sql).calls_unknown | one(sql).declares);
  }
  for (const std::string_view sql :
       {"INSERT INTO app.t (a, b) VALUES (1, 'x')", "INSERT INTO t VALUES (1, now())",
        "UPDATE t SET a = a + 1 WHERE b IN (1, 2)", "DELETE FROM t WHERE a = '1'::bigint",
        "SELECT count(*), a || 'x' FROM t WHERE b @> '{}'::pg_catalog.jsonb",
        "SELECT CAST(a AS numeric(10, 2)), CAST((b) AS pg_catalog.text) FROM t",
        "SELECT DATE '2026-01-01', timestamp with time zone '2026-01-01', double precision '1', "
        "pg_catalog.date '2026-01-01', character "
        "varying 'x' FROM t WHERE a LIKE 'x' ESCAPE 'y' OR a NOT IN ('x') AND 'x' < a",
        "SELECT CASE WHEN a THEN 'x' ELSE 'y' END, a AT TIME ZONE 'UTC', interval '1 day', E'x', "
        "'a' 'b' FROM t LIMIT '1'"}) {
    CAPTURE(sql);
    CHECK_FALSE(one(sql).calls_unknown);
    CHECK_FALSE(one(sql).declares);
  }
}

TEST_CASE(
    "classify: a word that a function or a type can have as its name is the grammar's only where "
    "it must be",
    "[F6][proxy]") {
  const auto one = [](std::string_view sql) { return classify(sql).statements.at(0); };
  for (const std::string word :
       {"by",     "over",   "filter",  "sets",         "partition", "recursive",
        "rollup", "cube",   "within",  "materialized", "explain",   "varying",
        "is",     "like",   "ilike",   "similar",      "join",      "of",
        "set",    "escape", "uescape", "zone"}) {
    CAPTURE(word);
    for (const std::string before :
         {"SELECT ", "SELECT 1, ", "SELECT 1 + ", "SELECT NOT ", "SELECT CASE WHEN ",
          "SELECT * FROM t WHERE a = 1 AND ", "SELECT * FROM t ORDER BY ", "SELECT * FROM t LIMIT ",
          "SELECT ("}) {
      const std::string end = before.back() == '(' ? ")" : "";
      CHECK(one(before + word + "('x')" + end).calls_unknown);
      CHECK(one(before + word + " 'x'" + end).calls_unknown);
    }
    CHECK(one("SELECT sum(a) OVER (ORDER BY b ROWS " + word + "('x') PRECEDING) FROM t")
              .calls_unknown);
  }
  for (const char* sql :
       {"SELECT a FROM t WHERE b LIKE 'x' AND c NOT LIKE 'y' OR t.d ILIKE ('z')",
        "SELECT a FROM t WHERE name LIKE 'x' ESCAPE '!'",
        "SELECT a FROM t WHERE (a || 'x') NOT ILIKE 'y' ESCAPE '!'",
        "SELECT a LIKE $1, \"b\" LIKE 'x', 'y' LIKE 'x', c[1] LIKE 'x' FROM t",
        "SELECT sum(a) OVER (PARTITION BY b ORDER BY 'x'), count(*) FILTER (WHERE a) OVER (ORDER "
        "BY (c)) FROM t",
        "SELECT a FROM t GROUP BY GROUPING SETS ((a), ()) ORDER BY (a)",
        "WITH q AS MATERIALIZED (SELECT 1), r AS NOT MATERIALIZED (SELECT 2) SELECT * FROM q, r",
        "SELECT a FROM t JOIN (SELECT 1) q ON true LEFT JOIN (SELECT 2) r ON true NATURAL JOIN "
        "(SELECT 3) s",
        "SELECT a FROM (SELECT 1) t JOIN (SELECT 2) u ON true",
        "SELECT CAST('x' AS character varying(3)), character varying 'x', bit varying(3) '101'",
        "SELECT a AT TIME ZONE 'UTC' FROM t", "SELECT U&'x' UESCAPE '!'"}) {
    CAPTURE(sql);
    CHECK_FALSE(one(sql).calls_unknown);
  }
}

TEST_CASE("classify: DO whose words are spelt by escapes may end the transaction", "[F5][proxy]") {
  const auto one = [](std::string_view sql) { return classify(sql).statements.at(0); };
  CHECK(one("DO E'BEGIN COM\\115IT; END'").holds_transaction_words);
  CHECK(one("DO U&'BEGIN COM!004dIT; END' UESCAPE '!'").holds_transaction_words);
  CHECK_FALSE(
      one("DO $$BEGIN PERFORM regexp_replace('a', '\\d', ''); END$$").holds_transaction_words);
  CHECK_FALSE(one("DO 'BEGIN END'").holds_transaction_words);
  CHECK_FALSE(one("DO 'BEGIN PERFORM f(''x''); END' LANGUAGE plpgsql").holds_transaction_words);
  CHECK_FALSE(one("DO LANGUAGE 'plpgsql' $a$BEGIN END$a$").holds_transaction_words);
  // A string may go on in the next line, and words of other languages are not known.
  CHECK(one("DO 'BEGIN COMM'\n'IT; END'").holds_transaction_words);
  CHECK(one("DO 'BEGIN COMM' \t\r 'IT; END'").holds_transaction_words);
  CHECK(one("DO 'BEGIN COMM' -- x\n'IT; END'").holds_transaction_words);
  CHECK(one("DO $$BEGIN COMM\xc4\xb0T; END$$").holds_transaction_words);
  CHECK(one("DO $$BEGIN COMM\xddT; END$$").holds_transaction_words);
  CHECK_FALSE(one("DO $$BEGIN -- d\xc3\xa9j\xc3\xa0\nEND$$").holds_transaction_words);
  CHECK(one("DO LANGUAGE plperl $$my $f = 'spi_com' . 'mit'; &$f()$$").holds_transaction_words);
  CHECK(
      one("DO $$my $f = 'spi_com' . 'mit'; &$f()$$ LANGUAGE 'plp'\n'erl'").holds_transaction_words);
  CHECK(one("SELECT set_config('termgate.'\n'term', '3', false), f()").declares);
  CHECK(one("SELECT set_config('termg'\n'ate.term', '3', false), f()").declares);
}

TEST_CASE("classify: a comment declares for the statement that it stands at", "[F2][proxy]") {
  const auto scopes = [](std::string_view sql) {
    std::vector<std::string> result;
    for (const Statement& statement : classify(sql).statements)
      result.push_back(!statement.declared.problem.empty() ? "!"
                       : statement.declared.scope          ? statement.declared.scope->name()
                                                           : "");
    return result;
  };
  using Scopes = std::vector<std::string>;
  CHECK(scopes("/*termgate.scope='a'*/ INSERT INTO t VALUES (1)") == Scopes{"a"});
  CHECK(scopes("INSERT INTO t VALUES (1); /*termgate.scope='a'*/ INSERT INTO t VALUES (2)") ==
        Scopes{"", "a"});
  CHECK(scopes("INSERT INTO t VALUES (1) /*termgate.scope='a'*/; INSERT INTO t VALUES (2)") ==
        Scopes{"a", ""});
  CHECK(scopes("/*termgate.scope='a'*/ SELECT 1; /*x*/ -- y\n /*termgate.scope='b'*/ SELECT 2; "
               "SELECT 3 /*termgate.scope='c'*/") == Scopes{"a", "b", "c"});
  CHECK(scopes("SELECT 1; SELECT 2; /*termgate.scope='a'*/") == Scopes{"", "a"});
  CHECK(scopes("SELECT 1; /*termgate.scope='a'*/ /*termgate.scope='b'*/ SELECT 2") ==
        Scopes{"", "!"});
  CHECK(scopes("/*termgate.scope='a'*/ BEGIN; SELECT 1; /*termgate.scope='b'*/ SELECT 2; COMMIT") ==
        Scopes{"a", "a", "b", "a"});
  CHECK(scopes("BEGIN; SELECT 1; COMMIT /*termgate.scope='a'*/") == Scopes{"a", "a", "a"});
  CHECK(scopes("PREPARE p AS /*termgate.scope='a'*/ SELECT 1") == Scopes{"a"});
  CHECK(scopes("/*termgate.scope='b'*/ PREPARE p AS /*termgate.scope='a'*/ SELECT 1") ==
        Scopes{"!"});
}
