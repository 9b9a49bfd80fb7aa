// Statements about transactions and settings have no expressions, so the tokens alone decide.
#include "control.hpp"

#include <string_view>
#include <utility>

#include <termgate/text/ascii.hpp>

#include "functions.hpp"

namespace termgate::statements {

// --- transactions

bool ControlReader::modes() noexcept {
  bool first = true;
  while (!tape_.at_end()) {
    if (!first) tape_.take_symbol(',');
    first = false;
    if (tape_.take({Word::isolation, Word::level})) {
      if (tape_.take(Word::serializable)) {
        statement_.isolation = Isolation::serializable;
      } else if (tape_.take({Word::repeatable, Word::read})) {
        statement_.isolation = Isolation::repeatable_read;
      } else if (tape_.take({Word::read, Word::committed})) {
        statement_.isolation = Isolation::read_committed;
      } else if (tape_.take({Word::read, Word::uncommitted})) {
        statement_.isolation = Isolation::read_uncommitted;
      } else {
        return false;
      }
    } else if (tape_.take({Word::read, Word::only})) {
      statement_.access = Access::read_only;
    } else if (tape_.take({Word::read, Word::write})) {
      statement_.access = Access::read_write;
      statement_.sets_read_only = true;  // even if a later mode reverses it
    } else if (!tape_.take(Word::deferrable) && !tape_.take({Word::not_, Word::deferrable})) {
      return false;
    }
  }
  return true;
}

bool ControlReader::begin() noexcept {
  if (tape_.take(Word::start)) {
    if (!tape_.take(Word::transaction)) return false;
  } else {
    tape_.skip();
    tape_.take_any({Word::work, Word::transaction});
  }
  return modes() && simple(statement_, Kind::begin);
}

bool ControlReader::chain(Kind kind) noexcept {
  tape_.take_any({Word::work, Word::transaction});
  if (tape_.take({Word::and_, Word::chain})) {
    statement_.and_chain = true;
  } else {
    tape_.take({Word::and_, Word::no, Word::chain});
  }
  statement_.might_end_transaction = true;
  return tape_.at_end() && simple(statement_, kind);
}

bool ControlReader::gid(Kind kind) {
  if (!tape_.is_string()) return false;
  if (auto name = tape_.string()) statement_.name = std::move(*name);
  return tape_.at_end() && simple(statement_, kind);
}

bool ControlReader::commit() {
  if (tape_.take({Word::commit, Word::prepared})) return gid(Kind::commit_prepared);
  tape_.skip();
  return chain(Kind::commit);
}

bool ControlReader::rollback() {
  if (tape_.take({Word::rollback, Word::prepared})) return gid(Kind::rollback_prepared);
  const bool may_go_to = tape_.take(Word::rollback);
  if (!may_go_to) tape_.skip();
  if (may_go_to) {
    Tape to = tape_;
    to.take_any({Word::work, Word::transaction});
    if (to.take(Word::to)) {
      if (to.left() > 1) to.take(Word::savepoint);
      return named(to, statement_, Kind::rollback_to);
    }
  }
  return chain(Kind::rollback);
}

bool ControlReader::savepoint() {
  tape_.skip();
  return named(tape_, statement_, Kind::savepoint);
}

bool ControlReader::release() {
  tape_.skip();
  if (tape_.left() > 1) tape_.take(Word::savepoint);
  return named(tape_, statement_, Kind::release);
}

bool ControlReader::prepare_transaction() {
  tape_.skip();
  statement_.might_end_transaction = true;
  return gid(Kind::prepare_transaction);
}

// --- settings

void ControlReader::about() noexcept {
  statement_.sets_read_only = statement_.sets_read_only || sets_read_only(statement_.name);
  statement_.changes_lexing = statement_.changes_lexing || changes_lexing(statement_.name);
}

// Reads name {. name}, folded to lower case, as settings are compared. Empty: there is none that
// can be read.
std::string ControlReader::setting_name() {
  std::string result;
  do {
    const auto part = tape_.name();
    if (!part) return {};
    if (!result.empty()) result += '.';
    result += *part;
  } while (tape_.take_symbol('.'));
  return text::lower(result);
}

// Takes one value as SET does. nullopt: it is more than a plain literal.
std::optional<std::string> ControlReader::value() {
  std::optional<std::string> result;
  if (tape_.is_string()) {
    result = tape_.string();
  } else {
    std::string sign;
    if (tape_.operation("-")) sign = "-";
    if (tape_.operation("-") || tape_.operation("+")) tape_.skip();
    const Token* token = tape_.peek();
    if (token != nullptr && token->type == TokenType::number) {
      std::string_view digits = tape_.text();
      if (digits.find_first_not_of("0123456789") == std::string_view::npos)
        result = sign + std::string(digits);
      tape_.skip();
    } else if (sign.empty()) {
      result = tape_.name();
    }
  }
  if (!tape_.at_end()) {
    result.reset();
    tape_.skip(tape_.left());
  }
  return result;
}

bool ControlReader::set() {
  tape_.skip();
  const auto is_setting = [&](std::size_t ahead) {
    return tape_.symbol('.', ahead) || tape_.operation("=", ahead) || tape_.word(ahead) == Word::to;
  };
  statement_.kind = Kind::set;
  if (!is_setting(1)) {
    if (tape_.take(Word::constraints)) return simple(statement_, Kind::set_constraints);
    if (tape_.word() == Word::local) {
      statement_.kind = Kind::set_local;
      tape_.skip();
    } else if (tape_.word() == Word::session && tape_.word(1) != Word::authorization &&
               tape_.word(1) != Word::characteristics) {
      tape_.skip();
    }
  }
  if (!is_setting(1)) {
    if (tape_.take(Word::transaction)) {
      statement_.kind = Kind::set_transaction;
      if (tape_.take(Word::snapshot)) {
        statement_.name = "snapshot";
        statement_.value = tape_.string();
        return tape_.at_end();
      }
      return !tape_.at_end() && modes();
    }
    if (tape_.take({Word::session, Word::characteristics, Word::as, Word::transaction})) {
      if (tape_.at_end() || !modes()) return false;
      statement_.name = statement_.access == Access::unspecified ? "default_transaction_isolation"
                                                                 : "default_transaction_read_only";
      statement_.sets_read_only = statement_.access != Access::unspecified;
      return true;
    }
    if (tape_.take({Word::session, Word::authorization})) {
      statement_.name = "session_authorization";
    } else if (tape_.take(Word::role)) {
      statement_.name = "role";
    } else if (tape_.take({Word::time, Word::zone})) {
      statement_.name = "timezone";
    } else if (tape_.take(Word::names)) {
      statement_.name = "client_encoding";
    } else if (tape_.take({Word::xml, Word::option})) {
      statement_.name = "xmloption";
    } else if (tape_.take(Word::schema)) {
      statement_.name = "search_path";
    } else if (tape_.take(Word::catalog)) {
      statement_.name = "catalog";
    }
    if (!statement_.name.empty()) {
      about();
      return set_to();
    }
  }
  statement_.name = setting_name();
  if (statement_.name.empty()) return false;
  about();
  if (tape_.take({Word::from, Word::current})) return tape_.at_end();
  if (tape_.operation("=")) {
    tape_.skip();
  } else if (!tape_.take(Word::to)) {
    return false;
  }
  return !tape_.at_end() && set_to();
}

bool ControlReader::set_to() {
  if (tape_.word() == Word::default_ && tape_.left() == 1) {
    if (statement_.kind == Kind::set_local) {
      statement_.to_default = true;
    } else {
      statement_.kind = Kind::reset;
    }
    return true;
  }
  statement_.value = value();
  return true;
}

bool ControlReader::reset_or_show(Kind all, Kind one) {
  tape_.skip();
  if (tape_.word() == Word::all && tape_.left() == 1) {
    statement_.name.clear();
    return simple(statement_, all);
  }
  if (tape_.take({Word::time, Word::zone})) {
    statement_.name = "timezone";
  } else if (tape_.take({Word::transaction, Word::isolation, Word::level})) {
    statement_.name = "transaction_isolation";
  } else if (tape_.take({Word::session, Word::authorization})) {
    statement_.name = "session_authorization";
  } else {
    statement_.name = setting_name();
  }
  return !statement_.name.empty() && tape_.at_end() && simple(statement_, one);
}

bool ControlReader::reset() {
  if (!reset_or_show(Kind::reset_all, Kind::reset)) return false;
  if (statement_.kind == Kind::reset_all) {
    statement_.sets_read_only = statement_.changes_lexing = true;
  } else {
    about();
  }
  return true;
}

bool ControlReader::show() { return reset_or_show(Kind::show, Kind::show); }

bool ControlReader::discard() {
  tape_.skip();
  if (tape_.left() != 1) return false;
  if (tape_.take(Word::all)) {
    statement_.sets_read_only = statement_.changes_lexing = true;
    return simple(statement_, Kind::discard_all);
  }
  statement_.name = text::lower(tape_.text());
  return tape_.take_any({Word::plans, Word::sequences, Word::temp, Word::temporary}) &&
         simple(statement_, Kind::discard);
}

}  // namespace termgate::statements
