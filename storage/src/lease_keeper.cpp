// Two threads for all leases of a Database, so that a renewal that hangs in the network delays no
// loss:
//
//    keep_time()  gets from HeldLeasesCore what is due and what is over, runs the stop callbacks, passes batches to renew()
//    renew()      sends one statement for the batch and reports the answers
//
// `call_` passes a batch from the first to the second. The core has one batch under way at a time,
// so `call_` is empty when the next one is made. LeaseWaiters has one more thread, while somebody
// waits for a lease or watches one, if the database notifies.
#include "lease_keeper.hpp"

#include <algorithm>
#include <cassert>
#include <random>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/error.hpp>

#include "json_text.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {

using std::chrono::milliseconds;
using Renewal = HeldLeasesCore::Outcome;

namespace {

std::uint64_t by_chance() {
  std::random_device chance;
  return (std::uint64_t{chance()} << 32) | chance();
}

}  // namespace

LeaseKeeper::LeaseKeeper(std::function<Driver&()> renewals, StatsCounter& stats)
    : renewals_(std::move(renewals)), stats_(stats), core_(by_chance()) {
  renewing_ = std::thread([this] { renew(); });
  try {
    time_ = std::thread([this] { keep_time(); });
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      called_.notify_all();
    }
    renewing_.join();
    throw;
  }
}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    called_.notify_all();
  }
  alarm_.wake();
  time_.join();
  renewing_.join();
}

bool LeaseKeeper::is_own_thread() const noexcept {
  return std::this_thread::get_id() == time_.get_id() ||
         std::this_thread::get_id() == renewing_.get_id();
}

std::optional<HeldLeasesCore::Id> LeaseKeeper::add(const std::shared_ptr<KeptLease>& lease,
                                                   const HeldLeasesCore::Timing& timing,
                                                   BootClock::time_point end) {
  const std::lock_guard lock(mutex_);
  const HeldLeasesCore::Id id = ++last_id_;
  if (!core_.add(id, timing, end, BootClock::now())) return std::nullopt;
  lease->until.store((*core_.until(id)).time_since_epoch().count());
  leases_.emplace(id, lease);
  alarm_.wake();
  return id;
}

void LeaseKeeper::remove(HeldLeasesCore::Id id) {
  const std::lock_guard lock(mutex_);
  core_.remove(id);
  leases_.erase(id);
}

void LeaseKeeper::hurry(HeldLeasesCore::Id id) {
  const std::lock_guard lock(mutex_);
  core_.hurry(id, BootClock::now());
  alarm_.wake();
}

void LeaseKeeper::keep_time() {
  for (;;) {
    HeldLeasesCore::Action action;
    std::vector<std::shared_ptr<KeptLease>> over, leaving;
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
      action = core_.resume(BootClock::now());
      leaving = std::exchange(leaving_, {});
      for (const auto& [id, loss] : action.over) {
        const auto found = leases_.find(id);
        if (found == leases_.end()) continue;
        over.push_back(std::move(found->second));
        leases_.erase(found);
        (loss == HeldLeasesCore::Loss::lost ? stats_.lost : stats_.expired)
            .fetch_add(1, std::memory_order_relaxed);
      }
      if (!action.renew.empty()) {
        assert(!call_ && "the core has one batch under way at a time");
        call_.emplace();
        for (const auto id : action.renew) call_->push_back(leases_.at(id));
        asked_ = action.renew;
        called_.notify_all();
      }
    }
    // Without the lock, because these run the holders' stop callbacks.
    for (const auto& lease : over) {
      // The order matters: a holder that sees its stop token set must find the lease over and its
      // end in the past.
      lease->over = true;
      lease->until.store(BootClock::duration::min().count());
      lease->lost.request_stop();
    }
    for (const auto& lease : leaving) lease->asked_to_leave.request_stop();
    // Time may have passed while the callbacks ran, so the core is called again before any wait.
    if (over.empty() && leaving.empty()) alarm_.wait(action.wake);
  }
}

void LeaseKeeper::renew() {
  try {
    // Connects now instead of when the first lease is due.
    Driver& driver = renewals_();
    const Value none[] = {Value("[]")};
    if (driver.kind() != "sqlite") driver.call(sql::Call::renew_leases, none, false);
  } catch (...) {
    // The first acquisition reports what is wrong with the database.
  }
  for (;;) {
    std::vector<std::shared_ptr<KeptLease>> leases;
    {
      std::unique_lock lock(mutex_);
      called_.wait(lock, [&] { return over_ || call_; });
      if (over_) return;
      leases = *std::exchange(call_, std::nullopt);
    }
    const auto sent = BootClock::now();
    std::vector<Renewal> outcomes;
    try {
      // The mutex is free during the call, however long it takes.
      outcomes = ask(leases, sent);
    } catch (...) {
      // Whatever the error was, no lease is known to be renewed.
    }
    {
      const std::lock_guard lock(mutex_);
      core_.answered(outcomes, sent, BootClock::now());
      for (const auto id : asked_) {
        const auto until = core_.until(id);
        const auto found = leases_.find(id);
        // A lease that was removed meanwhile is in neither map.
        if (until && found != leases_.end())
          found->second->until.store(until->time_since_epoch().count());
      }
      for (const auto& lease : leases) {
        if (lease->leave_before.load() != BootClock::duration::max().count() &&
            !lease->asked_to_leave.stop_requested())
          leaving_.push_back(lease);
      }
    }
    alarm_.wake();
  }
}

void LeaseKeeper::log(const KeptLease& lease, LeaseCall::Result result,
                      std::chrono::nanoseconds took, const char* error) const {
  if (stats_.log)
    stats_.tell({LeaseCall::Kind::renew, result, lease.scope.name(), lease.owner,
                 lease.term.value(), took, error});
}

std::vector<Renewal> LeaseKeeper::ask(const std::vector<std::shared_ptr<KeptLease>>& leases,
                                      BootClock::time_point sent) {
  std::string json = "[";
  milliseconds shortest = milliseconds::max();
  for (const auto& lease : leases) {
    if (json.size() > 1) json += ',';
    json += "{\"scope\":";
    append_json(json, lease->scope.name());
    json += ",\"owner\":";
    append_json(json, lease->owner);
    json += fmt::format(",\"term\":{},\"ttl_ms\":{}}}", lease->term.value(), lease->ttl.count());
    shortest = std::min(shortest, lease->ttl);
  }
  json += ']';
  Driver& driver = renewals_();
  const Value values[] = {Value(std::move(json))};
  // Gives up on a silent server early enough for another attempt.
  const auto begun = std::chrono::steady_clock::now();
  const auto took = [&] { return std::chrono::steady_clock::now() - begun; };
  const Rows rows = [&] {
    try {
      return driver.call(sql::Call::renew_leases, values, false,
                         std::max(shortest / 3, milliseconds(50)));
    } catch (const std::exception& error) {
      stats_.renew.note(Outcome::failed, took(), static_cast<std::int64_t>(leases.size()));
      for (const auto& lease : leases) log(*lease, LeaseCall::Result::failed, took(), error.what());
      throw;
    }
  }();
  const auto answered_in = took();
  stats_.renew.note(Outcome::granted, took(), 0);
  // Answers belong to leases only by their order.
  if (rows.rows.size() != leases.size())
    throw DatabaseError(fmt::format("{} answers to {} renewals", rows.rows.size(), leases.size()));
  std::vector<Renewal> outcomes;
  outcomes.reserve(leases.size());
  for (std::size_t at = 0; at < leases.size(); ++at) {
    const NamedRow row(rows, rows.rows[at]);
    const std::string outcome = row["outcome"].as_text();
    // Measured from before the request was sent, so that the time ends here before it does in the
    // database.
    if (const auto left = row.int_if_there("leave_in_ms"); left && outcome == "renewed")
      leases[at]->leave_before.store((sent + milliseconds(*left)).time_since_epoch().count());
    // A lease from before a restore of the database is never renewed: another may have got its
    // term.
    const auto result = outcome == "renewed" ? Outcome::granted
                        : outcome == "busy"  ? Outcome::failed
                                             : Outcome::refused;
    stats_.renew.note(result);
    log(*leases[at], result, answered_in,
        outcome == "busy" ? "busy: another session is at this lease" : "");
    outcomes.push_back(outcome == "renewed" ? Renewal::renewed
                       : outcome == "busy"  ? Renewal::failed
                                            : Renewal::lost);
  }
  return outcomes;
}

// wake() ends the wait in the feed; the thread then sees `closing_`.
LeaseWaiters::~LeaseWaiters() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (feed_ != nullptr) feed_->wake();
    hinted_.notify_all();
  }
  if (listener_.joinable()) {
    listener_.request_stop();
    listener_.join();
  }
}

LeaseWaiters::Wait::Wait(LeaseWaiters& waiters, const Scope& scope)
    : waiters_(waiters), scope_(scope.name()) {
  const std::lock_guard lock(waiters_.mutex_);
  Scoped& scoped = waiters_.scopes_[scope_];
  ++scoped.waiting;
  seen_ = scoped.hints;
  waiters_.need_listener();
}

void LeaseWaiters::need_listener() {
  if (listening_ || none_ || closing_) return;
  if (listener_.joinable()) listener_.join();  // it has ended: setting listening_ was its last step
  listening_ = true;
  try {
    listener_ = std::jthread([this](const std::stop_token& stop) { listen(stop); });
  } catch (const std::system_error&) {
    listening_ = false;  // waiters then only poll
  }
}

// The last waiter removes the scope's entry.
void LeaseWaiters::leave(const std::string& scope) {
  const auto found = scopes_.find(scope);
  assert(found != scopes_.end() &&
         "whoever waits or watches has its scope's entry as long as it lives");
  if (found->second.waiting == 0 && found->second.watches.empty()) scopes_.erase(found);
}

LeaseWaiters::Watch::Watch(LeaseWaiters& waiters, std::string scope, std::function<void()> hinted)
    : waiters_(waiters), scope_(std::move(scope)) {
  const std::lock_guard lock(waiters_.mutex_);
  waiters_.scopes_[scope_].watches.emplace(this, std::move(hinted));
  waiters_.need_listener();
}

LeaseWaiters::Watch::~Watch() {
  const std::lock_guard lock(waiters_.mutex_);
  waiters_.scopes_.at(scope_).watches.erase(this);
  waiters_.leave(scope_);
}

LeaseWaiters::Wait::~Wait() {
  const std::lock_guard lock(waiters_.mutex_);
  --waiters_.scopes_.at(scope_).waiting;
  waiters_.leave(scope_);
}

// A counter instead of a flag, so that the next wait sees a hint that came between two waits.
bool LeaseWaiters::Wait::until(std::chrono::steady_clock::time_point at,
                               const std::stop_token& stop) {
  std::unique_lock lock(waiters_.mutex_);
  const Scoped& scoped = waiters_.scopes_.at(scope_);
  const bool hinted =
      waiters_.hinted_.wait_until(lock, stop, at, [&] { return scoped.hints != seen_; });
  seen_ = scoped.hints;
  return hinted;
}

void LeaseWaiters::hint(const std::string& scope) {
  const std::lock_guard lock(mutex_);
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return;
  ++found->second.hints;
  for (const auto& [watch, hinted] : found->second.watches) hinted();
  hinted_.notify_all();
}

// Watches are not called: holders renew and candidates try by themselves, and a server that comes
// back must not meet all of them at once.
void LeaseWaiters::hint_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [scope, scoped] : scopes_) ++scoped.hints;
  hinted_.notify_all();
}

void LeaseWaiters::listen(const std::stop_token& stop) {
  // The connection is kept for a while, because waiters often come back soon.
  constexpr auto idle_max = std::chrono::seconds(10);
  std::unique_ptr<FenceFeed> feed;
  bool none = false;
  try {
    feed = open_();
    none = feed == nullptr;
  } catch (const std::exception&) {}
  auto used = std::chrono::steady_clock::now();
  while (feed != nullptr && !stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) break;
      const auto now = std::chrono::steady_clock::now();
      if (!scopes_.empty()) used = now;
      if (now - used > idle_max) break;
      feed_ = feed.get();
    }
    bool failed = false;
    FenceFeed::Heard heard;
    try {
      heard = feed->wait(milliseconds(2000));
    } catch (const std::exception&) {
      failed = true;  // waiters still poll
    }
    std::unique_lock lock(mutex_);
    feed_ = nullptr;
    if (failed) hinted_.wait_for(lock, stop, std::chrono::seconds(1), [&] { return closing_; });
    lock.unlock();
    // Notifications from before the connection are lost.
    if (heard.connected_anew || heard.missed) hint_all();
    for (const std::string& scope : heard.payloads) hint(scope);
  }
  feed.reset();
  const std::lock_guard lock(mutex_);
  none_ = none_ || none;
  listening_ = false;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
