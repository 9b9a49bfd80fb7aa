// storm: statistics, verdict and report (verdict.hpp).
#include "storm/verdict.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "output.hpp"
#include "storm/hold.hpp"

namespace termgate::cli::storm {
namespace {

std::string again(const Plan& plan, const Arguments& arguments) {
  std::string text = fmt::format(
      "termgate storm --seed {} --leaders {} --scopes {} --writers {} --seconds {} --ttl {}ms",
      plan.seed, plan.leaders, plan.scopes, plan.writers,
      std::chrono::duration_cast<std::chrono::seconds>(plan.time).count(), plan.ttl.count());
  if (const auto faults = arguments.maybe("faults")) text += " --faults " + *faults;
  if (const auto every = arguments.maybe("judge-every")) text += " --judge-every " + *every;
  if (!plan.server_restart.empty()) text += " --server-restart …";
  if (!plan.pace.empty()) text += " --pace " + plan.pace;
  if (!plan.server_clock.empty()) text += " --server-clock …";
  if (const auto library = arguments.maybe("libfaketime")) text += " --libfaketime " + *library;
  if (const auto schema = arguments.maybe("schema")) text += " --schema " + *schema;
  if (!plan.naive.empty()) text += " --naive " + plan.naive;
  if (plan.proxies > 0) text += fmt::format(" --proxies {}", plan.proxies);
  if (plan.enforce != "on") text += " --enforce " + plan.enforce;
  return text + " --db …";
}

// Puts first the breaches that need the least explanation: a wrong order of rows shows without any
// clock.
void sort_breaches(std::vector<testkit::Breach>& breaches) {
  const auto weight = [](const testkit::Breach& breach) {
    return std::pair(breach.kind == testkit::Breach::Kind::order  ? 0
                     : breach.kind == testkit::Breach::Kind::seal ? 1
                                                                  : 2,
                     breach.operations.size());
  };
  std::stable_sort(breaches.begin(), breaches.end(),
                   [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
}

// Adds to each breach who acquired its terms, without which a history is hard to read.
void add_acquisitions(std::vector<testkit::Breach>& breaches,
                      const std::vector<Operation>& operations) {
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> acquired;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].kind == Operation::Kind::raise && operations[i].outcome == Outcome::committed)
      acquired.try_emplace({operations[i].scope, operations[i].term}, i);
  }
  for (testkit::Breach& breach : breaches) {
    std::set<std::size_t> those(breach.operations.begin(), breach.operations.end());
    for (const std::size_t i : breach.operations) {
      const auto found = acquired.find({operations[i].scope, operations[i].term});
      if (found != acquired.end()) those.insert(found->second);
    }
    breach.operations.assign(those.begin(), those.end());
    std::sort(breach.operations.begin(), breach.operations.end(),
              [&](std::size_t a, std::size_t b) {
                return operations[a].invoked < operations[b].invoked;
              });
  }
}

}  // namespace

Figures figures_of(const History& history, const std::vector<Crew::Stop>& stops) {
  Figures figures;
  const auto& operations = history.operations();
  // By write id: writes that once got no answer, and whether their outcome became known later.
  std::map<std::string_view, bool> open;
  // The operation that acquired a term, by scope and term.
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> acquired;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& one = operations[i];
    if (one.kind == Operation::Kind::look) ++figures.looks;
    if (one.kind == Operation::Kind::raise && one.outcome == Outcome::committed) {
      ++figures.acquisitions;
      acquired[{one.scope, one.term}] = i;
    }
  }
  const Operation* before = nullptr;
  for (const auto& [at, i] : acquired) {
    if (before != nullptr && before->scope == operations[i].scope &&
        before->client != operations[i].client)
      ++figures.takeovers;
    before = &operations[i];
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& one = operations[i];
    if (one.kind != Operation::Kind::write) continue;
    ++figures.writes;
    if (one.outcome == Outcome::committed) ++figures.acknowledged;
    if (one.outcome == Outcome::unknown) open.try_emplace(one.id, false);
    if (one.outcome != Outcome::refused) continue;
    const std::string& code = history.answers()[i].code;
    if (code != "TG001") {
      ++figures.failed;
      ++figures.codes[code];
      continue;
    }
    ++figures.stale;
    const auto lease = acquired.find({one.scope, one.term});
    if (lease == acquired.end()) continue;
    const Operation& mine = operations[lease->second];
    for (const Crew::Stop& stop : stops) {
      if (stop.client == one.client && mine.client == one.client && mine.answered < stop.from &&
          one.answered > stop.to) {
        ++figures.stale_after_stop;
        break;
      }
    }
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& one = operations[i];
    const auto found = open.find(one.id);
    if (one.kind == Operation::Kind::write && found != open.end() &&
        one.outcome == Outcome::committed)
      // Only this settles it. TG001 says that one attempt wrote nothing; an earlier one may have.
      found->second = true;
  }
  figures.unanswered = open.size();
  for (const auto& [id, settled] : open) figures.settled += settled ? 1 : 0;
  return figures;
}

Judgement judge(const Plan& plan, Ground& ground, const History& history, const Faults& faults) {
  Judgement judgement;
  judgement.hostages = faults.hostages();
  try {
    ground.settle();
    const testkit::State state = ground.state(faults.pruned());
    judgement.verdict = testkit::check(history.operations(), state);
    judgement.findings = ground.verify();
  } catch (const Error& error) {
    // The database's final state is missing, but what clients saw of the fences can be judged
    // without it.
    judgement.unjudged.push_back(
        fmt::format("the rows, for the database could not be read at the end: {}", error.what()));
    std::vector<Operation> seen;
    std::copy_if(history.operations().begin(), history.operations().end(), std::back_inserter(seen),
                 [](const Operation& one) { return one.kind != Operation::Kind::write; });
    testkit::State state;
    for (int index = 0; index < plan.scopes; ++index)
      state.fences[plan.names.scope(index)] = Term::max_value;
    judgement.verdict = testkit::check(seen, state);
    // A breach's indices are those of `seen`, which the report does not have.
    for (testkit::Breach& breach : judgement.verdict.breaches) breach.operations.clear();
  }
  sort_breaches(judgement.verdict.breaches);
  if (judgement.unjudged.empty())
    add_acquisitions(judgement.verdict.breaches, history.operations());
  return judgement;
}

// Long: the questions of the verdict, in the order of the report.
int report(const Plan& plan, const Arguments& arguments, const History& history,
           const Judgement& judgement, const Crew& crew, const Faults& faults,
           std::int64_t evictions, double seconds, bool cleared, const std::string& logs) {
  const Figures figures = figures_of(history, crew.stops());
  const auto& verdict = judgement.verdict;
  const bool broken =
      !verdict.breaches.empty() || !judgement.findings.empty() || !judgement.hostages.empty();
  const char* word = broken ? "broken" : judgement.unjudged.empty() ? "kept" : "not judged";
  if (arguments.json()) {
    boost::json::array breaches, unjudged;
    for (const auto& breach : verdict.breaches) {
      breaches.push_back({{"guarantee", testkit::guarantee_of(breach.kind)},
                          {"kind", testkit::name_of(breach.kind)},
                          {"scope", breach.scope},
                          {"text", breach.text},
                          {"history", testkit::describe(breach, history.operations())}});
    }
    for (const Breach& finding : judgement.findings)
      breaches.push_back({{"guarantee", "verify"},
                          {"kind", finding.kind},
                          {"scope", finding.scope},
                          {"text", finding.detail},
                          {"history", finding.object}});
    for (const auto& [kind, scope, text] : judgement.hostages)
      breaches.push_back(
          {{"guarantee", "F4"}, {"kind", kind}, {"scope", scope}, {"text", text}, {"history", ""}});
    for (const std::string& what : judgement.unjudged) unjudged.emplace_back(what);
    boost::json::object done, failed;
    for (const auto& [name, count] : faults.done()) done[name] = count;
    for (const auto& [code, count] : figures.codes) failed[code] = count;
    print_json(
        {{"verdict", word},
         {"database", is_sqlite(plan.url)                        ? "sqlite"
                      : engine_of(plan.url) == Engine::sqlserver ? "sqlserver"
                                                                 : "postgresql"},
         {"proxies", plan.proxies},
         {"enforce", plan.proxies == 0 ? boost::json::value() : boost::json::value(plan.enforce)},
         {"naive", plan.naive.empty() ? boost::json::value() : boost::json::value(plan.naive)},
         {"seed", plan.seed},
         {"seconds", seconds},
         {"writes_sent", figures.writes},
         {"writes_committed", verdict.committed + verdict.unknown_committed},
         {"refused_stale", figures.stale},
         {"refused_after_stop", figures.stale_after_stop},
         {"failed", std::move(failed)},
         {"unanswered", figures.unanswered},
         {"unanswered_settled", figures.settled},
         {"unknown_committed", verdict.unknown_committed},
         {"unknown_absent", verdict.unknown_absent},
         {"acquisitions", figures.acquisitions},
         {"takeovers", figures.takeovers},
         {"evictions", evictions},
         {"looks", figures.looks},
         {"faults", std::move(done)},
         {"pieces_delayed", faults.pieces_delayed()},
         {"pieces_overtaken", faults.pieces_overtaken()},
         {"leaders_ended_by_themselves", crew.ended_by_themselves()},
         {"breaches", std::move(breaches)},
         {"unjudged", std::move(unjudged)},
         {"again", again(plan, arguments)}});
    return word == std::string_view("kept") ? Exit::done : Exit::failed;
  }
  std::string proxies;
  if (plan.proxies > 0)
    proxies = fmt::format(" through {} {}{}", plan.proxies, plan.proxies == 1 ? "proxy" : "proxies",
                          plan.enforce == "on" ? "" : ", which only observe");
  print_line(fmt::format(
      "storm {} on {}{}{}: {:.1f} s, {} leaders, {} scopes, {} writers for each, TTL {}", plan.seed,
      name_of(engine_of(plan.url)),
      plan.naive.empty() ? "" : fmt::format(", naive boundary {}", plan.naive), proxies, seconds,
      plan.leaders, plan.scopes, plan.writers, length(plan.ttl.count())));
  print_line(fmt::format("  writes        {} sent, {} acknowledged", figures.writes,
                         figures.acknowledged));
  print_line(fmt::format("  refused       {} as stale, {} of them by leaders that had been stopped",
                         figures.stale, figures.stale_after_stop));
  std::string failed;
  for (const auto& [code, count] : figures.codes)
    failed += fmt::format("{}{} {}", failed.empty() ? "" : ", ", code, count);
  print_line(fmt::format("  failed        {} otherwise{}", figures.failed,
                         failed.empty() ? "" : ": " + failed));
  print_line(fmt::format(
      "  unanswered    {}: {} settled by being sent again; of the rest {} had committed, {} had "
      "not",
      figures.unanswered, figures.settled, verdict.unknown_committed, verdict.unknown_absent));
  print_line(fmt::format("  acquisitions  {}, {} of them from another leader; sessions evicted {}",
                         figures.acquisitions, figures.takeovers, evictions));
  std::string done;
  for (const auto& [name, count] : faults.done())
    done += fmt::format("{}{} {}", done.empty() ? "" : ", ", name, count);
  print_line(fmt::format("  faults        {}", done.empty() ? "none" : done));
  if (faults.pieces_delayed() > 0)
    print_line(
        fmt::format("  delayed       {} pieces; {} of them left after what had come later on "
                    "another connection",
                    faults.pieces_delayed(), faults.pieces_overtaken()));
  if (plan.naive.empty())
    print_line(fmt::format("  looks         {} at the fences", figures.looks));
  for (const std::string& what : judgement.unjudged)
    print_line("  NOT JUDGED    " + printable(what));
  // A write of several rows is a breach for each row; its history is printed once.
  std::set<std::vector<std::size_t>> printed;
  std::size_t more = 0;
  for (const auto& breach : verdict.breaches) {
    if (printed.size() == 3 || !printed.insert(breach.operations).second) ++more;
    else print_line("\n" + testkit::describe(breach, history.operations()));
  }
  if (more > 0)
    print_line(fmt::format("and {}{} more breaches",
                           verdict.breaches.size() >= 100 ? "at least " : "", more));
  for (const Breach& finding : judgement.findings)
    print_line(printable(fmt::format("verify: {} {} {}: {}", finding.kind, finding.scope,
                                     finding.object, finding.detail)));
  for (const auto& [kind, scope, text] : judgement.hostages)
    print_line(printable(fmt::format("F4 {}, scope \"{}\": {}", kind, scope, text)));
  print_line(broken                       ? "A GUARANTEE IS BROKEN."
             : judgement.unjudged.empty() ? "All guarantees kept."
                                          : "No breach was seen, and not all could be judged.");
  if (broken) print_line("Again, by the same schedule: " + again(plan, arguments));
  if (cleared && plan.naive.empty())
    print_line("Its tables and stream writes are gone; its fences stay, as fences do (F3).");
  const std::string tables =
      fmt::format("{}, {}, {}", plan.names.rows(), plan.names.counters(),
                  plan.naive.empty() ? plan.names.guarded() : plan.names.leases());
  if (!cleared)
    print_line(logs.empty() ? fmt::format("Could not be taken away: tables {}", tables)
                            : fmt::format("Kept: tables {}; logs {}", tables, logs));
  return word == std::string_view("kept") ? Exit::done : Exit::failed;
}

}  // namespace termgate::cli::storm
