// Keeps a FenceBook up to date with its database: decides which scopes to read, and when. It has no
// thread: others call turn(), one at a time.
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

// The scope that a notification names: {"scope": …, "term": …, "schema": …} as json_build_object
// writes it. nullopt: it is malformed, of another schema, or not a scope.
std::optional<std::string> hinted_scope(std::string_view payload, std::string_view schema);

class FenceReader {
 public:
  using Clock = std::chrono::steady_clock;

  // Both may throw what Database throws.
  struct Source {
    std::function<std::vector<FenceInfo>(const std::string& after, int limit)> page;
    std::function<std::optional<FenceInfo>(const std::string& scope)> one;
  };
  // `pause`: between two reads of all fences. If they fit on one page, a thirtieth of it or a
  // second, whichever is longer, but no more than `pause`.
  FenceReader(FenceBook& book, Source source, std::string schema, std::size_t scopes_max,
              std::chrono::milliseconds pause);

  // Reads what is due according to `heard`, the book's suspects and the clock, and records it in
  // the book. Throws what the source throws. The hints and suspects are lost then, so call
  // read_all_next() or discard the reader.
  void turn(const detail::FenceFeed::Heard& heard);
  // The next turn reads all fences, because notifications may have been missed.
  void read_all_next() noexcept { read_again_ = {}; }
  // When the next turn is due, even without a notification.
  Clock::time_point due() const;
  // Interrupts a turn that reads very many fences. Any thread.
  void stop() noexcept { stopping_ = true; }

 private:
  void read_one(const std::string& scope);
  bool read_all();  // true: they were one page

  FenceBook& book_;
  const Source source_;
  const std::string schema_;
  const std::size_t scopes_max_;
  const std::chrono::milliseconds pause_;
  Clock::time_point read_again_{};  // when all are read again
  Clock::time_point not_before_{};  // after a flood of hints
  // A flood of hints came, and all fences are to be read at not_before_.
  bool owing_ = false;
  Clock::time_point turned_{};
  std::atomic<bool> stopping_{false};
};

}  // namespace termgate::authority
