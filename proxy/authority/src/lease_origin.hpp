// Where a HostLease gets its lease from: the database's own leases, or a lock service. One worker
// at a time calls it, and at the end the Authority's destructor, without locks.
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
    std::chrono::milliseconds pause;  // until another try makes sense
  };

  LeaseOrigin() = default;
  LeaseOrigin(const LeaseOrigin&) = delete;
  LeaseOrigin& operator=(const LeaseOrigin&) = delete;
  virtual ~LeaseOrigin() = default;

  // Tries once. `force`: ends another owner's lease first. `hold_off`: for this long the lease is
  // not acquired, because it has just been taken from this owner. Throws Error if the origin fails,
  // and StaleTerm for a term that went backwards.
  virtual std::variant<Won, NotHad> take(std::chrono::milliseconds ttl, bool force,
                                         std::chrono::milliseconds hold_off) = 0;
  // Throws LeaseLost, or Error if the result is not known.
  virtual Lease renew(const Lease& lease, std::chrono::milliseconds ttl) = 0;
  // The lease that take() or renew() returned is now in use.
  virtual void noted() {}
  // Returns what happened, for the log; empty: the lease had ended already. Throws Error if that is
  // not known.
  virtual std::string_view give_back(const Lease& lease) = 0;
};

// `reason`: why a release was forced, for the audit.
std::unique_ptr<LeaseOrigin> lease_of_database(Database database, Scope scope, std::string owner,
                                               std::string reason);

// A lock service does not show who holds a lease, so `owner` must be unique to this process:
// processes cannot share such a lease. Each term is sealed in `database` before it is returned.
std::unique_ptr<LeaseOrigin> lease_of_source(std::shared_ptr<LeaseSource> source, Database database,
                                             Scope scope, std::string owner);

}  // namespace termgate::authority
