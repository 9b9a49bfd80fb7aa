// Layer 1 on SQLite (docs/contract.md, section 2), written once: compiled into the library and into
// the loadable extension. Each connection has one Layer1, which its thread uses and which never
// outlives it.
//
// The lock is the database's write transaction: SQLite has one writer at a time, so whoever holds
// it reads a fence that nobody can raise meanwhile. Every call that writes or checks
//   - in autocommit begins and commits a transaction of its own (BEGIN IMMEDIATE);
//   - inside an open transaction first makes it a writer, then works under a savepoint;
//   - inside a writing statement (INSERT … SELECT termgate_append(…)) joins that statement.
// Refusals come before the first write, so a refusal leaves no trace in all three.
//
// Throws the types of <termgate/error.hpp>: StaleTerm, FenceUntrusted, InvalidInput and so on as
// the contract says; Blocked when another connection kept the write lock for longer than the
// setting check_wait_ms; Conflict when the open transaction's snapshot is older than the last
// commit.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include <termgate/detail/sqlite/calls.hpp>
#include <termgate/detail/sqlite/core.hpp>
#include <termgate/detail/sqlite/fences.hpp>
#include <termgate/detail/sqlite/tables.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Owns the subjects of layer 1 on one connection, and passes on to them where transactions begin
// and end.
class Layer1 {
 public:
  // Registers the functions termgate_… and the virtual table on `db`, which owns the Layer1 from
  // then on. Returns the existing one if the same binary calls it again; nullptr if another binary
  // (the extension next to the library) came first.
  static Layer1* register_on(sqlite3* db);
  // The same on a connection that the caller has just opened and nobody has used. If another
  // binary's layer 1 was registered while it was opened (sqlite3_auto_extension,
  // libtermgate-preload.so), it is replaced. Throws InvalidInput if that one has another version.
  static Layer1& register_first(sqlite3* db);

  explicit Layer1(sqlite3* db) : core_(db) {}

  Core& core() noexcept { return core_; }
  Fences& fences() noexcept { return fences_; }
  Streams& streams() noexcept { return streams_; }
  Leases& leases() noexcept { return leases_; }
  Jobs& jobs() noexcept { return jobs_; }
  Followers& followers() noexcept { return followers_; }
  Operations& operations() noexcept { return operations_; }
  Guards& guards() noexcept { return guards_; }
  Tables& tables() noexcept { return tables_; }
  Setup& setup() noexcept { return setup_; }
  Doctor& doctor() noexcept { return doctor_; }

  // The driver, which owns its connection, announces where its transactions begin, so a check that
  // raises nothing need not enlist the virtual table: such a pass may survive a ROLLBACK TO,
  // because the write lock does. A call that changes a fence always enlists it. Called at the start
  // of each transaction, and of each member of a group commit.
  void begin_transaction() noexcept;
  void transaction_committed() noexcept { fences_.transaction_committed(); }
  void transaction_undone() noexcept { fences_.transaction_undone(); }

  // --- called by the virtual table
  void transaction_began() noexcept { core_.passed_checks().began(core_.boundaries_known()); }
  // Why a transaction that has passed the check, or raised, must not commit; none: it may.
  std::optional<FileWatch::Problem> before_commit();
  // Called when nothing can be refused any more.
  void transaction_ended(bool committed) noexcept;

 private:
  static Layer1& put_on(sqlite3* db);

  Core core_;
  Fences fences_{core_};
  Streams streams_{core_, fences_};
  Leases leases_{core_, fences_};
  Jobs jobs_{core_, fences_, leases_};
  Followers followers_{core_};
  Operations operations_{core_, fences_};
  Guards guards_{core_, fences_};
  Tables tables_{core_, fences_};
  Setup setup_{core_, fences_, tables_};
  Doctor doctor_{core_, tables_, setup_};
};

// The process that holds the file's write lock, as far as the system shows it: "process 4711
// (python3)".
std::string lock_holder(sqlite3* db);
// The holder's process number; 0 if the system does not show it.
int lock_holder_pid(sqlite3* db);
// Declared for its tests: the process that holds a lock on one of the bytes of one of `files`
// ("08:01:4711"), from a list in the format of /proc/locks; 0: none.
long lock_owner(std::istream& locks, const std::vector<std::string>& files, long long first_byte,
                long long last_byte);

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
