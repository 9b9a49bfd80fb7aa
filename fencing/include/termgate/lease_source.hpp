// LeaseSource: a lock service that hands out the leases and terms of scopes in place of the
// database (docs/use/term-sources.md). Termgate::sources has the implementations, for Redis, etcd,
// ZooKeeper, Consul, Kubernetes and a watched file: open_lease_source() in <termgate/sources.hpp>.
//
// The service decides who leads. The database still decides whose writes count: LeaderLoop and
// `termgate run` seal each new term before the work starts, and refuse one that is not above the
// fence.
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

namespace termgate::inline v0 {

struct SourceLease {
  Term term;
  std::string handle = {};  // the service's own name for it: an etcd lease, a Consul session
  // The identity of the data that issued the term: an etcd cluster, a Kubernetes Lease's uid. Terms
  // of two identities cannot be compared.
  std::string identity = {};
};

// Calls of one object: any thread, one at a time. A caller measures the lease from before it made
// the call, by BootClock. Every call may block as long as the service's `timeout`, and at most a
// third of the TTL where it has one. It throws
//   Unavailable     the request did not reach the service, or it surely did nothing
//   OutcomeUnknown  it may have done it; a lease that was perhaps acquired ends with its TTL, and the same owner may acquire it again
//   InvalidInput    the service cannot do that: a TTL out of its range
//   DatabaseError   the service refused, with its own words
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
  // What an operator should know of how the service is set up, in sentences; asked once.
  virtual std::vector<std::string> warnings() { return {}; }

  // One try. None: another owner holds it. No two acquirers of one scope may have the same owner at
  // one time. Throws StaleTerm for a term that is not above every one that this object has seen for
  // the scope.
  virtual std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner, std::chrono::milliseconds ttl) = 0;
  // False: it is not this owner's lease under this term any more.
  virtual bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner, std::chrono::milliseconds ttl) = 0;
  // False: likewise. Nothing else is changed.
  virtual bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) = 0;
};

}  // namespace termgate::inline v0
