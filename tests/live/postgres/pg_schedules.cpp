// [F1] [F2] [F4] [F5] Seeded schedules (1,000; ten thousand with TERMGATE_TEST_LONG) of up to eight
// sessions on a real PostgreSQL, each step forced by the test and none by sleeping, compared with
// the model of tests/support/fence_model.hpp: checks, raises, seals, writes, savepoints, commits
// and evictions at every isolation level. A raise evicts at once here (grace 1 ms), so that no step
// waits; what the model calls blocked is a TG006 after check_wait.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/fence_model.hpp"
#include "support/pg_session.hpp"

using termgate::test::FenceModel;
using termgate::test::Outcome;
using termgate::test::PgDatabase;
using termgate::test::PgSession;

namespace {

struct Answer {
  Outcome outcome = Outcome::ok;
  bool lost = false;  // the session was ended
  std::string text;
};

class Client {
 public:
  explicit Client(const std::string& url) : url_(url) { connect(); }
  void connect() { session_ = std::make_unique<PgSession>(url_); }

  Answer run(const std::string& sql) {
    const auto result = session_->run(sql);
    Answer answer;
    answer.text = result.ok() ? result.value() : result.message;
    if (result.ended()) answer.lost = true;
    else if (result.code == "TG001") answer.outcome = Outcome::stale;
    else if (result.code == "TG005") answer.outcome = Outcome::invalid;
    else if (result.code == "TG006") answer.outcome = Outcome::blocked;
    else if (result.code == "40001" || result.code == "40P01") answer.outcome = Outcome::conflict;
    else if (!result.ok()) throw std::runtime_error(sql + ": " + result.code + " " + answer.text);
    return answer;
  }

 private:
  std::string url_;
  std::unique_ptr<PgSession> session_;
};

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok: return "ok";
    case Outcome::stale: return "stale";
    case Outcome::invalid: return "invalid";
    case Outcome::blocked: return "blocked";
    case Outcome::conflict: return "conflict";
  }
  return "?";
}

struct Write {
  int scope;
  std::int64_t term;
};

struct Session {
  std::unique_ptr<Client> client;
  bool open = false;
  bool evicted = false;
  bool snapshot_taken = false;
  int isolation = 0;  // 0 read committed, 1 repeatable read, 2 serializable
  std::vector<std::int64_t> snapshot;
  std::vector<Write> writes;
  bool savepoint = false;
  std::set<int> held_at_savepoint;
  std::size_t writes_at_savepoint = 0;
};

constexpr int scopes = 2;

// How often each answer was met, over all schedules: a run that never saw one proves nothing of it.
struct Tally {
  std::map<Outcome, int> answered;
  int evictions = 0;
};

class Schedule {
 public:
  Schedule(std::vector<Session>& sessions, unsigned seed, const std::string& prefix, Tally& tally)
      : sessions_(sessions), random_(seed), prefix_(prefix), tally_(tally) {
    log_ = "seed " + std::to_string(seed) + ":";
  }

  // Runs the schedule; every answer is compared with the model's.
  void run() {
    const int count = 2 + static_cast<int>(random_() % 7);
    const int steps = 6 + static_cast<int>(random_() % 12);
    for (int step = 0; step < steps; ++step)
      one_step(static_cast<int>(random_() % static_cast<unsigned>(count)));
    for (int index = 0; index < count; ++index) {
      if (sessions_[static_cast<std::size_t>(index)].open) finish(index, true);
    }
    compare_with_database();
  }

 private:
  [[noreturn]] void fail(const std::string& why) { throw std::runtime_error(log_ + " -> " + why); }
  void note(int session, const std::string& what) {
    log_ += " [" + std::to_string(session) + "] " + what;
  }
  std::string scope_name(int scope) const { return prefix_ + (scope == 0 ? "a" : "b"); }

  void one_step(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    if (!session.open) {
      if (random_() % 6 == 0) return seal_alone(index);
      return begin(index);
    }
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
      case 3: return check(index);
      case 4:
      case 5: return write(index);
      case 6: return savepoint(index);
      case 7: return rollback_to(index);
      case 8: return finish(index, true);
      default: return random_() % 3 == 0 ? finish(index, false) : check(index);
    }
  }

  void begin(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    session.isolation = static_cast<int>(random_() % 3);
    const char* levels[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
    session.client->run(std::string("BEGIN ISOLATION LEVEL ") + levels[session.isolation]);
    session.open = true;
    session.evicted = session.snapshot_taken = session.savepoint = false;
    session.writes.clear();
    note(index, std::string("begin ") + levels[session.isolation]);
  }

  // What the session's next statement sees: from REPEATABLE READ on, what its first one saw.
  std::vector<std::int64_t> seen_fences(const Session& session) const {
    if (session.isolation != 0 && session.snapshot_taken) return session.snapshot;
    return {models_[0].fence, models_[1].fence};
  }

  std::int64_t pick_term(int scope) {
    const std::int64_t fence = models_[scope].fence;
    switch (random_() % 8) {
      case 0: return fence + 1 + static_cast<std::int64_t>(random_() % 3);
      case 1: return std::max<std::int64_t>(1, fence - 1);
      default: return std::max<std::int64_t>(1, fence);
    }
  }

  void check(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    const int scope = static_cast<int>(random_() % scopes);
    const std::int64_t term = pick_term(scope);
    std::set<int> evicted;
    const auto seen = seen_fences(session);
    auto allowed =
        models_[scope].check(index, term, seen[static_cast<std::size_t>(scope)], evicted);
    // A wait costs check_wait: few of the schedules go there.
    if (allowed.contains(Outcome::blocked) && random_() % 40 != 0) return;
    if (session.isolation == 2) allowed.insert(Outcome::conflict);
    note(index, "check " + scope_name(scope) + " " + std::to_string(term));
    session.snapshot = seen;
    session.snapshot_taken = true;
    const Answer answer = session.client->run("SELECT termgate.check_term('" + scope_name(scope) +
                                              "', " + std::to_string(term) + ")");
    if (expect_lost(index, answer)) return;
    if (!allowed.contains(answer.outcome))
      fail(std::string("answered ") + name_of(answer.outcome) + " " + answer.text);
    ++tally_.answered[answer.outcome];
    if (answer.outcome == Outcome::ok) {
      evict(evicted);
      models_[scope].passed(index, term);
    } else {
      // A raise that met a conflict may have evicted before; who was, shows at its next word.
      for (int other : evicted) maybe_evicted_.insert(other);
      abort(index);
    }
  }

  void seal_alone(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    const int scope = static_cast<int>(random_() % scopes);
    const std::int64_t term = models_[scope].fence + static_cast<std::int64_t>(random_() % 3);
    if (term < 1) return;
    std::set<int> evicted;
    auto allowed = models_[scope].raise(index, term, models_[scope].fence, evicted);
    if (term == models_[scope].fence) {
      // A no-op needs no raise: nobody has to be evicted for it, and it may or may not wait for an
      // uncommitted one.
      evicted.clear();
      for (const auto& [other, hold] : models_[scope].holds) {
        if (hold.exclusive) return;
      }
      allowed = {Outcome::ok};
    }
    if (allowed.contains(Outcome::blocked) && random_() % 40 != 0) return;
    note(index, "seal " + scope_name(scope) + " " + std::to_string(term));
    const Answer answer =
        session.client->run("SELECT fence FROM termgate.seal('" + scope_name(scope) + "', " +
                            std::to_string(term) + ")");
    if (answer.lost || !allowed.contains(answer.outcome))
      fail(std::string("answered ") + name_of(answer.outcome) + " " + answer.text);
    if (answer.outcome == Outcome::ok) {
      if (term == models_[scope].fence) {
        // Those in the way of a no-op may have been evicted or left alone: both keep the
        // guarantees.
        for (const auto& [other, hold] : models_[scope].holds) maybe_evicted_.insert(other);
      }
      evict(evicted);
      models_[scope].fence = term;
    }
  }

  void write(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    std::vector<int> held;
    for (int scope = 0; scope < scopes; ++scope) {
      if (models_[scope].holds.contains(index)) held.push_back(scope);
    }
    if (held.empty()) return;
    const int scope = held[random_() % held.size()];
    const std::int64_t term = models_[scope].holds[index].term;
    note(index, "write " + scope_name(scope) + " " + std::to_string(term));
    const Answer answer =
        session.client->run("INSERT INTO schedule_log (scope, term) VALUES ('" + scope_name(scope) +
                            "', " + std::to_string(term) + ")");
    if (expect_lost(index, answer)) return;
    if (answer.outcome == Outcome::conflict && session.isolation == 2) return abort(index);
    if (answer.outcome != Outcome::ok) fail("a write answered " + answer.text);
    session.writes.push_back({scope, term});
  }

  void savepoint(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    note(index, "savepoint");
    const Answer answer = session.client->run("SAVEPOINT one");
    if (expect_lost(index, answer)) return;
    session.savepoint = true;
    session.held_at_savepoint.clear();
    for (int scope = 0; scope < scopes; ++scope) {
      if (models_[scope].holds.contains(index)) session.held_at_savepoint.insert(scope);
    }
    session.writes_at_savepoint = session.writes.size();
  }

  // What was locked after the savepoint is given up: the model forgets the hold, and so must the
  // server.
  void rollback_to(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    if (!session.savepoint) return;
    note(index, "rollback to");
    const Answer answer = session.client->run("ROLLBACK TO SAVEPOINT one");
    if (expect_lost(index, answer)) return;
    for (int scope = 0; scope < scopes; ++scope) {
      if (!session.held_at_savepoint.contains(scope)) models_[scope].roll_back(index);
    }
    session.writes.resize(session.writes_at_savepoint);
  }

  void finish(int index, bool commit) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    note(index, commit ? "commit" : "rollback");
    const Answer answer = session.client->run(commit ? "COMMIT" : "ROLLBACK");
    if (expect_lost(index, answer)) return;
    if (answer.outcome == Outcome::conflict && session.isolation == 2) return abort(index);
    if (answer.outcome != Outcome::ok) fail("COMMIT answered " + answer.text);
    session.open = false;
    maybe_evicted_.erase(index);
    for (int scope = 0; scope < scopes; ++scope) {
      if (commit) models_[scope].commit(index);
      else models_[scope].roll_back(index);
    }
    if (!commit) return;
    for (const Write& write : session.writes) {
      // F1, in commit order.
      auto& last = last_committed_[write.scope];
      if (write.term < last) fail("a committed term decreased");
      last = write.term;
      committed_[write.scope].push_back(write.term);
    }
  }

  void abort(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    const Answer answer = session.client->run("ROLLBACK");
    if (answer.lost) session.client->connect();
    forget(index);
  }

  void forget(int index) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    session.open = session.evicted = false;
    maybe_evicted_.erase(index);
    for (auto& model : models_) model.roll_back(index);
  }

  void evict(const std::set<int>& evicted) {
    tally_.evictions += static_cast<int>(evicted.size());
    for (int other : evicted) {
      sessions_[static_cast<std::size_t>(other)].evicted = true;
      for (auto& model : models_) model.roll_back(other);
    }
  }

  // A session that was evicted must find out now, and one that was not must still be there.
  bool expect_lost(int index, const Answer& answer) {
    Session& session = sessions_[static_cast<std::size_t>(index)];
    if (session.evicted != answer.lost && !(answer.lost && maybe_evicted_.contains(index))) {
      fail(answer.lost ? "a session was ended that held up nobody"
                       : "an evicted session goes on: " + answer.text);
      return true;
    }
    if (!answer.lost) return false;
    session.client->connect();
    forget(index);
    return true;
  }

  void compare_with_database() {
    for (int scope = 0; scope < scopes; ++scope) {
      Client& client = *sessions_[0].client;
      const auto fence =
          client.run("SELECT coalesce(max(term), 0) FROM termgate.fences WHERE scope = '" +
                     scope_name(scope) + "'");
      if (fence.text != std::to_string(models_[scope].fence))
        fail("the fence stands at " + fence.text);
      std::string terms;
      for (auto term : committed_[scope])
        terms += (terms.empty() ? "" : ",") + std::to_string(term);
      const auto stored = client.run(
          "SELECT coalesce(string_agg(term::text, ',' ORDER BY term, id), '') FROM schedule_log "
          "WHERE scope = '" +
          scope_name(scope) + "'");
      if (stored.text != terms) fail("stored terms " + stored.text + ", committed " + terms);
    }
  }

  std::vector<Session>& sessions_;
  std::mt19937 random_;
  std::string prefix_;
  std::string log_;
  FenceModel models_[scopes];
  Tally& tally_;
  std::set<int> maybe_evicted_;
  std::int64_t last_committed_[scopes] = {0, 0};
  std::vector<std::int64_t> committed_[scopes];
};

}  // namespace

TEST_CASE("schedules: thousands of up to eight sessions answer as the model does",
          "[F1][F2][F4][F5][live]") {
  const char* wanted = std::getenv("TERMGATE_TEST_SCHEDULES");
  const unsigned usual = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 10'000 : 1'000;
  const unsigned count = wanted == nullptr ? usual : static_cast<unsigned>(std::atoi(wanted));
  const unsigned seed = Catch::rngSeed() * 100'000;
  CAPTURE(Catch::rngSeed());
  // Much of a schedule is one session waiting for another's end. A database for each player: at
  // SERIALIZABLE they would meet in the log of writes.
  constexpr unsigned players = 3;
  std::vector<std::unique_ptr<PgDatabase>> databases;
  for (unsigned player = 0; player < players; ++player) {
    databases.push_back(std::make_unique<PgDatabase>("schedules_" + std::to_string(player)));
    PgSession owner(databases.back()->url());
    owner.must("CREATE TABLE schedule_log (id bigserial PRIMARY KEY, scope text, term bigint)");
    owner.must("CREATE INDEX ON schedule_log (scope)");
    owner.must("SELECT termgate.set_setting('eviction_grace_ms', '1')");
    owner.must("SELECT termgate.set_setting('check_wait_ms', '300')");
  }
  std::vector<Tally> tallies(players);
  std::vector<std::string> failures(players);
  std::vector<std::jthread> threads;
  for (unsigned player = 0; player < players; ++player) {
    threads.emplace_back([&, player] {
      try {
        std::vector<Session> sessions(8);
        for (auto& session : sessions)
          session.client = std::make_unique<Client>(databases[player]->url());
        for (unsigned i = player; i < count; i += players)
          Schedule(sessions, seed + i, "s" + std::to_string(i), tallies[player]).run();
      } catch (const std::exception& error) { failures[player] = error.what(); }
    });
  }
  threads.clear();  // waits for them
  for (const auto& failure : failures) CHECK(failure == "");
  Tally all;
  for (const auto& tally : tallies) {
    for (const auto& [outcome, times] : tally.answered) all.answered[outcome] += times;
    all.evictions += tally.evictions;
  }
  for (auto outcome :
       {Outcome::ok, Outcome::stale, Outcome::invalid, Outcome::blocked, Outcome::conflict}) {
    INFO(name_of(outcome));
    CHECK(all.answered[outcome] > 0);
  }
  CHECK(all.evictions > 0);
}
