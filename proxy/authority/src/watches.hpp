// Watches the fences of databases other than that of --backend, each from its first session with a
// scope and a term until no session is left or another database needs the place. One thread polls
// all connections and a few read, so that two hundred databases do not need two hundred threads.
// Any thread may call.
//
// A database whose layer 1 does not belong to a trusted owner (FenceFeed::owner_is_trusted) is not
// watched, because reading there would run code of that owner.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <termgate/detail/fence_feed.hpp>

#include "fence_book.hpp"
#include "fence_reader.hpp"
#include "workers.hpp"

namespace termgate::authority {

class Watches {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t scopes_max = 10'000;  // remembered for each database
  // Above this number, a database with neither a session nor a watch is forgotten at once.
  static constexpr std::size_t databases_known_max = 1000;
  static constexpr int readers = 4;  // threads
  static constexpr std::chrono::milliseconds look_pause{1000};
  static constexpr std::chrono::milliseconds retry_pause{
      1000};  // after a failure; doubled each time, up to retry_pause_max
  static constexpr std::chrono::milliseconds retry_pause_max{60'000};

  struct Options {
    std::string url, schema;
    std::size_t databases_max = 20;               // watched at once; 0: none
    std::chrono::milliseconds pause{30'000};      // between two reads of all fences
    std::chrono::milliseconds idle_pause{2'000};  // without a session, until a watch ends
    // How long after a session's last use a database keeps its watch when another needs the place.
    std::chrono::milliseconds keep_pause{10'000};
    std::function<void(const FenceBook&, std::string_view, std::int64_t)> rose;
    // Called once for each obstacle of a database, and once when its fences are watched again. Must
    // not block.
    std::function<void(const std::string&)> failed, recovered;
  };

  explicit Watches(Options options);
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  // Starts watching. `owner`: of layer 1 in the database of --backend.
  void begin(std::string owner);
  std::shared_ptr<conversation::Fences> fences(const std::string& database);
  std::int64_t watched() const;
  std::int64_t failures() const;
  std::size_t known() const;  // number of databases, watched or not

 private:
  struct Entry;

  void run();
  void wake();
  // The following are called with mutex_ held.
  void look(Clock::time_point now);
  bool make_room(Clock::time_point now);
  void close(const std::shared_ptr<Entry>& entry);
  // The following run on the worker for which the entry is busy.
  void hang_up(Entry& entry);
  void step(const std::shared_ptr<Entry>& entry);

  const Options options_;
  const int wakeup_;
  mutable std::mutex mutex_;  // guards what follows, and the members of an Entry that are marked so
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::string owner_;
  bool begun_ = false;
  bool stopping_ = false;
  std::size_t open_ = 0;                                    // number of entries with a feed
  std::map<std::string, conversation::Obstacle> reported_;  // what was last logged for a database
  std::int64_t failures_ = 0;
  Workers workers_{readers};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace termgate::authority
