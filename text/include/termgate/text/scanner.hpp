// Cuts a statement's text into pieces, following its database's rules for quotes, comments and
// words. Good enough for the first words, the parameters and the end of a statement. The proxies
// decide by lexers of their own, which know how the databases' versions and settings differ
// (proxy/statements, proxy/sqlserver).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/text/ascii.hpp>

namespace termgate::text {

enum class Dialect : std::uint8_t { postgresql, sqlserver, sqlite };

struct Token {
  enum class Kind : std::uint8_t {
    blank,      // white space, or one comment
    quoted,     // a string or a quoted name, with its quotes, and with the E of E''
    word,       // a keyword or a name
    parameter,  // $1
    marker,     // ?
    semicolon,
    other,  // a number, or one character
  };
  Kind kind = Kind::other;
  std::string_view text;
  bool ends = true;  // false: a quote or a comment that is still open at the end of the text
};

class Scanner {
 public:
  Scanner(std::string_view sql, Dialect dialect) : rest_(sql), dialect_(dialect) {}

  // False: there are no more tokens.
  bool next(Token& token) {
    using Kind = Token::Kind;
    if (rest_.empty()) return false;
    const char c = rest_.front();
    const std::string_view after = rest_.substr(1);
    if (is_space(c))
      return give(token, Kind::blank, length_while([this](char each) { return is_space(each); }));
    if (rest_.starts_with("--"))
      return give(token, Kind::blank, std::min(rest_.find_first_of(line_ends()), rest_.size()));
    if (rest_.starts_with("/*")) return give(token, Kind::blank, comment());
    if (c == '\'' || c == '"' || (c == '`' && dialect_ == Dialect::sqlite))
      return give(token, Kind::quoted, quoted(0, c, false));
    if (c == '[' && dialect_ != Dialect::postgresql)
      return give(token, Kind::quoted, quoted(0, ']', false));
    if (lower(c) == 'e' && dialect_ == Dialect::postgresql && after.starts_with('\''))
      return give(token, Kind::quoted, quoted(1, '\'', true));
    if (c == '$' && !after.empty() && is_digit(after.front()))
      return give(token, Kind::parameter, 1 + digits(after));
    if (c == '$' && dialect_ == Dialect::postgresql) {
      if (const std::size_t length = dollar_quoted(); length > 0)
        return give(token, Kind::quoted, length);
    }
    if (begins_word(c))
      return give(token, Kind::word, length_while([this](char each) { return in_word(each); }));
    if (is_digit(c))
      return give(token, Kind::other,
                  length_while([this](char each) { return in_word(each) || each == '.'; }));
    return give(token, c == ';' ? Kind::semicolon : c == '?' ? Kind::marker : Kind::other, 1);
  }

  // The text after the last token.
  std::string_view rest() const noexcept { return rest_; }

 private:
  static constexpr std::size_t unended = std::string_view::npos;

  bool is_space(char c) const noexcept {
    return c == ' ' || (c >= '\t' && c <= '\r' && !(c == '\v' && dialect_ == Dialect::sqlite));
  }
  std::string_view line_ends() const noexcept {
    return dialect_ == Dialect::postgresql ? "\n\r" : "\n";
  }
  bool begins_word(char c) const noexcept {
    return is_letter(c) || c == '_' || is_high(c) ||
           (dialect_ == Dialect::sqlserver && (c == '@' || c == '#'));
  }
  bool in_word(char c) const noexcept { return begins_word(c) || is_digit(c) || c == '$'; }

  bool give(Token& token, Token::Kind kind, std::size_t length) {
    token = {kind, rest_.substr(0, length), length != unended};
    rest_.remove_prefix(token.text.size());
    return true;
  }
  template <class Test>
  std::size_t length_while(Test test) const {
    return static_cast<std::size_t>(std::find_if_not(rest_.begin(), rest_.end(), test) -
                                    rest_.begin());
  }
  static std::size_t digits(std::string_view text) {
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) -
                                    text.begin());
  }

  // Comments nest in PostgreSQL and T-SQL, but not in SQLite.
  std::size_t comment() const {
    std::size_t depth = 1;
    for (std::size_t at = 2; at + 1 < rest_.size(); ++at) {
      if (rest_[at] == '*' && rest_[at + 1] == '/') {
        ++at;
        if (--depth == 0 || dialect_ == Dialect::sqlite) return at + 1;
      } else if (rest_[at] == '/' && rest_[at + 1] == '*') {
        ++at;
        ++depth;
      }
    }
    return unended;
  }
  // `open`: the position of the opening quote. A doubled closing quote belongs to the text, except
  // for SQLite's brackets.
  std::size_t quoted(std::size_t open, char end, bool escapes) const {
    const bool doubled = end != ']' || dialect_ != Dialect::sqlite;
    for (std::size_t at = open + 1; at < rest_.size(); ++at) {
      if (escapes && rest_[at] == '\\') ++at;
      else if (rest_[at] == end) {
        if (doubled && at + 1 < rest_.size() && rest_[at + 1] == end) ++at;
        else return at + 1;
      }
    }
    return unended;
  }
  // The length of $tag$ … $tag$, or 0 if the dollar does not begin one.
  std::size_t dollar_quoted() const {
    std::size_t at = 1;
    if (at < rest_.size() && begins_word(rest_[at])) {
      while (at < rest_.size() && (begins_word(rest_[at]) || is_digit(rest_[at]))) ++at;
    }
    if (at >= rest_.size() || rest_[at] != '$') return 0;
    const std::string_view tag = rest_.substr(0, at + 1);
    const auto end = rest_.find(tag, tag.size());
    return end == std::string_view::npos ? unended : end + tag.size();
  }

  std::string_view rest_;
  Dialect dialect_;
};

// The first `most` pieces of the first statement, in small letters, without white space and
// comments. With `words_only` it stops at the first piece that is not a word.
inline std::vector<std::string> first_pieces(std::string_view sql, Dialect dialect,
                                             std::size_t most, bool words_only) {
  std::vector<std::string> pieces;
  Scanner scanner(sql, dialect);
  for (Token token; pieces.size() < most && scanner.next(token);) {
    if (token.kind == Token::Kind::blank ||
        (token.kind == Token::Kind::semicolon && pieces.empty()))
      continue;
    if (token.kind == Token::Kind::semicolon || (words_only && token.kind != Token::Kind::word))
      break;
    pieces.push_back(lower(token.text));
  }
  return pieces;
}

// Whether the text has nothing but white space, comments and semicolons.
inline bool is_nothing(std::string_view sql, Dialect dialect) {
  Scanner scanner(sql, dialect);
  for (Token token; scanner.next(token);)
    if (token.kind != Token::Kind::blank && token.kind != Token::Kind::semicolon) return false;
  return true;
}

}  // namespace termgate::text
