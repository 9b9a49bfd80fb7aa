// Counters of the library, and their text in the Prometheus format.
// The counters are relaxed atomics: each is right by itself, and a scrape may see one that is a
// moment older than another.
#include "stats.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace detail {

void CallCounter::add(Outcome outcome, std::int64_t times) noexcept {
  outcomes_[static_cast<int>(outcome)].fetch_add(times, std::memory_order_relaxed);
}

void CallCounter::note(Outcome outcome, std::chrono::nanoseconds took,
                       std::int64_t times) noexcept {
  add(outcome, times);
  took_.fetch_add(took.count(), std::memory_order_relaxed);
  const double seconds = std::chrono::duration<double>(took).count();
  std::size_t bucket = 0;
  while (bucket < CallStats::bounds_seconds.size() && seconds > CallStats::bounds_seconds[bucket])
    ++bucket;
  buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
}

CallStats CallCounter::read() const noexcept {
  CallStats stats;
  stats.granted = outcomes_[0].load(std::memory_order_relaxed);
  stats.refused = outcomes_[1].load(std::memory_order_relaxed);
  stats.failed = outcomes_[2].load(std::memory_order_relaxed);
  stats.took = std::chrono::nanoseconds(took_.load(std::memory_order_relaxed));
  for (std::size_t at = 0; at < buckets_.size(); ++at)
    stats.buckets[at] = buckets_[at].load(std::memory_order_relaxed);
  return stats;
}

void ContentionCounter::note(const std::string& scope, std::int64_t refused,
                             std::chrono::nanoseconds waited) {
  const std::lock_guard lock(mutex_);
  const std::string& name =
      scopes_.size() < scopes_max || scopes_.contains(scope) ? scope : "other";
  ScopeContention& one = scopes_[name];
  one.scope = name;
  one.refused += refused;
  one.waited += waited;
}

std::vector<ScopeContention> ContentionCounter::read() const {
  const std::lock_guard lock(mutex_);
  std::vector<ScopeContention> all;
  for (const auto& [scope, one] : scopes_) all.push_back(one);
  return all;
}

}  // namespace detail

std::string to_text(const LeaseCall& call) {
  constexpr const char* kinds[] = {"acquire", "renew", "release"};
  constexpr const char* results[] = {"granted", "refused", "failed"};
  std::string text =
      fmt::format("{} of \"{}\" by {}", kinds[static_cast<int>(call.kind)], call.scope, call.owner);
  if (call.term) text += fmt::format(" under term {}", *call.term);
  text += fmt::format(": {} in {:.1f} ms", results[static_cast<int>(call.result)],
                      std::chrono::duration<double, std::milli>(call.took).count());
  return call.error.empty() ? text : text + ": " + call.error;
}

namespace {

// The format escapes only these three in a label's value.
std::string label(std::string_view text) {
  std::string value;
  for (const char c : text) {
    if (c == '\\' || c == '"') value += '\\';
    if (c == '\n') value += "\\n";
    else value += c;
  }
  return value;
}

class Text {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> form, Arguments&&... arguments) {
    text_ += fmt::format(form, std::forward<Arguments>(arguments)...) + '\n';
  }
  void number(std::string_view name, std::string_view type, std::string_view help,
              std::int64_t value) {
    head(name, type, help);
    line("{} {}", name, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void calls(Text& text, const DatabaseStats& stats) {
  const std::pair<const char*, const CallStats*> all[] = {
      {"acquire", &stats.acquire}, {"renew", &stats.renew}, {"release", &stats.release}};
  text.head("termgate_lease_calls_total", "counter",
            "Leases acquired, renewed and given back, by result.");
  for (const auto& [call, one] : all) {
    text.line("termgate_lease_calls_total{{call=\"{}\",result=\"granted\"}} {}", call,
              one->granted);
    text.line("termgate_lease_calls_total{{call=\"{}\",result=\"refused\"}} {}", call,
              one->refused);
    text.line("termgate_lease_calls_total{{call=\"{}\",result=\"failed\"}} {}", call, one->failed);
  }
  text.head("termgate_lease_call_seconds", "histogram",
            "How long these calls took; one statement may renew many leases.");
  for (const auto& [call, one] : all) {
    // In this format each bucket includes all smaller ones.
    std::int64_t cumulated = 0;
    for (std::size_t at = 0; at < one->buckets.size(); ++at) {
      cumulated += one->buckets[at];
      const std::string bound = at < CallStats::bounds_seconds.size()
                                    ? fmt::format("{}", CallStats::bounds_seconds[at])
                                    : "+Inf";
      text.line("termgate_lease_call_seconds_bucket{{call=\"{}\",le=\"{}\"}} {}", call, bound,
                cumulated);
    }
    text.line("termgate_lease_call_seconds_sum{{call=\"{}\"}} {:.9f}", call, seconds(one->took));
    text.line("termgate_lease_call_seconds_count{{call=\"{}\"}} {}", call, cumulated);
  }
}

// Entries of the same name become one series, because Prometheus would refuse the whole text
// otherwise: the scope leads if one of them does, and counters are added up.
std::vector<LeaderStats> by_scope(const std::vector<LeaderStats>& all) {
  std::vector<LeaderStats> merged;
  for (const LeaderStats& one : all) {
    const auto found = std::find_if(merged.begin(), merged.end(), [&](const LeaderStats& other) {
      return other.scope == one.scope;
    });
    if (found == merged.end()) {
      merged.push_back(one);
      continue;
    }
    found->term = std::max(found->term, one.term);
    found->elected += one.elected;
    found->stopped += one.stopped;
    found->finished += one.finished;
    found->handed_over += one.handed_over;
    found->fenced += one.fenced;
    found->lost += one.lost;
    found->expired += one.expired;
  }
  return merged;
}

std::vector<FollowerStats> by_name(const std::vector<FollowerStats>& all) {
  std::vector<FollowerStats> merged;
  for (const FollowerStats& one : all) {
    const auto found = std::find_if(merged.begin(), merged.end(), [&](const FollowerStats& other) {
      return other.name == one.name;
    });
    if (found == merged.end()) {
      merged.push_back(one);
      continue;
    }
    found->running = found->running || one.running;
    found->lag = std::max(found->lag, one.lag);
    found->handled += one.handled;
    found->refused += one.refused;
  }
  return merged;
}

void leaders_text(Text& text, const std::vector<LeaderStats>& given) {
  const std::vector<LeaderStats> leaders = by_scope(given);
  if (leaders.empty()) return;
  text.head("termgate_leader", "gauge", "1 while this process leads the scope.");
  for (const LeaderStats& one : leaders)
    text.line("termgate_leader{{scope=\"{}\"}} {}", label(one.scope), one.term ? 1 : 0);
  text.head("termgate_leader_term", "gauge", "The term that it leads under; 0: it does not.");
  for (const LeaderStats& one : leaders)
    text.line("termgate_leader_term{{scope=\"{}\"}} {}", label(one.scope), one.term.value_or(0));
  text.head("termgate_leader_elections_total", "counter", "Elections that this process has won.");
  for (const LeaderStats& one : leaders)
    text.line("termgate_leader_elections_total{{scope=\"{}\"}} {}", label(one.scope), one.elected);
  text.head("termgate_leader_ends_total", "counter", "How its leaderships ended.");
  for (const LeaderStats& one : leaders) {
    const std::pair<const char*, std::int64_t> ends[] = {
        {"stopped", one.stopped}, {"finished", one.finished}, {"handed_over", one.handed_over},
        {"fenced", one.fenced},   {"lost", one.lost},         {"expired", one.expired}};
    for (const auto& [how, count] : ends)
      text.line("termgate_leader_ends_total{{scope=\"{}\",how=\"{}\"}} {}", label(one.scope), how,
                count);
  }
}

void followers_text(Text& text, const std::vector<FollowerStats>& given) {
  const std::vector<FollowerStats> followers = by_name(given);
  if (followers.empty()) return;
  text.head("termgate_follower_running", "gauge", "1 while the follower runs in this process.");
  for (const FollowerStats& one : followers)
    text.line("termgate_follower_running{{follower=\"{}\"}} {}", label(one.name),
              one.running ? 1 : 0);
  text.head("termgate_follower_lag", "gauge", "Writes that it had not handled at its last look.");
  for (const FollowerStats& one : followers)
    text.line("termgate_follower_lag{{follower=\"{}\"}} {}", label(one.name), one.lag);
  text.head("termgate_follower_handled_total", "counter", "Writes that it has handled.");
  for (const FollowerStats& one : followers)
    text.line("termgate_follower_handled_total{{follower=\"{}\"}} {}", label(one.name),
              one.handled);
  text.head("termgate_follower_refused_total", "counter", "Times that its function threw.");
  for (const FollowerStats& one : followers)
    text.line("termgate_follower_refused_total{{follower=\"{}\"}} {}", label(one.name),
              one.refused);
}

}  // namespace

std::string metrics_text(const DatabaseStats& stats, const std::vector<LeaderStats>& leaders,
                         const std::vector<FollowerStats>& followers) {
  Text text;
  calls(text, stats);
  text.number("termgate_lease_waits_total", "counter", "Waits for a lease that another held.",
              stats.waits);
  text.head("termgate_lease_wait_seconds_total", "counter",
            "How long these waits took, to the grant or in vain.");
  text.line("termgate_lease_wait_seconds_total {:.9f}", seconds(stats.waited));
  text.head("termgate_scope_lease_refused_total", "counter",
            "Acquisitions of the scope's lease that were refused, because another held it.");
  for (const ScopeContention& one : stats.contention)
    text.line("termgate_scope_lease_refused_total{{scope=\"{}\"}} {}", label(one.scope),
              one.refused);
  text.head("termgate_scope_lease_wait_seconds_total", "counter",
            "How long callers have waited for the scope's lease.");
  for (const ScopeContention& one : stats.contention)
    text.line("termgate_scope_lease_wait_seconds_total{{scope=\"{}\"}} {:.9f}", label(one.scope),
              seconds(one.waited));
  text.number("termgate_handles_held", "gauge", "HeldLease objects that hold a lease.", stats.held);
  text.number("termgate_handles_lost_total", "counter",
              "Leases of handles that the database said were not theirs any more.", stats.lost);
  text.number("termgate_handles_expired_total", "counter",
              "Leases of handles that could not be renewed in time.", stats.expired);
  text.number("termgate_stale_calls_total", "counter",
              "Calls of this process that were refused with TG001.", stats.stale_writes);
  leaders_text(text, leaders);
  followers_text(text, followers);
  return text.take();
}

}  // namespace v0
}  // namespace termgate
