// An operator's calls: settings, resets, pruning, declarations after a restore. Each call is
// written to the audit in the transaction of its change.
#include <termgate/detail/sqlite/layer1.hpp>

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

std::int64_t Layer1::reset_fence(const Scope& scope, Term term, const std::string& actor,
                                 const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Unit unit(*this);
  const std::string& name = scope.name();
  refuse_passed(name, "a reset");
  const Fence fence = read_fence(name);
  const std::int64_t stands_at = height(name, fence);
  if (term.value() > stands_at) {
    throw InvalidInput(fmt::format(
        "TG005 the fence of scope \"{}\" stands at {}: a reset lowers it, a seal raises it", name,
        stands_at));
  }
  if (!fence.exists)
    raise(name, fence, stands_at, fence.untrusted, actor, "raise", from_evidence("a reset"));
  if (term.value() < stands_at) {
    use(stmt::reset_insert)
        .bind(name)
        .bind(stands_at)
        .bind(term.value())
        .bind(now())
        .bind(actor)
        .bind(reason)
        .run();
    // The fences' trigger refuses every lower value except this one, and only while it is set, so
    // an UPDATE by hand cannot lower a fence.
    lowering_.emplace(name, term.value());
    try {
      use(stmt::fence_reset).bind(name).bind(term.value()).bind(now()).bind(actor).run();
    } catch (...) {
      lowering_.reset();
      throw;
    }
    lowering_.reset();
    use(stmt::lease_reset).bind(name).bind(term.value()).bind(now()).run();
    if (installed_version() >= first_with_prefixes)
      use(stmt::adopted_term_lower).bind(name).bind(term.value()).run();
  }
  audit("reset", name,
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

std::int64_t Layer1::declare_restored(const Scope& scope, Term above, const std::string& actor,
                                      const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Unit unit(*this);
  refuse_passed(scope.name(), "a declaration");
  const Fence fence = read_fence(scope.name());
  const std::int64_t term = std::max(height(scope.name(), fence), above.value());
  raise(scope.name(), fence, term, false, actor, "declare_restored",
        Json('{').key("above").value(above.value()).key("reason").value(reason).members());
  unit.commit();
  return term;
}

std::int64_t Layer1::declare_nothing_lost(const std::string& actor, const std::string& reason) {
  return declare_trust(false, "declare_nothing_lost", actor, reason);
}

std::int64_t Layer1::declare_untrusted(const std::string& actor, const std::string& reason) {
  return declare_trust(true, "declare_untrusted", actor, reason);
}

std::int64_t Layer1::declare_trust(bool untrusted, std::string_view action,
                                   const std::string& actor, const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Unit unit(*this);
  use(stmt::incarnation_set_untrusted).bind(std::int64_t{untrusted}).run();
  // The incarnation covers the scopes that have no fence yet.
  use(stmt::fences_set_untrusted).bind(std::int64_t{untrusted}).run();
  const std::int64_t scopes = sqlite3_changes(db_);
  fence_changed();
  audit(action, std::nullopt,
        Json('{').key("reason").value(reason).key("scopes").value(scopes).close(), actor);
  unit.commit();
  return scopes;
}

std::string Layer1::set_raise_by(const Scope& scope, const std::string& mode) {
  if (mode != "writer" && mode != "seal") {
    throw InvalidInput(fmt::format("TG005 raise_by is writer or seal, not \"{}\"", mode));
  }
  Unit unit(*this);
  const Fence fence = read_fence(scope.name());
  if (!fence.exists) {
    raise(scope.name(), fence, height(scope.name(), fence), fence.untrusted, client_, "raise",
          from_evidence("raise_by"));
  }
  use(stmt::fence_raise_by).bind(scope.name()).bind(mode).run();
  audit("set_raise_by", scope.name(), Json('{').key("raise_by").value(mode).close());
  unit.commit();
  return mode;
}

std::int64_t Layer1::prune(const Stream& stream, std::int64_t before) {
  Unit unit(*this);
  std::vector<std::string> scopes;
  {
    Running read = use(stmt::prune_scopes);
    read.bind(stream.name()).bind(before);
    while (read.step()) scopes.push_back(read.text(0));
  }
  // The rows may be the only evidence of a fence whose row was lost, so the evidence is written
  // into the fence before they are deleted.
  for (const std::string& scope : scopes) {
    const Fence fence = read_fence(scope);
    const std::int64_t known = evidence(scope, fence.exists, !fence.exists || fence.was_reset);
    if (!fence.exists || known > fence.term) {
      raise(scope, fence, std::max(known, fence.term), fence.untrusted, client_, "raise",
            from_evidence("pruning"));
    }
  }
  use(stmt::prune).bind(stream.name()).bind(before).run();
  const std::int64_t pruned = sqlite3_changes(db_);
  if (pruned > 0)
    audit("prune", std::nullopt,
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

std::int64_t Layer1::prune_history(std::int64_t older_than_ms) {
  // This keeps the last hour, so that an hourly collector misses nothing.
  if (older_than_ms < 3'600'000) {
    throw InvalidInput(fmt::format("TG005 prune_history needs an age of 1 hour or more, not {} ms",
                                   older_than_ms));
  }
  Unit unit(*this);
  const Moment moment = now() - older_than_ms;
  use(stmt::prune_audit).bind(moment).run();
  std::int64_t pruned = sqlite3_changes(db_);
  use(stmt::prune_jobs).bind(moment).bind(moment + older_than_ms).run();
  pruned += sqlite3_changes(db_);
  audit("prune_history", std::nullopt,
        fmt::format(R"({{"older_than_ms":{},"deleted":{}}})", older_than_ms, pruned));
  unit.commit();
  return pruned;
}

bool Layer1::stream_move(const Stream& stream, const Scope& scope, const std::string& actor,
                         const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  Unit unit(*this);
  std::string from;
  {
    Running read = use(stmt::stream_read);
    if (!read.bind(stream.name()).step())
      throw InvalidInput(fmt::format("TG005 there is no stream \"{}\"", stream.name()));
    from = read.text(0);
  }
  const bool moved = from != scope.name();
  if (moved) {
    use(stmt::stream_move).bind(stream.name()).bind(scope.name()).run();
    if (sqlite3_changes(db_) != 1)
      throw DatabaseError(fmt::format("stream \"{}\" has lost its row", stream.name()));
    audit("stream_move", scope.name(),
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

void Layer1::set_setting(const std::string& name, const std::string& value) {
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
  Unit unit(*this);
  const auto before = setting(name);
  use(stmt::setting_write).bind(name).bind(value).run();
  if (sqlite3_changes(db_) != 1)
    throw DatabaseError(
        fmt::format("the setting {} has lost its row: run termgate init again", name));
  audit("setting", std::nullopt,
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

void Layer1::count_refusal(const std::string& scope, std::int64_t term) {
  // The driver counts its own refusals.
  if (boundaries_known_ || (refused_.size() >= refused_max && !refused_.contains(scope))) return;
  const Moment moment = now();
  // At most refused_max scopes are kept: a client must not fill the memory with invented names.
  const auto [entry, fresh] = refused_.try_emplace(scope, Refused{term, 0, moment, moment});
  entry->second.count += 1;
  entry->second.term = term;
  entry->second.last = moment;
  // It can be written when the open transaction ends; without one, that is now.
  if (sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE) {
    try {
      track();
    } catch (const Error&) {
      // A later refusal then includes it.
    }
  } else if (sqlite3_get_autocommit(db_) != 0) {
    write_refusals_aside();
  }
}

// Uses a separate connection, because what the refused statement wrote is rolled back, and this may
// run inside SQLite's end of a transaction. It waits for nobody: what cannot be written now is
// written with the next refusal, or when this connection closes.
void Layer1::write_refusals_aside() noexcept {
  const char* path = sqlite3_db_filename(db_, "main");
  if (refused_.empty() || path == nullptr || *path == '\0' || now() - refusals_tried_ < 1000)
    return;
  refusals_tried_ = now();
  sqlite3* aside = nullptr;
  try {
    if (file_.unfit() || file_.inherited() || !file_.foreign_locks().empty()) return;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                      SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &aside, flags, nullptr) == SQLITE_OK) {
      Layer1& there = register_first(aside);
      there.set_check_wait(std::chrono::milliseconds(0));
      there.refused_ = refused_;
      there.refusals_closing_ = true;
      Unit unit(there);
      unit.commit();
      if (there.refused_.empty()) refused_.clear();
    }
  } catch (const std::exception&) {
    // Another connection is writing, or the file no longer has layer 1.
  }
  sqlite3_close(aside);
}

bool Layer1::write_refusals() {
  if (refused_.empty()) return false;
  const Moment moment = now();
  // At most one entry a second, unless the clock has gone back.
  if (moment >= refusals_written_ && moment - refusals_written_ < 1000) return false;
  try {
    for (const auto& [scope, refused] : refused_) {
      audit("refuse", scope,
            Json('{')
                .key("term")
                .value(refused.term)
                .key("count")
                .value(refused.count)
                .key("first")
                .value(refused.first)
                .key("last")
                .value(refused.last)
                .key("client")
                .value(client_)
                .close());
    }
    refusals_written_ = moment;
    return true;
  } catch (const DatabaseError&) {
    return false;  // layer 1 is being removed, so there is no audit
  }
}

void Layer1::record_refusal(const std::string& scope, std::int64_t term, std::int64_t count,
                            Moment first, Moment last, const std::string& client) {
  Unit unit(*this);
  use(stmt::audit_insert)
      .bind(now())
      .bind(client_)
      .bind(session_user_)
      .bind(client)
      .bind("refuse")
      .bind(scope)
      .bind(
          fmt::format(R"({{"term":{},"count":{},"first":{},"last":{}}})", term, count, first, last))
      .run();
  unit.commit();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
