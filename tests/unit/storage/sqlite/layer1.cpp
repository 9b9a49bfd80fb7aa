// The functions as plain SQL meets them: in autocommit, inside a transaction, behind savepoints,
// inside another statement; what a pass is worth and when it ends; what keeps the fences' own table
// honest. Long: a case for each function of layer 1.
#include <fcntl.h>
#include <sys/wait.h>

#include <set>
#include <sstream>
#include <thread>

#include <termgate/error.hpp>
#include <termgate/sqlite_check.hpp>

#include "support.hpp"

using namespace sqlite_test;
using namespace termgate;
using Catch::Contains;
using Catch::StartsWith;

namespace {

const std::string needs_term = "TG002 no term declared";

// A table that only scope "a" may write to, as the probe of a pass.
void guarded(Db& db) {
  install(db);
  db.must("CREATE TABLE probe (x); SELECT termgate_protect('probe', NULL, 'a')");
}

std::string fence(Db& db, const std::string& scope) {
  return db("SELECT term FROM termgate_fences WHERE scope = '" + scope + "'").value();
}

}  // namespace

TEST_CASE("function: malformed arguments are refused and nothing is written", "[sqlite]") {
  Installed db;
  const std::string before = db.must("SELECT count(*) FROM termgate_fences");
  const std::string longest(200, 'x');
  for (const std::string& arguments :
       {std::string("'s', 0"), std::string("'s', -1"), std::string("'s', 4611686018427387905"),
        std::string("'s', 'text'"), std::string("'s', 1.5"), std::string("'s', NULL"),
        std::string("NULL, 1"), std::string("'', 1"), "'" + longest + "x', 1",
        std::string("x'ff', 1"), std::string("CAST(x'ff' AS TEXT), 1"),
        std::string("'a' || char(0), 1"), std::string("'s'"), std::string("'s', 1, 2")}) {
    INFO(arguments);
    CHECK_THAT(db("SELECT termgate_check_term(" + arguments + ")").error, StartsWith("TG005 "));
  }
  CHECK(db.must("SELECT count(*) FROM termgate_fences") == before);
  CHECK(db("SELECT termgate_check_term('" + longest + "', 4611686018427387904)").value() ==
        "4611686018427387904");
  CHECK(db("SELECT termgate_check_term(7, 1)").value() == "1");
  CHECK(fence(db, "7") == "1");
}

TEST_CASE("append_many: takes a write id for each write or none at all", "[F5][sqlite][issue-2]") {
  Installed db;
  const std::string id = "0a1b2c3d-0000-4000-8000-00000000000a";
  const std::string other = "0a1b2c3d-0000-4000-8000-00000000000b";
  db.must("SELECT termgate_append('s', 1, 'first', NULL, NULL, '" + id + "')");
  for (const std::string& batch :
       {"'[\"lost\",\"first\"]', NULL, NULL, '[null,\"" + id + "\"]'",
        "'[\"first\",\"lost too\"]', NULL, NULL, '[\"" + id + "\",null]'",
        std::string("'[\"a\"]', NULL, NULL, '[null]'"), std::string("'[\"a\"]', NULL, NULL, '[]'"),
        "'[\"a\"]', NULL, NULL, '[\"" + id + "\",\"" + other + "\"]'"}) {
    INFO(batch);
    CHECK_THAT(db("SELECT termgate_append_many('s', 1, " + batch + ")").error,
               Contains("needs as many write ids, none of them NULL"));
    CHECK(db("SELECT count(*) FROM termgate_stream_writes").value() == "1");
  }
  CHECK(db("SELECT termgate_append_many('s', 1, '[\"second\"]', NULL, NULL, '[\"" + other + "\"]')")
            .value() == "2");
}

TEST_CASE("append_many: JSON that SQLite would cut or misread is refused", "[sqlite][issue-2]") {
  Installed db;
  for (const char* batch :
       {R"('["pay\u0000load","b"]')", R"('["\\\u0000"]')", R"('["a"]' || char(0) || ',"b"]')",
        R"('{"a":"b"}')", R"('"solo"')", R"('null')", R"('5')", R"('[{"hex":"00\u0000"}]')"}) {
    INFO(batch);
    CHECK_THAT(db(std::string("SELECT termgate_append_many('s', 1, ") + batch + ")").error,
               StartsWith("TG005"));
  }
  CHECK(
      db(R"(SELECT termgate_append_many('s', 1, '["a"]', NULL, NULL, '{"a":"0a1b2c3d-0000-4000-8000-00000000000a"}'))")
          .error != "");
  CHECK(db("SELECT count(*) FROM termgate_stream_writes").value() == "0");
  // A backslash before it makes it six characters like any others.
  db.must(R"(SELECT termgate_append_many('s', 1, '["\\u0000", {"hex":"006100"}]'))");
  CHECK(db("SELECT group_concat(hex(payload)) FROM termgate_stream_writes").value() ==
        "5C7530303030,006100");
}

TEST_CASE("init: twice is once and uninstall leaves nothing", "[sqlite]") {
  Db db;
  CHECK(db("SELECT termgate_init()").value() == R"({"from_version":0,"to_version":9})");
  CHECK(db("SELECT termgate_init()").value() == R"({"from_version":9,"to_version":9})");
  db.must(
      "CREATE TABLE mine (id INTEGER PRIMARY KEY, s TEXT, t INTEGER); CREATE INDEX mine_st ON mine "
      "(s, t)");
  db.must("SELECT termgate_protect('mine', 's'), termgate_adopt('mine', 's', 't')");
  for (const char* careless :
       {"SELECT termgate_uninstall()", "SELECT termgate_uninstall('me', '')",
        "SELECT termgate_uninstall('', 'why')",
        "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 1), termgate_uninstall('me', 'why')"}) {
    CHECK_THAT(db(careless).error, StartsWith("TG005"));
  }
  db.must("ROLLBACK; SELECT termgate_uninstall('me', 'moved elsewhere')");
  CHECK(db("SELECT group_concat(name) FROM sqlite_schema").value() == "mine,mine_st");
  db.must("INSERT INTO mine VALUES (1, 'a', 1)");
}

TEST_CASE("init: again makes anew what is missing and keeps what is there",
          "[F3][sqlite][issue-2]") {
  Installed db;
  db.must(
      "CREATE TABLE mine (s TEXT, t INTEGER); CREATE INDEX mine_st ON mine (s, t); SELECT "
      "termgate_adopt('mine', 's', 't')");
  db.must("SELECT termgate_set_setting('check_wait_ms', '77'), termgate_set_raise_by('b', 'seal')");
  db.must(
      "SELECT termgate_seal('a', 9), termgate_append('s', 4, 'x', NULL, 'a4'); INSERT INTO mine "
      "VALUES ('m', 6)");
  const auto problems = [&] {
    return db.must(
        "SELECT coalesce(group_concat(value ->> 'object'), '') FROM json_each(termgate_doctor()) "
        "WHERE value ->> 'severity' = 'error'");
  };
  const auto init = [&] {
    CHECK(db("SELECT termgate_init()").value() == R"({"from_version":9,"to_version":9})");
  };
  const auto made_anew = [&] {
    return db.must(
        "SELECT coalesce(max(detail ->> 'made_anew'), '') FROM termgate_audit WHERE action = "
        "'init'");
  };
  REQUIRE(problems() == "");
  SECTION("nothing") {
    const std::string before = db.must("PRAGMA schema_version");
    init();
    CHECK(db.must("PRAGMA schema_version") == before);
    CHECK(made_anew() == "");
  }
  SECTION("a guard") {
    db.must("DROP TRIGGER termgate_fences_delete");
    CHECK(problems() == "termgate_fences_delete");
    init();
    CHECK(made_anew() == "termgate_fences_delete");
    CHECK_THAT(db("DELETE FROM termgate_fences").error, StartsWith("TG005"));
  }
  SECTION("a guard that was made to say nothing") {
    db.must(
        "DROP TRIGGER termgate_fences_update; CREATE TRIGGER termgate_fences_update BEFORE UPDATE "
        "ON termgate_fences BEGIN SELECT 1; END");
    CHECK(problems() == "termgate_fences_update");
    init();
    CHECK_THAT(db("UPDATE termgate_fences SET term = 1").error, StartsWith("TG005"));
  }
  SECTION("a setting") {
    db.plant("DELETE FROM termgate_settings WHERE name = 'default_raise_by'");
    CHECK(problems() == "the setting default_raise_by");
    init();
  }
  SECTION("the row of the incarnation") {
    db.plant("DELETE FROM termgate_incarnation");
    CHECK(problems() == "the row of termgate_incarnation");
    init();
    // Whether scopes without a fence were untrusted nobody knows any more; those with one say so
    // themselves.
    CHECK_THAT(db("SELECT termgate_check_term('new', 1)").error, StartsWith("TG004"));
    CHECK(db("SELECT termgate_check_term('a', 9)").value() == "9");
    CHECK(problems() == "every scope without a fence");
    db.must("SELECT termgate_declare_nothing_lost('me', 'I saw it')");
  }
  SECTION("the fences") {
    db.must("DROP TABLE termgate_fences");
    CHECK_THAT(problems(), Contains("termgate_fences"));
    init();
    for (const char* scope : {"a", "a4", "m", "new"})
      CHECK_THAT(db("SELECT termgate_check_term('" + std::string(scope) + "', 50)").error,
                 StartsWith("TG004"));
    // Somebody vouches; what the rows show still counts.
    db.must("SELECT termgate_declare_nothing_lost('me', 'no terms but those of the rows')");
    CHECK_THAT(db("SELECT termgate_check_term('a4', 3)").error, StartsWith("TG001 stale term 3"));
    CHECK_THAT(db("SELECT termgate_check_term('m', 5)").error, StartsWith("TG001 stale term 5"));
    CHECK_THAT(db("DELETE FROM termgate_fences; INSERT INTO termgate_fences VALUES ('z', 3, 0, '', "
                  "NULL, 0, NULL); DELETE FROM termgate_fences")
                   .error,
               StartsWith("TG005"));
  }
  SECTION("the list of migrations") {
    db.must("DROP TABLE termgate_migrations");
    CHECK(db("SELECT termgate_init()").value() == R"({"from_version":0,"to_version":9})");
    CHECK(db("SELECT termgate_check_term('a', 9)").value() == "9");
    CHECK(db("SELECT termgate_check_term('new', 1)").value() == "1");
  }
  CHECK(problems() == "");
  CHECK(db("SELECT value FROM termgate_settings WHERE name = 'check_wait_ms'").value() == "77");
  init();
}

TEST_CASE("autocommit: a function commits by itself and its refusal leaves no transaction behind",
          "[F5][sqlite]") {
  Folder folder;
  Db db(folder.file()), other(folder.file());
  install(db);
  CHECK(db("SELECT termgate_append('s', 1, 'x')").value() == "1");
  CHECK(sqlite3_get_autocommit(db.handle()) == 1);
  CHECK(other("SELECT count(*) FROM termgate_stream_writes").value() == "1");
  CHECK_THAT(db("SELECT termgate_append('s', 1, 'x', 7)").error, StartsWith("TG003"));
  CHECK(sqlite3_get_autocommit(db.handle()) == 1);
  CHECK(other("SELECT termgate_append('s', 2, 'y')").value() == "2");
}

TEST_CASE("autocommit: a function inside a reading statement commits row by row", "[F5][sqlite]") {
  Folder folder;
  Installed db(folder.file());
  db.must("CREATE TABLE source (v); INSERT INTO source VALUES ('a'), ('b'), ('c')");
  const Answer answer = db("SELECT termgate_append('s', 1, v) FROM source ORDER BY v");
  REQUIRE(answer.rows.size() == 3);
  CHECK(answer.rows[2][0] == "3");
  CHECK(sqlite3_get_autocommit(db.handle()) == 1);
}

TEST_CASE("autocommit: a function inside a writing statement joins it", "[F5][sqlite]") {
  Folder folder;
  Installed db(folder.file());
  db.must(
      "CREATE TABLE source (v); INSERT INTO source VALUES ('a'), ('b'), ('c'); CREATE TABLE "
      "numbers (n UNIQUE)");
  db.must("INSERT INTO numbers SELECT termgate_append('s', 1, v) FROM source");
  CHECK(db("SELECT count(*) FROM termgate_stream_writes").value() == "3");
  // The second row breaks the constraint: the statement is undone, and with it what the function
  // wrote.
  CHECK_THAT(db("INSERT INTO numbers SELECT min(termgate_append('s', 1, v), 4) FROM source").error,
             Contains("UNIQUE"));
  CHECK(db("SELECT last_no FROM termgate_streams WHERE stream_id = 's'").value() == "3");
  CHECK(db("SELECT count(*) FROM numbers").value() == "3");
  CHECK(db("SELECT json_array_length(termgate_verify())").value() == "0");
}

TEST_CASE("transaction: a refusal undoes its own writes and nothing else", "[F5][sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (x); BEGIN; INSERT INTO t VALUES (1); SELECT termgate_append('s', 1, "
      "'kept')");
  CHECK_THAT(db("SELECT termgate_append('s', 1, 'no', 9)").error, StartsWith("TG003"));
  CHECK_THAT(db("SELECT termgate_append_many('s', 1, '[\"a\", 5]')").error, StartsWith("TG005"));
  CHECK(sqlite3_get_autocommit(db.handle()) == 0);
  db.must("COMMIT");
  CHECK(db("SELECT count(*) FROM t").value() == "1");
  CHECK(db("SELECT count(*) FROM termgate_stream_writes").value() == "1");
}

TEST_CASE("transaction: the first check fixes the term of a scope", "[F1][sqlite]") {
  Installed db;
  db.must("BEGIN; SELECT termgate_check_term('a', 5)");
  CHECK_THAT(db("SELECT termgate_check_term('a', 7)").error, StartsWith("TG005"));
  CHECK_THAT(db("SELECT termgate_check_term('a', 4)").error, StartsWith("TG001"));
  CHECK_THAT(db("SELECT termgate_seal('a', 7)").error, StartsWith("TG005"));
  CHECK_THAT(db("SELECT termgate_acquire_lease('a', 'me', 1000)").error, StartsWith("TG005"));
  CHECK(db("SELECT termgate_check_term('b', 9)").value() == "9");
  CHECK(db("SELECT termgate_check_term('a', 5)").value() == "5");
  db.must("COMMIT");
  CHECK(db("SELECT termgate_check_term('a', 7)").value() == "7");
}

TEST_CASE("pass: ends with its transaction", "[F1][sqlite]") {
  for (const char* end : {"COMMIT", "ROLLBACK"}) {
    INFO(end);
    Db db;
    guarded(db);
    CHECK_THAT(db("INSERT INTO probe VALUES (1)").error, StartsWith(needs_term));
    db.must("SELECT termgate_check_term('a', 5)");  // guards nothing but itself
    CHECK_THAT(db("INSERT INTO probe VALUES (1)").error, StartsWith(needs_term));
    db.must("BEGIN; SELECT termgate_check_term('a', 5); INSERT INTO probe VALUES (1)");
    db.must(end);
    CHECK_THAT(db("INSERT INTO probe VALUES (2)").error, StartsWith(needs_term));
    db.must("BEGIN");
    CHECK_THAT(db("INSERT INTO probe VALUES (2)").error, StartsWith(needs_term));
    db.must("ROLLBACK");
  }
}

// Savepoints within BEGIN are the random walk's of driver.cpp; here one begins the transaction.
TEST_CASE("pass: a raise that ROLLBACK TO undoes takes its pass along", "[F1][F2][sqlite]") {
  struct Case {
    const char* statements;
    const char* fence;
  };
  for (const Case& row : {
           Case{"SAVEPOINT one; SELECT termgate_check_term('a', 5); ROLLBACK TO one", "(none)"},
           Case{"SAVEPOINT one; SAVEPOINT two; SELECT termgate_check_term('a', 5); RELEASE two; "
                "ROLLBACK TO one",
                "(none)"},
           Case{"SAVEPOINT one; SELECT termgate_check_term('a', 5); SAVEPOINT two; ROLLBACK TO two",
                "5"},
       }) {
    INFO(row.statements);
    Db db;
    guarded(db);
    db.must(row.statements);
    CHECK(fence(db, "a") == row.fence);
    CHECK(db("INSERT INTO probe VALUES (1)").error.empty() == (row.fence == std::string("5")));
    db.must("COMMIT");
    CHECK(db("SELECT json_array_length(termgate_verify())").value() == "0");
  }
}

TEST_CASE("pass: a statement that fails and is undone takes its pass along", "[F1][F2][sqlite]") {
  Db db;
  guarded(db);
  db.must("CREATE TABLE once (x UNIQUE); INSERT INTO once VALUES (1); BEGIN");
  // The second row breaks the constraint, so that the raise of the first is undone with the
  // statement.
  CHECK_THAT(db("INSERT INTO once SELECT CASE v WHEN 1 THEN termgate_check_term('a', 5) ELSE 1 END "
                "FROM (SELECT 1 AS v UNION ALL SELECT 2)")
                 .error,
             Contains("UNIQUE"));
  const bool undone = fence(db, "a") == "(none)";
  CHECK(db("INSERT INTO probe VALUES (1)").error.empty() == !undone);
  db.must("ROLLBACK");
}

TEST_CASE("pass: cannot be written by an application", "[F1][sqlite]") {
  Db db;
  guarded(db);
  db.must("BEGIN IMMEDIATE");
  for (const char* attempt :
       {"INSERT INTO termgate_transaction VALUES (1)", "UPDATE termgate_transaction SET unused = 1",
        "DELETE FROM termgate_transaction", "DELETE FROM termgate_transaction WHERE 0",
        "SELECT termgate_guard_load_termgate_extension_first('raise', 'a', 1)"}) {
    INFO(attempt);
    db(attempt);
    CHECK_THAT(db("INSERT INTO probe VALUES (1)").error, StartsWith(needs_term));
  }
  db.must("ROLLBACK");
  // A table of that name would be taken for ours: then nothing passes.
  db.must("CREATE TABLE termgate_transaction (unused); BEGIN");
  CHECK_THAT(db("SELECT termgate_check_term('a', 5)").error, Contains("termgate_transaction"));
  db.must("ROLLBACK");
  CHECK(fence(db, "a") == "(none)");
}

TEST_CASE("pass: a temporary table cannot stand in for the fences", "[F1][sqlite]") {
  Db db;
  guarded(db);
  db.must(
      "SELECT termgate_seal('a', 9); CREATE TEMP TABLE termgate_fences AS SELECT * FROM "
      "main.termgate_fences");
  db.must("UPDATE temp.termgate_fences SET term = 1");
  CHECK_THAT(db("SELECT termgate_check_term('a', 5)").error, StartsWith("TG001"));
}

TEST_CASE("pass: functions that write are for top-level SQL alone", "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (x); CREATE TRIGGER bait AFTER INSERT ON t BEGIN SELECT termgate_seal('a', "
      "4611686018427387904); END");
  CHECK_THAT(db("INSERT INTO t VALUES (1)").error, Contains("unsafe use of"));
  db.must("CREATE VIEW bait_view AS SELECT termgate_seal('a', 9)");
  CHECK_THAT(db("SELECT * FROM bait_view").error, Contains("unsafe use of"));
  CHECK(fence(db, "a") == "(none)");
}

TEST_CASE("declare: a declared term is used where a statement names none", "[F1][sqlite]") {
  Db db;
  guarded(db);
  db.must("SELECT termgate_seal('a', 5), termgate_declare('a', 5)");
  db.must("INSERT INTO probe VALUES (1); BEGIN; INSERT INTO probe VALUES (2); COMMIT");
  db.must("SELECT termgate_declare('a', 4)");
  CHECK_THAT(db("INSERT INTO probe VALUES (3)").error, StartsWith("TG001 stale term 4"));
  db.must("SELECT termgate_declare('a', 6)");
  CHECK_THAT(db("INSERT INTO probe VALUES (3)").error,
             StartsWith("TG005") && Contains("termgate_seal('a', 6)"));
  db.must("SELECT termgate_declare('b', 5)");
  CHECK_THAT(db("INSERT INTO probe VALUES (3)").error, StartsWith(needs_term));
  db.must("SELECT termgate_declare(NULL, NULL)");
  CHECK_THAT(db("INSERT INTO probe VALUES (3)").error, StartsWith(needs_term));
  CHECK_THAT(db("SELECT termgate_declare('a', 'five')").error, StartsWith("TG005"));
  CHECK(db("SELECT count(*) FROM probe").value() == "2");
}

TEST_CASE(
    "stream: takes the scope named else the declared one else the single one passed else its own "
    "name",
    "[sqlite]") {
  Installed db;
  const auto scope_of = [&](const std::string& stream) {
    return db("SELECT scope FROM termgate_streams WHERE stream_id = '" + stream + "'").value();
  };
  db.must("SELECT termgate_append('own', 1, 'x')");
  CHECK(scope_of("own") == "own");
  db.must(
      "BEGIN; SELECT termgate_check_term('passed', 1), termgate_append('by-pass', 1, 'x'); COMMIT");
  CHECK(scope_of("by-pass") == "passed");
  db.must(
      "BEGIN; SELECT termgate_check_term('passed', 1), termgate_check_term('second', 1), "
      "termgate_append('two-passed', 1, 'x'); COMMIT");
  CHECK(scope_of("two-passed") == "two-passed");
  db.must("SELECT termgate_declare('declared', 1), termgate_append('by-declaration', 1, 'x')");
  CHECK(scope_of("by-declaration") == "declared");
  db.must("SELECT termgate_append('by-name', 1, 'x', NULL, 'named')");
  CHECK(scope_of("by-name") == "named");
  CHECK_THAT(db("SELECT termgate_append('by-name', 1, 'x', NULL, 'other')").error,
             StartsWith("TG005"));
}

TEST_CASE("payload: text and bytes go in and come out of JSON", "[sqlite]") {
  Installed db;
  db.must(
      R"(SELECT termgate_append_many('s', 1, '["plain", {"hex":"00FF"}, "", "quote \" and \\ and é"]'))");
  CHECK(db("SELECT group_concat(hex(payload), ',') FROM termgate_stream_writes").value() ==
        "706C61696E,00FF,,71756F7465202220616E64205C20616E6420C3A9");
  CHECK(db("SELECT json_extract(termgate_read_stream('s'), '$[1].payload.hex')").value() == "00ff");
  CHECK(db("SELECT json_extract(termgate_read_stream('s', 3, 1), '$[0].payload')").value() ==
        "quote \" and \\ and é");
  for (const char* bad : {R"(["a", {"hex":"0"}])", R"(["a", {"hex":"zz"}])", R"(["a", 5])",
                          R"(["a", null])", "no json", R"([{"x":1}])"}) {
    INFO(bad);
    CHECK(db("SELECT termgate_append_many('s', 1, '" + std::string(bad) + "')").error != "");
  }
  CHECK(db("SELECT last_no FROM termgate_streams").value() == "4");
}

TEST_CASE("fences: no statement lowers deletes or replaces one", "[F3][sqlite]") {
  Installed db;
  db.must("SELECT termgate_seal('a', 5), termgate_seal('b', 3)");
  for (const char* attempt : {
           "UPDATE termgate_fences SET term = 4 WHERE scope = 'a'",
           "UPDATE OR REPLACE termgate_fences SET scope = 'a' WHERE scope = 'b'",
           "DELETE FROM termgate_fences",
           "INSERT OR REPLACE INTO termgate_fences (scope, term, raised_at, raised_by) VALUES "
           "('a', 1, 0, '')",
           "INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('a', 1, 0, '') "
           "ON CONFLICT DO UPDATE SET term = 1",
           "INSERT INTO termgate_resets (scope, old_term, new_term, at, actor, reason) VALUES "
           "('a', 5, 1, 0, '', ''); UPDATE "
           "termgate_fences SET term = 1",
       }) {
    INFO(attempt);
    CHECK(db(attempt).error != "");
    CHECK(fence(db, "a") == "5");
    CHECK(fence(db, "b") == "3");
  }
  for (const char* recursive : {"PRAGMA recursive_triggers = ON", "PRAGMA trusted_schema = OFF"}) {
    db.must(recursive);
    CHECK(db("INSERT OR REPLACE INTO termgate_fences (scope, term, raised_at, raised_by) VALUES "
             "('a', 1, 0, '')")
              .error != "");
  }
  db.must("SELECT termgate_reset_fence('a', 2, 'ops', 'test')");
  CHECK(fence(db, "a") == "2");
  CHECK(db("SELECT count(*) FROM termgate_resets WHERE actor = 'ops'").value() == "1");
}

TEST_CASE("raise: is refused where its commit would not be flushed", "[F3][sqlite]") {
  Folder folder;
  Installed db(folder.file());
  db.must("SELECT termgate_seal('a', 5)");
  for (const char* level : {"OFF", "NORMAL"}) {
    db.must(std::string("PRAGMA synchronous = ") + level);
    for (const char* raise : {"SELECT termgate_seal('a', 6)", "SELECT termgate_check_term('a', 6)",
                              "SELECT termgate_append('s', 6, 'x', NULL, 'a')",
                              "SELECT termgate_acquire_lease('new', 'me', 1000)"}) {
      INFO(level << ": " << raise);
      CHECK_THAT(db(raise).error, StartsWith("TG005") && Contains("synchronous"));
    }
    CHECK(db("SELECT termgate_check_term('a', 5)").value() == "5");
    CHECK_THAT(db("SELECT json_extract(termgate_doctor(), '$[0].problem')").value(),
               Contains("synchronous"));
  }
  CHECK(fence(db, "a") == "5");
  CHECK(db("SELECT count(*) FROM termgate_leases").value() == "0");
  db.must("PRAGMA synchronous = FULL; SELECT termgate_seal('a', 6)");
}

TEST_CASE("evidence: a lost fence row does not let a stale writer past the rows", "[F3][sqlite]") {
  Installed db;
  db.must("SELECT termgate_append('s', 7, 'x', NULL, 'a')");
  // What only a program that rewrites the schema can do.
  db.plant("DELETE FROM termgate_fences");
  CHECK(db("SELECT json_extract(termgate_verify(), '$[0].kind')").value() == "fence");
  CHECK_THAT(db("SELECT termgate_check_term('a', 6)").error, StartsWith("TG001 stale term 6"));
  CHECK_THAT(db("SELECT termgate_append('s', 6, 'x')").error, StartsWith("TG001"));
  SECTION("pruning the evidence folds it in first") {
    db.must("SELECT termgate_prune('s', 100)");
    CHECK(fence(db, "a") == "7");
  }
  SECTION("an acquisition begins above it") {
    CHECK(db("SELECT json_extract(termgate_acquire_lease('a', 'me', 1000), '$.term')").value() ==
          "8");
  }
}

TEST_CASE("evidence: an append compares with stored terms even where the fence was lowered",
          "[F1][F3][sqlite]") {
  Installed db;
  db.must("SELECT termgate_append('s', 7, 'x', NULL, 'a')");
  db.plant("UPDATE termgate_fences SET term = 3");
  CHECK_THAT(db("SELECT termgate_append('s', 5, 'x')").error,
             StartsWith("TG001 stale term 5 for scope \"a\": the fence stands at 7"));
  CHECK(db("SELECT termgate_append('s', 7, 'x')").value() == "2");
}

TEST_CASE("reset: stored terms above it are no longer evidence and later ones are",
          "[F3][sqlite]") {
  Installed db;
  db.must(
      "SELECT termgate_append('s', 7, 'x', NULL, 'a'), termgate_append('s', 1000000000000000000, "
      "'mistyped', NULL, 'a')");
  db.must("SELECT termgate_reset_fence('a', 7, 'ops', 'mistyped')");
  CHECK(db("SELECT termgate_append('s', 8, 'x')").value() == "3");
  CHECK_THAT(db("SELECT termgate_append('s', 7, 'x')").error, StartsWith("TG001"));
  CHECK(db("SELECT json_array_length(termgate_verify())").value() == "0");
  db.plant("DELETE FROM termgate_fences");
  CHECK_THAT(db("SELECT termgate_check_term('a', 6)").error,
             StartsWith("TG001 stale term 6 for scope \"a\": the fence stands at 7"));
}

TEST_CASE("lease: a file that is copied back twice issues no term twice", "[F3][sqlite]") {
  Folder folder;
  const auto acquired = [&](Db& db) {
    return std::stoll(
        db("SELECT json_extract(termgate_acquire_lease('s', 'me', 1000), '$.term')").value());
  };
  Db db(folder.file());
  db.must("SELECT termgate_init()");
  const auto before = acquired(db);
  std::vector<long long> terms;
  // Rolled back: what the acquisition that made the scope trusted again has issued is lost like the
  // raise before it.
  for (int copies = 0; copies < 3; ++copies) {
    db.must("BEGIN IMMEDIATE");
    db.must("SELECT termgate_declare_untrusted('ops', 'copied back')");
    terms.push_back(acquired(db));
    db.must("ROLLBACK");
    CHECK(terms.back() > before + (1LL << 32) - 1);
    CHECK(terms.back() <= before + (1LL << 33));
  }
  CHECK(std::set<long long>(terms.begin(), terms.end()).size() == terms.size());
}

TEST_CASE("snapshot: a transaction that has read before a takeover is told to run again",
          "[F1][sqlite]") {
  Folder folder;
  Db old(folder.file()), taker(folder.file());
  old.must("PRAGMA journal_mode = WAL");
  install(old);
  old.must("SELECT termgate_seal('a', 5); CREATE TABLE t (x)");
  old.must("BEGIN; SELECT count(*) FROM t");
  taker.must("SELECT termgate_seal('a', 6)");
  const Answer answer = old("SELECT termgate_check_term('a', 5)");
  CHECK(answer.code == SQLITE_BUSY_SNAPSHOT);
  CHECK_THAT(answer.error, Contains("run it again"));
  CHECK_THROWS_AS(sqlite::check(old.handle(), Scope("a"), Term(5)), Conflict);
  old.must("ROLLBACK");
  CHECK_THAT(old("BEGIN; SELECT termgate_check_term('a', 5)").error, StartsWith("TG001"));
  old.must("ROLLBACK");
}

TEST_CASE("blocked: another connection's write lock ends the wait with its name", "[F4][sqlite]") {
  for (const char* mode : {"wal", "delete"}) {
    INFO(mode);
    Folder folder;
    Db db(folder.file());
    db.must(std::string("PRAGMA journal_mode = ") + mode);
    install(db);
    db.must("SELECT termgate_set_setting('check_wait_ms', '50')");
    // A real process holds the lock and does nothing, like one that was stopped.
    int ready[2], done[2];
    REQUIRE(pipe(ready) == 0);
    REQUIRE(pipe(done) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      sqlite3* held = nullptr;
      sqlite3_open(folder.file().c_str(), &held);
      const bool locked =
          sqlite3_exec(held, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK;
      char byte = locked ? 'y' : 'n';
      _exit(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1 ? 0 : 1);
    }
    char byte = 'n';
    REQUIRE(read(ready[0], &byte, 1) == 1);
    REQUIRE(byte == 'y');
    const auto start = std::chrono::steady_clock::now();
    const std::string error = db("SELECT termgate_seal('a', 5)").error;
    const auto waited = std::chrono::steady_clock::now() - start;
    CHECK_THAT(error, StartsWith("TG006 blocked") && Contains("process " + std::to_string(child)));
    CHECK(waited >= std::chrono::milliseconds(50));
    CHECK(waited < std::chrono::seconds(5));
    db.must("BEGIN");
    CHECK_THAT(db("SELECT termgate_check_term('a', 5)").error, StartsWith("TG006"));
    db.must("ROLLBACK");
    REQUIRE(write(done[1], &byte, 1) == 1);
    waitpid(child, nullptr, 0);
    for (int end : {ready[0], ready[1], done[0], done[1]}) close(end);
    CHECK(db("SELECT termgate_check_term('a', 5)").value() == "5");
  }
}

TEST_CASE("blocked: a file of the same number on another device is another file",
          "[F4][sqlite][issue-2]") {
  const std::string list =
      "1: POSIX  ADVISORY  WRITE 11 00:2a:77 1073741824 1073742335\n"
      "2: POSIX  ADVISORY  WRITE 12 08:01:77 0 EOF\n"
      "2: -> POSIX  ADVISORY  WRITE 13 08:01:77 1073741824 1073742335\n"
      "3: POSIX  ADVISORY  WRITE 14 08:01:77 1073741825 1073741825\n";
  const auto owner = [&](const std::vector<std::string>& files) {
    std::istringstream locks(list);
    return sqlite::lock_owner(locks, files, 0x40000000, 0x40000001 + 510);
  };
  CHECK(owner({"08:01:77"}) == 14);
  CHECK(owner({"00:2a:77"}) == 11);
  CHECK(owner({"00:2b:77", "08:01:78"}) == 0);
  CHECK(owner({}) == 0);
}

TEST_CASE("check header: guards the caller's own transaction", "[F1][F5][sqlite]") {
  Folder folder;
  Db db(folder.file(), false);
  { Installed other(folder.file()); }
  db.must("CREATE TABLE t (x); BEGIN IMMEDIATE");
  CHECK(sqlite::check(db.handle(), Scope("a"), Term(5)) == Term(5));
  db.must("INSERT INTO t VALUES (1); COMMIT");
  CHECK_THROWS_AS(sqlite::check(db.handle(), Scope("a"), Term(4)), StaleTerm);
}

TEST_CASE("last_insert_rowid: is not disturbed by a function", "[F7][sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (77); SELECT "
      "termgate_append('s', 1, 'x')");
  CHECK(db("SELECT last_insert_rowid()").value() == "77");
}

TEST_CASE("prune: the last hour of the audit stays and so does every pruning", "[sqlite]") {
  Installed db;
  db.must("SELECT termgate_seal('a', 6)");
  db.plant("UPDATE termgate_audit SET at = at - 10800000");
  CHECK_THAT(db("SELECT termgate_prune_history(0)").error, StartsWith("TG005"));
  CHECK_THAT(db("SELECT termgate_prune_history(3599999)").error, StartsWith("TG005"));
  db.must("SELECT termgate_seal('a', 7)");
  CHECK(db("SELECT termgate_prune_history(3600000)").value() == "2");
  db.plant("UPDATE termgate_audit SET at = at - 10800000");
  db.must("SELECT termgate_prune_history(3600000)");
  CHECK(db("SELECT group_concat(action) FROM termgate_audit").value() ==
        "prune_history,prune_history");
}

TEST_CASE("force_release: one audit row and the term that was held", "[sqlite]") {
  Installed db;
  db.must("SELECT termgate_acquire_lease('s', 'me', 10000, 'http://a')");
  db.must("SELECT termgate_release_lease('s', 'me', 1), termgate_acquire_lease('s', 'you', 10000)");
  db.must("SELECT termgate_force_release('s', 'ops', 'it \"hangs\"')");
  CHECK(db("SELECT owner_id || term || (released_at IS NOT NULL) FROM termgate_leases").value() ==
        "you21");
  CHECK(db("SELECT termgate_fence('s') ->> '$.term'").value() == "3");
  CHECK(db("SELECT group_concat(action, ' ') FROM termgate_audit WHERE scope = 's'").value() ==
        "acquire release acquire force_release");
  CHECK(db("SELECT count(*) FROM termgate_audit WHERE json_valid(detail)").value() ==
        db("SELECT count(*) FROM termgate_audit").value());
  CHECK(db("SELECT detail ->> 'endpoint' FROM termgate_audit WHERE action = 'acquire'").value() ==
        "http://a");
  CHECK(
      db("SELECT detail ->> 'reason' FROM termgate_audit WHERE action = 'force_release'").value() ==
      "it \"hangs\"");
  for (const std::string no_reason : {"''", "'  '", "NULL"})
    CHECK_THAT(db("SELECT termgate_force_release('s', 'ops', " + no_reason + ")").error,
               StartsWith("TG005"));
  // Nobody was issued the fence's own term; the next acquisition is above it.
  CHECK_THAT(db("SELECT termgate_seal('s', 4)").error, StartsWith("TG005"));
  CHECK(db("SELECT termgate_acquire_lease('s', 'you', 10000) ->> '$.term'").value() == "4");
}

// What each call does in each state of a run is tests/conformance/jobs.cpp's.
TEST_CASE("jobs: a session ends only runs of what it declares", "[sqlite]") {
  Installed db;
  const std::string run = db.must("SELECT termgate_job_start('Y', 's', 'me', 5)");
  for (const std::string declared : {"'other', 5", "'s', 4", "'s', 6"}) {
    db.must("SELECT termgate_declare(" + declared + ")");
    CHECK_THAT(db("SELECT termgate_job_heartbeat('" + run + "')").error, StartsWith("TG005"));
    for (const std::string end : {"completed", "failed", "lost"})
      CHECK_THAT(db("SELECT termgate_job_finish('" + run + "', '" + end + "')").error,
                 StartsWith("TG005"));
  }
  db.must("SELECT termgate_declare('s', 5)");
  CHECK(db("SELECT termgate_job_finish('" + run + "', 'failed')").value() == "1");
}

TEST_CASE("jobs: pruning goes by the end of a run and keeps the last completed one", "[sqlite]") {
  Installed db;
  const auto complete = [&](const char* started = "0") {
    const std::string run = db.must("SELECT termgate_job_start('Y', 's', 'me', 1)");
    db.plant("UPDATE termgate_job_runs SET started_at = started_at - " + std::string(started));
    CHECK(db("SELECT termgate_job_finish('" + run + "', 'completed')").value() == "1");
    return run;
  };
  const auto left = [&] {
    db.must("SELECT termgate_prune_history(86400000)");
    return db.must("SELECT group_concat(run_id) FROM termgate_job_runs");
  };
  const std::string first = complete("259200000");
  const std::string second = complete();
  CHECK_THAT(left(), Contains(first) && Contains(second));
  db.plant("UPDATE termgate_job_runs SET completed_at = completed_at - 172800000");
  CHECK(left() == second);
}

TEST_CASE("adopted table: renamed or dropped by a local program it stops no scope", "[sqlite]") {
  for (const char* change :
       {"ALTER TABLE ad RENAME TO ad2", "DROP TABLE ad", "ALTER TABLE ad RENAME COLUMN t TO t2"}) {
    INFO(change);
    Installed db;
    db.must(
        "CREATE TABLE ad (s TEXT, t INTEGER); CREATE INDEX ad_st ON ad (s, t); SELECT "
        "termgate_adopt('ad', 's', 't'), "
        "termgate_seal('known', 3)");
    db.must(change);
    db.must(
        "SELECT termgate_seal('new', 1), termgate_acquire_lease('leased', 'me', 1000), "
        "termgate_append('appended', 1, 'x')");
    db.must("SELECT termgate_seal('known', 4), termgate_append('s', 4, 'x', NULL, 'known')");
    CHECK_THAT(db("SELECT termgate_check_term('known', 3)").error, StartsWith("TG001"));
    db.must("SELECT termgate_unadopt('ad')");
  }
}

TEST_CASE("snapshot: one older than the raise to its own term never becomes a writer",
          "[F1][sqlite]") {
  for (const bool wal : {true, false}) {
    INFO("WAL " << wal);
    Folder folder;
    Db db(folder.file()), other(folder.file());
    db.must(wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
    install(db);
    db.must(
        "CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (1); SELECT termgate_protect('t', NULL, "
        "'a'), termgate_seal('a', 1)");
    db.must("SELECT termgate_declare('a', 2); BEGIN; SELECT v FROM t");
    // Another connection of the new leader's: raises to the very term, and writes.
    const Answer raised = other(
        "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; SELECT termgate_check_term('a', 2); UPDATE t "
        "SET v = 2; COMMIT");
    if (wal) {
      REQUIRE(raised.error == "");
      const Answer write = db("UPDATE t SET v = v + 10");
      CHECK(write.code == SQLITE_BUSY_SNAPSHOT);
      db.must("ROLLBACK; UPDATE t SET v = v + 10");
      CHECK(db("SELECT v FROM t").value() == "12");
    } else {
      // Here the reader's lock keeps the raise from committing.
      CHECK((raised.code & 0xff) == SQLITE_BUSY);
      other("ROLLBACK");
      CHECK_THAT(db("UPDATE t SET v = v + 10").error, StartsWith("TG005"));
      db.must("ROLLBACK");
      CHECK(db("SELECT v FROM t").value() == "1");
    }
  }
}
