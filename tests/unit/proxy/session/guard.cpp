// The one decision (proxy/session/src/guard.hpp): a table of all combinations, and a random test that plays units against a model of a
// server and judges only what commits. The judge states the three properties anew and shares no code with the decision.
#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "guard.hpp"
#include "guard_faults.hpp"

using namespace termgate::session;

namespace {

constexpr std::array<bool, 2> both{false, true};

bool makes_writable(Act act) { return act == Act::open || act == Act::open_unchecked; }
bool is_refusal(Act act) { return act == Act::refuse_claim || act == Act::refuse_known || act == Act::refuse_no_term; }
bool checks(Act act) { return act == Act::open || act == Act::check || act == Act::recheck || act == Act::check_both || act == Act::hold; }

// Whatever runs code of the client's, or writes.
bool runs_something(Does does) { return does >= Does::fetch; }
// Nothing that could write goes by itself: a declaration does nothing else, layer 1 checks what it is given.
bool harmless(Does does) { return does == Does::declares || does == Does::own_call || does == Does::savepoint; }

template <class Look>
void all_combinations(Look look) {
  for (int does = 0; does < does_count; ++does)
    for (const bool hole : both)
      for (const bool named : both)
        for (unsigned bits = 0; bits < 1u << 15; ++bits)
          for (int standing = 0; standing < standing_count; ++standing) {
            const auto bit = [bits](unsigned at) { return (bits >> at & 1u) != 0; };
            const TransactionView view{.open = bit(0),
                                       .failed = bit(1),
                                       .read_only = bit(2),
                                       .fixed = bit(3),
                                       .writable = bit(4),
                                       .session_passed = bit(5),
                                       .other_passed = bit(6),
                                       .named_passed = bit(7),
                                       .redeclared = bit(8),
                                       .acted = bit(9),
                                       .acted_since = bit(10),
                                       .code_declared = bit(11),
                                       .unnamed = bit(12),
                                       .left_over = bit(13)};
            look(Unit{static_cast<Does>(does), hole, named, bit(14)}, view, static_cast<Standing>(standing));
          }
}

}  // namespace

TEST_CASE("guard: no possible writer runs in a transaction that can write without a check for its claim", "[F1][F2][F6][proxy]") {
  std::size_t seen = 0;
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    const Act act = decide(unit, view, claim, {});
    ++seen;
    if (view.failed) return;  // the server runs nothing
    const bool can_write = view.writable || makes_writable(act);
    if (!can_write || !runs_something(unit.does) || harmless(unit.does) || is_refusal(act) || act == Act::lock) return;
    const bool passed = unit.named ? view.named_passed && !view.code_declared
                                   : !view.redeclared && (view.session_passed || (claim == Standing::none && view.other_passed));
    if (checks(act) || passed) return;
    CAPTURE(static_cast<int>(unit.does), unit.hole, unit.named, static_cast<int>(claim), view.open, view.read_only, view.fixed,
            view.writable, view.redeclared, static_cast<int>(act));
    FAIL("it would run without a check");
  });
  CHECK(seen == std::size_t{does_count} * 4 * 32768 * standing_count);
}

TEST_CASE("guard: READ ONLY is never trusted with what it does not stop", "[F6][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (view.failed || view.writable || !unit.hole || unit.does < Does::fetch || harmless(unit.does)) return;
    // A cursor and what looks like a read are no holes by their text.
    if (unit.does == Does::fetch || unit.does == Does::reads || unit.does == Does::calls) return;
    const Act act = decide(unit, view, claim, {});
    const bool passed = unit.named ? view.named_passed && !view.code_declared
                                   : !view.redeclared && (view.session_passed || (claim == Standing::none && view.other_passed));
    if (act != Act::pass || passed) return;
    CAPTURE(static_cast<int>(unit.does), static_cast<int>(claim), view.open, view.read_only, static_cast<int>(act));
    FAIL("READ ONLY would not stop it");
  });
}

TEST_CASE("guard: a declaration takes the place of another only when what ran under that was checked", "[F1][F2][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (!unit.redeclares || view.failed) return;
    const bool ran = view.code_declared || (view.acted_since && (view.session_passed || view.other_passed));
    const Act act = decide(unit, view, claim, {});
    if (view.writable && ran) {
      if (act == Act::recheck) return;
    } else if (act == decide({unit.does, unit.hole, unit.named}, view, claim, {})) {
      return;
    }
    CAPTURE(static_cast<int>(unit.does), static_cast<int>(claim), view.writable, view.code_declared, static_cast<int>(act));
    FAIL("what ran before is not checked, or a declaration that replaces nothing is");
  });
}

TEST_CASE("guard: a claim that is known to be stale, untrusted or malformed opens nothing", "[F2][F3][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    if (claim != Standing::stale && claim != Standing::untrusted && claim != Standing::problem) return;
    if (unit.does == Does::commit) return;  // whatever was checked before it is checked again by the server
    const Act act = decide(unit, view, claim, {});
    if (act != Act::open && act != Act::hold && (view.read_only || act != Act::check)) return;
    CAPTURE(static_cast<int>(unit.does), static_cast<int>(claim), view.writable, static_cast<int>(act));
    FAIL("it would be opened");
  });
}

TEST_CASE("guard: without a claim a session reads and nothing is put in front of its reads", "[F6][F7][proxy]") {
  for (const Does does : {Does::reads, Does::calls, Does::fetch, Does::quiet, Does::begin, Does::rollback}) {
    for (const bool open : both) {
      CHECK(decide({does}, {.open = open}, Standing::none, {}) == Act::pass);
      CHECK(decide({does}, {.open = open}, Standing::stale, {}) == Act::pass);
    }
  }
}

TEST_CASE("guard: of what the server guards only what looks like a read goes without a check", "[F1][F2][F6][proxy]") {
  all_combinations([&](const Unit& unit, const TransactionView& view, Standing claim) {
    TransactionView guarded = view;
    guarded.server_guards = true;
    const Act act = decide(unit, view, claim, {});
    const Act there = decide(unit, guarded, claim, {});
    if (act == there) return;
    const bool looks_like_read = unit.does == Does::reads || unit.does == Does::calls || unit.does == Does::fetch;
    CAPTURE(static_cast<int>(unit.does), static_cast<int>(claim), view.writable, static_cast<int>(act), static_cast<int>(there));
    if (there != Act::pass || !view.writable) FAIL("it changes more than what may pass");
    if (!looks_like_read && unit.does != Does::commit) FAIL("it lets a writer pass");
    if (view.session_passed || view.other_passed) FAIL("what was checked is not checked again");
    if (unit.does != Does::commit && claim != Standing::none && claim != Standing::uncertain) FAIL("a claim is known, and not checked");
  });
}

TEST_CASE("guard: what stands for what", "[F1][F2][F4][F6][proxy]") {
  struct Row {
    const char* name;
    Unit unit;
    TransactionView view;
    Standing claim;
    Act act;
  };
  const TransactionView alone{}, block{.open = true}, passed{.open = true, .writable = true, .session_passed = true, .acted = true};
  TransactionView redeclared = passed;
  redeclared.redeclared = true;
  const TransactionView by_arguments{.open = true, .writable = true, .other_passed = true, .acted = true};
  // clang-format off
  const Row rows[] = {
      {"a read alone", {Does::reads}, alone, Standing::current, Act::pass},
      {"a read that calls", {Does::calls}, alone, Standing::current, Act::open},
      {"a read that calls, declared somehow", {Does::calls}, alone, Standing::uncertain, Act::open},
      {"a read in a block that may write later", {Does::reads}, block, Standing::current, Act::open},
      {"a write", {Does::writes}, alone, Standing::current, Act::open},
      {"a write without a claim", {Does::writes}, alone, Standing::none, Act::open},
      {"a stale write", {Does::writes}, alone, Standing::stale, Act::refuse_known},
      {"a write of an untrusted scope", {Does::writes}, alone, Standing::untrusted, Act::refuse_known},
      {"a malformed one", {Does::writes}, alone, Standing::problem, Act::refuse_claim},
      {"a second write", {Does::writes}, passed, Standing::current, Act::pass},
      {"a write after a declaration, which may have been taken back", {Does::writes}, redeclared, Standing::uncertain, Act::check},
      {"a read after one", {Does::reads}, redeclared, Standing::uncertain, Act::recheck},
      {"a COMMIT after a declaration", {Does::commit}, redeclared, Standing::uncertain, Act::recheck},
      {"a COMMIT", {Does::commit}, passed, Standing::current, Act::pass},
      {"a comment of another scope", {Does::writes, false, true}, passed, Standing::current, Act::check},
      {"a comment on a read", {Does::reads, false, true}, passed, Standing::current, Act::check},
      {"a stale comment on a read", {Does::reads, false, true}, passed, Standing::stale, Act::refuse_known},
      {"check_term of another scope spares nobody", {Does::writes}, by_arguments, Standing::current, Act::check},
      {"check_term is a claim where there is none", {Does::writes}, by_arguments, Standing::none, Act::pass},
      {"a call of layer 1", {Does::own_call}, alone, Standing::stale, Act::open_unchecked},
      {"a call of layer 1 in a block", {Does::own_call}, passed, Standing::stale, Act::pass},
      {"set_config in a block", {Does::declares}, block, Standing::none, Act::open_unchecked},
      {"set_config alone", {Does::declares}, alone, Standing::none, Act::pass},
      {"a savepoint before anything is declared", {Does::savepoint}, block, Standing::none, Act::open_unchecked},
      {"a read after it", {Does::reads}, {.open = true, .writable = true}, Standing::none, Act::lock},
      {"a write after it", {Does::writes}, {.open = true, .writable = true}, Standing::none, Act::check},
      {"a COMMIT after set_config alone", {Does::commit}, {.open = true, .writable = true, .redeclared = true}, Standing::uncertain, Act::pass},
      {"a COMMIT of what was never checked", {Does::commit}, {.open = true, .writable = true, .acted = true}, Standing::none, Act::check},
      {"a COMMIT of what was READ ONLY inside a savepoint", {Does::commit}, {.open = true, .writable = true, .left_over = true}, Standing::stale, Act::lock},
      {"… and of what ran outside of it too", {Does::commit}, {.open = true, .writable = true, .acted = true, .left_over = true}, Standing::none, Act::check},
      {"a COMMIT of what a comment has passed for, and of something without one", {Does::commit}, {.open = true, .writable = true, .other_passed = true, .acted = true, .unnamed = true}, Standing::current, Act::recheck},
      {"… and of what has passed since", {Does::commit}, {.open = true, .writable = true, .session_passed = true, .left_over = true}, Standing::current, Act::pass},
      {"DO in the client's READ ONLY block", {Does::writes, true}, {.open = true, .read_only = true}, Standing::none, Act::refuse_no_term},
      {"the same with a claim", {Does::writes, true}, {.open = true, .read_only = true}, Standing::current, Act::check},
      {"DO outside of it", {Does::writes, true}, {.read_only = true}, Standing::current, Act::frame},
      {"INSERT in the client's READ ONLY block", {Does::writes}, {.open = true, .read_only = true}, Standing::none, Act::pass},
      {"VACUUM", {Does::alone}, alone, Standing::current, Act::hold},
      {"VACUUM in READ ONLY", {Does::alone}, {.read_only = true}, Standing::current, Act::refuse_no_term},
      {"CALL", {Does::code, true}, alone, Standing::current, Act::hold},
      {"CALL in a block", {Does::code, true}, block, Standing::current, Act::open},
      {"a declaration after a write", {Does::quiet, false, false, true}, {.open = true, .writable = true, .session_passed = true, .acted = true, .acted_since = true}, Standing::current, Act::recheck},
      {"the next one: scope and term are half declared between them", {Does::quiet, false, false, true}, redeclared, Standing::uncertain, Act::pass},
      {"the next one after set_config() in code", {Does::quiet, false, false, true}, {.open = true, .writable = true, .session_passed = true, .redeclared = true, .acted = true, .code_declared = true}, Standing::uncertain, Act::recheck},
      {"anything in a failed block", {Does::writes}, {.open = true, .failed = true}, Standing::none, Act::pass},
  };
  // clang-format on
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(static_cast<int>(decide(row.unit, row.view, row.claim, {})) == static_cast<int>(row.act));
  }
  CHECK(decide({Does::writes}, alone, Standing::stale, {.enforce = false}) == Act::pass);
}

// --- the random test ---

namespace {

using Random = std::mt19937_64;

// A server with three scopes and one session, told in the simplest words. It knows what the session declares; the proxy only knows what it
// can see.
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
  std::vector<Claim> under;  // the claims in force for what was written, and for what was last in force
  // --- what the proxy sees ---
  TransactionView view;
  bool spoke = false, certain = true;
  Claim known{}, checked_as{};
  std::set<Claim> named_passed;

  std::size_t units = 0;  // played so far
  Random random;
  int below(int bound) { return static_cast<int>(random() % static_cast<std::uint64_t>(bound)); }
  bool stale(const Claim& claim) const { return claim.scope != 0 && claim.term < fence[static_cast<std::size_t>(claim.scope)]; }

  // Errors roll back.
  void fail() {
    failed = true;
    view.failed = true;
  }
  bool check(const Claim& claim) {
    if (claim.scope == 0 || stale(claim)) return fail(), false;
    passed.insert(claim);
    return true;
  }
};

Act faulty_decide(Fault fault, const Unit& unit, const TransactionView& view, Standing claim) {
  return decide_with(fault, unit, view, claim,
                     [](const Unit& seen, const TransactionView& of, Standing standing) { return decide(seen, of, standing, {}); });
}

// One transaction of random units. The message of a breach, or empty.
// Long: a random story: its units are made, run and judged in one loop.
std::string one_transaction(World& world, Fault planted) {
  World::Claim none{};
  world.view = TransactionView{};
  world.view.open = true;
  world.in_transaction = true;
  world.writable = world.failed = world.wrote = false;
  world.view.read_only = world.below(12) == 0;
  world.passed.clear();
  world.named_passed.clear();
  world.under.clear();
  world.declared_before = world.declared;
  World::Claim last_in_force{};  // what was declared in it last; what stood before counts for what ran under it
  bool hole_unchecked = false;
  // READ ONLY inside a savepoint only; and a cursor WITH HOLD or a deferred trigger that writes at the COMMIT.
  bool savepoint = false, locked_inside = false, writes_at_commit = false;
  // A pipeline that is held until something of it writes: then it is opened where it begins, and what it has read before may write.
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
    if (makes_writable(act) && world.view.fixed) return world.fail();  // 25001
    if (makes_writable(act)) world.writable = world.view.writable = true;
    if (act == Act::open || act == Act::check) {
      if (!world.check(named ? claim : world.declared)) return;
      if (!named) world.view.redeclared = world.view.code_declared = world.view.acted_since = world.view.unnamed = false;
      if (named) {
        world.view.other_passed = true;
        world.named_passed.insert(claim);
      } else {
        world.view.session_passed = true;
        world.checked_as = world.certain ? world.known : none;
      }
    }
    if (act == Act::recheck || act == Act::check_both) {
      const World::Claim as = world.view.session_passed ? world.checked_as : none;
      if (world.declared.scope != 0 && !(world.declared == as)) {
        if (!world.check(world.declared)) return;
      }
      world.view.redeclared = world.view.code_declared = world.view.acted_since = world.view.unnamed = false;
      world.checked_as = none;
    }
    if (act == Act::check_both) {
      if (!world.check(claim)) return;
      world.view.other_passed = true;
      world.named_passed.insert(claim);
    }
    if (act == Act::lock) {
      locked_inside = savepoint;
      world.writable = world.view.writable = false;
      world.view.fixed = true;
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
      static constexpr Does kinds[] = {Does::quiet, Does::savepoint, Does::fetch,  Does::declares, Does::reads,
                                       Does::calls, Does::own_call,  Does::writes, Does::writes,   Does::rollback};
      unit.does = kinds[world.below(static_cast<int>(std::size(kinds)))];
      unit.hole = unit.does == Does::writes && world.below(3) == 0;
      if (unit.does >= Does::reads && world.below(4) == 0) {
        unit.named = true;
        const int scope = 1 + world.below(2);
        comment = {scope, world.fence[static_cast<std::size_t>(scope)] - (world.below(2) == 0 ? 0 : 1)};
      }
    }
    const World::Claim claim = unit.named ? comment : world.known;
    world.view.named_passed = unit.named && world.named_passed.contains(comment);
    unit.redeclares = unit.does == Does::declares;
    if (last) world.view.writable |= locked_inside;
    if (last && standing(world.known, false) == Standing::none) world.view.unnamed = false;
    // Another claim does not take the place of the one that was read under: the pipeline stays READ ONLY.
    if (unit.redeclares && !held_reads.empty() && !world.writable) world.view.fixed = true;
    const Act act = faulty_decide(planted, unit, world.view, standing(claim, unit.named));
    carry_out(act, comment, unit.named);
    if (world.failed) break;
    if (makes_writable(act)) {
      for (const World::Claim& under : held_reads) {
        world.wrote = true;
        world.under.push_back(under);
      }
      // open_group(): the claim of a comment, or of arguments, does not stand for what was read before.
      if (!held_reads.empty() && (unit.named || act == Act::open_unchecked) && planted != Fault::a_comment_stands_for_all) {
        if (world.declared.scope != 0 && !world.check(world.declared)) break;
        world.view.unnamed = false;
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
    if (unit.does == Does::savepoint && !world.writable) world.view.fixed = true;
    savepoint |= unit.does == Does::savepoint && world.writable;
    const bool is_held = pipeline && unit.does == Does::reads && !unit.named && !world.writable && act == Act::pass && !world.view.fixed &&
                         !world.view.read_only;
    if (is_held) {
      held_reads.push_back(world.declared);
      world.view.unnamed = true;
    } else if (unit.does >= Does::fetch && !world.writable && act != Act::open_unchecked) {
      world.view.fixed = true;
    }
    const World::Claim in_force = unit.named ? comment : world.declared;
    if (unit.does == Does::declares || (unit.does == Does::calls && world.below(2) == 0) || (unit.does == Does::writes && unit.hole)) {
      const int scope = world.below(3);
      world.declared =
          scope == 0 ? none : World::Claim{scope, world.fence[static_cast<std::size_t>(scope)] - (world.below(2) == 0 ? 0 : 1)};
      last_in_force = world.declared;
      world.spoke |= unit.does == Does::declares;
    }
    if (unit.does == Does::declares || unit.does == Does::calls || unit.hole) {
      world.certain = false;
      world.view.redeclared = true;
    }
    if (unit.does == Does::own_call && world.below(2) == 0) {
      // check_term('other', …): its own scope passes.
      const World::Claim other{1 + world.below(2), 0};
      const World::Claim exact{other.scope, world.fence[static_cast<std::size_t>(other.scope)]};
      world.passed.insert(exact);
      world.view.other_passed = true;
    }
    const bool writes =
        is_held ? false
                : unit.does == Does::writes ||
                      ((unit.does == Does::reads || unit.does == Does::calls || unit.does == Does::fetch) && world.below(3) == 0);
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
      world.view.unnamed |= !unit.named;
      if (locked_inside) {
        world.view.left_over = true;
        writes_at_commit |= world.below(3) == 0;
      } else {
        world.view.acted = world.view.acted_since = true;
        world.view.code_declared |= unit.does == Does::calls || unit.hole;
      }
    }
    // RELEASE: what was READ ONLY inside the savepoint is so no more.
    if (unit.does == Does::rollback && locked_inside && world.below(2) == 0) {
      locked_inside = world.view.fixed = false;
      world.writable = world.view.writable = true;
    }
    if (unit.does == Does::rollback && !world.failed && world.below(2) == 0) {
      // ROLLBACK TO: the checks since are lost.
      world.passed.clear();
      world.under.clear();
      world.wrote = false;
      if (planted != Fault::rollback_to_keeps_the_check) {
        world.view.session_passed = world.view.other_passed = false;
        world.named_passed.clear();
        world.checked_as = none;
        world.view.redeclared = true;
        world.view.acted_since = world.view.unnamed = world.view.acted;
      }
    }
  }

  std::string breach;
  if (!world.failed) {
    if (world.wrote) {
      for (const World::Claim& claim : world.under) {
        // A session that declares nothing may go on under what it has passed by arguments or a comment.
        if (claim.scope == 0 ? world.passed.empty() : !world.passed.contains(claim))
          breach = "a write committed whose claim has not passed";
      }
      if (last_in_force.scope != 0 && !world.passed.contains(last_in_force)) breach = "the last claim in force has not passed";
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

TEST_CASE("guard: random units against a model of the server commit nothing whose claim has not passed", "[F1][F2][F6][proxy]") {
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
