// LeaseSource: a lock service that hands out the leases and terms of scopes in place of the
// database (docs/use/term-sources.md). Termgate::sources has the implementations, for Redis, etcd,
// ZooKeeper, Consul, Kubernetes and a watched file: open_lease_source() in <termgate/sources.hpp>.
//
// The service decides who leads. The database still decides whose writes count: LeaderLoop and
// `termgate run` seal each new term before the work starts, and refuse one that is not above the
// fence (from a watched file: one below it).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <termgate/error.hpp>
#include <termgate/export.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

struct SourceLease {
  Term term;
  std::string handle = {};  // the service's own name for the lease: an etcd lease, a Consul session
  // The identity of the data that issued the term: an etcd cluster, a Kubernetes Lease's uid. Terms
  // of two identities cannot be compared.
  std::string identity = {};
};

// One object may be called from any thread, one call at a time. The caller measures the lease from
// before its call, by BootClock. A call may block as long as the service's `timeout` (of its URL);
// a call with a TTL, at most for a third of the TTL. It throws
//    Unavailable     the request did not reach the service, or surely did nothing
//    OutcomeUnknown  the request may have been carried out; a lease that was perhaps acquired ends
//                    with its TTL, and the same owner may acquire it again
//    InvalidInput    the service cannot do that: a TTL out of its range
//    DatabaseError   the service refused, with its own words
class TERMGATE_EXPORT LeaseSource {
 public:
  LeaseSource() = default;
  LeaseSource(const LeaseSource&) = delete;
  LeaseSource& operator=(const LeaseSource&) = delete;
  virtual ~LeaseSource();

  // For messages: the service and its address, never a password.
  virtual std::string name() const = 0;
  // Whether each acquisition has a term that no acquisition had before. False for the watched file:
  // it shows what an elector wrote.
  virtual bool new_term_each_time() const { return true; }
  // What an operator should know about the service's setup, in sentences. Called once.
  virtual std::vector<std::string> warnings() { return {}; }

  // One attempt. None: another owner holds the lease. Two acquirers of one scope must not use the
  // same owner at the same time. Throws StaleTerm if the service has lost what it knew: its
  // identity is another one, or its term is not above all that this object has seen for the scope
  // (for a watched file: is below one of them).
  virtual std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                                 std::chrono::milliseconds ttl) = 0;
  // False: the lease is no longer this owner's under this term.
  virtual bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
                     std::chrono::milliseconds ttl) = 0;
  // False: the lease was no longer this owner's under this term; no other lease was touched.
  virtual bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) = 0;
};

}  // namespace v0
}  // namespace termgate
