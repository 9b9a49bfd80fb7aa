// What one statement means for the transaction that it runs in, derived from what statements/ finds
// in its text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/statements/classify.hpp>

#include "replies.hpp"
#include "guard.hpp"

namespace termgate::pg_session {

using Text = std::shared_ptr<const statements::Classified>;

// What a text means for the session as a whole, besides what each of its statements does.
struct Learned {
  // It declares a scope or term, or may.
  bool speaks_of_terms = false;
  // It calls code that may declare although the text does not show it.
  bool calls_unknown = false;
  // It may contain a CREATE RULE.
  bool may_make_rules = false;
  // The text sets no search_path that puts other schemas before pg_catalog.
  bool own_names_first = true;
  std::vector<std::string> deallocates{};
  // The role of SET ROLE. Empty: the session's user. nullopt: the text sets no role.
  std::optional<std::string> role{};
};
Learned learned_of(const statements::Classified& text, std::string_view sql);

// Whether pg_catalog comes first in this search_path, or is not named in it.
bool puts_own_names_first(std::string_view search_path) noexcept;

// What a statement does or may do, besides Effects::Way: one bit for each.
enum class Effect : std::uint32_t {
  none = 0,
  // Fixes the access mode of its transaction.
  takes_snapshot = 1U << 0,
  // A write that READ ONLY lets through.
  read_only_hole = 1U << 1,
  // Calls functions, which may change the session's default access mode.
  calls_functions = 1U << 2,
  // Calls functions, or uses operators or casts, that are not among the server's common ones.
  calls_unknown = 1U << 3,
  // Consists of one call of layer 1, which takes scope and term as arguments.
  own_check = 1U << 4,
  // That call also passes the check for the rest of the transaction.
  own_check_passes = 1U << 5,
  // The arguments of that call may run code.
  own_check_acts = 1U << 6,
  // It is check_term(), append() or append_many(), which must not run while a fence is untrusted.
  own_check_writes = 1U << 7,
  // Changes the declared scope or term, or may.
  changes_declaration = 1U << 8,
  // Its own text declares, or may.
  declares = 1U << 9,
  // A query with set_config() of scope or term that is otherwise a read.
  only_declares = 1U << 10,
  // As only_declares, and the query certainly does nothing but declare.
  exactly_declares = 1U << 11,
  // It was prepared by SQL: the client's code may have replaced the statement of that name.
  by_name = 1U << 12,
  // A parameter has a user-defined type, whose input function may run code.
  input_runs_code = 1U << 13,
  // It has constants, which are read by the input functions of their types.
  literals = 1U << 14,
  // It has parameters, as far as its tokens show.
  parameters = 1U << 15,
  // Statement::describes_first.
  describes_first = 1U << 16,
  // DECLARE of a query that calls functions of unknown effect, which a later FETCH runs.
  opens_calling_cursor = 1U << 17,
  // The next unit cannot be judged before this one is answered.
  unsettles = 1U << 18,
  // DEALLOCATE ALL, DISCARD ALL.
  forgets_prepared = 1U << 19,
  // May call a function that would release the lock it runs under.
  unlocks = 1U << 20,
  // EXECUTE: runs a statement that was prepared before.
  runs_prepared = 1U << 21,
  is_copy_in = 1U << 22,
  // PREPARE of a statement that has parameters of user-defined types.
  prepares_input = 1U << 23,
  // Settings that the proxy controls: the access mode of the session or of the transaction.
  sets_default_access = 1U << 24,
  sets_access = 1U << 25,
  // Sets one of these modes to a value that the server certainly refuses.
  access_refused = 1U << 26,
  // Sets one of these modes to its default, as if the client had never set it.
  access_to_default = 1U << 27,
  and_chain = 1U << 28,
};
constexpr Effect operator|(Effect a, Effect b) noexcept {
  return static_cast<Effect>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Effect operator&(Effect a, Effect b) noexcept {
  return static_cast<Effect>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr Effect operator~(Effect a) noexcept {
  return static_cast<Effect>(~static_cast<std::uint32_t>(a));
}

struct Effects {
  enum class Way : std::uint8_t {
    // Looks like a read; where it runs without a check, READ ONLY ensures that it does not write.
    read,
    // Needs the check first.
    write,
    // Cannot run in a transaction block, or may end its transactions itself: outside of a block it
    // runs under a lock at session level.
    alone,
    // Transaction control: BEGIN, COMMIT, SAVEPOINT and the like.
    control,
    // SET, SHOW, LISTEN, FETCH, a set_config() of scope or term, and the like.
    neutral,
  };
  Way way = Way::write;
  statements::Kind kind = statements::Kind::unparsable;
  Effect flags = Effect::takes_snapshot | Effect::literals;
  // The name in SAVEPOINT, RELEASE or ROLLBACK TO.
  std::string savepoint;
  // What a PREPARE defines: its name, and what an EXECUTE of it does.
  struct Prepares {
    enum class As : std::uint8_t { unknown, read, plain_write, declares, exactly_declares };
    std::string name{};
    As as = As::unknown;
    bool calls_functions = false;
    // The claim in its comments, which binds every EXECUTE of it.
    statements::Declaration declared{};

    bool declaration() const noexcept { return as >= As::declares; }
  } prepares;
  statements::Access access = statements::Access::unspecified;
  // Which of the access modes SHOW returns.
  enum class Shown : std::uint8_t { nothing, default_mode, mode } shown = Shown::nothing;

  // Whether it has one of them.
  bool has(Effect some) const noexcept { return (flags & some) != Effect::none; }
  void set(Effect some) noexcept { flags = flags | some; }
  void clear(Effect some) noexcept { flags = flags & ~some; }
  void put(Effect some, bool there) noexcept { there ? set(some) : clear(some); }
};

// Whether the statement sets something that the proxy controls: the access mode of the session or
// of its transaction.
inline bool ours_to_keep(const Effects& effects) noexcept {
  return effects.has(Effect::sets_access | Effect::sets_default_access);
}

// How the statement changes the access mode that the client sees as its default, once the server
// has answered it; or how it ends the transaction.
Change change_of(const Effects& effects) noexcept;

// The effects of one statement of `sql`.
Effects effects_of(const statements::Statement& statement, std::string_view sql);
// The effects of a text that is sent as a whole: the strongest among its statements.
Effects effects_of(const statements::Classified& text, std::string_view sql);
// Adds the effects of `one` to `all`, where both run.
void add(Effects& all, const Effects& one);
// What the statement does when it runs. `own_call` counts only if no rule of the operator is final.
Does does_of(const Effects& effects, bool final_rule = false) noexcept;
// What a Parse or a Bind of it runs already; `quiet`: no code of the client's.
Does ahead_of(const Effects& effects, Step step) noexcept;
// The unit that the decision sees.
Unit unit_of(const Effects& effects, Step step, bool named, bool final_rule) noexcept;
// The text with `pg_catalog.` in front of each set_config() that names no schema. `offset`: where
// the text begins in the one that was classified.
std::string with_own_set_config(std::string_view sql, const statements::Statement& statement,
                                std::size_t offset = 0);
// The effects of an unknown statement: it counts as a write that may do anything.
Effects effects_of_unknown();

// The text with READ ONLY in place of every READ WRITE, of the same length where possible: only the
// check makes a transaction writable, never the client.
std::string without_read_write(std::string_view sql, const Effects& effects,
                               const statements::Statement& statement);

// SET TRANSACTION READ WRITE, a SET of transaction_read_only that may turn it off, or BEGIN READ
// WRITE. Where a transaction is open, it applies to that one.
bool asks_for_read_write(const Effects& effects, const statements::Statement& statement) noexcept;

// The text as the server must get it, rewritten by without_read_write() or with_own_set_config().
// Empty: as the client wrote it.
std::string rewritten_for(std::string_view sql, const Effects& effects,
                          const statements::Statement& statement);

}  // namespace termgate::pg_session
