#include "run/plan.hpp"

#include <signal.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/job_run.hpp>
#include <termgate/jobs.hpp>

#include "output.hpp"
#include "run/shards.hpp"

#ifdef TERMGATE_WITH_SOURCES
#include <termgate/sources.hpp>
#endif

namespace termgate::cli::run {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

std::shared_ptr<LeaseSource> open_source([[maybe_unused]] const std::string& url) {
#ifdef TERMGATE_WITH_SOURCES
  return open_lease_source(url);
#else
  throw UsageError("this termgate was built without term sources (TERMGATE_SOURCES=OFF)");
#endif
}

void take_source(const Arguments& arguments, Plan& plan) {
  const auto url = arguments.maybe("source");
  if (!url) {
    if (arguments.flag("no-seal"))
      throw UsageError(
          "--no-seal needs --source: the database's own leases are sealed with their acquisition");
    return;
  }
  if (plan.shards > 0 || arguments.flag("dry-run"))
    throw UsageError(
        "--shards and --dry-run look at the database's own leases; with --source they have no "
        "meaning");
  if (plan.job || plan.once_per || plan.resume || plan.on_request)
    throw UsageError(
        "--job, --once-per, --resume and --on-request belong to the database's own leases; with "
        "--source they have no meaning");
  if (!plan.hold.endpoint.empty())
    throw UsageError(
        "--endpoint belongs to the database's own leases; with --source it has no meaning");
  plan.source = open_source(*url);
  plan.seals = !arguments.flag("no-seal");
}

void take_shards(const Arguments& arguments, Plan& plan) {
  if (arguments.maybe("shards"))
    plan.shards = static_cast<int>(arguments.integer("shards", 1, shards_max));
  plan.keep = arguments.flag("keep");
  if (plan.keep && plan.shards == 0) throw UsageError("--keep needs --shards");
  if (plan.shards == 0) return;
  if (plan.waits)
    throw UsageError("--wait is not for --shards, which waits for free shards until all are done");
  if (plan.keep && plan.once_per)
    throw UsageError("--keep starts again what has ended: --once-per says the opposite");
  if (!plan.job) plan.job = plan.scope.name();
}

int signal_of(std::string name) {
  constexpr std::pair<std::string_view, int> signals[] = {{"TERM", SIGTERM}, {"INT", SIGINT},
                                                          {"HUP", SIGHUP},   {"QUIT", SIGQUIT},
                                                          {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (const auto& [known, number] : signals) {
    if (name == known) return number;
  }
  throw UsageError(fmt::format("--leave-signal {}: must be one of TERM, INT, HUP, QUIT, USR1, USR2",
                               printable(name)));
}

// The preload library: next to this program, as in a build, or where the extension's package
// installs it.
std::string preload_library() {
  constexpr const char* name = "libtermgate-preload.so";
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto installed = (folder / ".." / TERMGATE_LIBDIR / "termgate").lexically_normal();
  for (const auto& place : {folder, installed}) {
    const std::string path = place / name;
    if (!std::filesystem::exists(path)) continue;
    if (path.find_first_of(" :") == std::string::npos) return path;
    throw UsageError(
        fmt::format("--preload: LD_PRELOAD separates its libraries by blanks and colons, and there "
                    "is one in {}",
                    path));
  }
  throw UsageError(fmt::format(
      "--preload needs {}, which is not in {}: install the package termgate-sqlite-extension", name,
      installed.string()));
}

// What --dry-run says about one scope.
struct Outlook {
  std::string line;
  boost::json::object document;
  bool held = false;
};

Outlook outlook_of(Database& database, const Plan& plan) {
  const std::string name = printable(plan.scope.name());
  boost::json::object document{{"scope", plan.scope.name()}, {"would_run", false}};
  const Due next = due(database, plan);
  if (const std::string warning = clock_warning(next, plan); !warning.empty())
    print_message(warning);
  if (next.in.count() > 0) {
    document["why"] = "not due";
    document["due_in_ms"] = next.in.count();
    return {
        fmt::format("\"{}\": would not run; it is due again in {}", name, length(next.in.count())),
        document};
  }
  const auto lease = Info(database).lease(plan.scope);
  if (lease && !lease->released_at_ms && lease->remaining_ms > 0) {
    document["why"] = "held";
    document["owner"] = lease->owner;
    document["term"] = std::to_string(lease->term);
    document["remaining_ms"] = lease->remaining_ms;
    return {fmt::format("\"{}\": would {}; {} holds the lease under term {} for another {}", name,
                        plan.waits ? "wait up to " + length(plan.hold.wait.count())
                                   : std::string("not run now"),
                        printable(lease->owner), lease->term, length(lease->remaining_ms)),
            document, true};
  }
  document["would_run"] = true;
  document["why"] = "free";
  document["command"] = boost::json::array(plan.command.begin(), plan.command.end());
  std::string line = fmt::format("\"{}\": would run {}", name, printable(plan.command[0]));
  if (plan.job) document["job"] = *plan.job;
  if (plan.resume) {
    const auto checkpoint = last_checkpoint(database, *plan.job, plan.scope);
    document["checkpoint"] =
        checkpoint ? boost::json::value(*checkpoint) : boost::json::value(nullptr);
    line += checkpoint ? fmt::format(", from checkpoint \"{}\"", printable(*checkpoint))
                       : std::string(", from the beginning");
  }
  return {line, document};
}

}  // namespace

Plan plan_of(const Arguments& arguments) {
  Plan plan{arguments.scope(),
            arguments.list("command"),
            {},
            false,
            arguments.maybe("job"),
            arguments.maybe_duration("once-per"),
            arguments.flag("resume"),
            arguments.flag("on-request"),
            !arguments.flag("no-pgoptions"),
            {}};
  if (plan.command.empty() || plan.command[0].empty())
    throw UsageError("which command? termgate run --scope S -- COMMAND …");
  plan.hold.ttl = arguments.duration_or("ttl", 10s);
  if (plan.hold.ttl < 1s || plan.hold.ttl > 24h) throw UsageError("--ttl must be from 1s to 1d");
  if (plan.once_per && *plan.once_per < 1s) throw UsageError("--once-per must be 1s or more");
  plan.waits = arguments.maybe("wait").has_value();
  plan.hold.wait = arguments.duration_or("wait", 0ms);
  plan.hold.endpoint = arguments.text_or("endpoint", "");
  plan.hold.margin = plan.hold.ttl / 5;
  plan.kill_after =
      std::min(arguments.duration_or("kill-after", plan.hold.ttl / 10), plan.hold.ttl / 10);
  plan.leave_signal = signal_of(arguments.text_or("leave-signal", "TERM"));
  if (plan.on_request &&
      (plan.once_per || plan.waits || arguments.maybe("shards") || arguments.flag("dry-run")))
    throw UsageError(
        "--on-request waits for a request, of one scope: --once-per, --wait, --shards and "
        "--dry-run have no meaning with it");
  take_shards(arguments, plan);
  take_source(arguments, plan);
  if (arguments.flag("preload")) plan.preload = preload_library();
  if (!plan.job && (plan.once_per || plan.resume || plan.on_request)) plan.job = plan.scope.name();
  return plan;
}

Due due(Database& database, const Plan& plan) {
  if (!plan.once_per) return {};
  // A crontab line may start a little earlier than the day before, by its host's clock or
  // another's. That must not skip the day.
  const milliseconds slack = std::min<milliseconds>(*plan.once_per / 20, 10min);
  // A run that began further in the future than the next one would be due is ignored, because it
  // would block all runs until then.
  const CompletedJob last = Jobs(database).completed(*plan.job, plan.scope, *plan.once_per);
  Due due;
  if (last.started_at_ms)
    due.in = *plan.once_per - slack - milliseconds(last.now_ms - *last.started_at_ms);
  if (last.latest_ms) due.ahead = std::max(milliseconds(*last.latest_ms - last.now_ms), 0ms);
  return due;
}

std::string clock_warning(const Due& due, const Plan& plan) {
  if (due.ahead <= 1s) return {};
  return fmt::format(
      "warning: a completed run of job \"{}\" in \"{}\" began {} in the future, so the database's "
      "clock was ahead then{}; "
      "`termgate job list --job {}` shows it",
      printable(*plan.job), printable(plan.scope.name()), length(due.ahead.count()),
      due.ahead > *plan.once_per ? ", and the run is not counted"
                                 : ": the next one is due that much later",
      printable(*plan.job));
}

int dry_run(Database& database, const Plan& plan, bool json) {
  int held = 0;
  const int scopes = std::max(plan.shards, 1);
  for (int shard = 0; shard < scopes; ++shard) {
    Plan one = plan;
    if (plan.shards > 0) one.scope = shard_scope(plan.scope, shard);
    Outlook outlook = outlook_of(database, one);
    held += outlook.held ? 1 : 0;
    if (json) print_json(outlook.document);
    else print_line(outlook.line);
  }
  // The status that a run would have. With --once-per it is not a failure that another host runs
  // the job.
  return held == scopes && !plan.once_per ? own_outcomes + Exit::lease_anothers
                                          : static_cast<int>(Exit::done);
}

}  // namespace termgate::cli::run
