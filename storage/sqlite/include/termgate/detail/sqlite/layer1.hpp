// Layer 1 on SQLite (docs/contract.md, section 2), written once: compiled into the library and into
// the loadable extension. One Layer1 a connection; used by that connection's thread; it never
// outlives it.
//
// The lock is the database's write transaction: SQLite has one writer at a time, so whoever holds
// it reads a fence that nobody can raise meanwhile. Every call below that writes or checks
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

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/write_id.hpp>

#include <termgate/detail/sqlite/file_watch.hpp>
#include <termgate/detail/sqlite/passed_checks.hpp>
#include <termgate/detail/sqlite/statement.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Milliseconds since 1970, by the clock of the machine that the file is on.
using Moment = std::int64_t;

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

  explicit Layer1(sqlite3* db);

  // --- the boundary (F1, F2, F5)

  // Checks the term and returns the fence afterwards. Above the fence it raises, unless this
  // transaction has passed the scope already or only seals may raise the scope.
  std::int64_t check_term(const Scope& scope, Term term);

  struct Receipt {
    std::int64_t fence, previous, evicted;
    Moment sealed_at;
  };
  // Actor and reason are for the audit; give both or neither.
  Receipt seal(const Scope& scope, Term term, const std::optional<std::string>& actor = {},
               const std::optional<std::string>& reason = {});

  struct Write {
    std::string_view payload;  // borrowed for the call
    std::optional<std::string> write_id;
  };
  // Returns the number of the last write.
  std::int64_t append(const Stream& stream, Term term, const std::vector<Write>& writes,
                      std::optional<std::int64_t> expected, const std::optional<Scope>& scope);

  struct Claim {
    bool fresh;
    std::int64_t fence;
  };
  Claim claim_write(const Scope& scope, Term term, const WriteId& id);

  struct Outcome {
    std::optional<std::string> stream;
    std::optional<std::int64_t> sequence_no;
    std::string scope;
    std::int64_t term;
    Moment created_at;
  };
  std::optional<Outcome> outcome(const WriteId& id);

  // The scope and term of this connection's statements that name none; none resets both.
  void declare(std::optional<Scope> scope, std::optional<Term> term);

  // --- leases

  struct Acquisition {
    bool acquired;
    std::int64_t term;
    Moment expires_at;
    std::string owner_id;
    std::int64_t remaining_ms;
  };
  Acquisition acquire_lease(const Scope& scope, const std::string& owner, std::int64_t ttl_ms,
                            const std::optional<std::string>& endpoint);
  struct Renewal {
    bool renewed;
    std::optional<Moment> expires_at;
    std::int64_t remaining_ms;
    std::optional<std::int64_t>
        leave_in_ms;  // the holder should release the lease within this time
  };
  Renewal renew_lease(const Scope& scope, const std::string& owner, Term term, std::int64_t ttl_ms);
  // Renews many in one transaction. `leases`: a JSON array of {"scope", "owner", "term", "ttl_ms"},
  // at most 500, no scope twice. Returns for each in order: renewed, lost or untrusted.
  std::vector<std::string_view> renew_leases(const std::string& leases);
  bool release_lease(const Scope& scope, const std::string& owner, Term term);
  bool force_release(const Scope& scope, const std::string& actor, const std::string& reason);

  // Makes the open transaction fail to commit unless this owner then still holds the lease, under
  // its current term. Returns when the lease ends. Throws LeaseLost if it is not held now.
  Moment require_lease(const Scope& scope, const std::string& owner);
  // Throws LeaseLost if a required lease is over. Transactions that share a commit each call this
  // at their own end.
  void need_required_leases();

  // --- planned hand-over

  // Requests the holder to leave within the drain. Meanwhile only `successor` may take the lease
  // (an owner, or a prefix followed by *; none: anybody but the holder); afterwards the holder
  // cannot renew it. None: nobody holds it.
  struct HandOver {
    std::string owner_id;
    std::int64_t term;
    Moment leave_before;
  };
  std::optional<HandOver> request_hand_over(const Scope& scope,
                                            const std::optional<std::string>& successor,
                                            std::int64_t drain_ms, const std::string& actor,
                                            const std::string& reason);
  // How long the holder under this term may still stay. None: nobody requests its lease.
  std::optional<std::int64_t> leave_in_ms(const std::string& scope, std::int64_t term);

  // --- the operator (F3)

  std::int64_t reset_fence(const Scope& scope, Term term, const std::string& actor,
                           const std::string& reason);
  std::int64_t declare_restored(const Scope& scope, Term above, const std::string& actor,
                                const std::string& reason);
  std::int64_t declare_nothing_lost(const std::string& actor, const std::string& reason);
  std::int64_t declare_untrusted(const std::string& actor, const std::string& reason);
  std::string set_raise_by(const Scope& scope, const std::string& mode);
  std::int64_t prune(const Stream& stream, std::int64_t before);
  std::int64_t prune_history(std::int64_t older_than_ms);
  bool stream_move(const Stream& stream, const Scope& scope, const std::string& actor,
                   const std::string& reason);
  void set_setting(const std::string& name, const std::string& value);
  // Counts a stale write of plain SQL, whose statement is rolled back. The count is kept in memory,
  // and written to the audit when the transaction is over, at most once a second, or by the next
  // transaction that a call begins by itself.
  void count_refusal(const std::string& scope, std::int64_t term);
  void record_refusal(const std::string& scope, std::int64_t term, std::int64_t count, Moment first,
                      Moment last, const std::string& client);

  // --- job history

  std::string job_start(const std::string& job_name, const Scope& scope, const std::string& owner,
                        Term term, const std::optional<std::string>& detail);
  // Requests a run: `kind` is run, dry-run or resume. Not requested: that run was already
  // requested, and nothing was changed.
  struct JobRequest {
    bool requested;
    std::string run_id;
  };
  JobRequest job_request(const std::string& job_name, const Scope& scope, const std::string& kind,
                         const std::string& actor, const std::string& reason);
  // Begins the requested run, as job_start does. None: there is no request.
  struct TakenJob {
    std::string run_id, kind;
  };
  std::optional<TakenJob> job_take(const std::string& job_name, const Scope& scope,
                                   const std::string& owner, Term term);
  // False if the run is no longer open. A heartbeat, and the completion of a run, are checked like
  // writes: TG001.
  bool job_heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint);
  // A heartbeat and the renewal of the run's lease. Not beaten: the run is no longer open, and
  // nothing was renewed.
  struct Beat {
    bool beaten = false, renewed = false;
    std::optional<Moment> beat_before = {};
    std::optional<std::int64_t> remaining_ms = {};
  };
  Beat job_heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint,
                     std::int64_t ttl_ms);
  bool job_finish(const std::string& run_id, const std::string& status,
                  std::optional<std::int64_t> exit_code, const std::optional<std::string>& detail,
                  const std::optional<std::string>& checkpoint);

  // --- followers

  // Returns the follower's new run; an older run cannot move positions any more. Give a stream or a
  // scope, always the same for one name.
  std::int64_t follower_start(const std::string& name, const std::optional<std::string>& stream,
                              const std::optional<std::string>& scope, bool from_end);
  // "moved"; "taken": a later start has taken it over; "elsewhere": the position is not `from`.
  std::string_view follower_advance(const std::string& name, std::int64_t run, const Stream& stream,
                                    std::int64_t from, std::int64_t to);
  bool follower_remove(const std::string& name);

  // --- the owner's tables (layer1/tables.cpp)

  std::int64_t protect(const std::string& target, const std::optional<std::string>& scope_column,
                       const std::optional<std::string>& scope, const std::string& mode,
                       const std::string& prefix = {});
  bool unprotect(const std::string& target);
  std::int64_t adopt(const std::string& target, const std::string& scope_column,
                     const std::string& term_column, const std::string& prefix = {});
  bool unadopt(const std::string& target);

  struct Advice {
    std::string severity, object, problem, remedy;
  };
  std::vector<Advice> doctor();
  struct Breach {
    std::string kind, scope, object, detail;
  };
  std::vector<Breach> verify(Moment since);

  // --- called by triggers (protect, adopt, and the guards of Termgate's own tables)

  // The row's value in the scope column, as SQLite passed it.
  struct RowScope {
    enum class Kind { null, text, unfit } kind;
    std::string text;
  };
  // What the trigger read in its own file, so that an attached file's trigger is not taken for the
  // main database's. nullopt from a trigger of an earlier version, which passes nothing.
  struct Handed {
    std::optional<std::int64_t> mark;  // NULL if no file is attached
  };
  // Called by the trigger first: true if it must read the mark. Writes a mark of this transaction
  // into the main database.
  bool guard_arm();
  // Throws TG005 unless the trigger belongs to the main database. `table`: for the message.
  void require_here(std::string_view table, const std::optional<Handed>& handed);
  // Whether one of layer 1's own statements is running; only these may write to its tables.
  bool at_work() const noexcept { return at_work_ > 0; }
  void guard_row(std::string_view table, const RowScope& row);
  void guard_any(std::string_view table);  // '*': any scope that the transaction has passed
  void observe_row(std::string_view table, const std::optional<RowScope>& row,
                   const std::optional<Handed>& handed) noexcept;
  void guard_adopted(std::string_view table, const RowScope& row, std::optional<std::int64_t> term);
  void guard_changed() { fence_changed(); }
  void guard_raise(std::string_view scope, std::int64_t term);
  bool guard_lower(std::string_view scope, std::int64_t term);
  void guard_replace(std::string_view table);
  // There is a row with the rowid -1. BEFORE INSERT cannot tell whether the new row really has that
  // rowid, because SQLite also shows -1 for one that it is about to choose; AFTER INSERT can.
  void note_perhaps(std::string_view table, const RowScope& row) {
    perhaps_.insert_or_assign(std::string(table), row);
  }
  void guard_noted(std::string_view table);
  void require_trigger();
  void require_adopted(std::string_view table);

  // --- layer 1 itself (install.cpp)

  struct Installed {
    int from_version, to_version;
  };
  Installed install();
  int installed_version();
  void uninstall();
  // Refused inside a transaction.
  void uninstall(const std::string& actor, const std::string& reason);
  // A part that this version's migrations would create and that this database lacks.
  struct Part {
    std::string name;
    bool table;
  };
  std::vector<Part> missing_parts();
  // The parts of doctor() by subject; each adds to the findings.
  void doctor_untrusted(std::vector<Advice>& findings);
  void doctor_triggers(std::vector<Advice>& findings, const std::string& table,
                       std::string_view prefix,
                       std::vector<std::pair<std::string, std::string>> wanted,
                       const std::string& again);
  void doctor_protected(std::vector<Advice>& findings);
  void doctor_adopted(std::vector<Advice>& findings);
  void doctor_uncovered(std::vector<Advice>& findings);
  void doctor_leases(std::vector<Advice>& findings);
  void doctor_attached(std::vector<Advice>& findings);
  void doctor_connection(std::vector<Advice>& findings);
  void alter_columns();
  // Recreates the triggers that no longer match the columns and indexes of a protected or adopted
  // table. In the caller's transaction.
  void renew_triggers() { outdated_triggers(true); }

  // --- for the driver, which owns its connection

  // The driver announces where its transactions begin, so a check that raises nothing need not
  // enlist the virtual table: such a pass may survive a ROLLBACK TO, because the write lock does.
  // Whatever changes a fence enlists. Called at the start of each transaction, and of each member
  // of a group commit.
  void begin_transaction() noexcept;
  // Between two transactions of the driver a fence stays known, as long as the pager's data version
  // shows that nobody else has written. SQLite's own page cache relies on the same.
  void transaction_committed() noexcept { known_version_ = data_version(); }
  void transaction_undone() noexcept { known_.clear(); }
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
  // Whether the last refusal was a raise that this connection's PRAGMA synchronous would not flush.
  bool take_wants_flush() noexcept { return std::exchange(wants_flush_, false); }

  // The file's path as the user named it, if it is known better than SQLite knows it.
  void watch_file(const std::string& path) { file_.begin(db_, path); }
  FileWatch& file() noexcept { return file_; }
  // Throws Unavailable (SQLITE_READONLY_DBMOVED) if the file is no longer the one that was opened.
  void require_file();

  sqlite3* connection() const noexcept { return db_; }
  const std::string& client() const noexcept { return client_; }
  PassedChecks& passed_checks() noexcept { return passed_checks_; }
  void transaction_began() noexcept { passed_checks_.began(boundaries_known_); }
  // Why a transaction that has passed the check, or raised, must not commit; none: it may.
  std::optional<FileWatch::Problem> before_commit();
  // After a raise that was committed and not flushed, throws OutcomeUnknown, once.
  void report_failed_flush();
  // Called by SQLite afterwards, when nothing can be refused any more.
  void transaction_ended(bool committed) noexcept;
  // For tests: how often a folder was flushed because of a raise.
  std::int64_t folder_flushes() const noexcept { return folder_flushes_; }
  // For simulations: replaces the machine's clock, except for waits.
  void set_clock(std::function<Moment()> clock) { clock_ = std::move(clock); }
  // Called when the connection closes: SQLite refuses to close while statements exist.
  void finalize_statements() noexcept {
    refusals_tried_ = 0;
    if (!refusals_closing_) write_refusals_aside();
    statements_.clear();
    connected_ = false;
  }
  Moment now() const noexcept;
  std::optional<std::string> setting(std::string_view name);
  Running use(std::string_view sql) {
    if (!connected_) connect();
    return Running(statements_.get(db_, sql));
  }
  // Repeats `work` while another connection prevents even reading, as long as check_wait allows and
  // no open transaction or statement makes a repetition impossible.
  void patiently(const std::function<void()>& work);

 private:
  static Layer1& put_on(sqlite3* db);

  struct OpenJob {
    std::string scope;
    std::int64_t term;
    std::string owner;
  };
  std::optional<OpenJob> open_job(const std::string& run_id, bool checked);
  void begin_job(const std::string& job_name, const Scope& scope, const std::string& owner,
                 Term term, Moment moment);
  // Term 0: finds the requested run.
  std::optional<TakenJob> find_job(const std::string& job_name, const Scope& scope,
                                   std::int64_t term);
  class Unit;
  class Snapshot;
  // Lives while layer 1 writes to its own tables. No statement of the application runs meanwhile.
  struct AtWork {
    explicit AtWork(Layer1& layer1) : layer1_(layer1) { ++layer1.at_work_; }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
    ~AtWork() { --layer1_.at_work_; }

   private:
    Layer1& layer1_;
  };
  struct Fence {
    bool exists = false;
    std::int64_t term = 0;
    std::optional<std::string> raise_by;
    bool untrusted = false;
    bool was_reset = false;
  };
  struct LeaseRow {
    std::string owner;
    std::int64_t term;
    Moment expires_at, renewed_at;
    std::optional<Moment> released_at;
  };
  struct AskedFor {
    std::string owner;
    std::optional<std::string> successor;
    Moment leave_before;
  };
  LeaseRow need_live_lease(const Scope& scope, const std::string& owner, std::int64_t term);
  bool knows_hand_overs();
  std::optional<AskedFor> asked_for(const std::string& scope, std::int64_t term);
  bool may_follow(const std::string& scope, std::int64_t term, const std::string& owner,
                  Moment moment);
  void handed_over(const std::string& scope, const LeaseRow& before, const std::string& owner,
                   std::int64_t term, Moment moment);
  enum class Raise { allowed, refused };

  Fence read_fence(std::string_view scope);
  Fence known_fence(const std::string& scope);
  unsigned data_version() const noexcept;
  std::optional<LeaseRow> read_lease(std::string_view scope);
  // MAX(term) of the scope in the database's own rows: stream writes, adopted tables. 0: none.
  std::int64_t evidence(std::string_view scope, bool streams_only, bool was_reset);
  // The fence, or the evidence if the fence has no row.
  std::int64_t height(std::string_view scope, const Fence& fence);
  // The check has two halves, both under the write lock, so that every refusal comes before
  // anything is written: judge compares; admit then writes the raise and records the pass.
  struct Verdict {
    Fence fence;
    bool raises;
  };
  Verdict judge(const std::string& scope, std::int64_t term, Raise raise, bool with_evidence);
  std::int64_t admit(const std::string& scope, std::int64_t term, const Verdict& verdict);
  std::int64_t declare_trust(bool untrusted, std::string_view action, const std::string& actor,
                             const std::string& reason);
  void refuse_untrusted(std::string_view scope, const Fence& fence);
  void refuse_unissued(std::string_view scope, std::int64_t term);
  void refuse_passed(std::string_view scope, const char* what);
  // Writes the raise (or the first row).
  void raise(std::string_view scope, const Fence& fence, std::int64_t term, bool untrusted,
             const std::string& actor, std::string_view action, std::string_view more);
  // True if something was written, which may be forgotten once it is committed.
  bool write_refusals();
  void write_refusals_aside() noexcept;
  void pass(const std::string& scope, std::int64_t term);
  Scope scope_of(const Stream& stream, const std::optional<Scope>& named,
                 const std::optional<std::string>& fixed);
  std::int64_t repeated(const Stream& stream, const std::vector<Write>& writes, bool& found);
  void audit(std::string_view action, std::optional<std::string_view> scope,
             std::string_view detail, std::string_view actor = {});
  // Makes the open transaction a writer; waits for the lock as long as the setting allows.
  void lock();
  struct Wants {
    Wants(Layer1& layer1, std::string_view scope, std::int64_t term) : layer1_(layer1) {
      layer1_.wants_ = {scope, term};
    }
    Wants(const Wants&) = delete;
    Wants& operator=(const Wants&) = delete;
    ~Wants() { layer1_.wants_ = {}; }

   private:
    Layer1& layer1_;
  };
  std::pair<std::string_view, std::int64_t> wants_;
  int waiting(const std::function<int()>& attempt, const char* what, bool may_wait);
  std::string flush_problem(bool* folder = nullptr);
  void track();
  // Call it after any change of a fence: passes are compared again, and once more if a ROLLBACK TO
  // undoes the change.
  void fence_changed() {
    passed_checks_.fence_changed();
    track();
  }
  void execute(const std::string& sql);
  // Makes SQLite call us when the connection closes, see finalize_statements(). It reads the
  // schema, so it is left to the first statement: loading the extension must not touch the file.
  void connect();

  struct Column {
    std::string name, type;
    bool key, generated, not_null;
    std::optional<std::string> default_text;  // as SQL
  };
  struct Table {
    std::string name, sql;
    std::vector<Column> columns;
    bool without_rowid;
  };
  Table find_table(const std::string& target, const char* what);
  static bool filled_late(const Column& column);
  bool changed_beneath(const Table& table);
  static std::string enters(const Table& table, const std::string& condition,
                            const std::string& rowid);
  const Column& find_column(const Table& table, const std::string& name);
  std::vector<std::pair<std::string, std::string>> protect_triggers(
      const Table& table, const std::optional<std::string>& scope_column,
      const std::optional<std::string>& scope, const std::string& mode);
  std::vector<std::pair<std::string, std::string>> adopt_triggers(const Table& table,
                                                                  const std::string& scope_column,
                                                                  const std::string& term_column);
  // The first version of the tables that stores prefixes of scope columns (0007); made_by is
  // 'adopt' or 'protect'.
  static constexpr int first_with_prefixes = 7;
  std::string scope_prefix(std::string_view made_by, std::string_view table);
  void set_scope_prefix(std::string_view made_by, std::string_view table, std::string_view prefix);
  std::vector<std::optional<std::string>> with_prefix(
      std::string_view made_by, std::string_view table,
      std::vector<std::optional<std::string>> arguments);
  // Whether a reset has revoked that term of the scope.
  bool taken_back(std::string_view scope, std::int64_t term);
  void drop_triggers(const std::string& table, std::string_view prefix);
  bool attached();
  // Throws if the tables are of an earlier version, which lacks a table that our triggers read.
  void require_version(const char* what);
  // The tables whose triggers do not match their columns and indexes; with `mend` these are
  // recreated.
  std::vector<std::string> outdated_triggers(bool mend);

  sqlite3* db_;
  StatementCache statements_;
  FileWatch file_;
  PassedChecks passed_checks_;
  bool hand_overs_known_ = false;
  std::optional<Scope> declared_scope_;
  std::optional<Term> declared_term_;
  std::function<Moment()> clock_;
  std::optional<std::chrono::milliseconds> check_wait_override_;
  std::chrono::milliseconds check_wait_seen_{5000};
  std::string client_;        // describes this process, for raised_by and the audit
  std::string session_user_;  // the operating system's user
  // The fence that termgate_reset_fence is lowering right now; the fences' trigger allows no other
  // to be lowered.
  std::optional<std::pair<std::string, std::int64_t>> lowering_;
  std::optional<std::int64_t> mark_;  // what the open transaction has written into termgate_here
  std::map<std::string, RowScope, std::less<>> perhaps_;  // by protected table
  int at_work_ = 0;
  bool flush_folder_ =
      false;         // the open transaction raises, and its commit is the removal of a file
  int folder_ = -1;  // the folder that is flushed then
  bool flush_failed_ = false;
  std::int64_t folder_flushes_ = 0;
  bool wants_flush_ = false;
  struct Refused {
    std::int64_t term, count;
    Moment first, last;
  };
  static constexpr std::size_t refused_max = 100;
  std::map<std::string, Refused> refused_;  // by scope
  Moment refusals_written_ = 0, refusals_tried_ = 0;
  bool refusals_closing_ = false;  // the connection was opened to write the refusals
  static constexpr std::size_t known_max = 1024;
  std::unordered_map<std::string, Fence>
      known_;  // fences that were read under the data version and the count of changes below
  unsigned known_version_ = 0;
  std::uint64_t known_raises_ = 0;
  bool connected_ = false;
  bool boundaries_known_ = false;
  bool own_unit_ = false;  // the current call commits by itself, so a pass would guard nothing
};

// `name` as a quoted identifier: the only way that a name gets into a statement's text.
std::string quoted_identifier(std::string_view name);
std::string quoted_literal(std::string_view text);

// The process that holds the file's write lock, as far as the system tells: "process 4711
// (python3)".
std::string lock_holder(sqlite3* db);
// The holder's process number; 0 if the system does not tell.
int lock_holder_pid(sqlite3* db);
// Declared for its tests: the process that holds a lock on one of the bytes of one of `files`
// ("08:01:4711"), from a list in the format of /proc/locks; 0: none.
long lock_owner(std::istream& locks, const std::vector<std::string>& files, long long first_byte,
                long long last_byte);

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
