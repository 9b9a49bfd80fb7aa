#include "file/transaction.hpp"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>

#include "file/connection.hpp"
#include "file/control.hpp"
#include "file/errors.hpp"

namespace termgate::sqlite_file {

using std::chrono::milliseconds;

FileTransaction::FileTransaction(Engine& engine, Control& control, Settings& settings)
    : engine_(engine), control_(control), settings_(settings), checks_(engine) {}

void FileTransaction::begin(bool read_only) {
  assert(state_ == State::none && "no transaction within another");
  read_only_ = read_only;
  state_ = State::begun;
}

Connection& FileTransaction::read_on(std::unique_ptr<Connection> borrowed) {
  assert(state_ == State::begun && "a transaction gets its reader once");
  borrowed_ = std::move(borrowed);
  connection_ = borrowed_.get();
  state_ = State::reading;
  try {
    connection_->foreign_keys(settings_.foreign_keys);
    connection_->run("BEGIN");
    replay_savepoints();
  } catch (...) {
    engine_.put_back(std::move(borrowed_));
    connection_ = nullptr;
    state_ = State::begun;
    throw;
  }
  return *connection_;
}

void FileTransaction::replay_savepoints() {
  for (const std::string& each : savepoints_) inner("SAVEPOINT", each);
}

void FileTransaction::inner(std::string_view verb, const std::string& name) {
  connection_->run(fmt::format("{} {}", verb, sqlite::quoted_identifier(name)));
}

// --- the writer

Connection& FileTransaction::writer(const hrana::Permit& permit, bool names_claim,
                                    const Want& want) {
  assert(state_ != State::none && "a write has a transaction");
  if (state_ == State::writing)
    checks_.require(*connection_, permit, names_claim, savepoints_.size());
  else if (state_ == State::begun) become_writer(permit, names_claim, want);
  else upgrade(permit, names_claim, want);
  return *connection_;
}

// Does not use SQLite's own waiting, which soon tries only every 100 ms and does not announce
// itself. The setting is read again only if another process has the lock.
void FileTransaction::begin_immediate(const Want& want) {
  sqlite::Connection& connection = connection_->sqlite();
  const auto since = Engine::Clock::now();
  connection.wait_for_locks(milliseconds(0));
  int code = connection.begin(false, milliseconds(0), {}, 0);
  auto wait = sqlite::OpenAs::default_wait;
  if ((code & 0xff) == SQLITE_BUSY) {
    wait = connection.layer1().core().check_wait();
    code = connection.begin(false, wait, want.scope, want.term);
  }
  connection.wait_for_locks(code == SQLITE_OK ? connection.layer1().core().check_wait() : wait);
  if (code == SQLITE_OK) return;
  if ((code & 0xff) != SQLITE_BUSY) sqlite::throw_sqlite(connection_->handle(), code);
  throw Blocked(
      fmt::format("TG006 blocked for {} ms: {} holds the database; nothing was written",
                  std::chrono::duration_cast<milliseconds>(Engine::Clock::now() - since).count(),
                  sqlite::lock_holder(connection_->handle())));
}

// Uses the engine's writer, because its cache has the newest pages.
void FileTransaction::become_writer(const hrana::Permit& permit, bool names_claim,
                                    const Want& want) {
  turn_ = engine_.take_turn(control_, want);
  connection_ = &engine_.writer();
  state_ = State::writing;
  try {
    connection_->foreign_keys(settings_.foreign_keys);
    begin_immediate(want);
    connection_->sqlite().layer1().core().require_file();
    connection_->sqlite().layer1().begin_transaction();
    checks_.require(*connection_, permit, names_claim, 0);
    replay_savepoints();
    if (settings_.defer_foreign_keys) connection_->run("PRAGMA defer_foreign_keys = ON");
  } catch (...) {
    // The next write starts here again.
    if (connection_->sqlite().in_transaction()) connection_->sqlite().control("ROLLBACK");
    connection_->sqlite().layer1().transaction_undone();
    connection_->restore();
    connection_ = nullptr;
    checks_.clear();
    state_ = State::begun;
    turn_.give();
    throw;
  }
}

// The reader's own connection becomes the writer, with its snapshot. SQLite refuses that if the
// snapshot is old.
void FileTransaction::upgrade(const hrana::Permit& permit, bool names_claim, const Want& want) {
  turn_ = engine_.take_turn(control_, want);
  state_ = State::writing;
  try {
    connection_->may_write(true);
    connection_->sqlite().layer1().core().require_file();
    connection_->sqlite().layer1().begin_transaction();
    checks_.require(*connection_, permit, names_claim, savepoints_.size());
    if (settings_.defer_foreign_keys) connection_->run("PRAGMA defer_foreign_keys = ON");
  } catch (const std::exception& error) {
    checks_.clear();
    if (sqlite3_txn_state(connection_->handle(), "main") != SQLITE_TXN_WRITE) {
      step_down();
      throw;
    }
    // The lock was acquired and the check refused. The lock must not be kept, and so the snapshot
    // is lost too.
    const std::string message = error.what();
    const auto* of_library = dynamic_cast<const Error*>(&error);
    const std::string code =
        of_library != nullptr ? std::string(of_library->code()) : "SQLITE_ABORT";
    roll_back();
    throw hrana::Lost(code, message + "; the transaction, which had only read, was rolled back");
  }
}

void FileTransaction::step_down() {
  checks_.clear();
  turn_.give();
  state_ = State::reading;
  connection_->may_write(false);
}

bool FileTransaction::follow_sqlite() {
  if (connection_ == nullptr) return state_ == State::none;
  if (!connection_->sqlite().in_transaction()) {
    roll_back();
    return true;
  }
  // The first write did not get the lock.
  if (state_ == State::writing &&
      sqlite3_txn_state(connection_->handle(), "main") != SQLITE_TXN_WRITE)
    step_down();
  return false;
}

// --- savepoints

std::size_t FileTransaction::find(const std::string& name) const {
  const auto found = std::find_if(
      savepoints_.rbegin(), savepoints_.rend(),
      [&](const std::string& each) { return sqlite3_stricmp(each.c_str(), name.c_str()) == 0; });
  if (found == savepoints_.rend()) throw refused(SQLITE_ERROR, "no such savepoint: " + name);
  return static_cast<std::size_t>(savepoints_.rend() - found) - 1;
}

void FileTransaction::savepoint(const std::string& name) {
  constexpr std::size_t savepoints_max = 1000;
  if (savepoints_.size() >= savepoints_max)
    throw refused(SQLITE_ERROR,
                  fmt::format("{} savepoints are open in this transaction: release some first",
                              savepoints_max));
  if (state_ == State::none) {
    begin(false);
    by_savepoint_ = true;
  }
  if (connection_ != nullptr) inner("SAVEPOINT", name);
  savepoints_.push_back(name);
}

bool FileTransaction::release(const std::string& name) {
  const std::size_t at = find(name);
  if (at == 0 && by_savepoint_) return true;
  if (connection_ != nullptr) inner("RELEASE", name);
  savepoints_.resize(at);
  checks_.released(at);
  return false;
}

void FileTransaction::roll_back_to(const std::string& name) {
  const std::size_t at = find(name);
  if (connection_ != nullptr) inner("ROLLBACK TO", name);
  savepoints_.resize(at + 1);
  checks_.rolled_back_to(at);
  // A check that passed without raising the fence still counts.
  if (state_ == State::writing) checks_.absorb(*connection_, at);
}

void FileTransaction::absorb_passes() {
  if (state_ == State::writing) checks_.absorb(*connection_, savepoints_.size());
}

// --- the end

void FileTransaction::commit() {
  assert(state_ != State::none && "there is a transaction to commit");
  if (state_ != State::writing) return roll_back();
  turn_.unwatch();
  if (control_.evicted()) {
    roll_back();
    throw sqlite::GaveUp{};
  }
  sqlite::Connection& connection = connection_->sqlite();
  int extended = SQLITE_OK;
  if (connection.commit(extended) == SQLITE_OK) {
    connection.layer1().transaction_committed();
    engine_.committed(checks_.passed());
    engine_.count_transaction();
    return end();
  }
  const std::string message = sqlite3_errmsg(connection.handle()),
                    name(sqlite::code_name(extended));
  if (const auto problem = connection.file_problem()) {
    if (problem->code == SQLITE_READONLY_DBMOVED) engine_.note_moved();
    roll_back();
    throw Unavailable(problem->text, std::string(sqlite::code_name(problem->code)));
  }
  if (sqlite::commit_outcome_unknown(extended)) {
    roll_back();
    throw OutcomeUnknown(
        fmt::format(
            "COMMIT was sent and its flush failed: {} ({}): it may or may not have been written",
            message, name),
        name);
  }
  // As in SQLite, the transaction stays open if it can be committed later.
  if (connection.in_transaction()) turn_.watch(control_, checks_.passed());
  else roll_back();
  throw refused(extended, message);
}

void FileTransaction::roll_back() noexcept {
  if (connection_ != nullptr) {
    if (connection_->sqlite().in_transaction()) connection_->sqlite().control("ROLLBACK");
    connection_->sqlite().layer1().transaction_undone();
  }
  end();
}

void FileTransaction::end() noexcept {
  if (borrowed_) engine_.put_back(std::move(borrowed_));
  else if (connection_ != nullptr) connection_->restore();
  connection_ = nullptr;
  turn_.give();
  savepoints_.clear();
  checks_.clear();
  read_only_ = by_savepoint_ = false;
  if (state_ != State::none) settings_.defer_foreign_keys = false;
  state_ = State::none;
}

}  // namespace termgate::sqlite_file
