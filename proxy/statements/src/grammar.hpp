// PostgreSQL's own grammar (libpg_query, that of major 15), asked for nothing but where statements begin and end: the one
// entry that keeps no tree, and so survives any depth on a small stack (docs in grammar.cpp).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace termgate::statements {

struct Range {
  std::size_t begin;
  std::size_t end;
};

// False where the grammar refuses the text. The text holds no NUL; standard_conforming_strings is on, or no string of it has a
// backslash. Any thread.
bool split_by_grammar(std::string_view sql, std::vector<Range>& out);

}  // namespace termgate::statements
