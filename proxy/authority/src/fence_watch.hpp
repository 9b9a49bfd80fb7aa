// Watches the fences of the database of --backend on a thread of its own: by notifications, if the
// database has them, and by reading. Knows what prevents that. Any thread may call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <termgate/database.hpp>
#include <termgate/detail/fence_feed.hpp>
#include <termgate/conversation/authority.hpp>

#include "fence_book.hpp"
#include "fence_reader.hpp"

namespace termgate::authority {

// The obstacle that an error of a watch means for an operator.
conversation::Obstacle obstacle_of(const std::exception& error);

class FenceWatch {
 public:
  struct Events {
    // Called once, when the feed has first connected: with the database's name, and the owner of
    // layer 1 there. Not called without a feed.
    std::function<void(const std::string& database, const std::string& owner)> known;
    // Called with a message for the operator, once for each change. Must not block.
    std::function<void(const std::string&)> failed, recovered;
  };

  // Watches for `book`. Without `feed` there are no notifications. `pause`: as in FenceReader.
  // `book` and what the events use must outlive the watch.
  FenceWatch(FenceBook& book, Database database, std::unique_ptr<detail::FenceFeed> feed,
             std::string schema, std::chrono::milliseconds pause, Events events);
  ~FenceWatch();
  FenceWatch(const FenceWatch&) = delete;
  FenceWatch& operator=(const FenceWatch&) = delete;

  // Wakes the thread, because there may be something to read.
  void wake();
  // Also `none` before the first attempt has ended.
  conversation::Obstacle obstacle() const noexcept { return obstacle_; }
  std::int64_t failures() const noexcept { return failures_; }
  // The host and port of the last connection.
  conversation::ServedBy served_by() const {
    const std::lock_guard lock(mutex_);
    return served_by_;
  }

 private:
  void run();
  void sleep(std::chrono::milliseconds time);

  FenceBook& book_;
  Database database_;
  const std::unique_ptr<detail::FenceFeed> feed_;
  const std::string schema_;
  const std::chrono::milliseconds pause_;
  const Events events_;
  FenceReader reader_;
  std::atomic<conversation::Obstacle> obstacle_{conversation::Obstacle::none};
  std::atomic<std::int64_t> failures_{0};

  mutable std::mutex mutex_;  // guards stopping_, woken_, served_by_
  conversation::ServedBy served_by_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool woken_ = false;
  std::thread thread_;
};

}  // namespace termgate::authority
