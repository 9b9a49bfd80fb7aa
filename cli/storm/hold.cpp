// storm: a leader that freezes inside a transaction. It is a session of this process that stays
// idle, or of a child process that is stopped. The fault waits until the lease has expired, demands
// that a takeover succeeds even so, and then lets the frozen leader try to commit.
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

#include <termgate/info.hpp>
#include <termgate/operator.hpp>
#include <termgate/text/quote.hpp>

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
    // In the environment, because the URL may contain a password and everybody can read arguments.
    std::vector<std::string> settings = environment_with({"TERMGATE_DB=" + url});
    std::vector<char*> envp;
    for (std::string& setting : settings) envp.push_back(setting.data());
    envp.push_back(nullptr);
    const pid_t director = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != director || dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0)
        _exit(127);
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
    const std::string word = answer.substr(0, blank),
                      rest = blank == std::string::npos ? "" : answer.substr(blank + 1);
    if (word == "ok") return rest;
    if (word == "unknown") throw OutcomeUnknown(rest);
    if (word == "error")
      throw DatabaseError(rest.substr(std::min(rest.size(), rest.find(' ') + 1)),
                          rest.substr(0, rest.find(' ')));
    throw Unavailable(rest);
  }
  void freeze() override {
    kill(pid_, SIGSTOP);
    // Wait until it has really stopped.
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
      const auto left =
          std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
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

}  // namespace

std::unique_ptr<HeldSession> held_session(const std::string& url) {
  return std::make_unique<Session>(url);
}
std::unique_ptr<HeldSession> held_process(const std::string& program, const std::string& url) {
  return std::make_unique<Process>(program, url);
}

int hold(const Arguments& arguments) {
  std::signal(SIGINT, SIG_IGN);  // the terminal's SIGINT is for the director
  std::unique_ptr<Sql> sql;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer = "ok ";
    try {
      if (!sql) sql = connect(arguments.database_url());
      const Table table = sql->run(line);
      if (!table.rows.empty()) answer += table.rows[0].at(0);
    } catch (const OutcomeUnknown& error) {
      answer = fmt::format("unknown {}", error.what());
    } catch (const Unavailable& error) {
      answer = fmt::format("lost {}", error.what());
    } catch (const Error& error) {
      answer = fmt::format("error {} {}", error.code().empty() ? "-" : error.code(), error.what());
    }
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

// Whether there is a prepared transaction of this storm that has written in the scope.
bool has_prepared(const Plan& plan, const std::string& scope) {
  try {
    return held_session(plan.url)->run(
               "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE " +
               text::postgresql_string(plan.names.application() + "-" + scope + ".%")) != "0";
  } catch (const Error&) { return false; }
}

}  // namespace

// ---- the fault ---------------------------------------------------------------------------------

milliseconds Holds::takeover_wait() {
  const std::lock_guard lock(mutex_);
  if (!takeover_wait_) {
    for (const auto& row : Operator(*database_).settings().rows) {
      // Two seconds more, for a machine with two cores that do other work too.
      if (row[0].as_text() == "check_wait_ms")
        takeover_wait_ = milliseconds(std::stoll(row[1].as_text())) + milliseconds(2000);
    }
  }
  if (!takeover_wait_) throw Error("no check_wait_ms");
  return *takeover_wait_;
}

bool Holds::enter() {
  if (++at_work_ <= 2) return true;
  leave();
  return false;
}

// The fault: a leader of one of the storm's scopes acquires its lease and freezes in the middle of
// a transaction, until the lease has expired. The next leader must get through, whatever the frozen
// one holds. Then the frozen one is resumed and tries to commit.
void Holds::hold(Choice& choice, const std::string& fault) {
  struct Over {
    Holds& holds;
    ~Over() { holds.leave(); }
  } const over{*this};
  Frozen frozen = leader_to_freeze(choice, fault);
  take_what_it_holds(frozen);
  frozen.session->freeze();
  while (std::chrono::steady_clock::now() < frozen.expires) {
    if (calmed_) throw Error("the storm is over");
    std::this_thread::sleep_for(milliseconds(10));
  }
  const bool through = takeover_past(frozen);
  frozen.session->resume();
  if (!through) return;  // a breach; nothing more can be learned
  if (frozen.beside) look_after(frozen);
  else commit(frozen);
}

// Makes all random choices of the fault, in an order that a seed repeats, and acquires the lease.
Holds::Frozen Holds::leader_to_freeze(Choice& choice, const std::string& fault) {
  Frozen frozen;
  frozen.fault = fault;
  frozen.scope = plan_.scope_of(choice);
  frozen.tag = fmt::format("{}", choice.number(0, INT64_MAX - 1));
  const bool stopped = choice.in(50);
  frozen.beside = fault == "hold-lock" && choice.in(50);
  frozen.stream =
      plan_.names.stream(frozen.scope, static_cast<int>(choice.number(0, streams_a_scope - 1)));
  frozen.exclusive = choice.number(1, 3) == 1 && !frozen.beside;
  frozen.on_table = fault == "hold-truncate" || fault == "hold-lock";
  frozen.wait = takeover_wait();

  // Acquire under the current leader's owner name, as a restarted process does; the current leader
  // is then shut out.
  const auto before = Info(*database_).lease(Scope(frozen.scope));
  if (!before) throw Error("nobody has led yet");
  frozen.mine.owner =
      before->released_at_ms || before->remaining_ms <= 0 ? "frozen." + frozen.tag : before->owner;
  frozen.mine.grace = std::min(plan_.ttl, milliseconds(500));
  frozen.url = named(plan_.url, plan_.names.application() + "-held");
  frozen.session = stopped ? held_process(plan_.program, frozen.url) : held_session(frozen.url);
  frozen.pid = frozen.session->run("SELECT pg_backend_pid()");
  frozen.since = frozen.session->run(server_since);
  const std::optional<Lease> lease = acquire(frozen.scope, frozen.mine, milliseconds(0)).lease;
  if (!lease) throw Error("another's");
  frozen.expires = std::chrono::steady_clock::now() + plan_.ttl;
  frozen.term = lease->term().value();
  return frozen;
}

// Runs a write of the frozen leader and logs its outcome. `what` returns its place among the
// stream's writes, or an empty text.
bool Holds::write_as(const Frozen& frozen, const std::string& id,
                     const std::function<std::string()>& what) {
  const std::int64_t number = log_.begin('w', frozen.scope, frozen.term, id, 1);
  Outcome outcome = Outcome::refused;
  std::string code, place;
  try {
    place = what();
    outcome = Outcome::committed;
  } catch (const OutcomeUnknown& error) {
    outcome = Outcome::unknown;
    code = error.code();
  } catch (const Error& error) {
    code = error.code().empty() ? "error" : std::string(error.code());
  }
  log_.end(number, outcome, frozen.term,
           place.empty() ? std::nullopt : std::optional<std::int64_t>(std::stoll(place)), code);
  return outcome == Outcome::committed;
}

// Opens the transaction in which the leader freezes, and takes the locks of its fault.
void Holds::take_what_it_holds(Frozen& frozen) {
  HeldSession& session = *frozen.session;
  const std::string layer = text::quoted(plan_.schema, '"') + ".", adopted = plan_.names.adopted();
  const std::string check = fmt::format("SELECT {}check_term({}, {})", layer,
                                        text::postgresql_string(frozen.scope), frozen.term);
  const auto row = [&](const std::string& table, const std::string& id) {
    return fmt::format("INSERT INTO {} (op, part, scope, term) VALUES ({}, 0, {}, {})", table,
                       text::postgresql_string(id), text::postgresql_string(frozen.scope),
                       frozen.term);
  };
  // Other sessions that hold the table may block this one. It waits for the TTL at most, or 500 ms
  // if the TTL is shorter.
  session.run(fmt::format("SET lock_timeout = {}", std::max<std::int64_t>(plan_.ttl.count(), 500)));
  if (frozen.on_table && !write_as(frozen, "held-before." + frozen.tag, [&] {
        session.run("BEGIN");
        session.run(check);
        session.run(row(adopted, "held-before." + frozen.tag));
        session.run("COMMIT");
        return std::string();
      }))
    throw Error("it was in another's way");

  session.run(frozen.fault == "hold-serializable" ? "BEGIN ISOLATION LEVEL SERIALIZABLE" : "BEGIN");
  if (frozen.fault == "hold-append") {
    frozen.place = session.run(fmt::format(
        "SELECT {}append({}, {}, convert_to({}, 'UTF8'), NULL, {})", layer,
        text::postgresql_string(frozen.stream), frozen.term,
        text::postgresql_string(frozen.id() + "/0"), text::postgresql_string(frozen.scope)));
    return;
  }
  if (frozen.fault == "hold-raise") {
    frozen.place = session.run(fmt::format(
        "SELECT term FROM {}acquire_lease({}, {}, interval '{} ms', NULL, interval '{} ms') WHERE "
        "acquired",
        layer, text::postgresql_string(frozen.scope), text::postgresql_string(frozen.mine.owner),
        plan_.ttl.count(), frozen.mine.grace->count()));
    if (frozen.place.empty()) throw Error("another was faster");
    return;
  }
  if (!frozen.beside) session.run(check);
  if (frozen.fault == "hold-truncate") session.run("TRUNCATE " + adopted);
  if (frozen.fault == "hold-lock")
    session.run(fmt::format("LOCK TABLE {} IN {} MODE", adopted,
                            frozen.exclusive ? "EXCLUSIVE" : "ACCESS EXCLUSIVE"));
  if (frozen.fault == "hold-serializable") {
    session.run(fmt::format("SELECT count(*) FROM {}", plan_.names.rows()));
    session.run(fmt::format("SELECT n FROM {} WHERE scope = {}", plan_.names.counters(),
                            text::postgresql_string(frozen.scope)));
  }
  if (!frozen.beside) session.run(row(frozen.on_table ? adopted : plan_.names.rows(), frozen.id()));
}

// Whether the next leader got through in time.
bool Holds::takeover_past(const Frozen& frozen) {
  LeaseOptions next;
  next.owner = "next." + frozen.tag;
  next.grace = frozen.mine.grace;
  const Acquired taken = acquire(frozen.scope, next, frozen.wait, frozen.term);
  if (frozen.beside && taken.through) probe_beside(frozen.tag, next, frozen.wait);
  return taken.through;
}

// Checks that the takeover left the frozen session alone, since it held no lock of the scope.
void Holds::look_after(const Frozen& frozen) {
  try {
    frozen.session->run("SELECT 1");
  } catch (const Unavailable& error) {
    // That the session ended proves nothing if the server was restarted or the connection was cut.
    if (plan_.server_restart.empty() && is_up_since(frozen.url, frozen.since))
      hostage("evicted", frozen.scope,
              fmt::format("pid {} was ended although it held no lock of the scope: {}", frozen.pid,
                          error.what()));
  }
}

// Lets the frozen leader try to commit. The write is logged as begun only now, after the higher
// term was acknowledged.
void Holds::commit(const Frozen& frozen) {
  if (frozen.fault != "hold-raise") {
    write_as(frozen, frozen.id(), [&] {
      frozen.session->run("COMMIT");
      return frozen.place;
    });
    return;
  }
  const std::int64_t number = log_.begin('a', frozen.scope);
  try {
    frozen.session->run("COMMIT");
    log_.end(number, Outcome::committed, std::stoll(frozen.place));
  } catch (const Error& error) {
    log_.end(number, Outcome::unknown, 0, {}, error.code().empty() ? "error" : error.code());
  }
}

// Acquires as a leader does. With `past`, the term of a frozen leader, it repeats until somebody
// has acquired the scope after that leader (itself, or a faster one) or `within` is over. While it
// is refused because a hand-over reserves the lease, it repeats as well.
Holds::Acquired Holds::acquire(const std::string& scope, const LeaseOptions& options,
                               milliseconds within, std::optional<std::int64_t> past) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t number =
        log_.begin(past ? 't' : 'a', scope, 0, {}, static_cast<int>(within.count()));
    const auto begun = std::chrono::steady_clock::now();
    for (;;) {
      const auto late = [&] { return std::chrono::steady_clock::now() - begun > within; };
      try {
        auto lease = database_->try_acquire_lease(Scope(scope), plan_.ttl, options);
        if (!lease && past && !late()) {
          const auto held = Info(*database_).lease(Scope(scope));
          if (!held || held->term <= *past) {
            std::this_thread::sleep_for(milliseconds(10));
            continue;
          }
        }
        if (lease) log_.end(number, Outcome::committed, lease->term().value());
        else log_.end(number, Outcome::refused, 0);
        return {std::move(lease), true};
      } catch (const Blocked& error) {
        // A prepared transaction cannot be evicted, only named in the error.
        const bool prepared = has_prepared(plan_, scope);
        if (past && !prepared && !late()) continue;
        log_.end(number, prepared ? Outcome::unknown : Outcome::refused, 0, {}, error.code());
        if (!past || !prepared) return {};
        break;
      } catch (const Error& error) {
        log_.end(number, Outcome::unknown, 0, {}, error.code().empty() ? "error" : error.code());
        if (!past) return {};
        break;
      }
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  return {};
}

// Checks that whoever locked an adopted table does not delay the first acquisition of an unrelated
// scope.
void Holds::probe_beside(const std::string& tag, const LeaseOptions& options, milliseconds within) {
  const std::string scope = "storm-" + plan_.names.run + "-new-" + tag;
  const auto begun = std::chrono::steady_clock::now();
  std::string outcome = "acquired";
  try {
    static_cast<void>(database_->try_acquire_lease(Scope(scope), plan_.ttl, options));
  } catch (const Blocked& error) { outcome = error.what(); } catch (const Error&) {
    return;  // the connection was cut, or the server is away
  }
  const auto took =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
  if (took > within || outcome != "acquired")
    hostage("held up", scope,
            fmt::format("an acquisition beside a locked adopted table was answered after {} ms, "
                        "and had to be within {} ms: {}",
                        took.count(), within.count(), outcome));
}

void Holds::hostage(const std::string& kind, const std::string& scope, const std::string& text) {
  const std::lock_guard lock(mutex_);
  hostages_.push_back({kind, scope, text});
}

std::vector<Hostage> Holds::hostages() const {
  const std::lock_guard lock(mutex_);
  return hostages_;
}

}  // namespace termgate::cli::storm
