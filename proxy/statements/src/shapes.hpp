// What the proxy must know of a statement exactly, found by its tokens.
#pragma once

#include <span>
#include <string_view>

#include <termgate/statements/classify.hpp>

#include "lexer.hpp"

namespace termgate::statements {

// Records in `statement` whether it is only a call of layer 1, where its READ WRITE is, and what
// its tokens show (parameters, literals, names_tables, bare_begin, describes_first).
void note_shapes(std::string_view sql, std::span<const Token> tokens, Statement& statement);

// Statement::describes_first.
bool describes_first(std::string_view sql, std::span<const Token> tokens) noexcept;

}  // namespace termgate::statements
