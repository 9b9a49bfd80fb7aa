// Keeps a FenceBook in step with its database: which scopes to read, and when. It owns no thread: whoever has one calls turn(), one at a
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/detail/fence_feed.hpp>
#include <termgate/info.hpp>

#include "fence_book.hpp"

namespace termgate::authority {

// The scope that a notification names: {"scope": …, "term": …, "schema": …} as json_build_object writes it. None: malformed, of another
// schema, or no scope.
std::optional<std::string> hinted_scope(std::string_view payload, std::string_view schema);

class FenceReader {
 public:
  using Clock = std::chrono::steady_clock;

  // Both may throw, what Database does.
  struct Source {
    std::function<std::vector<FenceInfo>(const std::string& after, int limit)> page;
    std::function<std::optional<FenceInfo>(const std::string& scope)> one;
  };
  // `pause`: between two readings of all fences; where they are one page, a thirtieth of it, but a second or more.
  FenceReader(FenceBook& book, Source source, std::string schema, std::size_t scopes_max, std::chrono::milliseconds pause);

  // Reads what `heard`, the book's suspects and the clock ask for, and takes it into the book. Throws what the source does; the next turn
  // reads all.
  void turn(const detail::FenceFeed::Heard& heard);
  // What was announced may have been missed.
  void read_all_next() noexcept { read_again_ = {}; }
  // When the next turn is due, whatever is heard.
  Clock::time_point due() const;
  // Ends a turn that reads very many fences. Any thread.
  void stop() noexcept { stopping_ = true; }

 private:
  void read_one(const std::string& scope);
  bool read_all();  // whether they were one page

  FenceBook& book_;
  const Source source_;
  const std::string schema_;
  const std::size_t scopes_max_;
  const std::chrono::milliseconds pause_;
  Clock::time_point read_again_{};  // all of them
  Clock::time_point not_before_{};  // after a flood
  bool owing_ = false;              // a flood was heard, and all are to be read once that time has come
  Clock::time_point turned_{};
  std::atomic<bool> stopping_{false};
};

}  // namespace termgate::authority
