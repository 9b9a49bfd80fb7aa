// Asks the database which gates a raise waits for (decision 0011; on PostgreSQL which seats, decision 0026), as long as sessions of this
// proxy hold any. A session then gives its gate back. While nobody holds one, it asks every five seconds. Any thread.
//
// If there is no answer in time, every gate is called wanted: a session then holds one hardly longer than that, as if it were not watched.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <termgate/detail/gate_feed.hpp>

namespace termgate::authority {

class GateWatch {
 public:
  struct Events {
    // A raise waits for the gate of this scope; `certain` false: nobody knows. Must neither block nor call a member.
    std::function<void(std::string_view scope, bool certain)> wanted;
    // Both say what an operator should read, once for each change. Must not block.
    std::function<void(const std::string&)> failed, recovered;
  };

  // `pause`: between two questions. `answer_max`: after so long without an answer nobody knows.
  GateWatch(std::unique_ptr<detail::GateFeed> feed, std::chrono::milliseconds pause, std::chrono::milliseconds answer_max, Events events);
  ~GateWatch();
  GateWatch(const GateWatch&) = delete;
  GateWatch& operator=(const GateWatch&) = delete;

  // A session holds the gate of this scope; or no longer. Must come in pairs.
  void held(std::string_view scope);
  void left(std::string_view scope);
  const detail::GateFeed& feed() const noexcept { return *feed_; }

 private:
  using Clock = std::chrono::steady_clock;

  void ask();
  void keep_time();
  std::vector<std::string> scopes() const;

  const std::unique_ptr<detail::GateFeed> feed_;
  const std::chrono::milliseconds pause_, answer_max_;
  const Events events_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, int, std::less<>> held_;
  Clock::time_point answered_{};  // the last good answer, or the time since when one is due
  bool stopping_ = false;

  std::thread asking_, time_;
};

}  // namespace termgate::authority
