// The election of one candidate as a state machine (leader_core.hpp has the owner, the thread and
// the invariants). resume() has three steps, in this order: what the clock ends, what the event
// changes, which call comes next. Every decision about time is in nanoseconds of the boot clock,
// which goes on while the machine sleeps.
#include <termgate/detail/leader_core.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

namespace termgate {
inline namespace v0 {
namespace detail {

LeaderCore::Action LeaderCore::resume(const Event& event, Moment now) {
  now_ = now = std::max(now, now_);
  Action action;
  // The clock is checked first: after this process was stopped, an answer that waited all that time
  // must not count as news.
  if (leading_ && now >= leading_->until) step_down(Loss::expired, now, action);
  if (std::holds_alternative<Stop>(event)) {
    stopping_ = true;
    if (leading_) step_down(Loss::stopped, now, action);
  } else if (std::holds_alternative<Hint>(event)) {
    hinted_ = true;
  } else if (const auto* ended = std::get_if<WorkEnded>(&event)) {
    assert(working_);
    working_ = false;
    if (leading_)
      step_down(ended->stale ? Loss::fenced
                : leaving_   ? Loss::handed_over
                             : Loss::finished,
                now, action);
  } else if (const auto* answer = std::get_if<Answer>(&event)) {
    assert(under_way_);
    const Call call = *under_way_;
    under_way_.reset();
    answered(call, *answer, now, action);
  }

  if (give_back_ && now >= give_back_->until) give_back_.reset();
  // One call at a time. A release comes before everything else, a renewal only while it leads, an
  // acquisition only when the work of the last election has ended. The database may have carried
  // out the call under way before what the hint reports, so the hint is kept until that call is
  // answered.
  if (!under_way_ && std::exchange(hinted_, false)) {
    next_ = std::min(next_, std::max(now, hint_after_));
    hint_after_ = next_ + hint_pause;
  }
  if (!under_way_) {
    if (give_back_) {
      // The release waits until the work has ended, so that the next leader does not overlap with
      // it.
      if (!working_ && now >= give_back_at_)
        under_way_ = Call{Call::Kind::release, give_back_->term};
    } else if (leading_) {
      if (now >= next_) under_way_ = Call{Call::Kind::renew, leading_->term};
    } else if (!working_) {
      action.over = stopping_;
      if (!stopping_ && now >= next_) under_way_ = Call{Call::Kind::acquire, std::nullopt};
    }
    action.call = under_way_;
  }

  if (leading_) action.wake = under_way_ ? leading_->until : std::min(next_, leading_->until);
  else if (!under_way_ && !working_ && give_back_) action.wake = give_back_at_;
  else if (!under_way_ && !working_ && !stopping_) action.wake = next_;
  assert_consistent(action);
  return action;
}

void LeaderCore::assert_consistent([[maybe_unused]] const Action& action) const noexcept {
  assert((!leading_ || working_) && "the work runs while it leads");
  assert((!leading_ || !give_back_) && "a lease that is given back is not led under");
  assert((!under_way_ || under_way_->kind != Call::Kind::acquire || (!leading_ && !give_back_)) &&
         "one lease at a time");
  assert((!action.over || (!leading_ && !working_ && !under_way_ && !give_back_)) &&
         "over means that nothing is left to do");
}

// The caller must stop the work when it reads `change`. After `expired`, at most `margin` is left
// of the lease.
void LeaderCore::step_down(Loss loss, Moment now, Action& action) {
  action.change = LeadershipChange{loss, leading_->term};
  // After the other losses the lease, if it still lasts, is left to expire.
  if (loss == Loss::stopped || loss == Loss::finished || loss == Loss::handed_over)
    gives_back({leading_->term, leading_->until + timing_.margin});
  leading_.reset();
  leaving_ = hinted_ = false;
  failures_ = 0;
  // Other candidates go first, whatever hints come; its own release causes hints too. After a
  // hand-over the database ensures that.
  waits(timing_.poll, now);
  if (loss != Loss::handed_over) hint_after_ = next_;
}

void LeaderCore::answered(const Call& call, const Answer& answer, Moment now, Action& action) {
  using How = Answer::How;
  switch (call.kind) {
    case Call::Kind::acquire:
      if (answer.how == How::granted) return acquired(answer, now, action);
      if (answer.how != How::refused) return backs_off(now);
      failures_ = 0;
      // Waits as long as the other's lease lasts, but at most one poll: it may be released early.
      return waits(std::min(answer.free_in.value_or(timing_.poll), timing_.poll), now);
    case Call::Kind::renew:
      if (!leading_) return;  // lost in the meantime
      if (answer.how == How::granted) {
        // A renewal never moves the end back.
        leading_->until = std::max(leading_->until, answer.until - timing_.margin);
        next_ = due(answer.until - timing_.ttl, now);
        if (answer.leave && !std::exchange(leaving_, true)) action.leave = true;
      } else if (answer.how == How::refused) {
        step_down(Loss::lost, now, action);
      } else {
        next_ = now + spread(timing_.ttl / (2 * retries_a_ttl), timing_.ttl / retries_a_ttl);
      }
      return;
    case Call::Kind::release:
      if ((answer.how == How::unavailable || answer.how == How::unknown) &&
          ++releases_ < releases_max) {
        give_back_at_ = now + release_pause * (1 << (releases_ - 1));
        return;
      }
      give_back_.reset();
      return;
  }
}

void LeaderCore::acquired(const Answer& answer, Moment now, Action& action) {
  assert(answer.term && !leading_ && !working_ &&
         "a grant brings a term, and nobody works under an earlier one");
  const Held held{*answer.term, answer.until - timing_.margin};
  // The grant came too late, or the caller has stopped. The lease is given back without having been
  // used.
  if (stopping_ || now >= held.until) {
    gives_back({held.term, answer.until});
    return backs_off(now);
  }
  failures_ = 0;
  leading_ = held;
  working_ = true;
  action.change = LeadershipChange{std::nullopt, held.term};
  next_ = due(answer.until - timing_.ttl, now);
}

// When to renew: up to a quarter earlier, at random, so that loops that were elected together do
// not renew together.
LeaderCore::Moment LeaderCore::due(Moment sent, Moment now) {
  const Time every = timing_.ttl / renewals_a_ttl;
  return std::max(sent + every - spread(Time(0), every / 4),
                  now + timing_.ttl / (2 * retries_a_ttl));
}

void LeaderCore::gives_back(Held held) {
  give_back_ = held;
  give_back_at_ = Moment::min();
  releases_ = 0;
}

// The database did not answer. The pause doubles up to twice the poll, with a jitter of up to half,
// so that many candidates do not return at once.
void LeaderCore::backs_off(Moment now) {
  const Time step =
      std::min(std::min(timing_.poll, timing_.ttl / retries_a_ttl) * (1 << std::min(failures_, 16)),
               timing_.poll * 2);
  ++failures_;
  next_ = now + spread(step / 2, step + step / 2);
}

// The jitter spreads standbys that all wait for the end of one lease.
void LeaderCore::waits(Time time, Moment now) {
  next_ = now + std::max(time, Time(0)) + spread(timing_.poll / 8, timing_.poll / 2);
}

// splitmix64: the same everywhere, which std::uniform_int_distribution is not.
LeaderCore::Time LeaderCore::spread(Time from, Time to) {
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
