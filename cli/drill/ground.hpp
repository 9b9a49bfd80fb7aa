// drill: what the database shows of the scope: its fence, its lease, and the writes that carry a term.
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

// The drill's own way to the database, apart from the command's. One thread; borrows the plan.
class Ground {
 public:
  explicit Ground(const Plan& plan);

  // The scope's fence, 0 for none. None: it could not be read just now; why_not() says why.
  std::optional<std::int64_t> fence();
  std::int64_t fence_now() {  // throws
    const auto found = Info(*database_).fence(plan_.scope);
    return found ? found->term : 0;
  }
  std::optional<LeaseInfo> lease() { return Info(*database_).lease(plan_.scope); }
  // Gives back a lease that an instance has left. Returns why it could not, or an empty text.
  std::string give_back(const LeaseInfo& lease);
  std::optional<Access> access(const std::string& role) { return access_of(*database_, plan_.schema, role); }
  const std::string& why_not() const { return why_not_; }

  // Rows that carry the term, by what they were found by. What cannot be counted is left out, but for the user's own query: UsageError.
  std::map<std::string, std::int64_t> rows_under(std::int64_t term);

  // Refusals of this term that the audit knows of.
  std::int64_t audited_refusals(std::int64_t term);

  // Whether somebody keeps everybody from writing: on SQLite a process that was stopped in the middle of a transaction.
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
