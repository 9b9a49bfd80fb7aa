// The owner's own tables: protect, adopt, verify, on every backend.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using conformance::Fresh;
using conformance::unique;

namespace {

void run(Database& db, const std::string& statement) {
  static const Scope scope("the test itself");
  db.write(scope, Term(1), [&](Transaction& tx) { tx.exec(conformance::in_dialect(statement)); });
}

std::int64_t count_rows(Database& db, const std::string& table) {
  return db.query("SELECT count(*) FROM " + table).one()[0].as_int();
}

void with_term(Database& db, const Scope& scope, int term, const std::string& statement) {
  db.write(scope, Term(term), [&](Transaction& tx) { tx.exec(statement); });
}

}  // namespace

TEST_CASE_METHOD(Fresh, "protect: one scope for a table refuses whoever has not passed it",
                 "[F2][F6][conformance]") {
  run(db, "CREATE TABLE guarded_one (id integer PRIMARY KEY, body text)");
  CHECK(Operator(db).protect("guarded_one", {.scope = scope.name()}) == 1);
  with_term(db, scope, 5, "INSERT INTO guarded_one VALUES (1, 'in')");
  CHECK_THROWS_AS(run(db, "INSERT INTO guarded_one VALUES (2, 'out')"), TermRequired);
  CHECK_THROWS_AS(run(db, "UPDATE guarded_one SET body = 'out'"), TermRequired);
  CHECK_THROWS_AS(run(db, "DELETE FROM guarded_one"), TermRequired);
  if (conformance::is_postgresql()) CHECK_THROWS_AS(run(db, "TRUNCATE guarded_one"), TermRequired);
  db.seal(scope, Term(6));
  CHECK_THROWS_AS(with_term(db, scope, 5, "UPDATE guarded_one SET body = 'stale'"), StaleTerm);
  with_term(db, scope, 6, "UPDATE guarded_one SET body = 'six'");
  CHECK(db.query("SELECT body FROM guarded_one").one()[0].as_text() == "six");
  CHECK(Operator(db).unprotect("guarded_one"));
  CHECK_FALSE(Operator(db).unprotect("guarded_one"));
  run(db, "INSERT INTO guarded_one VALUES (2, 'free again')");
  CHECK(count_rows(db, "guarded_one") == 2);
}

TEST_CASE_METHOD(Fresh, "protect: a scope column holds each row to its own scope",
                 "[F2][F6][conformance]") {
  run(db, "CREATE TABLE guarded_rows (id integer PRIMARY KEY, tenant text, body text)");
  const std::string a = unique("tenant");
  const std::string b = unique("tenant");
  Operator(db).protect("guarded_rows", {.scope_column = "tenant"});
  with_term(db, Scope(a), 3, "INSERT INTO guarded_rows VALUES (1, '" + a + "', 'x')");
  CHECK_THROWS_AS(
      with_term(db, Scope(a), 3, "INSERT INTO guarded_rows VALUES (2, '" + b + "', 'x')"),
      TermRequired);
  CHECK_THROWS_AS(with_term(db, Scope(a), 3, "UPDATE guarded_rows SET tenant = '" + b + "'"),
                  TermRequired);
  CHECK_THROWS_AS(with_term(db, Scope(b), 3, "UPDATE guarded_rows SET tenant = '" + b + "'"),
                  TermRequired);
  CHECK_THROWS_AS(with_term(db, Scope(a), 3, "INSERT INTO guarded_rows VALUES (3, NULL, 'x')"),
                  InvalidInput);
  db.write(Scope(a), Term(3), [&](Transaction& tx) {
    tx.check(Scope(b), Term(4));
    tx.exec("UPDATE guarded_rows SET tenant = $1", b);
  });
  CHECK_THROWS_AS(with_term(db, Scope(a), 3, "DELETE FROM guarded_rows"), TermRequired);
  with_term(db, Scope(b), 4, "DELETE FROM guarded_rows");
  CHECK(count_rows(db, "guarded_rows") == 0);
}

TEST_CASE_METHOD(Fresh, "protect: observe refuses nothing", "[conformance]") {
  run(db, "CREATE TABLE guarded_observed (id integer PRIMARY KEY)");
  Operator(db).protect("guarded_observed", {.scope = scope.name(), .mode = "observe"});
  run(db, "INSERT INTO guarded_observed VALUES (1)");
  CHECK(count_rows(db, "guarded_observed") == 1);
  bool told = false;
  for (const Advice& advice : Operator(db).doctor())
    told = told || advice.object.find("guarded_observed") != std::string::npos;
  CHECK(told);
  Operator(db).protect("guarded_observed", {.scope = scope.name()});
  CHECK_THROWS_AS(run(db, "INSERT INTO guarded_observed VALUES (2)"), TermRequired);
  Operator(db).unprotect("guarded_observed");
}

TEST_CASE_METHOD(Fresh, "protect: what is missing or malformed is said", "[conformance]") {
  run(db, "CREATE TABLE guarded_bad (id integer PRIMARY KEY, tenant text)");
  CHECK_THROWS_AS(Operator(db).protect("guarded_bad", {}), InvalidInput);
  CHECK_THROWS_AS(
      Operator(db).protect("guarded_bad", {.scope_column = "tenant", .mode = "sometimes"}),
      InvalidInput);
  CHECK_THROWS_AS(Operator(db).protect("guarded_bad", {.scope_column = "no_such_column"}), Error);
  CHECK_THROWS_AS(Operator(db).protect("no_such_table", {.scope = "x"}), Error);
  CHECK(count_rows(db, "guarded_bad") == 0);
}

TEST_CASE_METHOD(Fresh, "protect: hostile names are names", "[conformance]") {
  const std::string table = "\"drop \"\"table\"\" x; --'\"";
  run(db, "CREATE TABLE " + table + " (id integer PRIMARY KEY, \"a\"\"; b'\" text)");
  const std::string name =
      conformance::is_postgresql() || conformance::is_sqlserver() ? table : "drop \"table\" x; --'";
  const std::string tenant = unique("hostile");
  Operator(db).protect(name, {.scope_column = "a\"; b'"});
  CHECK_THROWS_AS(run(db, "INSERT INTO " + table + " VALUES (1, '" + tenant + "')"), TermRequired);
  with_term(db, Scope(tenant), 1, "INSERT INTO " + table + " VALUES (1, '" + tenant + "')");
  CHECK(count_rows(db, table) == 1);
  CHECK(Operator(db).unprotect(name));
}

TEST_CASE_METHOD(Fresh, "adopt: raises fences to what the table holds and keeps up with it",
                 "[F3][conformance]") {
  run(db, "CREATE TABLE adopted_jobs (id integer PRIMARY KEY, shard text, leader_term bigint)");
  const std::string shard = unique("shard");
  run(db, "INSERT INTO adopted_jobs VALUES (1, '" + shard + "', 5)");
  CHECK(Operator(db).adopt("adopted_jobs", "shard", "leader_term") == 1);
  CHECK(Info(db).fence(Scope(shard))->term == 5);
  CHECK_THROWS_AS(db.check(Scope(shard), Term(4)), StaleTerm);
  run(db, "INSERT INTO adopted_jobs VALUES (2, '" + shard + "', 8)");
  CHECK(Info(db).fence(Scope(shard))->term == 8);
  run(db, "DELETE FROM adopted_jobs");
  CHECK(Info(db).fence(Scope(shard))->term == 8);
  CHECK(Operator(db).unadopt("adopted_jobs"));
  CHECK(Info(db).fence(Scope(shard))->term == 8);
}

TEST_CASE_METHOD(Fresh, "adopt: a queue whose ids are integers and whose attempts begin at 0",
                 "[F2][F3][conformance]") {
  run(db, "CREATE TABLE queue_jobs (id bigint NOT NULL, attempt integer NOT NULL)");
  run(db, "CREATE TABLE queue_effects (job bigint, v integer)");
  run(db, "INSERT INTO queue_jobs VALUES (1, 0)");
  run(db, "INSERT INTO queue_jobs VALUES (2, 3)");
  const std::string prefix = unique("queue") + "/";
  CHECK(Operator(db).adopt("queue_jobs", "id", "attempt", prefix) == 1);
  CHECK(Info(db).fence(Scope(prefix + "2"))->term == 3);
  CHECK_FALSE(Info(db).fence(Scope(prefix + "1")));
  Protection protection;
  protection.scope_column = "job";
  protection.prefix = prefix;
  Operator(db).protect("queue_effects", protection);
  run(db, "UPDATE queue_jobs SET attempt = 1 WHERE id = 1");
  with_term(db, Scope(prefix + "1"), 1, "INSERT INTO queue_effects VALUES (1, 1)");
  run(db, "UPDATE queue_jobs SET attempt = 2 WHERE id = 1");
  CHECK_THROWS_AS(with_term(db, Scope(prefix + "1"), 1, "INSERT INTO queue_effects VALUES (1, 2)"),
                  StaleTerm);
  CHECK_THROWS_AS(run(db, "INSERT INTO queue_effects VALUES (1, 3)"), TermRequired);
  with_term(db, Scope(prefix + "1"), 2, "INSERT INTO queue_effects VALUES (1, 4)");
  CHECK(count_rows(db, "queue_effects") == 2);
  // A scope that is no number passes its first check all the same.
  CHECK(db.check(Scope(unique("abc")), Term(1)) == Term(1));
  CHECK(Operator(db).unprotect("queue_effects"));
  CHECK(Operator(db).unadopt("queue_jobs"));
}

TEST_CASE("verify: finds a term that decreases along a stream", "[F1][conformance]") {
  // As the owner of layer 1, the only role that may write to its tables.
  const std::string url = conformance::owner_url(conformance::fresh_url());
  auto db = Database::open(url);
  Operator(db).install();
  const Scope scope("checked");
  const Stream stream("checked");
  db.append(stream, Term(5), "five", {.scope = scope});
  CHECK(Operator(db).verify().empty());
  // Planted by hand, as whoever owns the tables could; on SQLite nobody does
  // (tests/unit/storage/sqlite/verify.cpp).
  const std::string keys = conformance::is_sqlserver() ? "stream_key, scope_key, " : "";
  const std::string planted =
      "INSERT INTO " + conformance::own_table("stream_writes") + " (" + keys +
      "stream_id, sequence_no, scope, term, payload, created_at) SELECT " + keys +
      "stream_id, 2, scope, 3, payload, created_at FROM " +
      conformance::own_table("stream_writes") + " WHERE stream_id = 'checked'";
  if (db.kind() == "sqlite") {
    CHECK_THROWS_AS(run(db, planted), Error);
    return;
  }
  run(db, planted);
  const auto findings = Operator(db).verify();
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].scope == "checked");
}
