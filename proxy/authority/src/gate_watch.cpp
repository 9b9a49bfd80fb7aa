// Finds out which gates of this proxy's sessions a raise waits for (docs/decisions/0011).
//
// Two threads, so that a query that hangs is noticed: ask() queries the database, keep_time()
// checks the time of the last answer and reports all gates as wanted if that is too long ago.
// `mutex_` guards the map and the time; the database and the callbacks are called without it.
#include "gate_watch.hpp"

#include <cstdint>
#include <exception>
#include <utility>

namespace termgate::authority {

namespace {

// Between two queries while no gate is held; `unsettled` after a failure or while something
// prevents seats, to notice soon when that is over. When the first gate is held, ask() queries at
// once.
constexpr std::chrono::seconds unwatched_pause{60}, unsettled_pause{5};

}  // namespace

GateWatch::GateWatch(std::unique_ptr<detail::GateFeed> feed, std::chrono::milliseconds pause,
                     std::chrono::milliseconds answer_max, Events events)
    : feed_(std::move(feed)), pause_(pause), answer_max_(answer_max), events_(std::move(events)) {
  asking_ = std::thread([this] { ask(); });
  try {
    time_ = std::thread([this] { keep_time(); });
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    asking_.join();
    throw;
  }
}

GateWatch::~GateWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  time_.join();
  asking_.join();
}

void GateWatch::held(std::string_view scope) {
  {
    const std::lock_guard lock(mutex_);
    // Without a held gate the last answer may be a minute old, so the time counts from here.
    if (held_.empty()) answered_ = Clock::now();
    const auto found = held_.find(scope);
    if (found != held_.end()) {
      ++found->second;
      return;
    }
    held_.emplace(scope, 1);
    if (held_.size() > 1) return;
  }
  changed_.notify_all();
}

void GateWatch::left(std::string_view scope) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(scope);
  if (found != held_.end() && --found->second == 0) held_.erase(found);
}

std::vector<std::string> GateWatch::scopes() const {
  std::vector<std::string> all;
  for (const auto& [scope, sessions] : held_) all.push_back(scope);
  return all;
}

void GateWatch::ask() {
  enum class Said : std::uint8_t { nothing, note, failure } said = Said::nothing;
  bool prevented = false, settled = false;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::vector<std::string> asked = scopes();
    lock.unlock();
    try {
      // Queries even if no gate is held, so that the connection exists, and the procedure is
      // compiled, when the first one is.
      for (const std::string& scope : feed_->wanted(asked)) events_.wanted(scope, true);
      if (said != Said::nothing &&
          events_.noted("raises that wait for sessions of this proxy are known again"))
        said = Said::nothing;
      const bool prevents = feed_->code_prevents_seats();
      if (prevents != prevented &&
          events_.noted(
              prevents ? "no session takes a seat: this database has code of its own that names "
                         "Termgate or may declare a term"
                       : "sessions may take seats again: no code of this database prevents it"))
        prevented = prevents;
      settled = !prevents && said == Said::nothing;
      lock.lock();
      answered_ = Clock::now();
    } catch (const std::exception& error) {
      // While nothing is held, a failure costs speed at most.
      const Said now = asked.empty() ? Said::note : Said::failure;
      const std::string message = std::string(
                                      "cannot ask which raises wait for sessions of this proxy "
                                      "(retrying; until then they take no seats, and give gates "
                                      "back early): ") +
                                  error.what();
      if (said < now && now == Said::failure) events_.failed(message), said = now;
      if (said < now && events_.noted(message)) said = now;
      settled = false;
      lock.lock();
    }
    if (held_.empty())
      changed_.wait_for(lock, settled ? unwatched_pause : unsettled_pause,
                        [this] { return stopping_ || !held_.empty(); });
    else changed_.wait_for(lock, pause_, [this] { return stopping_; });
  }
}

void GateWatch::keep_time() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, answer_max_ / 2, [this] { return stopping_; });
    if (stopping_ || held_.empty()) {
      if (!stopping_) changed_.wait(lock, [this] { return stopping_ || !held_.empty(); });
      continue;
    }
    if (Clock::now() - answered_ <= answer_max_) continue;
    const std::vector<std::string> all = scopes();
    lock.unlock();
    for (const std::string& scope : all) events_.wanted(scope, false);
    lock.lock();
  }
}

}  // namespace termgate::authority
