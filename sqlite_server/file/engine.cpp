// One file for many streams (engine.hpp has the owner, the threads and the invariants). The
// WriteQueue's turn says which stream may write. The watchdog ends a transaction that keeps the
// turn from a higher term, or keeps it while its client is silent.
#include "file/engine.hpp"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "file/connection.hpp"
#include "file/control.hpp"
#include "file/memory.hpp"
#include "hrana/port.hpp"

namespace termgate::sqlite_file {

using std::chrono::milliseconds;

namespace {
constexpr milliseconds connection_wait{5000};
// A process whose last notice is this old no longer waits; with LockWait::every this tolerates two
// lost messages.
constexpr milliseconds outside_gone = 3 * sqlite::LockWait::every + milliseconds(50);
constexpr std::size_t outside_max = 1000;
// A few connections have a large cache; most reads use those, whatever the number of streams.
constexpr std::size_t roomy_connections = 4;
constexpr int roomy_kib = 32 << 10, cache_kib = 2 << 10;
constexpr std::size_t rolling_back_max = 2000;
constexpr milliseconds look{20};  // interval of the holder watchdog while somebody waits
constexpr milliseconds look_at_file_every{200};
}  // namespace

// Registers a stream that waits for the turn. over() is called as soon as it has the turn: from
// then on it is the holder, and its own wait must not evict it.
class Engine::Waiting {
 public:
  Waiting(Engine& engine, const Want& want, Control& control) : engine_(engine), control_(control) {
    const std::lock_guard lock(engine_.watch_mutex_);
    if (engine_.waiters_.size() >= engine_.options_.waiters_max)
      throw hrana::Busy(fmt::format("{} writers wait for the file already: try again later",
                                    engine_.options_.waiters_max));
    control_.waits(true);
    at_ = engine_.waiters_.insert(engine_.waiters_.end(), {want, Clock::now()});
    // Wakes the watchdog only if it rests: while it looks at short intervals, thousands of waits a
    // second need not wake it.
    if (std::exchange(engine_.watchdog_rests_, false)) engine_.watched_.notify_one();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { over(); }
  void over() {
    if (std::exchange(over_, true)) return;
    control_.waits(false);
    const std::lock_guard lock(engine_.watch_mutex_);
    engine_.waiters_.erase(at_);
  }

 private:
  Engine& engine_;
  Control& control_;
  std::list<Waiter>::iterator at_;
  bool over_ = false;
};

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      memory_(options_.memory ? options_.memory : std::make_shared<detail::FenceMemory>()) {
  count_memory();
  how_.path = options_.path;
  writer_ = std::make_unique<Connection>(how_, Connection::Role::writer, roomy_kib);
  // A copy for the watchdog's thread alone.
  file_ = writer_->sqlite().layer1().core().file();
  queue_ = std::make_unique<sqlite::WriteQueue>(writer_->sqlite(), how_.synchronous, how_.wait);
  try {
    if (const auto grace = writer_->sqlite().layer1().core().setting("eviction_grace_ms"))
      grace_ = milliseconds(std::stoll(*grace));
  } catch (const std::exception&) {
    // Without layer 1 the default applies.
  }
  holder_watchdog_ = std::thread([this] { watch(); });
  outside_listener_ = std::make_unique<sqlite::LockWaitListener>(
      options_.path, [this](const sqlite::LockWaitNotice& notice) { heard(notice); });
}

// The listener is destroyed first: its thread calls heard(), which needs the queue and the mutex.
Engine::~Engine() {
  outside_listener_.reset();
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  watched_.notify_all();
  holder_watchdog_.join();
}

// --- readers

std::unique_ptr<Connection> Engine::borrow(bool may_write) {
  const auto role = may_write ? Connection::Role::may_write : Connection::Role::reads;
  std::unique_ptr<Connection>
      other;  // closed to make room for one of this role, after the mutex is released
  std::unique_lock lock(connections_mutex_);
  if (!connection_free_.wait_for(lock, connection_wait,
                                 [&] { return !idle_.empty() || open_ < options_.readers_max; })) {
    throw hrana::Busy(
        fmt::format("all {} connections to the file have been at work for {} ms: try again later",
                    options_.readers_max, connection_wait.count()));
  }
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                  [&](const auto& each) { return each->role() == role; });
  if (found != idle_.rend()) {
    auto connection = std::move(*found);
    idle_.erase(std::next(found).base());
    return connection;
  }
  if (open_ == options_.readers_max) {
    other = std::move(idle_.front());
    idle_.pop_front();
    --open_;
  }
  assert(open_ < options_.readers_max);
  const int kib = ++open_ <= roomy_connections ? roomy_kib : cache_kib;
  lock.unlock();
  try {
    return std::make_unique<Connection>(how_, role, kib);
  } catch (...) {
    lock.lock();
    --open_;
    connection_free_.notify_one();
    throw;
  }
}

// Connections with a large cache go to the end that is borrowed from first, so that few of them do
// most of the reading. A connection whose state cannot be restored is closed.
void Engine::put_back(std::unique_ptr<Connection> connection) noexcept {
  if (!connection->restore()) connection.reset();
  const std::lock_guard lock(connections_mutex_);
  assert(idle_.size() < open_ && "an idle connection is an open one");
  if (connection == nullptr) --open_;
  else if (connection->cache_kib == roomy_kib) idle_.push_back(std::move(connection));
  else idle_.push_front(std::move(connection));
  connection_free_.notify_one();
}

// --- the writer

void Engine::hold(Control* control) {
  const std::lock_guard lock(watch_mutex_);
  assert((control == nullptr || holder_ == nullptr) && "one stream holds the turn");
  holder_ = control;
  holder_passed_.clear();
}

// The stream counts as the holder while its work runs: not earlier, while it waits, and not later,
// while it only waits for the flush.
void Engine::group(Control& control, const Want& want, bool alone,
                   const std::function<void(Connection&, bool)>& work) {
  Waiting waiting(*this, want, control);
  const std::function<bool()> give_up = [&] { return control.interrupted(); };
  sqlite::WriteQueue::How how;
  how.give_up = &give_up;
  how.alone = alone;
  how.scope = want.scope;
  how.term = want.term;
  queue_->run(how, [&](sqlite::Connection&) {
    waiting.over();
    hold(&control);
    struct Over {
      Engine& engine;
      ~Over() { engine.hold(nullptr); }
    };
    {
      const Over over{*this};
      work(*writer_, queue_->shares());
    }
    // Checked when it can no longer be evicted: nothing that is committed afterwards was evicted.
    if (control.evicted()) throw sqlite::GaveUp{};
  });
}

Engine::Turn Engine::take_turn(Control& control, const Want& want) {
  Waiting waiting(*this, want, control);
  const std::function<bool()> give_up = [&] { return control.interrupted(); };
  sqlite::WriteQueue::How how;
  how.give_up = &give_up;
  Turn turn(*this, queue_->take_turn(how));
  hold(&control);
  return turn;
}

Engine::Turn& Engine::Turn::operator=(Turn&& other) noexcept {
  if (this != &other) {
    give();
    engine_ = std::exchange(other.engine_, nullptr);
    held_ = std::move(other.held_);
  }
  return *this;
}

void Engine::Turn::give() noexcept {
  if (engine_ == nullptr) return;
  std::exchange(engine_, nullptr)->hold(nullptr);
  held_.give();
}

void Engine::Turn::unwatch() noexcept { engine_->hold(nullptr); }

void Engine::Turn::watch(Control& control, const std::vector<Want>& passed) noexcept {
  engine_->hold(&control);
  for (const Want& each : passed) engine_->passed(each);
}

void Engine::passed(const Want& pass) {
  const std::lock_guard lock(watch_mutex_);
  holder_passed_.push_back(pass);
}

void Engine::committed(const std::vector<Want>& passed) {
  for (const Want& each : passed) memory_->saw(each.scope, each.term);
}

void Engine::note_rolls_back(std::string_view text) {
  const std::lock_guard lock(texts_mutex_);
  if (rolling_back_.size() >= rolling_back_max) rolling_back_.clear();
  rolling_back_.emplace(text);
}

bool Engine::rolls_back(std::string_view text) const {
  const std::lock_guard lock(texts_mutex_);
  return !rolling_back_.empty() && rolling_back_.contains(std::string(text));
}

Counters Engine::counters() const noexcept {
  Counters now{queue_->commits(), queue_->writes(), transactions_, evicted_};
  std::copy(observed_.begin(), observed_.end(), now.observed.begin());
  return now;
}

Counters& Counters::operator+=(const Counters& other) noexcept {
  commits += other.commits;
  group_members += other.group_members;
  transactions += other.transactions;
  evicted += other.evicted;
  for (std::size_t at = 0; at < observed.size(); ++at) observed[at] += other.observed[at];
  return *this;
}

bool Engine::count_observed(std::string_view code) noexcept {
  const auto found = std::find(observed_codes.begin(), observed_codes.end(), code);
  if (found == observed_codes.end()) return false;
  ++observed_[static_cast<std::size_t>(found - observed_codes.begin())];
  return true;
}

// --- the holder watchdog

// Runs on the listener's thread. Another process repeats its notice while it waits, so one that
// stops counts as gone.
void Engine::heard(const sqlite::LockWaitNotice& notice) {
  queue_->make_room();
  const std::lock_guard lock(watch_mutex_);
  const auto now = Clock::now();
  const auto known = std::find_if(outside_.begin(), outside_.end(), [&](const Outside& one) {
    return one.pid == notice.pid && one.waiter.want.scope == notice.scope &&
           one.waiter.want.term == notice.term;
  });
  if (known != outside_.end()) {
    known->heard = now;
    // Bounded, because any process of the same user can send notices.
  } else if (outside_.size() < outside_max) {
    outside_.push_back({notice.pid, {{notice.scope, notice.term}, now}, now});
    watched_.notify_one();
  }
}

void Engine::note_moved() noexcept {
  moved_ = true;
  const std::lock_guard lock(watch_mutex_);
  watched_.notify_one();
}

void Engine::look_at_file(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  if (!moved_ && file_.replaced()) moved_ = true;
  if (moved_) {
    moved_reported_ = true;
    if (options_.on_moved) options_.on_moved();
  }
  lock.lock();
}

void Engine::evict(std::string code, std::string message) {
  ++evicted_;
  holder_->evict({std::move(code), std::move(message)});
}

// Ends the holder's transaction only if its term is lower in the same scope, and after the grace
// (F4).
bool Engine::evicts(const Waiter& waiter, Clock::time_point now) {
  const auto lower =
      std::find_if(holder_passed_.begin(), holder_passed_.end(), [&](const Want& passed) {
        return passed.scope == waiter.want.scope && passed.term < waiter.want.term;
      });
  if (lower == holder_passed_.end() || now - waiter.since < grace_) return false;
  evict("TG001", fmt::format("TG001 stale term {} for scope \"{}\": term {} waited for longer than "
                             "the eviction grace of {} ms, so this "
                             "transaction was rolled back: nothing of it was written",
                             lower->term, lower->scope, waiter.want.term, grace_.count()));
  return true;
}

void Engine::look_at_holder() {
  if (holder_ == nullptr || holder_->evicted()) return;
  const auto now = Clock::now();
  if (std::any_of(waiters_.begin(), waiters_.end(),
                  [&](const Waiter& one) { return evicts(one, now); }) ||
      std::any_of(outside_.begin(), outside_.end(),
                  [&](const Outside& one) { return evicts(one.waiter, now); }))
    return;
  const auto idle_since = holder_->idle_since();
  if (idle_since == Clock::time_point{} || now - idle_since < options_.idle_holder_max) return;
  evict("TRANSACTION_TIMEOUT",
        fmt::format("this transaction kept the only write lock of the file for {} ms without a "
                    "word while others waited, so it was rolled "
                    "back: nothing of it was written",
                    std::chrono::duration_cast<milliseconds>(now - idle_since).count()));
}

void Engine::watch() {
  std::unique_lock lock(watch_mutex_);
  auto looked = Clock::now();
  while (!stopping_) {
    if (!moved_reported_ && (moved_ || Clock::now() - looked >= look_at_file_every)) {
      look_at_file(lock);
      looked = Clock::now();
      continue;
    }
    std::erase_if(outside_, [now = Clock::now()](const Outside& one) {
      return now - one.heard > outside_gone;
    });
    if (waiters_.empty() && outside_.empty()) {
      // No predicate: the waiter that woke it may be done already, and the next one must be able to
      // wake it again.
      watchdog_rests_ = true;
      watched_.wait_for(lock, look_at_file_every);
      watchdog_rests_ = false;
      continue;
    }
    watched_.wait_for(lock, look);
    look_at_holder();
  }
}

}  // namespace termgate::sqlite_file
