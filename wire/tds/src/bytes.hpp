// Integers of TDS, little-endian unless a name says otherwise, and a cursor over bytes that cannot
// read past their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace termgate::tds {

inline std::uint64_t read_little(const char* at, std::size_t bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(at[i - 1]);
  return value;
}

inline std::uint16_t read_big_u16(const char* at) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(at[0]) << 8 |
                                    static_cast<unsigned char>(at[1]));
}

inline void append_little(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

inline void append_big_u16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}

// Once a read needs more bytes than are left, every later one returns nothing and `good()` stays
// false: a decoder reads all its fields and checks once. `missing()`: how many bytes the first such
// read lacked.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) noexcept : all_(bytes) {}

  bool good() const noexcept { return missing_ == 0; }
  bool done() const noexcept { return good() && at_ == all_.size(); }
  std::size_t at() const noexcept { return at_; }
  std::size_t missing() const noexcept { return missing_; }
  std::string_view rest() const noexcept { return all_.substr(at_); }

  std::string_view bytes(std::uint64_t count) noexcept {
    if (!good()) return {};
    const std::size_t left = all_.size() - at_;
    if (count > left) {
      missing_ = static_cast<std::size_t>(count - left);
      return {};
    }
    const std::string_view taken = all_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  std::uint64_t number(std::size_t width) noexcept {
    const std::string_view taken = bytes(width);
    return taken.empty() ? 0 : read_little(taken.data(), width);
  }
  std::uint8_t u8() noexcept { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() noexcept { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() noexcept { return static_cast<std::uint32_t>(number(4)); }

  // UTF-16 after its number of units, in one byte or in two.
  std::string_view short_text() noexcept { return bytes(std::size_t{2} * u8()); }
  std::string_view long_text() noexcept { return bytes(std::size_t{2} * u16()); }

 private:
  std::string_view all_;
  std::size_t at_ = 0;
  std::size_t missing_ = 0;
};

}  // namespace termgate::tds
