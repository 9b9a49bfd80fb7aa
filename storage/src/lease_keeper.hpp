// LeaseKeeper: the two threads that keep the leases of all HeldLease objects of a Database.
// LeaseWaiters: the callers that wait for a lease, and how they learn that it was released.
// Internal.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <termgate/boot_clock.hpp>
#include <termgate/database.hpp>
#include <termgate/detail/alarm.hpp>
#include <termgate/detail/driver.hpp>
#include <termgate/detail/fence_feed.hpp>
#include <termgate/detail/held_leases_core.hpp>
#include <termgate/info.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

#include "stats.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {

// What the keeper knows about one lease; shared with its handle.
struct KeptLease {
  Scope scope;
  Term term;
  std::string owner;
  std::chrono::milliseconds ttl;
  std::atomic<BootClock::rep> until{};  // until when the lease counts as held
  std::stop_source lost{};
  std::stop_source asked_to_leave{};
  std::atomic<BootClock::rep> leave_before{BootClock::duration::max().count()};
  std::atomic<bool> over{false};  // lost or expired: there is nothing to release
};

class LeaseKeeper {
 public:
  // `renewals` is called on the renewing thread and returns the driver to renew with, which must
  // live as long as the keeper.
  LeaseKeeper(std::function<Driver&()> renewals, StatsCounter& stats);
  ~LeaseKeeper();  // must not run on its own threads
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // None: the lease is already over. `end` is measured from before the request that granted it.
  std::optional<HeldLeasesCore::Id> add(const std::shared_ptr<KeptLease>& lease,
                                        const HeldLeasesCore::Timing& timing,
                                        BootClock::time_point end);
  void remove(HeldLeasesCore::Id id);
  // Renews it now: somebody may have requested the lease. Any thread.
  void hurry(HeldLeasesCore::Id id);
  bool is_own_thread() const noexcept;

 private:
  void keep_time();
  void renew();
  void log(const KeptLease& lease, LeaseCall::Result result, std::chrono::nanoseconds took,
           const char* error) const;
  std::vector<HeldLeasesCore::Outcome> ask(const std::vector<std::shared_ptr<KeptLease>>& leases,
                                           BootClock::time_point sent);

  std::function<Driver&()> renewals_;
  StatsCounter& stats_;
  Alarm alarm_;
  std::mutex mutex_;  // guards the members below
  HeldLeasesCore core_;
  std::unordered_map<HeldLeasesCore::Id, std::shared_ptr<KeptLease>> leases_;
  HeldLeasesCore::Id last_id_ = 0;
  std::optional<std::vector<std::shared_ptr<KeptLease>>> call_;
  std::condition_variable called_;
  std::vector<HeldLeasesCore::Id> asked_;
  std::vector<std::shared_ptr<KeptLease>>
      leaving_;  // somebody requests the lease, and its holder has not been notified yet
  bool over_ = false;
  std::thread time_, renewing_;
};

class LeaseWaiters {
 public:
  // `open` returns the feed of releases, or nullptr if the database has none. It is opened when
  // somebody waits or watches, and closed when nobody has done so for a while.
  explicit LeaseWaiters(std::function<std::unique_ptr<FenceFeed>()> open)
      : open_(std::move(open)) {}
  ~LeaseWaiters();
  LeaseWaiters(const LeaseWaiters&) = delete;
  LeaseWaiters& operator=(const LeaseWaiters&) = delete;

  // A caller that waits for one scope's lease, for the life of this object.
  class Wait {
   public:
    Wait(LeaseWaiters& waiters, const Scope& scope);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // Waits until `at`, `stop`, or a hint, which may have come since the last return. True: a hint.
    bool until(std::chrono::steady_clock::time_point at, const std::stop_token& stop);

   private:
    LeaseWaiters& waiters_;
    const std::string scope_;
    std::uint64_t seen_;
  };

  // A caller that only wants hints without waiting: a holder, or a candidate.
  class Watch {
   public:
    // `hinted` is called with the waiters' mutex held: it must return at once and must not call
    // LeaseWaiters.
    Watch(LeaseWaiters& waiters, std::string scope, std::function<void()> hinted);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    LeaseWaiters& waiters_;
    const std::string scope_;
  };

  // Somebody has released the lease, or requests it. A wrong hint is harmless.
  void hint(const std::string& scope);

 private:
  void need_listener();  // with mutex_ held
  void leave(const std::string& scope);
  void listen(const std::stop_token& stop);
  void hint_all();

  std::function<std::unique_ptr<FenceFeed>()> open_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable_any hinted_;
  struct Scoped {
    int waiting = 0;
    std::uint64_t hints = 0;
    std::map<const Watch*, std::function<void()>> watches = {};
  };
  std::map<std::string, Scoped> scopes_;
  FenceFeed* feed_ = nullptr;  // set while it waits
  bool listening_ = false;     // the thread runs, and accepts new waiters
  bool closing_ = false;
  bool none_ = false;  // this database has no feed
  std::jthread listener_;
};

// What a Database has for holders of leases and for those who wait for them. Threads and
// connections start at their first use.
class LeaseHolding {
 public:
  // `database` and `stats` outlive this.
  LeaseHolding(std::string url, OpenOptions options, Driver& database, StatsCounter& stats);
  LeaseKeeper& keeper();
  LeaseWaiters& waiters() noexcept { return waiters_; }
  StatsCounter& stats() noexcept { return stats_; }
  // PostgreSQL only.
  std::unique_ptr<FenceFeed> feed(std::string_view channel) const;

 private:
  Driver& renewals();

  const std::string url_;
  const OpenOptions options_;
  Driver& database_;
  StatsCounter& stats_;
  std::unique_ptr<Driver> own_driver_;  // its one connection is never used by other calls
  std::mutex mutex_;                    // guards the creation of keeper_
  LeaseWaiters waiters_;
  std::unique_ptr<LeaseKeeper> keeper_;
};

struct WaitTimes {
  std::chrono::milliseconds first, longest;
};

WaitTimes wait_times_of(std::string_view kind) noexcept;
Blocked still_anothers(const Scope& scope, const std::optional<LeaseInfo>& info);

// Calls `acquire` until it returns a lease, at most until `give_up`, woken by releases. None: the
// time is over. Throws Cancelled, and what `acquire` throws.
std::optional<Lease> wait_for_lease(Database database, LeaseHolding& holding, const Scope& scope,
                                    BootClock::time_point give_up, const WaitTimes& times,
                                    const std::stop_token& stop,
                                    const std::function<std::optional<Lease>()>& acquire);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
