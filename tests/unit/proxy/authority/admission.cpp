// What Authority answers to those who come: rules and defaults, the database absent or unreachable,
// the watched file and the reload, fences seen. And leases on a database in a file, where no server
// is needed: takeover in both modes, joining, and who may not hold one.
#include <catch2/catch.hpp>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <termgate/authority/authority.hpp>
#include <termgate/database.hpp>
#include <termgate/error.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "fence_book.hpp"
#include "fence_reader.hpp"
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
      Operator(Database::open(settings.database_url)).install();
    }
  }
  Database open() { return Database::open(settings.database_url); }

  ScratchFolder folder;
  Settings settings;
};

const std::string lease_rule = "[rule billing]\nlease = billing\nttl = 1 s\n";

}  // namespace

TEST_CASE("authority: who no rule speaks of gets the defaults", "[proxy][authority]") {
  House house(
      "[rule known]\nuser = known\nscope = s\nterm = 4\nwithout-term = allow\n[rule out]\nuser = "
      "out\nrefuse = not you\n",
      false);
  house.settings.without_term = conversation::WithoutTerm::reject;
  house.settings.enforce = conversation::Enforce::observe;
  Authority authority(house.settings);
  const Visit other(authority, "192.0.2.7");
  CHECK(other.admission().rule == nullptr);
  CHECK(other.admission().refused_sqlstate.empty());
  CHECK(other.admission().without_term == conversation::WithoutTerm::reject);
  CHECK(other.admission().enforce == conversation::Enforce::observe);
  Visit known(authority, "192.0.2.7", "known");
  CHECK(known.term() == 4);
  CHECK_FALSE(known.admission().overridable);
  CHECK(known.admission().without_term == conversation::WithoutTerm::allow);
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

TEST_CASE("authority: without a database a lease says so and the rest works",
          "[proxy][authority]") {
  House house("[rule l]\nuser = l\nlease = billing\n[rule f]\nscope = s\nterm = 4\n", false);
  SECTION("none is known") {}
  SECTION("it is not reached") {
    house.settings.database_url = "postgresql://postgres@127.0.0.1:1/postgres?connect_timeout=2";
  }
  Authority authority(house.settings);
  Visit lease(authority, "192.0.2.7", "l");
  CHECK(lease.establish() < 10s);
  CHECK(lease.term() == 0);
  CHECK_THAT(lease.why_not(), Catch::StartsWith("no term for scope \"billing\": "));
  CHECK(Visit(authority, "192.0.2.7").term() == 4);
  authority.happened(
      "app",
      {.kind = conversation::Incident::Kind::refused, .scope = "s", .term = 3, .code = "TG001"});
  CHECK_FALSE(authority.leads("billing"));
}

TEST_CASE("authority: without a database nothing is known of any fence", "[F2][proxy][authority]") {
  House house("", false);
  Authority authority(house.settings);
  CHECK(authority.fences("app") == nullptr);
  CHECK(authority.obstacle() == conversation::Obstacle::none);
  CHECK_FALSE(authority.watching().backend);
}

TEST_CASE("authority: what others raise is read and an audited reset is believed",
          "[F2][F3][proxy][authority]") {
  House house("");
  auto db = house.open();
  db.seal(Scope("s"), Term(5));
  Gathered<std::pair<std::string, std::int64_t>>
      seen;  // before the authority, whose thread adds to it
  Authority authority(house.settings);
  const auto fences = authority.fences("whatever clients call it");
  REQUIRE(fences != nullptr);
  CHECK(authority.fences("or call it") == fences);  // there is one file
  std::atomic<bool> of_another{false};              // what Catch counts belongs to one thread
  authority.subscribe([&](std::uint64_t of, std::string_view scope, std::int64_t fence) {
    if (of != fences->id()) of_another = true;
    seen.add({std::string(scope), fence});
  });
  const auto await_fence = [&](std::int64_t fence) {
    for (int i = 0; i < 1000 && fences->highest("s") != fence; ++i)
      std::this_thread::sleep_for(5ms);
    return fences->highest("s") == fence;
  };
  CHECK(await_fence(5));
  CHECK(authority.watching().backend);
  db.seal(Scope("s"), Term(9));
  CHECK(seen.await({"s", 9}));
  CHECK(await_fence(9));
  Operator(db).reset_fence(Scope("s"), Term(6), "operator", "mistyped");
  CHECK(await_fence(6));
  CHECK_FALSE(of_another);
  CHECK(fences->untrusted("s").empty());
  // A forged word of a session's server changes nothing, however often it comes.
  for (int i = 0; i < 200; ++i) fences->hint("s", std::int64_t{1} << 61);
  for (int i = 0; i < 200; ++i) fences->hint("made up " + std::to_string(i), 4);
  std::this_thread::sleep_for(100ms);
  CHECK(fences->highest("s") == 6);
  CHECK(fences->highest("made up 7") == 0);
  CHECK(fences->untrusted({}).empty());
  authority.subscribe(nullptr);
  const auto before = seen.all().size();
  db.seal(Scope("s"), Term(11));
  CHECK(await_fence(11));
  CHECK(seen.all().size() == before);
}

TEST_CASE("authority: a hint makes it look at once", "[F2][F4][proxy][authority]") {
  House house("");
  house.settings.fences_pause = std::chrono::hours(1);
  auto db = house.open();
  db.seal(Scope("s"), Term(5));
  Authority authority(house.settings);
  const auto fences = authority.fences("app");
  for (int i = 0; i < 1000 && fences->highest("s") != 5; ++i) std::this_thread::sleep_for(5ms);
  REQUIRE(fences->highest("s") == 5);
  db.seal(Scope("s"), Term(7));
  std::this_thread::sleep_for(50ms);
  CHECK(fences->highest("s") == 5);
  fences->hint("s", 7);
  for (int i = 0; i < 1000 && fences->highest("s") != 7; ++i) std::this_thread::sleep_for(5ms);
  CHECK(fences->highest("s") == 7);
}

TEST_CASE("authority: a database without layer 1 is an obstacle that is said once",
          "[proxy][authority]") {
  House house("", false);
  house.settings.database_url = "sqlite:" + house.folder.at("empty");
  std::ofstream(house.folder.at("empty"));
  Gathered<std::string> log;
  house.settings.log = [&](Settings::Weight weight, std::string_view line) {
    log.add((weight == Settings::Weight::error ? "error " : "") + std::string(line));
  };
  Authority authority(house.settings);
  for (int i = 0; i < 1000 && authority.obstacle() == conversation::Obstacle::none; ++i)
    std::this_thread::sleep_for(5ms);
  CHECK(authority.obstacle() == conversation::Obstacle::not_installed);
  std::this_thread::sleep_for(2500ms);  // more than one attempt
  const auto lines = log.all();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines.front(), Catch::StartsWith("error cannot watch for fence changes (retrying): "));
  CHECK(authority.watching().failures > 1);
  Operator(Database::open(house.settings.database_url)).install();
  CHECK(log.await("fence changes are watched again"));
  CHECK(authority.obstacle() == conversation::Obstacle::none);
}

TEST_CASE("authority: what keeps a watch from its database is told from its error",
          "[proxy][authority]") {
  using conversation::Obstacle;
  const std::string at = "connection to server at \"127.0.0.1\", port 5432 failed: ";
  CHECK(
      obstacle_of(Unavailable(
          at + "Connection refused\n\tIs the server running on that host; nothing was written")) ==
      Obstacle::unreachable);
  CHECK(obstacle_of(Unavailable(at + "timeout expired")) == Obstacle::unreachable);
  CHECK(obstacle_of(Unavailable("could not translate host name \"db\" to address")) ==
        Obstacle::unreachable);
  CHECK(obstacle_of(Unavailable(at + "FATAL:  the database system is starting up")) ==
        Obstacle::unreachable);
  CHECK(obstacle_of(Unavailable(at + "FATAL:  sorry, too many clients already")) ==
        Obstacle::unreachable);
  CHECK(obstacle_of(
            Unavailable(at + "FATAL:  password authentication failed for user \"termgate\"")) ==
        Obstacle::login_refused);
  CHECK(obstacle_of(Unavailable(at + "FATALE:  autenticazione fallita")) ==
        Obstacle::login_refused);
  CHECK(obstacle_of(Unavailable(at + "fe_sendauth: no password supplied")) ==
        Obstacle::login_refused);
  CHECK(obstacle_of(Unavailable(at + "SSL error: certificate verify failed")) ==
        Obstacle::login_refused);
  CHECK(obstacle_of(DatabaseError("relation \"termgate.fence_status\" does not exist", "42P01")) ==
        Obstacle::not_installed);
  CHECK(obstacle_of(DatabaseError("permission denied for schema termgate", "42501")) ==
        Obstacle::not_installed);
}

namespace {

FenceInfo info(const std::string& scope, std::int64_t term,
               std::optional<std::int64_t> reset_from = {}) {
  FenceInfo read;
  read.scope = scope;
  read.term = term;
  read.reset_from = reset_from;
  return read;
}

struct Book {
  std::vector<std::pair<std::string, std::int64_t>> rose;
  int wanted = 0;
  FenceBook book{"app2",
                 100,
                 {[this](const FenceBook&, std::string_view scope, std::int64_t fence) {
                    rose.emplace_back(scope, fence);
                  },
                  [this](FenceBook&) { ++wanted; }}};
  // As a reader does it.
  void read(const FenceInfo& read) { book.took(read, book.remembered(read.scope)); }
};

}  // namespace

TEST_CASE("fence book: only what is read is believed and a hint says where to read",
          "[F2][proxy][authority]") {
  Book one;
  CHECK(one.book.highest("s") == 0);
  CHECK(one.wanted == 1);
  one.book.hint("s", 9);  // nobody reads yet, and whoever begins to reads all
  CHECK_FALSE(one.book.has_suspects());
  one.book.set_watched(true);
  one.read(info("s", 5));
  CHECK(one.book.highest("s") == 5);
  CHECK(one.wanted == 1);
  one.book.hint("s", 5);
  one.book.hint(std::string("a\0b", 3), 5);
  CHECK_FALSE(one.book.has_suspects());
  one.book.hint("s", 9);
  one.book.hint("s", 4);
  CHECK(one.wanted == 2);
  CHECK(one.book.highest("s") == 5);
  const auto suspects = one.book.take_suspects();
  CHECK(suspects.scopes == std::set<std::string>{"s"});
  CHECK_FALSE(suspects.all);
  one.read(info("s", 9));
  one.read(info("s", 9));
  CHECK(one.rose == std::vector<std::pair<std::string, std::int64_t>>{{"s", 5}, {"s", 9}});
  // More than are read one by one.
  for (std::size_t i = 0; i <= FenceBook::suspects_max; ++i)
    one.book.hint("other " + std::to_string(i), 3);
  const auto many = one.book.take_suspects();
  CHECK(many.all);
  CHECK(many.scopes.empty());
}

TEST_CASE("fence book: a fence lower than was read is untrusted until a reset or a raise",
          "[F3][proxy][authority]") {
  Book one;
  one.book.set_watched(true);
  one.read(info("s", 20));
  one.read(info("s", 6));
  CHECK_THAT(one.book.untrusted("s"), Catch::StartsWith("TG004") &&
                                          Catch::Contains("the database \"app2\" shows 6") &&
                                          Catch::Contains("seen 20"));
  CHECK(one.book.untrusted({}) == one.book.untrusted("s"));
  CHECK(one.book.untrusted("t").empty());
  CHECK(one.book.highest("s") == 20);
  one.book.set_watched(false);
  CHECK(one.book.highest("s") == 20);  // a lost connection is how a restore begins
  CHECK_FALSE(one.book.untrusted("s").empty());
  one.book.set_watched(true);
  // A reset of what the database shows settles it, though it does not reach what was seen.
  one.read(info("s", 7, 12));
  CHECK(one.book.untrusted("s").empty());
  CHECK(one.book.highest("s") == 7);
  one.read(info("s", 21));
  one.read(info("s", 8, 12));
  CHECK_FALSE(one.book.untrusted({}).empty());
  one.read(info("s", 21, 12));
  CHECK(one.book.untrusted({}).empty());
  one.read(info("s", 6, 21));
  CHECK(one.book.highest("s") == 6);
  // An answer that a raise overtook while it was read is nothing of the kind.
  one.book.took(info("s", 5), 5);
  CHECK(one.book.untrusted({}).empty());
  one.book.forget_all();
  CHECK(one.book.highest("s") == 0);
}

TEST_CASE("fence book: it remembers so many scopes and no more", "[proxy][authority]") {
  Book one;
  one.book.set_watched(true);
  for (int i = 0; i < 1000; ++i) one.read(info("scope " + std::to_string(i), 3));
  int known = 0;
  for (int i = 0; i < 1000; ++i)
    known += one.book.highest("scope " + std::to_string(i)) == 3 ? 1 : 0;
  CHECK(known == 100);
}

TEST_CASE("authority: a host's sessions share one lease that goes with the last of them",
          "[F1][proxy][authority]") {
  House house(lease_rule);
  Authority authority(house.settings);
  auto db = house.open();
  {
    Visit first(authority, "127.0.0.1");
    CHECK(first.term() == 0);
    CHECK_FALSE(Info(db).lease(Scope("billing")));  // who is not let in by the server takes nothing
    first.establish();
    CHECK(first.term() == 1);
    CHECK(first.liveness().asked_ms() == 1000);
    CHECK(authority.leads("billing"));
    CHECK(authority.leases_held() == 1);
    CHECK(authority.fences("app")->highest("billing") == 1);
    CHECK(Info(db).lease(Scope("billing"))->owner == "127.0.0.1@gate1");
    {
      Visit second(authority, "127.0.0.1");
      CHECK(second.establish() < 500ms);
      CHECK(second.term() == 1);
    }
    std::this_thread::sleep_for(1500ms);  // longer than the TTL: it is renewed
    CHECK(first.term() == 1);
    CHECK(Info(db).lease(Scope("billing"))->term == 1);
    CHECK(Info(db).lease(Scope("billing"))->remaining_ms > 0);
  }
  for (int i = 0; i < 1000 && !Info(db).lease(Scope("billing"))->released_at_ms; ++i)
    std::this_thread::sleep_for(5ms);
  CHECK(Info(db).lease(Scope("billing"))->released_at_ms);
  CHECK_FALSE(authority.leads("billing"));
}

TEST_CASE("authority: with takeover wait a second host waits for the first to go or to fall silent",
          "[F1][proxy][authority]") {
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
  CHECK_THAT(second.why_not(), Catch::Contains("its lease is held by 127.0.0.1@gate1 until 2") &&
                                   Catch::Contains(" UTC"));
  std::this_thread::sleep_for(1500ms);
  CHECK(second.term() == 0);
  if (silent) first->liveness().fall_silent();
  else first.reset();
  CHECK(second.await_term(4s));
  CHECK(second.term() == 2);
  if (silent) {
    CHECK(first->term() == 0);
    first->liveness().answer_again();
    std::this_thread::sleep_for(1200ms);
    CHECK(first->term() == 0);
    CHECK(second.term() == 2);
    CHECK_THAT(first->why_not(), Catch::Contains("held by 127.0.0.2@gate1"));
  }
}

TEST_CASE("authority: with takeover newest the newcomer shuts the first out",
          "[F2][proxy][authority]") {
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
  CHECK(authority.fences("app")->highest("billing") == term);
  CHECK(first.await_no_term());
  CHECK_THROWS_AS(db.check(Scope("billing"), Term(1)), StaleTerm);
  std::this_thread::sleep_for(1200ms);  // the first does not take it back by itself
  CHECK(second.term() == term);
  CHECK(Operator(db).explain(Scope("billing")).rows.size() >= 3);
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
    CHECK(Info(db).lease(Scope("billing"))->term == 1);
    CHECK(Info(db).lease(Scope("billing"))->remaining_ms > 0);
    std::this_thread::sleep_for(1100ms);
  }
  two.reset();
  CHECK(Info(db).lease(Scope("billing"))->remaining_ms == 0);
  CHECK(Info(db).lease(Scope("billing"))->term == 1);
}

TEST_CASE("authority: a lease is given back where the proxy ends with its last session",
          "[F1][proxy][authority]") {
  House house(lease_rule);
  auto db = house.open();
  for (int i = 0; i < 30; ++i) {
    {
      Authority authority(house.settings);
      Visit last(authority, "192.0.2.7");
      last.establish();
      REQUIRE(last.term() == i + 1);
    }
    REQUIRE(Info(db).lease(Scope("billing"))->remaining_ms == 0);
  }
}

TEST_CASE("authority: holders that are gone leave their places to new ones", "[proxy][authority]") {
  House house("[rule a]\nlease = billing\nholder = %user\nttl = 1 s\n");
  Authority authority(house.settings);
  for (int i = 0; i < 999; ++i) Visit gone(authority, "192.0.2.7", "app " + std::to_string(i));
  Visit last(authority, "192.0.2.7", "app");
  last.establish();
  CHECK(last.await_term());
  std::vector<std::unique_ptr<Visit>> all;
  for (int i = 0; i < 999; ++i)
    all.push_back(std::make_unique<Visit>(authority, "192.0.2.7", "new " + std::to_string(i)));
  CHECK(all.back()->why_not().find("the most that this proxy keeps") == std::string::npos);
  Visit over(authority, "192.0.2.7", "one more");
  CHECK_THAT(over.why_not(), Catch::Contains("1000 holders of leases are known already"));
}

TEST_CASE("authority: a holder's name that cannot be one is malformed and not no term",
          "[proxy][authority]") {
  House house("[rule a]\nlease = billing\nholder = %user\n");
  Authority authority(house.settings);
  Visit visit(authority, "192.0.2.7", std::string(201, 'x'));
  visit.establish();
  CHECK(std::string(visit.admission().rule->now().problem_code) == "TG005");
}

TEST_CASE("authority: a hint is a flat object of our schema and anything else is none",
          "[proxy][authority]") {
  CHECK(hinted_scope(R"({"scope" : "billing", "term" : 5, "schema" : "termgate"})", "termgate") ==
        "billing");
  CHECK(hinted_scope(R"({"scope":"a\"\\\/\n\u001fb","term":5,"schema":"termgate"})", "termgate") ==
        "a\"\\/\n\x1f"
        "b");
  for (const char* bad :
       {"", "{}", "billing", R"({"scope":"billing"})", R"({"scope":"billing","schema":"other"})",
        R"({"scope":"","schema":"termgate"})",
        R"({"scope":5,"schema":"termgate"} )"
        "x",
        R"({"scope":["a"],"schema":"termgate"})", R"({"scope":"a","schema":"termgate")",
        R"({"scope":"a\u0000","schema":"termgate"})", R"({"scope":"a\x","schema":"termgate"})",
        R"({"scope":"a)", R"({"scope":"a\)", R"({"scope":"a\u00)",
        "{\"scope\":\"\xff\",\"schema\":\"termgate\"}", R"([{"scope":"a","schema":"termgate"}])"}) {
    CAPTURE(bad);
    CHECK_FALSE(hinted_scope(bad, "termgate"));
  }
}
