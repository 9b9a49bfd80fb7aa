// Recognizes a few complete statements by their tokens. A match allows something (a call of layer 1
// runs without the proxy's check), so anything unexpected means no match.
#include "shapes.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <termgate/text/ascii.hpp>

namespace termgate::statements {
namespace {

// Types whose names are words of the grammar: unquoted, such a word never means a user's type.
bool is_grammars_type(std::string_view word) noexcept {
  static constexpr std::array<std::string_view, 12> all{
      "bigint",  "boolean",  "char",    "character", "decimal",   "int",
      "integer", "interval", "numeric", "smallint",  "timestamp", "varchar"};
  return std::find(all.begin(), all.end(), word) != all.end();
}

// Parses SELECT [* FROM] schema.function(literals and parameters) from left to right. Anything else
// in the statement would run without a check, so an unexpected token ends the parsing. The caller
// checks that the schema is layer 1's.
class LoneCallReader {
 public:
  LoneCallReader(std::string_view sql, Tokens tokens) noexcept : sql_(sql), tokens_(tokens) {}

  LoneCall read() {
    if (!only_space_between() || !word("select")) return {};
    if (operation("*") && !word("from")) return {};
    bool quoted = false;
    if (name(quoted).empty() || !symbol('.')) return {};
    std::string function = name(quoted);
    if (function.empty() || !symbol('(')) return {};
    while (!symbol(')')) {
      if (!argument()) return {};
    }
    if (at_ != tokens_.size()) return {};
    call_.function = std::move(function);
    return std::move(call_);
  }

 private:
  // A comment may declare a term, and a lone call must not declare.
  bool only_space_between() const noexcept {
    for (std::size_t i = 1; i < tokens_.size(); ++i) {
      const std::size_t end = tokens_[i - 1].offset + tokens_[i - 1].length;
      const std::string_view gap = sql_.substr(end, tokens_[i].offset - end);
      if (!std::all_of(gap.begin(), gap.end(), is_space)) return false;
    }
    return true;
  }

  const Token* peek(TokenType type) const noexcept {
    return at_ < tokens_.size() && tokens_[at_].type == type ? &tokens_[at_] : nullptr;
  }
  std::string_view text(const Token& token) const noexcept { return text_of(sql_, token); }

  bool take(TokenType type) noexcept {
    if (peek(type) == nullptr) return false;
    ++at_;
    return true;
  }
  bool symbol(char character) noexcept {
    const Token* token = peek(TokenType::symbol);
    return token != nullptr && sql_[token->offset] == character && token->length == 1 &&
           take(TokenType::symbol);
  }
  bool operation(std::string_view operation) noexcept {
    const Token* token = peek(TokenType::operation);
    return token != nullptr && text(*token) == operation && take(TokenType::operation);
  }

  // A name as the server reads it. Empty: there is none, or one that this reader does not accept.
  std::string name(bool& quoted) {
    const Token* token = peek(TokenType::quoted_name);
    quoted = token != nullptr;
    if (token == nullptr) token = peek(TokenType::word);
    if (token == nullptr) return {};
    ++at_;
    std::string result(text(*token));
    if (quoted)
      return result.find('"', 1) == result.size() - 1 ? result.substr(1, result.size() - 2)
                                                      : std::string();
    for (char& character : result) character = text::lower(character);
    return result;
  }
  bool word(std::string_view wanted) {
    bool quoted = false;
    return name(quoted) == wanted && !quoted;
  }

  // A string without backslashes, so that its value depends on no setting.
  bool string() noexcept {
    const Token* token = peek(TokenType::string);
    return token != nullptr && sql_[token->offset] == '\'' &&
           text(*token).find('\\') == std::string_view::npos && take(TokenType::string);
  }

  // Takes one step inside the parentheses: a literal, a parameter, a comma, a cast, the mark of a
  // named argument, or a word such as NULL.
  bool argument() {
    if (string() || take(TokenType::parameter) || take(TokenType::number) || symbol(',') ||
        operation("=>"))
      return true;
    if (operation("-")) return take(TokenType::number);
    if (symbol(':')) {
      if (operation("=")) return true;
      return symbol(':') && cast();
    }
    bool quoted = false;
    const std::string given = name(quoted);
    if (given.empty()) return false;
    // In front of a string a name is its type, as in DATE '…'.
    return peek(TokenType::string) == nullptr || (!quoted && is_grammars_type(given));
  }

  bool cast() {
    bool quoted = false;
    const std::string type = name(quoted);
    if (type.empty()) return false;
    call_.casts = true;
    if (quoted || !is_grammars_type(type)) call_.runs_casts = true;
    return true;
  }

  std::string_view sql_;
  Tokens tokens_;
  std::size_t at_ = 0;
  LoneCall call_;
};

bool is_string(TokenType type) noexcept {
  return type == TokenType::string || type == TokenType::escape_string ||
         type == TokenType::unicode_string || type == TokenType::bit_string ||
         type == TokenType::dollar_string;
}

bool is_bare_begin(Tokens tokens) noexcept {
  if (tokens.empty() || tokens.size() > 2) return false;
  const Word second = tokens.back().word;
  if (tokens.front().word == Word::start) return tokens.size() == 2 && second == Word::transaction;
  return tokens.front().word == Word::begin &&
         (tokens.size() == 1 || second == Word::work || second == Word::transaction);
}

// A WITH that writes, in one of its queries or in the last one: the server runs that to its end
// before it describes the rows. FOR UPDATE and columns of these names are no writes.
bool writes_with(std::string_view sql, Tokens tokens) noexcept {
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    const Word before = tokens[i - 1].word, word = tokens[i].word, next = tokens[i + 1].word;
    const char ahead = tokens[i - 1].type == TokenType::symbol ? sql[tokens[i - 1].offset] : '\0';
    if (before == Word::select || before == Word::for_ || before == Word::key || ahead == ',' ||
        ahead == '.')
      continue;
    const bool writes =
        ((word == Word::insert || word == Word::merge) && next == Word::into) ||
        (word == Word::delete_ && next == Word::from) ||
        (word == Word::update && next != Word::from && tokens[i + 1].type != TokenType::symbol);
    if (writes) return true;
  }
  return false;
}

}  // namespace

bool describes_first(std::string_view sql, Tokens tokens) noexcept {
  const auto first = std::find_if(tokens.begin(), tokens.end(), [&](const Token& one) {
    return one.type != TokenType::symbol || sql[one.offset] != '(';
  });
  if (first == tokens.end()) return false;
  const Word word = first->word;
  if (word == Word::with) return !writes_with(sql, tokens);
  return word == Word::select || word == Word::values || word == Word::table || word == Word::show;
}

void note_shapes(std::string_view sql, Tokens tokens, Statement& statement) {
  const auto has = [&](auto is) { return std::any_of(tokens.begin(), tokens.end(), is); };
  statement.parameters = has([](const Token& one) { return one.type == TokenType::parameter; });
  statement.literals = has([](const Token& one) { return is_string(one.type); });
  statement.names_tables =
      has([](const Token& one) { return one.word == Word::from || one.word == Word::table; });
  statement.bare_begin = is_bare_begin(tokens);
  statement.describes_first = describes_first(sql, tokens);
  if (statement.calls_termgate && statement.kind == Kind::write)
    statement.lone_call = LoneCallReader(sql, tokens).read();
  if (statement.access != Access::read_write) return;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i - 1].word == Word::read && tokens[i].word == Word::write)
      statement.write_words.push_back(tokens[i].offset);
  }
}

}  // namespace termgate::statements
