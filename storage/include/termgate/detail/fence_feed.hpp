// What a database says of itself when a fence is raised: PostgreSQL's NOTIFY on channel `termgate` (docs/lock-protocol.md). Internal.
//
// Any role may notify, so a payload is a hint of where to look and never the truth; and who was not connected has missed it.
// wait() on one thread; wake() on any.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::inline v0::detail {

class FenceFeed {
 public:
  static constexpr std::size_t payloads_max = 1000;  // that one wait() returns; what goes beyond is only told of

  struct Heard {
    bool connected_anew = false;  // what was said before is not known: read everything again
    bool missed = false;          // more than payloads_max came at once
    std::vector<std::string> payloads;
  };

  virtual ~FenceFeed() = default;

  // Connects where it must, and waits until something is heard, wake() is called, or `at_most` is over. Throws Unavailable (the next call
  // connects anew) and DatabaseError.
  virtual Heard wait(std::chrono::milliseconds at_most) = 0;
  // Ends a wait() that is under way, or the next one. Connecting is not ended by it.
  virtual void wake() noexcept = 0;
};

// nullptr for a database that has no such thing (SQLite). Throws InvalidInput for a URL of an unknown kind.
std::unique_ptr<FenceFeed> open_fence_feed(std::string_view url);

}  // namespace termgate::inline v0::detail
