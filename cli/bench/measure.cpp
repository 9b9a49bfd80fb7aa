// Runs writers for a time and counts what they did. Buckets get wider as times grow, so a
// percentile has a fixed relative precision without storing every time.
#include "bench/measure.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <exception>
#include <mutex>
#include <thread>

namespace termgate::cli::bench {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Writer> writer_of(std::function<void()> write) {
  class FunctionWriter final : public Writer {
   public:
    explicit FunctionWriter(std::function<void()> function) : function_(std::move(function)) {}
    void write() override { function_(); }

   private:
    std::function<void()> function_;
  };
  return std::make_unique<FunctionWriter>(std::move(write));
}

// Below 2^detail_bits ns a bucket is 1 ns wide; above, each power of two has 2^detail_bits buckets.
void Latencies::count(std::chrono::nanoseconds time) noexcept {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - detail_bits - 1);
  ++counts_[(static_cast<std::size_t>(shift) << detail_bits) +
            static_cast<std::size_t>(value >> shift)];
  ++total_;
}

void Latencies::add(const Latencies& other) noexcept {
  for (std::size_t at = 0; at < buckets; ++at) counts_[at] += other.counts_[at];
  total_ += other.total_;
}

std::chrono::nanoseconds Latencies::percentile(double part) const noexcept {
  const auto wanted = static_cast<std::int64_t>(part * static_cast<double>(total_) + 0.5);
  std::int64_t seen = 0;
  for (std::size_t at = 0; at < buckets; ++at) {
    seen += counts_[at];
    if (seen == 0 || seen < wanted) continue;
    // The inverse of count(): the index's high part is the shift plus one, except in the first
    // range, where both are 0.
    const std::size_t high = at >> detail_bits;
    const std::size_t shift = high == 0 ? 0 : high - 1;
    const std::uint64_t low = static_cast<std::uint64_t>(at - (shift << detail_bits)) << shift;
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(low + (std::uint64_t{1} << shift) / 2));
  }
  return std::chrono::nanoseconds(0);
}

Slice run_slice(std::vector<std::unique_ptr<Writer>>& writers, std::chrono::nanoseconds time,
                std::int64_t operations_max, int warm_up, const std::function<bool()>& stopped) {
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  std::mutex failure_mutex;  // guards failure
  Clock::time_point start;
  std::barrier ready(static_cast<std::ptrdiff_t>(writers.size()),
                     [&]() noexcept { start = Clock::now(); });
  struct Share {
    Latencies latencies;
    Clock::time_point end;
  };
  std::vector<Share> shares(writers.size());
  auto attempt = [&](const auto& what) {
    try {
      what();
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(writers.size());
    for (std::size_t index = 0; index < writers.size(); ++index) {
      threads.emplace_back([&, index] {
        Writer& writer = *writers[index];
        Share& share = shares[index];
        attempt([&] {
          for (int i = 0; i < warm_up && !failed && !stopped(); ++i) writer.write();
        });
        ready.arrive_and_wait();
        attempt([&] {
          Clock::time_point before = Clock::now();
          while (!failed && before - start < time &&
                 (operations_max == 0 || share.latencies.total() < operations_max) && !stopped()) {
            writer.write();
            const Clock::time_point after = Clock::now();
            share.latencies.count(after - before);
            before = after;
          }
        });
        share.end = Clock::now();
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
  Slice slice;
  Clock::time_point end = start;
  for (const Share& share : shares) {
    slice.latencies.add(share.latencies);
    end = std::max(end, share.end);
  }
  slice.operations = slice.latencies.total();
  slice.seconds = std::chrono::duration<double>(end - start).count();
  return slice;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace termgate::cli::bench
