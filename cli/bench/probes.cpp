// bench: questions that writes per second do not answer. takeover: how long does a writer that is
// frozen in its transaction delay a new leader (F4)? growth: does an append cost more when its
// stream is long, or when there are many scopes? lease: how long do a lease's calls take?
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include <termgate/info.hpp>

#include "bench/target.hpp"
#include "output.hpp"

namespace termgate::cli::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Writes that one probe times; few, so that the stream hardly grows meanwhile.
constexpr int probe_writes = 500;
constexpr std::size_t fill_batch = 1000;

double ms_of(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

struct Level {
  std::int64_t size;
  std::vector<double> append_us, unfenced_us, relative;  // the p50 of each round
};

// Measures, alternately, the p50 of appends to randomly chosen streams of `load` and of unfenced
// writes.
void probe(const Bench& bench, const Load& load, Level& level) {
  const int rounds = std::max(bench.rounds, 5);
  for (int round = 0; round < rounds && !interrupted(); ++round) {
    double p50[2] = {};
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (turn + round) % 2;
      const char* scenario = which == 0 ? "unfenced" : "append";
      bench.target.prepare(scenario, load);
      std::vector<std::unique_ptr<Writer>> writers;
      writers.push_back(
          bench.target.writer(scenario, load, 0, bench.seed + static_cast<std::uint64_t>(round)));
      const Slice slice = run_slice(writers, std::chrono::seconds(60),
                                    bench.quick ? probe_writes / 5 : probe_writes, 8, interrupted);
      p50[which] = static_cast<double>(slice.latencies.percentile(0.5).count()) / 1000;
    }
    if (interrupted() || p50[0] <= 0) return;
    level.unfenced_us.push_back(p50[0]);
    level.append_us.push_back(p50[1]);
    level.relative.push_back(p50[1] / p50[0]);
  }
}

boost::json::array report(const Bench& bench, const std::string& title,
                          const std::vector<Level>& levels) {
  boost::json::array list;
  std::vector<std::vector<std::string>> table;
  for (const Level& level : levels) {
    if (level.append_us.empty()) continue;
    const double append = median(level.append_us), relative = median(level.relative);
    const double first = median(levels.front().append_us),
                 first_relative = median(levels.front().relative);
    table.push_back({std::to_string(level.size), fmt::format("{:.1f} us", append),
                     fmt::format("{:.1f} us", median(level.unfenced_us)),
                     fmt::format("{:.2f}", append / first),
                     fmt::format("{:.2f}", relative / first_relative)});
    list.push_back({{"size", level.size},
                    {"append_p50_us", append},
                    {"unfenced_p50_us", median(level.unfenced_us)},
                    {"to_first", append / first},
                    {"to_first_beside_unfenced", relative / first_relative}});
  }
  if (!bench.json)
    print_table({title, "APPEND P50", "UNFENCED P50", "TO THE FIRST", "BESIDE UNFENCED"}, table);
  return list;
}

boost::json::array grow_stream(const Bench& bench, std::int64_t writes_max) {
  Load load{false, 1, 1, 1, bench.payload_bytes, "bench-" + bench.suffix + "-long"};
  const Stream stream(load.stream(0));
  AppendOptions options;
  options.scope = Scope(load.scope(0));
  const std::string payload(bench.payload_bytes, 'x');
  std::vector<Level> levels;
  Progress progress(!bench.json);
  std::int64_t last = 0;
  for (std::int64_t size = 1000; size <= writes_max && !interrupted(); size *= 10) {
    while (last < size && !interrupted()) {
      const std::vector<std::string> batch(
          std::min<std::size_t>(fill_batch, static_cast<std::size_t>(size - last)), payload);
      last = bench.database.append_many(stream, Term(1), batch, options).value();
      progress.show(fmt::format("a stream of {} writes: {}", size, last));
    }
    Level level{size, {}, {}, {}};
    probe(bench, load, level);
    levels.push_back(std::move(level));
    if (const auto info = Info(bench.database).stream(stream)) last = info->last_no;
  }
  progress.show("");
  return report(bench, "WRITES IN THE STREAM", levels);
}

boost::json::array grow_scopes(const Bench& bench, int scopes_max) {
  Load load{false, 1, 1, 1, bench.payload_bytes, "bench-" + bench.suffix + "-wide"};
  std::vector<Level> levels;
  Progress progress(!bench.json);
  int there = 0;
  std::vector<int> sizes{1};
  for (int size = 100; size <= scopes_max; size *= 10) sizes.push_back(size);
  if (sizes.back() != scopes_max) sizes.push_back(scopes_max);
  for (const int size : sizes) {
    std::atomic<int> next{there};
    std::exception_ptr failure;
    std::mutex mutex;  // guards failure
    {
      // Each first append raises a fence and is flushed; many threads share the flushes.
      std::vector<std::jthread> threads;
      for (int i = 0; i < 32; ++i) {
        threads.emplace_back([&] {
          try {
            for (int at = next++; at < size && !interrupted(); at = next++) {
              AppendOptions options;
              options.scope = Scope(load.scope(at));
              bench.database.append(Stream(load.stream(at)), Term(1), "first", options);
            }
          } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            next = size;
          }
        });
      }
      while (next < size && !interrupted()) {
        progress.show(fmt::format("{} scopes: {}", size, next.load()));
        std::this_thread::sleep_for(milliseconds(20));
      }
    }
    if (failure) std::rethrow_exception(failure);
    if (interrupted()) break;
    there = size;
    load.scopes = size;
    Level level{size, {}, {}, {}};
    probe(bench, load, level);
    levels.push_back(std::move(level));
  }
  progress.show("");
  return report(bench, "SCOPES", levels);
}

}  // namespace

boost::json::value measure_takeovers(const Bench& bench, const TakeoverOptions& options) {
  const Scope scope("bench-" + bench.suffix + "-takeover");
  bench.database.seal(scope, Term(1));
  std::vector<double> times_ms;
  int evicted = 0;
  Progress progress(!bench.json);
  for (int number = 1; number <= options.takeovers && !interrupted(); ++number) {
    const auto frozen = bench.target.frozen_writer(scope, Term(number));
    if (!frozen) {
      if (!bench.json)
        print_line(
            "takeover: on this database a frozen transaction is a file lock of another process, "
            "which cannot be evicted");
      return nullptr;
    }
    const auto before = Clock::now();
    const SealReceipt receipt = bench.database.seal(scope, Term(number + 1), options.grace);
    times_ms.push_back(ms_of(Clock::now() - before));
    evicted += receipt.evicted;
    progress.show(fmt::format("takeover {} of {}", number, options.takeovers));
  }
  progress.show("");
  if (times_ms.empty()) return nullptr;
  std::sort(times_ms.begin(), times_ms.end());
  // Nearest rank: the p99 of 100 is the 99th.
  auto part = [&](double wanted) {
    return times_ms[static_cast<std::size_t>(
                        std::ceil(wanted * static_cast<double>(times_ms.size()))) -
                    1];
  };
  const double grace = static_cast<double>(options.grace.count());
  if (!bench.json) {
    print_table({"TAKEOVERS", "EVICTED", "GRACE", "P50", "P99", "MAX", "P99 BEYOND THE GRACE"},
                {{std::to_string(times_ms.size()), std::to_string(evicted),
                  length(options.grace.count()), fmt::format("{:.1f} ms", part(0.5)),
                  fmt::format("{:.1f} ms", part(0.99)), fmt::format("{:.1f} ms", times_ms.back()),
                  fmt::format("{:.1f} ms", part(0.99) - grace)}});
  }
  return {{"takeovers", times_ms.size()}, {"evicted", evicted},   {"grace_ms", grace},
          {"p50_ms", part(0.5)},          {"p99_ms", part(0.99)}, {"max_ms", times_ms.back()}};
}

boost::json::value measure_growth(const Bench& bench, const GrowthOptions& options) {
  boost::json::object document;
  document["stream"] = grow_stream(bench, options.writes);
  if (!bench.json) print_line("");
  document["scopes"] = grow_scopes(bench, options.scopes);
  return document;
}

// Each holder acquires, renews thirty times and releases, again and again, while other holders do
// the same. A lease survives if one renewal within its TTL succeeds, so the suggested TTL is a
// multiple of the slowest renewal.
boost::json::value measure_leases(const Bench& bench, const LeaseOptionsOfBench& options) {
  constexpr int renewals = 30, ttl_factor = 10;
  constexpr const char* names[] = {"acquire", "renew", "release"};
  std::array<Latencies, 3> all;
  std::array<std::chrono::nanoseconds, 3> slowest{};
  std::mutex mutex;  // guards the two above and failure
  std::exception_ptr failure;
  {
    const auto end = Clock::now() + options.time;
    std::vector<std::jthread> threads;
    for (int index = 0; index < options.holders; ++index) {
      threads.emplace_back([&, index] {
        std::array<Latencies, 3> mine;
        std::array<std::chrono::nanoseconds, 3> worst{};
        const auto timed = [&](std::size_t which, auto call) {
          const auto begun = Clock::now();
          call();
          const std::chrono::nanoseconds took = Clock::now() - begun;
          mine[which].count(took);
          worst[which] = std::max(worst[which], took);
        };
        try {
          const Scope scope(fmt::format("bench-{}-lease-{}", bench.suffix, index));
          while (Clock::now() < end && !interrupted()) {
            std::optional<Lease> lease;
            timed(0, [&] {
              lease =
                  bench.database.try_acquire_lease(scope, milliseconds(60'000), {.owner = "bench"});
            });
            if (!lease) throw Error("another has taken the bench's lease");
            for (int i = 0; i < renewals && Clock::now() < end; ++i)
              timed(1, [&] { bench.database.renew_lease(*lease); });
            timed(2, [&] { bench.database.release_lease(*lease); });
          }
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
        const std::lock_guard lock(mutex);
        for (std::size_t which = 0; which < all.size(); ++which) {
          all[which].add(mine[which]);
          slowest[which] = std::max(slowest[which], worst[which]);
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
  boost::json::object document{{"holders", options.holders}};
  std::vector<std::vector<std::string>> table;
  for (std::size_t which = 0; which < all.size(); ++which) {
    const double p50 = ms_of(all[which].percentile(0.5)), p99 = ms_of(all[which].percentile(0.99)),
                 most = ms_of(slowest[which]);
    document[names[which]] = {
        {"calls", all[which].total()}, {"p50_ms", p50}, {"p99_ms", p99}, {"max_ms", most}};
    table.push_back({names[which], std::to_string(all[which].total()),
                     fmt::format("{:.2f} ms", p50), fmt::format("{:.2f} ms", p99),
                     fmt::format("{:.2f} ms", most)});
  }
  const auto ttl = std::max<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(ttl_factor * ms_of(slowest[1]))), 100);
  document["ttl_ms_at_least"] = ttl;
  if (!bench.json) {
    print_table({"LEASE", "CALLS", "P50", "P99", "SLOWEST"}, table);
    print_line(
        fmt::format("A TTL of {} ms or more is {} times the slowest renewal seen here; a pause of "
                    "the holder takes more.",
                    ttl, ttl_factor));
  }
  return document;
}

}  // namespace termgate::cli::bench
