// Reads a user's statement just far enough to refuse transaction control and to count parameters.
// The extended protocol accepts one statement only, so the server refuses anything after a
// semicolon.
#include "statement_text.hpp"

#include <algorithm>

#include <termgate/text/scanner.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

bool is_transaction_control(std::string_view sql) {
  const auto words = text::first_pieces(sql, text::Dialect::postgresql, 3, true);
  if (words.empty()) return false;
  const auto second = words.size() > 1 ? words[1] : std::string();
  const auto third = words.size() > 2 ? words[2] : std::string();
  // ROLLBACK TO SAVEPOINT stays inside the transaction.
  if (words[0] == "rollback")
    return !(second == "to" || ((second == "work" || second == "transaction") && third == "to"));
  if (words[0] == "prepare") return second == "transaction";
  for (const char* control : {"begin", "start", "commit", "end", "abort"}) {
    if (words[0] == control) return true;
  }
  return false;
}

std::size_t highest_parameter(std::string_view sql) {
  std::size_t highest = 0;
  text::Scanner scanner(sql, text::Dialect::postgresql);
  for (text::Token token; scanner.next(token);) {
    if (token.kind != text::Token::Kind::parameter) continue;
    std::size_t number = 0;
    for (const char digit : token.text.substr(1))
      number = std::min<std::size_t>(number * 10 + static_cast<std::size_t>(digit - '0'), 100'000);
    highest = std::max(highest, number);
  }
  return highest;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
