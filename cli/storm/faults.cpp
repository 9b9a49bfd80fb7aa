// storm: the leaders' processes and the faults.
//
// Both classes belong to the director's thread. Faults::tick() chooses a fault. A short one runs at
// once; one that takes time gets a Hand, a thread of its own, at most six at a time. Every choice
// follows from the seed and the fault's name and number, so a schedule can be repeated although the
// timing of threads cannot. Long: a case for each fault.
#include "storm/faults.hpp"
#include "storm/started.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/operator.hpp>
#include <termgate/text/quote.hpp>

#include "storm/clock.hpp"
#ifdef TERMGATE_WITH_POSTGRES
#include "storm/proxies.hpp"
#endif
#include "storm/relay.hpp"

namespace termgate::cli::storm {

const std::vector<Fault>& all_faults() {
  // clang-format off
  static const std::vector<Fault> all = {
      {"stop", "SIGSTOP at any moment, SIGCONT up to four TTLs later", true, true, 4},
      {"kill", "kill -9, and a new process up to two TTLs later", true, true, 2},
      {"cut", "the server ends sessions of the storm (pg_terminate_backend, KILL)", false, false, 1},
      {"freeze", "a client passes the check, writes, and does nothing for up to three TTLs; on SQLite, another process holds the file's lock", true, false, 1},
      {"prepare", "a prepared transaction stays open for up to two TTLs (if max_prepared_transactions allows)", false, false, 1},
      {"hold-append", "a leader that has appended in an open transaction is frozen until it is taken over", false, false, 1, true, false},
      {"hold-raise", "a leader that has acquired its lease again in an open transaction is frozen until it is taken over", false, false, 1, true, false},
      {"hold-truncate", "a leader that has truncated an adopted table in an open transaction is frozen until it is taken over", false, false, 1, true, false},
      {"hold-lock", "a leader that has locked an adopted table is frozen until it is taken over; half of the time it holds nothing else", false, false, 1, true, false},
      {"hold-serializable", "a leader that has read and written in an open SERIALIZABLE transaction is frozen until it is taken over", false, false, 1, true, false},
      {"lose", "answers are lost, mainly to COMMIT, and the connection is closed or stays silent (unencrypted connections)", false, false, 2},
      {"delay", "for up to four TTLs a relay splits the traffic into small pieces and delays each by up to a TTL (unencrypted connections)", false, false, 2},
      {"half-open", "the bytes of one direction are dropped from now on, and the connection is closed only up to eight TTLs later (unencrypted connections)", false, false, 1},
      {"clock", "the wall clock of a leader or a proxy is stepped by up to an hour, forward or back, and corrected up to six TTLs later (needs libfaketime)", true, true, 2},
      {"force", "a lease is force-released", true, false, 1},
      {"hand-over", "a leader is asked to hand its lease over, to one or to any; three of ten do not leave", true, false, 2},
      {"prune", "the storm's own streams are pruned", true, false, 1, true, false},
      {"proxy-kill", "kill -9 of a proxy, and a new one up to a TTL later (with --proxies)", false, false, 2, false, true},
      {"proxy-stop", "SIGSTOP of a proxy, SIGCONT up to three TTLs later (with --proxies)", false, false, 2, false, true},
      {"cut-front", "connections between leaders and a proxy are cut (with --proxies)", false, false, 2, false, true},
      {"cut-back", "connections between a proxy and the server are cut, its own among them (with --proxies, unencrypted connections)", false, false, 2, false},
  };
  // clang-format on
  return all;
}

bool holds(std::string_view fault) { return fault.starts_with("hold-"); }

// ---- the leaders -------------------------------------------------------------------------------

Crew::~Crew() {
  for (Leader& leader : leaders_) {
    if (leader.pid <= 0) continue;
    kill(leader.pid, SIGKILL);
    while (waitpid(leader.pid, nullptr, 0) < 0 && errno == EINTR) {}
    forget_clock(leader.pid);
  }
}

void Crew::start(std::size_t index) {
  Leader& leader = leaders_[index];
  leader.client = fmt::format("leader{}.{}", index + 1, ++leader.life);
  const std::string log = fmt::format("{}/{}.log", plan_.folder, leader.client);
  std::vector<std::string> words = {plan_.program, "storm-leader",
                                    "--who",       leader.client,
                                    "--run",       plan_.names.run,
                                    "--seed",      std::to_string(plan_.seed),
                                    "--scopes",    std::to_string(plan_.scopes),
                                    "--writers",   std::to_string(plan_.writers),
                                    "--ttl",       fmt::format("{}ms", plan_.ttl.count()),
                                    "--schema",    plan_.schema,
                                    "--log",       log};
  if (!plan_.naive.empty()) words.insert(words.end(), {"--naive", plan_.naive});
  if (!plan_.pace.empty()) words.insert(words.end(), {"--pace", plan_.pace});
  std::string ports;
  for (const int port : plan_.proxy_ports)
    ports += fmt::format("{}{}", ports.empty() ? "" : ",", port);
  if (plan_.proxies > 0) words.insert(words.end(), {"--proxies", ports});
  // The URL is passed in the environment, because it may contain a password and everybody can read
  // arguments.
  const bool relayed = !plan_.relayed_url.empty() && index % 2 == 0;
  std::vector<std::string> settings = {"TERMGATE_DB=" + (relayed ? plan_.relayed_url : plan_.url)};
  if (plan_.clocks != nullptr) {
    for (std::string& setting : plan_.clocks->settings(fmt::format("leader{}", index + 1)))
      settings.push_back(std::move(setting));
    words.insert(words.end(), {"--skew", "0"});
  }
  settings = environment_with(settings);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> those;
    for (std::string& text : texts) those.push_back(text.data());
    those.push_back(nullptr);
    return those;
  };
  const auto argv = pointers(words), envp = pointers(settings);
  const pid_t director = getpid();
  // Created before the fork: a child may be stopped only after it has set its death signal
  // (started.hpp).
  Started started;
  leader.pid = fork();
  if (leader.pid < 0) throw Error("storm: no process for a leader");
  if (leader.pid == 0) {
    // Before exec, because the director may die while the new program is being loaded.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != director) _exit(127);
    execve(plan_.program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  started.wait();
  history_.add(log, leader.client);
}

void Crew::start_all() {
  for (std::size_t index = 0; index < leaders_.size(); ++index) start(index);
}

void Crew::resume(Leader& leader) {
  stops_.push_back({leader.client, leader.stopped_at, moment_now()});
  leader.stopped = false;
  kill(leader.pid, SIGCONT);
}

void Crew::tick() {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t index = 0; index < leaders_.size(); ++index) {
    Leader& leader = leaders_[index];
    if (leader.pid > 0) {
      if (leader.stopped && now >= leader.due) resume(leader);
      if (waitpid(leader.pid, nullptr, WNOHANG) == leader.pid) {
        ++ended_by_themselves_;
        forget_clock(leader.pid);
        leader.pid = -1;
        leader.stopped = false;
        leader.due = now + std::chrono::seconds(1);
      }
    } else if (now >= leader.due) {
      start(index);
    }
  }
}

std::vector<Crew::Leader*> Crew::awake() {
  std::vector<Leader*> those;
  for (Leader& leader : leaders_) {
    if (leader.pid > 0 && !leader.stopped) those.push_back(&leader);
  }
  return those;
}

bool Crew::stop_one(Choice& choice, milliseconds low, milliseconds high) {
  const auto those = awake();
  const std::size_t which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  // All choices are made whatever the processes' state is, so that the sequence of choices does not
  // depend on it.
  const milliseconds time = choice.span(low, high);
  if (those.size() < 2) return false;  // somebody must be able to take over
  Leader& leader = *those[which % those.size()];
  leader.stopped_at = moment_now();
  if (kill(leader.pid, SIGSTOP) != 0) return false;
  leader.stopped = true;
  leader.due = std::chrono::steady_clock::now() + time;
  return true;
}

bool Crew::kill_one(Choice& choice) {
  std::vector<Leader*> those;
  for (Leader& leader : leaders_) {
    if (leader.pid > 0) those.push_back(&leader);
  }
  const std::size_t which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  const milliseconds time = choice.span(milliseconds(0), 2 * plan_.ttl);
  if (those.size() < 2) return false;
  Leader& leader = *those[which % those.size()];
  kill(leader.pid, SIGKILL);
  while (waitpid(leader.pid, nullptr, 0) < 0 && errno == EINTR) {}
  forget_clock(leader.pid);
  leader.pid = -1;
  leader.stopped = false;
  leader.due = std::chrono::steady_clock::now() + time;
  return true;
}

void Crew::end_all(milliseconds patience) {
  for (Leader& leader : leaders_) {
    if (leader.pid <= 0) continue;
    if (leader.stopped) resume(leader);
    kill(leader.pid, SIGTERM);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  for (Leader& leader : leaders_) {
    while (leader.pid > 0) {
      if (std::chrono::steady_clock::now() >= end) kill(leader.pid, SIGKILL);
      if (waitpid(leader.pid, nullptr, WNOHANG) == leader.pid) {
        forget_clock(leader.pid);
        leader.pid = -1;
      } else {
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
  }
}

// ---- the faults --------------------------------------------------------------------------------

Faults::Faults(const Plan& plan, Crew& crew, History& history, std::optional<Database> database,
               std::vector<Relay*> relays, Proxies* proxies)
    : plan_(plan),
      crew_(crew),
      database_(std::move(database)),
      relays_(std::move(relays)),
      proxies_(proxies),
      log_(plan.folder + "/faults.log"),
      choice_(plan.seed, "faults"),
      next_(std::chrono::steady_clock::now() + plan.ttl),
      holds_(plan, database_, log_, calmed_) {
  history.add(plan.folder + "/faults.log", "fault");
  if (!plan.server_restart.empty())
    next_restart_ = std::chrono::steady_clock::now() +
                    Choice(plan.seed, "server").span(milliseconds(1500), milliseconds(4000));
  if (!plan.server_clock.empty())
    next_step_ = std::chrono::steady_clock::now() +
                 Choice(plan.seed, "server-clock").span(plan.ttl, 3 * plan.ttl);
}

Faults::~Faults() { hands_.clear(); }

void Faults::tick() {
  calmed_ = false;
  // The server's restart and the steps of its clock have schedules of their own, whatever other
  // faults there are: a server takes long to come back, and it has only one clock.
  const auto of_the_server = [this](const char* name,
                                    std::optional<std::chrono::steady_clock::time_point>& next,
                                    void (Faults::*work)(Choice&)) {
    std::unique_lock lock(mutex_);
    if (!next || std::chrono::steady_clock::now() < *next) return;
    const auto due = std::exchange(next, std::nullopt);
    lock.unlock();
    if (hand(name, [this, work](Choice& choice) { (this->*work)(choice); })) return;
    lock.lock();
    next = due;
  };
  of_the_server("server-restart", next_restart_, &Faults::restart_server);
  of_the_server("server-clock", next_step_, &Faults::step_server_clock);
  if (plan_.clocks != nullptr) plan_.clocks->tick();
  if (plan_.faults.empty() || std::chrono::steady_clock::now() < next_) return;
  next_ = std::chrono::steady_clock::now() + choice_.span(plan_.ttl / 8, plan_.ttl);
  std::vector<const Fault*> those;
  for (const Fault& fault : all_faults()) {
    if (std::find(plan_.faults.begin(), plan_.faults.end(), fault.name) != plan_.faults.end())
      those.insert(those.end(), static_cast<std::size_t>(fault.weight), &fault);
  }
  begin(std::string(those[static_cast<std::size_t>(
                              choice_.number(0, static_cast<std::int64_t>(those.size()) - 1))]
                        ->name));
}

void Faults::begin(const std::string& fault) {
  if (fault == "stop") {
    if (crew_.stop_one(choice_, plan_.ttl / 4, 4 * plan_.ttl)) count(fault);
  } else if (fault == "kill") {
    if (crew_.kill_one(choice_)) count(fault);
  } else if (fault == "clock") {
    if (plan_.clocks->step_one(choice_)) count(fault);
  } else if (fault == "cut") {
    hand(fault, [this](Choice& choice) { cut(choice); });
  } else if (fault == "freeze") {
    hand(fault, [this](Choice& choice) { freeze(choice); });
  } else if (fault == "prepare") {
    hand(fault, [this](Choice& choice) { prepare(choice); });
  } else if (holds(fault)) {
    if (holds_.enter() &&
        !hand(fault, [this, fault](Choice& choice) { holds_.hold(choice, fault); }))
      holds_.leave();
  } else if (fault == "force") {
    hand(fault, [this](Choice& choice) { force(choice); });
  } else if (fault == "hand-over") {
    hand(fault, [this](Choice& choice) { hand_over(choice); });
  } else if (fault == "lose") {
    hand(fault, [this](Choice& choice) { lose(choice); });
  } else if (fault == "prune") {
    hand(fault, [this](Choice& choice) { prune(choice); });
  }
#ifdef TERMGATE_WITH_POSTGRES
  if (fault == "delay") {
    delay(choice_);  // the relay counts it, and only if something was delayed
  } else if (fault == "half-open") {
    hand(fault, [this](Choice& choice) { half_open(choice); });
  } else if (fault == "proxy-kill") {
    if (proxies_->kill_one(choice_)) count(fault);
  } else if (fault == "proxy-stop") {
    if (proxies_->stop_one(choice_)) count(fault);
  } else if (fault == "cut-front" || fault == "cut-back") {
    hand(fault, [this, front = fault == "cut-front"](Choice& choice) { cut_relay(choice, front); });
  }
#endif
}

void Faults::count(const std::string& fault) {
  const std::lock_guard lock(mutex_);
  ++done_[fault];
}

// Runs a fault on a thread of its own. A fault that does not happen (the database is away, or its
// own session was cut) is not counted.
bool Faults::hand(const std::string& fault, std::function<void(Choice&)> work) {
  hands_.remove_if([](const Hand& hand) { return hand.done.load(); });
  if (hands_.size() >= 6) return false;
  Hand& hand = hands_.emplace_back();
  hand.thread = std::jthread(
      [this, &hand, fault, work = std::move(work), seed = fmt::format("{}-{}", fault, ++serial_)] {
        Choice choice(plan_.seed, seed);
        try {
          work(choice);
          count(fault);
        } catch (const Error&) {}
        hand.done = true;
      });
  return true;
}

void Faults::finish() {
  hands_.clear();
  if (engine_of(plan_.url) != Engine::postgresql || !plan_.naive.empty()) return;
  const auto sql = connect(plan_.url);
  for (const auto& row : sql->run("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE $1",
                                  {plan_.names.application() + "-%"})
                             .rows)
    sql->run("ROLLBACK PREPARED " + text::postgresql_string(row[0]));
}

// Ends delays and sets clocks right, so that the storm can end in time.
void Faults::calm() {
  calmed_ = true;
  if (plan_.clocks != nullptr) plan_.clocks->right_all();
#ifdef TERMGATE_WITH_POSTGRES
  for (Relay* relay : relays_) relay->calm();
#endif
}

std::map<std::string, int> Faults::done() const {
  std::map<std::string, int> done;
  {
    const std::lock_guard lock(mutex_);
    done = done_;
  }
#ifdef TERMGATE_WITH_POSTGRES
  for (const Relay* relay : relays_) {
    if (relay->delayed().delays > 0) done["delay"] += relay->delayed().delays;
  }
#endif
  return done;
}

std::int64_t Faults::pieces_delayed() const {
  std::int64_t all = 0;
#ifdef TERMGATE_WITH_POSTGRES
  for (const Relay* relay : relays_) all += relay->delayed().pieces;
#endif
  return all;
}

std::int64_t Faults::pieces_overtaken() const {
  std::int64_t all = 0;
#ifdef TERMGATE_WITH_POSTGRES
  for (const Relay* relay : relays_) all += relay->delayed().overtaken;
#endif
  return all;
}

std::vector<testkit::Row> Faults::pruned() const {
  const std::lock_guard lock(mutex_);
  std::vector<testkit::Row> rows;
  for (const auto& [at, row] : pruned_) rows.push_back(row);
  return rows;
}

std::vector<std::string> Faults::problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::string Faults::check_term() const {
  return check_statement(engine_of(plan_.url), plan_.schema);
}

void Faults::cut(Choice& choice) {
  const auto sql = connect(plan_.url);
  const Engine engine = engine_of(plan_.url);
  end_sessions(
      engine, *sql,
      sessions_of(engine, *sql, plan_.names.application(), static_cast<int>(choice.number(1, 4))));
}

void Faults::freeze(Choice& choice) {
  const std::string scope = plan_.scope_of(choice);
  const milliseconds time = choice.span(plan_.ttl / 2, 3 * plan_.ttl);
  const bool numbered = choice.in(25);
  const auto sql = connect(
      proxies_ == nullptr
          ? plan_.url
          : through(
                plan_.url,
                plan_.proxy_ports[static_cast<std::size_t>(choice.number(0, plan_.proxies - 1))]));
  if (is_sqlite(plan_.url)) {
    sql->run("BEGIN IMMEDIATE");
    std::this_thread::sleep_for(time / 3);
    sql->roll_back();
    return;
  }
  const auto fence = Info(*database_).fence(Scope(scope));
  if (!fence) throw Error("nobody has led yet");
  const Task task{fmt::format("frozen.{}", choice.number(0, INT64_MAX - 1)),
                  scope,
                  Held{fence->term, {}, 0},
                  1,
                  {}};
  const std::int64_t number = log_.begin('w', scope, fence->term, task.id, 1);
  Outcome outcome = Outcome::refused;
  std::string code;
  std::optional<std::int64_t> place;
  try {
    const bool tsql = engine_of(plan_.url) == Engine::sqlserver;
    if (proxies_ != nullptr && tsql)
      sql->run(fmt::format("EXEC termgate.set_term N'{}', {}", scope, fence->term));
    sql->run("BEGIN");
    if (proxies_ == nullptr) {
      sql->run(check_term(), {scope, std::to_string(fence->term)});
    } else if (!tsql) {  // the proxy's check is the only one
      sql->run(fmt::format("SET LOCAL termgate.scope = '{}'", scope));
      sql->run(fmt::format("SET LOCAL termgate.term = '{}'", fence->term));
    }
    const Run run = [&](const std::string& statement, const std::vector<std::string>& values) {
      return sql->run(statement, values);
    };
    if (numbered) place = write_numbered(run, plan_.names, plan_.names.rows(), task);
    else write_unnumbered(run, plan_.names.rows(), task.id, scope, fence->term, 1);
    std::this_thread::sleep_for(time);
    sql->run("COMMIT");
    outcome = Outcome::committed;
  } catch (const OutcomeUnknown& error) {
    outcome = Outcome::unknown;
    code = error.code();
  } catch (const Error& error) {
    code = error.code().empty() ? "error" : std::string(error.code());
  }
  log_.end(number, outcome, fence->term, outcome == Outcome::committed ? place : std::nullopt,
           code);
}

void Faults::prepare(Choice& choice) {
  const std::string scope = plan_.scope_of(choice);
  const milliseconds time = choice.span(plan_.ttl / 4, 2 * plan_.ttl);
  const bool commits = choice.in(60);
  const auto fence = Info(*database_).fence(Scope(scope));
  if (!fence) throw Error("nobody has led yet");
  const std::string id = fmt::format("prepared.{}", choice.number(0, INT64_MAX - 1));
  // hold.cpp finds prepared transactions of a scope by this id.
  const std::string gid = plan_.names.application() + "-" + scope + "." + id;
  const std::int64_t number = log_.begin('w', scope, fence->term, id, 1);
  Outcome outcome = Outcome::refused;
  std::string code;
  bool prepared = false;
  try {
    auto sql = connect(plan_.url);
    sql->run("BEGIN");
    sql->run(check_term(), {scope, std::to_string(fence->term)});
    const Run run = [&](const std::string& statement, const std::vector<std::string>& values) {
      return sql->run(statement, values);
    };
    write_unnumbered(run, plan_.names.rows(), id, scope, fence->term, 1);
    prepared = true;  // from here on its outcome is unknown until an answer arrives
    sql->run("PREPARE TRANSACTION '" + gid + "'");
    sql.reset();
    std::this_thread::sleep_for(time);
    connect(plan_.url)->run(fmt::format("{} PREPARED '{}'", commits ? "COMMIT" : "ROLLBACK", gid));
    outcome = commits ? Outcome::committed : Outcome::refused;
    if (!commits) code = "rolled-back";
  } catch (const Error& error) {
    code = error.code().empty() ? "error" : std::string(error.code());
    if (prepared) outcome = Outcome::unknown;
  }
  log_.end(number, outcome, fence->term, {}, code);
  if (outcome == Outcome::unknown) {
    // A prepared transaction survives the server's restart, and must not block everybody for the
    // rest of the storm.
    const auto end = std::chrono::steady_clock::now() +
                     (plan_.server_restart.empty() ? milliseconds(0) : milliseconds(20'000));
    for (bool again = true; again;) {
      try {
        connect(plan_.url)->run("ROLLBACK PREPARED '" + gid + "'");
        again = false;
      } catch (const Unavailable&) {
        // If it is not rolled back here, finish() finds it.
        again = std::chrono::steady_clock::now() < end;
        if (again) std::this_thread::sleep_for(milliseconds(100));
      } catch (const Error&) {
        again = false;  // it was never prepared, or is gone
      }
    }
  }
}

// ---- the server itself ----

// Runs the command. Its output goes into the storm's folder. The terminal's signals and the storm's
// end do not stop it, because a restart that is interrupted halfway would leave no server.
std::string Faults::run_restart() const {
  const std::string log = plan_.folder + "/server-restart.out";
  const pid_t pid = fork();
  if (pid < 0) return "no process for it";
  if (pid == 0) {
    setpgid(0, 0);
    close_range(3, ~0U, 0);  // otherwise a new server would inherit the relays' sockets
    const int in = open("/dev/null", O_RDONLY),
              out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
      _exit(127);
    execl("/bin/sh", "sh", "-c", plan_.server_restart.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) != pid) {
    if (std::chrono::steady_clock::now() >= end) {
      kill(pid, SIGKILL);  // kills only the shell
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
      return "it was at work for 2 minutes";
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::ifstream file(log);
  std::string last = "it said nothing";
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return fmt::format("it ended with {}: {}",
                     WIFEXITED(status) ? fmt::format("status {}", WEXITSTATUS(status))
                                       : fmt::format("signal {}", WTERMSIG(status)),
                     last);
}

void Faults::restart_server(Choice& choice) {
  constexpr const char* started = "SELECT pg_postmaster_start_time()";
  // The time at which the server was started, read as soon as it answers; empty if it does not
  // within `patience`.
  const auto query = [&](milliseconds patience) {
    for (const auto end = std::chrono::steady_clock::now() + patience;;
         std::this_thread::sleep_for(milliseconds(50))) {
      try {
        return connect(named(plan_.url, plan_.names.application() + "-restart"))
            ->run(started)
            .rows.at(0)
            .at(0);
      } catch (const Error& error) {
        if (std::chrono::steady_clock::now() >= end) return std::string();
      }
    }
  };
  const milliseconds pause = choice.span(milliseconds(2000), milliseconds(6000));
  const std::string before = query(milliseconds(5000));
  std::string problem = before.empty() ? "the server was away before" : run_restart();
  if (problem.empty()) {
    const std::string after = query(milliseconds(60'000));
    if (after.empty()) problem = "the server did not start again";
    else if (after == before) problem = "the server was not started again by it";
  }
  const std::lock_guard lock(mutex_);
  if (!problem.empty()) {  // no further restarts
    problems_.push_back("--server-restart: " + problem);
    throw Error(problem);
  }
  next_restart_ = std::chrono::steady_clock::now() + pause;
}

void Faults::step_server_clock(Choice& choice) {
  const std::chrono::seconds off = step_of(choice, plan_.ttl);
  const milliseconds time = choice.span(plan_.ttl, 6 * plan_.ttl),
                     pause = choice.span(plan_.ttl, 6 * plan_.ttl);
  // How far the server's clock is ahead of ours, in seconds: lower and upper bound. Empty if the
  // server does not answer.
  const auto ahead = [&]() -> std::optional<std::pair<double, double>> {
    try {
      const auto sql = connect(named(plan_.url, plan_.names.application() + "-clock"));
      const auto ours = [] {
        return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
            .count();
      };
      const double before = ours();
      const double theirs =
          std::stod(sql->run("SELECT extract(epoch FROM clock_timestamp())").rows.at(0).at(0));
      return std::pair(theirs - ours(), theirs - before);
    } catch (const Error&) { return std::nullopt; }
  };
  std::string problem;
  try {
    const auto before = ahead();
    write_clock(plan_.server_clock, off);
    const auto end = std::chrono::steady_clock::now() + time;
    const auto after = before ? ahead() : std::nullopt;
    const auto wanted = static_cast<double>(off.count());
    if (after && (after->second - before->first < wanted - 0.3 ||
                  after->first - before->second > wanted + 0.3))
      problem = fmt::format("the server's clock does not follow the file, which contained {:+} s",
                            off.count());
    while (!calmed_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(milliseconds(10));
    write_clock(plan_.server_clock, std::chrono::seconds(0));
  } catch (const Error& error) { problem = error.what(); }
  const std::lock_guard lock(mutex_);
  if (!problem.empty()) {  // no further steps
    problems_.push_back("--server-clock: " + problem);
    throw Error(problem);
  }
  next_step_ = std::chrono::steady_clock::now() + pause;
}

void Faults::delay(Choice& choice) {
#ifdef TERMGATE_WITH_POSTGRES
  Relay::Delay delay;
  const auto which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  delay.time = choice.span(plan_.ttl, 4 * plan_.ttl);
  delay.most = choice.in(50) ? choice.span(milliseconds(1), plan_.ttl / 10)
                             : choice.span(plan_.ttl / 10, plan_.ttl);
  const std::int64_t direction = choice.number(1, 3);
  delay.from_client = direction != 1;
  delay.from_server = direction != 2;
  delay.seed = static_cast<std::uint64_t>(choice.number(0, INT64_MAX - 1));
  if (!relays_.empty()) relays_[which % relays_.size()]->delay(delay);
#else
  static_cast<void>(choice);
#endif
}

void Faults::half_open(Choice& choice) {
#ifdef TERMGATE_WITH_POSTGRES
  const auto which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  const milliseconds pause = choice.span(plan_.ttl, 8 * plan_.ttl);
  const Relay::Loss loss =
      choice.in(50) ? Relay::Loss::client_swallowed : Relay::Loss::server_swallowed;
  const std::lock_guard lock(relay_mutex_);
  if (relays_.empty()) throw Error("no relay");
  if (!relays_[which % relays_.size()]->lose(loss, pause, 2 * plan_.ttl))
    throw Error("nothing was logged");
#else
  static_cast<void>(choice);
#endif
}

void Faults::lose(Choice& choice) {
#ifdef TERMGATE_WITH_POSTGRES
  const std::int64_t luck = choice.number(1, 10);
  const milliseconds pause = choice.span(plan_.ttl / 2, 3 * plan_.ttl);
  const std::lock_guard lock(relay_mutex_);
  const Relay::Loss loss = luck <= 5   ? Relay::Loss::commit
                           : luck <= 8 ? Relay::Loss::any
                                       : Relay::Loss::silent;
  if (relays_.empty()) throw Error("no relay");
  Relay& relay =
      *relays_[relays_.size() == 1 ? 0
                                   : static_cast<std::size_t>(choice.number(
                                         0, static_cast<std::int64_t>(relays_.size()) - 1))];
  if (!relay.lose(loss, pause, 2 * plan_.ttl)) throw Error("nothing was logged");
#else
  static_cast<void>(choice);
#endif
}

void Faults::cut_relay(Choice& choice, bool front) {
#ifdef TERMGATE_WITH_POSTGRES
  const std::lock_guard lock(relay_mutex_);
  if (!proxies_->cut_one(choice, front)) throw Error("nobody was connected");
#else
  static_cast<void>(choice);
  static_cast<void>(front);
#endif
}

void Faults::force(Choice& choice) {
  const Scope scope(plan_.scope_of(choice));
  if (!Operator(*database_).force_release(scope, "termgate storm", "a fault of the storm"))
    throw Error("nobody holds it");
}

void Faults::hand_over(Choice& choice) {
  HandOverOptions options;
  options.actor = "termgate storm";
  // Short compared with the time allowed for a takeover past a frozen leader, because during the
  // drain only the named successor may acquire.
  options.drain = choice.span(milliseconds(100),
                              std::clamp(2 * plan_.ttl, milliseconds(200), milliseconds(1000)));
  if (choice.in(50)) options.to = fmt::format("leader{}.*", choice.number(1, plan_.leaders));
  if (!Operator(*database_).request_hand_over(Scope(plan_.scope_of(choice)), options))
    throw Error("nobody holds it");
}

void Faults::prune(Choice& choice) {
  const Stream stream(plan_.names.stream(plan_.scope_of(choice),
                                         static_cast<int>(choice.number(0, streams_a_scope - 1))));
  const auto info = Info(*database_).stream(stream);
  if (!info || !info->first_no || info->last_no < 2) throw Error("nothing to prune");
  const std::int64_t before = choice.number(1, info->last_no);
  std::int64_t after = *info->first_no - 1;
  while (after < before - 1) {
    const auto page = Info(*database_).read_stream(stream, SequenceNo(after), 1000);
    if (page.empty()) break;
    const std::lock_guard lock(mutex_);
    for (const StreamWrite& write : page) {
      after = write.sequence_no.value();
      if (after >= before) break;
      pruned_[{stream.name(), after}] = {write.scope, write.term.value(),
                                         write.payload.substr(0, write.payload.find('/')),
                                         stream.name(), after};
    }
  }
  Operator(*database_).prune(stream, SequenceNo(before));
}

}  // namespace termgate::cli::storm
