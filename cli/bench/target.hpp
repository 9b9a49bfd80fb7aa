// bench: the database under measurement. A target makes the writers of each scenario; how they are run and
// compared is bench.cpp's. PostgreSQL's writers speak libpq directly (postgres.cpp) and SQLite's
// unfenced ones sqlite3 (sqlite.cpp), so that the base of every ratio is the thinnest client there is.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include <termgate/database.hpp>

#include "bench/measure.hpp"

namespace termgate::cli::bench {

struct Load {
  bool durable = true;
  int writers = 1;
  int batch = 1;   // rows that one operation writes
  int scopes = 1;  // each operation takes one of them at random
  std::size_t payload_bytes = 100;
  std::string names;  // what the scopes' names begin with

  std::string scope(int index) const;
  // A stream's name: one for each scope, or with `writer` one for each scope and writer.
  std::string stream(int scope_index, std::optional<int> writer = {}) const;
};

// One writer's choices, repeatable from the seed.
class Choice {
 public:
  Choice(const Load& load, std::uint64_t seed, int writer)
      : random_(static_cast<std::uint32_t>(seed * 1'000'003 + static_cast<std::uint64_t>(writer))), scopes_(load.scopes) {}
  int scope() { return scopes_ == 1 ? 0 : static_cast<int>(random_() % static_cast<std::uint32_t>(scopes_)); }

 private:
  std::minstd_rand random_;
  int scopes_;
};

struct Flush {
  std::chrono::nanoseconds p50{0};
  std::string how;  // what was timed
};

struct Scenario {
  std::string_view name;
  std::string_view what;
  bool by_default;
};

class Target {
 public:
  virtual ~Target() = default;

  // The first is always "unfenced", the base of the ratios.
  virtual std::vector<Scenario> scenarios() const = 0;
  virtual std::unique_ptr<Writer> writer(std::string_view scenario, const Load& load, int index, std::uint64_t seed) = 0;
  // Called before the writers of a slice are made.
  virtual void prepare(std::string_view scenario, const Load& load) = 0;
  virtual Flush flush_time() = 0;
  // False where the server flushes nothing (fsync off): there are no durable runs to measure then.
  virtual bool can_be_durable() const = 0;
  virtual bool can_be_not_durable() const { return true; }
  virtual boost::json::object facts() = 0;  // version and settings that bear on the numbers
  // The session that blocks a raise: it has passed the check for (scope, term), has written, and neither
  // goes on nor ends until the result is destroyed. Null where the database has no such sessions.
  virtual std::shared_ptr<void> frozen_writer(const Scope& scope, Term term) = 0;
  virtual void drop_tables() noexcept = 0;
};

// `suffix` makes the names of this run's tables its own. The URL's session options gain what makes commits
// flush, or not. A build without the driver has neither (bench.cpp asks by TERMGATE_WITH_…).
std::unique_ptr<Target> postgres_target(const std::string& url, const std::string& schema, const std::string& suffix);
std::string postgres_url(const std::string& url, bool durable);
std::unique_ptr<Target> odbc_target(const std::string& url, const std::string& schema, const std::string& suffix);
std::unique_ptr<Target> sqlite_target(const std::string& url, const std::string& suffix);
std::string sqlite_url(const std::string& url, bool durable);
std::string sqlite_path(const std::string& url);  // the path of sqlite:PATH?options, its %XX undone

// Opens `url` again with the session's commits flushed or not; raises need them flushed.
Database open_with_durability(const std::string& url, const OpenOptions& options, bool durable);

// What several parts of bench share.
struct Bench {
  Target& target;
  Database& database;
  std::string suffix;
  std::uint64_t seed;
  bool quick;
  bool json;
  int rounds;
  std::chrono::nanoseconds slice;
  std::size_t payload_bytes;
};
bool interrupted();  // Ctrl-C was pressed

struct TakeoverOptions {
  int takeovers;
  std::chrono::milliseconds grace;
};
// Each prints its table (or nothing with --json) and returns its part of the JSON document.
boost::json::value measure_takeovers(const Bench& bench, const TakeoverOptions& options);
struct GrowthOptions {
  std::int64_t writes;
  int scopes;
};
boost::json::value measure_growth(const Bench& bench, const GrowthOptions& options);

struct LeaseOptionsOfBench {
  int holders;
  std::chrono::nanoseconds time;
};
boost::json::value measure_leases(const Bench& bench, const LeaseOptionsOfBench& options);

// Deletes the writes of this run's streams; streams and fences stay, as they always do.
void prune_streams(Database& database, const std::string& names, bool wanted_progress);

}  // namespace termgate::cli::bench
