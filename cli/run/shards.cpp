#include "run/shards.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include <fmt/format.h>

#include <termgate/held_lease.hpp>
#include <termgate/info.hpp>
#include <termgate/jobs.hpp>

#include "inherited.hpp"
#include "output.hpp"
#include "run/signals.hpp"
#include "run/watchdog.hpp"

namespace termgate::cli::run {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds pause_min{1000}, pause_max{60'000};

std::string prefix_of(const Scope& scope) { return scope.name() + "/shard/"; }
Scope runner_scope(const Scope& scope, int runner) {
  return Scope(fmt::format("{}runner/{}", prefix_of(scope), runner));
}

// The whole number after `prefix`; empty if the text is another scope.
std::optional<int> number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = text.substr(prefix.size());
  if (digits.empty() || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return std::stoi(std::string(digits));
}

// Shards and runners that are held, by the database's clock.
struct Held {
  std::set<int> shards, runners;
};

Held look(Database& database, const Plan& plan) {
  Held held;
  const std::string prefix = prefix_of(plan.scope);
  std::string after = prefix;
  for (;;) {
    const auto page = Info(database).leases(after, 1000);
    for (const LeaseInfo& lease : page) {
      if (!lease.scope.starts_with(prefix)) return held;
      after = lease.scope;
      if (lease.released_at_ms || lease.remaining_ms <= 0) continue;
      if (const auto shard = number_behind(lease.scope, prefix)) held.shards.insert(*shard);
      if (const auto runner = number_behind(lease.scope, prefix + "runner/"))
        held.runners.insert(*runner);
    }
    if (page.size() < 1000) return held;
  }
}

struct Child {
  pid_t pid = 0;
  bool given_up = false;  // got SIGTERM, because this host had too many
};

struct Shard {
  Child child;           // pid 0: the shard does not run here
  bool over = false;     // nothing is left to do here: it is completed, or failed on this host
  milliseconds pause{};  // how long to wait before the next start, after a failure
  BootClock::time_point not_before{};
};

class Shards {
 public:
  Shards(const Arguments& arguments, const Plan& plan)
      : arguments_(arguments),
        plan_(plan),
        signals_({SIGCHLD}),
        database_(arguments.open()),
        shards_(static_cast<std::size_t>(plan.shards)) {}

  // On any exception, the children get SIGTERM and end by themselves.
  ~Shards() {
    for (const Shard& shard : shards_) {
      if (shard.child.pid > 0) kill(shard.child.pid, SIGTERM);
    }
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  int run() {
    began_ms_ = begin();
    const milliseconds every = std::clamp<milliseconds>(plan_.hold.ttl / 10, 100ms, 1000ms);
    // Wait a little, so that hosts whose crontab starts them a moment later still find their share
    // free.
    settled_ = BootClock::now() + std::min<milliseconds>(plan_.hold.ttl / 5, 2s);
    for (;;) {
      if (signal_ == 0 && !over()) {
        try {
          turn();
          silent_ = false;
        } catch (const Error& error) {
          // The shards that run here go on: they hold their leases through connections of their
          // own.
          if (!silent_)
            print_message(fmt::format("shards of \"{}\": {}; trying again",
                                      printable(plan_.scope.name()), error.what()));
          silent_ = true;
        }
      }
      if (running() == 0 && (signal_ != 0 || over())) break;
      std::uniform_int_distribution<int> jitter(0, static_cast<int>(every.count() / 4));
      wait(every + milliseconds(jitter(random_)));
    }
    if (runner_) runner_.reset();
    return signal_ != 0 ? 128 + signal_ : failure_;
  }

 private:
  Scope scope_of(int shard) const { return shard_scope(plan_.scope, shard); }
  int running() const {
    return static_cast<int>(std::count_if(shards_.begin(), shards_.end(),
                                          [](const Shard& one) { return one.child.pid > 0; }));
  }
  bool over() const {
    return !plan_.keep &&
           std::all_of(shards_.begin(), shards_.end(), [](const Shard& one) { return one.over; });
  }

  // Takes a place among the hosts if one is free, and returns the database's time at the start. A
  // shard's completed run that began at that time or later counts as this command's, on whichever
  // host it ran.
  std::int64_t begin() {
    join(look(database_, plan_));
    const auto lease = Info(database_).lease(runner_scope(plan_.scope, runner_ ? number_ : 0));
    if (!lease) return 0;
    return runner_ ? lease->acquired_at_ms : lease->expires_at_ms - lease->remaining_ms;
  }

  // Takes a place among the hosts if one is free.
  void join(const Held& held) {
    if (runner_ && !runner_->lost().stop_requested()) return;
    runner_.reset();
    HoldOptions options;
    options.ttl = plan_.hold.ttl;
    options.endpoint = plan_.hold.endpoint;
    for (int number = 0; number < plan_.shards && !runner_; ++number) {
      if (held.runners.count(number) != 0) continue;
      runner_ = database_.try_hold(runner_scope(plan_.scope, number), options);
      number_ = number;
    }
  }

  void turn() {
    Held held = look(database_, plan_);
    join(held);
    if (!runner_ || BootClock::now() < settled_) return;
    held.runners.insert(number_);
    const auto rank =
        static_cast<int>(std::distance(held.runners.begin(), held.runners.find(number_)));
    const int share = share_of(plan_.shards, static_cast<int>(held.runners.size()), rank);
    int mine = 0;
    for (const Shard& shard : shards_) mine += shard.child.pid > 0 && !shard.child.given_up ? 1 : 0;
    if (mine > share && plan_.keep) {
      // Only if this host has too many twice in a row, so that shards do not move because a host
      // was away for a moment.
      if (too_many_) give_one_up();
      too_many_ = !too_many_;
      return;
    }
    too_many_ = false;
    std::vector<int> free;
    const auto now = BootClock::now();
    for (int i = 0; i < plan_.shards; ++i) {
      Shard& shard = at(i);
      if (shard.over || shard.child.pid > 0 || held.shards.count(i) != 0 || now < shard.not_before)
        continue;
      if (is_done(i)) shard.over = true;
      else free.push_back(i);
    }
    std::shuffle(free.begin(), free.end(), random_);
    for (const int one : free) {
      if (mine >= share) return;
      start(one);
      ++mine;
    }
  }

  // Whether a run of the shard that began since this command did has completed, here or on another
  // host; with --once-per, whether it is not due. With --keep never.
  bool is_done(int shard) {
    if (plan_.keep) return false;
    Plan one = plan_;
    one.scope = scope_of(shard);
    if (!plan_.once_per)
      return Jobs(database_).completed(*plan_.job, one.scope, 0ms).started_at_ms.value_or(-1) >=
             began_ms_;
    const Due next = due(database_, one);
    const std::string warning = clock_warning(next, one);
    if (!warning.empty() && warned_.insert(shard).second) print_message(warning);
    return next.in > 0ms;
  }

  void give_one_up() {
    for (int i = plan_.shards - 1; i >= 0; --i) {
      Child& child = at(i).child;
      if (child.pid <= 0 || child.given_up) continue;
      print_message(fmt::format("shard {} is left to another host", i));
      child.given_up = true;
      kill(child.pid, SIGTERM);
      return;
    }
  }

  std::vector<std::string> words_of(int shard) const {
    std::vector<std::string> words = {"termgate", "run",     "--scope", scope_of(shard).name(),
                                      "--job",    *plan_.job};
    for (const char* name :
         {"db", "db-file", "schema", "ttl", "once-per", "kill-after", "endpoint"}) {
      if (const auto value = arguments_.maybe(name))
        words.insert(words.end(), {std::string("--") + name, *value});
    }
    if (plan_.resume) words.emplace_back("--resume");
    if (!plan_.pgoptions) words.emplace_back("--no-pgoptions");
    if (!plan_.preload.empty()) words.emplace_back("--preload");
    words.emplace_back("--");
    words.insert(words.end(), plan_.command.begin(), plan_.command.end());
    return words;
  }

  void start(int shard) {
    std::vector<std::string> words = words_of(shard), variables;
    for (char** one = environ; *one != nullptr; ++one) {
      if (!std::string_view(*one).starts_with("TERMGATE_SHARD")) variables.emplace_back(*one);
    }
    variables.push_back(fmt::format("TERMGATE_SHARD={}", shard));
    variables.push_back(fmt::format("TERMGATE_SHARDS={}", plan_.shards));
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts) all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
      // Only async-signal-safe calls, because the program may have threads.
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != self) _exit(own_outcomes + Exit::failed);
      setpgid(0, 0);
      if (nothing >= 0) dup2(nothing, STDIN_FILENO);  // several children cannot share one
      hand_down_inherited();
      execve("/proc/self/exe", arguments.data(), environment.data());
      _exit(own_outcomes + Exit::failed);
    }
    if (nothing >= 0) close(nothing);
    if (child < 0) {
      print_message(fmt::format("shard {} could not be started: {}", shard, std::strerror(errno)));
      return pause(at(shard));
    }
    setpgid(child, child);
    at(shard).child = {child, false};
  }

  static void pause(Shard& shard) {
    shard.pause = std::clamp<milliseconds>(shard.pause * 2, pause_min, pause_max);
    shard.not_before = BootClock::now() + shard.pause;
  }

  // Whether somebody cancelled its last run: then it is not started again.
  bool was_cancelled(int shard) {
    try {
      const auto runs =
          Jobs(database_).list({.job = plan_.job, .scope = scope_of(shard).name()}, 1);
      return !runs.empty() && runs.front().status == "cancelled";
    } catch (const Error&) { return false; }
  }

  void ended(int number, int status) {
    Shard& shard = at(number);
    const bool given_up = std::exchange(shard.child, {}).given_up;
    if (status == own_outcomes + Exit::lease_anothers || (given_up && status != 0)) return;
    const bool lost =
        status == own_outcomes + Exit::failed || status == own_outcomes + Exit::lease_lost;
    if (plan_.keep || (lost && !was_cancelled(number))) return pause(shard);
    shard.over = true;
    if (status == 0) return;
    if (failure_ == 0) failure_ = status;
    print_message(fmt::format("shard {} ended with status {}; this host does not try it again",
                              number, status));
  }

  void wait(milliseconds time) {
    pollfd watched[] = {{signals_.descriptor(), POLLIN, 0}};
    poll(watched, 1, static_cast<int>(time.count()));
    while (const int came = signals_.next()) {
      if (came == SIGCHLD) continue;
      for (const Shard& shard : shards_) {
        if (shard.child.pid > 0) kill(shard.child.pid, came);
      }
      if (came != SIGUSR1 && came != SIGUSR2 && signal_ == 0 && Signals::ends_this(came))
        signal_ = came;
    }
    for (int i = 0; i < plan_.shards; ++i) {
      int status = 0;
      if (at(i).child.pid <= 0) continue;
      const pid_t gone = waitpid(at(i).child.pid, &status, WNOHANG);
      if (gone == 0 || (gone < 0 && errno == EINTR)) continue;
      if (gone < 0) status = -1;  // another wait has taken its status
      // A signal means that the child's termgate was killed, not COMMAND, whose signal it would
      // report as 128 + N.
      ended(i, WIFEXITED(status) ? WEXITSTATUS(status) : own_outcomes + Exit::failed);
    }
  }

  Shard& at(int shard) { return shards_[static_cast<std::size_t>(shard)]; }

  const Arguments& arguments_;
  const Plan& plan_;
  const Signals signals_;  // created before the first thread
  Database database_;
  std::vector<Shard> shards_;
  std::optional<HeldLease> runner_;  // this host's place among the hosts
  int number_ = 0;
  std::int64_t began_ms_ = 0;
  std::set<int> warned_;  // shards for which a clock warning was printed
  BootClock::time_point settled_{};
  std::mt19937 random_{std::random_device{}()};
  int signal_ = 0, failure_ = 0;
  bool too_many_ = false, silent_ = false;
};

}  // namespace

Scope shard_scope(const Scope& scope, int shard) {
  return Scope(fmt::format("{}{}", prefix_of(scope), shard));
}

int run_shards(const Arguments& arguments, const Plan& plan) {
  // Throws if the longest scope name would be invalid, before anything is started under a shorter
  // one.
  runner_scope(plan.scope, shards_max - 1);
  // Checks once what each shard's `termgate run` needs.
  { const Watchdog probe; }
  return Shards(arguments, plan).run();
}

}  // namespace termgate::cli::run
