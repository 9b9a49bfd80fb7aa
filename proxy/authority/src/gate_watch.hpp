// While sessions of this proxy hold gates (docs/decisions/0011; on PostgreSQL seats, which are
// called gates here too, docs/decisions/0026), queries the database for those that a raise waits
// for. The session that holds such a gate then gives it back. While no gate is held, it queries
// once a minute, or every five seconds after a failure or while the database's code prevents seats;
// on PostgreSQL a session takes a seat only while these queries succeed. Any thread.
//
// If no answer comes in time, every gate counts as wanted: sessions then hold a gate only briefly,
// as if there were no watch.
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
    // A raise waits for the gate of this scope; with `certain` false that is unknown. Must neither
    // block nor call a member.
    std::function<void(std::string_view scope, bool certain)> wanted;
    // Called with a message for the operator, once for each change: `failed` if the database does
    // not answer while gates are held, `noted` for the rest. Must not block. `noted` returns
    // whether it reported the message; if not, it is called again after the next query.
    std::function<void(const std::string&)> failed;
    std::function<bool(const std::string&)> noted;
  };

  // `pause`: between two queries while a gate is held. `answer_max`: after this time without an
  // answer, the result counts as unknown.
  GateWatch(std::unique_ptr<detail::GateFeed> feed, std::chrono::milliseconds pause,
            std::chrono::milliseconds answer_max, Events events);
  ~GateWatch();
  GateWatch(const GateWatch&) = delete;
  GateWatch& operator=(const GateWatch&) = delete;

  // A session holds, or no longer holds, the gate of this scope. Called in pairs.
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
  // When the last good answer came, or since when one is due.
  Clock::time_point answered_{};
  bool stopping_ = false;

  std::thread asking_, time_;
};

}  // namespace termgate::authority
