// Looks at the text of a user's statement just far enough to refuse transaction control and to count
// parameters. It is no parser: the extended protocol takes one statement only, so what follows a semicolon is
// the server's error.
#include "statement_text.hpp"

#include <algorithm>

namespace termgate::inline v0::detail {
namespace {

bool is_space(char character) { return character == ' ' || (character >= '\t' && character <= '\r'); }
bool is_word(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') || (character >= '0' && character <= '9') ||
         character == '_';
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
    for (; at < sql.size() && is_word(sql[at]); ++at)
      word += sql[at] >= 'A' && sql[at] <= 'Z' ? static_cast<char>(sql[at] - 'A' + 'a') : sql[at];
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
  // ROLLBACK TO SAVEPOINT stays inside the transaction.
  if (words[0] == "rollback") return !(second == "to" || ((second == "work" || second == "transaction") && third == "to"));
  if (words[0] == "prepare") return second == "transaction";
  for (const char* control : {"begin", "start", "commit", "end", "abort"}) {
    if (words[0] == control) return true;
  }
  return false;
}

std::size_t highest_parameter(std::string_view sql) {
  std::size_t highest = 0;
  for (std::size_t at = 0; at < sql.size();) {
    const std::string_view rest = sql.substr(at);
    const bool after_word = at > 0 && (is_word(sql[at - 1]) || static_cast<unsigned char>(sql[at - 1]) >= 0x80 || sql[at - 1] == '$');
    if (rest[0] == '\'' || rest[0] == '"') {
      // Only an E'' string takes a backslash as an escape.
      const bool escapes = rest[0] == '\'' && at > 0 && (sql[at - 1] == 'e' || sql[at - 1] == 'E') && (at < 2 || !is_word(sql[at - 2]));
      for (++at; at < sql.size() && sql[at] != rest[0]; ++at) {
        if (escapes && sql[at] == '\\') ++at;
      }
      ++at;  // a doubled quote begins the next one
    } else if (rest.starts_with("--") || rest.starts_with("/*")) {
      at = skip_blank(sql, at);
    } else if (rest[0] == '$' && !after_word && rest.size() > 1 && rest[1] >= '0' && rest[1] <= '9') {
      std::size_t number = 0;
      for (++at; at < sql.size() && sql[at] >= '0' && sql[at] <= '9'; ++at)
        number = std::min<std::size_t>(number * 10 + static_cast<std::size_t>(sql[at] - '0'), 100'000);
      highest = std::max(highest, number);
    } else if (rest[0] == '$' && !after_word) {
      std::size_t end = at + 1;
      while (end < sql.size() && (is_word(sql[end]) || static_cast<unsigned char>(sql[end]) >= 0x80)) ++end;
      if (end < sql.size() && sql[end] == '$') {
        const std::string_view tag = sql.substr(at, end + 1 - at);
        const auto close = sql.find(tag, end + 1);
        at = close == std::string_view::npos ? sql.size() : close + tag.size();
      } else {
        ++at;
      }
    } else {
      ++at;
    }
  }
  return highest;
}

}  // namespace termgate::inline v0::detail
