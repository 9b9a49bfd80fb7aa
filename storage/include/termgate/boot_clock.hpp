// BootClock: a monotonic clock that goes on while the machine is suspended (CLOCK_BOOTTIME). What has to end by a certain time is measured
// by it: std::chrono::steady_clock stands still in a suspended machine, whose leases run out all the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

namespace termgate::inline v0 {

struct BootClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<BootClock, duration>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;  // any thread; safe in a signal handler
};

}  // namespace termgate::inline v0
