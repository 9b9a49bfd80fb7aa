// An election by a lock service, then the seal in the database. Only after the seal does the new
// leader begin: from then on the database refuses every lower term, whatever the old leader
// believes (decision 0012).
#include <termgate/detail/source_election.hpp>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

void seal_new_term(const LeaseSource& source, Database& database, const Scope& scope, Term term,
                   std::optional<std::chrono::milliseconds> grace) {
  const auto refuse = [&](std::int64_t fence) {
    return StaleTerm(fmt::format("TG001 stale term {0} for scope \"{1}\" from {2}: the fence is "
                                 "already at {3}. {2} has lost what it knew, or "
                                 "the fence was raised by other means. Raise the terms of {2} "
                                 "above {3}; its lease was given back",
                                 term.value(), scope.name(), source.name(), fence),
                     scope.name(), term.value(), fence);
  };
  try {
    const SealReceipt receipt = database.seal(scope, term, grace);
    // A source that counts its terms issues a higher one for each election. If the fence was
    // already there, the source has forgotten what it issued, and two leaders could have this term.
    if (source.new_term_each_time() && receipt.previous >= term.value())
      throw refuse(receipt.previous);
  } catch (const StaleTerm& stale) {
    if (stale.fence() <= term.value()) throw;
    throw refuse(stale.fence());
  }
}

}  // namespace

std::optional<SourceElection> elect_by_source(LeaseSource& source, Database* database,
                                              const Scope& scope, const std::string& owner,
                                              std::chrono::milliseconds ttl,
                                              std::optional<std::chrono::milliseconds> grace) {
  auto sent = BootClock::now();
  auto lease = source.try_acquire(scope, owner, ttl);
  if (!lease || database == nullptr)
    return lease ? std::optional(SourceElection{*std::move(lease), sent + ttl}) : std::nullopt;
  try {
    seal_new_term(source, *database, scope, lease->term, grace);
    // A seal may wait for the grace and evict, which uses up a part of the TTL.
    if (const auto now = BootClock::now(); now - sent > ttl / 4) {
      if (!source.renew(scope, *lease, owner, ttl)) return std::nullopt;
      sent = now;
    }
  } catch (...) {
    try {
      source.release(scope, *lease, owner);
    } catch (const Error&) {}  // a lease that is not released ends with its TTL
    throw;
  }
  return SourceElection{*std::move(lease), sent + ttl};
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
