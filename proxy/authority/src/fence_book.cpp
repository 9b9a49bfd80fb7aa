// What the proxy knows of the fences of one database: the highest fence of each scope, which scopes
// are suspect (a session has hinted at a change), and which are untrusted (the fence is lower than
// before, without an audited reset). A fence is believed only if the proxy has read it (took),
// or if an acquisition or raise of its own has committed (believe). What a session reports is a
// hint to read (F3).
#include "fence_book.hpp"

#include <utility>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/scope.hpp>

namespace termgate::authority {
namespace {

constexpr std::size_t untrusted_max = 10'000;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

FenceBook::FenceBook(std::string name, std::size_t scopes_max, Events events)
    : id_(next_id()),
      name_(std::move(name)),
      events_(std::move(events)),
      memory_(scopes_max),
      scopes_max_(scopes_max) {}

// Wakes the watch only at the first call since quiet(), because sessions call this in every
// transaction.
void FenceBook::want() const {
  requested_at_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  if (!wanted_.load(std::memory_order_relaxed) && !wanted_.exchange(true))
    events_.wanted(const_cast<FenceBook&>(*this));
}

std::int64_t FenceBook::highest(std::string_view scope) const {
  want();
  return memory_.highest(std::string(scope));
}

void FenceBook::hint(std::string_view scope, std::int64_t fence) {
  want();
  if (!watched_ || name_problem(scope) != nullptr || memory_.highest(std::string(scope)) == fence)
    return;
  {
    const std::lock_guard lock(suspects_mutex_);
    if (all_suspect_) return;
    // Too many to read one by one, so all are read.
    if (suspects_.size() >= suspects_max) {
      all_suspect_ = true;
      suspects_.clear();
    } else if (!suspects_.insert(std::string(scope)).second) {
      return;
    }
  }
  events_.wanted(*this);
}

std::string FenceBook::untrusted(std::string_view scope) const {
  if (!any_untrusted_) return {};
  const std::lock_guard lock(untrusted_mutex_);
  const auto found = scope.empty() ? untrusted_.begin() : untrusted_.find(scope);
  return found == untrusted_.end() ? std::string() : found->second.message;
}

FenceBook::Suspects FenceBook::take_suspects() {
  const std::lock_guard lock(suspects_mutex_);
  return {std::exchange(suspects_, {}), std::exchange(all_suspect_, false)};
}

bool FenceBook::has_suspects() const {
  const std::lock_guard lock(suspects_mutex_);
  return all_suspect_ || !suspects_.empty();
}

void FenceBook::add_untrusted(std::set<std::string>& scopes) const {
  const std::lock_guard lock(untrusted_mutex_);
  for (auto one = untrusted_.begin(); one != untrusted_.end() && scopes.size() < suspects_max;
       ++one)
    scopes.insert(one->first);
}

void FenceBook::forget_all() {
  memory_.forget_all();
  take_suspects();
  const std::lock_guard lock(untrusted_mutex_);
  untrusted_.clear();
  any_untrusted_ = false;
}

void FenceBook::believe(const std::string& scope, std::int64_t fence) {
  if (memory_.highest(scope) >= fence) return;
  memory_.saw(scope, fence);
  events_.rose(*this, scope, fence);
}

void FenceBook::took(const FenceInfo& info, std::int64_t remembered) {
  // A later reset shows in a reset_from that differs from the one recorded when the scope was found
  // untrusted.
  const auto reset_since = [&] {
    const std::lock_guard lock(untrusted_mutex_);
    const auto found = untrusted_.find(info.scope);
    return found != untrusted_.end() && info.reset_from &&
           info.reset_from != found->second.reset_from;
  };
  if (info.term >= remembered) {
    believe(info.scope, info.term);
  } else if ((info.reset_from && *info.reset_from >= remembered) || reset_since()) {
    // An audited reset has lowered it.
    memory_.forget(info.scope);
    memory_.saw(info.scope, info.term);
  } else {
    const std::lock_guard lock(untrusted_mutex_);
    if (untrusted_.size() < untrusted_max) {
      const auto [one, added] = untrusted_.try_emplace(info.scope, Untrusted{{}, info.reset_from});
      one->second.message = fmt::format(
          "TG004 fence untrusted for scope \"{}\": the database{} shows {}, this proxy has seen "
          "{}; was the database restored? "
          "Then: termgate fence declare-restored --scope '{}' --above N, the highest term that was "
          "ever issued for it",
          info.scope, name_.empty() ? std::string() : fmt::format(" \"{}\"", name_), info.term,
          remembered, info.scope);
      any_untrusted_ = true;
    }
    return;
  }
  const std::lock_guard lock(untrusted_mutex_);
  if (untrusted_.empty()) return;
  untrusted_.erase(info.scope);
  any_untrusted_ = !untrusted_.empty();
}

}  // namespace termgate::authority
