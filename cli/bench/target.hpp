// bench: the database that is measured. A target creates the writers of each scenario; bench.cpp
// runs and compares them. The unfenced writers use libpq, sqlite3 or ODBC directly, so that the
// base of every ratio is the thinnest possible client.
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
  int scopes = 1;  // each operation chooses one at random
  std::size_t payload_bytes = 100;
  std::string names;  // prefix of the scopes' names

  std::string scope(int index) const;
  // A stream's name: one for each scope, or with `writer` one for each scope and writer.
  std::string stream(int scope_index, std::optional<int> writer = {}) const;
};

// One writer's random choices, repeatable from the seed.
class Choice {
 public:
  Choice(const Load& load, std::uint64_t seed, int writer)
      : random_(static_cast<std::uint32_t>(seed * 1'000'003 + static_cast<std::uint64_t>(writer))),
        scopes_(load.scopes) {}
  int scope() {
    return scopes_ == 1 ? 0 : static_cast<int>(random_() % static_cast<std::uint32_t>(scopes_));
  }

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

  // The scenarios of this database. The first is always "unfenced", the base of the ratios.
  virtual std::vector<Scenario> scenarios() const = 0;
  virtual std::unique_ptr<Writer> writer(std::string_view scenario, const Load& load, int index,
                                         std::uint64_t seed) = 0;
  // Called before the writers of a measurement are created.
  virtual void prepare(std::string_view scenario, const Load& load) = 0;
  virtual Flush flush_time() = 0;
  // False if the server flushes nothing (fsync off), so that durable runs cannot be measured.
  virtual bool can_be_durable() const = 0;
  virtual bool can_be_not_durable() const { return true; }
  // The version, and settings that affect the numbers.
  virtual boost::json::object facts() = 0;
  // A session that a raise must evict: it has passed the check for (scope, term), has written, and
  // stays idle in its transaction until the result is destroyed. Null for databases without such
  // sessions.
  virtual std::shared_ptr<void> frozen_writer(const Scope& scope, Term term) = 0;
  virtual void drop_tables() noexcept = 0;
};

// `suffix` makes the table names of this run unique. The …_url() functions add the session option
// that makes commits flush or not. A build without a driver lacks its functions (bench.cpp checks
// TERMGATE_WITH_…).
std::unique_ptr<Target> postgres_target(const std::string& url, const std::string& schema,
                                        const std::string& suffix);
std::string postgres_url(const std::string& url, bool durable);
std::unique_ptr<Target> odbc_target(const std::string& url, const std::string& schema,
                                    const std::string& suffix);
std::unique_ptr<Target> sqlite_target(const std::string& url, const std::string& suffix);
std::string sqlite_url(const std::string& url, bool durable);
// The path of sqlite:PATH?options, with %XX decoded.
std::string sqlite_path(const std::string& url);

// Opens `url` again with flushed or unflushed commits; through ODBC the server's setting stays. A
// raise is flushed in either case (F3).
Database open_with_durability(const std::string& url, const OpenOptions& options, bool durable);

// What the parts of bench share.
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
bool interrupted();  // SIGINT or SIGTERM has come

struct TakeoverOptions {
  int takeovers;
  std::chrono::milliseconds grace;
};
// Each measurement prints its table (nothing with --json) and returns its part of the JSON
// document.
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

// Deletes the writes of the streams whose names begin with `names`. Streams and fences stay, as
// they always do.
void prune_streams(Database& database, const std::string& names, bool wanted_progress);

}  // namespace termgate::cli::bench
