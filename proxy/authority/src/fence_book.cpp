#include "fence_book.hpp"

#include <utility>

#include <fmt/format.h>

#include <termgate/scope.hpp>

namespace termgate::authority {
namespace {

constexpr std::size_t doubts_max = 10'000;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

FenceBook::FenceBook(std::string name, std::size_t scopes_max, Events events)
    : id_(next_id()), name_(std::move(name)), events_(std::move(events)), memory_(scopes_max), scopes_max_(scopes_max) {}

void FenceBook::want() const {
  asked_at_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  if (!wanted_.load(std::memory_order_relaxed) && !wanted_.exchange(true)) events_.wanted(const_cast<FenceBook&>(*this));
}

std::int64_t FenceBook::highest(std::string_view scope) const {
  want();
  return memory_.highest(std::string(scope));
}

void FenceBook::hint(std::string_view scope, std::int64_t fence) {
  want();
  if (!watched_ || name_problem(scope) != nullptr || memory_.highest(std::string(scope)) == fence) return;
  {
    const std::lock_guard lock(suspects_mutex_);
    if (all_suspect_) return;
    if (suspects_.size() >= suspects_max) {
      all_suspect_ = true;
      suspects_.clear();
    } else if (!suspects_.insert(std::string(scope)).second) {
      return;
    }
  }
  events_.wanted(*this);
}

std::string FenceBook::doubt(std::string_view scope) const {
  if (!doubtful_) return {};
  const std::lock_guard lock(doubts_mutex_);
  const auto found = scope.empty() ? doubts_.begin() : doubts_.find(scope);
  return found == doubts_.end() ? std::string() : found->second.message;
}

FenceBook::Suspects FenceBook::take_suspects() {
  const std::lock_guard lock(suspects_mutex_);
  return {std::exchange(suspects_, {}), std::exchange(all_suspect_, false)};
}

bool FenceBook::has_suspects() const {
  const std::lock_guard lock(suspects_mutex_);
  return all_suspect_ || !suspects_.empty();
}

void FenceBook::add_doubtful(std::set<std::string>& scopes) const {
  const std::lock_guard lock(doubts_mutex_);
  for (auto doubt = doubts_.begin(); doubt != doubts_.end() && scopes.size() < suspects_max; ++doubt) scopes.insert(doubt->first);
}

void FenceBook::forget_all() {
  memory_.forget_all();
  take_suspects();
  const std::lock_guard lock(doubts_mutex_);
  doubts_.clear();
  doubtful_ = false;
}

void FenceBook::believe(const std::string& scope, std::int64_t fence) {
  if (memory_.highest(scope) >= fence) return;
  memory_.saw(scope, fence);
  events_.rose(*this, scope, fence);
}

void FenceBook::took(const FenceInfo& info, std::int64_t remembered) {
  const auto reset_since_doubt = [&] {
    const std::lock_guard lock(doubts_mutex_);
    const auto found = doubts_.find(info.scope);
    return found != doubts_.end() && info.reset_from && info.reset_from != found->second.reset_from;
  };
  if (info.term >= remembered) {
    believe(info.scope, info.term);
  } else if ((info.reset_from && *info.reset_from >= remembered) || reset_since_doubt()) {
    // An audited reset took it down.
    memory_.forget(info.scope);
    memory_.saw(info.scope, info.term);
  } else {
    const std::lock_guard lock(doubts_mutex_);
    if (doubts_.size() < doubts_max) {
      const auto [doubt, added] = doubts_.try_emplace(info.scope, Doubt{{}, info.reset_from});
      doubt->second.message = fmt::format("TG004 fence in doubt for scope \"{}\": the database{} shows {}, this proxy has seen {}; was the database restored? "
                                          "Then: termgate fence declare-restored --scope '{}' --above N, the highest term that was ever issued for it",
                                          info.scope, name_.empty() ? std::string() : fmt::format(" \"{}\"", name_), info.term, remembered, info.scope);
      doubtful_ = true;
    }
    return;
  }
  const std::lock_guard lock(doubts_mutex_);
  if (doubts_.empty()) return;
  doubts_.erase(info.scope);
  doubtful_ = !doubts_.empty();
}

}  // namespace termgate::authority
