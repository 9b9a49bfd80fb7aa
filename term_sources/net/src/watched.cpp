#include <termgate/sources/watched.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace termgate::sources {
namespace {

using std::chrono::milliseconds;

class Watched final : public LeaseSource {
 public:
  explicit Watched(std::unique_ptr<LeaseSource> source) : source_(std::move(source)) {}

  std::string name() const override { return source_->name(); }
  bool new_term_each_time() const override { return source_->new_term_each_time(); }
  std::vector<std::string> warnings() override {
    const std::lock_guard lock(mutex_);
    return source_->warnings();
  }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const std::lock_guard lock(mutex_);
    auto lease = source_->try_acquire(scope, owner, ttl);
    if (!lease) return lease;
    const auto [seen, first] =
        seen_.try_emplace(scope.name(), Seen{lease->term.value(), lease->identity});
    if (first) return lease;
    const std::int64_t term = lease->term.value(), before = seen->second.highest;
    std::string why;
    if (lease->identity != seen->second.identity)
      why = fmt::format("its data was replaced: it was {} and is {}", seen->second.identity,
                        lease->identity);
    else if (term < before || (term == before && source_->new_term_each_time()))
      why = fmt::format("it issued term {} before, so it has lost what it knew", before);
    if (why.empty()) {
      seen->second.highest = term;
      return lease;
    }
    try {
      source_->release(scope, *lease, owner);
    } catch (const Error&) {}  // a lease that is not released ends with its TTL
    throw StaleTerm(fmt::format("TG001 stale term {} for scope \"{}\" from {}: {}. Raise its terms "
                                "above the fence (`termgate fence show --scope "
                                "…`), then start this program again",
                                term, scope.name(), source_->name(), why),
                    scope.name(), term, before);
  }
  bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
             milliseconds ttl) override {
    const std::lock_guard lock(mutex_);
    return source_->renew(scope, lease, owner, ttl);
  }
  bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) override {
    const std::lock_guard lock(mutex_);
    return source_->release(scope, lease, owner);
  }

 private:
  struct Seen {
    std::int64_t highest;
    std::string identity;
  };
  const std::unique_ptr<LeaseSource> source_;
  std::mutex mutex_;  // guards the calls and seen_
  std::map<std::string, Seen> seen_;
};

}  // namespace

std::shared_ptr<LeaseSource> watched(std::unique_ptr<LeaseSource> source) {
  return std::make_shared<Watched>(std::move(source));
}

}  // namespace termgate::sources
