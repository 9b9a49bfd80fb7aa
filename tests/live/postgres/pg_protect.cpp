// [F2] [F6] protect and adopt on a real server: every way around the triggers that is known, and
// what marks a pass.
#include <catch2/catch.hpp>

#include "support/pg_session.hpp"

using termgate::test::PgDatabase;
using termgate::test::PgSession;

namespace {

// Scope a stands at 5, scope b at 7. The session is a plain role that owns its tables and may check
// and append.
struct Protected {
  static PgDatabase& database() {
    static PgDatabase one("protect");
    return one;
  }
  PgSession admin{database().url()};
  PgSession app{prepared()};

  std::string prepared() {
    admin.must(
        "DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC");
    admin.must("SELECT termgate.seal('a', 5), termgate.seal('b', 7)");
    return database().url_as("tg_app_" + std::to_string(getpid()), "write") +
           "?options=-csearch_path%3Dapp,termgate";
  }
  // One transaction that has passed a's check.
  std::string as_a(const std::string& sql) { return try_in("SELECT check_term('a', 5)", sql); }
  std::string as_both(const std::string& sql) {
    return try_in("SELECT check_term('a', 5), check_term('b', 7)", sql);
  }
  // One that has passed nothing.
  std::string as_nobody(const std::string& sql) { return try_in("SELECT 1", sql); }
  std::string try_in(const std::string& before, const std::string& sql) {
    app.must("BEGIN; " + before);
    const auto code = app.run(sql).code;
    app.must(code.empty() ? "COMMIT" : "ROLLBACK");
    return code;
  }
};

}  // namespace

TEST_CASE("protect: what a transaction declares is judged with its first write", "[F2][F6][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)");
  CHECK(p.app.value("SELECT protect('t', scope => 'a')") == "1");
  struct Row {
    const char *scope, *term, *code;
  };
  for (const Row& row :
       {Row{"a", "4", "TG001"}, Row{"a", "5", ""}, Row{"a", "6", "TG005"}, Row{"b", "7", "TG002"},
        Row{"a", "five", "TG005"}, Row{"a", "-5", "TG005"}, Row{"a", "", "TG002"}}) {
    CAPTURE(row.scope, row.term);
    for (const std::string write :
         {"UPDATE t SET v = 4",
          "INSERT INTO t VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET v = 9"}) {
      CHECK(p.try_in(std::string("SET LOCAL termgate.scope = '") + row.scope +
                         "'; SET LOCAL termgate.term = '" + row.term + "'",
                     write) == row.code);
    }
  }
  CHECK(p.as_nobody("WITH w AS (DELETE FROM t RETURNING id) SELECT * FROM w") == "TG002");
  CHECK(p.as_nobody("TRUNCATE t") == "TG002");
  CHECK(p.as_a("TRUNCATE t") == "");
}

TEST_CASE("protect: a transaction is bound to the term of its first write", "[F1][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (v int); SELECT protect('t', scope => 'a')");
  p.app.must(
      "BEGIN; SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '5'; INSERT INTO t VALUES "
      "(1); SAVEPOINT s");
  PgSession leader(Protected::database().url());
  leader.send("SELECT termgate.seal('a', 6, '1 minute')");
  termgate::test::wait_for_lock(p.admin, leader);
  // The pass stands for term 5 whatever is declared later; and a raise that waits does not lock out
  // who it waits for.
  CHECK(p.app.run("SET LOCAL termgate.term = '4'; INSERT INTO t VALUES (2)").ok());
  p.app.must("COMMIT");
  CHECK(leader.finish().ok());
  p.admin.must("SELECT termgate.reset_fence('a', 5, 'test', 'for the next one')");
}

TEST_CASE("protect: what marks a pass cannot be written by the application", "[F2][live]") {
  Protected p;
  p.app.must(
      "CREATE TABLE t (v int); SELECT protect('t', scope => 'a'); CREATE TABLE any_scope (v int); "
      "SELECT protect('any_scope', scope => "
      "'*')");
  for (const std::string table : {"t", "any_scope"}) {
    const auto write = "INSERT INTO " + table + " VALUES (1)";
    CAPTURE(table);
    CHECK(p.as_nobody(write) == "TG002");
    for (const std::string mark :
         {"a=5", "|Sa|5|", "|Sa|5|00", "|Sa|9999999999999999999999|x",
          "|Sa|5|0000000000000000000000000000000000000000000000000000000000000000"}) {
      CAPTURE(mark);
      CHECK(
          p.try_in("SET LOCAL termgate.passed = '" + mark + "'; SET LOCAL termgate.known = '|5|a|'",
                   write) == "TG002");
    }
    // A true mark kept past a rollback or a transaction: the fence has moved on, or the signature
    // is another transaction's.
    p.app.must("BEGIN; SAVEPOINT s; SELECT check_term('a', 5)");
    const auto mark = p.app.value("SELECT current_setting('termgate.passed')");
    CHECK(mark.find("|Sa|5|") == 0);
    p.app.must("ROLLBACK TO s");
    p.admin.must("SELECT termgate.seal('a', 6, '0')");
    CHECK(p.app.run("SET LOCAL termgate.passed = '" + mark + "'; " + write).code == "TG001");
    p.app.must("ROLLBACK");
    p.admin.must("SELECT termgate.reset_fence('a', 5, 'test', 'for the next one')");
    CHECK(p.try_in("SET LOCAL termgate.passed = '" + mark + "'", write) == "TG002");
  }
}

TEST_CASE("protect: the row that counts is the final one", "[F2][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (scope text, v int)");
  p.app.must(
      "CREATE FUNCTION app.rewrite() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.scope := "
      "'b'; RETURN NEW; END $$");
  p.app.must(
      "CREATE TRIGGER zzz_last BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION "
      "app.rewrite()");
  p.app.must("SELECT protect('t', 'scope')");
  CHECK(p.as_a("INSERT INTO t VALUES ('a', 1)") == "TG002");
  CHECK(p.as_both("INSERT INTO t VALUES ('a', 1)") == "");
  CHECK(p.as_a("UPDATE t SET v = 2") == "TG002");
}

TEST_CASE("protect: a generated scope column is seen as it is stored", "[F2][live]") {
  Protected p;
  p.app.must(
      "CREATE TABLE t (kind text, scope text GENERATED ALWAYS AS (lower(kind)) STORED); SELECT "
      "protect('t', 'scope')");
  CHECK(p.as_a("INSERT INTO t VALUES ('A')") == "");
  CHECK(p.as_a("INSERT INTO t VALUES ('B')") == "TG002");
}

TEST_CASE("protect: inheritance children are covered and so is an update through the parent",
          "[F2][F6][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (scope text, k int); CREATE TABLE child () INHERITS (t)");
  CHECK(p.app.value("SELECT protect('t', 'scope')") == "2");
  CHECK(p.as_a("INSERT INTO child VALUES ('a', 1)") == "");
  CHECK(p.as_nobody("INSERT INTO child VALUES ('a', 1)") == "TG002");
  CHECK(p.as_nobody("UPDATE t SET k = 2") == "TG002");
  p.app.must("CREATE TABLE late () INHERITS (t)");
  CHECK(p.as_a("UPDATE t SET k = 2") == "TG005");
  CHECK(p.app.value("SELECT protect('t', 'scope')") == "3");
  CHECK(p.as_a("UPDATE t SET k = 2") == "");
}

TEST_CASE("protect: triggers that are disabled or restored elsewhere are found by doctor",
          "[F6][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (scope text, k int); SELECT protect('t', 'scope')");
  const auto severity = [&] {
    return p.admin.value(
        "SELECT max(severity) FROM termgate.doctor() WHERE object = 'app.t' AND severity = "
        "'error'");
  };
  CHECK(severity() == "");
  p.app.must("ALTER TABLE t DISABLE TRIGGER termgate_row");
  CHECK(severity() == "error");
  p.app.must("ALTER TABLE t ENABLE TRIGGER termgate_row");
  CHECK(severity() == "");
  p.app.must(
      "DROP TRIGGER termgate_row ON t; CREATE TRIGGER termgate_row AFTER INSERT ON t FOR EACH ROW "
      "WHEN (false) EXECUTE FUNCTION "
      "termgate._protect_attached()");
  CHECK(severity() == "error");
}

TEST_CASE("protect: observe refuses nothing and takes no lock and counts once a transaction",
          "[F6][live]") {
  Protected p;
  p.admin.must("DELETE FROM termgate.observed");
  p.app.must("CREATE TABLE t (scope text, v int); SELECT protect('t', 'scope', mode => 'observe')");
  p.app.must(
      "BEGIN; INSERT INTO t SELECT 'a', i FROM generate_series(1, 50) i; INSERT INTO t VALUES "
      "('a', 51), (NULL, 52)");
  CHECK(
      p.app.value(
          "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()") ==
      "0");
  p.app.must("COMMIT");
  CHECK(p.admin.value("SELECT string_agg(code, ',' ORDER BY code) FROM termgate.observed") ==
        "TG002,TG005");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '3'",
                 "INSERT INTO t VALUES ('a', 1)") == "");
  CHECK(p.admin.value("SELECT string_agg(code, ',' ORDER BY code) FROM termgate.observed") ==
        "TG001,TG002,TG005");
  CHECK(p.admin.value("SELECT count(*) FROM termgate.doctor() WHERE object = 'app.t' AND problem "
                      "LIKE 'would have been refused%'") == "3");
  CHECK(p.as_a("INSERT INTO t VALUES ('a', 1)") == "");
  CHECK(p.admin.value("SELECT count(*) FROM termgate.observed") == "3");
}

TEST_CASE("protect: terms of 19 digits pass for any scope too", "[F2][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (v int); SELECT protect('t', scope => '*')");
  CHECK(p.try_in("SELECT check_term('nanoseconds', 1763712000000000000)",
                 "INSERT INTO t VALUES (1)") == "");
  CHECK(p.as_nobody("INSERT INTO t VALUES (1)") == "TG002");
  CHECK(p.app.run("INSERT INTO t VALUES (1)").message.find("\"*\"") == std::string::npos);
}

TEST_CASE("protect: a role without any grant of ours truncates when it has declared",
          "[F2][F6][live]") {
  Protected p;
  const bool by_column = GENERATE(true, false);
  CAPTURE(by_column);
  p.app.must(
      "CREATE TABLE t (scope text, v int); GRANT ALL ON t TO PUBLIC; INSERT INTO t VALUES ('a', "
      "1), ('a', 2)");
  p.app.must(by_column ? "SELECT protect('t', 'scope')" : "SELECT protect('t', scope => 'a')");
  const auto role = "tg_plain_" + std::to_string(getpid());
  PgSession plain(Protected::database().url_as(role, "") + "?options=-csearch_path%3Dapp");
  const auto truncate = [&](const std::string& scope, const std::string& term) {
    plain.must("BEGIN; SET LOCAL termgate.scope = '" + scope + "'; SET LOCAL termgate.term = '" +
               term + "'");
    // What somebody wrote where the collected scopes are kept is written over.
    plain.must(
        "SELECT set_config('termgate.truncating', '{\"table\": \"' || 't'::regclass::oid || '\", "
        "\"scopes\": []}', true)");
    const auto code = plain.run("TRUNCATE t").code;
    plain.must("ROLLBACK");
    return code;
  };
  CHECK(truncate("a", "5") == "");
  CHECK(truncate("a", "4") == "TG001");
  CHECK(truncate("", "") == "TG002");
  p.admin.must(
      "ALTER TABLE app.t DISABLE TRIGGER USER; INSERT INTO app.t VALUES ('b', 3); ALTER TABLE "
      "app.t ENABLE TRIGGER USER");
  CHECK(truncate("a", "5") == (by_column ? "TG002" : ""));
  p.app.must("SELECT unprotect('t')");
  CHECK(p.admin.value("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.t'::regclass") == "0");
}

TEST_CASE("doctor: a role that may replace the triggers is named", "[F6][live]") {
  Protected p;
  const auto told = [&] {
    return p.admin.value(
        "SELECT coalesce(max(remedy), 'nothing') FROM termgate.doctor() WHERE "
        "object = 'app.t' AND problem LIKE '%privilege TRIGGER'");
  };
  p.app.must("CREATE TABLE t (scope text, k int); SELECT protect('t', 'scope')");
  CHECK(told() == "nothing");
  p.admin.must("GRANT ALL ON app.t TO PUBLIC");
  CHECK(told() == "REVOKE TRIGGER ON app.t FROM PUBLIC");
  p.admin.must(told());
  CHECK(told() == "nothing");
  p.admin.must("REVOKE ALL ON app.t FROM PUBLIC");
}

TEST_CASE(
    "protect: a cast of a type that the table's owner made never runs as the owner of layer 1",
    "[F3][F6][live]") {
  Protected p;
  // One protected table makes the row function for its column's name, which any table may then
  // bear.
  p.app.must("CREATE TABLE honest (scope text, v int); SELECT protect('honest', 'scope')");
  const auto function = p.admin.value(
      "SELECT p.oid::regproc FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid "
      "= 'app.honest'::regclass AND g.tgname = "
      "'termgate_row'");
  p.app.must(
      "CREATE TABLE ran_as (who text); GRANT ALL ON ran_as TO PUBLIC; CREATE TYPE app.e AS ENUM "
      "('a')");
  p.app.must(
      "CREATE FUNCTION app.evil(app.e) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "
      "app.ran_as VALUES (current_user); RETURN 'a'; "
      "END $$");
  // A type's owner makes casts of it.
  p.app.must("CREATE CAST (app.e AS text) WITH FUNCTION app.evil(app.e) AS ASSIGNMENT");
  p.app.must(
      "CREATE TABLE t (scope app.e, v int); CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON t "
      "FOR EACH ROW EXECUTE FUNCTION " +
      function + "('observe', '', '')");
  CHECK(p.app.run("INSERT INTO t VALUES ('a', 1)").code == "TG005");
  p.app.must(
      "ALTER TABLE t DISABLE TRIGGER t; INSERT INTO t VALUES ('a', 1); ALTER TABLE t ENABLE "
      "TRIGGER t");
  CHECK(p.app.run("UPDATE t SET v = 2").code == "TG005");
  CHECK(p.app.run("DELETE FROM t").code == "TG005");
  // A column that gets such a type later.
  p.app.must("CREATE TABLE later (scope text, v int); SELECT protect('later', 'scope')");
  p.app.must("ALTER TABLE later ALTER scope TYPE app.e USING 'a'::app.e");
  CHECK(p.app.run("INSERT INTO later VALUES ('a', 1)").code == "TG005");
  CHECK(p.admin.value("SELECT count(*) FROM app.ran_as") == "0");
}
