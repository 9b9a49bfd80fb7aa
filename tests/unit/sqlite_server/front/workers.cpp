// Lanes of threads: each has its own, so that what waits in one never keeps another's work from a
// thread.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "front/workers.hpp"

using namespace termgate::sqlite_front;
using namespace std::chrono_literals;

namespace {

Workers::Limits limits(std::size_t threads, std::size_t waiting) {
  Workers::Limits all;
  all.fill({threads, waiting});
  return all;
}

// Work that lasts until the gate is opened.
struct Gate {
  std::promise<void> opens;
  std::shared_future<void> opened = opens.get_future().share();
  std::function<void()> work(std::atomic<int>& running) const {
    return [opened = opened, &running] {
      ++running;
      opened.wait();
    };
  }
};

bool eventually(const std::function<bool()>& holds) {
  for (int look = 0; look < 500 && !holds(); ++look) std::this_thread::sleep_for(10ms);
  return holds();
}

}  // namespace

TEST_CASE("workers: a full lane says no and does nothing", "[sqlite_server]") {
  Workers workers(limits(2, 1));
  Gate gate;
  std::atomic<int> running{0};
  CHECK(workers.run(Lane::writers, gate.work(running)));
  CHECK(workers.run(Lane::writers, gate.work(running)));
  CHECK(workers.run(Lane::writers, gate.work(running)));
  CHECK_FALSE(workers.run(Lane::writers, gate.work(running)));
  REQUIRE(eventually([&] { return running == 2; }));
  gate.opens.set_value();
  CHECK(eventually([&] { return running == 3; }));
}

TEST_CASE("workers: a lane that waits for a transaction leaves threads for its end",
          "[sqlite_server]") {
  Workers workers(limits(8, 100));
  Gate gate;
  std::atomic<int> waiting{0}, ended{0};
  for (int one = 0; one < 108; ++one) REQUIRE(workers.run(Lane::writers, gate.work(waiting)));
  REQUIRE(eventually([&] { return waiting == 8; }));
  for (const Lane lane : {Lane::transactions, Lane::reads, Lane::cursors, Lane::admissions}) {
    REQUIRE(workers.run(lane, [&ended] { ++ended; }));
  }
  CHECK(eventually([&] { return ended == 4; }));
  CHECK(waiting == 8);
  gate.opens.set_value();
  CHECK(eventually([&] { return waiting == 108; }));
}

TEST_CASE("workers: stop drops what waits and says what still runs", "[sqlite_server]") {
  Workers workers(limits(1, 10));
  Gate gate;
  std::atomic<int> running{0};
  std::atomic<bool> dropped{true};
  REQUIRE(workers.run(Lane::reads, gate.work(running)));
  REQUIRE(workers.run(Lane::reads, [&dropped] { dropped = false; }));
  REQUIRE(eventually([&] { return running == 1; }));
  CHECK_FALSE(workers.stop(50ms));
  CHECK_FALSE(workers.run(Lane::transactions, [] {}));
  gate.opens.set_value();
  CHECK(workers.stop(5s));
  CHECK(dropped);
}
