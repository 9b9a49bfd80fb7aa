// What a text from the network may not touch, tried by a stream that may write; and what the guard
// finds of each kind of statement.
#include <catch2/catch.hpp>

#include <filesystem>

#include "support/sqlite_file_lab.hpp"

using namespace sqlite_file_lab;
using termgate::sqlite_file::Facts;

// Long: the table of its cases.
TEST_CASE("sqlite_file: the network reaches neither the file system nor the fences",
          "[F3][F6][sqlite_file]") {
  Lab lab;
  Stream stream(lab.engine, with("s", 5));
  REQUIRE(stream.sequence("CREATE TABLE t (id int); INSERT INTO t VALUES (1)").empty());
  const std::string folder = std::filesystem::path(lab.file.path).parent_path();
  for (const std::string& sql : {
           "ATTACH '" + folder + "/b.db' AS b",
           std::string("ATTACH ':memory:' AS b"),
           std::string("DETACH main"),
           "VACUUM INTO '" + folder + "/c.db'",
           "VACUUM main INTO '" + folder + "/c.db'",
           "VACUUM \"main\" INTO '" + folder + "/c.db'",
           "/* x */ VACUUM/**/INTO '" + folder + "/c.db'",
           std::string("PRAGMA journal_mode = DELETE"),
           std::string("PRAGMA journal_mode(off)"),
           std::string("PRAGMA writable_schema = ON"),
           std::string("PRAGMA trusted_schema = ON"),
           std::string("PRAGMA temp_store_directory = '/tmp'"),
           std::string("PRAGMA database_list"),
           std::string("PRAGMA wal_checkpoint"),
           std::string("PRAGMA main.locking_mode = EXCLUSIVE"),
           std::string("PRAGMA recursive_triggers = OFF"),
           std::string("PRAGMA hard_heap_limit = 1"),
           std::string("PRAGMA schema_version = 7"),
           std::string("SELECT load_extension('x')"),
           std::string("SELECT readfile('/etc/passwd')"),
           std::string("SELECT writefile('x', 'y')"),
           std::string("SELECT fts3_tokenizer('simple')"),
           std::string("SELECT * FROM pragma_database_list"),
           std::string("SELECT * FROM pragma_optimize"),
           std::string("SELECT data FROM sqlite_dbpage"),
           std::string("SELECT * FROM dbstat"),
           std::string("UPDATE sqlite_master SET sql = ''"),
           std::string("DELETE FROM sqlite_schema"),
           std::string("UPDATE termgate_fences SET term = 1"),
           std::string("UPDATE termgate_fences SET untrusted = 0"),
           std::string("UPDATE termgate_incarnation SET untrusted = 0"),
           std::string("DELETE FROM termgate_audit"),
           std::string("INSERT INTO termgate_resets VALUES (1)"),
           std::string("DELETE FROM termgate_fences"),
           std::string("INSERT OR REPLACE INTO termgate_fences(scope, term) VALUES ('s', 1)"),
           std::string("DROP TABLE termgate_fences"),
           std::string("ALTER TABLE termgate_fences RENAME TO x"),
           std::string("ALTER TABLE termgate_fences ADD COLUMN x"),
           std::string("CREATE INDEX i ON termgate_fences (term)"),
           std::string("SELECT termgate_reset_fence('s', 1, 'a', 'r')"),
           std::string("SELECT termgate_uninstall()"),
           std::string("SELECT termgate_init()"),
           std::string("SELECT termgate_force_release('s', 'a', 'r')"),
           std::string("SELECT termgate_set_setting('check_wait_ms', '1')"),
           std::string("SELECT termgate_declare_restored('s', 1, 'a', 'r')"),
           std::string("SELECT termgate_prune('s', 5)"),
           std::string("SELECT termgate_unprotect('t')"),
           std::string("CREATE TRIGGER termgate_x AFTER INSERT ON t BEGIN SELECT 1; END"),
           std::string("CREATE TRIGGER x AFTER INSERT ON termgate_fences BEGIN SELECT 1; END"),
           std::string("CREATE VIEW termgate_v AS SELECT 1"),
           std::string("CREATE TABLE termgate_t (x)"),
           std::string("DROP TRIGGER termgate_fences_no_delete"),
           // The authorizer is not told these names.
           std::string("ALTER TABLE t RENAME TO termgate_x"),
           std::string("ALTER TABLE t RENAME TO /* */ \"Termgate_x\" -- y"),
           std::string("ALTER TABLE t RENAME TO [termgate_x]"),
           std::string("CREATE VIRTUAL TABLE v USING fts4(x, compress=termgate_unprotect, "
                       "uncompress=termgate_unprotect)"),
           std::string("CREATE VIRTUAL TABLE v USING fts3(x, COMPRESS=\"lower\")"),
           std::string("CREATE VIRTUAL TABLE v USING fts5(name, content='Termgate_Settings')"),
           // The name of what asks is the client's own choice.
           std::string("WITH termgate_fences_insert AS (SELECT termgate_reset_fence('s', 1, 'a', "
                       "'r')) SELECT * FROM termgate_fences_insert"),
           std::string("SELECT * FROM (SELECT termgate_uninstall()) AS termgate_fences_update"),
           std::string(
               "WITH termgate_x AS (SELECT * FROM termgate_settings) SELECT * FROM termgate_x"),
           std::string("CREATE VIRTUAL TABLE termgate USING fts5(x)"),
           std::string("CREATE TEMP TABLE x (y int)"),
           std::string("CREATE TEMP VIEW x AS SELECT 1"),
           std::string("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END"),
           std::string("CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')"),
           std::string("CREATE VIRTUAL TABLE v USING dbstat"),
           std::string("CREATE VIRTUAL TABLE v USING termgate_transaction"),
           std::string("SELECT * FROM termgate_settings"),
           std::string("/* x */ ATTACH 'x' AS y"),
       }) {
    CAPTURE(sql);
    const std::string answer = stream.ask(sql);
    CHECK(answer.starts_with("! "));
    CHECK(stream.session.is_autocommit());
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder),
                      std::filesystem::directory_iterator()) == 3);  // the file, -wal, -shm
  CHECK(stream.ask("SELECT term FROM termgate_fences WHERE scope = 's'") == "term 5");
  SECTION("nor through a trigger or a view of its own") {
    stream.ask(
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT termgate_reset_fence('s', 1, 'a', 'r'); "
        "END");
    CHECK(stream.ask("INSERT INTO t VALUES (2)").starts_with("! SQLITE_AUTH"));
    stream.ask("CREATE TRIGGER y AFTER DELETE ON t BEGIN UPDATE termgate_fences SET term = 1; END");
    CHECK(stream.ask("DELETE FROM t").starts_with("! SQLITE_AUTH"));
    stream.ask("CREATE VIEW w AS SELECT termgate_seal('s', 50)");
    Stream reader(lab.engine, with("s", 5));
    reader.permit.access = hrana::Access::read_only;
    CHECK(reader.ask("SELECT * FROM w").starts_with("! "));
    CHECK(stream.ask("SELECT term FROM termgate_fences WHERE scope = 's'") == "term 5");
  }
  SECTION("what tells of the schema stays open") {
    CHECK(stream.ask("SELECT name FROM pragma_table_info('t')") == "name id");
    CHECK(stream.ask("PRAGMA journal_mode") == "journal_mode wal");
    CHECK(stream.ask("PRAGMA integrity_check") == "integrity_check ok");
    CHECK(stream.ask("CREATE VIRTUAL TABLE f USING fts5(body)").empty());
    CHECK(stream.ask("INSERT INTO f VALUES ('one two')").empty());
    CHECK(stream.ask("SELECT body FROM f WHERE f MATCH 'two'") == "body one two");
    CHECK(stream.ask("ALTER TABLE t RENAME TO u").empty());
    CHECK(stream.ask("ALTER TABLE u RENAME COLUMN id TO termgate_id").empty());
    CHECK(stream.ask("ANALYZE").empty());
    CHECK(stream.ask("ANALYZE termgate_fences").starts_with("! SQLITE_AUTH"));
  }
}

TEST_CASE("sqlite_file: a statement is judged by what SQLite makes of it", "[F1][sqlite_file]") {
  Lab lab;
  Stream setup(lab.engine, with("s", 5));
  REQUIRE(
      setup
          .sequence(
              "CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE VIRTUAL TABLE f USING fts5(x)")
          .empty());
  const auto connection = lab.engine->borrow(false);
  struct Row {
    const char* sql;
    Facts::Kind kind;
    bool writes, names_claim;
  };
  using Kind = Facts::Kind;
  // clang-format off
  const Row rows[] = {
      {"SELECT 1", Kind::plain, false, false},
      {"WITH x AS (SELECT 1) INSERT INTO t SELECT 1, 2 FROM x", Kind::plain, true, false},
      {"INSERT INTO t VALUES (1, 2) RETURNING id", Kind::plain, true, false},
      {"INSERT INTO f VALUES ('a')", Kind::plain, true, false},
      {"CREATE TABLE IF NOT EXISTS t (x)", Kind::plain, true, false},
      {"EXPLAIN DELETE FROM t", Kind::plain, false, false},
      {"EXPLAIN QUERY PLAN DELETE FROM t", Kind::plain, false, false},
      {"EXPLAIN PRAGMA foreign_keys = OFF", Kind::plain, false, false},
      {"EXPLAIN VACUUM", Kind::plain, false, false},
      {"EXPLAIN BEGIN", Kind::plain, false, false},
      {"ANALYZE", Kind::plain, true, false},
      {"REINDEX", Kind::plain, true, false},
      {"PRAGMA optimize", Kind::plain, true, false},
      {"PRAGMA user_version = 5", Kind::plain, true, false},
      {"PRAGMA user_version", Kind::plain, false, false},
      {"PRAGMA application_id(7)", Kind::plain, true, false},
      {"PRAGMA table_info(t)", Kind::plain, false, false},
      {"PRAGMA foreign_keys = OFF", Kind::setting, false, false},
      {"PRAGMA main.query_only(1)", Kind::setting, false, false},
      {"PRAGMA defer_foreign_keys", Kind::setting, false, false},
      {"PRAGMA synchronous = OFF", Kind::ignored, false, false},
      {"PRAGMA busy_timeout = 5000", Kind::ignored, false, false},
      {"SELECT termgate_seal('s', 6)", Kind::plain, true, true},
      {"SELECT termgate_check_term('s', 6)", Kind::plain, true, true},
      {"SELECT termgate_job_start('j', 's', 'o', 6, NULL)", Kind::plain, true, false},
      {"INSERT INTO t SELECT termgate_check_term('s', 6), 1", Kind::plain, true, false},
      {"SELECT termgate_declare('s', 6)", Kind::plain, false, false},
      {"SELECT termgate_fence('s')", Kind::plain, false, false},
      {"BEGIN", Kind::begin, false, false},
      {"begin deferred transaction", Kind::begin, false, false},
      {"COMMIT", Kind::commit, false, false},
      {"END TRANSACTION", Kind::commit, false, false},
      {"ROLLBACK", Kind::rollback, false, false},
      {"SAVEPOINT a", Kind::savepoint, false, false},
      {"RELEASE a", Kind::release, false, false},
      {"ROLLBACK TRANSACTION TO SAVEPOINT a", Kind::rollback_to, false, false},
      {"VACUUM", Kind::vacuum, true, false},
      {"vacuum main;", Kind::vacuum, true, false},
      {"-- x\n ; /* y */ VACUUM", Kind::vacuum, true, false},
  };
  // clang-format on
  for (const Row& row : rows) {
    CAPTURE(row.sql);
    const auto prepared = connection->prepare(row.sql);
    CHECK(prepared.facts().kind == row.kind);
    CHECK(prepared.facts().writes == row.writes);
    CHECK(prepared.facts().names_claim == row.names_claim);
  }
  for (const char* sql :
       {"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE TRANSACTION", "/**/begin/**/immediate"})
    CHECK(connection->prepare(sql).facts().locks);
  for (const char* sql :
       {"BEGIN TRANSACTION READONLY", "BEGIN READONLY", "begin readonly;", "BEGIN -- x\n READONLY"})
    CHECK(connection->prepare(sql).facts().read_only_begin);
  CHECK_THROWS_WITH(connection->prepare("BEGIN CONCURRENT"), Catch::Contains("not supported"));
  CHECK_THROWS(connection->prepare("BEGIN READONLY READONLY READONLY"));
  CHECK(connection->prepare("SAVEPOINT \"A b\"").facts().name == "A b");
  CHECK_THROWS_WITH(connection->prepare(std::string_view("SELECT 1\0; ATTACH 'x' AS y", 26)),
                    Catch::Contains("zero byte"));
}
