// Long: one table of all combinations, and its judge.
//
// The one decision (proxy/postgres/src/guard.hpp): a table of all combinations, and a random test
// that plays units against a model of a server and judges only what commits. The judge states the
// three properties anew and shares no code with the decision.
#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "guard.hpp"
#include "guard_faults.hpp"

using namespace termgate::pg_session;

namespace {

constexpr std::array<bool, 2> both{false, true};

bool makes_writable(Act act) {
  return act == Act::open || act == Act::open_unchecked || act == Act::open_then_check ||
         act == Act::open_then_recheck;
}
bool opens_with_check(Act act) { return makes_writable(act) && act != Act::open_unchecked; }
bool checks(Act act) {
  return opens_with_check(act) || act == Act::check || act == Act::recheck ||
         act == Act::check_both || act == Act::hold;
}
bool refused(Standing claim) {
  return claim == Standing::stale || claim == Standing::untrusted || claim == Standing::problem;
}

// Whatever runs code of the client's, or writes.
bool runs_something(Does does) { return does >= Does::fetch; }
// Nothing that could write goes by itself: a declaration does nothing else, layer 1 checks what it
// is given.
bool harmless(Does does) {
  return does == Does::declares || does == Does::own_call || does == Does::savepoint;
}
bool looks_like_read(Does does) {
  return does == Does::reads || does == Does::calls || does == Does::fetch;
}
bool passed_for(const Unit& unit, const TransactionView& view, Standing claim) {
  return unit.named ? view.named_passed && !view.tx.code_declared
                    : !view.tx.redeclared && (view.tx.session_passed ||
                                              (claim == Standing::none && view.tx.other_passed));
}

// What the server does with the unit: what runs, a Parse, a Bind, and whether that runs code. A
// Bind may run an input function.
struct Stepped {
  Step step;
  Does ahead;
  bool input;
};
constexpr Stepped steps[] = {{Step::runs, Does::quiet, false},   {Step::parses, Does::quiet, false},
                             {Step::parses, Does::calls, false}, {Step::plans, Does::quiet, false},
                             {Step::plans, Does::reads, false},  {Step::plans, Does::calls, false},
                             {Step::plans, Does::calls, true}};

struct Passes {
  bool session, other, named;
};
constexpr Passes passes[] = {{},
                             {true, false, false},
                             {false, true, false},
                             {true, true, false},
                             {false, true, true},
                             {true, true, true}};
// What has acted, since the last check too, and has declared by code
// (Transaction::assert_consistent).
struct Ran {
  bool acted, since, declared;
};
constexpr Ran rans[] = {
    {}, {true, false, false}, {true, true, false}, {true, false, true}, {true, true, true}};

std::string described(const Unit& unit, const TransactionView& view, Standing claim, Act act) {
  std::string text = "place " + std::to_string(static_cast<int>(view.place)) + " step " +
                     std::to_string(static_cast<int>(unit.step)) + " does " +
                     std::to_string(static_cast<int>(unit.does)) + " claim " +
                     std::to_string(static_cast<int>(claim)) + " act " +
                     std::to_string(static_cast<int>(act));
  const auto add = [&](const char* name, bool is) { text += is ? std::string(" ") + name : ""; };
  add("hole", unit.hole), add("named", unit.named), add("redeclares", unit.redeclares),
      add("input", unit.input);
  add("guards", view.guards), add("opened", view.tx.writable), add("locked", view.tx.locked),
      add("snapshot", view.tx.snapshot);
  add("read_only", view.read_only), add("session_passed", view.tx.session_passed),
      add("other_passed", view.tx.other_passed);
  add("named_passed", view.named_passed), add("redeclared", view.tx.redeclared),
      add("acted", view.tx.acted), add("since", view.tx.acted_since);
  add("code_declared", view.tx.code_declared), add("unnamed", view.tx.unnamed),
      add("called", view.pipeline.called);
  add("opening_possible", view.pipeline.opening_possible), add("members", refused(view.members)),
      add("can_wait", view.can_wait);
  return text;
}

// SET and the like, FETCH, set_config(): nothing else takes the place of a declaration by its text.
bool may_redeclare(Does does) {
  return does == Does::quiet || does == Does::fetch || does == Does::declares ||
         does == Does::reads;
}

// Every unit at every step in every transaction, in one place.
template <class Look>
void each_transaction(Place place, const PipelineView& pipeline, Look look) {
  for (int does = 0; does < does_count; ++does)
    for (const Stepped& stepped : steps)
      for (unsigned of = 0; of < 8; ++of)
        for (unsigned bits = 0; bits < 1u << 7; ++bits)
          for (const Passes& pass : passes)
            for (const Ran& ran : rans)
              for (int standing = 0; standing < standing_count; ++standing) {
                // A simple query runs at once.
                if (stepped.step != Step::runs && place != Place::block && place != Place::group)
                  continue;
                if ((of & 4) != 0 && !may_redeclare(static_cast<Does>(does))) continue;
                const auto bit = [bits](unsigned at) { return (bits >> at & 1u) != 0; };
                const Unit unit{.does = static_cast<Does>(does),
                                .step = stepped.step,
                                .ahead = stepped.ahead,
                                .input = stepped.input,
                                .hole = (of & 1) != 0,
                                .named = (of & 2) != 0,
                                .redeclares = (of & 4) != 0};
                look(unit,
                     TransactionView{.place = place,
                                     .tx = {.snapshot = bit(3),
                                            .writable = bit(1),
                                            .locked = bit(2),
                                            .session_passed = pass.session,
                                            .other_passed = pass.other,
                                            .redeclared = bit(5),
                                            .acted = ran.acted,
                                            .acted_since = ran.since,
                                            .code_declared = ran.declared,
                                            .unnamed = bit(6),
                                            .left_over = bit(6)},
                                     .guards = bit(0),
                                     .read_only = bit(4),
                                     .reads_only = bit(4),
                                     .named_passed = pass.named,
                                     .pipeline = pipeline},
                     static_cast<Standing>(standing));
              }
}

// For each state of a pipeline a few transactions: what has passed or run in one is the same in a
// block.
template <class Look>
void each_pipeline(Look look) {
  for (int does = 0; does < does_count; ++does)
    for (const Stepped& stepped : steps)
      for (unsigned of = 0; of < 8; ++of)
        for (unsigned bits = 0; bits < 1u << 12; ++bits)
          for (int standing = 0; standing < standing_count; ++standing) {
            if ((of & 4) != 0 && !may_redeclare(static_cast<Does>(does))) continue;
            const auto bit = [bits](unsigned at) { return (bits >> at & 1u) != 0; };
            const Unit unit{.does = static_cast<Does>(does),
                            .step = stepped.step,
                            .ahead = stepped.ahead,
                            .input = stepped.input,
                            .hole = (of & 1) != 0,
                            .named = (of & 2) != 0,
                            .redeclares = (of & 4) != 0};
            TransactionView view{
                .place = Place::group, .tx = {.writable = bit(1)}, .guards = bit(0)};
            view.read_only = view.reads_only = bit(2);
            view.tx.session_passed = view.tx.acted = view.tx.acted_since = bit(3);
            view.tx.redeclared = bit(4);
            view.can_wait = bit(5);
            view.members = bit(6) ? Standing::stale : Standing::none;
            view.pipeline = {.goes = bit(7) ? Goes::direct : Goes::held,
                             .touched_server = bit(8),
                             .executed = bit(8),
                             .executed_here = bit(9),
                             .acted_here = bit(9),
                             .called = bit(10),
                             .opening_possible = bit(11)};
            look(unit, view, static_cast<Standing>(standing));
          }
}

template <class Look>
void all_combinations(Look look) {
  for (const Place place : {Place::alone, Place::text, Place::block})
    each_transaction(place, {}, look);
  each_transaction(Place::group, {.goes = Goes::held}, look);
  each_pipeline(look);
}

}  // namespace

TEST_CASE(
    "guard: no possible writer runs in a transaction that can write without a check for its claim",
    "[F1][F2][F6][proxy]") {
  std::size_t seen = 0;
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    const Act act = decide(unit, view, claim, {});
    ++seen;
    const bool can_write = view.may_write() || makes_writable(act);
    // At a Parse and a Bind that is what it runs already. Without any claim it may be declared
    // later: the COMMIT comes after a check.
    const Does does = view.place == Place::block && runs_now(unit, view.tx.writable, claim)
                          ? unit.does
                          : unit.now();
    if (act == Act::frame || act == Act::wait || act == Act::open_later) return;
    if (!can_write || !runs_something(does) || harmless(does) || is_refusal(act) ||
        act == Act::lock || checks(act))
      return;
    if (passed_for(unit, view, claim)) return;
    // A Parse of a declaration or of a call of layer 1 is as harmless as these.
    if (unit.step != Step::runs && harmless(unit.does)) return;
    // A prepared write opens its block without a claim, and is checked when it runs.
    if (unit.step != Step::runs && act == Act::open_unchecked && claim == Standing::none &&
        unit.does >= Does::writes)
      return;
    // A session that is not guarded has no transaction that could be locked, or stay READ ONLY:
    // there the COMMIT comes after a check.
    if (view.place == Place::group && !view.guards && looks_like_read(does) &&
        (act == Act::open_unchecked || act == Act::stay_read_only))
      return;
    FAIL("it would run without a check: " + described(unit, view, claim, act));
  });
  CHECK(seen > 38'000'000);
}

TEST_CASE("guard: what waits at its Parse or Bind is decided when it runs", "[F1][F6][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    const Act act = decide(unit, view, claim, {});
    if (unit.step == Step::runs) {
      if (act == Act::wait || act == Act::open_later)
        FAIL("an Execute waits for nothing: " + described(unit, view, claim, act));
      return;
    }
    const bool only_for_an_execute = act == Act::hold || act == Act::frame ||
                                     act == Act::stay_read_only || act == Act::open_then_recheck;
    if (only_for_an_execute) FAIL("it does not run yet: " + described(unit, view, claim, act));
    if (view.place == Place::block && act == Act::wait &&
        (claim != Standing::none || view.tx.passed_any()))
      FAIL("only what has no claim yet may wait: " + described(unit, view, claim, act));
    if (act == Act::open_later && view.may_write() &&
        (view.guards || (unit.does != Does::code && unit.does != Does::alone)))
      FAIL("it can write already: " + described(unit, view, claim, act));
  });
}

TEST_CASE("guard: READ ONLY is never trusted with what it does not stop", "[F6][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (unit.step != Step::runs || view.may_write() || !unit.hole || unit.does < Does::fetch ||
        harmless(unit.does))
      return;
    // A cursor and what looks like a read are no holes by their text.
    if (looks_like_read(unit.does)) return;
    const Act act = decide(unit, view, claim, {});
    if (act == Act::pass && !passed_for(unit, view, claim))
      FAIL("READ ONLY would not stop it: " + described(unit, view, claim, act));
  });
}

TEST_CASE(
    "guard: a declaration takes the place of another only when what ran under that was checked",
    "[F1][F2][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (!unit.redeclares || unit.step != Step::runs) return;
    const Act act = decide(unit, view, claim, {});
    if (act == Act::open_then_recheck || act == Act::stay_read_only) {
      const bool reads_ran =
          !view.pipeline.direct() && view.pipeline.acted_here && !view.tx.writable;
      const bool possible = !refused(claim) && !refused(view.members) && !view.pipeline.called &&
                            view.pipeline.opening_possible;
      if (view.place == Place::group && reads_ran && possible == (act == Act::open_then_recheck))
        return;
      FAIL("there were no reads that could declare: " + described(unit, view, claim, act));
    }
    // A text with a declaration gets a frame, and is decided about again inside of it.
    if (act == Act::frame) return;
    const bool ran = view.tx.code_declared || (view.tx.acted_since && (view.tx.passed_any()));
    if (view.may_write() && ran) {
      if (act == Act::recheck) return;
    } else {
      Unit other = unit;
      other.redeclares = false;
      if (act == decide(other, view, claim, {})) return;
    }
    FAIL("what ran before is not checked, or a declaration that replaces nothing is: " +
         described(unit, view, claim, act));
  });
}

TEST_CASE("guard: a claim that is known to be stale untrusted or malformed opens nothing",
          "[F2][F3][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (!refused(claim)) return;
    if (unit.does == Does::commit)
      return;  // whatever was checked before it is checked again by the server
    const Act act = decide(unit, view, claim, {});
    if (!opens_with_check(act) && act != Act::hold && (view.read_only || act != Act::check)) return;
    FAIL("it would be opened: " + described(unit, view, claim, act));
  });
}

TEST_CASE("guard: a pipeline is opened where it begins only if what it has read may write",
          "[F1][F2][F6][proxy]") {
  each_pipeline([&](const Unit& unit, const TransactionView& view, Standing claim) {
    const Act act = decide(unit, view, claim, {});
    const bool held = !view.tx.writable;
    if (held && makes_writable(act)) {
      if (refused(view.members))
        FAIL("an earlier claim cannot pass: " + described(unit, view, claim, act));
      if (!view.pipeline.opening_possible)
        FAIL("something has run unopened: " + described(unit, view, claim, act));
      if (view.pipeline.called && opens_with_check(act))
        FAIL("an earlier call would run writable: " + described(unit, view, claim, act));
      if (view.pipeline.called && unit.now() == Does::own_call)
        FAIL("an earlier call would run unchecked: " + described(unit, view, claim, act));
    }
    const bool apart = unit.does == Does::code || unit.does == Does::alone;
    const bool alone = !view.tx.writable && !view.pipeline.touched_server;
    if (act == Act::hold && !(apart && (alone || view.reads_only)))
      FAIL("it is not the only one: " + described(unit, view, claim, act));
    for (const bool writes : both) {
      for (const bool flushed : both) {
        const Act then = before_flush(view, claim, writes, flushed);
        if (!makes_writable(then)) continue;
        const bool may = claim == Standing::current || claim == Standing::uncertain;
        if (!may || refused(view.members) || view.pipeline.called ||
            !view.pipeline.opening_possible || view.reads_only)
          FAIL("a Flush opens it: " + described(unit, view, claim, then));
      }
    }
  });
}

TEST_CASE("guard: a transaction that wrote commits only under a claim that has passed",
          "[F1][F2][F6][proxy]") {
  each_transaction(
      Place::block, {}, [&](const Unit& unit, const TransactionView& view, Standing claim) {
        if (unit.does != Does::commit || unit.step != Step::runs || unit.hole) return;
        const TransactionFacts& tx = view.tx;
        // READ ONLY inside a savepoint does not last until here.
        const bool could_write = tx.writable || !view.guards;
        const bool covered =
            tx.passed_any() && !tx.redeclared && (tx.session_passed || !tx.unnamed);
        const Act act = before_commit(view, {});
        if (could_write && tx.acted && !covered && act != Act::check && act != Act::recheck)
          FAIL("unchecked: " + described(unit, view, claim, act));
        if (could_write && tx.left_over && !tx.acted && !covered && act == Act::pass)
          FAIL("left over: " + described(unit, view, claim, act));
        if (act == Act::lock && (tx.acted || tx.passed_any()))
          FAIL("what may write is locked: " + described(unit, view, claim, act));
        if (act != Act::pass && (!could_write || covered))
          FAIL("checked twice: " + described(unit, view, claim, act));
        if (before_commit(view, {.standby = true}) != Act::pass)
          FAIL("a standby has written: " + described(unit, view, claim, act));
      });
}

TEST_CASE("guard: a fast path call and a text outside of a block never write there",
          "[F6][proxy]") {
  each_transaction(
      Place::text, {}, [&](const Unit& unit, const TransactionView& view, Standing claim) {
        const Act act = decide(unit, view, claim, {});
        const bool writes =
            unit.does == Does::writes || unit.does == Does::prepares || unit.does == Does::own_call;
        if (writes && act != (refused(claim) ? (claim == Standing::problem ? Act::refuse_claim
                                                                           : Act::refuse_known)
                                             : Act::frame))
          FAIL("a write without a frame: " + described(unit, view, claim, act));
        if (act == Act::hold)
          FAIL("a text cannot wait for a lock: " + described(unit, view, claim, act));
        TransactionView call = view;
        call.place = Place::call;
        if (decide(unit, call, claim, {}) !=
            (unit.does == Does::writes ? Act::refuse_call : Act::pass))
          FAIL("a call: " + described(unit, view, claim, act));
      });
}

TEST_CASE("guard: without a claim a session reads and nothing is put in front of its reads",
          "[F6][F7][proxy]") {
  for (const Does does :
       {Does::reads, Does::calls, Does::fetch, Does::quiet, Does::begin, Does::rollback}) {
    for (const Place place : {Place::alone, Place::text, Place::block, Place::group}) {
      CHECK(decide({.does = does}, {.place = place}, Standing::none, {}) == Act::pass);
      CHECK(decide({.does = does}, {.place = place}, Standing::stale, {}) == Act::pass);
    }
  }
}

TEST_CASE("guard: of what the server guards only what looks like a read goes without a check",
          "[F1][F2][F6][proxy]") {
  const auto look = [&](const Unit& unit, const TransactionView& view, Standing claim) {
    TransactionView guarded = view;
    guarded.server_guards = true;
    const Act act = decide(unit, view, claim, {});
    const Act there = decide(unit, guarded, claim, {});
    if (act == there) return;
    const bool read = looks_like_read(unit.step == Step::runs ? unit.does : unit.ahead) ||
                      looks_like_read(unit.does) ||
                      (unit.step != Step::runs && unit.ahead == Does::quiet);
    if (there != Act::pass || !view.may_write())
      FAIL("it changes more than what may pass: " + described(unit, view, claim, act));
    if (!read && unit.does != Does::commit)
      FAIL("it lets a writer pass: " + described(unit, view, claim, act));
    if (view.tx.passed_any())
      FAIL("what was checked is not checked again: " + described(unit, view, claim, act));
    if (unit.does != Does::commit && refused(claim))
      FAIL("a claim is known, and not checked: " + described(unit, view, claim, act));
    if (unit.does != Does::commit && claim == Standing::current)
      FAIL("a claim is known, and not checked: " + described(unit, view, claim, act));
  };
  for (const Place place : {Place::alone, Place::text, Place::block})
    each_transaction(place, {}, look);
  each_transaction(Place::group, {.goes = Goes::held}, look);
}

TEST_CASE("guard: what is refused at sight", "[F6][proxy]") {
  for (unsigned bits = 0; bits < 1u << 14; ++bits)
    for (int step = 0; step < 3; ++step)
      for (int standing = 0; standing < standing_count; ++standing) {
        const auto bit = [bits](unsigned at) { return (bits >> at & 1u) != 0; };
        const auto claim = static_cast<Standing>(standing);
        const Unit unit{.step = static_cast<Step>(step), .discards = bit(0), .unread = bit(1)};
        TransactionView view{.place = bit(2)   ? Place::block
                                      : bit(3) ? Place::group
                                               : Place::alone,
                             .tx = {.writable = bit(5)},
                             .guards = bit(4)};
        view.read_only = bit(6);
        view.pipeline = {.goes = bit(3) ? Goes::held : Goes::nowhere,
                         .needs_hold = bit(7),
                         .discarded = bit(8),
                         .touched_server = bit(9),
                         .executed_here = bit(10)};
        const Policy policy{.standby = bit(11), .may_speak = bit(12), .allows = bit(13)};
        const Act act = at_sight(unit, view, claim, policy);
        const bool runs = unit.step == Step::runs;
        const bool blind = unit.unread && !view.may_write(),
                   hopeless = refused(claim) || !(policy.may_speak || policy.allows);
        Act wanted = Act::pass;
        if (!view.pipeline.begun()) {
          if (blind && !policy.standby && refused(claim))
            wanted = claim == Standing::problem ? Act::refuse_claim : Act::refuse_known;
          else if (blind && !policy.standby && view.read_only && !view.tx.writable)
            wanted = Act::refuse_unread_read_only;
          else if (blind && !policy.standby && hopeless) wanted = Act::refuse_unread;
        } else if (view.pipeline.needs_hold) {
          wanted = Act::refuse_after_held;
        } else if (view.pipeline.discarded ||
                   (unit.discards && runs && view.place != Place::block &&
                    (view.tx.writable || view.pipeline.touched_server ||
                     view.pipeline.executed_here))) {
          wanted = Act::refuse_discard;
        } else if (blind && !runs && hopeless) {
          wanted = Act::wait;
        }
        if (act != wanted)
          FAIL("wanted " + std::to_string(static_cast<int>(wanted)) + ": " +
               described(unit, view, claim, act));
      }
}

// Long: one row for each case.
TEST_CASE("guard: what stands for what", "[F1][F2][F4][F6][proxy]") {
  using enum Does;
  using enum Standing;
  using enum Act;
  struct Row {
    const char* name;
    Unit unit;
    TransactionView view;
    Standing claim;
    Act act;
  };
  const TransactionView idle{}, block{.place = Place::block}, text{.place = Place::text};
  const TransactionView passed{.place = Place::block,
                               .tx = {.writable = true, .session_passed = true, .acted = true}};
  const TransactionView group{.place = Place::group, .pipeline = {.goes = Goes::held}};
  TransactionView called = group, unopened = group, read = group, stale_member = group;
  called.pipeline.called = true;
  unopened.pipeline.opening_possible = false;
  read.pipeline.executed_here = read.pipeline.acted_here = read.tx.redeclared = true;
  stale_member.members = stale;
  TransactionView redeclared = passed;
  redeclared.tx.redeclared = true;
  const TransactionView by_arguments{.place = Place::block,
                                     .tx = {.writable = true, .other_passed = true, .acted = true}};
  // clang-format off
  const Row rows[] = {
      {"a read alone", {.does = reads}, idle, current, pass},
      {"a read that calls", {.does = calls}, idle, current, open},
      {"a read that calls, declared somehow", {.does = calls}, idle, uncertain, open},
      {"a read in a block that may write later", {.does = reads}, block, current, open},
      {"a write", {.does = writes}, idle, current, open},
      {"a write without a claim", {.does = writes}, idle, none, open},
      {"a stale write", {.does = writes}, idle, stale, refuse_known},
      {"a write of an untrusted scope", {.does = writes}, idle, untrusted, refuse_known},
      {"a malformed one", {.does = writes}, idle, problem, refuse_claim},
      {"a second write", {.does = writes}, passed, current, pass},
      {"a write after a declaration, which may have been taken back", {.does = writes}, redeclared, uncertain, check},
      {"a read after one", {.does = reads}, redeclared, uncertain, recheck},
      {"a COMMIT after a declaration", {.does = commit}, redeclared, uncertain, recheck},
      {"a COMMIT", {.does = commit}, passed, current, pass},
      {"a comment of another scope", {.does = writes, .named = true}, passed, current, check},
      {"a comment on a read", {.does = reads, .named = true}, passed, current, check},
      {"a stale comment on a read", {.does = reads, .named = true}, passed, stale, refuse_known},
      {"check_term of another scope spares nobody", {.does = writes}, by_arguments, current, check},
      {"check_term is a claim where there is none", {.does = writes}, by_arguments, none, pass},
      {"a call of layer 1", {.does = own_call}, idle, stale, open_unchecked},
      {"a call of layer 1 in a block", {.does = own_call}, passed, stale, pass},
      {"set_config in a block", {.does = declares}, block, none, open_unchecked},
      {"set_config alone", {.does = declares}, idle, none, pass},
      {"a savepoint before anything is declared", {.does = savepoint}, block, none, open_unchecked},
      {"a read after it", {.does = reads}, {.place = Place::block, .tx = {.writable = true}}, none, lock},
      {"a write after it", {.does = writes}, {.place = Place::block, .tx = {.writable = true}}, none, check},
      {"a COMMIT after set_config alone", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .redeclared = true}}, uncertain, pass},
      {"a COMMIT of what was never checked", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .acted = true}}, none, check},
      {"a COMMIT of what was READ ONLY inside a savepoint", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .left_over = true}}, stale, lock},
      {"… and of what ran outside of it too", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .acted = true, .left_over = true}}, none, check},
      {"a COMMIT of what a comment has passed for, and of something without one", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .other_passed = true, .acted = true, .unnamed = true}}, current, recheck},
      {"… and of what has passed since", {.does = commit}, {.place = Place::block, .tx = {.writable = true, .session_passed = true, .left_over = true}}, current, pass},
      {"DO in the client's READ ONLY block", {.does = writes, .hole = true}, {.place = Place::block, .read_only = true}, none, refuse_no_term},
      {"the same with a claim", {.does = writes, .hole = true}, {.place = Place::block, .read_only = true}, current, check},
      {"DO outside of it", {.does = writes, .hole = true}, {.read_only = true}, current, frame},
      {"INSERT in the client's READ ONLY block", {.does = writes}, {.place = Place::block, .read_only = true}, none, pass},
      {"VACUUM", {.does = alone}, idle, current, hold},
      {"VACUUM in READ ONLY", {.does = alone}, {.read_only = true}, current, refuse_no_term},
      {"CALL", {.does = code, .hole = true}, idle, current, hold},
      {"CALL in a block", {.does = code, .hole = true}, block, current, open},
      {"a declaration after a write", {.does = quiet, .redeclares = true}, {.place = Place::block, .tx = {.writable = true, .session_passed = true, .acted = true, .acted_since = true}}, current, recheck},
      {"the next one: scope and term are half declared between them", {.does = quiet, .redeclares = true}, redeclared, uncertain, pass},
      {"the next one after set_config() in code", {.does = quiet, .redeclares = true}, {.place = Place::block, .tx = {.writable = true, .session_passed = true, .redeclared = true, .acted = true, .code_declared = true}}, uncertain, recheck},
      {"a Parse of a write in a block without a claim", {.does = writes, .step = Step::parses, .ahead = calls}, block, none, open_unchecked},
      {"a Bind of a write in a block", {.does = writes, .step = Step::plans, .ahead = calls}, block, current, open},
      {"a Parse of it, which is not its Bind", {.does = writes, .step = Step::parses, .ahead = calls}, block, current, open},
      {"a Parse of a write in a block that is open already", {.does = writes, .step = Step::parses}, passed, stale, pass},
      {"a Parse that runs code in it, after a declaration", {.does = writes, .step = Step::parses, .ahead = calls}, redeclared, uncertain, check},
      {"the same without any claim", {.does = writes, .step = Step::parses, .ahead = calls}, {.place = Place::block, .tx = {.writable = true}}, none, wait},
      {"a call of layer 1 in a block for what is untrusted", {.does = own_call, .untrusted = true}, passed, current, refuse_own},
      {"CALL where the session is not guarded yet", {.does = code, .hole = true}, {.guards = false}, uncertain, hold},
      {"a Bind of a write after what may declare and is held", {.does = writes, .step = Step::plans, .ahead = calls}, {.place = Place::group, .pipeline = {.goes = Goes::held}, .can_wait = true}, uncertain, wait},
      {"a write in a text", {.does = writes}, text, current, frame},
      {"a stale write in a text", {.does = writes}, text, stale, refuse_known},
      {"a read in a text", {.does = reads}, text, current, pass},
      {"a read in a pipeline", {.does = reads}, group, current, pass},
      {"a Bind of a write in a pipeline", {.does = writes, .step = Step::plans, .ahead = calls}, group, current, open},
      {"a Bind of a call in a pipeline", {.does = calls, .step = Step::plans, .ahead = calls}, group, current, open_later},
      {"a write in a pipeline after a call without a claim", {.does = writes}, called, current, refuse_after_call},
      {"a call of layer 1 after one", {.does = own_call}, called, current, refuse_own_after_call},
      {"a call of layer 1 for what is untrusted", {.does = own_call, .untrusted = true}, called, current, refuse_own},
      {"a write after what was sent READ ONLY", {.does = writes}, unopened, current, refuse_after_read},
      {"a write after a declaration in its pipeline", {.does = writes}, read, uncertain, open_then_check},
      {"a declaration after a read in its pipeline", {.does = quiet, .redeclares = true}, read, current, open_then_recheck},
      {"a write after a read with a stale comment", {.does = writes}, stale_member, current, refuse_member},
      {"CALL in a pipeline", {.does = code, .hole = true}, group, current, hold},
      {"CALL after something", {.does = code, .hole = true}, {.place = Place::group, .pipeline = {.goes = Goes::held, .executed = true}}, current, refuse_code_after},
      {"VACUUM after something", {.does = alone}, {.place = Place::group, .pipeline = {.goes = Goes::held, .executed = true}}, current, refuse_alone_after},
      {"a hole in a pipeline that the client wants READ ONLY", {.does = code, .hole = true}, {.place = Place::group, .read_only = true}, current, refuse_own_word},
      {"VACUUM that would release its lock", {.does = alone, .unlocks = true}, idle, current, refuse_unlocks},
      {"a write by the fast path outside of a block", {.does = writes}, {.place = Place::call}, current, refuse_call},
      {"a call of layer 1 for what is untrusted in a failed block", {.does = own_call, .untrusted = true}, {.place = Place::block, .tx = {.failed = true}}, untrusted, pass},
      {"anything in a failed block", {.does = writes}, {.place = Place::block, .tx = {.failed = true}}, none, pass},
  };
  // clang-format on
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const bool commits = row.unit.does == commit;
    const Act act =
        commits ? before_commit(row.view, {}) : decide(row.unit, row.view, row.claim, {});
    CHECK(static_cast<int>(act) == static_cast<int>(row.act));
  }
  // On a standby the server refuses every write itself, but not what READ ONLY does not stop.
  CHECK(decide({.does = writes}, idle, stale, {.standby = true}) == pass);
  CHECK(decide({.does = writes, .hole = true}, {.place = Place::block, .read_only = true}, none,
               {.standby = true, .may_speak = false}) == refuse_no_term);
}

// --- the random test ---

namespace {

using Random = std::mt19937_64;

// A server with three scopes and one session, told in the simplest words. It knows what the session
// declares; the proxy only knows what it can see.
struct World {
  struct Claim {
    int scope = 0;  // 0: none
    int term = 0;
    bool operator==(const Claim&) const = default;
    auto operator<=>(const Claim&) const = default;
  };

  explicit World(std::uint64_t seed) : random(seed) {}

  // --- the truth ---
  std::array<int, 3> fence{0, 5, 5};
  Claim declared{}, declared_before{};  // now; at the begin of the transaction
  bool in_transaction = false, writable = false, failed = false;
  std::set<Claim> passed;  // checks of this transaction
  bool wrote = false;
  std::vector<Claim>
      under;  // the claims in force for what was written, and for what was last in force
  // --- what the proxy sees ---
  TransactionView view;
  bool spoke = false, certain = true;
  Claim known{}, checked_as{};
  std::set<Claim> named_passed;

  std::size_t units = 0;  // played so far
  Random random;
  int below(int bound) { return static_cast<int>(random() % static_cast<std::uint64_t>(bound)); }
  bool stale(const Claim& claim) const {
    return claim.scope != 0 && claim.term < fence[static_cast<std::size_t>(claim.scope)];
  }

  // Errors roll back.
  void fail() {
    failed = true;
    view.tx.failed = true;
  }
  bool check(const Claim& claim) {
    if (claim.scope == 0 || stale(claim)) return fail(), false;
    passed.insert(claim);
    return true;
  }
};

Act faulty_decide(Fault fault, const Unit& unit, const TransactionView& view, Standing claim) {
  return decide_with(
      fault, unit, view, claim, [](const Unit& seen, const TransactionView& of, Standing standing) {
        return seen.does == Does::commit ? before_commit(of, {}) : decide(seen, of, standing, {});
      });
}

// One transaction of random units. The message of a breach, or empty.
// Long: a random story: its units are made, run and judged in one loop.
std::string one_transaction(World& world, Fault planted) {
  World::Claim none{};
  world.view = TransactionView{};
  world.view.place = Place::block;
  world.in_transaction = true;
  world.writable = world.failed = world.wrote = false;
  world.view.read_only = world.below(12) == 0;
  world.passed.clear();
  world.named_passed.clear();
  world.under.clear();
  world.declared_before = world.declared;
  World::Claim last_in_force{};  // what was declared in it last; what stood before counts for what
                                 // ran under it
  bool hole_unchecked = false;
  // READ ONLY inside a savepoint only; and a cursor WITH HOLD or a deferred trigger that writes at
  // the COMMIT.
  bool savepoint = false, locked_inside = false, writes_at_commit = false;
  // A pipeline that is held until something of it writes: then it is opened where it begins, and
  // what it has read before may write.
  const bool pipeline = world.below(4) == 0;
  std::vector<World::Claim> held_reads;

  const auto standing = [&](const World::Claim& claim, bool named) {
    if (!named && !world.certain) return world.spoke ? Standing::uncertain : Standing::none;
    if (claim.scope == 0) return Standing::none;
    // The proxy hears of some raises only.
    return world.stale(claim) && world.below(2) == 0 ? Standing::stale : Standing::current;
  };
  // What add_check and add_recheck make of an act (own_statements.cpp).
  const auto carry_out = [&](Act act, const World::Claim& claim, bool named) {
    if (makes_writable(act) && (world.view.tx.snapshot || world.view.tx.locked))
      return world.fail();  // 25001
    if (makes_writable(act)) world.writable = world.view.tx.writable = true;
    if (act == Act::open || act == Act::check) {
      if (!world.check(named ? claim : world.declared)) return;
      if (!named)
        world.view.tx.redeclared = world.view.tx.code_declared = world.view.tx.acted_since =
            world.view.tx.unnamed = false;
      if (named) {
        world.view.tx.other_passed = true;
        world.named_passed.insert(claim);
      } else {
        world.view.tx.session_passed = true;
        world.checked_as = world.certain ? world.known : none;
      }
    }
    if (act == Act::recheck || act == Act::check_both) {
      const World::Claim as = world.view.tx.session_passed ? world.checked_as : none;
      if (world.declared.scope != 0 && !(world.declared == as)) {
        if (!world.check(world.declared)) return;
      }
      world.view.tx.redeclared = world.view.tx.code_declared = world.view.tx.acted_since =
          world.view.tx.unnamed = false;
      world.checked_as = none;
    }
    if (act == Act::check_both) {
      if (!world.check(claim)) return;
      world.view.tx.other_passed = true;
      world.named_passed.insert(claim);
    }
    if (act == Act::lock) {
      locked_inside = savepoint;
      world.writable = false;
      world.view.tx.locked = true;
    }
    if (is_refusal(act)) world.fail();
  };

  const int units = 1 + world.below(8);
  for (int i = 0; i <= units && !world.failed; ++i) {
    const bool last = i == units;
    // Somebody raises a fence that this transaction holds no lock of.
    if (world.below(4) == 0) {
      const int scope = 1 + world.below(2);
      bool held = false;
      for (const auto& one : world.passed) held |= one.scope == scope;
      if (!held) ++world.fence[static_cast<std::size_t>(scope)];
    }
    ++world.units;
    Unit unit;
    World::Claim comment{};
    if (last) {
      unit.does = Does::commit;
    } else {
      static constexpr Does kinds[] = {
          Does::quiet, Does::savepoint, Does::fetch,  Does::declares, Does::reads,
          Does::calls, Does::own_call,  Does::writes, Does::writes,   Does::rollback};
      unit.does = kinds[world.below(static_cast<int>(std::size(kinds)))];
      unit.hole = unit.does == Does::writes && world.below(3) == 0;
      if (unit.does >= Does::reads && world.below(4) == 0) {
        unit.named = true;
        const int scope = 1 + world.below(2);
        comment = {scope,
                   world.fence[static_cast<std::size_t>(scope)] - (world.below(2) == 0 ? 0 : 1)};
      }
    }
    const World::Claim claim = unit.named ? comment : world.known;
    world.view.named_passed = unit.named && world.named_passed.contains(comment);
    unit.redeclares = unit.does == Does::declares;
    if (last && standing(world.known, false) == Standing::none) world.view.tx.unnamed = false;
    // Another claim does not take the place of the one that was read under: the pipeline stays READ
    // ONLY.
    if (unit.redeclares && !held_reads.empty() && !world.writable) world.view.tx.snapshot = true;
    const Act act = faulty_decide(planted, unit, world.view, standing(claim, unit.named));
    carry_out(act, comment, unit.named);
    if (world.failed) break;
    if (makes_writable(act)) {
      for (const World::Claim& under : held_reads) {
        world.wrote = true;
        world.under.push_back(under);
      }
      // open_group(): the claim of a comment, or of arguments, does not stand for what was read
      // before.
      if (!held_reads.empty() && (unit.named || act == Act::open_unchecked) &&
          planted != Fault::a_comment_stands_for_all) {
        if (world.declared.scope != 0 && !world.check(world.declared)) break;
        world.view.tx.unnamed = false;
      }
    }
    if (last) {
      if (writes_at_commit && act == Act::lock) world.fail();  // 25006
      if (writes_at_commit && act != Act::lock && (world.writable || locked_inside)) {
        world.wrote = true;
        world.under.push_back(world.declared);
      }
      break;
    }

    // It runs.
    const bool can_write = world.writable;
    if (unit.does == Does::savepoint && !world.writable) world.view.tx.snapshot = true;
    savepoint |= unit.does == Does::savepoint && world.writable;
    const bool is_held = pipeline && unit.does == Does::reads && !unit.named && !world.writable &&
                         act == Act::pass && !world.view.tx.snapshot && !world.view.tx.locked &&
                         !world.view.read_only;
    if (is_held) {
      held_reads.push_back(world.declared);
      world.view.tx.unnamed = true;
    } else if (unit.does >= Does::fetch && !world.writable && act != Act::open_unchecked) {
      world.view.tx.snapshot = true;
    }
    const World::Claim in_force = unit.named ? comment : world.declared;
    if (unit.does == Does::declares || (unit.does == Does::calls && world.below(2) == 0) ||
        (unit.does == Does::writes && unit.hole)) {
      const int scope = world.below(3);
      world.declared = scope == 0
                           ? none
                           : World::Claim{scope, world.fence[static_cast<std::size_t>(scope)] -
                                                     (world.below(2) == 0 ? 0 : 1)};
      last_in_force = world.declared;
      world.spoke |= unit.does == Does::declares;
    }
    if (unit.does == Does::declares || unit.does == Does::calls || unit.hole) {
      world.certain = false;
      world.view.tx.redeclared = true;
    }
    if (unit.does == Does::own_call && world.below(2) == 0) {
      // check_term('other', …): its own scope passes.
      const World::Claim other{1 + world.below(2), 0};
      const World::Claim exact{other.scope, world.fence[static_cast<std::size_t>(other.scope)]};
      world.passed.insert(exact);
      world.view.tx.other_passed = true;
    }
    const bool writes = is_held ? false
                                : unit.does == Does::writes ||
                                      ((unit.does == Does::reads || unit.does == Does::calls ||
                                        unit.does == Does::fetch) &&
                                       world.below(3) == 0);
    if (writes && can_write) {
      world.wrote = true;
      // What was in force when it began, and what it declared itself before it wrote.
      world.under.push_back(in_force);
      if (!unit.named && world.declared.scope != 0) world.under.push_back(world.declared);
    } else if (writes && !can_write) {
      if (unit.hole) hole_unchecked |= world.passed.empty();
      else world.fail();  // 25006
    }
    if (unit.does >= Does::fetch && unit.does != Does::own_call && unit.does != Does::declares) {
      world.view.tx.unnamed |= !unit.named;
      if (world.view.tx.locked) {
        world.view.tx.left_over = true;
        writes_at_commit |= locked_inside && world.below(3) == 0;
      } else {
        world.view.tx.acted = world.view.tx.acted_since = true;
        world.view.tx.code_declared |= unit.does == Does::calls || unit.hole;
      }
    }
    // RELEASE: what was READ ONLY inside the savepoint is so no more.
    if (unit.does == Does::rollback && locked_inside && world.below(2) == 0) {
      locked_inside = world.view.tx.locked = false;
      world.writable = true;
    }
    if (unit.does == Does::rollback && !world.failed && world.below(2) == 0) {
      // ROLLBACK TO: the checks since are lost.
      world.passed.clear();
      world.under.clear();
      world.wrote = false;
      if (planted != Fault::rollback_to_keeps_the_check) {
        world.view.tx.session_passed = world.view.tx.other_passed = false;
        world.named_passed.clear();
        world.checked_as = none;
        world.view.tx.redeclared = true;
        world.view.tx.acted_since = world.view.tx.unnamed = world.view.tx.acted;
      }
    }
  }

  std::string breach;
  if (!world.failed) {
    if (world.wrote) {
      for (const World::Claim& claim : world.under) {
        // A session that declares nothing may go on under what it has passed by arguments or a
        // comment.
        if (claim.scope == 0 ? world.passed.empty() : !world.passed.contains(claim))
          breach = "a write committed whose claim has not passed";
      }
      if (last_in_force.scope != 0 && !world.passed.contains(last_in_force))
        breach = "the last claim in force has not passed";
      for (const World::Claim& claim : world.passed) {
        if (world.stale(claim)) breach = "a raise went past the lock of a check";
      }
    }
    if (hole_unchecked) breach = "a hole of READ ONLY ran without a check";
  } else {
    world.declared = world.declared_before;
    world.certain = world.certain && world.known == world.declared;
  }
  // Between transactions a check tells what the session declares.
  if (world.below(2) == 0) {
    world.known = world.declared;
    world.certain = true;
  }
  return breach;
}

std::string storm(std::uint64_t seed, std::size_t units, Fault planted) {
  World world(seed);
  for (std::size_t i = 0; world.units < units; ++i) {
    std::string breach = one_transaction(world, planted);
    if (!breach.empty()) return breach + " (transaction " + std::to_string(i) + ")";
  }
  return {};
}

}  // namespace

TEST_CASE(
    "guard: random units against a model of the server commit nothing whose claim has not passed",
    "[F1][F2][F6][proxy]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  CHECK(storm(seed, 10'000'000, Fault::none) == "");
}

TEST_CASE("guard: each planted fault is found by the random test", "[F1][F2][F6][proxy]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  for (int fault = 1; fault < static_cast<int>(Fault::count); ++fault) {
    CAPTURE(seed, fault);
    CHECK_FALSE(storm(seed, 1'000'000, static_cast<Fault>(fault)).empty());
  }
}
