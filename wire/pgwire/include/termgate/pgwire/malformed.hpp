// A peer's bytes that cannot be what they should be: an ordinary answer of every decoder here, never an exception.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

namespace termgate::pgwire {

// Which of the reader's limits a message is above.
enum class Limit : std::uint8_t { none, statement_bytes, message_bytes };

// What to tell the peer before its connection is closed. Holds no byte of the peer's, so it is fit for a log.
struct Malformed {
  const char* sqlstate = "08P01";  // protocol_violation unless the server itself says something else there
  std::array<char, 160> text{};    // ends in a NUL
  Limit above = Limit::none;

  std::string_view reason() const noexcept { return text.data(); }
};

// As printf; what does not fit is cut off.
[[gnu::format(printf, 1, 2)]] Malformed malformed(const char* format, ...) noexcept;
[[gnu::format(printf, 2, 3)]] Malformed malformed_as(const char* sqlstate, const char* format, ...) noexcept;

// A value or why there is none (g++ 12 has no std::expected).
template <class T>
class [[nodiscard]] Decoded {
 public:
  Decoded(T value) noexcept : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Decoded(Malformed why) noexcept : held_(std::in_place_index<1>, why) {}         // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return held_.index() == 0; }
  // Only where operator bool says so.
  const T& operator*() const noexcept { return *held<0>(); }
  const T* operator->() const noexcept { return held<0>(); }
  // Only where it does not.
  const Malformed& problem() const noexcept { return *held<1>(); }

 private:
  template <std::size_t Which>
  auto* held() const noexcept {
    assert(held_.index() == Which);
    return std::get_if<Which>(&held_);
  }

  std::variant<T, Malformed> held_;
};

}  // namespace termgate::pgwire
