#include <termgate/lease_watch.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "database_state.hpp"

namespace termgate {
inline namespace v0 {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

LeaseWatch::LeaseWatch(Database database, Scope scope, Changed changed, milliseconds poll)
    : database_(std::move(database)),
      scope_(std::move(scope)),
      changed_(std::move(changed)),
      poll_(poll) {
  if (!changed_) throw InvalidInput("TG005 a LeaseWatch needs a callback");
  if (poll_ < 10ms || poll_ > 24h)
    throw InvalidInput(
        fmt::format("TG005 the poll of a LeaseWatch is {} ms: 10 ms to 1 day", poll_.count()));
  hints_ = detail::state_of(database_).watch_lease(scope_, [this] {
    const std::lock_guard lock(mutex_);
    hinted_ = true;
    woken_.notify_all();
  });
  thread_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
}

LeaseWatch::~LeaseWatch() {
  thread_.request_stop();
  thread_.join();
  hints_.reset();
}

void LeaseWatch::look(const std::stop_token& stop) {
  std::optional<LeaseInfo> last;
  bool first = true;
  while (!stop.stop_requested()) {
    milliseconds pause = poll_;
    try {
      std::optional<LeaseInfo> leader = Info(database_).lease(scope_);
      if (leader && (leader->released_at_ms || leader->remaining_ms <= 0)) leader.reset();
      // A lease that is not renewed ends at a known moment.
      pause = std::min(poll_, leader ? milliseconds(leader->remaining_ms + 1) : milliseconds(100));
      const bool same = last.has_value() == leader.has_value() &&
                        (!leader || (last->owner == leader->owner && last->term == leader->term));
      last = std::move(leader);
      if (first || !same) changed_(last);
      first = false;
    } catch (const Error&) {
      // The last answer is still the best one known.
    }
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, stop, pause, [&] { return hinted_; });
    hinted_ = false;
  }
}

}  // namespace v0
}  // namespace termgate
