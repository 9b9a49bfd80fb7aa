// FileTransaction: one stream's transaction on the file, independent of the protocol. It does not
// touch the file until its first read or write. A first read gives it a reader's connection, which
// it keeps; a first write gives it the turn to write, until its end.
//
// Owner: the stream's Session. One thread at a time; which one does not matter. Throws the
// library's errors (StaleTerm, Blocked …), sqlite::GaveUp, hrana::Refused, hrana::Lost and
// hrana::Busy. Invariants:
//   - `none` and `begun` have no connection, `reading` and `writing` have one;
//   - only `writing` has the turn.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/checks.hpp"
#include "file/engine.hpp"

namespace termgate::sqlite_file {

// What a stream has set, by PRAGMA and termgate_declare().
struct Settings {
  bool foreign_keys = true;
  bool defer_foreign_keys = false;  // until the end of the next transaction, as in SQLite
  bool query_only = false;
  std::optional<Want> declared;  // by termgate_declare(), until the end of the stream
  bool operator==(const Settings&) const = default;
};

class FileTransaction {
 public:
  enum class State : std::uint8_t { none, begun, reading, writing };

  FileTransaction(Engine& engine, Control& control, Settings& settings);
  ~FileTransaction() { roll_back(); }
  FileTransaction(const FileTransaction&) = delete;
  FileTransaction& operator=(const FileTransaction&) = delete;

  State state() const noexcept { return state_; }
  bool read_only() const noexcept { return read_only_; }
  Checks& checks() noexcept { return checks_; }
  // nullptr in `none` and `begun`.
  Connection* connection() noexcept { return connection_; }

  // From none to begun. `read_only`: for BEGIN READONLY.
  void begin(bool read_only);
  // From begun to reading, on a connection that the caller has borrowed, where its prepared
  // statements stay.
  Connection& read_on(std::unique_ptr<Connection> borrowed);
  // From begun or reading to writing: gets the turn and the write lock, and passes the check. Also
  // called while writing. If it fails, it holds no more than before; Lost if the snapshot could not
  // be kept. `want`: the claim that it waits for.
  Connection& writer(const hrana::Permit& permit, bool names_claim, const Want& want);

  // In state none it also begins a transaction, which RELEASE commits.
  void savepoint(const std::string& name);
  // True: this savepoint had begun the transaction, and the caller must commit.
  bool release(const std::string& name);
  void roll_back_to(const std::string& name);

  // After a statement: takes note of the checks that termgate_check_term() and the like have
  // passed. Throws FenceUntrusted.
  void absorb_passes();

  // If SQLite leaves the transaction open (a deferred key, a reader of a rollback journal), so does
  // this. After OutcomeUnknown it is over.
  void commit();
  void roll_back() noexcept;
  // Call it after each statement: SQLite may have rolled back by itself or have released the lock.
  // True: the transaction is over.
  bool follow_sqlite();

 private:
  void become_writer(const hrana::Permit& permit, bool names_claim, const Want& want);
  void begin_immediate(const Want& want);
  void replay_savepoints();
  void upgrade(const hrana::Permit& permit, bool names_claim, const Want& want);
  void step_down();
  void end() noexcept;
  std::size_t find(const std::string& name) const;
  void inner(std::string_view verb, const std::string& name);

  Engine& engine_;
  Control& control_;
  Settings& settings_;
  State state_ = State::none;
  bool read_only_ = false;
  bool by_savepoint_ = false;
  std::vector<std::string> savepoints_;
  std::unique_ptr<Connection> borrowed_;
  Connection* connection_ = nullptr;  // borrowed_ or the engine's writer
  Engine::Turn turn_;
  Checks checks_;
};

}  // namespace termgate::sqlite_file
