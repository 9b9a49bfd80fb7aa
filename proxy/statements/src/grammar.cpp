// libpg_query's parse, parse_protobuf and deparse walk the tree recursively and overflow a 2 MB
// stack on 18 kB of 1+1+1…. split_with_parser does not: measured with 100,000 operators, prefixes,
// brackets, joins and set operations on a stack of 256 kB. For a text that is nested too deeply,
// the grammar's own stack reports "memory exhausted", an ordinary error. Its state is per thread.
#include "grammar.hpp"

#include <string>

#include <pg_query.h>

namespace termgate::statements {

bool split_by_grammar(std::string_view sql, std::vector<Range>& out) {
  out.clear();
  const std::string text(sql);
  struct Result {
    PgQuerySplitResult held;
    ~Result() { pg_query_free_split_result(held); }
  } result{pg_query_split_with_parser(text.c_str())};
  if (result.held.error != nullptr) return false;
  for (int i = 0; i < result.held.n_stmts; ++i) {
    const auto begin = static_cast<std::size_t>(result.held.stmts[i]->stmt_location);
    const auto length = static_cast<std::size_t>(result.held.stmts[i]->stmt_len);
    if (begin > sql.size() || length > sql.size() - begin) return false;
    out.push_back({begin, begin + length});
  }
  return true;
}

}  // namespace termgate::statements
