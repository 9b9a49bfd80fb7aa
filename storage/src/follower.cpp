// Follower: one thread that reads how far its position is behind (a look), passes each write to the
// user's function, and saves the position after a page.
#include <termgate/follower.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/fence_feed.hpp>
#include <termgate/error.hpp>
#include <termgate/followers.hpp>
#include <termgate/info.hpp>

#include "database_state.hpp"

namespace termgate {
inline namespace v0 {

using std::chrono::milliseconds;
using namespace std::chrono_literals;
using Kind = FollowerNews::Kind;

namespace {

constexpr milliseconds first_pause = 10ms;   // between two looks, if there are no notifications
constexpr milliseconds first_retry = 100ms;  // after a failure
constexpr milliseconds last_retry = 5s;
constexpr milliseconds listen_again = 5s;  // after an attempt to listen has failed
constexpr int streams_a_look = 1000;
constexpr auto missing_is_told_after = 5s;

// The message of the current exception.
std::string why() {
  try {
    throw;
  } catch (const std::exception& error) { return error.what(); } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

FollowerOptions checked(FollowerOptions options) {
  if (options.page_writes < 1 || options.page_writes > 100'000)
    throw InvalidInput("TG005 a follower's page_writes is from 1 to 100000");
  if (options.page_bytes < 1) throw InvalidInput("TG005 a follower's page_bytes is 1 or more");
  if (options.poll && (*options.poll < 10ms || *options.poll > 1h))
    throw InvalidInput("TG005 a follower's poll is from 10 ms to 1 h");
  return options;
}

}  // namespace

class Follower::Inside {
 public:
  Inside(Database database, std::string name, FollowedBy followed, Apply apply,
         FollowerOptions options)
      : database_(std::move(database)),
        name_(std::move(name)),
        apply_(std::move(apply)),
        options_(checked(std::move(options))),
        run_(Followers(database_).start(name_, followed, options_.from_end)),
        feed_(options_.listen ? detail::state_of(database_).stream_feed() : nullptr) {
    thread_ = std::thread([this] { follow(); });
  }

  ~Inside() { stop(); }

  bool running() const {
    const std::lock_guard lock(mutex_);
    return !ended_;
  }
  std::int64_t lag() const {
    const std::lock_guard lock(mutex_);
    return lag_;
  }
  std::int64_t handled() const {
    const std::lock_guard lock(mutex_);
    return handled_;
  }
  FollowerStats stats() const {
    const std::lock_guard lock(mutex_);
    return {name_, !ended_, lag_, handled_, refused_};
  }
  bool fresh(milliseconds bound) const {
    const std::lock_guard lock(mutex_);
    return caught_up_ && BootClock::now() - *caught_up_ <= bound;
  }

  bool catch_up(milliseconds at_most) {
    const auto asked = BootClock::now();
    const auto done = [&] { return ended_ || (caught_up_ && *caught_up_ >= asked); };
    std::unique_lock lock(mutex_);
    if (!done()) wake(lock);
    changed_.wait_for(lock, at_most, done);
    return caught_up_ && *caught_up_ >= asked;
  }

  void stop() {
    {
      std::unique_lock lock(mutex_);
      stop_ = true;
      wake(lock);
    }
    // The function may call it, and its thread cannot wait for itself.
    if (own_.load() == std::this_thread::get_id()) return;
    const std::lock_guard turn(joining_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  // What a look at the database has shown of one stream, and how far this object has come in it.
  struct Place {
    std::int64_t saved = 0;    // the position in the database
    std::int64_t handled = 0;  // how far this object has come: at least `saved`
    std::optional<BootClock::time_point> missing_since;
  };

  // Takes the lock to prove that the caller holds it: `woken_` is guarded by it.
  void wake(std::unique_lock<std::mutex>&) {
    woken_ = true;
    changed_.notify_all();
    if (feed_) feed_->wake();
  }
  bool stopping() const {
    const std::lock_guard lock(mutex_);
    return stop_;
  }
  void tell(Kind kind, std::string text, const std::optional<std::string>& stream = {}) const {
    if (options_.news) options_.news({kind, std::move(text), stream});
  }

  // Looks until stop(), a takeover, or pruned writes that end the follower. After each failure it
  // pauses longer.
  void follow() {
    own_ = std::this_thread::get_id();
    milliseconds pause = first_pause, retry = first_retry;
    while (!stopping() && !over_) {
      Round result = Round::failed;
      try {
        listen(0ms);
        result = round();
      } catch (const std::exception& error) { tell(Kind::failed, error.what()); }
      if (over_ || stopping()) break;
      if (result == Round::failed) {
        sleep(by_chance(retry));
        retry = std::min(retry * 2, last_retry);
        continue;
      }
      retry = first_retry;
      pause = result == Round::nothing ? std::min(pause * 2, longest_pause()) : first_pause;
      if (result == Round::more) continue;
      if (listening_) listen(longest_pause());
      else sleep(by_chance(pause));
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  milliseconds longest_pause() const { return options_.poll.value_or(listening_ ? 1000ms : 200ms); }
  milliseconds by_chance(milliseconds time) {
    return time / 2 + milliseconds(std::uniform_int_distribution<std::int64_t>(
                          0, time.count() / 2 + 1)(chance_));
  }

  // Waits for a notification, wake() or the timeout; connects instead if it does not listen yet. 0:
  // only connects.
  void listen(milliseconds at_most) {
    if (!feed_ || (listening_ && at_most == 0ms)) return;
    if (!listening_ && BootClock::now() < listen_at_) return;
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || std::exchange(woken_, false)) return;
    }
    try {
      // The notification only triggers a look, which shows whether it concerns this follower. A new
      // connection triggers one as well.
      feed_->wait(at_most);
      listening_ = true;
    } catch (const Error& error) {
      if (listening_)
        tell(Kind::failed, fmt::format("no notifications, polling instead: {}", error.what()));
      listening_ = false;
      listen_at_ = BootClock::now() + listen_again;
    }
  }

  void sleep(milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return stop_ || woken_; });
    woken_ = false;
  }

  // The result of one look after its writes were handled. failed: something is left. more: there
  // was more than one look shows.
  enum class Round { nothing, all, more, failed };
  Round round() {
    // Read before the request: what is committed after this moment may be missing from the answer.
    const auto looked = BootClock::now();
    const FollowerBehind behind = Followers(database_).behind(name_, streams_a_look);
    if (behind.run != run_) {
      over_ = true;
      tell(
          Kind::taken,
          behind.run == 0
              ? fmt::format("follower \"{}\" was removed", name_)
              : fmt::format("follower \"{}\" was started elsewhere, and is followed there", name_));
      return Round::failed;
    }
    set_lag(behind);
    bool failed = false;
    for (const FollowerBehind::Stream& one : behind.streams) {
      if (stopping()) return Round::failed;
      Place& place = places_[one.stream];
      place.saved = one.position;
      place.handled = std::max(place.handled, one.position);
      failed = !handle(Stream(one.stream), place, one.last_no) || failed;
      if (over_) return Round::failed;
    }
    if (stopping()) return Round::failed;
    forget_quiet(behind);
    if (failed) return Round::failed;
    if (behind.streams.size() >= streams_a_look) return Round::more;
    const std::lock_guard lock(mutex_);
    caught_up_ = looked;
    lag_ = 0;
    changed_.notify_all();
    return behind.streams.empty() ? Round::nothing : Round::all;
  }

  void set_lag(const FollowerBehind& behind) {
    std::int64_t lag = behind.behind;
    for (const FollowerBehind::Stream& one : behind.streams) {
      const auto place = places_.find(one.stream);
      if (place != places_.end())
        lag -= std::max<std::int64_t>(place->second.handled - one.position, 0);
    }
    const std::lock_guard lock(mutex_);
    lag_ = std::max<std::int64_t>(lag, 0);
  }

  // A scope may have many streams, so streams whose position is saved are forgotten.
  void forget_quiet(const FollowerBehind& behind) {
    if (places_.size() <= behind.streams.size() + streams_a_look) return;
    for (auto place = places_.begin(); place != places_.end();)
      place =
          place->second.handled == place->second.saved ? places_.erase(place) : std::next(place);
  }

  // Handles pages up to `last_no`. False: it stopped before that.
  bool handle(const Stream& stream, Place& place, std::int64_t last_no) {
    while (place.handled < last_no) {
      std::vector<StreamWrite> page = Info(database_).read_stream(
          stream, SequenceNo(place.handled), options_.page_writes, options_.page_bytes);
      if (page.empty() || page.front().sequence_no.value() != place.handled + 1) {
        if (!pass_gap(stream, place)) return false;
        continue;
      }
      bool refused = false;
      for (const StreamWrite& write : page) {
        if (stopping()) break;
        // A number may be missing inside the page: the next page begins with that gap.
        if (write.sequence_no.value() != place.handled + 1) break;
        try {
          apply_(stream, write);
        } catch (...) {
          refused = true;
          count_refusal();
          tell(Kind::refused,
               fmt::format("write {} of stream \"{}\" was refused: {}", write.sequence_no.value(),
                           stream.name(), why()),
               stream.name());
          break;
        }
        place.handled = write.sequence_no.value();
        place.missing_since.reset();
        const std::lock_guard lock(mutex_);
        ++handled_;
        lag_ = std::max<std::int64_t>(lag_ - 1, 0);
      }
      // Saved after a refusal too, so that what came before the refused write is not passed again.
      if (!save(stream, place)) return false;
      if (refused) return false;
      if (stopping()) return true;
    }
    return save(stream, place);
  }

  void count_refusal() {
    const std::lock_guard lock(mutex_);
    ++refused_;
  }

  bool save(const Stream& stream, Place& place) {
    if (place.handled == place.saved) return true;
    const FollowerMove moved = Followers(database_).advance(
        name_, run_, stream, SequenceNo(place.saved), SequenceNo(place.handled));
    if (moved == FollowerMove::moved) {
      place.saved = place.handled;
      return true;
    }
    if (moved == FollowerMove::taken) {
      over_ = true;
      tell(Kind::taken,
           fmt::format("follower \"{}\" was started elsewhere, and is followed there", name_));
    }
    // FollowerMove::elsewhere: an earlier save was made, but its answer was lost. The next look
    // shows the position.
    return false;
  }

  // The next write is missing. True: it was pruned, and the follower goes on after it
  // (skip_pruned). False: it was pruned, and the follower ends; or it was not, and the follower
  // waits for it.
  bool pass_gap(const Stream& stream, Place& place) {
    const auto info = Info(database_).stream(stream);
    const std::int64_t first = info && info->first_no ? *info->first_no
                               : info                 ? info->last_no + 1
                                                      : 0;
    if (first > place.handled + 1) {
      const std::string which = fmt::format(
          "writes {} to {} of stream \"{}\" were pruned before follower \"{}\" had handled them",
          place.handled + 1, first - 1, stream.name(), name_);
      over_ = !options_.skip_pruned;
      tell(Kind::pruned, which, stream.name());
      if (over_) return false;
      place.handled = first - 1;
      return true;
    }
    const auto now = BootClock::now();
    if (!place.missing_since) {
      place.missing_since = now;
    } else if (now - *place.missing_since > missing_is_told_after) {
      place.missing_since = now;
      tell(Kind::missing,
           fmt::format("write {} of stream \"{}\" is not there and was not pruned: follower \"{}\" "
                       "waits for it",
                       place.handled + 1, stream.name(), name_),
           stream.name());
    }
    return false;
  }

  Database database_;
  const std::string name_;
  const Apply apply_;
  const FollowerOptions options_;
  const std::int64_t run_;
  const std::unique_ptr<detail::FenceFeed> feed_;  // none: it polls

  // For the thread only.
  std::map<std::string, Place> places_;
  bool listening_ = false;
  bool over_ = false;
  BootClock::time_point listen_at_{};
  std::minstd_rand chance_{std::random_device{}()};

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stop_ = false, woken_ = false, ended_ = false;
  std::int64_t lag_ = 0, handled_ = 0, refused_ = 0;
  std::optional<BootClock::time_point>
      caught_up_;  // everything that was committed by then has been handled

  std::atomic<std::thread::id> own_{};  // the id of thread_, once it runs
  std::mutex joining_;                  // guards thread_
  std::thread thread_;
};

Follower::Follower(Database database, std::string name, Stream stream, Apply apply,
                   FollowerOptions options)
    : inside_(std::make_unique<Inside>(std::move(database), std::move(name),
                                       FollowedBy{.stream = stream.name()}, std::move(apply),
                                       std::move(options))) {}
Follower::Follower(Database database, std::string name, Scope scope, Apply apply,
                   FollowerOptions options)
    : inside_(std::make_unique<Inside>(std::move(database), std::move(name),
                                       FollowedBy{.scope = scope.name()}, std::move(apply),
                                       std::move(options))) {}
Follower::~Follower() = default;
bool Follower::running() const { return inside_->running(); }
std::int64_t Follower::lag() const { return inside_->lag(); }
std::int64_t Follower::handled() const { return inside_->handled(); }
FollowerStats Follower::stats() const { return inside_->stats(); }
bool Follower::fresh(milliseconds bound) const { return inside_->fresh(bound); }
bool Follower::catch_up(milliseconds at_most) { return inside_->catch_up(at_most); }
void Follower::stop() { inside_->stop(); }

}  // namespace v0
}  // namespace termgate
