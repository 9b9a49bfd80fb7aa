// Core and Layer1: a call's transaction, the write lock and the wait for it, what a connection
// remembers between calls, and the ends of transactions.
#include <termgate/detail/sqlite/layer1.hpp>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/detail/sqlite/lock_wait.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

}  // namespace

Core::Unit::Unit(Core& core) : core_(core), at_work_(core) {
  if (sqlite3_get_autocommit(core.db_) != 0) {
    if (sqlite3_txn_state(core.db_, nullptr) == SQLITE_TXN_WRITE) {
      core.lock();
      return;
    }
    const bool reading = sqlite3_txn_state(core.db_, nullptr) == SQLITE_TXN_READ;
    // Waiting is useless while a read transaction is open (a SELECT in autocommit): its snapshot
    // stays outdated.
    core.waiting([&] { return core.use(stmt::begin).try_step(); }, "hold", !reading);
    if (const auto problem = core.file_.problem(true)) {
      sqlite3_exec(core.db_, "ROLLBACK", nullptr, nullptr, nullptr);
      throw_sqlite(problem->code, problem->text);
    }
    kind_ = Kind::own;
    core.own_unit_ = true;
    return;
  }
  core.lock();
  // SQLITE_BUSY here means that a writing statement is running, which is atomic by itself.
  const int code = core.use(stmt::savepoint).try_step();
  if (code == SQLITE_DONE) {
    kind_ = Kind::savepoint;
  } else if (code != SQLITE_BUSY) {
    throw_sqlite(core.db_, code);
  }
}

Core::Unit::~Unit() {
  core_.own_unit_ = false;
  // SQLite may have rolled everything back already (a full disk, an interrupt).
  if (kind_ == Kind::joined || sqlite3_get_autocommit(core_.db_) != 0) return;
  // Bypasses the cache: preparing there may throw, and this runs rarely.
  const char* undo =
      kind_ == Kind::own ? "ROLLBACK" : "ROLLBACK TO termgate_unit; RELEASE termgate_unit";
  sqlite3_exec(core_.db_, undo, nullptr, nullptr, nullptr);
}

// Ends what the constructor began; a joined unit leaves it to the statement or transaction that it
// is part of.
void Core::Unit::commit() {
  if (kind_ == Kind::own) {
    const bool refusals = core_.refusals_.write();
    // In rollback-journal mode a reader can delay the commit: it is waited for like the lock.
    const auto attempt = [&] {
      const int code = core_.use(stmt::commit).try_step();
      const int extended = sqlite3_extended_errcode(core_.db_);
      if (code != SQLITE_DONE && commit_outcome_unknown(extended)) {
        const std::string name(code_name(extended));
        throw OutcomeUnknown(fmt::format("COMMIT was sent and its flush failed: {} ({}): it may or "
                                         "may not have been written",
                                         sqlite3_errmsg(core_.db_), name),
                             name);
      }
      return code;
    };
    core_.waiting(attempt, "read", true);
    core_.flush_.report_failure();
    if (refusals) core_.refusals_.forget();
  } else if (kind_ == Kind::savepoint) {
    core_.use(stmt::release).run();
  }
  kind_ = Kind::joined;
  core_.own_unit_ = false;
}

Core::Snapshot::Snapshot(Core& core) {
  if (sqlite3_get_autocommit(core.db_) == 0 ||
      sqlite3_txn_state(core.db_, "main") != SQLITE_TXN_NONE)
    return;
  core.execute("BEGIN");
  db_ = core.db_;
}

Core::Snapshot::~Snapshot() {
  if (db_ != nullptr) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Core::Core(sqlite3* db) : db_(db) {
  client_ = fmt::format("{}[{}]", first_line("/proc/self/comm"), getpid());
  const char* user = std::getenv("USER");
  session_user_ =
      user != nullptr && *user != '\0' ? std::string(user) : fmt::format("uid {}", geteuid());
}

Moment Core::now() const noexcept {
  if (clock_) return clock_();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::optional<std::string> Core::setting(std::string_view name) {
  Running read = use(stmt::setting_read);
  if (!read.bind(name).step()) return std::nullopt;
  return read.text(0);
}

std::chrono::milliseconds Core::check_wait() noexcept {
  if (check_wait_override_) return *check_wait_override_;
  // Only if reading leaves no snapshot behind: with an outdated snapshot the connection could not
  // become a writer.
  if (sqlite3_get_autocommit(db_) != 0 && sqlite3_txn_state(db_, nullptr) == SQLITE_TXN_NONE) {
    try {
      if (const auto value = setting("check_wait_ms")) {
        check_wait_seen_ =
            std::chrono::milliseconds(number_of(*value, "check_wait_ms", 0, 600'000));
      }
    } catch (const Error&) {
      // Locked or not installed: the last value, or the default, is used.
    }
  }
  return check_wait_seen_;
}

// Returns SQLITE_DONE or SQLITE_OK. Sleeps in short steps, because SQLite has no queue to wait in.
int Core::waiting(const std::function<int()>& attempt, const char* what, bool may_wait) {
  using Clock = std::chrono::steady_clock;
  // SQLite's own waiting would sleep 100 ms between two attempts and announce nothing, so this
  // waits instead, for as long.
  struct Impatient {
    explicit Impatient(Core& core) : db(core.db_) {
      try {
        Running read = core.use(stmt::busy_timeout);
        if (read.step()) application_ms = static_cast<int>(read.integer(0));
      } catch (const Error&) {
        // The application's authorizer may forbid reading it; then its handler stays.
      }
      if (application_ms > 0) sqlite3_busy_timeout(db, 0);
    }
    Impatient(const Impatient&) = delete;
    Impatient& operator=(const Impatient&) = delete;
    ~Impatient() {
      if (application_ms > 0) sqlite3_busy_timeout(db, application_ms);
    }
    sqlite3* const db;
    int application_ms = 0;
  } impatient(*this);
  const auto start = Clock::now();
  std::optional<std::chrono::milliseconds> wait;
  const auto [scope, term] = wanted();
  LockWait lock_wait(db_, scope, term);
  while (true) {
    int code = SQLITE_BUSY;
    int extended = SQLITE_BUSY;
    try {
      code = attempt();
      if (code == SQLITE_OK || code == SQLITE_DONE) return code;
      extended = sqlite3_extended_errcode(db_);
    } catch (const BusyNow&) {
      // The schema could not be read while the statement was prepared.
    }
    if ((code & 0xff) != SQLITE_BUSY || extended == SQLITE_BUSY_SNAPSHOT) throw_sqlite(db_, code);
    // The setting is read only after the first refusal, so a free lock costs no statement.
    if (!wait)
      wait = may_wait ? std::max(check_wait(), std::chrono::milliseconds(impatient.application_ms))
                      : std::chrono::milliseconds(0);
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    if (waited >= *wait) {
      std::string message =
          fmt::format("TG006 blocked for {} ms: {} {}s the database; nothing was written",
                      waited.count(), lock_holder(db_), what);
      if (!may_wait)
        message +=
            "; this transaction has read already, so it cannot wait: begin it with BEGIN IMMEDIATE";
      throw Blocked(message);
    }
    lock_wait.pause(*wait - waited);
  }
}

void Core::connect() {
  connected_ = true;
  try {
    Statement connecting(db_, "SELECT 1 FROM main.termgate_connection");
  } catch (...) {
    connected_ = false;
    throw;
  }
}

void Core::patiently(const std::function<void()>& work) {
  if (sqlite3_txn_state(db_, nullptr) != SQLITE_TXN_NONE) return work();
  waiting(
      [&] {
        work();
        return SQLITE_OK;
      },
      "hold", true);
}

void Core::require_file() {
  if (const auto problem = file_.problem(sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE))
    throw_sqlite(problem->code, problem->text);
}

void Core::lock() {
  const int state = sqlite3_txn_state(db_, "main");
  if (state != SQLITE_TXN_WRITE)
    waiting([&] { return use(stmt::lock).try_step(); }, "hold", state == SQLITE_TXN_NONE);
  // The driver checks at its own BEGIN and COMMIT.
  if (!boundaries_known_) require_file();
}

void Core::execute(const std::string& sql) {
  Statement statement(db_, sql);
  Running(statement.get()).run();
}

// In the open transaction, so that an entry and its change are committed together or not at all.
void Core::audit(std::string_view action, std::optional<std::string_view> scope,
                 std::string_view detail, std::string_view actor) {
  Running insert = use(stmt::audit_insert);
  insert.bind(now())
      .bind(actor.empty() ? std::string_view(client_) : actor)
      .bind(session_user_)
      .bind(client_)
      .bind(action);
  if (scope) {
    insert.bind(*scope);
  } else {
    insert.bind_null();
  }
  insert.bind(detail).run();
}

void Core::track() {
  if (passed_checks_.tracking()) return;
  use(stmt::track).run();
  if (!passed_checks_.tracking()) {
    throw DatabaseError("a table named termgate_transaction hides Termgate's own: rename it");
  }
}

void Core::declare(std::optional<Scope> scope, std::optional<Term> term) {
  declared_scope_ = std::move(scope);
  declared_term_ = term;
}

void Core::begin_transaction() noexcept {
  boundaries_known_ = true;
  passed_checks_.clear();
  declared_scope_.reset();
  declared_term_.reset();
}

void Layer1::begin_transaction() noexcept {
  core_.begin_transaction();
  fences_.begin_transaction();
  guards_.begin_transaction();
}

// The last moment at which a transaction that has passed the check, or raised, can be refused.
std::optional<FileWatch::Problem> Layer1::before_commit() {
  if (auto problem = core_.file().problem(true)) return problem;
  try {
    leases_.need_required();
  } catch (const Error& error) { return FileWatch::Problem{SQLITE_CONSTRAINT, error.what()}; }
  return core_.flush().before_commit();
}

void Layer1::transaction_ended(bool committed) noexcept {
  core_.passed_checks().ended();
  guards_.transaction_ended();
  core_.flush().ended(committed);
  core_.refusals().write_aside();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
