// What this process knows of the fences: a lower bound, fed by its own sessions and by a thread that listens to the database. A notification can be forged by
// any role, so it only says where to look; what is then read from `fences` counts. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <termgate/database.hpp>
#include <termgate/detail/fence_feed.hpp>
#include <termgate/detail/fence_memory.hpp>

namespace termgate::authority {

// The scope that a notification names: {"scope": …, "term": …, "schema": …} as json_build_object writes it. None: malformed, of another schema, or no scope.
std::optional<std::string> hinted_scope(std::string_view payload, std::string_view schema);

class FenceWatch {
 public:
  using Callback = std::function<void(std::string_view scope, std::int64_t fence)>;

  // `rose`: called for every rise before the subscriber is.
  explicit FenceWatch(Callback rose) : rose_(std::move(rose)) {}
  ~FenceWatch();
  FenceWatch(const FenceWatch&) = delete;
  FenceWatch& operator=(const FenceWatch&) = delete;

  // Begins to listen. `feed` nullptr: only reads all of them every `pause`.
  void start(Database database, std::unique_ptr<detail::FenceFeed> feed, std::string schema, std::chrono::milliseconds pause, std::function<void(const std::string&)> log);

  std::int64_t highest(const std::string& scope) const { return memory_.highest(scope); }
  void saw(const std::string& scope, std::int64_t fence);
  void subscribe(Callback callback);
  // As session::Surroundings::doubt().
  std::string doubt(std::string_view scope) const;

 private:
  void run(std::chrono::milliseconds pause);
  void read_one(const std::string& scope);
  void read_all();
  void took(const FenceInfo& info, std::int64_t remembered);
  void sleep(std::chrono::milliseconds time);
  void suspect(const std::string& scope);

  const Callback rose_;
  detail::FenceMemory memory_;
  std::mutex calling_;  // guards callback_, also while it is called
  Callback callback_;
  mutable std::mutex doubts_mutex_;  // guards doubts_
  struct Doubt {
    std::string message;
    std::optional<std::int64_t> reset_from;  // as it was then: a reset since settles it
  };
  std::map<std::string, Doubt, std::less<>> doubts_;
  std::atomic<bool> doubtful_{false};  // there are any: every write asks

  std::optional<Database> database_;
  std::unique_ptr<detail::FenceFeed> feed_;
  std::string schema_;
  std::function<void(const std::string&)> log_;
  std::mutex mutex_;  // guards stopping_, suspects_
  std::set<std::string> suspects_;  // a session met a lower fence there than was seen before: to be read
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace termgate::authority
