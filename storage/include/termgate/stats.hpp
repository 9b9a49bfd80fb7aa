// Numbers of what this process does with leases, and their text for Prometheus.
//
//   std::string text = metrics_text(Info(db).stats(), {billing_loop.stats()}, {projection.stats()});   // serve it at /metrics
//
// Values: any thread. Counters start at 0 with their object (copies of a Database share theirs) and
// never go down. `termgate admin` serves what only the database as a whole knows, such as who leads
// and how jobs ended.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace termgate {
inline namespace v0 {

// One kind of call to the database: how often, with what result, and how long it took.
struct CallStats {
  static constexpr std::array<double, 9> bounds_seconds{0.001, 0.0025, 0.005, 0.01, 0.025,
                                                        0.1,   0.5,    1,     5};

  std::int64_t granted = 0;
  std::int64_t refused = 0;  // another holds the lease, or it is no longer ours
  std::int64_t failed = 0;   // not reached, not answered, or refused with an error
  std::chrono::nanoseconds took{0};
  // Calls by their duration: up to each bound but above the one before; the last one: longer.
  std::array<std::int64_t, bounds_seconds.size() + 1> buckets{};
};

// How much this process's callers had to wait for the lease of a scope. The first 100 scopes have
// an entry each, the rest are summed up as "other".
struct ScopeContention {
  std::string scope;
  std::int64_t refused = 0;            // acquisitions that were refused
  std::chrono::nanoseconds waited{0};  // whether or not the lease was granted in the end
};

// All leases of a Database: those of handles, of loops, and those taken by hand.
struct DatabaseStats {
  CallStats acquire, renew, release;
  std::int64_t waits = 0;  // calls that had to wait because another held the lease
  std::chrono::nanoseconds waited{
      0};                 // in these calls together, whether or not the lease was granted
  std::int64_t held = 0;  // HeldLease objects that hold a lease now
  // HeldLease objects whose lease was lost, according to the database.
  std::int64_t lost = 0;
  std::int64_t expired = 0;       // HeldLease objects whose lease could not be renewed in time
  std::int64_t stale_writes = 0;  // this Database's own calls that were refused with TG001
  std::vector<ScopeContention> contention = {};
};

// One completed call about a lease, for a log (OpenOptions::lease_log).
struct LeaseCall {
  enum class Kind { acquire, renew, release };
  enum class Result { granted, refused, failed };  // as in CallStats
  Kind kind = Kind::acquire;
  Result result = Result::failed;
  std::string scope = {}, owner = {};
  std::optional<std::int64_t> term = {};  // none: an acquisition that was not granted
  std::chrono::nanoseconds took{0};       // duration of the statement, which may renew many leases
  std::string error = {};                 // if the call failed
};
// Such as "renew of "billing" by host:7:a1b2 under term 5: granted in 1.2 ms".
std::string to_text(const LeaseCall& call);

struct LeaderStats {
  std::string scope;
  std::optional<std::int64_t> term;  // the term that it leads under now
  std::int64_t elected = 0;
  // How leaderships ended (LeaderNews).
  std::int64_t stopped = 0, finished = 0, handed_over = 0, fenced = 0, lost = 0, expired = 0;
};

struct FollowerStats {
  std::string name;
  bool running = false;
  std::int64_t lag = 0;
  std::int64_t handled = 0;
  std::int64_t refused = 0;  // how often its function threw
};

std::string metrics_text(const DatabaseStats& database,
                         const std::vector<LeaderStats>& leaders = {},
                         const std::vector<FollowerStats>& followers = {});

}  // namespace v0
}  // namespace termgate
