// History: what the clients of a write boundary did and saw, and what the database holds
// afterwards. Plain data, filled in by whoever drives the clients (`termgate storm`, a test of
// yours), judged by check() in checker.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace termgate::inline v0::testkit {

// Since any origin, by one clock for all clients of a history: a machine's CLOCK_MONOTONIC
// (std::chrono::steady_clock) is the same for all its processes.
using Moment = std::chrono::nanoseconds;

// How an operation ended, as its client saw it (docs/contract.md, F5).
enum class Outcome {
  committed,  // acknowledged
  refused,    // an answer came, and it was no
  unknown     // no answer came, or one that leaves it open
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
  // A write: what its rows are found by. The same id again is the same write, sent again.
  std::string id;
  int rows = 1;  // of a write: how many it writes, all or none
  // A write: the number that its acknowledgement gave, where it gave one.
  std::optional<std::int64_t> place;
  // A raise: the term was issued by it, so nobody else may get it.
  bool acquisition = false;
  // A raise: how soon an answer must come (F4); max(): at any time.
  Moment within = Moment::max();
  Moment invoked{};                 // before the first byte of it was sent
  Moment answered = Moment::max();  // after the last byte of its answer; max(): none came
  std::string client;               // for the report
};

struct Row {
  std::string scope;
  std::int64_t term = 0;
  std::string id;
  // A stream, or whatever else numbers rows in commit order; empty: nothing does.
  std::string sequence;
  std::optional<std::int64_t> place;  // in it; consecutive, unless
  // Numbers may be missing: each was taken outside of the write's transaction, while its check's
  // lock was held.
  bool gaps = false;
};

struct State {
  std::vector<Row> rows;                       // that carry an id of the history
  std::map<std::string, std::int64_t> fences;  // by scope
};

}  // namespace termgate::inline v0::testkit
