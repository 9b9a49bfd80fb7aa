// What all calls of layer 1 share on one connection: its statements, clock and settings, the write
// lock and the wait for it, the open transaction, and the audit.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

#include <termgate/detail/sqlite/file_watch.hpp>
#include <termgate/detail/sqlite/passed_checks.hpp>
#include <termgate/detail/sqlite/statement.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Milliseconds since 1970, by the clock of the machine that the file is on.
using Moment = std::int64_t;

class Core;

// Ensures that a raise survives a crash, by what the connection's commit flushes. Owned by its
// Core, on whose thread it runs.
class RaiseFlush {
 public:
  explicit RaiseFlush(Core& core) : core_(core) {}

  // Why a commit would not be flushed; empty: it is. `folder`: whether it needs the folder's flush
  // as well.
  std::string problem(bool* folder = nullptr);
  // The open transaction raises. Throws InvalidInput if a crash could take that back.
  void require(std::string_view scope, std::int64_t term);
  // Why the transaction must not commit; none: it may.
  std::optional<FileWatch::Problem> before_commit();
  void ended(bool committed) noexcept;
  // After a raise that was committed and not flushed, throws OutcomeUnknown, once.
  void report_failure();
  // Whether the last refusal was a raise that this connection's PRAGMA synchronous would not flush.
  bool take_wanted() noexcept { return std::exchange(wanted_, false); }
  // For tests: how often a folder was flushed because of a raise.
  std::int64_t folders() const noexcept { return folders_; }

 private:
  Core& core_;
  // The open transaction raises, and its commit is the removal of a file.
  bool needs_folder_ = false;
  int folder_ = -1;  // the folder that is flushed then
  bool failed_ = false;
  bool wanted_ = false;
  std::int64_t folders_ = 0;
};

// The stale writes that were refused, for the audit. A refusal rolls its statement back, so the
// counts are kept in memory and written when the transaction is over, at most once a second, or by
// the next transaction that a call begins by itself. Owned by its Core, on whose thread it runs.
class Refusals {
 public:
  explicit Refusals(Core& core) : core_(core) {}

  // A stale write of plain SQL.
  void count(const std::string& scope, std::int64_t term);
  // What another process has counted.
  void record(const std::string& scope, std::int64_t term, std::int64_t count, Moment first,
              Moment last, const std::string& client);
  // Writes the counts to the audit, in the open transaction. True: they were written; call forget()
  // once they are committed.
  bool write();
  void forget() noexcept { refused_.clear(); }
  // The same on a connection of its own, at most once a second.
  void write_aside() noexcept;
  // The connection closes.
  void close() noexcept;

 private:
  struct Refused {
    std::int64_t term, count;
    Moment first, last;
  };
  static constexpr std::size_t refused_max = 100;

  Core& core_;
  std::map<std::string, Refused> refused_;  // by scope
  Moment written_ = 0, tried_ = 0;
  bool closing_ = false;  // the connection was opened to write the refusals
};

// Owned by the connection's Layer1; used by that connection's thread. The passed checks and the
// declaration are those of the open transaction.
class Core {
 public:
  explicit Core(sqlite3* db);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  class Unit;      // a call's transaction, savepoint, or place in the caller's statement
  class Snapshot;  // one view for a call of many reads
  // Lives while layer 1 writes to its own tables. No statement of the application runs meanwhile.
  struct AtWork {
    explicit AtWork(Core& core) : core_(core) { ++core.at_work_; }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
    ~AtWork() { --core_.at_work_; }

   private:
    Core& core_;
  };
  // While this lives: the scope and term for which the current call wants the write lock.
  struct Wants {
    Wants(Core& core, std::string_view scope, std::int64_t term) : core_(core) {
      core_.wants_ = {scope, term};
    }
    Wants(const Wants&) = delete;
    Wants& operator=(const Wants&) = delete;
    ~Wants() { core_.wants_ = {}; }

   private:
    Core& core_;
  };

  sqlite3* connection() const noexcept { return db_; }
  // How many rows the last statement has written.
  int changes() const noexcept { return sqlite3_changes(db_); }
  // Describes this process, for raised_by and the audit.
  const std::string& client() const noexcept { return client_; }
  const std::string& session_user() const noexcept { return session_user_; }
  Moment now() const noexcept;
  // For simulations: replaces the machine's clock, except for waits.
  void set_clock(std::function<Moment()> clock) { clock_ = std::move(clock); }
  std::optional<std::string> setting(std::string_view name);
  int installed_version();  // 0: this database has no layer 1
  // The first version of the tables that stores prefixes of scope columns (0007).
  static constexpr int first_with_prefixes = 7;

  Running use(std::string_view sql) {
    if (!connected_) connect();
    return Running(statements_.get(db_, sql));
  }
  void execute(const std::string& sql);
  void audit(std::string_view action, std::optional<std::string_view> scope,
             std::string_view detail, std::string_view actor = {});
  // Called when the connection closes: SQLite refuses to close while statements exist.
  void finalize_statements() noexcept {
    refusals_.close();
    statements_.clear();
    connected_ = false;
  }

  // `path`: the file's, as the user gave it where that is known; SQLite's own has links resolved.
  void watch_file(const std::string& path) { file_.begin(db_, path); }
  FileWatch& file() noexcept { return file_; }
  // Throws Unavailable (SQLITE_READONLY_DBMOVED) if the file is no longer the one that was opened.
  void require_file();

  // Makes the open transaction a writer; waits for the lock as long as the setting allows.
  void lock();
  // Repeats `work` while another connection prevents even reading, as long as check_wait allows and
  // no open transaction or statement makes a repetition impossible.
  void patiently(const std::function<void()>& work);
  // Replaces the setting check_wait_ms.
  void set_check_wait(std::chrono::milliseconds wait) noexcept { check_wait_override_ = wait; }
  // How long a call waits for another connection's write lock.
  std::chrono::milliseconds check_wait() noexcept;
  // The scope and term that a wait for the write lock is for, as announced to other processes
  // (lock_wait.hpp): those of the current call, or else the declared ones. Valid until the next
  // call. An empty scope: anybody.
  std::pair<std::string_view, std::int64_t> wanted() const noexcept {
    if (!wants_.first.empty() || !declared_scope_ || !declared_term_) return wants_;
    return {declared_scope_->name(), declared_term_->value()};
  }

  // The scope and term of this connection's statements that name none; none resets both.
  void declare(std::optional<Scope> scope, std::optional<Term> term);
  const std::optional<Scope>& declared_scope() const noexcept { return declared_scope_; }
  const std::optional<Term>& declared_term() const noexcept { return declared_term_; }

  void begin_transaction() noexcept;
  // Whether the driver announces where its transactions begin.
  bool boundaries_known() const noexcept { return boundaries_known_; }
  // Whether the current call commits by itself, so that a passed check would guard nothing.
  bool own_unit() const noexcept { return own_unit_; }
  // Whether one of layer 1's own statements is running; only these may write to its tables.
  bool at_work() const noexcept { return at_work_ > 0; }
  PassedChecks& passed_checks() noexcept { return passed_checks_; }
  // Enlists the virtual table, which reports the end of the transaction.
  void track();
  RaiseFlush& flush() noexcept { return flush_; }
  Refusals& refusals() noexcept { return refusals_; }

 private:
  int waiting(const std::function<int()>& attempt, const char* what, bool may_wait);
  // Makes SQLite call us when the connection closes, see finalize_statements(). It reads the
  // schema, so it is left to the first statement: loading the extension must not touch the file.
  void connect();

  sqlite3* db_;
  StatementCache statements_;
  FileWatch file_;
  PassedChecks passed_checks_;
  RaiseFlush flush_{*this};
  Refusals refusals_{*this};
  std::optional<Scope> declared_scope_;
  std::optional<Term> declared_term_;
  std::function<Moment()> clock_;
  std::optional<std::chrono::milliseconds> check_wait_override_;
  std::chrono::milliseconds check_wait_seen_{5000};
  std::string client_;
  std::string session_user_;  // the operating system's user
  std::pair<std::string_view, std::int64_t> wants_;
  int at_work_ = 0;
  bool connected_ = false;
  bool boundaries_known_ = false;
  bool own_unit_ = false;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
