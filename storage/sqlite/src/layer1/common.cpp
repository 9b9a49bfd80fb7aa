// Small checks that several subjects of layer 1 share. Those that refuse throw InvalidInput (TG005)
// and name what was wrong.
#include "common.hpp"

#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include <termgate/detail/sqlite/layer1.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::int64_t number_of(const std::string& text, const char* name, std::int64_t low,
                       std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw InvalidInput(fmt::format("TG005 setting {} is an integer from {} to {}, not \"{}\"", name,
                                   low, high, text));
  }
  return value;
}

void require_name(const std::string& text, const char* what) {
  if (const char* problem = name_problem(text))
    throw InvalidInput(fmt::format("TG005 malformed {}: {}", what, problem));
}

void require_text(const std::string& text, const char* what) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw InvalidInput(
        fmt::format("TG005 malformed {}: it is empty, and it goes into the audit", what));
  }
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
