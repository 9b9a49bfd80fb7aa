// Which users the server's guard checks in which database, as the newest login of each has shown.
// For a login that is not remembered, the proxy checks the writes itself, so forgetting one is
// safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_set>

namespace termgate::net {

// Any thread.
class GuardedLogins {
 public:
  static constexpr std::size_t names_max = 10'000;

  bool contains(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return names_.count(name) != 0;
  }
  void set(const std::string& name, bool guarded) {
    const std::lock_guard lock(mutex_);
    if (!guarded) {
      names_.erase(name);
    } else if (names_.size() < names_max || names_.count(name) != 0) {
      names_.insert(name);
    }
  }

 private:
  mutable std::mutex mutex_;  // guards names_
  std::unordered_set<std::string> names_;
};

}  // namespace termgate::net
