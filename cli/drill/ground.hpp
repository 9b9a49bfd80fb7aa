// drill: what the database knows about the scope: its fence, its lease, and the writes that carry a
// term.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>

#include "commands/privileges.hpp"
#include "drill/plan.hpp"

namespace termgate::cli::drill {

// The drill's own connections to the database; the user's command has others. One thread; borrows
// the plan. Creating it throws Error if the role lacks level read.
class Ground {
 public:
  explicit Ground(const Plan& plan);

  // The scope's fence; 0 if there is none. Returns nothing if it cannot be read just now; why_not()
  // says why.
  std::optional<std::int64_t> fence();
  std::int64_t fence_now() {  // throws
    const auto found = Info(*database_).fence(plan_.scope);
    return found ? found->term : 0;
  }
  std::optional<LeaseInfo> lease() { return Info(*database_).lease(plan_.scope); }
  // Releases a lease that an instance left. Throws Error.
  void give_back(const LeaseInfo& lease) {
    database_->release_lease(plan_.scope, Term(lease.term), lease.owner);
  }
  std::optional<Access> access(const std::string& role) {
    return access_of(*database_, plan_.schema, role);
  }
  const std::string& why_not() const { return why_not_; }

  // Counts rows that carry the term; the key names the table or query. Leaves out what cannot be
  // counted just now. Throws UsageError if the user's own query fails or does not return one
  // number.
  std::map<std::string, std::int64_t> rows_under(std::int64_t term);

  // How many refusals of this term the audit has.
  std::int64_t audited_refusals(std::int64_t term);

  // Whether a lock on an SQLite file keeps everybody from writing: a process that was stopped in
  // the middle of a transaction holds it. False for servers.
  bool locked();

 private:
  struct Count {
    std::string what, sql;
    bool users;
  };
  const Plan& plan_;
  std::optional<Database> database_;
  std::vector<Count> counts_;
  std::string why_not_;
};

}  // namespace termgate::cli::drill
