// The check: the fences of one connection's database, and what a term is compared with (F1, F2,
// F3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <termgate/detail/sqlite/core.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Owned by the connection's Layer1; used by that connection's thread. Every decision is made under
// the database's write lock. The fences that it remembers are compared with SQLite's own count of
// changes before each use.
class Fences {
 public:
  explicit Fences(Core& core) : core_(core) {}

  // Checks the term and returns the fence afterwards. Above the fence it raises, unless this
  // transaction has passed the scope already or only seals may raise the scope.
  std::int64_t check_term(const Scope& scope, Term term);

  struct Receipt {
    std::int64_t fence, previous, evicted;
    Moment sealed_at;
  };
  // Actor and reason are for the audit; give both or neither.
  Receipt seal(const Scope& scope, Term term, const std::optional<std::string>& actor = {},
               const std::optional<std::string>& reason = {});

  struct Fence {
    bool exists = false;
    std::int64_t term = 0;
    std::optional<std::string> raise_by;
    bool untrusted = false;
    bool was_reset = false;
  };
  struct LeaseRow {
    std::string owner;
    std::int64_t term;
    Moment expires_at, renewed_at;
    std::optional<Moment> released_at;
  };
  Fence read(std::string_view scope);
  std::optional<LeaseRow> read_lease(std::string_view scope);
  // MAX(term) of the scope in the database's own rows: stream writes, adopted tables. 0: none.
  std::int64_t evidence(std::string_view scope, bool streams_only, bool was_reset);
  // The fence, or the evidence if the fence has no row.
  std::int64_t height(std::string_view scope, const Fence& fence);
  // Whether a reset has revoked that term of the scope.
  bool taken_back(std::string_view scope, std::int64_t term);

  // The check has two halves, both under the write lock, so that every refusal comes before
  // anything is written: judge compares; admit then writes the raise and records the pass.
  enum class Raise { allowed, refused };
  struct Verdict {
    Fence fence;
    bool raises;
  };
  Verdict judge(const std::string& scope, std::int64_t term, Raise raise, bool with_evidence);
  std::int64_t admit(const std::string& scope, std::int64_t term, const Verdict& verdict);
  // Both halves.
  std::int64_t pass_check(const std::string& scope, std::int64_t term,
                          Raise raise = Raise::allowed) {
    return admit(scope, term, judge(scope, term, raise, false));
  }
  void refuse_untrusted(std::string_view scope, const Fence& fence);
  void refuse_unissued(std::string_view scope, std::int64_t term);
  void refuse_passed(std::string_view scope, const char* what);
  // Writes the raise (or the first row).
  void raise(std::string_view scope, const Fence& fence, std::int64_t term, bool untrusted,
             const std::string& actor, std::string_view action, std::string_view more);
  // Writes a lower term. The fences' trigger allows no other to be lowered (may_lower).
  void lower(const std::string& scope, std::int64_t term, const std::string& actor);
  bool may_lower(std::string_view scope, std::int64_t term) const noexcept {
    return lowering_ && lowering_->first == scope && lowering_->second == term;
  }
  // Call it after any change of a fence: passes are compared again, and once more if a ROLLBACK TO
  // undoes the change.
  void changed() {
    core_.passed_checks().fence_changed();
    core_.track();
  }

  // Between two transactions of the driver a fence stays known, as long as the pager's data version
  // shows that nobody else has written. SQLite's own page cache relies on the same.
  void begin_transaction() noexcept;
  void transaction_committed() noexcept { known_version_ = data_version(); }
  void transaction_undone() noexcept { known_.clear(); }

 private:
  Fence known(const std::string& scope);
  unsigned data_version() const noexcept;
  void pass(const std::string& scope, std::int64_t term);

  Core& core_;
  // The fence that a reset is lowering right now.
  std::optional<std::pair<std::string, std::int64_t>> lowering_;
  static constexpr std::size_t known_max = 1024;
  // Fences that were read under the data version and the count of changes below.
  std::unordered_map<std::string, Fence> known_;
  unsigned known_version_ = 0;
  std::uint64_t known_raises_ = 0;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
