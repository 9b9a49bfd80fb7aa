// What a Database counts: numbers that any thread adds to. Internal.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <termgate/error.hpp>
#include <termgate/stats.hpp>

namespace termgate::inline v0::detail {

enum class Outcome { granted, refused, failed };

class CallCounter {
 public:
  void note(Outcome outcome, std::chrono::nanoseconds took, std::int64_t times = 1) noexcept;
  // Answers alone: the time was noted with the statement that brought them.
  void note(Outcome outcome) noexcept { add(outcome, 1); }
  CallStats read() const noexcept;

 private:
  void add(Outcome outcome, std::int64_t times) noexcept;
  std::atomic<std::int64_t> outcomes_[3]{};
  std::atomic<std::int64_t> took_{0};
  std::array<std::atomic<std::int64_t>, CallStats::bounds_seconds.size() + 1> buckets_{};
};

class ContentionCounter {
 public:
  void note(const std::string& scope, std::int64_t refused, std::chrono::nanoseconds waited);
  std::vector<ScopeContention> read() const;

 private:
  static constexpr std::size_t scopes_max = 100;
  mutable std::mutex mutex_;  // guards scopes_
  std::map<std::string, ScopeContention> scopes_;
};

struct StatsCounter {
  ContentionCounter contention;
  CallCounter acquire, renew, release;
  std::atomic<std::int64_t> waits{0}, waited_ns{0}, held{0}, lost{0}, expired{0}, stale_writes{0};
};

// Runs a call and notes how it ended: `granted` tells whether its result is one; what it throws is a failure, or a refusal where it says
// that a lease is lost, and goes on its way.
template <class Call, class Granted>
auto counted(CallCounter& counter, Call call, Granted granted) -> decltype(call()) {
  const auto begun = std::chrono::steady_clock::now();
  const auto note = [&](Outcome outcome) { counter.note(outcome, std::chrono::steady_clock::now() - begun); };
  try {
    auto result = call();
    note(granted(result) ? Outcome::granted : Outcome::refused);
    return result;
  } catch (const LeaseLost&) {
    note(Outcome::refused);
    throw;
  } catch (...) {
    note(Outcome::failed);
    throw;
  }
}

}  // namespace termgate::inline v0::detail
