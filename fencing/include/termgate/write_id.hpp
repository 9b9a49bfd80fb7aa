// WriteId: a UUID that makes a write repeatable: sent again after "unknown", it is applied once
// (F5). Any thread.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {

class WriteId {
 public:
  // Takes the 8-4-4-4-12 form in either case. Throws InvalidInput (TG005) for anything else.
  explicit WriteId(std::string_view uuid);
  // A random one (version 4), from the system's entropy. Throws Error if the system gives none.
  static WriteId random();

  const std::string& text() const noexcept { return text_; }  // canonical, lower case
  friend auto operator<=>(const WriteId&, const WriteId&) = default;

 private:
  std::string text_;
};

}  // namespace v0
}  // namespace termgate
