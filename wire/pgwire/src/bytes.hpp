// Integers in network byte order, and a cursor over a body that cannot read past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace termgate::pgwire {

inline std::uint16_t read_u16(const char* at) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(at[0]) << 8 |
                                    static_cast<unsigned char>(at[1]));
}

inline std::uint32_t read_u32(const char* at) noexcept {
  return static_cast<std::uint32_t>(read_u16(at)) << 16 | read_u16(at + 2);
}

inline void append_u16(std::string& out, std::uint16_t value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value & 0xff);
}

inline void append_u32(std::string& out, std::uint32_t value) {
  append_u16(out, static_cast<std::uint16_t>(value >> 16));
  append_u16(out, static_cast<std::uint16_t>(value & 0xffff));
}

// Once a read needs more bytes than are left, every later one returns nothing and `good()` stays
// false: a decoder reads all its fields and checks once.
class Cursor {
 public:
  explicit Cursor(std::string_view body) noexcept : left_(body) {}

  bool good() const noexcept { return good_; }
  bool at_end() const noexcept { return left_.empty(); }
  bool done() const noexcept { return good_ && left_.empty(); }
  std::string_view rest() const noexcept { return left_; }

  std::string_view bytes(std::size_t count) noexcept {
    if (!good_ || count > left_.size()) return fail();
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  char byte() noexcept {
    const std::string_view taken = bytes(1);
    return taken.empty() ? '\0' : taken[0];
  }

  std::uint16_t u16() noexcept {
    const std::string_view taken = bytes(2);
    return taken.empty() ? 0 : read_u16(taken.data());
  }

  std::uint32_t u32() noexcept {
    const std::string_view taken = bytes(4);
    return taken.empty() ? 0 : read_u32(taken.data());
  }

  // Reads up to the next NUL, and skips that.
  std::string_view text() noexcept {
    const std::size_t end = good_ ? left_.find('\0') : std::string_view::npos;
    if (end == std::string_view::npos) return fail();
    const std::string_view taken = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return taken;
  }

 private:
  std::string_view fail() noexcept {
    good_ = false;
    left_ = {};
    return {};
  }

  std::string_view left_;
  bool good_ = true;
};

}  // namespace termgate::pgwire
