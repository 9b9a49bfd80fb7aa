// Deliberate bugs, each of which would break a guarantee, to show that the storm finds them (those
// in the proxy's decision: its unit test; docs/evidence/correctness.md). They exist in test builds
// only: CMake's TERMGATE_PLANT, empty by default and refused outside Debug, compiles them into the
// files that contain one. With TERMGATE_PLANT=all the environment variable TERMGATE_PLANTED selects
// the active one; unset, there is none. No other build reads that variable. Without TERMGATE_PLANT
// the macro is `false`.
#pragma once

#ifdef TERMGATE_PLANT

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

inline constexpr std::array<std::string_view, 15> plants{
    "sqlite_memory",  // layer 1 on SQLite trusts a remembered fence although others have written
                      // since
    "sqlite_lease",   // an acquisition on SQLite issues the last term again
    "group_commit",   // a write that shares a commit is acknowledged before it
    "library_check",  // the library skips the check where this process has not seen a higher term
    "postgres_lost_answer",  // a COMMIT whose answer was lost is reported as a write that did not
                             // happen
    "proxy_one_behind",      // the proxy lets through the term one below the fence
    "proxy_savepoint",    // the proxy still counts a check as passed after a ROLLBACK TO has undone
                          // it and released its lock
    "decision_own_call",  // the eight faults of the proxy's decision:
                          // proxy/postgres/src/guard_faults.hpp
    "decision_unheard",
    "decision_comment",
    "decision_any_claim",
    "decision_any_scope",
    "decision_commit",
    "decision_holes",
    "decision_code",
};

// An unknown name ends the process: a test of it would show nothing.
inline bool planted(std::string_view bug) {
  static const std::string_view chosen = [] {
    std::string_view name(TERMGATE_PLANT);
    if (name == "all") {
      const char* given = std::getenv("TERMGATE_PLANTED");
      name = given == nullptr ? "" : given;
    }
    if (name.empty() || std::find(plants.begin(), plants.end(), name) != plants.end()) return name;
    std::fprintf(stderr, "termgate: TERMGATE_PLANTED: there is no planted bug \"%.*s\"\n",
                 static_cast<int>(name.size()), name.data());
    std::abort();
  }();
  return chosen == bug;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate

#define TERMGATE_PLANTED(bug) ::termgate::detail::planted(#bug)
#else
#define TERMGATE_PLANTED(bug) false
#endif
