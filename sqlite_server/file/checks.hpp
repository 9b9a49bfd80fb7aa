// Checks: what an open write transaction has passed, and what it needs before it writes.
//
// Owner: a FileTransaction, or one autocommit write. The thread of its owner.
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

  // Without the lock, so that nobody asks for it in vain: TermRequired (TG002), InvalidInput (TG005) for a second claim in one transaction,
  // StaleTerm for a term that the file shows to be stale. `names_claim`: the statement names scope and term itself. `reader`: shows a
  // snapshot; nullptr: one is borrowed where it is needed.
  void before_lock(const hrana::Permit& permit, bool names_claim, Connection* reader);
  // Under the lock: declares the claim for the triggers of layer 1, and checks it unless that was done.
  // `savepoints`: how many are open.
  void require(Connection& writer, const hrana::Permit& permit, bool names_claim, std::size_t savepoints = 0);
  // Declares the claim and does not check it: for a statement in autocommit that names scope and term itself.
  static void declare(Connection& writer, const hrana::Permit& permit);
  // After a statement: what termgate_check_term() and the like have passed. Throws FenceUntrusted, and InvalidInput where a final claim is
  // another.
  void absorb(Connection& writer, std::size_t savepoints = 0);

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
  std::optional<Want> claim_;  // the transaction's, by its first check
  bool final_ = false;         // a statement may name no other
  std::vector<Pass> passed_;
};

}  // namespace termgate::sqlite_file
