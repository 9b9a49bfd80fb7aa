// The threads around LeaderCore, which decides what happens next; here it is done.
//
//    keep_time()  owns the core: takes events, performs its actions, wakes at its moments
//    talk()       makes one call to the database or the source at a time, and posts the answer
//    labour()     runs the work of one election at a time, and posts its end
//
// Owner: the LeaderLoop, whose stop() joins all three. A call that hangs therefore delays neither
// the loss of leadership nor its report. `mutex` guards everything that two threads use; the user's
// callbacks (work, news, stop callbacks) run without it.
#include <termgate/leader_loop.hpp>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <variant>

#include <fmt/format.h>

#include <termgate/detail/alarm.hpp>
#include <termgate/detail/leader_core.hpp>
#include <termgate/detail/source_election.hpp>
#include <termgate/info.hpp>
#include <termgate/write_id.hpp>

#include "database_state.hpp"

namespace termgate {
inline namespace v0 {

using detail::LeaderCore;
using std::chrono::milliseconds;
using Clock = Lease::Clock;

namespace {

LeaderCore::Timing timing_of(const LeaderOptions& options) {
  using namespace std::chrono_literals;
  const auto refuse = [](std::string_view name, milliseconds value, std::string_view range) {
    throw InvalidInput(
        fmt::format("TG005 LeaderOptions::{} is {} ms: {}", name, value.count(), range));
  };
  if (options.ttl < 100ms || options.ttl > 24h) refuse("ttl", options.ttl, "100 ms to 1 day");
  const milliseconds margin = options.margin.value_or(options.ttl / 5),
                     poll = options.poll.value_or(std::min<milliseconds>(options.ttl / 4, 1s));
  if (margin < 0ms || margin > options.ttl / 2) refuse("margin", margin, "0 to half the TTL");
  if (poll < 10ms || poll > 24h) refuse("poll", poll, "10 ms to 1 day");
  return {options.ttl, margin, poll};
}

LeaderNews::Kind kind_of(const std::optional<LeaderCore::Loss>& loss) {
  if (!loss) return LeaderNews::Kind::elected;
  switch (*loss) {
    case LeaderCore::Loss::stopped: return LeaderNews::Kind::stopped;
    case LeaderCore::Loss::finished: return LeaderNews::Kind::finished;
    case LeaderCore::Loss::handed_over: return LeaderNews::Kind::handed_over;
    case LeaderCore::Loss::fenced: return LeaderNews::Kind::fenced;
    case LeaderCore::Loss::lost: return LeaderNews::Kind::lost;
    case LeaderCore::Loss::expired: break;
  }
  return LeaderNews::Kind::expired;
}

}  // namespace

struct LeaderLoop::State {
  struct Happened {
    LeaderCore::Event event;
    std::exception_ptr error = {};
    std::optional<Term> term = {};  // for work that failed
  };

  State(Database its_database, std::shared_ptr<LeaseSource> its_source, Scope its_scope,
        Work its_work, LeaderOptions its_options)
      : database(std::move(its_database)),
        source(std::move(its_source)),
        scope(std::move(its_scope)),
        work(std::move(its_work)),
        options(std::move(its_options)),
        timing(timing_of(options)) {
    if (!work) throw InvalidInput("TG005 a LeaderLoop wants work");
    // One for each loop: two with the same name would take the lease from each other, because a
    // holder can always acquire its own.
    if (options.owner.empty())
      options.owner = default_owner() + ":" + WriteId::random().text().substr(0, 8);
  }

  // --- the thread that keeps the time
  void keep_time() {
    std::random_device chance;
    LeaderCore core(timing, (std::uint64_t{chance()} << 32) | chance());
    Happened happened{LeaderCore::Woken{}};
    for (;;) {
      // The core is a local variable: no other thread can reach it.
      const LeaderCore::Action action = core.resume(happened.event, Clock::now());
      // Counted before leads() shows it, so that a caller that sees the leadership finds its
      // election counted.
      if (action.change) count(kind_of(action.change->loss));
      perform(core, action);
      if (happened.error)
        tell({happened.term ? LeaderNews::Kind::work_failed : LeaderNews::Kind::call_failed,
              happened.term, happened.error});
      if (action.change) tell({kind_of(action.change->loss), action.change->term, {}});
      if (action.leave) tell({LeaderNews::Kind::asked_to_leave, leading_term(), {}});
      if (action.over) {
        const std::lock_guard lock(mutex);
        over = true;
        changed.notify_all();
        return;
      }
      happened = next_event(action.wake);
    }
  }

  Happened next_event(std::optional<LeaderCore::Moment> wake) {
    const auto waiting = [&] {
      const std::lock_guard lock(mutex);
      return events.empty();
    };
    // wake() may be for an event that was already taken.
    if (waiting()) alarm.wait(wake);
    const std::lock_guard lock(mutex);
    if (events.empty()) return {LeaderCore::Woken{}};
    Happened happened = std::move(events.front());
    events.pop_front();
    if (std::holds_alternative<LeaderCore::Hint>(happened.event)) hinted = false;
    return happened;
  }

  void perform(const LeaderCore& core, const LeaderCore::Action& action) {
    std::optional<std::stop_source> ended;
    {
      const std::lock_guard lock(mutex);
      if (action.change && action.change->loss) {
        // All copies of this election's Leadership share this number, so they see the end at once.
        until->store(Clock::duration::min().count());
        leading.reset();
        current.reset();
        ended = std::exchange(stop, std::nullopt);
      } else if (action.leave) {
        ended = stop;  // it still leads
      }
      if (action.change && !action.change->loss) {
        // A new number for each election: a Leadership of an earlier one must not become valid
        // again.
        until = std::make_shared<std::atomic<Clock::rep>>(
            core.leads_until()->time_since_epoch().count());
        leading = action.change->term;
        stop.emplace();
        elected = current = Leadership(scope, *leading, stop->get_token(), until);
      } else if (leading) {
        until->store(core.leads_until()->time_since_epoch().count());
      }
      assert((!action.call || !call) && "the core has one call under way at a time");
      if (action.call) call = action.call;
      changed.notify_all();
    }
    // Without the lock, because this runs the work's stop callbacks.
    if (ended) ended->request_stop();
  }

  void count(LeaderNews::Kind kind) {
    const std::lock_guard lock(mutex);
    switch (kind) {
      case LeaderNews::Kind::elected: ++counted.elected; break;
      case LeaderNews::Kind::stopped: ++counted.stopped; break;
      case LeaderNews::Kind::finished: ++counted.finished; break;
      case LeaderNews::Kind::handed_over: ++counted.handed_over; break;
      case LeaderNews::Kind::fenced: ++counted.fenced; break;
      case LeaderNews::Kind::lost: ++counted.lost; break;
      case LeaderNews::Kind::expired: ++counted.expired; break;
      case LeaderNews::Kind::asked_to_leave:
      case LeaderNews::Kind::work_failed:
      case LeaderNews::Kind::call_failed: break;
    }
  }

  std::optional<Term> leading_term() const {
    const std::lock_guard lock(mutex);
    return leading;
  }

  void tell(const LeaderNews& news) const noexcept {
    if (options.news) options.news(news);
  }

  void post(Happened happened) {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(happened));
    alarm.wake();
  }

  // --- the thread that talks to the database
  void talk() {
    for (;;) {
      LeaderCore::Call next{};
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over || call; });
        if (!call) return;
        next = *std::exchange(call, std::nullopt);
      }
      using How = LeaderCore::Answer::How;
      Happened happened{LeaderCore::Answer{How::unknown}};
      try {
        happened.event = ask(next);
      } catch (const LeaseLost&) {
        happened.event = LeaderCore::Answer{How::refused};
      } catch (const FenceUntrusted&) {
        // For a renewal: a lease from before the restore is never renewed, and a new acquisition
        // makes the scope trusted again.
        happened = {LeaderCore::Answer{How::refused}, std::current_exception()};
      } catch (const OutcomeUnknown&) {
        happened.error = std::current_exception();
      } catch (const Error&) {
        happened = {LeaderCore::Answer{How::unavailable}, std::current_exception()};
      } catch (...) { happened.error = std::current_exception(); }
      post(std::move(happened));
    }
  }

  LeaderCore::Answer ask(const LeaderCore::Call& next) {
    using How = LeaderCore::Answer::How;
    if (source) return ask_source(next);
    switch (next.kind) {
      case LeaderCore::Call::Kind::acquire: {
        LeaseOptions lease_options;
        lease_options.owner = options.owner;
        lease_options.endpoint = options.endpoint;
        lease_options.grace = options.grace;
        if (const auto lease = database.try_acquire_lease(scope, options.ttl, lease_options))
          return {How::granted, lease->term(), lease->held_until()};
        try {
          const auto info = Info(database).lease(scope);
          if (!info || info->released_at_ms) return {How::refused, {}, {}, LeaderCore::Time(0)};
          return {
              How::refused, {}, {}, milliseconds(std::max<std::int64_t>(info->remaining_ms, 0))};
        } catch (const Error&) {
          // The lease was refused, even if the read of its remaining time failed.
          return {How::refused};
        }
      }
      case LeaderCore::Call::Kind::renew: {
        const Lease renewed = database.renew_lease(scope, *next.term, options.owner, options.ttl);
        return {How::granted, {}, renewed.held_until(), {}, renewed.leave_before().has_value()};
      }
      case LeaderCore::Call::Kind::release: break;
    }
    return {database.release_lease(scope, *next.term, options.owner) ? How::granted : How::refused};
  }

  LeaderCore::Answer ask_source(const LeaderCore::Call& next) {
    using How = LeaderCore::Answer::How;
    switch (next.kind) {
      case LeaderCore::Call::Kind::acquire: {
        auto won = detail::elect_by_source(*source, &database, scope, options.owner, options.ttl,
                                           options.grace);
        if (!won) return {How::refused};
        source_lease = std::move(won->lease);
        return {How::granted, source_lease->term, won->until};
      }
      case LeaderCore::Call::Kind::renew: {
        const auto sent = Clock::now();
        if (!source->renew(scope, *source_lease, options.owner, options.ttl)) return {How::refused};
        return {How::granted, {}, sent + options.ttl};
      }
      case LeaderCore::Call::Kind::release: break;
    }
    return {source->release(scope, *source_lease, options.owner) ? How::granted : How::refused};
  }

  // --- the thread that works
  void labour() {
    for (;;) {
      std::optional<Leadership> now;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over || elected; });
        if (!elected) return;
        now = std::exchange(elected, std::nullopt);
      }
      Happened happened{LeaderCore::WorkEnded{false}};
      try {
        work(*now);
      } catch (const StaleTerm& refused) {
        // Stale only if it is this election's scope and term: work may write to other scopes as
        // well.
        happened = {LeaderCore::WorkEnded{refused.scope() == scope.name() &&
                                          refused.term() == now->term().value()},
                    std::current_exception(), now->term()};
      } catch (...) {
        happened = {LeaderCore::WorkEnded{false}, std::current_exception(), now->term()};
      }
      post(std::move(happened));
    }
  }

  bool is_own_thread() const {
    const auto me = std::this_thread::get_id();
    return std::any_of(std::begin(ids), std::end(ids),
                       [&](std::thread::id id) { return id == me; });
  }
  // Somebody may have released the lease, or requests it.
  void hint() {
    const std::lock_guard lock(mutex);
    if (over || std::exchange(hinted, true)) return;
    events.push_back({LeaderCore::Hint{}});
    alarm.wake();
  }
  void request_stop() noexcept {
    const std::lock_guard lock(mutex);
    if (std::exchange(stop_asked, true)) return;
    events.push_back({LeaderCore::Stop{}});
    alarm.wake();
  }

  Database database;
  const std::shared_ptr<LeaseSource> source;  // none: the database's own leases
  std::optional<SourceLease> source_lease;    // the latest lease; for the thread that talks only
  const Scope scope;
  const Work work;
  LeaderOptions options;  // not changed once the threads run
  const LeaderCore::Timing timing;

  detail::Alarm alarm;  // for the thread that keeps the time

  mutable std::mutex mutex;         // guards the members below
  std::condition_variable changed;  // signals any change of them
  std::deque<Happened> events;      // at most a stop, an answer, a hint and an end of work
  bool hinted = false;              // `events` contains a hint
  std::optional<LeaderCore::Call> call;
  std::optional<Leadership> elected;  // its work has not begun
  std::optional<Leadership> current;
  std::optional<Term> leading;
  std::shared_ptr<std::atomic<Clock::rep>> until =
      std::make_shared<std::atomic<Clock::rep>>(Clock::duration::min().count());
  std::optional<std::stop_source> stop;  // stops the work
  LeaderStats counted{};
  bool stop_asked = false;
  bool over = false;

  std::mutex joining;           // guards the members below, once the threads run
  std::shared_ptr<void> watch;  // on the lease; calls hint()
  std::thread threads[3];
  std::thread::id ids[3];
};

LeaderLoop::LeaderLoop(Database database, Scope scope, Work work, LeaderOptions options)
    : state_(std::make_unique<State>(std::move(database), nullptr, std::move(scope),
                                     std::move(work), std::move(options))) {
  start();
}

LeaderLoop::LeaderLoop(Database database, std::shared_ptr<LeaseSource> source, Scope scope,
                       Work work, LeaderOptions options) {
  if (!source)
    throw InvalidInput("TG005 this LeaderLoop needs a LeaseSource; open_lease_source() opens one");
  state_ = std::make_unique<State>(std::move(database), std::move(source), std::move(scope),
                                   std::move(work), std::move(options));
  start();
}

void LeaderLoop::start() {
  State& state = *state_;
  void (State::*const bodies[])() = {&State::talk, &State::labour, &State::keep_time};
  try {
    // A thread that runs user code finds all ids: no work is begun, and no news sent, before the
    // last thread has started.
    for (int i = 0; i < 3; ++i) {
      const std::lock_guard lock(state.mutex);
      state.threads[i] = std::thread([&state, body = bodies[i]] {
        // Waits until start() has stored the id of this thread.
        { const std::lock_guard started(state.mutex); }
        (state.*body)();
      });
      state.ids[i] = state.threads[i].get_id();
    }
  } catch (...) {
    {
      const std::lock_guard lock(state.mutex);
      state.over = true;
      state.changed.notify_all();
    }
    for (std::thread& thread : state.threads) {
      if (thread.joinable()) thread.join();
    }
    throw;
  }
  const std::lock_guard lock(state.joining);
  if (!state.source)
    state.watch =
        detail::state_of(state.database).watch_lease(state.scope, [&state] { state.hint(); });
}

LeaderLoop::~LeaderLoop() { stop(); }

void LeaderLoop::request_stop() noexcept { state_->request_stop(); }

void LeaderLoop::stop() {
  if (state_->is_own_thread())
    throw std::logic_error(
        "LeaderLoop::stop() on a thread of the loop's would wait for itself: request_stop() is for "
        "those");
  request_stop();
  const std::lock_guard lock(state_->joining);
  for (std::thread& thread : state_->threads) {
    if (thread.joinable()) thread.join();
  }
  state_->watch.reset();
}

// Compares with the clock itself, because the thread that keeps the time may not have run yet.
std::optional<Term> LeaderLoop::leads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->leading && Clock::now().time_since_epoch().count() < state_->until->load()
             ? state_->leading
             : std::nullopt;
}

std::optional<Leadership> LeaderLoop::leadership() const {
  const std::lock_guard lock(state_->mutex);
  return state_->current && state_->current->still_held() ? state_->current : std::nullopt;
}

LeaderStats LeaderLoop::stats() const {
  const auto term = leads();
  const std::lock_guard lock(state_->mutex);
  LeaderStats stats = state_->counted;
  stats.scope = state_->scope.name();
  if (term) stats.term = term->value();
  return stats;
}

const Scope& LeaderLoop::scope() const noexcept { return state_->scope; }
const std::string& LeaderLoop::owner() const noexcept { return state_->options.owner; }

}  // namespace v0
}  // namespace termgate
