// How bench counts: what its percentiles and slices say is true of writes whose times are known.
#include <catch2/catch.hpp>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "bench/measure.hpp"

using namespace termgate::cli::bench;
using std::chrono::nanoseconds;

namespace {

bool never() { return false; }

}  // namespace

TEST_CASE("latencies: a percentile is within one percent of the true one at every size",
          "[bench]") {
  for (const std::int64_t unit : {std::int64_t{1}, std::int64_t{100}, std::int64_t{12'345},
                                  std::int64_t{1'000'000}, std::int64_t{3'600'000'000'000}}) {
    CAPTURE(unit);
    Latencies latencies;
    for (std::int64_t i = 1; i <= 1000; ++i) latencies.count(nanoseconds(i * unit));
    CHECK(latencies.total() == 1000);
    for (const double part : {0.01, 0.5, 0.99, 1.0}) {
      CAPTURE(part);
      const double wanted = part * 1000 * static_cast<double>(unit);
      CHECK(static_cast<double>(latencies.percentile(part).count()) ==
            Approx(wanted).epsilon(0.01).margin(1));
    }
  }
}

TEST_CASE("latencies: none at all have no percentile and odd ones do no harm", "[bench]") {
  Latencies latencies;
  CHECK(latencies.percentile(0.5).count() == 0);
  latencies.count(nanoseconds(-5));
  latencies.count(nanoseconds::max());
  CHECK(latencies.percentile(0.25).count() == 0);
  CHECK(static_cast<double>(latencies.percentile(1).count()) ==
        Approx(static_cast<double>(nanoseconds::max().count())).epsilon(0.01));
  Latencies both;
  both.add(latencies);
  both.add(latencies);
  CHECK(both.total() == 4);
}

TEST_CASE("run_slice: counts what is written after the warm-up and no more than the limit",
          "[bench]") {
  std::atomic<int> written{0};
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < 4; ++i) writers.push_back(writer_of([&] { ++written; }));
  const Slice slice = run_slice(writers, std::chrono::seconds(60), 25, 3, never);
  CHECK(slice.operations == 100);
  CHECK(written == 112);
  CHECK(slice.latencies.total() == 100);
  CHECK(slice.per_second() > 0);
}

TEST_CASE("run_slice: a writer's error ends all writers and comes out", "[bench]") {
  for (const int writes : {0, 9}) {  // 0: while warming up
    CAPTURE(writes);
    std::vector<std::unique_ptr<Writer>> writers;
    writers.push_back(writer_of([left = writes]() mutable {
      if (left-- == 0) throw std::runtime_error("refused");
    }));
    writers.push_back(writer_of([] { std::this_thread::yield(); }));
    CHECK_THROWS_WITH(run_slice(writers, std::chrono::seconds(60), 0, 1, never), "refused");
  }
}

TEST_CASE("run_slice: ends when it is told to stop", "[bench]") {
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Writer>> writers;
  writers.push_back(writer_of([&, count = 0]() mutable {
    if (++count == 50) stop = true;
  }));
  const Slice slice =
      run_slice(writers, std::chrono::seconds(60), 0, 0, [&] { return stop.load(); });
  CHECK(slice.operations == 50);
}

TEST_CASE("median: is the middle one or between the two in the middle", "[bench]") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == Approx(2.5));
}
