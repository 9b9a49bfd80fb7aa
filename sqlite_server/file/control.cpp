#include "file/control.hpp"

#include <utility>

namespace termgate::sqlite_file {

// From here to ends() other threads may interrupt `db`, so it must stay open.
void Control::begins(sqlite3* db, bool shared) {
  const std::lock_guard lock(mutex_);
  running_ = db;
  shared_ = shared;
  cancelled_ = false;
  stop_requested_ = {};
}

void Control::ends() noexcept {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
}

void Control::waits(bool on) noexcept {
  const std::lock_guard lock(mutex_);
  waits_ = on;
  if (on) cancelled_ = false;
}

bool Control::timed_out() const noexcept {
  const auto deadline = deadline_.load();
  return deadline != Clock::time_point::max() && Clock::now() >= deadline;
}

bool Control::must_stop() noexcept {
  if (evicted_) return true;
  if (!cancelled_ && !timed_out()) return false;
  if (!shared_) return true;
  // An interrupt would also undo what others wrote into the same commit; their error says that they
  // should send it again.
  constexpr std::chrono::milliseconds moment{250};
  const auto now = Clock::now();
  if (stop_requested_ == Clock::time_point{}) stop_requested_ = now;
  return now - stop_requested_ >= moment;
}

// A cancellation while nothing runs is dropped: it would hit the next statement.
void Control::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  if (running_ == nullptr && !waits_) return;
  cancelled_ = true;
  if (running_ != nullptr && !shared_) sqlite3_interrupt(running_);
}

void Control::evict(Eviction why) {
  const std::lock_guard lock(mutex_);
  if (evicted_) return;
  why_ = std::move(why);
  evicted_ = true;
  // A higher term has priority over streams that share the commit with a stale one; their error
  // says that they should send it again.
  if (running_ != nullptr) sqlite3_interrupt(running_);
  if (idle_since_.load() != Clock::time_point{} && on_evicted_) on_evicted_(*why_);
}

// The stream may have been evicted after its session last checked and before it became silent. Then
// this call or evict() reports it; both doing so is harmless.
void Control::silent() {
  idle_since_ = Clock::now();
  if (!evicted_) return;
  const std::lock_guard lock(mutex_);
  if (why_ && on_evicted_) on_evicted_(*why_);
}

std::optional<Eviction> Control::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void Control::forget_eviction() noexcept {
  const std::lock_guard lock(mutex_);
  why_.reset();
  evicted_ = false;
}

}  // namespace termgate::sqlite_file
