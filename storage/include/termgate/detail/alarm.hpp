// Alarm: waits for a moment of BootClock, or for a call of wake(). A condition variable uses a
// clock that stops while the machine is suspended; this one rings as soon as the machine runs
// again. Internal. wait() on one thread; wake() on any.
#pragma once

#include <optional>

#include <termgate/boot_clock.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

class Alarm {
 public:
  Alarm();  // throws std::system_error if no descriptor is left
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Returns at `at` (none: never), or when wake() is called or has been called since the last wait.
  void wait(std::optional<BootClock::time_point> at) noexcept;
  void wake() noexcept;

 private:
  int timer_ = -1;
  int event_ = -1;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
