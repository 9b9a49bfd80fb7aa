// Bytes from a peer that violate the protocol. Every decoder here returns this as an ordinary
// result, never as an exception.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

namespace termgate::tds {

// The error for the peer before its connection is closed. It shows a peer's bytes as numbers only,
// so it is safe to log.
struct Malformed {
  std::array<char, 160> text{};  // ends with a NUL

  std::string_view reason() const noexcept { return text.data(); }
};

// Like printf; what does not fit is cut off.
[[gnu::format(printf, 1, 2)]] Malformed malformed(const char* format, ...) noexcept;

// A value, or why there is none (g++ 12 has no std::expected).
template <class T>
class [[nodiscard]] Decoded {
 public:
  Decoded(T value) noexcept
      : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Decoded(Malformed why) noexcept
      : held_(std::in_place_index<1>, why) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return held_.index() == 0; }
  // Only if operator bool is true.
  const T& operator*() const noexcept { return *held<0>(); }
  const T* operator->() const noexcept { return held<0>(); }
  // Only if operator bool is false.
  const Malformed& problem() const noexcept { return *held<1>(); }

 private:
  template <std::size_t Which>
  auto* held() const noexcept {
    assert(held_.index() == Which);
    return std::get_if<Which>(&held_);
  }

  std::variant<T, Malformed> held_;
};

}  // namespace termgate::tds
