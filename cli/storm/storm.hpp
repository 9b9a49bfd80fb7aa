// storm: what the director (storm.cpp) and its leaders (leader.cpp) share: names, random choices,
// and the boundary under test.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/database.hpp>

#include "command.hpp"
#include "storm/sql.hpp"

namespace termgate::cli::storm {

using std::chrono::milliseconds;

// Random choices of one participant, repeatable from the seed.
class Choice {
 public:
  Choice(std::uint64_t seed, std::string_view who)
      : random_(seed ^ std::hash<std::string_view>{}(who)) {}
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool in(int of_hundred) { return number(1, 100) <= of_hundred; }
  milliseconds span(milliseconds low, milliseconds high) {
    return milliseconds(number(low.count(), high.count()));
  }

 private:
  std::mt19937_64 random_;
};

// Names of one storm's tables, scopes and streams.
struct Names {
  std::string run;
  std::string scope(int index) const { return "storm-" + run + "-" + std::to_string(index); }
  // A writer's own scope, for which nobody competes.
  std::string scope_of_one(const std::string& leader, int scope_index, int writer) const {
    return "storm-" + run + "-of-" + leader + "-" + std::to_string(scope_index) + "-" +
           std::to_string(writer);
  }
  std::string stream(const std::string& scope, int index) const {
    return scope + "-stream-" + std::to_string(index);
  }
  std::string rows() const { return "storm_" + run + "_rows"; }  // guarded by the check only
  // Has the same columns as rows(), under `protect`.
  std::string guarded() const { return "storm_" + run + "_guarded"; }
  // The same columns, adopted and under `protect` for any scope: for the faults `hold-…`.
  std::string adopted() const { return "storm_" + run + "_adopted"; }
  std::string counters() const { return "storm_" + run + "_counters"; }
  // The counter whose numbers are taken on another connection, beside the transaction that writes;
  // its rows have these numbers negated.
  std::string beside(const std::string& scope) const { return scope + " beside"; }
  std::string leases() const {
    return "storm_" + run + "_leases";
  }  // the naive boundaries' own table of leases
  std::string application() const { return "storm-" + run; }
};
constexpr int streams_a_scope = 2;

struct Naive {
  std::string_view name;
  std::string_view what;
  // Whether it is broken on SQLite too.
  bool on_sqlite;
};
const std::vector<Naive>& naive_boundaries();
const Naive* find_naive(std::string_view name);

struct Held {
  std::int64_t term = 0;
  // The lease's end by the holder's monotonic clock, counted from the request.
  std::chrono::steady_clock::time_point until;
  std::int64_t clock_ms = 0;  // `client-clock`: the end by the holder's wall clock
  bool asked = false;         // somebody has requested the lease
};

// One write.
struct Task {
  std::string id;
  std::string scope;
  // The lease under which the write was admitted; the process may hold a newer one by now.
  Held held;
  int rows = 1;
  std::function<void()> work;  // the program's work between the check and its COMMIT
};

// A write boundary. One thread at a time. Writes and acquisitions throw what the library throws;
// after any error but OutcomeUnknown nothing was written.
class Boundary {
 public:
  virtual ~Boundary() = default;
  virtual std::optional<Held> acquire(const std::string& scope, const std::string& owner,
                                      milliseconds ttl) = 0;
  virtual bool renew(const std::string& scope, const std::string& owner, Held& held,
                     milliseconds ttl) = 0;
  virtual void release(const std::string& scope, const std::string& owner, const Held& held) = 0;
  // Writes the task's rows, numbered in commit order by the scope's counter. Returns the last row's
  // number.
  virtual std::int64_t write(const Task& task) = 0;
  // Whether a leader that knows its lease is over stops by itself. Where the term guards the writes
  // it need not: it goes on until it is refused.
  virtual bool watches_its_lease() const { return false; }
  // Whether the boundary's mistake is in the release: then leaders release more often instead of
  // failing to renew.
  virtual bool breaks_on_release() const { return false; }
};

// `skew` is how far the process's wall clock is off (`client-clock`).
std::unique_ptr<Boundary> naive_boundary(std::string_view name, const std::string& url,
                                         const Names& names, milliseconds skew);

// Runs one statement in a transaction that the caller has opened, on any kind of connection.
using Run =
    std::function<Table(const std::string& statement, const std::vector<std::string>& values)>;
// Writes a task's rows by `run` and returns the last one's number. Parts below `from` exist already
// and are numbered here. With `beside`, the numbers are taken on that connection instead.
std::int64_t write_numbered(const Run& run, const Names& names, const std::string& table,
                            const Task& task, int from = 0, const Run* beside = nullptr);
void write_unnumbered(const Run& run, const std::string& table, const std::string& id,
                      const std::string& scope, std::int64_t term, int rows);

int lead(const Arguments& arguments);  // the hidden command `storm-leader`

}  // namespace termgate::cli::storm
