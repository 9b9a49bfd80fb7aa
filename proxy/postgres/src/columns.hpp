// The columns of a DataRow: a count, then for each column a length and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace termgate::pg_session {

// Reads the text of one column into `value`; NULL is empty. False: there is no such column.
inline bool column(std::string_view row, std::size_t index, std::string_view& value) noexcept {
  if (row.size() < 2) return false;
  std::size_t at = 2;
  for (std::size_t i = 0;; ++i) {
    if (row.size() < at + 4) return false;
    std::uint32_t length = 0;
    for (std::size_t b = 0; b < 4; ++b)
      length = length << 8 | static_cast<unsigned char>(row[at + b]);
    at += 4;
    const bool null = length == 0xffffffffu;
    if (!null && row.size() - at < length) return false;
    if (i == index) {
      value = null ? std::string_view() : row.substr(at, length);
      return true;
    }
    if (!null) at += length;
  }
}

}  // namespace termgate::pg_session
