// The guarantees as every backend must keep them, shown through the library: order, seal, memory,
// all or nothing, streams, write ids, leases, untrusted scopes. One writer at a time here;
// concurrency.cpp has the races. Long: the cases that every database has to pass, by guarantee.
#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::Fresh;
using conformance::shared;
using conformance::unique;

namespace {

void nothing(Transaction&) {}

std::int64_t count_rows(Database& db, const std::string& table) {
  return db.query("SELECT count(*) FROM " + table).one()[0].as_int();
}

void make_table(Database& db, const std::string& name) {
  db.write(Scope(unique("ddl")), Term(1), [&](Transaction& tx) {
    tx.exec(
        conformance::in_dialect("CREATE TABLE " + name + " (id integer PRIMARY KEY, body text)"));
  });
}

}  // namespace

TEST_CASE_METHOD(Fresh, "check: an equal term passes and leaves the fence where it was",
                 "[F1][conformance]") {
  CHECK_FALSE(Info(db).fence(scope));
  CHECK(db.check(scope, Term(5)) == Term(5));
  CHECK(db.check(scope, Term(5)) == Term(5));
  CHECK(Info(db).fence(scope)->term == 5);
}

TEST_CASE_METHOD(Fresh, "check: a higher term raises and a lower one is refused with both numbers",
                 "[F1][conformance]") {
  db.check(scope, Term(3));
  CHECK(db.check(scope, Term(7)) == Term(7));
  try {
    db.check(scope, Term(3));
    FAIL("a stale term passed");
  } catch (const StaleTerm& stale) {
    CHECK(stale.scope() == scope.name());
    CHECK(stale.term() == 3);
    CHECK(stale.fence() == 7);
  }
}

TEST_CASE_METHOD(Fresh, "check: terms need not be consecutive and reach 2^62",
                 "[F1][conformance]") {
  CHECK(db.check(scope, Term(1000000)).value() == 1000000);
  CHECK(db.check(scope, Term(Term::max_value)).value() == Term::max_value);
  CHECK_THROWS_AS(db.check(scope, Term(Term::max_value - 1)), StaleTerm);
}

TEST_CASE_METHOD(Fresh, "scope: names are compared byte by byte on the database", "[conformance]") {
  const std::string base = unique("Scope");
  const std::string names[] = {base,
                               base + " ",
                               "s" + base.substr(1),
                               base + "\xC3\xA9",
                               base + "e\xCC\x81",
                               base + "\xF0\x9F\x94\x92",
                               base + "'\"\\;--"};
  std::int64_t term = 10;
  for (const auto& name : names) db.check(Scope(name), Term(term++));
  term = 10;
  for (const auto& name : names) CHECK(Info(db).fence(Scope(name))->term == term++);
  std::string longest;
  for (int i = 0; i < 200; ++i) longest += "\xF0\x9F\x94\x92";
  CHECK(db.check(Scope(longest), Term(4)) == Term(4));
  CHECK(Info(db).fence(Scope(longest))->scope == longest);
}

TEST_CASE_METHOD(Fresh,
                 "write: commits under an equal term and refuses a stale one without a trace",
                 "[F1][F5][conformance]") {
  make_table(db, "write_refused");
  db.write(scope, Term(5), [](Transaction& tx) {
    tx.exec("INSERT INTO write_refused VALUES ($1, $2)", 1, "five");
  });
  db.seal(scope, Term(6));
  bool called = false;
  CHECK_THROWS_AS(db.write(scope, Term(5),
                           [&](Transaction& tx) {
                             called = true;
                             tx.exec("INSERT INTO write_refused VALUES ($1, $2)", 2, "stale");
                           }),
                  StaleTerm);
  CHECK_FALSE(called);
  CHECK(count_rows(db, "write_refused") == 1);
}

TEST_CASE_METHOD(Fresh,
                 "parameters: a wrong number of values is InvalidInput and nothing is written",
                 "[F5][conformance]") {
  make_table(db, "parameters_given");
  const std::vector<std::vector<Value>> given = {
      {}, {Value(1)}, {Value(1), Value("two"), Value("three")}};
  for (const auto& values : given) {
    CAPTURE(values.size());
    // Twice: the second time a statement may be prepared.
    for (int round = 0; round < 2; ++round) {
      CHECK_THROWS_AS(db.write(scope, Term(1),
                               [&](Transaction& tx) {
                                 tx.exec_values("INSERT INTO parameters_given VALUES ($1, $2)",
                                                values);
                               }),
                      InvalidInput);
      CHECK_THROWS_AS(db.query("SELECT 1 WHERE $1 = 'a' AND '$7' <> $2", values), InvalidInput);
    }
  }
  CHECK(count_rows(db, "parameters_given") == 0);
  db.write(scope, Term(1), [](Transaction& tx) {
    tx.exec("INSERT INTO parameters_given VALUES ($1, $2)", 1, "one");
  });
  CHECK(count_rows(db, "parameters_given") == 1);
}

TEST_CASE_METHOD(Fresh, "write: what the callback throws rolls back and comes out unchanged",
                 "[F5][conformance]") {
  make_table(db, "write_thrown");
  struct Mine {
    int value;
  };
  try {
    db.write(scope, Term(1), [](Transaction& tx) {
      tx.exec("INSERT INTO write_thrown VALUES (1, 'x')");
      throw Mine{42};
    });
    FAIL("nothing was thrown");
  } catch (const Mine& mine) { CHECK(mine.value == 42); }
  CHECK(count_rows(db, "write_thrown") == 0);
  CHECK_THROWS_AS(
      db.write(scope, Term(1),
               [](Transaction& tx) { tx.exec("INSERT INTO no_such_table VALUES (1)"); }),
      DatabaseError);
  CHECK(db.write(scope, Term(1), nothing) == Wrote::now);
}

TEST_CASE_METHOD(
    Fresh,
    "write: an error that the callback swallowed is thrown after all unless a savepoint mended it",
    "[F5][conformance]") {
  make_table(db, "write_swallowed");
  const auto swallow = [](Transaction& tx, const char* mend) {
    tx.exec("INSERT INTO write_swallowed VALUES (1, 'x')");
    tx.exec(conformance::in_dialect("SAVEPOINT one"));
    try {
      tx.exec("INSERT INTO no_such_table VALUES (1)");
    } catch (const DatabaseError&) {
      if (mend != nullptr) tx.exec(mend);
    }
  };
  CHECK_THROWS_AS(db.write(scope, Term(1), [&](Transaction& tx) { swallow(tx, nullptr); }),
                  DatabaseError);
  CHECK(count_rows(db, "write_swallowed") == 0);
  if (conformance::is_sqlserver())
    return;  // an error ends the transaction there, and no savepoint mends it
  CHECK(db.write(scope, Term(1), [&](Transaction& tx) { swallow(tx, " Rollback to one"); }) ==
        Wrote::now);
  CHECK(count_rows(db, "write_swallowed") == 1);
}

TEST_CASE_METHOD(Fresh, "write: transaction control and nested calls are refused",
                 "[F5][conformance]") {
  make_table(db, "write_control");
  for (const char* statement : {"COMMIT", "  /* x */ commit", "ROLLBACK", "-- c\nEND", "BEGIN",
                                "ABORT", "BEGIN TRANSACTION"}) {
    const std::string word = statement;
    if (word == "ABORT" && !conformance::is_postgresql()) continue;
    if (conformance::is_sqlserver() && (word == "-- c\nEND" || word == "BEGIN"))
      continue;  // no transaction control there
    INFO(statement);
    CHECK_THROWS_AS(db.write(scope, Term(1),
                             [&](Transaction& tx) {
                               tx.exec("INSERT INTO write_control VALUES (1, 'x')");
                               tx.exec(statement);
                             }),
                    InvalidInput);
  }
  CHECK_THROWS_AS(db.write(scope, Term(1), [&](Transaction&) { db.check(scope, Term(1)); }),
                  InvalidInput);
  CHECK(count_rows(db, "write_control") == 0);
}

TEST_CASE_METHOD(Fresh, "write: a second statement cannot hide in the first", "[F5][conformance]") {
  make_table(db, "write_two");
  CHECK_THROWS_AS(
      db.write(scope, Term(1),
               [](Transaction& tx) { tx.exec("INSERT INTO write_two VALUES (1, 'x'); COMMIT"); }),
      Error);
  CHECK(count_rows(db, "write_two") == 0);
}

TEST_CASE_METHOD(Fresh, "write: savepoints undo a part and keep the fence's lock",
                 "[F1][F5][conformance]") {
  make_table(db, "write_savepoint");
  db.write(scope, Term(2), [](Transaction& tx) {
    tx.exec(conformance::in_dialect("SAVEPOINT one"));
    tx.exec("INSERT INTO write_savepoint VALUES (1, 'gone')");
    tx.exec(conformance::in_dialect("ROLLBACK TO SAVEPOINT one"));
    tx.exec("INSERT INTO write_savepoint VALUES (2, 'stays')");
    tx.exec(conformance::in_dialect("RELEASE SAVEPOINT one"));
  });
  CHECK(db.query("SELECT id FROM write_savepoint").one()[0].as_int() == 2);
}

TEST_CASE_METHOD(Fresh, "write: several scopes each with a term of their own",
                 "[F1][conformance]") {
  const Scope one(unique("one"));
  const Scope two(unique("two"));
  db.seal(two, Term(9));
  db.write(one, Term(3), [&](Transaction& tx) { CHECK(tx.check(two, Term(9)) == Term(9)); });
  CHECK_THROWS_AS(db.write(one, Term(3), [&](Transaction& tx) { tx.check(two, Term(8)); }),
                  StaleTerm);
}

TEST_CASE_METHOD(Fresh, "write: the first check fixes the term of a scope in its transaction",
                 "[F1][conformance]") {
  CHECK_THROWS_AS(db.write(scope, Term(5), [&](Transaction& tx) { tx.check(scope, Term(7)); }),
                  InvalidInput);
  CHECK_THROWS_AS(db.write(scope, Term(5), [&](Transaction& tx) { tx.check(scope, Term(4)); }),
                  StaleTerm);
  CHECK(Info(db).fence(scope)->term == 5);
}

TEST_CASE("write: right at every isolation level", "[F1][conformance]") {
  auto& db = shared();
  for (auto level :
       {Isolation::read_committed, Isolation::repeatable_read, Isolation::serializable}) {
    const Scope scope(unique("isolation"));
    WriteOptions options;
    options.isolation = level;
    CHECK(db.write(scope, Term(4), nothing, options) == Wrote::now);
    db.seal(scope, Term(5));
    CHECK_THROWS_AS(db.write(scope, Term(4), nothing, options), StaleTerm);
    CHECK(db.write(scope, Term(5), nothing, options) == Wrote::now);
  }
}

TEST_CASE_METHOD(Fresh, "seal: shuts out lower terms and gives a receipt", "[F2][conformance]") {
  db.append(stream, Term(4), "four", {.scope = scope});
  const SealReceipt receipt = db.seal(scope, Term(6));
  CHECK(receipt.fence == Term(6));
  CHECK(receipt.previous == 4);
  CHECK(receipt.evicted == 0);
  CHECK(receipt.sealed_at_ms > 1'600'000'000'000);
  CHECK_THROWS_AS(db.append(stream, Term(4), "late"), StaleTerm);
  CHECK_THROWS_AS(db.append(stream, Term(5), "late"), StaleTerm);
  CHECK(db.append(stream, Term(6), "six") == SequenceNo(2));
}

TEST_CASE_METHOD(Fresh, "seal: the same term again is a no-op and a lower one is stale",
                 "[F2][conformance]") {
  db.seal(scope, Term(6));
  const SealReceipt again = db.seal(scope, Term(6));
  CHECK(again.fence == Term(6));
  CHECK(again.previous == 6);
  CHECK_THROWS_AS(db.seal(scope, Term(5)), StaleTerm);
}

TEST_CASE_METHOD(Fresh, "raise_by: seal keeps writers from raising", "[conformance]") {
  db.seal(scope, Term(2));
  Operator(db).set_raise_by(scope, "seal");
  CHECK_THROWS_AS(db.check(scope, Term(3)), InvalidInput);
  CHECK_THROWS_AS(db.append(Stream(unique("rb")), Term(3), "x", {.scope = scope}), InvalidInput);
  db.seal(scope, Term(3));
  CHECK(db.check(scope, Term(3)) == Term(3));
  CHECK_THROWS_AS(Operator(db).set_raise_by(scope, "nobody"), InvalidInput);
}

TEST_CASE_METHOD(Fresh,
                 "append: numbers are consecutive from 1 and payloads come back as they were",
                 "[conformance]") {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  const std::string payloads[] = {"", "text", all_bytes, std::string(1 << 20, 'x')};
  std::int64_t number = 0;
  for (const auto& payload : payloads)
    CHECK(db.append(stream, Term(3), payload).value() == ++number);
  const auto writes = Info(db).read_stream(stream, SequenceNo(0));
  REQUIRE(writes.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(writes[i].payload == payloads[i]);
    CHECK(writes[i].sequence_no.value() == static_cast<std::int64_t>(i) + 1);
    CHECK(writes[i].term == Term(3));
    CHECK(writes[i].scope == stream.name());
  }
  CHECK(Info(db).read_stream(stream, SequenceNo(2), 1).at(0).sequence_no == SequenceNo(3));
  CHECK(Info(db).stream(stream)->last_no == 4);
}

TEST_CASE_METHOD(Fresh, "append: expected must be the last number", "[conformance]") {
  CHECK_THROWS_AS(db.append(stream, Term(1), "x", {.expected = SequenceNo(1)}), SequenceConflict);
  CHECK(db.append(stream, Term(1), "x", {.expected = SequenceNo(0)}) == SequenceNo(1));
  CHECK_THROWS_AS(db.append(stream, Term(1), "x", {.expected = SequenceNo(0)}), SequenceConflict);
  CHECK_THROWS_AS(db.append(stream, Term(1), "x", {.expected = SequenceNo(2)}), SequenceConflict);
  CHECK(db.append(stream, Term(1), "x", {.expected = SequenceNo(1)}) == SequenceNo(2));
  CHECK(Info(db).read_stream(stream, SequenceNo(0)).size() == 2);
}

TEST_CASE_METHOD(Fresh, "append: the first write fixes a stream's scope", "[conformance]") {
  db.append(stream, Term(2), "x", {.scope = scope});
  CHECK(db.append(stream, Term(2), "y") == SequenceNo(2));
  CHECK_THROWS_AS(db.append(stream, Term(2), "z", {.scope = Scope(unique("other"))}), InvalidInput);
  db.seal(scope, Term(3));
  CHECK_THROWS_AS(db.append(stream, Term(2), "z"), StaleTerm);
  db.write(scope, Term(3),
           [&](Transaction& tx) { CHECK(tx.append(stream, "in a transaction") == SequenceNo(3)); });
}

TEST_CASE_METHOD(Fresh, "append: one that is refused raises no fence",
                 "[F5][issue-2][conformance]") {
  db.append(stream, Term(1), "x");
  const Term highest(Term::max_value);
  const Scope wrong(unique("wrong"));
  CHECK_THROWS_AS(db.append(stream, highest, "x", {.scope = wrong}), InvalidInput);
  CHECK_THROWS_AS(db.append_many(stream, highest, {"x", "y"}, {.scope = wrong}), InvalidInput);
  CHECK_FALSE(Info(db).fence(wrong));
  CHECK_THROWS_AS(db.append(stream, highest, "x", {.expected = SequenceNo(7)}), SequenceConflict);
  CHECK_THROWS_AS(db.append_many(stream, highest, {"x"}, {.expected = SequenceNo(7)}),
                  SequenceConflict);
  CHECK(Info(db).fence(Scope(stream.name()))->term == 1);
  const Stream fresh(unique("fresh"));
  const Scope named(unique("named"));
  CHECK_THROWS_AS(db.append(fresh, highest, "x", {.expected = SequenceNo(5), .scope = named}),
                  SequenceConflict);
  CHECK_THROWS_AS(
      db.append_many(fresh, highest, {"x"}, {.expected = SequenceNo(5), .scope = named}),
      SequenceConflict);
  CHECK_FALSE(Info(db).fence(named));
  CHECK_FALSE(Info(db).stream(fresh));
  // One that is accepted does.
  CHECK(db.append(fresh, Term(4), "x", {.expected = SequenceNo(0), .scope = named}).value() == 1);
  CHECK(Info(db).fence(named)->term == 4);
}

TEST_CASE_METHOD(Fresh, "payloads: large ones come back whole from each way in and out",
                 "[conformance]") {
  constexpr std::size_t part = std::size_t{16}
                               << 20;  // what travels as one value where payloads travel in parts
  const auto random = [](std::size_t size) {
    std::string bytes(size, '\0');
    std::uint64_t state = size;
    for (char& byte : bytes)
      byte = static_cast<char>((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
    return bytes;
  };
  // As long as a part, a byte longer, and of several parts; the last compresses well.
  const std::vector<std::string> payloads{
      random(part), random(part + 1),          random(2 * part + 5), "small",
      "",           std::string(part + 7, 'x')};
  db.append(stream, Term(2), payloads[0], {.scope = scope});
  const WriteId id = WriteId::random();
  CHECK(db.append(stream, Term(2), payloads[1], {.scope = scope, .write_id = id}).value() == 2);
  CHECK(db.append(stream, Term(2), payloads[1], {.scope = scope, .write_id = id}).value() == 2);
  db.write(scope, Term(2),
           [&](Transaction& tx) { CHECK(tx.append(stream, payloads[2]).value() == 3); });
  CHECK(db.append_many(stream, Term(2), {payloads[3], payloads[4], payloads[5]}).value() == 6);
  const auto all = Info(db).read_stream(stream, SequenceNo(0));
  REQUIRE(all.size() == payloads.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("payload " << i);
    CHECK((all[i].payload == payloads[i]));
  }
  // A refusal leaves neither a write nor anything in the way of the next one.
  db.seal(scope, Term(3));
  CHECK_THROWS_AS(db.append(stream, Term(2), payloads[1], {.write_id = WriteId::random()}),
                  StaleTerm);
  CHECK_THROWS_AS(db.write(scope, Term(3),
                           [&](Transaction& tx) { tx.append(stream, payloads[1], SequenceNo(5)); }),
                  SequenceConflict);
  CHECK_THROWS_AS(db.write(scope, Term(3),
                           [&](Transaction& tx) {
                             tx.append(stream, payloads[1]), throw std::runtime_error("given up");
                           }),
                  std::runtime_error);
  CHECK(db.append(stream, Term(3), payloads[1]).value() == 7);
  CHECK((Info(db).read_stream(stream, SequenceNo(6)).at(0).payload == payloads[1]));
  // What was pruned is not there, and the page says so by its numbers.
  CHECK(Operator(db).prune(stream, SequenceNo(3)) == 2);
  CHECK(Info(db).read_stream(stream, SequenceNo(0), 1).at(0).sequence_no == SequenceNo(3));
  Operator(db).prune(stream, SequenceNo(8));
}

TEST_CASE_METHOD(Fresh, "payloads: a page ends with its bytes but not before its first write",
                 "[conformance]") {
  constexpr std::size_t some = 100'000;  // more than a page has of each where its limit is small
  for (const std::size_t size : {some, some + 1, 2 * some, std::size_t{5}, std::size_t{0}})
    db.append(stream, Term(1), std::string(size, 'x'));
  const auto sizes = [&](std::int64_t after, int limit, std::size_t bytes_max) {
    std::vector<std::size_t> found;
    for (const auto& write : Info(db).read_stream(stream, SequenceNo(after), limit, bytes_max))
      found.push_back(write.payload.size());
    return found;
  };
  CHECK(sizes(0, 100, 1) == std::vector{some});
  CHECK(sizes(0, 100, 2 * some + 1) == std::vector{some, some + 1});
  CHECK(sizes(0, 100, 2 * some) == std::vector{some});
  CHECK(sizes(2, 3, 100 * some) == std::vector{2 * some, std::size_t{5}, std::size_t{0}});
  CHECK(sizes(5, 100, 1).empty());
}

TEST_CASE_METHOD(Fresh, "payloads: one over the limit is refused before it is sent",
                 "[conformance]") {
  CHECK(db.payload_limit() ==
        (db.kind() == "sqlserver" ? std::size_t{1} << 30 : Database::payload_bytes_max));
  {
    // Never written to, so that it costs nothing.
    const std::size_t size = db.payload_limit() + 1;
    const std::unique_ptr<char[]> bytes(new char[size]);
    CHECK_THROWS_WITH(db.append(stream, Term(1), std::string_view(bytes.get(), size)),
                      Catch::Contains("over the limit of"));
    CHECK_THROWS_WITH(
        db.write(Scope(stream.name()), Term(1),
                 [&](Transaction& tx) { tx.append(stream, std::string_view(bytes.get(), size)); }),
        Catch::Contains("over the limit of"));
  }
  const std::string large(std::size_t{18} << 20, 'x');
  Operator(db).set_setting("payload_bytes_max", "17825792");  // 17 MiB
  CHECK_THROWS_WITH(db.append(stream, Term(1), large),
                    Catch::StartsWith("TG005") && Catch::Contains("payload_bytes_max"));
  CHECK_THROWS_WITH(db.append_many(stream, Term(1), {"small", large}),
                    Catch::StartsWith("TG005") && Catch::Contains("payload_bytes_max"));
  Operator(db).set_setting("payload_bytes_max", "268435456");
  CHECK_FALSE(Info(db).stream(stream));
  CHECK(db.append(stream, Term(1), large).value() == 1);
  Operator(db).prune(stream, SequenceNo(2));
}

TEST_CASE_METHOD(Fresh, "append_many: all or nothing", "[F5][conformance]") {
  CHECK(db.append_many(stream, Term(1), {"a", "", std::string("\0\"{}\\,NULL", 11)},
                       {.scope = scope}) == SequenceNo(3));
  const auto writes = Info(db).read_stream(stream, SequenceNo(0));
  REQUIRE(writes.size() == 3);
  CHECK(writes[0].payload == "a");
  CHECK(writes[1].payload.empty());
  CHECK(writes[2].payload == std::string("\0\"{}\\,NULL", 11));
  CHECK_THROWS_AS(db.append_many(stream, Term(1), {"b", "c"}, {.expected = SequenceNo(2)}),
                  SequenceConflict);
  db.seal(scope, Term(2));
  CHECK_THROWS_AS(db.append_many(stream, Term(1), {"b", "c"}), StaleTerm);
  CHECK(Info(db).stream(stream)->last_no == 3);
  CHECK_THROWS_AS(db.append_many(stream, Term(2), {}), InvalidInput);
}

TEST_CASE_METHOD(Fresh, "write id: the same write happens once and keeps its number",
                 "[F5][conformance]") {
  const WriteId id = WriteId::random();
  CHECK_FALSE(db.outcome(id));
  CHECK(db.append(stream, Term(1), "once", {.scope = scope, .write_id = id}) == SequenceNo(1));
  CHECK(db.append(stream, Term(1), "two") == SequenceNo(2));
  CHECK(db.append(stream, Term(1), "once", {.scope = scope, .write_id = id}) == SequenceNo(1));
  CHECK(Info(db).read_stream(stream, SequenceNo(0)).size() == 2);
  const auto outcome = db.outcome(id);
  REQUIRE(outcome);
  CHECK(outcome->sequence_no == 1);
  CHECK(outcome->stream == stream.name());
  CHECK(outcome->term == Term(1));
}

TEST_CASE_METHOD(Fresh,
                 "write id: a write that did happen returns its number even to a stale writer",
                 "[F5][conformance]") {
  const WriteId happened = WriteId::random();
  db.append(stream, Term(1), "once", {.scope = scope, .write_id = happened});
  db.seal(scope, Term(2));
  CHECK(db.append(stream, Term(1), "once", {.scope = scope, .write_id = happened}) ==
        SequenceNo(1));
  const WriteId never = WriteId::random();
  CHECK_THROWS_AS(db.append(stream, Term(1), "late", {.scope = scope, .write_id = never}),
                  StaleTerm);
  CHECK_FALSE(db.outcome(never));
}

TEST_CASE_METHOD(Fresh, "write id: outlives pruning and belongs to one stream",
                 "[F3][F5][conformance]") {
  const WriteId id = WriteId::random();
  db.append(stream, Term(4), "once", {.write_id = id});
  db.append(stream, Term(4), "two");
  CHECK(Operator(db).prune(stream, SequenceNo(2)) == 1);
  CHECK(db.append(stream, Term(4), "once", {.write_id = id}) == SequenceNo(1));
  CHECK_THROWS_AS(db.append(Stream(unique("other")), Term(4), "once", {.write_id = id}),
                  InvalidInput);
}

TEST_CASE_METHOD(Fresh, "write id: makes a plain write repeatable", "[F5][conformance]") {
  make_table(db, "write_claimed");
  WriteOptions options;
  options.write_id = WriteId::random();
  const auto work = [](Transaction& tx) {
    tx.exec(
        "INSERT INTO write_claimed (id, body) SELECT coalesce(max(id), 0) + 1, 'x' FROM "
        "write_claimed");
  };
  CHECK(db.write(scope, Term(1), work, options) == Wrote::now);
  CHECK(db.write(scope, Term(1), work, options) == Wrote::before);
  db.seal(scope, Term(2));
  CHECK(db.write(scope, Term(1), work, options) == Wrote::before);
  CHECK(count_rows(db, "write_claimed") == 1);
  options.write_id = WriteId::random();
  CHECK_THROWS_AS(db.write(scope, Term(1), work, options), StaleTerm);
  CHECK(count_rows(db, "write_claimed") == 1);
}

TEST_CASE("write id: a refusal is counted once and a write that happened is none",
          "[F5][conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  auto old = Database::open(url);
  conformance::install(old, url);
  const Scope scope("counted");
  WriteOptions happened{.write_id = WriteId::random()}, late{.write_id = WriteId::random()};
  CHECK(old.write(scope, Term(1), nothing, happened) == Wrote::now);
  old.seal(scope, Term(2));
  // This one remembers no fence.
  auto db = Database::open(url);
  CHECK(db.write(scope, Term(1), nothing, happened) == Wrote::before);
  CHECK(Info(db).stats().stale_writes == 0);
  CHECK_THROWS_AS(db.write(scope, Term(1), nothing, late), StaleTerm);
  CHECK(Info(db).stats().stale_writes == 1);
  std::int64_t counted = 0;
  for (const auto& [code, count] : Info(db).refusal_counts())
    counted += code == "TG001" ? count : 0;
  CHECK(counted == (db.kind() == "sqlserver" ? 0 : 1));
  // A term above the fence is raised ahead of the write, and only if the write has not happened.
  CHECK(db.write(scope, Term(4), nothing, happened) == Wrote::before);
  CHECK(Info(db).fence(scope)->term == 2);
  CHECK(db.write(scope, Term(4), nothing, late) == Wrote::now);
  CHECK(Info(db).fence(scope)->term == 4);
}

TEST_CASE("refusals: a Database whose database does not answer is closed all the same",
          "[conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  auto holder = Database::open(url);
  conformance::install(holder, url);
  std::optional<Database> db = Database::open(url);
  for (int i = 0; i < 6; ++i) {
    const Scope scope("refused" + std::to_string(i));
    db->seal(scope, Term(2));
    // The second one is gathered, for a report that would be due a second later.
    for (int twice = 0; twice < 2; ++twice)
      CHECK_THROWS_AS(db->write(scope, Term(1), nothing), StaleTerm);
  }
  // On SQLite the reports cannot be written while this transaction has the lock.
  holder.write(Scope("holder"), Term(1), [&](Transaction&) {
    const auto start = std::chrono::steady_clock::now();
    db.reset();
    CHECK(std::chrono::steady_clock::now() - start < 3500ms);
  });
}

TEST_CASE("write: after a reset by another process begins again and is committed once",
          "[F3][F5][conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  auto db = Database::open(url), other = Database::open(url);
  conformance::install(db, url);
  const Scope scope("lowered");
  make_table(db, "write_lowered");
  db.seal(scope, Term(9));
  Operator(Database::open(conformance::owner_url(url)))
      .reset_fence(scope, Term(3), "ops", "mistyped term");
  const auto work = [](Transaction& tx) {
    tx.exec("INSERT INTO write_lowered (id, body) VALUES (1, 'x')");
  };
  CHECK(db.write(scope, Term(3), work, {.write_id = WriteId::random()}) == Wrote::now);
  CHECK(count_rows(other, "write_lowered") == 1);
}

TEST_CASE_METHOD(Fresh, "write id: each write of a batch has its own", "[F5][conformance]") {
  const std::vector<WriteId> ids{WriteId::random(), WriteId::random(), WriteId::random()};
  CHECK(db.append_many(stream, Term(1), {"a", "b", "c"}, {}, ids) == SequenceNo(3));
  CHECK(db.append_many(stream, Term(1), {"a", "b", "c"}, {}, ids) == SequenceNo(3));
  CHECK(Info(db).stream(stream)->last_no == 3);
  CHECK(db.outcome(ids[2])->sequence_no == 3);
  CHECK_THROWS_AS(db.append_many(stream, Term(1), {"a"}, {}, ids), InvalidInput);
}

TEST_CASE_METHOD(Fresh, "memory: pruning and releasing leave the fence", "[F3][conformance]") {
  for (int term = 1; term <= 5; ++term) db.append(stream, Term(term), "x");
  CHECK(Operator(db).prune(stream, SequenceNo(6)) == 5);
  CHECK(Info(db).read_stream(stream, SequenceNo(0)).empty());
  CHECK_THROWS_AS(db.append(stream, Term(4), "late"), StaleTerm);
  CHECK(db.append(stream, Term(5), "on") == SequenceNo(6));
  CHECK(Operator(db).verify().empty());
}

TEST_CASE("memory: a fence survives closing and opening", "[F3][conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  const Scope scope("kept");
  {
    auto db = Database::open(url);
    conformance::install(db, url);
    db.seal(scope, Term(8));
  }
  auto db = Database::open(url);
  CHECK(conformance::install(db, url).from_version == Operator(db).installed_version());
  CHECK(Info(db).fence(scope)->term == 8);
  CHECK_THROWS_AS(db.check(scope, Term(7)), StaleTerm);
}

TEST_CASE_METHOD(Fresh, "reset: a term of 10^18 by mistake is taken back and writing goes on",
                 "[F3][conformance]") {
  db.append(stream, Term(7), "seven", {.scope = scope});
  db.append(stream, Term(1'000'000'000'000'000'000), "mistyped", {.scope = scope});
  CHECK_THROWS_AS(db.append(stream, Term(8), "shut out"), StaleTerm);
  CHECK(Operator(db).reset_fence(scope, Term(7), "ops", "mistyped term") ==
        1'000'000'000'000'000'000);
  CHECK(Info(db).fence(scope)->term == 7);
  CHECK(db.append(stream, Term(8), "eight", {.scope = scope}) == SequenceNo(3));
  CHECK_THROWS_AS(db.append(stream, Term(7), "late"), StaleTerm);
  bool told = false;
  for (const Row& row : Operator(db).explain(scope).rows)
    told = told || (row[3].as_text() == "reset" && row[1].as_text() == "ops");
  CHECK(told);
}

TEST_CASE_METHOD(Fresh, "explain: tells who raised and who was refused", "[conformance]") {
  db.seal(scope, Term(5));
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(db.write(scope, Term(4), nothing), StaleTerm);
  int seals = 0;
  int refusals = 0;
  for (const Row& row : Operator(db).explain(scope).rows) {
    seals += row[3].as_text() == "seal";
    refusals += row[3].as_text() == "refuse";
  }
  CHECK(seals == 1);
  CHECK(refusals == 1);  // three within a second are one row
}

TEST_CASE("install: a newer schema than this binary knows is refused with the reason",
          "[conformance]") {
  const std::string url = conformance::fresh_url();
  auto db = Database::open(conformance::owner_url(url));
  // Outside of a database in memory nobody can play a newer version.
  if (db.kind() == "sqlite" && !conformance::survives_reopening()) return;
  Operator(db).install();
  const int version = Operator(db).installed_version();
  const auto claim = [&](int newer) {
    if (db.kind() == "sqlite") {
      conformance::run_outside(url,
                               "DROP TRIGGER IF EXISTS termgate_migrations_own_insert; INSERT INTO "
                               "termgate_migrations SELECT " +
                                   std::to_string(newer) +
                                   ", 'later', max(applied_at) FROM termgate_migrations");
      return;
    }
    db.write(Scope("versions"), Term(1), [&](Transaction& tx) {
      tx.exec("INSERT INTO " + conformance::own_table("migrations") +
                  " (version, name, applied_at) SELECT $1, 'later', max(applied_at) FROM " +
                  conformance::own_table("migrations"),
              newer);
    });
  };
  claim(version + 1);
  CHECK(Operator(db).install().from_version == version + 1);
  claim(version + 2);
  CHECK_THROWS_WITH(Operator(db).install(),
                    Catch::Contains(std::to_string(version + 2)) && Catch::Contains("newer"));
}

TEST_CASE("install: one that fails half-way leaves nothing", "[F5][conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  auto db = Database::open(conformance::owner_url(url));
  Operator(db).install();
  conformance::drop_guard(url);
  Operator(db).uninstall();
  CHECK(Operator(db).installed_version() == 0);
  // Something of the same name in the way of a later migration.
  if (conformance::is_postgresql()) {
    conformance::run_outside(url, "CREATE SCHEMA termgate");
    conformance::run_outside(
        url, "CREATE FUNCTION termgate.doctor() RETURNS integer LANGUAGE sql AS 'SELECT 1'");
  } else if (conformance::is_sqlserver()) {
    conformance::run_outside(url, "CREATE SCHEMA termgate");
    conformance::run_outside(url, "CREATE VIEW termgate.doctor AS SELECT 1 AS one");
  } else {
    conformance::run_outside(url, "CREATE TABLE termgate_stream_writes (id INTEGER)");
  }
  CHECK_THROWS_AS(Operator(db).install(), Error);
  CHECK(Operator(db).installed_version() == 0);
  if (conformance::is_sqlserver()) {
    CHECK(db.query("SELECT count(*) FROM sys.objects WHERE schema_id = SCHEMA_ID('termgate')")
              .one()[0]
              .as_int() == 1);
    return;
  }
  const std::string count =
      conformance::is_postgresql()
          ? "SELECT count(*) FROM pg_class WHERE relnamespace = 'termgate'::regnamespace"
          : "SELECT count(*) FROM sqlite_master WHERE name LIKE 'termgate%'";
  CHECK(db.query(count).one()[0].as_int() == (conformance::is_postgresql() ? 0 : 1));
}

TEST_CASE_METHOD(Fresh, "lease: an acquisition is a new term and shuts the one before out",
                 "[F2][conformance]") {
  Lease first = db.acquire_lease(scope, 10s, {.owner = "a"});
  CHECK(first.still_held());
  CHECK_FALSE(db.try_acquire_lease(scope, 10s, {.owner = "b"}));
  CHECK(db.write(first.scope(), first.term(), nothing) == Wrote::now);
  CHECK(Info(db).lease(scope)->owner == "a");
  const Lease again = db.acquire_lease(scope, 10s, {.owner = "a"});
  CHECK(again.term() > first.term());
  CHECK_THROWS_AS(db.write(scope, first.term(), nothing), StaleTerm);
  CHECK_THROWS_AS(db.renew_lease(first), LeaseLost);
}

TEST_CASE("lease: acquired again in one transaction it is the same acquisition",
          "[F3][conformance]") {
  // As any client of layer 1 calls it. (acquire_lease(…)).* calls it once a column on PostgreSQL,
  // and T-SQL and SQLite have their own ways to call it twice.
  const bool tsql = conformance::is_sqlserver(), postgres = conformance::is_postgresql();
  conformance::Outside session;
  const auto run = [&](const std::string& statement) {
    return session.run(tsql && (statement == "BEGIN" || statement == "COMMIT")
                           ? statement + " TRANSACTION"
                           : conformance::in_dialect(statement));
  };
  const auto term = [&](int ttl_ms, const std::string& endpoint = "NULL",
                        const std::string& owner = "me") -> std::string {
    const std::string ttl = std::to_string(ttl_ms);
    if (tsql)
      return session
          .run("EXEC termgate.acquire_lease @scope = N's', @owner = N'" + owner +
               "', @ttl_ms = " + ttl + ", @endpoint = " + endpoint)
          .at(1);
    if (postgres)
      return session
          .run("SELECT term FROM termgate.acquire_lease('s', '" + owner + "', interval '" + ttl +
               " ms', " + endpoint + ")")
          .at(0);
    return session
        .run("SELECT termgate_acquire_lease('s', '" + owner + "', " + ttl + ", " + endpoint +
             ") ->> '$.term'")
        .at(0);
  };
  const auto release = [&](const std::string& of) {
    if (tsql)
      session.run(
          "DECLARE @released bit; EXEC termgate.release_lease @scope = N's', @owner = N'me', @term "
          "= " +
          of + ", @released = @released OUTPUT");
    else
      session.run("SELECT " +
                  std::string(postgres ? "termgate.release_lease" : "termgate_release_lease") +
                  "('s', 'me', " + of + ")");
  };
  // Alone, each is a transaction of its own.
  CHECK(term(10'000) == "1");
  CHECK(term(10'000) == "2");
  run("BEGIN");
  CHECK(term(10'000) == "3");
  CHECK(term(10'000) == "3");
  CHECK(term(10'000, "NULL", "you") == "3");  // another's: not acquired
  release("3");
  CHECK(term(10'000) == "4");
  CHECK(term(10'000) == "4");
  run("COMMIT");
  run("BEGIN");
  CHECK(term(10'000) == "5");
  run("SAVEPOINT a");
  release("5");
  CHECK(term(10'000) == "6");
  run("ROLLBACK TO SAVEPOINT a");
  CHECK(term(10'000) == "5");  // the first one's row is there again
  run("COMMIT");
  run("BEGIN");
  run("SAVEPOINT a");
  CHECK(term(10'000) == "6");
  run("ROLLBACK TO SAVEPOINT a");
  CHECK(term(20'000) == "6");  // anew
  CHECK(term(20'000) == "6");
  run("COMMIT");
  run("BEGIN");
  CHECK(term(100) == "7");
  std::this_thread::sleep_for(150ms);
  CHECK(term(100) == "8");
  run("COMMIT");
  for (const auto& [ttl, endpoint] : {std::pair(11'000, "NULL"), std::pair(10'000, "'host:1'")}) {
    CAPTURE(ttl, endpoint);
    run("BEGIN");
    term(10'000);
    try {
      term(ttl, endpoint);
      FAIL_CHECK("it was acquired");
    } catch (const std::runtime_error& refused) {
      CHECK(std::string(refused.what()).find("TG005") != std::string::npos);
      CHECK(std::string(refused.what()).find("renew_lease") != std::string::npos);
    }
    run(tsql ? "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION" : "ROLLBACK");
  }
}

TEST_CASE_METHOD(Fresh,
                 "lease: runs out by the database's clock and the next holder has a higher term",
                 "[F2][conformance]") {
  const auto begun = std::chrono::steady_clock::now();
  Lease first = db.acquire_lease(scope, 300ms, {.owner = "a"});
  const Lease second = db.acquire_lease(scope, 10s, {.owner = "b", .wait = 5s});
  // The challenger says nothing of the time, so its clock cannot shorten the wait.
  CHECK(std::chrono::steady_clock::now() - begun >= 300ms);
  CHECK(second.term() > first.term());
  CHECK_FALSE(first.still_held());
  CHECK_THROWS_AS(db.renew_lease(first), LeaseLost);
  // Not only from the new holder's first write on.
  CHECK_THROWS_AS(db.write(scope, first.term(), nothing), StaleTerm);
}

TEST_CASE_METHOD(Fresh, "lease: an expired but unreplaced holder may still write and not renew",
                 "[conformance]") {
  const Lease lease = db.acquire_lease(scope, 100ms, {.owner = "a"});
  while (Info(db).lease(scope)->remaining_ms > 0) std::this_thread::sleep_for(10ms);
  CHECK_THROWS_AS(db.renew_lease(scope, lease.term(), "a", 10s), LeaseLost);
  CHECK(db.write(scope, lease.term(), nothing) == Wrote::now);
}

TEST_CASE_METHOD(Fresh, "lease: renewing extends and releasing keeps the term",
                 "[F3][conformance]") {
  Lease lease = db.acquire_lease(scope, 1s, {.owner = "a"});
  const auto before = Info(db).lease(scope)->expires_at_ms;
  std::this_thread::sleep_for(5ms);
  db.renew_lease(lease);
  CHECK(Info(db).lease(scope)->expires_at_ms > before);
  CHECK(db.release_lease(lease));
  CHECK_FALSE(db.release_lease(lease));
  CHECK_THROWS_AS(db.renew_lease(lease), LeaseLost);
  CHECK(Info(db).fence(scope)->term == lease.term().value());
  const Lease next = db.acquire_lease(scope, 1s, {.owner = "b"});
  CHECK(next.term().value() == lease.term().value() + 1);
}

TEST_CASE_METHOD(Fresh, "lease: only the holder with its term renews and releases",
                 "[conformance]") {
  const Lease lease = db.acquire_lease(scope, 10s, {.owner = "a"});
  CHECK_THROWS_AS(db.renew_lease(scope, lease.term(), "b", 10s), LeaseLost);
  CHECK_THROWS_AS(db.renew_lease(scope, Term(lease.term().value() + 1), "a", 10s), LeaseLost);
  CHECK_FALSE(db.release_lease(scope, lease.term(), "b"));
  CHECK_FALSE(db.release_lease(scope, Term(lease.term().value() + 1), "a"));
  CHECK(Info(db).lease(scope)->remaining_ms > 0);
}

TEST_CASE_METHOD(Fresh, "lease: force-release shuts the holder out at once", "[F2][conformance]") {
  Lease lease = db.acquire_lease(scope, 10s, {.owner = "a"});
  CHECK(Operator(db).force_release(scope, "ops", "on fire"));
  CHECK_THROWS_AS(db.write(scope, lease.term(), nothing), StaleTerm);
  CHECK_THROWS_AS(db.renew_lease(lease), LeaseLost);
  CHECK(db.acquire_lease(scope, 10s, {.owner = "b"}).term().value() > lease.term().value() + 1);
  CHECK_FALSE(Operator(db).force_release(Scope(unique("never")), "ops", "none"));
  const Scope free(unique("given back"));
  const Lease released = db.acquire_lease(free, 10s, {.owner = "a"});
  db.release_lease(released);
  CHECK_FALSE(Operator(db).force_release(free, "ops", "none"));
  CHECK(Info(db).fence(free)->term == released.term().value());
}

TEST_CASE_METHOD(Fresh, "lease: a term that was never issued is no term", "[conformance]") {
  const Lease lease = db.acquire_lease(scope, 10s, {.owner = "a"});
  const Term above(lease.term().value() + 1);
  CHECK_THROWS_AS(db.check(scope, above), InvalidInput);
  CHECK_THROWS_AS(db.seal(scope, above), InvalidInput);
  CHECK_THROWS_AS(db.append(Stream(unique("s")), above, "x", {.scope = scope}), InvalidInput);
  CHECK(Info(db).fence(scope)->term == lease.term().value());
}

TEST_CASE_METHOD(Fresh, "lease: begins above a fence that writers raised before",
                 "[F2][conformance]") {
  db.seal(scope, Term(41));
  CHECK(db.acquire_lease(scope, 1s, {.owner = "a"}).term() == Term(42));
}

TEST_CASE("untrusted: a restored database refuses writes until each scope is settled",
          "[F3][conformance]") {
  const std::string url = conformance::fresh_url();
  auto db = Database::open(url);
  conformance::install(db, url);
  const Scope leased("leased");
  const Scope external("external");
  const Lease lease = db.acquire_lease(leased, 10s, {.owner = "a"});
  db.seal(external, Term(5));
  CHECK(Operator(db).declare_untrusted("ops", "old copy put back") == 2);
  CHECK(Info(db).fence(external)->untrusted);
  CHECK_THROWS_AS(db.write(leased, lease.term(), nothing), FenceUntrusted);
  CHECK_THROWS_AS(db.check(external, Term(6)), FenceUntrusted);
  CHECK_THROWS_AS(db.seal(external, Term(9)), FenceUntrusted);
  CHECK_THROWS_AS(db.append(Stream("new"), Term(9), "x", {.scope = Scope("not seen before")}),
                  FenceUntrusted);

  const Lease next = db.acquire_lease(leased, 10s, {.owner = "a"});
  CHECK(next.term().value() >= (std::int64_t{1} << 32));
  CHECK(db.write(leased, next.term(), nothing) == Wrote::now);
  CHECK_THROWS_AS(db.check(external, Term(6)), FenceUntrusted);

  CHECK(Operator(db).declare_restored(external, Term(8), "ops", "etcd says 8") == Term(8));
  CHECK_THROWS_AS(db.check(external, Term(7)), StaleTerm);
  CHECK(db.check(external, Term(8)) == Term(8));
  CHECK(Operator(db).declare_nothing_lost("ops", "sure of the rest") >= 0);
  CHECK(db.check(Scope("not seen before"), Term(1)) == Term(1));
}

TEST_CASE_METHOD(Fresh, "settings: several are changed in the order given or none of them",
                 "[conformance]") {
  const auto value_of = [&](const std::string& name) {
    for (const Row& row : Operator(db).settings().rows)
      if (row[0].as_text() == name) return row[1].as_text();
    return std::string("there is none");
  };
  const std::string wait = value_of("check_wait_ms");
  Operator(db).set_settings(
      {{"eviction_grace_ms", "901"}, {"check_wait_ms", "4901"}, {"eviction_grace_ms", "902"}});
  CHECK(value_of("eviction_grace_ms") == "902");
  CHECK(value_of("check_wait_ms") == "4901");
  CHECK_THROWS_AS(
      Operator(db).set_settings({{"eviction_grace_ms", "903"}, {"no_such\"setting", "1"}}),
      InvalidInput);
  CHECK_THROWS_AS(
      Operator(db).set_settings({{"eviction_grace_ms", "904"}, {"check_wait_ms", "soon"}}),
      InvalidInput);
  CHECK(value_of("eviction_grace_ms") == "902");
  Operator(db).set_settings({});
  Operator(db).set_settings({{"eviction_grace_ms", "1000"}, {"check_wait_ms", wait}});
  CHECK(value_of("eviction_grace_ms") == "1000");
}

TEST_CASE_METHOD(Fresh, "stream move: gives a stream to another scope and keeps its numbers",
                 "[conformance]") {
  const Scope from(unique("from"));
  const Scope to(unique("to"));
  db.append(stream, Term(3), "x", {.scope = from});
  CHECK(Operator(db).move_stream(stream, to, "ops", "split"));
  CHECK_FALSE(Operator(db).move_stream(stream, to, "ops", "split"));
  db.seal(to, Term(9));
  CHECK_THROWS_AS(db.append(stream, Term(3), "late"), StaleTerm);
  CHECK(db.append(stream, Term(9), "on", {.scope = to}) == SequenceNo(2));
}

TEST_CASE_METHOD(Fresh, "query: reads and cannot write", "[F6][conformance]") {
  make_table(db, "query_only");
  CHECK(db.query("SELECT $1", {Value("x")}).one()[0].as_text() == "x");
  CHECK_THROWS_AS(db.query("INSERT INTO query_only VALUES (1, 'x')"), Error);
  CHECK_THROWS_AS(db.query("COMMIT"), Error);
  CHECK(count_rows(db, "query_only") == 0);
}
