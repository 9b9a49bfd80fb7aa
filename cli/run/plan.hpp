// The options of `termgate run`, and what the database says about them before anything is started.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/lease_source.hpp>

#include "command.hpp"

namespace termgate::cli::run {

struct Plan {
  Scope scope;
  std::vector<std::string> command;
  HoldOptions hold;
  bool waits = false;
  std::optional<std::string> job;
  std::optional<std::chrono::milliseconds> once_per;
  bool resume = false;
  bool on_request = false;  // COMMAND runs when somebody asks for the job
  bool pgoptions = true;
  std::chrono::milliseconds kill_after{};
  int leave_signal = 0;                      // for COMMAND, when somebody asks for the lease
  int shards = 0;                            // 0: no shards
  bool keep = false;                         // of shards: what has ended is started again
  std::shared_ptr<LeaseSource> source = {};  // none: the database's own leases
  bool seals = true;
  std::string preload = {};  // the library that fences COMMAND's writes to SQLite files; empty: none
};

inline constexpr int shards_max = 256;
inline constexpr int own_outcomes = 100;  // what is added to the exit statuses of this command's own

Plan plan_of(const Arguments& arguments);

// When COMMAND may run again: --once-per, by the database's clock.
struct Due {
  std::chrono::milliseconds in{0};     // 0 or less: now
  std::chrono::milliseconds ahead{0};  // how far in the future a completed run began: a clock was ahead then
};
Due due(Database& database, const Plan& plan);
inline bool is_due(Database& database, const Plan& plan) { return due(database, plan).in.count() <= 0; }
// What to say of a clock that was ahead; empty: nothing.
std::string clock_warning(const Due& due, const Plan& plan);

// --dry-run: says what would be done, and writes nothing. Returns the exit status.
int dry_run(Database& database, const Plan& plan, bool json);

}  // namespace termgate::cli::run
