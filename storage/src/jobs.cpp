// Jobs over the statements of sql/<database>/calls/job_*.
#include <termgate/jobs.hpp>

#include <charconv>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>

#include "database_state.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using detail::convert_all;
using detail::NamedRow;
using detail::state_of;
using sql::Call;

namespace {

JobRunInfo to_job_run(const NamedRow& row) {
  return {row["run_id"].as_text(),
          row["job_name"].as_text(),
          row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["started_at_ms"].as_int(),
          row["completed_at_ms"].as_optional_int(),
          row["status"].as_text(),
          row["last_heartbeat_ms"].as_optional_int(),
          row["exit_code"].as_optional_int(),
          row["checkpoint"].as_optional_text(),
          row["detail"].as_optional_text(),
          row["request"].as_optional_text(),
          row["now_ms"].as_int()};
}

// A run's id: a number on PostgreSQL and SQL Server, a UUID on SQLite. Anything else is refused
// here, with a clearer error than that of a failed conversion.
class JobId {
 public:
  explicit JobId(const std::string& text) : text_(text) {}
  Value value(std::string_view kind) const {
    if (kind == "sqlite") return Value(text_);
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (failure != std::errc{} || end != text_.data() + text_.size())
      throw InvalidInput(
          fmt::format("TG005 malformed run id \"{}\": `termgate job list` shows them", text_));
    return Value(number);
  }

 private:
  const std::string& text_;
};

}  // namespace

std::string Jobs::start(std::string_view job, const Scope& scope, Term term,
                        const std::string& owner, const std::optional<std::string>& detail) {
  return state_of(database_)
      .run(Call::job_start, job, scope.name(), owner, term.value(), detail)
      .one()[0]
      .as_text();
}

JobRequest Jobs::request(std::string_view job, const Scope& scope, std::string_view kind,
                         std::string_view actor, std::string_view reason) {
  const auto text = [](std::string_view given) {
    return given.empty() ? Value() : Value(std::string(given));
  };
  const Rows rows = state_of(database_).run(Call::job_request, job, scope.name(), kind, text(actor),
                                            text(reason));
  const auto row = detail::only_row(rows);
  return {row["requested"].as_bool(), row["run_id"].as_text()};
}

std::optional<JobTaken> Jobs::take(std::string_view job, const Scope& scope, Term term,
                                   const std::string& owner) {
  const Rows rows = state_of(database_).run(Call::job_take, job, scope.name(), owner, term.value());
  const auto row = detail::only_row(rows);
  if (row["run_id"].is_null()) return std::nullopt;
  return JobTaken{row["run_id"].as_text(), row["kind"].as_text()};
}

// With `renew` the heartbeat and the renewal are one transaction, so a visible heartbeat proves
// that the lease was held.
bool Jobs::beat(const std::string& run_id, const std::optional<std::string>& checkpoint,
                Lease* renew) {
  const JobId id(run_id);
  if (renew == nullptr)
    return state_of(database_)
        .run(Call::job_heartbeat, id.value(database_.kind()), checkpoint)
        .one()[0]
        .as_bool();
  bool alive = false;
  std::optional<Lease::Clock::time_point> leave_before;
  const auto sent = Lease::Clock::now();
  state_of(database_).audited([&] {
    state_of(database_).driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value beat[] = {id.value(database_.kind()), Value(checkpoint)};
      alive = session.call(Call::job_heartbeat, beat).one()[0].as_bool();
      const Value renewal[] = {Value(renew->scope().name()), Value(renew->owner()),
                               Value(renew->term().value()), Value(renew->ttl().count())};
      const Rows rows = session.call(Call::renew_lease, renewal);
      const auto row = detail::only_row(rows);
      if (!row["renewed"].as_bool())
        throw LeaseLost(fmt::format(
            "the lease of scope \"{}\" with term {} is no longer held by {}: stop leading",
            renew->scope().name(), renew->term().value(), renew->owner()));
      if (const auto left = row.int_if_there("leave_in_ms"))
        leave_before = sent + std::chrono::milliseconds(*left);
    });
  });
  *renew = Lease(renew->scope(), renew->term(), renew->owner(), renew->ttl(), sent + renew->ttl(),
                 leave_before);
  return alive;
}

std::optional<Lease::Clock::time_point> Jobs::beat(const std::string& run_id,
                                                   const std::optional<std::string>& checkpoint,
                                                   std::chrono::milliseconds ttl) {
  const JobId id(run_id);
  bool open = false;
  // Measured from before the request was sent: the lease cannot end earlier.
  const auto sent = Lease::Clock::now();
  state_of(database_).audited([&] {
    state_of(database_).driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value beat[] = {id.value(database_.kind()), Value(checkpoint), Value(ttl.count())};
      const Rows rows = session.call(Call::job_heartbeat_renew, beat);
      const auto row = detail::only_row(rows);
      open = row["beaten"].as_bool();
      if (open && !row["renewed"].as_bool())
        throw LeaseLost(fmt::format(
            "the lease of job run {} is no longer held by the run's owner: stop", run_id));
    });
  });
  if (!open) return std::nullopt;
  return sent + ttl;
}

bool Jobs::finish(const std::string& run_id, std::string_view status,
                  std::optional<std::int64_t> exit_code, const std::optional<std::string>& detail,
                  const std::optional<std::string>& checkpoint) {
  return state_of(database_)
      .run(Call::job_finish, JobId(run_id).value(database_.kind()), status, exit_code, detail,
           checkpoint)
      .one()[0]
      .as_bool();
}

std::vector<JobRunInfo> Jobs::list(const JobFilter& filter, int limit) {
  Value run_id;
  if (filter.run_id) run_id = JobId(*filter.run_id).value(database_.kind());
  return convert_all<JobRunInfo>(
      state_of(database_).read(Call::jobs, filter.job, filter.scope, run_id, limit, filter.status),
      to_job_run);
}

CompletedJob Jobs::completed(std::string_view job, const Scope& scope,
                             std::chrono::milliseconds ahead) {
  const Rows rows = state_of(database_).read(Call::job_completed, job, scope.name(), ahead.count());
  const detail::NamedRow row = detail::only_row(rows);
  return {row["started_at_ms"].as_optional_int(), row["latest_ms"].as_optional_int(),
          row["now_ms"].as_int()};
}

}  // namespace v0
}  // namespace termgate
