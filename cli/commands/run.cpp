// run …: runs COMMAND on one host at a time, for as long as the lease is held.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/held_lease.hpp>
#include <termgate/info.hpp>
#include <termgate/job_run.hpp>
#include <termgate/jobs.hpp>

#include "command.hpp"
#include "output.hpp"
#include "run/beats.hpp"
#include "run/holding.hpp"
#include "run/plan.hpp"
#include "run/requests.hpp"
#include "run/shards.hpp"
#include "run/signals.hpp"
#include "run/watchdog.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;
using run::Holding;
using run::Plan;
using run::Report;
using run::Signals;
using run::Watchdog;
using std::chrono::milliseconds;

using run::own_outcomes;
constexpr milliseconds lost_grace{50};
// The watchdog looks at its clock at least every 50 ms. If it has not for so long, somebody may
// have stopped it.
constexpr milliseconds unheard{200};

// Quotes one value for PGOPTIONS, where spaces separate values and a backslash quotes the next
// character.
std::string pgoption(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v')
      escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Removes the scope and term that an outer run declared, so that neither our own sessions nor
// COMMAND use them.
void leave_outer_run() {
  for (const char* name : {"TERMGATE_SCOPE", "TERMGATE_TERM", "TERMGATE_RUN_ID",
                           "TERMGATE_CHECKPOINT", "TERMGATE_REQUEST"})
    unsetenv(name);
  const char* given = std::getenv("PGOPTIONS");
  if (given == nullptr) return;
  std::vector<std::string> words(1);
  for (const char* at = given; *at != '\0'; ++at) {
    if (*at == ' ') {
      if (!words.back().empty()) words.emplace_back();
      continue;
    }
    words.back() += *at;
    if (*at == '\\' && at[1] != '\0') words.back() += *++at;
  }
  const auto declares = [](const std::string& word) {
    return word.starts_with("termgate.scope=") || word.starts_with("termgate.term=");
  };
  std::string kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-c" && i + 1 < words.size() && declares(words[i + 1])) ++i;
    else if (!words[i].empty()) kept += (kept.empty() ? "" : " ") + words[i];
  }
  if (kept.empty()) unsetenv("PGOPTIONS");
  else setenv("PGOPTIONS", kept.c_str(), 1);
}

// What COMMAND gets from the job history about its run.
struct Recorded {
  std::optional<std::string> id, checkpoint, request;
};

std::vector<std::string> environment_of(const Plan& plan, Term term, const Recorded& run) {
  std::vector<std::string> environment;
  std::string pgoptions, preloaded;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable = *one;
    if (plan.pgoptions && variable.starts_with("PGOPTIONS="))
      pgoptions = std::string(variable.substr(10)) + " ";
    else if (!plan.preload.empty() && variable.starts_with("LD_PRELOAD="))
      preloaded = ":" + std::string(variable.substr(11));
    else environment.emplace_back(variable);
  }
  if (!plan.preload.empty()) environment.push_back("LD_PRELOAD=" + plan.preload + preloaded);
  environment.push_back("TERMGATE_SCOPE=" + plan.scope.name());
  environment.push_back(fmt::format("TERMGATE_TERM={}", term.value()));
  if (run.id) environment.push_back("TERMGATE_RUN_ID=" + *run.id);
  if (run.checkpoint) environment.push_back("TERMGATE_CHECKPOINT=" + *run.checkpoint);
  if (run.request) environment.push_back("TERMGATE_REQUEST=" + *run.request);
  if (plan.pgoptions)
    environment.push_back(fmt::format("PGOPTIONS={}-c termgate.scope={} -c termgate.term={}",
                                      pgoptions, pgoption(plan.scope.name()), term.value()));
  return environment;
}

// Acquires the lease on a separate thread, so that a signal can end the wait. Returns null after a
// signal, or if another owner keeps the lease.
std::unique_ptr<Holding> take(std::optional<Database>& database, const Plan& plan,
                              const Signals& signals, int& signal) {
  std::stop_source stop;
  HoldOptions options = plan.hold;
  options.stop = stop.get_token();
  std::unique_ptr<Holding> held;
  std::exception_ptr failed;
  const int done = eventfd(0, EFD_CLOEXEC);
  const auto begun = BootClock::now();
  std::thread taker([&] {
    try {
      if (plan.source) {
        held = run::hold_from(*plan.source, plan.seals ? &*database : nullptr, plan.scope, options,
                              plan.waits);
      } else if (plan.waits) {
        held = run::holding_of(database->hold(plan.scope, options));
      } else if (auto lease = database->try_hold(plan.scope, options)) {
        held = run::holding_of(*std::move(lease));
      }
    } catch (...) { failed = std::current_exception(); }
    const std::uint64_t one = 1;
    if (write(done, &one, sizeof one) < 0) std::abort();  // the counter cannot be full
  });
  for (;;) {
    pollfd watched[] = {{done, POLLIN, 0}, {signals.descriptor(), POLLIN, 0}};
    poll(watched, 2, -1);
    if (watched[0].revents != 0) break;
    if (const int came = signals.next(); came != 0 && Signals::ends_this(came)) {
      signal = came;
      stop.request_stop();
    }
  }
  taker.join();
  close(done);
  if (!failed || signal != 0) return held;
  try {
    std::rethrow_exception(failed);
  } catch (const Blocked&) {
    // Status 104 means that another owner kept the lease until the end of the wait. Blocked before
    // that is a session that could not be evicted, which stays 108.
    if (!plan.waits || BootClock::now() - begun < plan.hold.wait) throw;
    return nullptr;
  }
}

// Waits until somebody requests the job, and begins the run under the lease. Many processes may see
// the request, since reading it needs no lease; only the one that acquires the lease begins the
// run. Returns nothing if a signal ended the wait.
std::optional<JobTaken> await_request(std::optional<Database>& database, const Plan& plan,
                                      const Signals& signals, int& signal,
                                      std::unique_ptr<Holding>& held) {
  std::minstd_rand random(std::random_device{}());
  for (;;) {
    if (!Jobs(*database)
             .list({.job = *plan.job, .scope = plan.scope.name(), .status = "requested"}, 1)
             .empty()) {
      held = take(database, plan, signals, signal);
      if (signal != 0) return std::nullopt;
      if (held) {
        if (auto taken = Jobs(*database).take(*plan.job, plan.scope, held->term(), held->owner()))
          return taken;
        // The request was cancelled, or another process has answered it.
        std::exchange(held, nullptr)->release();
      }
    }
    pollfd watched[] = {{signals.descriptor(), POLLIN, 0}};
    poll(watched, 1, 750 + static_cast<int>(random() % 250));
    if (const int came = signals.next(); came != 0 && Signals::ends_this(came)) {
      signal = came;
      return std::nullopt;
    }
  }
}

// Supervises COMMAND from its start until no process of it is left.
class Supervision {
 public:
  Supervision(const Plan& plan, Watchdog& watchdog, const Signals& signals, Holding& held,
              run::Beats* beats)
      : plan_(plan), watchdog_(watchdog), signals_(signals), held_(held), beats_(beats) {}

  // Whatever happens, no process of COMMAND is left when the lease is released.
  ~Supervision() {
    if (!empty_) watchdog_.end_all();
    asked_.reset();
    close(leave_);
  }
  Supervision(const Supervision&) = delete;
  Supervision& operator=(const Supervision&) = delete;

  void start(const std::vector<std::string>& environment) {
    foreground_ = isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    move_deadlines();
    watchdog_.start(plan_.command, environment, foreground_);
    asked_.emplace(held_.asked_to_leave(), [this] {
      const std::uint64_t one = 1;
      if (write(leave_, &one, sizeof one) < 0) std::abort();  // the counter cannot be full
    });
  }

  void wait_for_the_end() {
    while (!empty_) {
      move_deadlines();
      const bool beating = beats_ != nullptr && !cancelled_;
      // Signals and requests that arrive before COMMAND is known to run wait until it does.
      pollfd watched[] = {{watchdog_.descriptor(), POLLIN, 0},
                          {begun_ ? signals_.descriptor() : -1, POLLIN, 0},
                          {beating ? beats_->descriptor() : -1, POLLIN, 0},
                          {group_ > 0 && !leaving_ ? leave_ : -1, POLLIN, 0}};
      poll(watched, 4,
           lost_
               ? 10
               : static_cast<int>(std::clamp<std::int64_t>(plan_.hold.ttl.count() / 20, 10, 1000)));
      look_after_the_watchdog();
      if (watched[0].revents != 0) hear();
      if (watched[2].revents != 0 && !empty_) {
        cancelled_ = true;
        watchdog_.stop(plan_.kill_after);
      }
      if (watched[3].revents != 0 && group_ > 0) {
        leaving_ = true;
        print_message(fmt::format("somebody asks for the lease of \"{}\": {} gets signal {}",
                                  printable(plan_.scope.name()), printable(plan_.command[0]),
                                  plan_.leave_signal));
        kill(-group_, plan_.leave_signal);
      }
      while (const int signal = begun_ ? signals_.next() : 0) {
        if (group_ > 0) kill(-group_, signal);
      }
    }
    if (foreground_) tcsetpgrp(STDIN_FILENO, getpgrp());
  }

  bool lost() const { return lost_ || timed_out_; }
  bool abandoned() const { return abandoned_; }
  bool cancelled() const { return cancelled_; }
  int not_run() const { return not_run_; }
  int status() const { return status_; }

 private:
  void move_deadlines() {
    if (held_.lost()) {
      if (!lost_) {
        over_at_ = BootClock::now() + lost_grace;
        watchdog_.stop(lost_grace);
      }
      lost_ = true;
      return;
    }
    const auto stop_at = held_.held_until();
    over_at_ = stop_at + plan_.hold.ttl / 10;
    watchdog_.set_deadlines(stop_at, over_at_);
  }

  // Resumes a watchdog that was stopped. One that does not run even then (a debugger traces it) is
  // replaced; COMMAND can be ended without it.
  void look_after_the_watchdog() {
    watchdog_.wake();
    const bool late = BootClock::now() >= over_at_ && watchdog_.silence() > unheard;
    if (late || watchdog_.silence() > std::max<milliseconds>(plan_.hold.ttl, run::silence_max))
      watchdog_.replace();
  }

  void hear() {
    const auto report = watchdog_.next();
    if (!report) {
      abandoned_ = empty_ = true;
      return;
    }
    begun_ = true;
    switch (report->kind) {
      case Report::Kind::started: group_ = report->value; break;
      case Report::Kind::not_run: not_run_ = report->value; break;
      case Report::Kind::stopped: stop_with_it(); break;
      case Report::Kind::exited:
      case Report::Kind::signalled:
      case Report::Kind::vanished:
        status_ = report->kind == Report::Kind::exited ? report->value : 128 + report->value;
        if (report->kind == Report::Kind::vanished) status_ = own_outcomes + Exit::failed;
        group_ = 0;
        watchdog_.clear(plan_.kill_after);
        break;
      case Report::Kind::ready:
      case Report::Kind::refused: break;  // these come before COMMAND starts
      case Report::Kind::empty:
        timed_out_ = report->value != 0;
        empty_ = true;
        break;
    }
  }

  // Job control: if COMMAND was stopped we stop too, for the shell that started us. Nobody renews
  // the lease meanwhile, but the watchdog keeps running.
  void stop_with_it() {
    if (!foreground_ || group_ <= 0) return;
    tcsetpgrp(STDIN_FILENO, getpgrp());
    kill(getpid(), SIGSTOP);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) tcsetpgrp(STDIN_FILENO, group_);
    kill(-group_, SIGCONT);
  }

  const Plan& plan_;
  Watchdog& watchdog_;
  const Signals& signals_;
  Holding& held_;
  run::Beats* beats_;                          // nullptr: no run is recorded
  const int leave_ = eventfd(0, EFD_CLOEXEC);  // readable: somebody requests the lease
  std::optional<std::stop_callback<std::function<void()>>> asked_;
  bool leaving_ = false;
  bool foreground_ = false, lost_ = false, timed_out_ = false, abandoned_ = false,
       cancelled_ = false, empty_ = false, begun_ = false;
  BootClock::time_point over_at_{};  // no process of COMMAND may be left after it
  int not_run_ = 0, status_ = 0;
  pid_t group_ = 0;
};

// Tries five times, because a completed run that is not recorded as such would run again. StaleTerm
// and InvalidInput are final.
template <class Call>
void insist(Call call) {
  for (int attempt = 0;; ++attempt) {
    try {
      call();
      return;
    } catch (const StaleTerm&) { throw; } catch (const InvalidInput&) {
      throw;
    } catch (const Error&) {
      if (attempt == 4) throw;
    }
    std::this_thread::sleep_for(50ms * (1 << attempt));
  }
}

// Records the outcome, releases the lease, and prints what went wrong. Returns the exit status.
int settle(std::optional<Database>& database, const Plan& plan, const Supervision& command,
           Holding& held, const std::optional<std::string>& run_id) {
  // Returns an empty text if there is no run to record, or it is recorded as completed or failed,
  // here or by COMMAND itself. Otherwise the status with which somebody else ended it, or
  // "deleted".
  const auto record = [&](std::string_view status, std::optional<std::int64_t> code,
                          const std::optional<std::string>& detail) {
    std::string ended;
    if (run_id) {
      insist([&] {
        if (Jobs(*database).finish(*run_id, status, code, detail)) return;
        const auto runs = Jobs(*database).list({.run_id = *run_id}, 1);
        ended = runs.empty() ? "deleted" : runs.front().status;
      });
    }
    return ended == "completed" || ended == "failed" ? std::string() : ended;
  };
  const auto quietly = [&](auto call) {
    try {
      call();
    } catch (const Error& error) { print_message(error.what()); }
  };
  if (command.not_run() != 0) {
    const std::string why = fmt::format("{} could not be run: {}", printable(plan.command[0]),
                                        std::strerror(command.not_run()));
    print_message(why);
    quietly([&] { record("failed", 127, why); });
    quietly([&] { held.release(); });
    return command.not_run() == ENOENT ? 127 : 126;
  }
  if (command.lost() || command.abandoned()) {
    print_message(command.lost() ? fmt::format("the lease of \"{}\" (term {}) was lost: {} and all "
                                               "that it had started were ended",
                                               printable(plan.scope.name()), held.term().value(),
                                               printable(plan.command[0]))
                                 : std::string("the watchdog was killed or did not run: COMMAND "
                                               "and all that it had started were ended"));
    quietly([&] {
      record("lost", std::nullopt,
             command.lost() ? "the lease was lost" : "the watchdog was killed or did not run");
    });
    quietly([&] { held.release(); });
    return own_outcomes + (command.lost() ? Exit::lease_lost : Exit::failed);
  }
  const auto cancelled = [&] {
    print_message(fmt::format(
        "run {} was cancelled: {} and all that it had started {} ended; `termgate job show --run "
        "{}` shows by whom",
        *run_id, printable(plan.command[0]), command.cancelled() ? "were" : "had", *run_id));
    quietly([&] { held.release(); });
    return own_outcomes + Exit::lease_lost;
  };
  if (command.cancelled()) return cancelled();
  // Record it while the lease is held, so that nobody else starts the job before it is recorded.
  try {
    const std::string ended =
        record(command.status() == 0 ? "completed" : "failed", command.status(), std::nullopt);
    if (ended == "cancelled") return cancelled();
    if (!ended.empty()) {
      print_message(
          fmt::format("{} ended with status {}, but its end could not be recorded: somebody else "
                      "had ended run {}, which is {}",
                      printable(plan.command[0]), command.status(), *run_id, ended));
      quietly([&] { held.release(); });
      return own_outcomes + Exit::outcome_unknown;
    }
  } catch (const Error& error) {
    print_message(fmt::format("{} ended with status {}, but its end could not be recorded: {}",
                              printable(plan.command[0]), command.status(), error.what()));
    quietly([&] { held.release(); });
    if (dynamic_cast<const StaleTerm*>(&error) != nullptr) return own_outcomes + Exit::lease_lost;
    return own_outcomes + Exit::outcome_unknown;
  }
  quietly([&] { held.release(); });
  return command.status();
}

int run_run(const Arguments& arguments) {
  const Plan plan = run::plan_of(arguments);
  leave_outer_run();
  if (arguments.flag("dry-run")) {
    Database database = arguments.open();
    return run::dry_run(database, plan, arguments.json());
  }
  if (plan.shards > 0) return run::run_shards(arguments, plan);
  bool* begun = nullptr;  // set by a child that answers a request, for its parent
  if (plan.on_request) {
    if (const auto status = run::answer_requests(begun)) return *status;
  }
  Watchdog watchdog;  // created before any thread
  const Signals signals;
  std::optional<Database> database;
  if (!plan.source || plan.seals) database = arguments.open();
  if (plan.source) {
    for (const std::string& warning : plan.source->warnings()) print_message("warning: " + warning);
  }
  // Check before acquiring, so that no term is used up for nothing; check again once the lease is
  // held.
  if (plan.once_per) {
    const run::Due due = run::due(*database, plan);
    if (const std::string warning = clock_warning(due, plan); !warning.empty())
      print_message(warning);
    if (due.in > 0ms) return Exit::done;
  }
  int signal = 0;
  Recorded run;
  std::unique_ptr<Holding> held;
  if (plan.on_request) {
    if (const auto taken = await_request(database, plan, signals, signal, held)) {
      run.id = taken->run_id;
      run.request = taken->request;
    }
  } else {
    held = take(database, plan, signals, signal);
  }
  if (signal != 0) {
    held.reset();
    return 128 + signal;
  }
  if (!held) {
    // If the same crontab line runs on three hosts, it is not a failure of two of them that the
    // third has the lease.
    if (plan.once_per && !plan.waits) return Exit::done;
    if (plan.source) {
      print_message(fmt::format("another owner holds the lease of \"{}\" in {}; try again",
                                printable(plan.scope.name()), plan.source->name()));
      return own_outcomes + Exit::lease_anothers;
    }
    const auto info = Info(*database).lease(plan.scope);
    if (!info || info->released_at_ms || info->remaining_ms <= 0)
      print_message(fmt::format(
          "another owner held the lease of \"{}\" and has given it back since; try again",
          printable(plan.scope.name())));
    else
      print_message(fmt::format("the lease of \"{}\" is {}'s under term {}, for another {}",
                                printable(plan.scope.name()), printable(info->owner), info->term,
                                length(info->remaining_ms)));
    return own_outcomes + Exit::lease_anothers;
  }
  if (plan.once_per && !run::is_due(*database, plan)) {
    held->release();
    return Exit::done;
  }
  if (plan.resume || run.request == "resume")
    run.checkpoint = last_checkpoint(*database, *plan.job, plan.scope);
  if (plan.job && !run.id)
    run.id = Jobs(*database).start(*plan.job, plan.scope, held->term(), held->owner());
  if (begun != nullptr) *begun = true;
  std::optional<run::Beats> beats;
  if (run.id) beats.emplace(*database, *run.id, std::min<milliseconds>(plan.hold.ttl / 3, 10s));
  Supervision command(plan, watchdog, signals, *held, beats ? &*beats : nullptr);
  command.start(environment_of(plan, held->term(), run));
  command.wait_for_the_end();
  if (beats) beats->stop();
  return settle(database, plan, command, *held, run.id);
}

}  // namespace

void add_run_command(std::vector<Command>& commands) {
  Command command{
      "run",
      "run a command on one host at a time, while it holds the lease",
      "Acquires the scope's lease, runs COMMAND in a new process group, renews the lease, and "
      "gives it back when COMMAND and everything it "
      "started have ended.\nIf the lease is lost, every descendant of COMMAND gets TERM, then "
      "KILL, before another host can hold the "
      "lease, even if this process is stopped or killed.\n"
      "  termgate run --scope nightly --wait 1h -- ./nightly.sh\n"
      "  termgate run --scope report --once-per 1d --wait 2h -- ./report.sh      the same crontab "
      "line on three hosts\n"
      "  termgate run --scope queue --shards 8 --keep -- ./worker.sh    a lease for each shard, "
      "spread over the hosts that run this\n"
      "  termgate run --scope nightly --source redis://cache.example -- ./nightly.sh      lease "
      "and term from Redis, sealed in the "
      "database\n"
      "  termgate run --scope reports --job report --on-request -- ./report.sh   # when asked: job "
      "request\n"
      "COMMAND finds TERMGATE_SCOPE, TERMGATE_TERM, TERMGATE_RUN_ID (with --job), "
      "TERMGATE_CHECKPOINT (with --resume), TERMGATE_REQUEST "
      "(with --on-request), TERMGATE_SHARD and TERMGATE_SHARDS (with --shards) and PGOPTIONS in "
      "its "
      "environment, so psql is fenced.\n"
      "Exit status: COMMAND's own (128 + N after signal N; 127 and 126 if it could not be run), or "
      "100 + that of termgate: 104 another "
      "host holds the lease, 105 the lease was lost or the run was cancelled.",
      [](po::options_description& o) {
        o.add_options()("scope", po::value<std::string>(), "the scope")(
            "job", po::value<std::string>(), "record the run under this name")(
            "wait", po::value<std::string>(),
            "how long to wait while another host holds the lease (not at all)")(
            "ttl", po::value<std::string>(), "how long the lease lasts, 1s to 1d (10s)")(
            "once-per", po::value<std::string>(),
            "run only if the last completed run began at least this long ago (less a twentieth), "
            "by the database's clock")(
            "resume", po::bool_switch(),
            "pass the last checkpoint of an incomplete last run to COMMAND")(
            "on-request", po::bool_switch(),
            "wait, and run COMMAND each time that somebody asks for the job (job request)")(
            "kill-after", po::value<std::string>(),
            "time between TERM and KILL for processes that COMMAND leaves running (a tenth of the "
            "TTL, which is also the maximum)")(
            "leave-signal", po::value<std::string>(),
            "what COMMAND gets when somebody asks for the lease (lease hand-over): TERM, INT, HUP, "
            "QUIT, USR1 or USR2 (TERM)")(
            "shards", po::value<std::string>(),
            "run COMMAND once for each of this many shards, 1 to 256, spread over the hosts")(
            "keep", po::bool_switch(),
            "with --shards: start again what has ended, and move shards to hosts that have fewer")(
            "dry-run", po::bool_switch(), "say what would be done, and write nothing")(
            "endpoint", po::value<std::string>(), "where the holder can be reached")(
            "source", po::value<std::string>(),
            "take lease and term from this lock service in place of the database: redis://, "
            "etcd://, zookeeper://, consul://, "
            "kubernetes:// or file:///")("no-seal", po::bool_switch(),
                                         "with --source: start COMMAND without raising the fence "
                                         "in the database; no --db is needed")(
            "no-pgoptions", po::bool_switch(),
            "do not change PGOPTIONS, for poolers that refuse it")(
            "preload", po::bool_switch(),
            "fence what COMMAND writes to SQLite files, also where it knows nothing of terms: "
            "LD_PRELOAD loads the extension into it")(
            "command", po::value<std::vector<std::string>>(), "after --: what to run");
      },
      {"command"},
      run_run};
  command.exit_base = own_outcomes;
  commands.push_back(std::move(command));
}

}  // namespace termgate::cli
