// Decides which leases to renew, and which are over (held_leases_core.hpp). Two ordered sets hold
// the moments: `ends_` has one entry for each lease, `dues_` one for each lease that is due at some
// moment. A lease that is being renewed, or was lost, is not in `dues_`.
#include <termgate/detail/held_leases_core.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

namespace termgate {
inline namespace v0 {
namespace detail {

// The first renewal is due a little early, by a random amount, so that leases that were taken
// together are not renewed by every process at the same moment.
bool HeldLeasesCore::add(Id id, const Timing& timing, Moment end, Moment now) {
  now_ = now = std::max(now, now_);
  const Moment until = end - timing.margin;
  if (now >= until) return false;
  assert(!leases_.contains(id));
  Held& held =
      leases_.emplace(id, Held{timing, until, std::nullopt, Moment::min(), false}).first->second;
  ends_.emplace(until, id);
  set_due(id, held,
          std::max(end - timing.ttl + timing.renew_every - spread(Time(0), timing.renew_every / 8),
                   now));
  return true;
}

void HeldLeasesCore::remove(Id id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  ends_.erase({found->second.until, id});
  set_due(id, found->second, std::nullopt);
  leases_.erase(found);
}

void HeldLeasesCore::hurry(Id id, Moment now) {
  now_ = now = std::max(now, now_);
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  Held& held = found->second;
  held.again = !held.due;
  if (!held.due) return;
  const Moment soonest =
      held.hurried == Moment::min() ? now : std::max(now, held.hurried + hurry_pause);
  if (*held.due <= soonest) return;
  held.hurried = soonest;
  set_due(id, held, soonest);
}

// Losses come before renewals: the holder must learn of a loss before anything else happens. The
// caller carries out the whole action before its next call.
HeldLeasesCore::Action HeldLeasesCore::resume(Moment now) {
  now_ = now = std::max(now, now_);
  Action action;
  const auto over = [&](Id id, Loss loss) {
    remove(id);
    action.over.emplace_back(id, loss);
  };
  for (const Id id : std::exchange(lost_, {})) {
    if (leases_.contains(id)) over(id, Loss::lost);
  }
  // An answer that waited while this process was stopped cannot keep a lease: answered() never
  // moves an end that has passed.
  while (!ends_.empty() && ends_.begin()->first <= now) over(ends_.begin()->second, Loss::expired);

  if (!busy_ && now >= pause_ && !dues_.empty() && dues_.begin()->first <= now) {
    for (auto due = dues_.begin(); due != dues_.end() && action.renew.size() < limit_;) {
      const auto [at, id] = *due;
      Held& held = leases_.at(id);
      // A lease that is nearly due is renewed in the same statement.
      if (at > now + held.timing.renew_every / 8) break;
      due = dues_.erase(due);
      held.due.reset();
      action.renew.push_back(id);
    }
    under_way_ = action.renew;
    busy_ = true;
  }
  assert(ends_.size() == leases_.size() && dues_.size() <= leases_.size() &&
         "one end, and at most one due moment, for each lease");
  if (!ends_.empty()) action.wake = ends_.begin()->first;
  if (!busy_ && !dues_.empty())
    action.wake = std::min(*action.wake, std::max(dues_.begin()->first, pause_));
  return action;
}

void HeldLeasesCore::answered(std::span<const Outcome> outcomes, Moment sent, Moment now) {
  assert(busy_ && (outcomes.empty() || outcomes.size() == under_way_.size()));
  now_ = now = std::max(now, now_);
  busy_ = false;
  const std::vector<Id> renewed_ids = std::exchange(under_way_, {});
  Time shortest = Time::max();
  for (std::size_t i = 0; i < renewed_ids.size(); ++i) {
    const auto found = leases_.find(renewed_ids[i]);
    if (found == leases_.end()) continue;  // released, or reported as lost, in the meantime
    Held& held = found->second;
    const Timing& timing = held.timing;
    shortest = std::min(shortest, timing.ttl);
    const Outcome outcome = outcomes.empty() ? Outcome::failed : outcomes[i];
    if (outcome == Outcome::renewed) {
      // A renewal that is answered after the end does not move it: the next resume() reports the
      // loss.
      if (held.until > now)
        set_until(renewed_ids[i], held, std::max(held.until, sent + timing.ttl - timing.margin));
      set_due(renewed_ids[i], held,
              std::max(sent + timing.renew_every - spread(Time(0), timing.renew_every / 8),
                       now + timing.ttl / (2 * retries_a_ttl)));
    } else if (outcome == Outcome::lost) {
      lost_.push_back(renewed_ids[i]);
    } else {
      set_due(renewed_ids[i], held,
              now + spread(timing.ttl / (2 * retries_a_ttl), timing.ttl / retries_a_ttl));
    }
    if (std::exchange(held.again, false)) hurry(renewed_ids[i], now);
  }
  if (!outcomes.empty()) {
    limit_ = std::min(limit_ * 2, batch_max);
    failures_ = 0;
    return;
  }
  // The whole statement failed. One lease that makes it fail must not take the others with it, so
  // the next statement renews half as many.
  limit_ = std::max<std::size_t>(limit_ / 2, 1);
  failures_ = std::min(failures_ + 1, 20);
  if (shortest == Time::max()) return;
  const Time step = std::min<Time>(std::chrono::milliseconds(1) * (1 << std::min(failures_, 10)),
                                   shortest / (2 * retries_a_ttl));
  pause_ = now + spread(step / 2, step);
}

std::optional<HeldLeasesCore::Moment> HeldLeasesCore::until(Id id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? std::nullopt : std::optional(found->second.until);
}

void HeldLeasesCore::set_until(Id id, Held& held, Moment until) {
  ends_.erase({held.until, id});
  held.until = until;
  ends_.emplace(until, id);
}

void HeldLeasesCore::set_due(Id id, Held& held, std::optional<Moment> due) {
  if (held.due) dues_.erase({*held.due, id});
  held.due = due;
  if (due) dues_.emplace(*due, id);
}

// splitmix64: the same everywhere, which std::uniform_int_distribution is not.
HeldLeasesCore::Time HeldLeasesCore::spread(Time from, Time to) {
  random_ += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = random_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  mixed ^= mixed >> 31;
  const auto width = static_cast<std::uint64_t>(std::max<Time::rep>((to - from).count(), 1));
  return from + Time(static_cast<Time::rep>(mixed % width));
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
