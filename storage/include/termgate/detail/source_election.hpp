// An election by a LeaseSource: its lease, and the seal of its term in the database. If the seal
// fails, the lease is released. Internal.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/database.hpp>
#include <termgate/lease_source.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

struct SourceElection {
  SourceLease lease;
  BootClock::time_point until;  // measured from before the last request was sent
};

// One attempt. None: another owner holds the lease, or has taken it over during the seal. The seal
// is atomic in the database: if a service that lost data lets two holders have one term, only one
// of them passes. Throws what LeaseSource and Database::seal throw, and StaleTerm for a term that
// is not above the fence (for a watched file: below it); the lease is then released. `database` may
// be null: nothing is sealed.
std::optional<SourceElection> elect_by_source(LeaseSource& source, Database* database,
                                              const Scope& scope, const std::string& owner,
                                              std::chrono::milliseconds ttl,
                                              std::optional<std::chrono::milliseconds> grace);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
