// The checks that the open transaction has passed, and at which depth of savepoints
// (passed_checks.hpp). A pass that outlives its reason would let a stale write through, so it is
// dropped in every case of doubt.
#include <termgate/detail/sqlite/passed_checks.hpp>

#include <algorithm>
#include <utility>

namespace termgate {
inline namespace v0 {
namespace sqlite {

Pass* PassedChecks::find(std::string_view scope) {
  const auto found = passes_.find(scope);
  return found != passes_.end() ? &found->second : nullptr;
}

void PassedChecks::record(std::string scope, std::int64_t term) {
  passes_.insert_or_assign(std::move(scope), Pass{term, depth_, raises_});
}

const Acquired* PassedChecks::acquired(std::string_view scope) const {
  const auto found = acquired_.find(scope);
  return found != acquired_.end() ? &found->second.back() : nullptr;
}

void PassedChecks::acquired(const std::string& scope, const std::string& owner, std::int64_t ttl_ms,
                            const std::optional<std::string>& endpoint, std::int64_t term) {
  acquired_[scope].push_back(Acquired{owner, ttl_ms, endpoint, term, depth_});
}

// Increases the count of raises, so that a pass that was recorded before the transaction was
// tracked is compared again.
void PassedChecks::began(bool known) noexcept {
  if (!known) clear();
  tracking_ = true;
  depth_ = 0;
  ++raises_;
}

void PassedChecks::ended() noexcept {
  clear();
  tracking_ = false;
  depth_ = 0;
  ++raises_;
}

// Savepoints are numbered from 0; -1 is the savepoint that began the transaction itself.
void PassedChecks::released(int index) noexcept {
  depth_ = std::max(index, 0);
  for (auto& [scope, pass] : passes_) pass.depth = std::min(pass.depth, depth_);
  for (auto& [scope, leases] : acquired_) {
    for (Acquired& lease : leases) lease.depth = std::min(lease.depth, depth_);
  }
  for (Required& lease : required_) lease.depth = std::min(lease.depth, depth_);
}

// Drops passes from inside the savepoint, because the raise that they may have made is undone.
// Earlier ones stay, and are compared again.
void PassedChecks::rolled_back_to(int index) noexcept {
  std::erase_if(passes_, [index](const auto& pass) { return pass.second.depth > index; });
  for (auto& [scope, leases] : acquired_)
    std::erase_if(leases, [index](const Acquired& lease) { return lease.depth > index; });
  std::erase_if(acquired_, [](const auto& of) { return of.second.empty(); });
  std::erase_if(required_, [index](const Required& lease) { return lease.depth > index; });
  depth_ = std::max(index + 1, 0);
  ++raises_;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
