// The pool of a driver's connections, with connections that are numbers: how many are open, which are lent again, and what becomes of
// places when one cannot be opened or has died.
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
  explicit Fake(std::atomic<int>& open, int number) : open_(open), number(number) { ++open_; }
  ~Fake() { --open_; }
  std::atomic<int>& open_;
  int number;
  bool alive = true;
};
using Pool = detail::ConnectionPool<Fake>;
using Loan = Pool::Loan;

struct Server {
  std::atomic<int> open{0}, made{0};
  bool refuses = false;
  Pool pool{2,
            50ms,
            {.open =
                 [this] {
                   if (refuses) throw Unavailable("no server");
                   return std::make_unique<Fake>(open, ++made);
                 },
             .usable = [](Fake& idle) { return idle.alive; },
             .worth_keeping = [](Fake& used) { return used.alive; }}};

  int number_of_next(bool keep = true) {
    Loan loan(pool);
    if (keep) loan.mark_reusable();
    return (*loan).number;
  }
};

}  // namespace

TEST_CASE("connection pool: lends the same connection again and closes what was not marked reusable", "[fencing]") {
  Server server;
  CHECK(server.number_of_next() == 1);
  CHECK(server.number_of_next() == 1);
  CHECK(server.open == 1);
  CHECK(server.number_of_next(false) == 1);
  CHECK(server.open == 0);
  CHECK(server.number_of_next() == 2);
}

TEST_CASE("connection pool: opens no more than its bound and is blocked beyond it", "[fencing]") {
  Server server;
  Loan one(server.pool);
  std::thread([&] {
    Loan two(server.pool);
    CHECK(server.open == 2);
    std::thread([&] {
      CHECK_THROWS_AS(Loan(server.pool), Blocked);
      CHECK_THROWS_AS(Loan(server.pool, 1ms), Blocked);
    }).join();
  }).join();
  std::thread([&] { Loan again(server.pool); }).join();
}

TEST_CASE("connection pool: a waiter gets the connection that is given back", "[fencing]") {
  Server server;
  Loan mine(server.pool);
  std::atomic<bool> lent{false}, served{false};
  std::thread other([&] {
    Loan loan(server.pool);
    lent = true;
    std::this_thread::sleep_for(10ms);
    loan.mark_reusable();
  });
  while (!lent) std::this_thread::yield();
  std::thread waiter([&] {
    Loan loan(server.pool);
    served = (*loan).number == 2;
    loan.mark_reusable();
  });
  other.join();
  waiter.join();
  CHECK(served);
  CHECK(server.made == 2);
}

TEST_CASE("connection pool: replaces idle connections that have died", "[fencing]") {
  Server server;
  Fake* first = nullptr;
  Fake* second = nullptr;
  {
    Loan one(server.pool);
    first = &*one;
    std::thread([&] {
      Loan two(server.pool);
      second = &*two;
      two.mark_reusable();
    }).join();
    one.mark_reusable();
  }
  CHECK(server.open == 2);
  first->alive = second->alive = false;
  CHECK(server.number_of_next() == 3);
  CHECK(server.open == 1);
  // Both places are free again: one is lent, and another thread gets the second.
  Loan one(server.pool);
  CHECK((*one).number == 3);
  std::thread([&] {
    Loan two(server.pool);
    CHECK((*two).number == 4);
  }).join();
}

TEST_CASE("connection pool: a connection that cannot be opened leaves its place free", "[fencing]") {
  Server server;
  server.refuses = true;
  for (int i = 0; i < 5; ++i) CHECK_THROWS_AS(Loan(server.pool), Unavailable);
  server.refuses = false;
  Loan one(server.pool);
  std::thread([&] { CHECK_NOTHROW(Loan(server.pool)); }).join();
}

TEST_CASE("connection pool: a thread has one loan of a pool and may have one of another", "[fencing]") {
  Server server, other;
  Loan one(server.pool);
  CHECK_THROWS_AS(Loan(server.pool), InvalidInput);
  {
    Loan fine(other.pool);
    CHECK_THROWS_AS(Loan(server.pool), InvalidInput);
    CHECK_THROWS_AS(Loan(other.pool), InvalidInput);
  }
  CHECK_NOTHROW(Loan(other.pool));
}

TEST_CASE("connection pool: renews a pooled connection and not a new one", "[fencing]") {
  Server server;
  {
    Loan loan(server.pool);
    CHECK_FALSE(loan.renew());
    loan.mark_reusable();
  }
  {
    Loan loan(server.pool);
    CHECK(loan.renew());
    CHECK((*loan).number == 2);
    CHECK_FALSE(loan.renew());
    loan.mark_reusable();
  }
  CHECK(server.open == 1);
  server.refuses = true;
  {
    Loan loan(server.pool);
    CHECK_THROWS_AS(loan.renew(), Unavailable);
    loan.mark_reusable();
  }
  CHECK(server.open == 0);
  server.refuses = false;
  CHECK(server.number_of_next() == 3);
}

TEST_CASE("connection pool: many threads share few connections", "[fencing]") {
  std::atomic<int> done{0}, blocked{0};
  Server server;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 200; ++n) {
        try {
          Loan loan(server.pool);
          if ((n + i) % 7 != 0) loan.mark_reusable();
          ++done;
        } catch (const Blocked&) { ++blocked; }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(done + blocked == 1600);
  CHECK(server.open <= 2);
}
