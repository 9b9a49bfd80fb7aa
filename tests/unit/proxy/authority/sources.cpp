// Rules with a lock service: its terms are sealed in the database, one proxy has the lease at a
// time, a service that forgets is refused, and one that is gone ends the term in time. The service
// is a map in memory; tests/live/proxy/proxy_source_test.py has real ones.
#include <catch2/catch.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/authority/authority.hpp>
#include <termgate/boot_clock.hpp>
#include <termgate/database.hpp>
#include <termgate/error.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "support/authority_support.hpp"

using namespace std::chrono_literals;
using namespace termgate;
using namespace termgate::authority;
using termgate::test::Gathered;
using termgate::test::ScratchFolder;
using termgate::test::Visit;

namespace {

// The service: what all clients of it share.
struct Service {
  struct Held {
    std::string owner;
    std::int64_t term = 0;
    BootClock::time_point until{};
  };
  std::mutex mutex;  // guards what follows
  std::map<std::string, Held> held;
  std::int64_t counter = 0;
  bool down = false;
  // While `holds_release` a release waits; `releasing` says that one does.
  std::atomic<bool> holds_release{false}, releasing{false};

  void set_counter(std::int64_t to) {
    const std::lock_guard lock(mutex);
    counter = to;
  }
  void set_down(bool to) {
    const std::lock_guard lock(mutex);
    down = to;
  }
  void end_lease_of(const std::string& scope) {
    const std::lock_guard lock(mutex);
    held.erase(scope);
  }
};

class Client final : public LeaseSource {
 public:
  explicit Client(Service& service) : service_(service) {}
  std::string name() const override { return "the service"; }
  std::vector<std::string> warnings() override { return {"the service keeps nothing on disk"}; }
  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         std::chrono::milliseconds ttl) override {
    const std::lock_guard lock(service_.mutex);
    need_up();
    auto& held = service_.held[scope.name()];
    if (held.until > BootClock::now() && held.owner != owner) return std::nullopt;
    held = {owner, ++service_.counter, BootClock::now() + ttl};
    return SourceLease{Term(held.term)};
  }
  bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
             std::chrono::milliseconds ttl) override {
    const std::lock_guard lock(service_.mutex);
    need_up();
    const auto found = service_.held.find(scope.name());
    if (found == service_.held.end() || found->second.owner != owner ||
        found->second.term != lease.term.value())
      return false;
    if (found->second.until < BootClock::now()) return false;
    found->second.until = BootClock::now() + ttl;
    return true;
  }
  bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) override {
    while (service_.holds_release) {
      service_.releasing = true;
      std::this_thread::sleep_for(1ms);
    }
    const std::lock_guard lock(service_.mutex);
    need_up();
    const auto found = service_.held.find(scope.name());
    if (found == service_.held.end() || found->second.owner != owner ||
        found->second.term != lease.term.value())
      return false;
    service_.held.erase(found);
    return true;
  }

 private:
  void need_up() const {
    if (service_.down) throw Unavailable("the service is down");
  }
  Service& service_;
};

struct Place {
  explicit Place(const std::string& more = "") {
    settings.rules_path = folder.put(
        "rules", "[rule billing]\nlease = billing\nsource = service://one\nttl = 1 s\n" + more);
    settings.machine = "gate1";
    settings.fences_pause = 20ms;
    settings.database_url = "sqlite:" + folder.at("db");
    settings.log = [this](Settings::Weight, std::string_view line) { log.add(std::string(line)); };
    settings.open_source = [this](const std::string& url) -> std::shared_ptr<LeaseSource> {
      if (!url.starts_with("service://"))
        throw InvalidInput("TG005 malformed source: no such scheme");
      return std::make_shared<Client>(service);
    };
    Operator(Database::open(settings.database_url)).install();
  }
  Database open() { return Database::open(settings.database_url); }
  std::int64_t fence() { return Info(open()).fence(Scope("billing"))->term; }

  Service service;
  ScratchFolder folder;
  Gathered<std::string> log;
  Settings settings;
};

}  // namespace

TEST_CASE("authority source: the service's term is sealed before a session has it",
          "[F2][proxy][authority]") {
  Place place;
  place.service.set_counter(40);
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7"), same(authority, "192.0.2.7"), other(authority, "192.0.2.8");
  CHECK(visit.establish() < 5s);
  CHECK(visit.term() == 41);
  CHECK(place.fence() == 41);
  CHECK(same.establish() < 5s);
  CHECK(same.term() == 41);
  CHECK(other.establish() < 5s);
  CHECK(other.term() == 0);
  CHECK_THAT(other.why_not(), Catch::Contains("its lease in the service is another owner's"));
  CHECK(place.log.await("the service keeps nothing on disk"));
  CHECK(authority.leads("billing"));
  CHECK_FALSE(
      Info(place.open()).lease(Scope("billing")));  // the database's own leases have no part in it
}

TEST_CASE("authority source: who comes while the lease is given back gets the next one",
          "[F2][proxy][authority]") {
  Place place;
  Authority authority(place.settings);
  auto first = std::make_unique<Visit>(authority, "192.0.2.7");
  first->establish();
  REQUIRE(first->term() == 1);
  place.service.holds_release = true;
  first.reset();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!place.service.releasing && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  CHECK(place.service.releasing);
  Visit second(authority, "192.0.2.7");
  second.establish();
  place.service.holds_release = false;
  const auto given_back = std::chrono::steady_clock::now();
  while (second.term() < 2 && std::chrono::steady_clock::now() < given_back + 10s)
    std::this_thread::sleep_for(1ms);
  CHECK(second.term() == 2);
}

TEST_CASE("authority source: two proxies of one host take turns and never share a term",
          "[F1][F2][proxy][authority]") {
  Place place;
  Authority two(place.settings);
  auto one = std::make_unique<Authority>(place.settings);
  auto first = std::make_unique<Visit>(*one, "192.0.2.7");
  first->establish();
  REQUIRE(first->term() == 1);
  Visit second(two, "192.0.2.7");
  second.establish();
  CHECK(second.term() == 0);
  first.reset();
  one.reset();  // gives the lease back
  CHECK(second.await_term());
  CHECK(second.term() > 1);
  CHECK(place.fence() == second.term());
}

TEST_CASE("authority source: a service that forgot its counter is refused with TG001",
          "[F2][proxy][authority]") {
  Place place;
  place.open().seal(Scope("billing"), Term(9));
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7");
  visit.establish();
  CHECK(visit.term() == 0);
  CHECK(std::string(visit.admission().rule->now().problem_code) == "TG001");
  CHECK_THAT(visit.why_not(), Catch::Contains("the fence is already at 9"));
  // The lease was given back, so that another could have it; and once the counter is above the
  // fence the session has its term.
  place.service.set_counter(20);
  CHECK(visit.await_term());
  CHECK(visit.term() > 20);
  CHECK(std::string(visit.admission().rule->now().problem_code) == "TG002");
}

TEST_CASE("authority source: a lease that the service ended is taken again under a higher term",
          "[F1][F2][proxy][authority]") {
  Place place;
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7");
  visit.establish();
  REQUIRE(visit.term() == 1);
  place.service.end_lease_of("billing");
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (visit.term() <= 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(5ms);
  CHECK(visit.term() == 2);
  CHECK(place.fence() == 2);
}

TEST_CASE("authority source: a service that is gone ends the term in time and not the proxy",
          "[F2][proxy][authority]") {
  Place place("[rule other]\nscope = fixed\nterm = 4\n");
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7");
  visit.establish();
  REQUIRE(visit.term() == 1);
  const auto gone = std::chrono::steady_clock::now();
  place.service.set_down(true);
  CHECK(visit.await_no_term());
  const auto held = std::chrono::steady_clock::now() - gone;
  CHECK(held > 500ms);  // two thirds of the TTL are left at least
  CHECK_THAT(visit.why_not(), Catch::Contains("billing"));
  place.service.set_down(false);
  CHECK(visit.await_term());
  CHECK(visit.term() == 2);
}

TEST_CASE("authority source: a raise by others ends the lease and the next term must be above it",
          "[F2][proxy][authority]") {
  Place place;
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7");
  visit.establish();
  REQUIRE(visit.term() == 1);
  place.open().seal(Scope("billing"), Term(100));
  CHECK(visit.await_no_term());
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (visit.why_not().find("the fence is already at 100") == std::string::npos &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(5ms);
  CHECK_THAT(visit.why_not(), Catch::Contains("the fence is already at 100"));
  CHECK(visit.term() == 0);
}

TEST_CASE(
    "authority source: a wrong source is reported with file and line and the former rules stay",
    "[proxy][authority]") {
  Place place;
  Authority authority(place.settings);
  Visit visit(authority, "192.0.2.7");
  visit.establish();
  REQUIRE(visit.term() == 1);
  place.folder.put("rules",
                   "# the next is wrong\n[rule bad]\nlease = billing\nsource = nonsense://x\n");
  CHECK_THAT(authority.reload(), Catch::Contains("rules:2: rule \"bad\": TG005 malformed source"));
  CHECK(visit.term() == 1);
  CHECK(Visit(authority, "192.0.2.7").term() == 1);
  // Nor is there one at the start, or in a program that has no sources.
  CHECK_THROWS_AS(Authority(place.settings), InvalidInput);
  Place without;
  without.settings.open_source = nullptr;
  CHECK_THROWS_WITH(Authority(without.settings), Catch::Contains("built without term sources"));
}
