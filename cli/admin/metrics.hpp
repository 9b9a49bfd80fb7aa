// What the database knows of leadership, as Prometheus text: `termgate admin` serves it at /metrics. docs/use/operations.md says what each
// number means.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <termgate/database.hpp>

namespace termgate::cli::admin {

// Counts what the audit gains from its making on. Any thread.
class DatabaseMetrics {
 public:
  explicit DatabaseMetrics(Database database) : database_(std::move(database)) {}
  // One look at the database: throws what Database throws. Scopes, jobs and followers beyond the first 500 of each have no lines of their
  // own.
  std::string text();

 private:
  void count(const AuditEntry& entry);

  Database database_;
  std::mutex mutex_;  // guards what follows
  std::int64_t last_id_ = -1;
  std::int64_t refused_ = 0, evicted_ = 0;
  // When the lease of a scope was acquired that somebody may hold still, and how long the leases were held that have ended since.
  std::map<std::string, std::int64_t> acquired_at_ms_;
  std::vector<std::int64_t> holds_ = std::vector<std::int64_t>(13, 0);  // by upper bound; the last one has none
  double held_seconds_ = 0;
  std::map<std::string, std::int64_t> actions_{{"acquire", 0}, {"evict", 0}, {"force_release", 0}, {"refuse", 0}, {"reset_fence", 0}};
};

}  // namespace termgate::cli::admin
