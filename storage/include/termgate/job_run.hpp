// JobRun: one run of a job as a handle. It is recorded when it starts, keeps a checkpoint, and ends
// as completed or failed. A run without an end is shown as lost as soon as its lease has ended.
//
//   HeldLease held = db.hold(Scope{"exports"});
//   JobRun run(db, "export", held.scope(), held.term(), held.owner());
//   for (std::string page = run.last_checkpoint().value_or("1"); …;) { …; run.beat(page); }
//   run.complete();
//
// One thread at a time. Every call throws what Database's calls throw: StaleTerm if another process
// leads now.
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

  // A heartbeat and, if given, a checkpoint. False: the run is no longer open; stop.
  bool beat(const std::optional<std::string>& checkpoint = {});
  // A heartbeat and a renewal of `lease`, in one transaction; the lease then tells when the next
  // beat must have succeeded. For a lease without a HeldLease or a LeaderLoop. If it throws
  // LeaseLost, neither was done.
  bool beat(Lease& lease, const std::optional<std::string>& checkpoint = {});
  // A heartbeat and a renewal of the lease that the run was started under, by its owner and term in
  // the database. Returns when the next beat must have succeeded; none: the run is no longer open.
  std::optional<Lease::Clock::time_point> beat(std::chrono::milliseconds ttl,
                                               const std::optional<std::string>& checkpoint = {});
  // Each may be called at most once. False: the run was no longer open.
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
