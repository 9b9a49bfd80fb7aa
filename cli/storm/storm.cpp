// storm: real processes against a real database, disturbed by a schedule, and judged afterwards by what they saw and what the rows show.
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
#include <set>
#include <thread>

#include <fmt/format.h>

#include <termgate/testkit/checker.hpp>

#include "output.hpp"
#include "commands/privileges.hpp"
#include "storm/storm.hpp"
#include "storm/clock.hpp"
#include "storm/faults.hpp"
#include "storm/hold.hpp"
#include "storm/log.hpp"
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

// The first signal ends the storm in order, with a verdict on what was; a second one at once.
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

// ---- the options -----------------------------------------------------------------------------------

std::vector<std::string> faults_of(const Arguments& arguments, const std::string& url, bool naive, bool proxies) {
  const bool sqlite = is_sqlite(url), sqlserver = engine_of(url) == Engine::sqlserver;
  std::vector<std::string> faults;
  const auto fits = [&](const Fault& fault) {
    if (sqlserver && !on_sqlserver(fault.name)) return false;
    if (sqlite && proxies) return fault.on_served;
    return (fault.on_sqlite || !sqlite) && (fault.on_naive || !naive) && (proxies ? fault.on_proxies : fault.on_direct);
  };
  const auto given = arguments.maybe("faults");
  if (!given) {
    for (const Fault& fault : all_faults()) {
      // Of the naive boundaries only that one is wrong about clocks; the others are to be found broken by their own mistakes.
      if (fault.name == "clock" && naive && arguments.text_or("naive", "") != "client-clock") continue;
      if (fits(fault)) faults.emplace_back(fault.name);
    }
    return faults;
  }
  if (*given == "none") return faults;
  for (std::size_t at = 0; at <= given->size();) {
    const std::size_t comma = std::min(given->find(',', at), given->size());
    const std::string word = given->substr(at, comma - at);
    const auto found = std::find_if(all_faults().begin(), all_faults().end(), [&](const Fault& fault) { return fault.name == word; });
    if (found == all_faults().end()) {
      std::string names;
      for (const Fault& fault : all_faults()) names += fmt::format("\n  {:<18}{}", fault.name, fault.what);
      throw UsageError(fmt::format("there is no fault \"{}\"; there are none, and with commas between them{}", word, names));
    }
    if (!fits(*found)) {
      if (sqlserver && !on_sqlserver(word)) throw UsageError(fmt::format("--faults {}: not on SQL Server", word));
      if (sqlite && proxies)
        throw UsageError(fmt::format("--faults {}: not with --proxies on SQLite, where no server stands behind the proxies", word));
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
  if (url.find(":memory:") != std::string::npos) throw UsageError("storm: an SQLite database in memory has one process; give a file");
#ifdef TERMGATE_WITH_ODBC
  const bool odbc = is_odbc(url);
#else
  constexpr bool odbc = false;
#endif
  if (!is_sqlite(url) && !odbc && !url.starts_with("postgres"))
    throw UsageError("storm runs on sqlite:PATH, postgresql://…, sqlserver://… and odbc:…");
  const bool sqlserver = engine_of(url) == Engine::sqlserver;
  if (sqlserver && !plan.naive.empty()) throw UsageError("--naive: on PostgreSQL and SQLite");
  if (odbc && arguments.has("proxies")) throw UsageError("--proxies: with postgresql://… or sqlite:PATH");
  if (!plan.naive.empty()) {
    const Naive* naive = find_naive(plan.naive);
    if (naive == nullptr) throw UsageError(fmt::format("there is no naive boundary \"{}\"; `--naive list` names them", plan.naive));
    if (!naive->on_sqlite && is_sqlite(url))
      throw UsageError(fmt::format("--naive {}: on PostgreSQL; SQLite's one write transaction makes it right", plan.naive));
  }
  if (arguments.has("proxies")) {
#ifdef TERMGATE_WITH_PROXY
    plan.proxies = static_cast<int>(arguments.integer("proxies", 1, 8));
#if !defined(TERMGATE_WITH_SQLITE_SERVER) || !defined(TERMGATE_WITH_POSTGRES)
    if (is_sqlite(url)) throw UsageError("--proxies: this termgate was built without PostgreSQL's wire before an SQLite file");
#endif
    if (!plan.naive.empty()) throw UsageError("--proxies: the proxies are the boundary there; not with --naive");
#else
    throw UsageError("--proxies: this termgate was built without its proxy");
#endif
  }
  if (const auto enforce = arguments.maybe("enforce")) {
    if (plan.proxies == 0) throw UsageError("--enforce is about the proxies of --proxies");
    if (*enforce != "on" && *enforce != "observe") throw UsageError(fmt::format("--enforce {}: one of on, observe is wanted", *enforce));
    plan.enforce = *enforce;
  }
  if (const auto command = arguments.maybe("server-restart")) {
    if (is_sqlite(url)) throw UsageError("--server-restart: an SQLite file has no server");
    if (sqlserver) throw UsageError("--server-restart: on PostgreSQL");
    if (!plan.naive.empty()) throw UsageError("--server-restart: not with --naive, whose mistakes need none");
    if (command->empty()) throw UsageError("--server-restart: which command?");
    plan.server_restart = *command;
  }
  if (const auto file = arguments.maybe("server-clock")) {
    if (is_sqlite(url)) throw UsageError("--server-clock: an SQLite file has no server");
    if (!plan.naive.empty()) throw UsageError("--server-clock: not with --naive, whose mistakes need none");
    if (!std::filesystem::is_regular_file(*file))
      throw UsageError(fmt::format("--server-clock {}: there is no such file; the server's FAKETIME_TIMESTAMP_FILE is meant", *file));
    plan.server_clock = std::filesystem::absolute(*file).string();
  }
  plan.leaders = static_cast<int>(arguments.integer_or("leaders", 3, 2, 64));
  plan.scopes = static_cast<int>(arguments.integer_or("scopes", 2, 1, 64));
  plan.writers = static_cast<int>(arguments.integer_or("writers", 2, 1, 64));
  plan.time = std::chrono::seconds(arguments.integer_or("seconds", 60, 1, 86'400));
  // What is wrong on purpose is judged every few seconds.
  const bool right = plan.naive.empty() && plan.enforce == "on";
  plan.round = right ? plan.time : std::chrono::nanoseconds(std::chrono::seconds(5));
  if (arguments.has("judge-every")) plan.round = arguments.duration_or("judge-every", milliseconds(5000));
  if (plan.round < std::chrono::seconds(1)) throw UsageError("--judge-every: from 1s");
  plan.pace = arguments.text_or("pace", "");
  if (!plan.pace.empty() && plan.pace != "full" && plan.pace != "usual")
    throw UsageError(fmt::format("--pace {}: one of usual, full is wanted", plan.pace));
  plan.ttl = arguments.duration_or("ttl", milliseconds(400));
  if (plan.ttl < milliseconds(100) || plan.ttl > milliseconds(60'000)) throw UsageError("--ttl: from 100ms to 60s");
  const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  plan.seed = static_cast<std::uint64_t>(arguments.integer_or("seed", static_cast<std::int64_t>(now / 1000 % 1'000'000), 0, INT64_MAX));
  // The seed, and what keeps a second storm of the same seed apart from the first one's streams.
  plan.names.run = fmt::format("{}_{:x}", plan.seed, now / 1'000'000 % 0xFFFFFFFF);
  plan.url = named(url, plan.names.application());
  plan.faults = faults_of(arguments, url, !plan.naive.empty(), plan.proxies > 0);
  // Grace and deadline of a takeover are by the server's clock.
  if (!plan.server_clock.empty()) {
    for (const std::string& fault : plan.faults) {
      if (holds(fault) && arguments.maybe("faults"))
        throw UsageError(fmt::format("--faults {}: not with --server-clock, by whose clock takeovers wait", fault));
    }
    std::erase_if(plan.faults, holds);
  }
  plan.program = std::filesystem::read_symlink("/proc/self/exe").string();
  return plan;
}

// ---- the database ----------------------------------------------------------------------------------

class Ground {
 public:
  Ground(const Arguments& arguments, Plan& plan)
      : plan_(plan), url_(named(arguments.database_url(), plan.names.application() + "-director")) {
    OpenOptions options;
    options.schema = plan.schema;
    options.connections_max = 8;
    if (engine_of(url_) == Engine::postgresql) {
      Database database = Database::open(url_, options);
      if (plan.naive.empty()) need_owner(database, plan.schema, "storm");
      const Workspace workspace(database, plan.schema, "termgate_storm_" + plan.names.run, "storm");
      schema_ = workspace.schema();
      url_ = workspace.url(url_);
      plan.url = workspace.url(plan.url);
    }
    if (plan.naive.empty()) {
      database_ = Database::open(url_, options);
      if (database_->installed_version() == 0) throw Error("storm: this database has no layer 1; `termgate init` installs it");
    }
    const auto sql = connect(url_);
    if (engine_of(url_) == Engine::postgresql) measure(arguments, *sql);
    try {
      if (!schema_.empty()) sql->run("CREATE SCHEMA " + schema_);
      for (const std::string& table : tables()) {
        sql->run("CREATE TABLE " + table +
                 " (op text NOT NULL, part bigint NOT NULL, scope text NOT NULL, term bigint NOT NULL, place bigint)");
        sql->run("CREATE INDEX " + table + "_by_op ON " + table + " (op)");
      }
      sql->run("CREATE TABLE " + plan.names.counters() + " (scope text PRIMARY KEY, n bigint NOT NULL)");
      for (int index = 0; index < plan.scopes; ++index) {
        for (const std::string& counter : {plan.names.scope(index), plan.names.beside(plan.names.scope(index))})
          sql->run("INSERT INTO " + plan.names.counters() + " VALUES ($1, 0)", {counter});
      }
      if (!plan.naive.empty())
        sql->run("CREATE TABLE " + plan.names.leases() +
                 " (scope text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL, expires_ms bigint NOT NULL)");
      Database::Protection protection;
      protection.scope_column = "scope";
      if (database_) database_->protect(plan.names.guarded(), protection);
      if (holding()) {
        sql->run("CREATE INDEX ON " + plan.names.adopted() + " (scope, term)");
        database_->adopt(plan.names.adopted(), "scope", "term");
        database_->protect(plan.names.adopted(), {.scope = "*"});
      }
    } catch (...) {
      clear();
      throw;
    }
  }

  std::optional<Database>& database() { return database_; }

  // What sessions of killed leaders were about, the server may still be about.
  void settle() {
    if (is_sqlite(url_)) return;
    const auto sql = connect(url_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);;) {
      const auto those = sessions_of(engine_of(url_), *sql, plan_.names.application(), INT32_MAX);
      if (those.empty()) return;
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) throw Unavailable("sessions of the storm do not end");
      if (now >= patience) end_sessions(engine_of(url_), *sql, those);
      std::this_thread::sleep_for(milliseconds(50));
    }
  }

  testkit::State state(std::vector<testkit::Row> pruned) {
    testkit::State state;
    std::set<std::pair<std::string, std::int64_t>> known;
    for (const testkit::Row& row : pruned) known.insert({row.sequence, *row.place});
    state.rows = std::move(pruned);
    const auto sql = connect(url_);
    std::string all;
    for (const std::string& table : tables()) all += (all.empty() ? "" : " UNION ALL ") + ("SELECT op, scope, term, place FROM " + table);
    for (const auto& row : sql->run(all).rows) {
      testkit::Row one{row[1], std::stoll(row[2]), row[0], {}, {}};
      if (!row[3].empty()) {
        const std::int64_t place = std::stoll(row[3]);
        one.gaps = place < 0;
        one.sequence = "counter of " + (one.gaps ? plan_.names.beside(row[1]) : row[1]);
        one.place = std::abs(place);
      }
      state.rows.push_back(std::move(one));
    }
    for (int index = 0; index < plan_.scopes; ++index) {
      const std::string scope = plan_.names.scope(index);
      // A naive boundary has no fence that could go down.
      state.fences[scope] = Term::max_value;
      if (!database_) continue;
      const auto fence = database_->fence(Scope(scope));
      state.fences[scope] = fence ? fence->term : 0;
      for (int at = 0; at < streams_a_scope; ++at) {
        const Stream stream(plan_.names.stream(scope, at));
        if (!database_->stream(stream)) continue;
        for (std::int64_t after = 0;;) {
          const auto page = database_->read_stream(stream, SequenceNo(after), 1000);
          for (const StreamWrite& write : page) {
            after = write.sequence_no.value();
            if (known.count({stream.name(), after}) != 0) continue;  // read, and then not pruned after all
            state.rows.push_back({write.scope, write.term.value(), write.payload.substr(0, write.payload.find('/')), stream.name(), after});
          }
          if (page.size() < 1000) break;
        }
      }
    }
    return state;
  }

  std::vector<Breach> verify() {
    std::vector<Breach> found;
    if (!database_) return found;
    for (Breach& finding : database_->verify()) {
      if (finding.scope.starts_with("storm-" + plan_.names.run + "-")) found.push_back(std::move(finding));
    }
    return found;
  }

  // Sessions that raises ended, by the audit.
  std::int64_t evictions() {
    std::int64_t all = 0;
    for (int index = 0; database_ && index < plan_.scopes; ++index) {
      for (const auto& row : database_->explain(Scope(plan_.names.scope(index)), 1'000'000).rows) {
        if (row[3].as_text() != "evict") continue;
        const auto detail = boost::json::parse(row[4].as_text());
        if (const auto* pids = detail.as_object().if_contains("pids")) all += static_cast<std::int64_t>(pids->as_array().size());
        else if (const auto* count = detail.as_object().if_contains("evicted")) all += count->to_number<std::int64_t>();  // SQL Server's
      }
    }
    return all;
  }

  // Takes away what the storm has made; fences stay, and the numbering of streams.
  // False: not all of it.
  bool clear() noexcept {
    try {
      for (int index = 0; database_ && index < plan_.scopes; ++index) {
        for (int at = 0; at < streams_a_scope; ++at) {
          const Stream stream(plan_.names.stream(plan_.names.scope(index), at));
          if (database_->stream(stream)) database_->prune(stream, SequenceNo(Term::max_value));
        }
      }
      if (database_) database_->unprotect(plan_.names.guarded());
      if (holding()) {
        database_->unadopt(plan_.names.adopted());
        database_->unprotect(plan_.names.adopted());
      }
    } catch (const std::exception&) {
      // The tables can go all the same.
    }
    try {
      const auto sql = connect(url_);
      for (const std::string& table :
           {plan_.names.rows(), plan_.names.guarded(), plan_.names.adopted(), plan_.names.counters(), plan_.names.leases()})
        sql->run("DROP TABLE IF EXISTS " + table);
      if (!schema_.empty()) sql->run("DROP SCHEMA IF EXISTS " + schema_);
      return true;
    } catch (const std::exception&) {
      // The caller is ending, perhaps because of an error that says more than this one.
      return false;
    }
  }

 private:
  std::vector<std::string> tables() const {
    if (holding()) return {plan_.names.rows(), plan_.names.guarded(), plan_.names.adopted()};
    if (database_) return {plan_.names.rows(), plan_.names.guarded()};
    return {plan_.names.rows()};
  }
  bool holding() const { return std::any_of(plan_.faults.begin(), plan_.faults.end(), holds); }

  // Whether the server has room for all connections, and what it allows.
  void measure(const Arguments& arguments, Sql& sql) {
    const std::int64_t room = std::stoll(
        sql.run("SELECT current_setting('max_connections')::bigint - count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            .rows[0][0]);
    const std::int64_t wanted = std::int64_t{plan_.leaders} * plan_.scopes * (2 * plan_.writers + 1) + 16 + 4 * plan_.proxies;
    if (wanted > room)
      throw UsageError(fmt::format("{} leaders, {} scopes and {} writers need up to {} connections, and the server has room for {}",
                                   plan_.leaders, plan_.scopes, plan_.writers, wanted, room));
    const auto at = std::find(plan_.faults.begin(), plan_.faults.end(), "prepare");
    if (at == plan_.faults.end() || sql.run("SELECT current_setting('max_prepared_transactions')").rows[0][0] != "0") return;
    if (arguments.maybe("faults")) throw UsageError("--faults prepare: this server's max_prepared_transactions is 0");
    plan_.faults.erase(at);
  }

  Plan& plan_;
  std::string url_;
  std::string schema_;  // made for the run, where the role's own place will not do; see Workspace
  std::optional<Database> database_;
};

// Reads every scope's fence all the time.
std::jthread look(const Plan& plan, Database database, Log& log) {
  return std::jthread([&plan, database, &log](std::stop_token stop) mutable {
    while (!stop.stop_requested()) {
      for (int index = 0; index < plan.scopes && !stop.stop_requested(); ++index) {
        const std::string scope = plan.names.scope(index);
        const std::int64_t number = log.begin('l', scope);
        try {
          const auto fence = database.fence(Scope(scope));
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

// ---- figures and verdict ---------------------------------------------------------------------------

struct Figures {
  std::size_t writes = 0, acknowledged = 0, stale = 0, stale_after_stop = 0, failed = 0, unanswered = 0, settled = 0, acquisitions = 0,
              takeovers = 0, looks = 0;
  std::map<std::string, std::size_t> codes;
};

Figures figures_of(const History& history, const std::vector<Crew::Stop>& stops) {
  Figures figures;
  const auto& operations = history.operations();
  std::map<std::string_view, bool> open;  // by write: once without an answer; then whether it was settled
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> acquired;  // scope and term: by which operation
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
    if (before != nullptr && before->scope == operations[i].scope && before->client != operations[i].client) ++figures.takeovers;
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
      if (stop.client == one.client && mine.client == one.client && mine.answered < stop.from && one.answered > stop.to) {
        ++figures.stale_after_stop;
        break;
      }
    }
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& one = operations[i];
    const auto found = open.find(one.id);
    if (one.kind == Operation::Kind::write && found != open.end() && one.outcome == Outcome::committed)
      found->second = true;  // TG001 says that this sending wrote nothing, not that an earlier one did not
  }
  figures.unanswered = open.size();
  for (const auto& [id, settled] : open) figures.settled += settled ? 1 : 0;
  return figures;
}

std::string again(const Plan& plan, const Arguments& arguments) {
  std::string text =
      fmt::format("termgate storm --seed {} --leaders {} --scopes {} --writers {} --seconds {} --ttl {}ms", plan.seed, plan.leaders,
                  plan.scopes, plan.writers, std::chrono::duration_cast<std::chrono::seconds>(plan.time).count(), plan.ttl.count());
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

struct Judgement {
  testkit::Verdict verdict;
  std::vector<Breach> findings;
  std::vector<Faults::Hostage> hostages;
  std::vector<std::string> unjudged;  // what could not be judged, and why
};

// Breaches first that show most with least: a wrong order in the rows needs no clock to be believed.
void sort_breaches(std::vector<testkit::Breach>& breaches) {
  const auto weight = [](const testkit::Breach& breach) {
    return std::pair(breach.kind == testkit::Breach::Kind::order  ? 0
                     : breach.kind == testkit::Breach::Kind::seal ? 1
                                                                  : 2,
                     breach.operations.size());
  };
  std::stable_sort(breaches.begin(), breaches.end(), [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
}

// Who got the terms that a breach is about: without it a history is hard to read.
void add_acquisitions(std::vector<testkit::Breach>& breaches, const std::vector<Operation>& operations) {
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
              [&](std::size_t a, std::size_t b) { return operations[a].invoked < operations[b].invoked; });
  }
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
    // The database's final state is missing; what clients saw of the fences can be judged without it.
    judgement.unjudged.push_back(fmt::format("the rows, for the database could not be read at the end: {}", error.what()));
    std::vector<Operation> seen;
    std::copy_if(history.operations().begin(), history.operations().end(), std::back_inserter(seen),
                 [](const Operation& one) { return one.kind != Operation::Kind::write; });
    testkit::State state;
    for (int index = 0; index < plan.scopes; ++index) state.fences[plan.names.scope(index)] = Term::max_value;
    judgement.verdict = testkit::check(seen, state);
    for (testkit::Breach& breach : judgement.verdict.breaches) breach.operations.clear();  // indices of another history
  }
  sort_breaches(judgement.verdict.breaches);
  if (judgement.unjudged.empty()) add_acquisitions(judgement.verdict.breaches, history.operations());
  return judgement;
}

int report(const Plan& plan, const Arguments& arguments, const History& history, const Judgement& judgement, const Crew& crew,
           const Faults& faults, std::int64_t evictions, double seconds, bool cleared, const std::string& logs) {
  const Figures figures = figures_of(history, crew.stops());
  const auto& verdict = judgement.verdict;
  const bool broken = !verdict.breaches.empty() || !judgement.findings.empty() || !judgement.hostages.empty();
  const char* word = broken ? "broken" : judgement.unjudged.empty() ? "kept" : "not judged";
  if (arguments.json()) {
    boost::json::array breaches, unjudged;
    for (const auto& breach : verdict.breaches) {
      breaches.push_back({{"law", testkit::law_of(breach.kind)},
                          {"kind", testkit::name_of(breach.kind)},
                          {"scope", breach.scope},
                          {"text", breach.text},
                          {"history", testkit::describe(breach, history.operations())}});
    }
    for (const Breach& finding : judgement.findings)
      breaches.push_back(
          {{"law", "verify"}, {"kind", finding.kind}, {"scope", finding.scope}, {"text", finding.detail}, {"history", finding.object}});
    for (const auto& [kind, scope, text] : judgement.hostages)
      breaches.push_back({{"law", "F4"}, {"kind", kind}, {"scope", scope}, {"text", text}, {"history", ""}});
    for (const std::string& what : judgement.unjudged) unjudged.emplace_back(what);
    boost::json::object done, failed;
    for (const auto& [name, count] : faults.done()) done[name] = count;
    for (const auto& [code, count] : figures.codes) failed[code] = count;
    print_json({{"verdict", word},
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
  print_line(fmt::format("storm {} on {}{}{}: {:.1f} s, {} leaders, {} scopes, {} writers for each, TTL {}", plan.seed,
                         name_of(engine_of(plan.url)), plan.naive.empty() ? "" : fmt::format(", naive boundary {}", plan.naive), proxies,
                         seconds, plan.leaders, plan.scopes, plan.writers, length(plan.ttl.count())));
  print_line(fmt::format("  writes        {} sent, {} acknowledged", figures.writes, figures.acknowledged));
  print_line(
      fmt::format("  refused       {} as stale, {} of them by leaders that had been stopped", figures.stale, figures.stale_after_stop));
  std::string failed;
  for (const auto& [code, count] : figures.codes) failed += fmt::format("{}{} {}", failed.empty() ? "" : ", ", code, count);
  print_line(fmt::format("  failed        {} otherwise{}", figures.failed, failed.empty() ? "" : ": " + failed));
  print_line(fmt::format("  unanswered    {}: {} settled by being sent again; of the rest {} had committed, {} had not", figures.unanswered,
                         figures.settled, verdict.unknown_committed, verdict.unknown_absent));
  print_line(fmt::format("  acquisitions  {}, {} of them from another leader; sessions evicted {}", figures.acquisitions, figures.takeovers,
                         evictions));
  std::string done;
  for (const auto& [name, count] : faults.done()) done += fmt::format("{}{} {}", done.empty() ? "" : ", ", name, count);
  print_line(fmt::format("  faults        {}", done.empty() ? "none" : done));
  if (faults.pieces_delayed() > 0)
    print_line(fmt::format("  delayed       {} pieces; {} of them left after what had come later on another connection",
                           faults.pieces_delayed(), faults.pieces_overtaken()));
  if (plan.naive.empty()) print_line(fmt::format("  looks         {} at the fences", figures.looks));
  for (const std::string& what : judgement.unjudged) print_line("  NOT JUDGED    " + printable(what));
  // A write of several rows is a breach for each of them: its history is told once.
  std::set<std::vector<std::size_t>> printed;
  std::size_t more = 0;
  for (const auto& breach : verdict.breaches) {
    if (printed.size() == 3 || !printed.insert(breach.operations).second) ++more;
    else print_line("\n" + testkit::describe(breach, history.operations()));
  }
  if (more > 0) print_line(fmt::format("and {}{} more breaches", verdict.breaches.size() >= 100 ? "at least " : "", more));
  for (const Breach& finding : judgement.findings)
    print_line(printable(fmt::format("verify: {} {} {}: {}", finding.kind, finding.scope, finding.object, finding.detail)));
  for (const auto& [kind, scope, text] : judgement.hostages)
    print_line(printable(fmt::format("F4 {}, scope \"{}\": {}", kind, scope, text)));
  print_line(broken                       ? "THE LAW IS BROKEN."
             : judgement.unjudged.empty() ? "The law is kept."
                                          : "No breach was seen, and not all could be judged.");
  if (broken) print_line("Again, by the same schedule: " + again(plan, arguments));
  if (cleared && plan.naive.empty()) print_line("Its tables and stream writes are gone; its fences stay, as fences do (F3).");
  const std::string tables =
      fmt::format("{}, {}, {}", plan.names.rows(), plan.names.counters(), plan.naive.empty() ? plan.names.guarded() : plan.names.leases());
  if (!cleared)
    print_line(logs.empty() ? fmt::format("Could not be taken away: tables {}", tables)
                            : fmt::format("Kept: tables {}; logs {}", tables, logs));
  return word == std::string_view("kept") ? Exit::done : Exit::failed;
}

// ---- the storm -------------------------------------------------------------------------------------

bool has(const Plan& plan, std::string_view fault) { return std::find(plan.faults.begin(), plan.faults.end(), fault) != plan.faults.end(); }

// The clocks of the storm's processes, where they are to be stepped and can be.
std::unique_ptr<Clocks> clocks_of(const Arguments& arguments, Plan& plan) {
  const auto given = arguments.maybe("libfaketime");
  if (!has(plan, "clock")) {
    if (given) throw UsageError("--libfaketime is about the fault \"clock\", which is not among these");
    return nullptr;
  }
  const std::string library = given ? *given : find_libfaketime();
  const std::string problem = library.empty()
                                  ? "libfaketime was not found (Debian's package libfaketime; --libfaketime PATH where it is elsewhere)"
                                  : libfaketime_problem(library, plan.folder, plan.program);
  if (problem.empty()) return std::make_unique<Clocks>(std::filesystem::absolute(library).string(), plan.folder, plan.ttl);
  if (given) throw UsageError("--libfaketime " + problem);
  if (arguments.maybe("faults")) throw UsageError("--faults clock: " + problem);
  std::erase(plan.faults, "clock");
  return nullptr;
}

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
  Log looks(plan.folder + "/looker.log");
  history.add(plan.folder + "/looker.log", "looker");
#ifdef TERMGATE_WITH_POSTGRES
  std::unique_ptr<Relay> relay_owner;
  std::unique_ptr<Proxies> proxies_owner;
  if (plan.proxies > 0) {
    try {
      proxies_owner = std::make_unique<Proxies>(plan);
      if (!proxies_owner->has_back() && has(plan, "cut-back")) {
        if (arguments.maybe("faults")) throw UsageError("--faults cut-back: the connection is encrypted");
        std::erase(plan.faults, "cut-back");
      }
    } catch (...) {
      ground.clear();
      throw;
    }
  } else if (has(plan, "lose") || has(plan, "delay") || has(plan, "half-open")) {
    try {
#ifdef TERMGATE_WITH_ODBC
      if (is_odbc(plan.url)) {
        const auto [host, port] = place_of_odbc(plan.url);
        relay_owner = std::make_unique<Relay>(plan.url, RelayTarget{.host = host, .port = port});
      } else
#endif
        relay_owner = std::make_unique<Relay>(plan.url);
      plan.relayed_url = relay_owner->url();
    } catch (const Error& error) {
      for (const char* fault : {"lose", "delay", "half-open"}) {
        if (arguments.maybe("faults") && has(plan, fault)) throw UsageError(fmt::format("--faults {}: {}", fault, error.what()));
        std::erase(plan.faults, fault);
      }
    }
  }
  std::vector<Relay*> relays;
  if (relay_owner) relays = {relay_owner.get()};
  if (proxies_owner) relays = proxies_owner->relays();
  Proxies* const proxies = proxies_owner.get();
#else
  const std::vector<Relay*> relays;
  Proxies* const proxies = nullptr;
#endif
  const auto begun = std::chrono::steady_clock::now();
  const auto end = begun + plan.time;
  Judgement judgement;
  int status = Exit::failed;
  {
    Crew crew(plan, history);
    Faults faults(plan, crew, history, ground.database(), relays, proxies);
    const bool right = plan.naive.empty() && plan.enforce == "on";
    do {
#ifdef TERMGATE_WITH_POSTGRES
      try {
        if (proxies != nullptr) proxies->start_all(milliseconds(20'000));
      } catch (...) {
        ground.clear();
        throw;
      }
#endif
      crew.start_all();
      std::jthread looker;
      if (ground.database()) looker = look(plan, *ground.database(), looks);
      const auto until = std::min(end, std::chrono::steady_clock::now() + plan.round);
      {
        Progress progress(!arguments.json());
        auto printed = begun;
        milliseconds cost{0};  // of the figures; they may grow long
        for (auto now = std::chrono::steady_clock::now(); now < until && !interrupted; now = std::chrono::steady_clock::now()) {
          crew.tick();
#ifdef TERMGATE_WITH_POSTGRES
          if (proxies != nullptr) proxies->tick();
#endif
          faults.tick();
          std::this_thread::sleep_for(milliseconds(5));
          if (now - printed < std::max(milliseconds(isatty(STDERR_FILENO) ? 250 : 10'000), 20 * cost)) continue;
          printed = now;
          history.read_on();
          const Figures figures = figures_of(history, crew.stops());
          cost = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - now);
          const std::string line = fmt::format("storm {}: {} of {} s: {} writes, {} refused as stale, {} takeovers, {} unanswered",
                                               plan.seed, std::chrono::duration_cast<std::chrono::seconds>(now - begun).count(),
                                               std::chrono::duration_cast<std::chrono::seconds>(plan.time).count(), figures.acknowledged,
                                               figures.stale, figures.takeovers, figures.unanswered);
          if (isatty(STDERR_FILENO)) progress.show(line);
          else if (!arguments.json()) fmt::print(stderr, "{}\n", line);
        }
      }
#ifdef TERMGATE_WITH_POSTGRES
      if (proxies != nullptr) proxies->resume_all();  // or leaders would wait for them
#endif
      faults.calm();
      crew.end_all(std::chrono::seconds(15));
      faults.calm();  // what was still being done to a connection then
      try {
        faults.finish();
      } catch (const Error&) {
        // judge() meets the same database.
      }
#ifdef TERMGATE_WITH_POSTGRES
      if (proxies != nullptr) proxies->end_all(std::chrono::seconds(5));
#endif
      if (looker.joinable()) {
        looker.request_stop();
        looker.join();
      }
      history.read_on();
      judgement = judge(plan, ground, history, faults);
      for (std::string& problem : faults.problems()) judgement.unjudged.push_back(std::move(problem));
    } while (judgement.verdict.breaches.empty() && judgement.hostages.empty() && judgement.unjudged.empty() &&
             std::chrono::steady_clock::now() < end && !interrupted);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (crew.ended_by_themselves() > 0)
      judgement.unjudged.push_back(fmt::format("{} leaders ended by themselves; what they say stands above", crew.ended_by_themselves()));
#ifdef TERMGATE_WITH_POSTGRES
    if (proxies != nullptr && proxies->ended_by_themselves() > 0)
      judgement.unjudged.push_back(
          fmt::format("{} proxies ended by themselves, the last one with: {}", proxies->ended_by_themselves(), proxies->last_words()));
#endif
    std::int64_t evictions = 0;
    try {
      evictions = ground.evictions();
    } catch (const Error&) {
      // Unjudged already.
    }
    const bool keep = arguments.flag("keep") || !judgement.findings.empty() || !judgement.hostages.empty() ||
                      (!judgement.verdict.breaches.empty() && right);
    folder.keep = keep;
    const bool cleared = !keep && ground.clear();
    status = report(plan, arguments, history, judgement, crew, faults, evictions, seconds, cleared, keep ? folder.path() : "");
  }
  return status;
}

}  // namespace
}  // namespace storm

void add_storm_command(std::vector<Command>& commands) {
  std::string help =
      "Leaders, real processes, take over from one another and write with many connections, while they are stopped (SIGSTOP), killed, cut "
      "off and blocked by a\n"
      "schedule that --seed repeats. Then what each of them saw is held against what the database holds (docs/evidence/storm.md). For a "
      "database that may be disturbed.\n\n"
      "  termgate storm --db postgresql://postgres@127.0.0.1/scratch --seconds 60\n"
      "  termgate storm --db postgresql://postgres@127.0.0.1/scratch --proxies 2     through proxies of its own, which are killed and cut "
      "off too\n"
      "  termgate storm --db postgresql://postgres@127.0.0.1/scratch --server-restart 'pg_ctl -D DIR -m immediate restart'\n"
      "  termgate storm --db sqlserver://USER:PASSWORD@127.0.0.1/scratch     through ODBC, and odbc:… to PostgreSQL too\n"
      "  termgate storm --db sqlite:scratch.db --proxies 2     the same before a file, beside a leader that writes it directly\n"
      "  termgate storm --db sqlite:scratch.db --naive max-term     a wrong boundary in the same storm; --naive list\n\n"
      "Exit status: 0 the law is kept, 1 it is broken or could not be judged, 2 wrong usage. Faults:\n";
  for (const storm::Fault& fault : storm::all_faults()) help += fmt::format("  {:<18}{}\n", fault.name, fault.what);
  commands.push_back(
      {"storm",
       "a stale-leader storm, checked afterwards",
       help,
       [](po::options_description& o) {
         const auto text = [] { return po::value<std::string>(); };
         o.add_options()("leaders", text(), "processes (default 3, 2 to 64)")("scopes", text(), "that they fight for (default 2)")(
             "writers", text(), "threads for each leader and scope (default 2)")("seconds", text(), "how long (default 60)")(
             "seed", text(), "of everybody's choices (default: from the clock)")("ttl", text(), "of the leases (default 400ms)")(
             "pace", text(),
             "of the writers: usual, with rests between writes and inside of them, or full, with hardly any (default usual)")(
             "faults", text(), "which, with commas between them; none (default: all that the database can have)")(
             "naive", text(), "a wrong boundary in the place of Termgate's; list names them")(
             "proxies", text(), "write through so many proxies, started by the storm, and let them check (1 to 8)")(
             "enforce", text(), "of the proxies: on, or observe, which is found broken (on)")(
             "libfaketime", text(), "the library that steps the leaders' and proxies' clocks (default: where Debian has it)")(
             "server-clock", text(), "the FAKETIME_TIMESTAMP_FILE of the PostgreSQL server, whose clock the storm is to step")(
             "server-restart", text(),
             "a command that kills the PostgreSQL server hard and starts it again; run by the shell every few seconds (PostgreSQL)")(
             "judge-every", text(), "judge in the middle too, and end at the first breach (default: at the end)")(
             "keep", po::bool_switch(), "leave tables and logs where they are");
       },
       {},
       storm::run});
  commands.push_back(
      {"storm-leader",
       "one leader of a storm",
       "Started by `termgate storm`.",
       [](po::options_description& o) {
         for (const char* name : {"who", "run", "seed", "scopes", "writers", "ttl", "pace", "naive", "log", "proxies", "skew"})
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
