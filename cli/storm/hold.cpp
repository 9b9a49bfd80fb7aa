#include "storm/hold.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "storm/clock.hpp"
#include "storm/faults.hpp"

namespace termgate::cli::storm {
namespace {

class Session final : public HeldSession {
 public:
  explicit Session(const std::string& url) : sql_(connect(url)) {}
  std::string run(const std::string& statement) override {
    const Table table = sql_->run(statement);
    return table.rows.empty() ? "" : table.rows[0].at(0);
  }
  void freeze() override {}
  void resume() override {}

 private:
  std::unique_ptr<Sql> sql_;
};

class Process final : public HeldSession {
 public:
  Process(const std::string& program, const std::string& url) {
    std::array<int, 2> in{-1, -1}, out{-1, -1};
    if (pipe2(in.data(), O_CLOEXEC) != 0) throw Error("storm: no pipe for a process");
    if (pipe2(out.data(), O_CLOEXEC) != 0) {
      close(in[0]), close(in[1]);
      throw Error("storm: no pipe for a process");
    }
    std::string word = "storm-holder", self = program;
    char* const argv[] = {self.data(), word.data(), nullptr};
    std::vector<std::string> settings =
        environment_with({"TERMGATE_DB=" + url});  // it may hold a password, and arguments are for everybody to read
    std::vector<char*> envp;
    for (std::string& setting : settings) envp.push_back(setting.data());
    envp.push_back(nullptr);
    const pid_t director = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != director || dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0) _exit(127);
      execve(program.c_str(), argv, envp.data());
      _exit(127);
    }
    close(in[0]), close(out[1]);
    to_ = in[1], from_ = out[0];
    if (pid_ < 0) throw Error("storm: no process for a leader that freezes");
  }
  ~Process() override {
    close(to_), close(from_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::string run(const std::string& statement) override {
    const std::string line = statement + "\n";
    if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw Unavailable("the process that was to freeze has ended");
    const std::string answer = read_line();
    const auto blank = answer.find(' ');
    const std::string word = answer.substr(0, blank), rest = blank == std::string::npos ? "" : answer.substr(blank + 1);
    if (word == "ok") return rest;
    if (word == "unknown") throw OutcomeUnknown(rest);
    if (word == "error") throw DatabaseError(rest.substr(std::min(rest.size(), rest.find(' ') + 1)), rest.substr(0, rest.find(' ')));
    throw Unavailable(rest);
  }
  void freeze() override {
    kill(pid_, SIGSTOP);
    // Stopped from here on, and not a moment later.
    int status = 0;
    while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {}
    if (!WIFSTOPPED(status)) {
      pid_ = -1;
      throw Unavailable("the process that was to freeze has ended");
    }
  }
  void resume() override { kill(pid_, SIGCONT); }

 private:
  std::string read_line() {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);;) {
      const auto newline = rest_.find('\n');
      if (newline != std::string::npos) {
        const std::string line = rest_.substr(0, newline);
        rest_.erase(0, newline + 1);
        return line;
      }
      const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
      pollfd one{from_, POLLIN, 0};
      const int ready = left <= 0 ? 0 : poll(&one, 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      std::array<char, 4096> bytes;
      const ssize_t count = ready <= 0 ? 0 : read(from_, bytes.data(), bytes.size());
      if (count <= 0) throw Unavailable("the process that was to freeze does not answer");
      rest_.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string rest_;
};

// SQL as PostgreSQL has it: the texts are the storm's own, of letters, digits and "-._/".
std::string literal(const std::string& text) { return "'" + text + "'"; }
std::string qualifier(const std::string& schema) {
  std::string quoted;
  for (const char letter : schema) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return "\"" + quoted + "\".";
}

}  // namespace

std::unique_ptr<HeldSession> held_session(const std::string& url) { return std::make_unique<Session>(url); }
std::unique_ptr<HeldSession> held_process(const std::string& program, const std::string& url) {
  return std::make_unique<Process>(program, url);
}

int hold(const Arguments& arguments) {
  std::signal(SIGINT, SIG_IGN);  // the terminal's goes to the director
  std::unique_ptr<Sql> sql;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer = "ok ";
    try {
      if (!sql) sql = connect(arguments.database_url());
      const Table table = sql->run(line);
      if (!table.rows.empty()) answer += table.rows[0].at(0);
    } catch (const OutcomeUnknown& error) { answer = fmt::format("unknown {}", error.what()); } catch (const Unavailable& error) {
      answer = fmt::format("lost {}", error.what());
    } catch (const Error& error) { answer = fmt::format("error {} {}", error.code().empty() ? "-" : error.code(), error.what()); }
    for (char& letter : answer) {
      if (letter == '\n') letter = ' ';
    }
    std::cout << answer << std::endl;
  }
  return Exit::done;
}

namespace {

constexpr const char* server_since = "SELECT pg_postmaster_start_time()";

bool is_up_since(const std::string& url, const std::string& since) {
  try {
    return held_session(url)->run(server_since) == since;
  } catch (const Error&) { return false; }
}

}  // namespace

// ---- the fault -------------------------------------------------------------------------------------

milliseconds Faults::takeover_wait() {
  const std::lock_guard lock(mutex_);
  if (!takeover_wait_) {
    for (const auto& row : database_->settings().rows) {
      // Two cores that do other work too.
      if (row[0].as_text() == "check_wait_ms") takeover_wait_ = milliseconds(std::stoll(row[1].as_text())) + milliseconds(2000);
    }
  }
  if (!takeover_wait_) throw Error("no check_wait_ms");
  return *takeover_wait_;
}

// A leader of one of the storm's scopes wins its lease, freezes in the middle of a transaction, and its lease runs out. The next one must
// get through, whatever the frozen one holds. Then that one is resumed and tries to commit.
// Long: one fault from its beginning to what came of it.
void Faults::hold(Choice& choice, const std::string& fault) {
  const std::string scope = scope_of(choice), tag = fmt::format("{}", choice.number(0, INT64_MAX - 1));
  const bool stopped = choice.in(50);
  // Holds a table and no lock of the scope: then it is in nobody's way there, and is not ended.
  const bool beside = fault == "hold-lock" && choice.in(50);
  const std::string stream = plan_.names.stream(scope, static_cast<int>(choice.number(0, streams_a_scope - 1))),
                    adopted = plan_.names.adopted();
  const std::int64_t way = choice.number(1, 3);
  const milliseconds ttl = plan_.ttl, grace = std::min(ttl, milliseconds(500)), wait = takeover_wait();
  const std::string layer = qualifier(plan_.schema);

  // In the name of whoever leads, as a process that was started again does: the one before is shut out.
  const auto before = database_->lease(Scope(scope));
  if (!before) throw Error("nobody has led yet");
  LeaseOptions mine;
  mine.owner = before->released_at_ms || before->remaining_ms <= 0 ? "frozen." + tag : before->owner;
  mine.grace = grace;
  const auto url = named(plan_.url, plan_.names.application() + "-held");
  const auto session = stopped ? held_process(plan_.program, url) : held_session(url);
  const std::string pid = session->run("SELECT pg_backend_pid()"), since = session->run(server_since);
  const std::optional<Lease> lease = acquire('a', scope, mine, milliseconds(0)).lease;
  if (!lease) throw Error("another's");
  const auto expires = std::chrono::steady_clock::now() + ttl;
  const std::string term = std::to_string(lease->term().value()),
                    check = fmt::format("SELECT {}check_term({}, {})", layer, literal(scope), term);
  const auto row = [&](const std::string& table, const std::string& id) {
    return fmt::format("INSERT INTO {} (op, part, scope, term) VALUES ({}, 0, {}, {})", table, literal(id), literal(scope), term);
  };
  const auto write = [&](const std::string& id, const std::function<std::string()>& what) {
    const std::int64_t number = log_.begin('w', scope, lease->term().value(), id, 1);
    Outcome outcome = Outcome::refused;
    std::string code, place;
    try {
      place = what();
      outcome = Outcome::committed;
    } catch (const OutcomeUnknown& error) {
      outcome = Outcome::unknown;
      code = error.code();
    } catch (const Error& error) { code = error.code().empty() ? "error" : std::string(error.code()); }
    log_.end(number, outcome, lease->term().value(), place.empty() ? std::nullopt : std::optional<std::int64_t>(std::stoll(place)), code);
    return outcome == Outcome::committed;
  };

  // Others that hold the table are in its way too. It does not wait for them longer than its lease lasts.
  session->run(fmt::format("SET lock_timeout = {}", std::max<std::int64_t>(ttl.count(), 500)));
  const bool on_table = fault == "hold-truncate" || fault == "hold-lock";
  if (on_table && !write("held-before." + tag, [&] {
        session->run("BEGIN");
        session->run(check);
        session->run(row(adopted, "held-before." + tag));
        session->run("COMMIT");
        return std::string();
      }))
    throw Error("it was in another's way");

  const std::string id = "held." + tag;
  std::string place;  // what it gets: a number in the stream, a term
  session->run(fault == "hold-serializable" ? "BEGIN ISOLATION LEVEL SERIALIZABLE" : "BEGIN");
  if (fault == "hold-append") {
    place = session->run(fmt::format("SELECT {}append({}, {}, convert_to({}, 'UTF8'), NULL, {})", layer, literal(stream), term,
                                     literal(id + "/0"), literal(scope)));
  } else if (fault == "hold-raise") {
    place = session->run(fmt::format("SELECT term FROM {}acquire_lease({}, {}, interval '{} ms', NULL, interval '{} ms') WHERE acquired",
                                     layer, literal(scope), literal(mine.owner), ttl.count(), grace.count()));
    if (place.empty()) throw Error("another was faster");
  } else {
    if (!beside) session->run(check);
    if (fault == "hold-truncate") session->run("TRUNCATE " + adopted);
    if (fault == "hold-lock")
      session->run(fmt::format("LOCK TABLE {} IN {} MODE", adopted, way == 1 && !beside ? "EXCLUSIVE" : "ACCESS EXCLUSIVE"));
    if (fault == "hold-serializable") {
      session->run(fmt::format("SELECT count(*) FROM {}", plan_.names.rows()));
      session->run(fmt::format("SELECT n FROM {} WHERE scope = {}", plan_.names.counters(), literal(scope)));
    }
    if (!beside) session->run(row(on_table ? adopted : plan_.names.rows(), id));
  }
  session->freeze();
  while (std::chrono::steady_clock::now() < expires) {
    if (calmed_) throw Error("the storm is over");
    std::this_thread::sleep_for(milliseconds(10));
  }

  LeaseOptions next;
  next.owner = "next." + tag;
  next.grace = grace;
  const Acquired taken = acquire('t', scope, next, wait);
  if (beside && taken.through) probe_named(tag, pid, next, wait);
  session->resume();
  if (!taken.through) return;  // a breach, and no more is to be learned
  if (beside) {
    try {
      session->run("SELECT 1");
    } catch (const Unavailable& error) {
      // A server that is gone or was restarted ends everybody, and a connection that was cut is nobody's doing.
      if (plan_.server_restart.empty() && is_up_since(url, since))
        hostage("evicted", scope, fmt::format("pid {} was ended although it held no lock of the scope: {}", pid, error.what()));
    }
    return;
  }
  // Begun only now: whatever it does from here on, a higher term has been acknowledged before.
  if (fault == "hold-raise") {
    const std::int64_t number = log_.begin('a', scope);
    try {
      session->run("COMMIT");
      log_.end(number, Outcome::committed, std::stoll(place));
    } catch (const Error& error) { log_.end(number, Outcome::unknown, 0, {}, error.code().empty() ? "error" : error.code()); }
  } else {
    write(id, [&] {
      session->run("COMMIT");
      return place;
    });
  }
}

// An acquisition as a leader does it. Of kind 't' it goes on until somebody has the scope behind the frozen one: itself, or another one
// that was faster.
Faults::Acquired Faults::acquire(char kind, const std::string& scope, const LeaseOptions& options, milliseconds within) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t number = log_.begin(kind, scope, 0, {}, static_cast<int>(within.count()));
    const auto begun = std::chrono::steady_clock::now();
    for (;;) {
      try {
        auto lease = database_->try_acquire_lease(Scope(scope), plan_.ttl, options);
        if (lease) log_.end(number, Outcome::committed, lease->term().value());
        else log_.end(number, Outcome::refused, 0);
        return {std::move(lease), true};
      } catch (const Blocked& error) {
        // A prepared transaction cannot be ended, only named.
        const bool prepared = std::string_view(error.what()).find("prepared transaction") != std::string_view::npos;
        const bool late = std::chrono::steady_clock::now() - begun > within;
        if (kind == 't' && !prepared && !late) continue;
        log_.end(number, prepared ? Outcome::unknown : Outcome::refused, 0, {}, error.code());
        if (kind == 'a' || !prepared) return {};
        break;
      } catch (const Error& error) {
        log_.end(number, Outcome::unknown, 0, {}, error.code().empty() ? "error" : error.code());
        if (kind == 'a') return {};
        break;
      }
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  return {};
}

// The first acquisition of a scope wants to know what adopted tables hold. Who has locked one holds no lock of that scope, so it is named,
// in time.
void Faults::probe_named(const std::string& tag, const std::string& pid, const LeaseOptions& options, milliseconds within) {
  const std::string scope = "storm-" + plan_.names.run + "-new-" + tag;
  const auto begun = std::chrono::steady_clock::now();
  std::string outcome = "it was acquired, and the table was not read";
  try {
    static_cast<void>(database_->try_acquire_lease(Scope(scope), plan_.ttl, options));
  } catch (const Blocked& error) { outcome = error.what(); } catch (const Error&) {
    return;  // cut, or the server is away
  }
  const auto took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
  if (took > within)
    hostage("held up", scope,
            fmt::format("an acquisition was answered after {} ms, and had to be within {} ms: {}", took.count(), within.count(), outcome));
  else if (outcome.find("pid " + pid) == std::string::npos)
    hostage("not named", scope, fmt::format("pid {} holds the adopted table, and is not named: {}", pid, outcome));
}

void Faults::hostage(const std::string& kind, const std::string& scope, const std::string& text) {
  const std::lock_guard lock(mutex_);
  hostages_.push_back({kind, scope, text});
}

std::vector<Faults::Hostage> Faults::hostages() const {
  const std::lock_guard lock(mutex_);
  return hostages_;
}

}  // namespace termgate::cli::storm
