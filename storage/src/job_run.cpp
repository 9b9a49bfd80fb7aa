// A job's run: started in the constructor, ended once. A run that is not ended explicitly ends as
// failed, so that no run stays open because an exception was thrown.
#include <termgate/job_run.hpp>
#include <termgate/jobs.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace termgate {
inline namespace v0 {

std::optional<std::string> last_checkpoint(Database& database, std::string_view job,
                                           const Scope& scope) {
  auto runs = Jobs(database).list({.job = std::string(job), .scope = scope.name()}, 100);
  // Ordered by when they began, because a requested run is listed from its request on. A run that
  // began in the future, by a clock that was ahead, comes last.
  std::stable_sort(runs.begin(), runs.end(), [](const JobRunInfo& one, const JobRunInfo& other) {
    const auto began = [](const JobRunInfo& run) {
      return run.started_at_ms > run.now_ms ? 0 : run.started_at_ms;
    };
    return began(one) > began(other);
  });
  // A run that ended before its first checkpoint does not hide an earlier checkpoint, and a dry run
  // never does.
  for (const JobRunInfo& run : runs) {
    if (run.request == "dry-run") continue;
    if (run.status == "completed") return std::nullopt;
    if (run.checkpoint) return run.checkpoint;
  }
  return std::nullopt;
}

JobRun::JobRun(Database database, std::string_view job, const Scope& scope, Term term,
               const std::string& owner, const std::optional<std::string>& detail)
    : database_(std::move(database)),
      last_checkpoint_(termgate::last_checkpoint(database_, job, scope)),
      id_(Jobs(database_).start(job, scope, term, owner, detail)) {}

JobRun::~JobRun() {
  if (ended_) return;
  try {
    fail();
  } catch (const std::exception&) {}
}

bool JobRun::beat(const std::optional<std::string>& checkpoint) {
  return Jobs(database_).beat(id_, checkpoint);
}

bool JobRun::beat(Lease& lease, const std::optional<std::string>& checkpoint) {
  return Jobs(database_).beat(id_, checkpoint, &lease);
}

std::optional<Lease::Clock::time_point> JobRun::beat(std::chrono::milliseconds ttl,
                                                     const std::optional<std::string>& checkpoint) {
  return Jobs(database_).beat(id_, checkpoint, ttl);
}

bool JobRun::complete(std::optional<int> exit_code, const std::optional<std::string>& detail,
                      const std::optional<std::string>& checkpoint) {
  return end("completed", exit_code, detail, checkpoint);
}

bool JobRun::fail(std::optional<int> exit_code, const std::optional<std::string>& detail) {
  return end("failed", exit_code, detail, {});
}

bool JobRun::end(std::string_view status, std::optional<int> exit_code,
                 const std::optional<std::string>& detail,
                 const std::optional<std::string>& checkpoint) {
  if (ended_) return false;
  const bool finished = Jobs(database_).finish(
      id_, status, exit_code ? std::optional<std::int64_t>(*exit_code) : std::nullopt, detail,
      checkpoint);
  // Set only after the database has answered: after an error the caller, or else the destructor,
  // tries again.
  ended_ = true;
  return finished;
}

}  // namespace v0
}  // namespace termgate
