// Owner: shared. The Authority's map of leases and the task that ends a session's wait hold it
// weakly; each admitted session, its TermSource and each task of kick() hold it strongly. Threads:
// any may call. step() and what it calls run on one worker at a time (`busy_`), without the lock
// while they query the database. `kicked_` counts the tasks of kick(): only the last one that was
// scheduled does anything.
#include "host_lease.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/info.hpp>

namespace termgate::authority {

using std::chrono::milliseconds;

namespace {

// The pause after an error, and the longest one between two tries to take another owner's lease.
constexpr milliseconds longest_pause{500};
constexpr milliseconds shortest_pause{20};
constexpr milliseconds hold_off_max{5'000};

}  // namespace

HostLease::HostLease(Common& common, Scope scope, std::string owner,
                     std::unique_ptr<LeaseOrigin> origin)
    : common_(common),
      scope_(std::move(scope)),
      owner_(std::move(owner)),
      origin_(std::move(origin)) {
  why_not_ = fmt::format("no term for scope \"{}\": the lease for {} is being taken", scope_.name(),
                         owner_);
}

void HostLease::set(milliseconds ttl, Takeover takeover) {
  const Lock lock(mutex_);
  ttl_ = ttl;
  takeover_ = takeover;
}

// `settled` is called once: as soon as it is known whether there is a lease, after settle_wait, or
// when the session ends.
void HostLease::opened(std::uint64_t session, std::shared_ptr<PeerLiveness> liveness,
                       std::function<void()> settled) {
  {
    const Lock lock(mutex_);
    if (liveness) liveness->ask_within(std::max(milliseconds(1000), ttl_ / 3));
    auto& place = sessions_[session] = {std::move(liveness), {}};
    if (!lease_ || !lease_->still_held()) {
      place.settled = std::move(settled);
      newcomer_ = true;
      kick(Clock::now());
      common_.workers.at(Clock::now() + common_.settle_wait, [self = weak_from_this(), session] {
        if (const auto lease = self.lock()) lease->settle_after(session);
      });
      return;
    }
  }
  if (settled) settled();
}

void HostLease::closed(std::uint64_t session) {
  std::function<void()> settled;
  {
    const Lock lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    settled = std::move(found->second.settled);
    sessions_.erase(found);
    if (sessions_.empty()) kick(Clock::now());
  }
  if (settled) settled();
}

void HostLease::fence_rose(std::int64_t fence) {
  const Lock lock(mutex_);
  if (!lease_ || lease_->term().value() >= fence) return;
  why_not_ = fmt::format(
      "no term for scope \"{}\": the lease of {} with term {} is lost, the fence stands at {}",
      scope_.name(), owner_, lease_->term().value(), fence);
  lease_.reset();
  // Another leader has just taken over. Without this pause two hosts would take the lease from each
  // other endlessly.
  hold_off_until_ = Clock::now() + std::min(ttl_, hold_off_max);
  kick(Clock::now());
}

conversation::TermSource::Standing HostLease::now() const {
  const Lock lock(mutex_);
  Standing standing;
  if (lease_ && lease_->still_held()) {
    standing.scope = scope_;
    standing.term = lease_->term();
  } else if (lease_) {
    standing.why_not = fmt::format(
        "no term for scope \"{}\": the lease of {} was not renewed in time", scope_.name(), owner_);
  } else {
    standing.why_not = why_not_;
    standing.problem_code = problem_code_;
  }
  return standing;
}

bool HostLease::held() const {
  const Lock lock(mutex_);
  return lease_ && lease_->still_held();
}

void HostLease::settle_after(std::uint64_t session) {
  std::function<void()> settled;
  {
    const Lock lock(mutex_);
    const auto found = sessions_.find(session);
    if (found != sessions_.end()) settled = std::exchange(found->second.settled, nullptr);
  }
  if (settled) settled();
}

// The caller holds the lock, and calls the results after it has released it.
std::vector<std::function<void()>> HostLease::take_settled() {
  std::vector<std::function<void()>> all;
  for (auto& [session, opened] : sessions_) {
    if (opened.settled) all.push_back(std::exchange(opened.settled, nullptr));
  }
  return all;
}

// The task holds a reference to this object, so that a lease is given back even if the last session
// that used it is gone.
void HostLease::kick(Clock::time_point when) {
  const auto number = ++kicked_;
  common_.workers.at(when, [self = shared_from_this(), number] { self->run(number); });
}

void HostLease::run(std::uint64_t kicked) {
  {
    const Lock lock(mutex_);
    if (kicked != kicked_) return;  // a later task will run
    if (busy_) {
      again_ = true;
      return;
    }
    busy_ = true;
  }
  std::optional<Clock::time_point> next;
  try {
    next = step();
  } catch (const std::exception& error) {
    const Lock lock(mutex_);
    why_not_ = fmt::format("no term for scope \"{}\": {}", scope_.name(), error.what());
    next = Clock::now() + longest_pause;
  }
  std::vector<std::function<void()>> settled;
  {
    const Lock lock(mutex_);
    busy_ = false;
    if (std::exchange(again_, false) || kicked != kicked_)
      next = Clock::now();  // something has changed meanwhile; the next step handles it
    else settled = take_settled();
    if (next) kick(*next);
  }
  for (const auto& call : settled) call();
}

// Whether a client of the host is known to be alive. The lease belongs to the host, not to the
// proxy: a running proxy must not renew it for a host that is gone.
bool HostLease::answering(milliseconds ttl) const {
  std::vector<std::shared_ptr<PeerLiveness>> present;
  {
    const Lock lock(mutex_);
    for (const auto& [session, opened] : sessions_) {
      if (!opened.liveness) return true;
      present.push_back(opened.liveness);
    }
  }
  return std::any_of(present.begin(), present.end(), [&](const auto& liveness) {
    return liveness->open() && liveness->silent_for() < ttl;
  });
}

std::optional<HostLease::Clock::time_point> HostLease::step() {
  std::optional<Lease> lease;
  bool any = false;
  {
    const Lock lock(mutex_);
    lease = lease_;
    any = !sessions_.empty();
  }
  if (!any) {
    if (lease) {
      // If this throws, it is tried again as long as the lease lasts. After that there is nothing
      // to give back.
      if (lease->still_held()) give_back(*lease);
      lost(fmt::format("no term for scope \"{}\": the lease for {} is being taken", scope_.name(),
                       owner_));
      // A session that opened meanwhile still saw the lease, and scheduled nothing.
      const Lock lock(mutex_);
      if (!sessions_.empty()) return Clock::now();
    }
    return std::nullopt;
  }
  return lease ? renew() : take();
}

std::optional<HostLease::Clock::time_point> HostLease::renew() {
  milliseconds ttl;
  std::optional<Lease> lease;
  {
    const Lock lock(mutex_);
    ttl = ttl_;
    lease = lease_;
  }
  const auto pause = std::max(shortest_pause, ttl / 3);
  if (!answering(ttl)) {
    if (lease->still_held())
      return Clock::now() +
             std::min<Clock::duration>(ttl / 10, lease->held_until() - Lease::Clock::now());
    lost(fmt::format(
        "no term for scope \"{}\": {} did not answer for {} ms, and its lease has ended",
        scope_.name(), owner_, ttl.count()));
    common_.log(
        fmt::format("lease of scope \"{}\" ended: {} does not answer", scope_.name(), owner_));
    return Clock::now() + pause;
  }
  try {
    const Lease renewed = origin_->renew(*lease, ttl);
    {
      const Lock lock(mutex_);
      if (!lease_) return Clock::now();  // a higher fence was seen meanwhile
      lease_ = renewed;
    }
    origin_->noted();
    return Clock::now() + pause;
  } catch (const LeaseLost&) {
    // For example, a higher term has ended it, or it was not renewed in time.
    if (const auto fence = Info(common_.database).fence(scope_)) fence_rose(fence->term);
    common_.log(fmt::format("lease of scope \"{}\" with term {} lost by {}", scope_.name(),
                            lease->term().value(), owner_));
    const Lock lock(mutex_);
    if (lease_)
      why_not_ = fmt::format("no term for scope \"{}\": the lease of {} with term {} is lost",
                             scope_.name(), owner_, lease->term().value());
    lease_.reset();
    return Clock::now();
  } catch (const std::exception& error) {
    // The database was not reached, or another request holds the lease's lock (TG006): there is
    // time until the lease ends.
    if (lease->still_held())
      return Clock::now() + std::clamp(ttl / 10, shortest_pause, longest_pause);
    lost(fmt::format("no term for scope \"{}\": the lease of {} could not be renewed: {}",
                     scope_.name(), owner_, error.what()));
    common_.log(fmt::format("lease of scope \"{}\" not renewed for {}: {}", scope_.name(), owner_,
                            error.what()));
    return Clock::now() + longest_pause;
  }
}

// Tries once. Returns when to try again, or when a lease that was taken must be renewed.
std::optional<HostLease::Clock::time_point> HostLease::take() {
  milliseconds ttl;
  bool force = false;
  Clock::time_point hold_off_until{};
  {
    const Lock lock(mutex_);
    ttl = ttl_;
    if (!newcomer_) hold_off_until = hold_off_until_;
    force = newcomer_ && takeover_ == Takeover::newest;
  }
  const auto not_had = [&](std::string why, milliseconds pause, const char* code = "TG002") {
    const Lock lock(mutex_);
    why_not_ = fmt::format("no term for scope \"{}\": {}", scope_.name(), why);
    problem_code_ = code;
    return Clock::now() + std::clamp(pause, shortest_pause, longest_pause);
  };
  if (!answering(ttl)) return not_had(fmt::format("{} does not answer", owner_), ttl / 3);
  try {
    auto result = origin_->take(
        ttl, force,
        std::max(milliseconds(0), std::chrono::ceil<milliseconds>(hold_off_until - Clock::now())));
    if (const auto* not_this_time = std::get_if<LeaseOrigin::NotHad>(&result))
      return not_had(not_this_time->why, not_this_time->pause);
    won(std::get<LeaseOrigin::Won>(std::move(result)));
    return Clock::now() + std::max(shortest_pause, ttl / 3);
  } catch (const Error& error) {
    common_.log(fmt::format("lease of scope \"{}\" not taken for {}: {}", scope_.name(), owner_,
                            error.what()));
    const bool backwards = dynamic_cast<const StaleTerm*>(&error) != nullptr;
    return not_had(fmt::format("the lease for {} cannot be taken: {}", owner_, error.what()),
                   longest_pause, backwards ? "TG001" : "TG002");
  }
}

void HostLease::won(LeaseOrigin::Won won) {
  const auto term = won.lease.term().value();
  {
    const Lock lock(mutex_);
    lease_ = std::move(won.lease);
    newcomer_ = false;
    problem_code_ = "TG002";
  }
  common_.saw_fence(scope_.name(), term);
  common_.log(fmt::format("lease of scope \"{}\" {} for {} with term {}", scope_.name(), won.how,
                          owner_, term));
  origin_->noted();
}

void HostLease::lost(std::string why) {
  const Lock lock(mutex_);
  lease_.reset();
  why_not_ = std::move(why);
}

void HostLease::give_back(const Lease& lease) {
  const std::string_view became = origin_->give_back(lease);
  if (!became.empty())
    common_.log(fmt::format("lease of scope \"{}\" with term {} {} {}", scope_.name(),
                            lease.term().value(), became, owner_));
}

bool HostLease::give_back_now() {
  std::optional<Lease> lease;
  {
    const Lock lock(mutex_);
    lease = std::exchange(lease_, std::nullopt);
  }
  if (!lease || !lease->still_held()) return true;
  try {
    give_back(*lease);
    return true;
  } catch (const std::exception&) {
    return false;  // it expires by itself
  }
}

}  // namespace termgate::authority
