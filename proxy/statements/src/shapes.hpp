// Two kinds of statement that a proxy has to recognize exactly, by their tokens.
#pragma once

#include <span>
#include <string_view>

#include <termgate/statements/classify.hpp>

#include "lexer.hpp"

namespace termgate::statements {

// Records in `statement` whether it is only a call of layer 1, and where its READ WRITE is.
void note_shapes(std::string_view sql, std::span<const Token> tokens, Statement& statement);

}  // namespace termgate::statements
