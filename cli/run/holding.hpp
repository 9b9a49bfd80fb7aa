// The lease that `termgate run` holds while COMMAND runs: one of the database or of a lock service.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/lease_source.hpp>
#include <termgate/term.hpp>

namespace termgate::cli::run {

// The lease is renewed in the background. Any thread may call the members, except for release(),
// which one thread calls.
class Holding {
 public:
  virtual ~Holding() = default;
  virtual Term term() const = 0;
  virtual const std::string& owner() const = 0;
  virtual bool lost() const = 0;
  // A stop is requested when somebody requests the lease, which is still held until it is released
  // or lost. Lock services have no such requests.
  virtual std::stop_token asked_to_leave() const { return {}; }
  // The moment `margin` before the lease's end, as of the last renewal.
  virtual BootClock::time_point held_until() const = 0;
  // Gives the lease back. Throws what the driver's or service's call throws.
  virtual void release() = 0;
};

std::unique_ptr<Holding> holding_of(HeldLease held);

// Takes the lease from `source` and seals its term in `database`, unless that is null. Returns null
// if another owner holds the lease; with `waits`, only after options.wait. Throws what
// elect_by_source throws, and Cancelled.
std::unique_ptr<Holding> hold_from(LeaseSource& source, Database* database, const Scope& scope,
                                   const HoldOptions& options, bool waits);

}  // namespace termgate::cli::run
