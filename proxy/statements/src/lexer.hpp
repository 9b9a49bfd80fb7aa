// PostgreSQL's tokens (src/backend/parser/scan.l, versions 13 to 18), as far as a decision needs
// them: where strings, comments and statements end, and which words are outside of them. If
// versions differ in one of these, the text is `odd`, which callers treat as unparsable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <termgate/statements/settings.hpp>

#include "words.hpp"

namespace termgate::statements {

enum class TokenType : std::uint8_t {
  word,            // a keyword or an unquoted name
  quoted_name,     // "…"
  unicode_name,    // U&"…": may spell any name
  string,          // '…', also in pieces across lines
  escape_string,   // E'…'
  unicode_string,  // U&'…'
  bit_string,      // B'…', X'…'
  dollar_string,   // $$…$$, $tag$…$tag$
  number,
  parameter,  // $1
  symbol,     // ( ) [ ] , ; : . and PL/pgSQL's ..
  operation,  // a run of operator characters
};

struct Token {
  TokenType type;
  Word word;  // for TokenType::word; otherwise Word::other
  std::uint32_t offset;
  std::uint32_t length;
};

using Tokens = std::span<const Token>;

struct Lexed {
  // `ambiguous`: a string has a backslash, and it is not certain what that means there.
  enum class Problem : std::uint8_t { none, too_long, unterminated, odd, ambiguous };

  std::vector<Token> tokens;  // at most tokens_max
  bool complete = true;       // false: there are more tokens
  bool several = false;       // a `;` is between two other tokens, at any depth
  Problem problem = Problem::none;
  std::size_t first_token = 0;  // where leading white space and comments end
  // Where trailing white space and comments begin; a `;` at the end counts as trailing.
  std::size_t last_token_end = 0;
};

// Replaces the contents of `out`, which may be reused. After a problem, tokens and first_token hold
// what came before it.
void lex(std::string_view sql, const Settings& settings, Lexed& out);

inline std::string_view text_of(std::string_view sql, const Token& token) noexcept {
  return sql.substr(token.offset, token.length);
}

// PostgreSQL's white space up to 15. 16 adds \v, which is `odd` here.
inline bool is_space(char character) noexcept {
  return character == ' ' || character == '\t' || character == '\n' || character == '\r' ||
         character == '\f';
}

// Skips white space and comments from `at`. Returns `sql.size() + 1` if a comment does not end.
// Calls comment(begin, end) for each /*…*/ comment, marks included.
template <class Comment>
std::size_t skip_trivia(std::string_view sql, std::size_t at, Comment comment) {
  for (;;) {
    while (at < sql.size() && is_space(sql[at])) ++at;
    if (sql.substr(at, 2) == "--") {
      while (at < sql.size() && sql[at] != '\n' && sql[at] != '\r') ++at;
      continue;
    }
    if (sql.substr(at, 2) != "/*") return at;
    const std::size_t begin = at;
    at += 2;
    for (std::size_t depth = 1; depth > 0;) {
      if (at + 1 >= sql.size()) return sql.size() + 1;
      if (sql[at] == '*' && sql[at + 1] == '/') {
        --depth;
        at += 2;
      } else if (sql[at] == '/' && sql[at + 1] == '*') {
        ++depth;
        at += 2;
      } else {
        ++at;
      }
    }
    comment(begin, at);
  }
}

}  // namespace termgate::statements
