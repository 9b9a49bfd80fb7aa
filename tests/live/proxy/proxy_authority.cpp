// proxy/authority against a real PostgreSQL: [F2] two hosts behind two proxies, both takeover
// modes, with a frozen transaction in the way; [F4] how soon a raise made elsewhere is heard;
// forged notifications; a lost connection; what a role of level lead may do; refusals in the audit.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
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

}  // namespace

namespace {

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

TEST_CASE("proxy authority: a raise by plain SQL that notifies nobody is seen soon",
          "[F4][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  gate.settings.fences_pause = 30s;
  Authority authority(gate.settings);
  PgSession db(database().url());
  await_listening(authority);
  db.must("SELECT * FROM termgate.seal('" + scope + "', 5)");
  wait_until("the raise", [&] { return known(authority).highest(scope) == 5; });
}

TEST_CASE("proxy authority: an audited reset is heard too", "[F3][live][authority]") {
  const auto scope = fresh_scope();
  Gate gate("");
  Authority authority(gate.settings);
  PgSession db(database().url());
  await_listening(authority);
  db.must("SELECT * FROM termgate.seal('" + scope + "', 1000)");
  notify(db, scope);
  wait_until("the raise", [&] { return known(authority).highest(scope) == 1000; });
  db.must("SELECT * FROM termgate.reset_fence('" + scope + "', 7, 'operator', 'mistyped')");
  notify(db, scope);
  wait_until("the reset", [&] { return known(authority).highest(scope) == 7; });
  CHECK(known(authority).untrusted(scope).empty());
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
  first->liveness().fall_silent();
  same.liveness().fall_silent();
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(second.await_term(5s));
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took < 3s);
  CHECK(second.term() == 2);
  CHECK(first->term() == 0);
  CHECK(db.run("SELECT termgate.check_term('" + scope + "', 1)").code == "TG001");
  CHECK(db.run("SELECT termgate.check_term('" + scope + "', 2)").ok());
}

TEST_CASE("proxy authority: takeover newest evicts the frozen transaction of the first host",
          "[F2][F4][live][authority]") {
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
  CHECK(known(authority).highest(scope) == second.term());
  PgSession db(database().url());
  CHECK(db.value("SELECT count(*) FROM termgate.audit WHERE scope = '" + scope +
                 "' AND detail::text LIKE '%takeover = newest%127.0.0.2@gate1 has connected%'") ==
        "1");
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

TEST_CASE(
    "proxy authority: a proxy that ends gives its leases back and one that is killed is joined",
    "[live][authority]") {
  const auto scope = fresh_scope();
  Gate gate(rule(scope, "wait", "30 s"));
  PgSession db(database().url());
  {
    auto authority = std::make_unique<Authority>(gate.settings);
    auto visit = std::make_unique<Visit>(*authority, "127.0.0.1");
    visit->establish();
    REQUIRE(visit->term() == 1);
    visit.reset();
    wait_until("the release", [&] {
      return db.value("SELECT released_at IS NOT NULL FROM termgate.leases WHERE scope = '" +
                      scope + "'") == "t";
    });
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
  db.must("SELECT termgate.seal('" + scope + "', 4)");
  known(authority);
  for (int i = 0; i < 1000; ++i)
    authority.happened(Visit::database, {.kind = conversation::Incident::Kind::refused,
                                         .scope = scope,
                                         .term = 3,
                                         .code = "TG001",
                                         .from_memory = true});
  const std::string total =
      "SELECT coalesce(sum((detail ->> 'count')::int), 0) FROM termgate.audit WHERE action = "
      "'refuse' AND scope = '" +
      scope + "'";
  wait_until("the first report", [&] { return db.value(total) == "1000"; });
  CHECK(db.value("SELECT count(*) FROM termgate.audit WHERE action = 'refuse' AND scope = '" +
                 scope + "'") == "1");
  CHECK(db.value(
            "SELECT detail ->> 'client' FROM termgate.audit WHERE action = 'refuse' AND scope = '" +
            scope + "'") == "proxy");
  authority.happened(Visit::database, {.kind = conversation::Incident::Kind::refused,
                                       .scope = scope,
                                       .term = 3,
                                       .code = "TG001",
                                       .from_memory = true});
  wait_until("the second report", [&] { return db.value(total) == "1001"; });
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

namespace {

std::string name_of(const PgDatabase& of) { return of.url().substr(of.url().rfind('/') + 1); }

// Connections that watch, in that database.
std::string watchers(PgSession& observer, const std::string& in) {
  return observer.value("SELECT count(*) FROM pg_stat_activity WHERE datname = '" + in +
                        "' AND application_name = 'termgate watch'");
}

int threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

}  // namespace

TEST_CASE("proxy authority: each database has its fences and one never judges another",
          "[F2][F7][live][authority]") {
  const auto scope = fresh_scope();
  PgDatabase other("authority_other");
  PgSession here(database().url()), there(other.url());
  here.must("SELECT * FROM termgate.seal('" + scope + "', 7)");
  there.must("SELECT * FROM termgate.seal('" + scope + "', 50)");
  Gate gate("");
  Gathered<std::pair<std::uint64_t, std::int64_t>> seen;
  gate.settings.watch_idle_pause = 300ms;
  Authority authority(gate.settings);
  authority.subscribe([&](std::uint64_t of, std::string_view what, std::int64_t fence) {
    if (what == scope) seen.add({of, fence});
  });
  conversation::Fences& own = known(authority);
  wait_until("the fence here", [&] { return own.highest(scope) == 7; });
  CHECK(watchers(here, name_of(other)) == "0");
  {
    const auto fences = authority.fences(name_of(other));
    CHECK(fences.get() != &own);
    CHECK(authority.fences(name_of(other)) == fences);
    std::this_thread::sleep_for(50ms);
    CHECK(watchers(here, name_of(other)) == "0");  // nobody there has a scope yet
    wait_until("the fence there", [&] { return fences->highest(scope) == 50; });
    CHECK(watchers(here, name_of(other)) == "1");
    CHECK(authority.watching().databases == 1);
    CHECK(own.highest(scope) == 7);
    // What is raised there is heard, and told for that database only.
    there.must("SELECT * FROM termgate.seal('" + scope + "', 51)");
    notify(there, scope);
    CHECK(seen.await({fences->id(), 51}));
    here.must("SELECT * FROM termgate.seal('" + scope + "', 8)");
    notify(here, scope);
    CHECK(seen.await({own.id(), 8}));
    CHECK(fences->highest(scope) == 51);
    // What its server says to a client's session is a hint: it is read, and found untrue.
    fences->hint(scope, 4'000'000'000'000'000'000);
    std::this_thread::sleep_for(300ms);
    CHECK(fences->highest(scope) == 51);
    // What is untrusted is its own as well.
    there.must(
        "ALTER TABLE termgate.fences DISABLE TRIGGER ALL; UPDATE termgate.fences SET term = 40 "
        "WHERE scope = '" +
        scope + "'; ALTER TABLE termgate.fences ENABLE TRIGGER ALL");
    fences->hint(scope, 40);
    wait_until("the scope to be untrusted", [&] { return !fences->untrusted(scope).empty(); });
    CHECK_THAT(fences->untrusted(scope),
               Catch::Contains("the database \"" + name_of(other) + "\" shows 40") &&
                   Catch::Contains("seen 51"));
    CHECK(own.untrusted(scope).empty());
    CHECK(own.untrusted({}).empty());
    // A lost connection is made anew, and the scope is still untrusted.
    here.must("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '" +
              name_of(other) + "' AND application_name = 'termgate watch'");
    wait_until("the log", [&] {
      return gate.logged("database \"" + name_of(other) + "\" are watched again");
    });
    CHECK_FALSE(fences->untrusted(scope).empty());
    CHECK(fences->highest(scope) == 51);
  }
  wait_until("the watch to end", [&] { return watchers(here, name_of(other)) == "0"; });
  CHECK(authority.watching().databases == 0);
}

TEST_CASE("proxy authority: a database that somebody else owns is not read",
          "[F7][live][authority]") {
  const auto scope = fresh_scope();
  const auto url = database().url_as("authority_lead", "lead");
  PgSession admin(database().url());
  admin.run("CREATE ROLE authority_mallory LOGIN");
  admin.run("DROP DATABASE IF EXISTS authority_forged");
  admin.must("CREATE DATABASE authority_forged OWNER authority_mallory");
  const auto at = database().url().find("postgres@");
  PgSession mallory(database().url().substr(0, at) + "authority_mallory@" +
                    database().url().substr(at + 9, database().url().rfind('/') + 1 - at - 9) +
                    "authority_forged");
  // Code that would run with the rights of whoever reads it.
  mallory.must(
      "CREATE SCHEMA termgate; CREATE FUNCTION termgate.ran() RETURNS bigint LANGUAGE plpgsql AS "
      "$$ BEGIN PERFORM pg_notify('ran', "
      "current_user); RETURN 4000000000000000000; END $$; "
      "CREATE VIEW termgate.fence_status AS SELECT '" +
      scope +
      "'::text AS scope, termgate.ran() AS term, now() AS raised_at, 'me'::text AS raised_by, "
      "'writer'::text AS raise_by, "
      "false AS untrusted, NULL::bigint AS reset_from; GRANT USAGE ON SCHEMA termgate TO PUBLIC; "
      "GRANT SELECT ON termgate.fence_status TO "
      "PUBLIC; LISTEN ran");
  Gate gate("", url);
  {
    Authority authority(gate.settings);
    conversation::Fences& own = known(authority);
    wait_until("the watch", [&] { return authority.watching().backend; });
    const auto forged = authority.fences("authority_forged");
    CHECK(forged->highest(scope) == 0);
    wait_until("the log", [&] {
      return gate.logged("cannot watch for fence changes of database \"authority_forged\"");
    });
    CHECK(gate.logged("belongs to role \"authority_mallory\""));
    CHECK(forged->highest(scope) == 0);
    CHECK(own.highest(scope) == 0);
    std::this_thread::sleep_for(3500ms);  // more than one attempt
    CHECK(authority.watching().failures > 1);
    std::size_t said = 0;
    for (const auto& line : gate.log.all())
      said += line.find("authority_forged") != std::string::npos ? 1 : 0;
    CHECK(said == 1);
    CHECK(watchers(admin, "authority_forged") == "0");
    CHECK(authority.obstacle() == conversation::Obstacle::none);
  }
  mallory.must("SELECT 1");
  CHECK(mallory.notifications() == 0);
  mallory.must("SELECT * FROM termgate.fence_status");
  mallory.must("SELECT 1");
  CHECK(mallory.notifications() == 1);  // the trap would have told
  admin.run("DROP DATABASE authority_forged WITH (FORCE)");
}

TEST_CASE("proxy authority: connections and threads for many databases are bounded",
          "[live][authority]") {
  const auto scope = fresh_scope();
  std::vector<std::unique_ptr<PgDatabase>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(std::make_unique<PgDatabase>("authority_many" + std::to_string(i)));
    PgSession(all.back()->url())
        .must("SELECT * FROM termgate.seal('" + scope + "', " + std::to_string(10 + i) + ")");
  }
  PgSession admin(database().url());
  const auto seen = [&] {
    return std::stoi(
        admin.value("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'authority_many%' "
                    "AND application_name = 'termgate watch'"));
  };
  // A server process outlives its connection by a moment, longer on a busy machine.
  const auto count = [&] {
    int found = seen();
    for (int tries = 0; found > 2 && tries < 40; ++tries) {
      std::this_thread::sleep_for(25ms);
      found = seen();
    }
    return found;
  };
  Gate gate("");
  gate.settings.watched_databases_max = 2;
  gate.settings.watch_keep_pause = 500ms;
  gate.settings.watch_idle_pause = 1h;
  Authority authority(gate.settings);
  known(authority);
  int before = 0;
  std::vector<std::shared_ptr<conversation::Fences>> fences;
  for (const auto& one : all) fences.push_back(authority.fences(name_of(*one)));
  // One after the other is asked about, and has its turn once the one before has been left alone
  // for long enough.
  int most = 0;
  for (std::size_t i = 0; i < fences.size(); ++i) {
    CAPTURE(i);
    wait_until("its fence", [&] {
      most = std::max(most, count());
      const auto fence = fences[i]->highest(scope);
      CHECK((fence == 0 || fence == 10 + static_cast<std::int64_t>(i)));
      return fence != 0;
    });
    if (i == 0) before = threads();
  }
  CHECK(most >= 1);
  CHECK(most <= 2);
  CHECK(fences[0]->highest(scope) == 0);
  // Where all are asked about all the time, those that have a place keep it.
  const auto until = std::chrono::steady_clock::now() + 2s;
  const auto failures = authority.watching().failures;
  while (std::chrono::steady_clock::now() < until) {
    int watched = 0;
    for (std::size_t i = 0; i < fences.size(); ++i)
      watched += fences[i]->highest(scope) == 10 + static_cast<std::int64_t>(i) ? 1 : 0;
    CHECK(watched <= 2);
    CHECK(count() <= 2);
    std::this_thread::sleep_for(50ms);
  }
  CHECK(authority.watching().failures == failures);
  CHECK(threads() == before);
}

TEST_CASE(
    "proxy authority: a database without layer 1 or without a place is not refused anything from "
    "memory",
    "[live][authority]") {
  const auto scope = fresh_scope();
  PgSession admin(database().url());
  admin.run("DROP DATABASE IF EXISTS authority_bare");
  admin.must("CREATE DATABASE authority_bare");
  Gate gate("");
  gate.settings.fences_pause = 30s;  // a raise by plain SQL notifies nobody: it is found by reading
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
  wait_until("the log", [&] {
    return gate.logged(
               "database \"authority \\\"is\\\" not=there?&host=elsewhere\" does not exist") ||
           gate.logged("not=there?&host=elsewhere\" does not exist");
  });
  // Once it is installed it is watched.
  Operator(Database::open(database().url().substr(0, database().url().rfind('/') + 1) +
                          "authority_bare"))
      .install();
  PgSession(database().url().substr(0, database().url().rfind('/') + 1) + "authority_bare")
      .must("SELECT * FROM termgate.seal('" + scope + "', 3)");
  wait_until("the fence", [&] { return bare->highest(scope) == 3; });
  PgSession(database().url().substr(0, database().url().rfind('/') + 1) + "authority_bare")
      .must("SELECT * FROM termgate.seal('" + scope + "', 4)");
  wait_until("the next fence", [&] { return bare->highest(scope) == 4; });
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

TEST_CASE("proxy authority: what keeps it from its database has one word and one line of the log",
          "[live][authority]") {
  PgSession admin(database().url());
  const auto at = database().url().find("postgres@");
  const auto rest = database().url().substr(at + 9);
  Gate nobody("", database().url().substr(0, at) + "authority_no_such_role@" + rest);
  Gate away("", "postgresql://postgres@127.0.0.1:1/postgres?connect_timeout=2");
  Gate unread("", database().url_as("authority_without", ""));
  Authority refused(nobody.settings), unreachable(away.settings), not_granted(unread.settings);
  wait_until("the refusal",
             [&] { return refused.obstacle() == conversation::Obstacle::login_refused; });
  wait_until("the failure",
             [&] { return unreachable.obstacle() == conversation::Obstacle::unreachable; });
  wait_until("the error",
             [&] { return not_granted.obstacle() == conversation::Obstacle::not_installed; });
  std::this_thread::sleep_for(2500ms);
  CHECK(nobody.log.all().size() == 1);
  CHECK(away.log.all().size() == 1);
  CHECK(unread.log.all().size() == 1);
  CHECK(unread.logged("permission denied"));
  CHECK(refused.watching().failures > 1);
}
