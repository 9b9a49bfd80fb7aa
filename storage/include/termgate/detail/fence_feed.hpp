// Notifications from a database, such as of raised fences: PostgreSQL's NOTIFY
// (docs/reference/lock-protocol.md). Internal.
//
// Any role may notify, so a payload only names what to read in the database; and a client that was
// not connected has missed it. One thread at a time; wake() on any.
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

namespace termgate {
inline namespace v0 {
namespace detail {

class FenceFeed {
 public:
  static constexpr std::size_t payloads_max =
      1000;  // that one wait() returns; further ones are dropped, and `missed` is set

  struct Heard {
    bool connected_anew = false;  // earlier notifications may be lost: read everything again
    bool missed = false;          // more than payloads_max came at once
    std::vector<std::string> payloads;
  };

  virtual ~FenceFeed() = default;

  // Without a connection it connects, and returns. Otherwise it waits for a notification, for
  // wake(), or until `at_most` is over. Throws Unavailable (the next call connects again) and
  // DatabaseError.
  virtual Heard wait(std::chrono::milliseconds at_most) = 0;
  // fences() and fence() use the connection that wait() made, and work like those of Info, but fill
  // in only scope, term and reset_from. On the channel "termgate" the server cancels a call after
  // five seconds. They throw Unavailable and DatabaseError.
  virtual std::vector<FenceInfo> fences(std::string_view after, int limit) = 0;
  virtual std::optional<FenceInfo> fence(std::string_view scope) = 0;
  // The owner of layer 1 in that database; empty: there is no layer 1.
  virtual std::string owner() = 0;
  // Whether the view that fences() and fence() read, and its schema, belong to a superuser, to the
  // feed's own role or to `owner`. Their owners decide which code runs there with this role's
  // rights.
  virtual bool owner_is_trusted(std::string_view owner) = 0;
  // The name of the database as the server reported it; empty before the first connection.
  virtual std::string database() const = 0;
  // Which of several servers it is connected to, as the URL names it. An empty host: there is only
  // one, or no connection yet.
  struct Place {
    std::string host;
    std::string port;
  };
  virtual Place place() const { return {}; }
  // For a poll() elsewhere: readable when wait() would return. -1: there is no connection.
  virtual int descriptor() const noexcept = 0;

  // Ends the current wait(), or the next one. Does not end an attempt to connect.
  virtual void wake() noexcept = 0;
};

// nullptr for a database that does not notify (SQLite, SQL Server), and for PostgreSQL through
// ODBC. Throws InvalidInput for a URL of an unknown kind. `database`, unless empty, replaces the
// one in the URL. `channel`: "termgate", whose payloads are JSON with the scope, term and schema of
// a raised fence; "termgate_leases": the scope of a lease that was released or requested; or
// "termgate_streams": a followed stream that was appended to.
std::unique_ptr<FenceFeed> open_fence_feed(std::string_view url, std::string_view schema,
                                           std::string_view database = {},
                                           std::string_view channel = "termgate");

}  // namespace detail
}  // namespace v0
}  // namespace termgate
