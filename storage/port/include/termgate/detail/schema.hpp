// Puts the schema's name into a statement of sql/: @schema@ becomes a quoted identifier,
// @schema_lit@ a string literal, in the syntax of PostgreSQL or of T-SQL.
#pragma once

#include <string>
#include <string_view>

#include <termgate/error.hpp>
#include <termgate/text/quote.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// Refuses names that the files of sql/postgres/ could not contain in dollar quotes, strings and
// format strings, and names that PostgreSQL would truncate. Throws InvalidInput.
inline void need_schema_name(std::string_view schema) {
  const auto refuse = [](std::string_view why) {
    throw InvalidInput("TG005 malformed schema name: " + std::string(why));
  };
  if (schema.empty()) refuse("it is empty");
  if (schema.size() > 63) refuse("it has more than 63 bytes");
  for (const char character : schema) {
    if (character == '\'' || character == '%' || character == '$' ||
        static_cast<unsigned char>(character) < ' ') {
      refuse("it may have no ', %, $ or control character");
    }
  }
}

inline std::string with_names(std::string_view statement, std::string_view identifier,
                              std::string_view literal) {
  std::string made;
  for (;;) {
    const auto at = statement.find("@schema");
    made += statement.substr(0, at);
    if (at == std::string_view::npos) return made;
    statement.remove_prefix(at);
    if (statement.starts_with("@schema@")) {
      made += identifier;
      statement.remove_prefix(8);
    } else if (statement.starts_with("@schema_lit@")) {
      made += literal;
      statement.remove_prefix(12);
    } else {
      made += statement.substr(0, 1);
      statement.remove_prefix(1);
    }
  }
}

inline std::string with_schema(std::string_view statement, std::string_view schema) {
  return with_names(statement, text::quoted(schema, '"'), text::postgresql_string(schema));
}

inline std::string with_schema_tsql(std::string_view statement, std::string_view schema) {
  return with_names(statement, text::in_brackets(schema), text::tsql_string(schema));
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
