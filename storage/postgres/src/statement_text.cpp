#include "statement_text.hpp"

#include <algorithm>

namespace termgate::inline v0::detail {
namespace {

bool is_space(char character) { return character == ' ' || (character >= '\t' && character <= '\r'); }
bool is_word(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') || (character >= '0' && character <= '9') || character == '_';
}

// The place behind white space, semicolons and comments that start at `at`.
std::size_t skip_blank(std::string_view sql, std::size_t at) {
  while (at < sql.size()) {
    if (is_space(sql[at]) || sql[at] == ';') {
      ++at;
    } else if (sql.substr(at).starts_with("--")) {
      at = std::min(sql.find('\n', at), sql.size());
    } else if (sql.substr(at).starts_with("/*")) {
      std::size_t depth = 0;
      do {
        const std::string_view rest = sql.substr(at);
        if (rest.starts_with("/*")) ++depth, at += 2;
        else if (rest.starts_with("*/")) --depth, at += 2;
        else ++at;
      } while (depth > 0 && at < sql.size());
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

std::vector<std::string> first_words(std::string_view sql, std::size_t count) {
  std::vector<std::string> words;
  std::size_t at = skip_blank(sql, 0);
  while (words.size() < count && at < sql.size() && is_word(sql[at])) {
    std::string word;
    for (; at < sql.size() && is_word(sql[at]); ++at) word += sql[at] >= 'A' && sql[at] <= 'Z' ? static_cast<char>(sql[at] - 'A' + 'a') : sql[at];
    words.push_back(std::move(word));
    at = skip_blank(sql, at);
  }
  return words;
}

bool is_transaction_control(std::string_view sql) {
  const auto words = first_words(sql, 3);
  if (words.empty()) return false;
  const auto second = words.size() > 1 ? words[1] : std::string();
  const auto third = words.size() > 2 ? words[2] : std::string();
  if (words[0] == "rollback") return !(second == "to" || ((second == "work" || second == "transaction") && third == "to"));
  if (words[0] == "prepare") return second == "transaction";
  for (const char* control : {"begin", "start", "commit", "end", "abort"}) {
    if (words[0] == control) return true;
  }
  return false;
}

}  // namespace termgate::inline v0::detail
