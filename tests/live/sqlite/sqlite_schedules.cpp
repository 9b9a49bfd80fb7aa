// [F1] [F2] [F5] Seeded schedules (1,000; ten thousand with TERMGATE_TEST_LONG) of up to eight
// connections on one SQLite file in WAL mode, through the real loadable extension: checks, raises,
// seals, adopted rows, protected writes, reads that pin a snapshot, savepoints, commits and
// rollbacks. Each step is forced by the test, and every answer is compared with a model of one
// writer: whoever checks becomes it, everybody else is blocked (TG006) until it ends, and who read
// before somebody else's commit meets a conflict.
#include <catch2/catch.hpp>

#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fence_model.hpp"

using termgate::test::Outcome;

namespace {

constexpr int scopes = 2;

struct Answer {
  Outcome outcome = Outcome::ok;
  std::string text;
};

class Client {
 public:
  explicit Client(const std::string& path) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) throw std::runtime_error("no database");
    sqlite3_enable_load_extension(db_, 1);
    char* problem = nullptr;
    if (sqlite3_load_extension(db_, std::getenv("TERMGATE_EXTENSION"), nullptr, &problem) !=
        SQLITE_OK)
      throw std::runtime_error(problem);
    sqlite3_busy_timeout(db_, 0);
  }
  ~Client() { sqlite3_close(db_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Answer run(const std::string& sql) {
    Answer answer;
    char* problem = nullptr;
    auto take = [](void* into, int count, char** values, char**) {
      if (count > 0 && values[0] != nullptr) *static_cast<std::string*>(into) = values[0];
      return 0;
    };
    const int code = sqlite3_exec(db_, sql.c_str(), take, &answer.text, &problem);
    if (code == SQLITE_OK) return answer;
    const std::string said = problem == nullptr ? "" : problem;
    sqlite3_free(problem);
    answer.text = said;
    if (said.starts_with("TG001")) answer.outcome = Outcome::stale;
    else if (said.starts_with("TG002") || said.starts_with("TG005"))
      answer.outcome = Outcome::invalid;
    else if (said.starts_with("TG006")) answer.outcome = Outcome::blocked;
    else if (sqlite3_extended_errcode(db_) == SQLITE_BUSY_SNAPSHOT)
      answer.outcome = Outcome::conflict;
    else throw std::runtime_error(sql + ": " + said);
    return answer;
  }

 private:
  sqlite3* db_ = nullptr;
};

const char* name_of(Outcome outcome) {
  const char* names[] = {"ok", "stale", "invalid", "blocked", "conflict"};
  return names[static_cast<int>(outcome)];
}

struct Passed {
  std::map<int, std::int64_t> terms;    // by scope
  std::map<int, std::int64_t> pending;  // raises that are not committed
};

struct Session {
  std::unique_ptr<Client> client;
  bool open = false;
  int snapshot = -1;  // how many commits it sees; -1: none taken yet
  Passed passed;
  std::vector<std::pair<int, std::int64_t>> writes;
  bool savepoint = false;
  bool touched = false;  // has written a row that is no pass's and no fence's
  Passed at_savepoint;
  std::size_t writes_at_savepoint = 0;
};

class Schedule {
 public:
  static inline std::map<Outcome, int> answered;

  Schedule(std::vector<Session>& sessions, unsigned seed, std::string prefix)
      : sessions_(sessions), random_(seed), prefix_(std::move(prefix)) {
    log_ = "seed " + std::to_string(seed) + ":";
  }

  void run() {
    const int count = 2 + static_cast<int>(random_() % 7);
    const int steps = 6 + static_cast<int>(random_() % 14);
    for (int step = 0; step < steps; ++step)
      one_step(static_cast<int>(random_() % static_cast<unsigned>(count)));
    for (int index = 0; index < count; ++index) {
      if (at(index).open) finish(index, true);
    }
    for (int scope = 0; scope < scopes; ++scope) {
      Client& client = *sessions_[0].client;
      const auto fence = client.run(
          "SELECT coalesce(max(term), 0) FROM termgate_fences WHERE scope = '" + name(scope) + "'");
      if (fence.text != std::to_string(fences_[scope])) fail("the fence stands at " + fence.text);
      std::string terms;
      for (auto term : committed_[scope])
        terms += (terms.empty() ? "" : ",") + std::to_string(term);
      const auto stored = client.run(
          "SELECT coalesce(group_concat(term, ','), '') FROM (SELECT term FROM schedule_log WHERE "
          "scope = '" +
          name(scope) + "' ORDER BY id)");
      if (stored.text != terms) fail("stored terms " + stored.text + ", committed " + terms);
    }
  }

 private:
  void fail(const std::string& why) { FAIL(log_ << " -> " << why); }
  void note(int session, const std::string& what) {
    log_ += " [" + std::to_string(session) + "] " + what;
  }
  std::string name(int scope) const { return prefix_ + (scope == 0 ? "a" : "b"); }
  Session& at(int index) { return sessions_[static_cast<std::size_t>(index)]; }
  int any_scope() { return static_cast<int>(random_() % scopes); }
  // `near` or one or two above it.
  std::int64_t from(std::int64_t near) {
    return std::max<std::int64_t>(1, near + static_cast<std::int64_t>(random_() % 3));
  }
  bool sees_old_rows(const Session& session) const {
    return session.snapshot >= 0 && session.snapshot != commits_;
  }

  Answer ask(int index, const std::string& function, int scope, std::int64_t term) {
    note(index, function + " " + name(scope) + " " + std::to_string(term));
    return at(index).client->run("SELECT termgate_" + function + "('" + name(scope) + "', " +
                                 std::to_string(term) + ")");
  }

  // Who is blocked and sees old rows may hear of either.
  void compare(int index, const Answer& answer, Outcome due) {
    ++answered[answer.outcome];
    const bool either = due == Outcome::blocked && answer.outcome == Outcome::conflict;
    if (answer.outcome != due && !(either && sees_old_rows(at(index))))
      fail(std::string("answered ") + name_of(answer.outcome) + " " + answer.text + ", due was " +
           name_of(due));
  }

  void one_step(int index) {
    Session& session = at(index);
    if (!session.open) {
      switch (random_() % 6) {
        case 0: return seal_alone(index);
        case 1: return check(index);  // in autocommit: a transaction of its own
        default: return begin(index);
      }
    }
    switch (random_() % 12) {
      case 10: return seal_inside(index);
      case 11: return adopt_row(index);
      case 0:
      case 1:
      case 2:
      case 3: return check(index);
      case 4:
      case 5: return write(index);
      case 6: return random_() % 2 == 0 ? read(index) : savepoint(index);
      case 7: return rollback_to(index);
      case 8: return finish(index, true);
      default: return finish(index, random_() % 2 == 0);
    }
  }

  void begin(int index) {
    note(index, "begin");
    at(index).client->run("BEGIN");
    at(index).open = true;
  }

  void read(int index) {
    Session& session = at(index);
    note(index, "read");
    session.client->run("SELECT count(*) FROM schedule_log WHERE id < 0");
    if (session.snapshot < 0) session.snapshot = commits_;
  }

  std::int64_t fence_seen(const Session& session, int scope) const {
    const auto own = session.passed.pending.find(scope);
    return own == session.passed.pending.end() ? fences_[scope] : own->second;
  }

  // Whether the session can become, or is, the writer.
  Outcome writer_for(int index) {
    if (writer_ == index) return Outcome::ok;
    // Who read before somebody else's commit cannot become the writer any more, whether another one
    // stands there or not.
    if (writer_ >= 0) return Outcome::blocked;
    return sees_old_rows(at(index)) ? Outcome::conflict : Outcome::ok;
  }

  void check(int index) {
    Session& session = at(index);
    const int scope = any_scope();
    const std::int64_t fence = fences_[scope];
    const unsigned choice = random_() % 8;
    const std::int64_t term =
        choice == 0 ? from(fence + 1) : std::max<std::int64_t>(1, choice == 1 ? fence - 1 : fence);
    Outcome due = writer_for(index);
    if (due == Outcome::ok) {
      const auto passed = session.passed.terms.find(scope);
      const std::int64_t seen = fence_seen(session, scope);
      if (passed != session.passed.terms.end())
        due = term == passed->second  ? (term < seen ? Outcome::stale : Outcome::ok)
              : term < passed->second ? Outcome::stale
                                      : Outcome::invalid;
      else due = term < seen ? Outcome::stale : Outcome::ok;
    }
    // In autocommit nothing but a raise wants the lock.
    if (!session.open && term <= fence) due = term < fence ? Outcome::stale : Outcome::ok;
    const Answer answer = ask(index, "check_term", scope, term);
    compare(index, answer, due);
    if (answer.outcome != Outcome::ok) {
      if (session.open) finish(index, false);
      return;
    }
    if (!session.open) {
      if (term > fences_[scope]) commit_fence(scope, term);
      return;
    }
    session.passed.terms[scope] = term;
    raised(index, scope, term);
  }

  void seal_alone(int index) {
    const int scope = any_scope();
    const std::int64_t term = from(fences_[scope]);
    const Answer answer = ask(index, "seal", scope, term);
    // The same term again changes nothing and may or may not want the lock.
    if (term != fences_[scope] || answer.outcome != Outcome::ok)
      compare(index, answer, writer_ >= 0 ? Outcome::blocked : Outcome::ok);
    if (answer.outcome == Outcome::ok && term > fences_[scope]) commit_fence(scope, term);
  }

  // A seal inside a transaction raises without a pass.
  void seal_inside(int index) {
    Session& session = at(index);
    const int scope = any_scope();
    const std::int64_t seen = fence_seen(session, scope);
    const std::int64_t term = from(seen - 1);
    Outcome due = writer_for(index);
    if (due == Outcome::ok && session.passed.terms.contains(scope)) due = Outcome::invalid;
    if (due == Outcome::ok && term < seen) due = Outcome::stale;
    const Answer answer = ask(index, "seal", scope, term);
    compare(index, answer, due);
    if (answer.outcome != Outcome::ok) return finish(index, false);
    raised(index, scope, term);
  }

  // So does a row of an adopted table; a pass below it is stale from then on.
  void adopt_row(int index) {
    if (writer_ != index) return;
    const int scope = any_scope();
    const std::int64_t term = from(fence_seen(at(index), scope) - 1);
    note(index, "adopted row " + name(scope) + " " + std::to_string(term));
    const Answer answer = at(index).client->run("INSERT INTO schedule_adopted VALUES ('" +
                                                name(scope) + "', " + std::to_string(term) + ")");
    if (answer.outcome != Outcome::ok) return fail("an adopted row answered " + answer.text);
    at(index).touched = true;
    raised(index, scope, term);
  }

  void raised(int index, int scope, std::int64_t term) {
    Session& session = at(index);
    writer_ = index;
    if (session.snapshot < 0) session.snapshot = commits_;
    if (term > fence_seen(session, scope)) session.passed.pending[scope] = term;
  }

  void commit_fence(int scope, std::int64_t term) {
    fences_[scope] = term;
    ++commits_;
  }

  void write(int index) {
    Session& session = at(index);
    if (writer_ != index) return;
    const int scope = any_scope();
    const auto passed = session.passed.terms.find(scope);
    const std::int64_t term = passed == session.passed.terms.end() ? 0 : passed->second;
    // The table is protected: without a pass, or with one that an adopted row has overtaken, it
    // refuses.
    const bool due = term != 0 && term >= fence_seen(session, scope);
    note(index, "write " + name(scope) + " " + std::to_string(term));
    const Answer answer = session.client->run("INSERT INTO schedule_log (scope, term) VALUES ('" +
                                              name(scope) + "', " + std::to_string(term) + ")");
    if ((answer.outcome == Outcome::ok) != due) return fail("a write answered " + answer.text);
    if (due) session.writes.emplace_back(scope, term);
  }

  void savepoint(int index) {
    Session& session = at(index);
    note(index, "savepoint");
    session.client->run("SAVEPOINT one");
    session.savepoint = true;
    session.at_savepoint = session.passed;
    session.writes_at_savepoint = session.writes.size();
  }

  // A pass from after the savepoint is gone, and so is its raise; the write lock stays.
  void rollback_to(int index) {
    Session& session = at(index);
    if (!session.savepoint) return;
    note(index, "rollback to");
    session.client->run("ROLLBACK TO one");
    session.passed = session.at_savepoint;
    session.writes.resize(session.writes_at_savepoint);
  }

  void finish(int index, bool commit) {
    Session& session = at(index);
    note(index, commit ? "commit" : "rollback");
    const Answer answer = session.client->run(commit ? "COMMIT" : "ROLLBACK");
    if (answer.outcome != Outcome::ok) return fail("the end answered " + answer.text);
    if (commit && writer_ == index) {
      // A transaction that only passed a check leaves nothing behind that another one's snapshot
      // could miss.
      if (!session.passed.pending.empty() || !session.writes.empty() || session.touched) ++commits_;
      for (const auto& [scope, term] : session.passed.pending) fences_[scope] = term;
      for (const auto& [scope, term] : session.writes) {
        if (!committed_[scope].empty() && term < committed_[scope].back())
          return fail("a committed term decreased");
        committed_[scope].push_back(term);
      }
    }
    if (writer_ == index) writer_ = -1;
    session.open = session.savepoint = session.touched = false;
    session.snapshot = -1;
    session.passed = {};
    session.writes.clear();
  }

  std::vector<Session>& sessions_;
  std::mt19937 random_;
  std::string prefix_;
  std::string log_;
  std::int64_t fences_[scopes] = {0, 0};
  std::vector<std::int64_t> committed_[scopes];
  int commits_ = 0;
  int writer_ = -1;
};

}  // namespace

TEST_CASE("schedules: thousands of up to eight connections answer as one writer would",
          "[F1][F2][F5][live]") {
  // In memory where there is such a folder: this test is about order, not about the disk.
  const std::filesystem::path shared = "/dev/shm";
  std::string folder =
      ((std::filesystem::exists(shared) ? shared : std::filesystem::temp_directory_path()) /
       "termgate-schedules-XXXXXX")
          .string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/schedules.db";
  {
    Client owner(path);
    owner.run("PRAGMA journal_mode = wal");
    owner.run("SELECT termgate_init()");
    owner.run("SELECT termgate_set_setting('check_wait_ms', '0')");
    owner.run("CREATE TABLE schedule_log (id INTEGER PRIMARY KEY, scope TEXT, term INTEGER)");
    owner.run("SELECT termgate_protect('schedule_log', 'scope')");
    owner.run("CREATE TABLE schedule_adopted (scope TEXT, term INTEGER)");
    owner.run("CREATE INDEX schedule_adopted_index ON schedule_adopted (scope, term)");
    owner.run("SELECT termgate_adopt('schedule_adopted', 'scope', 'term')");
    std::vector<Session> sessions(8);
    // A connection that has never waited outside of a transaction does not know check_wait_ms, and
    // its first wait would take the default, five seconds.
    owner.run("BEGIN IMMEDIATE");
    for (auto& session : sessions) {
      session.client = std::make_unique<Client>(path);
      session.client->run("SELECT termgate_seal('waits', 1)");
    }
    owner.run("ROLLBACK");
    const unsigned count = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 10'000 : 1'000;
    const unsigned seed = Catch::rngSeed() * 100'000;
    CAPTURE(Catch::rngSeed());
    for (unsigned i = 0; i < count; ++i)
      Schedule(sessions, seed + i, "s" + std::to_string(i)).run();
  }
  for (auto outcome :
       {Outcome::ok, Outcome::stale, Outcome::invalid, Outcome::blocked, Outcome::conflict}) {
    INFO(name_of(outcome));
    CHECK(Schedule::answered[outcome] > 0);
  }
  std::filesystem::remove_all(folder);
}
