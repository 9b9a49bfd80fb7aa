// A model of one fence: what a check, a seal, a commit must answer, told a second time and only for
// tests. It is the oracle of random schedules. Terms are plain numbers here; 0 is "no fence yet".
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace termgate::test {

enum class Outcome { ok, stale, invalid, blocked, conflict };

// One scope. Sessions are numbers; each has at most one transaction open.
struct FenceModel {
  struct Hold {
    bool exclusive = false;
    std::int64_t term = 0;  // what the check passed with, or raised to
  };

  std::int64_t fence = 0;     // committed
  std::map<int, Hold> holds;  // by session

  // What `check(term)` of a session may answer, given what the session's snapshot shows of the
  // fence. `evicted` receives the sessions that a raise ends.
  std::set<Outcome> check(int session, std::int64_t term, std::int64_t snapshot,
                          std::set<int>& evicted) const {
    if (const auto mine = holds.find(session); mine != holds.end()) {
      if (term == mine->second.term) return {Outcome::ok};
      return {term < mine->second.term ? Outcome::stale : Outcome::invalid};
    }
    if (term > snapshot) return raise(session, term, snapshot, evicted);
    for (const auto& [other, hold] : holds) {
      if (hold.exclusive) return {Outcome::blocked};
    }
    if (snapshot != fence) return {Outcome::conflict};
    return {term == fence ? Outcome::ok : Outcome::stale};
  }

  std::set<Outcome> raise(int session, std::int64_t term, std::int64_t snapshot,
                          std::set<int>& evicted) const {
    std::set<int> in_the_way;
    for (const auto& [other, hold] : holds) {
      if (other == session) continue;
      if (hold.exclusive && hold.term >= term) return {Outcome::blocked};
      in_the_way.insert(other);
    }
    evicted = in_the_way;
    if (snapshot != fence) return {Outcome::conflict};
    if (term < fence) return {Outcome::stale};
    return {Outcome::ok};
  }

  void passed(int session, std::int64_t term) {
    if (!holds.contains(session)) holds[session] = {term > fence, term};
  }
  void commit(int session) {
    if (const auto mine = holds.find(session); mine != holds.end() && mine->second.exclusive)
      fence = mine->second.term;
    holds.erase(session);
  }
  void roll_back(int session) { holds.erase(session); }
};

}  // namespace termgate::test
