// Refused stale writes: counted in memory, written to the audit. A refusal rolls its statement
// back, and what was counted with it must not be lost.
#include <termgate/detail/sqlite/layer1.hpp>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

}  // namespace

void Refusals::count(const std::string& scope, std::int64_t term) {
  // The driver counts its own refusals.
  if (core_.boundaries_known() || (refused_.size() >= refused_max && !refused_.contains(scope)))
    return;
  const Moment moment = core_.now();
  // At most refused_max scopes are kept: a client must not fill the memory with invented names.
  const auto [entry, fresh] = refused_.try_emplace(scope, Refused{term, 0, moment, moment});
  entry->second.count += 1;
  entry->second.term = term;
  entry->second.last = moment;
  // It is written when the open transaction ends, or now if there is none.
  if (sqlite3_txn_state(core_.connection(), "main") == SQLITE_TXN_WRITE) {
    try {
      core_.track();
    } catch (const Error&) {
      // A later refusal then includes it.
    }
  } else if (sqlite3_get_autocommit(core_.connection()) != 0) {
    write_aside();
  }
}

// Uses a separate connection, because what the refused statement wrote is rolled back, and this may
// run inside SQLite's end of a transaction. It waits for nobody: what cannot be written now is
// written with the next refusal, or when this connection closes.
void Refusals::write_aside() noexcept {
  const char* path = sqlite3_db_filename(core_.connection(), "main");
  if (refused_.empty() || path == nullptr || *path == '\0' || core_.now() - tried_ < 1000) return;
  tried_ = core_.now();
  sqlite3* aside = nullptr;
  try {
    if (core_.file().unfit() || core_.file().inherited() || !core_.file().foreign_locks().empty())
      return;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                      SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path, &aside, flags, nullptr) == SQLITE_OK) {
      Core& there = Layer1::register_first(aside).core();
      there.set_check_wait(std::chrono::milliseconds(0));
      there.refusals().refused_ = refused_;
      there.refusals().closing_ = true;
      Core::Unit unit(there);
      unit.commit();
      if (there.refusals().refused_.empty()) refused_.clear();
    }
  } catch (const std::exception&) {
    // Another connection is writing, or the file no longer has layer 1.
  }
  sqlite3_close(aside);
}

bool Refusals::write() {
  if (refused_.empty()) return false;
  const Moment moment = core_.now();
  // At most one entry a second, unless the clock has gone back.
  if (moment >= written_ && moment - written_ < 1000) return false;
  try {
    for (const auto& [scope, refused] : refused_) {
      core_.audit("refuse", scope,
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
                      .value(core_.client())
                      .close());
    }
    written_ = moment;
    return true;
  } catch (const DatabaseError&) {
    return false;  // layer 1 is being removed, so there is no audit
  }
}

void Refusals::record(const std::string& scope, std::int64_t term, std::int64_t count, Moment first,
                      Moment last, const std::string& client) {
  Core::Unit unit(core_);
  core_.use(stmt::audit_insert)
      .bind(core_.now())
      .bind(core_.client())
      .bind(core_.session_user())
      .bind(client)
      .bind("refuse")
      .bind(scope)
      .bind(
          fmt::format(R"({{"term":{},"count":{},"first":{},"last":{}}})", term, count, first, last))
      .run();
  unit.commit();
}

// The last chance, so it does not matter how long ago the last attempt was.
void Refusals::close() noexcept {
  tried_ = 0;
  if (!closing_) write_aside();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
