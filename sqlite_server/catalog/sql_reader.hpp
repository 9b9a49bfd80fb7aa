// Reads the text of a definition that SQLite has parsed already, token by token.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/schema.hpp"

namespace termgate::sqlite_server {

struct SqlToken {
  enum class Kind : std::uint8_t { word, quoted, text, open, close, comma, other } kind;
  std::size_t at, end;
  std::string name;  // of a word in lower case, of a quoted one without its quotes
};

inline bool word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }
inline bool word_part(char c) { return word_start(c) || (c >= '0' && c <= '9') || c == '$'; }

inline std::vector<SqlToken> sql_tokens(std::string_view sql) {
  std::vector<SqlToken> out;
  std::size_t at = 0;
  while (at < sql.size()) {
    const char c = sql[at];
    const std::size_t start = at;
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      ++at;
    } else if (sql.substr(at, 2) == "--") {
      at = std::min(sql.find('\n', at), sql.size());
    } else if (sql.substr(at, 2) == "/*") {
      const auto end = sql.find("*/", at + 2);
      at = end == std::string_view::npos ? sql.size() : end + 2;
    } else if (c == '"' || c == '`' || c == '[' || c == '\'') {
      const char close = c == '[' ? ']' : c;
      std::string name;
      for (++at; at < sql.size(); ++at) {
        if (sql[at] != close) name += sql[at];
        else if (c != '[' && at + 1 < sql.size() && sql[at + 1] == close) name += sql[at++];
        else break;
      }
      at = std::min(at + 1, sql.size());
      out.push_back({c == '\'' ? SqlToken::Kind::text : SqlToken::Kind::quoted, start, at, name});
    } else if (word_start(c)) {
      while (at < sql.size() && word_part(sql[at])) ++at;
      out.push_back({SqlToken::Kind::word, start, at, lower(sql.substr(start, at - start))});
    } else if (c >= '0' && c <= '9') {
      while (at < sql.size() && (word_part(sql[at]) || sql[at] == '.')) ++at;
      out.push_back({SqlToken::Kind::other, start, at, {}});
    } else {
      ++at;
      out.push_back({c == '('   ? SqlToken::Kind::open
                     : c == ')' ? SqlToken::Kind::close
                     : c == ',' ? SqlToken::Kind::comma
                                : SqlToken::Kind::other,
                     start, at, std::string(1, c)});
    }
  }
  return out;
}

class SqlReader {
 public:
  explicit SqlReader(std::string_view sql) : sql_(sql), tokens_(sql_tokens(sql)) {}

  bool done() const { return at_ >= tokens_.size(); }
  const SqlToken& now() const { return tokens_[at_]; }
  bool is(std::string_view word, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == SqlToken::Kind::word && tokens_[at_ + ahead].name == word;
  }
  bool is(SqlToken::Kind kind) const { return !done() && now().kind == kind; }
  void skip(std::size_t count = 1) { at_ += count; }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    skip();
    return true;
  }
  // A name as it was written; of a plain word too, whose case counts for display.
  std::string name() {
    if (done()) return {};
    const SqlToken& token = now();
    skip();
    return token.kind == SqlToken::Kind::word ? std::string(sql_.substr(token.at, token.end - token.at)) : token.name;
  }
  // At "(": what is between it and its ")"; moves past that.
  std::string_view group() {
    if (!is(SqlToken::Kind::open)) return {};
    const std::size_t begin = now().end;
    std::size_t depth = 0, end = begin;
    for (; !done(); skip()) {
      if (is(SqlToken::Kind::open)) ++depth;
      else if (is(SqlToken::Kind::close) && --depth == 0) {
        end = now().at;
        skip();
        break;
      }
    }
    return end < begin ? std::string_view() : sql_.substr(begin, end - begin);
  }
  std::size_t position() const { return done() ? sql_.size() : now().at; }
  std::string_view sql() const { return sql_; }
  // Where the token before ends.
  std::size_t behind() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }

 private:
  std::string_view sql_;
  std::vector<SqlToken> tokens_;
  std::size_t at_ = 0;
};

}  // namespace termgate::sqlite_server
