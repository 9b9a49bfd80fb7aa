// Counts connections against their limits: in total, for each user, each database, each address.
// Any thread.
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

  // `in` means that a place was taken. leave() with the same names gives it back.
  Verdict enter(const std::string& user, const std::string& database, const std::string& address);
  void leave(const std::string& user, const std::string& database, const std::string& address);

  // The error for the client, with the name and value of the limit.
  std::string message(Verdict verdict) const;

  // Called after a reload. Open connections keep their places.
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
