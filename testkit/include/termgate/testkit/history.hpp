// History: what the clients of a write boundary did and saw, and what the database contains
// afterwards. Plain data, recorded by the program that drives the clients (`termgate storm`, your
// own test), and judged by check() in checker.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace testkit {

// The time since any origin, from one clock for all clients of a history: CLOCK_MONOTONIC
// (std::chrono::steady_clock) is the same for all processes of a machine.
using Moment = std::chrono::nanoseconds;

// How an operation ended, as its client saw it (docs/contract.md, F5).
enum class Outcome {
  committed,  // acknowledged
  refused,    // a refusal was received
  unknown     // no answer, or one that leaves it open
};

struct Operation {
  enum class Kind {
    write,  // rows that carry `id`, under `term`
    raise,  // a seal or an acquisition of `term`; nothing is written
    look    // a read of the scope's fence; `term` is what it showed, 0 for none
  };

  Kind kind = Kind::write;
  Outcome outcome = Outcome::committed;
  std::string scope;
  std::int64_t term = 0;
  // For a write: the id that its rows carry. The same id again means the same write, sent again.
  std::string id;
  int rows = 1;  // for a write: how many rows it writes, all or none
  // For a write: the number in its acknowledgement, if there was one.
  std::optional<std::int64_t> place;
  // For a raise: it issued the term, so nobody else may get it.
  bool acquisition = false;
  // For a raise: how soon an answer must come (F4); max(): no limit.
  Moment within = Moment::max();
  Moment invoked{};                 // before its first byte was sent
  Moment answered = Moment::max();  // after the last byte of its answer; max(): no answer
  std::string client;               // for the report
};

struct Row {
  std::string scope;
  std::int64_t term = 0;
  std::string id;
  // The stream, or whatever else numbers rows in commit order; empty: there is no order.
  std::string sequence;
  std::optional<std::int64_t>
      place;  // the number within `sequence`; numbers are consecutive, unless `gaps`
  // Numbers may be missing: each was taken outside the write's transaction, while the lock of its
  // check was held.
  bool gaps = false;
};

struct State {
  std::vector<Row> rows;                       // the rows that carry an id of the history
  std::map<std::string, std::int64_t> fences;  // by scope
};

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
