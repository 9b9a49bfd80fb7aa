// Puts the schema's name into a statement of sql/: @schema@ quoted as an identifier in PostgreSQL's way, @schema_lit@
// as a string literal. The one place where a name is spliced into SQL on the client's side.
#pragma once

#include <string>
#include <string_view>

#include <termgate/error.hpp>

namespace termgate::inline v0::detail {

inline std::string quoted_with(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (char character : text) {
    if (character == quote) quoted += quote;
    quoted += character;
  }
  return quoted + quote;
}

// What a name of a schema may not have: the files of sql/postgres/ stand in dollar quotes, strings and format strings, and PostgreSQL
// would cut a long one short. Throws InvalidInput.
inline void need_schema_name(std::string_view schema) {
  const auto refuse = [](std::string_view why) { throw InvalidInput("TG005 malformed schema name: " + std::string(why)); };
  if (schema.empty()) refuse("it is empty");
  if (schema.size() > 63) refuse("it has more than 63 bytes");
  for (const char character : schema) {
    if (character == '\'' || character == '%' || character == '$' || static_cast<unsigned char>(character) < ' ') {
      refuse("it may have no ', %, $ or control character");
    }
  }
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
