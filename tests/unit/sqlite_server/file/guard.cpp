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
  for (const char* form : {
           "ATTACH '{0}/b.db' AS b",
           "ATTACH ':memory:' AS b",
           "DETACH main",
           "VACUUM INTO '{0}/c.db'",
           "VACUUM main INTO '{0}/c.db'",
           "VACUUM \"main\" INTO '{0}/c.db'",
           "/* x */ VACUUM/**/INTO '{0}/c.db'",
           "PRAGMA journal_mode = DELETE",
           "PRAGMA journal_mode(off)",
           "PRAGMA writable_schema = ON",
           "PRAGMA trusted_schema = ON",
           "PRAGMA temp_store_directory = '/tmp'",
           "PRAGMA database_list",
           "PRAGMA wal_checkpoint",
           "PRAGMA main.locking_mode = EXCLUSIVE",
           "PRAGMA recursive_triggers = OFF",
           "PRAGMA hard_heap_limit = 1",
           "PRAGMA schema_version = 7",
           "SELECT load_extension('x')",
           "SELECT readfile('/etc/passwd')",
           "SELECT writefile('x', 'y')",
           "SELECT fts3_tokenizer('simple')",
           "SELECT * FROM pragma_database_list",
           "SELECT * FROM pragma_optimize",
           "SELECT data FROM sqlite_dbpage",
           "SELECT * FROM dbstat",
           "UPDATE sqlite_master SET sql = ''",
           "DELETE FROM sqlite_schema",
           "UPDATE termgate_fences SET term = 1",
           "UPDATE termgate_fences SET untrusted = 0",
           "UPDATE termgate_incarnation SET untrusted = 0",
           "DELETE FROM termgate_audit",
           "INSERT INTO termgate_resets VALUES (1)",
           "DELETE FROM termgate_fences",
           "INSERT OR REPLACE INTO termgate_fences(scope, term) VALUES ('s', 1)",
           "DROP TABLE termgate_fences",
           "ALTER TABLE termgate_fences RENAME TO x",
           "ALTER TABLE termgate_fences ADD COLUMN x",
           "CREATE INDEX i ON termgate_fences (term)",
           "SELECT termgate_reset_fence('s', 1, 'a', 'r')",
           "SELECT termgate_uninstall()",
           "SELECT termgate_init()",
           "SELECT termgate_force_release('s', 'a', 'r')",
           "SELECT termgate_set_setting('check_wait_ms', '1')",
           "SELECT termgate_declare_restored('s', 1, 'a', 'r')",
           "SELECT termgate_prune('s', 5)",
           "SELECT termgate_unprotect('t')",
           "CREATE TRIGGER termgate_x AFTER INSERT ON t BEGIN SELECT 1; END",
           "CREATE TRIGGER x AFTER INSERT ON termgate_fences BEGIN SELECT 1; END",
           "CREATE VIEW termgate_v AS SELECT 1",
           "CREATE TABLE termgate_t (x)",
           "DROP TRIGGER termgate_fences_no_delete",
           // The authorizer is not told these names.
           "ALTER TABLE t RENAME TO termgate_x",
           "ALTER TABLE t RENAME TO /* */ \"Termgate_x\" -- y",
           "ALTER TABLE t RENAME TO [termgate_x]",
           "CREATE VIRTUAL TABLE v USING fts4(x, compress=termgate_unprotect, "
           "uncompress=termgate_unprotect)",
           "CREATE VIRTUAL TABLE v USING fts3(x, COMPRESS=\"lower\")",
           "CREATE VIRTUAL TABLE v USING fts5(name, content='Termgate_Settings')",
           // The name of what asks is the client's own choice.
           "WITH termgate_fences_insert AS (SELECT termgate_reset_fence('s', 1, 'a', "
           "'r')) SELECT * FROM termgate_fences_insert",
           "SELECT * FROM (SELECT termgate_uninstall()) AS termgate_fences_update",
           "WITH termgate_x AS (SELECT * FROM termgate_settings) SELECT * FROM termgate_x",
           "CREATE VIRTUAL TABLE termgate USING fts5(x)",
           "CREATE TEMP TABLE x (y int)",
           "CREATE TEMP VIEW x AS SELECT 1",
           "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
           "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
           "CREATE VIRTUAL TABLE v USING dbstat",
           "CREATE VIRTUAL TABLE v USING termgate_transaction",
           "SELECT * FROM termgate_settings",
           "/* x */ ATTACH 'x' AS y",
       }) {
    const std::string sql = fmt::format(fmt::runtime(form), folder);
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
