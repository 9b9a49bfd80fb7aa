// Two shapes of a statement that a proxy has to know to the letter, read off its tokens.
#pragma once

#include <span>
#include <string_view>

#include <termgate/statements/classify.hpp>

#include "lexer.hpp"

namespace termgate::statements {

// Notes in `statement` whether it is one call of layer 1 and nothing else, and where it says READ WRITE.
void note_shapes(std::string_view sql, std::span<const Token> tokens, Statement& statement);

}  // namespace termgate::statements
