// The options of `termgate run`, and what the database knows about them before anything is started.
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
  bool on_request = false;  // wait for a request of the job before each run of COMMAND
  bool pgoptions = true;
  std::chrono::milliseconds kill_after{};
  // The signal for COMMAND when somebody requests the lease.
  int leave_signal = 0;
  int shards = 0;                            // 0: no shards
  bool keep = false;                         // shards only: restart those that have ended
  std::shared_ptr<LeaseSource> source = {};  // null: the database's own leases
  bool seals = true;
  // The library that fences COMMAND's writes to SQLite files; empty: none.
  std::string preload = {};
};

inline constexpr int shards_max = 256;
inline constexpr int own_outcomes = 100;  // added to the exit statuses of `termgate run` itself

Plan plan_of(const Arguments& arguments);

// When COMMAND may run again according to --once-per, by the database's clock.
struct Due {
  std::chrono::milliseconds in{0};  // 0 or less: now
  // How far in the future the last completed run began, because a clock was ahead then; 0: it did
  // not.
  std::chrono::milliseconds ahead{0};
};
Due due(Database& database, const Plan& plan);
inline bool is_due(Database& database, const Plan& plan) {
  return due(database, plan).in.count() <= 0;
}
// The warning about a clock that was ahead; empty if there is none.
std::string clock_warning(const Due& due, const Plan& plan);

// --dry-run: prints what would be done, and writes nothing. Returns the exit status.
int dry_run(Database& database, const Plan& plan, bool json);

}  // namespace termgate::cli::run
