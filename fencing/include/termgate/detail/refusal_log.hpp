// Refusals on their way to the audit. Internal. Any thread.
//
// A refusal rolled its own transaction back, so it is written down afterwards, in a transaction of its own, and at
// most once a second a scope: a stale leader that tries a thousand times a second must not fill the audit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace termgate::inline v0::detail {

// Refusals of one scope, gathered. Moments are milliseconds since 1970.
struct Refusals {
  std::string scope;
  std::int64_t term = 0;  // the latest refused one
  std::int64_t count = 0;
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;
  std::string client = {};  // who was refused last; empty: not known
};

class RefusalLog {
 public:
  static constexpr std::int64_t pause_ms = 1000;
  static constexpr std::size_t scopes_max = 10'000;  // beyond, the refusals of a new scope are reported at once

  // Notes one refusal; what is due to be reported now, if anything is.
  std::optional<Refusals> note(const std::string& scope, std::int64_t term, std::int64_t now_ms, std::string client = {});
  // The database has heard from somebody else a moment ago: these go with the next report.
  void put_back(const Refusals& refusals);
  // What is still unreported.
  std::vector<Refusals> take_all();

 private:
  struct Entry {
    Refusals gathered;
    std::int64_t reported_ms = 0;
  };
  std::mutex mutex_;  // guards entries_
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace termgate::inline v0::detail
