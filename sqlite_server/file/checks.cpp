#include "file/checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include <termgate/detail/plant.hpp>

#include "file/connection.hpp"

namespace termgate::sqlite_file {
namespace {

Want want_of(const hrana::Claim& claim) { return {claim.scope, claim.term}; }

// The fence that a snapshot shows, read without the lock, so it can only justify a refusal. 0:
// none.
std::int64_t fence_seen(Connection& reader, const std::string& scope) {
  try {
    sqlite::Statement statement(reader.handle(),
                                "SELECT term FROM main.termgate_fences WHERE scope = ?1");
    sqlite::Running read(statement.get());
    return read.bind(scope).step() ? read.integer(0) : 0;
  } catch (const Error&) {
    return 0;  // without layer 1; the check reports that
  }
}

}  // namespace

bool Checks::has(const Want& want) const noexcept {
  return std::any_of(passed_.begin(), passed_.end(),
                     [&](const Pass& each) { return each.want == want; });
}

void Checks::bind(const Want& claim) {
  if (!claim_) {
    claim_ = claim;
  } else if (*claim_ != claim) {
    throw InvalidInput(
        fmt::format("TG005 this transaction writes for scope \"{}\" with term {}, and not for "
                    "scope \"{}\" with term {}: a "
                    "transaction keeps its first claim",
                    claim_->scope, claim_->term, claim.scope, claim.term));
  }
}

void Checks::before_lock(const hrana::Permit& permit, bool names_claim, Connection* reader) {
  if (permit.observe) return;
  if (permit.claim.none()) {
    if ((names_claim && !permit.claim_is_final) || permit.access == hrana::Access::unfenced ||
        !passed_.empty())
      return;
    if (!permit.why_no_claim.empty())
      throw hrana::Refused(permit.why_no_claim.substr(0, 5), permit.why_no_claim);
    throw TermRequired(
        "TG002 no term declared: a write needs a scope and a term; declare both by the token "
        "tg.TERM.SCOPE.SECRET, the headers "
        "Termgate-Scope and Termgate-Term, or SELECT termgate_declare(SCOPE, TERM)");
  }
  const Want claim = want_of(permit.claim);
  if (claim_ && *claim_ != claim) bind(claim);
  if (has(claim) || engine_.memory()->highest(claim.scope) <= claim.term) return;
  // The memory alone is not enough: it would refuse what an audited reset allows again.
  std::unique_ptr<Connection> borrowed;
  if (reader == nullptr) {
    borrowed = engine_.borrow(false);
    reader = borrowed.get();
  }
  const std::int64_t fence = fence_seen(*reader, claim.scope);
  if (borrowed) engine_.put_back(std::move(borrowed));
  if (fence > claim.term) {
    throw StaleTerm(fmt::format("TG001 stale term {} for scope \"{}\": the fence stands at {}",
                                claim.term, claim.scope, fence),
                    claim.scope, claim.term, fence);
  }
}

void Checks::require(Connection& writer, const hrana::Permit& permit, bool names_claim,
                     std::size_t savepoints) {
  if (permit.claim.none()) {
    if (permit.observe && !names_claim && permit.access == hrana::Access::fenced && passed_.empty())
      engine_.count_observed("TG002");
    return;
  }
  const Want claim = want_of(permit.claim);
  final_ = permit.claim_is_final;
  try {
    bind(claim);
    if (has(claim)) return;
    check(writer, claim, savepoints);
  } catch (const Error& refusal) {
    if (!permit.observe || !engine_.count_observed(refusal.code())) throw;
  }
}

void Checks::declare(Connection& writer, const hrana::Permit& permit) {
  if (!permit.claim.none())
    writer.sqlite().layer1().core().declare(Scope(permit.claim.scope), Term(permit.claim.term));
}

// Throws TG004 if the file shows a lower fence than this server has seen: it is an older copy,
// unless an audited reset lowered the fence.
void Checks::refuse_forgotten(Connection& writer, const Want& pass, std::int64_t fence) {
  const std::int64_t remembered = engine_.memory()->highest(pass.scope);
  if (fence >= remembered) return;
  sqlite::Statement statement(
      writer.handle(), "SELECT 1 FROM main.termgate_fences WHERE scope = ?1 AND reset_from >= ?2");
  sqlite::Running read(statement.get());
  if (!read.bind(pass.scope).bind(remembered).step()) {
    throw FenceUntrusted(fmt::format(
        "TG004 fence untrusted for scope \"{}\": the file shows {}, this server has seen {}; was "
        "an older copy "
        "of the file put back? Then: termgate fence declare-restored --scope … --above …",
        pass.scope, fence, remembered));
  }
  engine_.memory()->forget(pass.scope);
}

void Checks::check(Connection& writer, const Want& claim, std::size_t savepoints) {
  const Scope scope(claim.scope);
  const Term term(claim.term);
  sqlite::Layer1& layer1 = writer.sqlite().layer1();
  layer1.core().declare(scope, term);
  if (TERMGATE_PLANTED(served_first_write)) return;
  refuse_forgotten(writer, claim, layer1.fences().check_term(scope, term));
  engine_.passed(claim);
  passed_.push_back({claim, savepoints});
}

void Checks::absorb(Connection& writer, std::size_t savepoints) {
  for (const auto& [scope, pass] : writer.sqlite().layer1().core().passed_checks().passes()) {
    const Want want{scope, pass.term};
    if (has(want)) continue;
    if (final_ && claim_ && want != *claim_) {
      throw InvalidInput(
          fmt::format("TG005 this stream's rule or token names scope \"{}\" with term {}, and a "
                      "statement may name no other: "
                      "this one names scope \"{}\" with term {}",
                      claim_->scope, claim_->term, want.scope, want.term));
    }
    refuse_forgotten(writer, want, pass.term);
    engine_.passed(want);
    passed_.push_back({want, savepoints});
  }
}

void Checks::released(std::size_t savepoints) noexcept {
  for (Pass& each : passed_) each.savepoints = std::min(each.savepoints, savepoints);
}

// A check that was passed since the savepoint may have raised the fence, and that raise is undone.
void Checks::rolled_back_to(std::size_t savepoints) noexcept {
  std::erase_if(passed_, [&](const Pass& each) { return each.savepoints > savepoints; });
}

std::vector<Want> Checks::passed() const {
  std::vector<Want> all;
  for (const Pass& each : passed_) all.push_back(each.want);
  return all;
}

void Checks::clear() noexcept {
  final_ = false;
  claim_.reset();
  passed_.clear();
}

}  // namespace termgate::sqlite_file
