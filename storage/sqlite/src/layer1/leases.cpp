// Leases: acquisition, renewal, release. An acquisition raises the fence before it takes the lease
// row (F2).
#include <termgate/detail/sqlite/calls.hpp>

#include <algorithm>
#include <cassert>
#include <set>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/plant.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

constexpr std::int64_t ttl_ms_min = 100;
constexpr std::int64_t ttl_ms_max = 24LL * 60 * 60 * 1000;
constexpr std::size_t renewals_max = 500;  // in one transaction

// What an acquisition adds to the term if the database may have forgotten terms that its own leases
// issued (F3): enough to exceed whatever was lost, and random, because a file that is restored once
// more has forgotten the previous jump.
std::int64_t untrusted_jump() {
  std::uint32_t chance = 0;
  sqlite3_randomness(sizeof chance, &chance);
  return (std::int64_t{1} << 32) + chance;
}

void require_ttl(std::int64_t ttl_ms, std::string_view what = "TTL") {
  if (ttl_ms < ttl_ms_min || ttl_ms > ttl_ms_max) {
    throw InvalidInput(
        fmt::format("TG005 the {} must be from 100 ms to 1 day, not {} ms", what, ttl_ms));
  }
}

// `pattern`: an owner, or a prefix followed by *.
bool is_named(std::string_view pattern, std::string_view owner) {
  return pattern.ends_with('*') ? owner.starts_with(pattern.substr(0, pattern.size() - 1))
                                : owner == pattern;
}

}  // namespace

Leases::Acquisition Leases::acquire(const Scope& scope, const std::string& owner,
                                    std::int64_t ttl_ms,
                                    const std::optional<std::string>& endpoint) {
  require_name(owner, "owner");
  require_ttl(ttl_ms);
  const std::string& name = scope.name();
  auto others = [&](const std::optional<LeaseRow>& lease, Moment moment) {
    return lease && !lease->released_at && lease->expires_at > moment && lease->owner != owner;
  };
  auto refused = [](const LeaseRow& lease, Moment moment) {
    return Acquisition{false, lease.term, lease.expires_at, lease.owner, lease.expires_at - moment};
  };
  // If another owner's lease is live, the answer needs no lock, so that waiting candidates cost the
  // leader nothing.
  if (sqlite3_get_autocommit(core_.connection()) != 0) {
    const auto lease = fences_.read_lease(name);
    const Moment moment = core_.now();
    if (others(lease, moment) && lease->renewed_at <= moment) return refused(*lease, moment);
    if (lease && !may_follow(name, lease->term, owner, moment)) return refused(*lease, moment);
  }
  Core::Unit unit(core_);
  // Everything is read again under the lock, because it may have changed.
  const Fences::Fence fence = fences_.read(name);
  auto lease = fences_.read_lease(name);
  const Moment moment = core_.now();
  if (others(lease, moment)) {
    // The clock was set back since, perhaps by a year. The lease now lasts for its own length from
    // this moment, which is longer than its holder counts on.
    if (lease->renewed_at > moment) {
      lease->expires_at = moment + (lease->expires_at - lease->renewed_at);
      core_.use(stmt::lease_bound).bind(name).bind(moment).bind(lease->expires_at).run();
    }
    unit.commit();
    return refused(*lease, moment);
  }
  // Nobody can have led since this transaction's first acquisition, so the same call issues no
  // further term.
  if (const Acquired* first = core_.passed_checks().acquired(name);
      first != nullptr && lease && !lease->released_at && lease->expires_at > moment &&
      lease->term == first->term && fence.exists && fence.term == first->term && !fence.untrusted) {
    if (first->owner != owner || first->ttl_ms != ttl_ms || first->endpoint != endpoint) {
      throw InvalidInput(
          fmt::format("TG005 this transaction has acquired the lease of scope \"{}\" already, with "
                      "another TTL or endpoint: use renew_lease",
                      name));
    }
    unit.commit();
    return {true, first->term, lease->expires_at, owner, lease->expires_at - moment};
  }
  if (lease && !may_follow(name, lease->term, owner, moment)) {
    unit.commit();
    return refused(*lease, moment);
  }
  fences_.refuse_passed(name, "an acquisition");
  const std::int64_t base = std::max(fences_.height(name, fence), lease ? lease->term : 0);
  const std::int64_t term = base + (fence.untrusted                              ? untrusted_jump()
                                    : TERMGATE_PLANTED(sqlite_lease) && base > 0 ? 0
                                                                                 : 1);
  if (term > Term::max_value) {
    throw InvalidInput(
        fmt::format("TG005 scope \"{}\" stands at {}: no term is left above it; hint: "
                    "termgate_reset_fence lowers it",
                    name, base));
  }
  Json detail('{');
  detail.key("owner").value(owner);
  if (lease) detail.key("previous_owner").value(lease->owner);
  detail.key("evicted").value(std::int64_t{0}).key("expires_at").value(moment + ttl_ms);
  if (endpoint) detail.key("endpoint").value(*endpoint);
  if (fence.untrusted) detail.key("was_untrusted").value(true);
  assert((!lease || term >= lease->term) &&
         "an acquisition never issues a term below an earlier one");
  fences_.raise(name, fence, term, false, owner, "acquire", detail.members());
  core_.use(lease ? stmt::lease_take : stmt::lease_insert)
      .bind(name)
      .bind(owner)
      .bind(term)
      .bind(moment + ttl_ms)
      .bind(moment)
      .bind(endpoint)
      .run();
  if (lease && knows_hand_overs()) handed_over(name, *lease, owner, term, moment);
  if (!core_.own_unit()) core_.passed_checks().acquired(name, owner, ttl_ms, endpoint, term);
  unit.commit();
  return {true, term, moment + ttl_ms, owner, ttl_ms};
}

Leases::Renewal Leases::renew(const Scope& scope, const std::string& owner, Term term,
                              std::int64_t ttl_ms) {
  require_name(owner, "owner");
  require_ttl(ttl_ms);
  Core::Unit unit(core_);
  const Fences::Fence fence = fences_.read(scope.name());
  fences_.refuse_untrusted(scope.name(), fence);
  const auto lease = fences_.read_lease(scope.name());
  const Moment moment = core_.now();
  bool renewed = false;
  const auto leave_in = leave_in_ms(scope.name(), term.value());
  // A seal or a forced release above this term ends the lease, whatever its row says.
  if (lease && fences_.height(scope.name(), fence) <= term.value() && leave_in.value_or(1) > 0) {
    core_.use(stmt::lease_renew)
        .bind(scope.name())
        .bind(owner)
        .bind(term.value())
        .bind(moment)
        .bind(moment + ttl_ms)
        .run();
    renewed = core_.changes() == 1;
  }
  unit.commit();
  if (renewed) return {true, moment + ttl_ms, ttl_ms, leave_in};
  return {false, lease ? std::optional(lease->expires_at) : std::nullopt,
          lease ? lease->expires_at - moment : 0, leave_in};
}

// All leases are read and checked before the first one is renewed, so a malformed list renews none.
std::vector<std::string_view> Leases::renew_all(const std::string& leases) {
  struct HeldBy {
    std::string scope, owner;
    std::int64_t term, ttl_ms;
  };
  std::vector<HeldBy> renewals;
  {
    Running read = core_.use(stmt::leases_asked);
    read.bind(leases);
    while (read.step()) {
      if (read.integer(4) == 0)
        throw InvalidInput(
            "TG005 each lease needs a scope and an owner as text, a term and a ttl_ms as integers");
      renewals.push_back({read.text(0), read.text(1), read.integer(2), read.integer(3)});
      require_ttl(renewals.back().ttl_ms);
      if (renewals.size() > renewals_max)
        throw InvalidInput(fmt::format("TG005 more than {} leases in one call", renewals_max));
    }
  }
  std::set<std::string_view> scopes;
  for (const HeldBy& one : renewals) {
    if (!scopes.insert(one.scope).second)
      throw InvalidInput("TG005 a scope is named twice among the leases to renew");
  }
  std::vector<std::string_view> outcomes;
  outcomes.reserve(renewals.size());
  Core::Unit unit(core_);
  for (const HeldBy& one : renewals) {
    const Fences::Fence fence = fences_.read(one.scope);
    if (fence.untrusted) {
      outcomes.emplace_back("untrusted");
      continue;
    }
    bool renewed = false;
    if (fences_.height(one.scope, fence) <= one.term &&
        leave_in_ms(one.scope, one.term).value_or(1) > 0) {
      const Moment moment = core_.now();
      core_.use(stmt::lease_renew)
          .bind(one.scope)
          .bind(one.owner)
          .bind(one.term)
          .bind(moment)
          .bind(moment + one.ttl_ms)
          .run();
      renewed = core_.changes() == 1;
    }
    outcomes.emplace_back(renewed ? "renewed" : "lost");
  }
  unit.commit();
  return outcomes;
}

bool Leases::release(const Scope& scope, const std::string& owner, Term term) {
  require_name(owner, "owner");
  Core::Unit unit(core_);
  core_.use(stmt::lease_release)
      .bind(scope.name())
      .bind(owner)
      .bind(term.value())
      .bind(core_.now())
      .run();
  const bool released = core_.changes() == 1;
  if (released)
    core_.audit("release", scope.name(),
                Json('{').key("term").value(term.value()).key("owner").value(owner).close(), owner);
  unit.commit();
  return released;
}

namespace {

[[noreturn]] void refuse_lease(const Scope& scope, const std::string& owner,
                               const std::string& why) {
  throw LeaseLost(
      fmt::format("TG007 the lease of scope \"{}\" is not held by {}{}", scope.name(), owner, why),
      "TG007");
}

}  // namespace

// `term`: 0 for the lease as it is now.
Leases::LeaseRow Leases::need_live(const Scope& scope, const std::string& owner,
                                   std::int64_t term) {
  const auto lease = fences_.read_lease(scope.name());
  const Moment moment = core_.now();
  if (!lease) refuse_lease(scope, owner, ": it has never been acquired");
  if (lease->owner != owner || (term != 0 && lease->term != term))
    refuse_lease(scope, owner, fmt::format(": {} has it under term {}", lease->owner, lease->term));
  if (lease->released_at) refuse_lease(scope, owner, " any more: it was given back");
  if (lease->expires_at <= moment)
    refuse_lease(scope, owner,
                 fmt::format(" any more: it ended {} ms ago", moment - lease->expires_at));
  return *lease;
}

Moment Leases::require(const Scope& scope, const std::string& owner) {
  require_name(owner, "owner");
  Core::Unit unit(core_);
  const LeaseRow lease = need_live(scope, owner, 0);
  if (!core_.own_unit()) {
    if (!core_.boundaries_known()) core_.track();
    core_.passed_checks().require(scope.name(), owner, lease.term);
  }
  unit.commit();
  return lease.expires_at;
}

void Leases::need_required() {
  for (const Required& one : core_.passed_checks().required())
    need_live(Scope(one.scope), one.owner, one.term);
}

// False in a file of the previous version, whose tables this version also supports.
bool Leases::knows_hand_overs() {
  if (!hand_overs_known_)
    hand_overs_known_ = core_.use(stmt::part_find).bind("table").bind("termgate_hand_overs").step();
  return hand_overs_known_;
}

std::optional<Leases::AskedFor> Leases::asked_for(const std::string& scope, std::int64_t term) {
  if (!knows_hand_overs()) return std::nullopt;
  Running read = core_.use(stmt::hand_over_read);
  if (!read.bind(scope).bind(term).step()) return std::nullopt;
  return AskedFor{read.text(0), read.optional_text(1), read.integer(2)};
}

std::optional<std::int64_t> Leases::leave_in_ms(const std::string& scope, std::int64_t term) {
  const auto asked = asked_for(scope, term);
  if (!asked) return std::nullopt;
  return asked->leave_before - core_.now();
}

// Whether this owner may take the lease after this term at this moment.
bool Leases::may_follow(const std::string& scope, std::int64_t term, const std::string& owner,
                        Moment moment) {
  const auto asked = asked_for(scope, term);
  if (!asked || asked->leave_before <= moment) return true;
  return owner != asked->owner && (!asked->successor || is_named(*asked->successor, owner));
}

// Writes the receipt of a hand-over, under the write lock. `before`: the previous lease.
void Leases::handed_over(const std::string& scope, const LeaseRow& before, const std::string& owner,
                         std::int64_t term, Moment moment) {
  const Moment ended = before.released_at.value_or(std::min(before.expires_at, moment));
  std::string actor, reason, left;
  {
    Running taken = core_.use(stmt::hand_over_taken);
    taken.bind(scope)
        .bind(before.term)
        .bind(before.released_at)
        .bind(ended)
        .bind(owner)
        .bind(term)
        .bind(moment);
    if (!taken.step()) return;
    actor = taken.text(0), reason = taken.text(1), left = taken.text(2);
  }
  core_.audit("hand_over", scope,
              Json('{')
                  .key("term")
                  .value(term)
                  .key("owner")
                  .value(owner)
                  .key("previous")
                  .value(before.term)
                  .key("previous_owner")
                  .value(left)
                  .key("left")
                  .value(before.released_at.has_value())
                  .key("gap_ms")
                  .value(std::max<std::int64_t>(moment - ended, 0))
                  .key("reason")
                  .value(reason)
                  .close(),
              actor);
}

std::optional<Leases::HandOver> Leases::request_hand_over(
    const Scope& scope, const std::optional<std::string>& successor, std::int64_t drain_ms,
    const std::string& actor, const std::string& reason) {
  if (successor) require_name(*successor, "successor");
  require_ttl(drain_ms, "drain");
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  const auto lease = fences_.read_lease(scope.name());
  const Moment moment = core_.now();
  if (!lease || lease->released_at || lease->expires_at <= moment) {
    unit.commit();
    return std::nullopt;
  }
  if (successor == lease->owner) {
    throw InvalidInput(fmt::format(
        "TG005 \"{}\" holds the lease of scope \"{}\" itself: a hand-over goes to another",
        *successor, scope.name()));
  }
  const HandOver asked{lease->owner, lease->term, moment + drain_ms};
  core_.use(stmt::hand_over_request)
      .bind(scope.name())
      .bind(asked.owner_id)
      .bind(asked.term)
      .bind(successor)
      .bind(moment)
      .bind(actor)
      .bind(reason)
      .bind(asked.leave_before)
      .run();
  Json detail('{');
  detail.key("owner").value(asked.owner_id).key("term").value(asked.term);
  if (successor) detail.key("to").value(*successor);
  core_.audit(
      "request_hand_over", scope.name(),
      detail.key("leave_before").value(asked.leave_before).key("reason").value(reason).close(),
      actor);
  unit.commit();
  return asked;
}

// Raises the fence by one, so that the holder's next write is refused, and frees the lease. False:
// there is no lease, or it has been released already.
bool Leases::force_release(const Scope& scope, const std::string& actor,
                           const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  fences_.refuse_passed(scope.name(), "a forced release");
  const auto lease = fences_.read_lease(scope.name());
  if (!lease || lease->released_at) {
    unit.commit();
    return false;
  }
  const Fences::Fence fence = fences_.read(scope.name());
  const std::int64_t base = std::max(fences_.height(scope.name(), fence), lease->term);
  if (base >= Term::max_value)
    throw InvalidInput(fmt::format("TG005 scope \"{}\" stands at {}: no term is left above it",
                                   scope.name(), base));
  fences_.raise(scope.name(), fence, base + 1, fence.untrusted, actor, "force_release",
                Json('{')
                    .key("owner")
                    .value(lease->owner)
                    .key("reason")
                    .value(reason)
                    .key("evicted")
                    .value(std::int64_t{0})
                    .members());
  core_.use(stmt::lease_force).bind(scope.name()).bind(core_.now()).run();
  unit.commit();
  return true;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
