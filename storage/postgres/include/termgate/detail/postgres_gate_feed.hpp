// Reads which seats a raise waits for (docs/reference/lock-protocol.md, seats). A proxy uses it on
// a connection of its own. Internal; no libpq type appears here. One thread at a time, unless a
// call says otherwise.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

class PostgresGateFeed {
 public:
  struct Wanted {
    std::vector<std::string>
        scopes;  // in which a session with the secret has a seat that a raise waits for
    // All seats must be given up: the connection leads to another database now, or the database has
    // code that secret() describes.
    bool all = false;
  };

  // Connects at the first request. Throws InvalidInput for a malformed URL.
  PostgresGateFeed(std::string url, std::string_view schema);
  ~PostgresGateFeed();
  PostgresGateFeed(const PostgresGateFeed&) = delete;
  PostgresGateFeed& operator=(const PostgresGateFeed&) = delete;

  // See GateFeed::runs_any_text(). Any thread.
  bool runs_any_text() const noexcept;
  // The secret by which seats are given back, in hexadecimal: random, and used by this object only.
  // Empty before the first answer, after an error, and while the database has code that may declare
  // or raise without the client's text showing it. Any thread.
  std::string_view secret() const noexcept;
  // See GateFeed::code_prevents_seats(). Any thread.
  bool code_prevents_seats() const noexcept;
  // Throws Unavailable (the next call connects again) and DatabaseError. The server ends a query
  // after a minute.
  Wanted wanted();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
