// A statement is recognized by its tokens, in the order of the grammar. If tokens alone could be
// misread (WITH, parentheses, EXPLAIN, COPY, several statements), PostgreSQL's grammar must accept
// the text first.
//
// Long: one grammar. Each statement's rule needs those of its parts, and all change together.
#include <termgate/statements/classify.hpp>
#include <termgate/text/ascii.hpp>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>

#include "functions.hpp"
#include "grammar.hpp"
#include "lexer.hpp"
#include "lexer_of_thread.hpp"
#include "shapes.hpp"

namespace termgate::statements {
namespace {

using Tokens = std::span<const Token>;

// The text with doubled `quote` characters made single.
std::string undoubled(std::string_view text, char quote) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == quote && i + 1 < text.size() && text[i + 1] == quote) ++i;
  }
  return result;
}

// A statement of which nothing is known: it may do anything.
void unknown(Statement& statement) noexcept {
  statement.might_end_transaction = statement.read_only_hole = statement.sets_read_only =
      statement.changes_lexing = true;
  statement.calls_functions = statement.calls_unknown = statement.declares = true;
}

// Stands for a set_config() that names its schema.
constexpr std::size_t npos = static_cast<std::size_t>(-1);

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

class Classifier {
 public:
  Classifier(std::string_view sql, const Settings& settings) noexcept
      : sql_(sql), settings_(settings) {}

  // `statement` has offset and length already. `plain` becomes false if the result holds only for a
  // text that the grammar accepts.
  void classify(Tokens tokens, Statement& statement, bool& plain) {
    statement.kind = Kind::unparsable;
    Tape tape(sql_, tokens);
    if (!read(tape, tokens, statement, plain)) {
      const auto offset = statement.offset;
      const auto length = statement.length;
      statement = Statement();
      statement.offset = offset;
      statement.length = length;
    }
    if (statement.kind == Kind::unparsable) { unknown(statement); }
  }

 private:
  // Long: one case for each first word of a statement.
  bool read(Tape& tape, Tokens tokens, Statement& statement, bool& plain) {
    if (tape.at_end()) {
      statement.kind = Kind::empty;
      return true;
    }
    if (tape.symbol('(')) {
      plain = false;
      return query(tape, tokens, statement);
    }
    const Word head = tape.word();
    switch (head) {
      case Word::select:
      case Word::values:
      case Word::table: return plain_query(tokens, statement, plain);
      case Word::with: plain = false; return query(tape, tokens, statement);
      case Word::insert:
      case Word::update:
      case Word::delete_:
      case Word::merge: calls_of_write(tokens, statement); return simple(statement, Kind::write);
      case Word::truncate:
      case Word::grant:
      case Word::revoke:
      case Word::comment:
      case Word::security:
      case Word::import:
      case Word::reassign:
      case Word::refresh:
        statement.calls_unknown = head == Word::refresh;
        return simple(statement, Kind::write);
      case Word::analyze:
      case Word::analyse:
      case Word::checkpoint:
      case Word::load: statement.read_only_hole = true; return simple(statement, Kind::write);
      case Word::vacuum:
        statement.read_only_hole = true;
        return simple(statement, Kind::must_run_alone);
      case Word::begin:
      case Word::start: return begin(tape, statement);
      case Word::commit:
      case Word::end: return commit(tape, statement);
      case Word::rollback:
      case Word::abort_: return rollback(tape, statement);
      case Word::savepoint: tape.skip(); return named(tape, statement, Kind::savepoint);
      case Word::release:
        tape.skip();
        if (tape.left() > 1) tape.take(Word::savepoint);
        return named(tape, statement, Kind::release);
      case Word::prepare:
        plain = plain && tape.word(1) == Word::transaction;
        return prepare(tape, tokens, statement, plain);
      case Word::execute: plain = false; return execute(tape, tokens, statement);
      case Word::deallocate: return deallocate(tape, statement);
      case Word::set: return set(tape, statement);
      case Word::reset: return reset(tape, statement);
      case Word::show: return show(tape, statement);
      case Word::discard: return discard(tape, statement);
      case Word::declare: plain = false; return declare_cursor(tape, statement, plain);
      case Word::fetch: return fetch(tape, tokens, statement, Kind::fetch);
      case Word::move: return fetch(tape, tokens, statement, Kind::move);
      case Word::close:
        tape.skip();
        if (tape.word() == Word::all && tape.left() == 1) {
          statement.all = true;
          return simple(statement, Kind::close);
        }
        return named(tape, statement, Kind::close);
      case Word::copy: plain = false; return copy(tape, statement, plain);
      case Word::call:
      case Word::do_:
        functions(tokens, statement);
        statement.calls_functions = statement.calls_unknown = statement.might_end_transaction =
            statement.declares = true;
        statement.holds_transaction_words =
            head == Word::call || ends_transactions(text_of_all(tokens)) || !is_plain_do(tokens);
        return simple(statement, head == Word::call ? Kind::call : Kind::do_block);
      case Word::explain: plain = false; return explain(tape, tokens, statement, plain);
      case Word::lock: return lock(tape, tokens, statement);
      case Word::listen: tape.skip(); return named(tape, statement, Kind::listen);
      case Word::unlisten:
        tape.skip();
        if (tape.operation("*") && tape.left() == 1) {
          statement.all = true;
          return simple(statement, Kind::unlisten);
        }
        return named(tape, statement, Kind::unlisten);
      case Word::notify: {
        tape.skip();
        const auto channel = tape.name();
        if (!channel) return false;
        statement.name = *channel;
        statement.read_only_hole = true;
        return simple(statement, Kind::notify);
      }
      case Word::cluster: {
        statement.read_only_hole = true;
        tape.skip();
        tape.take(Word::verbose);
        if (tape.symbol('(')) tape.skip_parenthesis();
        if (tape.at_end()) return simple(statement, Kind::must_run_alone);
        statement.perhaps_alone = true;
        return simple(statement, Kind::write);
      }
      case Word::reindex: return reindex(tape, tokens, statement);
      case Word::create: return create(tape, tokens, statement);
      case Word::alter: return alter(tape, tokens, statement);
      case Word::drop:
        tape.skip();
        if (tape.word() == Word::database || tape.word() == Word::tablespace ||
            tape.word() == Word::subscription || tape.take({Word::index, Word::concurrently})) {
          return simple(statement, Kind::must_run_alone);
        }
        return simple(statement, Kind::write);
      default: return false;
    }
  }

  static bool simple(Statement& statement, Kind kind) noexcept {
    statement.kind = kind;
    return true;
  }

  static bool named(Tape& tape, Statement& statement, Kind kind) {
    auto name = tape.name();
    if (!name || !tape.at_end()) return false;
    statement.name = std::move(*name);
    return simple(statement, kind);
  }

  // --- queries ---

  // What the tokens of a query show, wherever they are.
  struct Facts {
    bool writes = false;  // INTO, a row lock, or a statement in WITH that modifies
    // No word even looks like a write.
    bool plain = true;
  };

  Facts facts(Tokens tokens) const noexcept {
    Facts facts;
    bool update = false;
    bool set = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].type == TokenType::unicode_name) facts.plain = false;
      if (tokens[i].word == Word::other) continue;
      const Word before = i > 0 ? tokens[i - 1].word : Word::other;
      const Word after = i + 1 < tokens.size() ? tokens[i + 1].word : Word::other;
      const bool symbol_before = i > 0 && tokens[i - 1].type == TokenType::symbol;
      // After `.` and AS any word is a name; after SELECT and `,` no statement can begin.
      const bool surely_name =
          before == Word::as || (symbol_before && sql_[tokens[i - 1].offset] == '.');
      const bool no_statement = surely_name || before == Word::select ||
                                (symbol_before && sql_[tokens[i - 1].offset] == ',');
      switch (tokens[i].word) {
        case Word::into:
          facts.plain = false;
          facts.writes = facts.writes || !surely_name;
          break;
        case Word::for_:
          if (after == Word::update || after == Word::no || after == Word::share ||
              after == Word::key) {
            facts.plain = false;
            facts.writes = facts.writes || !surely_name;
          }
          break;
        case Word::with:
        // Both need INTO to write.
        case Word::insert:
        case Word::merge: facts.plain = false; break;
        case Word::delete_:
          facts.plain = false;
          facts.writes = facts.writes || (after == Word::from && !no_statement);
          break;
        case Word::update:
          facts.plain = false;
          update = update || !no_statement;
          break;
        case Word::set: set = true; break;  // an UPDATE needs it
        default: break;
      }
    }
    facts.writes = facts.writes || (update && set);
    return facts;
  }

  // Records every name before a `(`; a qualified one counts by its last part. Also records what
  // calls functions without naming one: casts to types, and operators, that are not the server's
  // own.
  void functions(Tokens tokens, Statement& statement) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].type == TokenType::operation &&
          !(settings_.own_names_first && is_everyday_operator(text_of(sql_, tokens[i]))))
        statement.calls_functions = statement.calls_unknown = true;
      if (i >= 2 && tokens[i].type != TokenType::symbol && is_colon(tokens[i - 1]) &&
          is_colon(tokens[i - 2]) && !is_everyday_type(tokens.subspan(i))) {
        statement.calls_functions = statement.calls_unknown = true;
      }
      if (i > 0 && tokens[i].type >= TokenType::string &&
          tokens[i].type <= TokenType::dollar_string && names_unknown_type(tokens.first(i)))
        statement.calls_functions = statement.calls_unknown = true;
      // (4712).lo_create calls lo_create(4712): a name after a dot may be a function's as well as a
      // column's.
      if (i > 0 && tokens[i - 1].type == TokenType::symbol && sql_[tokens[i - 1].offset] == '.' &&
          (tokens[i].type == TokenType::word || tokens[i].type == TokenType::quoted_name)) {
        const std::string_view written = text_of(sql_, tokens[i]);
        if (is_read_only_hole(tokens[i].type == TokenType::word
                                  ? text::lower(written)
                                  : undoubled(written.substr(1, written.size() - 2), '"')))
          statement.calls_functions = statement.read_only_hole = true;
      }
      if (i + 1 == tokens.size()) break;
      const Token& next = tokens[i + 1];
      if (next.type != TokenType::symbol || sql_[next.offset] != '(') continue;
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
      const bool qualified =
          i > 0 && tokens[i - 1].type == TokenType::symbol && sql_[tokens[i - 1].offset] == '.';
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
      const bool of_layer1 = i >= 2 && tokens[i - 1].type == TokenType::symbol &&
                             sql_[tokens[i - 1].offset] == '.' &&
                             Tape(sql_, tokens.subspan(i - 2)).name() == settings_.schema;
      if (!(of_layer1 && is_termgate_read(name)) &&
          !(own && settings_.own_names_first && is_everyday(name)))
        statement.calls_unknown = true;
      if (is_read_only_hole(name)) statement.read_only_hole = true;
      if (is_termgate_write(name) && i >= 2 && tokens[i - 1].type == TokenType::symbol &&
          sql_[tokens[i - 1].offset] == '.') {
        const auto schema = Tape(sql_, tokens.subspan(i - 2)).name();
        if (schema == settings_.schema) statement.calls_termgate = true;
      }
    }
  }

  // The calls in INSERT, UPDATE, DELETE and MERGE. A name after INTO that is followed by a list of
  // columns is not a call.
  void calls_of_write(Tokens tokens, Statement& statement) const {
    std::size_t from = 0;
    for (std::size_t i = 0; i < tokens.size() && i < 8; ++i) {
      if (tokens[i].word != Word::into) continue;
      from = i + 2;
      if (from < tokens.size() && Tape(sql_, tokens.subspan(from)).symbol('.')) from += 2;
      break;
    }
    Statement calls;
    functions(tokens.subspan(std::min(from, tokens.size())), calls);
    statement.calls_functions = calls.calls_functions;
    statement.calls_unknown = calls.calls_unknown;
    statement.declares = calls.declares;
    statement.sets_read_only = calls.sets_read_only;
    statement.changes_lexing = calls.changes_lexing;
  }

  bool is_colon(const Token& token) const noexcept {
    return token.type == TokenType::symbol && sql_[token.offset] == ':';
  }

  // Whether the tokens are the name of a common built-in type: one word, perhaps after
  // `pg_catalog.`.
  bool is_everyday_type(Tokens tokens) const {
    Tape tape(sql_, tokens);
    auto name = tape.name();
    if (name == "pg_catalog" && tape.take_symbol('.')) return true;
    return name && !tape.symbol('.') && is_everyday_word(*name);
  }

  // search_path may find a type in another schema first, so only words of the grammar are certain.
  bool is_everyday_word(std::string_view word) const noexcept {
    return statements::is_everyday_type(word) &&
           (settings_.own_names_first || is_never_a_name(word));
  }

  // Whether the tokens end in a type name right before a string: app.dom 'x' is a constant of that
  // type, as DATE '…' is.
  bool names_unknown_type(Tokens tokens) const {
    const Token& last = tokens.back();
    if (last.type == TokenType::quoted_name || last.type == TokenType::unicode_name) return true;
    if (last.type != TokenType::word) return false;
    if (tokens.size() > 1 && tokens[tokens.size() - 2].type == TokenType::symbol &&
        sql_[tokens[tokens.size() - 2].offset] == '.')
      return !is_everyday_type(tokens.last(std::min<std::size_t>(tokens.size(), 3)));
    const std::string word = text::lower(text_of(sql_, last));
    return !stands_before_a_constant(word) && !is_everyday_word(word) &&
           !is_grammar_here(tokens, tokens.size() - 1, word);
  }

  // Whether the word at `at`, which may also be the name of a function or type, is a keyword here.
  bool is_grammar_here(Tokens tokens, std::size_t at, std::string_view word) const {
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
      const bool behind_point = at > far && tokens[at - far - 1].type == TokenType::symbol &&
                                sql_[tokens[at - far - 1].offset] == '.';
      return behind_point || !may_begin_expression(text::lower(text_of(sql_, token)));
    };
    if (word == "by") return before({"group", "order", "partition"});
    if (word == "over" || word == "filter")
      return at > 0 && tokens[at - 1].type == TokenType::symbol &&
             sql_[tokens[at - 1].offset] == ')';
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
  bool casts_to_everyday_type(Tokens tokens) const {
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

  std::string_view text_of_all(Tokens tokens) const noexcept {
    return tokens.empty()
               ? std::string_view()
               : sql_.substr(tokens.front().offset,
                             tokens.back().offset + tokens.back().length - tokens.front().offset);
  }

  // Whether a DO of PL/pgSQL has a body without escapes: a dollar-quoted string, or a plain string
  // on one line. A capital I with a dot, in UTF-8 or LATIN5, is excluded: in a Turkish database
  // PL/pgSQL reads it as an i, and COMMİT as a keyword.
  bool is_plain_do(Tokens tokens) const {
    if (const std::string_view all = text_of_all(tokens);
        all.find("\xc4\xb0") != std::string_view::npos ||
        all.find('\xdd') != std::string_view::npos)
      return false;
    std::size_t bodies = 0;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      const Token& token = tokens[i];
      const std::string_view text = text_of(sql_, token);
      if (token.type == TokenType::word && text::lower(text) == "language") {
        if (++i >= tokens.size()) return false;
        const std::string language = text::lower(text_of(sql_, tokens[i]));
        if (language != "plpgsql" && language != "'plpgsql'" && language != "\"plpgsql\"")
          return false;
      } else if (token.type == TokenType::dollar_string ||
                 (token.type == TokenType::string && is_one_piece(text))) {
        ++bodies;
      } else {
        return false;
      }
    }
    return bodies == 1;
  }

  // Accepts 'it''s', but not 'it' newline 's'.
  static bool is_one_piece(std::string_view text) {
    if (text.size() < 2 || text.front() != '\'' || text.back() != '\'' ||
        text.find('\\') != std::string_view::npos)
      return false;
    const std::string_view inner = text.substr(1, text.size() - 2);
    for (std::size_t at = inner.find('\''); at != std::string_view::npos;
         at = inner.find('\'', at + 2)) {
      if (at + 1 >= inner.size() || inner[at + 1] != '\'') return false;
    }
    return true;
  }

  static bool ends_transactions(std::string_view text) {
    const std::string small = text::lower(text);
    return small.find("commit") != std::string::npos ||
           small.find("rollback") != std::string::npos || small.find("call") != std::string::npos;
  }

  // SELECT set_config('termgate.scope', 'orders', true), set_config('termgate.term', $1, true):
  // only declares.
  void exactly_declares(Tokens tokens, Statement& statement) const {
    Tape tape(sql_, tokens);
    if (!tape.take(Word::select)) return;
    bool types = false;
    const auto cast = [&] {
      while (tape.symbol(':') && tape.symbol(':', 1)) {
        tape.skip(2);
        const auto type = tape.name();
        if (type != "text" && type != "varchar" && type != "bool" && type != "boolean")
          return false;
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
  static bool set_config(Tape tape, Statement& statement) {
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

  bool plain_query(Tokens tokens, Statement& statement, bool& plain) {
    const Facts found = facts(tokens);
    plain = plain && found.plain;
    functions(tokens, statement);
    const bool does_more = found.writes || statement.read_only_hole || statement.calls_termgate;
    if (!statement.set_config_at.empty() && !does_more && !statement.calls_unknown) {
      statement.only_declares = true;
      exactly_declares(tokens, statement);
    }
    return simple(statement, does_more || !statement.set_config_at.empty() ? Kind::write
                                                                           : Kind::provably_read);
  }

  // For a text that begins with WITH or a parenthesis. The first other word only decides whether it
  // is a query at all.
  bool query(Tape& tape, Tokens tokens, Statement& statement) {
    while (tape.take_symbol('(')) {}
    const Word head = tape.word();
    if (head != Word::select && head != Word::values && head != Word::table && head != Word::with)
      return false;
    bool ignored = true;
    return plain_query(tokens, statement, ignored);
  }

  // Classifies the statement inside another; its flags are added to the outer one.
  Kind inner(Tokens tokens, Statement& outer, bool& plain) {
    Statement statement;
    if (++depth_ > 4) return Kind::unparsable;
    classify(tokens, statement, plain);
    if (statement.kind == Kind::execute && outer.name.empty())
      outer.name = std::move(statement.name);
    outer.calls_functions = outer.calls_functions || statement.calls_functions;
    outer.calls_unknown = outer.calls_unknown || statement.calls_unknown;
    outer.calls_termgate = outer.calls_termgate || statement.calls_termgate;
    outer.read_only_hole = outer.read_only_hole || statement.read_only_hole;
    outer.sets_read_only = outer.sets_read_only || statement.sets_read_only;
    outer.changes_lexing = outer.changes_lexing || statement.changes_lexing;
    outer.declares = outer.declares || statement.declares;
    if (!statement.set_config_at.empty()) outer.calls_unknown = true;
    declares_ = std::move(statement);
    return statement.kind;
  }

  // --- transactions ---

  static bool modes(Tape& tape, Statement& statement) noexcept {
    bool first = true;
    while (!tape.at_end()) {
      if (!first) tape.take_symbol(',');
      first = false;
      if (tape.take({Word::isolation, Word::level})) {
        if (tape.take(Word::serializable)) {
          statement.isolation = Isolation::serializable;
        } else if (tape.take({Word::repeatable, Word::read})) {
          statement.isolation = Isolation::repeatable_read;
        } else if (tape.take({Word::read, Word::committed})) {
          statement.isolation = Isolation::read_committed;
        } else if (tape.take({Word::read, Word::uncommitted})) {
          statement.isolation = Isolation::read_uncommitted;
        } else {
          return false;
        }
      } else if (tape.take({Word::read, Word::only})) {
        statement.access = Access::read_only;
      } else if (tape.take({Word::read, Word::write})) {
        statement.access = Access::read_write;
        statement.sets_read_only = true;  // even if a later mode reverses it
      } else if (!tape.take(Word::deferrable) && !tape.take({Word::not_, Word::deferrable})) {
        return false;
      }
    }
    return true;
  }

  static bool begin(Tape& tape, Statement& statement) noexcept {
    if (tape.take(Word::start)) {
      if (!tape.take(Word::transaction)) return false;
    } else {
      tape.skip();
      tape.take_any({Word::work, Word::transaction});
    }
    return modes(tape, statement) && simple(statement, Kind::begin);
  }

  static bool chain(Tape& tape, Statement& statement, Kind kind) noexcept {
    tape.take_any({Word::work, Word::transaction});
    if (tape.take({Word::and_, Word::chain})) {
      statement.and_chain = true;
    } else {
      tape.take({Word::and_, Word::no, Word::chain});
    }
    statement.might_end_transaction = true;
    return tape.at_end() && simple(statement, kind);
  }

  static bool gid(Tape& tape, Statement& statement, Kind kind) {
    if (!tape.is_string()) return false;
    if (auto name = tape.string()) statement.name = std::move(*name);
    return tape.at_end() && simple(statement, kind);
  }

  static bool commit(Tape& tape, Statement& statement) {
    if (tape.take({Word::commit, Word::prepared}))
      return gid(tape, statement, Kind::commit_prepared);
    tape.skip();
    return chain(tape, statement, Kind::commit);
  }

  static bool rollback(Tape& tape, Statement& statement) {
    if (tape.take({Word::rollback, Word::prepared}))
      return gid(tape, statement, Kind::rollback_prepared);
    const bool may_go_to = tape.take(Word::rollback);
    if (!may_go_to) tape.skip();
    if (may_go_to) {
      Tape to = tape;
      to.take_any({Word::work, Word::transaction});
      if (to.take(Word::to)) {
        if (to.left() > 1) to.take(Word::savepoint);
        return named(to, statement, Kind::rollback_to);
      }
    }
    return chain(tape, statement, Kind::rollback);
  }

  // --- settings ---

  static void about(Statement& statement) noexcept {
    statement.sets_read_only = statement.sets_read_only || sets_read_only(statement.name);
    statement.changes_lexing = statement.changes_lexing || changes_lexing(statement.name);
  }

  // Reads name {. name}, folded to lower case, as settings are compared. Empty: there is none that
  // can be read.
  static std::string setting_name(Tape& tape) {
    std::string result;
    do {
      const auto part = tape.name();
      if (!part) return {};
      if (!result.empty()) result += '.';
      result += *part;
    } while (tape.take_symbol('.'));
    return text::lower(result);
  }

  // Takes one value as SET does. nullopt: it is more than a plain literal.
  static std::optional<std::string> value(Tape& tape) {
    std::optional<std::string> result;
    if (tape.is_string()) {
      result = tape.string();
    } else {
      std::string sign;
      if (tape.operation("-")) sign = "-";
      if (tape.operation("-") || tape.operation("+")) tape.skip();
      const Token* token = tape.peek();
      if (token != nullptr && token->type == TokenType::number) {
        std::string_view digits = tape.text();
        if (digits.find_first_not_of("0123456789") == std::string_view::npos)
          result = sign + std::string(digits);
        tape.skip();
      } else if (sign.empty()) {
        result = tape.name();
      }
    }
    if (!tape.at_end()) {
      result.reset();
      tape.skip(tape.left());
    }
    return result;
  }

  bool set(Tape& tape, Statement& statement) {
    tape.skip();
    const auto is_setting = [&](std::size_t ahead) {
      return tape.symbol('.', ahead) || tape.operation("=", ahead) || tape.word(ahead) == Word::to;
    };
    statement.kind = Kind::set;
    if (!is_setting(1)) {
      if (tape.take(Word::constraints)) return simple(statement, Kind::set_constraints);
      if (tape.word() == Word::local) {
        statement.kind = Kind::set_local;
        tape.skip();
      } else if (tape.word() == Word::session && tape.word(1) != Word::authorization &&
                 tape.word(1) != Word::characteristics) {
        tape.skip();
      }
    }
    if (!is_setting(1)) {
      if (tape.take(Word::transaction)) {
        statement.kind = Kind::set_transaction;
        if (tape.take(Word::snapshot)) {
          statement.name = "snapshot";
          statement.value = tape.string();
          return tape.at_end();
        }
        return !tape.at_end() && modes(tape, statement);
      }
      if (tape.take({Word::session, Word::characteristics, Word::as, Word::transaction})) {
        if (tape.at_end() || !modes(tape, statement)) return false;
        statement.name = statement.access == Access::unspecified ? "default_transaction_isolation"
                                                                 : "default_transaction_read_only";
        statement.sets_read_only = statement.access != Access::unspecified;
        return true;
      }
      if (tape.take({Word::session, Word::authorization})) {
        statement.name = "session_authorization";
      } else if (tape.take(Word::role)) {
        statement.name = "role";
      } else if (tape.take({Word::time, Word::zone})) {
        statement.name = "timezone";
      } else if (tape.take(Word::names)) {
        statement.name = "client_encoding";
      } else if (tape.take({Word::xml, Word::option})) {
        statement.name = "xmloption";
      } else if (tape.take(Word::schema)) {
        statement.name = "search_path";
      } else if (tape.take(Word::catalog)) {
        statement.name = "catalog";
      }
      if (!statement.name.empty()) {
        about(statement);
        return set_to(tape, statement);
      }
    }
    statement.name = setting_name(tape);
    if (statement.name.empty()) return false;
    about(statement);
    if (tape.take({Word::from, Word::current})) return tape.at_end();
    if (tape.operation("=")) {
      tape.skip();
    } else if (!tape.take(Word::to)) {
      return false;
    }
    return !tape.at_end() && set_to(tape, statement);
  }

  static bool set_to(Tape& tape, Statement& statement) {
    if (tape.word() == Word::default_ && tape.left() == 1) {
      if (statement.kind == Kind::set_local) {
        statement.to_default = true;
      } else {
        statement.kind = Kind::reset;
      }
      return true;
    }
    statement.value = value(tape);
    return true;
  }

  static bool reset_or_show(Tape& tape, Statement& statement, Kind all, Kind one) {
    tape.skip();
    if (tape.word() == Word::all && tape.left() == 1) {
      statement.name.clear();
      return simple(statement, all);
    }
    if (tape.take({Word::time, Word::zone})) {
      statement.name = "timezone";
    } else if (tape.take({Word::transaction, Word::isolation, Word::level})) {
      statement.name = "transaction_isolation";
    } else if (tape.take({Word::session, Word::authorization})) {
      statement.name = "session_authorization";
    } else {
      statement.name = setting_name(tape);
    }
    return !statement.name.empty() && tape.at_end() && simple(statement, one);
  }

  static bool reset(Tape& tape, Statement& statement) {
    if (!reset_or_show(tape, statement, Kind::reset_all, Kind::reset)) return false;
    if (statement.kind == Kind::reset_all) {
      statement.sets_read_only = statement.changes_lexing = true;
    } else {
      about(statement);
    }
    return true;
  }

  static bool show(Tape& tape, Statement& statement) {
    return reset_or_show(tape, statement, Kind::show, Kind::show);
  }

  static bool discard(Tape& tape, Statement& statement) {
    tape.skip();
    if (tape.left() != 1) return false;
    if (tape.take(Word::all)) {
      statement.sets_read_only = statement.changes_lexing = true;
      return simple(statement, Kind::discard_all);
    }
    statement.name = text::lower(tape.text());
    return tape.take_any({Word::plans, Word::sequences, Word::temp, Word::temporary}) &&
           simple(statement, Kind::discard);
  }

  // --- prepared statements and cursors ---

  bool prepare(Tape& tape, Tokens tokens, Statement& statement, bool& plain) {
    tape.skip();
    if (tape.word() == Word::transaction && tape.left() == 2) {
      tape.skip();
      statement.might_end_transaction = true;
      return gid(tape, statement, Kind::prepare_transaction);
    }
    plain = false;
    auto name = tape.name();
    if (!name) return false;
    statement.name = std::move(*name);
    const bool types = tape.symbol('(');
    const std::size_t before = tokens.size() - tape.left();
    if (types && !tape.skip_parenthesis()) return false;
    // Checks each word of the list of types, whatever its role: a user-defined type may run code.
    for (std::size_t i = before; i < tokens.size() - tape.left(); ++i) {
      const std::string text =
          tokens[i].type == TokenType::word ? text::lower(text_of(sql_, tokens[i])) : std::string();
      const bool word = is_everyday_word(text) || text == "precision" || text == "varying" ||
                        text == "with" || text == "without" || text == "zone";
      const bool named = tokens[i].type == TokenType::word ||
                         tokens[i].type == TokenType::quoted_name ||
                         tokens[i].type == TokenType::unicode_name;
      if (named && !word) statement.unknown_parameters = true;
    }
    if (!tape.take(Word::as) || tape.at_end()) return false;
    // A comment ahead of the prepared statement binds it, as one at the ends of the text does.
    const std::size_t first = tape.peek()->offset;
    const Token& as = tokens[tokens.size() - tape.left() - 1];
    declared_between(statement.declared, statement.declared, sql_, as.offset + as.length, first);
    statement.inner = inner(tape.rest(), statement, plain);
    statement.only_declares = declares_.only_declares;
    statement.exactly_declares =
        declares_.exactly_declares && !types;  // a user-defined type may run code
    statement.set_config_at = declares_.set_config_at;
    return simple(statement, Kind::prepare);
  }

  bool execute(Tape& tape, Tokens tokens, Statement& statement) {
    tape.skip();
    auto name = tape.name();
    if (!name) return false;
    statement.name = std::move(*name);
    functions(tokens.subspan(std::min<std::size_t>(2, tokens.size())), statement);
    return simple(statement, Kind::execute);
  }

  static bool deallocate(Tape& tape, Statement& statement) {
    tape.skip();
    if (tape.left() > 1) tape.take(Word::prepare);
    if (tape.word() == Word::all && tape.left() == 1) {
      statement.all = true;
      return simple(statement, Kind::deallocate);
    }
    return named(tape, statement, Kind::deallocate);
  }

  bool declare_cursor(Tape& tape, Statement& statement, bool& plain) {
    tape.skip();
    auto name = tape.name();
    if (!name) return false;
    statement.name = std::move(*name);
    while (!tape.at_end() && tape.word() != Word::for_) tape.skip();
    if (!tape.take(Word::for_)) return false;
    statement.inner = inner(tape.rest(), statement, plain);
    return simple(statement, Kind::declare_cursor);
  }

  // FETCH [direction] [FROM | IN] name: the name comes last.
  bool fetch(Tape& tape, Tokens tokens, Statement& statement, Kind kind) const {
    tape.skip();
    if (tape.at_end()) return false;
    for (const Token& token : tape.rest()) {
      if (token.type != TokenType::word && token.type != TokenType::number &&
          token.type != TokenType::quoted_name && token.type != TokenType::operation)
        return false;
    }
    Tape last(sql_, tokens.last(1));
    return named(last, statement, kind);
  }

  // --- COPY, EXPLAIN, LOCK ---

  bool copy(Tape& tape, Statement& statement, bool& plain) {
    tape.skip();
    if (tape.symbol('(')) {
      Tape after = tape;
      if (!after.skip_parenthesis()) return false;
      const Tokens inside = tape.rest().subspan(1, tape.left() - after.left() - 2);
      statement.inner = inner(inside, statement, plain);
      tape = after;
    } else {
      while (!tape.at_end() && tape.word() != Word::from && tape.word() != Word::to) {
        if (tape.symbol('(')) {
          if (!tape.skip_parenthesis()) return false;
        } else {
          tape.skip();
        }
      }
    }
    const bool in = tape.word() == Word::from;
    if (!in && tape.word() != Word::to) return false;
    tape.skip();
    if (tape.take_any({Word::stdin_, Word::stdout_})) {
      if (in) return simple(statement, Kind::copy_in);
      if (statement.inner != Kind::empty && statement.inner != Kind::provably_read)
        return simple(statement, Kind::write);
      return simple(statement, Kind::copy_out);
    }
    statement.read_only_hole = true;
    if (tape.take(Word::program)) return tape.is_string() && simple(statement, Kind::copy_program);
    return tape.is_string() && simple(statement, Kind::copy_file);
  }

  bool explain(Tape& tape, Tokens tokens, Statement& statement, bool& plain) {
    tape.skip();
    bool analyze = false;
    const bool query_in_parenthesis =
        tape.symbol('(') &&
        (tape.symbol('(', 1) || tape.word(1) == Word::select || tape.word(1) == Word::with ||
         tape.word(1) == Word::table || (tape.word(1) == Word::values && tape.symbol('(', 2)));
    if (tape.symbol('(') && !query_in_parenthesis) {
      Tape options = tape;
      if (!tape.skip_parenthesis()) return false;
      for (options.skip(); options.left() > tape.left() + 1;) {
        const bool unreadable = options.peek()->type == TokenType::unicode_name;
        const auto option = options.name();
        const bool off = options.take_any({Word::off, Word::false_}) ||
                         (options.text() == "0" && (options.skip(), true));
        if (unreadable || ((option == "analyze" || option == "analyse") && !off)) analyze = true;
        while (options.left() > tape.left() + 1 && !options.take_symbol(',')) options.skip();
      }
    } else {
      analyze = tape.take_any({Word::analyze, Word::analyse});
      tape.take(Word::verbose);
    }
    if (tape.at_end()) return false;
    if (!analyze) {
      Statement planned;
      functions(tokens, planned);
      statement.calls_functions = planned.calls_functions;
      statement.calls_unknown =
          planned.calls_unknown;  // a function marked immutable runs during planning
      statement.declares = planned.declares;
      // The arguments of EXECUTE are evaluated although nothing is run.
      if (tape.word() == Word::execute) statement.read_only_hole = planned.read_only_hole;
      statement.inner = Kind::provably_read;
      return simple(statement, Kind::explain);
    }
    statement.inner = inner(tape.rest(), statement, plain);
    return simple(statement, Kind::explain);
  }

  bool lock(Tape& tape, Tokens tokens, Statement& statement) const {
    tape.skip();
    if (tape.at_end()) return false;
    Tokens rest = tokens;
    if (rest.back().word == Word::nowait) rest = rest.first(rest.size() - 1);
    // The lock that any SELECT takes, and that pg_dump requests, does not block writers.
    const auto ends_with = [&](std::initializer_list<Word> words) {
      return rest.size() >= words.size() &&
             std::equal(words.begin(), words.end(),
                        rest.end() - static_cast<std::ptrdiff_t>(words.size()),
                        [](Word word, const Token& token) { return token.word == word; });
    };
    statement.read_only_hole = !ends_with({Word::in, Word::access, Word::share, Word::mode});
    return simple(statement, Kind::lock_table);
  }

  // --- definitions ---

  static bool has(Tokens tokens, Word word) noexcept {
    return std::any_of(tokens.begin(), tokens.end(),
                       [word](const Token& token) { return token.word == word; });
  }

  bool reindex(Tape& tape, Tokens tokens, Statement& statement) const {
    statement.read_only_hole = true;
    tape.skip();
    if (tape.symbol('(') && !tape.skip_parenthesis()) return false;
    if (tape.word() == Word::schema || tape.word() == Word::database ||
        tape.word() == Word::system || has(tokens, Word::concurrently))
      return simple(statement, Kind::must_run_alone);
    statement.perhaps_alone = true;
    return simple(statement, Kind::write);
  }

  // Whether the options of a subscription have `name = false`.
  bool switched_off(Tokens tokens, std::string_view option) const {
    for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (tokens[i].type != TokenType::word || text::lower(text_of(sql_, tokens[i])) != option ||
          text_of(sql_, tokens[i + 1]) != "=")
        continue;
      std::string value = text::lower(text_of(sql_, tokens[i + 2]));
      if (tokens[i + 2].type == TokenType::string) value = value.substr(1, value.size() - 2);
      return value == "false" || value == "off" || value == "0";
    }
    return false;
  }

  // Definitions run expressions of the client's and of others: indexes, defaults, checks, CREATE
  // TABLE AS.
  void calls_of_definition(Tokens tokens, Statement& statement) const {
    Statement calls;
    functions(tokens, calls);
    statement.calls_unknown = calls.calls_functions;
    statement.declares = calls.declares;
  }

  bool create(Tape& tape, Tokens tokens, Statement& statement) const {
    calls_of_definition(tokens, statement);
    tape.skip();
    if (tape.word() == Word::database || tape.word() == Word::tablespace)
      return simple(statement, Kind::must_run_alone);
    if (tape.word() == Word::subscription)
      return simple(statement,
                    switched_off(tokens, "create_slot") || switched_off(tokens, "connect")
                        ? Kind::write
                        : Kind::must_run_alone);
    tape.take(Word::unique);
    if (tape.take({Word::index, Word::concurrently}))
      return simple(statement, Kind::must_run_alone);
    return simple(statement, Kind::write);
  }

  bool alter(Tape& tape, Tokens tokens, Statement& statement) const {
    calls_of_definition(tokens, statement);
    tape.skip();
    if (tape.take(Word::system)) {
      statement.read_only_hole = true;
      return simple(statement, Kind::must_run_alone);
    }
    if (tape.take(Word::database)) {
      tape.skip();
      return simple(statement,
                    tape.take({Word::set, Word::tablespace}) ? Kind::must_run_alone : Kind::write);
    }
    if (tape.take(Word::subscription)) {
      tape.skip();
      const bool refreshes = tape.word() == Word::refresh || ((tape.word(1) == Word::publication) &&
                                                              !switched_off(tokens, "refresh"));
      const bool slot = tape.word() == Word::set && tape.symbol('(', 1) &&
                        !Classifier::only_plain_options(sql_, tokens);
      return simple(statement, refreshes || slot ? Kind::must_run_alone : Kind::write);
    }
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i].word == Word::detach && tokens[i + 1].word == Word::partition &&
          tokens.back().word == Word::concurrently)
        return simple(statement, Kind::must_run_alone);
    }
    return simple(statement, Kind::write);
  }

  // SET (failover) and SET (two_phase) change the publisher's slot.
  static bool only_plain_options(std::string_view sql, Tokens tokens) {
    return std::none_of(tokens.begin(), tokens.end(), [&](const Token& token) {
      const std::string text = text::lower(text_of(sql, token));
      return text == "failover" || text == "two_phase" || text == "\"failover\"" ||
             text == "\"two_phase\"";
    });
  }

  std::string_view sql_;
  const Settings& settings_;
  Statement declares_;  // the last one read inside another statement
  int depth_ = 0;
};

Statement whole(std::string_view sql, const Lexed& lexed, Kind kind) {
  Statement statement;
  statement.kind = kind;
  const bool known = lexed.problem == Lexed::Problem::none;
  statement.offset = known ? lexed.first_token : 0;
  statement.length = known ? lexed.last_token_end - lexed.first_token : sql.size();
  if (kind == Kind::unparsable) { unknown(statement); }
  return statement;
}

// Merges two declarations of one statement, which must agree.
void join(Declaration& inside, const Declaration& outside) {
  if (inside.empty()) {
    inside = outside;
  } else if (!outside.empty() && !(inside == outside)) {
    inside = Declaration();
    inside.problem =
        "TG005 malformed declaration in a comment: two places of one statement that differ";
  }
}

bool is_semicolon(std::string_view sql, const Token& token) noexcept {
  return token.type == TokenType::symbol && sql[token.offset] == ';';
}

// The number of statements according to the tokens: a `;` at depth 0 ends one. In the body of a
// BEGIN ATOMIC only the grammar is right.
std::size_t statements_by_tokens(std::string_view sql, Tokens tokens) noexcept {
  std::size_t count = 0;
  std::size_t depth = 0;
  bool open = false;
  for (const Token& token : tokens) {
    const char character = token.type == TokenType::symbol ? sql[token.offset] : '\0';
    if (character == '(') ++depth;
    if (character == ')' && depth > 0) --depth;
    if (character == ';' && depth == 0) {
      open = false;
      continue;
    }
    count += open ? 0 : 1;
    open = true;
  }
  return count;
}

// Long: the ways in which a text cannot be parsed end here one by one.
Classified classified(std::string_view sql, const Settings& settings) {
  Classified result;
  Lexed& lexed = lexer_of_thread();
  lex(sql, settings, lexed);
  declared_around(result.declared, sql, lexed);
  const auto unparsable = [&] {
    result.statements.clear();
    result.statements.push_back(whole(sql, lexed, Kind::unparsable));
    result.statements.front().declared = result.declared;
    result.statements.front().describes_first = describes_first(sql, lexed.tokens);
  };
  result.single = lexed.problem == Lexed::Problem::none && !lexed.several;
  result.speaks_of_terms = speaks_of_terms(sql);
  if (lexed.problem != Lexed::Problem::none) return unparsable(), result;
  const Tokens tokens = lexed.tokens;
  Classifier classifier(sql, settings);

  if (!lexed.complete) {
    const Word head = tokens.empty() ? Word::other : tokens.front().word;
    const bool plain_write = head == Word::insert || head == Word::update ||
                             head == Word::delete_ || head == Word::merge;
    if (!result.single || !plain_write) return unparsable(), result;
    result.statements.push_back(whole(sql, lexed, Kind::write));
    Statement& long_one = result.statements.front();
    long_one.calls_functions = long_one.calls_unknown = true;
    long_one.declares = result.speaks_of_terms;
    long_one.declared = result.declared;
    return result;
  }
  if (result.single) {
    std::size_t begin = 0;
    std::size_t end = tokens.size();
    while (begin < end && is_semicolon(sql, tokens[begin])) ++begin;
    while (end > begin && is_semicolon(sql, tokens[end - 1])) --end;
    bool plain = true;
    Statement statement = whole(sql, lexed, Kind::empty);
    if (begin < end) statement.offset = tokens[begin].offset;
    statement.length = begin < end ? lexed.last_token_end - statement.offset : 0;
    classifier.classify(tokens.subspan(begin, end - begin), statement, plain);
    note_shapes(sql, tokens.subspan(begin, end - begin), statement);
    result.by_tokens = plain;
    join(statement.declared, result.declared);
    if (!plain && statement.kind != Kind::unparsable) {
      std::vector<Range> ranges;
      if (sql.size() > settings.parsed_bytes_max || !split_by_grammar(sql, ranges) ||
          ranges.size() != 1)
        return unparsable(), result;
    }
    result.statements.push_back(std::move(statement));
    return result;
  }

  std::vector<Range> ranges;
  if (sql.size() > settings.parsed_bytes_max || !split_by_grammar(sql, ranges))
    return unparsable(), result;
  // If the two readings differ, neither is trusted.
  const bool atomic = std::any_of(tokens.begin(), tokens.end(),
                                  [](const Token& token) { return token.word == Word::atomic; });
  if (!atomic && statements_by_tokens(sql, tokens) != ranges.size()) return unparsable(), result;
  std::size_t at = 0;
  for (const Range& range : ranges) {
    while (at < tokens.size() && (tokens[at].offset < range.begin || is_semicolon(sql, tokens[at])))
      ++at;
    const std::size_t first = at;
    while (at < tokens.size() && tokens[at].offset < range.end) ++at;
    if (first == at) return unparsable(), result;
    Statement statement;
    statement.offset = tokens[first].offset;
    statement.length = tokens[at - 1].offset + tokens[at - 1].length - statement.offset;
    bool plain = true;
    Classifier(sql, settings).classify(tokens.subspan(first, at - first), statement, plain);
    note_shapes(sql, tokens.subspan(first, at - first), statement);
    result.statements.push_back(std::move(statement));
  }
  // A token that belongs to no statement.
  while (at < tokens.size() && is_semicolon(sql, tokens[at])) ++at;
  if (at < tokens.size()) return unparsable(), result;
  if (!result.speaks_of_terms) return result;
  std::size_t end = 0;
  for (std::size_t i = 0; i < result.statements.size(); ++i) {
    Statement& statement = result.statements[i];
    if (i == 0) {
      declared_between(statement.declared, statement.declared, sql, 0, statement.offset);
    } else {
      declared_between(result.statements[i - 1].declared, statement.declared, sql, end,
                       statement.offset);
    }
    end = statement.offset + statement.length;
  }
  Declaration& last = result.statements.back().declared;
  declared_between(last, last, sql, end, sql.size());
  // A comment at the BEGIN or at the COMMIT declares for the block between them.
  const Declaration first = result.statements.front().declared;
  const Declaration whole =
      !first.empty() && result.statements.front().kind == Kind::begin ? first : last;
  const bool block = (!first.empty() && result.statements.front().kind == Kind::begin) ||
                     (result.statements.back().kind == Kind::commit && !last.empty());
  for (Statement& statement : result.statements) {
    if (block && statement.declared.empty()) statement.declared = whole;
  }
  return result;
}

}  // namespace

bool is_read(const Statement& statement) noexcept {
  if (statement.read_only_hole) return false;
  switch (statement.kind) {
    case Kind::empty:
    case Kind::provably_read:
    case Kind::savepoint:
    case Kind::rollback_to:
    case Kind::release:
    case Kind::commit:
    case Kind::rollback:
    case Kind::set_constraints:
    case Kind::show:
    case Kind::prepare:  // runs nothing yet
    case Kind::execute:
    case Kind::deallocate:
    case Kind::fetch:
    case Kind::move:
    case Kind::close:
    case Kind::copy_out:
    case Kind::discard:
    case Kind::listen:
    case Kind::unlisten:
    case Kind::lock_table:  // ACCESS SHARE; any other lock is a hole
      return true;
    case Kind::begin:
    case Kind::set_transaction:
    case Kind::set:
    case Kind::set_local:
    case Kind::reset:
    case Kind::reset_all:
    case Kind::discard_all: return !statement.sets_read_only;
    case Kind::declare_cursor:
    case Kind::explain:
      return statement.inner == Kind::provably_read || statement.inner == Kind::execute;
    case Kind::write:
    case Kind::unparsable:
    case Kind::must_run_alone:
    case Kind::prepare_transaction:
    case Kind::commit_prepared:
    case Kind::rollback_prepared:
    case Kind::copy_in:
    case Kind::copy_program:
    case Kind::copy_file:
    case Kind::call:
    case Kind::do_block:
    case Kind::notify: return false;
  }
  return false;
}

bool runs_alone(const Statement& statement) noexcept {
  return statement.kind == Kind::must_run_alone || statement.kind == Kind::discard_all ||
         statement.kind == Kind::commit_prepared || statement.kind == Kind::rollback_prepared;
}

bool Classified::is_read() const noexcept {
  return std::all_of(statements.begin(), statements.end(),
                     [](const Statement& statement) { return statements::is_read(statement); });
}

bool Classified::might_end_transaction() const noexcept {
  return std::any_of(statements.begin(), statements.end(),
                     [](const Statement& statement) { return statement.might_end_transaction; });
}

Classified classify(std::string_view sql, const Settings& settings) noexcept {
  try {
    return classified(sql, settings);
  } catch (...) {
    // Out of memory: nothing is known of the text. An empty list would count as a read.
    Classified nothing;
    nothing.statements.resize(1);
    Statement& statement = nothing.statements.front();
    unknown(statement);
    statement.length = sql.size();
    return nothing;
  }
}

}  // namespace termgate::statements
