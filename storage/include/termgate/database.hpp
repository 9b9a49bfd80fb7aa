// Database: a PostgreSQL, SQL Server or SQLite database whose writes are fenced. The library's front door.
//
//   auto db = Database::open("sqlite:billing.db");
//   Lease lease = db.acquire_lease(Scope{"billing"}, 10s);
//   db.write(lease.scope(), lease.term(), [](Transaction& tx) { tx.exec("UPDATE …", …); });
//
// Any thread may call any member at any time; the object owns its connections, and copies share them.
// Moments in results are milliseconds since 1970 by the database's clock. <termgate/error.hpp> says what each
// error means for the caller, docs/contract.md has the guarantees (F1 … F7). Layer 1 itself runs inside the
// database: this class only sends its statements.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/error.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/isolation.hpp>
#include <termgate/lease.hpp>
#include <termgate/scope.hpp>
#include <termgate/stats.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>
#include <termgate/write_id.hpp>

namespace termgate::sql {
enum class Call : std::uint8_t;  // internal
}

namespace termgate::inline v0 {

namespace detail {
class Driver;
class FenceFeed;
class OpenTransaction;
struct DatabaseState;
struct TransactOptions;
}  // namespace detail

struct OpenOptions {
  std::string schema = "termgate";  // PostgreSQL and SQL Server: the schema of layer 1
  int connections_max = 64;         // a call waits for a free one, at most check_wait
  // SQLite: how long a call waits for its turn or another process's lock; none: the setting check_wait_ms (default 5 s).
  // PostgreSQL, ODBC: how long it waits for a free connection; none: 5 s. For locks the database's setting applies there.
  std::optional<std::chrono::milliseconds> check_wait = {};
  // PostgreSQL, ODBC (whole seconds, by the driver): how long one answer may take, COMMIT's included (then OutcomeUnknown), before the
  // connection is closed. 0: without limit, because a statement may take long. A server that is gone is noticed anyway: a connection
  // attempt ends after 10 s, a peer that has vanished from the network is noticed after 60 s, unless the URL sets other values
  // (connect_timeout, keepalives_idle, keepalives_interval, keepalives_count, tcp_user_timeout).
  std::chrono::milliseconds answer_wait{0};
  // Called with each acquisition, renewal and release of this Database's handles, loops and own calls, when it has ended, on the thread
  // that made it: write a line, and return at once. What it throws is ignored. Terms are no secrets.
  std::function<void(const LeaseCall&)> lease_log = {};
};

struct WriteOptions {
  std::optional<WriteId> write_id = {};  // makes the write repeatable after OutcomeUnknown
  // For the work, including the check but not COMMIT. Then Unavailable; a second later if the server is silent.
  std::optional<std::chrono::milliseconds> timeout = {};
  Isolation isolation = Isolation::database_default;
  int retries = 0;  // how often the callback runs again after Conflict; 0: it runs once
  // If given: the write is committed only if the scope's lease is this owner's, under the write's term, and has not ended by the database's
  // clock when the work has returned. Then LeaseLost: nothing was written. A late holder is refused that way even if nobody took over.
  // Needs an isolation in which a statement sees what was committed before it, which is every database's default.
  std::optional<std::string> lease_owner = {};
};

struct AppendOptions {
  std::optional<SequenceNo> expected = {};  // the last number that the writer has seen; if another: SequenceConflict
  std::optional<Scope> scope = {};          // a stream's scope is fixed by its first write
  std::optional<WriteId> write_id = {};
};

struct LeaseOptions {
  std::string owner = {};                               // empty: host:pid:random, one for each process
  std::string endpoint = {};                            // where the holder can be reached; for people and followers
  std::optional<std::chrono::milliseconds> grace = {};  // before sessions that block the raise are evicted; none: the setting
  std::chrono::milliseconds wait{30'000};               // acquire_lease only: how long to wait while another holds it
  std::stop_token stop = {};                            // acquire_lease only: ends that wait with Cancelled
};

enum class Wrote { now, before };  // before: this write id was already committed; nothing was written again

struct SealReceipt {
  Term fence;
  std::int64_t previous = 0;  // the fence before; 0: there was none
  int evicted = 0;            // sessions ended because they blocked the raise
  std::int64_t sealed_at_ms = 0;
};

struct FenceInfo {
  std::string scope;
  std::int64_t term = 0;
  std::int64_t raised_at_ms = 0;
  std::string raised_by;
  std::string raise_by;  // "writer" or "seal": who may raise it
  bool untrusted = false;
  std::optional<std::int64_t> reset_from;  // the highest fence that an audited reset has lowered
};

struct LeaseInfo {
  std::string scope;
  std::string owner;
  std::int64_t term = 0;
  std::int64_t expires_at_ms = 0;
  std::int64_t acquired_at_ms = 0;
  std::int64_t renewed_at_ms = 0;
  std::optional<std::int64_t> released_at_ms;
  std::string endpoint;
  std::int64_t remaining_ms = 0;  // 0 or less: ended
};

struct HandOverOptions {
  std::string to = {};  // who alone may take the lease meanwhile: an owner, or the beginning of one and a *; empty: all but the holder
  std::chrono::milliseconds drain{30'000};  // the time in which the holder has to leave, 100 ms to 1 day
  std::string actor = {};                   // for the audit; empty: the database's user
  std::string reason = "planned";
};

// The last hand-over of a scope: a request, and then its receipt.
struct HandOverInfo {
  std::string scope, owner;  // who leaves
  std::int64_t term = 0;     // its term
  std::optional<std::string> to;
  std::string requested_by, reason;
  std::int64_t requested_at_ms = 0, leave_before_ms = 0;
  std::optional<std::int64_t> left_at_ms;  // none: it has not, or its lease ran out
  std::optional<std::string> next_owner;
  std::optional<std::int64_t> next_term, taken_at_ms;
  std::optional<std::int64_t> gap_ms;  // how long nobody held the lease
  std::string state;                   // asked, left (its successor may come), taken, over (nobody has taken it in time)
  bool in_progress() const { return state == "asked" || state == "left"; }
};

struct StreamWrite {
  SequenceNo sequence_no;
  std::string scope;
  Term term;
  std::string payload;
  std::int64_t created_at_ms = 0;
  std::optional<std::string> write_id;
};

struct StreamInfo {
  std::string stream;
  std::string scope;
  std::int64_t last_no = 0;
  std::optional<std::int64_t> first_no;  // none: everything was pruned, or nothing written
  std::int64_t created_at_ms = 0;
};

struct Breach {  // of verify: one breach that the stored rows show
  std::string kind, scope, object, detail;
};

struct Advice {  // of doctor: one thing that is not covered
  std::string severity, object, problem, remedy;
};

struct WriteOutcome {  // of outcome: what was committed under a write id
  std::string scope;
  Term term;
  std::optional<std::string> stream;
  std::optional<std::int64_t> sequence_no;
  std::int64_t created_at_ms = 0;
};

struct JobRunInfo {
  std::string run_id, job, scope, owner;
  std::int64_t term = 0;
  std::int64_t started_at_ms = 0;
  std::optional<std::int64_t> completed_at_ms;
  // requested (it has no owner and term yet), started, completed, failed, cancelled, lost. Lost also if an open run's lease has ended.
  std::string status;
  std::optional<std::int64_t> last_heartbeat_ms;
  std::optional<std::int64_t> exit_code;
  std::optional<std::string> checkpoint, detail;
  std::optional<std::string> request;  // what somebody asked for: run, dry-run, resume. None: nobody asked for it
  std::int64_t now_ms = 0;             // when it was read
};

struct JobRequest {
  bool requested = false;  // false: this run of the job is asked for already, and nothing was changed
  std::string run_id;
};

struct JobTaken {
  std::string run_id;
  std::string request;  // run, dry-run or resume
};

// When the last completed run of a job began, by the database's clock.
struct CompletedJob {
  std::optional<std::int64_t> started_at_ms;  // without runs that began too far in the future
  std::optional<std::int64_t> latest_ms;      // with them
  std::int64_t now_ms = 0;                    // when it was read
};

// What a follower follows: one of the two.
struct FollowedBy {
  std::optional<std::string> stream = {}, scope = {};
};

// What a follower has not handled yet (<termgate/follower.hpp>).
struct FollowerBehind {
  struct Stream {
    std::string stream;
    std::int64_t position = 0;  // the last write that it has handled; 0: none
    std::int64_t last_no = 0;
  };
  std::int64_t run = 0;         // 0: there is no such follower
  std::int64_t behind = 0;      // writes, of all streams
  std::vector<Stream> streams;  // in the order of names
};

enum class FollowerMove {
  moved,
  taken,      // a later start has taken the follower over
  elsewhere,  // its position was another than `from`
};

struct FollowerInfo {
  std::string name;
  FollowedBy followed;
  std::int64_t run = 0;
  std::int64_t started_at_ms = 0;
  std::string started_by;
  std::int64_t behind = 0;                // writes not handled yet
  std::optional<std::int64_t> behind_ms;  // how long ago the oldest of them was written
  std::optional<std::int64_t> moved_at_ms;
};

struct AuditEntry {
  std::int64_t id = 0;
  std::int64_t at_ms = 0;
  std::string actor, client, action;
  std::optional<std::string> scope;
  std::string detail;  // JSON
};

struct AuditFilter {
  std::optional<std::string> scope = {};
  std::int64_t above_id = 0;
};

struct JobFilter {
  std::optional<std::string> job = {}, scope = {}, run_id = {}, status = {};
};

// One open fenced transaction, valid inside the callback of Database::write and on its thread only.
class Transaction {
 public:
  const Scope& scope() const noexcept { return scope_; }
  Term term() const noexcept { return term_; }

  // Runs one statement; `$1`, `$2` … take the arguments, on every database. Throws DatabaseError, Conflict,
  // or a TG error of a trigger. After any of them the transaction is rolled back when the callback ends. If the
  // callback swallows the error, write() throws it. Only ROLLBACK TO a savepoint makes the transaction usable again.
  template <class... Arguments>
  Rows exec(std::string_view sql, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return execute(sql, values + 1, sizeof...(Arguments));
  }
  Rows exec_values(std::string_view sql, const std::vector<Value>& values) { return execute(sql, values.data(), values.size()); }

  // Appends under this transaction's scope and term. The stream's writers take turns until commit. The payload is as for Database::append.
  // This transaction has passed its check, so while a large payload is sent a higher term waits, and evicts this session after the grace.
  SequenceNo append(const Stream& stream, std::string_view payload, std::optional<SequenceNo> expected = {});

  // COMMIT fails (LeaseLost, nothing was written) where `owner` does not hold the lease of this transaction's scope then, by the database's
  // clock, even if nobody has taken over. LeaseLost at once where it does not hold it now. SQL Server looks at this moment alone: call it
  // last. PostgreSQL: at READ COMMITTED, its default, only.
  void require_lease(const std::string& owner);

  // Passes the check for another scope with its own term (F1). Raises only if this transaction holds nothing
  // of that scope yet.
  Term check(const Scope& scope, Term term);

 private:
  friend class Database;
  Transaction(detail::DatabaseState& state, detail::OpenTransaction& session, Scope scope, Term term)
      : state_(state), session_(session), scope_(std::move(scope)), term_(term) {}
  template <class... Arguments>
  Rows call(sql::Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return run(call, values + 1, sizeof...(Arguments));
  }
  Rows run(sql::Call call, const Value* values, std::size_t count);
  Rows execute(std::string_view sql, const Value* values, std::size_t count);

  detail::DatabaseState& state_;
  detail::OpenTransaction& session_;
  Scope scope_;
  Term term_;
  std::exception_ptr failed_;  // a statement's error that no ROLLBACK TO has undone yet
};

class Database {
 public:
  // The limit of one payload, and of all payloads of one batch together, on every database. PostgreSQL and SQLite take no more: there a
  // payload is one value of one message, which both ends hold whole and more than once, and twice as long if it is sent as text (a batch,
  // odbc-postgresql).
  static constexpr std::size_t payload_bytes_max = std::size_t{256} << 20;
  // The limit on this database. SQL Server takes up to 1 GiB if its setting payload_bytes_max (256 MiB by default) allows it, because
  // payloads are sent in pieces there.
  std::size_t payload_limit() const noexcept;

  // `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`. Opens no connection yet.
  // Throws InvalidInput for a URL of another kind, Unavailable if the path is a directory. A missing file or
  // server is noticed at first use.
  static Database open(std::string_view url, OpenOptions options = {});

  // Layer 1: installs or upgrades it (safe to run again, and concurrently). Returns the version before and after.
  struct Installed {
    int from_version, to_version;
  };
  Installed install();
  int installed_version();  // 0: none
  void uninstall();
  void grant(std::string_view role, std::string_view level);  // read, write, lead, operate; "public" (every role) takes read or write
  // Removes every level (PostgreSQL). The rows are what the role can still do: level, and through which role it has it.
  Rows revoke(std::string_view role);
  std::string_view kind() const noexcept;  // "postgresql", "sqlite", "sqlserver"

  // Runs `work` in one transaction after the check for (scope, term), and commits it (F1, F5). A term above
  // the fence is raised first, in a separate transaction. When this returns the write is committed.
  // Throws StaleTerm, TermRequired, InvalidInput, FenceUntrusted, Blocked, Conflict, Unavailable, DatabaseError:
  // nothing was written; OutcomeUnknown: COMMIT was sent and not answered. What `work` throws is passed on unchanged.
  Wrote write(const Scope& scope, Term term, const std::function<void(Transaction&)>& work, const WriteOptions& options = {});

  // One statement of yours under (scope, term), committed when this returns: the same as a write() of that statement alone, in one round
  // trip on PostgreSQL. `$1`, `$2` … take the arguments. A statement that must stand outside any transaction (VACUUM) is none for it.
  // Throws what write() throws.
  template <class... Arguments>
  Rows execute(const Scope& scope, Term term, std::string_view sql, Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{Value(std::forward<Arguments>(arguments))...};
    return execute_one(scope, term, sql, values);
  }

  // Check and append as one statement. With a write id, repeating the call returns the first call's number. Borrows the payload. A large
  // one is sent to SQL Server in pieces, before any lock is taken. Throws InvalidInput above payload_limit(), before anything is sent.
  SequenceNo append(const Stream& stream, Term term, std::string_view payload, const AppendOptions& options = {});
  // All or nothing; at least one payload; returns the last number. `write_ids` is empty or as long as `payloads`.
  SequenceNo append_many(const Stream& stream, Term term, const std::vector<std::string>& payloads, const AppendOptions& options = {},
                         const std::vector<WriteId>& write_ids = {});

  // The check alone, in its own transaction: raises the fence if the term is above it.
  Term check(const Scope& scope, Term term);
  // Raises a fence without writing (F2). Waits for lower terms up to the grace, then evicts (F4). `actor` and `reason` are kept in the
  // audit if the fence was raised; give both or neither.
  SealReceipt seal(const Scope& scope, Term term, std::optional<std::chrono::milliseconds> grace = {},
                   const std::optional<std::string>& actor = {}, const std::optional<std::string>& reason = {});

  // Waits up to options.wait while another owner holds it, then throws Blocked. TTL 100 ms to 1 day.
  Lease acquire_lease(const Scope& scope, std::chrono::milliseconds ttl, const LeaseOptions& options = {});
  // A lease that renews itself and is given back by its handle (<termgate/held_lease.hpp>). Waits up to options.wait while another owner
  // holds it, then throws Blocked; Cancelled if options.stop was requested.
  HeldLease hold(const Scope& scope, const HoldOptions& options = {});
  // None: another owner holds it.
  std::optional<HeldLease> try_hold(const Scope& scope, const HoldOptions& options = {});
  // None: another owner holds it.
  std::optional<Lease> try_acquire_lease(const Scope& scope, std::chrono::milliseconds ttl, const LeaseOptions& options = {});
  // Extends by the lease's own TTL. Throws LeaseLost if its owner no longer holds it.
  void renew_lease(Lease& lease);
  // The same by its parts, for a holder without the Lease object. Throws LeaseLost.
  Lease renew_lease(const Scope& scope, Term term, const std::string& owner, std::chrono::milliseconds ttl);
  bool release_lease(const Lease& lease) { return release_lease(lease.scope(), lease.term(), lease.owner()); }
  bool release_lease(const Scope& scope, Term term, const std::string& owner);
  bool force_release(const Scope& scope, std::string_view actor, std::string_view reason);
  // Asks the holder of a lease to leave; it learns of it by its next renewal, on PostgreSQL at once (HeldLease::asked_to_leave,
  // LeaderLoop). As long as the drain lasts only whom `options` name can acquire the lease. A holder that has not left then is renewed no
  // more, so that its lease ends and is free, as after a crash. False: nobody holds it. Another request takes the place of the last one.
  bool request_hand_over(const Scope& scope, const HandOverOptions& options = {});
  // The last hand-over of the scope, or of every scope (none), newest first. Empty where layer 1 is one version older.
  std::vector<HandOverInfo> hand_overs(const std::optional<Scope>& scope = {}, int limit = 500);
  static const std::string& default_owner();  // host:pid:random

  // Job history by its parts; <termgate/job_run.hpp> has the handle. A start is checked like a write (StaleTerm), and so are a heartbeat
  // and the end "completed". A stale leader may still report "failed", "cancelled" and "lost". A job has one open run in a scope.
  std::string start_job(std::string_view job, const Scope& scope, Term term, const std::string& owner,
                        const std::optional<std::string>& detail = {});
  // Asks for a run of the job: `kind` is run, dry-run or resume, which is for the command that answers. There is one request of a job in a
  // scope; it stays until it is taken, or cancelled by finish_job. Empty actor or reason: this login, "by hand".
  JobRequest request_job(std::string_view job, const Scope& scope, std::string_view kind, std::string_view actor = {},
                         std::string_view reason = {});
  // Begins the run that is asked for, as start_job begins one. None: none is.
  std::optional<JobTaken> take_job(std::string_view job, const Scope& scope, Term term, const std::string& owner);
  // False: the run is no longer open. With `renew` it also renews that lease, in the same transaction; if that fails it throws LeaseLost
  // and does neither.
  bool beat_job(const std::string& run_id, const std::optional<std::string>& checkpoint = {}, Lease* renew = nullptr);
  // One call: a heartbeat and the renewal of the run's own lease, whose owner and term the database knows. Returns when the next one must
  // have succeeded, which is when the lease ends by this process's clock. None: the run is no longer open, and nothing was renewed. Throws
  // LeaseLost: the run's owner no longer holds the lease; nothing was recorded.
  std::optional<Lease::Clock::time_point> beat_job(const std::string& run_id, const std::optional<std::string>& checkpoint,
                                                   std::chrono::milliseconds ttl);
  bool finish_job(const std::string& run_id, std::string_view status, std::optional<std::int64_t> exit_code = {},
                  const std::optional<std::string>& detail = {}, const std::optional<std::string>& checkpoint = {});
  std::vector<JobRunInfo> jobs(const JobFilter& filter = {}, int limit = 100);  // newest first; a request is as old as it was made
  // A run that began more than `ahead` in the future was recorded by a clock that was wrong then.
  CompletedJob completed_job(std::string_view job, const Scope& scope, std::chrono::milliseconds ahead);

  // A follower by parts; <termgate/follower.hpp> has the loop. A start returns the follower's run from now on: who moves positions under a
  // lower one learns that it was taken. Always the same stream or scope for a name. Throws InvalidInput.
  std::int64_t start_follower(std::string_view name, const FollowedBy& followed, bool from_end = false);
  FollowerBehind follower_behind(std::string_view name, int limit = 1000);
  FollowerMove advance_follower(std::string_view name, std::int64_t run, const Stream& stream, SequenceNo from, SequenceNo to);
  // Its positions go with it. False: there was none.
  bool remove_follower(std::string_view name);
  std::vector<FollowerInfo> followers(std::string_view after = {}, int limit = 1000);  // in the order of names

  // What this object and its copies have done with leases so far.
  DatabaseStats stats() const;

  // Records refusals that were made elsewhere (by a proxy, from memory). False: too soon after the last report, add these to the next one.
  // Refusals of this object's own calls are recorded without this.
  bool record_refusals(const Scope& scope, Term term, std::int64_t count, std::int64_t first_ms, std::int64_t last_ms,
                       std::string_view client);

  // How often writes were refused, by code. On PostgreSQL and SQLite also those of plain SQL; elsewhere what libraries and proxies
  // reported.
  std::vector<std::pair<std::string, std::int64_t>> refusal_counts();
  std::optional<FenceInfo> fence(const Scope& scope);
  std::vector<FenceInfo> fences(std::string_view after = {}, int limit = 1000);  // in scope order
  std::optional<LeaseInfo> lease(const Scope& scope);
  std::vector<LeaseInfo> leases(std::string_view after = {}, int limit = 1000);
  // Returns at most `limit` writes and at most `bytes_max` bytes of payload, in order, but always at least one write if there is one. A
  // large payload is fetched in parts and is in memory once. If a write is pruned while its payload is fetched, the page ends before it, or
  // leaves it out if it is the first. Throws Conflict if that happened in ten attempts.
  std::vector<StreamWrite> read_stream(const Stream& stream, SequenceNo after, int limit = 1000,
                                       std::size_t bytes_max = std::numeric_limits<std::size_t>::max());
  std::optional<StreamInfo> stream(const Stream& stream);
  std::vector<StreamInfo> streams(std::string_view after = {}, int limit = 1000);
  // What was committed under the id. None: not committed so far. The attempt whose answer was lost may still be on its
  // way to the server; to settle it, send the same write again with the same id.
  std::optional<WriteOutcome> outcome(const WriteId& write_id);
  // A read outside the fence: SELECTs only, the database refuses everything else.
  Rows query(std::string_view sql, const std::vector<Value>& values = {});

  // The audited ways down and out (F3).
  std::int64_t reset_fence(const Scope& scope, Term term, std::string_view actor, std::string_view reason);
  Term declare_restored(const Scope& scope, Term above, std::string_view actor, std::string_view reason);
  std::int64_t declare_nothing_lost(std::string_view actor, std::string_view reason);
  std::int64_t declare_untrusted(std::string_view actor, std::string_view reason);
  void set_raise_by(const Scope& scope, std::string_view mode);
  std::int64_t prune(const Stream& stream, SequenceNo before);
  std::int64_t prune_history(std::chrono::milliseconds older_than);
  bool move_stream(const Stream& stream, const Scope& scope, std::string_view actor, std::string_view reason);

  // Triggers on the owner's own tables, and what is not covered.
  struct Protection {
    std::optional<std::string> scope_column = {};  // one of the two must be given
    std::optional<std::string> scope = {};
    std::string mode = "enforce";  // or "observe": refuse nothing, count what would have been refused
    std::string prefix = {};       // is put in front of the scope column's value: "river/" makes 17 the scope "river/17"
  };
  std::int64_t protect(std::string_view table, const Protection& protection);
  bool unprotect(std::string_view table);
  // Reads the table once, as its owner; from then on its rows report their terms. NULL and terms below 1 are no evidence.
  std::int64_t adopt(std::string_view table, std::string_view scope_column, std::string_view term_column, std::string_view prefix = {});
  bool unadopt(std::string_view table);
  std::vector<Advice> doctor();
  std::vector<Breach> verify(std::optional<std::int64_t> since_ms = {});
  Rows settings();  // name, value, what
  void set_setting(std::string_view name, std::string_view value);
  void set_settings(const std::vector<std::pair<std::string, std::string>>& names_and_values);  // all or none
  std::vector<AuditEntry> audit(const AuditFilter& filter = {}, int limit = 100);               // newest first
  Rows explain(const Scope& scope, int limit = 100);  // at_ms, actor, client, action, detail; newest first

 private:
  friend class Follower;
  friend class LeaderLoop;
  friend class LeaseWatch;
  // Calls `hinted` on a thread of the Database's when somebody has given the scope's lease back or asks for it, as long as the result
  // lives. A hint may be wrong or missing. `hinted` must return at once.
  std::shared_ptr<void> watch_lease(const Scope& scope, std::function<void()> hinted);
  // Notifications of appends to followed streams; nullptr where there are none.
  std::unique_ptr<detail::FenceFeed> stream_feed();
  explicit Database(std::shared_ptr<detail::DatabaseState> state) : state_(std::move(state)) {}
  // One attempt of write().
  Rows execute_one(const Scope& scope, Term term, std::string_view sql, std::span<const Value> values);
  Wrote write_once(const Scope& scope, Term term, const std::function<void(Transaction&)>& work, const std::optional<WriteId>& write_id,
                   const std::optional<std::string>& lease_owner, const detail::TransactOptions& transact);
  std::shared_ptr<detail::DatabaseState> state_;
};

}  // namespace termgate::inline v0
