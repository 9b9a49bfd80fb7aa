// [F3] [F5] A real server is killed in the middle of COMMIT, under load, and started again; the
// library's Database object lives on. Every write ended in one of three ways, and afterwards the
// rows must say the same: acknowledged writes are there, refused ones are not, unknown ones are
// settled by sending their id again, fences stand no lower than they were acknowledged.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "support/pg_plain.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using termgate::test::OwnServer;
using termgate::test::Plain;

namespace {

enum class Ended { committed, unavailable, unknown };

struct Written {
  WriteId id;
  bool appended;
  std::string stream;
  Ended ended;
};

const Scope billing{"billing"};

}  // namespace

// Long: one story, told in its order.
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
  db.seal(billing, Term(5));

  std::mutex mutex;  // guards written and others
  std::vector<Written> written;
  std::vector<std::string> others;
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};             // acknowledged so far
  std::atomic<std::int64_t> sealed{0};  // highest acknowledged fence of "rising"
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      const std::string stream = "stream-" + std::to_string(number);
      for (int turn = 0; !stop; ++turn) {
        Written one{WriteId::random(), turn % 2 == 1, stream, Ended::committed};
        try {
          if (one.appended) {
            db.append(Stream{stream}, Term(5), one.id.text(),
                      {.scope = billing, .write_id = one.id});
          } else {
            db.write(billing, Term(5),
                     [&](Transaction& tx) {
                       tx.exec("INSERT INTO ledger (note) VALUES ($1)", one.id.text());
                     },
                     {.write_id = one.id});
          }
          ++done;
        } catch (const OutcomeUnknown&) { one.ended = Ended::unknown; } catch (const Unavailable&) {
          one.ended = Ended::unavailable;
          std::this_thread::sleep_for(5ms);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex);
          others.emplace_back(error.what());
          stop = true;
        }
        const std::lock_guard lock(mutex);
        written.push_back(one);
      }
    });
  }
  threads.emplace_back([&] {
    for (std::int64_t term = 1; !stop; ++term) {
      try {
        db.seal(Scope{"rising"}, Term(term));
        sealed = term;
      } catch (const OutcomeUnknown&) {
      } catch (const Unavailable&) {
        std::this_thread::sleep_for(5ms);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        others.emplace_back(error.what());
        stop = true;
      }
    }
  });
  const auto more_done = [&] {
    const int before = done;
    const auto give_up = std::chrono::steady_clock::now() + 60s;
    while (done < before + 50 && !stop && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(5ms);
    return done >= before + 50;
  };
  bool recovered = true;
  for (int round = 0; round < 3 && recovered; ++round) {
    recovered = more_done();
    if (round == 1) server.stop_immediate();
    else server.kill();
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
  int happened = 0;
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
    happened += there ? 1 : 0;
    if (one.appended) {
      const SequenceNo number = db.append(Stream{one.stream}, Term(5), one.id.text(),
                                          {.scope = billing, .write_id = one.id});
      REQUIRE(db.outcome(one.id)->sequence_no == number.value());
    } else {
      const Wrote again = db.write(
          billing, Term(5),
          [&](Transaction& tx) { tx.exec("INSERT INTO ledger (note) VALUES ($1)", one.id.text()); },
          {.write_id = one.id});
      REQUIRE((again == Wrote::before) == there);
    }
    REQUIRE(rows() == "1");
  }
  CHECK(count[Ended::committed] >= 200);
  CHECK(count[Ended::unknown] > 0);
  CHECK(Info(db).fence(Scope{"rising"})->term >= sealed);
  CHECK(Info(db).fence(billing)->term == 5);
  for (const auto& finding : Operator(db).verify())
    FAIL_CHECK(finding.kind << " " << finding.object << ": " << finding.detail);
  WARN(count[Ended::committed] << " acknowledged, " << count[Ended::unavailable] << " refused, "
                               << count[Ended::unknown] << " unknown, of which " << happened
                               << " had happened; fence of \"rising\" acknowledged at " << sealed);
}

TEST_CASE("crash: an eviction while COMMIT waits for a standby is unknown and did happen",
          "[F4][F5][live]") {
  OwnServer server(TERMGATE_TEST_PG_SERVER, "15");
  auto db = Database::open(server.url());
  Operator(db).install();
  db.seal(billing, Term(5));
  Plain plain(server.url());
  plain.run("SET synchronous_commit = local");
  plain.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, note text)");
  plain.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  plain.run("SELECT pg_reload_conf()");
  REQUIRE(plain.await("SHOW synchronous_standby_names", "nobody"));
  const WriteId id = WriteId::random();
  int runs = 0;
  const auto work = [&](Transaction& tx) {
    ++runs;
    tx.exec("INSERT INTO ledger (note) VALUES ('waits')");
  };
  auto ended = std::async(std::launch::async, [&] {
    try {
      db.write(billing, Term(5), work, {.write_id = id});
      return Ended::committed;
    } catch (const OutcomeUnknown&) { return Ended::unknown; } catch (const Unavailable&) {
      return Ended::unavailable;
    }
  });
  REQUIRE(plain.await(
      "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'",
      "1"));
  plain.run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "
      "query = 'COMMIT'");
  CHECK(ended.get() == Ended::unknown);
  CHECK(plain.run("SELECT count(*) FROM ledger") == "1");
  CHECK(db.outcome(id));
  plain.run("ALTER SYSTEM RESET synchronous_standby_names");
  plain.run("SELECT pg_reload_conf()");
  CHECK(db.write(billing, Term(5), work, {.write_id = id}) == Wrote::before);
  CHECK(runs == 1);
  CHECK(plain.run("SELECT count(*) FROM ledger") == "1");
}
