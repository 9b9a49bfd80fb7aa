// What the client must find in a statement's text: its parameters, further statements, and what
// begins or ends a transaction. Quotes and comments follow the rules of the database.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/detail/odbc/traits.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

// A statement with ODBC's markers. order[i] is the parameter (from 0) of the i-th marker.
struct Marked {
  std::string text;
  std::vector<std::size_t> order;
};

// Turns `$1` … into `?`. Throws InvalidInput for a `?` outside quotes (ODBC would take it for a
// parameter), `$0`, a number above 999, more parameters than `parameters`, and unterminated quotes
// or comments.
Marked marked(std::string_view sql, std::size_t parameters, Family family);

// The statements of a script, without the semicolons between them; empty ones are left out.
std::vector<std::string> statements_of(std::string_view script, Family family);

// The batches of a T-SQL script: the texts between lines that hold GO alone.
std::vector<std::string> batches_of(std::string_view script);

// Throws InvalidInput if the text contains transaction control (savepoints are allowed),
// DatabaseError if it contains a second statement. T-SQL needs no semicolon between statements;
// there a second one is allowed, and the whole text is searched for transaction control.
void need_one_statement(std::string_view sql, Family family);

// Throws InvalidInput unless a T-SQL text is one query: SQL Server has no read-only transaction to
// enforce that.
void need_query(std::string_view sql);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
