// A map behind a mutex (see fence_memory.hpp). It may forget and may lag behind the database, but
// it must never report a fence that no database has shown: writes are refused on its word.
#include <termgate/detail/fence_memory.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

std::int64_t FenceMemory::highest(const std::string& scope) const {
  const std::lock_guard lock(mutex_);
  const auto found = highest_.find(scope);
  return found == highest_.end() ? 0 : found->second;
}

void FenceMemory::saw(const std::string& scope, std::int64_t fence) {
  const std::lock_guard lock(mutex_);
  // Drops an arbitrary scope. A lost entry costs one round trip to the database, and until the
  // fence is seen again, a raise of that scope that the database has forgotten is not noticed.
  if (highest_.size() >= most_ && !highest_.contains(scope)) highest_.erase(highest_.begin());
  auto& held = highest_[scope];
  // Answers of concurrent calls arrive in any order.
  if (fence > held) held = fence;
}

void FenceMemory::forget(const std::string& scope) {
  const std::lock_guard lock(mutex_);
  highest_.erase(scope);
}

void FenceMemory::forget_all() {
  const std::lock_guard lock(mutex_);
  highest_.clear();
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
