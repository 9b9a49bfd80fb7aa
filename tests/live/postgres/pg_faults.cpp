// [F3] [F5] What the library says when the connection, the server or the network fails at a named
// moment: OutcomeUnknown exactly when COMMIT (or an autocommit write) was sent and not answered,
// Unavailable where surely nothing was written, never a second attempt of its own, and a write id
// that settles every unknown. The faults are made by a proxy between the library and a real
// PostgreSQL (tests/support/fault_proxy.hpp), by pg_terminate_backend, and by killing the server.
// Long: a case for each fault.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "support/fault_proxy.hpp"
#include "support/pg_plain.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using termgate::test::Fault;
using termgate::test::FaultProxy;
using termgate::test::FreshDatabase;
using termgate::test::OwnServer;
using termgate::test::Plain;
using termgate::test::port_of;

namespace {

std::string server_url() { return std::getenv("TERMGATE_TEST_POSTGRESQL"); }

const Scope billing{"billing"};
const Term five{5};

enum class Ended { committed, unavailable, unknown, stale, other };

// How a write ended. Each type of error is told apart by its own clause: none of them derives from
// another.
Ended ending(const std::function<void()>& write, std::string* message = nullptr) {
  try {
    write();
    return Ended::committed;
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    if (dynamic_cast<const Unavailable*>(&error)) return Ended::unavailable;
    if (dynamic_cast<const OutcomeUnknown*>(&error)) return Ended::unknown;
    if (dynamic_cast<const StaleTerm*>(&error)) return Ended::stale;
    return Ended::other;
  }
}

// A database with layer 1, a table, a fence at 5, and a proxy before it. `db` goes through the
// proxy, `plain` does not.
struct Rig {
  explicit Rig(OpenOptions options = {}) : Rig(server_url(), std::move(options)) {}
  Rig(const std::string& server, OpenOptions options)
      : fresh(server),
        proxy(port_of(server)),
        plain(fresh.url()),
        direct(Database::open(fresh.url())),
        db(Database::open(proxy.url(fresh.url()), std::move(options))) {
    Operator(direct).install();
    plain.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, note text)");
    db.seal(billing, five);  // known to db, so that no raise comes before its writes
  }

  std::string rows(const std::string& note) {
    return plain.run("SELECT count(*) FROM ledger WHERE note = '" + note + "'");
  }
  // Sessions that the proxy has let go of are gone from the server as well: what they left open is
  // rolled back.
  bool settled() {
    return plain.await(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start "
        "IS NOT NULL AND pid <> pg_backend_pid()",
        "0");
  }

  FreshDatabase fresh;
  FaultProxy proxy;
  Plain plain;
  Database direct;
  Database db;
};

struct Callback {
  std::string note;
  int* runs;
  void operator()(Transaction& tx) const {
    ++*runs;
    tx.exec("INSERT INTO ledger (note) VALUES ($1)", note);
  }
};

}  // namespace

// Older than the first connection, so that they end after what that has brought along: `late`
// reports its last refusals then, or lets it be, while the keeper of its seats is at work.
std::optional<FreshDatabase> late_home;
std::optional<Database> late;

TEST_CASE("closing: a Database that outlives main harms nothing", "[live]") {
  late_home.emplace(server_url());
  late.emplace(Database::open(late_home->url()));
  Operator(*late).install();
  late->seal(billing, five);
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(late->check(billing, Term(4)), StaleTerm);
  for (int i = 0; i < 50; ++i) late->execute(billing, five, "SELECT 1");
}

TEST_CASE("faults: a COMMIT without an answer is unknown and its write id says what became of it",
          "[F5][live]") {
  Rig rig;
  for (const auto& [fault, note] : {std::pair(Fault::cut_after, "cut"),
                                    {Fault::drop_answer, "dropped"},
                                    {Fault::cut_before, "never arrived"}}) {
    CAPTURE(note);
    const bool happened = fault != Fault::cut_before;
    const WriteId id = WriteId::random();
    const int commits = rig.proxy.requests("COMMIT");
    const int fired = rig.proxy.fired();
    int runs = 0;
    const Callback work{note, &runs};
    rig.proxy.arm(fault, "COMMIT", 100ms);
    CHECK(ending([&] { rig.db.write(billing, five, work, {.write_id = id, .retries = 5}); }) ==
          Ended::unknown);
    CHECK(rig.proxy.fired() == fired + 1);
    CHECK(runs == 1);
    CHECK(rig.proxy.requests("COMMIT") == commits + 1);
    REQUIRE(rig.settled());
    CHECK(rig.rows(note) == (happened ? "1" : "0"));
    const auto outcome = rig.db.outcome(id);
    REQUIRE(outcome.has_value() == happened);
    if (outcome) {
      CHECK(outcome->scope == "billing");
      CHECK(outcome->term == five);
    }
    CHECK(rig.db.write(billing, five, work, {.write_id = id}) ==
          (happened ? Wrote::before : Wrote::now));
    CHECK(runs == (happened ? 1 : 2));
    CHECK(rig.rows(note) == "1");
    CHECK(rig.db.outcome(id));
  }
}

TEST_CASE("faults: COMMIT sent and the line cut at once is settled by the write id", "[F5][live]") {
  Rig rig;
  for (int i = 0; i < 20; ++i) {
    const std::string note = "race-" + std::to_string(i);
    const WriteId id = WriteId::random();
    int runs = 0;
    rig.proxy.arm(Fault::cut_at_once, "COMMIT");
    CHECK(ending([&] {
            rig.db.write(billing, five, Callback{note, &runs}, {.write_id = id});
          }) == Ended::unknown);
    // Nobody waits here: the first attempt may still be on its way, and the second one meets it.
    const Wrote again = rig.db.write(billing, five, Callback{note, &runs}, {.write_id = id});
    CHECK(runs == (again == Wrote::before ? 1 : 2));
    CHECK(rig.rows(note) == "1");
    CHECK(rig.db.outcome(id));
  }
}

TEST_CASE("faults: a connection lost before COMMIT is unavailable and nothing was written",
          "[F5][live]") {
  Rig rig;
  const Stream stream{"events"};
  int line = 0;
  for (const char* request : {"BEGIN", "check_term", "INSERT INTO ledger", "append("}) {
    for (const Fault fault : {Fault::cut_before, Fault::cut_after}) {
      const std::string note = "before-" + std::to_string(++line);
      CAPTURE(request, note);
      const int commits = rig.proxy.requests("COMMIT");
      const int fired = rig.proxy.fired();
      int runs = 0;
      rig.proxy.arm(fault, request);
      std::string message;
      CHECK(ending(
                [&] {
                  rig.db.write(billing, five,
                               [&](Transaction& tx) {
                                 Callback{note, &runs}(tx);
                                 tx.append(stream, note);
                               },
                               {.retries = 3});
                },
                &message) == Ended::unavailable);
      CHECK_THAT(message, Catch::Contains("nothing was written"));
      CHECK(rig.proxy.fired() == fired + 1);
      CHECK(rig.proxy.requests("COMMIT") == commits);
      CHECK(runs <= 1);
      CHECK(rig.rows(note) == "0");
    }
  }
  REQUIRE(rig.settled());
  CHECK(rig.plain.run("SELECT count(*) FROM termgate.stream_writes") == "0");
}

TEST_CASE("faults: the raise before a write is not the write", "[F5][live]") {
  Rig rig;
  int runs = 0;
  // A term above the fence is raised in a transaction of its own first. Whether that happened is
  // unknown; that the write did not is not.
  for (const Fault fault : {Fault::cut_after, Fault::cut_before}) {
    const Term higher(fault == Fault::cut_after ? 6 : 7);
    rig.proxy.arm(fault, "check_term");
    CHECK(ending([&] {
            rig.db.write(billing, higher, Callback{"raise", &runs});
          }) == Ended::unavailable);
    CHECK(runs == 0);
    CHECK(rig.rows("raise") == "0");
  }
  REQUIRE(rig.settled());
  CHECK(Info(rig.direct).fence(billing)->term == 6);
}

TEST_CASE(
    "faults: an autocommit append is unknown once it was sent and its write id gives the number",
    "[F5][live]") {
  Rig rig;
  const Stream stream{"events"};
  CHECK(rig.db.append(stream, five, "first", {.scope = billing}).value() == 1);
  // The first time a statement is sent whole, from the second time on by the name that it was
  // prepared under.
  int number = 1;
  for (const int uses_before : {0, 2}) {
    for (const Fault fault : {Fault::cut_after, Fault::cut_before, Fault::drop_answer}) {
      const WriteId id = WriteId::random();
      CAPTURE(uses_before, number);
      rig.plain.run(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
          "current_database() AND application_name = 'termgate'");
      std::this_thread::sleep_for(50ms);
      for (int i = 0; i < uses_before; ++i)
        CHECK(rig.db.append(stream, five, "use", {.scope = billing}).value() == ++number);
      const AppendOptions options{.scope = billing, .write_id = id};
      const int fired = rig.proxy.fired();
      const int sent = rig.proxy.requests(id.text());
      rig.proxy.arm(fault, id.text(), 50ms);
      CHECK(ending([&] { rig.db.append(stream, five, "payload", options); }) == Ended::unknown);
      CHECK(rig.proxy.fired() == fired + 1);
      CHECK(rig.proxy.requests(id.text()) == sent + 1);
      REQUIRE(rig.settled());
      const auto outcome = rig.db.outcome(id);
      CHECK(outcome.has_value() == (fault != Fault::cut_before));
      if (outcome) {
        CHECK(outcome->sequence_no == number + 1);
        CHECK(outcome->stream == "events");
      }
      CHECK(rig.db.append(stream, five, "payload", options).value() == ++number);
      CHECK(rig.db.append(stream, five, "payload", options).value() == number);
    }
  }
  CHECK(rig.plain.run("SELECT count(*) FROM termgate.stream_writes WHERE stream_id = 'events'") ==
        std::to_string(number));
  CHECK(Operator(rig.db).verify().empty());
}

TEST_CASE("faults: a batch that is unknown is all there or not at all and is written once",
          "[F5][live]") {
  Rig rig;
  const Stream stream{"events"};
  rig.db.append(stream, five, "first", {.scope = billing});
  for (const Fault fault : {Fault::cut_after, Fault::cut_before, Fault::cut_at_once}) {
    const auto before = Info(rig.db).stream(stream)->last_no;
    const std::vector<std::string> payloads{"a", "b", "c"};
    const std::vector<WriteId> ids{WriteId::random(), WriteId::random(), WriteId::random()};
    rig.proxy.arm(fault, "append_many(");
    CHECK(ending([&] { rig.db.append_many(stream, five, payloads, {}, ids); }) != Ended::committed);
    CHECK(rig.db.append_many(stream, five, payloads, {}, ids).value() == before + 3);
    CHECK(Info(rig.db).stream(stream)->last_no == before + 3);
  }
}

TEST_CASE("faults: a statement that was only being prepared was not sent", "[F5][live]") {
  Rig rig;
  const Stream stream{"events"};
  rig.db.append(stream, five, "first", {.scope = billing});
  // The second time that a connection meets a statement it prepares it, in a round trip of its own.
  rig.proxy.arm(Fault::cut_after, "append(");
  CHECK(ending([&] { rig.db.append(stream, five, "second", {.scope = billing}); }) ==
        Ended::unavailable);
  CHECK(rig.proxy.fired() == 1);
  CHECK(rig.db.append(stream, five, "second", {.scope = billing}).value() == 2);
}

TEST_CASE("faults: a lost seal or acquisition is unknown and can be asked for again",
          "[F2][F5][live]") {
  Rig rig;
  const Scope sealed{"sealed"};
  rig.db.seal(billing, five);  // prepared by now: what is cut is the call itself
  rig.proxy.arm(Fault::cut_after, "sealed");
  CHECK(ending([&] { rig.db.seal(sealed, Term(8)); }) == Ended::unknown);
  CHECK(rig.db.seal(sealed, Term(8)).fence == Term(8));
  CHECK(ending([&] { rig.db.check(sealed, Term(7)); }) == Ended::stale);

  const Scope led{"led"};
  rig.proxy.arm(Fault::cut_after, "acquire_lease(");
  CHECK(ending([&] { rig.db.acquire_lease(led, 10s); }) == Ended::unknown);
  const auto shown = Info(rig.db).lease(led);
  REQUIRE(shown);
  const Lease lease = rig.db.acquire_lease(led, 10s);
  CHECK(lease.term().value() > shown->term);
}

TEST_CASE("faults: a lost read is unavailable", "[F5][live]") {
  Rig rig;
  for (const Fault fault : {Fault::cut_after, Fault::cut_before}) {
    rig.proxy.arm(fault, "fence_status");
    CHECK(ending([&] { Info(rig.db).fence(billing); }) == Ended::unavailable);
    rig.proxy.arm(fault, "SELECT 42");
    CHECK(ending([&] { rig.db.query("SELECT 42"); }) == Ended::unavailable);
  }
  CHECK(Info(rig.db).fence(billing)->term == 5);
  CHECK(rig.proxy.fired() == 4);
}

TEST_CASE("faults: a connection that was ended while it lay idle costs nothing", "[F5][live]") {
  Rig rig({.connections_max = 1});
  int runs = 0;
  for (int i = 0; i < 3; ++i) {
    CHECK(rig.db.write(billing, five, Callback{"idle", &runs}) == Wrote::now);
    rig.plain.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'termgate'");
    REQUIRE(
        rig.plain.await("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND pid <> pg_backend_pid() AND "
                        "backend_type = 'client backend'",
                        "0"));
    // Until the relay has closed the end of the client.
    for (int waits = 0; rig.proxy.relaying() > 0 && waits < 500; ++waits)
      std::this_thread::sleep_for(10ms);
    REQUIRE(rig.proxy.relaying() == 0);
    std::this_thread::sleep_for(
        10ms);  // a connection that answered within the last 5 ms is not looked at
  }
  CHECK(runs == 3);
}

TEST_CASE("eviction: during the callback it is unavailable", "[F4][F5][live]") {
  Rig rig;
  int runs = 0;
  const auto evict = [&] {
    rig.plain.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state = 'idle in transaction'");
    REQUIRE(
        rig.plain.await("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND state = 'idle in transaction'",
                        "0"));
    std::this_thread::sleep_for(50ms);  // the proxy hands the end on
  };
  // Noticed by the next statement …
  CHECK(ending([&] {
          rig.db.write(billing, five, [&](Transaction& tx) {
            Callback{"evicted", &runs}(tx);
            evict();
            Callback{"evicted", &runs}(tx);
          });
        }) == Ended::unavailable);
  // By COMMIT, where there is no such call; it is then not sent.
  const int commits = rig.proxy.requests("COMMIT");
  CHECK(ending([&] {
          rig.db.write(billing, five, [&](Transaction& tx) {
            Callback{"evicted", &runs}(tx);
            evict();
          });
        }) == Ended::unavailable);
  CHECK(rig.proxy.requests("COMMIT") == commits);
  CHECK(runs == 3);
  CHECK(rig.rows("evicted") == "0");
}

TEST_CASE("eviction: during COMMIT it is unknown", "[F4][F5][live]") {
  Rig rig;
  // A deferred trigger makes COMMIT wait for the lock that `blocker` holds.
  rig.plain.run(
      "CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM "
      "pg_advisory_xact_lock(4711); RETURN NULL; END "
      "$$");
  rig.plain.run(
      "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR "
      "EACH ROW EXECUTE FUNCTION wait_in_commit()");
  const WriteId id = WriteId::random();
  int runs = 0;
  {
    Plain blocker(rig.fresh.url());
    blocker.run("SELECT pg_advisory_lock(4711)");
    auto ended = std::async(std::launch::async, [&] {
      return ending([&] {
        rig.db.write(billing, five, Callback{"late", &runs}, {.write_id = id});
      });
    });
    const std::string waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = "
        "'COMMIT' AND wait_event_type = 'Lock'";
    REQUIRE(rig.plain.await(waiting, "1"));
    rig.plain.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND query = 'COMMIT' AND "
        "wait_event_type = 'Lock'");
    CHECK(ended.get() == Ended::unknown);
  }
  REQUIRE(rig.settled());
  CHECK(rig.rows("late") == "0");
  CHECK_FALSE(rig.db.outcome(id));
  CHECK(rig.db.write(billing, five, Callback{"late", &runs}, {.write_id = id}) == Wrote::now);
  CHECK(rig.rows("late") == "1");
}

TEST_CASE("terms: a write admitted under one term never rides on a later one of the same process",
          "[F1][F2][live]") {
  Rig rig;
  const Scope led{"led"};
  rig.plain.run("SELECT termgate.set_setting('eviction_grace_ms', '100')");
  int runs = 0;
  const Lease old = rig.db.acquire_lease(led, 30s);
  std::promise<void> admitted, won;
  auto ended = std::async(std::launch::async, [&] {
    return ending([&] {
      rig.db.write(led, old.term(), [&](Transaction& tx) {
        admitted.set_value();
        won.get_future().wait();
        Callback{"old", &runs}(tx);
      });
    });
  });
  admitted.get_future().wait();
  // Lost, then won again by the same owner in the same process, through the same Database.
  REQUIRE(Operator(rig.db).force_release(led, "operator", "test"));
  const Lease again = rig.db.acquire_lease(led, 30s);
  REQUIRE(again.owner() == old.owner());
  REQUIRE(again.term() > old.term());
  won.set_value();
  CHECK(ended.get() == Ended::unavailable);
  CHECK(ending([&] { rig.db.write(led, old.term(), Callback{"old", &runs}); }) == Ended::stale);
  CHECK(ending([&] { rig.db.append(Stream{"led-events"}, old.term(), "old", {.scope = led}); }) ==
        Ended::stale);
  CHECK(ending([&] {
          rig.db.append_many(Stream{"led-events"}, old.term(), {"old"}, {.scope = led});
        }) == Ended::stale);
  CHECK_THROWS_AS(rig.db.renew_lease(led, old.term(), old.owner(), 30s), LeaseLost);
  CHECK(rig.rows("old") == "0");
  CHECK(rig.db.write(led, again.term(), Callback{"new", &runs}) == Wrote::now);
  CHECK(Operator(rig.db).verify().empty());
}

TEST_CASE("timeout: it ends the work and leaves the connection usable", "[F5][live]") {
  Rig rig({.connections_max = 1});
  int runs = 0;
  rig.db.write(billing, five, Callback{"warm", &runs});
  const int connections = rig.proxy.accepted();
  struct {
    const char* name;
    std::function<void(Transaction&)> work;
  } const works[] = {
      {"one long statement", [](Transaction& tx) { tx.exec("SELECT pg_sleep(30)"); }},
      {"many short statements",
       [](Transaction& tx) {
         for (int i = 0; i < 1000; ++i) tx.exec("SELECT pg_sleep(0.05)");
       }},
      {"a callback that dawdles", [](Transaction&) { std::this_thread::sleep_for(400ms); }},
  };
  for (const auto& one : works) {
    CAPTURE(one.name);
    const auto start = std::chrono::steady_clock::now();
    std::string message;
    CHECK(ending(
              [&] {
                rig.db.write(billing, five,
                             [&](Transaction& tx) {
                               Callback{"late", &runs}(tx);
                               one.work(tx);
                             },
                             {.timeout = 300ms});
              },
              &message) == Ended::unavailable);
    CHECK_THAT(message, Catch::Contains("nothing was written"));
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    CHECK(rig.rows("late") == "0");
  }
  CHECK(rig.db.write(billing, five, Callback{"next", &runs}, {.timeout = 10s}) == Wrote::now);
  CHECK(rig.proxy.accepted() == connections);
  // The limit was the transaction's: the next one on this connection has none.
  rig.db.write(billing, five, [](Transaction& tx) {
    CHECK(tx.exec("SHOW statement_timeout").one()[0].as_text() == "0");
  });
}

TEST_CASE("timeout: a server that falls silent is given up", "[F5][live]") {
  Rig rig;
  int runs = 0;
  // The raise before a write has no more time than the write.
  for (const Term term : {five, Term(6)}) {
    const char* const request = term == five ? "INSERT INTO ledger" : "check_term";
    CAPTURE(request);
    const int fired = rig.proxy.fired();
    rig.proxy.arm(Fault::freeze, request, 60s);
    const auto start = std::chrono::steady_clock::now();
    CHECK(ending([&] {
            rig.db.write(billing, term, Callback{"silent", &runs}, {.timeout = 1s});
          }) == Ended::unavailable);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    CHECK(rig.proxy.fired() == fired + 1);
  }
  CHECK(rig.rows("silent") == "0");
  CHECK(rig.db.write(billing, five, Callback{"after", &runs}, {.timeout = 5s}) == Wrote::now);
}

TEST_CASE("silence: answer_wait bounds every answer and a COMMIT without one is unknown",
          "[F5][live]") {
  Rig rig({.answer_wait = 300ms});
  int runs = 0;
  const auto start = std::chrono::steady_clock::now();
  rig.proxy.arm(Fault::freeze, "acquire_lease(", 60s);
  CHECK(ending([&] { rig.db.acquire_lease(Scope{"led"}, 10s); }) == Ended::unknown);
  rig.proxy.arm(Fault::freeze, "fence_status", 60s);
  CHECK(ending([&] { Info(rig.db).fence(billing); }) == Ended::unavailable);
  rig.proxy.arm(Fault::freeze, "INSERT INTO ledger", 60s);
  CHECK(ending([&] {
          rig.db.write(billing, five, Callback{"silent", &runs});
        }) == Ended::unavailable);
  rig.proxy.arm(Fault::freeze, "COMMIT", 60s);
  CHECK(ending([&] { rig.db.write(billing, five, Callback{"silent", &runs}); }) == Ended::unknown);
  CHECK(rig.proxy.fired() == 4);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK(rig.db.write(billing, five, Callback{"after", &runs}) == Wrote::now);
}

TEST_CASE("silence: a timeout makes no wait longer than answer_wait", "[F5][live]") {
  Rig rig({.answer_wait = 1500ms});
  int runs = 0;
  std::string message;
  rig.proxy.arm(Fault::freeze, "check_term(", 60s);
  CHECK(ending(
            [&] {
              rig.db.write(billing, Term(6), Callback{"silent", &runs}, {.timeout = 1s});
            },
            &message) == Ended::unavailable);
  CHECK(rig.proxy.fired() == 1);
  CHECK_THAT(message, Catch::Contains("no answer within 1500 ms"));
}

TEST_CASE("seats: an answer that stays away holds nothing up for long", "[F4][F5][seats][live]") {
  Rig rig;
  const auto write = [&] {
    rig.db.execute(billing, five, "INSERT INTO ledger (note) VALUES ('x')");
  };
  const auto sit = [&] {
    for (int i = 0; i < 1000 && rig.plain.run("SELECT count(*) FROM termgate.seats") == "0"; ++i) {
      write();
      std::this_thread::sleep_for(1ms);
    }
    REQUIRE(rig.plain.run("SELECT count(*) FROM termgate.seats") != "0");
  };
  const auto began = [] { return std::chrono::steady_clock::now(); };
  SECTION("the keeper's: writes are checked, and the Database can be closed") {
    sit();
    rig.proxy.arm(Fault::freeze, "seats_wanted", 60s);
    REQUIRE(rig.proxy.wait_fired(1));
    std::this_thread::sleep_for(500ms);
    const int stands = rig.proxy.requests("stand(");
    CHECK(ending(write) == Ended::committed);
    CHECK(rig.proxy.requests("stand(") > stands);
    const auto start = began();
    rig.db = Database::open(rig.fresh.url());
    CHECK(began() - start < 8s);
    write();
  }
  SECTION("an idle session's: the raise ends it after the grace") {
    sit();
    rig.proxy.arm(Fault::freeze, "stand(", 60s);
    const auto start = began();
    rig.direct.seal(billing, Term(6));
    CHECK(began() - start < 4s);
    const auto ended = ending(write);
    CHECK((ended == Ended::stale || ended == Ended::unavailable));
    CHECK(ending(write) == Ended::stale);
  }
  SECTION(
      "that of the statement that sits: the write is unknown, and no raise waits for the session") {
    rig.proxy.arm(Fault::cut_after, ".sit(", 0s);
    Ended ended = Ended::committed;
    for (int i = 0; i < 1000 && ended == Ended::committed; ++i) {
      ended = ending(write);
      std::this_thread::sleep_for(1ms);
    }
    CHECK(ended == Ended::unknown);
    const std::string rows = rig.rows("x");
    const auto start = began();
    rig.direct.seal(billing, Term(6));
    CHECK(began() - start < 900ms);
    CHECK(ending(write) == Ended::stale);
    CHECK(rig.rows("x") == rows);
  }
}

TEST_CASE("connecting: a server that accepts and never speaks is given up", "[F5][live]") {
  Rig rig;
  rig.proxy.mute(true);
  auto patient = Database::open(rig.proxy.url(rig.fresh.url()) + "&connect_timeout=2");
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  CHECK(ending([&] { patient.check(billing, five); }, &message) == Ended::unavailable);
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took >= 1s);
  CHECK(took < 8s);
  CHECK_THAT(message, Catch::Contains("nothing was written"));
  rig.proxy.mute(false);
  CHECK(patient.check(billing, five) == five);
}

TEST_CASE("memory: a database that shows a lower fence than was seen is untrusted", "[F3][live]") {
  Rig rig;
  const Scope scope{"remembered"};
  rig.db.seal(scope, Term(9));
  // A superuser's hand, or a storage snapshot: nothing in the database tells that 9 was ever there.
  rig.plain.run("ALTER TABLE termgate.fences DISABLE TRIGGER ALL");
  rig.plain.run("UPDATE termgate.fences SET term = 5 WHERE scope = 'remembered'");
  int runs = 0;
  const WriteId id = WriteId::random();
  const Stream stream{"remembered-events"};
  const Callback note{"untrusted", &runs};
  CHECK_THROWS_AS(rig.db.check(scope, Term(5)), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.write(scope, Term(5), note), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.write(scope, Term(5), note, {.write_id = id}), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.append(stream, Term(5), "x", {.scope = scope}), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.append_many(stream, Term(5), {"x"}, {.scope = scope}), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.append(Stream{scope.name()}, Term(5), "x"), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.seal(scope, Term(6)), FenceUntrusted);
  CHECK_THROWS_AS(rig.db.write(billing, five, [&](Transaction& tx) { tx.check(scope, Term(6)); }),
                  FenceUntrusted);
  CHECK(runs == 0);
  CHECK(rig.rows("untrusted") == "0");
  CHECK_FALSE(Info(rig.direct).stream(stream));
  // Another process that remembers nothing cannot know.
  CHECK(rig.direct.write(scope, Term(6), note) == Wrote::now);
  CHECK(runs == 1);
}

TEST_CASE("memory: a lease whose term the database has given before is untrusted", "[F3][live]") {
  Rig rig;
  const Scope scope{"led"};
  for (int i = 0; i < 3; ++i) rig.db.acquire_lease(scope, 10s);
  rig.plain.run("ALTER TABLE termgate.fences DISABLE TRIGGER ALL");
  rig.plain.run("ALTER TABLE termgate.leases DISABLE TRIGGER ALL");
  rig.plain.run("UPDATE termgate.fences SET term = 1 WHERE scope = 'led'");
  rig.plain.run("UPDATE termgate.leases SET term = 1 WHERE scope = 'led'");
  CHECK_THROWS_AS(rig.db.acquire_lease(scope, 10s), FenceUntrusted);
}

TEST_CASE("memory: an audited reset by another is believed", "[F3][live]") {
  Rig rig;
  int runs = 0;
  const std::pair<const char*, std::function<void(const Scope&)>> calls[] = {
      {"check", [&](const Scope& scope) { rig.db.check(scope, five); }},
      {"write",
       [&](const Scope& scope) {
         rig.db.write(scope, five, Callback{"write", &runs});
       }},
      {"append",
       [&](const Scope& scope) {
         rig.db.append(Stream{"after-reset"}, five, "x", {.scope = scope});
       }},
      {"seal", [&](const Scope& scope) { rig.db.seal(scope, Term(6)); }},
      {"inside", [&](const Scope& scope) {
         rig.db.write(billing, five, [&](Transaction& tx) { tx.check(scope, five); });
       }}};
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    const Scope scope{name};
    rig.db.seal(scope, Term(1'000'000));
    Operator(rig.direct).reset_fence(scope, five, "operator", "mistyped");
    CHECK_NOTHROW(call(scope));
    CHECK(rig.db.check(scope, Term(7)) == Term(7));
  }
}

namespace {

struct Written {
  WriteId id;
  bool appended;
  std::string stream;
  Ended ended;
};

}  // namespace

// A real server is killed in the middle of COMMIT, under load, and started again; the library's
// Database object lives on. Every write ended in one of three ways, and afterwards the rows must
// say the same: acknowledged writes are there, refused ones are not, unknown ones are settled by
// sending their id again. Long: one story, told in its order.
TEST_CASE("crash: a server killed in the middle of COMMIT leaves every write as it was reported",
          "[F3][F5][live]") {
  OwnServer server(TERMGATE_TEST_PG_SERVER, "15");
  auto db = Database::open(server.url(), {.connections_max = 12});
  Operator(db).install();
  {
    Plain plain(server.url());
    plain.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, note text)");
    // A COMMIT lasts 10 ms here before it is flushed, so that a kill nearly always meets several of
    // them.
    plain.run("ALTER SYSTEM SET commit_delay = 10000");
    plain.run("ALTER SYSTEM SET commit_siblings = 0");
    plain.run("SELECT pg_reload_conf()");
  }
  db.seal(billing, five);

  const auto append = [&](const Written& one) {
    const AppendOptions options{.scope = billing, .write_id = one.id};
    return db.append(Stream{one.stream}, five, one.id.text(), options).value();
  };
  const auto insert = [&](const Written& one) {
    int runs = 0;
    return db.write(billing, five, Callback{one.id.text(), &runs}, {.write_id = one.id});
  };
  std::mutex mutex;  // guards written and others
  std::vector<Written> written;
  std::vector<std::string> others;
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};  // acknowledged so far
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      for (int turn = 0; !stop; ++turn) {
        Written one{WriteId::random(), turn % 2 == 1, "stream-" + std::to_string(number), {}};
        std::string message;
        one.ended = ending([&] { one.appended ? void(append(one)) : void(insert(one)); }, &message);
        if (one.ended == Ended::committed) ++done;
        if (one.ended == Ended::unavailable) std::this_thread::sleep_for(5ms);
        const std::lock_guard lock(mutex);
        written.push_back(one);
        if (one.ended > Ended::unknown) {
          others.push_back(message);
          stop = true;
        }
      }
    });
  }
  const auto more_done = [&] {
    const int before = done;
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (done < before + 50 && !stop && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(5ms);
    return done >= before + 50;
  };
  bool recovered = true;
  for (int round = 0; round < 2 && recovered; ++round) {
    recovered = more_done();
    server.kill();
    server.start();
  }
  // Without a restart of this program, its pool finds the server again.
  recovered = recovered && more_done();
  stop = true;
  for (auto& thread : threads) thread.join();
  for (const auto& other : others) FAIL_CHECK(other);
  REQUIRE(recovered);

  // Whatever a dead session left behind is gone by now: the server was restarted.
  Plain plain(server.url());
  std::map<Ended, int> count;
  for (const Written& one : written) {
    CAPTURE(one.id.text(), one.appended, static_cast<int>(one.ended));
    const auto rows = [&] {
      return plain.run(one.appended
                           ? "SELECT count(*) FROM termgate.stream_writes WHERE write_id = '" +
                                 one.id.text() + "' AND stream_id = '" + one.stream + "'"
                           : "SELECT count(*) FROM ledger WHERE note = '" + one.id.text() + "'");
    };
    ++count[one.ended];
    const bool there = rows() == "1";
    REQUIRE(db.outcome(one.id).has_value() == there);
    if (one.ended == Ended::committed) REQUIRE(there);
    if (one.ended == Ended::unavailable) REQUIRE_FALSE(there);
    if (one.ended != Ended::unknown) continue;
    if (one.appended) {
      const auto number = append(one);
      REQUIRE(db.outcome(one.id)->sequence_no == number);
    } else {
      REQUIRE((insert(one) == Wrote::before) == there);
    }
    REQUIRE(rows() == "1");
  }
  CHECK(count[Ended::committed] >= 150);
  CHECK(count[Ended::unknown] > 0);
  CHECK(Info(db).fence(billing)->term == 5);
  for (const auto& finding : Operator(db).verify())
    FAIL_CHECK(finding.kind << " " << finding.object << ": " << finding.detail);
}
