// Followers: who reads a stream or a scope, and how far each has come, by the calls that a Follower is
// made of. <termgate/follower.hpp> has the loop, which most programs want.
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

namespace termgate::inline v0 {

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
  std::int64_t run = 0;         // 0: there is no such follower
  std::int64_t behind = 0;      // writes, of all streams
  std::vector<Stream> streams;  // in the order of names
};

enum class FollowerMove {
  moved,
  taken,      // a later start has taken the follower over
  elsewhere,  // its position was another than `from`
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

  // Returns the follower's run from now on: who moves positions under a lower one learns that it was
  // taken. Always the same stream or scope for a name. Throws InvalidInput.
  std::int64_t start(std::string_view name, const FollowedBy& followed, bool from_end = false);
  FollowerBehind behind(std::string_view name, int limit = 1000);
  FollowerMove advance(std::string_view name, std::int64_t run, const Stream& stream, SequenceNo from, SequenceNo to);
  // Its positions go with it. False: there was none.
  bool remove(std::string_view name);
  std::vector<FollowerInfo> list(std::string_view after = {}, int limit = 1000);  // in the order of names

 private:
  Database database_;
};

}  // namespace termgate::inline v0
