// Which names are calls is decided by the tokens around them: a name in front of a parenthesis is
// one, unless it is a word of the grammar there.
#include "calls.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

#include "functions.hpp"

namespace termgate::statements {
namespace {

// In set_config_at: the call names its schema.
constexpr std::size_t npos = static_cast<std::size_t>(-1);

}  // namespace

void CallReader::read(Tokens tokens, Statement& statement) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].type == TokenType::operation &&
        !(settings_.own_names_first && is_everyday_operator(text_of(sql_, tokens[i]))))
      statement.calls_functions = statement.calls_unknown = true;
    if (i >= 2 && tokens[i].type != TokenType::symbol && is_symbol(tokens[i - 1], ':') &&
        is_symbol(tokens[i - 2], ':') && !is_everyday_type(tokens.subspan(i))) {
      statement.calls_functions = statement.calls_unknown = true;
    }
    if (i > 0 && tokens[i].type >= TokenType::string &&
        tokens[i].type <= TokenType::dollar_string && names_unknown_type(tokens.first(i)))
      statement.calls_functions = statement.calls_unknown = true;
    // (4712).lo_create calls lo_create(4712): a name after a dot may be a function's as well as a
    // column's.
    if (i > 0 && is_symbol(tokens[i - 1], '.') &&
        (tokens[i].type == TokenType::word || tokens[i].type == TokenType::quoted_name)) {
      const std::string_view written = text_of(sql_, tokens[i]);
      if (is_read_only_hole(tokens[i].type == TokenType::word
                                ? text::lower(written)
                                : undoubled(written.substr(1, written.size() - 2), '"')))
        statement.calls_functions = statement.read_only_hole = true;
    }
    if (i + 1 == tokens.size()) break;
    if (!is_symbol(tokens[i + 1], '(')) continue;
    const Token& token = tokens[i];
    if (token.type != TokenType::word && token.type != TokenType::quoted_name &&
        token.type != TokenType::unicode_name) {
      // U&"…" UESCAPE '…' (
      if (token.type == TokenType::string && i > 0 && tokens[i - 1].type == TokenType::word &&
          text::lower(text_of(sql_, tokens[i - 1])) == "uescape")
        statement.calls_functions = statement.read_only_hole = true;
      continue;
    }
    const std::string_view written = text_of(sql_, token);
    if (token.type == TokenType::unicode_name ||
        (token.type == TokenType::word && text::has_high(written))) {
      // It may spell any name: by escapes, or because a single-byte locale folds a letter into
      // ASCII.
      statement.calls_functions = statement.read_only_hole = true;
      continue;
    }
    const std::string name = token.type == TokenType::word
                                 ? text::lower(written)
                                 : undoubled(written.substr(1, written.size() - 2), '"');
    if (token.type == TokenType::word && name == "cast" &&
        !casts_to_everyday_type(tokens.subspan(i + 1)))
      statement.calls_functions = statement.calls_unknown = true;
    const bool qualified = i > 0 && is_symbol(tokens[i - 1], '.');
    const bool own =
        !qualified || (i > 1 && Tape(sql_, tokens.subspan(i - 2)).name() == "pg_catalog");
    if (token.type == TokenType::word && !qualified &&
        (is_never_a_name(name) || is_grammar_here(tokens, i, name)))
      continue;
    statement.calls_functions = true;
    if (name == "set_config") {
      if (set_config(Tape(sql_, tokens.subspan(i + 1)), statement) && own) {
        statement.set_config_at.push_back(qualified ? npos : token.offset);
        continue;
      }
    }
    const bool of_layer1 =
        qualified && i > 1 && Tape(sql_, tokens.subspan(i - 2)).name() == settings_.schema;
    if (!(of_layer1 && is_termgate_read(name)) &&
        !(own && settings_.own_names_first && is_everyday(name)))
      statement.calls_unknown = true;
    if (is_read_only_hole(name)) statement.read_only_hole = true;
    if (of_layer1 && is_termgate_write(name)) statement.calls_termgate = true;
  }
}

void CallReader::read_write(Tokens tokens, Statement& statement) const {
  std::size_t from = 0;
  for (std::size_t i = 0; i < tokens.size() && i < 8; ++i) {
    if (tokens[i].word != Word::into) continue;
    from = i + 2;
    if (from < tokens.size() && Tape(sql_, tokens.subspan(from)).symbol('.')) from += 2;
    break;
  }
  Statement calls;
  read(tokens.subspan(std::min(from, tokens.size())), calls);
  statement.calls_functions = calls.calls_functions;
  statement.calls_unknown = calls.calls_unknown;
  statement.declares = calls.declares;
  statement.sets_read_only = calls.sets_read_only;
  statement.changes_lexing = calls.changes_lexing;
}

// Whether the tokens are the name of a common built-in type: one word, perhaps after
// `pg_catalog.`.
bool CallReader::is_everyday_type(Tokens tokens) const {
  Tape tape(sql_, tokens);
  auto name = tape.name();
  if (name == "pg_catalog" && tape.take_symbol('.')) return true;
  return name && !tape.symbol('.') && is_everyday_word(*name);
}

bool CallReader::is_everyday_word(std::string_view word) const noexcept {
  return statements::is_everyday_type(word) && (settings_.own_names_first || is_never_a_name(word));
}

// Whether the tokens end in a type name right before a string: app.dom 'x' is a constant of that
// type, as DATE '…' is.
bool CallReader::names_unknown_type(Tokens tokens) const {
  const Token& last = tokens.back();
  if (last.type == TokenType::quoted_name || last.type == TokenType::unicode_name) return true;
  if (last.type != TokenType::word) return false;
  if (tokens.size() > 1 && is_symbol(tokens[tokens.size() - 2], '.'))
    return !is_everyday_type(tokens.last(std::min<std::size_t>(tokens.size(), 3)));
  const std::string word = text::lower(text_of(sql_, last));
  return !stands_before_a_constant(word) && !is_everyday_word(word) &&
         !is_grammar_here(tokens, tokens.size() - 1, word);
}

// Whether the word at `at`, which may also be the name of a function or type, is a keyword here.
bool CallReader::is_grammar_here(Tokens tokens, std::size_t at, std::string_view word) const {
  const auto before = [&](std::initializer_list<std::string_view> words, std::size_t far = 1) {
    if (at < far || tokens[at - far].type != TokenType::word) return false;
    const std::string there = text::lower(text_of(sql_, tokens[at - far]));
    return std::find(words.begin(), words.end(), there) != words.end();
  };
  // After an operand the word is an operator, because two operands do not follow each other.
  const auto behind_operand = [&](std::size_t far) {
    if (at < far) return false;
    const Token& token = tokens[at - far];
    switch (token.type) {
      case TokenType::symbol: return sql_[token.offset] == ')' || sql_[token.offset] == ']';
      case TokenType::operation: return false;
      case TokenType::word: break;
      default: return true;
    }
    const bool behind_point = at > far && is_symbol(tokens[at - far - 1], '.');
    return behind_point || !may_begin_expression(text::lower(text_of(sql_, token)));
  };
  if (word == "by") return before({"group", "order", "partition"});
  if (word == "over" || word == "filter") return at > 0 && is_symbol(tokens[at - 1], ')');
  if (word == "sets") return before({"grouping"});
  if (word == "materialized") return before({"as"}) || (before({"not"}) && before({"as"}, 2));
  if (word == "varying") return before({"bit", "char", "character", "nchar"});
  if (word == "zone") return before({"time"});
  if (word == "explain") return at == 0;
  if (word == "escape") return behind_operand(1);
  if (word == "uescape")
    return at > 0 && (tokens[at - 1].type == TokenType::unicode_name ||
                      tokens[at - 1].type == TokenType::unicode_string);
  if (word == "like" || word == "ilike")
    return behind_operand(1) || (before({"not"}) && behind_operand(2));
  if (word == "join")
    return behind_operand(1) ||
           before({"cross", "full", "inner", "left", "natural", "outer", "right"});
  return false;
}

// From the parenthesis of a CAST on: whether the type after its own AS is a common built-in one.
bool CallReader::casts_to_everyday_type(Tokens tokens) const {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const char symbol = tokens[i].type == TokenType::symbol ? sql_[tokens[i].offset] : '\0';
    if (symbol == '(') ++depth;
    if (symbol == ')' && --depth == 0) return false;
    if (depth == 1 && tokens[i].type == TokenType::word &&
        text::lower(text_of(sql_, tokens[i])) == "as")
      return is_everyday_type(tokens.subspan(i + 1));
  }
  return false;
}

void CallReader::exactly_declares(Tokens tokens, Statement& statement) const {
  Tape tape(sql_, tokens);
  if (!tape.take(Word::select)) return;
  bool types = false;
  const auto cast = [&] {
    while (tape.symbol(':') && tape.symbol(':', 1)) {
      tape.skip(2);
      const auto type = tape.name();
      if (type != "text" && type != "varchar" && type != "bool" && type != "boolean") return false;
      types = true;
    }
    return true;
  };
  const auto value = [&] {
    const Token* token = tape.peek();
    if (token == nullptr) return false;
    if (token->type != TokenType::parameter && token->type != TokenType::string &&
        token->type != TokenType::escape_string && token->type != TokenType::dollar_string)
      return false;
    tape.skip();
    return cast();
  };
  do {
    auto name = tape.name();
    if (name == "pg_catalog" && tape.take_symbol('.')) name = tape.name();
    if (name != "set_config" || !tape.take_symbol('(')) return;
    const auto setting = tape.string();
    if (!setting || !is_declared_setting(*setting) || !cast() || !tape.take_symbol(',') ||
        !value() || !tape.take_symbol(','))
      return;
    if (!tape.take_any({Word::true_, Word::false_}) && !value()) return;
    if (!cast() || !tape.take_symbol(')')) return;
    if (tape.take(Word::as) && !tape.name()) return;
  } while (tape.take_symbol(','));
  if (!tape.at_end()) return;
  statement.exactly_declares = !types;
}

// set_config('name', 'value', …) is a hole unless the name is a literal that does not matter
// here. True: the name is scope or term, and the call itself is not a hole.
bool CallReader::set_config(Tape tape, Statement& statement) {
  tape.skip();
  const auto setting = tape.string();
  if (!setting || !tape.take_symbol(',')) {
    statement.read_only_hole = statement.sets_read_only = statement.changes_lexing =
        statement.declares = true;
    return false;
  }
  const std::string name = text::lower(*setting);
  statement.sets_read_only = statement.sets_read_only || sets_read_only(name);
  statement.changes_lexing = statement.changes_lexing || changes_lexing(name);
  if (sets_read_only(name) || changes_lexing(name)) statement.read_only_hole = true;
  if (!is_declared_setting(name)) return false;
  statement.declares = true;
  statement.name = name;
  statement.value = tape.string();
  if (!tape.symbol(',')) statement.value.reset();
  return true;
}

void CallReader::read_definition(Tokens tokens, Statement& statement) const {
  Statement calls;
  read(tokens, calls);
  statement.calls_unknown = calls.calls_functions;
  statement.declares = calls.declares;
}

}  // namespace termgate::statements
