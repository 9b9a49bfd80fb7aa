// What the expressions of a statement call: functions by name, and by operators and casts.
#pragma once

#include <cstddef>
#include <string_view>

#include <termgate/statements/classify.hpp>
#include <termgate/statements/settings.hpp>

#include "lexer.hpp"
#include "tape.hpp"

namespace termgate::statements {

// Reads the tokens of expressions wherever they are in a statement, and adds to the statement's
// flags. It keeps nothing between two calls. The text and the settings are the caller's and must
// outlive it; a Classifier owns it, on its thread.
class CallReader {
 public:
  CallReader(std::string_view sql, const Settings& settings) noexcept
      : sql_(sql), settings_(settings) {}

  // Records every name before a `(`; a qualified one counts by its last part. Also records what
  // calls functions without naming one: casts to types, and operators, that are not the server's
  // own.
  void read(Tokens tokens, Statement& statement) const;
  // The calls in INSERT, UPDATE, DELETE and MERGE. A name after INTO that is followed by a list of
  // columns is not a call.
  void read_write(Tokens tokens, Statement& statement) const;
  // Definitions run expressions of the client's and of others: indexes, defaults, checks, CREATE
  // TABLE AS.
  void read_definition(Tokens tokens, Statement& statement) const;
  // Sets Statement::exactly_declares for a text such as SELECT set_config('termgate.scope',
  // 'orders', true), set_config('termgate.term', $1, true).
  void exactly_declares(Tokens tokens, Statement& statement) const;
  // Whether the word certainly means a type of the server's own. Unless own_names_first is set,
  // search_path may find another one first, so only words of the grammar are certain.
  bool is_everyday_word(std::string_view word) const noexcept;

 private:
  static bool set_config(Tape tape, Statement& statement);
  bool is_symbol(const Token& token, char symbol) const noexcept {
    return token.type == TokenType::symbol && sql_[token.offset] == symbol;
  }
  bool is_everyday_type(Tokens tokens) const;
  bool names_unknown_type(Tokens tokens) const;
  bool is_grammar_here(Tokens tokens, std::size_t at, std::string_view word) const;
  bool casts_to_everyday_type(Tokens tokens) const;

  std::string_view sql_;
  const Settings& settings_;
};

}  // namespace termgate::statements
