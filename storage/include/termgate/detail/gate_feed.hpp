// Reads which gates a raise waits for (docs/decisions/0011-a-gate-in-front-of-sql-server.md), or
// which seats on PostgreSQL (decision 0026). A proxy uses it on a connection of its own. Internal.
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

class GateFeed {
 public:
  static constexpr std::size_t scopes_max = 500;  // in one request; more take several requests

  virtual ~GateFeed() = default;

  // Returns the scopes that a raise waits for: on SQL Server those of `scopes`, on PostgreSQL those
  // in which a session with the secret has a seat. The server is queried even if `scopes` is empty.
  // Connects if necessary. Waits for no lock. Throws Unavailable (the next call connects again) and
  // DatabaseError.
  virtual std::vector<std::string> wanted(const std::vector<std::string>& scopes) = 0;

  // The secret by which seats are given back, in hexadecimal; it never changes. Empty: there are no
  // seats, or none now. Any thread.
  virtual std::string_view secret() const noexcept { return {}; }
  // Whether code in the database is the reason why there are no seats. Any thread.
  virtual bool code_prevents_seats() const noexcept { return false; }
  // Whether the database has a function that runs its argument as SQL. Any thread.
  virtual bool runs_any_text() const noexcept { return true; }
};

// nullptr for what has neither gates nor seats (SQLite, PostgreSQL through ODBC), and for a
// database whose driver this build lacks. Connects at the first request. Throws InvalidInput for a
// malformed URL.
std::unique_ptr<GateFeed> open_gate_feed(std::string_view url, std::string_view schema);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
