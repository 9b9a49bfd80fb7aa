// Database: a PostgreSQL, SQL Server or SQLite database whose writes are fenced. The library's
// front door, and all that most programs need.
//
//   auto db = Database::open("sqlite:billing.db");
//   Lease lease = db.acquire_lease(Scope{"billing"}, 10s);
//   db.write(lease.scope(), lease.term(), [](Transaction& tx) { tx.exec("UPDATE …", …); });
//
// Any thread may call any member at any time; the object owns its connections, and copies share
// them. Moments in results are milliseconds since 1970 by the database's clock.
// <termgate/error.hpp> says what each error means for the caller, docs/contract.md has the
// guarantees (F1 … F7). Layer 1 decides, in the database; this class only calls it.
//
// Further classes, each made from a Database:
//   Operator (operator.hpp)    layer 1, roles, triggers on your tables, audited resets, audit
//   Info (info.hpp)            fences, leases, streams and their writes, as they are now
//   Jobs, JobRun (jobs.hpp, job_run.hpp)               recorded runs of jobs
//   Followers, Follower (followers.hpp, follower.hpp)  who reads a stream, and how far
//   LeaderLoop, LeaseWatch (leader_loop.hpp, lease_watch.hpp)  an election; who leads now
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/error.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/lease.hpp>
#include <termgate/options.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/transaction.hpp>
#include <termgate/value.hpp>
#include <termgate/write_id.hpp>

namespace termgate {
inline namespace v0 {

namespace detail {
struct DatabaseState;
}

// before: this write id was already committed; `work` was not called, and nothing was written.
enum class Wrote { now, before };

struct SealReceipt {
  Term fence;
  std::int64_t previous = 0;  // the fence before the seal; 0: there was none
  int evicted = 0;            // sessions ended because they blocked the raise
  std::int64_t sealed_at_ms = 0;
};

// What was committed under a write id. Stream and number: none unless it was an append.
struct WriteOutcome {
  std::string scope;
  Term term;
  std::optional<std::string> stream;
  std::optional<std::int64_t> sequence_no;
  std::int64_t created_at_ms = 0;
};

class Database {
 public:
  // `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`, `sqlserver://…`, `odbc:…`. Opens no
  // connection yet. Throws InvalidInput for a URL that is malformed, of another kind, or of a
  // database whose driver is missing, Unavailable if the path is a directory. A missing file or
  // server is noticed at first use.
  static Database open(std::string_view url, OpenOptions options = {});
  std::string_view kind() const noexcept;  // "postgresql", "sqlite", "sqlserver"

  // Runs `work` in one transaction after the check for (scope, term), and commits it (F1, F5). A
  // term above the fence first raises the fence to it, in a separate transaction, which stays even
  // if the write then fails. When this returns the write is committed. Throws StaleTerm,
  // TermRequired, InvalidInput, FenceUntrusted, Blocked, Conflict, LeaseLost (options.lease_owner,
  // require_lease()), Unavailable, DatabaseError: nothing was written; OutcomeUnknown: COMMIT was
  // sent, and its outcome is not known. What `work` throws rolls back and is passed on, except a
  // Conflict that options.retries repeats; on SQLite Unavailable takes its place if the commit that
  // it shared with other threads failed. A call of this Database inside `work` is InvalidInput.
  Wrote write(const Scope& scope, Term term, const std::function<void(Transaction&)>& work,
              const WriteOptions& options = {});

  // Runs one statement of yours under (scope, term), committed when this returns: like a write() of
  // that statement alone, but in one round trip on PostgreSQL. `$1`, `$2` … take the arguments. Not
  // for a statement that runs outside any transaction (VACUUM). Throws what write() throws.
  template <class... Arguments>
  Rows execute(const Scope& scope, Term term, std::string_view sql, Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{
        Value(std::forward<Arguments>(arguments))...};
    return execute_values(scope, term, sql, values);
  }
  Rows execute_values(const Scope& scope, Term term, std::string_view sql,
                      std::span<const Value> values);

  // Checks and appends in one statement. With a write id, repeating the call returns the first
  // call's number. Borrows the payload. A large one is sent to SQL Server in pieces, before any
  // lock is taken. Throws what write() throws, SequenceConflict (options.expected), and
  // InvalidInput above payload_limit(), before anything is sent.
  SequenceNo append(const Stream& stream, Term term, std::string_view payload,
                    const AppendOptions& options = {});
  // Appends all of the payloads or none; there must be at least one. Returns the last number.
  // `write_ids` is empty or as long as `payloads`; options.write_id must be empty. Throws what
  // append() throws.
  SequenceNo append_many(const Stream& stream, Term term, const std::vector<std::string>& payloads,
                         const AppendOptions& options = {},
                         const std::vector<WriteId>& write_ids = {});
  // What every database takes as one payload, and as all payloads of one batch together. This is
  // the limit on PostgreSQL and SQLite: there a payload is one value, of which several copies are
  // in memory at once, and some of them are text of twice the length (a batch, odbc-postgresql).
  static constexpr std::size_t payload_bytes_max = std::size_t{256} << 20;
  // The limit on this database. SQL Server takes up to 1 GiB if its setting payload_bytes_max (256
  // MiB by default) allows it, because payloads are sent in pieces there.
  std::size_t payload_limit() const noexcept;

  // The check alone, in its own transaction: raises the fence if the term is above it. Returns the
  // fence.
  Term check(const Scope& scope, Term term);
  // Raises a fence without writing (F2). Waits for transactions of lower terms up to `grace` (none:
  // the database's setting), then ends their sessions (F4); on SQLite it evicts nobody and throws
  // Blocked. `actor` and `reason` are kept in the audit if the fence was raised; give both or
  // neither. Throws what write() throws.
  SealReceipt seal(const Scope& scope, Term term,
                   std::optional<std::chrono::milliseconds> grace = {},
                   const std::optional<std::string>& actor = {},
                   const std::optional<std::string>& reason = {});

  // A lease that renews itself and is released by its handle (<termgate/held_lease.hpp>). Waits up
  // to options.wait while another owner holds it, then throws Blocked; throws Cancelled if
  // options.stop was requested, InvalidInput for options out of range, Unavailable if the lease was
  // granted too late to be of use.
  HeldLease hold(const Scope& scope, const HoldOptions& options = {});
  // One attempt. None: another owner holds it.
  std::optional<HeldLease> try_hold(const Scope& scope, const HoldOptions& options = {});

  // A lease that its caller renews. Waits up to options.wait while another owner holds it, then
  // throws Blocked; throws Cancelled if options.stop was requested. TTL 100 ms to 1 day.
  Lease acquire_lease(const Scope& scope, std::chrono::milliseconds ttl,
                      const LeaseOptions& options = {});
  // One attempt. None: another owner holds it.
  std::optional<Lease> try_acquire_lease(const Scope& scope, std::chrono::milliseconds ttl,
                                         const LeaseOptions& options = {});
  // Renews for the lease's own TTL from now on. Throws LeaseLost if its owner no longer holds it.
  void renew_lease(Lease& lease);
  // The same for a holder that has no Lease object.
  Lease renew_lease(const Scope& scope, Term term, const std::string& owner,
                    std::chrono::milliseconds ttl);
  // False: it was no longer held.
  bool release_lease(const Lease& lease) {
    return release_lease(lease.scope(), lease.term(), lease.owner());
  }
  bool release_lease(const Scope& scope, Term term, const std::string& owner);

  // What was committed under the id. None: not committed so far. The attempt whose answer was lost
  // may still be on its way to the server; to settle it, send the same write again with the same
  // id.
  std::optional<WriteOutcome> outcome(const WriteId& write_id);

  // A read outside the fence: SELECTs only, everything else is refused.
  Rows query(std::string_view sql, const std::vector<Value>& values = {});

 private:
  friend struct detail::DatabaseState;
  explicit Database(std::shared_ptr<detail::DatabaseState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::DatabaseState> state_;
};

}  // namespace v0
}  // namespace termgate
