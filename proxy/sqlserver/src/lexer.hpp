// The words of a T-SQL text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/text/ascii.hpp>

namespace termgate::tds_session {

inline constexpr std::size_t tokens_max = 2000;

using text::is_digit;
using text::lower;

inline bool begins_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '@' || c == '#';
}
inline bool in_word(char c) noexcept { return begins_word(c) || is_digit(c) || c == '$'; }

template <class List>
bool contains(const List& list, std::string_view word) noexcept {
  return std::find(list.begin(), list.end(), word) != list.end();
}

struct Token {
  enum class Kind : std::uint8_t { word, name, string, either, number, sign, strange };
  Kind kind = Kind::strange;
  // A word or number in lower case; a sign; or, without its quotes, a name, a string, or what is
  // one of these two depending on QUOTED_IDENTIFIER (`either`).
  std::string text;
};

// Splits a text into tokens as SQL Server does. Where a token may begin or end in two ways, it
// becomes `strange`, which no statement of the allow-list contains.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    while (skip_blanks() && tokens.size() < tokens_max) {
      tokens.push_back(one());
      if (tokens.back().kind == Token::Kind::strange) return tokens;
    }
    if (tokens.size() >= tokens_max) tokens.push_back({});
    return tokens;
  }

 private:
  bool at(std::string_view what) const noexcept { return text_.substr(at_).starts_with(what); }

  // False: the text has ended.
  bool skip_blanks() {
    for (;;) {
      if (at_ >= text_.size()) return false;
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || (c == '\r' && at("\r\n"))) {
        ++at_;
      } else if (at("--")) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        // Whether other characters end the line is not documented.
        const std::string_view line = text_.substr(at_, end - at_);
        const std::size_t odd = line.find_first_of("\r\v\f");
        if (odd != std::string_view::npos && !(odd + 1 == line.size() && end < text_.size()))
          return true;
        if (std::any_of(line.begin(), line.end(),
                        [](char one) { return static_cast<unsigned char>(one) >= 0x80; }))
          return true;
        at_ = end;
      } else if (at("/*")) {
        if (!skip_comment()) return true;
      } else {
        return true;
      }
    }
  }

  bool skip_comment() {
    int depth = 0;
    std::size_t here = at_;
    do {
      if (text_.substr(here).starts_with("/*")) {
        ++depth;
        here += 2;
      } else if (text_.substr(here).starts_with("*/")) {
        --depth;
        here += 2;
      } else if (++here >= text_.size()) {
        return false;
      }
    } while (depth > 0);
    at_ = here;
    return true;
  }

  Token one() {
    const char c = text_[at_];
    if (at("--") || at("/*")) return {};
    if ((c == 'N' || c == 'n') && at_ + 1 < text_.size() && text_[at_ + 1] == '\'') {
      ++at_;
      return quoted('\'', Token::Kind::string);
    }
    if (c == '\'') return quoted('\'', Token::Kind::string);
    if (c == '[') return quoted(']', Token::Kind::name);
    if (begins_word(c)) return run(Token::Kind::word, in_word);
    if (is_digit(c)) return number();
    if (c == '"') return quoted('"', Token::Kind::either);
    if (std::string_view(",;=.()-+*<>/%&|^~!").find(c) != std::string_view::npos) {
      ++at_;
      return {Token::Kind::sign, std::string(1, c)};
    }
    return {};
  }

  // SQL Server ends a number at the first character that cannot belong to it and continues: 0EXEC
  // is a number and a word. Here a number directly before a word, a dot or a non-ASCII character is
  // `strange`.
  Token number() {
    const std::size_t begin = at_;
    const auto digits = [&](auto in) {
      while (at_ < text_.size() && in(text_[at_])) ++at_;
    };
    if (at("0x") || at("0X")) {
      at_ += 2;
      digits([](char one) { return is_digit(one) || (lower(one) >= 'a' && lower(one) <= 'f'); });
    } else {
      digits(is_digit);
      if (at(".")) {
        ++at_;
        digits(is_digit);
      }
      if (at("e") || at("E")) {
        ++at_;
        if (at("+") || at("-")) ++at_;
        const std::size_t before = at_;
        digits(is_digit);
        if (at_ == before) return {};
      }
    }
    const bool ends = at_ >= text_.size() || (!in_word(text_[at_]) && text_[at_] != '.' &&
                                              static_cast<unsigned char>(text_[at_]) < 0x80);
    if (!ends) return {};
    return {Token::Kind::number, lower(text_.substr(begin, at_ - begin))};
  }

  template <class In>
  Token run(Token::Kind kind, In in) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in(text_[at_])) ++at_;
    // A non-ASCII letter would be part of the word.
    if (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x80) return {};
    return {kind, lower(text_.substr(begin, at_ - begin))};
  }

  Token quoted(char close, Token::Kind kind) {
    Token token{kind, {}};
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size() &&
          (text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r'))
        return {};
      if (text_[at_] == close) {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == close) {
          ++at_;
        } else {
          ++at_;
          return token;
        }
      }
      token.text += text_[at_];
    }
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace termgate::tds_session
