// The database's view of leadership as Prometheus text, which `termgate admin` serves at /metrics.
// docs/use/operations.md says what each number means.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include <termgate/admin/scopes.hpp>

namespace termgate::admin {

// Counts what is added to the audit from the first text() on. Any thread.
class DatabaseMetrics {
 public:
  // `scopes` outlives this.
  DatabaseMetrics(Database database, ScopeBook& scopes)
      : database_(std::move(database)), scopes_(scopes) {}
  // Reads the database, and throws what Database throws. The number of lines is bounded, however
  // many scopes there are; expired leases and failed jobs beyond that have a limit of their own.
  std::string text();

  class Text;

 private:
  void count(const AuditEntry& entry);
  void changes(std::int64_t now_ms, Text& text);

  Database database_;
  ScopeBook& scopes_;
  std::mutex mutex_;  // guards the members below
  std::int64_t last_id_ = -1;
  std::int64_t refused_ = 0, evicted_ = 0;
  // By scope: the time at which its lease was acquired. Only leases that may still be held.
  std::map<std::string, std::int64_t> acquired_at_ms_;
  std::map<std::string, std::vector<std::int64_t>>
      taken_at_ms_;  // acquisitions of the last ten minutes, by scope
  // Histogram of how long leases were held, by upper bound; the last bucket has none.
  std::vector<std::int64_t> holds_ = std::vector<std::int64_t>(13, 0);
  double held_seconds_ = 0;
  std::map<std::string, std::int64_t> actions_{{"acquire", 0}, {"evict", 0}, {"force_release", 0},
                                               {"refuse", 0},  {"reset", 0}, {"seal", 0}};
};

}  // namespace termgate::admin
