// Which gates a raise waits for (docs/decisions/0011-a-gate-in-front-of-sql-server.md), as a proxy asks on a connection of its own.
// Internal. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::inline v0::detail {

class GateFeed {
 public:
  static constexpr std::size_t scopes_max = 500;  // of one question; more are put in several

  virtual ~GateFeed() = default;

  // Those of `scopes` that a raise waits for; with none, the server is queried all the same. Connects if it must. Waits for no lock; gives
  // up after a few seconds. Throws Unavailable (the next call connects again) and DatabaseError.
  virtual std::vector<std::string> wanted(const std::vector<std::string>& scopes) = 0;
};

// nullptr for a database that has no gate: all but SQL Server. Connects with the first question. Throws InvalidInput for a malformed URL.
std::unique_ptr<GateFeed> open_gate_feed(std::string_view url, std::string_view schema);

}  // namespace termgate::inline v0::detail
