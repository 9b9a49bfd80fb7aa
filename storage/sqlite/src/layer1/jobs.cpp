// Job runs: their start, heartbeats and ends. A run belongs to one term of its scope; a start ends
// the open runs of other terms as lost. docs/reference/jobs.md has a table of what each call does
// in each state.
#include <termgate/detail/sqlite/calls.hpp>

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

std::optional<Jobs::Taken> Jobs::find(const std::string& job_name, const Scope& scope,
                                      std::int64_t term) {
  Running open = core_.use(stmt::job_open);
  if (!open.bind(scope.name()).bind(job_name).bind(term).step()) return std::nullopt;
  return Taken{open.text(0), open.optional_text(1).value_or("")};
}

// Checks the term, then ensures that the job has no open run: one of this term is an error, runs
// that other terms have left open end as lost.
void Jobs::begin(const std::string& job_name, const Scope& scope, const std::string& owner,
                 Term term, Moment moment) {
  require_name(job_name, "job name");
  require_name(owner, "owner");
  fences_.pass_check(scope.name(), term.value());
  if (const auto open = find(job_name, scope, term.value())) {
    throw InvalidInput(
        fmt::format("TG005 job \"{}\" of scope \"{}\" has an open run already, {}: finish it first",
                    job_name, scope.name(), open->run_id));
  }
  core_.use(stmt::jobs_lost)
      .bind(scope.name())
      .bind(term.value())
      .bind(moment)
      .bind(job_name)
      .run();
}

std::string Jobs::start(const std::string& job_name, const Scope& scope, const std::string& owner,
                        Term term, const std::optional<std::string>& detail) {
  Core::Unit unit(core_);
  const std::string run_id = WriteId::random().text();
  const Moment moment = core_.now();
  begin(job_name, scope, owner, term, moment);
  core_.use(stmt::job_insert)
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

Jobs::Request Jobs::request(const std::string& job_name, const Scope& scope,
                            const std::string& kind, const std::string& actor,
                            const std::string& reason) {
  require_name(job_name, "job name");
  if (kind != "run" && kind != "dry-run" && kind != "resume") {
    throw InvalidInput(
        fmt::format("TG005 a job is asked to run, to dry-run or to resume, not to \"{}\"", kind));
  }
  require_text(actor, "actor");
  require_text(reason, "reason");
  Core::Unit unit(core_);
  if (const auto asked = find(job_name, scope, 0)) {
    unit.commit();
    return {false, asked->run_id};
  }
  const std::string run_id = WriteId::random().text();
  core_.use(stmt::job_insert)
      .bind(run_id)
      .bind(job_name)
      .bind(scope.name())
      .bind("")
      .bind(std::int64_t{0})
      .bind(core_.now())
      .bind(fmt::format("requested by {}: {}", actor, reason))
      .bind(kind)
      .run();
  core_.audit("request_job", scope.name(),
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

std::optional<Jobs::Taken> Jobs::take(const std::string& job_name, const Scope& scope,
                                      const std::string& owner, Term term) {
  Core::Unit unit(core_);
  const Moment moment = core_.now();
  begin(job_name, scope, owner, term, moment);
  const auto asked = find(job_name, scope, 0);
  if (asked)
    core_.use(stmt::job_take).bind(asked->run_id).bind(owner).bind(term.value()).bind(moment).run();
  unit.commit();
  return asked;
}

// None: the run is not open. Throws if this session declares another scope or term. `checked`: the
// run's scope and term must also pass the check.
std::optional<Jobs::Open> Jobs::open(const std::string& run_id, bool checked) {
  Open job;
  {
    Running read = core_.use(stmt::job_read);
    if (!read.bind(run_id).step()) return std::nullopt;
    job = {read.text(0), read.integer(1), read.text(2)};
  }
  if (checked && job.term == 0)
    return std::nullopt;  // requested but not begun: such a run can only be ended
  if (core_.declared_scope() &&
      (core_.declared_scope()->name() != job.scope ||
       (core_.declared_term() && core_.declared_term()->value() != job.term))) {
    throw InvalidInput(fmt::format(
        "TG005 run {} is of scope \"{}\" and term {}, and this session declares scope "
        "\"{}\" and term {}",
        run_id, job.scope, job.term, core_.declared_scope()->name(),
        core_.declared_term() ? std::to_string(core_.declared_term()->value()) : "none"));
  }
  if (checked) fences_.pass_check(job.scope, job.term);
  return job;
}

bool Jobs::heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint) {
  Core::Unit unit(core_);
  if (!open(run_id, true)) return false;
  core_.use(stmt::job_beat).bind(run_id).bind(core_.now()).bind(checkpoint).run();
  unit.commit();
  return true;
}

Jobs::Beat Jobs::heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint,
                           std::int64_t ttl_ms) {
  Core::Unit unit(core_);
  Beat beat;
  const auto job = open(run_id, false);
  if (!job || !heartbeat(run_id, checkpoint)) return beat;
  const Leases::Renewal renewal =
      leases_.renew(Scope(job->scope), job->owner, Term(job->term), ttl_ms);
  beat = {true, renewal.renewed, {}, {}};
  if (renewal.renewed) {
    beat.beat_before = renewal.expires_at;
    beat.remaining_ms = renewal.remaining_ms;
  }
  unit.commit();
  return beat;
}

bool Jobs::finish(const std::string& run_id, const std::string& status,
                  std::optional<std::int64_t> exit_code, const std::optional<std::string>& detail,
                  const std::optional<std::string>& checkpoint) {
  constexpr std::array<std::string_view, 4> ends = {"completed", "failed", "cancelled", "lost"};
  if (std::find(ends.begin(), ends.end(), status) == ends.end()) {
    throw InvalidInput(
        fmt::format("TG005 a job ends completed, failed, cancelled or lost, not \"{}\"", status));
  }
  Core::Unit unit(core_);
  // A stale leader may still report failed and lost. An operator, who leads nothing, may report
  // cancelled.
  if (status != "cancelled" && !open(run_id, status == "completed")) return false;
  core_.use(stmt::job_finish)
      .bind(run_id)
      .bind(status)
      .bind(core_.now())
      .bind(exit_code)
      .bind(detail)
      .bind(checkpoint)
      .run();
  const bool finished = core_.changes() == 1;
  unit.commit();
  return finished;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
