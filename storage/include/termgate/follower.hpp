// Follower: passes the writes of a stream, or of all streams of a scope, to your function one after
// the other, and stores in the database how far it has come.
//
//   Follower orders(db, "projection-1", Stream{"orders"}, [&](const Stream&, const StreamWrite& write) { … });
//   if (orders.fresh(500ms)) … read the projection …
//   else … read at the leader …
//
// While the follower lives, it handles each write of a stream once and in order; across restarts,
// at least once: what was handled after the position was last saved comes again (at most a page, or
// more after saves that failed). No write but a pruned one is left out, because numbers of a stream
// become visible in order. A later start with the same name, anywhere, takes the follower over; the
// earlier one saves no more positions and stops.
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
    failed,   // the database was not reached, or refused a call; the follower tries again
    refused,  // `apply` threw: called again with the same write
    missing,  // a write has been missing for 5 s and was not pruned: the follower waits for it
    pruned,   // writes were pruned before they were handled: they are skipped (skip_pruned), or the
              // follower ends
    taken,    // another start has taken it over, or it was removed: the end
  };
  Kind kind;
  std::string text;
  std::optional<std::string> stream = {};  // none: it is not about one stream
};

struct FollowerOptions {
  bool from_end = false;  // at the first start of this name, skip what is committed by then
  // Skip writes that were pruned; otherwise the follower ends there.
  bool skip_pruned = false;
  bool listen = true;  // PostgreSQL: be woken by a notification of each commit
  // A page: at most this many writes (1 to 100,000) with this many bytes of payload (1 or more),
  // but at least one write. The position is saved after each page.
  int page_writes = 500;
  std::size_t page_bytes = std::size_t{4} << 20;
  // The longest pause between two reads of how far the follower is behind, 10 ms to 1 h. None: 1 s
  // with notifications, 200 ms without. lag() and fresh() know only what the last read has shown.
  std::optional<std::chrono::milliseconds> poll = {};
  std::function<void(const FollowerNews&)> news = {};  // must not throw
};

class Follower {
 public:
  using Apply = std::function<void(const Stream&, const StreamWrite&)>;

  // Records the start in the database. Throws InvalidInput (an option is out of range, or the name
  // follows something else), Unavailable, DatabaseError (the role needs level write),
  // std::system_error if the thread cannot be started.
  Follower(Database database, std::string name, Stream stream, Apply apply,
           FollowerOptions options = {});
  Follower(Database database, std::string name, Scope scope, Apply apply,
           FollowerOptions options = {});
  // Like stop(). Must not run on the follower's own thread.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // False: it has ended, by stop() or for the reason in the last news.
  bool running() const;
  // The number of writes that the last read showed as not handled, less those handled since.
  std::int64_t lag() const;
  // How many writes it has handled since its construction.
  std::int64_t handled() const;
  FollowerStats stats() const;
  // Whether everything that was committed `bound` ago has been handled. Also false if the last read
  // is older than that.
  bool fresh(std::chrono::milliseconds bound) const;
  // Reads at once, and waits until everything committed before the call has been handled. False:
  // the time is over, or the follower has ended. Not from `apply` or `news`: it would wait in vain.
  bool catch_up(std::chrono::milliseconds at_most);
  // Ends the follower after the current write, saves the position, and waits for that. From `apply`
  // or `news` it only requests the end.
  void stop();

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace v0
}  // namespace termgate
