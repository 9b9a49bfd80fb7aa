// Who is in, against the limits on how many may be: in all, of a user, of a database, of an address. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <termgate/net/options.hpp>

namespace termgate::net {

class LimitBook {
 public:
  enum class Verdict : std::uint8_t { in, connections, user, database, address };

  explicit LimitBook(const Limits& limits) : limits_(limits) {}

  // `in` takes a place, which leave() with the same names gives back.
  Verdict enter(const std::string& user, const std::string& database, const std::string& address);
  void leave(const std::string& user, const std::string& database, const std::string& address);

  // The error for the client; the limit's name and number.
  std::string message(Verdict verdict) const;

  // After a reload. Those who are in stay.
  void set(const Limits& limits);

  std::size_t connections() const;
  std::size_t peak() const;
  std::size_t limit() const;

 private:
  using Counts = std::unordered_map<std::string, std::size_t>;

  mutable std::mutex mutex_;  // guards all below
  Limits limits_;
  std::size_t connections_ = 0;
  std::size_t peak_ = 0;
  Counts users_, databases_, addresses_;
};

}  // namespace termgate::net
