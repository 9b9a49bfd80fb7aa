// What a database says of itself when a fence is raised: PostgreSQL's NOTIFY on channel `termgate` (docs/reference/lock-protocol.md).
// Internal.
//
// Any role may notify, so a payload is a hint of where to look and never the truth; and who was not connected has missed it.
// One thread at a time; wake() on any.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>

namespace termgate::inline v0::detail {

class FenceFeed {
 public:
  static constexpr std::size_t payloads_max = 1000;  // that one wait() returns; of more, only the fact is reported

  struct Heard {
    bool connected_anew = false;  // earlier notifications may be lost: read everything again
    bool missed = false;          // more than payloads_max came at once
    std::vector<std::string> payloads;
  };

  virtual ~FenceFeed() = default;

  // Connects where it must, and waits until a notification comes, wake() is called, or `at_most` is over. Throws Unavailable (the next call
  // connects anew) and DatabaseError.
  virtual Heard wait(std::chrono::milliseconds at_most) = 0;
  // On the connection that wait() made: as Info::fences() and Info::fence(), of which scope, term and reset_from are filled in.
  // Five seconds at the most. Throw Unavailable and DatabaseError.
  virtual std::vector<FenceInfo> fences(std::string_view after, int limit) = 0;
  virtual std::optional<FenceInfo> fence(std::string_view scope) = 0;
  // Who owns layer 1 there; empty: nobody, it is not there.
  virtual std::string owner() = 0;
  // Whether what the two above run through, which is code of its owner and runs with our rights, belongs to a superuser, to our own role or
  // to `owner`.
  virtual bool owner_is_trusted(std::string_view owner) = 0;
  // As the server reported it; empty before the first connection.
  virtual std::string database() const = 0;
  // Which of several servers it is, as the URL names it; an empty host: there is but one, or no connection yet.
  struct Place {
    std::string host;
    std::string port;
  };
  virtual Place place() const { return {}; }
  // For a poll() elsewhere: readable where wait() would return. -1: there is no connection.
  virtual int descriptor() const noexcept = 0;

  // Ends a wait() that is under way, or the next one. Connecting is not ended by it.
  virtual void wake() noexcept = 0;
};

// nullptr for a database that has no such thing (SQLite). Throws InvalidInput for a URL of an unknown kind.
// `database`, where it is not empty, takes the place of the one that the URL names.
// `channel`: of raised fences; or "termgate_leases", whose payloads are the scopes of leases that were given back; or "termgate_streams",
// whose payloads are streams that somebody has appended to and somebody follows.
std::unique_ptr<FenceFeed> open_fence_feed(std::string_view url, std::string_view schema, std::string_view database = {},
                                           std::string_view channel = "termgate");

}  // namespace termgate::inline v0::detail
