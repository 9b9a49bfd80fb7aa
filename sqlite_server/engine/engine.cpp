// One file for many sessions (engine.hpp has the owner, the threads and the invariants). The baton of the
// WriteQueue says which session may write; the watchdog ends a session that keeps it from a higher term, or
// keeps it and says nothing.
#include "engine/engine.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

namespace termgate::sqlite_server {

using std::chrono::milliseconds;

namespace {
// Plans of texts; a full map is emptied, because the texts of a service come again soon.
constexpr std::size_t plans_max = 2000;
constexpr std::size_t plan_text_bytes_max = 8 * 1024;
constexpr milliseconds connection_wait{5000};
// Who has not been heard of for this long waits no more; beside LockWait::every it bears two lost messages.
constexpr milliseconds outside_gone = 3 * sqlite::LockWait::every + milliseconds(50);
constexpr std::size_t outside_max = 1000;
// Few connections read at once, whatever the number of sessions: those few keep more of the file.
constexpr std::size_t roomy_connections = 4;
constexpr int roomy_kib = 32 << 10, cache_kib = 2 << 10;
constexpr std::size_t temporary_max = 200;
constexpr milliseconds look{20};  // the holder watchdog's, while somebody waits
constexpr milliseconds look_at_file{200};
}  // namespace

// A session that waits for the baton, for the length of its wait. over() is called as soon as it has the
// baton: from then on it is the holder, and its own wait must not evict it.
class Engine::Waiting {
 public:
  Waiting(Engine& engine, const Want& want, Control& control) : engine_(engine), control_(control) {
    control_.waits(true);
    const std::lock_guard lock(engine_.watch_mutex_);
    at_ = engine_.waiters_.insert(engine_.waiters_.end(), {want, Clock::now()});
    // Once: a watchdog that looks at short intervals need not be woken for each of a thousand waits a second.
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
    : options_(std::move(options)), memory_(options_.memory ? options_.memory : std::make_shared<detail::FenceMemory>()) {
  how_.path = options_.path;
  writer_ = std::make_unique<SqlConnection>(how_, options_.install, roomy_kib);
  writer_->writable = true;
  // A copy, which the watchdog's thread has to itself.
  file_ = writer_->sqlite().layer1().file();
  relations_ = writer_->catalog().relations();
  queue_ = std::make_unique<sqlite::WriteQueue>(writer_->sqlite(), how_.synchronous, how_.wait);
  try {
    if (const auto grace = writer_->sqlite().layer1().setting("eviction_grace_ms")) grace_ = milliseconds(std::stoll(*grace));
  } catch (const std::exception&) {
    // Without layer 1 the default applies.
  }
  holder_watchdog_ = std::thread([this] { watch(); });
  outside_listener_ =
      std::make_unique<sqlite::LockWaitListener>(options_.path, [this](const sqlite::LockWaitNotice& notice) { heard(notice); });
}

// The listener first: its thread calls heard(), which needs the queue and the mutex.
Engine::~Engine() {
  outside_listener_.reset();
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  watched_.notify_all();
  holder_watchdog_.join();
}

std::unique_ptr<SqlConnection> Engine::borrow() {
  std::unique_lock lock(connections_mutex_);
  if (!connection_free_.wait_for(lock, connection_wait, [&] { return !idle_.empty() || open_ < options_.connections_max; })) {
    throw PgException("53300", fmt::format("all {} connections to the file have been at work for {} ms", options_.connections_max,
                                           connection_wait.count()));
  }
  if (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  assert(open_ < options_.connections_max);
  const int kib = ++open_ <= roomy_connections ? roomy_kib : cache_kib;
  lock.unlock();
  try {
    return std::make_unique<SqlConnection>(how_, options_.install, kib);
  } catch (...) {
    lock.lock();
    --open_;
    connection_free_.notify_one();
    throw;
  }
}

// Connections with a large cache go to the end that is borrowed from first, so that few of them do most of
// the reading.
void Engine::put_back(std::unique_ptr<SqlConnection> connection) noexcept {
  connection->serve(nullptr);
  const std::lock_guard lock(connections_mutex_);
  assert(idle_.size() < open_ && "an idle connection is an open one");
  if (connection->cache_kib == roomy_kib) idle_.push_back(std::move(connection));
  else idle_.push_front(std::move(connection));
  connection_free_.notify_one();
}

std::unique_ptr<SqlConnection> Engine::open_temporary() {
  if (++temporary_ > temporary_max) {
    --temporary_;
    throw PgException("53300", fmt::format("{} sessions have temporary tables already", temporary_max));
  }
  try {
    auto connection = std::make_unique<SqlConnection>(how_, options_.install, cache_kib);
    connection->open_temporary();
    return connection;
  } catch (...) {
    --temporary_;
    throw;
  }
}

void Engine::close_temporary(std::unique_ptr<SqlConnection> connection) noexcept {
  if (connection == nullptr) return;
  connection.reset();
  --temporary_;
}

void Engine::hold(Control* control) {
  const std::lock_guard lock(watch_mutex_);
  assert((control == nullptr || holder_ == nullptr) && "one session holds the baton");
  holder_ = control;
  holder_passed_.clear();
}

// The session counts as the holder while its work runs: not before, when it waits, and not after, when it
// only waits for the flush.
void Engine::group(Control& control, const Want& want, std::optional<milliseconds> wait,
                   const std::function<void(SqlConnection&, bool)>& work) {
  Waiting waiting(*this, want, control);
  const std::function<bool()> give_up = [&] { return control.interrupted(); };
  queue_->run({.wait = wait, .give_up = &give_up, .scope = want.scope, .term = want.term}, [&](sqlite::Connection&) {
    waiting.over();
    hold(&control);
    struct Over {
      Engine& engine;
      ~Over() { engine.hold(nullptr); }
    } over{*this};
    work(*writer_, queue_->shares());
  });
}

void Engine::take_turn(Control& control, const Want& want, std::optional<milliseconds> wait) {
  Waiting waiting(*this, want, control);
  const std::function<bool()> give_up = [&] { return control.interrupted(); };
  queue_->take_turn({.wait = wait, .give_up = &give_up});
  hold(&control);
}

void Engine::give_turn() noexcept {
  hold(nullptr);
  queue_->give_turn();
}

// On the listener's thread. Another process repeats its notice while it waits, so one that stops counts as
// gone.
void Engine::heard(const sqlite::LockWaitNotice& notice) {
  queue_->make_room();
  const std::lock_guard lock(watch_mutex_);
  const auto now = Clock::now();
  const auto known = std::find_if(outside_.begin(), outside_.end(), [&](const Outside& one) {
    return one.pid == notice.pid && one.waiter.want.scope == notice.scope && one.waiter.want.term == notice.term;
  });
  if (known != outside_.end()) {
    known->heard = now;
    // Any process of the same user can send notices.
  } else if (outside_.size() < outside_max) {
    outside_.push_back({notice.pid, {{notice.scope, notice.term}, now}, now});
    watched_.notify_one();
  }
}

void Engine::passed(std::string scope, std::int64_t term) {
  const std::lock_guard lock(watch_mutex_);
  holder_passed_.push_back({std::move(scope), term});
}

void Engine::committed(const std::vector<Want>& passed) {
  for (const Want& each : passed) memory_->saw(each.scope, each.term);
}

void Engine::note_moved() noexcept {
  moved_ = true;
  const std::lock_guard lock(watch_mutex_);
  watched_.notify_one();
}

void Engine::watch() {
  std::unique_lock lock(watch_mutex_);
  auto looked = Clock::now();
  while (!stopping_) {
    if (!moved_reported_ && (moved_ || Clock::now() - looked >= look_at_file)) {
      lock.unlock();
      if (!moved_ && file_.replaced()) moved_ = true;
      if (moved_) {
        moved_reported_ = true;
        if (options_.on_moved) options_.on_moved();
      }
      lock.lock();
      looked = Clock::now();
      continue;
    }
    std::erase_if(outside_, [now = Clock::now()](const Outside& one) { return now - one.heard > outside_gone; });
    if (waiters_.empty() && outside_.empty()) {
      // No predicate: who woke it may have had its turn by now, and the next one must wake it again.
      watchdog_rests_ = true;
      watched_.wait_for(lock, look_at_file);
      watchdog_rests_ = false;
      continue;
    }
    watched_.wait_for(lock, look);
    if (holder_ == nullptr || holder_->evicted()) continue;
    const auto now = Clock::now();
    const auto evicts = [&](const Waiter& waiter) {
      // Only a holder with a lower term of the same scope is stale (F4).
      const auto lower = std::find_if(holder_passed_.begin(), holder_passed_.end(), [&](const Want& passed) {
        return passed.scope == waiter.want.scope && passed.term < waiter.want.term;
      });
      if (lower == holder_passed_.end() || now - waiter.since < grace_) return false;
      holder_->evict(fmt::format("terminating connection: term {} for scope \"{}\" blocked term {} for longer than the eviction grace",
                                 lower->term, lower->scope, waiter.want.term));
      return true;
    };
    if (std::any_of(waiters_.begin(), waiters_.end(), evicts) ||
        std::any_of(outside_.begin(), outside_.end(), [&](const Outside& one) { return evicts(one.waiter); }))
      continue;
    const auto idle_since = holder_->idle_since.load();
    if (!holder_->evicted() && idle_since != Clock::time_point{} && now - idle_since >= options_.idle_holder_max) {
      holder_->evict(
          fmt::format("terminating connection: it kept the only write lock of the file for {} ms without a word while others waited",
                      std::chrono::duration_cast<milliseconds>(now - idle_since).count()));
    }
  }
}

// nullptr: the text has to be translated by itself.
Plans Engine::plan_by_shape(const std::string& text, const Shape& shape, const FileRelations& relations) {
  std::shared_ptr<const Template> found;
  {
    const std::lock_guard lock(plans_mutex_);
    if (const auto known = shapes_.find(shape.text); known != shapes_.end() && known->second.schema == relations.id()) {
      if (known->second.made == nullptr) return nullptr;
      found = known->second.made;
    }
  }
  if (found == nullptr) {
    try {
      found = Template::of(shape, plan_text(text, &relations, {}, true));
    } catch (const PgException&) {}  // reported where the text is translated by itself
    const std::lock_guard lock(plans_mutex_);
    if (shapes_.size() >= plans_max) shapes_.clear();
    shapes_.insert_or_assign(shape.text, KnownShape{found, relations.id()});
    if (found == nullptr) return nullptr;
  }
  return found->plan(text, shape);
}

Plans Engine::plan(const std::string& text, const std::vector<dialect::Oid>& declared, std::shared_ptr<const FileRelations> relations) {
  std::string key = text;
  // A text cannot hold a zero byte, so no text and list of types can look like another's.
  for (const dialect::Oid type : declared) key += '\0' + std::to_string(type);
  {
    const std::lock_guard lock(plans_mutex_);
    if (relations != nullptr) relations_ = relations;
    else relations = relations_;
    const auto stale = [&](const Plan& plan) { return plan.does.typed && plan.schema != relations->id(); };
    if (const auto found = plans_.find(key); found != plans_.end() && std::none_of(found->second->begin(), found->second->end(), stale))
      return found->second;
  }
  if (declared.empty() && relations != nullptr && relations->plain_indexes()) {
    if (const auto shape = shape_of(text)) {
      if (Plans made = plan_by_shape(text, *shape, *relations)) return made;
    }
  }
  // Without the mutex: parsing takes long, and two sessions that plan the same text come to the same result.
  Plans made = plan_text(text, relations.get(), declared);
  if (key.size() > plan_text_bytes_max) return made;
  const std::lock_guard lock(plans_mutex_);
  if (plans_.size() >= plans_max) plans_.clear();
  plans_.insert_or_assign(std::move(key), made);
  return made;
}

}  // namespace termgate::sqlite_server
