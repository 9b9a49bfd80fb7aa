// The lease that the database itself keeps.
#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "lease_origin.hpp"

namespace termgate::authority {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string moment(std::int64_t since_1970_ms) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} UTC",
                     fmt::gmtime(static_cast<std::time_t>(since_1970_ms / 1000)),
                     since_1970_ms % 1000);
}

bool live(const LeaseInfo& info) { return !info.released_at_ms && info.remaining_ms > 0; }

class OfDatabase final : public LeaseOrigin {
 public:
  OfDatabase(Database database, Scope scope, std::string owner, std::string reason)
      : database_(std::move(database)),
        scope_(std::move(scope)),
        owner_(std::move(owner)),
        reason_(std::move(reason)) {}

  std::variant<Won, NotHad> take(milliseconds ttl, bool force, milliseconds hold_off) override {
    const auto seen = Info(database_).lease(scope_);
    if (seen && live(*seen) && seen->owner == owner_) {
      // Another proxy holds it for the same host, or this one did before a restart: one application
      // has one term.
      try {
        const Lease lease = database_.renew_lease(scope_, Term(seen->term), owner_, ttl);
        shared_until_ = Clock::now() + ttl;
        return Won{lease, "joined"};
      } catch (const LeaseLost&) { return NotHad{"its lease has just changed hands", {}}; }
    }
    const bool anothers = seen && live(*seen);
    if (anothers) {
      if (!force)
        return NotHad{fmt::format("its lease is held by {} until {}", seen->owner,
                                  moment(seen->expires_at_ms)),
                      milliseconds(seen->remaining_ms + 1)};
      Operator(database_).force_release(scope_, "termgate proxy", reason_);
    }
    if (hold_off.count() > 0)
      return NotHad{fmt::format("its lease was just taken from {}", owner_), hold_off};
    LeaseOptions options;
    options.owner = owner_;
    if (auto lease = database_.try_acquire_lease(scope_, ttl, options)) {
      shared_until_ = {};
      return Won{*std::move(lease), anothers ? "taken over" : "taken"};
    }
    return NotHad{"its lease was taken by another just now", {}};
  }

  // Reads the lease before the renewal. If renewed_at has changed since noted() read it, another
  // proxy renews the lease too.
  Lease renew(const Lease& lease, milliseconds ttl) override {
    const auto before = Info(database_).lease(scope_);
    if (before && before->owner == owner_ && before->term == lease.term().value() &&
        before->renewed_at_ms != renewed_at_ms_)
      shared_until_ = Clock::now() + ttl;
    return database_.renew_lease(scope_, lease.term(), owner_, ttl);
  }

  void noted() override {
    if (const auto after = Info(database_).lease(scope_)) renewed_at_ms_ = after->renewed_at_ms;
  }

  std::string_view give_back(const Lease& lease) override {
    const auto seen = Info(database_).lease(scope_);
    if (!seen || seen->owner != owner_ || seen->term != lease.term().value() || !live(*seen))
      return {};
    // Another proxy of the same host renews it too, so this proxy alone must not give it back.
    if (seen->renewed_at_ms != renewed_at_ms_ || Clock::now() < shared_until_)
      return "left to the other proxy of";
    database_.release_lease(lease);
    return "given back by";
  }

 private:
  Database database_;
  const Scope scope_;
  const std::string owner_;
  const std::string reason_;
  std::int64_t renewed_at_ms_ = 0;    // from the database, after our own last renewal
  Clock::time_point shared_until_{};  // until then another proxy is taken to renew it too
};

}  // namespace

std::unique_ptr<LeaseOrigin> lease_of_database(Database database, Scope scope, std::string owner,
                                               std::string reason) {
  return std::make_unique<OfDatabase>(std::move(database), std::move(scope), std::move(owner),
                                      std::move(reason));
}

}  // namespace termgate::authority
