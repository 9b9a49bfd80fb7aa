// The highest fences that this process has seen: a lower bound of the truth, never the truth.
// Internal. Any thread.
//
// It serves two purposes. A term above the remembered fence is raised in a transaction of its own
// before the write that needs it, so that the exclusive lock is held briefly. And a database that
// shows a lower fence than the one remembered here has forgotten a raise (F3, TG004).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace termgate {
inline namespace v0 {
namespace detail {

class FenceMemory {
 public:
  // Forgetting is always safe, so a full memory drops an arbitrary scope. About 100 bytes a scope.
  static constexpr std::size_t scopes_max = 100'000;

  explicit FenceMemory(std::size_t most = scopes_max) : most_(most) {}

  // 0 when nothing is known of the scope.
  std::int64_t highest(const std::string& scope) const;
  void saw(const std::string& scope, std::int64_t fence);
  // An audited reset may have lowered the fence, so the remembered one no longer holds.
  void forget(const std::string& scope);
  void forget_all();

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;  // guards highest_
  std::unordered_map<std::string, std::int64_t> highest_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
