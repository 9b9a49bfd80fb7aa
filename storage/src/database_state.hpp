// DatabaseState: what the copies of a Database share, and the calls that Database, Operator, Info,
// Jobs and Followers are built on. It adds to the statements of sql/<database>/calls/ only what a
// client can add: the memory of fences, a raise committed separately before the write that needs
// it, and records of refusals. Internal.
//
// Any thread. Owned jointly by the Database objects; its destructor reports the remaining refusals.
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

namespace termgate {
inline namespace v0 {
namespace detail {

struct DatabaseState {
  static DatabaseState& of(const Database& database) noexcept { return *database.state_; }
  ~DatabaseState();

  // Runs a call as a transaction of its own. Unlike run(), it does not record refusals.
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
  // Runs `attempt`. A refusal is counted, and written to the audit unless the database does that
  // itself, and rethrown.
  template <class Attempt>
  auto audited(Attempt attempt) -> decltype(attempt()) {
    try {
      return attempt();
    } catch (const StaleTerm& stale) {
      note(stale);
      throw;
    }
  }

  // `remembered` is what this process had seen before the request. If the fence is lower, the
  // database has forgotten it (F3): throws FenceUntrusted, unless an audited reset lowered the
  // fence; then the memory is dropped. `look` runs Call::fence: inside an open transaction on the
  // transaction's own connection.
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered);
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered,
                           const std::function<Rows()>& look);

  // Runs only the check.
  std::int64_t check(const Scope& scope, Term term,
                     std::optional<std::chrono::milliseconds> timeout = {});
  // Commits the raise separately, unless this process knows the fence to be at `term` already, so
  // that no exclusive lock lasts as long as a user's transaction.
  void raise_ahead(const Scope& scope, Term term, std::optional<std::chrono::milliseconds> timeout);
  // Raises before a write that may have happened already, under `write_id`. A term that is too low
  // is not yet a refusal, so it is neither thrown nor counted: the write's own claim of the id
  // decides.
  void try_raise(const Scope& scope, Term term, const WriteId& write_id,
                 std::optional<std::chrono::milliseconds> timeout);
  // Called before an append. An append is one statement and raises by itself, so nothing is raised
  // ahead of it: such a raise would stay even if the append were refused. But its answer is a
  // number without a fence, so only the memory of the scope can show that the database has
  // forgotten a raise. A term that is not below what is remembered is harmless.
  void check_before_append(const Stream& stream, const std::optional<Scope>& named, Term term);

  // Throws InvalidInput before gigabytes are sent in vain. The setting payload_bytes_max may be
  // lower.
  void check_payload(std::string_view payload) const;

  // Calls `hinted` on a thread of the Database when somebody has released the scope's lease or
  // requests it, as long as the result lives. A hint may be wrong or missing. `hinted` must return
  // at once.
  std::shared_ptr<void> watch_lease(const Scope& scope, std::function<void()> hinted);
  // Notifications of appends to followed streams; nullptr if the database has none.
  std::unique_ptr<FenceFeed> stream_feed();

  std::unique_ptr<Driver> driver;
  OpenOptions options;
  FenceMemory memory;
  RefusalLog refusals;
  StatsCounter stats;
  std::unique_ptr<LeaseHolding>
      holding;  // its threads call the driver, so it is destroyed before the driver

 private:
  void note(const StaleTerm& stale);
  // False: the database did not answer.
  bool report(const Refusals& due) noexcept;
  std::int64_t check_uncounted(const Scope& scope, Term term,
                               std::optional<std::chrono::milliseconds> timeout);
};

inline DatabaseState& state_of(const Database& database) noexcept {
  return DatabaseState::of(database);
}

// One open transaction of a write. On the stack of a call of Database::write(), as long as its
// callback runs.
struct TransactionState {
  Transaction handle() { return Transaction(*this); }

  template <class... Arguments>
  Rows call(sql::Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return kept([&] { return session.call(call, {values + 1, sizeof...(Arguments)}); });
  }
  // Remembers a failure: PostgreSQL then answers COMMIT with ROLLBACK and reports no error, so the
  // write must know.
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

}  // namespace detail
}  // namespace v0
}  // namespace termgate
