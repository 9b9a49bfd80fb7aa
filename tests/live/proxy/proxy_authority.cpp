// proxy/authority against a real PostgreSQL: [F4] how soon a raise made elsewhere is heard; forged
// notifications; a lost connection; hosts that come at once; refusals in the audit. Takeovers are
// in proxy_f4_test.py, several databases in proxy_databases_test.py.
#include <catch2/catch.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <termgate/authority/authority.hpp>
#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include "support/authority_support.hpp"
#include "support/pg_session.hpp"

using namespace std::chrono_literals;
using namespace termgate;
using namespace termgate::authority;
using termgate::test::Gathered;
using termgate::test::PgDatabase;
using termgate::test::PgSession;
using termgate::test::ScratchFolder;
using termgate::test::Visit;
using termgate::test::wait_until;

namespace {

PgDatabase& database() {
  static PgDatabase one("authority");
  Visit::database = one.url().substr(one.url().rfind('/') + 1);
  return one;
}

struct Gate {
  explicit Gate(const std::string& rules, const std::string& url = database().url()) {
    settings.rules_path = folder.put("rules", rules);
    settings.database_url = url;
    settings.machine = "gate1";
    settings.fences_pause = 1h;  // so that only what is heard is seen
    settings.log = [this](Settings::Weight, std::string_view line) { log.add(std::string(line)); };
  }
  bool logged(const std::string& part) const {
    for (const auto& line : log.all()) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
  ScratchFolder folder;
  Gathered<std::string> log;
  Settings settings;
};

// For the database that the gate's URL names.
conversation::Fences& known(Authority& authority) {
  static std::map<Authority*, std::shared_ptr<conversation::Fences>> all;
  auto& fences = all[&authority];
  fences = nullptr;
  wait_until("the database to be known",
             [&] { return (fences = authority.fences(Visit::database)) != nullptr; });
  return *fences;
}

std::string fresh_scope() {
  static int number = 0;
  return "authority " + std::to_string(++number);
}

std::string rule(const std::string& scope, const std::string& takeover,
                 const std::string& ttl = "1 s") {
  return "[rule one]\nlease = " + scope + "\nttl = " + ttl + "\ntakeover = " + takeover + "\n";
}

void await_listening(const Authority& authority) {
  wait_until("the proxy to watch", [&] { return authority.watching().backend; });
}

void notify(PgSession& session, const std::string& scope) {
  session.must("SELECT termgate.notify_raised('" + scope + "')");
}

}  // namespace

TEST_CASE("proxy authority: a notice is heard at once and a forged notification is not believed",
          "[F2][F4][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  // Before the authority, whose thread adds to it until the end.
  Gathered<std::pair<std::string, std::int64_t>> seen;
  Authority authority(gate.settings);
  authority.subscribe([&](std::uint64_t, std::string_view of, std::int64_t fence) {
    seen.add({std::string(of), fence});
  });
  PgSession db(database().url());
  await_listening(authority);
  const auto start = std::chrono::steady_clock::now();
  db.must("SELECT * FROM termgate.seal('" + scope + "', 5)");
  notify(db, scope);
  REQUIRE(seen.await({scope, 5}));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  CAPTURE(took.count());
  CHECK(took < 1000ms);
  CHECK(known(authority).highest(scope) == 5);

  PgSession nobody(database().url_as("authority_nobody", ""));
  nobody.must("SELECT pg_notify('termgate', '{\"scope\":\"" + scope +
              "\",\"term\":9,\"schema\":\"termgate\"}')");
  nobody.must("SELECT pg_notify('termgate', 'nonsense')");
  nobody.must("SELECT pg_notify('termgate', '{\"scope\":\"unheard of " + scope +
              "\",\"term\":9,\"schema\":\"termgate\"}')");
  nobody.must(
      "SELECT pg_notify('termgate', '{\"scope\":\"s' || i || "
      "'\",\"term\":9,\"schema\":\"termgate\"}') FROM generate_series(1, 3000) i");
  db.must("SELECT * FROM termgate.seal('" + scope + "', 6)");
  notify(db, scope);
  REQUIRE(seen.await({scope, 6}));
  CHECK(known(authority).highest(scope) == 6);
  CHECK(known(authority).highest("s1") == 0);
  CHECK(known(authority).highest("unheard of " + scope) == 0);
}

TEST_CASE("proxy authority: what was raised while the connection was lost is read afterwards",
          "[F2][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  Authority authority(gate.settings);
  PgSession db(database().url());
  await_listening(authority);
  db.must(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "
      "current_database() AND application_name = 'termgate "
      "watch'; "
      "SELECT * FROM termgate.seal('" +
      scope + "', 5)");
  wait_until("the raise", [&] { return known(authority).highest(scope) == 5; });
  CHECK(gate.logged("cannot watch for fence changes (retrying)"));
  wait_until("the log", [&] { return gate.logged("are watched again"); });
  db.must("SELECT * FROM termgate.seal('" + scope + "', 6)");
  notify(db, scope);
  wait_until("the next raise", [&] { return known(authority).highest(scope) == 6; });
}

TEST_CASE("proxy authority: level lead is not enough for newest and the client is told",
          "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "newest", "30 s"), database().url_as("authority_lead", "lead"));
  Authority authority(gate.settings);
  Visit first(authority, "127.0.0.1");
  first.establish();
  REQUIRE(first.term() == 1);
  Visit second(authority, "127.0.0.2");
  second.establish();
  CHECK(second.term() == 0);
  CHECK_THAT(second.why_not(),
             Catch::Contains("cannot be taken") && Catch::Contains("force_release"));
  CHECK(first.term() == 1);
}

TEST_CASE("proxy authority: a lease outlives a short loss of the database", "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait", "3 s"));
  Authority authority(gate.settings);
  PgSession db(database().url());
  Visit visit(authority, "127.0.0.1");
  visit.establish();
  REQUIRE(visit.term() == 1);
  db.must(
      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "
      "current_database() AND pid <> pg_backend_pid()");
  std::this_thread::sleep_for(4s);
  CHECK(visit.term() == 1);
  // Ended by an operator it is lost, and taken again under a new term.
  db.must("SELECT termgate.force_release('" + scope + "', 'operator', 'to see')");
  wait_until("a new term", [&] { return visit.term() > 1; });
}

TEST_CASE("proxy authority: refusals are written to the audit once a second", "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("", database().url_as("authority_lead", "lead"));
  Authority authority(gate.settings);
  PgSession db(database().url());
  db.must("SELECT termgate.seal('" + scope + "', 4)");
  known(authority);
  const auto refused = [&](int times) {
    for (int i = 0; i < times; ++i)
      authority.happened(Visit::database, {.kind = conversation::Incident::Kind::refused,
                                           .scope = scope,
                                           .term = 3,
                                           .code = "TG001",
                                           .from_memory = true});
  };
  const auto reports = [&] {
    return db.value(
        "SELECT string_agg(concat(detail ->> 'client', ' ', detail ->> 'count'), ', ' "
        "ORDER BY id) FROM termgate.audit WHERE action = 'refuse' AND scope = '" +
        scope + "'");
  };
  refused(1000);
  wait_until("the first report", [&] { return reports() == "proxy 1000"; });
  refused(1);
  wait_until("the second report", [&] { return reports() == "proxy 1000, proxy 1"; });
}

TEST_CASE("proxy authority: several hosts at once come to one holder and one term at a time",
          "[F1][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait", "2 s"));
  Authority one(gate.settings);
  Authority two(gate.settings);
  PgSession db(database().url());
  std::vector<std::unique_ptr<Visit>> visits;
  for (int host = 1; host <= 4; ++host) {
    visits.push_back(std::make_unique<Visit>(one, "127.0.0." + std::to_string(host)));
    visits.push_back(std::make_unique<Visit>(two, "127.0.0." + std::to_string(host)));
  }
  std::vector<std::thread> arrivals;
  for (auto& visit : visits) arrivals.emplace_back([&visit] { visit->establish(); });
  for (auto& arrival : arrivals) arrival.join();
  // Two proxies that saw the lease free in the same moment settle on one term within a renewal.
  const auto holders = [&] {
    std::vector<std::size_t> holding;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      if (visits[i]->term() != 0) holding.push_back(i);
    }
    return holding;
  };
  wait_until("one host through both proxies", [&] {
    const auto now = holders();
    return now.size() == 2 && now[0] / 2 == now[1] / 2 &&
           visits[now[0]]->term() == visits[now[1]]->term();
  });
  CHECK(one.leads(scope));
  CHECK(two.leads(scope));
  CHECK(std::to_string(visits[holders()[0]]->term()) ==
        db.value("SELECT term FROM termgate.fence('" + scope + "')"));
}

TEST_CASE(
    "proxy authority: a database without layer 1 or without a place is not refused anything from "
    "memory",
    "[live][authority]") {
  const auto scope = fresh_scope();
  PgSession admin(database().url());
  const std::string server = database().url().substr(0, database().url().rfind('/') + 1);
  admin.run("DROP DATABASE IF EXISTS authority_bare");
  admin.must("CREATE DATABASE authority_bare");
  Gate gate("");
  gate.settings.fences_pause = 1s;  // a raise by plain SQL notifies nobody: it is found by reading
  Authority authority(gate.settings);
  known(authority);
  const auto bare = authority.fences("authority_bare");
  CHECK(bare->highest(scope) == 0);
  wait_until("the log", [&] {
    return gate.logged("cannot watch for fence changes of database \"authority_bare\"");
  });
  CHECK(gate.logged("Termgate is not installed there"));
  const auto missing = authority.fences("authority \"is\" not=there?&host=elsewhere");
  CHECK(missing->highest(scope) == 0);
  wait_until("the log", [&] { return gate.logged("not=there?&host=elsewhere\" does not exist"); });
  // Once it is installed it is watched.
  Operator(Database::open(server + "authority_bare")).install();
  PgSession there(server + "authority_bare");
  for (const int term : {3, 4}) {
    for (PgSession* session : {&there, &admin})
      session->must("SELECT * FROM termgate.seal('" + scope + "', " + std::to_string(term) + ")");
    wait_until("the fence there", [&] { return bare->highest(scope) == term; });
    wait_until("the fence here", [&] { return known(authority).highest(scope) == term; });
  }
  admin.run("DROP DATABASE authority_bare WITH (FORCE)");
}

TEST_CASE("proxy authority: a lease is no term for a session of another database",
          "[F2][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait"), database().url_as("authority_lead", "lead"));
  Authority authority(gate.settings);
  known(authority);
  const std::string own = Visit::database;
  Visit::database = "authority_elsewhere";
  Visit there(authority, "192.0.2.7");
  Visit::database = own;
  CHECK(there.establish() < 5s);
  CHECK(there.term() == 0);
  CHECK_THAT(there.why_not(), Catch::Contains("in \"authority_elsewhere\""));
  CHECK(authority.leases_held() == 0);
  Visit here(authority, "192.0.2.7");
  here.establish();
  CHECK(here.term() == 1);
  CHECK(there.term() == 0);
}
