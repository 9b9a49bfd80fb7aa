// The text of the library's metrics: Prometheus refuses the whole of it for one series that is
// there twice.
#include <catch2/catch.hpp>

#include <set>
#include <sstream>
#include <string>

#include <termgate/stats.hpp>

#include "storage/src/stats.hpp"

using namespace termgate;

namespace {

void check_series(const std::string& text) {
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(seen.insert(line.starts_with('#') ? line : line.substr(0, line.rfind(' '))).second);
    CHECK(line.find("{job=") == std::string::npos);
    CHECK(line.find("instance=") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("stats: two loops and two followers of one name are one series each", "[storage]") {
  LeaderStats one{.scope = "billing", .term = 7, .elected = 2, .lost = 1};
  LeaderStats other{.scope = "billing", .term = {}, .elected = 3, .stopped = 1, .lost = 4};
  const std::string text = metrics_text({}, {one, other, {.scope = "x"}, {.scope = "x"}},
                                        {{.name = "f", .handled = 2}, {.name = "f", .handled = 3}});
  check_series(text);
  CHECK(text.find("termgate_leader{scope=\"billing\"} 1\n") != std::string::npos);
  CHECK(text.find("termgate_leader_term{scope=\"billing\"} 7\n") != std::string::npos);
  CHECK(text.find("termgate_leader_elections_total{scope=\"billing\"} 5\n") != std::string::npos);
  CHECK(text.find("termgate_leader_ends_total{scope=\"billing\",how=\"lost\"} 5\n") !=
        std::string::npos);
  CHECK(text.find("termgate_leader_ends_total{scope=\"x\",how=\"lost\"} 0\n") != std::string::npos);
  CHECK(text.find("termgate_follower_handled_total{follower=\"f\"} 5\n") != std::string::npos);
}

TEST_CASE("stats: contention has its scope and no flood of scopes makes more series", "[storage]") {
  detail::ContentionCounter counter;
  for (int i = 0; i < 1000; ++i)
    counter.note("scope-" + std::to_string(i), 1, std::chrono::milliseconds(2));
  counter.note("scope-7", 2, std::chrono::seconds(1));
  DatabaseStats stats;
  stats.contention = counter.read();
  CHECK(stats.contention.size() == 101);
  std::int64_t refused = 0;
  for (const ScopeContention& one : stats.contention) refused += one.refused;
  CHECK(refused == 1002);
  const std::string text = metrics_text(stats);
  check_series(text);
  CHECK(text.find("termgate_scope_lease_refused_total{scope=\"scope-7\"} 3\n") !=
        std::string::npos);
  CHECK(text.find("termgate_scope_lease_wait_seconds_total{scope=\"scope-7\"} 1.002000000\n") !=
        std::string::npos);
  CHECK(text.find("termgate_scope_lease_refused_total{scope=\"other\"} 900\n") !=
        std::string::npos);
}
