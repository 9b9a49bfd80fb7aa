// A text as a JSON string, for lists that are sent to a database as one parameter.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace detail {

// `text` must be UTF-8.
inline void append_json(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  json += '"';
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
