// The faults that the copies of the decision once had, and their neighbours. tests/unit/proxy/session/guard.cpp finds each without a
// server; in a build with TERMGATE_PLANT the proxy has the one that TERMGATE_PLANTED names, and tests/live/storm/planted_test.py finds it
// on a live server.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "guard.hpp"

namespace termgate::session {

enum class Fault {
  none,
  own_call_spares_neighbours,   // a call of layer 1's functions counts as a check
  declaration_not_heard,        // set_config does not undo what was passed
  comment_on_a_read,            // a comment's claim is not checked for a read
  empty_passed_is_enough,       // a comment's claim is not compared where the session's own has passed
  check_term_of_another_scope,  // check_term() of any scope counts for the session's own
  no_check_before_commit,
  holes_in_read_only,           // READ ONLY is believed to stop everything
  code_then_declaration,        // what code declared and wrote under is forgotten at the next declaration
  rollback_to_keeps_the_check,  // the model's (proxy_savepoint), not the decision's
  a_comment_stands_for_all,     // the claim of a comment is believed to stand for what was read before it in its pipeline
  lock_lasts_to_the_commit,     // what is READ ONLY inside a savepoint is believed to be so at the COMMIT
  count
};

// By the names of termgate/detail/plant.hpp.
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

// `sound` is the decision without the fault.
template <class Decide>
Act decide_with(Fault fault, Unit unit, TransactionView view, Standing claim, Decide sound) {
  switch (fault) {
    case Fault::declaration_not_heard: view.redeclared = false; break;
    case Fault::comment_on_a_read:
      if (unit.does == Does::reads || unit.does == Does::calls) unit.named = false;
      break;
    case Fault::empty_passed_is_enough:
      if (claim == Standing::current && view.session_passed) unit.named = false;
      break;
    case Fault::check_term_of_another_scope: view.session_passed |= view.other_passed; break;
    case Fault::code_then_declaration: view.code_declared = view.acted_since = false; break;  // either alone has it checked
    case Fault::no_check_before_commit:
      if (unit.does == Does::commit) return Act::pass;
      break;
    case Fault::holes_in_read_only: unit.hole = false; break;
    case Fault::a_comment_stands_for_all: view.unnamed = false; break;
    case Fault::lock_lasts_to_the_commit: view.left_over = false; break;
    case Fault::own_call_spares_neighbours:
      if (view.writable && !view.session_passed && !view.other_passed && (unit.does == Does::commit || view.acted)) return Act::pass;
      break;
    default: break;
  }
  return sound(unit, view, claim);
}

}  // namespace termgate::session
