// bench: how a scenario is measured. A Writer does one write after the other; run_slice() runs
// several of them concurrently for a while and counts. Nothing here knows about databases.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace termgate::cli::bench {

// The latencies of writes. They are counted in buckets less than 1 % wide (or 1 ns), so that a long
// run needs no more memory than a short one. One thread at a time; add() merges the counts of
// another thread.
class Latencies {
 public:
  void count(std::chrono::nanoseconds time) noexcept;
  void add(const Latencies& other) noexcept;
  std::int64_t total() const noexcept { return total_; }
  // The time that a fraction `part` (0 … 1) of the writes did not exceed; 0 if there are none.
  std::chrono::nanoseconds percentile(double part) const noexcept;

 private:
  static constexpr int detail_bits = 7;
  static constexpr std::size_t buckets = static_cast<std::size_t>(64 - detail_bits + 1)
                                         << detail_bits;
  std::vector<std::uint32_t> counts_ = std::vector<std::uint32_t>(buckets);
  std::int64_t total_ = 0;
};

// One writer: a connection, or one thread's share of a connection. Used by one thread.
class Writer {
 public:
  virtual ~Writer() = default;
  // Does one operation, which is committed when this returns. Throws termgate::Error.
  virtual void write() = 0;
};

std::unique_ptr<Writer> writer_of(std::function<void()> write);

struct Slice {
  std::int64_t operations = 0;
  double seconds = 0;
  Latencies latencies;
  double per_second() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
};

// Runs the writers concurrently, each on its own thread, for `time` and at most `operations_max`
// writes each (0: no limit). Each first makes `warm_up` writes that are not counted, so that
// connections and prepared statements exist. Every writer's thread calls `stopped` before each
// write and ends when it returns true. The first error of a writer stops all and is thrown.
Slice run_slice(std::vector<std::unique_ptr<Writer>>& writers, std::chrono::nanoseconds time,
                std::int64_t operations_max, int warm_up, const std::function<bool()>& stopped);

double median(std::vector<double> values);  // 0 if there are none

}  // namespace termgate::cli::bench
