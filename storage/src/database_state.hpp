// DatabaseState: what the copies of a Database share, and the calls that Database, Operator, Info, Jobs and Followers are made of. Adds to
// the statements of sql/<database>/calls/ only what a client can add: the memory of fences, a raise committed by itself before the write
// that needs it, and the account of refusals. Internal.
//
// Any thread. Owned by the Database objects together; its destructor reports the refusals that are left.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/database.hpp>
#include <termgate/detail/driver.hpp>
#include <termgate/detail/fence_feed.hpp>
#include <termgate/detail/fence_memory.hpp>
#include <termgate/detail/refusal_log.hpp>
#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>

#include "lease_keeper.hpp"
#include "stats.hpp"

namespace termgate::inline v0::detail {

struct DatabaseState {
  static DatabaseState& of(const Database& database) noexcept { return *database.state_; }
  ~DatabaseState();

  // A call of ours as a transaction of its own. run() gives an account of a refusal.
  template <class... Arguments>
  Rows read(sql::Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return driver->call(call, {values + 1, sizeof...(Arguments)}, true);
  }
  template <class... Arguments>
  Rows run(sql::Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return audited([&] { return driver->call(call, {values + 1, sizeof...(Arguments)}, false); });
  }
  // Runs `attempt`; a refusal is counted, and written to the audit where the database does not do it, and goes on its way.
  template <class Attempt>
  auto audited(Attempt attempt) -> decltype(attempt()) {
    try {
      return attempt();
    } catch (const StaleTerm& stale) {
      note(stale);
      throw;
    }
  }

  // `remembered` is what this process had seen before it asked. A fence lower than that was forgotten by the database (F3): throws
  // FenceUntrusted, unless an audited reset took it down: then the memory is forgotten. `look` runs Call::fence: inside an open
  // transaction that is the transaction's own connection.
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered);
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered, const std::function<Rows()>& look);

  // The check alone.
  std::int64_t check(const Scope& scope, Term term, std::optional<std::chrono::milliseconds> timeout = {});
  // Commits the raise by itself where this process does not know the fence to be at `term` already, so that no exclusive lock lasts as
  // long as a user's transaction.
  void raise_ahead(const Scope& scope, Term term, std::optional<std::chrono::milliseconds> timeout);
  // The same before a write that may have happened already, under `write_id`. A term that is too low is not a refusal yet, so it is neither
  // thrown nor counted: the write's own claim of the id decides.
  void try_raise(const Scope& scope, Term term, const WriteId& write_id, std::optional<std::chrono::milliseconds> timeout);
  // Before an append. It is one statement and raises by itself, so nothing is raised ahead of it: such a raise would stay even where the
  // append is refused. But its answer is a number and no fence, so that only the scope's memory can tell that the database has forgotten
  // a raise; a term that is not below what is remembered does no harm there.
  void check_before_append(const Stream& stream, const std::optional<Scope>& named, Term term);

  // Before gigabytes are sent in vain; the setting payload_bytes_max may be lower. Throws InvalidInput.
  void check_payload(std::string_view payload) const;

  // Calls `hinted` on a thread of the Database's when somebody has given the scope's lease back or asks for it, as long as the result
  // lives. A hint may be wrong or missing. `hinted` must return at once.
  std::shared_ptr<void> watch_lease(const Scope& scope, std::function<void()> hinted);
  // Notifications of appends to followed streams; nullptr where there are none.
  std::unique_ptr<FenceFeed> stream_feed();

  std::unique_ptr<Driver> driver;
  OpenOptions options;
  FenceMemory memory;
  RefusalLog refusals;
  StatsCounter stats;
  std::unique_ptr<LeaseHolding> holding;  // its threads call the driver, so it goes before that

 private:
  void note(const StaleTerm& stale);
  void report(const Refusals& due) noexcept;
  std::int64_t check_uncounted(const Scope& scope, Term term, std::optional<std::chrono::milliseconds> timeout);
};

inline DatabaseState& state_of(const Database& database) noexcept { return DatabaseState::of(database); }

// One open transaction of a write. On the stack of Database::write(), as long as its callback runs.
struct TransactionState {
  Transaction handle() { return Transaction(*this); }

  template <class... Arguments>
  Rows call(sql::Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return kept([&] { return session.call(call, {values + 1, sizeof...(Arguments)}); });
  }
  // Remembers a failure: after it PostgreSQL answers COMMIT with ROLLBACK and reports no error, so the write has to know.
  template <class Attempt>
  auto kept(Attempt attempt) -> decltype(attempt()) {
    try {
      return attempt();
    } catch (...) {
      failed = std::current_exception();
      throw;
    }
  }

  DatabaseState& database;
  OpenTransaction& session;
  const Scope& scope;
  const Term term;
  std::exception_ptr failed = {};  // a statement's error that no ROLLBACK TO has undone yet
};

}  // namespace termgate::inline v0::detail
