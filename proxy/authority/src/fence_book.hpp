// The fences of one database that are known: lower bounds, from what FenceReader has read in its
// `fences`, and from the proxy's own acquisitions and raises there. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <termgate/database.hpp>
#include <termgate/detail/fence_memory.hpp>
#include <termgate/info.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::authority {

class FenceBook final : public conversation::Fences {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t suspects_max = 50;  // above this number all fences are read

  struct Events {
    std::function<void(const FenceBook&, std::string_view scope, std::int64_t fence)> rose;
    // A session has called for the first time since quiet(), or there is a scope to read.
    std::function<void(FenceBook&)> wanted;
  };
  // `name`: the database's name, for messages; empty: the one of --backend. The events are called
  // by the thread that calls a member.
  FenceBook(std::string name, std::size_t scopes_max, Events events);

  // --- for sessions ---
  std::uint64_t id() const override { return id_; }
  std::int64_t highest(std::string_view scope) const override;
  void hint(std::string_view scope, std::int64_t fence) override;
  std::string untrusted(std::string_view scope) const override;

  // --- for the reader ---
  const std::string& name() const noexcept { return name_; }
  // Whether the fences are being read now. What was read before a connection was lost is kept: a
  // database that was restored meanwhile may have lost fences.
  void set_watched(bool watched) noexcept { watched_ = watched; }
  bool watched() const noexcept { return watched_; }
  // When a session last called highest() or hint().
  Clock::time_point requested_at() const noexcept {
    return Clock::time_point(Clock::duration(requested_at_.load(std::memory_order_relaxed)));
  }
  bool wanted() const noexcept { return wanted_; }
  void quiet() noexcept { wanted_ = false; }
  void forget_all();

  // The scopes that hint() has named since the last call. Their fences are to be read.
  struct Suspects {
    std::set<std::string> scopes;
    bool all = false;  // there are more than suspects_max: all fences are to be read
  };
  Suspects take_suspects();
  bool has_suspects() const;
  // Adds untrusted scopes until there are suspects_max.
  void add_untrusted(std::set<std::string>& scopes) const;
  bool any_untrusted() const noexcept { return any_untrusted_; }

  std::int64_t remembered(const std::string& scope) const { return memory_.highest(scope); }
  // `info` was just read; `remembered`: what was remembered before that read.
  void took(const FenceInfo& info, std::int64_t remembered);
  // For a fence from an acquisition or a raise on our own connection, or one that was just read.
  void believe(const std::string& scope, std::int64_t fence);

 private:
  struct Untrusted {
    std::string message;
    std::optional<std::int64_t>
        reset_from;  // as it was then; a later reset makes the scope trusted again
  };

  void want() const;

  const std::uint64_t id_;
  const std::string name_;
  const Events events_;
  detail::FenceMemory memory_;
  std::size_t scopes_max_;
  std::atomic<bool> watched_{false};
  mutable std::atomic<bool> wanted_{false};
  mutable std::atomic<Clock::rep> requested_at_{0};

  mutable std::mutex untrusted_mutex_;  // guards untrusted_
  std::map<std::string, Untrusted, std::less<>> untrusted_;
  std::atomic<bool> any_untrusted_{false};  // read without the lock, at every write

  mutable std::mutex suspects_mutex_;  // guards the two below
  std::set<std::string> suspects_;
  bool all_suspect_ = false;
};

}  // namespace termgate::authority
