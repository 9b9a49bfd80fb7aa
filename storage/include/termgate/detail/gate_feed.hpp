// Which gates a raise waits for (docs/decisions/0011-a-gate-in-front-of-sql-server.md), as a proxy asks on a connection of its own; on
// PostgreSQL, which seats (decision 0026). Internal. One thread at a time.
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

  // What a seat is given back by, in hexadecimal; the same for the life of this object. Empty: there are no seats, or none now. Any thread.
  virtual std::string_view secret() const noexcept { return {}; }
  // Whether a function of the database runs what it is given as SQL. Any thread.
  virtual bool runs_any_text() const noexcept { return true; }
};

// nullptr for a database that has neither gates nor seats: SQLite. Connects with the first question. Throws InvalidInput for a malformed
// URL.
std::unique_ptr<GateFeed> open_gate_feed(std::string_view url, std::string_view schema);

}  // namespace termgate::inline v0::detail
