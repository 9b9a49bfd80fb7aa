// bench: compares writes through the boundary with the same writes without it, on the given
// database, in alternation.
//
// Every round runs each scenario once, in an order that changes from round to round. A round's
// ratios are relative to that round's own unfenced run, so that drift (checkpoints, other load, a
// warm cache) affects all scenarios alike. The output is the median over the rounds and their
// spread.
//
//   unfenced       the plain INSERT, autocommit: the base of every ratio; a batch is one statement with all its rows
//   unfenced-one   only where batches are measured: the plain INSERT of one row, as of programs that do not batch
//   textbook       BEGIN; lock the fence row exclusively; SELECT MAX(term); INSERT; COMMIT
//   check-insert   the same INSERT after our check
//   append         append, one stream for each scope
//   append-each    append, a stream for each writer
//   takeover       a seal past a frozen writer in an open transaction (not on SQLite)
//   growth         the cost of an append as a stream and the number of scopes grow
//   lease          how long an acquisition, a renewal and a release take, to choose a TTL by
// and further ones of each database, see --help.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "bench/target.hpp"
#include "command.hpp"
#include "output.hpp"
#include "commands/privileges.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace bench {

namespace {
// Lock-free, so a signal handler may set it. Many threads read it.
std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
}  // namespace

bool interrupted() { return stop_wanted; }

std::string Load::scope(int index) const { return fmt::format("{}-{}", names, index); }

std::string Load::stream(int scope_index, std::optional<int> writer) const {
  return writer ? fmt::format("{}-{}-w{}", names, scope_index, *writer)
                : fmt::format("{}-{}", names, scope_index);
}

Database open_with_durability(const std::string& url, const OpenOptions& options, bool durable) {
#ifdef TERMGATE_WITH_SQLITE
  if (url.starts_with("sqlite:")) return Database::open(sqlite_url(url, durable), options);
#endif
#ifdef TERMGATE_WITH_POSTGRES
  if (url.starts_with("postgres")) return Database::open(postgres_url(url, durable), options);
#endif
  return Database::open(url, options);
}

void prune_streams(Database& database, const std::string& names, bool wanted_progress) {
  std::vector<std::string> streams;
  std::string after = names;
  for (bool more = true; more;) {
    const auto page = Info(database).streams(after, 1000);
    more = page.size() == 1000;
    for (const StreamInfo& info : page) {
      if (!info.stream.starts_with(names)) more = false;
      else if (info.last_no > 0) streams.push_back(info.stream);
    }
    if (!page.empty()) after = page.back().stream;
  }
  Progress progress(wanted_progress);
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  // Many threads, because each prune is a separate commit. Streams that cannot be pruned stay, and
  // `stream list` shows them.
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < streams.size(); at = next++) {
        try {
          Operator(database).prune(Stream(streams[at]), SequenceNo(Term::max_value));
        } catch (const Error&) {}
      }
    });
  }
  while (next < streams.size()) {
    progress.show(fmt::format("clearing away: {} of {} streams",
                              std::min<std::size_t>(next, streams.size()), streams.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace bench

namespace {

using namespace bench;

struct Plan {
  std::vector<bool> durable;
  std::vector<int> writers, batches;
  int scopes;
  std::vector<std::string> scenarios;  // those that writers run; "unfenced" first
  bool takeover = false, growth = false, lease = false;
};

struct Result {
  Load load;
  std::string scenario;
  std::vector<double> rates;  // rows a second, one a round
  // Relative to the same round's unfenced, textbook and unfenced-one runs.
  std::vector<double> ratios, textbook, one;
  Latencies latencies;
};

std::vector<int> parse_list(const char* name, const std::string& text, int most) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    char* end = nullptr;
    const long number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number < 1 || number > most) {
      throw UsageError(fmt::format("--{} {}: must be numbers from 1 to {}, separated by commas",
                                   name, text, most));
    }
    numbers.push_back(static_cast<int>(number));
    at = comma + 1;
  }
  return numbers;
}

std::chrono::nanoseconds parse_seconds(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.005 && seconds <= 3600))
    throw UsageError(
        fmt::format("--seconds {}: must be a number of seconds from 0.005 to 3600", text));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

std::string time_text(std::chrono::nanoseconds time) {
  const double us = static_cast<double>(time.count()) / 1000;
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1'000'000) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.2f} s", us / 1'000'000);
}

double us_of(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

Plan plan_of(const Arguments& arguments, const Target& target, bool quick) {
  Plan plan;
  const std::string durable = arguments.text_or("durable", "both");
  if (durable != "yes" && durable != "no" && durable != "both")
    throw UsageError("--durable is yes, no or both");
  if (durable != "no" && target.can_be_durable()) plan.durable.push_back(true);
  if (durable == "no" && !target.can_be_not_durable())
    throw UsageError(
        "--durable no: not available through ODBC, where the server's setting decides");
  if (target.can_be_not_durable() && (durable != "yes" || !target.can_be_durable()))
    plan.durable.push_back(false);
  plan.writers = parse_list("writers", arguments.text_or("writers", quick ? "1,8" : "1,8,64"), 500);
  plan.batches =
      parse_list("batches", arguments.text_or("batches", quick ? "1,10" : "1,10,100"), 10'000);
  plan.scopes = static_cast<int>(arguments.integer_or("scopes", quick ? 4 : 64, 1, 100'000));
  const auto known = target.scenarios();
  std::set<std::string> wanted;
  for (const std::string& name : arguments.list("scenario")) {
    if (name == "takeover") plan.takeover = true;
    else if (name == "growth") plan.growth = true;
    else if (name == "lease") plan.lease = true;
    else if (std::any_of(known.begin(), known.end(),
                         [&](const Scenario& scenario) { return scenario.name == name; }))
      wanted.insert(name);
    else if (name == "all")
      for (const Scenario& scenario : known) wanted.insert(std::string(scenario.name));
    else {
      std::string names;
      for (const Scenario& scenario : known)
        names += fmt::format("\n  {:<16}{}", scenario.name, scenario.what);
      throw UsageError(
          fmt::format("there is no scenario \"{}\" on this database; there are takeover, growth, "
                      "lease, all and{}",
                      name, names));
    }
  }
  if (wanted.empty() && !plan.takeover && !plan.growth && !plan.lease) {
    for (const Scenario& scenario : known) {
      if (scenario.by_default) wanted.insert(std::string(scenario.name));
    }
  }
  if (!wanted.empty()) wanted.insert("unfenced");
  for (const Scenario& scenario : known) {
    if (wanted.count(std::string(scenario.name)) != 0) plan.scenarios.emplace_back(scenario.name);
  }
  return plan;
}

std::vector<Load> loads_of(const Plan& plan, const Bench& bench) {
  std::vector<Load> loads;
  std::set<int> scope_counts{1, plan.scopes};
  for (const bool durable : plan.durable) {
    for (const int writers : plan.writers) {
      for (const int batch : plan.batches) {
        for (const int scopes : scope_counts) {
          // Many scopes affect contention between writes, which batches would hide, so they are
          // measured one row at a time.
          if (scopes > 1 && batch > 1) continue;
          loads.push_back(
              {durable, writers, batch, scopes, bench.payload_bytes, "bench-" + bench.suffix});
        }
      }
    }
  }
  return loads;
}

// Scenario, writers and batch of the runs so far, whose connections are warm.
using Warm = std::set<std::tuple<std::string, int, int>>;

// Runs one load with all scenarios and rounds.
std::vector<Result> run_load(const Bench& bench, const Plan& plan, const Load& load, Warm& warm,
                             const std::function<void(const std::string&)>& report) {
  std::vector<Result> results;
  for (const std::string& scenario : plan.scenarios)
    results.push_back({load, scenario, {}, {}, {}, {}, {}});
  if (load.batch > 1) {
    Load one = load;
    one.batch = 1;
    results.push_back({one, "unfenced-one", {}, {}, {}, {}, {}});
  }
  for (int round = 0; round < bench.rounds && !interrupted(); ++round) {
    std::vector<double> rates(results.size());
    for (std::size_t turn = 0; turn < results.size() && !interrupted(); ++turn) {
      const std::size_t at = (turn + static_cast<std::size_t>(round)) % results.size();
      Result& result = results[at];
      const std::string scenario = result.scenario == "unfenced-one" ? "unfenced" : result.scenario;
      report(scenario);
      bench.target.prepare(scenario, result.load);
      std::vector<std::unique_ptr<Writer>> writers;
      for (int index = 0; index < load.writers; ++index)
        writers.push_back(bench.target.writer(scenario, result.load, index, bench.seed));
      // PostgreSQL compiles functions on a connection's first calls, and plans a statement five
      // times before it keeps the plan.
      const int warm_up = warm.insert({scenario, load.writers, result.load.batch}).second ? 8 : 1;
      const Slice slice = run_slice(writers, bench.slice, 0, warm_up, interrupted);
      rates[at] = slice.per_second() * result.load.batch;
      result.latencies.add(slice.latencies);
    }
    if (interrupted()) break;  // half a round allows no comparison
    double textbook = 0, one = 0;
    for (std::size_t at = 0; at < results.size(); ++at) {
      if (results[at].scenario == "textbook") textbook = rates[at];
      if (results[at].scenario == "unfenced-one") one = rates[at];
    }
    for (std::size_t at = 0; at < results.size(); ++at) {
      results[at].rates.push_back(rates[at]);
      if (rates[0] > 0) results[at].ratios.push_back(rates[at] / rates[0]);
      if (textbook > 0) results[at].textbook.push_back(rates[at] / textbook);
      if (one > 0) results[at].one.push_back(rates[at] / one);
    }
  }
  std::erase_if(results, [](const Result& result) { return result.rates.empty(); });
  return results;
}

std::vector<std::string> cells_of(const Result& result) {
  const auto [low, high] = std::minmax_element(result.ratios.begin(), result.ratios.end());
  std::string ratio = "-";
  if (result.scenario == "unfenced") ratio = '1';
  else if (!result.ratios.empty())
    ratio = fmt::format("{:.2f} ({:.2f}-{:.2f})", median(result.ratios), *low, *high);
  return {result.scenario,
          result.load.durable ? "yes" : "no",
          std::to_string(result.load.writers),
          std::to_string(result.load.scopes),
          std::to_string(result.load.batch),
          fmt::format("{:.0f}", median(result.rates)),
          time_text(result.latencies.percentile(0.5)),
          time_text(result.latencies.percentile(0.99)),
          ratio,
          result.textbook.empty() ? "-" : fmt::format("{:.1f}", median(result.textbook)),
          result.one.empty() ? "-" : fmt::format("{:.2f}", median(result.one))};
}

boost::json::object json_of(const Result& result) {
  boost::json::object object{{"scenario", result.scenario},
                             {"durable", result.load.durable},
                             {"writers", result.load.writers},
                             {"scopes", result.load.scopes},
                             {"batch", result.load.batch},
                             {"payload_bytes", result.load.payload_bytes},
                             {"rounds", result.rates.size()},
                             {"rows_per_second", median(result.rates)},
                             {"p50_us", us_of(result.latencies.percentile(0.5))},
                             {"p99_us", us_of(result.latencies.percentile(0.99))},
                             {"ratio", median(result.ratios)}};
  boost::json::array ratios;
  for (const double ratio : result.ratios) ratios.push_back(ratio);
  object["ratios"] = std::move(ratios);
  if (!result.textbook.empty()) object["times_textbook"] = median(result.textbook);
  if (!result.one.empty()) object["times_unfenced_one"] = median(result.one);
  return object;
}

// Raises the fences of the run's scopes before anything is timed, in a session whose commits are
// flushed.
void seal_scopes(Database& database, const std::vector<Load>& loads, bool json) {
  std::set<std::string> scopes;
  for (const Load& load : loads) {
    for (int index = 0; index < load.scopes; ++index) scopes.insert(load.scope(index));
  }
  const std::vector<std::string> names(scopes.begin(), scopes.end());
  Progress progress(!json);
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;  // guards failure
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        try {
          for (std::size_t at = next++; at < names.size() && !interrupted(); at = next++)
            database.check(Scope(names[at]), Term(1));
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
          next = names.size();
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

boost::json::array measure_scenarios(const Bench& bench, const Plan& plan) {
  const std::vector<Load> loads = loads_of(plan, bench);
  seal_scopes(bench.database, loads, bench.json);
  std::vector<std::vector<std::string>> table;
  boost::json::array runs;
  Progress progress(!bench.json);
  const auto start = std::chrono::steady_clock::now();
  Warm warm;
  for (std::size_t at = 0; at < loads.size() && !interrupted(); ++at) {
    const Load& load = loads[at];
    const auto results = run_load(bench, plan, load, warm, [&](const std::string& scenario) {
      std::string left;
      if (at > 0) {
        const auto spent = std::chrono::steady_clock::now() - start;
        const auto ahead = spent / at * (loads.size() - at);
        left = fmt::format(
            ", about {} left",
            length(std::chrono::duration_cast<std::chrono::milliseconds>(ahead).count()));
      }
      progress.show(fmt::format("{} of {}: {}durable, {} writers, {} scopes, batches of {}: {}{}",
                                at + 1, loads.size(), load.durable ? "" : "not ", load.writers,
                                load.scopes, load.batch, scenario, left));
    });
    for (const Result& result : results) {
      table.push_back(cells_of(result));
      runs.push_back(json_of(result));
    }
  }
  if (!bench.json) {
    progress.show("");
    print_table({"SCENARIO", "DURABLE", "WRITERS", "SCOPES", "BATCH", "ROWS/S", "P50", "P99",
                 "TO UNFENCED", "TO TEXTBOOK", "TO UNFENCED ROW BY ROW"},
                table);
  }
  return runs;
}

std::string kernel() {
  utsname name{};
  return uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine) : "";
}

std::unique_ptr<Target> target_of(const Database& database, const std::string& url,
                                  const std::string& schema, const std::string& suffix) {
#ifdef TERMGATE_WITH_ODBC
  if (url.starts_with("odbc:") || url.starts_with("sqlserver:"))
    return odbc_target(url, schema, suffix);
#endif
#ifdef TERMGATE_WITH_SQLITE
  if (database.kind() == "sqlite") return sqlite_target(url, suffix);
#endif
#ifdef TERMGATE_WITH_POSTGRES
  if (database.kind() == "postgresql") return postgres_target(url, schema, suffix);
#endif
  throw UsageError(fmt::format("bench knows no {} databases", database.kind()));
}

// Long: one run, from its options to its report.
int run_bench(const Arguments& arguments) {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_wanted = true; };
  // A second Ctrl-C ends at once and leaves the tables.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  const bool quick = arguments.flag("quick");
  std::string url = arguments.database_url();
  OpenOptions open_options;
  open_options.schema = arguments.text_or("schema", open_options.schema);
  Database plain = Database::open(url, open_options);
  need_owner(plain, open_options.schema, "bench");
  const std::uint64_t seed =
      arguments.maybe("seed")
          ? static_cast<std::uint64_t>(arguments.integer("seed", 0, Term::max_value))
          : std::random_device{}();
  const std::string suffix = WriteId::random().text().substr(0, 8);
  const Workspace workspace(plain, open_options.schema, "termgate_bench_" + suffix, "bench");
  workspace.make(url);
  struct RemovePlace {
    const Workspace& workspace;
    const std::string url;
    ~RemovePlace() { workspace.remove(url); }
  };
  const RemovePlace remove_place{workspace, url};  // runs after the target has dropped its tables
  url = workspace.url(url);
  // This session raises the fences before anything is timed. Its commits are flushed, whatever the
  // URL says, where the session can choose that (not through ODBC).
  Database database = open_with_durability(url, open_options, true);
  std::unique_ptr<Target> target = target_of(database, url, open_options.schema, suffix);
  boost::json::object facts = target->facts();
  const Plan plan = plan_of(arguments, *target, quick);
  Bench bench{*target,
              database,
              suffix,
              seed,
              quick,
              arguments.json(),
              static_cast<int>(arguments.integer_or("rounds", quick ? 1 : 3, 1, 1000)),
              parse_seconds(arguments.text_or("seconds", quick ? "0.03" : "1")),
              static_cast<std::size_t>(arguments.integer_or("payload-bytes", 100, 0, 16 << 20))};

  boost::json::object document{{"database", database.kind()},
                               {"seed", seed},
                               {"cpus", std::thread::hardware_concurrency()},
                               {"kernel", kernel()},
                               {"facts", facts}};
  // Removes what was written, however the benchmark ends.
  struct Clear {
    Bench& bench;
    ~Clear() {
      bench.target.drop_tables();
      try {
        prune_streams(bench.database, "bench-" + bench.suffix, !bench.json);
      } catch (...) {
        // An error here would hide the one that ended the benchmark.
      }
    }
  };
  {
    const Clear clear{bench};
    const Flush flush = target->flush_time();
    document["flush"] = {{"p50_us", us_of(flush.p50)}, {"how", flush.how}};
    if (!bench.json) {
      std::string line = fmt::format("{}, {} CPUs, {}, seed {}", database.kind(),
                                     std::thread::hardware_concurrency(), kernel(), seed);
      for (const auto& fact : facts)
        line += fmt::format("\n  {} = {}", std::string_view(fact.key()),
                            std::string_view(fact.value().as_string()));
      print_line(
          fmt::format("{}\n  flush of the disk: {} ({})", line, time_text(flush.p50), flush.how));
      if (!target->can_be_durable())
        print_line("  the server flushes nothing (fsync = off): nothing here is durable");
      print_line("");
      std::fflush(stdout);
    }
    if (!plan.scenarios.empty()) document["runs"] = measure_scenarios(bench, plan);
    if (plan.takeover && !interrupted()) {
      document["takeover"] = measure_takeovers(
          bench, {static_cast<int>(arguments.integer_or("takeovers", quick ? 3 : 100, 1, 100'000)),
                  arguments.duration_or("grace", std::chrono::milliseconds(quick ? 100 : 1000))});
    }
    if (plan.lease && !interrupted()) {
      document["lease"] = measure_leases(
          bench, {static_cast<int>(arguments.integer_or("holders", quick ? 2 : 8, 1, 1000)),
                  std::max<std::chrono::nanoseconds>(bench.slice, std::chrono::milliseconds(100))});
    }
    if (plan.growth && !interrupted()) {
      document["growth"] = measure_growth(
          bench,
          {arguments.integer_or("growth-writes", quick ? 10'000 : 1'000'000, 1000, 1'000'000'000),
           static_cast<int>(
               arguments.integer_or("growth-scopes", quick ? 200 : 100'000, 10, 10'000'000))});
    }
  }
  document["interrupted"] = interrupted();
  if (bench.json) print_json(document);
  if (interrupted()) {
    fmt::print(stderr,
               "termgate: interrupted; what was measured before is complete, and the tables of "
               "this run are gone\n");
    return Exit::failed;
  }
  return Exit::done;
}

}  // namespace

void add_bench_command(std::vector<Command>& commands) {
  commands.push_back(
      {"bench",
       "measure fenced writes against the same writes without a fence",
       "Alternates each scenario with the unfenced write and prints rows a second, p50, p99 and "
       "ratios.\n"
       "  termgate bench --db postgresql://app@db/scratch --writers 8,64 --batches 1\n"
       "  termgate bench takeover --db postgresql://app@db/scratch       seals past a frozen "
       "writer, 100 times\n"
       "  termgate bench growth --db sqlite:scratch.db                   append as streams and "
       "scopes grow\n"
       "  termgate bench lease --db postgresql://app@db/app --seconds 60 latency of leases, to "
       "choose a TTL by\n"
       "Scenarios: unfenced, textbook, check-insert, append, append-each; on PostgreSQL also "
       "unfenced-rows, library-execute,\n"
       "library-write, library-append; through ODBC also unfenced-begin, unfenced-rows, "
       "unfenced-call, textbook-batch, library-write; "
       "takeover, growth and lease run alone; all. Ratios are medians over the rounds, with their "
       "range; each\nround is compared with its "
       "own "
       "unfenced run. At the end the tables bench_… are dropped and the streams' writes "
       "deleted.\nStreams and fences stay: use a database "
       "that you do not need.",
       [](po::options_description& o) {
         o.add_options()("scenario", po::value<std::vector<std::string>>()->composing(),
                         "what to measure; may be repeated")("writers", po::value<std::string>(),
                                                             "concurrent writers (1,8,64)")(
             "batches", po::value<std::string>(), "rows in one operation (1,10,100)")(
             "scopes", po::value<std::string>(),
             "the number of scopes (64); one scope is always measured too")(
             "durable", po::value<std::string>(), "commits flushed: yes, no or both (both)")(
             "seconds", po::value<std::string>(), "duration of each scenario in each round (1)")(
             "rounds", po::value<std::string>(), "rounds (3)")(
             "payload-bytes", po::value<std::string>(), "size of one row (100)")(
             "seed", po::value<std::string>(), "seed of the random choices (random)")(
             "quick", po::bool_switch(), "small values, a few seconds")(
             "takeovers", po::value<std::string>(), "number of takeovers (100)")(
             "grace", po::value<std::string>(), "grace period of takeover (1s)")(
             "growth-writes", po::value<std::string>(),
             "growth: maximum of writes in a stream (1000000)")(
             "growth-scopes", po::value<std::string>(), "growth: maximum of scopes (100000)")(
             "holders", po::value<std::string>(),
             "lease: holders at once, each with a lease of its own (8)");
       },
       {"scenario"},
       run_bench});
}

}  // namespace termgate::cli
