// A statement is recognized by its tokens, in the order of the grammar. If tokens alone could be
// misread (WITH, parentheses, EXPLAIN, COPY, several statements), PostgreSQL's grammar must accept
// the text first.
//
// Long: one grammar. Each statement's rule needs those of its parts, and all change together. What
// expressions call is in calls.cpp; transactions and settings are in control.cpp.
#include <termgate/statements/classify.hpp>
#include <termgate/text/ascii.hpp>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>

#include "calls.hpp"
#include "control.hpp"
#include "grammar.hpp"
#include "lexer.hpp"
#include "lexer_of_thread.hpp"
#include "shapes.hpp"
#include "tape.hpp"

namespace termgate::statements {
namespace {

// A statement of which nothing is known: it may do anything.
void unknown(Statement& statement) noexcept {
  statement.might_end_transaction = statement.read_only_hole = statement.sets_read_only =
      statement.changes_lexing = true;
  statement.calls_functions = statement.calls_unknown = statement.declares = true;
}

// Finds out what one statement is, and those inside it. One object for each statement; it runs on
// the thread that called classify(), and the text and the settings outlive it.
class Classifier {
 public:
  Classifier(std::string_view sql, const Settings& settings) noexcept
      : sql_(sql), calls_(sql, settings) {}

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
      case Word::merge: calls_.read_write(tokens, statement); return simple(statement, Kind::write);
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
      case Word::start: return ControlReader(tape, statement).begin();
      case Word::commit:
      case Word::end: return ControlReader(tape, statement).commit();
      case Word::rollback:
      case Word::abort_: return ControlReader(tape, statement).rollback();
      case Word::savepoint: return ControlReader(tape, statement).savepoint();
      case Word::release: return ControlReader(tape, statement).release();
      case Word::prepare:
        plain = plain && tape.word(1) == Word::transaction;
        return prepare(tape, tokens, statement, plain);
      case Word::execute: plain = false; return execute(tape, tokens, statement);
      case Word::deallocate: return deallocate(tape, statement);
      case Word::set: return ControlReader(tape, statement).set();
      case Word::reset: return ControlReader(tape, statement).reset();
      case Word::show: return ControlReader(tape, statement).show();
      case Word::discard: return ControlReader(tape, statement).discard();
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
        calls_.read(tokens, statement);
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

  bool plain_query(Tokens tokens, Statement& statement, bool& plain) {
    const Facts found = facts(tokens);
    plain = plain && found.plain;
    calls_.read(tokens, statement);
    const bool does_more = found.writes || statement.read_only_hole || statement.calls_termgate;
    if (!statement.set_config_at.empty() && !does_more && !statement.calls_unknown) {
      statement.only_declares = true;
      calls_.exactly_declares(tokens, statement);
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
    const Kind kind = statement.kind;
    declares_ = std::move(statement);
    return kind;
  }

  // --- prepared statements and cursors ---

  bool prepare(Tape& tape, Tokens tokens, Statement& statement, bool& plain) {
    tape.skip();
    if (tape.word() == Word::transaction && tape.left() == 2)
      return ControlReader(tape, statement).prepare_transaction();
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
      const bool word = calls_.is_everyday_word(text) || text == "precision" || text == "varying" ||
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
    calls_.read(tokens.subspan(std::min<std::size_t>(2, tokens.size())), statement);
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
      calls_.read(tokens, planned);
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

  bool create(Tape& tape, Tokens tokens, Statement& statement) const {
    calls_.read_definition(tokens, statement);
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
    calls_.read_definition(tokens, statement);
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
  CallReader calls_;
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

// Long: it checks, one by one, the reasons for which a text is unparsable.
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
