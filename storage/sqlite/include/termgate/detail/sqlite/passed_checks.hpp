// The checks that the open transaction has passed. They are kept in the connection's memory, where
// no statement of an application can write.
//
// A pass must vanish with the transaction and with a ROLLBACK TO that undoes the raise it may have
// made. The commit and rollback hooks are single slots that belong to the application, so the
// boundaries come from a small virtual table, termgate_transaction: SQLite calls it at every BEGIN,
// COMMIT, ROLLBACK and savepoint of a transaction that it is enlisted in. It has no rows and
// refuses every write.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace sqlite {

struct Pass {
  std::int64_t term;
  int depth;             // savepoints that were open when the check passed
  std::uint64_t raises;  // PassedChecks::raises() when the fence was last compared
};

// An acquisition of the open transaction, in case the same call is made again.
struct Acquired {
  std::string owner;
  std::int64_t ttl_ms;
  std::optional<std::string> endpoint;
  std::int64_t term;
  int depth;
};

// A lease without which the open transaction must not commit.
struct Required {
  std::string scope, owner;
  std::int64_t term;
  int depth;
};

struct ScopeHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view scope) const noexcept {
    return std::hash<std::string_view>{}(scope);
  }
};

class PassedChecks {
 public:
  using Passes = std::unordered_map<std::string, Pass, ScopeHash, std::equal_to<>>;

  // nullptr if the transaction has not passed `scope`.
  Pass* find(std::string_view scope);
  const Passes& passes() const noexcept { return passes_; }
  void record(std::string scope, std::int64_t term);
  // nullptr if the transaction has acquired no lease of `scope`. The entry is dropped with the
  // transaction and by a ROLLBACK TO.
  const Acquired* acquired(std::string_view scope) const;
  void acquired(const std::string& scope, const std::string& owner, std::int64_t ttl_ms,
                const std::optional<std::string>& endpoint, std::int64_t term);
  const std::vector<Required>& required() const noexcept { return required_; }
  void require(const std::string& scope, const std::string& owner, std::int64_t term) {
    required_.push_back({scope, owner, term, depth_});
  }
  void clear() noexcept {
    passes_.clear();
    acquired_.clear();
    required_.clear();
  }

  bool tracking() const noexcept { return tracking_; }
  // Grows whenever a fence may have changed since a pass, so that the pass is compared again.
  std::uint64_t raises() const noexcept { return raises_; }
  void fence_changed() noexcept { ++raises_; }

  // These are called by the virtual table. `known`: the passes so far belong to this transaction,
  // because the driver has cleared earlier ones.
  void began(bool known) noexcept;
  void ended() noexcept;
  void savepoint(int index) noexcept { depth_ = index + 1; }
  void released(int index) noexcept;
  void rolled_back_to(int index) noexcept;

 private:
  Passes passes_;
  // The last one counts; earlier ones count again if a ROLLBACK TO drops it.
  std::unordered_map<std::string, std::vector<Acquired>, ScopeHash, std::equal_to<>> acquired_;
  std::vector<Required> required_;
  bool tracking_ = false;
  int depth_ = 0;
  std::uint64_t raises_ = 0;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
