// Puts the schema's name into a statement of sql/postgres/: @schema@ quoted as an identifier, @schema_lit@
// as a string literal. The one place where a name is spliced into SQL on the client's side.
#pragma once

#include <string>
#include <string_view>

namespace termgate::inline v0::detail {

inline std::string quoted_with(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (char character : text) {
    if (character == quote) quoted += quote;
    quoted += character;
  }
  return quoted + quote;
}

inline std::string with_schema(std::string_view statement, std::string_view schema) {
  // A backslash would start an escape under standard_conforming_strings = off; E'' is exact under both.
  std::string literal = quoted_with(schema, '\'');
  if (literal.find('\\') != std::string::npos) {
    std::string escaped = " E";
    for (char character : literal) {
      if (character == '\\') escaped += '\\';
      escaped += character;
    }
    literal = escaped;
  }
  const std::string identifier = quoted_with(schema, '"');
  std::string text;
  for (;;) {
    const auto at = statement.find("@schema");
    text += statement.substr(0, at);
    if (at == std::string_view::npos) return text;
    statement.remove_prefix(at);
    if (statement.starts_with("@schema@")) {
      text += identifier;
      statement.remove_prefix(8);
    } else if (statement.starts_with("@schema_lit@")) {
      text += literal;
      statement.remove_prefix(12);
    } else {
      text += statement.substr(0, 1);
      statement.remove_prefix(1);
    }
  }
}

}  // namespace termgate::inline v0::detail
