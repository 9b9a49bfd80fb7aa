// BootClock, and the alarm that rings by it.
#include <termgate/boot_clock.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <termgate/detail/alarm.hpp>

namespace termgate {
inline namespace v0 {

BootClock::time_point BootClock::now() noexcept {
  timespec moment{};
  clock_gettime(CLOCK_BOOTTIME, &moment);
  return time_point(std::chrono::seconds(moment.tv_sec) + duration(moment.tv_nsec));
}

namespace detail {

Alarm::Alarm() {
  timer_ = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_ < 0) throw std::system_error(errno, std::system_category(), "a timer");
  event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_ < 0) {
    const int failure = errno;
    close(timer_);
    throw std::system_error(failure, std::system_category(), "an event descriptor");
  }
}

Alarm::~Alarm() {
  close(timer_);
  close(event_);
}

void Alarm::wait(std::optional<BootClock::time_point> at) noexcept {
  itimerspec when{};
  if (at) {
    // Zero would disarm the timer; a moment in the past rings at once.
    const auto since_boot = std::max(at->time_since_epoch(), BootClock::duration(1));
    when.it_value.tv_sec = since_boot.count() / 1'000'000'000;
    when.it_value.tv_nsec = since_boot.count() % 1'000'000'000;
  }
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
  pollfd watched[] = {{timer_, POLLIN, 0}, {event_, POLLIN, 0}};
  while (poll(watched, 2, -1) < 0 && errno == EINTR) {}
  std::uint64_t count = 0;
  while (read(event_, &count, sizeof count) < 0 && errno == EINTR) {}
}

void Alarm::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only if the alarm is already ringing.
  while (write(event_, &one, sizeof one) < 0 && errno == EINTR) {}
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
