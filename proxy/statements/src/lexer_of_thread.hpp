// One token buffer for each thread, so that lexing allocates nothing; and the comments around a
// text that is lexed already.
#pragma once

#include <string_view>

#include <termgate/statements/declaration.hpp>

#include "lexer.hpp"

namespace termgate::statements {

// This thread's buffer. Memory that an unusually long text has used is freed first.
inline Lexed& lexer_of_thread() {
  constexpr std::size_t tokens_kept = 4096;
  thread_local Lexed lexed;
  if (lexed.tokens.capacity() > tokens_kept) std::vector<Token>().swap(lexed.tokens);
  return lexed;
}

// Like declared_in_comments(), for tokens that lex() made of `sql`.
void declared_around(Declaration& declaration, std::string_view sql, const Lexed& lexed);

// The comments between two statements, from `begin` to `end` of the text: those before the first
// `;` belong to `former`, the others to `latter`.
void declared_between(Declaration& former, Declaration& latter, std::string_view sql,
                      std::size_t begin, std::size_t end);

}  // namespace termgate::statements
