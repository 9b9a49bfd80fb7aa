// Follower: passes the writes of a stream, or of all streams of a scope, to your function one after
// the other, and stores in the database how far it has come.
//
//   Follower orders(db, "projection-1", Stream{"orders"}, [&](const Stream&, const StreamWrite& write) { … });
//   if (orders.fresh(500ms)) … read the projection …
//   else … read at the leader …
//
// While the follower lives, it passes each write of a stream once and in order; across restarts, at
// least once: what was handled after the position was last saved comes again (at most a page, or
// more after saves that failed). No write is left out, because numbers of a stream become visible
// in order. A later start with the same name, anywhere, takes the follower over; the earlier one
// saves no more positions and stops.
//
// Each follower has one thread, which calls `apply` and `news`. Any thread may call the members. On
// PostgreSQL it listens on a connection of its own. If `apply` throws, it is called again with the
// same write after a pause; the other streams of a scope go on meanwhile.
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

namespace termgate {
inline namespace v0 {

struct FollowerNews {
  enum class Kind {
    failed,   // the database could not be reached or refused; it will be tried again
    refused,  // `apply` threw: called again with the same write
    missing,  // a write is missing and was not pruned: the follower waits for it
    pruned,   // writes were pruned before they were handled: they are skipped (skip_pruned), or the
              // follower ends
    taken,    // another start has taken it over, or it was removed: the end
  };
  Kind kind;
  std::string text;
  std::optional<std::string> stream = {};
};

struct FollowerOptions {
  bool from_end = false;  // at the first start of this name, skip what is committed by then
  // Skip writes that were pruned; otherwise the follower ends there.
  bool skip_pruned = false;
  bool listen = true;     // PostgreSQL: be woken by a notification of each commit
  int page_writes = 500;  // writes handled between two saves of the position, at most
  std::size_t page_bytes = std::size_t{4} << 20;
  // The longest pause between two looks at the database, 10 ms to 1 h. None: 1 s with
  // notifications, 200 ms without. fresh() knows only what the last look has shown.
  std::optional<std::chrono::milliseconds> poll = {};
  std::function<void(const FollowerNews&)> news = {};  // must not throw
};

class Follower {
 public:
  using Apply = std::function<void(const Stream&, const StreamWrite&)>;

  // Records the start in the database. Throws InvalidInput (the name follows something else),
  // Unavailable, DatabaseError (the role needs level write).
  Follower(Database database, std::string name, Stream stream, Apply apply,
           FollowerOptions options = {});
  Follower(Database database, std::string name, Scope scope, Apply apply,
           FollowerOptions options = {});
  // Like stop(). Must not run on the follower's own thread.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // False: it has ended; the last news says why.
  bool running() const;
  // The writes that were not yet handled at the last look.
  std::int64_t lag() const;
  // How many writes it has handled since its construction.
  std::int64_t handled() const;
  FollowerStats stats() const;
  // Whether everything that was committed `bound` ago has been handled. Also false if the last look
  // is older than that.
  bool fresh(std::chrono::milliseconds bound) const;
  // Looks at once, and waits until everything committed before the call has been handled. False:
  // the time is over, or the follower has ended. Must not be called from `apply`.
  bool catch_up(std::chrono::milliseconds at_most);
  // Ends the follower after the current write, and saves the position. From `apply` it only
  // requests the end.
  void stop();

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace v0
}  // namespace termgate
