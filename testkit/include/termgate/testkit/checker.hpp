// check() judges whether a history keeps the guarantees. Pure; any thread. O(n log n) in operations
// and rows.
//
// It relies only on what clients saw and what the rows show, so it can judge any write boundary. It
// reports no false breaches: it orders operations by numbers that the database gave, and by real
// time only if one was answered before the other began. It cannot see a breach between concurrent
// operations whose rows nothing numbers; number them (Row::sequence) where that matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <termgate/testkit/history.hpp>

namespace termgate {
inline namespace v0 {
namespace testkit {

struct Breach {
  enum class Kind {
    order,  // F1: committed after a row of a higher term
    seal,   // F2: committed or sealed although a higher term had been acknowledged before it began
    lowered,  // F3: a fence was below what had been acknowledged, seen or written
    // F4: a raise was answered too late; a raise without an answer is not judged.
    held_up,
    issued_twice,  // F3: an acquisition got a term not above what had been acknowledged or issued
    torn,          // F5: some of a write's rows are there, but not all
    lost,          // F5: acknowledged, but not there
    leaked,        // F5: there, although it was refused every time it was sent
    twice,         // F5: more of its rows are there than it wrote
    altered,       // a row with a scope, term or number that no client wrote
    foreign,       // a row that no client wrote
    numbering      // a gap in the numbers, or a number twice
  };

  Kind kind;
  std::string scope;
  std::string text;  // one sentence
  // The operations that show the breach: indices into the history, ordered by time.
  std::vector<std::size_t> operations;
};

struct Verdict {
  std::vector<Breach> breaches;
  std::size_t committed = 0;  // writes, counted by id, that were acknowledged at least once
  std::size_t refused = 0;    // writes that were refused every time
  std::size_t unknown_committed =
      0;  // writes that were never acknowledged, had an unknown outcome, and are there
  std::size_t unknown_absent = 0;  // the same, but they are not there
  std::size_t raises = 0;          // acknowledged raises
};

// At most `breaches_max` breaches are kept.
Verdict check(const std::vector<Operation>& history, const State& state,
              std::size_t breaches_max = 100);

const char* guarantee_of(Breach::Kind kind) noexcept;  // "F1", …
const char* name_of(Breach::Kind kind) noexcept;       // "order", …

// The breach and its history, with a line for each operation: when (milliseconds after the first),
// which client, what, and the outcome.
std::string describe(const Breach& breach, const std::vector<Operation>& history);

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
