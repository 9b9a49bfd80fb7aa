// Names and strings as SQL writes them, for the few that cannot be bound as values.
#pragma once

#include <string>
#include <string_view>

namespace termgate::text {

// The text in quotes, with each quote inside doubled: a name in "", a string of SQLite in ''.
inline std::string quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == quote) quoted += quote;
    quoted += c;
  }
  return quoted + quote;
}

// A PostgreSQL string. A backslash would begin an escape under standard_conforming_strings = off;
// E'' means the same under both settings.
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

// A name and a string of T-SQL.
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
