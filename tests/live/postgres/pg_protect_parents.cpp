// [F2] [F6] protect on real servers: rows that come by way of a parent, TRUNCATE above READ
// COMMITTED, and statements that began before their own leader's raise.
#include <catch2/catch.hpp>

#include "pg_calls.hpp"

using termgate::test::filled;
using termgate::test::PgDatabase;
using termgate::test::PgSession;
using termgate::test::wait_for_lock;

namespace {

// Scope a is at 5, scope b at 7. `app` owns its tables; `writer` owns nothing, has no right on
// layer 1 but level write, and writes.
struct Tables {
  static PgDatabase& database() {
    static PgDatabase one("parents");
    return one;
  }
  const std::string me = std::to_string(getpid());
  PgSession admin{database().url()};
  PgSession app{prepared()};
  PgSession writer{database().url_as("tg_pwriter_" + me, "write") +
                   "?options=-csearch_path%3Dapp,termgate"};

  std::string prepared() {
    admin.must(
        "DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC; "
        "SELECT termgate.seal('a', 5), "
        "termgate.seal('b', 7)");
    return database().url_as("tg_powner_" + me, "write") + "?options=-csearch_path%3Dapp,termgate";
  }
  void made(const std::string& sql) {
    app.must(sql + "; GRANT ALL ON ALL TABLES IN SCHEMA app TO PUBLIC");
  }
  std::string as(const std::string& before, const std::string& sql) {
    writer.must("BEGIN; " + before);
    const auto result = writer.run(sql);
    writer.must("ROLLBACK");
    return result.code;
  }
  std::string as_nobody(const std::string& sql) { return as("SELECT 1", sql); }
  std::string as_a(const std::string& sql) { return as("SELECT check_term('a', 5)", sql); }
  std::string as_stale(const std::string& sql) {
    return as("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '4'", sql);
  }
};

}  // namespace

// Long: the table of its cases.
TEST_CASE("protect: a partition or child is guarded however its rows arrive", "[F6][live]") {
  Tables t;
  const bool merge =
      t.admin.value("SELECT current_setting('server_version_num')::int >= 150000") == "t";
  // {C}: the columns, {H}: how it is protected. What stands alone under one scope has no row
  // triggers: PostgreSQL refuses `step` until it is unprotected.
  struct Tree {
    const char *name, *made, *guarded, *step;
    bool routed;
  };
  // clang-format off
  const Tree trees[] = {
      {"partitions", "CREATE TABLE root {C} PARTITION BY LIST (k); CREATE TABLE part1 PARTITION OF root FOR VALUES IN (1); CREATE TABLE part2 PARTITION OF root FOR VALUES IN (2); SELECT protect('part1', {H})",
       "part1", "", true},
      {"inheritance", "CREATE TABLE root {C}; CREATE TABLE part1 () INHERITS (root); CREATE TABLE part2 () INHERITS (root); SELECT protect('part1', {H})", "part1", "", false},
      {"attached later", "CREATE TABLE part1 {C}; CREATE TABLE part2 {C}; CREATE TABLE root {C} PARTITION BY LIST (k); SELECT protect('part1', {H}); ALTER TABLE root ATTACH PARTITION part2 FOR VALUES IN (2)",
       "part1", "ALTER TABLE root ATTACH PARTITION part1 FOR VALUES IN (1)", true},
      {"inherits later", "CREATE TABLE part1 {C}; CREATE TABLE part2 {C}; CREATE TABLE root {C}; SELECT protect('part1', {H})", "part1", "ALTER TABLE part1 INHERIT root", false},
      {"grandparent inherits later", "CREATE TABLE part1 {C}; CREATE TABLE part2 {C}; CREATE TABLE root {C}; CREATE TABLE middle {C}; ALTER TABLE part1 INHERIT middle; SELECT protect('middle', {H})",
       "middle", "ALTER TABLE middle INHERIT root", false},
      {"moved to another root", "CREATE TABLE middle {C} PARTITION BY LIST (k); CREATE TABLE part1 PARTITION OF middle FOR VALUES IN (1); CREATE TABLE root {C} PARTITION BY LIST (k); "
       "CREATE TABLE part2 PARTITION OF root FOR VALUES IN (2); SELECT protect('middle', {H}); ALTER TABLE middle DETACH PARTITION part1; ALTER TABLE root ATTACH PARTITION part1 FOR VALUES IN (1)",
       "part1", "", true},
      {"its root was attached later", "CREATE TABLE middle {C} PARTITION BY LIST (k); CREATE TABLE part1 PARTITION OF middle FOR VALUES IN (1); CREATE TABLE root {C} PARTITION BY LIST (k); "
       "CREATE TABLE part2 PARTITION OF root FOR VALUES IN (2); SELECT protect('middle', {H}); ALTER TABLE root ATTACH PARTITION middle FOR VALUES IN (1)",
       "middle", "", true},
  };
  // clang-format on
  for (const std::string how : {"scope => 'a'", "scope => '*'", "scope_column => 's'"}) {
    for (const Tree& tree : trees) {
      CAPTURE(how, tree.name);
      const auto with = [&, guarded = std::string(tree.guarded)](const std::string& text) {
        return filled(text, {{"{C}", "(k int, s text, v int)"}, {"{H}", how}, {"{G}", guarded}});
      };
      t.made("DROP TABLE IF EXISTS root, part1, part2, middle CASCADE");
      t.made(with(tree.made));
      if (const std::string step = tree.step; !step.empty() && how != "scope_column => 's'") {
        const auto refused = t.app.run(step);
        CHECK(refused.code == "0A000");
        CHECK(refused.message.find("termgate_unprotect_first") != std::string::npos);
        t.made(with("BEGIN; SELECT unprotect('{G}'); " + step +
                    "; SELECT protect('{G}', {H}); COMMIT"));
      } else if (!step.empty()) {
        t.made(step);
      }
      t.admin.must(
          "SET session_replication_role = replica; INSERT INTO app.part1 VALUES (1, 'a', 1); "
          "INSERT INTO app.part2 VALUES (2, 'a', 1); SET "
          "session_replication_role = origin");
      std::vector<std::string> writes = {
          "UPDATE root SET v = 2 WHERE k = 1",
          "DELETE FROM root WHERE k = 1",
          "INSERT INTO part1 VALUES (1, 'a', 2)",
          "UPDATE part1 SET v = 2",
          "DELETE FROM part1",
          "TRUNCATE part1",
          "TRUNCATE root",
          "WITH w AS (DELETE FROM root RETURNING k) SELECT * FROM w"};
      if (tree.routed) {
        writes.insert(writes.end(),
                      {"INSERT INTO root VALUES (1, 'a', 2)", "UPDATE root SET k = 1 WHERE k = 2",
                       "UPDATE root SET k = 2 WHERE k = 1", "INSERT INTO root SELECT 1, 'a', 2",
                       "INSERT INTO root VALUES (1, 'a', 2) ON CONFLICT DO NOTHING"});
        if (merge)
          writes.push_back(
              "MERGE INTO root USING (SELECT 1 AS k) n ON root.k = n.k WHEN MATCHED THEN UPDATE "
              "SET v = 3");
      }
      for (const std::string& write : writes) {
        CAPTURE(write);
        CHECK(t.as_nobody(write) == "TG002");
        CHECK(t.as_stale(write) == "TG001");
        CHECK(t.as_a(write) == "");
      }
      if (tree.routed) {
        const auto copy = [&](const std::string& before) {
          t.writer.must("BEGIN; " + before);
          PQclear(PQexec(t.writer.raw(), "COPY root FROM STDIN"));
          PQputCopyData(t.writer.raw(), "1\ta\t5\n", 6);
          PQputCopyEnd(t.writer.raw(), nullptr);
          const auto code = t.writer.finish().code;
          t.writer.must("ROLLBACK");
          return code;
        };
        CHECK(copy("SELECT 1") == "TG002");
        CHECK(copy("SELECT check_term('a', 5)") == "");
      }
      // What has nothing to do with the protected part stays as it was.
      CHECK(t.as_nobody("INSERT INTO part2 VALUES (2, 'a', 2)") == "");
      CHECK(t.as_nobody("UPDATE root SET v = 2 WHERE k = 2") == "");
      CHECK(t.admin
                .must("SELECT * FROM termgate.doctor() WHERE severity = 'error' AND object NOT "
                      "LIKE 'setting%'")
                .rows.empty());
      t.app.must(with("SELECT unprotect('{G}')"));
      if (tree.name == std::string("moved to another root"))
        t.app.must("SELECT unprotect('middle')");
      CHECK(t.as_nobody("TRUNCATE root") == "");
      CHECK(t.admin.value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'termgate%'") == "0");
    }
  }
}

TEST_CASE("protect: no attaching or detaching lets rows past a partition", "[F6][live]") {
  Tables t;
  const std::string columns = " (k int, s text, v int)";
  struct Case {
    std::string name, made;
    std::vector<std::string>
        reach;  // tables through which rows come into part1, each of which must be refused
  };
  const std::string tree = "CREATE TABLE root" + columns +
                           " PARTITION BY LIST (k); CREATE TABLE middle PARTITION OF root FOR "
                           "VALUES IN (1, 2) PARTITION BY LIST (k); "
                           "CREATE TABLE part1 PARTITION OF middle FOR VALUES IN (1); CREATE TABLE "
                           "part2 PARTITION OF middle FOR VALUES IN "
                           "(2); SELECT protect('root', scope => 'a'); ";
  const std::string other = "CREATE TABLE other" + columns + " PARTITION BY LIST (k); ";
  // clang-format off
  const std::vector<Case> cases{
      {"as it was protected", tree, {"root", "middle", "part1"}},
      {"detached", tree + "ALTER TABLE middle DETACH PARTITION part1", {"part1"}},
      {"detached and attached again", tree + "ALTER TABLE middle DETACH PARTITION part1; ALTER TABLE middle ATTACH PARTITION part1 FOR VALUES IN (1)", {"root", "middle", "part1"}},
      {"a subtree moved to another root", tree + other + "ALTER TABLE root DETACH PARTITION middle; ALTER TABLE other ATTACH PARTITION middle FOR VALUES IN (1, 2)", {"other", "middle", "part1"}},
      {"under a new table of the same root",
       tree + other + "ALTER TABLE middle DETACH PARTITION part1; ALTER TABLE other ATTACH PARTITION part1 FOR VALUES IN (1); ALTER TABLE root DETACH PARTITION middle; "
                      "ALTER TABLE root ATTACH PARTITION other FOR VALUES IN (1)",
       {"root", "other", "part1"}},
      {"under a table that was unprotected meanwhile", tree + "ALTER TABLE middle DETACH PARTITION part1; SELECT unprotect('middle'); ALTER TABLE middle ATTACH PARTITION part1 FOR VALUES IN (1)",
       {"root", "middle", "part1"}},
      {"under a table that got another scope meanwhile", tree + "ALTER TABLE root DETACH PARTITION middle; ALTER TABLE middle DETACH PARTITION part1; SELECT protect('middle', scope => 'b'); ALTER TABLE middle ATTACH PARTITION part1 FOR VALUES IN (1)",
       {"middle", "part1"}},
      {"under a table that only observes meanwhile",
       tree + "ALTER TABLE root DETACH PARTITION middle; ALTER TABLE middle DETACH PARTITION part1; SELECT protect('middle', scope => 'a', mode => 'observe'); ALTER TABLE middle ATTACH PARTITION part1 FOR VALUES IN (1)", {"middle", "part1"}},
  };
  // clang-format on
  for (const Case& one : cases) {
    t.made("DROP TABLE IF EXISTS root, middle, part1, part2, other CASCADE");
    t.made(one.made);
    t.admin.must(
        "SET session_replication_role = replica; INSERT INTO app.part1 VALUES (1, 'a', 1); SET "
        "session_replication_role = origin");
    for (const std::string& name : one.reach) {
      for (const std::string level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
        for (const std::string& write : {"INSERT INTO " + name + " VALUES (1, 'a', 2)",
                                         "UPDATE " + name + " SET v = 2", "DELETE FROM " + name}) {
          CAPTURE(one.name, level, write);
          const std::string as_b = one.name.find("another scope") != std::string::npos
                                       ? "SELECT check_term('b', 7); "
                                       : "";
          CHECK(t.as("SET TRANSACTION ISOLATION LEVEL " + level + "; " + as_b, write) == "TG002");
          // What was attached to a protected table since is refused until protect is run again.
          const std::string since = one.name.find("got another") != std::string::npos ||
                                            one.name.find("observes") != std::string::npos
                                        ? "TG005"
                                        : "";
          CHECK(t.as("SET TRANSACTION ISOLATION LEVEL " + level + "; " + as_b +
                         "SELECT check_term('a', 5)",
                     write) == since);
        }
      }
    }
  }
}

TEST_CASE(
    "protect: a partitioned table below a protected one can be protected again, and both guard "
    "what is attached later",
    "[F6][live]") {
  Tables t;
  t.made("DROP TABLE IF EXISTS root, middle, part1, part2 CASCADE");
  t.made(
      "CREATE TABLE root (k int, s text, v int) PARTITION BY LIST (k); CREATE TABLE middle "
      "PARTITION OF root FOR VALUES IN (1, 2) "
      "PARTITION BY LIST (k); "
      "CREATE TABLE part1 PARTITION OF middle FOR VALUES IN (1)");
  for (const std::string how : {"scope => 'a'", "scope_column => 's'"}) {
    CAPTURE(how);
    t.app.must("SELECT protect('root', " + how + ")");
    CHECK(t.app.value("SELECT protect('middle', " + how + ")") == "2");
    CHECK(t.app.value("SELECT protect('middle', " + how + ")") == "2");
    for (const std::string into : {"root", "middle", "part1"}) {
      CAPTURE(into);
      CHECK(t.as_nobody("INSERT INTO " + into + " VALUES (1, 'a', 1)") == "TG002");
      CHECK(t.as_stale("INSERT INTO " + into + " VALUES (1, 'a', 1)") == "TG001");
      CHECK(t.as_a("INSERT INTO " + into + " VALUES (1, 'a', 1)") == "");
    }
    t.made("CREATE TABLE part2 PARTITION OF middle FOR VALUES IN (2)");
    for (const std::string into : {"root", "middle"}) {
      CAPTURE(into);
      CHECK(t.as_nobody("INSERT INTO " + into + " VALUES (2, 'a', 1)") != "");
      CHECK(t.as_stale("INSERT INTO " + into + " VALUES (2, 'a', 1)") != "");
    }
    CHECK(t.admin.value("SELECT severity FROM termgate.doctor() WHERE object = 'app.part2'") ==
          "error");
    CHECK(t.app.value("SELECT protect('root', " + how + ")") == "4");
    CHECK(t.as_a("INSERT INTO root VALUES (2, 'a', 1)") == "");
    CHECK(t.as_nobody("INSERT INTO part2 VALUES (2, 'a', 1)") == "TG002");
    t.app.must("DROP TABLE part2");
    t.app.must("SELECT unprotect('root')");
    CHECK(t.as_nobody("INSERT INTO root VALUES (1, 'a', 1)") == "");
    CHECK(t.app.value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'termgate%' AND "
                      "tgrelid::regclass::text ~ '(root|middle|part1)'") == "0");
  }
}

TEST_CASE("protect: a snapshot from before a parent came hides nothing from the check",
          "[F6][live]") {
  Tables t;
  struct Case {
    const char *made, *later;
  };
  for (const Case& one :
       {Case{"CREATE TABLE other {C}; CREATE TABLE root {C}; CREATE TABLE part1 () INHERITS (root)",
             "ALTER TABLE part1 INHERIT other"},
        Case{
            "CREATE TABLE other {C} PARTITION BY LIST (k); CREATE TABLE root {C} PARTITION BY LIST "
            "(k); CREATE TABLE part1 PARTITION OF root FOR VALUES IN (1)",
            "ALTER TABLE root DETACH PARTITION part1; ALTER TABLE other ATTACH PARTITION part1 FOR "
            "VALUES IN (1)"}}) {
    for (const std::string level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
      CAPTURE(one.later, level);
      t.made("DROP TABLE IF EXISTS root, middle, part1, part2, other CASCADE");
      t.made(filled(one.made, {{"{C}", "(k int, s text, v int)"}}));
      t.made("INSERT INTO part1 VALUES (1, 'a', 1); SELECT protect('root', scope => 'a')");
      t.writer.must("BEGIN ISOLATION LEVEL " + level + "; SELECT count(*) FROM pg_class");
      t.made(one.later);
      CHECK(t.writer.run("UPDATE other SET v = 2").code == "TG002");
      t.writer.must("ROLLBACK");
    }
  }
}

TEST_CASE(
    "protect: TRUNCATE of a table with a scope column is refused where its snapshot may hide rows",
    "[F1][F2][live]") {
  Tables t;
  t.made(
      "CREATE TABLE t (s text, v int); CREATE TABLE ref (id int PRIMARY KEY, s text); CREATE TABLE "
      "pointing (id int REFERENCES ref ON "
      "DELETE CASCADE, s text)");
  t.made(
      "INSERT INTO t VALUES ('a', 1); SELECT protect('t', scope_column => 's'), "
      "protect('pointing', scope_column => 's')");
  for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    CAPTURE(level);
    PgSession old(Tables::database().url_as("tg_pwriter_" + t.me, "write") +
                  "?options=-csearch_path%3Dapp,termgate");
    old.must("BEGIN ISOLATION LEVEL " + level +
             "; SELECT check_term('a', 5); SELECT count(*) FROM t; SELECT count(*) FROM pointing");
    t.writer.must("BEGIN; SELECT check_term('b', 7); INSERT INTO t VALUES ('b', 1); COMMIT");
    const auto refused = old.run("TRUNCATE t");
    CHECK(refused.code == "TG005");
    CHECK(refused.message.find("READ COMMITTED") != std::string::npos);
    old.must("ROLLBACK; BEGIN ISOLATION LEVEL " + level + "; SELECT check_term('a', 5)");
    CHECK(old.run("TRUNCATE ref CASCADE").code == "TG005");
    old.must("ROLLBACK");
    CHECK(t.app.value("SELECT count(*) FROM t WHERE s = 'b'") != "0");
  }
  // At READ COMMITTED it waits for writers first and then sees all of their rows.
  CHECK(t.as_a("TRUNCATE t") == "TG002");
  PgSession other(Tables::database().url_as("tg_pwriter_" + t.me, "write") +
                  "?options=-csearch_path%3Dapp,termgate");
  t.made("DELETE FROM ref");
  t.admin.must(
      "SET session_replication_role = replica; TRUNCATE app.t; SET session_replication_role = "
      "origin");
  other.must("BEGIN; SELECT check_term('b', 7); INSERT INTO t VALUES ('b', 2)");
  t.writer.must("BEGIN; SELECT check_term('a', 5)");
  t.writer.send("TRUNCATE t");
  wait_for_lock(t.admin, t.writer);
  other.must("COMMIT");
  CHECK(t.writer.finish().code == "TG002");
  t.writer.must("ROLLBACK");
}

TEST_CASE(
    "protect: a statement that began before its own leader was raised is a serialization error",
    "[F1][live]") {
  Tables t;
  int number = 0;
  for (const std::string how :
       {"scope => 'SCOPE'", "scope_column => 's'", "scope => '*'", "on a partition"}) {
    for (const std::string shape : {"INSERT INTO t SELECT 'SCOPE', count(*) FROM counted",
                                    "UPDATE t SET v = (SELECT count(*) FROM counted)",
                                    "DELETE FROM t WHERE v <= (SELECT count(*) FROM counted)"}) {
      CAPTURE(how, shape);
      const std::string scope = "young " + std::to_string(++number);
      const auto with = [&](const std::string& text) { return filled(text, {{"SCOPE", scope}}); };
      t.admin.must("SELECT termgate.seal('" + scope + "', 5)");
      t.made("DROP TABLE IF EXISTS t, counted CASCADE; CREATE TABLE counted (v int)");
      if (how == "on a partition") {
        t.made(
            "CREATE TABLE t (s text, v int) PARTITION BY LIST (s); CREATE TABLE t1 PARTITION OF t "
            "DEFAULT");
        t.made(with("INSERT INTO t VALUES ('SCOPE', 0); SELECT protect('t1', scope => 'SCOPE')"));
      } else {
        t.made(
            with("CREATE TABLE t (s text, v int); INSERT INTO t VALUES ('SCOPE', 0); SELECT "
                 "protect('t', " +
                 how + ")"));
      }
      t.admin.must("SELECT termgate.seal('" + scope + "', 6)");
      // The old leader has passed, the new one raises and waits for it; the new leader's own write
      // begins meanwhile and waits for the raise.
      PgSession old(Tables::database().url_as("tg_powner_" + t.me, "") +
                    "?options=-csearch_path%3Dapp,termgate");
      old.must("BEGIN; SELECT check_term('" + scope + "', 6); INSERT INTO counted VALUES (1)");
      PgSession raiser(Tables::database().url());
      raiser.send("SELECT fence FROM termgate.seal('" + scope + "', 7, '1 minute')");
      wait_for_lock(t.admin, raiser);
      t.writer.must("BEGIN; SET LOCAL termgate.scope = '" + scope +
                    "'; SET LOCAL termgate.term = '7'");
      t.writer.send(with(shape));
      wait_for_lock(t.admin, t.writer);
      old.must("COMMIT");
      CHECK(raiser.finish().value() == "7");
      const auto early = t.writer.finish();
      CAPTURE(early.message);
      CHECK(early.code == "40001");
      t.writer.must("ROLLBACK");
      // Run again it is right.
      t.writer.must("BEGIN; SET LOCAL termgate.scope = '" + scope +
                    "'; SET LOCAL termgate.term = '7'");
      CHECK(t.writer.run(with(shape)).ok());
      t.writer.must("COMMIT");
    }
  }
}

TEST_CASE("protect: the snapshot rule leaves alone what has raised by itself or was restored",
          "[F1][live]") {
  Tables t;
  t.made("CREATE TABLE t (v int); SELECT protect('t', scope => 'own raise')");
  CHECK(t.as("SELECT check_term('own raise', 3)", "INSERT INTO t VALUES (1)") == "");
  CHECK(t.as("SAVEPOINT s; SELECT check_term('own raise', 3); RELEASE s",
             "INSERT INTO t VALUES (1)") == "");
  CHECK(t.as_nobody(
            "WITH c AS (SELECT check_term('own raise', 3) AS c) INSERT INTO t SELECT c FROM c") !=
        "40001");
  t.writer.must("SELECT check_term('own raise', 3)");
  // A dump from a server that has come farther with its transaction ids.
  t.admin.must("UPDATE termgate.fences SET raised_xid = '9000000000000' WHERE scope = 'own raise'");
  CHECK(t.as("SELECT check_term('own raise', 3)", "INSERT INTO t VALUES (1)") == "");
  // A cursor that is open since before another scope's raise is no statement of ours.
  t.admin.must("SELECT termgate.seal('own raise', 4)");
  CHECK(t.as("SET LOCAL termgate.scope = 'own raise'; SET LOCAL termgate.term = '4'",
             "INSERT INTO t VALUES (1)") == "");
}
