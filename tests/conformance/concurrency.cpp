// The races: what must hold when many threads check, raise, append and acquire at once.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
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

// Runs `work(index)` on `count` threads that start together; what one throws is shown and fails the
// test.
template <class Work>
void together(int count, Work work) {
  std::atomic<int> ready{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      try {
        work(index);
      } catch (const std::exception& failure) {
        const std::lock_guard lock(mutex);
        failures.emplace_back(failure.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) FAIL_CHECK(failure);
}

}  // namespace

TEST_CASE("race: of two first acquirers exactly one gets the lease", "[F2][conformance]") {
  auto& db = shared();
  for (int round = 0; round < 20; ++round) {
    const Scope scope(unique("first"));
    std::atomic<int> acquired{0};
    // For longer than the slowest server takes to prepare a new session: a second winner is then
    // never one who came late.
    together(4, [&](int index) {
      if (db.try_acquire_lease(scope, 10min, {.owner = "owner " + std::to_string(index)}))
        ++acquired;
    });
    CHECK(acquired == 1);
    CHECK(Info(db).fence(scope)->term == Info(db).lease(scope)->term);
  }
}

TEST_CASE_METHOD(Fresh, "race: a reader of payloads in parts meets a pruner", "[conformance]") {
  constexpr std::int64_t last = 40;
  const auto payload_of = [](std::int64_t number) {
    return std::string(std::size_t{100} << 10, static_cast<char>('0' + number));
  };
  for (std::int64_t number = 1; number <= last; ++number)
    db.append(stream, Term(1), payload_of(number));
  std::atomic<bool> pruned{false};
  std::atomic<int> pages{0}, wrong{0};
  together(3, [&](int index) {
    if (index == 0) {
      for (std::int64_t number = 2; number <= last; ++number)
        Operator(db).prune(stream, SequenceNo(number));
      pruned = true;
      return;
    }
    // A small page has a payload of this size fetched by itself. Each page is whole, in order, and
    // begins after what was pruned by then.
    std::int64_t first = 0;
    for (int turn = 0; turn < 10'000 && !(turn > 0 && pruned); ++turn) {
      try {
        std::int64_t before = 0;
        const auto page = Info(db).read_stream(stream, SequenceNo(0), 100, std::size_t{1} << 20);
        for (const auto& write : page) {
          wrong += write.payload != payload_of(write.sequence_no.value()) ||
                   write.sequence_no.value() <= before;
          before = write.sequence_no.value();
        }
        wrong += page.empty() || page.front().sequence_no.value() < first;
        if (!page.empty()) first = page.front().sequence_no.value();
        ++pages;
      } catch (const Conflict&) {}
    }
  });
  CHECK(wrong == 0);
  CHECK(pages > 0);
  REQUIRE(Info(db).read_stream(stream, SequenceNo(0)).size() == 1);
}

TEST_CASE_METHOD(Fresh, "race: terms in a stream never decrease whoever raises",
                 "[F1][F2][F5][conformance]") {
  CAPTURE(Catch::rngSeed());
  std::mutex mutex;
  std::map<std::string, std::int64_t> accepted;  // with the number that was returned
  std::set<std::string> refused;
  std::atomic<std::int64_t> highest{1};
  together(8, [&](int index) {
    std::mt19937 random(Catch::rngSeed() + static_cast<unsigned>(index));
    for (int i = 0; i < 25; ++i) {
      // Mostly the highest term seen, sometimes a stale one, sometimes a takeover.
      const int choice = static_cast<int>(random() % 10);
      std::int64_t term = highest;
      if (choice == 0) term = ++highest;
      else if (choice < 3 && term > 1) term -= 1;
      const std::string payload = std::to_string(index) + "/" + std::to_string(i);
      std::int64_t number = 0;
      try {
        if (random() % 2 == 0)
          number = db.append(stream, Term(term), payload, {.scope = scope}).value();
        else
          db.write(scope, Term(term),
                   [&](Transaction& tx) { number = tx.append(stream, payload).value(); },
                   {.retries = 20});
        const std::lock_guard lock(mutex);
        accepted[payload] = number;
      } catch (const StaleTerm&) {
        const std::lock_guard lock(mutex);
        refused.insert(payload);
      } catch (const Conflict&) {
        const std::lock_guard lock(mutex);
        refused.insert(payload);
      }
    }
  });
  std::int64_t last_term = 0;
  std::int64_t last_no = 0;
  std::map<std::string, std::int64_t> found;
  for (const auto& write : Info(db).read_stream(stream, SequenceNo(0), 10'000)) {
    CHECK(write.term.value() >= last_term);
    CHECK(write.sequence_no.value() == last_no + 1);
    last_term = write.term.value();
    last_no = write.sequence_no.value();
    found[write.payload] = last_no;
  }
  CHECK(found == accepted);
  for (const auto& payload : refused) CHECK(found.count(payload) == 0);
  CHECK(Info(db).fence(scope)->term >= last_term);
  CHECK(accepted.size() + refused.size() == 200);
  CHECK(Operator(db).verify().empty());
}

TEST_CASE_METHOD(Fresh, "race: after a seal has returned no lower term commits",
                 "[F2][conformance]") {
  db.append(stream, Term(1), "first", {.scope = scope});
  std::atomic<std::int64_t> sealed{1};
  std::atomic<bool> stop{false};
  std::atomic<int> breaches{0};
  together(6, [&](int index) {
    if (index == 0) {
      for (std::int64_t term = 2; term <= 20; ++term) {
        db.seal(scope, Term(term));
        sealed = term;
      }
      stop = true;
      return;
    }
    while (!stop) {
      const std::int64_t seen = sealed;
      const std::int64_t term = std::max<std::int64_t>(1, seen - 1);
      try {
        db.append(stream, Term(term), "x", {.scope = scope});
        // Admitted although a seal above it had returned before the call began?
        if (term < seen) ++breaches;
      } catch (const StaleTerm&) {}
    }
  });
  CHECK(breaches == 0);
  CHECK(Operator(db).verify().empty());
}

TEST_CASE("race: two databases opened on one store obey one layer 1", "[F1][conformance]") {
  if (!conformance::survives_reopening()) return;
  const std::string url = conformance::fresh_url();
  auto one = Database::open(url);
  auto two = Database::open(url);
  together(2, [&](int index) { conformance::install(index == 0 ? one : two, url); });
  CHECK(Operator(one).installed_version() > 0);
  const Scope scope("both");
  const Stream stream("both");
  together(4, [&](int index) {
    auto& db = index % 2 == 0 ? one : two;
    for (int i = 0; i < 10; ++i) db.append(stream, Term(2), "x", {.scope = scope});
  });
  CHECK(Info(two).stream(stream)->last_no == 40);
  one.seal(scope, Term(3));
  CHECK_THROWS_AS(two.append(stream, Term(2), "late"), StaleTerm);
}

// Found by `termgate storm`: on SQLite the failed renewal was a transaction that compared no fence,
// and made what the process remembered look fresh.
TEST_CASE("write: whoever lost the lease is refused whatever it did in between", "[F1][F2]") {
  const std::string url = conformance::fresh_url();
  auto first = Database::open(url);
  conformance::install(first, url);
  // In memory nobody else can have the same database.
  auto second = url.find(":memory:") == std::string::npos ? Database::open(url) : first;
  const Scope scope("lost");
  const auto nothing = [](Transaction&) {};
  LeaseOptions by_first, by_second;
  by_first.owner = "first";
  by_second.owner = "second";
  struct Row {
    const char* name;
    std::function<void(const Lease&)> between;
  };
  const Row rows[] = {
      {"nothing", [](const Lease&) {}},
      {"a renewal that fails",
       [&](const Lease& lease) {
         CHECK_THROWS_AS(first.renew_lease(lease.scope(), lease.term(), lease.owner(), 10s),
                         LeaseLost);
       }},
      {"an acquisition that gets nothing",
       [&](const Lease&) { CHECK_FALSE(first.try_acquire_lease(scope, 10s, by_first)); }},
      {"a release that finds nothing",
       [&](const Lease& lease) { CHECK_FALSE(first.release_lease(lease)); }},
      {"a write of another scope",
       [&](const Lease&) { first.write(Scope("another"), Term(1), nothing); }},
      {"an append to another scope",
       [&](const Lease&) { first.append(Stream("another"), Term(1), "x"); }},
      {"a forced release of another scope",
       [&](const Lease&) { Operator(first).force_release(Scope("another"), "test", "test"); }},
      {"a setting", [&](const Lease&) { Operator(first).set_setting("check_wait_ms", "5000"); }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Lease lease = first.acquire_lease(scope, 10s, by_first);
    first.write(scope, lease.term(), nothing);
    Operator(first).force_release(scope, "test", "test");
    lease = first.acquire_lease(scope, 100ms, by_first);
    first.write(scope, lease.term(), nothing);
    const Lease next = second.acquire_lease(scope, 10s, by_second);
    row.between(lease);
    CHECK_THROWS_AS(first.write(scope, lease.term(), nothing), StaleTerm);
    CHECK_THROWS_AS(first.append(Stream("lost"), lease.term(), "x",
                                 {.expected = {}, .scope = scope, .write_id = {}}),
                    StaleTerm);
    second.write(scope, next.term(), nothing);
    second.release_lease(next);
  }
}
