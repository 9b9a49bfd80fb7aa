// The database under a storm: its tables, what they hold at the end, and their removal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>
#include <termgate/testkit/checker.hpp>

#include "command.hpp"
#include "storm/faults.hpp"
#include "storm/hold.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

// Made before the leaders start, and used by the director's thread alone; `database()` may be copied to others.
class Ground {
 public:
  Ground(const Arguments& arguments, Plan& plan);

  std::optional<Database>& database() { return database_; }

  // What sessions of killed leaders were about, the server may still be about.
  void settle();

  testkit::State state(std::vector<testkit::Row> pruned);

  std::vector<Breach> verify();

  // Sessions that raises ended, by the audit.
  std::int64_t evictions();

  // Takes away what the storm has made; fences stay, and the numbering of streams.
  // False: not all of it.
  bool clear() noexcept;

 private:
  std::vector<std::string> tables() const;
  bool holding() const { return std::any_of(plan_.faults.begin(), plan_.faults.end(), holds); }

  // Whether the server has room for all connections, and what it allows.
  void measure(const Arguments& arguments, Sql& sql);

  Plan& plan_;
  std::string url_;
  std::string schema_;  // made for the run, where the role's own place will not do; see Workspace
  std::optional<Database> database_;
};

}  // namespace termgate::cli::storm
