// What a statement does, as the decision needs it: from the classifier's Statement to Effects, and
// from Effects to the Unit that guard.cpp decides about. Pure functions: no session, no I/O, no
// state; any thread. If the text is ambiguous, the worse case counts: taking a read for a write
// costs a check, and taking a write for a read would bypass the fence.
#include "effects.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>

#include <termgate/statements/declaration.hpp>
#include <termgate/text/ascii.hpp>

#include "names.hpp"

namespace termgate::pg_session {
namespace {

using statements::Access;
using statements::Kind;
using statements::Statement;
using Way = Effects::Way;
using Prepares = Effects::Prepares;

// `word` is in lower case. Comments and literals are searched too: a false hit only makes the
// caller more careful.
bool holds_word(std::string_view text, std::string_view word) noexcept {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return text::lower(a) == b; }) != text.end();
}

// A statement that pg_dump begins with: it takes the name from pg_settings, because an older server
// does not have the setting.
bool is_pg_dump(std::string_view sql) noexcept {
  return sql ==
         "SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = "
         "'restrict_nonsystem_relation_kind'";
}

// Accepts what the server's parse_bool() accepts, unique prefixes included. Access::unspecified:
// not a boolean.
Access access_of(std::string_view value) noexcept {
  const std::string lowered = text::lower(value);
  const auto is = [&](std::string_view word, std::size_t letters_min) {
    return lowered.size() >= letters_min && word.starts_with(lowered);
  };
  if (lowered == "1" || is("on", 2) || is("true", 1) || is("yes", 1)) return Access::read_only;
  if (lowered == "0" || is("off", 2) || is("false", 1) || is("no", 1)) return Access::read_write;
  return Access::unspecified;
}

// SET, SET LOCAL and RESET of one name. Only the access modes need more than `way`: the session is
// kept READ ONLY through them, so a client's change is noted and its text is rewritten
// (without_read_write).
void setting(Effects& effects, const Statement& statement) {
  effects.way = Way::neutral;
  effects.clear(Effect::takes_snapshot);
  if (statements::is_declared_setting(statement.name)) effects.set(Effect::changes_declaration);
  const bool to_default = statement.kind == Kind::reset || statement.to_default;
  if (statement.name == "default_transaction_read_only") {
    effects.set(Effect::sets_default_access);
  } else if (statement.name == "transaction_read_only") {
    effects.set(Effect::sets_access);
  } else {
    return;
  }
  if (to_default) {
    effects.access = Access::read_write;
    effects.set(Effect::access_to_default);
  } else if (statement.value) {
    effects.access = access_of(*statement.value);
    // The value is not a boolean, so the server refuses it. It counts as READ WRITE, the mode that
    // could do harm.
    if (effects.access == Access::unspecified) {
      effects.set(Effect::access_refused);
      effects.access = Access::read_write;
    }
  } else {
    effects.access =
        statement.access == Access::unspecified ? Access::read_write : statement.access;
  }
}

}  // namespace

// Long: one case for each kind of statement.
Effects effects_of(const Statement& statement, std::string_view sql) {
  Effects effects;
  effects.kind = statement.kind;
  effects.put(Effect::and_chain, statement.and_chain);
  effects.access = statement.access;
  effects.put(Effect::calls_functions, statement.calls_functions);
  effects.put(Effect::declares,
              statement.declares || statements::is_declared_setting(statement.name));
  effects.put(Effect::changes_declaration,
              statement.calls_unknown || effects.has(Effect::declares));
  effects.put(Effect::read_only_hole, statement.read_only_hole);
  effects.put(Effect::calls_unknown, statement.calls_unknown);
  effects.put(Effect::literals, statement.literals);
  effects.put(Effect::parameters, statement.parameters);
  effects.put(Effect::describes_first, statement.describes_first);
  effects.put(Effect::unsettles, statement.changes_lexing || statement.sets_read_only);
  effects.way = statements::is_read(statement) ? Way::read : Way::write;

  switch (statement.kind) {
    case Kind::empty:
      effects.way = Way::neutral;
      effects.clear(Effect::takes_snapshot);
      break;
    case Kind::begin:
    case Kind::commit:
    case Kind::rollback:
    case Kind::savepoint:
    case Kind::rollback_to:
    case Kind::release:
      effects.way = Way::control;
      effects.clear(Effect::takes_snapshot);
      effects.set(Effect::unsettles);
      effects.put(Effect::changes_declaration,
                  statement.kind != Kind::begin && statement.kind != Kind::savepoint);
      if (statement.kind == Kind::savepoint || statement.kind == Kind::rollback_to ||
          statement.kind == Kind::release)
        effects.savepoint = cut(statement.name);
      if (statement.kind == Kind::begin && statement.access != Access::unspecified)
        effects.set(Effect::sets_access);
      break;
    case Kind::set_transaction:
      effects.way = Way::neutral;
      effects.clear(Effect::takes_snapshot);
      effects.put(Effect::sets_access, statement.access != Access::unspecified);
      break;
    case Kind::set:
    case Kind::set_local:
    case Kind::reset: setting(effects, statement); break;
    case Kind::reset_all:
      effects.way = Way::neutral;
      effects.clear(Effect::takes_snapshot);
      effects.set(Effect::changes_declaration | Effect::sets_default_access);
      effects.access = Access::read_write;
      break;
    case Kind::discard_all:
      effects.way = Way::neutral;
      effects.clear(Effect::takes_snapshot);
      effects.set(Effect::changes_declaration | Effect::forgets_prepared | Effect::unsettles |
                  Effect::sets_default_access);
      effects.access = Access::read_write;
      break;
    case Kind::show:
      if (statement.name == "default_transaction_read_only")
        effects.shown = Effects::Shown::default_mode;
      if (statement.name == "transaction_read_only") effects.shown = Effects::Shown::mode;
      [[fallthrough]];
    case Kind::listen:
    case Kind::unlisten:
    case Kind::set_constraints:
    case Kind::fetch:
    case Kind::move:
      effects.way = statement.read_only_hole ? Way::write : Way::neutral;
      effects.clear(Effect::takes_snapshot);
      break;
    case Kind::discard:
    case Kind::close: effects.way = statement.read_only_hole ? Way::write : Way::neutral; break;
    case Kind::deallocate:
      effects.way = Way::neutral;
      effects.put(Effect::forgets_prepared, statement.all);
      break;
    case Kind::declare_cursor:
      effects.put(Effect::opens_calling_cursor, statement.calls_unknown || statement.declares);
      if (statement.perhaps_alone) effects.way = Way::alone;
      break;
    // PREPARE evaluates only the literals of its text. The effects of that text are kept, and
    // EXECUTE looks them up by name.
    case Kind::prepare:
      effects.prepares = {.name = statement.name,
                          .as = statement.only_declares
                                    ? (statement.exactly_declares ? Prepares::As::exactly_declares
                                                                  : Prepares::As::declares)
                                : statement.read_only_hole               ? Prepares::As::unknown
                                : statement.inner == Kind::provably_read ? Prepares::As::read
                                : statement.inner == Kind::write         ? Prepares::As::plain_write
                                                                         : Prepares::As::unknown,
                          .calls_functions = statement.calls_functions,
                          .declared = statement.declared};
      // PREPARE reads the literals, which runs the CHECKs of domains.
      effects.put(Effect::changes_declaration, statement.calls_unknown);
      effects.clear(Effect::calls_functions);
      effects.put(Effect::prepares_input, statement.unknown_parameters);
      break;
    case Kind::execute: effects.set(Effect::runs_prepared); break;
    case Kind::explain: effects.put(Effect::runs_prepared, statement.inner == Kind::execute); break;
    case Kind::must_run_alone:
    case Kind::commit_prepared:
    case Kind::rollback_prepared:
    case Kind::call:
    case Kind::do_block:
      effects.way = Way::alone;
      effects.set(Effect::changes_declaration | Effect::unsettles | Effect::calls_functions);
      effects.put(Effect::unlocks, holds_word(sql, "pg_advisory_unlock"));
      if (statement.kind == Kind::do_block && !statement.holds_transaction_words) {
        // Nothing in it can end the transaction around it, so it is a write like others.
        effects.way = Way::write;
        effects.set(Effect::read_only_hole);
      }
      break;
    case Kind::prepare_transaction:
      effects.way = Way::write;
      effects.set(Effect::unsettles | Effect::changes_declaration);
      break;
    case Kind::copy_in: effects.set(Effect::is_copy_in); break;
    case Kind::unparsable: effects.set(Effect::changes_declaration | Effect::unsettles); break;
    default:
      if (statement.perhaps_alone) effects.way = Way::alone;
      break;
  }
  // set_config() of an access mode: the value that it leaves is checked before the commit.
  if (statement.sets_read_only && effects.kind == Kind::write)
    effects.set(Effect::changes_declaration);
  if (statement.read_only_hole && is_pg_dump(sql)) {
    effects.way = Way::read;
    effects.clear(Effect::read_only_hole | Effect::unsettles);
  }
  // SELECT set_config('termgate.scope', …) and nothing else: it writes no table, so it needs no
  // check of what it is about to replace.
  if (statement.only_declares && statement.kind == Kind::write) {
    effects.put(Effect::exactly_declares, statement.exactly_declares);
    effects.way = Way::neutral;
    effects.set(Effect::only_declares | Effect::takes_snapshot | Effect::changes_declaration);
    effects.clear(Effect::read_only_hole | Effect::unsettles | Effect::calls_unknown);
  }
  if (statement.calls_termgate && effects.kind == Kind::write) {
    const std::string& function = statement.lone_call.function;
    effects.put(Effect::own_check_acts, statement.lone_call.runs_casts);
    effects.put(Effect::own_check, !function.empty());
    // append() does not cover what follows: for an old write id it succeeds for a stale writer too.
    effects.put(Effect::own_check_passes, function == "check_term");
    effects.put(Effect::own_check_writes, effects.has(Effect::own_check_passes) ||
                                              function == "append" || function == "append_many");
    // The CHECK of a domain may run anything. Only after check_term() is that undone if the term is
    // stale.
    if (!effects.has(Effect::own_check_passes) && statement.lone_call.casts)
      effects.clear(Effect::own_check);
    // Layer 1's functions declare nothing.
    if (effects.has(Effect::own_check))
      effects.clear(Effect::changes_declaration | Effect::calls_unknown);
  }
  return effects;
}

namespace {

// From harmless to dangerous: of several statements the most dangerous one decides.
constexpr int rank(Way way) noexcept {
  return way == Way::neutral   ? 0
         : way == Way::read    ? 1
         : way == Way::control ? 2
         : way == Way::write   ? 3
                               : 4;
}

}  // namespace

// Adds `one` to `all`. The flags that grant something are joined with AND, those that ask for
// caution with OR. Not joined: `access`, `shown`, `savepoint`, and what a PREPARE defines.
void add(Effects& all, const Effects& one) {
  constexpr Effect granting = Effect::own_check | Effect::own_check_passes |
                              Effect::describes_first | Effect::only_declares |
                              Effect::exactly_declares;
  if (rank(one.way) > rank(all.way)) all.way = one.way, all.kind = one.kind;
  all.flags = (all.flags & one.flags & granting) | ((all.flags | one.flags) & ~granting);
  all.prepares.name.clear();  // the caller records each name
}

Effects effects_of(const statements::Classified& text, std::string_view sql) {
  Effects all = effects_of(text.statements.front(), sql);
  for (std::size_t i = 1; i < text.statements.size(); ++i)
    add(all, effects_of(text.statements[i], sql));
  if (text.statements.size() == 1) return all;
  // For an EXECUTE among other statements its effects are not looked up, so the whole text counts
  // as a write.
  if (all.has(Effect::runs_prepared) && rank(all.way) < rank(Way::write)) all.way = Way::write;
  all.clear(Effect::runs_prepared);
  return all;
}

Does does_of(const Effects& effects, bool final_rule) noexcept {
  switch (effects.way) {
    case Way::control:
      switch (effects.kind) {
        case Kind::begin: return Does::begin;
        case Kind::savepoint: return Does::savepoint;
        case Kind::commit: return Does::commit;
        default: return Does::rollback;
      }
    case Way::neutral:
      if (effects.has(Effect::only_declares)) return Does::declares;
      if (effects.kind == Kind::fetch || effects.kind == Kind::move) return Does::fetch;
      return effects.has(Effect::takes_snapshot) ? Does::reads : Does::quiet;
    case Way::read: return effects.has(Effect::calls_unknown) ? Does::calls : Does::reads;
    case Way::write:
      if (effects.kind == Kind::prepare_transaction) return Does::prepares;
      return effects.has(Effect::own_check) && !final_rule ? Does::own_call : Does::writes;
    case Way::alone:
      return effects.kind == Kind::call || effects.kind == Kind::do_block ? Does::code
                                                                          : Does::alone;
  }
  return Does::writes;
}

// A Parse reads literals, which runs the checks of domains; a Bind runs the input functions of
// parameter types; the planner calls immutable functions.
Does ahead_of(const Effects& effects, Step step) noexcept {
  if (step == Step::parses && !effects.has(Effect::literals)) return Does::quiet;
  const Does does = does_of(effects);
  if (effects.has(Effect::input_runs_code) ||
      (does == Does::declares && !effects.has(Effect::exactly_declares)))
    return Does::calls;
  return does >= Does::reads && does != Does::own_call ? std::min(does, Does::calls) : Does::quiet;
}

Unit unit_of(const Effects& effects, Step step, bool named, bool final_rule) noexcept {
  Unit unit;
  unit.does = does_of(effects, final_rule);
  unit.step = step;
  unit.ahead = ahead_of(effects, step);
  unit.input = effects.has(Effect::input_runs_code);
  unit.snapshot = effects.has(Effect::takes_snapshot);
  // What CALL and DO run is not known, so it counts as something that READ ONLY may not stop.
  unit.hole = effects.has(Effect::read_only_hole) || unit.does == Does::code;
  unit.named = named;
  unit.redeclares = effects.has(Effect::changes_declaration) && effects.way == Way::neutral;
  unit.discards = effects.kind == Kind::discard_all;
  unit.unread = effects.kind == Kind::unparsable;
  unit.unlocks = effects.has(Effect::unlocks);
  unit.own = effects.has(Effect::own_check);
  return unit;
}

std::string with_own_set_config(std::string_view sql, const statements::Statement& statement,
                                std::size_t offset) {
  constexpr std::string_view schema = "pg_catalog.";
  std::string text(sql);
  // Backwards, so that an insertion does not shift the positions still to be handled.
  for (auto at = statement.set_config_at.rbegin(); at != statement.set_config_at.rend(); ++at) {
    if (*at == std::string::npos) continue;
    assert((sql[*at - offset] | 0x20) == 's' || sql[*at - offset] == '"');
    text.insert(*at - offset, schema);
  }
  return text;
}

Change change_of(const Effects& effects) noexcept {
  if (effects.kind == Kind::commit) return Change::commit;
  if (effects.kind == Kind::rollback) return Change::rollback;
  if (effects.kind == Kind::prepare_transaction) return Change::prepared;
  // SET LOCAL ends with the block, before the default matters again.
  if (!effects.has(Effect::sets_default_access) || effects.has(Effect::access_refused) ||
      effects.kind == Kind::set_local)
    return Change::none;
  const bool back = effects.has(Effect::access_to_default) || effects.kind == Kind::reset_all ||
                    effects.kind == Kind::discard_all;
  return back ? Change::back : effects.access == Access::read_only ? Change::on : Change::off;
}

Effects effects_of_unknown() {
  Effects effects;
  effects.set(Effect::changes_declaration | Effect::unsettles | Effect::calls_functions |
              Effect::calls_unknown | Effect::read_only_hole | Effect::opens_calling_cursor);
  return effects;
}

// Removes READ WRITE from the client's text: the client believes that it has it, but the server's
// session stays READ ONLY until a check has passed (docs/decisions/0005). Where the text is kept,
// the replacement has the same length, so that positions in the server's error messages stay
// correct.
std::string without_read_write(std::string_view sql, const Effects& effects,
                               const Statement& statement) {
  // The server refuses any invalid value in the same way, so this one need not be parsed exactly.
  if (effects.has(Effect::access_refused))
    return effects.has(Effect::sets_default_access) ? "SET default_transaction_read_only TO ''"
                                                    : "SET transaction_read_only TO ''";
  if (effects.has(Effect::sets_default_access) && effects.kind != Kind::begin) {
    if (effects.kind == Kind::reset_all || effects.kind == Kind::discard_all)
      return std::string(sql);
    if (effects.kind == Kind::reset && holds_word(sql, "reset"))
      return std::string(sql);  // put back afterwards
    if (!holds_word(sql, "characteristics")) return "SET default_transaction_read_only TO on";
  } else if (effects.has(Effect::sets_access) && effects.kind == Kind::reset &&
             holds_word(sql, "reset")) {
    return "RESET default_transaction_read_only";
  } else if (effects.has(Effect::sets_access) &&
             (effects.kind == Kind::set || effects.kind == Kind::set_local ||
              effects.kind == Kind::reset)) {
    return "SET transaction_read_only TO on";
  }
  // BEGIN, SET TRANSACTION, SET SESSION CHARACTERISTICS.
  std::string text(sql);
  for (const std::size_t at : statement.write_words) {
    assert((text.at(at) | 0x20) == 'w');
    text.replace(at, 5, "ONLY ");
  }
  return text;
}

namespace {

// "rule", in lower or upper case.
bool holds_rule(std::string_view sql) noexcept {
  constexpr std::string_view word = "rule";
  return std::search(sql.begin(), sql.end(), word.begin(), word.end(),
                     [](char a, char b) { return (a | 0x20) == b; }) != sql.end();
}

}  // namespace

// False if the text names pg_catalog twice: one of the two may be part of another schema's name
// that comes first.
bool puts_own_names_first(std::string_view search_path) noexcept {
  constexpr std::string_view own = "pg_catalog";
  const auto find = [&](auto from) {
    return std::search(from, search_path.end(), own.begin(), own.end(),
                       [](char a, char b) { return text::lower(a) == b; });
  };
  const auto at = find(search_path.begin());
  if (at == search_path.end()) return true;
  return find(at + 1) == search_path.end() && std::all_of(search_path.begin(), at, [](char letter) {
           return std::string_view(" \t\r\n\"'=(,").find(letter) != std::string_view::npos;
         });
}

namespace {

constexpr std::string_view blanks = " \t\r\n\f";

std::string_view without_blanks(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text;
}

// Whether a SET puts pg_catalog first. `rest`: what follows the word search_path. False for names
// spelled with escapes and for strings continued on another line, which are not read here.
bool set_puts_own_names_first(std::string_view rest) noexcept {
  if (rest.find('\\') != std::string_view::npos || holds_word(rest, "u&")) return false;
  for (std::size_t quote = rest.find('\''); quote != std::string_view::npos;
       quote = rest.find('\'', quote + 1)) {
    const auto next = rest.find_first_not_of(blanks, quote + 1);
    if (next != std::string_view::npos && next > quote + 1 &&
        (rest[next] == '\'' || rest[next] == '-'))
      return false;
  }
  const std::size_t word = rest.find_first_not_of(" \t\r\n\f\"");
  if (word != std::string_view::npos && rest.size() > word + 2 && text::lower(rest[word]) == 't' &&
      text::lower(rest[word + 1]) == 'o' && blanks.find(rest[word + 2]) != std::string_view::npos)
    rest.remove_prefix(word + 2);
  return puts_own_names_first(rest);
}

// Whether a statement other than SET leaves pg_catalog first. `rest`: what follows the word
// search_path: `', 'a, b', …` as in set_config(), or `')` as in current_setting(). A value that is
// no plain literal may be any path.
bool call_puts_own_names_first(std::string_view rest) noexcept {
  if (!rest.starts_with('\'')) return false;
  rest = without_blanks(rest.substr(1));
  if (rest.starts_with(')')) return true;
  if (!rest.starts_with(',')) return false;
  rest = without_blanks(rest.substr(1));
  if (!rest.starts_with('\'')) return false;
  const std::size_t end = rest.find('\'', 1);
  if (end == std::string_view::npos || !without_blanks(rest.substr(end + 1)).starts_with(','))
    return false;
  const std::string_view value = rest.substr(1, end - 1);
  return value.find('\\') == std::string_view::npos && puts_own_names_first(value);
}

// Whether pg_catalog stays first, whatever this statement makes of search_path. `sql`: its own
// text.
bool leaves_own_names_first(const Statement& statement, std::string_view sql) noexcept {
  constexpr std::string_view name = "search_path";
  const bool sets = statement.kind == Kind::set || statement.kind == Kind::set_local;
  const bool unread = statement.kind == Kind::unparsable;
  if (sets && statement.name != name) return true;
  if (!sets && !unread) {
    // A set_config() of a computed name, or an UPDATE of pg_settings, which amounts to one.
    const bool any_setting =
        statement.changes_lexing && statement.sets_read_only && statement.declares;
    if (any_setting || (statement.kind == Kind::write && holds_word(sql, "pg_settings")))
      return is_pg_dump(sql);
    if (!statement.calls_functions && !statement.calls_unknown && statement.kind != Kind::do_block)
      return true;
  }
  if (unread && (holds_word(sql, "set_config") || holds_word(sql, "u&"))) return false;
  for (auto from = sql.begin();;) {
    const auto at = std::search(from, sql.end(), name.begin(), name.end(),
                                [](char a, char b) { return text::lower(a) == b; });
    if (at == sql.end()) return true;
    from = at + name.size();
    const std::string_view rest(from, sql.end());
    if (sets ? !set_puts_own_names_first(rest) : !call_puts_own_names_first(rest)) return false;
  }
}

}  // namespace

// What later texts must know of this one, whether or not it succeeds. The session learns it before
// anything is sent.
Learned learned_of(const statements::Classified& text, std::string_view sql) {
  Learned learned;
  learned.speaks_of_terms = text.speaks_of_terms || !text.declared.empty();
  for (const Statement& statement : text.statements) {
    if (statement.calls_unknown) learned.calls_unknown = true;
    // A statement whose length is not known is read together with the whole text.
    const bool cut_out = text.statements.size() > 1 && statement.length > 0;
    learned.own_names_first &= leaves_own_names_first(
        statement, cut_out ? sql.substr(statement.offset, statement.length) : sql);
    if (statements::is_declared_setting(statement.name) &&
        (statement.kind == Kind::set || statement.kind == Kind::set_local ||
         statement.kind == Kind::reset))
      learned.speaks_of_terms = true;
    if (!learned.may_make_rules && statement.kind != Kind::provably_read && holds_rule(sql))
      learned.may_make_rules = true;
    if (statement.kind == Kind::deallocate && !statement.all)
      learned.deallocates.emplace_back(cut(statement.name));
    if ((statement.kind == Kind::set || statement.kind == Kind::reset) && statement.name == "role")
      learned.role = statement.value.value_or("");
  }
  return learned;
}

bool asks_for_read_write(const Effects& effects, const Statement& statement) noexcept {
  const bool sets = statement.kind == Kind::set_transaction || statement.kind == Kind::set ||
                    statement.kind == Kind::set_local || statement.kind == Kind::begin;
  return sets && effects.has(Effect::sets_access) && !effects.has(Effect::sets_default_access) &&
         !effects.has(Effect::access_refused) && !statement.to_default &&
         effects.access == Access::read_write;
}

std::string rewritten_for(std::string_view sql, const Effects& effects,
                          const Statement& statement) {
  if (ours_to_keep(effects) && effects.access != Access::read_only)
    return without_read_write(sql, effects, statement);
  if ((effects.has(Effect::only_declares) || effects.prepares.declaration()) &&
      !statement.set_config_at.empty())
    return with_own_set_config(sql, statement);
  return {};
}

}  // namespace termgate::pg_session
