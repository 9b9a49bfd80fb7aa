// The check: what a term is compared with, and when it passes, raises or is refused (F1, F2, F3);
// seals and evidence. Every decision is made under the database's write lock, so a fence that was
// read stays unchanged until the transaction ends. A refusal is thrown before the first write of
// its call.
#include <termgate/detail/sqlite/fences.hpp>

#include <algorithm>
#include <cassert>

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

}  // namespace

Fences::Fence Fences::read(std::string_view scope) {
  Fence fence;
  {
    Running read = core_.use(stmt::fence_read);
    if (read.bind(scope).step()) {
      fence.exists = true;
      fence.term = read.integer(0);
      fence.raise_by = read.optional_text(1);
      fence.untrusted = read.integer(2) != 0;
      fence.was_reset = !read.is_null(3);
      return fence;
    }
  }
  // A scope that the restored file does not contain may still have had a fence.
  Running read = core_.use(stmt::incarnation_read);
  if (!read.step())
    throw DatabaseError("termgate_incarnation has lost its row: run termgate init again");
  fence.untrusted = read.integer(0) != 0;
  return fence;
}

// SQLite's count of changes that other connections have made to the file. The page cache itself
// relies on it, and it costs no statement.
unsigned Fences::data_version() const noexcept {
  unsigned version = 0;
  sqlite3_file_control(core_.connection(), "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

// Compares in every transaction, also if it will read no fence, because its commit confirms
// everything that is known. The write lock is held by now, so this shows what others have left.
void Fences::begin_transaction() noexcept {
  if (const unsigned version = data_version();
      version != known_version_ && !TERMGATE_PLANTED(sqlite_memory)) {
    known_.clear();
    known_version_ = version;
  }
}

// The fence without a read, if this connection knows it and nobody can have changed it since. It is
// read if the write lock is not held, or if the transaction's boundaries are not known.
Fences::Fence Fences::known(const std::string& scope) {
  if (!core_.boundaries_known() ||
      sqlite3_txn_state(core_.connection(), "main") != SQLITE_TXN_WRITE)
    return read(scope);
  const unsigned version = data_version();
  if ((version != known_version_ && !TERMGATE_PLANTED(sqlite_memory)) ||
      known_raises_ != core_.passed_checks().raises() || known_.size() >= known_max) {
    known_.clear();
    known_version_ = version;
    known_raises_ = core_.passed_checks().raises();
  }
  if (const auto found = known_.find(scope); found != known_.end()) return found->second;
  const Fence fence = read(scope);
  // A fence without a row is not remembered: its height comes from the evidence, which other
  // statements of this transaction may extend.
  if (fence.exists) known_.emplace(scope, fence);
  return fence;
}

std::optional<Fences::LeaseRow> Fences::read_lease(std::string_view scope) {
  Running read = core_.use(stmt::lease_read);
  if (!read.bind(scope).step()) return std::nullopt;
  return LeaseRow{read.text(0), read.integer(1), read.integer(2), read.integer(4),
                  read.optional_integer(5)};
}

std::int64_t Fences::evidence(std::string_view scope, bool streams_only, bool was_reset) {
  std::vector<std::pair<std::int64_t, std::int64_t>>
      resets;  // (new, old]: evidence in between does not count
  std::int64_t highest = 0;
  if (was_reset) {
    Running read = core_.use(stmt::resets_read);
    read.bind(scope);
    while (read.step()) {
      // The term that the newest reset lowered the fence to counts, in case the fence's row is
      // lost.
      if (resets.empty()) highest = read.integer(0);
      resets.emplace_back(read.integer(0), read.integer(1));
    }
  }
  // The highest term that no reset has revoked: if the maximum lies within the range of a reset,
  // the query is repeated below that range.
  auto fold = [&](const std::function<std::int64_t(std::int64_t)>& max_term) {
    std::int64_t believed_max = Term::max_value;
    while (true) {
      const std::int64_t term = max_term(believed_max);
      const auto reset = std::find_if(resets.begin(), resets.end(), [term](const auto& range) {
        return term > range.first && term <= range.second;
      });
      if (reset == resets.end()) {
        highest = std::max(highest, term);
        return;
      }
      believed_max = reset->first;
    }
  };
  fold([&](std::int64_t believed_max) {
    Running read = core_.use(stmt::evidence_streams);
    return read.bind(scope).bind(believed_max).step() ? read.integer(0) : 0;
  });
  if (streams_only) return highest;
  if (core_.installed_version() >= Core::first_with_prefixes) {
    fold([&](std::int64_t believed_max) {
      Running read = core_.use(stmt::adopted_term);
      return read.bind(scope).bind(believed_max).step() ? read.integer(0) : 0;
    });
  }
  return highest;
}

bool Fences::taken_back(std::string_view scope, std::int64_t term) {
  Running read = core_.use(stmt::resets_read);
  read.bind(scope);
  while (read.step()) {
    if (term > read.integer(0) && term <= read.integer(1)) return true;
  }
  return false;
}

std::int64_t Fences::height(std::string_view scope, const Fence& fence) {
  return fence.exists ? fence.term : evidence(scope, false, true);
}

void Fences::refuse_untrusted(std::string_view scope, const Fence& fence) {
  if (!fence.untrusted) return;
  throw FenceUntrusted(
      fmt::format("TG004 the fence of scope \"{}\" is untrusted: this database was declared an "
                  "older copy that was put back. Acquire the "
                  "lease, or call termgate_declare_restored('{}', ABOVE, ACTOR, REASON) with the "
                  "last term issued elsewhere",
                  scope, scope));
}

void Fences::refuse_unissued(std::string_view scope, std::int64_t term) {
  const auto lease = read_lease(scope);
  if (lease && term > lease->term) {
    throw InvalidInput(
        fmt::format("TG005 term {} was never issued for scope \"{}\": its leases stand at {}; "
                    "hint: Terms of this scope come from leases, since one "
                    "was acquired for it once: termgate_acquire_lease issues the next. Terms of "
                    "your own need a scope of another name, which "
                    "nobody leases",
                    term, scope, lease->term));
  }
}

void Fences::refuse_passed(std::string_view scope, const char* what) {
  if (const Pass* pass = core_.passed_checks().find(scope)) {
    throw InvalidInput(
        fmt::format("TG005 {} for scope \"{}\" inside a transaction that has passed it with term "
                    "{}: a transaction keeps its first term",
                    what, scope, pass->term));
  }
}

// The order of the refusals is part of the contract: untrusted (TG004), stale (TG001), then what is
// wrong with the call (TG005).
Fences::Verdict Fences::judge(const std::string& scope, std::int64_t term, Raise raise,
                              bool with_evidence) {
  Verdict verdict{known(scope), false};
  const Fence& fence = verdict.fence;
  refuse_untrusted(scope, fence);
  const std::int64_t stands_at = height(scope, fence);
  std::int64_t seen = stands_at;
  if (with_evidence && fence.exists) seen = std::max(seen, evidence(scope, true, fence.was_reset));
  if (const Pass* pass = core_.passed_checks().find(scope)) {
    if (term < pass->term) refuse_stale_write(scope, term, std::max(seen, pass->term));
    if (term > pass->term) refuse_passed(scope, fmt::format("term {}", term).c_str());
  }
  if (term < seen) refuse_stale_write(scope, term, seen);
  // Writing the first row counts as a raise, even if the evidence has the same height.
  verdict.raises = !fence.exists || term > fence.term;
  if (!verdict.raises) return verdict;
  if (raise == Raise::refused) {
    throw InvalidInput(
        fmt::format("TG005 declared term {} is above the fence of scope \"{}\" ({}): a trigger "
                    "never raises it; hint: run SELECT "
                    "termgate_seal('{}', {}) first",
                    term, scope, stands_at, scope, term));
  }
  if (term > stands_at) {
    const std::string raise_by =
        fence.raise_by ? *fence.raise_by : core_.setting("default_raise_by").value_or("writer");
    if (raise_by == "seal") {
      throw InvalidInput(
          fmt::format("TG005 term {} is above the fence of scope \"{}\" ({}), which only a seal "
                      "may raise; hint: run SELECT termgate_seal('{}', {})",
                      term, scope, stands_at, scope, term));
    }
    refuse_unissued(scope, term);
  }
  return verdict;
}

std::int64_t Fences::admit(const std::string& scope, std::int64_t term, const Verdict& verdict) {
  assert(sqlite3_txn_state(core_.connection(), "main") == SQLITE_TXN_WRITE &&
         "a pass counts only under the write lock");
  if (verdict.raises)
    raise(scope, verdict.fence, term, verdict.fence.untrusted, core_.client(), "raise", "");
  pass(scope, term);
  return term;
}

void Fences::raise(std::string_view scope, const Fence& fence, std::int64_t term, bool untrusted,
                   const std::string& actor, std::string_view action, std::string_view more) {
  assert(term >= fence.term && "only reset_fence lowers a fence");
  {
    Running write = core_.use(fence.exists ? stmt::fence_raise : stmt::fence_insert);
    write.bind(scope).bind(term).bind(core_.now()).bind(actor).bind(std::int64_t{untrusted}).run();
  }
  if (core_.changes() != 1) {
    throw DatabaseError(
        fmt::format("the fence of scope \"{}\" was not written: its row is gone", scope));
  }
  // `more`: further members of the JSON object, already formatted.
  core_.audit(action, scope,
              fmt::format(R"({{"term":{},"previous":{}{}{}}})", term, fence.term,
                          more.empty() ? "" : ",", more),
              actor);
}

// The fences' trigger refuses every lower value except this one, and only while it is set, so an
// UPDATE by hand cannot lower a fence.
void Fences::lower(const std::string& scope, std::int64_t term, const std::string& actor) {
  lowering_.emplace(scope, term);
  try {
    core_.use(stmt::fence_reset).bind(scope).bind(term).bind(core_.now()).bind(actor).run();
  } catch (...) {
    lowering_.reset();
    throw;
  }
  lowering_.reset();
}

// Records that the open transaction has passed. A transaction of the call's own ends with it, so
// nothing is recorded.
void Fences::pass(const std::string& scope, std::int64_t term) {
  if (core_.own_unit() || core_.passed_checks().find(scope) != nullptr) return;
  // A raise has already enlisted the virtual table.
  if (!core_.boundaries_known()) core_.track();
  core_.passed_checks().record(scope, term);
}

std::int64_t Fences::check_term(const Scope& scope, Term term) {
  // In autocommit a check protects nothing but itself, so only a raise needs the lock. In a
  // transaction, a check that raises nothing writes nothing, so it needs no savepoint.
  const bool transaction = sqlite3_get_autocommit(core_.connection()) == 0 ||
                           sqlite3_txn_state(core_.connection(), nullptr) == SQLITE_TXN_WRITE;
  const Core::Wants wants(core_, scope.name(), term.value());
  if (transaction) {
    core_.lock();
  } else if (!core_.boundaries_known()) {
    core_.require_file();
  }
  const Verdict verdict = judge(scope.name(), term.value(), Raise::allowed, false);
  if (!verdict.raises) {
    if (transaction) pass(scope.name(), term.value());
    return term.value();
  }
  Core::Unit unit(core_);
  const std::int64_t fence =
      // In autocommit the first verdict was formed without the lock, so it is formed again under
      // it.
      admit(scope.name(), term.value(),
            transaction ? verdict : judge(scope.name(), term.value(), Raise::allowed, false));
  unit.commit();
  return fence;
}

Fences::Receipt Fences::seal(const Scope& scope, Term term, const std::optional<std::string>& actor,
                             const std::optional<std::string>& reason) {
  if (actor || reason) {
    require_name(actor.value_or(""), "actor");
    require_text(reason.value_or(""), "reason");
  }
  const Core::Wants wants(core_, scope.name(), term.value());
  Core::Unit unit(core_);
  const std::string& name = scope.name();
  // A seal guarantees that nothing below it is in flight, but a transaction that has passed the
  // scope is itself in flight.
  refuse_passed(name, "a seal");
  const Fence fence = read(name);
  refuse_untrusted(name, fence);
  const std::int64_t stands_at = height(name, fence);
  if (term.value() < stands_at) refuse_stale_seal(name, term.value(), stands_at);
  if (term.value() > stands_at) refuse_unissued(name, term.value());
  if (!fence.exists || term.value() > fence.term) {
    Json detail('{');
    detail.key("evicted").value(std::int64_t{0});
    if (reason) detail.key("reason").value(*reason);
    raise(name, fence, term.value(), fence.untrusted, actor.value_or(core_.client()), "seal",
          detail.members());
  }
  const Receipt receipt{term.value(), stands_at, 0, core_.now()};
  unit.commit();
  return receipt;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
