// LeaderLoop on real databases: SQLite, and PostgreSQL where TERMGATE_TEST_POSTGRESQL names a
// server (live_leader_loop). What is decided when, to the nanosecond, is
// tests/unit/fencing/leader_core.cpp's; here it is threads, errors, and what stands in the
// database. Waits are bounded, and long leases show that nothing waited for one to end; where one
// must be renewed or run out it is long enough for a machine that is busy with other tests.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <termgate/info.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/operator.hpp>
#include <termgate/testkit/database.hpp>
#include <termgate/testkit/leader.hpp>
#include <termgate/testkit/lease_clock.hpp>

using namespace termgate;
using namespace termgate::testkit;
using namespace std::chrono_literals;
using Kind = LeaderNews::Kind;

namespace {

constexpr auto patience = 20s;
const Scope billing("billing");

// What loops have told, in order.
class Heard {
 public:
  std::function<void(const LeaderNews&)> listener() {
    return [this](const LeaderNews& news) {
      const std::lock_guard lock(mutex_);
      all_.push_back(news);
      changed_.notify_all();
    };
  }
  // The `nth` of its kind, from 1.
  LeaderNews wait(Kind kind, int nth = 1) {
    std::unique_lock lock(mutex_);
    std::optional<LeaderNews> found;
    const bool came = changed_.wait_for(lock, patience, [&] {
      int left = nth;
      const auto it = std::find_if(all_.begin(), all_.end(), [&](const LeaderNews& news) {
        return news.kind == kind && --left == 0;
      });
      if (it != all_.end()) found = *it;
      return found.has_value();
    });
    if (!came)
      throw std::runtime_error("the loop has not told kind " +
                               std::to_string(static_cast<int>(kind)) + " in time");
    return *found;
  }
  std::vector<Kind> kinds() const {
    const std::lock_guard lock(mutex_);
    std::vector<Kind> kinds;
    for (const LeaderNews& news : all_) kinds.push_back(news.kind);
    return kinds;
  }

 private:
  mutable std::mutex mutex_;  // guards all_
  std::condition_variable changed_;
  std::vector<LeaderNews> all_;
};

void until_stopped(const Leadership& leads) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait(lock, leads.stop_token(), [] { return false; });
}

struct Stage {
  ThrowAwayDatabase made = ThrowAwayDatabase::from_environment();
  Database db = made.open();
  Heard heard;
};

LeaderOptions options_with(Heard& heard, std::chrono::milliseconds ttl) {
  LeaderOptions options;
  options.ttl = ttl;
  options.poll = 20ms;
  options.news = heard.listener();
  return options;
}

}  // namespace

TEST_CASE_METHOD(Stage, "leader loop: is elected works under its term and gives the lease back",
                 "[storage][leader]") {
  {
    LeaderLoop loop(
        made.open(), billing,
        [&](const Leadership& leads) {
          db.append(Stream("billing"), leads.term(), "by the leader");
          until_stopped(leads);
        },
        options_with(heard, 1h));
    const LeaderNews elected = heard.wait(Kind::elected);
    CHECK(elected.term == Term(1));
    CHECK(loop.leads() == Term(1));
    const auto lease = Info(db).lease(billing);
    REQUIRE(lease);
    CHECK(lease->owner == loop.owner());
    CHECK(lease->term == 1);
    CHECK_FALSE(lease->released_at_ms);
    for (int i = 0; i < 2000 && !Info(db).stream(Stream("billing")); ++i)
      std::this_thread::sleep_for(10ms);
  }
  CHECK(heard.kinds() == std::vector{Kind::elected, Kind::stopped});
  CHECK(Info(db).lease(billing)->released_at_ms);
  const auto rows = Info(db).read_stream(Stream("billing"), SequenceNo(0));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].term == Term(1));
}

TEST_CASE_METHOD(Stage, "leader loop: of several one works and a stop hands over at once",
                 "[F2][storage][leader]") {
  std::atomic<int> at_work{0}, most{0};
  const auto work = [&](const Leadership& leads) {
    const int now = ++at_work;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {}
    until_stopped(leads);
    --at_work;
  };
  std::vector<std::unique_ptr<LeaderLoop>> loops;
  for (int i = 0; i < 3; ++i)
    loops.push_back(
        std::make_unique<LeaderLoop>(made.open(), billing, work, options_with(heard, 1h)));
  CHECK(loops[0]->owner() != loops[1]->owner());
  for (int term = 1; term <= 3; ++term) {
    CHECK(heard.wait(Kind::elected, term).term == Term(term));
    const auto leader = std::find_if(loops.begin(), loops.end(),
                                     [](const auto& loop) { return loop->leads().has_value(); });
    REQUIRE(leader != loops.end());
    CHECK((*leader)->leads() == Term(term));
    // An hour's lease: whoever comes next has not waited for its end.
    (*leader)->stop();
    CHECK_FALSE((*leader)->leads());
    loops.erase(leader);
  }
  CHECK(most == 1);
  CHECK(at_work == 0);
}

TEST_CASE_METHOD(Stage,
                 "leader loop: a tick beside the work runs only for the leader and under its term",
                 "[storage][leader]") {
  Heard nothing;
  LeaderLoop leader(db, billing, until_stopped, options_with(heard, 1h));
  heard.wait(Kind::elected);
  LeaderLoop standby(db, billing, until_stopped, options_with(nothing, 1h));
  int ticks = 0;
  CHECK(leader.run_if_leader([&](const Leadership& leads) {
    db.write(leads.scope(), leads.term(), [](Transaction&) {});
    ++ticks;
  }));
  CHECK_FALSE(standby.run_if_leader([&](const Leadership&) { ++ticks; }));
  CHECK(ticks == 1);
  standby.stop();
  leader.stop();
  CHECK_FALSE(leader.leadership());
}

TEST_CASE_METHOD(Stage, "leader loop: takes over when another's lease has run out",
                 "[F2][storage][leader]") {
  Database other = made.open();
  LeaseClock clock(made.open());
  LeaseOptions by_hand;
  by_hand.owner = "another";
  const Lease lease = *other.try_acquire_lease(billing, 1h, by_hand);
  LeaderLoop loop(made.open(), billing, until_stopped, options_with(heard, 1h));
  std::this_thread::sleep_for(200ms);
  CHECK(heard.kinds().empty());
  CHECK_FALSE(loop.leads());
  clock.advance(1h);
  CHECK(heard.wait(Kind::elected).term == Term(2));
  CHECK_THROWS_AS(other.append(Stream("billing"), lease.term(), "stale"), StaleTerm);
  CHECK_THROWS_AS(other.renew_lease(billing, lease.term(), "another", 1h), LeaseLost);
}

TEST_CASE_METHOD(Stage,
                 "leader loop: who is asked to leave ends its work in order and another leads",
                 "[handover][storage][leader]") {
  Heard next;
  std::atomic<bool> led_on{true}, second_leads{false};
  LeaderLoop first(
      db, billing,
      [&](const Leadership& leads) {
        until_stopped(leads);
        // Longer than its TTL: it leads on, renewed, while it finishes.
        for (int i = 0; i < 30; ++i) {
          std::this_thread::sleep_for(50ms);
          if (!leads.still_held() || second_leads) led_on = false;
        }
        db.write(billing, leads.term(), [](Transaction&) {});
      },
      options_with(heard, 1s));
  heard.wait(Kind::elected);
  LeaderLoop second(
      db, billing,
      [&](const Leadership& leads) {
        second_leads = true;
        until_stopped(leads);
      },
      options_with(next, 1s));
  REQUIRE(Operator(db).request_hand_over(billing, {.drain = 20s}));
  next.wait(Kind::elected);
  CHECK(led_on);
  const auto receipts = Info(db).hand_overs(billing);
  REQUIRE(receipts.size() == 1);
  CHECK(receipts[0].state == "taken");
  CHECK(receipts[0].owner == first.owner());
  CHECK(receipts[0].next_owner == second.owner());
  CHECK(receipts[0].left_at_ms);
  CHECK_FALSE(first.leads());
  CHECK(heard.kinds() == std::vector{Kind::elected, Kind::asked_to_leave, Kind::handed_over});
  CHECK(first.stats().elected == 1);
  CHECK(first.stats().handed_over == 1);
}

TEST_CASE_METHOD(
    Stage,
    "leader loop: a lease that was taken away ends the work and the next term is a new election",
    "[F2][storage][leader]") {
  std::mutex mutex;
  std::vector<std::int64_t> refused, terms;
  std::atomic<bool> believes{false};  // after it was told to stop
  LeaderLoop loop(
      made.open(), billing,
      [&](const Leadership& leads) {
        until_stopped(leads);
        if (leads.still_held()) believes = true;
        const std::lock_guard lock(mutex);
        terms.push_back(leads.term().value());
        try {
          db.append(Stream("billing"), leads.term(), "too late");
        } catch (const StaleTerm& stale) { refused.push_back(stale.term()); }
      },
      options_with(heard, 6s));
  heard.wait(Kind::elected);
  REQUIRE(Operator(db).force_release(billing, "operator", "test"));
  CHECK(heard.wait(Kind::lost).term == Term(1));
  // The forced release has sealed a term of its own.
  CHECK(heard.wait(Kind::elected, 2).term == Term(3));
  loop.stop();
  CHECK_FALSE(believes);
  REQUIRE(refused.size() >= 1);
  CHECK(refused.front() == 1);
  CHECK(terms.front() == 1);
}

// The library's call would notify the loop where the database can, and the loop would renew at
// once.
void force_release_quietly(Database& db) {
  if (db.kind() != "postgresql") {
    Operator(db).force_release(billing, "operator", "test");
    return;
  }
  db.write(Scope("elsewhere"), Term(1), [](Transaction& tx) {
    tx.exec("SELECT termgate.force_release('billing', 'operator', 'test')");
  });
}

TEST_CASE_METHOD(Stage,
                 "leader loop: work that is refused as stale is told and a new election comes",
                 "[F1][storage][leader]") {
  std::atomic<bool> taken_away{false};
  LeaderLoop loop(
      made.open(), billing,
      [&](const Leadership& leads) {
        // An hour's lease, and taken away by who notifies nobody, so that nothing but the write can
        // tell.
        if (!taken_away.exchange(true)) force_release_quietly(db);
        db.append(Stream("billing"), leads.term(), "perhaps");
        until_stopped(leads);
      },
      options_with(heard, 1h));
  CHECK(heard.wait(Kind::fenced).term == Term(1));
  const LeaderNews failed = heard.wait(Kind::work_failed);
  CHECK(failed.term == Term(1));
  CHECK_THROWS_AS(std::rethrow_exception(failed.error), StaleTerm);
  CHECK(heard.wait(Kind::elected, 2).term == Term(3));
  loop.stop();
  CHECK(Info(db).read_stream(Stream("billing"), SequenceNo(0)).size() <= 1);
}

TEST_CASE_METHOD(Stage,
                 "leader loop: what the work throws is told and the lease is free for others",
                 "[storage][leader]") {
  std::atomic<int> runs{0};
  LeaderLoop loop(
      made.open(), billing,
      [&](const Leadership& leads) {
        const int run = ++runs;
        if (run == 1) throw std::runtime_error("no paper");
        if (run == 2) throw 7;
        if (run == 3) return;
        until_stopped(leads);
      },
      options_with(heard, 1h));
  const LeaderNews failed = heard.wait(Kind::work_failed);
  CHECK(failed.term == Term(1));
  CHECK_THROWS_WITH(std::rethrow_exception(failed.error), "no paper");
  CHECK_THROWS_AS(std::rethrow_exception(heard.wait(Kind::work_failed, 2).error), int);
  CHECK(heard.wait(Kind::finished, 3).term == Term(3));
  CHECK(heard.wait(Kind::elected, 4).term == Term(4));
  loop.stop();
  CHECK(heard.kinds().back() == Kind::stopped);
  CHECK(runs == 4);
}

TEST_CASE("leader loop: says in time that it no longer leads while the database does not answer",
          "[storage][leader]") {
  const auto made = ThrowAwayDatabase::sqlite();
  Heard heard;
  const auto ttl = 5s;
  std::atomic<Lease::Clock::rep> told{0};
  LeaderLoop loop(
      made.open(), billing,
      [&](const Leadership& leads) {
        until_stopped(leads);
        std::int64_t none = 0;
        told.compare_exchange_strong(none, Lease::Clock::now().time_since_epoch().count());
      },
      options_with(heard, ttl));
  heard.wait(Kind::elected);
  // Somebody has the file to himself, and no renewal gets through.
  Database other = made.open();
  Leader holder([&](Points& at) {
    other.write(Scope("other"), Term(1), [&](Transaction&) { at("holds"); });
  });
  holder.pause_at("holds");
  holder.run_until_paused("holds");
  const auto held = Lease::Clock::now();
  CHECK(heard.wait(Kind::expired).term == Term(1));
  CHECK_FALSE(loop.leads());
  for (int i = 0; i < 1000 && told == 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(Lease::Clock::time_point(Lease::Clock::duration(told)) < held + ttl);
  holder.resume();
  holder.finish();
  CHECK(heard.wait(Kind::elected, 2).term == Term(2));
}

TEST_CASE("leader loop: a database that cannot be reached is told and asked again",
          "[storage][leader]") {
  Heard heard;
  LeaderLoop loop(Database::open("sqlite:/nowhere-at-all/billing.db"), billing, until_stopped,
                  options_with(heard, 100ms));
  CHECK_THROWS_AS(std::rethrow_exception(heard.wait(Kind::call_failed, 3).error), Error);
  CHECK_FALSE(loop.leads());
  loop.stop();
  for (const Kind kind : heard.kinds()) CHECK(kind == Kind::call_failed);
}

TEST_CASE_METHOD(Stage, "leader loop: the work may ask for the stop but not wait for it",
                 "[storage][leader]") {
  LeaderLoop* self = nullptr;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::atomic<bool> refused{false};
  LeaderLoop loop(
      made.open(), billing,
      [&](const Leadership& leads) {
        { const std::lock_guard known(mutex); }
        try {
          self->stop();
        } catch (const std::logic_error&) { refused = true; }
        self->request_stop();
        until_stopped(leads);
      },
      options_with(heard, 1h));
  self = &loop;
  lock.unlock();
  CHECK(heard.wait(Kind::stopped).term == Term(1));
  loop.stop();
  loop.stop();
  CHECK(refused);
  CHECK(Info(made.open()).lease(billing)->released_at_ms);
}

TEST_CASE("leader loop: options out of range are refused", "[storage][leader]") {
  const auto made = ThrowAwayDatabase::sqlite();
  const auto with = [&](auto change) {
    LeaderOptions options;
    change(options);
    LeaderLoop loop(made.open(), billing, until_stopped, options);
  };
  CHECK_THROWS_AS(with([](LeaderOptions& o) { o.ttl = 99ms; }), InvalidInput);
  CHECK_THROWS_AS(with([](LeaderOptions& o) { o.ttl = 24h + 1ms; }), InvalidInput);
  CHECK_THROWS_AS(with([](LeaderOptions& o) { o.margin = -1ms; }), InvalidInput);
  CHECK_THROWS_AS(with([](LeaderOptions& o) { o.margin = 5001ms; }), InvalidInput);
  CHECK_THROWS_AS(with([](LeaderOptions& o) { o.poll = 9ms; }), InvalidInput);
  CHECK_THROWS_AS(LeaderLoop(made.open(), billing, nullptr), InvalidInput);
  CHECK_FALSE(Info(made.open()).lease(billing));
  with([](LeaderOptions& o) { o.margin = 5s; });
}
