// Followers: who reads a stream or a scope, and how far each has come. These are the calls that
// Follower is built on; most programs use <termgate/follower.hpp>, which has the loop.
//
// Any thread; copies share the Database's connections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

// What a follower follows: one of the two.
struct FollowedBy {
  std::optional<std::string> stream = {}, scope = {};
};

// What a follower has not handled yet.
struct FollowerBehind {
  struct Stream {
    std::string stream;
    std::int64_t position = 0;  // the last write that it has handled; 0: none
    std::int64_t last_no = 0;
  };
  std::int64_t run = 0;         // how often it was started; 0: there is no such follower
  std::int64_t behind = 0;      // writes not handled yet, over all streams
  std::vector<Stream> streams;  // those with such writes, ordered by name
};

enum class FollowerMove {
  moved,
  taken,      // a later start has taken the follower over
  elsewhere,  // the saved position is not `from`; nothing was changed
};

struct FollowerInfo {
  std::string name;
  FollowedBy followed;
  std::int64_t run = 0;
  std::int64_t started_at_ms = 0;
  std::string started_by;
  std::int64_t behind = 0;                // writes not handled yet
  std::optional<std::int64_t> behind_ms;  // how long ago the oldest of them was written
  std::optional<std::int64_t> moved_at_ms;
};

class Followers {
 public:
  explicit Followers(Database database) : database_(std::move(database)) {}

  // Starts a follower or takes it over. Returns its new run, a number that each start raises: a
  // caller that saves positions under an older run learns that the follower was taken over.
  // `from_end`: the first start of a name skips what is committed by then. Throws InvalidInput if
  // the name follows another stream or scope.
  std::int64_t start(std::string_view name, const FollowedBy& followed, bool from_end = false);
  // At most `limit` streams.
  FollowerBehind behind(std::string_view name, int limit = 1000);
  // Saves that the stream is handled up to `to`, if the saved position is `from`. Throws
  // InvalidInput if there is no such follower, or `to` is below `from` or above the last number.
  FollowerMove advance(std::string_view name, std::int64_t run, const Stream& stream,
                       SequenceNo from, SequenceNo to);
  // Removes its positions as well. False: there was none.
  bool remove(std::string_view name);
  std::vector<FollowerInfo> list(std::string_view after = {}, int limit = 1000);  // ordered by name

 private:
  Database database_;
};

}  // namespace v0
}  // namespace termgate
