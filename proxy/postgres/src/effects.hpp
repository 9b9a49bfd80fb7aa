// What one statement means for the transaction that it runs in, derived from what statements/ finds
// in its text.
#pragma once

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

// What a text tells about the session as a whole, besides what each of its statements does.
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
  // The role of SET ROLE. Empty: the session's user.
  std::optional<std::string> role{};
};
Learned learned_of(const statements::Classified& text, std::string_view sql);

// Whether pg_catalog comes first in this search_path, or is not named in it.
bool puts_own_names_first(std::string_view search_path) noexcept;

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
  // Fixes the access mode of its transaction.
  bool takes_snapshot = true;
  // A write that READ ONLY lets through.
  bool read_only_hole = false;
  // Calls functions, which may change the session's default access mode.
  bool calls_functions = false;
  // Calls functions, or uses operators or casts, that are not among the server's common ones.
  bool calls_unknown = false;
  // Consists of one call of layer 1, which takes scope and term as arguments.
  bool own_check = false;
  // That call also passes the check for the rest of the transaction.
  bool own_check_passes = false;
  // The arguments of that call may run code.
  bool own_check_acts = false;
  // It is check_term(), append() or append_many(), which must not run while a fence is untrusted.
  bool own_check_writes = false;
  // Changes the declared scope or term, or may.
  bool changes_declaration = false;
  // Its own text declares, or may.
  bool declares = false;
  // A query with set_config() of scope or term that is otherwise a read.
  bool only_declares = false;
  // It certainly does nothing else.
  bool exactly_declares = false;
  // It was prepared by SQL: the client's code may have replaced the statement of that name.
  bool by_name = false;
  // A parameter has a user-defined type, whose input function may run code.
  bool input_runs_code = false;
  // It has constants, which are read by the input functions of their types.
  bool literals = true;
  bool parameters = false;       // it has some, as far as its tokens show
  bool describes_first = false;  // Statement::describes_first
  // DECLARE of a query that calls functions of unknown effect, which a later FETCH runs.
  bool opens_calling_cursor = false;
  // The next unit cannot be judged before this one is answered.
  bool unsettles = false;
  bool forgets_prepared = false;  // DEALLOCATE ALL, DISCARD ALL
  // May call a function that would release the lock it runs under.
  bool unlocks = false;
  // EXECUTE: runs a statement that was prepared before.
  bool runs_prepared = false;
  bool is_copy_in = false;
  // The name in SAVEPOINT, RELEASE or ROLLBACK TO.
  std::string savepoint;
  // The name that a PREPARE defines.
  std::string prepares;
  // The claim in the comments of a PREPARE, which binds every EXECUTE of it.
  statements::Declaration prepares_declared;
  bool prepares_declares = false, prepares_exactly = false;
  // The prepared statement has parameters of user-defined types.
  bool prepares_input = false;
  bool prepares_read = false, prepares_plain_write = false, prepares_calls = false;
  // Settings that the proxy controls: the access mode of the session or of the transaction.
  bool sets_default_access = false;
  bool sets_access = false;
  statements::Access access = statements::Access::unspecified;
  enum class Shown : std::uint8_t {
    nothing,
    default_mode,
    mode
  } shown = Shown::nothing;  // which of them SHOW returns
  // Sets it to a value that the server certainly refuses.
  bool access_refused = false;
  // Sets it to its default, as if the client had never set it.
  bool access_to_default = false;
  bool and_chain = false;
};

// Whether the statement sets something that the proxy controls: the access mode of the session or
// of its transaction.
inline bool ours_to_keep(const Effects& effects) noexcept {
  return effects.sets_access || effects.sets_default_access;
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
