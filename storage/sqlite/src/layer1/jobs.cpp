// Job runs: their start, heartbeats and ends. A run belongs to one term of its scope; a start ends
// the open runs of other terms as lost. docs/reference/jobs.md has a table of what each call does
// in each state.
#include <termgate/detail/sqlite/layer1.hpp>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

}  // namespace

std::optional<Layer1::TakenJob> Layer1::find_job(const std::string& job_name, const Scope& scope,
                                                 std::int64_t term) {
  Running open = use(stmt::job_open);
  if (!open.bind(scope.name()).bind(job_name).bind(term).step()) return std::nullopt;
  return TakenJob{open.text(0), open.optional_text(1).value_or("")};
}

// Checks the term, then ensures that the job has one open run: runs that other terms have left open
// end as lost.
void Layer1::begin_job(const std::string& job_name, const Scope& scope, const std::string& owner,
                       Term term, Moment moment) {
  require_name(job_name, "job name");
  require_name(owner, "owner");
  admit(scope.name(), term.value(), judge(scope.name(), term.value(), Raise::allowed, false));
  if (const auto open = find_job(job_name, scope, term.value())) {
    throw InvalidInput(
        fmt::format("TG005 job \"{}\" of scope \"{}\" has an open run already, {}: finish it first",
                    job_name, scope.name(), open->run_id));
  }
  use(stmt::jobs_lost).bind(scope.name()).bind(term.value()).bind(moment).bind(job_name).run();
}

std::string Layer1::job_start(const std::string& job_name, const Scope& scope,
                              const std::string& owner, Term term,
                              const std::optional<std::string>& detail) {
  Unit unit(*this);
  const std::string run_id = WriteId::random().text();
  const Moment moment = now();
  begin_job(job_name, scope, owner, term, moment);
  use(stmt::job_insert)
      .bind(run_id)
      .bind(job_name)
      .bind(scope.name())
      .bind(owner)
      .bind(term.value())
      .bind(moment)
      .bind(detail)
      .bind(std::optional<std::string>())
      .run();
  unit.commit();
  return run_id;
}

Layer1::JobRequest Layer1::job_request(const std::string& job_name, const Scope& scope,
                                       const std::string& kind, const std::string& actor,
                                       const std::string& reason) {
  require_name(job_name, "job name");
  if (kind != "run" && kind != "dry-run" && kind != "resume") {
    throw InvalidInput(
        fmt::format("TG005 a job is asked to run, to dry-run or to resume, not to \"{}\"", kind));
  }
  require_text(actor, "actor");
  require_text(reason, "reason");
  Unit unit(*this);
  if (const auto asked = find_job(job_name, scope, 0)) {
    unit.commit();
    return {false, asked->run_id};
  }
  const std::string run_id = WriteId::random().text();
  use(stmt::job_insert)
      .bind(run_id)
      .bind(job_name)
      .bind(scope.name())
      .bind("")
      .bind(std::int64_t{0})
      .bind(now())
      .bind(fmt::format("requested by {}: {}", actor, reason))
      .bind(kind)
      .run();
  audit("request_job", scope.name(),
        Json('{')
            .key("job")
            .value(job_name)
            .key("run_id")
            .value(run_id)
            .key("kind")
            .value(kind)
            .key("reason")
            .value(reason)
            .close(),
        actor);
  unit.commit();
  return {true, run_id};
}

std::optional<Layer1::TakenJob> Layer1::job_take(const std::string& job_name, const Scope& scope,
                                                 const std::string& owner, Term term) {
  Unit unit(*this);
  const Moment moment = now();
  begin_job(job_name, scope, owner, term, moment);
  const auto asked = find_job(job_name, scope, 0);
  if (asked)
    use(stmt::job_take).bind(asked->run_id).bind(owner).bind(term.value()).bind(moment).run();
  unit.commit();
  return asked;
}

// None: the run is not open. Throws if this session declares another scope or term. `checked`: the
// run's scope and term must also pass the check.
std::optional<Layer1::OpenJob> Layer1::open_job(const std::string& run_id, bool checked) {
  OpenJob job;
  {
    Running read = use(stmt::job_read);
    if (!read.bind(run_id).step()) return std::nullopt;
    job = {read.text(0), read.integer(1), read.text(2)};
  }
  if (checked && job.term == 0)
    return std::nullopt;  // requested but not begun: such a run can only be ended
  if (declared_scope_ && (declared_scope_->name() != job.scope ||
                          (declared_term_ && declared_term_->value() != job.term))) {
    throw InvalidInput(
        fmt::format("TG005 run {} is of scope \"{}\" and term {}, and this session declares scope "
                    "\"{}\" and term {}",
                    run_id, job.scope, job.term, declared_scope_->name(),
                    declared_term_ ? std::to_string(declared_term_->value()) : "none"));
  }
  if (checked) admit(job.scope, job.term, judge(job.scope, job.term, Raise::allowed, false));
  return job;
}

bool Layer1::job_heartbeat(const std::string& run_id,
                           const std::optional<std::string>& checkpoint) {
  Unit unit(*this);
  if (!open_job(run_id, true)) return false;
  use(stmt::job_beat).bind(run_id).bind(now()).bind(checkpoint).run();
  unit.commit();
  return true;
}

Layer1::Beat Layer1::job_heartbeat(const std::string& run_id,
                                   const std::optional<std::string>& checkpoint,
                                   std::int64_t ttl_ms) {
  Unit unit(*this);
  Beat beat;
  const auto job = open_job(run_id, false);
  if (!job || !job_heartbeat(run_id, checkpoint)) return beat;
  const Renewal renewal = renew_lease(Scope(job->scope), job->owner, Term(job->term), ttl_ms);
  beat = {true, renewal.renewed, {}, {}};
  if (renewal.renewed) {
    beat.beat_before = renewal.expires_at;
    beat.remaining_ms = renewal.remaining_ms;
  }
  unit.commit();
  return beat;
}

bool Layer1::job_finish(const std::string& run_id, const std::string& status,
                        std::optional<std::int64_t> exit_code,
                        const std::optional<std::string>& detail,
                        const std::optional<std::string>& checkpoint) {
  constexpr std::array<std::string_view, 4> ends = {"completed", "failed", "cancelled", "lost"};
  if (std::find(ends.begin(), ends.end(), status) == ends.end()) {
    throw InvalidInput(
        fmt::format("TG005 a job ends completed, failed, cancelled or lost, not \"{}\"", status));
  }
  Unit unit(*this);
  // A stale leader may still report failed and lost. An operator, who leads nothing, may report
  // cancelled.
  if (status != "cancelled" && !open_job(run_id, status == "completed")) return false;
  use(stmt::job_finish)
      .bind(run_id)
      .bind(status)
      .bind(now())
      .bind(exit_code)
      .bind(detail)
      .bind(checkpoint)
      .run();
  const bool finished = sqlite3_changes(db_) == 1;
  unit.commit();
  return finished;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
