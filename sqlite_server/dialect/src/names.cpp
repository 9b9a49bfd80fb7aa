#include "names.hpp"

#include <algorithm>
#include <iterator>

namespace termgate::dialect {
namespace {

// clang-format off
// sqlite3_keyword_name() of 3.40 and what later ones add; sorted. A word too many costs two quotes.
constexpr std::string_view keywords[] = {
    "abort", "action", "add", "after", "all", "alter", "always", "analyze", "and", "as", "asc", "attach", "autoincrement", "before", "begin", "between", "by", "cascade", "case", "cast", "check", "collate",
    "column", "commit", "conflict", "constraint", "create", "cross", "current", "current_date", "current_time", "current_timestamp", "database", "default", "deferrable", "deferred", "delete", "desc",
    "detach", "distinct", "do", "drop", "each", "else", "end", "escape", "except", "exclude", "exclusive", "exists", "explain", "fail", "false", "filter", "first", "following", "for", "foreign", "from",
    "full", "generated", "glob", "group", "groups", "having", "if", "ignore", "immediate", "in", "index", "indexed", "initially", "inner", "insert", "instead", "intersect", "into", "is", "isnull", "join",
    "key", "last", "left", "like", "limit", "match", "materialized", "natural", "no", "not", "nothing", "notnull", "null", "nulls", "of", "offset", "on", "or", "order", "others", "outer", "over",
    "partition", "plan", "pragma", "preceding", "primary", "query", "raise", "range", "recursive", "references", "regexp", "reindex", "release", "rename", "replace", "restrict", "returning", "right",
    "rollback", "row", "rows", "savepoint", "select", "set", "table", "temp", "temporary", "then", "ties", "to", "transaction", "trigger", "true", "unbounded", "union", "unique", "update", "using",
    "vacuum", "values", "view", "virtual", "when", "where", "window", "with", "within", "without"};
// clang-format on

std::string in_quotes(std::string_view text, char quote) {
  std::string result(1, quote);
  for (const char c : text) {
    result += c;
    if (c == quote) result += c;
  }
  return result += quote;
}

}  // namespace

bool is_sqlite_keyword(std::string_view lower_case) noexcept {
  return std::binary_search(std::begin(keywords), std::end(keywords), lower_case);
}

std::string quoted_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (!name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), plain) && !is_sqlite_keyword(name))
    return std::string(name);
  return in_quotes(name, '"');
}

std::string quoted_text(std::string_view text) { return in_quotes(text, '\''); }

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

}  // namespace termgate::dialect
