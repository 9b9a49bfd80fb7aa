// Checks: the checks that an open write transaction has passed, and those that it needs before it
// writes.
//
// Owner: a FileTransaction, or one autocommit write. For its owner's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "file/engine.hpp"
#include "hrana/port.hpp"

namespace termgate::sqlite_file {

class Checks {
 public:
  explicit Checks(Engine& engine) : engine_(engine) {}

  // Refuses early, so that a write that cannot pass does not wait for the lock. Throws TermRequired
  // (TG002), or hrana::Refused where a rule has no term now; InvalidInput (TG005) for a second
  // claim in one transaction; StaleTerm for a term that the file shows to be stale. `names_claim`:
  // the statement names scope and term itself. `reader` shows a snapshot; nullptr: one is borrowed
  // if needed, which may throw what Engine::borrow() does.
  void before_lock(const hrana::Permit& permit, bool names_claim, Connection* reader);
  // Under the lock: declares the claim for the triggers of layer 1 and checks it, unless it has
  // passed already. `savepoints`: how many are open. Throws the refusal; under --enforce observe it
  // is only counted.
  void require(Connection& writer, const hrana::Permit& permit, bool names_claim,
               std::size_t savepoints = 0);
  // Declares the claim without checking it: for a statement in autocommit that names scope and term
  // itself.
  static void declare(Connection& writer, const hrana::Permit& permit);
  // After a statement: takes note of checks that termgate_check_term() and the like have passed.
  // Throws FenceUntrusted, and InvalidInput if a statement passed another claim than the final one.
  void absorb(Connection& writer, std::size_t savepoints = 0);

  // `savepoints`: how many were open before the one that was released or rolled back to.
  void released(std::size_t savepoints) noexcept;
  void rolled_back_to(std::size_t savepoints) noexcept;
  std::vector<Want> passed() const;
  void clear() noexcept;

 private:
  struct Pass {
    Want want;
    std::size_t savepoints;
  };
  bool has(const Want& want) const noexcept;
  void bind(const Want& claim);
  void check(Connection& writer, const Want& claim, std::size_t savepoints);
  void refuse_forgotten(Connection& writer, const Want& pass, std::int64_t fence);

  Engine& engine_;
  std::optional<Want> claim_;  // the transaction's claim, set by its first check
  bool final_ = false;         // statements may not name another claim
  std::vector<Pass> passed_;
};

}  // namespace termgate::sqlite_file
