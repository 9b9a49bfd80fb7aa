// Jobs: the recorded runs of jobs. These are the calls that JobRun is built on; most programs use
// its handle in <termgate/job_run.hpp>.
//
// A start is checked like a write (StaleTerm), and so are a heartbeat and the end "completed". A
// stale leader may still report "failed", "cancelled" and "lost". A job has at most one open run in
// a scope. Any thread; copies share the Database's connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/lease.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

struct JobRunInfo {
  std::string run_id, job, scope, owner;
  std::int64_t term = 0;
  std::int64_t started_at_ms = 0;
  std::optional<std::int64_t> completed_at_ms;
  // requested (no owner and term yet), started, completed, failed, cancelled or lost. An open run
  // whose lease has ended is shown as lost.
  std::string status;
  std::optional<std::int64_t> last_heartbeat_ms;
  std::optional<std::int64_t> exit_code;
  std::optional<std::string> checkpoint, detail;
  // The kind of run that was requested: run, dry-run, resume. None: it was not requested.
  std::optional<std::string> request;
  std::int64_t now_ms = 0;  // when it was read
};

struct JobRequest {
  // False: the job already has a request, whose run_id this is. Nothing was changed.
  bool requested = false;
  std::string run_id;
};

struct JobTaken {
  std::string run_id;
  std::string request;  // run, dry-run or resume
};

// When the last completed run of a job began, by the database's clock.
struct CompletedJob {
  std::optional<std::int64_t> started_at_ms;  // ignores runs that began too far in the future
  std::optional<std::int64_t> latest_ms;      // includes them
  std::int64_t now_ms = 0;                    // when it was read
};

struct JobFilter {
  std::optional<std::string> job = {}, scope = {}, run_id = {}, status = {};
};

class Jobs {
 public:
  explicit Jobs(Database database) : database_(std::move(database)) {}

  // Returns the run's id. Throws InvalidInput if the job already has an open run under this term;
  // one of another term ends as lost.
  std::string start(std::string_view job, const Scope& scope, Term term, const std::string& owner,
                    const std::optional<std::string>& detail = {});

  // Requests a run of the job. `kind` is run, dry-run or resume, which the command that runs the
  // job interprets. A job has at most one request in a scope; it stays until it is taken, or
  // cancelled by finish(). An empty actor means this login, an empty reason "by hand".
  JobRequest request(std::string_view job, const Scope& scope, std::string_view kind,
                     std::string_view actor = {}, std::string_view reason = {});
  // Begins the requested run, as start() would. None: there is no request, or another session is
  // taking it at this moment.
  std::optional<JobTaken> take(std::string_view job, const Scope& scope, Term term,
                               const std::string& owner);

  // Records a heartbeat. False: the run is no longer open. With `renew` it renews that lease in any
  // case, in the same transaction; if that fails it throws LeaseLost and does neither.
  bool beat(const std::string& run_id, const std::optional<std::string>& checkpoint = {},
            Lease* renew = nullptr);
  // Records a heartbeat and renews the run's own lease, in one call; the database knows the lease's
  // owner and term. Returns when the next call must have succeeded, which is when the lease ends by
  // this process's clock. None: the run is no longer open, and nothing was renewed. Throws
  // LeaseLost if the run's owner no longer holds the lease; then nothing was recorded.
  std::optional<Lease::Clock::time_point> beat(const std::string& run_id,
                                               const std::optional<std::string>& checkpoint,
                                               std::chrono::milliseconds ttl);

  // Ends the run, or cancels a request. `status`: completed, failed, cancelled or lost; anything
  // else is InvalidInput. False: the run was no longer open.
  bool finish(const std::string& run_id, std::string_view status,
              std::optional<std::int64_t> exit_code = {},
              const std::optional<std::string>& detail = {},
              const std::optional<std::string>& checkpoint = {});

  // Newest first; a requested run is dated by its request until it begins.
  std::vector<JobRunInfo> list(const JobFilter& filter = {}, int limit = 100);
  // `ahead`: a run that began further in the future than this was recorded by a wrong clock, and
  // only latest_ms includes it.
  CompletedJob completed(std::string_view job, const Scope& scope, std::chrono::milliseconds ahead);

 private:
  Database database_;
};

}  // namespace v0
}  // namespace termgate
