// The pool of a driver's connections, with connections that are numbers: how many are open, which
// are lent again, and what becomes of places when one cannot be opened or has died.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <termgate/detail/connection_pool.hpp>

using namespace termgate;
using namespace std::chrono_literals;

namespace {

struct Fake {
  Fake(std::atomic<int>& open, int its_number) : open_(open), number(its_number) { ++open_; }
  ~Fake() { --open_; }
  std::atomic<int>& open_;
  int number;
  bool alive = true;
};
using Pool = detail::ConnectionPool<Fake>;

struct Server {
  std::atomic<int> open{0}, made{0};
  bool refuses = false;
  Pool pool{2,
            {.connect =
                 [this] {
                   if (refuses) throw Unavailable("no server");
                   return std::make_unique<Fake>(open, ++made);
                 },
             .is_alive = [](Fake& idle) { return idle.alive; },
             .is_reusable = [](Fake& used) { return used.alive; }}};

  Pool::PooledConnection lend() { return pool.lend(50ms); }

  int number_of_next() {
    const auto lent = lend();
    return lent->number;
  }
};

}  // namespace

TEST_CASE(
    "connection pool: lends the same connection again and closes what comes back inside a "
    "transaction",
    "[storage]") {
  Server server;
  CHECK(server.number_of_next() == 1);
  {
    auto lent = server.lend();
    lent.begun();
    lent.ended();
  }
  CHECK(server.number_of_next() == 1);
  CHECK(server.open == 1);
  {
    auto lent = server.lend();
    CHECK(lent->number == 1);
    lent.begun();
  }
  CHECK(server.open == 0);
  CHECK(server.number_of_next() == 2);
}

TEST_CASE("connection pool: opens no more than its bound and is blocked beyond it", "[storage]") {
  Server server;
  auto one = server.lend();
  std::thread([&] {
    auto two = server.lend();
    CHECK(server.open == 2);
    std::thread([&] {
      CHECK_THROWS_AS(server.lend(), Blocked);
      CHECK_THROWS_AS(server.pool.lend(1ms), Blocked);
    }).join();
  }).join();
  std::thread([&] { auto again = server.lend(); }).join();
}

TEST_CASE("connection pool: a waiter gets the connection that is given back", "[storage]") {
  Server server;
  auto mine = server.lend();
  std::atomic<bool> lent{false}, served{false};
  std::thread other([&] {
    auto loan = server.lend();
    lent = true;
    std::this_thread::sleep_for(10ms);
  });
  while (!lent) std::this_thread::yield();
  std::thread waiter([&] {
    auto loan = server.lend();
    served = loan->number == 2;
  });
  other.join();
  waiter.join();
  CHECK(served);
  CHECK(server.made == 2);
}

TEST_CASE("connection pool: replaces idle connections that have died", "[storage]") {
  Server server;
  Fake* first = nullptr;
  Fake* second = nullptr;
  {
    auto one = server.lend();
    first = &*one;
    std::thread([&] {
      auto two = server.lend();
      second = &*two;
    }).join();
  }
  CHECK(server.open == 2);
  first->alive = second->alive = false;
  CHECK(server.number_of_next() == 3);
  CHECK(server.open == 1);
  // Both places are free again: one is lent, and another thread gets the second.
  auto one = server.lend();
  CHECK(one->number == 3);
  std::thread([&] {
    auto two = server.lend();
    CHECK(two->number == 4);
  }).join();
}

TEST_CASE("connection pool: a connection that cannot be opened leaves its place free",
          "[storage]") {
  Server server;
  server.refuses = true;
  for (int i = 0; i < 5; ++i) CHECK_THROWS_AS(server.lend(), Unavailable);
  server.refuses = false;
  auto one = server.lend();
  std::thread([&] { CHECK_NOTHROW(server.lend()); }).join();
}

TEST_CASE("connection pool: a thread has one loan of a pool and may have one of another",
          "[storage]") {
  Server server, other;
  auto one = server.lend();
  CHECK_THROWS_AS(server.lend(), InvalidInput);
  {
    auto fine = other.lend();
    CHECK_THROWS_AS(server.lend(), InvalidInput);
    CHECK_THROWS_AS(other.lend(), InvalidInput);
  }
  CHECK_NOTHROW(other.lend());
}

TEST_CASE("connection pool: renews a pooled connection and not a new one", "[storage]") {
  Server server;
  {
    auto loan = server.lend();
    CHECK_FALSE(loan.renew());
  }
  {
    auto loan = server.lend();
    CHECK(loan.renew());
    CHECK(loan->number == 2);
    CHECK_FALSE(loan.renew());
  }
  CHECK(server.open == 1);
  server.refuses = true;
  {
    auto loan = server.lend();
    CHECK_THROWS_AS(loan.renew(), Unavailable);
  }
  CHECK(server.open == 0);
  server.refuses = false;
  CHECK(server.number_of_next() == 3);
}

TEST_CASE(
    "connection pool: the fittest idle connection is lent, and rather a new one than an unfit one",
    "[storage]") {
  Server server;
  const auto fit = [](int wanted) {
    return [wanted](const Fake& idle) { return idle.number == wanted ? 1 : 0; };
  };
  const auto unfit = [](int unwanted) {
    return [unwanted](const Fake& idle) { return idle.number == unwanted ? -1 : 0; };
  };
  CHECK(server.number_of_next() == 1);
  CHECK(server.pool.lend(50ms, unfit(1))->number == 2);
  CHECK(server.pool.lend(50ms, fit(1))->number == 1);
  CHECK(server.number_of_next() == 1);  // the last one given back
  CHECK(server.pool.lend(50ms, fit(2))->number == 2);
  CHECK(server.pool.lend(50ms, fit(3))->number == 2);
  CHECK(server.pool.lend(50ms, unfit(2))->number == 1);
  // There may be no more than two.
  CHECK(server.pool.lend(50ms, [](const Fake&) { return -1; })->number == 1);
  CHECK(server.open == 2);
}

TEST_CASE(
    "connection pool: an idle connection is used by nobody else meanwhile, and closed if that "
    "fails",
    "[storage]") {
  Server server;
  const auto any = [](const Fake&) { return true; };
  CHECK_FALSE(server.pool.with_idle(any, [](Fake&) {}));
  CHECK(server.number_of_next() == 1);
  CHECK_FALSE(
      server.pool.with_idle([](const Fake& idle) { return idle.number == 2; }, [](Fake&) {}));
  CHECK(server.pool.with_idle(any, [&](Fake& idle) {
    CHECK(idle.number == 1);
    CHECK(server.number_of_next() == 2);
  }));
  CHECK_THROWS_AS(server.pool.with_idle([](const Fake& idle) { return idle.number == 1; },
                                        [](Fake&) { throw std::runtime_error("it"); }),
                  std::runtime_error);
  CHECK(server.open == 1);
  CHECK(server.number_of_next() == 2);
}
