// HeldLease and waiting for a lease, built on Database's calls; LeaseKeeper renews. Owner: the
// caller has the handle; its State is not shared, and keeps the Database, and with it the keeper,
// alive. Threads: any may read a handle; the first that calls release() releases the lease.
#include <termgate/held_lease.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/detail/open.hpp>
#include <termgate/info.hpp>

#include "database_state.hpp"

namespace termgate {
inline namespace v0 {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

namespace detail {

LeaseHolding::LeaseHolding(std::string url, OpenOptions options, Driver& database,
                           StatsCounter& stats)
    : url_(std::move(url)),
      options_(std::move(options)),
      database_(database),
      stats_(stats),
      waiters_([this]() -> std::unique_ptr<FenceFeed> {
        return database_.kind() == "postgresql" ? feed("termgate_leases") : nullptr;
      }) {}

std::unique_ptr<FenceFeed> LeaseHolding::feed(std::string_view channel) const {
  return open_fence_feed(url_, options_.schema, {}, channel);
}

LeaseKeeper& LeaseHolding::keeper() {
  const std::lock_guard lock(mutex_);
  if (!keeper_)
    keeper_ = std::make_unique<LeaseKeeper>([this]() -> Driver& { return renewals(); }, stats_);
  return *keeper_;
}

// SQLite has one connection that writes, with a fair queue in front of it, and a database in memory
// has no other. On other databases the pool may be empty for longer than a lease lasts, so renewals
// have a connection of their own.
Driver& LeaseHolding::renewals() {
  if (database_.kind() == "sqlite") return database_;
  if (!own_driver_) {
    OpenOptions options = options_;
    options.connections_max = 1;
    own_driver_ = open_driver(url_, options);
  }
  return *own_driver_;
}

WaitTimes wait_times_of(std::string_view kind) noexcept {
  return {10ms, kind == "postgresql" ? 1000ms : kind == "sqlite" ? 20ms : 250ms};
}

Blocked still_anothers(const Scope& scope, const std::optional<LeaseInfo>& info) {
  return Blocked(fmt::format("TG006 the lease of scope \"{}\" is held by {} for another {} ms",
                             scope.name(), info ? info->owner : "another",
                             info ? std::max<std::int64_t>(info->remaining_ms, 0) : 0));
}

std::optional<Lease> wait_for_lease(Database database, LeaseHolding& holding, const Scope& scope,
                                    BootClock::time_point give_up, const WaitTimes& times,
                                    const std::stop_token& stop,
                                    const std::function<std::optional<Lease>()>& acquire) {
  // The jitter needs no good randomness, only a different sequence in each thread.
  thread_local std::minstd_rand random(std::random_device{}());
  const auto by_chance = [](milliseconds up_to) {
    return milliseconds(static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(std::max<std::int64_t>(up_to.count(), 1))));
  };
  const auto cancelled = [&] {
    return Cancelled(fmt::format(
        "the wait for the lease of scope \"{}\" was ended by its caller; nothing is held",
        scope.name()));
  };
  // Counted as a wait once the first attempt has failed.
  struct Waited {
    StatsCounter& stats;
    const std::string& scope;
    std::optional<std::chrono::steady_clock::time_point> since;
    ~Waited() {
      if (!since) return;
      stats.waits.fetch_add(1, std::memory_order_relaxed);
      const auto waited = std::chrono::steady_clock::now() - *since;
      stats.waited_ns.fetch_add(waited.count(), std::memory_order_relaxed);
      stats.contention.note(scope, 0, waited);
    }
  } waited{holding.stats(), scope.name(), {}};
  std::optional<LeaseWaiters::Wait> waiting;
  milliseconds step = times.first;
  milliseconds held_for{0};  // how long another owner still holds it, as look() last read
  const auto look = [&] {
    const auto info = Info(database).lease(scope);
    held_for = milliseconds(
        info && !info->released_at_ms ? std::max<std::int64_t>(info->remaining_ms, 0) : 0);
  };
  for (;;) {
    if (stop.stop_requested()) throw cancelled();
    // look() takes no locks; an attempt takes the scope's locks, and on SQLite the file's.
    if (held_for == 0ms) {
      if (auto lease = acquire()) return lease;
      if (!waited.since) waited.since = std::chrono::steady_clock::now();
      // From here on a notification reports a release; look() notices one that came between the
      // attempt and this moment.
      if (!waiting) waiting.emplace(holding.waiters(), scope);
      look();
    }
    const auto left = give_up - BootClock::now();
    if (left <= 0ms) return std::nullopt;
    // Spreads the waiters, which would otherwise all try when the lease ends.
    milliseconds pause =
        std::min(step / 2 + by_chance(step), held_for + 1ms + by_chance(times.first));
    pause = std::min(pause, std::chrono::duration_cast<milliseconds>(left) + 1ms);
    step = std::min(step * 2, times.longest);
    // Limits how often a hint leads to an attempt: hints may come at any rate.
    const auto begun = std::chrono::steady_clock::now();
    const bool hinted = waiting->until(begun + pause, stop);
    if (hinted) {
      const auto soonest = begun + by_chance(std::min(times.first, 5ms));
      while (!stop.stop_requested() && std::chrono::steady_clock::now() < soonest)
        std::this_thread::sleep_until(soonest);
    }
    look();
  }
}

namespace {

HeldLeasesCore::Timing timing_of(const HoldOptions& options) {
  const auto refuse = [](std::string_view name, milliseconds value, std::string_view range) {
    throw InvalidInput(
        fmt::format("TG005 HoldOptions::{} is {} ms; it must be {}", name, value.count(), range));
  };
  if (options.ttl < 100ms || options.ttl > 24h) refuse("ttl", options.ttl, "100 ms to 1 day");
  const milliseconds margin = options.margin.value_or(options.ttl / 5),
                     every = options.renew_every.value_or(options.ttl / 3);
  if (margin < 0ms || margin > options.ttl / 2) refuse("margin", margin, "0 to half the TTL");
  if (every < options.ttl / 10 || every >= options.ttl - margin)
    refuse("renew_every", every,
           "at least a tenth of the TTL and less than the TTL without the margin");
  if (options.wait < 0ms) refuse("wait", options.wait, "0 or more");
  if (options.poll && (options.poll->first < 1ms || options.poll->longest < options.poll->first ||
                       options.poll->longest > 24h)) {
    throw InvalidInput(
        "TG005 HoldOptions::poll must go from 1 ms or more to no less than that, and to a day at "
        "most");
  }
  return {options.ttl, margin, every};
}

}  // namespace
}  // namespace detail

struct HeldLease::State {
  Database database;  // keeps the LeaseKeeper alive
  detail::LeaseHolding& holding;
  std::shared_ptr<detail::KeptLease> lease;
  detail::HeldLeasesCore::Id id = 0;
  std::optional<detail::LeaseWaiters::Watch> watch{};  // reports requests for the lease
  std::atomic<bool> given_back{false};                 // whoever sets it releases the lease
  bool uncounted = true;  // not counted among the handles that hold a lease

  // Holds no lock, because the stop callbacks that it runs may call it again.
  bool release() {
    if (given_back.exchange(true)) return false;
    detail::LeaseKeeper& keeper = holding.keeper();
    if (keeper.is_own_thread()) {
      // It would wait for itself, and meanwhile every other lease of this Database would run out.
      std::fputs("termgate: a HeldLease was released inside a stop callback of a lease\n", stderr);
      std::abort();
    }
    watch.reset();
    // Removed first, so that no renewal is sent for a lease that is being released.
    keeper.remove(id);
    if (!std::exchange(uncounted, true))
      holding.stats().held.fetch_sub(1, std::memory_order_relaxed);
    const bool over =
        lease->over || BootClock::now().time_since_epoch().count() >= lease->until.load();
    lease->until.store(BootClock::duration::min().count());
    lease->lost.request_stop();
    // Another may have the lease by now, so there is nothing to release.
    if (over) return false;
    // A renewal or another's acquisition may be under way, so this tries again; but it does not
    // wait for a lost database.
    for (int attempt = 0;; ++attempt) {
      try {
        return database.release_lease(lease->scope, lease->term, lease->owner);
      } catch (const Error&) {
        if (attempt == 4) throw;
      }
      std::this_thread::sleep_for(10ms * (1 << attempt));
    }
  }
};

HeldLease::HeldLease(HeldLease&&) noexcept = default;

HeldLease& HeldLease::operator=(HeldLease&& other) noexcept {
  if (this != &other) {
    // The handle's previous lease is released at the end of the block, when the new one is already
    // in place.
    HeldLease before(std::exchange(state_, nullptr));
    state_ = std::move(other.state_);
  }
  return *this;
}

HeldLease::~HeldLease() {
  if (!state_) return;
  try {
    state_->release();
  } catch (const std::exception&) {}
}

const Scope& HeldLease::scope() const noexcept { return state_->lease->scope; }
Term HeldLease::term() const noexcept { return state_->lease->term; }
const std::string& HeldLease::owner() const noexcept { return state_->lease->owner; }
std::stop_token HeldLease::lost() const noexcept { return state_->lease->lost.get_token(); }
std::stop_token HeldLease::asked_to_leave() const noexcept {
  return state_->lease->asked_to_leave.get_token();
}
std::optional<HeldLease::Clock::time_point> HeldLease::leave_before() const noexcept {
  const auto at = Clock::time_point(Clock::duration(state_->lease->leave_before.load()));
  return at == Clock::time_point::max() ? std::nullopt : std::optional(at);
}
HeldLease::Clock::time_point HeldLease::held_until() const noexcept {
  return Clock::time_point(Clock::duration(state_->lease->until.load()));
}
bool HeldLease::still_held(Clock::time_point now) const noexcept {
  return !state_->given_back && !state_->lease->lost.stop_requested() && now < held_until();
}
bool HeldLease::release() { return state_->release(); }

std::optional<HeldLease> Database::try_hold(const Scope& scope, const HoldOptions& options) {
  const detail::HeldLeasesCore::Timing timing = detail::timing_of(options);
  LeaseOptions lease_options;
  // One for each handle: two with the same name would take the lease from each other, because a
  // holder can always acquire its own.
  lease_options.owner = options.owner.empty()
                            ? default_owner() + ":" + WriteId::random().text().substr(0, 8)
                            : options.owner;
  lease_options.endpoint = options.endpoint;
  lease_options.grace = options.grace;
  detail::LeaseHolding& holding = *state_->holding;
  detail::LeaseKeeper& keeper = holding.keeper();
  auto lease = try_acquire_lease(scope, options.ttl, lease_options);
  if (!lease) return std::nullopt;
  auto kept = std::shared_ptr<detail::KeptLease>(
      new detail::KeptLease{scope, lease->term(), lease->owner(), options.ttl});
  const auto state = std::shared_ptr<HeldLease::State>(new HeldLease::State{*this, holding, kept});
  // An acquisition that waited for an eviction may have used up most of the lease's time.
  for (int attempt = 0;; ++attempt) {
    if (const auto id = keeper.add(kept, timing, lease->held_until())) {
      state->id = *id;
      state->watch.emplace(holding.waiters(), scope.name(),
                           [&keeper, id = *id] { keeper.hurry(id); });
      state->uncounted = false;
      holding.stats().held.fetch_add(1, std::memory_order_relaxed);
      return HeldLease(state);
    }
    if (attempt == 2) {
      release_lease(*lease);
      throw Unavailable(
          fmt::format("the lease of scope \"{}\" was granted too late to be of use: calls take as "
                      "long as its TTL of {} ms",
                      scope.name(), options.ttl.count()));
    }
    try {
      // A renewal extends the lease without another acquisition, and so under the same term.
      renew_lease(*lease);
    } catch (const LeaseLost&) { return std::nullopt; }
  }
}

HeldLease Database::hold(const Scope& scope, const HoldOptions& options) {
  const auto give_up = BootClock::now() + options.wait;
  const auto usual = detail::wait_times_of(kind());
  const detail::WaitTimes times =
      options.poll ? detail::WaitTimes{options.poll->first, options.poll->longest} : usual;
  std::optional<HeldLease> held;
  const auto acquire = [&]() -> std::optional<Lease> {
    held = try_hold(scope, options);
    if (!held) return std::nullopt;
    return Lease(scope, held->term(), held->owner(), options.ttl, held->held_until());
  };
  if (!detail::wait_for_lease(*this, *state_->holding, scope, give_up, times, options.stop,
                              acquire))
    throw detail::still_anothers(scope, Info(*this).lease(scope));
  return *std::move(held);
}

}  // namespace v0
}  // namespace termgate
