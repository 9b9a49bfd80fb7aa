// [F2] [F6] protect and adopt on a real server: every way around the triggers that is known, and
// what marks a pass.
#include <catch2/catch.hpp>

#include <future>

#include <termgate/operator.hpp>

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

TEST_CASE("protect: one scope for a table covers every kind of write", "[F2][F6][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)");
  CHECK(p.app.value("SELECT protect('t', scope => 'a')") == "1");
  for (const std::string write :
       {"INSERT INTO t VALUES (3, 3)", "UPDATE t SET v = 4", "DELETE FROM t", "TRUNCATE t",
        "INSERT INTO t VALUES (1, 9) ON CONFLICT (id) DO UPDATE SET v = 9",
        "WITH w AS (DELETE FROM t RETURNING id) SELECT * FROM w", "COPY t FROM PROGRAM 'true'"}) {
    CAPTURE(write);
    const auto refused = p.as_nobody(write);
    CHECK((refused == "TG002" ||
           refused == "42501"));  // COPY FROM PROGRAM is beyond a plain role anyway
    CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '4'", write)
              .substr(0, 2) != "");
  }
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '4'",
                 "UPDATE t SET v = 4") == "TG001");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '6'",
                 "UPDATE t SET v = 4") == "TG005");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'b'; SET LOCAL termgate.term = '7'",
                 "UPDATE t SET v = 4") == "TG002");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '5'",
                 "UPDATE t SET v = 4") == "");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = 'five'",
                 "UPDATE t SET v = 4") == "TG005");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = '-5'",
                 "UPDATE t SET v = 4") == "TG005");
  CHECK(p.try_in("SET LOCAL termgate.scope = 'a'; SET LOCAL termgate.term = ''",
                 "UPDATE t SET v = 4") == "TG002");
  CHECK(p.as_a("TRUNCATE t") == "");
  CHECK(p.app.value("SELECT unprotect('t')") == "1");
  CHECK(p.as_nobody("INSERT INTO t VALUES (3, 3)") == "");
}

TEST_CASE("protect: a declaration of the connection is all an application needs", "[F2][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (v int); SELECT protect('t', scope => 'a')");
  PgSession declared(Protected::database().url_as("tg_app_" + std::to_string(getpid()), "write") +
                     "?options=-csearch_path%3Dapp%20-ctermgate.scope%3Da%20-ctermgate.term%3D5");
  CHECK(declared.run("INSERT INTO t VALUES (1)").ok());
  p.admin.must("SELECT termgate.seal('a', 6)");
  CHECK(declared.run("INSERT INTO t VALUES (1)").code == "TG001");
  CHECK(p.app.value("SELECT count(*) FROM t") == "1");
  p.admin.must("SELECT termgate.reset_fence('a', 5, 'test', 'for the next one')");
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

TEST_CASE("protect: a scope column of every type it may have", "[F2][live]") {
  Protected p;
  struct Row {
    const char *type, *scope, *other;
  };
  const Row row = GENERATE(
      Row{"text", "a", "b"}, Row{"varchar(20)", "a", "b"}, Row{"smallint", "17", "18"},
      Row{"integer", "170", "-1"}, Row{"bigint", "17000000000", "0"},
      Row{"uuid", "6f1e0000-0000-4000-8000-00000000000a", "6f1e0000-0000-4000-8000-00000000000b"});
  CAPTURE(row.type);
  const std::string scope = row.scope;
  p.admin.must("SELECT termgate.seal('" + scope + "', 5)");
  p.app.must(std::string("CREATE TABLE t (\"odd \"\"name\"\";--\" ") + row.type +
             ", v int); SELECT protect('t', 'odd \"name\";--')");
  const auto pass = "SELECT check_term('" + scope + "', 5)";
  CHECK(p.try_in(pass, "INSERT INTO t VALUES ('" + scope + "', 1)") == "");
  CHECK(p.try_in(pass, std::string("INSERT INTO t VALUES ('") + row.other + "', 1)") == "TG002");
  CHECK(p.try_in(pass, "INSERT INTO t VALUES (NULL, 1)") == "TG005");
  CHECK(p.try_in(pass, "UPDATE t SET v = 2") == "");
  CHECK(p.as_nobody("UPDATE t SET v = 3") == "TG002");
  CHECK(p.as_nobody("DELETE FROM t") == "TG002");
  CHECK(p.as_nobody("TRUNCATE t") == "TG002");
  CHECK(p.try_in(pass, "TRUNCATE t") == "");
  CHECK(
      p.app.run("CREATE TABLE bad (scope char(8), s json); SELECT protect('bad', 'scope')").code ==
      "TG005");
}

TEST_CASE("protect: an update that moves a row needs both scopes", "[F2][live]") {
  Protected p;
  p.app.must("CREATE TABLE t (scope text, v int); SELECT protect('t', 'scope')");
  CHECK(p.as_a("INSERT INTO t VALUES ('a', 1)") == "");
  CHECK(p.as_a("UPDATE t SET scope = 'b'") == "TG002");
  CHECK(p.as_both("UPDATE t SET scope = 'b'") == "");
  CHECK(p.as_a("UPDATE t SET scope = 'a'") == "TG002");
  CHECK(p.as_a("DELETE FROM t") == "TG002");
  CHECK(p.as_a("INSERT INTO t VALUES ('a', 1), ('b', 1)") == "TG002");
}

TEST_CASE("protect: a generated scope column is seen as it is stored", "[F2][live]") {
  Protected p;
  p.app.must(
      "CREATE TABLE t (kind text, scope text GENERATED ALWAYS AS (lower(kind)) STORED); SELECT "
      "protect('t', 'scope')");
  CHECK(p.as_a("INSERT INTO t VALUES ('A')") == "");
  CHECK(p.as_a("INSERT INTO t VALUES ('B')") == "TG002");
}

TEST_CASE("protect: partitions are covered by name and one attached since is refused",
          "[F2][F6][live]") {
  Protected p;
  const bool by_column = GENERATE(true, false);
  CAPTURE(by_column);
  p.app.must(
      "CREATE TABLE t (scope text, k int) PARTITION BY RANGE (k); CREATE TABLE t1 PARTITION OF t "
      "FOR VALUES FROM (0) TO (10);"
      "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (k); CREATE "
      "TABLE t21 PARTITION OF t2 FOR VALUES "
      "FROM (10) TO (20)");
  const std::string protect =
      by_column ? "SELECT protect('t', 'scope')" : "SELECT protect('t', scope => 'a')";
  CHECK(p.app.value(protect) == "4");
  for (const std::string relation : {"t", "t1"}) {
    CHECK(p.as_nobody("INSERT INTO " + relation + " VALUES ('a', 1)") == "TG002");
    CHECK(p.as_a("INSERT INTO " + relation + " VALUES ('a', 1)") == "");
  }
  CHECK(p.as_nobody("TRUNCATE t1") == "TG002");
  CHECK(p.as_nobody("UPDATE t1 SET k = 2") == "TG002");
  CHECK(p.as_a("INSERT INTO t21 VALUES ('a', 11)") == "");
  CHECK(p.as_a("UPDATE t SET k = 12 WHERE k = 1") == "");  // moves rows between partitions
  CHECK(p.as_nobody("DELETE FROM t2") == "TG002");
  p.app.must(
      "CREATE TABLE t3 (scope text, k int); ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (20) "
      "TO (30)");
  CHECK(p.as_a("INSERT INTO t VALUES ('a', 21)") == "TG005");
  CHECK(p.as_a("INSERT INTO t3 VALUES ('a', 21)") == "TG005");
  CHECK(p.admin.value("SELECT severity FROM termgate.doctor() WHERE object = 'app.t3'") == "error");
  CHECK(p.app.value(protect) == "5");
  CHECK(p.as_a("INSERT INTO t3 VALUES ('a', 21)") == "");
  CHECK(p.as_nobody("DELETE FROM t3") == "TG002");
  CHECK(p.app.value("SELECT unprotect('t')") == "5");
  CHECK(p.as_nobody("DELETE FROM t3") == "");
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

TEST_CASE("protect: only its owner protects a table and nobody can register another's weaker",
          "[F6][live]") {
  Protected p;
  p.admin.must(
      "CREATE TABLE app.theirs (v int); SELECT termgate.protect('app.theirs', scope => 'a')");
  CHECK(p.app.run("SELECT protect('theirs', scope => 'b')").code == "42501");
  CHECK(p.app.run("SELECT unprotect('theirs')").code == "42501");
  CHECK(p.app.run("SELECT _protect_register('theirs', NULL, 'b', 'observe', '')").code == "42501");
  CHECK(p.app.run("SELECT _protect_unregister('theirs')").code == "42501");
  CHECK(p.app.run("SELECT _adopt_unregister('theirs')").code == "42501");
  CHECK(p.admin.run("INSERT INTO app.theirs VALUES (1)").code == "TG002");
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

TEST_CASE("protect: two at once of tables whose columns have one name", "[live]") {
  Protected p;
  const std::string column = "scope_" + std::to_string(getpid());  // no table has had it before
  p.app.must("CREATE TABLE t1 (" + column + " text); CREATE TABLE t2 (" + column + " text)");
  PgSession other(Protected::database().url_as("tg_app_" + std::to_string(getpid()), "write") +
                  "?options=-csearch_path%3Dapp,termgate");
  p.app.must("BEGIN; SELECT protect('t1', '" + column + "')");
  auto second = std::async(std::launch::async,
                           [&] { return other.run("SELECT protect('t2', '" + column + "')"); });
  for (int i = 0;
       i < 500 && p.admin.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " +
                                std::to_string(other.pid())) == "0";
       ++i)
    usleep(10'000);
  p.app.must("COMMIT");
  const auto done = second.get();
  CAPTURE(done.message);
  CHECK(done.ok());
  CHECK(p.as_nobody("INSERT INTO t1 VALUES ('a')") == "TG002");
  CHECK(p.as_nobody("INSERT INTO t2 VALUES ('a')") == "TG002");
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

TEST_CASE("doctor: lists tables without protect and names its remedies in full", "[F6][live]") {
  Protected p;
  p.app.must(
      "CREATE TABLE covered (v int); SELECT protect('covered', scope => 'a', mode => 'observe'); "
      "CREATE TABLE open (v int); CREATE TABLE "
      "parts (v int) PARTITION BY LIST (v);"
      "CREATE TABLE part PARTITION OF parts DEFAULT");
  const auto remedy = [&](const std::string& table) {
    return p.admin.value(
        "SELECT coalesce((SELECT remedy FROM termgate.doctor() WHERE object = '" + table +
        "' AND (problem LIKE 'neither%' OR problem LIKE 'mode observe%')), 'none')");
  };
  CHECK(remedy("app.open").find("SELECT \"termgate\".protect('app.open'") == 0);
  CHECK(remedy("app.parts") != "none");
  CHECK(remedy("app.part") == "none");
  CHECK(p.admin.run(remedy("app.covered")).ok());
  CHECK(remedy("app.covered") == "none");
  CHECK(p.admin.value("SELECT count(*) FROM termgate.doctor() WHERE object LIKE 'termgate.%' OR "
                      "object LIKE 'pg\\_%'") == "0");
}

namespace {

// Layer 1 as it should be installed: owned by a role of its own, which is no superuser, in schema
// own_law. The session owns its tables and has level operate.
struct OwnLayer1 {
  const std::string owner = "tg_law_" + std::to_string(getpid());
  const std::string role = "tg_adopter_" + std::to_string(getpid());
  PgSession admin{Protected::database().url()};
  PgSession layer1{installed()};
  PgSession app{granted()};

  std::string url_of(const std::string& name) const {
    const auto& url = Protected::database().url();
    const auto at = url.find("postgres@");
    return url.substr(0, at) + name + url.substr(at + 8);
  }
  std::string installed() {
    admin.run("CREATE ROLE " + owner + " LOGIN");
    admin.must("GRANT pg_signal_backend TO " + owner + "; GRANT CREATE ON DATABASE " +
               admin.value("SELECT quote_ident(current_database())") + " TO " + owner);
    admin.must(
        "DROP SCHEMA IF EXISTS own_law CASCADE; DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA "
        "app; GRANT ALL ON SCHEMA app TO PUBLIC");
    termgate::Operator(termgate::Database::open(url_of(owner), {.schema = "own_law"})).install();
    return url_of(owner) + "?options=-csearch_path%3Dapp,own_law";
  }
  std::string granted() {
    admin.run("CREATE ROLE " + role + " LOGIN");
    layer1.must("SELECT grant_level('" + role + "', 'operate')");
    return url_of(role) + "?options=-csearch_path%3Dapp,own_law";
  }
};

}  // namespace

TEST_CASE("adopt: counts the rows and follows them upward only", "[F3][live]") {
  OwnLayer1 p;
  p.app.must(
      "CREATE TABLE t (leader text, epoch bigint, v int); INSERT INTO t VALUES ('adopted', 5, 1), "
      "('adopted', 7, 2)");
  CHECK(p.app.value("SELECT adopt('t', 'leader', 'epoch')") == "1");
  const auto fence = [&] { return p.app.value("SELECT term FROM fence('adopted')"); };
  CHECK(fence() == "7");
  p.app.must("INSERT INTO t VALUES ('adopted', 9, 4), ('adopted', 8, 5)");
  CHECK(fence() == "9");
  p.app.must("DELETE FROM t WHERE leader = 'adopted'");
  CHECK(fence() == "9");
  CHECK(p.app.run("SELECT check_term('adopted', 8)").code == "TG001");
  CHECK(p.layer1.value("SELECT count(*) FROM verify_findings()") == "0");
  CHECK(p.app.value("SELECT unadopt('t')") == "t");
  p.app.must("INSERT INTO t VALUES ('adopted', 99, 1)");
  CHECK(fence() == "9");
}

TEST_CASE("adopt: raises no scope above what its leases have issued", "[F3][live]") {
  OwnLayer1 p;
  p.layer1.must("SELECT acquire_lease('leased', 'me', '1 hour')");
  p.app.must("CREATE TABLE t (scope text, term bigint); INSERT INTO t VALUES ('leased', 777)");
  CHECK(p.app.run("SELECT adopt('t', 'scope', 'term')").code == "TG005");
  p.app.must("TRUNCATE t; SELECT adopt('t', 'scope', 'term')");
  CHECK(p.app.run("INSERT INTO t VALUES ('leased', 777)").code == "TG005");
  CHECK(p.layer1.value("SELECT term FROM fence('leased')") == "1");
  p.app.must("SELECT unadopt('t')");
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
