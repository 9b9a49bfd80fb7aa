// The checker must be able to fail: a history for each kind of breach. (tests/sim/leaders.cpp gives
// it thousands of right ones.)
#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <termgate/testkit/checker.hpp>

using namespace termgate::testkit;
using Kind = Breach::Kind;
using std::chrono::milliseconds;

namespace {

Operation write(std::string id, std::int64_t term, int from, int to,
                Outcome outcome = Outcome::committed) {
  Operation one;
  one.scope = "s";
  one.term = term;
  one.id = std::move(id);
  one.outcome = outcome;
  one.invoked = milliseconds(from);
  if (outcome != Outcome::unknown) one.answered = milliseconds(to);
  one.client = "w";
  return one;
}

Operation acquire(std::int64_t term, int from, int to, Outcome outcome = Outcome::committed) {
  Operation one = write("", term, from, to, outcome);
  one.kind = Operation::Kind::raise;
  one.acquisition = true;
  return one;
}

Operation within(Operation raise, int ms) {
  raise.within = milliseconds(ms);
  return raise;
}

Operation seal(std::int64_t term, int from, int to) {
  Operation one = acquire(term, from, to);
  one.acquisition = false;
  return one;
}

Operation look(std::int64_t term, int from, int to) {
  Operation one = seal(term, from, to);
  one.kind = Operation::Kind::look;
  return one;
}

Row row(std::string id, std::int64_t term, std::optional<std::int64_t> place = {}) {
  return {"s", term, std::move(id), place ? "log" : "", place};
}

State state(std::int64_t fence, std::vector<Row> rows) { return {std::move(rows), {{"s", fence}}}; }

std::vector<Kind> kinds(const Verdict& verdict) {
  std::vector<Kind> all;
  for (const Breach& breach : verdict.breaches) all.push_back(breach.kind);
  return all;
}

}  // namespace

TEST_CASE("checker: what keeps the guarantees is no breach", "[F1][F2][F3][F4][F5][testkit]") {
  const auto place = [](Operation one, std::int64_t number) {
    one.place = number;
    return one;
  };
  const std::vector<Operation> history{
      acquire(5, 0, 10),
      place(write("a", 5, 20, 30), 1),
      write("b", 5, 25, 0, Outcome::unknown),  // is there
      write("c", 5, 25, 0, Outcome::unknown),  // is not
      write("d", 5, 31, 90),                   // concurrent with the takeover, which it came before
      acquire(6, 40, 95),
      write("e", 5, 100, 110, Outcome::refused),
      write("c2", 5, 50, 0, Outcome::unknown),
      write("c2", 5, 120, 130),  // sent again by who is stale now: it had happened
      write("f", 6, 100, 105),
      look(6, 106, 107),
      acquire(6, 108, 109, Outcome::refused),
      seal(6, 108, 109),
      within(acquire(7, 200, 300), 100),
      within(acquire(0, 200, 0, Outcome::unknown), 100),  // its connection was lost
  };
  const auto verdict = check(history, state(7, {row("a", 5, 1), row("b", 5, 2), row("d", 5, 3),
                                                row("c2", 5, 4), row("f", 6, 5)}));
  for (const Breach& breach : verdict.breaches) FAIL_CHECK(describe(breach, history));
  CHECK(verdict.committed == 4);
  CHECK(verdict.refused == 1);
  CHECK(verdict.unknown_committed == 1);
  CHECK(verdict.unknown_absent == 1);
  CHECK(verdict.raises == 4);
}

TEST_CASE("checker: finds each kind of breach and names the operations that show it",
          "[F1][F2][F3][F4][F5][testkit]") {
  struct Case {
    const char* name;
    std::vector<Operation> history;
    State state;
    Kind kind;
    std::vector<std::size_t> shown_by;
  };
  Operation batch = write("a", 5, 0, 10);
  batch.rows = 2;
  Operation numbered = write("a", 5, 0, 10);
  numbered.place = 7;
  // clang-format off
  const std::vector<Case> cases{
      {"a stale write behind an acquisition", {acquire(5, 0, 1), acquire(6, 10, 20), write("a", 5, 30, 40)}, state(6, {row("a", 5)}), Kind::seal, {1, 2}},
      {"the same where its answer was lost", {acquire(6, 10, 20), write("a", 5, 30, 0, Outcome::unknown)}, state(6, {row("a", 5)}), Kind::seal, {0, 1}},
      {"a stale write behind a write", {write("a", 6, 0, 10), write("b", 5, 20, 30)}, state(6, {row("a", 6), row("b", 5)}), Kind::seal, {0, 1}},
      {"a stale write behind a fence that was seen", {look(6, 0, 10), write("b", 5, 20, 30)}, state(6, {row("b", 5)}), Kind::seal, {0, 1}},
      {"a seal below another", {seal(6, 0, 10), seal(5, 20, 30)}, state(6, {}), Kind::seal, {0, 1}},
      {"rows out of order although concurrent", {write("a", 6, 0, 100), write("b", 5, 0, 100)}, state(6, {row("a", 6, 1), row("b", 5, 2)}), Kind::order, {0, 1}},
      {"a fence seen lower", {seal(6, 0, 10), look(5, 20, 30)}, state(6, {}), Kind::lowered, {0, 1}},
      {"a fence seen lower than seen before", {look(6, 0, 10), look(5, 20, 30)}, state(6, {}), Kind::lowered, {0, 1}},
      {"a fence that is gone at the end", {seal(6, 0, 10)}, state(5, {}), Kind::lowered, {0}},
      {"a fence below a row at the end", {write("a", 6, 0, 0, Outcome::unknown)}, state(5, {row("a", 6)}), Kind::lowered, {0}},
      {"one term for two leaders", {acquire(6, 0, 10), acquire(6, 5, 20)}, state(6, {}), Kind::issued_twice, {0, 1}},
      {"a later acquisition with a lower term", {acquire(6, 0, 10), acquire(5, 20, 30)}, state(6, {}), Kind::issued_twice, {0, 1}},
      {"a takeover that was held up", {within(acquire(6, 0, 1001), 1000)}, state(6, {}), Kind::held_up, {0}},
      {"a takeover that was refused too late", {within(acquire(6, 0, 1001, Outcome::refused), 1000)}, state(6, {}), Kind::held_up, {0}},
      {"half a write", {batch}, state(5, {row("a", 5)}), Kind::torn, {0}},
      {"an acknowledged write that is gone", {write("a", 5, 0, 10)}, state(5, {}), Kind::lost, {0}},
      {"a refused write that is there", {write("a", 5, 0, 10, Outcome::refused)}, state(5, {row("a", 5)}), Kind::leaked, {0}},
      {"a write that happened twice", {write("a", 5, 0, 0, Outcome::unknown), write("a", 5, 20, 30)}, state(5, {row("a", 5), row("a", 5)}), Kind::twice, {0, 1}},
      {"another term than it was sent with", {write("a", 5, 0, 10)}, state(6, {row("a", 6)}), Kind::altered, {0}},
      {"another number than it was told", {numbered}, state(5, {row("a", 5, 8)}), Kind::altered, {0}},
      {"a row from nowhere", {write("a", 5, 0, 10)}, state(5, {row("a", 5), row("b", 5)}), Kind::foreign, {}},
      {"a gap", {write("a", 5, 0, 10), write("b", 5, 0, 10)}, state(5, {row("a", 5, 1), row("b", 5, 3)}), Kind::numbering, {0, 1}},
      {"a number twice", {write("a", 5, 0, 10), write("b", 5, 0, 10)}, state(5, {row("a", 5, 1), row("b", 5, 1)}), Kind::numbering, {0, 1}},
  };
  // clang-format on
  for (const Case& one : cases) {
    INFO(one.name);
    const auto verdict = check(one.history, one.state);
    REQUIRE(kinds(verdict) == std::vector<Kind>{one.kind});
    CHECK(verdict.breaches[0].operations == one.shown_by);
    CHECK(verdict.breaches[0].scope == "s");
    const std::string text = describe(verdict.breaches[0], one.history);
    CHECK(std::count(text.begin(), text.end(), '\n') ==
          1 + static_cast<std::ptrdiff_t>(one.shown_by.size()));
  }
}

TEST_CASE("checker: keeps no more breaches than asked for and never none", "[testkit]") {
  std::vector<Operation> history;
  for (int i = 0; i < 1000; ++i) history.push_back(write(fmt::format("w{}", i), 5, i, i + 1));
  CHECK(check(history, state(5, {}), 10).breaches.size() == 10);
  CHECK(check(history, state(5, {}), 1).breaches.size() == 1);
}
