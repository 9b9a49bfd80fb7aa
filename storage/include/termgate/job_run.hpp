// JobRun: one run of a job as a handle. It is recorded when it starts, keeps a checkpoint, and ends
// as completed or failed. A run without an end is shown as lost as soon as its lease has ended.
//
//   HeldLease held = db.hold(Scope{"exports"});
//   JobRun run(db, "export", held.scope(), held.term(), held.owner());
//   for (std::string page = run.last_checkpoint().value_or("1"); …;) { …; run.beat(page); }
//   run.complete();
//
// One thread at a time. Every call throws what Database's calls throw; all but fail() throw
// StaleTerm if another process leads now.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/database.hpp>

namespace termgate {
inline namespace v0 {

class JobRun {
 public:
  // Records the start. Throws InvalidInput if this job already has an open run under this term.
  JobRun(Database database, std::string_view job, const Scope& scope, Term term,
         const std::string& owner, const std::optional<std::string>& detail = {});
  // If the run is neither completed nor failed, records it as failed, provided the database can be
  // reached.
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  const std::string& id() const noexcept { return id_; }
  // What last_checkpoint() below returned before this run began.
  const std::optional<std::string>& last_checkpoint() const noexcept { return last_checkpoint_; }

  // Records a heartbeat and, if given, a checkpoint. False: the run is no longer open; stop.
  bool beat(const std::optional<std::string>& checkpoint = {});
  // Records a heartbeat and renews `lease`, in one transaction: the next beat must succeed before
  // lease.held_until(). For a lease that neither a HeldLease nor a LeaderLoop renews. If it throws
  // LeaseLost, neither was done. False: as above, and the lease was renewed.
  bool beat(Lease& lease, const std::optional<std::string>& checkpoint = {});
  // Records a heartbeat and renews the lease of the run's owner and term, which the database knows.
  // Returns when the next beat must have succeeded. None: the run is no longer open, and nothing
  // was renewed. Throws LeaseLost if that owner no longer holds the lease; nothing was recorded.
  std::optional<Lease::Clock::time_point> beat(std::chrono::milliseconds ttl,
                                               const std::optional<std::string>& checkpoint = {});
  // Either call ends the run. False: it had already ended, by an earlier call of either or in the
  // database. After an exception, call again: otherwise the destructor tries to end it as failed.
  // `exit_code` (none: not known) and `detail` are shown by `termgate job list`; `checkpoint`, if
  // given, replaces the last beat's.
  bool complete(std::optional<int> exit_code = 0, const std::optional<std::string>& detail = {},
                const std::optional<std::string>& checkpoint = {});
  bool fail(std::optional<int> exit_code = {}, const std::optional<std::string>& detail = {});

 private:
  bool end(std::string_view status, std::optional<int> exit_code,
           const std::optional<std::string>& detail, const std::optional<std::string>& checkpoint);

  Database database_;
  std::optional<std::string> last_checkpoint_;
  std::string id_;
  bool ended_ = false;
};

// The newest checkpoint of the job's runs in that scope since the last completed one, among the
// last 100 runs; dry runs do not count.
std::optional<std::string> last_checkpoint(Database& database, std::string_view job,
                                           const Scope& scope);

}  // namespace v0
}  // namespace termgate
