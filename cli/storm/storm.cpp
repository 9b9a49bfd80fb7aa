// storm: real processes against a real database, disturbed by a schedule. Afterwards it judges what
// the processes saw and what the rows show.
//
//   director ── starts, stops, kills ──▶ leaders (this program again, `storm-leader`) ── writes ──▶ database
//      │                                    │ each step into a log, before and after                   ▲
//      ├── faults, a looker at the fences ──┼──────────────────────────────────────────────────────────┘
//      └── logs + rows ──▶ testkit's checker ──▶ verdict
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include <termgate/info.hpp>

#include "output.hpp"
#include "storm/storm.hpp"
#include "storm/clock.hpp"
#include "storm/faults.hpp"
#include "storm/ground.hpp"
#include "storm/hold.hpp"
#include "storm/log.hpp"
#include "storm/plan.hpp"
#include "storm/verdict.hpp"
#ifdef TERMGATE_WITH_POSTGRES
#include "storm/proxies.hpp"
#endif
#include "storm/relay.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace storm {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The first signal of a kind ends the storm in order, with a verdict on what has happened; a second
// one of the same kind ends it at once.
void end_in_order() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "termgate-storm-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw Error("storm: no temporary folder for the logs");
  }
  ~Folder() {
    std::error_code ignored;
    if (!keep) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  bool keep = false;

 private:
  std::string path_;
};

// Reads the fence of every scope again and again, until stopped.
std::jthread look(const Plan& plan, Database database, Log& log) {
  return std::jthread([&plan, database, &log](std::stop_token stop) mutable {
    while (!stop.stop_requested()) {
      for (int index = 0; index < plan.scopes && !stop.stop_requested(); ++index) {
        const std::string scope = plan.names.scope(index);
        const std::int64_t number = log.begin('l', scope);
        try {
          const auto fence = Info(database).fence(Scope(scope));
          log.end(number, Outcome::committed, fence ? fence->term : 0);
        } catch (const Error& error) {
          log.end(number, Outcome::refused, 0, {}, error.code().empty() ? "error" : error.code());
          std::this_thread::sleep_for(milliseconds(50));
        }
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
}

// The relay or the proxies between leaders and database, if any.
struct Between {
#ifdef TERMGATE_WITH_POSTGRES
  std::unique_ptr<Relay> relay;
  std::unique_ptr<Proxies> proxies;
#endif

  std::vector<Relay*> relays() const {
#ifdef TERMGATE_WITH_POSTGRES
    if (proxies) return proxies->relays();
    if (relay) return {relay.get()};
#endif
    return {};
  }
  Proxies* through() const {
#ifdef TERMGATE_WITH_POSTGRES
    return proxies.get();
#else
    return nullptr;
#endif
  }
};

#ifdef TERMGATE_WITH_POSTGRES
std::unique_ptr<Proxies> proxies_of(const Arguments& arguments, Plan& plan) {
  auto proxies = std::make_unique<Proxies>(plan);
  if (!proxies->has_back() && has(plan, "cut-back")) {
    if (arguments.maybe("faults"))
      throw UsageError("--faults cut-back: the connection is encrypted");
    std::erase(plan.faults, "cut-back");
  }
  return proxies;
}

// Returns null if the connection cannot be relayed; the faults that need a relay are then left out,
// or refused if --faults names them.
std::unique_ptr<Relay> relay_of(const Arguments& arguments, Plan& plan) {
  try {
    std::unique_ptr<Relay> relay;
#ifdef TERMGATE_WITH_ODBC
    if (is_odbc(plan.url)) {
      const auto [host, port] = place_of_odbc(plan.url);
      relay = std::make_unique<Relay>(plan.url, RelayTarget{.host = host, .port = port});
    }
#endif
    if (!relay) relay = std::make_unique<Relay>(plan.url);
    plan.relayed_url = relay->url();
    return relay;
  } catch (const Error& error) {
    for (const char* fault : {"lose", "delay", "half-open"}) {
      if (arguments.maybe("faults") && has(plan, fault))
        throw UsageError(fmt::format("--faults {}: {}", fault, error.what()));
      std::erase(plan.faults, fault);
    }
    return nullptr;
  }
}
#endif

Between between_of([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] Plan& plan,
                   [[maybe_unused]] Ground& ground) {
  Between between;
#ifdef TERMGATE_WITH_POSTGRES
  if (plan.proxies > 0) {
    try {
      between.proxies = proxies_of(arguments, plan);
    } catch (...) {
      ground.clear();
      throw;
    }
  } else if (has(plan, "lose") || has(plan, "delay") || has(plan, "half-open")) {
    between.relay = relay_of(arguments, plan);
  }
#endif
  return between;
}

// One storm: rounds of faults, each judged at its end, until the time is up or a round shows a
// breach.
class Storm {
 public:
  Storm(const Arguments& arguments, Plan& plan, Ground& ground, History& history, Folder& folder,
        Between& between)
      : arguments_(arguments),
        plan_(plan),
        ground_(ground),
        history_(history),
        folder_(folder),
        looks_(plan.folder + "/looker.log"),
        proxies_(between.through()),
        crew_(plan, history),
        faults_(plan, crew_, history, ground.database(), between.relays(), proxies_) {
    history_.add(plan.folder + "/looker.log", "looker");
  }

  int run() {
    do {
      round();
    } while (judgement_.verdict.breaches.empty() && judgement_.hostages.empty() &&
             judgement_.unjudged.empty() && std::chrono::steady_clock::now() < end_ &&
             !interrupted);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    if (crew_.ended_by_themselves() > 0)
      judgement_.unjudged.push_back(fmt::format(
          "{} leaders ended unexpectedly; their output is above", crew_.ended_by_themselves()));
#ifdef TERMGATE_WITH_POSTGRES
    if (proxies_ != nullptr && proxies_->ended_by_themselves() > 0)
      judgement_.unjudged.push_back(
          fmt::format("{} proxies ended by themselves, the last one with: {}",
                      proxies_->ended_by_themselves(), proxies_->last_words()));
#endif
    std::int64_t evictions = 0;
    try {
      evictions = ground_.evictions();
    } catch (const Error&) {
      // judge() reports a database that cannot be read; here it only leaves the number at 0.
    }
    const bool right = plan_.naive.empty() && plan_.enforce == "on";
    const bool keep = arguments_.flag("keep") || !judgement_.findings.empty() ||
                      !judgement_.hostages.empty() ||
                      (!judgement_.verdict.breaches.empty() && right);
    folder_.keep = keep;
    const bool cleared = !keep && ground_.clear();
    return report(plan_, arguments_, history_, judgement_, crew_, faults_, evictions, seconds,
                  cleared, keep ? folder_.path() : "");
  }

 private:
  using Clock = std::chrono::steady_clock;

  void round() {
#ifdef TERMGATE_WITH_POSTGRES
    try {
      if (proxies_ != nullptr) proxies_->start_all(milliseconds(20'000));
    } catch (...) {
      ground_.clear();
      throw;
    }
#endif
    crew_.start_all();
    std::jthread looker;
    if (ground_.database()) looker = look(plan_, *ground_.database(), looks_);
    blow(std::min(end_, Clock::now() + plan_.round));
    settle();
    if (looker.joinable()) {
      looker.request_stop();
      looker.join();
    }
    history_.read_on();
    judgement_ = judge(plan_, ground_, history_, faults_);
    for (std::string& problem : faults_.problems())
      judgement_.unjudged.push_back(std::move(problem));
  }

  // Causes faults and prints statistics until the given moment.
  void blow(Clock::time_point until) {
    Progress progress(!arguments_.json());
    auto printed = begun_;
    // How long the statistics take; the time between them grows with it.
    milliseconds cost{0};
    for (auto now = Clock::now(); now < until && !interrupted; now = Clock::now()) {
      crew_.tick();
#ifdef TERMGATE_WITH_POSTGRES
      if (proxies_ != nullptr) proxies_->tick();
#endif
      faults_.tick();
      std::this_thread::sleep_for(milliseconds(5));
      if (now - printed < std::max(milliseconds(isatty(STDERR_FILENO) ? 250 : 10'000), 20 * cost))
        continue;
      printed = now;
      history_.read_on();
      const Figures figures = figures_of(history_, crew_.stops());
      cost = std::chrono::duration_cast<milliseconds>(Clock::now() - now);
      const std::string line = fmt::format(
          "storm {}: {} of {} s: {} writes, {} refused as stale, {} takeovers, {} unanswered",
          plan_.seed, std::chrono::duration_cast<std::chrono::seconds>(now - begun_).count(),
          std::chrono::duration_cast<std::chrono::seconds>(plan_.time).count(),
          figures.acknowledged, figures.stale, figures.takeovers, figures.unanswered);
      if (isatty(STDERR_FILENO)) progress.show(line);
      else if (!arguments_.json()) fmt::print(stderr, "{}\n", line);
    }
  }

  // Ends all faults and then the leaders.
  void settle() {
#ifdef TERMGATE_WITH_POSTGRES
    if (proxies_ != nullptr) proxies_->resume_all();  // otherwise leaders would wait for them
#endif
    faults_.calm();
    crew_.end_all(std::chrono::seconds(15));
    faults_.calm();  // again, because a fault may have hit a connection meanwhile
    try {
      faults_.finish();
    } catch (const Error&) {
      // judge() will report it, since it uses the same database.
    }
#ifdef TERMGATE_WITH_POSTGRES
    if (proxies_ != nullptr) proxies_->end_all(std::chrono::seconds(5));
#endif
  }

  const Arguments& arguments_;
  Plan& plan_;
  Ground& ground_;
  History& history_;
  Folder& folder_;
  Log looks_;
  Proxies* proxies_;
  const Clock::time_point begun_ = Clock::now(), end_ = begun_ + plan_.time;
  Crew crew_;
  Faults faults_;
  Judgement judgement_;
};

int run(const Arguments& arguments) {
  if (arguments.text_or("naive", "") == "list") return list_naive(arguments.json());
  Plan plan = plan_of(arguments);
  end_in_order();
  Folder folder;
  plan.folder = folder.path();
  const std::unique_ptr<Clocks> clocks = clocks_of(arguments, plan);
  plan.clocks = clocks.get();
  Ground ground(arguments, plan);
  History history;
  Between between = between_of(arguments, plan, ground);
  return Storm(arguments, plan, ground, history, folder, between).run();
}

}  // namespace
}  // namespace storm

void add_storm_command(std::vector<Command>& commands) {
  std::string help =
      "A torture test. Leader processes take over from one another and write with many "
      "connections, while a schedule, which --seed "
      "repeats,\nstops (SIGSTOP), kills, cuts off and blocks them. Afterwards what each of them "
      "saw is compared with the database's "
      "content\n(docs/evidence/storm.md). Use a database that may be disturbed.\n\n  termgate "
      "storm --db "
      "postgresql://postgres@127.0.0.1/scratch --seconds 60\n"
      "  termgate storm --db postgresql://postgres@127.0.0.1/scratch --proxies 2     through its "
      "own proxies, which are killed and cut off "
      "too\n"
      "  termgate storm --db postgresql://postgres@127.0.0.1/scratch --server-restart 'pg_ctl -D "
      "DIR -m immediate restart'\n"
      "  termgate storm --db sqlserver://USER:PASSWORD@127.0.0.1/scratch     through ODBC; odbc:… "
      "for PostgreSQL too\n"
      "  termgate storm --db sqlite:scratch.db     with a file\n"
      "  termgate storm --db sqlite:scratch.db --naive max-term     a faulty boundary in the same "
      "storm; --naive list\n\n"
      "Exit status: 0 all guarantees kept, 1 one is broken or it could not be judged, 2 wrong "
      "usage. Faults:\n";
  for (const storm::Fault& fault : storm::all_faults())
    help += fmt::format("  {:<18}{}\n", fault.name, fault.what);
  commands.push_back(
      {"storm",
       "torture-test fencing on your own database",
       help,
       [](po::options_description& o) {
         const auto text = [] { return po::value<std::string>(); };
         o.add_options()("leaders", text(), "leader processes, 2 to 64 (3)")(
             "scopes", text(), "scopes that they compete for (2)")(
             "writers", text(), "writer threads for each leader and scope (2)")(
             "seconds", text(), "how long (60)")("seed", text(),
                                                 "seed of all random choices (from the clock)")(
             "ttl", text(), "of the leases (400ms)")(
             "pace", text(),
             "of the writers: usual, with pauses between and inside writes, or full, almost "
             "without (usual)")(
             "faults", text(),
             "which faults, separated by commas, or none (all that apply to the database)")(
             "naive", text(), "a faulty boundary instead of Termgate's; list prints their names")(
             "proxies", text(),
             "write through this many proxies, started by the storm, which do the checks (1 to 8)")(
             "enforce", text(),
             "mode of the proxies: on, or observe, which must be found broken (on)")(
             "libfaketime", text(),
             "the library that steps the clocks of leaders and proxies (Debian's path)")(
             "server-clock", text(),
             "the FAKETIME_TIMESTAMP_FILE of the PostgreSQL server, to step the server's clock")(
             "server-restart", text(),
             "a shell command that kills and restarts the PostgreSQL server; run every few "
             "seconds")(
             "judge-every", text(),
             "also judge at this interval, and end at the first breach (only at the end)")(
             "keep", po::bool_switch(), "keep tables and logs");
       },
       {},
       storm::run});
  commands.push_back({"storm-leader",
                      "one leader of a storm",
                      "Started by `termgate storm`.",
                      [](po::options_description& o) {
                        for (const char* name : {"who", "run", "seed", "scopes", "writers", "ttl",
                                                 "pace", "naive", "log", "proxies", "skew"})
                          o.add_options()(name, po::value<std::string>(), "");
                      },
                      {},
                      storm::lead,
                      true});
  commands.push_back({"storm-holder",
                      "a leader that freezes in a transaction",
                      "Started by `termgate storm`.",
                      [](po::options_description&) {},
                      {},
                      storm::hold,
                      true});
  commands.push_back({"storm-clock",
                      "the clocks that a process of a storm sees",
                      "Started by `termgate storm`.",
                      [](po::options_description&) {},
                      {},
                      storm::print_clocks,
                      true});
}

}  // namespace termgate::cli
