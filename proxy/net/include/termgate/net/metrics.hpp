// What the proxy counts, and its Prometheus text. Each thread has its own Counters, which any
// thread may read.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <termgate/conversation/authority.hpp>
#include <termgate/conversation/session_host.hpp>

namespace termgate::net {

// A number that only one thread adds to. It needs no locked instruction, which matters because the
// hot path counts every transaction.
class Counter {
 public:
  void add(std::int64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::int64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// The class of a scope: its leading letters and underscores (at most 40), so that "order-7" and
// "order-8" are both "order"; without any, "other". The number of scopes is unlimited, and that of
// a metric's labels must not be.
std::string_view scope_class(std::string_view scope) noexcept;

class Counters {
 public:
  static constexpr std::array<double, 12> bounds_seconds{
      0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1, 5};
  // Pairs of a scope's class and a code. Later ones are counted as "other".
  static constexpr std::size_t classes_max = 50;

  Counter accepted, opened, closed, transactions, fenced, evicted, malformed, bytes_from_clients,
      bytes_from_servers;
  Counter refused_limit_connections, refused_limit_greeting, refused_limit_user,
      refused_limit_database, refused_limit_address;
  Counter logins_refused, cancels, cancels_unknown, cancels_over_limit, connect_failures,
      tls_failures, greeting_timeouts, no_descriptors;
  std::array<Counter, bounds_seconds.size() + 1> check_buckets;
  Counter check_nanoseconds;

  // Called by the thread that owns these counters.
  void note(const conversation::Incident& incident);

  struct Refusals {
    std::int64_t from_memory = 0;
    std::int64_t from_database = 0;
    std::int64_t let_pass = 0;  // by --enforce observe
  };
  // The refusals by class of scope and code.
  std::map<std::pair<std::string, std::string>, Refusals> refusals() const;

 private:
  mutable std::mutex mutex_;  // guards refusals_; refusals are rare
  std::map<std::pair<std::string, std::string>, Refusals> refusals_;
};

// Values of the whole proxy, beside the counters of its threads.
struct Gauges {
  std::int64_t connections = 0;
  std::int64_t connections_peak = 0;
  std::int64_t greeting = 0;
  std::int64_t connections_limit = 0;
  std::int64_t in_transaction = 0;
  std::int64_t seated = 0;
  std::int64_t session_bytes = 0;
  bool draining = false;
  std::int64_t leases_held = 0;
  bool enforcing = true;
  std::int64_t needs_restart = 0;  // number of changed options that wait for a restart
  conversation::Watching watching;
};

std::string metrics_text(const std::vector<std::shared_ptr<Counters>>& counters,
                         const Gauges& gauges, std::string_view version);

}  // namespace termgate::net
