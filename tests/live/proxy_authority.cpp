// proxy/authority against a real PostgreSQL: [F2] two hosts behind two proxies, both takeover modes, with a frozen transaction in the way; [F4] how soon a raise made
// elsewhere is heard; forged notifications; a lost connection; what a role of level lead may do; refusals in the audit.
#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <termgate/authority/authority.hpp>
#include <termgate/database.hpp>

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
  return one;
}

struct Gate {
  explicit Gate(const std::string& rules, const std::string& url = database().url()) {
    settings.rules_path = folder.put("rules", rules);
    settings.database_url = url;
    settings.machine = "gate1";
    settings.fences_pause = 1h;  // so that only what is heard is seen
    settings.log = [this](std::string_view line) { log.add(std::string(line)); };
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

std::string fresh_scope() {
  static int number = 0;
  return "authority " + std::to_string(++number);
}

std::string rule(const std::string& scope, const std::string& takeover, const std::string& ttl = "1 s") {
  return "[rule one]\nlease = " + scope + "\nttl = " + ttl + "\ntakeover = " + takeover + "\n";
}

void await_listening(PgSession& observer) {
  wait_until("the proxy to listen",
             [&] { return observer.value("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%termgate%'") != "0"; });
}

}  // namespace

TEST_CASE("proxy authority: a raise in plain SQL is heard and a forged notification is not believed", "[F2][F4][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  // Before the authority, whose thread adds to it until the end.
  Gathered<std::pair<std::string, std::int64_t>> seen;
  Authority authority(gate.settings);
  authority.subscribe([&](std::string_view of, std::int64_t fence) { seen.add({std::string(of), fence}); });
  PgSession db(database().url());
  await_listening(db);
  const auto start = std::chrono::steady_clock::now();
  db.must("SELECT * FROM termgate.seal('" + scope + "', 5)");
  REQUIRE(seen.await({scope, 5}));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  CAPTURE(took.count());
  CHECK(took < 1000ms);
  CHECK(authority.highest_fence(scope) == 5);

  PgSession nobody(database().url_as("authority_nobody", ""));
  nobody.must("SELECT pg_notify('termgate', '{\"scope\":\"" + scope + "\",\"term\":9,\"schema\":\"termgate\"}')");
  nobody.must("SELECT pg_notify('termgate', 'nonsense')");
  nobody.must("SELECT pg_notify('termgate', '{\"scope\":\"unheard of " + scope + "\",\"term\":9,\"schema\":\"termgate\"}')");
  nobody.must("SELECT pg_notify('termgate', '{\"scope\":\"s' || i || '\",\"term\":9,\"schema\":\"termgate\"}') FROM generate_series(1, 3000) i");
  db.must("SELECT * FROM termgate.seal('" + scope + "', 6)");
  REQUIRE(seen.await({scope, 6}));
  CHECK(authority.highest_fence(scope) == 6);
  CHECK(authority.highest_fence("s1") == 0);
  CHECK(authority.highest_fence("unheard of " + scope) == 0);
}

TEST_CASE("proxy authority: an audited reset is heard too", "[F3][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  Authority authority(gate.settings);
  PgSession db(database().url());
  await_listening(db);
  db.must("SELECT * FROM termgate.seal('" + scope + "', 1000)");
  wait_until("the raise", [&] { return authority.highest_fence(scope) == 1000; });
  db.must("SELECT * FROM termgate.reset_fence('" + scope + "', 7, 'operator', 'mistyped')");
  wait_until("the reset", [&] { return authority.highest_fence(scope) == 7; });
  CHECK(authority.doubt(scope).empty());
}

TEST_CASE("proxy authority: what was raised while the connection was lost is read afterwards", "[F2][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  Authority authority(gate.settings);
  PgSession db(database().url());
  await_listening(db);
  db.must("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%termgate%'; "
          "SELECT * FROM termgate.seal('" + scope + "', 5)");
  wait_until("the raise", [&] { return authority.highest_fence(scope) == 5; });
  CHECK(gate.logged("not heard of for now"));
  wait_until("the log", [&] { return gate.logged("reached again"); });
  db.must("SELECT * FROM termgate.seal('" + scope + "', 6)");
  wait_until("the next raise", [&] { return authority.highest_fence(scope) == 6; });
}

TEST_CASE("proxy authority: takeover wait across two proxies", "[F1][F2][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait"), database().url_as("authority_lead", "lead"));
  Authority one(gate.settings);
  Authority two(gate.settings);
  PgSession db(database().url());
  auto first = std::make_unique<Visit>(one, "127.0.0.1");
  first->establish();
  CHECK(first->term() == 1);
  Visit second(two, "127.0.0.2");
  second.establish();
  CHECK(second.term() == 0);
  CHECK_THAT(second.why_not(), Catch::Contains("its lease is held by 127.0.0.1@gate1 until "));
  Visit same(two, "127.0.0.1");
  same.establish();
  CHECK(same.term() == 1);
  std::this_thread::sleep_for(1300ms);
  CHECK(first->term() == 1);
  CHECK(same.term() == 1);
  CHECK(second.term() == 0);

  // The link of the first host is cut: neither proxy hears of it any more.
  first->presence().fall_silent();
  same.presence().fall_silent();
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(second.await_term(5s));
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took < 3s);
  CHECK(second.term() == 2);
  CHECK(first->term() == 0);
  CHECK(db.run("SELECT termgate.check_term('" + scope + "', 1)").code == "TG001");
  CHECK(db.run("SELECT termgate.check_term('" + scope + "', 2)").ok());
}

TEST_CASE("proxy authority: takeover newest evicts the frozen transaction of the first host", "[F2][F4][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "newest", "30 s"), database().url_as("authority_operate", "operate"));
  PgSession(database().url()).run("GRANT pg_signal_backend TO authority_operate");
  Authority authority(gate.settings);
  PgSession frozen(database().url());
  Visit first(authority, "127.0.0.1");
  first.establish();
  REQUIRE(first.term() == 1);
  frozen.must("BEGIN; SELECT termgate.check_term('" + scope + "', 1)");
  Visit second(authority, "127.0.0.2");
  const auto took = second.establish();
  CAPTURE(took.count());
  CHECK(second.term() > 1);
  CHECK(took < 3000ms);
  CHECK(first.term() == 0);
  CHECK(frozen.run("COMMIT").ended());
  CHECK(authority.highest_fence(scope) == second.term());
  PgSession db(database().url());
  CHECK(db.value("SELECT count(*) FROM termgate.audit WHERE scope = '" + scope + "' AND detail::text LIKE '%takeover = newest%127.0.0.2@gate1 has come%'") == "1");
}

TEST_CASE("proxy authority: level lead is not enough for newest and the client is told", "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "newest", "30 s"), database().url_as("authority_lead", "lead"));
  Authority authority(gate.settings);
  Visit first(authority, "127.0.0.1");
  first.establish();
  REQUIRE(first.term() == 1);
  Visit second(authority, "127.0.0.2");
  second.establish();
  CHECK(second.term() == 0);
  CHECK_THAT(second.why_not(), Catch::Contains("cannot be taken") && Catch::Contains("force_release"));
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
  db.must("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
  std::this_thread::sleep_for(4s);
  CHECK(visit.term() == 1);
  // Ended by an operator it is lost, and taken again under a new term.
  db.must("SELECT termgate.force_release('" + scope + "', 'operator', 'to see')");
  wait_until("a new term", [&] { return visit.term() > 1; });
}

TEST_CASE("proxy authority: a proxy that ends gives its leases back and one that is killed is joined", "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait", "30 s"));
  PgSession db(database().url());
  {
    auto authority = std::make_unique<Authority>(gate.settings);
    auto visit = std::make_unique<Visit>(*authority, "127.0.0.1");
    visit->establish();
    REQUIRE(visit->term() == 1);
    visit.reset();
    wait_until("the release", [&] { return db.value("SELECT released_at IS NOT NULL FROM termgate.leases WHERE scope = '" + scope + "'") == "t"; });
  }
  // As a proxy that was killed leaves it.
  db.must("SELECT * FROM termgate.acquire_lease('" + scope + "', '127.0.0.1@gate1', '30 s')");
  Authority authority(gate.settings);
  Visit visit(authority, "127.0.0.1");
  visit.establish();
  CHECK(visit.term() == 2);
  CHECK(gate.logged("joined"));
}

TEST_CASE("proxy authority: refusals are written to the audit once a second", "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("", database().url_as("authority_lead", "lead"));
  Authority authority(gate.settings);
  PgSession db(database().url());
  for (int i = 0; i < 1000; ++i) authority.happened({.kind = session::Incident::Kind::refused, .scope = scope, .term = 3, .code = "TG001"});
  const std::string total = "SELECT coalesce(sum((detail ->> 'count')::int), 0) FROM termgate.audit WHERE action = 'refuse' AND scope = '" + scope + "'";
  wait_until("the first report", [&] { return db.value(total) == "1000"; });
  CHECK(db.value("SELECT count(*) FROM termgate.audit WHERE action = 'refuse' AND scope = '" + scope + "'") == "1");
  CHECK(db.value("SELECT detail ->> 'client' FROM termgate.audit WHERE action = 'refuse' AND scope = '" + scope + "'") == "proxy");
  authority.happened({.kind = session::Incident::Kind::refused, .scope = scope, .term = 3, .code = "TG001"});
  wait_until("the second report", [&] { return db.value(total) == "1001"; });
}

TEST_CASE("proxy authority: several hosts at once come to one holder and one term at a time", "[F1][live][authority]") {
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
    return now.size() == 2 && now[0] / 2 == now[1] / 2 && visits[now[0]]->term() == visits[now[1]]->term();
  });
  CHECK(one.leads(scope));
  CHECK(two.leads(scope));
  CHECK(std::to_string(visits[holders()[0]]->term()) == db.value("SELECT term FROM termgate.fence('" + scope + "')"));
}
