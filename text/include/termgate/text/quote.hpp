// Names and strings as SQL writes them: the one place where a text becomes part of a statement.
#pragma once

#include <string>
#include <string_view>

namespace termgate::text {

// The text between two of `quote`, which is written twice inside: a name between "", SQLite's strings between ''.
inline std::string quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == quote) quoted += quote;
    quoted += c;
  }
  return quoted + quote;
}

// A string of PostgreSQL's. A backslash would begin an escape under standard_conforming_strings = off; E'' is exact under both.
inline std::string postgresql_string(std::string_view text) {
  const std::string literal = quoted(text, '\'');
  if (literal.find('\\') == std::string::npos) return literal;
  std::string escaped = " E";
  for (const char c : literal) {
    if (c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// T-SQL's name and string.
inline std::string in_brackets(std::string_view name) {
  std::string quoted = "[";
  for (const char c : name) {
    quoted += c;
    if (c == ']') quoted += c;
  }
  return quoted + "]";
}
inline std::string tsql_string(std::string_view text) { return "N" + quoted(text, '\''); }

}  // namespace termgate::text
