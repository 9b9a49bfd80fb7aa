// Counters of a Database, which any thread adds to. Internal.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <termgate/error.hpp>
#include <termgate/stats.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

using Outcome = LeaseCall::Result;

class CallCounter {
 public:
  void note(Outcome outcome, std::chrono::nanoseconds took, std::int64_t times = 1) noexcept;
  // Counts only the outcome: the time was noted for the statement that returned it.
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
  std::function<void(const LeaseCall&)> log = {};  // set once, before the first call

  CallCounter& of(LeaseCall::Kind kind) noexcept {
    return kind == LeaseCall::Kind::acquire ? acquire
           : kind == LeaseCall::Kind::renew ? renew
                                            : release;
  }
  void tell(const LeaseCall& call) const noexcept {
    if (!log) return;
    try {
      log(call);
    } catch (...) {}
  }
};

// Runs a call about one lease, and counts and logs its outcome. `granted` derives from the result
// whether the lease was granted, and may fill in the term. What the call throws counts as a
// failure, or as a refusal if it reports a lost lease, and is rethrown.
template <class Call, class Granted>
auto counted(StatsCounter& stats, LeaseCall lease_call, Call call, Granted granted)
    -> decltype(call()) {
  const auto begun = std::chrono::steady_clock::now();
  const auto note = [&](LeaseCall::Result result, const char* error) {
    lease_call.result = result;
    lease_call.took = std::chrono::steady_clock::now() - begun;
    lease_call.error = error;
    stats.of(lease_call.kind).note(result, lease_call.took);
    stats.tell(lease_call);
  };
  try {
    auto result = call();
    note(granted(result, lease_call) ? LeaseCall::Result::granted : LeaseCall::Result::refused, "");
    return result;
  } catch (const LeaseLost& lost) {
    note(LeaseCall::Result::refused, lost.what());
    throw;
  } catch (const std::exception& error) {
    note(LeaseCall::Result::failed, error.what());
    throw;
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
