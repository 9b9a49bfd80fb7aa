// The lease of one application: acquired when the first of its sessions is established, renewed while one of them is open and its
// peer answers within the TTL, given back when the last one is gone. Any number of proxies share one of the database's leases: its owner is
// the application's host, and a proxy that finds the lease in the host's hands already joins its term. Any thread; the database and the
// lock service are only called on workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/authority/authority.hpp>
#include <termgate/database.hpp>

#include "lease_origin.hpp"
#include "workers.hpp"

namespace termgate::authority {

class HostLease final : public conversation::TermSource, public std::enable_shared_from_this<HostLease> {
 public:
  using Clock = Workers::Clock;

  // What all of them share; outlives them.
  struct Common {
    Workers& workers;
    Database database;
    std::chrono::milliseconds settle_wait;
    std::function<void(const std::string& scope, std::int64_t fence)> saw_fence;
    std::function<void(const std::string&)> log;
  };

  HostLease(Common& common, Scope scope, std::string owner, std::unique_ptr<LeaseOrigin> origin);

  // A reloaded rule may have changed these.
  void set(std::chrono::milliseconds ttl, Takeover takeover);

  void opened(std::uint64_t session, std::shared_ptr<PeerLiveness> liveness, std::function<void()> settled);
  void closed(std::uint64_t session);
  // The scope's fence is at `fence`: above the lease's own term it is another's by now, whatever the next renewal would say.
  void fence_rose(std::int64_t fence);

  Standing now() const override;
  const Scope& scope() const noexcept { return scope_; }
  bool held() const;

  // At the very end, when no worker runs any more: gives the lease back. False: the database did not answer.
  bool give_back_now();

 private:
  struct Opened {
    std::shared_ptr<PeerLiveness> liveness;
    std::function<void()> settled;  // until it was called
  };
  using Lock = std::unique_lock<std::mutex>;

  void kick(Clock::time_point when);  // mutex_ is held
  void run(std::uint64_t kicked);
  void settle_after(std::uint64_t session);
  std::optional<Clock::time_point> step();
  std::optional<Clock::time_point> renew();
  std::optional<Clock::time_point> take();
  void give_back(const Lease& lease);
  void won(LeaseOrigin::Won won);
  void lost(std::string why);
  bool answering(std::chrono::milliseconds ttl) const;
  std::vector<std::function<void()>> take_settled();  // mutex_ is held

  Common& common_;
  const Scope scope_;
  const std::string owner_;
  const std::unique_ptr<LeaseOrigin> origin_;  // only the worker that is busy calls it

  mutable std::mutex mutex_;  // guards what follows
  std::chrono::milliseconds ttl_{10'000};
  Takeover takeover_ = Takeover::wait;
  std::map<std::uint64_t, Opened> sessions_;
  std::optional<Lease> lease_;
  std::string why_not_;
  const char* problem_code_ = "TG002";  // that goes with why_not_
  bool newcomer_ = false;               // a session has arrived since the lease was last held
  // Shut out by a higher term: whoever ended this lease is about to take it, and must find it free.
  Clock::time_point hold_off_until_{};
  bool busy_ = false;  // a worker is in step()
  bool again_ = false;
  std::uint64_t kicked_ = 0;
};

}  // namespace termgate::authority
