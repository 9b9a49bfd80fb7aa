// What `termgate run` holds while COMMAND runs: a lease of the database, or one of a lock service.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/lease_source.hpp>
#include <termgate/term.hpp>

namespace termgate::cli::run {

// Renewed in the background. Members: any thread.
class Holding {
 public:
  virtual ~Holding() = default;
  virtual Term term() const = 0;
  virtual const std::string& owner() const = 0;
  virtual bool lost() const = 0;
  // Requested when somebody asks for the lease; it is held until it is released, or lost. Nobody requests a lock service's.
  virtual std::stop_token asked_to_leave() const { return {}; }
  // `margin` before the lease's end, unless it is renewed before.
  virtual BootClock::time_point held_until() const = 0;
  // Gives it back. Throws what the call throws.
  virtual void release() = 0;
};

std::unique_ptr<Holding> holding_of(HeldLease held);

// Takes the lease from `source` and seals its term in `database` (null: not at all). Null: another owner holds it, with `waits` for
// options.wait. Throws what elect_by_source throws, and Cancelled.
std::unique_ptr<Holding> hold_from(LeaseSource& source, Database* database, const Scope& scope, const HoldOptions& options, bool waits);

}  // namespace termgate::cli::run
