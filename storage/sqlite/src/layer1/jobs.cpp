// Job runs: their start, heartbeats and ends. A run belongs to one term of its scope; a start ends the open
// runs of lower terms as lost.
#include <termgate/detail/sqlite/layer1.hpp>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "unit.hpp"

namespace termgate::inline v0::sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

}  // namespace

// The lease was taken or force-released: its runs can neither be beaten nor completed any more.
void Layer1::end_runs(std::string_view scope, std::int64_t below) { use(stmt::runs_over).bind(scope).bind(below).bind(now()).run(); }

std::string Layer1::job_start(const std::string& job_name, const Scope& scope, const std::string& owner, Term term,
                              const std::optional<std::string>& detail) {
  require_name(job_name, "job name");
  require_name(owner, "owner");
  Unit unit(*this);
  admit(scope.name(), term.value(), judge(scope.name(), term.value(), Raise::allowed, false));
  const std::string run_id = WriteId::random().text();
  const Moment moment = now();
  use(stmt::jobs_lost).bind(scope.name()).bind(term.value()).bind(moment).bind(job_name).run();
  {
    Running open = use(stmt::job_open);
    if (open.bind(scope.name()).bind(job_name).step()) {
      throw InvalidInput(fmt::format("TG005 job \"{}\" of scope \"{}\" has an open run already, {}: finish it first", job_name,
                                     scope.name(), open.text(0)));
    }
  }
  use(stmt::job_insert).bind(run_id).bind(job_name).bind(scope.name()).bind(owner).bind(term.value()).bind(moment).bind(detail).run();
  unit.commit();
  return run_id;
}

// The scope and term of an open run pass the check, or TG001; false: the run is no longer open.
bool Layer1::job_checked(const std::string& run_id) {
  std::string scope;
  std::int64_t term = 0;
  {
    Running read = use(stmt::job_read);
    if (!read.bind(run_id).step()) return false;
    scope = read.text(0);
    term = read.integer(1);
  }
  admit(scope, term, judge(scope, term, Raise::allowed, false));
  return true;
}

bool Layer1::job_heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint) {
  Unit unit(*this);
  if (!job_checked(run_id)) return false;
  use(stmt::job_beat).bind(run_id).bind(now()).bind(checkpoint).run();
  const bool beaten = sqlite3_changes(db_) == 1;
  unit.commit();
  return beaten;
}

Layer1::Beat Layer1::job_heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint, std::int64_t ttl_ms) {
  Unit unit(*this);
  Beat beat;
  std::string scope, owner;
  std::int64_t term = 0;
  {
    Running read = use(stmt::job_holder);
    if (!read.bind(run_id).step()) return beat;
    scope = read.text(0);
    term = read.integer(1);
    owner = read.text(2);
  }
  if (!job_heartbeat(run_id, checkpoint)) return beat;
  const Renewal renewal = renew_lease(Scope(scope), owner, Term(term), ttl_ms);
  beat = {true, renewal.renewed, {}, {}};
  if (renewal.renewed) {
    beat.beat_before = renewal.expires_at;
    beat.remaining_ms = renewal.remaining_ms;
  }
  unit.commit();
  return beat;
}

bool Layer1::job_finish(const std::string& run_id, const std::string& status, std::optional<std::int64_t> exit_code,
                        const std::optional<std::string>& detail, const std::optional<std::string>& checkpoint) {
  constexpr std::array<std::string_view, 4> ends = {"completed", "failed", "cancelled", "lost"};
  if (std::find(ends.begin(), ends.end(), status) == ends.end()) {
    throw InvalidInput(fmt::format("TG005 a job ends completed, failed, cancelled or lost, not \"{}\"", status));
  }
  Unit unit(*this);
  // Failed, cancelled and lost may be said by whoever has lost the lead.
  if (status == "completed" && !job_checked(run_id)) return false;
  use(stmt::job_finish).bind(run_id).bind(status).bind(now()).bind(exit_code).bind(detail).bind(checkpoint).run();
  const bool finished = sqlite3_changes(db_) == 1;
  unit.commit();
  return finished;
}

}  // namespace termgate::inline v0::sqlite
