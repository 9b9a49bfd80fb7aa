// BootClock: a monotonic clock that keeps running while the machine is suspended (CLOCK_BOOTTIME).
// Leases are measured by it: std::chrono::steady_clock stops while a machine is suspended, but the
// machine's leases still end.
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

namespace termgate {
inline namespace v0 {

struct BootClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<BootClock, duration>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;  // any thread; safe in a signal handler
};

}  // namespace v0
}  // namespace termgate
