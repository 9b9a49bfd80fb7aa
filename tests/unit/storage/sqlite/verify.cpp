// verify on SQLite: each kind of breach that stored rows can show is planted by a program that
// rewrites the schema, and found; a random history that layer 1 made has none. And what may be
// written to Termgate's own tables: nothing.
#include "support.hpp"

#include <chrono>
#include <random>

#include <fmt/format.h>

#include <termgate/detail/sqlite_driver.hpp>
#include <termgate/error.hpp>

using namespace sqlite_test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

std::string kinds(Db& db) {
  return db.must(
      "SELECT coalesce(group_concat(DISTINCT value ->> 'kind'), '') FROM "
      "json_each(termgate_verify())");
}

// Two streams of one scope, sealed scopes, an adopted table, a lease, a reset that is on record.
void history(Db& db) {
  install(db);
  db.must(
      "CREATE TABLE ad (s TEXT, term INTEGER); CREATE INDEX ad_st ON ad (s, term); SELECT "
      "termgate_adopt('ad', 's', 'term')");
  for (const auto& [stream, term] :
       {std::pair("s1", 4), {"s2", 4}, {"s1", 5}, {"s2", 5}, {"s1", 6}, {"s2", 6}})
    db.must(fmt::format("SELECT termgate_append('{}', {}, 'x', NULL, 'S')", stream, term));
  db.must(
      "SELECT termgate_seal('only', 3), termgate_seal('only', 9), termgate_acquire_lease('L', 'o', "
      "60000)");
  db.must("INSERT INTO ad VALUES ('D', 1), ('D', 3)");
  db.must(
      "SELECT termgate_append('mv', 2, 'x', NULL, 'M'), termgate_append('mv', 2, 'y'), "
      "termgate_append('gone', 2, 'x', NULL, 'G')");
  db.must(
      "SELECT termgate_prune('gone', 9), termgate_seal('R', 8), termgate_reset_fence('R', 4, 'me', "
      "'mistyped')");
}

struct Case {
  const char* name;
  std::string planted, kind;
};

TEST_CASE("verify: finds each breach that the stored rows show", "[F1][F2][F3][F5][sqlite]") {
  const std::string write =
      "INSERT INTO termgate_stream_writes (stream_id, sequence_no, scope, term, payload, "
      "created_at) ";
  const std::string later =
      "(SELECT max(w.created_at, max(r.at)) + 5 FROM (SELECT max(created_at) AS created_at FROM "
      "termgate_stream_writes) w, termgate_resets "
      "r)";
  const auto stale = [&](const char* stream, int number, const char* scope, int term) {
    return write + fmt::format(
                       "VALUES ('{0}', {1}, '{2}', {3}, x'73', {4}); UPDATE termgate_streams SET "
                       "last_no = {1} WHERE stream_id = '{0}';",
                       stream, number, scope, term, later);
  };
  const std::string stream_9 = "INSERT INTO termgate_streams VALUES ('s9', 'S', 1, " + later + ");";
  const Case cases[] = {
      {"a stale write at the end of its stream", stale("s1", 4, "S", 5), "order"},
      {"a stale write in another stream of the scope", stale("s2", 4, "S", 4), "order"},
      {"a stale write in a new stream of the scope", stream_9 + stale("s9", 1, "S", 5), "order"},
      {"a stale write behind another scope's", stale("mv", 3, "M2", 1) + stale("mv", 4, "M", 1),
       "order"},
      {"a stale write long after the reset that would have excused it",
       "UPDATE termgate_resets SET at = 1; " + stale("s1", 4, "R", 6) + stale("s1", 5, "R", 5),
       "order"},
      {"a write below the fence that a reset left", stale("s1", 4, "R", 3), "order"},
      {"a fence lowered below stored terms",
       "UPDATE termgate_fences SET term = 2 WHERE scope = 'S'", "fence"},
      {"a fence lowered that was only sealed",
       "UPDATE termgate_fences SET term = 3 WHERE scope = 'only'", "fence"},
      {"a fence deleted that was only sealed", "DELETE FROM termgate_fences WHERE scope = 'only'",
       "fence"},
      {"a fence deleted after a reset", "DELETE FROM termgate_fences WHERE scope = 'R'", "fence"},
      {"a fence raised by hand", "UPDATE termgate_fences SET term = 77 WHERE scope = 'only'",
       "raise"},
      {"a term that nobody raised",
       "UPDATE termgate_fences SET term = 7 WHERE scope = 'S';" + stale("s1", 4, "S", 7), "raise"},
      {"a write whose scope is not its stream's",
       "UPDATE termgate_stream_writes SET scope = 'M' WHERE stream_id = 's1' AND sequence_no = 1",
       "scope"},
      {"a write in the middle that is gone",
       "DELETE FROM termgate_stream_writes WHERE stream_id = 's1' AND sequence_no = 2", "gap"},
      {"a last write that is gone",
       "DELETE FROM termgate_stream_writes WHERE stream_id = 's1' AND sequence_no = 3", "last_no"},
      {"a first write that is gone",
       "DELETE FROM termgate_stream_writes WHERE stream_id = 's1' AND sequence_no = 1", "gap"},
      {"all writes of a stream that are gone",
       "DELETE FROM termgate_stream_writes WHERE stream_id = 's1'", "gap"},
      {"a reset that nobody made",
       "INSERT INTO termgate_resets (scope, old_term, new_term, at, actor, reason) VALUES ('S', 6, "
       "3, " +
           later + ", 'x', 'x')",
       "reset"},
      {"a reset made twice",
       "INSERT INTO termgate_resets (scope, old_term, new_term, at, actor, reason) SELECT scope, "
       "old_term, new_term, at, 'x', 'x' FROM "
       "termgate_resets WHERE scope = 'R'",
       "reset"},
      {"a lease above its fence", "UPDATE termgate_leases SET term = 50", "lease"},
      {"an adopted row above its fence", "UPDATE termgate_fences SET term = 1 WHERE scope = 'D'",
       "adopted"},
  };
  for (const Case& planted : cases) {
    INFO(planted.name);
    Db db;
    history(db);
    CHECK(db.must("SELECT termgate_verify()") == "[]");
    db.plant(planted.planted);
    CHECK_THAT(kinds(db), Contains(planted.kind));
  }
}

// Raises, prunings and streams are whatever a writer makes of them, resets and moves an operator.
// Quadratic in any of them this takes minutes.
TEST_CASE("verify: a long history costs no more than its length", "[sqlite]") {
  Installed db;
  const auto audit = [](const char* action, const char* scope, const char* detail, int count) {
    return fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {3}) INSERT INTO "
        "termgate_audit (at, actor, "
        "session_user, "
        "client, action, scope, detail) SELECT i, 'a', 'a', 'a', '{0}', '{1}', {2} FROM n;",
        action, scope, detail, count);
  };
  const auto rows = [](const char* into, int count) {
    return fmt::format(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {1}) INSERT INTO "
        "{0} FROM n;",
        into, count);
  };
  db.plant(
      audit("raise", "one", "json_object('term', i)", 40'000) +
      audit("prune", "one", "json_object('stream', 's' || i, 'before', 1)", 20'000) +
      audit("stream_move", "one", "json_object('stream', 's' || i, 'from', 'before')", 10'000) +
      audit("reset", "lowered", "json_object('term', i, 'previous', i + 5)", 10'000) +
      audit("raise", "lowered", "json_object('term', i)", 20'005) +
      rows("termgate_resets (scope, old_term, new_term, at, actor, reason) SELECT 'lowered', i + "
           "5, i, i * 10, 'a', 'a'",
           10'000) +
      rows("termgate_streams SELECT 's' || i, 'one', 2, i", 10'000) +
      rows("termgate_streams SELECT 'l', 'lowered', 20000, i", 1) +
      rows("termgate_stream_writes SELECT 's' || i, 1, 'before', i, x'', i, NULL", 10'000) +
      rows("termgate_stream_writes SELECT 's' || i, 2, 'one', i, x'', i, NULL", 10'000) +
      rows("termgate_stream_writes SELECT 'l', i, 'lowered', i / 2 + 1, x'', i * 5 + 2, NULL",
           20'000) +
      audit("raise", "before", "json_object('term', i)", 10'000) +
      "INSERT INTO termgate_fences (scope, term, raised_at, raised_by) VALUES ('one', 40000, 0, "
      "'a'), ('lowered', 10000, 0, 'a'), "
      "('before', 10000, 0, 'a');");
  const auto began = std::chrono::steady_clock::now();
  kinds(db);
  CHECK(std::chrono::steady_clock::now() - began <
        std::chrono::seconds(20));  // a second on a quiet machine, without sanitizers
}

TEST_CASE("verify: a history that layer 1 made has no findings", "[sqlite]") {
  const unsigned seed = Catch::rngSeed();
  CAPTURE(seed);
  std::mt19937 engine(seed);
  const auto below = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
  Installed db;
  std::int64_t term[3] = {1, 1, 1};
  for (int step = 0; step < 1500; ++step) {
    const int scope = below(3);
    const std::string name(1, static_cast<char>('a' + scope));
    switch (below(12)) {
      case 0: db(fmt::format("SELECT termgate_seal('{}', {})", name, ++term[scope])); break;
      case 1:
        db(fmt::format("SELECT termgate_reset_fence('{}', {}, 'me', 'test')", name,
                       1 + below(static_cast<int>(term[scope]))));
        break;
      case 2:
        db(fmt::format("SELECT termgate_prune('{}{}', {})", name, below(3), below(20)));
        break;
      case 3:
        if (below(6) == 0)
          db(fmt::format("SELECT termgate_stream_move('{}{}', '{}', 'me', 'test')", name, below(3),
                         static_cast<char>('a' + below(3))));
        break;
      case 4: db("BEGIN; SELECT termgate_append('undone', 1, 'x'); ROLLBACK"); break;
      default:
        if (db(fmt::format("SELECT termgate_append('{}{}', {}, 'x')", name, below(3), term[scope]))
                .error.find("TG001") != std::string::npos)
          ++term[scope];
    }
    // The fence may be another's height by now.
    if (const auto fence = db.must(fmt::format("SELECT termgate_fence('{}') ->> 'term'", name));
        fence != "NULL" && below(2) == 0)
      term[scope] = std::stoll(fence);
  }
  CHECK(db.must("SELECT count(*) > 100 FROM termgate_stream_writes") == "1");
  CHECK(db.must("SELECT termgate_verify()") == "[]");
}

// Each on a connection that makes no other call: a check, a trigger in autocommit, one in a block
// that goes on, one that is closed.
TEST_CASE("refusals: stale writes of plain SQL are counted when their transaction is over",
          "[sqlite]") {
  for (const char* mode : {"WAL", "DELETE"}) {
    INFO(mode);
    Folder folder;
    Db reader(folder.file());
    reader.must(std::string("PRAGMA journal_mode = ") + mode);
    install(reader);
    reader.must(
        "CREATE TABLE t (v); SELECT termgate_protect('t', NULL, 'a'), termgate_seal('a', 5)");
    const auto counted = [&] {
      return std::stoi(
          reader.must("SELECT coalesce(sum(detail ->> 'count'), 0) FROM termgate_audit WHERE "
                      "action = 'refuse'"));
    };
    int wanted = 0;
    for (const char* refused :
         {"SELECT termgate_check_term('a', 4)",
          "SELECT termgate_declare('a', 4); INSERT INTO t VALUES (1)",
          "SELECT termgate_declare('a', 4); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)",
          "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 4)",
          "SELECT termgate_append('s', 4, 'x', NULL, 'a')"}) {
      INFO(refused);
      Db writer(folder.file());
      CHECK_THAT(writer(refused).error, StartsWith("TG001"));
      if (sqlite3_get_autocommit(writer.handle()) == 0) {
        CHECK(counted() == wanted);
        writer.must("COMMIT");
      }
      CHECK(counted() == ++wanted);
    }
    {
      // At once again, while somebody else writes: nothing waits, nothing is lost.
      Db writer(folder.file());
      writer("SELECT termgate_check_term('a', 4)");
      reader.must("BEGIN IMMEDIATE");
      const auto begun = std::chrono::steady_clock::now();
      for (int at = 0; at < 3; ++at)
        CHECK_THAT(writer("SELECT termgate_check_term('a', 4)").error, StartsWith("TG001"));
      CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(2));
      reader.must("COMMIT");
    }
    CHECK(counted() == wanted + 4);
    CHECK(reader.must("SELECT count(*) FROM t") == "0");
  }
}

// Every table of layer 1, and every way to write to one.
// Long: each table once.
TEST_CASE("own tables: nobody but Termgate writes to them", "[F1][F2][F3][F5][sqlite]") {
  Folder folder;
  {
    Db db(folder.file());
    history(db);
    db.must("SELECT termgate_declare_untrusted('me', 'test'), termgate_protect('ad', 's')");
  }
  std::vector<std::string> tables;
  std::vector<std::vector<std::string>> before;
  const auto content = [](Db& db, const std::string& table) {
    std::string all;
    for (const auto& row : db("SELECT * FROM " + table + " ORDER BY 1, 2").rows)
      for (const auto& value : row) all += value + "|";
    return all;
  };
  Db with(folder.file()), without(folder.file(), false);
  for (const auto& row : with("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE "
                              "'termgate!_%' ESCAPE '!'")
                             .rows)
    tables.push_back(row[0]);
  REQUIRE(tables.size() == 20);
  auto driver = termgate::detail::open_sqlite(folder.file(), {});
  const auto by_driver = [&](const std::string& sql) {
    driver->transact({},
                     [&](termgate::detail::OpenTransaction& session) { session.execute(sql, {}); });
  };
  for (const std::string& table : tables) {
    const std::string column =
        with.must("SELECT name FROM pragma_table_info('" + table + "') ORDER BY cid DESC LIMIT 1");
    const std::string was = content(with, table);
    const std::string ways[] = {
        fmt::format("UPDATE {0} SET {1} = {1}", table, column),
        fmt::format("UPDATE OR REPLACE main.{0} SET {1} = {1} WHERE 1", table, column),
        fmt::format("UPDATE OR IGNORE \"{0}\" SET {1} = NULL", table, column),
        fmt::format("DELETE FROM {0}", table),
        fmt::format("DELETE FROM {0} WHERE rowid IS NOT NULL OR 1", table),
        fmt::format("INSERT INTO {0} SELECT * FROM {0} WHERE 1", table),
        fmt::format("INSERT OR REPLACE INTO {0} SELECT * FROM {0} WHERE 1", table),
        fmt::format("INSERT OR IGNORE INTO {0} SELECT * FROM {0} WHERE 1", table),
        fmt::format("REPLACE INTO [{0}] SELECT * FROM {0}", table),
        fmt::format(
            "INSERT INTO {0} SELECT * FROM {0} WHERE 1 ON CONFLICT DO UPDATE SET {1} = NULL", table,
            column),
        fmt::format("INSERT INTO {0} SELECT * FROM {0} WHERE 1 ON CONFLICT DO NOTHING", table),
        fmt::format("WITH x AS (SELECT 1) DELETE FROM {0} RETURNING *", table),
    };
    // A lease that stays as it is and a second row of the mark are left alone without an error.
    const bool any = was != "" && table != "termgate_leases" && table != "termgate_here";
    for (const std::string& sql : ways) {
      INFO(sql);
      for (Db* db : {&with, &without}) {
        const std::string error = (*db)(sql).error;
        if (any) CHECK(error != "");
        CHECK(content(*db, table) == was);
      }
      CHECK_THROWS_AS(by_driver(sql), termgate::Error);
    }
    for (const std::string& sql :
         {"ALTER TABLE " + table + " ADD COLUMN more", "ALTER TABLE " + table + " RENAME TO other",
          "CREATE TRIGGER mine BEFORE UPDATE ON " + table + " BEGIN SELECT RAISE(IGNORE); END",
          "CREATE TEMP TRIGGER mine BEFORE INSERT ON main." + table +
              " BEGIN SELECT RAISE(IGNORE); END",
          "DROP TABLE " + table}) {
      INFO(sql);
      CHECK_THROWS_AS(by_driver(sql), termgate::InvalidInput);
    }
    CHECK(content(with, table) == was);
  }
  for (const char* sql : {"SELECT termgate_uninstall()", "SELECT termgate_uninstall('me', 'why')",
                          "SELECT TERMGATE_uninstall('me', 'why')", "ATTACH 'x.db' AS x",
                          "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = ''",
                          "DROP TABLE main.Termgate_Fences", "DROP TRIGGER termgate_fences_update",
                          "DROP TRIGGER termgate_protect_insert_ad", "DROP INDEX termgate_audit_at",
                          "CREATE TRIGGER mine AFTER INSERT ON ad BEGIN UPDATE termgate_fences SET "
                          "untrusted = 0; END; INSERT INTO ad VALUES ('D', 3)"}) {
    INFO(sql);
    CHECK_THROWS_AS(by_driver(sql), termgate::Error);
  }
  // A view's trigger, or a user's table's, is a plain write too.
  for (const char* sql : {"CREATE TRIGGER mine AFTER INSERT ON taken BEGIN UPDATE termgate_fences "
                          "SET untrusted = 0; END; INSERT INTO taken VALUES (1)",
                          "CREATE VIEW v AS SELECT 1 AS x; CREATE TRIGGER vt INSTEAD OF INSERT ON "
                          "v BEGIN UPDATE termgate_incarnation SET untrusted = 0; "
                          "END; INSERT INTO v VALUES (1)",
                          "BEGIN; SELECT termgate_check_term('new', 1); UPDATE "
                          "termgate_incarnation SET untrusted = 0",
                          "UPDATE termgate_fences SET untrusted = 0 WHERE termgate_now() > 0"}) {
    INFO(sql);
    with("CREATE TABLE IF NOT EXISTS taken (v)");
    CHECK(with(sql).error != "");
    with("ROLLBACK");
    CHECK(with.must("SELECT min(untrusted) FROM termgate_fences") == "1");
    CHECK(with.must("SELECT untrusted FROM termgate_incarnation") == "1");
  }
  with.must(
      "CREATE TABLE termgate_leases_of_mine (v); INSERT INTO termgate_leases_of_mine VALUES (1)");
  by_driver("UPDATE termgate_leases_of_mine SET v = 2");
  by_driver("CREATE TABLE termgate_users_own (v)");
  by_driver("DROP TABLE termgate_users_own");
  // A lease may end earlier, and nothing else of it changes.
  by_driver("UPDATE termgate_leases SET expires_at = expires_at - 5");
  for (const char* sql : {"UPDATE termgate_leases SET expires_at = expires_at + 5",
                          "UPDATE termgate_leases SET expires_at = 1, owner_id = 'me'"})
    CHECK_THAT(with(sql).error, StartsWith("TG005"));
}

}  // namespace
