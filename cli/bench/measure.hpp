// bench: how a scenario is measured. A Writer does one write after the other; run_slice lets a number of
// them run side by side for a while and counts. No database is known here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace termgate::cli::bench {

// How long each write took: counts in buckets less than 1 % wide, so that a long run needs no more memory
// than a short one. One thread at a time; add() puts another thread's counts in.
class Latencies {
 public:
  void count(std::chrono::nanoseconds time) noexcept;
  void add(const Latencies& other) noexcept;
  std::int64_t total() const noexcept { return total_; }
  // The time that `part` (0 … 1) of the writes did not exceed; 0 when there are none.
  std::chrono::nanoseconds percentile(double part) const noexcept;

 private:
  static constexpr int detail_bits = 7;
  static constexpr std::size_t buckets = static_cast<std::size_t>(64 - detail_bits + 1) << detail_bits;
  std::vector<std::uint32_t> counts_ = std::vector<std::uint32_t>(buckets);
  std::int64_t total_ = 0;
};

// One writer: a connection or a thread's share of one. Used by one thread.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void write() = 0;  // one operation, committed when it returns; throws termgate::Error
};

std::unique_ptr<Writer> writer_of(std::function<void()> write);

struct Slice {
  std::int64_t operations = 0;
  double seconds = 0;
  Latencies latencies;
  double per_second() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
};

// Runs the writers side by side, each on a thread of its own, for `time` and at most `operations_max` writes
// each (0: no limit). Each first makes `warm_up` writes that are not counted: they connect and prepare.
// `stopped` is called between writes. The first error of a writer stops all and is thrown.
Slice run_slice(std::vector<std::unique_ptr<Writer>>& writers, std::chrono::nanoseconds time, std::int64_t operations_max, int warm_up,
                const std::function<bool()>& stopped);

double median(std::vector<double> values);  // 0 of none

}  // namespace termgate::cli::bench
