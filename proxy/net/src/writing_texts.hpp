// Texts of all sessions that looked like reads and failed because of READ ONLY, so that each is
// refused once, and not once in every connection of a pool. Stored as a hash of database and text.
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace termgate::net {

class WritingTexts {
 public:
  static constexpr std::size_t most = 4096;  // above this number, the oldest is forgotten

  bool contains(std::string_view database, std::size_t text) const {
    if (!any_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    return known_.contains(key(database, text));
  }

  void add(std::string_view database, std::size_t text) {
    const std::lock_guard lock(mutex_);
    if (!known_.insert(key(database, text)).second) return;
    order_.push_back(key(database, text));
    if (order_.size() > most) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    any_.store(true, std::memory_order_relaxed);
  }

 private:
  static std::size_t key(std::string_view database, std::size_t text) {
    return std::hash<std::string_view>()(database) * 1099511628211u ^ text;
  }

  mutable std::mutex mutex_;  // guards known_, order_
  std::unordered_set<std::size_t> known_;
  std::deque<std::size_t> order_;
  std::atomic<bool> any_{false};
};

}  // namespace termgate::net
