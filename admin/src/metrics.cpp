#include <termgate/admin/metrics.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include <termgate/followers.hpp>
#include <termgate/info.hpp>
#include <termgate/jobs.hpp>
#include <termgate/operator.hpp>
#include <termgate/text/printable.hpp>

namespace termgate::admin {
namespace {

// At most this many series of a metric, by name, and as many more for what is wrong.
constexpr std::size_t lines_max = 500;
constexpr int looked_at = 20'000;  // runs of jobs that are read
constexpr int audit_max = 20'000;  // audit entries that one reading counts
constexpr std::size_t scopes_max = 100'000;
constexpr std::int64_t changes_ms =
    600'000;  // how long a change of leader counts in termgate_lease_changes
constexpr std::int64_t hour_ms =
    3'600'000;  // how long a run of a job counts in termgate_job_runs and termgate_job_retries
constexpr std::array<double, 12> hold_bounds = {0.1, 1,    5,      10,     30,     60, 300,
                                                900, 3600, 21'600, 86'400, 604'800};  // seconds

// A label's value: the format escapes a backslash, a quote and a line break, and nothing else.
std::string label(std::string_view text) {
  std::string escaped_text;
  for (const char c : text::is_utf8(text) ? std::string(text) : text::printable(text)) {
    if (c == '\\' || c == '"') escaped_text += '\\';
    if (c == '\n') escaped_text += "\\n";
    else escaped_text += c;
  }
  return escaped_text;
}

}  // namespace

class DatabaseMetrics::Text {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <class Number>
  void line(std::string_view name,
            const std::vector<std::pair<std::string_view, std::string>>& labels, Number number) {
    std::string inside;
    for (const auto& [key, value] : labels)
      inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", key, label(value));
    text_ += inside.empty() ? fmt::format("{} {}\n", name, number)
                            : fmt::format("{}{{{}}} {}\n", name, inside, number);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

namespace {

using Text = DatabaseMetrics::Text;

// A series for each name would grow without bound, so only the first lines_max names have one. As
// many more expired leases have one wherever they are, so that an alert names the scope. The counts
// cover all scopes.
void leases(const Scopes& scopes, Text& text) {
  std::vector<const ScopeRow*> shown, expired;
  for (const ScopeRow& row : scopes.rows) {
    if (!row.lease) continue;
    if (shown.size() < lines_max) shown.push_back(&row);
    else if (row.state() == std::string_view("expired") && expired.size() < lines_max)
      expired.push_back(&row);
  }
  const auto each = [&](std::string_view name, auto number) {
    for (const ScopeRow* row : shown) text.line(name, {{"scope", row->scope}}, number(*row));
  };
  text.head("termgate_scopes", "gauge",
            "Scopes with a lease or a fence, by the state of the lease.");
  for (const char* state : {"held", "expired", "released", "no_lease"})
    text.line("termgate_scopes", {{"state", state}}, scopes.count(state));
  text.head("termgate_lease_held", "gauge",
            "1 while somebody holds the lease of the scope; the first 500 by name.");
  each("termgate_lease_held",
       [](const ScopeRow& row) { return row.state() == std::string_view("held") ? 1 : 0; });
  text.head("termgate_lease_remaining_seconds", "gauge",
            "How long the lease lasts unless it is renewed; 0: it is over.");
  each("termgate_lease_remaining_seconds", [](const ScopeRow& row) {
    return static_cast<double>(
               row.lease->released_at_ms ? 0 : std::max<std::int64_t>(row.lease->remaining_ms, 0)) /
           1000;
  });
  text.head("termgate_lease_expired", "gauge",
            "1 where a lease ran out, and was neither given back nor taken since; of all scopes.");
  each("termgate_lease_expired",
       [](const ScopeRow& row) { return row.state() == std::string_view("expired") ? 1 : 0; });
  for (const ScopeRow* row : expired)
    text.line("termgate_lease_expired", {{"scope", row->scope}}, 1);
  text.head("termgate_lease_term", "gauge", "The term under which the lease was granted last.");
  each("termgate_lease_term", [](const ScopeRow& row) { return row.lease->term; });
}

void fences(const Scopes& scopes, Text& text) {
  text.head("termgate_fence_term", "gauge",
            "The highest term accepted in the scope; the first 500 by name.");
  std::size_t lines = 0;
  for (const ScopeRow& row : scopes.rows) {
    if (row.fence && lines++ < lines_max)
      text.line("termgate_fence_term", {{"scope", row.scope}}, row.fence->term);
  }
  text.head("termgate_fences_untrusted", "gauge", "Scopes whose writes fail with TG004.");
  text.line("termgate_fences_untrusted", {}, scopes.untrusted());
}

void hand_overs(Database& database, Text& text) {
  const auto all = Info(database).hand_overs({}, static_cast<int>(lines_max));
  text.head("termgate_hand_over", "gauge",
            "1 while a hand-over of the lease is in progress: asked (the holder has not left), or "
            "left (nobody has taken it yet).");
  for (const HandOverInfo& one : all) {
    if (one.in_progress())
      text.line("termgate_hand_over", {{"scope", one.scope}, {"state", one.state}}, 1);
  }
  text.head("termgate_hand_over_gap_seconds", "gauge",
            "How long nobody held the lease in the scope's last hand-over; the newest 500.");
  for (const HandOverInfo& one : all) {
    if (one.gap_ms)
      text.line("termgate_hand_over_gap_seconds", {{"scope", one.scope}},
                static_cast<double>(*one.gap_ms) / 1000);
  }
}

void followers(Database& database, Text& text) {
  std::vector<FollowerInfo> all;
  for (;;) {
    const auto page = Followers(database).list(all.empty() ? "" : all.back().name, 1000);
    all.insert(all.end(), page.begin(), page.end());
    if (page.size() < 1000) break;
  }
  // If there are too many, those that are furthest behind are kept.
  std::stable_sort(all.begin(), all.end(), [](const FollowerInfo& one, const FollowerInfo& other) {
    return one.behind_ms.value_or(0) > other.behind_ms.value_or(0);
  });
  if (all.size() > lines_max) all.resize(lines_max);
  text.head("termgate_follower_behind", "gauge", "Writes that the follower has not handled yet.");
  for (const FollowerInfo& one : all)
    text.line("termgate_follower_behind", {{"follower", one.name}}, one.behind);
  text.head("termgate_follower_behind_seconds", "gauge",
            "How long ago the oldest of them was written; 0: there is none.");
  for (const FollowerInfo& one : all)
    text.line("termgate_follower_behind_seconds", {{"follower", one.name}},
              static_cast<double>(one.behind_ms.value_or(0)) / 1000);
}

// If there are too many, those with the highest numbers are kept.
template <class Key, class Number>
std::vector<std::pair<Key, Number>> highest(const std::map<Key, Number>& all) {
  std::vector<std::pair<Key, Number>> sorted(all.begin(), all.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& one, const auto& other) { return one.second > other.second; });
  if (sorted.size() > lines_max) sorted.resize(lines_max);
  return sorted;
}

void runs_of_the_hour(const std::vector<JobRunInfo>& runs, Text& text) {
  using JobName = std::pair<std::string, std::string>;
  std::map<std::string, std::map<std::string, std::int64_t>> by_host;
  std::map<std::string, std::int64_t> of_host;
  std::map<JobName, std::int64_t> began, retries, waiting;  // began: when the following run began
  for (const JobRunInfo& run : runs) {
    const JobName job(run.scope, run.job);
    const std::int64_t age = run.now_ms - run.started_at_ms;
    if (run.status == "requested") waiting[job] = std::max<std::int64_t>(age, 0);
    if (run.term == 0) continue;
    if (age <= hour_ms) {
      const std::string host = run.owner.substr(0, run.owner.find(':'));
      ++by_host[host][run.status];
      ++of_host[host];
    }
    if (run.request == "dry-run") continue;
    if (run.status == "failed" || run.status == "lost") {
      if (const auto next = began.find(job);
          next != began.end() && run.now_ms - next->second <= hour_ms)
        ++retries[job];
    }
    began[job] = run.started_at_ms;
  }
  text.head("termgate_job_runs", "gauge",
            "Runs of jobs that began in the last hour, by host (the owner up to its first colon) "
            "and status; the 500 hosts with the most.");
  for (const auto& [host, count] : highest(of_host)) {
    for (const auto& [status, runs_of_it] : by_host[host])
      text.line("termgate_job_runs", {{"host", host}, {"status", status}}, runs_of_it);
  }
  text.head("termgate_job_retries", "gauge",
            "Runs of the job that began in the last hour after one that had failed or was lost, "
            "where there were any.");
  for (const auto& [job, count] : highest(retries))
    text.line("termgate_job_retries", {{"scope", job.first}, {"job_name", job.second}}, count);
  text.head("termgate_job_requested_seconds", "gauge",
            "How long a requested run has waited for somebody who begins it.");
  for (const auto& [job, age] : highest(waiting))
    text.line("termgate_job_requested_seconds", {{"scope", job.first}, {"job_name", job.second}},
              static_cast<double>(age) / 1000);
}

void jobs(Database& database, Text& text) {
  // Newest first, so the first run found for a job is its latest.
  std::map<std::pair<std::string, std::string>, JobRunInfo> last;
  std::map<std::pair<std::string, std::string>, std::int64_t> completed;
  const auto runs = Jobs(database).list({}, looked_at);
  runs_of_the_hour(runs, text);
  for (const JobRunInfo& run : runs) {
    // Neither shows how the job is doing: one has not begun, the other has done nothing.
    if (run.status == "requested" || run.request == "dry-run") continue;
    const auto key = std::pair(run.scope, run.job);
    last.emplace(key, run);
    if (run.status == "completed") completed.emplace(key, run.now_ms - run.started_at_ms);
  }
  text.head("termgate_job_last_status", "gauge",
            "1 for the status of the job's last run; the first 500 by name, and whatever failed or "
            "was lost.");
  std::size_t lines = 0, wrong = 0;
  for (const auto& [key, run] : last) {
    const bool failed = run.status == "failed" || run.status == "lost";
    if (lines < lines_max ? ++lines > lines_max : !failed || ++wrong > lines_max) continue;
    text.line("termgate_job_last_status",
              {{"scope", key.first}, {"job_name", key.second}, {"status", run.status}}, 1);
  }
  text.head("termgate_job_heartbeat_age_seconds", "gauge",
            "Since the last sign of life of the job's open run.");
  std::vector<std::pair<std::int64_t, const JobRunInfo*>> open;
  for (const auto& [key, run] : last) {
    if (run.status == "started")
      open.emplace_back(run.now_ms - run.last_heartbeat_ms.value_or(run.started_at_ms), &run);
  }
  // If there are too many, those that have been silent longest are kept.
  std::stable_sort(open.begin(), open.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  if (open.size() > lines_max) open.resize(lines_max);
  for (const auto& [age, run] : open)
    text.line("termgate_job_heartbeat_age_seconds", {{"scope", run->scope}, {"job_name", run->job}},
              static_cast<double>(age) / 1000);
  text.head("termgate_job_completed_age_seconds", "gauge",
            "Since the start of the job's last completed run; the first 500 by name.");
  lines = 0;
  for (const auto& [key, age] : completed) {
    if (lines++ < lines_max)
      text.line("termgate_job_completed_age_seconds",
                {{"scope", key.first}, {"job_name", key.second}}, static_cast<double>(age) / 1000);
  }
}

// The count in an audit entry's detail: {"count": 3}, {"pids": [1, 2]}; 1 if it has none.
std::int64_t count_in(const std::string& detail, const char* name) {
  boost::system::error_code failed;
  const boost::json::value value = boost::json::parse(detail, failed);
  if (failed || !value.is_object()) return 1;
  const boost::json::value* found = value.as_object().if_contains(name);
  if (found == nullptr) return 1;
  if (found->is_int64()) return found->as_int64();
  return found->is_array() ? static_cast<std::int64_t>(found->as_array().size()) : 1;
}

}  // namespace

void DatabaseMetrics::count(const AuditEntry& entry) {
  if (actions_.size() < 50 || actions_.count(entry.action) != 0) ++actions_[entry.action];
  if (entry.action == "refuse") refused_ += count_in(entry.detail, "count");
  if (entry.action == "evict") evicted_ += count_in(entry.detail, "pids");
  const bool taken = entry.action == "acquire";
  if (taken && entry.scope &&
      (taken_at_ms_.size() < scopes_max || taken_at_ms_.contains(*entry.scope)))
    taken_at_ms_[*entry.scope].push_back(entry.at_ms);
  if (!entry.scope || (!taken && entry.action != "release" && entry.action != "force_release"))
    return;
  if (const auto held = acquired_at_ms_.find(*entry.scope); held != acquired_at_ms_.end()) {
    const double seconds =
        static_cast<double>(std::max<std::int64_t>(entry.at_ms - held->second, 0)) / 1000;
    const auto bound = std::lower_bound(hold_bounds.begin(), hold_bounds.end(), seconds);
    ++holds_[static_cast<std::size_t>(bound - hold_bounds.begin())];
    held_seconds_ += seconds;
    acquired_at_ms_.erase(held);
  }
  if (taken && acquired_at_ms_.size() < scopes_max) acquired_at_ms_[*entry.scope] = entry.at_ms;
}

// The scopes with the most acquisitions in the last ten minutes, if there were at least two.
// Counted here, because Prometheus's changes() needs a series for every scope, and not every scope
// has one.
void DatabaseMetrics::changes(std::int64_t now_ms, Text& text) {
  std::vector<std::pair<std::size_t, std::string_view>> often;
  for (auto at = taken_at_ms_.begin(); at != taken_at_ms_.end();) {
    auto& moments = at->second;
    moments.erase(moments.begin(),
                  std::upper_bound(moments.begin(), moments.end(), now_ms - changes_ms));
    if (moments.size() > 1) often.emplace_back(moments.size(), at->first);
    at = moments.empty() ? taken_at_ms_.erase(at) : std::next(at);
  }
  std::stable_sort(often.begin(), often.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  if (often.size() > lines_max) often.resize(lines_max);
  text.head("termgate_lease_changes", "gauge",
            "How often the lease of the scope was acquired in the last ten minutes, where more "
            "than once.");
  for (const auto& [count, scope] : often)
    text.line("termgate_lease_changes", {{"scope", std::string(scope)}}, count);
}

std::string DatabaseMetrics::text() {
  Text text;
  text.head("termgate_build_info", "gauge", "The version that runs.");
  text.line("termgate_build_info", {{"version", TERMGATE_VERSION}}, 1);
  const auto scopes = scopes_.look();
  leases(*scopes, text);
  fences(*scopes, text);
  hand_overs(database_, text);
  followers(database_, text);
  jobs(database_, text);
  const std::lock_guard lock(mutex_);
  const auto entries = Operator(database_).audit({.above_id = std::max<std::int64_t>(last_id_, 0)},
                                                 last_id_ < 0 ? 1 : audit_max);
  // The first reading only fixes where counting begins, and which leases are held.
  if (last_id_ < 0) {
    for (const ScopeRow& row : scopes->rows) {
      if (row.lease && !row.lease->released_at_ms && acquired_at_ms_.size() < scopes_max)
        acquired_at_ms_[row.scope] = row.lease->acquired_at_ms;
    }
  } else {
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) count(*entry);
  }
  last_id_ = entries.empty() ? std::max<std::int64_t>(last_id_, 0) : entries.front().id;
  changes(scopes->now_ms, text);
  text.head("termgate_audit_total", "counter",
            "Entries that the audit has gained since this process began, by action.");
  for (const auto& [action, count] : actions_)
    text.line("termgate_audit_total", {{"action", action}}, count);
  text.head("termgate_stale_writes_total", "counter",
            "Refused stale writes that the audit has gained since this process began: what the "
            "database refused, and what library and proxies "
            "did.");
  text.line("termgate_stale_writes_total", {}, refused_);
  text.head("termgate_evicted_sessions_total", "counter",
            "Sessions ended because they stood in a takeover's way, since this process began.");
  text.line("termgate_evicted_sessions_total", {}, evicted_);
  text.head("termgate_lease_hold_seconds", "histogram",
            "How long leases were held that have ended since this process began: to their release, "
            "or to the takeover.");
  std::int64_t holds = 0;
  for (std::size_t at = 0; at < holds_.size(); ++at) {
    holds += holds_[at];
    text.line("termgate_lease_hold_seconds_bucket",
              {{"le", at < hold_bounds.size() ? fmt::format("{}", hold_bounds[at]) : "+Inf"}},
              holds);
  }
  text.line("termgate_lease_hold_seconds_sum", {}, held_seconds_);
  text.line("termgate_lease_hold_seconds_count", {}, holds);
  text.head("termgate_database_refusals_total", "counter",
            "Writes that the database has refused since layer 1 was installed, by code; plain "
            "SQL's too, but for SQL Server.");
  // These codes start at 0, because increase() misses a series that starts at 1.
  std::map<std::string, std::int64_t> refused{
      {"TG001", 0}, {"TG002", 0}, {"TG004", 0}, {"TG006", 0}};
  for (const auto& [code, count] : Info(database_).refusal_counts()) refused[code] = count;
  for (const auto& [code, count] : refused)
    text.line("termgate_database_refusals_total", {{"code", code}}, count);
  return text.take();
}

}  // namespace termgate::admin
