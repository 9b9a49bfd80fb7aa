// An election by a LeaseSource: its lease, and the seal of its term in the database, or neither. Internal.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/database.hpp>
#include <termgate/lease_source.hpp>

namespace termgate::inline v0::detail {

struct SourceElection {
  SourceLease lease;
  BootClock::time_point until;  // counted from before the last request was sent
};

// One try. None: another owner holds the lease. The seal is atomic in the database: of two holders of one term, which a service that lost
// data can bring about, only one passes. Throws what LeaseSource and Database::seal throw, and StaleTerm for a term that is not above
// the fence (of a watched file: below it); the lease is then given back. `database` may be null: nothing is sealed.
std::optional<SourceElection> elect_by_source(LeaseSource& source, Database* database, const Scope& scope, const std::string& owner,
                                              std::chrono::milliseconds ttl, std::optional<std::chrono::milliseconds> grace);

}  // namespace termgate::inline v0::detail
