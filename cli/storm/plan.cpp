// storm: parses its options: the boundary under test, the leaders, and the faults.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "output.hpp"
#include "storm/clock.hpp"
#include "storm/hold.hpp"
#include "storm/plan.hpp"
#include "storm/relay.hpp"

namespace termgate::cli::storm {

bool has(const Plan& plan, std::string_view fault) {
  return std::find(plan.faults.begin(), plan.faults.end(), fault) != plan.faults.end();
}

namespace {

std::vector<std::string> faults_of(const Arguments& arguments, const std::string& url, bool naive,
                                   bool proxies) {
  const bool sqlite = is_sqlite(url), sqlserver = engine_of(url) == Engine::sqlserver;
  std::vector<std::string> faults;
  const auto fits = [&](const Fault& fault) {
    if (sqlserver && !on_sqlserver(fault.name, proxies)) return false;
    return (fault.on_sqlite || !sqlite) && (fault.on_naive || !naive) &&
           (proxies ? fault.on_proxies : fault.on_direct);
  };
  const auto given = arguments.maybe("faults");
  if (!given) {
    for (const Fault& fault : all_faults()) {
      // Among the naive boundaries only client-clock depends on clocks; the rest must be caught by
      // their own mistakes.
      if (fault.name == "clock" && naive && arguments.text_or("naive", "") != "client-clock")
        continue;
      if (fits(fault)) faults.emplace_back(fault.name);
    }
    return faults;
  }
  if (*given == "none") return faults;
  for (std::size_t at = 0; at <= given->size();) {
    const std::size_t comma = std::min(given->find(',', at), given->size());
    const std::string word = given->substr(at, comma - at);
    const auto found = std::find_if(all_faults().begin(), all_faults().end(),
                                    [&](const Fault& fault) { return fault.name == word; });
    if (found == all_faults().end()) {
      std::string names;
      for (const Fault& fault : all_faults())
        names += fmt::format("\n  {:<18}{}", fault.name, fault.what);
      throw UsageError(fmt::format(
          "unknown fault \"{}\"; give none, or a list separated by commas of{}", word, names));
    }
    if (!fits(*found)) {
      if (sqlserver && !on_sqlserver(word, proxies))
        throw UsageError(fmt::format("--faults {}: not on SQL Server", word));
      const bool by_proxies = proxies ? !found->on_proxies : !found->on_direct;
      throw UsageError(fmt::format("--faults {}: not {}", word,
                                   by_proxies ? proxies ? "with --proxies" : "without --proxies"
                                   : naive    ? "with --naive"
                                              : "on SQLite"));
    }
    if (std::find(faults.begin(), faults.end(), word) == faults.end()) faults.push_back(word);
    at = comma + 1;
  }
  return faults;
}

}  // namespace

int list_naive(bool json) {
  boost::json::array all;
  std::vector<std::vector<std::string>> rows;
  for (const Naive& one : naive_boundaries()) {
    all.push_back({{"name", one.name}, {"what", one.what}});
    rows.push_back({std::string(one.name), std::string(one.what)});
  }
  if (json) print_json(all);
  else print_table({"NAME", "WHAT IS WRONG"}, rows);
  return Exit::done;
}

Plan plan_of(const Arguments& arguments) {
  Plan plan;
  const std::string url = arguments.database_url();
  plan.schema = arguments.text_or("schema", "termgate");
  plan.naive = arguments.text_or("naive", "");
  if (url.find(":memory:") != std::string::npos)
    throw UsageError("storm: an SQLite database in memory has one process; give a file");
#ifdef TERMGATE_WITH_ODBC
  const bool odbc = is_odbc(url);
#else
  constexpr bool odbc = false;
#endif
  if (!is_sqlite(url) && !odbc && !url.starts_with("postgres"))
    throw UsageError("storm runs on sqlite:PATH, postgresql://…, sqlserver://… and odbc:…");
  const bool sqlserver = engine_of(url) == Engine::sqlserver;
  if (sqlserver && !plan.naive.empty()) throw UsageError("--naive: on PostgreSQL and SQLite");
  if (arguments.has("proxies") && (is_sqlite(url) || (odbc && !url.starts_with("sqlserver://"))))
    throw UsageError("--proxies: with postgresql://… or sqlserver://…");
  if (!plan.naive.empty()) {
    const Naive* naive = find_naive(plan.naive);
    if (naive == nullptr)
      throw UsageError(
          fmt::format("unknown naive boundary \"{}\"; `--naive list` lists them", plan.naive));
    if (!naive->on_sqlite && is_sqlite(url))
      throw UsageError(fmt::format(
          "--naive {}: on PostgreSQL; SQLite's one write transaction makes it right", plan.naive));
  }
  if (arguments.has("proxies")) {
#ifdef TERMGATE_WITH_PROXY
    plan.proxies = static_cast<int>(arguments.integer("proxies", 1, 8));
    if (!plan.naive.empty())
      throw UsageError("--proxies: the proxies are the boundary there; not with --naive");
#else
    throw UsageError("--proxies: this termgate was built without its proxy");
#endif
  }
  if (const auto enforce = arguments.maybe("enforce")) {
    if (plan.proxies == 0) throw UsageError("--enforce is about the proxies of --proxies");
    if (*enforce != "on" && *enforce != "observe")
      throw UsageError(fmt::format("--enforce {}: must be on or observe", *enforce));
    plan.enforce = *enforce;
  }
  if (const auto command = arguments.maybe("server-restart")) {
    if (is_sqlite(url)) throw UsageError("--server-restart: an SQLite file has no server");
    if (sqlserver) throw UsageError("--server-restart: on PostgreSQL");
    if (!plan.naive.empty())
      throw UsageError("--server-restart: not with --naive, whose faults do not need it");
    if (command->empty()) throw UsageError("--server-restart: which command?");
    plan.server_restart = *command;
  }
  if (const auto file = arguments.maybe("server-clock")) {
    if (is_sqlite(url)) throw UsageError("--server-clock: an SQLite file has no server");
    if (!plan.naive.empty())
      throw UsageError("--server-clock: not with --naive, whose faults do not need it");
    if (!std::filesystem::is_regular_file(*file))
      throw UsageError(fmt::format(
          "--server-clock {}: no such file; give the server's FAKETIME_TIMESTAMP_FILE", *file));
    plan.server_clock = std::filesystem::absolute(*file).string();
  }
  plan.leaders = static_cast<int>(arguments.integer_or("leaders", 3, 2, 64));
  plan.scopes = static_cast<int>(arguments.integer_or("scopes", 2, 1, 64));
  plan.writers = static_cast<int>(arguments.integer_or("writers", 2, 1, 64));
  plan.time = std::chrono::seconds(arguments.integer_or("seconds", 60, 1, 86'400));
  // A boundary that is wrong on purpose is judged every few seconds.
  const bool right = plan.naive.empty() && plan.enforce == "on";
  plan.round = right ? plan.time : std::chrono::nanoseconds(std::chrono::seconds(5));
  if (arguments.has("judge-every"))
    plan.round = arguments.duration_or("judge-every", milliseconds(5000));
  if (plan.round < std::chrono::seconds(1)) throw UsageError("--judge-every: from 1s");
  plan.pace = arguments.text_or("pace", "");
  if (!plan.pace.empty() && plan.pace != "full" && plan.pace != "usual")
    throw UsageError(fmt::format("--pace {}: must be usual or full", plan.pace));
  plan.ttl = arguments.duration_or("ttl", milliseconds(400));
  if (plan.ttl < milliseconds(100) || plan.ttl > milliseconds(60'000))
    throw UsageError("--ttl: from 100ms to 60s");
  const auto now =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  plan.seed = static_cast<std::uint64_t>(arguments.integer_or(
      "seed", static_cast<std::int64_t>(now / 1000 % 1'000'000), 0, INT64_MAX));
  // The seed, and a suffix that distinguishes the streams of a second storm with the same seed.
  plan.names.run = fmt::format("{}_{:x}", plan.seed, now / 1'000'000 % 0xFFFFFFFF);
  plan.backend_url = url;
  plan.url = named(url, plan.names.application());
  plan.faults = faults_of(arguments, url, !plan.naive.empty(), plan.proxies > 0);
  // The grace and the deadline of a takeover use the server's clock, so `hold-…` faults cannot run
  // while it is stepped.
  if (!plan.server_clock.empty()) {
    for (const std::string& fault : plan.faults) {
      if (holds(fault) && arguments.maybe("faults"))
        throw UsageError(fmt::format(
            "--faults {}: not with --server-clock, because takeovers wait by that clock", fault));
    }
    std::erase_if(plan.faults, holds);
  }
  plan.program = std::filesystem::read_symlink("/proc/self/exe").string();
  return plan;
}

std::unique_ptr<Clocks> clocks_of(const Arguments& arguments, Plan& plan) {
  const auto given = arguments.maybe("libfaketime");
  if (!has(plan, "clock")) {
    if (given)
      throw UsageError("--libfaketime is about the fault \"clock\", which is not among these");
    return nullptr;
  }
  const std::string library = given ? *given : find_libfaketime();
  const std::string problem = library.empty()
                                  ? "libfaketime was not found (Debian's package libfaketime; "
                                    "--libfaketime PATH if it is elsewhere)"
                                  : libfaketime_problem(library, plan.folder, plan.program);
  if (problem.empty())
    return std::make_unique<Clocks>(std::filesystem::absolute(library).string(), plan.folder,
                                    plan.ttl);
  if (given) throw UsageError("--libfaketime " + problem);
  if (arguments.maybe("faults")) throw UsageError("--faults clock: " + problem);
  std::erase(plan.faults, "clock");
  return nullptr;
}

}  // namespace termgate::cli::storm
