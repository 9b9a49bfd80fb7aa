// job …: shows the history of jobs, and records runs for scripts.
#include <cstdlib>

#include <fmt/format.h>

#include <termgate/jobs.hpp>

#include "command.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

template <class T>
boost::json::value or_null(const std::optional<T>& held) {
  return held ? boost::json::value(*held) : boost::json::value(nullptr);
}

boost::json::object json_of(const JobRunInfo& run) {
  const auto moment_or_null = [](const std::optional<std::int64_t>& ms) {
    return ms ? boost::json::value(moment(*ms)) : boost::json::value(nullptr);
  };
  return {{"run_id", run.run_id},
          {"job", run.job},
          {"scope", run.scope},
          {"owner", run.owner},
          {"term", run.term},
          {"status", run.status},
          {"started_at", moment(run.started_at_ms)},
          {"completed_at", moment_or_null(run.completed_at_ms)},
          {"last_heartbeat", moment_or_null(run.last_heartbeat_ms)},
          {"heartbeat_age_ms",
           run.last_heartbeat_ms && !run.completed_at_ms && run.status != "requested"
               ? boost::json::value(run.now_ms - *run.last_heartbeat_ms)
               : boost::json::value(nullptr)},
          {"exit_code", or_null(run.exit_code)},
          {"checkpoint", or_null(run.checkpoint)},
          {"detail", or_null(run.detail)},
          {"request", or_null(run.request)}};
}

// The run that --run names, or else the one in which `termgate run` started this process.
std::string run_of(const Arguments& arguments) {
  if (auto run = arguments.maybe("run")) return *run;
  if (const char* run = std::getenv("TERMGATE_RUN_ID"); run != nullptr && *run != '\0') return run;
  throw UsageError(
      "--run is missing: a run's id, as `job start` and `job list` print it; inside `termgate run "
      "--job` it is known");
}

int run_list(const Arguments& arguments) {
  const auto limit = static_cast<int>(arguments.integer_or("limit", 50, 1, 100'000));
  const auto runs = Jobs(arguments.open())
                        .list({.job = arguments.maybe("job"),
                               .scope = arguments.maybe("scope"),
                               .status = arguments.maybe("status")},
                              limit);
  Listing listing(arguments.json(),
                  {"RUN", "JOB", "SCOPE", "TERM", "STATUS", "STARTED", "TOOK", "EXIT", "OWNER"});
  for (const JobRunInfo& run : runs) {
    const bool open = run.status == "started" || run.status == "requested";
    const std::int64_t until = run.completed_at_ms.value_or(
        open ? run.now_ms : run.last_heartbeat_ms.value_or(run.started_at_ms));
    listing.add([&] { return json_of(run); },
                [&] {
                  return std::vector<std::string>{
                      run.run_id,
                      printable(run.job),
                      printable(run.scope),
                      std::to_string(run.term),
                      run.status,
                      moment(run.started_at_ms),
                      length(std::max<std::int64_t>(until - run.started_at_ms, 0)),
                      run.exit_code ? std::to_string(*run.exit_code) : "",
                      printable(run.owner)};
                });
  }
  listing.end();
  return Exit::done;
}

int run_show(const Arguments& arguments) {
  const std::string id = run_of(arguments);
  const auto runs = Jobs(arguments.open()).list({.run_id = id}, 1);
  if (runs.empty()) {
    if (arguments.json()) print_json({{"run_id", id}, {"run", nullptr}});
    else print_message(fmt::format("there is no run {}", printable(id)));
    return Exit::failed;
  }
  const boost::json::object run = json_of(runs.front());
  if (arguments.json()) {
    print_json(run);
    return Exit::done;
  }
  for (const auto& [name, value] : run) {
    if (!value.is_null())
      print_line(fmt::format("{:<18}{}", std::string(name),
                             value.is_string() ? printable(std::string(value.as_string()))
                                               : boost::json::serialize(value)));
  }
  return Exit::done;
}

int run_start(const Arguments& arguments) {
  const auto owner = arguments.text_or("owner", default_owner());
  const std::string run = Jobs(arguments.open())
                              .start(arguments.text("job"), arguments.scope(), arguments.term(),
                                     owner, arguments.maybe("detail"));
  if (arguments.json()) print_json({{"run_id", run}});
  else print_line(run);
  return Exit::done;
}

int run_request(const Arguments& arguments) {
  const bool dry = arguments.flag("dry-run"), resume = arguments.flag("resume");
  if (dry && resume) throw UsageError("--dry-run and --resume are two requests: write one");
  const std::string job = arguments.text("job"), kind = dry ? "dry-run" : resume ? "resume" : "run";
  const JobRequest made =
      Jobs(arguments.open())
          .request(job, arguments.scope(), kind, arguments.text_or("actor", default_actor()),
                   arguments.text_or("reason", no_reason));
  if (arguments.json()) print_json({{"run_id", made.run_id}, {"requested", made.requested}});
  else if (made.requested) print_line(made.run_id);
  else
    print_message(fmt::format(
        "a run of \"{}\" is requested already: {}; `termgate job cancel --run {}` withdraws it",
        printable(job), made.run_id, made.run_id));
  return made.requested ? Exit::done : Exit::failed;
}

int no_longer_open(const Arguments& arguments, const std::string& run) {
  if (arguments.json()) print_json({{"run_id", run}, {"open", false}});
  else
    print_message(fmt::format("run {} is no longer open; `termgate job show --run {}` shows why",
                              printable(run), printable(run)));
  return Exit::lease_lost;
}

int run_beat(const Arguments& arguments) {
  const std::string run = run_of(arguments);
  Database database = arguments.open();
  const auto ttl = arguments.maybe_duration("ttl");
  if (!ttl) {
    if (!Jobs(database).beat(run, arguments.maybe("checkpoint")))
      return no_longer_open(arguments, run);
    if (arguments.json()) print_json({{"run_id", run}, {"open", true}});
    return Exit::done;
  }
  const auto beat_before = Jobs(database).beat(run, arguments.maybe("checkpoint"), *ttl);
  if (!beat_before) return no_longer_open(arguments, run);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(*beat_before - Lease::Clock::now())
          .count();
  if (arguments.json()) print_json({{"run_id", run}, {"open", true}, {"beat_within_ms", left}});
  else print_line(fmt::format("the next beat is due within {}", length(left)));
  return Exit::done;
}

int run_finish(const Arguments& arguments) {
  const std::string run = run_of(arguments);
  std::optional<std::int64_t> code;
  if (arguments.maybe("exit-code")) code = arguments.integer("exit-code", 0, 255);
  const std::string status =
      arguments.text_or("status", code.value_or(0) == 0 ? "completed" : "failed");
  if (!Jobs(arguments.open())
           .finish(run, status, code, arguments.maybe("detail"), arguments.maybe("checkpoint")))
    return no_longer_open(arguments, run);
  if (arguments.json()) print_json({{"run_id", run}, {"status", status}});
  return Exit::done;
}

// Cancels a run. Its holder notices at its next beat. The caller needs no lease of the scope.
int run_cancel(const Arguments& arguments) {
  const std::string run = arguments.text("run");
  const std::string why =
      fmt::format("cancelled by {}: {}", arguments.text_or("actor", default_actor()),
                  arguments.text_or("reason", no_reason));
  if (!Jobs(arguments.open()).finish(run, "cancelled", std::nullopt, why))
    return no_longer_open(arguments, run);
  if (arguments.json()) print_json({{"run_id", run}, {"status", "cancelled"}});
  return Exit::done;
}

void run_option(po::options_description& o) {
  o.add_options()("run", po::value<std::string>(),
                  "the run's id (inside `termgate run --job`: that run's)");
}

}  // namespace

void add_job_commands(std::vector<Command>& commands) {
  commands.push_back({"job list",
                      "list runs of jobs, newest first",
                      "A run is shown as lost as soon as its lease has ended.\n  termgate job list "
                      "--job export --status lost",
                      [](po::options_description& o) {
                        o.add_options()("job", po::value<std::string>(), "only runs of this job")(
                            "scope", po::value<std::string>(), "only runs in this scope")(
                            "status", po::value<std::string>(),
                            "requested, started, completed, failed, cancelled or lost")(
                            "limit", po::value<std::string>(), "how many (50)");
                      },
                      {},
                      run_list});
  commands.push_back({"job show", "print one run", "", run_option, {"run"}, run_show});
  commands.push_back({"job start",
                      "record the start of a run under a term; prints its id",
                      "`termgate run --job` does this itself. A job has one open run in a scope: "
                      "while that is open under the\n"
                      "same term, another start is refused; open runs of other terms become lost.\n"
                      "  termgate job start --job export --scope exports --term 5",
                      [](po::options_description& o) {
                        o.add_options()("job", po::value<std::string>(), "its name")(
                            "scope", po::value<std::string>(), "the scope")(
                            "term", po::value<std::string>(), "the term it runs under")(
                            "owner", po::value<std::string>(), "who runs it (host:pid:random)")(
                            "detail", po::value<std::string>(), "anything worth keeping");
                      },
                      {},
                      run_start});
  commands.push_back({"job beat",
                      "record a heartbeat, with a checkpoint or a renewal of the lease; status 5 "
                      "if the run has ended",
                      "  termgate job beat --checkpoint 'page 17'            inside `termgate run "
                      "--job`, which renews by itself\n"
                      "  termgate job beat --run 42 --ttl 30s                renews the run's "
                      "lease in the same transaction",
                      [](po::options_description& o) {
                        run_option(o);
                        o.add_options()("checkpoint", po::value<std::string>(),
                                        "where a later run should continue")(
                            "ttl", po::value<std::string>(),
                            "renew the lease of the run's owner for this long");
                      },
                      {},
                      run_beat});
  commands.push_back(
      {"job request",
       "ask for a run of a job, which `termgate run --on-request` answers; prints the run's id",
       "The run is shown as requested until whoever answers begins it; `job cancel` withdraws it. "
       "What it is for is in COMMAND's\n"
       "TERMGATE_REQUEST: run, dry-run or resume. A job has one request in a scope: while it "
       "waits, another is refused with status 1.\n"
       "On PostgreSQL it takes level lead.\n  termgate job request --job report --scope reports "
       "--reason 'figures corrected'",
       [](po::options_description& o) {
         o.add_options()("job", po::value<std::string>(), "its name")(
             "scope", po::value<std::string>(), "the scope")("dry-run", po::bool_switch(),
                                                             "ask for a dry run")(
             "resume", po::bool_switch(), "ask to resume where the last run stopped")(
             "reason", po::value<std::string>(), "kept in the run's detail and the audit")(
             "actor", po::value<std::string>(), "who acts (USER@host)");
       },
       {},
       run_request});
  commands.push_back(
      {"job cancel",
       "end another's run, or withdraw a request: a holder learns of it with the next beat",
       "`termgate run` beats by itself: it learns of this within a third of the TTL, 10 s at most, "
       "and ends its command. Other holders\n"
       "learn of it when they beat, which then ends with status 5. To shut writes out as well: "
       "lease force-release. On PostgreSQL "
       "it\ntakes level operate, or the role that started the run.\n  termgate job cancel "
       "--run 42 --reason 'wrong month'",
       [](po::options_description& o) {
         o.add_options()("run", po::value<std::string>(), "the run's id")(
             "reason", po::value<std::string>(), "kept in the run's detail")(
             "actor", po::value<std::string>(), "who acts (USER@host)");
       },
       {"run"},
       run_cancel});
  commands.push_back({"job finish",
                      "record the end of a run",
                      "Completing a run is checked like a write: a stale leader gets status 3.\n  "
                      "termgate job finish --run 42 --exit-code 0",
                      [](po::options_description& o) {
                        run_option(o);
                        o.add_options()(
                            "status", po::value<std::string>(),
                            "completed, failed, cancelled or lost (default: from --exit-code)")(
                            "exit-code", po::value<std::string>(), "0 to 255")(
                            "detail", po::value<std::string>(), "anything worth keeping")(
                            "checkpoint", po::value<std::string>(), "the last one");
                      },
                      {},
                      run_finish});
}

}  // namespace termgate::cli
