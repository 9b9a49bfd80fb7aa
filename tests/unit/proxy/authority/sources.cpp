// Rules with a lock service, which is a map in memory here: what the proxy makes of a lease that is
// given back, ended, or outdone by a raise. tests/live/proxy/proxy_source_test.py has real
// services.
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
  // While `holds_release` a release waits; `releasing` says that one does.
  std::atomic<bool> holds_release{false}, releasing{false};

  void end_lease_of(const std::string& scope) {
    const std::lock_guard lock(mutex);
    held.erase(scope);
  }
};

class Client final : public LeaseSource {
 public:
  explicit Client(Service& service) : service_(service) {}
  std::string name() const override { return "the service"; }
  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         std::chrono::milliseconds ttl) override {
    const std::lock_guard lock(service_.mutex);
    auto& held = service_.held[scope.name()];
    if (held.until > BootClock::now() && held.owner != owner) return std::nullopt;
    held = {owner, ++service_.counter, BootClock::now() + ttl};
    return SourceLease{Term(held.term)};
  }
  bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
             std::chrono::milliseconds ttl) override {
    const std::lock_guard lock(service_.mutex);
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
    const auto found = service_.held.find(scope.name());
    if (found == service_.held.end() || found->second.owner != owner ||
        found->second.term != lease.term.value())
      return false;
    service_.held.erase(found);
    return true;
  }

 private:
  Service& service_;
};

struct Place {
  Place() {
    settings.rules_path =
        folder.put("rules", "[rule billing]\nlease = billing\nsource = service://one\nttl = 1 s\n");
    settings.machine = "gate1";
    settings.fences_pause = 20ms;
    settings.database_url = "sqlite:" + folder.at("db");
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
  Settings settings;
};

}  // namespace

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
