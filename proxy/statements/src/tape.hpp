// The tokens of one statement as they are read from left to right; and simple() and named(), with
// which the reading of many kinds of statements ends.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/statements/classify.hpp>
#include <termgate/text/ascii.hpp>

#include "lexer.hpp"

namespace termgate::statements {

// The text with doubled `quote` characters made single.
inline std::string undoubled(std::string_view text, char quote) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == quote && i + 1 < text.size() && text[i + 1] == quote) ++i;
  }
  return result;
}

// Reads the tokens of one statement from left to right. An unexpected token makes the statement
// unreadable for good.
class Tape {
 public:
  Tape(std::string_view sql, Tokens tokens) noexcept : sql_(sql), tokens_(tokens) {}

  bool at_end() const noexcept { return at_ >= tokens_.size(); }
  std::size_t left() const noexcept { return tokens_.size() - at_; }
  Tokens rest() const noexcept { return tokens_.subspan(std::min(at_, tokens_.size())); }
  Word word(std::size_t ahead = 0) const noexcept {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].word : Word::other;
  }
  bool symbol(char character, std::size_t ahead = 0) const noexcept {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].type == TokenType::symbol &&
           sql_[tokens_[at_ + ahead].offset] == character;
  }
  bool operation(std::string_view text, std::size_t ahead = 0) const noexcept {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].type == TokenType::operation &&
           text_of(sql_, tokens_[at_ + ahead]) == text;
  }
  const Token* peek() const noexcept { return at_end() ? nullptr : &tokens_[at_]; }
  std::string_view text() const noexcept {
    return at_end() ? std::string_view() : text_of(sql_, tokens_[at_]);
  }
  void skip(std::size_t count = 1) noexcept { at_ = std::min(tokens_.size(), at_ + count); }

  bool take(Word wanted) noexcept {
    if (wanted == Word::other || word() != wanted) return false;
    skip();
    return true;
  }
  bool take(std::initializer_list<Word> wanted) noexcept {
    std::size_t ahead = 0;
    for (const Word each : wanted) {
      if (word(ahead++) != each) return false;
    }
    skip(wanted.size());
    return true;
  }
  bool take_any(std::initializer_list<Word> wanted) noexcept {
    for (const Word each : wanted) {
      if (take(each)) return true;
    }
    return false;
  }
  bool take_symbol(char character) noexcept {
    if (!symbol(character)) return false;
    skip();
    return true;
  }

  // A name as the server folds it. nullopt: there is none, or one that cannot be read here (U&"…").
  std::optional<std::string> name() {
    const Token* token = peek();
    if (token == nullptr) return std::nullopt;
    const std::string_view written = text_of(sql_, *token);
    if (token->type == TokenType::word) {
      skip();
      return text::lower(written);
    }
    if (token->type == TokenType::quoted_name) {
      skip();
      return undoubled(written.substr(1, written.size() - 2), '"');
    }
    return std::nullopt;
  }

  // The value of a string constant, if it is the plain text between the quotes.
  std::optional<std::string> string() {
    const Token* token = peek();
    if (token == nullptr) return std::nullopt;
    const std::string_view written = text_of(sql_, *token);
    std::optional<std::string> result;
    if (token->type == TokenType::string && written.front() == '\'') {
      const std::string_view inside = written.substr(1, written.size() - 2);
      // A quote that is not doubled: the string has pieces on several lines.
      for (std::size_t i = 0; i < inside.size(); ++i) {
        if (inside[i] != '\'') continue;
        if (i + 1 >= inside.size() || inside[i + 1] != '\'') return skip(), std::nullopt;
        ++i;
      }
      result = undoubled(inside, '\'');
    } else if (token->type == TokenType::escape_string) {
      const std::string_view inside = written.substr(2, written.size() - 3);
      if (inside.find_first_of("\\'") == std::string_view::npos) result = std::string(inside);
    } else if (token->type == TokenType::dollar_string) {
      const std::size_t mark = written.find('$', 1) + 1;
      result = std::string(written.substr(mark, written.size() - 2 * mark));
    } else if (token->type != TokenType::string && token->type != TokenType::unicode_string) {
      return std::nullopt;
    }
    skip();
    return result;
  }
  bool is_string() const noexcept {
    if (at_end()) return false;
    const TokenType type = tokens_[at_].type;
    return type == TokenType::string || type == TokenType::escape_string ||
           type == TokenType::unicode_string || type == TokenType::dollar_string;
  }

  // Skips a parenthesis with its content.
  bool skip_parenthesis() noexcept {
    if (!symbol('(')) return false;
    std::size_t depth = 0;
    do {
      if (symbol('(')) ++depth;
      if (symbol(')')) --depth;
      skip();
    } while (depth > 0 && !at_end());
    return depth == 0;
  }

 private:
  std::string_view sql_;
  Tokens tokens_;
  std::size_t at_ = 0;
};

// The statement is of that kind, and nothing more is to be read.
inline bool simple(Statement& statement, Kind kind) noexcept {
  statement.kind = kind;
  return true;
}

// The rest of the tape is a name, and the statement is of that kind.
inline bool named(Tape& tape, Statement& statement, Kind kind) {
  auto name = tape.name();
  if (!name || !tape.at_end()) return false;
  statement.name = std::move(*name);
  return simple(statement, kind);
}

}  // namespace termgate::statements
