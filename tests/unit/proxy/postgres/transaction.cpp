// The transaction as it will be when everything sent has run
// (proxy/postgres/src/transaction_model.hpp), without a session: what each statement makes of it,
// and a random test that compares what was predicted with what a model of a server then says.
#include <catch2/catch.hpp>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <termgate/statements/classify.hpp>

#include "transaction_model.hpp"

using namespace termgate::pg_session;
using termgate::pgwire::TransactionStatus;

namespace {

Effects effects_of_text(const std::string& sql) {
  return effects_of(termgate::statements::classify(sql), sql);
}

bool sent(TransactionModel& model, const std::string& sql, bool guarded = true) {
  const Effects effects = effects_of_text(sql);
  return model.apply(effects, does_of(effects), guarded, false);
}

// What PostgreSQL makes of one statement a query: its block, and default_transaction_read_only.
struct Server {
  bool block = false, failed = false;
  bool read_only = false, read_only_before = false;
  int savepoints = 0;

  TransactionStatus status() const {
    return !block   ? TransactionStatus::idle
           : failed ? TransactionStatus::failed
                    : TransactionStatus::in_block;
  }
  std::optional<std::string> error() {
    failed = block;
    return std::nullopt;
  }
  // Ends the block; the tag.
  std::string end(bool commit, bool chain) {
    const bool undone = block && (!commit || failed);
    if (undone) read_only = read_only_before;
    failed = false;
    savepoints = 0;
    block = chain;
    read_only_before = read_only;
    return !undone && commit ? "COMMIT" : "ROLLBACK";
  }
  // The tag of its CommandComplete; nothing: an error.
  std::optional<std::string> run(const std::string& sql) {
    if (sql == "COMMIT" || sql == "ROLLBACK") return end(sql == "COMMIT", false);
    if (sql == "COMMIT AND CHAIN") return block ? end(true, true) : error();
    if (sql == "ROLLBACK TO a") {
      if (savepoints == 0) return error();
      failed = false;
      return "ROLLBACK";
    }
    if (failed) return error();
    if (sql == "BEGIN") {
      if (!block) read_only_before = read_only;
      block = true;
      return "BEGIN";
    }
    if (sql == "SAVEPOINT a") {
      if (!block) return error();
      ++savepoints;
      return "SAVEPOINT";
    }
    if (sql == "RELEASE a") {
      if (savepoints == 0) return error();
      --savepoints;
      return "RELEASE";
    }
    if (sql == "SELECT broken") return error();
    if (sql.starts_with("SET default")) {
      read_only = sql.ends_with("on");
      return "SET";
    }
    return "SELECT 1";
  }
};

}  // namespace

TEST_CASE("transaction: what was predicted is what the server says once all has succeeded",
          "[F1][F7][proxy]") {
  const std::vector<std::string> texts{"BEGIN",
                                       "COMMIT",
                                       "ROLLBACK",
                                       "COMMIT AND CHAIN",
                                       "SAVEPOINT a",
                                       "RELEASE a",
                                       "ROLLBACK TO a",
                                       "SELECT 1",
                                       "SELECT broken",
                                       "INSERT INTO t VALUES (1)",
                                       "SET default_transaction_read_only = on",
                                       "SET default_transaction_read_only = off",
                                       "BEGIN",
                                       "COMMIT"};
  const unsigned seed = Catch::rngSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::size_t compared = 0, failed_blocks = 0;
  for (int session = 0; session < 400; ++session) {
    Server server;
    TransactionModel model;
    std::string played;
    for (int batch = 0; batch < 12; ++batch) {
      // Some queries are sent before the first is answered.
      std::vector<std::string> queries;
      Server ahead = server;
      for (std::size_t i = 0, count = 1 + random() % 4; i < count; ++i) {
        const std::string sql = texts[random() % texts.size()];
        // What ROLLBACK TO does to the default is not followed: the server reports it.
        if (sql.starts_with("SET default") && ahead.savepoints != 0) continue;
        ahead.run(sql);
        queries.push_back(sql);
        sent(model, sql);
        played += sql + "; ";
      }
      CAPTURE(played);
      bool all_succeeded = true;
      for (const std::string& sql : queries) {
        if (const auto tag = server.run(sql)) {
          model.on_command_complete(change_of(effects_of_text(sql)), *tag);
        } else {
          all_succeeded = false;
          model.on_error();
        }
        model.on_ready(server.status(), false, false);
      }
      if (all_succeeded) {
        ++compared;
        REQUIRE(model.tx.in_block == server.block);
        REQUIRE(model.tx.failed == server.failed);
      }
      model.settle();
      REQUIRE(model.tx.in_block == server.block);
      REQUIRE(model.tx.failed == server.failed);
      REQUIRE(model.by_default.read_only(model.by_default.believed) == server.read_only);
      failed_blocks += server.failed;
      played += "/ ";
    }
  }
  CHECK(compared > 500);
  CHECK(failed_blocks > 100);
}

TEST_CASE("transaction: what takes a check's lock away makes the next unit take another",
          "[F1][F2][proxy]") {
  for (const char* sql : {"ROLLBACK TO a", "this is no statement"}) {
    CAPTURE(sql);
    TransactionModel model;
    sent(model, "BEGIN");
    model.tx.writable = model.tx.session_passed = model.tx.other_passed = true;
    model.tx.passed.push_back({"orders", 5});
    sent(model, "INSERT INTO t VALUES (1)");
    sent(model, sql);
    CHECK(model.tx.in_block);
    CHECK(model.tx.writable);
    CHECK_FALSE(model.tx.passed_any());
    CHECK(model.tx.passed.empty());
    CHECK(model.tx.redeclared);
    CHECK(model.tx.acted);
  }
}

TEST_CASE("transaction: its end takes back what was declared in it and nothing else",
          "[F1][F6][proxy]") {
  TransactionModel model;
  CHECK(sent(model, "SET termgate.term = 5"));
  model.end_implicit();
  sent(model, "BEGIN");
  CHECK_FALSE(sent(model, "SELECT 1"));
  CHECK_FALSE(sent(model, "COMMIT"));
  sent(model, "BEGIN");
  CHECK(sent(model, "SET LOCAL termgate.term = 5"));
  CHECK(model.tx.declared_inside);
  CHECK(model.tx.redeclared);
  CHECK_FALSE(model.tx.acted);
  CHECK(sent(model, "COMMIT"));
}

TEST_CASE("transaction: code that may declare counts as a declaration under which it has acted",
          "[F1][F6][proxy]") {
  TransactionModel model;
  sent(model, "BEGIN");
  sent(model, "SELECT set_config('termgate.term', '5', true)");
  CHECK(model.tx.redeclared);
  CHECK_FALSE(model.tx.acted);
  CHECK_FALSE(model.tx.code_declared);
  sent(model, "SELECT their_own()");
  CHECK(model.tx.acted);
  CHECK(model.tx.code_declared);
}

TEST_CASE("transaction: the first read fixes the access mode unless it was made writable before",
          "[F6][proxy]") {
  for (const bool writable : {false, true}) {
    CAPTURE(writable);
    TransactionModel model;
    sent(model, "BEGIN");
    sent(model, "SHOW search_path");
    CHECK_FALSE(model.tx.snapshot);
    model.tx.writable = writable;
    sent(model, "SELECT 1");
    CHECK(model.tx.snapshot == !writable);
  }
}

TEST_CASE("transaction: a server that does not report its default is put back by suspicion",
          "[F6][proxy]") {
  for (const bool reports : {false, true}) {
    CAPTURE(reports);
    TransactionModel model;
    model.by_default.reported = reports;
    sent(model, "SELECT 1");
    CHECK_FALSE(model.by_default.broken);
    sent(model, "BEGIN");
    sent(model, "SELECT their_own()");
    CHECK(model.by_default.broken == !reports);
    model.by_default.broken = false;  // it was put back, inside the block
    sent(model, "ROLLBACK");
    CHECK(model.by_default.broken == !reports);
  }
  TransactionModel unguarded;
  sent(unguarded, "SELECT their_own()", false);
  CHECK_FALSE(unguarded.by_default.broken);
}

TEST_CASE(
    "transaction: the COMMIT of a failed block takes back what the client believes of the default",
    "[F7][proxy]") {
  for (const bool failed : {false, true}) {
    TransactionModel model;
    model.by_default.reported = true;
    sent(model, "BEGIN");
    sent(model, "SET default_transaction_read_only TO on");
    CHECK(model.by_default.believed == Mode::read_only);
    model.tx.failed = failed;
    sent(model, "COMMIT");
    CHECK((model.by_default.believed == Mode::read_only) == !failed);
  }
}

TEST_CASE("transaction: a text of several statements is believed as a whole", "[F7][proxy]") {
  for (const bool failed : {false, true}) {
    CAPTURE(failed);
    TransactionModel model;
    sent(model, "SET default_transaction_read_only = on");
    model.on_command_complete(Change::on, "SET");
    model.on_ready(TransactionStatus::idle, true, false);
    CHECK(model.by_default.answered == Mode::read_only);
    CHECK(model.by_default.committed == Mode::servers);
    if (failed) model.on_error();
    model.on_ready(TransactionStatus::idle, true, failed);
    model.on_text_done(failed);
    model.settle();
    CHECK((model.by_default.believed == Mode::read_only) == !failed);
    CHECK((model.by_default.committed == Mode::read_only) == !failed);
  }
}
