// Which seats a raise waits for, as a proxy asks on a connection of its own (docs/reference/lock-protocol.md, seats). Internal; no libpq
// type appears here. One thread at a time, where a call does not say otherwise.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::inline v0::detail {

class PostgresGateFeed {
 public:
  struct Wanted {
    std::vector<std::string> scopes;  // in which a session with the secret sits, and whose raise is under way
    bool all = false;                 // nobody is to keep a seat: the database that they were in is another one, or has code as said below
  };

  // Connects with the first question. Throws InvalidInput for a malformed URL.
  PostgresGateFeed(std::string url, std::string_view schema);
  ~PostgresGateFeed();
  PostgresGateFeed(const PostgresGateFeed&) = delete;
  PostgresGateFeed& operator=(const PostgresGateFeed&) = delete;

  // As GateFeed::runs_any_text(). Any thread.
  bool runs_any_text() const noexcept;
  // What seats are given back by, in hexadecimal: chance, of this object alone. Empty before the first answer, and while the database has
  // code of its own that speaks of Termgate: such code may declare, or raise, without a word of it in the client's text. Any thread.
  std::string_view secret() const noexcept;
  // Throws Unavailable (the next call connects again) and DatabaseError. An answer that takes longer than five seconds is an error.
  Wanted wanted();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::inline v0::detail
