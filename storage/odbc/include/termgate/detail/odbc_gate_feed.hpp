// Reads from SQL Server which gates a raise waits for. Internal; no ODBC type appears here. One
// thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

class OdbcGateFeed {
 public:
  // `url`: as for open_odbc(). Connects at the first request. Throws InvalidInput if it is
  // malformed.
  OdbcGateFeed(std::string_view url, std::string_view schema);
  ~OdbcGateFeed();

  // Whether the URL leads to SQL Server: PostgreSQL, through its ODBC driver, has no gates.
  bool has_gates() const noexcept;
  // `scopes`: a JSON array of names. Returns those that a raise waits for. Throws Unavailable (the
  // next call connects again) and DatabaseError.
  std::vector<std::string> wanted(const std::string& scopes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
