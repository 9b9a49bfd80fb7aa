// A lease of a lock service whose terms the database seals.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <termgate/boot_clock.hpp>
#include <termgate/detail/source_election.hpp>
#include <termgate/error.hpp>

#include "lease_origin.hpp"

namespace termgate::authority {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds look_again{250};  // a lock service does not notify of a release

class OfSource final : public LeaseOrigin {
 public:
  OfSource(std::shared_ptr<LeaseSource> source, Database database, Scope scope, std::string owner)
      : source_(std::move(source)),
        database_(std::move(database)),
        scope_(std::move(scope)),
        owner_(std::move(owner)) {}

  std::variant<Won, NotHad> take(milliseconds ttl, bool, milliseconds hold_off) override {
    if (hold_off.count() > 0)
      return NotHad{fmt::format("its lease was just taken from {}", owner_), hold_off};
    const auto won =
        detail::elect_by_source(*source_, &database_, scope_, owner_, ttl, std::nullopt);
    if (!won)
      return NotHad{fmt::format("its lease in {} is another owner's", source_->name()), look_again};
    held_ = won->lease;
    return Won{Lease(scope_, won->lease.term, owner_, ttl, won->until), "taken"};
  }

  Lease renew(const Lease& lease, milliseconds ttl) override {
    const auto sent = BootClock::now();
    if (!held_ || !source_->renew(scope_, *held_, owner_, ttl))
      throw LeaseLost(fmt::format("{} no longer has this lease for {}", source_->name(), owner_));
    return Lease(scope_, lease.term(), owner_, ttl, sent + ttl);
  }

  std::string_view give_back(const Lease&) override {
    const auto held = std::exchange(held_, std::nullopt);
    return held && source_->release(scope_, *held, owner_) ? std::string_view("given back by")
                                                           : std::string_view();
  }

 private:
  const std::shared_ptr<LeaseSource> source_;
  Database database_;
  const Scope scope_;
  const std::string owner_;
  std::optional<SourceLease> held_;
};

}  // namespace

std::unique_ptr<LeaseOrigin> lease_of_source(std::shared_ptr<LeaseSource> source, Database database,
                                             Scope scope, std::string owner) {
  return std::make_unique<OfSource>(std::move(source), std::move(database), std::move(scope),
                                    std::move(owner));
}

}  // namespace termgate::authority
