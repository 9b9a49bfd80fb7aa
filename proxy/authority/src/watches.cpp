// Watches the fences of databases other than the one of --backend, each with a connection of its
// own, at most `databases_max` at a time.
//
// Owner: the Authority. Threads: one polls all descriptors and passes what is due to a few workers.
// `busy` means that a worker handles an entry: only that worker may then use its reader and feed,
// without the lock. open_ counts feeds, including those that are being closed.
#include "watches.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/scope.hpp>

#include "fence_watch.hpp"

namespace termgate::authority {

using std::chrono::milliseconds;

struct Watches::Entry {
  Entry(std::string name, FenceBook::Events events)
      : book(std::make_shared<FenceBook>(std::move(name), scopes_max, std::move(events))) {}

  const std::shared_ptr<FenceBook>
      book;  // sessions share it, so a use count of 1 means that there is none
  // Guarded by Watches::mutex_.
  bool busy = false;         // a worker handles it
  Clock::time_point next{};  // the earliest time for its next step
  milliseconds pause{retry_pause};
  Clock::time_point left{};  // since when no session uses it; zero: one does
  int descriptor = -1;
  // While the entry is busy, only its worker uses the reader and the feed, without the lock
  // (~Watches may stop() the reader). Otherwise the lock guards them.
  std::unique_ptr<FenceReader> reader;
  std::unique_ptr<detail::FenceFeed> feed;
};

Watches::Watches(Options options)
    : options_(std::move(options)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wakeup_ < 0) throw Unavailable("no descriptor is left to watch databases with");
  thread_ = std::thread([this] { run(); });
}

Watches::~Watches() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [name, entry] : entries_) {
      if (entry->reader) entry->reader->stop();
    }
  }
  wake();
  thread_.join();
  workers_.stop();
  ::close(wakeup_);
}

void Watches::begin(std::string owner) {
  {
    const std::lock_guard lock(mutex_);
    owner_ = std::move(owner);
    begun_ = true;
  }
  wake();
}

std::shared_ptr<conversation::Fences> Watches::fences(const std::string& database) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[database];
  if (!entry)
    entry = std::make_shared<Entry>(
        database, FenceBook::Events{options_.rose, [this](FenceBook&) { wake(); }});
  entry->left = {};
  return entry->book;
}

std::int64_t Watches::watched() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const auto& one) { return one.second->book->watched(); });
}

std::int64_t Watches::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

std::size_t Watches::known() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void Watches::wake() {
  const std::uint64_t one = 1;
  // Fails only if very many wake-ups are pending already.
  if (::write(wakeup_, &one, sizeof one) < 0) return;
}

void Watches::run() {
  std::vector<pollfd> watched;
  for (;;) {
    watched.assign(1, {wakeup_, POLLIN, 0});
    std::vector<std::shared_ptr<Entry>> of;
    auto until = Clock::time_point::max();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      const auto now = Clock::now();
      look(now);
      if (!entries_.empty()) until = now + look_pause;
      for (const auto& [name, entry] : entries_) {
        if (entry->busy || entry->descriptor < 0) continue;
        watched.push_back({entry->descriptor, POLLIN, 0});
        of.push_back(entry);
        until = std::min(until, entry->next);
      }
    }
    const auto left = until == Clock::time_point::max()
                          ? -1
                          : std::clamp<std::int64_t>(
                                std::chrono::ceil<milliseconds>(until - Clock::now()).count(), 0,
                                look_pause.count());
    // Without the lock.
    if (poll(watched.data(), watched.size(), static_cast<int>(left)) < 0) continue;
    std::uint64_t count = 0;
    if (::read(wakeup_, &count, sizeof count) < 0) count = 0;  // nobody has called wake()
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (watched[i + 1].revents != 0 && !of[i]->busy && of[i]->descriptor >= 0) of[i]->next = {};
    }
  }
}

void Watches::look(Clock::time_point now) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto& entry = at->second;
    // New users come through fences(), which waits for the lock held here.
    const bool somebody = entry->book.use_count() > 1;
    if (somebody) entry->left = {};
    else if (entry->left == Clock::time_point{}) entry->left = now;
    // An entry without a watch is kept too, so that short sessions do not cause a new attempt each
    // time; but not without limit.
    if (!somebody && !entry->busy &&
        (now - entry->left >= options_.idle_pause ||
         (!entry->feed && entries_.size() > databases_known_max))) {
      close(entry);
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
  if (!begun_) return;
  for (const auto& [name, entry] : entries_) {
    // Suspect scopes are read at once.
    if (entry->busy || (now < entry->next && !(entry->feed && entry->book->has_suspects())))
      continue;
    if (!entry->feed) {
      if (!entry->book->wanted() || (open_ >= options_.databases_max && !make_room(now))) continue;
      entry->feed = detail::open_fence_feed(options_.url, options_.schema, name);
      assert(open_ < options_.databases_max &&
             "a feed is opened only where there is a place for it");
      ++open_;
      entry->reader = std::make_unique<FenceReader>(
          *entry->book,
          FenceReader::Source{
              [feed = entry->feed.get()](const std::string& after, int limit) {
                return feed->fences(after, limit);
              },
              [feed = entry->feed.get()](const std::string& scope) { return feed->fence(scope); }},
          options_.schema, scopes_max, options_.pause);
    }
    entry->busy = true;
    workers_.at(now, [this, entry = entry] { step(entry); });
  }
}

// The watch that has gone unused for longest gives its place up. If all were used just now, none
// does, because otherwise more databases than places would keep replacing each other.
bool Watches::make_room(Clock::time_point now) {
  std::shared_ptr<Entry> oldest;
  for (const auto& [name, entry] : entries_) {
    if (!entry->busy && entry->feed &&
        (!oldest || entry->book->requested_at() < oldest->book->requested_at()))
      oldest = entry;
  }
  if (!oldest || now - oldest->book->requested_at() < options_.keep_pause) return false;
  close(oldest);
  return open_ < options_.databases_max;
}

void Watches::close(const std::shared_ptr<Entry>& entry) {
  entry->book->set_watched(false);
  entry->book->forget_all();
  entry->book->quiet();
  entry->descriptor = -1;
  entry->next = {};
  entry->pause = retry_pause;
  if (!entry->feed) return;
  // Closing a connection may block. Its place is free once it is closed.
  entry->busy = true;
  workers_.at(Clock::now(), [this, entry] {
    hang_up(*entry);
    {
      const std::lock_guard lock(mutex_);
      --open_;
      entry->busy = false;
    }
    wake();
  });
}

void Watches::hang_up(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    entry.reader.reset();
  }
  entry.feed.reset();
}

// Runs on a worker, with the entry busy. After a failure the connection is dropped and tried again
// later, with longer and longer pauses.
void Watches::step(const std::shared_ptr<Entry>& entry) {
  Entry& one = *entry;
  assert(one.feed && one.reader && "look() has made both before it hands the entry to a worker");
  std::string owner;
  {
    const std::lock_guard lock(mutex_);
    owner = owner_;
  }
  std::string failed, recovered;
  auto obstacle = conversation::Obstacle::none;
  try {
    const auto heard = one.feed->wait(milliseconds(0));
    if (heard.connected_anew) {
      const std::string theirs = one.feed->owner();
      if (theirs.empty())
        throw DatabaseError(
            fmt::format("there is no schema \"{}\": Termgate is not installed there",
                        options_.schema),
            "3F000");
      if (!one.feed->owner_is_trusted(owner)) {
        throw DatabaseError(fmt::format("its layer 1 belongs to role \"{}\", and the proxy reads "
                                        "only what belongs to a superuser, to its "
                                        "own role, or to \"{}\", the owner of layer 1 in the "
                                        "database of --backend",
                                        theirs, owner),
                            "42501");
      }
    }
    one.reader->turn(heard);
  } catch (const std::exception& error) {
    obstacle = obstacle_of(error);
    failed = fmt::format(
        "cannot watch for fence changes of database \"{}\" (retrying), so nothing is refused from "
        "memory there: {}",
        one.book->name(), error.what());
    hang_up(one);
  }
  {
    const std::lock_guard lock(mutex_);
    one.busy = false;
    one.book->set_watched(failed.empty());
    // A lost connection does not invalidate what is known; another owner's layer 1 does.
    if (obstacle == conversation::Obstacle::not_installed) one.book->forget_all();
    if (failed.empty()) {
      one.descriptor = one.feed->descriptor();
      one.next = one.reader->due();
      one.pause = retry_pause;
      if (reported_.erase(one.book->name()) > 0)
        recovered =
            fmt::format("fence changes of database \"{}\" are watched again", one.book->name());
    } else {
      --open_;
      ++failures_;
      one.descriptor = -1;
      one.next = Clock::now() + one.pause;
      one.pause = std::min(one.pause * 2, retry_pause_max);
      if (reported_.size() > databases_known_max) reported_.clear();
      const auto [entry_of, first] = reported_.try_emplace(one.book->name(), obstacle);
      // The same obstacle is logged once until it is gone.
      if (!first && std::exchange(entry_of->second, obstacle) == obstacle) failed.clear();
    }
  }
  if (!failed.empty()) options_.failed(failed);
  if (!recovered.empty()) options_.recovered(recovered);
  wake();
}

}  // namespace termgate::authority
