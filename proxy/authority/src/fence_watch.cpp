// The thread waits for a notification or the end of a pause, and then calls the reader. From the
// feed the proxy also learns which database that is, which server has it, and who owns its layer 1.
#include "fence_watch.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/info.hpp>
#include <termgate/scope.hpp>

namespace termgate::authority {

using conversation::Obstacle;
using std::chrono::milliseconds;
using Clock = FenceReader::Clock;

namespace {

constexpr milliseconds retry_pause{1000};

}  // namespace

// For a failed connection libpq has no SQLSTATE, so its message decides. In a message of the
// server, two spaces follow the severity, in any language.
Obstacle obstacle_of(const std::exception& error) {
  if (dynamic_cast<const Unavailable*>(&error) == nullptr) return Obstacle::not_installed;
  const std::string_view text = error.what();
  const auto says = [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (says("the database system is") || says("too many") || says("remaining connection slots"))
    return Obstacle::unreachable;
  for (const std::string_view part :
       {"FATAL", ":  ", "SSL", "certificate", "password", "authentication"}) {
    if (says(part)) return Obstacle::login_refused;
  }
  return Obstacle::unreachable;
}

FenceWatch::FenceWatch(FenceBook& book, Database database, std::unique_ptr<detail::FenceFeed> feed,
                       std::string schema, milliseconds pause, Events events)
    : book_(book),
      database_(std::move(database)),
      feed_(std::move(feed)),
      schema_(std::move(schema)),
      pause_(pause),
      events_(std::move(events)),
      reader_(book_,
              {[this](const std::string& after, int limit) {
                 return Info(database_).fences(after, limit);
               },
               [this](const std::string& scope) { return Info(database_).fence(Scope(scope)); }},
              schema_, detail::FenceMemory::scopes_max, pause_),
      thread_([this] { run(); }) {}

FenceWatch::~FenceWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  reader_.stop();
  changed_.notify_all();
  if (feed_) feed_->wake();
  thread_.join();
}

void FenceWatch::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
  if (feed_) feed_->wake();
}

void FenceWatch::sleep(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stopping_; });
}

void FenceWatch::run() {
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  bool known = false;
  // An obstacle is logged when it differs from the one before, so a server that is down for an hour
  // makes one line.
  Obstacle reported = Obstacle::none;
  detail::FenceFeed::Heard heard;
  while (!stopping()) {
    try {
      const auto left = std::clamp(std::chrono::ceil<milliseconds>(reader_.due() - Clock::now()),
                                   milliseconds(0), pause_);
      if (feed_) heard = feed_->wait(left);
      {
        std::unique_lock lock(mutex_);
        if (!feed_) changed_.wait_for(lock, left, [this] { return stopping_ || woken_; });
        woken_ = false;
        if (stopping_) return;
      }
      if (feed_ && heard.connected_anew) {
        const auto place = feed_->place();
        const std::lock_guard lock(mutex_);
        served_by_ = {place.host, place.port};
      }
      if (feed_ && !known) {
        events_.known(feed_->database(), feed_->owner());
        known = true;
      }
      reader_.turn(heard);
      book_.set_watched(true);
      obstacle_ = Obstacle::none;
      if (std::exchange(reported, Obstacle::none) != Obstacle::none)
        events_.recovered("fence changes are watched again");
    } catch (const std::exception& error) {
      book_.set_watched(false);
      ++failures_;
      const Obstacle obstacle = obstacle_of(error);
      obstacle_ = obstacle;
      if (std::exchange(reported, obstacle) != obstacle)
        events_.failed(fmt::format("cannot watch for fence changes (retrying): {}", error.what()));
      // Notifications that came while the connection was lost are missing.
      reader_.read_all_next();
      sleep(retry_pause);
    }
  }
}

}  // namespace termgate::authority
