// PostgreSQL's own grammar (libpg_query, version 15), used only to find where statements begin and
// end, by a function that does not walk the tree. So any depth is safe on a small stack
// (grammar.cpp).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace termgate::statements {

struct Range {
  std::size_t begin;
  std::size_t end;
};

// False if the grammar refuses the text. The text must not contain a NUL; and
// standard_conforming_strings must be on, or no string may contain a backslash. Any thread.
bool split_by_grammar(std::string_view sql, std::vector<Range>& out);

}  // namespace termgate::statements
