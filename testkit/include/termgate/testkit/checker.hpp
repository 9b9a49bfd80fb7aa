// check: does a history keep the guarantees? Pure; any thread. O(n log n) in operations and rows.
//
// It believes nothing but what clients saw and what the rows show, so it judges any write boundary.
// What it says is a breach is one: orders are taken from numbers that the database gave, and from
// real time only where one operation was answered before the other began. What it cannot see is a
// breach between concurrent operations whose rows nothing numbers; number them (Row::sequence)
// where that matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <termgate/testkit/history.hpp>

namespace termgate::inline v0::testkit {

struct Breach {
  enum class Kind {
    order,    // F1: behind a row of a higher term
    seal,     // F2: committed although a higher term had been acknowledged before it began
    lowered,  // F3: a fence was seen below what had been acknowledged or seen before
    // F4: a raise was answered later than it must be; one without an answer is not judged.
    held_up,
    issued_twice,  // F3: two acquisitions got one term, or a later one a lower term
    torn,          // F5: some of its rows and not all
    lost,          // F5: acknowledged, and not there
    leaked,        // F5: refused each time that it was sent, and there
    twice,         // F5: more of it is there than was written
    altered,       // a row with a scope, term or number that no client wrote
    foreign,       // a row that no client wrote
    numbering      // a gap, or one number twice
  };

  Kind kind;
  std::string scope;
  std::string text;  // one sentence
  // The shortest history that shows it: indices into the history, in order of time.
  std::vector<std::size_t> operations;
};

struct Verdict {
  std::vector<Breach> breaches;
  std::size_t committed = 0;          // writes by their ids: acknowledged at least once
  std::size_t refused = 0;            // refused each time
  std::size_t unknown_committed = 0;  // never acknowledged, once unknown, and there
  std::size_t unknown_absent = 0;     // the same, and not there
  std::size_t raises = 0;             // acknowledged
};

// At most `breaches_max` breaches are kept; there is at least one if a guarantee was broken.
Verdict check(const std::vector<Operation>& history, const State& state, std::size_t breaches_max = 100);

const char* guarantee_of(Breach::Kind kind) noexcept;  // "F1", …
const char* name_of(Breach::Kind kind) noexcept;       // "order", …

// The breach and its history, a line an operation: when (milliseconds from the first of them), who,
// what, how it ended.
std::string describe(const Breach& breach, const std::vector<Operation>& history);

}  // namespace termgate::inline v0::testkit
