// An operator's calls: settings, resets, pruning, declarations after a restore. Each call is
// written to the audit in the transaction of its change.
#include <termgate/detail/sqlite/calls.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <sql/statements.hpp>
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

// What the audit entry of a raise adds if the raise came from rows instead of a caller.
std::string from_evidence(std::string_view before) {
  return Json('{').key("evidence_before").value(before).members();
}

}  // namespace

std::int64_t Operations::reset_fence(const Scope& scope, Term term, const std::string& actor,
                                     const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  const std::string& name = scope.name();
  fences_.refuse_passed(name, "a reset");
  const Fences::Fence fence = fences_.read(name);
  const std::int64_t stands_at = fences_.height(name, fence);
  if (term.value() > stands_at) {
    throw InvalidInput(fmt::format(
        "TG005 the fence of scope \"{}\" stands at {}: a reset lowers it, a seal raises it", name,
        stands_at));
  }
  if (!fence.exists)
    fences_.raise(name, fence, stands_at, fence.untrusted, actor, "raise",
                  from_evidence("a reset"));
  if (term.value() < stands_at) {
    core_.use(stmt::reset_insert)
        .bind(name)
        .bind(stands_at)
        .bind(term.value())
        .bind(core_.now())
        .bind(actor)
        .bind(reason)
        .run();
    fences_.lower(name, term.value(), actor);
    core_.use(stmt::lease_reset).bind(name).bind(term.value()).bind(core_.now()).run();
    if (core_.installed_version() >= Core::first_with_prefixes)
      core_.use(stmt::adopted_term_lower).bind(name).bind(term.value()).run();
  }
  core_.audit("reset", name,
              Json('{')
                  .key("term")
                  .value(term.value())
                  .key("previous")
                  .value(stands_at)
                  .key("reason")
                  .value(reason)
                  .close(),
              actor);
  unit.commit();
  return stands_at;
}

std::int64_t Operations::declare_restored(const Scope& scope, Term above, const std::string& actor,
                                          const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  fences_.refuse_passed(scope.name(), "a declaration");
  const Fences::Fence fence = fences_.read(scope.name());
  const std::int64_t term = std::max(fences_.height(scope.name(), fence), above.value());
  fences_.raise(scope.name(), fence, term, false, actor, "declare_restored",
                Json('{').key("above").value(above.value()).key("reason").value(reason).members());
  unit.commit();
  return term;
}

std::int64_t Operations::declare_nothing_lost(const std::string& actor, const std::string& reason) {
  return declare_trust(false, "declare_nothing_lost", actor, reason);
}

std::int64_t Operations::declare_untrusted(const std::string& actor, const std::string& reason) {
  return declare_trust(true, "declare_untrusted", actor, reason);
}

std::int64_t Operations::declare_trust(bool untrusted, std::string_view action,
                                       const std::string& actor, const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  core_.use(stmt::incarnation_set_untrusted).bind(std::int64_t{untrusted}).run();
  // The incarnation covers the scopes that have no fence yet.
  core_.use(stmt::fences_set_untrusted).bind(std::int64_t{untrusted}).run();
  const std::int64_t scopes = core_.changes();
  fences_.changed();
  core_.audit(action, std::nullopt,
              Json('{').key("reason").value(reason).key("scopes").value(scopes).close(), actor);
  unit.commit();
  return scopes;
}

std::string Operations::set_raise_by(const Scope& scope, const std::string& mode) {
  if (mode != "writer" && mode != "seal") {
    throw InvalidInput(fmt::format("TG005 raise_by is writer or seal, not \"{}\"", mode));
  }
  Core::Unit unit(core_);
  const Fences::Fence fence = fences_.read(scope.name());
  if (!fence.exists) {
    fences_.raise(scope.name(), fence, fences_.height(scope.name(), fence), fence.untrusted,
                  core_.client(), "raise", from_evidence("raise_by"));
  }
  core_.use(stmt::fence_raise_by).bind(scope.name()).bind(mode).run();
  core_.audit("set_raise_by", scope.name(), Json('{').key("raise_by").value(mode).close());
  unit.commit();
  return mode;
}

std::int64_t Operations::prune(const Stream& stream, std::int64_t before) {
  Core::Unit unit(core_);
  std::vector<std::string> scopes;
  {
    Running read = core_.use(stmt::prune_scopes);
    read.bind(stream.name()).bind(before);
    while (read.step()) scopes.push_back(read.text(0));
  }
  // The rows may be the only evidence of a fence whose row was lost, so the evidence is written
  // into the fence before they are deleted.
  for (const std::string& scope : scopes) {
    const Fences::Fence fence = fences_.read(scope);
    const std::int64_t known =
        fences_.evidence(scope, fence.exists, !fence.exists || fence.was_reset);
    if (!fence.exists || known > fence.term) {
      fences_.raise(scope, fence, std::max(known, fence.term), fence.untrusted, core_.client(),
                    "raise", from_evidence("pruning"));
    }
  }
  core_.use(stmt::prune).bind(stream.name()).bind(before).run();
  const std::int64_t pruned = core_.changes();
  if (pruned > 0)
    core_.audit("prune", std::nullopt,
                Json('{')
                    .key("stream")
                    .value(stream.name())
                    .key("before")
                    .value(before)
                    .key("deleted")
                    .value(pruned)
                    .close());
  unit.commit();
  return pruned;
}

std::int64_t Operations::prune_history(std::int64_t older_than_ms) {
  // This keeps the last hour, so that an hourly collector misses nothing.
  if (older_than_ms < 3'600'000) {
    throw InvalidInput(fmt::format("TG005 prune_history needs an age of 1 hour or more, not {} ms",
                                   older_than_ms));
  }
  Core::Unit unit(core_);
  const Moment moment = core_.now() - older_than_ms;
  core_.use(stmt::prune_audit).bind(moment).run();
  std::int64_t pruned = core_.changes();
  core_.use(stmt::prune_jobs).bind(moment).bind(moment + older_than_ms).run();
  pruned += core_.changes();
  core_.audit("prune_history", std::nullopt,
              fmt::format(R"({{"older_than_ms":{},"deleted":{}}})", older_than_ms, pruned));
  unit.commit();
  return pruned;
}

bool Operations::stream_move(const Stream& stream, const Scope& scope, const std::string& actor,
                             const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  std::string from;
  {
    Running read = core_.use(stmt::stream_read);
    if (!read.bind(stream.name()).step())
      throw InvalidInput(fmt::format("TG005 there is no stream \"{}\"", stream.name()));
    from = read.text(0);
  }
  const bool moved = from != scope.name();
  if (moved) {
    core_.use(stmt::stream_move).bind(stream.name()).bind(scope.name()).run();
    if (core_.changes() != 1)
      throw DatabaseError(fmt::format("stream \"{}\" has lost its row", stream.name()));
    core_.audit("stream_move", scope.name(),
                Json('{')
                    .key("stream")
                    .value(stream.name())
                    .key("from")
                    .value(from)
                    .key("reason")
                    .value(reason)
                    .close(),
                actor);
  }
  unit.commit();
  return moved;
}

void Operations::set_setting(const std::string& name, const std::string& value) {
  if (name == "check_wait_ms") {
    number_of(value, "check_wait_ms", 0, 600'000);
  } else if (name == "eviction_grace_ms") {
    number_of(value, "eviction_grace_ms", 0, 600'000);
  } else if (name == "payload_bytes_max") {
    number_of(value, "payload_bytes_max", 1, 268'435'456);
  } else if (name == "default_raise_by") {
    if (value != "writer" && value != "seal") {
      throw InvalidInput(
          fmt::format("TG005 setting default_raise_by is writer or seal, not \"{}\"", value));
    }
  } else {
    throw InvalidInput(
        fmt::format("TG005 there is no setting \"{}\": check_wait_ms, default_raise_by, "
                    "eviction_grace_ms and payload_bytes_max are all",
                    name));
  }
  Core::Unit unit(core_);
  const auto before = core_.setting(name);
  core_.use(stmt::setting_write).bind(name).bind(value).run();
  if (core_.changes() != 1)
    throw DatabaseError(
        fmt::format("the setting {} has lost its row: run termgate init again", name));
  core_.audit("setting", std::nullopt,
              Json('{')
                  .key("name")
                  .value(name)
                  .key("value")
                  .value(value)
                  .key("previous")
                  .value(before)
                  .close());
  unit.commit();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
