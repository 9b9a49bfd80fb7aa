// Refusals on their way to the audit. Internal. Any thread.
//
// A refusal rolls back its own transaction, so it is recorded afterwards in another one, at most
// once a second for each scope: a stale leader that tries a thousand times a second must not fill
// the audit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

// Refusals of one scope, gathered. Moments are milliseconds since 1970.
struct Refusals {
  std::string scope;
  std::int64_t term = 0;  // the latest refused term
  std::int64_t count = 0;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;
  std::string client = {};  // the client that was refused last; empty: not known
};

class RefusalLog {
 public:
  static constexpr std::int64_t pause_ms = 1000;
  // Beyond this many, the refusals of a new scope are reported at once.
  static constexpr std::size_t scopes_max = 10'000;

  // Notes one refusal. Returns the refusals to report now, if a report is due.
  std::optional<Refusals> note(const std::string& scope, std::int64_t term, std::int64_t now_ms,
                               std::string client = {});
  // Another client has just reported refusals of this scope: these wait for the next report.
  void put_back(const Refusals& refusals);
  // All refusals that are not reported yet.
  std::vector<Refusals> take_all();

 private:
  struct Entry {
    Refusals gathered;
    std::int64_t reported_ms = 0;
  };
  std::mutex mutex_;  // guards entries_
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
