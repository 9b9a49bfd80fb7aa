// One suite over all term sources, against real servers that are paused, restarted, wiped and
// restored to yesterday. Each case has a scope of its own. A fence in SQLite stands for the
// database: what a source forgets, the fence still knows.
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/detail/source_election.hpp>
#include <termgate/info.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/operator.hpp>
#include <termgate/sources.hpp>

#include "server.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using termgate::test::server;
using termgate::test::within;

namespace {

std::shared_ptr<LeaseSource> connect() { return open_lease_source(server().url()); }

Scope new_scope(const std::string& what) {
  static std::atomic<int> number = 0;
  return Scope(fmt::format("{} {}", what, ++number));
}

// An acquisition that must come: by an owner for whom the scope is free, or soon will be.
SourceLease acquired(LeaseSource& source, const Scope& scope, const std::string& owner,
                     std::chrono::milliseconds ttl, std::chrono::milliseconds limit = 30s) {
  std::optional<SourceLease> lease;
  REQUIRE(
      within(limit, [&] { return (lease = source.try_acquire(scope, owner, ttl)).has_value(); }));
  return *lease;
}

// A fence that nobody else has.
struct Fence {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               fmt::format("termgate-source-{}-{}.db", getpid(), ++number);
  Database database = [this] {
    Database made = Database::open("sqlite:" + path.string());
    Operator(made).install();
    return made;
  }();
  ~Fence() {
    for (const char* tail : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + tail);
  }
  static inline int number = 0;
};

// So many elections, each given back; the fence follows them.
void elect(LeaseSource& source, Fence& fence, const Scope& scope, int times) {
  for (int i = 0; i < times; ++i) {
    const auto won = detail::elect_by_source(source, &fence.database, scope, "one", 10s, {});
    REQUIRE(won);
    CHECK(Info(fence.database).fence(scope)->term == won->lease.term.value());
    REQUIRE(source.release(scope, won->lease, "one"));
  }
}

// A loop gives up a fifth of the TTL before its end: what is left must be more than a busy machine
// takes away.
std::chrono::milliseconds loop_ttl() {
  return std::max<std::chrono::milliseconds>(server().ttl(), 3s);
}

template <class Call>
std::string refused_as_stale(Call call) {
  std::string message;
  // The lease that the service still remembers ends first.
  const bool refused = within(30s, [&] {
    try {
      if (call()) FAIL("a term that went backwards was granted");
      return false;
    } catch (const StaleTerm& error) {
      message = error.what();
      return true;
    }
  });
  REQUIRE(refused);
  return message;
}

// By an object that has seen the terms of before, and by the fence to one that has not.
void never_granted(LeaseSource& source, Fence& fence, const Scope& scope) {
  const auto try_once = [&]() -> std::optional<SourceLease> {
    try {
      return source.try_acquire(scope, "one", 10s);
    } catch (const Unavailable&) { return std::nullopt; } catch (const OutcomeUnknown&) {
      return std::nullopt;
    }
  };
  if (!server().client_refuses()) refused_as_stale(try_once);
  else CHECK_FALSE(within(2s, [&] { return try_once().has_value(); }));
  const auto fresh = connect();
  refused_as_stale(
      [&] { return detail::elect_by_source(*fresh, &fence.database, scope, "two", 10s, {}); });
}

// Terms under which a loop has led.
class Terms {
 public:
  void add(Term term) {
    const std::lock_guard lock(mutex_);
    terms_.push_back(term.value());
  }
  std::vector<std::int64_t> all() {
    const std::lock_guard lock(mutex_);
    return terms_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> terms_;
};

}  // namespace

TEST_CASE("source: one owner at a time and each acquisition has a higher term", "[sources]") {
  const auto one = connect(), two = connect();
  const Scope scope = new_scope("one at a time");
  const auto ttl = 10s;
  const auto first = one->try_acquire(scope, "one", ttl);
  REQUIRE(first);
  CHECK_FALSE(two->try_acquire(scope, "two", ttl));
  CHECK(one->renew(scope, *first, "one", ttl));
  CHECK_FALSE(two->try_acquire(scope, "two", ttl));
  CHECK(one->release(scope, *first, "one"));
  CHECK_FALSE(one->renew(scope, *first, "one", ttl));
  CHECK_FALSE(one->release(scope, *first, "one"));
  const auto second = two->try_acquire(scope, "two", ttl);
  REQUIRE(second);
  CHECK(second->term > first->term);
  // What is no longer one's own is neither renewed nor given back.
  CHECK_FALSE(one->renew(scope, *first, "one", ttl));
  CHECK_FALSE(one->release(scope, *first, "one"));
  CHECK(two->renew(scope, *second, "two", ttl));
  CHECK(two->release(scope, *second, "two"));
}

TEST_CASE("source: an owner who acquires again has a new term and the old one is shut out",
          "[sources]") {
  const auto source = connect();
  const Scope scope = new_scope("again");
  const auto first = acquired(*source, scope, "one", 10s),
             second = acquired(*source, scope, "one", 10s);
  CHECK(second.term > first.term);
  CHECK_FALSE(source->renew(scope, first, "one", 10s));
  CHECK_FALSE(source->release(scope, first, "one"));
  CHECK(source->renew(scope, second, "one", 10s));
  CHECK(source->release(scope, second, "one"));
}

TEST_CASE("source: a lease that nobody renews ends and not before its time", "[sources]") {
  using Clock = std::chrono::steady_clock;
  const auto one = connect(), two = connect();
  const auto ttl = server().ttl();
  std::optional<SourceLease> first;
  Scope scope = new_scope("ends");
  auto sent = Clock::now();
  // A machine that is busy may stop this program for longer than a TTL: then the lease ends,
  // rightly, and it is tried again.
  const auto renewed_in_time = [&] {
    sent = Clock::now();
    first = acquired(*one, scope, "one", ttl);
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(ttl / 2);
      const auto before = sent;
      sent = Clock::now();
      const bool renewed = one->renew(scope, *first, "one", ttl),
                 others = two->try_acquire(scope, "two", ttl).has_value();
      if (Clock::now() - before >= ttl) return false;
      CHECK(renewed);
      CHECK_FALSE(others);
    }
    return true;
  };
  bool in_time = false;
  for (int attempt = 0; !in_time && attempt < 20; ++attempt) {
    scope = new_scope("ends");
    in_time = renewed_in_time();
  }
  REQUIRE(in_time);
  if (server().renews_itself()) {
    std::this_thread::sleep_for(3 * ttl);
    CHECK_FALSE(two->try_acquire(scope, "two", ttl));
    return;
  }
  auto refused = sent;  // when the lease was last seen to be held
  std::optional<SourceLease> second;
  REQUIRE(within(60s, [&] {
    const auto asked = Clock::now();
    second = two->try_acquire(scope, "two", 10s);
    if (!second) refused = asked;
    return second.has_value();
  }));
  CHECK(Clock::now() - sent >= ttl);
  CHECK(refused - sent < ttl + server().late());
  CHECK(second->term > first->term);
  CHECK_FALSE(one->renew(scope, *first, "one", ttl));
  CHECK_FALSE(one->release(scope, *first, "one"));
  CHECK(two->renew(scope, *second, "two", 10s));
  two->release(scope, *second, "two");
}

TEST_CASE("source: a holder whose lease was taken away learns it and the next has a higher term",
          "[sources]") {
  const auto one = connect(), two = connect();
  const Scope scope = new_scope("taken");
  const auto first = acquired(*one, scope, "one", 60s);
  CHECK(one->renew(scope, first, "one", 60s));
  server().take_away(scope.name());
  CHECK_FALSE(one->renew(scope, first, "one", 60s));
  CHECK_FALSE(one->release(scope, first, "one"));
  if (server().counts_in_the_lease()) return;  // a counter that was deleted: below
  const auto second = acquired(*two, scope, "two", 10s);
  CHECK(second.term > first.term);
  CHECK_FALSE(one->renew(scope, first, "one", 60s));
  CHECK_FALSE(one->release(scope, first, "one"));
  CHECK(two->renew(scope, second, "two", 10s));
  CHECK(two->release(scope, second, "two"));
}

TEST_CASE("source: many candidates at once never share a term or the lease", "[sources]") {
  const Scope scope = new_scope("crowd");
  std::mutex mutex;
  std::int64_t last = 0;
  int inside = 0;
  std::atomic<int> elections = 0;
  bool wrong = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto source = connect();
      const std::string owner = fmt::format("candidate {}", i);
      // At least so long, and so many: a busy machine needs longer for them.
      const auto begun = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begun < 1500ms ||
             (elections <= 10 && std::chrono::steady_clock::now() - begun < 60s)) {
        const auto lease = source->try_acquire(scope, owner, 10s);
        if (!lease) continue;
        {
          const std::lock_guard lock(mutex);
          wrong = wrong || lease->term.value() <= last || ++inside != 1;
          last = lease->term.value();
          ++elections;
        }
        std::this_thread::sleep_for(1ms);
        {
          const std::lock_guard lock(mutex);
          --inside;
        }
        if (!source->release(scope, *lease, owner)) wrong = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  CHECK(elections > 10);
}

TEST_CASE("source: scopes and owners of any characters", "[sources]") {
  const auto source = connect();
  std::set<std::int64_t> terms;
  for (const char* name : {"a b", "a/b", "a%2Fb", "..", ".", "a\"b\\c", "{x}", "x}{", "ключ 鍵 🔑",
                           "a\nb", "a?b=c&d#e", "-", "a.b_c~d"}) {
    CAPTURE(name);
    const Scope scope(fmt::format("{}", name));
    const std::string owner = fmt::format("owner of {} ' \" \\ {{}}", name);
    const auto lease = acquired(*source, scope, owner, 10s);
    CHECK_FALSE(connect()->try_acquire(scope, "another", 10s));
    CHECK(source->renew(scope, lease, owner, 10s));
    CHECK(source->release(scope, lease, owner));
  }
  const Scope longest{std::string(200, 'x')};
  const auto lease = acquired(*source, longest, "one", 10s);
  CHECK(source->release(longest, lease, "one"));
}

TEST_CASE("source: a paused server is an error in time and the lease goes on behind it",
          "[sources]") {
  const auto source = open_lease_source(server().url_with("timeout=700"));
  const Scope scope = new_scope("paused");
  const auto lease = acquired(*source, scope, "one", 60s);
  server().pause();
  const auto begun = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(source->renew(scope, lease, "one", 60s), Error);
  CHECK_THROWS_AS(source->try_acquire(new_scope("paused, too"), "one", 60s), Error);
  CHECK_THROWS_AS(connect()->try_acquire(scope, "two", 3s), Error);
  CHECK(std::chrono::steady_clock::now() - begun < 8s);
  server().resume();
  CHECK(within(10s, [&] {
    try {
      return source->renew(scope, lease, "one", 60s);
    } catch (const Error&) { return false; }
  }));
  CHECK_FALSE(connect()->try_acquire(scope, "two", 10s));
  CHECK(source->release(scope, lease, "one"));
}

TEST_CASE("source: without a server nothing is granted and after it terms go on above",
          "[sources]") {
  const auto source = connect(), other = connect();
  const Scope scope = new_scope("restart");
  auto last = acquired(*source, scope, "one", 10s);
  for (const bool crash : {false, true}) {
    REQUIRE(source->release(scope, last, "one"));
    last = acquired(*source, scope, "one", 10s);
    if (crash) {
      server().kill();
    } else {
      server().stop();
      CHECK_THROWS_AS(other->try_acquire(new_scope("gone"), "one", 3s), Unavailable);
    }
    server().start();
    std::optional<SourceLease> next;
    REQUIRE(within(40s, [&] {
      try {
        return (next = source->try_acquire(scope, "one", 10s)).has_value();
      } catch (const Unavailable&) { return false; } catch (const OutcomeUnknown&) {
        return false;
      }
    }));
    CHECK(next->term > last.term);
    last = *next;
  }
  source->release(scope, last, "one");
}

TEST_CASE("source: a counter that was deleted is refused by who has seen it and by the fence",
          "[F2][sources]") {
  Fence fence;
  const auto source = connect();
  const Scope scope = new_scope("deleted");
  elect(*source, fence, scope, 5);
  const auto before = Info(fence.database).fence(scope)->term;
  server().delete_counter(scope.name());
  if (!server().counts()) {
    // Its terms come from what nobody can delete.
    const auto won = detail::elect_by_source(*source, &fence.database, scope, "one", 10s, {});
    REQUIRE(won);
    CHECK(won->lease.term.value() > before);
    source->release(scope, won->lease, "one");
    return;
  }
  const std::string why = refused_as_stale([&] { return source->try_acquire(scope, "one", 10s); });
  CHECK((why.find("lost what it knew") != std::string::npos ||
         why.find("its data was replaced") != std::string::npos));
  const auto fresh = connect();
  CHECK(refused_as_stale([&] {
          return detail::elect_by_source(*fresh, &fence.database, scope, "two", 10s, {});
        }).find("the fence is already at") != std::string::npos);
  CHECK(Info(fence.database).fence(scope)->term == before);
}

TEST_CASE("source: a server that lost everything is refused by who has seen it and by the fence",
          "[F2][sources]") {
  Fence fence;
  const auto source = connect();
  const Scope scope = new_scope("wiped");
  elect(*source, fence, scope, 20);
  server().wipe();
  never_granted(*source, fence, scope);
}

TEST_CASE("source: a server restored to yesterday is refused by who has seen it and by the fence",
          "[F2][sources]") {
  Fence fence;
  const Scope scope = new_scope("restored");
  {
    const auto before = connect();
    const auto lease = acquired(*before, scope, "zero", 10s);
    REQUIRE(before->release(scope, lease, "zero"));
  }
  server().back_up();
  const auto source = connect();
  elect(*source, fence, scope, 40);
  server().restore();
  never_granted(*source, fence, scope);
}

TEST_CASE("source: of two holders of one term the database lets one pass", "[F2][sources]") {
  // Two sources that both issue term 7: what a server that forgets brings about.
  struct Sevens final : LeaseSource {
    std::string name() const override { return "sevens"; }
    std::optional<SourceLease> try_acquire(const Scope&, const std::string&,
                                           std::chrono::milliseconds) override {
      return SourceLease{Term(7)};
    }
    bool renew(const Scope&, const SourceLease&, const std::string&,
               std::chrono::milliseconds) override {
      return true;
    }
    bool release(const Scope&, const SourceLease&, const std::string&) override {
      return ++released, true;
    }
    std::atomic<int> released = 0;
  };
  Fence fence;
  Sevens sevens;
  std::atomic<int> won = 0, stale = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      try {
        if (detail::elect_by_source(sevens, &fence.database, Scope("sevens"), "one", 10s, {}))
          ++won;
      } catch (const StaleTerm&) { ++stale; }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(won == 1);
  CHECK(stale == 3);
  CHECK(sevens.released == 3);
}

TEST_CASE("source: a LeaderLoop leads under the source's terms and hands over", "[F2][sources]") {
  Fence fence;
  const Scope scope = new_scope("loop");
  const auto ttl = loop_ttl();
  Terms terms;
  const auto work = [&](const Leadership& leads) {
    terms.add(leads.term());
    while (!leads.stop_requested()) {
      fence.database.append(Stream("loop"), leads.term(), "x", {.scope = scope});
      std::this_thread::sleep_for(5ms);
    }
  };
  const auto count = [&] { return terms.all().size(); };
  LeaderLoop one(fence.database, connect(), scope, work, {.ttl = ttl, .poll = 50ms});
  REQUIRE(within(20s, [&] { return count() == 1; }));
  {
    LeaderLoop two(fence.database, connect(), scope, work, {.ttl = ttl, .poll = 50ms});
    std::this_thread::sleep_for(ttl + ttl / 2);
    CHECK(one.leads());
    CHECK_FALSE(two.leads());
    one.stop();
    REQUIRE(within(20s, [&] { return count() == 2; }));
  }
  const auto led = terms.all();
  CHECK(led[1] > led[0]);
  CHECK_THROWS_AS(fence.database.append(Stream("loop"), Term(led[0]), "late", {.scope = scope}),
                  StaleTerm);
}

TEST_CASE("source: a LeaderLoop stops leading while the server is paused and leads again after it",
          "[F2][sources]") {
  Fence fence;
  const Scope scope = new_scope("loop and pause");
  const auto ttl = loop_ttl();
  std::atomic<int> elected = 0;
  LeaderLoop loop(fence.database, connect(), scope,
                  [&](const Leadership& leads) {
                    ++elected;
                    while (!leads.stop_requested()) std::this_thread::sleep_for(5ms);
                  },
                  {.ttl = ttl, .poll = 50ms});
  REQUIRE(within(20s, [&] { return elected == 1; }));
  server().pause();
  const auto begun = std::chrono::steady_clock::now();
  CHECK(within(ttl + 1s, [&] { return !loop.leads(); }));
  CHECK(std::chrono::steady_clock::now() - begun < ttl);
  server().resume();
  CHECK(within(40s, [&] { return elected == 2; }));
  CHECK(loop.stats().expired == 1);
}

TEST_CASE("source: a LeaderLoop whose lease was taken away stops leading", "[F2][sources]") {
  Fence fence;
  const Scope scope = new_scope("loop and operator");
  Terms terms;
  const auto count = [&] { return terms.all().size(); };
  std::atomic<int> stopped = 0;
  LeaderLoop loop(fence.database, connect(), scope,
                  [&](const Leadership& leads) {
                    terms.add(leads.term());
                    while (!leads.stop_requested()) std::this_thread::sleep_for(5ms);
                    ++stopped;
                  },
                  {.ttl = loop_ttl(), .poll = 50ms});
  REQUIRE(within(20s, [&] { return count() == 1; }));
  server().take_away(scope.name());
  REQUIRE(within(40s, [&] { return stopped == 1; }));
  if (server().counts_in_the_lease()) {
    // It counts anew from 1, so what is granted next is refused until it is above the fence.
    within(2s, [&] { return count() > 1; });
    const auto led = terms.all();
    CHECK((led.size() == 1 || led[1] > led[0]));
    return;
  }
  REQUIRE(within(40s, [&] { return count() == 2; }));
  const auto led = terms.all();
  CHECK(led[1] > led[0]);
}
