// storm: the database's part: creates the storm's tables, reads their final state, and removes
// them.
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

// Create it before the leaders start. Only the director's thread uses it; `database()` may be
// copied to other threads. All but clear() throw what the library throws.
class Ground {
 public:
  Ground(const Arguments& arguments, Plan& plan);

  std::optional<Database>& database() { return database_; }

  // Waits until the server has ended the sessions of killed leaders; ends them after 5 s, and
  // throws Unavailable if some are left after 20 s.
  void settle();

  // The rows and fences for the checker; `pruned`: rows that the storm has read and then pruned.
  testkit::State state(std::vector<testkit::Row> pruned);

  // What verify() of layer 1 finds in the scopes of this storm.
  std::vector<Breach> verify();

  // How many sessions were evicted by raises, according to the audit.
  std::int64_t evictions();

  // Removes what the storm created, except fences and the numbering of streams. Returns false if
  // something is left.
  bool clear() noexcept;

 private:
  std::vector<std::string> tables() const;
  bool holding() const { return std::any_of(plan_.faults.begin(), plan_.faults.end(), holds); }

  // Throws UsageError if the server has too few connections left, or no prepared transactions
  // though --faults names them. Without --faults it drops that fault.
  void measure(const Arguments& arguments, Sql& sql);

  Plan& plan_;
  std::string url_;
  // The schema created for this run if the role's usual schema cannot be used; see Workspace.
  std::string schema_;
  std::optional<Database> database_;
};

}  // namespace termgate::cli::storm
