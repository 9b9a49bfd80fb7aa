// Seats in the library, on a real PostgreSQL: sessions that write often sit down and send no check,
// stand up when somebody wants the scope, and never let a stale write through; everything works
// where no seat can be had.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "support/pg_session.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using test::PgDatabase;
using test::PgSession;
using test::wait_until;

namespace {

const Scope billing("billing"), other("other");

struct Home {
  explicit Home(const std::string& name)
      : database(name), operator_(database.url()), db(Database::open(database.url())) {
    operator_.must(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, scope text, term bigint, what "
        "text)");
  }
  static constexpr auto insert = "INSERT INTO t (scope, term, what) VALUES ($1, $2, 'x')";
  void write(const Scope& scope, Term term) {
    db.execute(scope, term, insert, scope.name(), term.value());
  }
  std::string seats(const std::string& where = "true") {
    return operator_.value("SELECT count(*) FROM termgate.seats WHERE " + where);
  }
  // Writes until it sits; the keeper has to come first.
  void sit(const Scope& scope, Term term) {
    wait_until("a seat in " + scope.name(), [&] {
      write(scope, term);
      return seats("scope = '" + scope.name() + "' AND term = " + std::to_string(term.value())) !=
             "0";
    });
  }
  std::string rows(const std::string& where = "true") {
    return operator_.value("SELECT count(*) FROM t WHERE " + where);
  }

  PgDatabase database;
  PgSession operator_;
  Database db;
};

double ms_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

}  // namespace

TEST_CASE("library seats: one statement in one round trip behind its check", "[F1][seats][live]") {
  Home home("seats_execute");
  const Rows rows = home.db.execute(
      billing, Term(2), "INSERT INTO t (scope, term) VALUES ($1, 2) RETURNING id", "billing");
  CHECK(rows.one()[0].as_int() == 1);
  CHECK(rows.affected == 1);
  CHECK(home.operator_.value("SELECT term FROM termgate.fence_status WHERE scope = 'billing'") ==
        "2");
  CHECK_THROWS_AS(home.write(billing, Term(1)), StaleTerm);
  home.operator_.must("SELECT termgate.seal('billing', 5)");
  CHECK_THROWS_AS(home.write(billing, Term(2)), StaleTerm);
  CHECK(home.rows() == "1");
  // A process that has seen a higher term than the database has now.
  CHECK(home.db.execute(billing, Term(5), "SELECT 1").one()[0].as_int() == 1);
  for (const bool seated : {false, true}) {
    CAPTURE(seated);
    if (seated) home.sit(billing, Term(5));
    // Errors are the statement's own, roll it back, and leave the connection as it was.
    for (int round = 0; round < 3; ++round) {
      CHECK_THROWS_WITH(home.db.execute(billing, Term(5), "INSERT INTO nowhere VALUES (1)"),
                        Catch::Contains("nowhere"));
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "SELECT $1::int + $2", 1), InvalidInput);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "SELECT 1", 1), InvalidInput);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "COMMIT"), InvalidInput);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "SELECT 1; SELECT 2"), DatabaseError);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "COPY t FROM STDIN"), InvalidInput);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "COPY t TO STDOUT"), InvalidInput);
      CHECK_THROWS_AS(home.db.execute(billing, Term(5), "SELECT 1/0"), DatabaseError);
      CHECK(home.db.execute(billing, Term(5), "").rows.empty());
      home.write(billing, Term(5));
    }
  }
}

TEST_CASE("library seats: what fails at the end of the transaction fails the statement",
          "[F5][seats][live]") {
  Home home("seats_deferred");
  home.operator_.must(
      "CREATE TABLE d (id int, CONSTRAINT once UNIQUE (id) DEFERRABLE INITIALLY DEFERRED); INSERT "
      "INTO d VALUES (1)");
  for (const bool seated : {false, true}) {
    CAPTURE(seated);
    if (seated) home.sit(billing, Term(1));
    for (int round = 0; round < 3; ++round) {
      CHECK_THROWS_WITH(home.db.execute(billing, Term(1), "INSERT INTO d VALUES (1)"),
                        Catch::Contains("once"));
      CHECK_THROWS_WITH(home.db.write(billing, Term(1),
                                      [](Transaction& tx) { tx.exec("INSERT INTO d VALUES (1)"); }),
                        Catch::Contains("once"));
    }
    home.write(billing, Term(1));
  }
  CHECK(home.operator_.value("SELECT count(*) FROM d") == "1");
}

TEST_CASE("library seats: a raise has the scope at once, and the next write is stale",
          "[F1][F2][seats][live]") {
  Home home("seats_raise");
  std::vector<double> took;
  for (std::int64_t term = 1; term < 20; term += 2) {
    home.sit(billing, Term(term));
    std::jthread writer([&](const std::stop_token& stop) {
      try {
        while (!stop.stop_requested()) home.write(billing, Term(term));
      } catch (const StaleTerm&) {}
    });
    std::this_thread::sleep_for(30ms);
    const auto began = std::chrono::steady_clock::now();
    CHECK(home.operator_.value("SELECT evicted FROM termgate.seal('billing', " +
                               std::to_string(term + 1) + ")") == "0");
    took.push_back(ms_since(began));
    CHECK(took.back() < 900);  // the grace is 1 s
    const std::string rows = home.rows();
    CHECK_THROWS_AS(home.write(billing, Term(term)), StaleTerm);
    writer.request_stop();
    writer.join();
    CHECK(home.rows() == rows);
    CHECK(home.seats() == "0");
  }
  std::sort(took.begin(), took.end());
  std::printf("takeover of a holder that sits and writes, ms: p50 %.0f, max %.0f\n",
              took[took.size() / 2], took.back());
}

TEST_CASE("library seats: a transaction of one statement and one of none", "[F5][seats][live]") {
  Home home("seats_transactions");
  home.sit(billing, Term(1));
  const auto write = [&](const std::function<void(Transaction&)>& work) {
    home.db.write(billing, Term(1), work);
  };
  const auto insert = [](Transaction& tx, const std::string& what) {
    tx.exec("INSERT INTO t (what) VALUES ($1)", what);
  };
  const auto before = std::stoll(home.rows());
  for (int round = 0; round < 20; ++round) {
    write([&](Transaction& tx) { insert(tx, "one"); });
    write([](Transaction&) {});
    CHECK_THROWS_AS(write([](Transaction&) { throw std::runtime_error("mine"); }),
                    std::runtime_error);
    CHECK_THROWS_AS(write([&](Transaction& tx) {
                      insert(tx, "gone");
                      throw std::runtime_error("mine");
                    }),
                    std::runtime_error);
    // A statement that cannot be parsed, first and swallowed: what follows must not run outside a
    // transaction.
    CHECK_THROWS_AS(write([&](Transaction& tx) {
                      CHECK_THROWS(tx.exec("SELEKT"));
                      try {
                        insert(tx, "stray");
                      } catch (const Error&) {}
                    }),
                    DatabaseError);
    write([&](Transaction& tx) {
      CHECK(tx.check(billing, Term(1)) == Term(1));
      tx.exec("SAVEPOINT a");
      insert(tx, "gone");
      tx.exec("ROLLBACK TO a");
      insert(tx, "two");
    });
    home.db.append(Stream("billing"), Term(1), "x", {.scope = billing});
  }
  CHECK(home.rows("what = 'one'") == "20");
  CHECK(home.rows("what = 'two'") == "20");
  CHECK(std::stoll(home.rows()) == before + 40);
}

TEST_CASE("library seats: isolation, timeouts and write ids are as without", "[seats][live]") {
  Home home("seats_options");
  home.sit(billing, Term(1));
  const auto write = [&](const std::string& sql, const WriteOptions& options) {
    return home.db.write(
        billing, Term(1), [&](Transaction& tx) { tx.exec(sql); }, options);
  };
  const std::pair<Isolation, const char*> levels[] = {
      {Isolation::read_committed, "read committed"},
      {Isolation::repeatable_read, "repeatable read"},
      {Isolation::serializable, "serializable"}};
  for (const auto& [isolation, name] : levels) {
    write("INSERT INTO t (what) VALUES (current_setting('transaction_isolation'))",
          {.isolation = isolation});
    CHECK(home.rows(std::string("what = '") + name + "'") == "1");
  }
  CHECK_THROWS_AS(write("SELECT pg_sleep(5)", {.timeout = 200ms}), Unavailable);
  write("INSERT INTO t (what) VALUES ('in time')", {.timeout = 200ms});
  CHECK(home.rows("what = 'in time'") == "1");
  const WriteOptions once{.write_id = WriteId::random()};
  for (const Wrote wanted : {Wrote::now, Wrote::before})
    CHECK(write("INSERT INTO t (what) VALUES ('once')", once) == wanted);
  CHECK(home.rows("what = 'once'") == "1");
}

TEST_CASE("library seats: the process itself raises, acquires and reads beside its own seats",
          "[seats][live]") {
  Home home("seats_own");
  const Scope leased("leased");
  std::int64_t term = 1;
  for (int round = 0; round < 3; ++round) {
    home.sit(billing, Term(term));
    home.sit(other, Term(1));
    CHECK(home.db.query("SELECT count(*) FROM t").one()[0].as_int() > 0);
    ++term;
    CHECK(home.db.seal(billing, Term(term)).fence == Term(term));
    home.sit(billing, Term(term));
    home.write(billing, Term(++term));  // raises by itself
    home.sit(billing, Term(term));
    const Lease lease = home.db.acquire_lease(leased, 10s);
    home.sit(leased, lease.term());
    CHECK(home.db.acquire_lease(leased, 10s).term() > lease.term());
    CHECK_THROWS_AS(home.write(leased, lease.term()), StaleTerm);
  }
  home.sit(billing, Term(term));
  Operator(home.db).declare_untrusted("me", "test");
  CHECK_THROWS_AS(home.write(billing, Term(term)), FenceUntrusted);
  Operator(home.db).declare_nothing_lost("me", "test");
  home.write(billing, Term(term));
}

TEST_CASE("library seats: an operator's calls beside seats of the same process", "[seats][live]") {
  Home home("seats_operator");
  Operator desk(home.db);
  const Stream orders("orders");
  AppendOptions in_billing;
  in_billing.scope = billing;
  home.db.append(orders, Term(1), "x", in_billing);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"set_raise_by", [&] { desk.set_raise_by(billing, "seal"); }},
      {"and back", [&] { desk.set_raise_by(billing, "writer"); }},
      {"move_stream", [&] { CHECK(desk.move_stream(orders, other, "me", "test")); }},
      {"prune", [&] { desk.prune(orders, SequenceNo(1)); }},
      {"prune_history", [&] { desk.prune_history(std::chrono::hours(1)); }},
      {"adopt", [&] { desk.adopt("t", "scope", "term"); }},
      {"unadopt", [&] { CHECK(desk.unadopt("t")); }},
      {"force_release", [&] { desk.force_release(billing, "me", "test"); }}};
  std::int64_t term = 1;
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    home.sit(other, Term(1));
    home.sit(billing, Term(term));
    CHECK_NOTHROW(call());
    term = Info(home.db).fence(billing)->term;
  }
}

TEST_CASE("library seats: seats that are not used are given up, after a long write too",
          "[seats][live]") {
  Home home("seats_unused");
  home.sit(billing, Term(1));
  home.db.write(billing, Term(1), [&](Transaction& transaction) {
    transaction.exec("SELECT pg_sleep(2)");  // longer than seats stay unused
    CHECK(home.seats() == "1");
  });
  wait_until("nobody sits", [&] { return home.seats() == "0"; });
  wait_until("the keeper has gone", [&] {
    return home.operator_.value(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query "
               "LIKE '%seats_wanted%' AND pid <> "
               "pg_backend_pid()") == "0";
  });
  home.sit(billing, Term(1));
}

TEST_CASE("library seats: streams that are appended to often sit in their own scope",
          "[seats][live]") {
  Home home("seats_streams");
  home.db.append(Stream("orders"), Term(1), "x",
                 {.scope = billing});  // so that its name is no scope
  wait_until("a seat", [&] {
    home.db.append(Stream("orders"), Term(1), "x");
    return home.seats("scope = 'billing'") != "0";
  });
  wait_until("a seat", [&] {
    home.db.append(Stream("alone"), Term(1), "x");
    return home.seats("scope = 'alone'") != "0";
  });
  CHECK(home.operator_.value("SELECT count(*) FROM termgate.fence_status WHERE scope = 'orders'") ==
        "0");
  // A new stream is in the scope that it would be in without seats.
  const auto scope_of = [&](const std::string& stream) {
    return home.operator_.value("SELECT scope FROM termgate.stream_status WHERE stream_id = '" +
                                stream + "'");
  };
  home.sit(billing, Term(1));
  for (const std::string& stream : {std::string("new"), std::string("newer")})
    home.db.append(Stream(stream), Term(1), "x");
  CHECK(scope_of("new") == "new");
  for (int round = 0; round < 2; ++round) {
    home.sit(billing, Term(1));
    if (round == 1) home.sit(other, Term(1));
    const std::string stream = "newest" + std::to_string(round);
    const auto append = [&] {
      home.db.execute(billing, Term(1), "SELECT termgate.append($1, 1, 'x')", stream);
    };
    try {
      append();
    } catch (const InvalidInput&) { append(); }
    CHECK(scope_of(stream) == "billing");
  }
  home.operator_.must("SELECT termgate.seal('billing', 2)");
  CHECK_THROWS_AS(home.db.append(Stream("orders"), Term(1), "x"), StaleTerm);
  AppendOptions once;
  once.write_id = WriteId::random();
  const auto first = home.db.append(Stream("alone"), Term(1), "once", once);
  home.operator_.must("SELECT termgate.seal('alone', 2)");
  CHECK(home.db.append(Stream("alone"), Term(1), "once", once) == first);
}

TEST_CASE("library seats: a role that writes sits unless the owner may not see and end sessions",
          "[seats][live]") {
  const std::string me = std::to_string(getpid());
  for (const bool may : {true, false}) {
    CAPTURE(may);
    PgDatabase database("seats_roles", PgDatabase::Install::none);
    database.install_as("seats_owner_" + std::to_string(may) + me,
                        may ? "pg_signal_backend, pg_read_all_stats" : "");
    PgSession admin(database.url());
    admin.must("CREATE TABLE t (scope text, term bigint, what text); GRANT ALL ON t TO PUBLIC");
    Database db = Database::open(database.url_as("seats_app_" + me, "write"));
    const auto write = [&] { db.execute(billing, Term(1), Home::insert, "billing", 1); };
    const auto seats = [&] { return admin.value("SELECT count(*) FROM termgate.seats"); };
    for (int round = 0; round < (may ? 5000 : 100) && seats() == "0"; ++round) {
      write();
      std::this_thread::sleep_for(2ms);
    }
    CHECK((seats() != "0") == may);
    CHECK_THROWS_AS(db.seal(billing, Term(2)), DatabaseError);
    write();
    admin.must("SELECT termgate.seal('billing', 2)");
    CHECK_THROWS_AS(write(), StaleTerm);
  }
}

TEST_CASE("library seats: protected tables, and a session that has lost its mark",
          "[F6][seats][live]") {
  Home home("seats_protected");
  home.operator_.must("CREATE TABLE p (n int); SELECT termgate.protect('p', scope => 'billing')");
  home.sit(billing, Term(1));
  const auto write = [&] { home.db.execute(billing, Term(1), "INSERT INTO p VALUES (1)"); };
  write();
  home.db.execute(billing, Term(1), "RESET ALL");
  // At worst one is refused, and the next goes behind a check again.
  try {
    write();
  } catch (const TermRequired&) {}
  home.db.write(billing, Term(1), [](Transaction& tx) { tx.exec("INSERT INTO p VALUES (3)"); });
  CHECK(home.operator_.value("SELECT count(*) FROM p WHERE n = 3") == "1");
  home.operator_.must("SELECT termgate.seal('billing', 2)");
  CHECK_THROWS_AS(write(), StaleTerm);
}
