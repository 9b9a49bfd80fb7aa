// storm: the database's part (ground.hpp).
#include "storm/ground.hpp"

#include <algorithm>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "commands/privileges.hpp"
#include "output.hpp"
#include "storm/hold.hpp"

namespace termgate::cli::storm {

Ground::Ground(const Arguments& arguments, Plan& plan)
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
    if (Operator(*database_).installed_version() == 0)
      throw Error("storm: this database has no layer 1; `termgate init` installs it");
  }
  const auto sql = connect(url_);
  if (engine_of(url_) == Engine::postgresql) measure(arguments, *sql);
  try {
    if (!schema_.empty()) sql->run("CREATE SCHEMA " + schema_);
    for (const std::string& table : tables()) {
      sql->run("CREATE TABLE " + table +
               " (op text NOT NULL, part bigint NOT NULL, scope text NOT NULL, term bigint NOT "
               "NULL, place bigint)");
      sql->run("CREATE INDEX " + table + "_by_op ON " + table + " (op)");
    }
    sql->run("CREATE TABLE " + plan.names.counters() +
             " (scope text PRIMARY KEY, n bigint NOT NULL)");
    for (int index = 0; index < plan.scopes; ++index) {
      for (const std::string& counter :
           {plan.names.scope(index), plan.names.beside(plan.names.scope(index))})
        sql->run("INSERT INTO " + plan.names.counters() + " VALUES ($1, 0)", {counter});
    }
    if (!plan.naive.empty())
      sql->run("CREATE TABLE " + plan.names.leases() +
               " (scope text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL, expires_ms "
               "bigint NOT NULL)");
    Protection protection;
    protection.scope_column = "scope";
    if (database_) Operator(*database_).protect(plan.names.guarded(), protection);
    if (holding()) {
      sql->run("CREATE INDEX ON " + plan.names.adopted() + " (scope, term)");
      Operator(*database_).adopt(plan.names.adopted(), "scope", "term");
      Operator(*database_).protect(plan.names.adopted(), {.scope = "*"});
    }
  } catch (...) {
    clear();
    throw;
  }
}

void Ground::settle() {
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

testkit::State Ground::state(std::vector<testkit::Row> pruned) {
  testkit::State state;
  std::set<std::pair<std::string, std::int64_t>> known;
  for (const testkit::Row& row : pruned) known.insert({row.sequence, *row.place});
  state.rows = std::move(pruned);
  const auto sql = connect(url_);
  std::string all;
  for (const std::string& table : tables())
    all += (all.empty() ? "" : " UNION ALL ") + ("SELECT op, scope, term, place FROM " + table);
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
    // A naive boundary has no fence, so any final fence is accepted.
    state.fences[scope] = Term::max_value;
    if (!database_) continue;
    const auto fence = Info(*database_).fence(Scope(scope));
    state.fences[scope] = fence ? fence->term : 0;
    for (int at = 0; at < streams_a_scope; ++at) {
      const Stream stream(plan_.names.stream(scope, at));
      if (!Info(*database_).stream(stream)) continue;
      for (std::int64_t after = 0;;) {
        const auto page = Info(*database_).read_stream(stream, SequenceNo(after), 1000);
        for (const StreamWrite& write : page) {
          after = write.sequence_no.value();
          // Already read for pruning, but not pruned after all.
          if (known.count({stream.name(), after}) != 0) continue;
          state.rows.push_back({write.scope, write.term.value(),
                                write.payload.substr(0, write.payload.find('/')), stream.name(),
                                after});
        }
        if (page.size() < 1000) break;
      }
    }
  }
  return state;
}

std::vector<Breach> Ground::verify() {
  std::vector<Breach> found;
  if (!database_) return found;
  for (Breach& finding : Operator(*database_).verify()) {
    if (finding.scope.starts_with("storm-" + plan_.names.run + "-"))
      found.push_back(std::move(finding));
  }
  return found;
}

std::int64_t Ground::evictions() {
  std::int64_t all = 0;
  for (int index = 0; database_ && index < plan_.scopes; ++index) {
    const Rows events = Operator(*database_).explain(Scope(plan_.names.scope(index)), 1'000'000);
    for (const Row& each : events.rows) {
      const termgate::detail::NamedRow row(events, each);
      if (row["action"].as_text() != "evict") continue;
      const auto detail = boost::json::parse(row["detail"].as_text());
      if (const auto* pids = detail.as_object().if_contains("pids"))
        all += static_cast<std::int64_t>(pids->as_array().size());
      else if (const auto* count = detail.as_object().if_contains("evicted"))
        all += count->to_number<std::int64_t>();  // SQL Server reports only a number
    }
  }
  return all;
}

bool Ground::clear() noexcept {
  try {
    for (int index = 0; database_ && index < plan_.scopes; ++index) {
      for (int at = 0; at < streams_a_scope; ++at) {
        const Stream stream(plan_.names.stream(plan_.names.scope(index), at));
        if (Info(*database_).stream(stream))
          Operator(*database_).prune(stream, SequenceNo(Term::max_value));
      }
    }
    if (database_) Operator(*database_).unprotect(plan_.names.guarded());
    if (holding()) {
      Operator(*database_).unadopt(plan_.names.adopted());
      Operator(*database_).unprotect(plan_.names.adopted());
    }
  } catch (const std::exception&) {
    // The tables can be dropped even so.
  }
  try {
    const auto sql = connect(url_);
    for (const std::string& table :
         {plan_.names.rows(), plan_.names.guarded(), plan_.names.adopted(), plan_.names.counters(),
          plan_.names.leases()})
      sql->run("DROP TABLE IF EXISTS " + table);
    if (!schema_.empty()) sql->run("DROP SCHEMA IF EXISTS " + schema_);
    return true;
  } catch (const std::exception&) {
    // The caller is ending, perhaps because of an error that is more useful than this one.
    return false;
  }
}

std::vector<std::string> Ground::tables() const {
  if (holding()) return {plan_.names.rows(), plan_.names.guarded(), plan_.names.adopted()};
  if (database_) return {plan_.names.rows(), plan_.names.guarded()};
  return {plan_.names.rows()};
}

void Ground::measure(const Arguments& arguments, Sql& sql) {
  const std::int64_t room =
      std::stoll(sql.run("SELECT current_setting('max_connections')::bigint - count(*) FROM "
                         "pg_stat_activity WHERE backend_type = 'client backend'")
                     .rows[0][0]);
  const std::int64_t wanted =
      std::int64_t{plan_.leaders} * plan_.scopes * (2 * plan_.writers + 1) + 16 + 4 * plan_.proxies;
  if (wanted > room)
    throw UsageError(
        fmt::format("{} leaders, {} scopes and {} writers need up to {} connections, and the "
                    "server has room for {}",
                    plan_.leaders, plan_.scopes, plan_.writers, wanted, room));
  const auto at = std::find(plan_.faults.begin(), plan_.faults.end(), "prepare");
  if (at == plan_.faults.end() ||
      sql.run("SELECT current_setting('max_prepared_transactions')").rows[0][0] != "0")
    return;
  if (arguments.maybe("faults"))
    throw UsageError("--faults prepare: this server's max_prepared_transactions is 0");
  plan_.faults.erase(at);
}

}  // namespace termgate::cli::storm
