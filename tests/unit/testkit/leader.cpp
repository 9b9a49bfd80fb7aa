// The pausable leader by itself: points, visits, ends and errors. What it does with a database
// stands in tests/package/stale_leader_test.cpp.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <termgate/testkit/leader.hpp>

using namespace termgate::testkit;
using namespace std::chrono_literals;
using Catch::Contains;

TEST_CASE("leader: stays at the points that were asked for and at no other", "[testkit]") {
  std::atomic<int> done{0};
  Leader leader([&](Points& at) {
    for (int round = 0; round < 3; ++round) {
      at("before");
      ++done;
      at("after");
    }
  });
  leader.pause_at("after");
  leader.pause_at("before", 3);
  CHECK(leader.visited().empty());
  leader.run_until_paused("after");
  CHECK(done == 1);
  CHECK(leader.paused());
  leader.resume();
  leader.run_until_paused("before");
  CHECK(done == 2);
  CHECK(leader.visited() ==
        std::vector<std::string>{"before", "after", "before", "after", "before"});
  leader.resume();
  leader.finish();
  CHECK(done == 3);
  CHECK_FALSE(leader.paused());
}

TEST_CASE("leader: what its body throws comes out where the test waits for it", "[testkit]") {
  Leader leader([](Points& at) {
    at("first");
    throw std::runtime_error("the body's own");
  });
  SECTION("at the end") { CHECK_THROWS_WITH(leader.finish(), "the body's own"); }
  SECTION("on the way to a point") {
    CHECK_THROWS_WITH(leader.run_until_paused("second"), "the body's own");
  }
  SECTION("again, each time") {
    CHECK_THROWS_WITH(leader.finish(), "the body's own");
    CHECK_THROWS_WITH(leader.finish(), "the body's own");
  }
}

TEST_CASE("leader: what does not come about is told with where it is instead", "[testkit]") {
  std::atomic<bool> goes_on{false};
  Leader leader([&](Points& at) {
    at("first");
    while (!goes_on) std::this_thread::sleep_for(1ms);
    at("last");
  });
  CHECK_THROWS_WITH(leader.resume(), Contains("it has not started"));
  SECTION("elsewhere") {
    leader.pause_at("first");
    CHECK_THROWS_WITH(leader.run_until_paused("last"),
                      Contains("not at \"last\": it stays at \"first\""));
    CHECK_THROWS_AS(leader.finish(), NotReached);
    leader.resume();
  }
  SECTION("not in time") {
    CHECK_THROWS_WITH(leader.finish(50ms), Contains("it is running, after \"first\""));
    CHECK_THROWS_WITH(leader.resume(), Contains("not paused"));
  }
  goes_on = true;
  leader.finish();
  CHECK_THROWS_WITH(leader.run_until_paused("last"), Contains("it has ended"));
  CHECK_THROWS_AS(leader.pause_at("first"), NotReached);
  CHECK_THROWS_AS(leader.pause_at("new", 0), std::invalid_argument);
}

TEST_CASE("leader: one that is forgotten while it is paused is unwound", "[testkit]") {
  struct Guard {
    std::atomic<bool>& unwound;
    ~Guard() { unwound = true; }
  };
  std::atomic<bool> unwound{false}, went_on{false};
  {
    Leader leader([&](Points& at) {
      const Guard guard{unwound};
      at("here");
      went_on = true;
    });
    leader.pause_at("here");
    leader.run_until_paused("here");
  }
  CHECK(unwound);
  CHECK_FALSE(went_on);
}
