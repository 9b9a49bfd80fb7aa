// A protected or adopted table of an attached file is never judged by the main database's fences:
// whatever is attached, under whatever name, and whatever the main database holds, a write to it is
// TG005. The main database's own tables work as ever beside attached files.
#include "support.hpp"

#include <fstream>

#include <fmt/format.h>

#include <sql/statements.hpp>

namespace {

using namespace sqlite_test;
using Catch::Contains;
using Catch::StartsWith;

constexpr const char* tables =
    "CREATE TABLE acc (id INTEGER PRIMARY KEY, v TEXT);"
    "CREATE TABLE rowed (id INTEGER PRIMARY KEY, s TEXT NOT NULL, k TEXT UNIQUE, v TEXT);"
    "CREATE TABLE anyone (v TEXT);"
    "CREATE TABLE taken (s TEXT, t INTEGER); CREATE INDEX taken_st ON taken (s, t);"
    "CREATE TABLE free (v TEXT);";

// A file with a table of each kind and the fence of 'billing' at `term`.
void make(const std::string& path, int term) {
  Installed db(path);
  db.must(tables);
  db.must("SELECT termgate_seal('billing', " + std::to_string(term) + ")");
  db.must("SELECT termgate_declare('billing', " + std::to_string(term) + ")");
  db.must(
      "SELECT termgate_protect('acc', NULL, 'billing'), termgate_protect('rowed', 's'), "
      "termgate_protect('anyone', NULL, '*')");
  db.must("SELECT termgate_adopt('taken', 's', 't')");
  db.must(
      "INSERT INTO acc (v) VALUES ('kept'); INSERT INTO rowed (s, k, v) VALUES ('billing', 'k', "
      "'kept'); INSERT INTO anyone VALUES "
      "('kept')");
  db.must("INSERT INTO taken VALUES ('billing', " + std::to_string(term) + ")");
}

std::string state(const std::string& path) {
  Db db(path);
  return db.must(
      "SELECT (SELECT group_concat(v) FROM acc) || ';' || (SELECT group_concat(v || k || s) FROM "
      "rowed) || ';' || (SELECT group_concat(v) "
      "FROM anyone) || ';' || (SELECT group_concat(s || t) FROM taken) || ';' || (SELECT "
      "group_concat(scope || term || untrusted) FROM "
      "termgate_fences) || ';' || (SELECT count(*) FROM termgate_audit)");
}

// Every way to write to a protected or adopted table, or to the fences, of the schema `x`.
std::vector<std::string> writes(const std::string& x) {
  const std::vector<std::string> forms = {
      "INSERT INTO {}.acc (v) VALUES ('stale')",
      "INSERT INTO {}.acc (id, v) VALUES (1, 'stale') ON CONFLICT (id) DO UPDATE SET v = 'stale'",
      "INSERT OR REPLACE INTO {}.acc VALUES (1, 'stale')",
      "INSERT OR IGNORE INTO {}.acc (v) VALUES ('stale')",
      "UPDATE {}.acc SET v = v || '!'",
      "UPDATE OR IGNORE {}.acc SET v = v || '!'",
      "UPDATE {}.acc SET v = 'stale' FROM (SELECT 1 AS n) WHERE id = n",
      "DELETE FROM {}.acc",
      "DELETE FROM {}.acc RETURNING id",
      "WITH n AS (SELECT 'stale' AS v) INSERT INTO {}.acc (v) SELECT v FROM n",
      "INSERT INTO {}.rowed (s, v) VALUES ('billing', 'stale')",
      "REPLACE INTO {}.rowed (s, k, v) VALUES ('billing', 'k', 'stale')",
      "UPDATE {}.rowed SET v = 'stale'",
      "DELETE FROM {}.rowed",
      "INSERT INTO {}.anyone VALUES ('stale')",
      "UPDATE {}.anyone SET v = 'stale'",
      "DELETE FROM {}.anyone",
      "INSERT INTO {}.taken VALUES ('billing', 99)",
      "INSERT INTO {}.taken VALUES ('other', 1)",
      "UPDATE {}.taken SET t = 99",
      "UPDATE {}.termgate_fences SET term = term + 1",
      "UPDATE {}.termgate_fences SET term = 1",
      "UPDATE {}.termgate_fences SET untrusted = 1",
      "INSERT INTO {}.termgate_fences (scope, term, raised_at, raised_by) VALUES ('new', 5, 0, "
      "'x')",
      "DELETE FROM {}.termgate_fences",
      "UPDATE {}.termgate_here SET mark = 1",
      "DELETE FROM {}.termgate_here",
  };
  std::vector<std::string> made;
  for (const std::string& form : forms) made.push_back(fmt::format(fmt::runtime(form), x));
  return made;
}

// How the transaction around the write is begun, and what it has passed by then.
const std::vector<std::string> openings = {
    "",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "BEGIN; INSERT INTO main.acc (v) VALUES ('mine')",
    "BEGIN IMMEDIATE; SELECT termgate_check_term('billing', {})",
    "BEGIN; SELECT termgate_check_term('billing', {}); SAVEPOINT s; INSERT INTO main.acc (v) "
    "VALUES "
    "('mine'); ROLLBACK TO s",
    "BEGIN; INSERT INTO x.free VALUES ('a write without fences')",
    "BEGIN; INSERT INTO x.free VALUES ('a write without fences'); SELECT "
    "termgate_check_term('billing', {})",
};

struct Main {
  const char* name;
  std::string path;
  int term;  // that it declares; 0: it has no layer 1
  std::string schema = "x";
};

TEST_CASE("attached: writes to another file's fenced tables are refused whatever main is",
          "[F1][F2][F3][sqlite]") {
  Folder folder;
  const std::string app = folder.file("app.db"), memory = ":memory:";
  make(app, 6);
  make(folder.file("other.db"), 5);
  make(folder.file("third.db"), 3);
  std::filesystem::copy_file(app, folder.file("copy.db"));
  int pair = 0;
  for (const Main& main : {
           Main{"another file with a lower fence of the scope", folder.file("other.db"), 5},
           Main{"a copy with the very same fence and content", folder.file("copy.db"), 6},
           Main{"in memory with layer 1", memory, 5},
           Main{"in memory without layer 1", memory, 0},
           Main{"the same file under a second name", app, 6, "\"Second Name\""},
       }) {
    INFO(main.name);
    Db db(main.path);
    if (main.term != 0) {
      install(db);
      if (main.path == memory) db.must("SELECT termgate_seal('billing', 5)");
      db.must(fmt::format("SELECT termgate_declare('billing', {})", main.term));
    }
    db.must("ATTACH '" + folder.file("third.db") + "' AS third; ATTACH ':memory:' AS a");
    db.must("ATTACH '" + app + "' AS " + main.schema);
    const std::string before = state(app), third = state(folder.file("third.db"));
    for (const std::string& write : writes("third")) {
      INFO(write);
      CHECK_THAT(db(write).error, StartsWith("TG005"));
    }
    for (const std::string& opening : openings) {
      // One file has one writer, whatever its names.
      if (main.path == app && opening != "") continue;
      if (main.path == memory && opening.find("main.acc") != std::string::npos) continue;
      if (main.term == 0 && opening.find("termgate_") != std::string::npos) continue;
      for (const std::string& write : writes(main.schema)) {
        // Each write with each opening beside the first main, with a quarter of them beside others.
        if (main.path != folder.file("other.db") && opening != "" && ++pair % 4 != 0) continue;
        INFO(opening << "; " << write);
        db.must(fmt::format(fmt::runtime(opening), main.term));
        CHECK_THAT(db(write).error, StartsWith("TG005"));
        if (sqlite3_get_autocommit(db.handle()) == 0) db.must("COMMIT");
      }
    }
    CHECK(state(app) == before);
    CHECK(state(folder.file("third.db")) == third);
  }
}

TEST_CASE("attached: a copy made while a connection had a mark in it is another file",
          "[F1][F2][sqlite]") {
  Folder folder;
  make(folder.file("app.db"), 6);
  Db db(folder.file("app.db"));
  db.must(
      "ATTACH ':memory:' AS m; SELECT termgate_declare('billing', 6); UPDATE acc SET v = 'marked'");
  std::filesystem::copy_file(folder.file("app.db"), folder.file("copy.db"));
  db.must("DETACH m; ATTACH '" + folder.file("copy.db") + "' AS x");
  REQUIRE(db.must("SELECT (SELECT mark FROM main.termgate_here) = (SELECT mark FROM "
                  "x.termgate_here)") == "1");
  CHECK_THAT(db("UPDATE x.acc SET v = 'stale'").error, StartsWith("TG005"));
  CHECK_THAT(db("BEGIN IMMEDIATE; UPDATE x.acc SET v = 'stale'").error, StartsWith("TG005"));
  CHECK_THAT(db("UPDATE main.acc SET v = 'mine'; UPDATE x.acc SET v = 'stale'").error,
             StartsWith("TG005"));
}

TEST_CASE("attached: a write reaches the other file by no detour", "[F1][F2][sqlite]") {
  struct Detour {
    const char* name;
    std::string made, write;
  };
  Folder folder;
  const std::string app = folder.file("app.db");
  const Detour detours[] = {
      {"a temporary trigger on a table of main",
       "CREATE TEMP TRIGGER detour AFTER INSERT ON main.free BEGIN INSERT INTO there (v) VALUES "
       "(NEW.v); END",
       "INSERT INTO main.free VALUES ('stale')"},
      {"a temporary trigger on the fenced table of main",
       "CREATE TEMP TRIGGER detour AFTER UPDATE ON main.acc BEGIN INSERT INTO there VALUES "
       "(NEW.v); END",
       "UPDATE main.acc SET v = 'stale'"},
      {"a temporary view",
       "CREATE TEMP VIEW v AS SELECT * FROM x.there; CREATE TEMP TRIGGER detour INSTEAD OF INSERT "
       "ON v BEGIN INSERT INTO there (v) VALUES (NEW.v); END",
       "INSERT INTO v (v) VALUES ('stale')"},
      {"a cascade in the other file", "PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON",
       "DELETE FROM x.parent"},
      {"the mark copied over", "BEGIN; UPDATE main.acc SET v = 'mine'",
       "UPDATE x.termgate_here SET mark = (SELECT mark FROM main.termgate_here)"},
      {"unflushed", "PRAGMA x.synchronous = OFF; PRAGMA main.synchronous = FULL",
       "UPDATE x.termgate_fences SET term = term + 1"},
      {"detached and attached again in between",
       "BEGIN; UPDATE main.acc SET v = 'mine'; COMMIT; DETACH x; UPDATE main.acc SET v = 'mine'; "
       "ATTACH '" +
           app + "' AS x",
       "UPDATE x.acc SET v = 'stale'"},
      {"the same after a write of main",
       "DETACH x; ATTACH '" + app + "' AS x; BEGIN; UPDATE main.acc SET v = 'mine'",
       "UPDATE x.acc SET v = 'stale'"},
  };
  make(app, 6);
  make(folder.file("other.db"), 5);
  {
    // A trigger may name no schema: where main has a table of the name, it cannot reach another's.
    Db own(app);
    own.must("CREATE TABLE there (v TEXT); SELECT termgate_protect('there', NULL, 'billing')");
    own.must(
        "CREATE TABLE parent (id TEXT PRIMARY KEY); INSERT INTO parent VALUES ('p'); CREATE TABLE "
        "child (p TEXT REFERENCES parent ON DELETE CASCADE, s TEXT); INSERT INTO child VALUES "
        "('p', 'billing'); SELECT termgate_protect('child', 's')");
  }
  const std::string before = state(app);
  for (const Detour& detour : detours) {
    INFO(detour.name);
    Db db(folder.file("other.db"));
    db.must("SELECT termgate_declare('billing', 5); ATTACH '" + app + "' AS x");
    db.must(detour.made);
    CHECK_THAT(db(detour.write).error, StartsWith("TG005"));
    CHECK_THAT(db("UPDATE x.acc SET v = 'stale'").error, StartsWith("TG005"));
  }
  Db renamed(folder.file("other.db"));
  renamed.must("SELECT termgate_declare('billing', 5); ATTACH '" + app + "' AS x");
  REQUIRE(sqlite3_db_config(renamed.handle(), SQLITE_DBCONFIG_MAINDBNAME, "primary") == SQLITE_OK);
  for (const char* write :
       {"UPDATE x.acc SET v = 'stale'", "BEGIN IMMEDIATE; UPDATE x.acc SET v = 'stale'"})
    CHECK_THAT(renamed(write).error, StartsWith("TG005"));
  renamed.must("UPDATE \"primary\".acc SET v = 'mine'; COMMIT");
  CHECK(state(app) == before);
  CHECK(Db(app).must("SELECT (SELECT count(*) FROM there) || (SELECT count(*) FROM child)") ==
        "01");
}

TEST_CASE("attached: the main database's own tables work beside it", "[F1][sqlite]") {
  Folder folder;
  make(folder.file("app.db"), 6);
  make(folder.file("other.db"), 5);
  Db db(folder.file("other.db"));
  db.must("ATTACH '" + folder.file("app.db") + "' AS x");
  CHECK_THAT(db("INSERT INTO acc (v) VALUES ('none')").error, StartsWith("TG002"));
  db.must("SELECT termgate_declare('billing', 5)");
  for (const std::string write : {"INSERT INTO acc (v) VALUES ('a')", "UPDATE acc SET v = v || 'b'",
                                  "DELETE FROM acc WHERE v = 'ab'",
                                  "INSERT OR REPLACE INTO rowed (s, k, v) VALUES ('billing', 'k', "
                                  "'c'), ('billing', 'l', 'd')",
                                  "UPDATE rowed SET v = 'e'", "INSERT INTO anyone VALUES ('f')",
                                  "INSERT INTO taken VALUES ('billing', 4)"}) {
    INFO(write);
    db.must(write);
    db.must("BEGIN; " + write + "; SAVEPOINT s; " + write + "; ROLLBACK TO s; " + write +
            "; COMMIT");
    db.must("BEGIN IMMEDIATE; SAVEPOINT s; " + write + "; ROLLBACK TO s; " + write + "; COMMIT");
  }
  db.must("INSERT INTO acc (v) SELECT v FROM x.acc");
  db.must("INSERT INTO x.free VALUES ('without a fence')");
  db.must(
      "SELECT termgate_seal('billing', 8); SELECT termgate_acquire_lease('billing', 'me', 10000)");
  CHECK_THAT(db("UPDATE acc SET v = 'late'").error, StartsWith("TG001 stale term 5"));
  db.must("SELECT termgate_reset_fence('billing', 5, 'me', 'why')");
  db.must("UPDATE acc SET v = 'again'");
  CHECK(db.must("SELECT json_array_length(termgate_verify())") == "0");
  // Read after read-only use of both.
  CHECK(db.must("SELECT count(*) FROM x.acc") == "1");
  CHECK(db.must("SELECT group_concat(value ->> 'object') FROM json_each(termgate_doctor()) WHERE "
                "value ->> 'severity' = 'warning'") == "table taken,attached file x");
}

TEST_CASE("attached: mode observe lets pass and counts in its own file only", "[sqlite]") {
  Folder folder;
  for (const char* name : {"app.db", "other.db"}) {
    Installed db(folder.file(name));
    db.must("CREATE TABLE seen (s TEXT, v TEXT); CREATE TABLE whole (v TEXT)");
    db.must(
        "SELECT termgate_protect('seen', 's', NULL, 'observe'), termgate_protect('whole', NULL, "
        "'*', 'observe')");
  }
  Db db(folder.file("other.db"));
  db.must("ATTACH '" + folder.file("app.db") + "' AS x");
  db.must(
      "BEGIN; INSERT INTO seen VALUES ('a', 'b'); INSERT INTO whole VALUES ('c'); INSERT INTO "
      "x.seen VALUES ('a', 'b'); INSERT INTO "
      "x.whole VALUES ('c'); COMMIT");
  CHECK(db.must("SELECT group_concat(table_name || scope || count) FROM (SELECT * FROM "
                "main.termgate_observed ORDER BY 1)") == "seena1,whole*1");
  CHECK(db.must("SELECT count(*) FROM x.termgate_observed") == "0");
}

// A file as the version before made it: its triggers hand nothing over.
void make_old(const std::string& path, int term) {
  Db db(path);
  for (const auto& migration : termgate::sql::sqlite_migrations()) {
    if (migration.version > 2) continue;
    db.must(std::string(migration.text));
    db.must(fmt::format("INSERT INTO termgate_migrations VALUES ({}, '{}', 0)", migration.version,
                        migration.name));
  }
  db.must(tables);
  db.must(
      "SELECT termgate_seal('billing', " + std::to_string(term) +
      "), termgate_seal('lost', 3); UPDATE termgate_fences SET untrusted = 1 WHERE scope = 'lost'");
  for (const char* table : {"termgate_fences", "termgate_incarnation"})
    db.must(fmt::format("ALTER TABLE {} RENAME COLUMN untrusted TO in_doubt", table));
  for (const char* when : {"INSERT", "UPDATE", "DELETE"}) {
    db.must(fmt::format(
        "CREATE TRIGGER termgate_protect_{0}_acc BEFORE {0} ON acc BEGIN SELECT CASE WHEN "
        "termgate_guard_load_termgate_extension_first('row', 'acc', 'billing') IS NULL THEN "
        "RAISE(ABORT, 'TG005 refused') END; END",
        when));
  }
  for (const char* when : {"INSERT", "UPDATE"}) {
    db.must(fmt::format(
        "CREATE TRIGGER termgate_adopt_{0}_taken AFTER {0} ON taken BEGIN SELECT CASE WHEN "
        "termgate_guard_load_termgate_extension_first('adopted', 'taken', NEW.s, NEW.t) IS NULL "
        "THEN RAISE(ABORT, 'TG005 "
        "refused') END; END",
        when));
  }
  db.must(
      "INSERT INTO termgate_protected VALUES ('acc', NULL, 'billing', 'enforce', 0); INSERT INTO "
      "termgate_adopted VALUES ('taken', 's', "
      "'t', 0)");
}

TEST_CASE("attached: an earlier version's triggers are refused there and renewed by init",
          "[F1][F2][sqlite]") {
  Folder folder;
  make_old(folder.file("app.db"), 6);
  make(folder.file("other.db"), 5);
  {
    Db db(folder.file("other.db"));
    db.must("SELECT termgate_declare('billing', 5); ATTACH '" + folder.file("app.db") + "' AS x");
    for (const char* write :
         {"INSERT INTO x.acc (v) VALUES ('stale')", "INSERT INTO x.taken VALUES ('billing', 99)",
          "UPDATE x.termgate_fences SET term = 99"}) {
      INFO(write);
      CHECK_THAT(db(write).error, StartsWith("TG005"));
      CHECK_THAT(db("BEGIN IMMEDIATE; UPDATE main.acc SET v = 'mine'; " + std::string(write)).error,
                 Contains("earlier version"));
      db.must("COMMIT");
    }
  }
  Db db(folder.file("app.db"));
  for (const char* call :
       {"SELECT termgate_declare('billing', 6); INSERT INTO acc (v) VALUES ('early')",
        "SELECT termgate_check_term('billing', 6)", "SELECT termgate_fence('billing')"}) {
    INFO(call);
    CHECK_THAT(db(call).error, Contains("earlier version") && Contains("termgate init"));
  }
  CHECK_THAT(db("SELECT termgate_protect('free', NULL, 'billing')").error,
             Contains("run termgate init first"));
  CHECK(db.must("SELECT termgate_init()") == R"({"from_version":2,"to_version":9})");
  CHECK(db.must("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name LIKE "
                "'termgate!_%' ESCAPE '!' AND sql LIKE '%guard%' "
                "AND sql NOT LIKE '%termgate_here%' AND name NOT LIKE '%!_own!_%' ESCAPE '!'") ==
        "0");
  CHECK_THAT(db("SELECT termgate_check_term('lost', 3)").error,
             StartsWith("TG004"));  // it was said under the column's earlier name
  db.must("SELECT termgate_declare_nothing_lost('me', 'test')");
  db.must(
      "SELECT termgate_declare('billing', 7); INSERT INTO taken VALUES ('billing', 7); INSERT INTO "
      "acc (v) VALUES ('by this one'); INSERT "
      "INTO taken VALUES ('billing', 8)");
  CHECK_THAT(db("INSERT INTO acc (v) VALUES ('stale')").error, StartsWith("TG001"));
  CHECK(db.must("SELECT count(*) FROM json_each(termgate_doctor()) WHERE value ->> 'severity' = "
                "'error'") == "0");
  db.must("ATTACH '" + folder.file("other.db") +
          "' AS x; SELECT termgate_declare('billing', 8); INSERT INTO acc (v) VALUES ('beside')");
  CHECK_THAT(db("UPDATE x.acc SET v = 'x'").error, StartsWith("TG005"));
}

TEST_CASE("init: triggers that an index has outgrown are made anew", "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (s TEXT, k TEXT, v TEXT); SELECT termgate_protect('t', 's'); CREATE UNIQUE "
      "INDEX t_k ON t (k)");
  CHECK(db.must("SELECT count(*) FROM json_each(termgate_doctor()) WHERE value ->> 'severity' = "
                "'error'") == "1");
  db.must("SELECT termgate_init()");
  CHECK(db.must("SELECT count(*) FROM json_each(termgate_doctor()) WHERE value ->> 'severity' = "
                "'error'") == "0");
  CHECK(db.must("SELECT max(detail) FROM termgate_audit WHERE action = 'init' AND detail LIKE "
                "'%made_anew%'") == R"({"made_anew":"the triggers of table t"})");
}

TEST_CASE("fence: stays a term with the checks of the table switched off", "[F3][sqlite]") {
  Installed db;
  db.must("SELECT termgate_seal('a', 5); PRAGMA ignore_check_constraints = ON");
  CHECK_THAT(db("UPDATE termgate_fences SET term = 4611686018427387905").error,
             StartsWith("TG005"));
  CHECK_THAT(db("UPDATE termgate_fences SET term = 9223372036854775807").error,
             StartsWith("TG005"));
  CHECK_THAT(
      db("INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('b', -5, 0, '')")
          .error,
      StartsWith("TG005"));
  CHECK_THAT(db("UPDATE termgate_fences SET term = -5").error, StartsWith("TG005"));
  CHECK(db.must("SELECT group_concat(scope || term) FROM termgate_fences") == "a5");
}

}  // namespace
