// Follower: hands the writes of a stream, or of all streams of a scope, to your function one after
// the other, and keeps in the database how far it has come.
//
//   Follower orders(db, "projection-1", Stream{"orders"}, [&](const Stream&, const StreamWrite& write) { … });
//   if (orders.fresh(500ms)) … read the projection …
//   else … read at the leader …
//
// Each write of a stream once and in order as long as the follower lives, and at least once over
// restarts: what was handled after the position was last moved (a page at most) comes again. No
// write is left out: numbers of a stream become visible in order. A later start of the same name,
// wherever it is, takes the follower over; the one before moves no position any more and stops.
//
// One thread a follower, which calls `apply` and `news`. Any thread may call the members. On
// PostgreSQL it listens on a connection of its own. A function that throws is called again with the
// same write, after a pause; of a scope, the other streams go on meanwhile.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/database.hpp>
#include <termgate/info.hpp>

namespace termgate::inline v0 {

struct FollowerNews {
  enum class Kind {
    failed,   // the database could not be reached, or would not answer: tried again
    refused,  // `apply` threw: called again with the same write
    missing,  // a write is not there and was not pruned: the follower waits in front of it
    pruned,   // writes were pruned before they were handled: passed over (skip_pruned), or the end
    taken,    // another start has taken it over, or it was removed: the end
  };
  Kind kind;
  std::string text;
  std::optional<std::string> stream = {};
};

struct FollowerOptions {
  bool from_end = false;  // the first start of this name begins behind what is committed by then
  // Go on behind writes that were pruned; else the follower ends in front of them.
  bool skip_pruned = false;
  bool listen = true;     // PostgreSQL: be woken by a notification of each commit
  int page_writes = 500;  // at most so many writes are handled between two moves of the position
  std::size_t page_bytes = std::size_t{4} << 20;
  // The longest pause between two looks: 10 ms to 1 h. None: 1 s where it is notified, 200 ms where
  // it polls. fresh() knows no better than the last look.
  std::optional<std::chrono::milliseconds> poll = {};
  std::function<void(const FollowerNews&)> news = {};  // must not throw
};

class Follower {
 public:
  using Apply = std::function<void(const Stream&, const StreamWrite&)>;

  // Starts it in the database: throws InvalidInput (the name follows something else), Unavailable,
  // DatabaseError (the role needs level write).
  Follower(Database database, std::string name, Stream stream, Apply apply, FollowerOptions options = {});
  Follower(Database database, std::string name, Scope scope, Apply apply, FollowerOptions options = {});
  // As stop(). Not on its own thread.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // False: it has ended; the last news says why.
  bool running() const;
  // The writes that were not handled yet, at the last look.
  std::int64_t lag() const;
  // How many it has handled since it was made.
  std::int64_t handled() const;
  FollowerStats stats() const;
  // Whether everything that was committed `bound` ago has been handled. False also where the last
  // look is older than that.
  bool fresh(std::chrono::milliseconds bound) const;
  // Looks now, and waits until everything that was committed before the call has been handled.
  // False: not within that time, or it has ended. Not from `apply`.
  bool catch_up(std::chrono::milliseconds at_most);
  // Ends it after the write that is being handled, and moves the position. From `apply` it only
  // asks for the end.
  void stop();

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::inline v0
