// What Authority answers to those who come: rules and defaults, the database absent or unreachable, the watched file and the reload, fences seen. And leases on a
// database in a file, where no server is needed: takeover in both modes, joining, and who may not hold one.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/authority/authority.hpp>
#include <termgate/database.hpp>
#include <termgate/error.hpp>

#include "fence_watch.hpp"
#include "support/authority_support.hpp"

using namespace std::chrono_literals;
using namespace termgate;
using namespace termgate::authority;
using termgate::test::Gathered;
using termgate::test::ScratchFolder;
using termgate::test::Visit;

namespace {

struct House {
  explicit House(const std::string& rules, bool database = true) {
    settings.rules_path = folder.put("rules", rules);
    settings.machine = "gate1";
    settings.file_pause = 10ms;
    settings.fences_pause = 50ms;
    if (database) {
      settings.database_url = "sqlite:" + folder.at("db");
      Database::open(settings.database_url).install();
    }
  }
  Database open() { return Database::open(settings.database_url); }

  ScratchFolder folder;
  Settings settings;
};

const std::string lease_rule = "[rule billing]\nlease = billing\nttl = 1 s\n";

}  // namespace

TEST_CASE("authority: who no rule speaks of gets the defaults", "[proxy][authority]") {
  House house("[rule known]\nuser = known\nscope = s\nterm = 4\nwithout-term = allow\n[rule out]\nuser = out\nrefuse = not you\n", false);
  house.settings.without_term = session::WithoutTerm::reject;
  house.settings.enforce = session::Enforce::observe;
  Authority authority(house.settings);
  const Visit other(authority, "192.0.2.7");
  CHECK(other.admission().rule == nullptr);
  CHECK(other.admission().refused_sqlstate.empty());
  CHECK(other.admission().without_term == session::WithoutTerm::reject);
  CHECK(other.admission().enforce == session::Enforce::observe);
  Visit known(authority, "192.0.2.7", "known");
  CHECK(known.term() == 4);
  CHECK_FALSE(known.admission().overridable);
  CHECK(known.admission().without_term == session::WithoutTerm::allow);
  CHECK(known.establish() < 1s);
  const Visit out(authority, "192.0.2.7", "out");
  CHECK(out.admission().refused_sqlstate == "28000");
  CHECK(out.admission().refused_message == "not you");
}

TEST_CASE("authority: wrong rules are told and the former ones stand", "[proxy][authority]") {
  House house("[rule a]\nscope = s\nterm = 4\n", false);
  Authority authority(house.settings);
  const Visit before(authority, "192.0.2.7");
  house.folder.put("rules", "[rule a]\nscope = s\nterm = four\n");
  CHECK_THAT(authority.reload(), Catch::Contains("rules:3:"));
  CHECK(Visit(authority, "192.0.2.7").term() == 4);
  house.folder.put("rules", "[rule a]\nscope = s\nterm = 5\n");
  CHECK(authority.reload().empty());
  CHECK(Visit(authority, "192.0.2.7").term() == 5);
  CHECK(before.term() == 4);
  house.folder.put("rules", "colour = red\n");
  CHECK_THROWS_AS(Authority(house.settings), InvalidInput);
}

TEST_CASE("authority: a watched file is followed and survives a reload", "[proxy][authority]") {
  House house("", false);
  const std::string rules = "[rule a]\nfile = " + house.folder.at("term") + "\n";
  house.folder.put("rules", rules);
  Authority authority(house.settings);
  const Visit visit(authority, "192.0.2.7");
  CHECK(visit.term() == 0);
  house.folder.put("term", "scope=s term=3\n");
  CHECK(visit.await_term());
  house.folder.put("rules", "# nobody\n");
  CHECK(authority.reload().empty());
  house.folder.put("term", "scope=s term=2\n");
  CHECK(visit.await_no_term());
  CHECK_THAT(visit.why_not(), Catch::StartsWith("stale term 2"));
  house.folder.put("rules", rules);
  CHECK(authority.reload().empty());
  // What it has shown before is remembered.
  CHECK_THAT(Visit(authority, "192.0.2.7").why_not(), Catch::StartsWith("stale term 2"));
}

TEST_CASE("authority: without a database a lease says so and the rest works", "[proxy][authority]") {
  House house("[rule l]\nuser = l\nlease = billing\n[rule f]\nscope = s\nterm = 4\n", false);
  SECTION("none is known") {}
  SECTION("it is not reached") { house.settings.database_url = "postgresql://postgres@127.0.0.1:1/postgres?connect_timeout=2"; }
  Authority authority(house.settings);
  Visit lease(authority, "192.0.2.7", "l");
  CHECK(lease.establish() < 10s);
  CHECK(lease.term() == 0);
  CHECK_THAT(lease.why_not(), Catch::StartsWith("no term for scope \"billing\": "));
  CHECK(Visit(authority, "192.0.2.7").term() == 4);
  authority.happened({.kind = session::Incident::Kind::refused, .scope = "s", .term = 3, .code = "TG001"});
  CHECK_FALSE(authority.leads("billing"));
}

TEST_CASE("authority: fences only rise and every rise is called back", "[F2][proxy][authority]") {
  House house("", false);
  Gathered<std::pair<std::string, std::int64_t>> seen;  // before the authority, whose thread adds to it
  Authority authority(house.settings);
  authority.subscribe([&](std::string_view scope, std::int64_t fence) { seen.add({std::string(scope), fence}); });
  CHECK(authority.highest_fence("s") == 0);
  authority.saw_fence("s", 5);
  authority.saw_fence("s", 4);
  authority.saw_fence("s", 5);
  authority.saw_fence("s", 6);
  CHECK(authority.highest_fence("s") == 6);
  CHECK(seen.all() == std::vector<std::pair<std::string, std::int64_t>>{{"s", 5}, {"s", 6}});
  authority.subscribe(nullptr);
  authority.saw_fence("s", 7);
  CHECK(seen.all().size() == 2);
}

TEST_CASE("authority: what others raise is read and an audited reset is believed", "[F2][F3][proxy][authority]") {
  House house("");
  auto db = house.open();
  db.seal(Scope("s"), Term(5));
  Authority authority(house.settings);
  const auto await_fence = [&](std::int64_t fence) {
    for (int i = 0; i < 1000 && authority.highest_fence("s") != fence; ++i) std::this_thread::sleep_for(5ms);
    return authority.highest_fence("s") == fence;
  };
  CHECK(await_fence(5));
  db.seal(Scope("s"), Term(9));
  CHECK(await_fence(9));
  db.reset_fence(Scope("s"), Term(6), "operator", "mistyped");
  CHECK(await_fence(6));
  CHECK(authority.doubt("s").empty());
  // A fence that nobody reset and that is lower all the same was forgotten by the database.
  authority.saw_fence("s", 20);
  for (int i = 0; i < 1000 && authority.doubt("s").empty(); ++i) std::this_thread::sleep_for(5ms);
  CHECK_THAT(authority.doubt("s"), Catch::StartsWith("TG004") && Catch::Contains("shows 6") && Catch::Contains("seen 20"));
  CHECK(authority.doubt({}) == authority.doubt("s"));
  CHECK(authority.highest_fence("s") == 20);
  // A reset of what the database shows settles it, though it does not reach what was seen.
  db.seal(Scope("s"), Term(12));
  db.reset_fence(Scope("s"), Term(7), "operator", "restored");
  CHECK(await_fence(7));
  CHECK(authority.doubt("s").empty());
  CHECK(authority.doubt({}).empty());
  authority.saw_fence("s", 20);
  for (int i = 0; i < 1000 && authority.doubt("s").empty(); ++i) std::this_thread::sleep_for(5ms);
  db.seal(Scope("s"), Term(21));
  CHECK(await_fence(21));
  for (int i = 0; i < 1000 && !authority.doubt("s").empty(); ++i) std::this_thread::sleep_for(5ms);
  CHECK(authority.doubt("s").empty());
}

TEST_CASE("authority: a session that meets a lower fence than was seen makes it look", "[F3][proxy][authority]") {
  House house("");
  house.settings.fences_pause = std::chrono::hours(1);
  auto db = house.open();
  db.seal(Scope("s"), Term(5));
  Authority authority(house.settings);
  for (int i = 0; i < 1000 && authority.highest_fence("s") != 5; ++i) std::this_thread::sleep_for(5ms);
  REQUIRE(authority.highest_fence("s") == 5);
  authority.saw_fence("s", 9);
  CHECK(authority.doubt("s").empty());
  authority.saw_fence("s", 5);
  for (int i = 0; i < 1000 && authority.doubt("s").empty(); ++i) std::this_thread::sleep_for(5ms);
  CHECK_THAT(authority.doubt("s"), Catch::StartsWith("TG004") && Catch::Contains("shows 5") && Catch::Contains("seen 9"));
  // An answer that a raise overtook is nothing of the kind.
  db.seal(Scope("t"), Term(9));
  authority.saw_fence("t", 9);
  authority.saw_fence("t", 8);
  std::this_thread::sleep_for(50ms);
  CHECK(authority.doubt("t").empty());
}

TEST_CASE("authority: a host's sessions share one lease that goes with the last of them", "[F1][proxy][authority]") {
  House house(lease_rule);
  Authority authority(house.settings);
  auto db = house.open();
  {
    Visit first(authority, "127.0.0.1");
    CHECK(first.term() == 0);
    CHECK_FALSE(db.lease(Scope("billing")));  // who is not let in by the server takes nothing
    first.establish();
    CHECK(first.term() == 1);
    CHECK(first.presence().asked_ms() == 1000);
    CHECK(authority.leads("billing"));
    CHECK(authority.leases_held() == 1);
    CHECK(authority.highest_fence("billing") == 1);
    CHECK(db.lease(Scope("billing"))->owner == "127.0.0.1@gate1");
    {
      Visit second(authority, "127.0.0.1");
      CHECK(second.establish() < 500ms);
      CHECK(second.term() == 1);
    }
    std::this_thread::sleep_for(1500ms);  // longer than the TTL: it is renewed
    CHECK(first.term() == 1);
    CHECK(db.lease(Scope("billing"))->term == 1);
    CHECK(db.lease(Scope("billing"))->remaining_ms > 0);
  }
  for (int i = 0; i < 1000 && !db.lease(Scope("billing"))->released_at_ms; ++i) std::this_thread::sleep_for(5ms);
  CHECK(db.lease(Scope("billing"))->released_at_ms);
  CHECK_FALSE(authority.leads("billing"));
}

TEST_CASE("authority: with takeover wait a second host waits for the first to go or to fall silent", "[F1][proxy][authority]") {
  House house(lease_rule);
  Authority authority(house.settings);
  const bool silent = GENERATE(false, true);
  CAPTURE(silent);
  auto first = std::make_unique<Visit>(authority, "127.0.0.1");
  first->establish();
  CHECK(first->term() == 1);
  Visit second(authority, "127.0.0.2");
  second.establish();
  CHECK(second.term() == 0);
  CHECK_THAT(second.why_not(), Catch::Contains("its lease is held by 127.0.0.1@gate1 until 2") && Catch::Contains(" UTC"));
  std::this_thread::sleep_for(1500ms);
  CHECK(second.term() == 0);
  if (silent)
    first->presence().fall_silent();
  else
    first.reset();
  CHECK(second.await_term(4s));
  CHECK(second.term() == 2);
  if (silent) {
    CHECK(first->term() == 0);
    first->presence().answer_again();
    std::this_thread::sleep_for(1200ms);
    CHECK(first->term() == 0);
    CHECK(second.term() == 2);
    CHECK_THAT(first->why_not(), Catch::Contains("held by 127.0.0.2@gate1"));
  }
}

TEST_CASE("authority: with takeover newest the newcomer shuts the first out", "[F2][proxy][authority]") {
  House house(lease_rule + "takeover = newest\n");
  Authority authority(house.settings);
  auto db = house.open();
  Visit first(authority, "127.0.0.1");
  first.establish();
  CHECK(first.term() == 1);
  {
    const Visit knocking(authority, "127.0.0.2");  // has not logged in
    std::this_thread::sleep_for(700ms);
    CHECK(first.term() == 1);
  }
  Visit second(authority, "127.0.0.2");
  second.establish();
  const auto term = second.term();
  CHECK(term > 1);
  CHECK(authority.highest_fence("billing") == term);
  CHECK(first.await_no_term());
  CHECK_THROWS_AS(db.check(Scope("billing"), Term(1)), StaleTerm);
  std::this_thread::sleep_for(1200ms);  // the first does not take it back by itself
  CHECK(second.term() == term);
  CHECK(db.explain(Scope("billing")).rows.size() >= 3);
  Visit again(authority, "127.0.0.1");
  again.establish();
  CHECK(again.term() > term);
}

TEST_CASE("authority: the same host behind two proxies has one term", "[F1][proxy][authority]") {
  House house(lease_rule);
  Authority one(house.settings);
  auto two = std::make_unique<Authority>(house.settings);
  auto db = house.open();
  auto first = std::make_unique<Visit>(one, "192.0.2.7");
  first->establish();
  {
    Visit second(*two, "192.0.2.7");
    second.establish();
    CHECK(second.term() == first->term());
    CHECK(second.term() == 1);
    first.reset();
    // The first proxy leaves the lease to the second one, which renews it.
    std::this_thread::sleep_for(1500ms);
    CHECK(second.term() == 1);
    CHECK(db.lease(Scope("billing"))->term == 1);
    CHECK(db.lease(Scope("billing"))->remaining_ms > 0);
    std::this_thread::sleep_for(1100ms);
  }
  two.reset();
  CHECK(db.lease(Scope("billing"))->remaining_ms == 0);
  CHECK(db.lease(Scope("billing"))->term == 1);
}

TEST_CASE("authority: a lease is given back where the proxy ends with its last session", "[F1][proxy][authority]") {
  House house(lease_rule);
  auto db = house.open();
  for (int i = 0; i < 30; ++i) {
    {
      Authority authority(house.settings);
      Visit last(authority, "192.0.2.7");
      last.establish();
      REQUIRE(last.term() == i + 1);
    }
    REQUIRE(db.lease(Scope("billing"))->remaining_ms == 0);
  }
}

TEST_CASE("authority: a holder's name that cannot be one is malformed and not no term", "[proxy][authority]") {
  House house("[rule a]\nlease = billing\nholder = %user\n");
  Authority authority(house.settings);
  Visit visit(authority, "192.0.2.7", std::string(201, 'x'));
  visit.establish();
  CHECK(std::string(visit.admission().rule->now().problem_code) == "TG005");
}

TEST_CASE("authority: a hint is a flat object of our schema and anything else is none", "[proxy][authority]") {
  CHECK(hinted_scope(R"({"scope" : "billing", "term" : 5, "schema" : "termgate"})", "termgate") == "billing");
  CHECK(hinted_scope(R"({"scope":"a\"\\\/\n\u001fb","term":5,"schema":"termgate"})", "termgate") == "a\"\\/\n\x1f" "b");
  for (const char* bad : {"", "{}", "billing", R"({"scope":"billing"})", R"({"scope":"billing","schema":"other"})", R"({"scope":"","schema":"termgate"})",
                          R"({"scope":5,"schema":"termgate"} )" "x", R"({"scope":["a"],"schema":"termgate"})", R"({"scope":"a","schema":"termgate")",
                          R"({"scope":"a\u0000","schema":"termgate"})", R"({"scope":"a\x","schema":"termgate"})", R"({"scope":"a)", R"({"scope":"a\)", R"({"scope":"a\u00)",
                          "{\"scope\":\"\xff\",\"schema\":\"termgate\"}", R"([{"scope":"a","schema":"termgate"}])"}) {
    CAPTURE(bad);
    CHECK_FALSE(hinted_scope(bad, "termgate"));
  }
}
