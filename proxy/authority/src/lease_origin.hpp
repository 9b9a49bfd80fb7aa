// Where a HostLease has its lease from: the database's own leases, or a lock service. One worker at a time calls it, without locks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/database.hpp>
#include <termgate/lease_source.hpp>

namespace termgate::authority {

class LeaseOrigin {
 public:
  struct Won {
    Lease lease;
    std::string_view how;  // for the log
  };
  struct NotHad {
    std::string why;
    std::chrono::milliseconds pause;  // until it is worth another try
  };

  LeaseOrigin() = default;
  LeaseOrigin(const LeaseOrigin&) = delete;
  LeaseOrigin& operator=(const LeaseOrigin&) = delete;
  virtual ~LeaseOrigin() = default;

  // One try. `force`: end another owner's lease for it. `hold_off`: another has just taken the lease and is to have it for so long.
  // Throws Error where the origin fails, and StaleTerm for a term that went backwards.
  virtual std::variant<Won, NotHad> take(std::chrono::milliseconds ttl, bool force, std::chrono::milliseconds hold_off) = 0;
  // Throws LeaseLost, or Error where it is not known.
  virtual Lease renew(const Lease& lease, std::chrono::milliseconds ttl) = 0;
  // The lease that take() or renew() returned is in use now.
  virtual void noted() {}
  // What became of it, for the log; empty: it was over already. Throws Error where it is not known.
  virtual std::string_view give_back(const Lease& lease) = 0;
};

// `reason`: of a forced release, for the audit.
std::unique_ptr<LeaseOrigin> lease_of_database(Database database, Scope scope, std::string owner, std::string reason);

// A lock service has no way to look a lease up, so `owner` must be this process's alone: two processes do not share such a lease. Each term
// is sealed in `database` before it is returned.
std::unique_ptr<LeaseOrigin> lease_of_source(std::shared_ptr<LeaseSource> source, Database database, Scope scope, std::string owner);

}  // namespace termgate::authority
