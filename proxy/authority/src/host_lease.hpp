// The lease of one application: acquired when the first of its sessions is established, renewed
// while one of them is open and its peer answers within the TTL, given back when the last one has
// ended. Several proxies can share one lease of the database: its owner is the application's host,
// and if a proxy finds that the host has the lease, it uses the term of that lease. Any thread may
// call. Only workers, and at the end the Authority's destructor, query the database and the lock
// service.
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

class HostLease final : public conversation::TermSource,
                        public std::enable_shared_from_this<HostLease> {
 public:
  using Clock = Workers::Clock;

  // What all leases share; must outlive them.
  struct Common {
    Workers& workers;
    Database database;
    std::chrono::milliseconds settle_wait;
    std::function<void(const std::string& scope, std::int64_t fence)> saw_fence;
    std::function<void(const std::string&)> log;
  };

  HostLease(Common& common, Scope scope, std::string owner, std::unique_ptr<LeaseOrigin> origin);

  // Applies values that a reloaded rule may have changed.
  void set(std::chrono::milliseconds ttl, Takeover takeover);

  void opened(std::uint64_t session, std::shared_ptr<PeerLiveness> liveness,
              std::function<void()> settled);
  void closed(std::uint64_t session);
  // The scope's fence is now `fence`. If that is above the lease's own term, another leader has the
  // scope, whatever the next renewal would return.
  void fence_rose(std::int64_t fence);

  Standing now() const override;
  const Scope& scope() const noexcept { return scope_; }
  bool held() const;

  // Gives the lease back at the very end, when no worker runs any more. False: that has failed.
  bool give_back_now();

 private:
  struct Opened {
    std::shared_ptr<PeerLiveness> liveness;
    std::function<void()> settled;  // empty once it was called
  };
  using Lock = std::unique_lock<std::mutex>;

  void kick(Clock::time_point when);  // schedules a step(); the caller holds mutex_
  void run(std::uint64_t kicked);
  void settle_after(std::uint64_t session);
  std::optional<Clock::time_point> step();
  std::optional<Clock::time_point> renew();
  std::optional<Clock::time_point> take();
  void give_back(const Lease& lease);
  void won(LeaseOrigin::Won won);
  void lost(std::string why);
  bool answering(std::chrono::milliseconds ttl) const;
  std::vector<std::function<void()>> take_settled();  // the caller holds mutex_

  Common& common_;
  const Scope scope_;
  const std::string owner_;
  const std::unique_ptr<LeaseOrigin> origin_;  // called by the busy worker, and give_back_now()

  mutable std::mutex mutex_;  // guards what follows
  std::chrono::milliseconds ttl_{10'000};
  Takeover takeover_ = Takeover::wait;
  std::map<std::uint64_t, Opened> sessions_;
  std::optional<Lease> lease_;
  std::string why_not_;
  const char* problem_code_ = "TG002";  // belongs to why_not_
  bool newcomer_ = false;               // a session has arrived since the lease was last held
  // After a higher term has ended the lease, it is not taken before this time unless a new session
  // arrives, because the other leader must find it free.
  Clock::time_point hold_off_until_{};
  bool busy_ = false;  // a worker is in step()
  bool again_ = false;
  std::uint64_t kicked_ = 0;
};

}  // namespace termgate::authority
