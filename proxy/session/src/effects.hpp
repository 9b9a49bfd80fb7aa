// What running one statement means for the transaction that it runs in, of what statements/ says of its text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/statements/classify.hpp>

#include "replies.hpp"
#include "guard.hpp"

namespace termgate::session {

using Text = std::shared_ptr<const statements::Classified>;

// What a text says of the session, beside what each of its statements does.
struct Learned {
  bool speaks_of_terms = false;  // it declares, or may
  bool calls_unknown = false;    // code that may declare without a word of it in the text
  bool may_make_rules = false;   // CREATE RULE, inside of any statement
  bool own_names_first = true;   // no search_path that it sets puts other schemas before pg_catalog
  std::vector<std::string> deallocates{};
  std::optional<std::string> role{};  // SET ROLE; empty: the user
};
Learned learned_of(const statements::Classified& text, std::string_view sql);

// Whether pg_catalog, if a search_path names it at all, is first in it.
bool puts_own_names_first(std::string_view search_path) noexcept;

struct Effects {
  enum class Way : std::uint8_t {
    read,     // goes through as it is; READ ONLY is the proof
    write,    // behind the check
    alone,    // cannot run in a transaction block, or may end its transactions itself: under a lock at session level
    control,  // BEGIN, COMMIT, SAVEPOINT …: of the transaction itself
    neutral,  // SET, SHOW, LISTEN …: reads no table, needs no snapshot
  };
  Way way = Way::write;
  statements::Kind kind = statements::Kind::unparsable;
  bool takes_snapshot = true;         // after it the transaction's access mode is fixed
  bool read_only_hole = false;        // a write that READ ONLY lets through
  bool calls_functions = false;       // which may change what the session's default is
  bool calls_unknown = false;         // functions that are not among the usual ones of the server
  bool own_check = false;             // nothing but a call of layer 1, which brings scope and term as its arguments
  bool own_check_passes = false;      // … and that passes the check for the rest of the transaction
  bool own_check_acts = false;        // … or whose arguments may run code
  bool own_check_writes = false;      // … or that writes itself: what must not happen where a fence is untrusted
  bool changes_declaration = false;   // of scope and term, or may
  bool declares = false;              // its own words do, or may
  bool only_declares = false;         // a query with set_config() of scope or term that is a read otherwise
  bool exactly_declares = false;      // … and surely does nothing else
  bool by_name = false;               // … and was prepared by SQL: code of the client's may have put something else in its place
  bool input_runs_code = false;       // a parameter is of a user's own type
  bool literals = true;               // it has constants, which are read by the input of their types
  bool opens_calling_cursor = false;  // DECLARE of a query that calls functions: FETCH runs them
  bool unsettles = false;             // what follows cannot be judged before its answer is here
  bool forgets_prepared = false;      // DEALLOCATE ALL, DISCARD ALL
  bool unlocks = false;               // names a function that would give up the lock it runs under
  bool runs_prepared = false;         // EXECUTE: `name` was prepared before
  bool is_copy_in = false;
  std::string savepoint;                      // of SAVEPOINT, RELEASE, ROLLBACK TO
  std::string prepares;                       // the name that a PREPARE gives, and what it gives it to
  statements::Declaration prepares_declared;  // … with the claim of its comments, which binds every EXECUTE
  bool prepares_declares = false, prepares_exactly = false;
  bool prepares_input = false;  // … with parameters of types that are not the server's own
  bool prepares_read = false, prepares_plain_write = false, prepares_calls = false;
  // SET and the like of what is ours to keep: the session's or the transaction's access mode.
  bool sets_default_access = false;
  bool sets_access = false;
  statements::Access access = statements::Access::unspecified;
  enum class Shown : std::uint8_t { nothing, default_mode, mode } shown = Shown::nothing;  // by SHOW, of the same
  bool access_refused = false;     // … to something that the server certainly refuses
  bool access_to_default = false;  // … to what it is without a word of the client's
  bool and_chain = false;
};

// Of what is the proxy's to keep: the access mode of the session or of its transaction.
inline bool ours_to_keep(const Effects& effects) noexcept { return effects.sets_access || effects.sets_default_access; }

// What of it shows where the client asks for its default.
Change change_of(const Effects& effects) noexcept;

// Of one statement of `sql`.
Effects effects_of(const statements::Statement& statement, std::string_view sql);
// Of a text that is run as a whole, and is sent as one: the strongest of its statements'.
Effects effects_of(const statements::Classified& text, std::string_view sql);
// `one` on top of `all`, of which both run.
void add(Effects& all, const Effects& one);
// As the decision sees it. `own_call` counts only where no rule of the operator's is final.
Unit unit_of(const Effects& effects, bool named, bool final_rule) noexcept;
// The text with pg_catalog. in front of each set_config() that names no schema. `offset`: where the text begins in the one that was
// classified.
std::string with_own_set_config(std::string_view sql, const statements::Statement& statement, std::size_t offset = 0);
// Of what nothing is known: counts as a write that may do anything.
Effects effects_of_unknown();

// The text with every way of asking for READ WRITE turned into one that asks for READ ONLY, of the same length where it can be:
// it is the check that makes a transaction writable, never the client.
std::string without_read_write(std::string_view sql, const Effects& effects, const statements::Statement& statement);

// SET TRANSACTION READ WRITE, SET transaction_read_only to a value, BEGIN READ WRITE: of the transaction that is open, where one is.
bool asks_for_read_write(const Effects& effects, const statements::Statement& statement) noexcept;

// The text as it goes to the server where that is not as the client wrote it: one of the two above. Empty: as the client wrote it.
std::string rewritten_for(std::string_view sql, const Effects& effects, const statements::Statement& statement);

}  // namespace termgate::session
