// Faults that earlier versions of the decision had, and similar ones.
// tests/unit/proxy/postgres/guard.cpp detects each of them without a server. A build with
// TERMGATE_PLANT has one of planted_faults (termgate/detail/plant.hpp), which
// tests/live/storm/planted_test.py detects on a live server.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "guard.hpp"

namespace termgate::pg_session {

enum class Fault {
  none,
  own_call_spares_neighbours,   // a call of layer 1's functions counts as a check
  declaration_not_heard,        // set_config() does not undo a passed check
  comment_on_a_read,            // a comment's claim is not checked for a read
  empty_passed_is_enough,       // a comment's claim is not compared once the session's has passed
  check_term_of_another_scope,  // check_term() of any scope counts for the session's own
  no_check_before_commit,
  holes_in_read_only,           // READ ONLY is trusted to stop everything
  code_then_declaration,        // what code declared is forgotten at the next declaration
  rollback_to_keeps_the_check,  // in the transaction model (proxy_savepoint), not in the decision
  a_comment_stands_for_all,     // a comment's claim covers what its pipeline read before it
  lock_lasts_to_the_commit,     // READ ONLY in a savepoint is trusted to last until the COMMIT
  count
};

// The faults that a build can have, by their names in termgate/detail/plant.hpp.
inline constexpr std::array<std::pair<std::string_view, Fault>, 8> planted_faults{{
    {"decision_own_call", Fault::own_call_spares_neighbours},
    {"decision_unheard", Fault::declaration_not_heard},
    {"decision_comment", Fault::comment_on_a_read},
    {"decision_any_claim", Fault::empty_passed_is_enough},
    {"decision_any_scope", Fault::check_term_of_another_scope},
    {"decision_commit", Fault::no_check_before_commit},
    {"decision_holes", Fault::holes_in_read_only},
    {"decision_code", Fault::code_then_declaration},
}};

// `sound`: the decision without the fault.
template <class Decide>
Act decide_with(Fault fault, Unit unit, TransactionView view, Standing claim, Decide sound) {
  switch (fault) {
    case Fault::declaration_not_heard: view.tx.redeclared = false; break;
    case Fault::comment_on_a_read:
      if (unit.does == Does::reads || unit.does == Does::calls) unit.named = false;
      break;
    case Fault::empty_passed_is_enough:
      if (claim == Standing::current && view.tx.session_passed) unit.named = false;
      break;
    case Fault::check_term_of_another_scope: view.tx.session_passed |= view.tx.other_passed; break;
    case Fault::code_then_declaration:
      view.tx.code_declared = view.tx.acted_since = false;
      break;  // both, for either flag alone still requires the check
    case Fault::no_check_before_commit:
      if (unit.does == Does::commit) return Act::pass;
      break;
    case Fault::holes_in_read_only: unit.hole = false; break;
    case Fault::a_comment_stands_for_all: view.tx.unnamed = false; break;
    case Fault::lock_lasts_to_the_commit: view.tx.left_over = false; break;
    case Fault::own_call_spares_neighbours:
      if ((unit.does == Does::commit ? view.tx.writable || !view.guards
                                     : view.may_write() && view.tx.acted) &&
          !view.tx.passed_any())
        return Act::pass;
      break;
    default: break;
  }
  return sound(unit, view, claim);
}

}  // namespace termgate::pg_session
