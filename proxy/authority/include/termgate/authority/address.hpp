// A client's address, and address ranges (CIDR), as the rules compare them. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termgate::authority {

// IPv4 or IPv6. An IPv4 address inside IPv6 (::ffff:192.0.2.7) equals the IPv4 one. A zone
// (fe80::1%eth0) is dropped.
class Address {
 public:
  // nullopt: not an address ("local", a host's name).
  static std::optional<Address> parse(std::string_view text);

  bool v6() const noexcept { return v6_; }
  const std::array<std::uint8_t, 16>& bytes() const noexcept {
    return bytes_;
  }  // IPv4 uses the first four
  // Whether the address means a different machine on each machine that uses it: loopback and
  // link-local addresses.
  bool of_this_machine() const noexcept;
  std::string text() const;

 private:
  bool v6_ = false;
  std::array<std::uint8_t, 16> bytes_{};
};

// `192.0.2.0/24`, `2001:db8::/32`, a single address, or `local` (a Unix socket).
class AddressRange {
 public:
  // nullopt: malformed, and `problem` says why.
  static std::optional<AddressRange> parse(std::string_view text, std::string& problem);
  // `client`: an address or "local". Anything else is in no range.
  bool contains(std::string_view client) const;

 private:
  bool local_ = false;
  Address base_;
  int bits_ = 0;
};

}  // namespace termgate::authority
