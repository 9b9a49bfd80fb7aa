// Client addresses and ranges of a rule. An IPv4 address that is mapped into IPv6 counts as IPv4,
// so that a rule works on either kind of listener. The name "local", for a Unix socket's client, is
// not an address and matches only itself.
#include <termgate/authority/address.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace termgate::authority {

std::optional<Address> Address::parse(std::string_view text) {
  const std::string plain(text.substr(0, text.find('%')));
  Address address;
  if (inet_pton(AF_INET, plain.c_str(), address.bytes_.data()) == 1) return address;
  if (inet_pton(AF_INET6, plain.c_str(), address.bytes_.data()) != 1) return std::nullopt;
  static constexpr std::uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(std::begin(mapped), std::end(mapped), address.bytes_.begin())) {
    std::copy(address.bytes_.begin() + 12, address.bytes_.end(), address.bytes_.begin());
    std::fill(address.bytes_.begin() + 4, address.bytes_.end(), std::uint8_t{0});
    return address;
  }
  address.v6_ = true;
  return address;
}

bool Address::of_this_machine() const noexcept {
  if (!v6_) return bytes_[0] == 127 || (bytes_[0] == 169 && bytes_[1] == 254);
  if (bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80) return true;
  return bytes_[15] == 1 && std::all_of(bytes_.begin(), bytes_.begin() + 15,
                                        [](std::uint8_t byte) { return byte == 0; });
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(v6_ ? AF_INET6 : AF_INET, bytes_.data(), buffer, sizeof buffer);
  return buffer;
}

std::optional<AddressRange> AddressRange::parse(std::string_view text, std::string& problem) {
  AddressRange range;
  if (text == "local") {
    range.local_ = true;
    return range;
  }
  const auto slash = text.find('/');
  const auto base = Address::parse(text.substr(0, slash));
  if (!base) {
    problem = "\"" + std::string(text) +
              "\" is not an address: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32 or local";
    return std::nullopt;
  }
  range.base_ = *base;
  const int bits_max = base->v6() ? 128 : 32;
  range.bits_ = bits_max;
  if (slash != std::string_view::npos) {
    const std::string_view bits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), range.bits_);
    if (error != std::errc() || end != bits.data() + bits.size() || range.bits_ < 0 ||
        range.bits_ > bits_max) {
      problem = "\"" + std::string(text) + "\": after the / comes the number of bits, 0 to " +
                std::to_string(bits_max);
      return std::nullopt;
    }
  }
  // Most likely a typing error, which would make the range larger than it looks.
  for (int bit = range.bits_; bit < bits_max; ++bit) {
    if ((base->bytes()[static_cast<std::size_t>(bit) / 8] >> (7 - bit % 8)) & 1) {
      problem = "\"" + std::string(text) + "\": there are bits set to the right of the mask";
      return std::nullopt;
    }
  }
  return range;
}

bool AddressRange::contains(std::string_view client) const {
  if (local_) return client == "local";
  const auto address = Address::parse(client);
  if (!address || address->v6() != base_.v6()) return false;
  const auto whole = static_cast<std::size_t>(bits_) / 8;
  if (std::memcmp(address->bytes().data(), base_.bytes().data(), whole) != 0) return false;
  const int rest = bits_ % 8;
  if (rest == 0) return true;
  return ((address->bytes()[whole] ^ base_.bytes()[whole]) >> (8 - rest)) == 0;
}

}  // namespace termgate::authority
