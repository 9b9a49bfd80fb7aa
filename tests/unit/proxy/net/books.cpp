// The cancel registry, the limits, and the addresses that are remembered.
#include <catch2/catch.hpp>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <termgate/net/cancel_registry.hpp>
#include <termgate/net/limit_book.hpp>

#include "resolver.hpp"

using namespace termgate::net;

namespace {

CancelRegistry::Target target(std::uint32_t pid, std::string key) {
  CancelRegistry::Target one;
  one.server = *Endpoint::numeric("192.0.2.1", 5432);
  one.pid = pid;
  one.key = std::move(key);
  return one;
}

}  // namespace

TEST_CASE("cancel registry: finds the session whose process and secret were given", "[net]") {
  CancelRegistry registry;
  const std::string first(32, 'a');
  const std::string second(32, 'b');
  registry.add(target(7, "key1"), first);
  const auto ticket = registry.add(target(7, "key2"), second);
  REQUIRE(registry.find(7, "aaaa"));
  CHECK(registry.find(7, "aaaa")->key == "key1");
  CHECK(registry.find(7, "bbbb")->key == "key2");
  registry.remove(ticket);
  CHECK_FALSE(registry.find(7, "bbbb"));
  CHECK(registry.find(7, "aaaa"));
  CHECK(registry.size() == 1);
  registry.remove(ticket);
  CHECK(registry.size() == 1);
}

TEST_CASE("cancel registry: a secret must be whole", "[net]") {
  CancelRegistry registry;
  const std::string secret = "0123456789abcdef0123456789abcdef";
  registry.add(target(7, "key4"), secret);
  registry.add(target(8, std::string(32, 'k')), secret);
  // Protocol 3.0 has four bytes, 3.2 all of them: a short guess at a long secret is no secret.
  CHECK(registry.find(7, secret.substr(0, 4)));
  CHECK_FALSE(registry.find(7, secret));
  CHECK(registry.find(8, secret));
  for (const std::string wrong : {"", "0", "0123", "0123456789abcdef0123456789abcdeX"}) {
    CAPTURE(wrong);
    CHECK_FALSE(registry.find(8, wrong));
    CHECK_FALSE(registry.find(9, wrong));
  }
  CHECK_FALSE(registry.find(8, secret + "x"));
  CHECK_FALSE(registry.find(9, std::string(256, 'x')));
}

TEST_CASE("resolver: a name that fails keeps its addresses and is not tried each time", "[net]") {
  Backend backend;
  for (const char* name : {"localhost", "127.0.0.9", "localhost"}) {
    Backend::Host host;
    host.name = host.address = name;
    host.port = 5432;
    backend.hosts.push_back(host);
  }
  Resolver resolver(backend);
  const auto of = [](const Resolver::Addresses& addresses) {
    std::set<std::size_t> hosts;
    for (const auto& one : *addresses) hosts.insert(one.host);
    return hosts;
  };
  std::string problem;
  REQUIRE(of(resolver.resolve(problem)) == std::set<std::size_t>{0, 1, 2});
  REQUIRE(problem.empty());
  const auto first = std::chrono::steady_clock::now();
  const std::string no_name(300, 'x');
  backend.hosts[0].address = no_name;
  CHECK(of(resolver.resolve(problem)) == std::set<std::size_t>{0, 1, 2});
  CHECK_THAT(problem, Catch::Contains("no address for xxx"));

  backend.hosts[1].address = backend.hosts[2].address = no_name;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(of(resolver.resolve(problem)) == std::set<std::size_t>{0, 1, 2});
  CHECK(resolver.known(first + Resolver::fresh_for + std::chrono::milliseconds(40)));
}

TEST_CASE("limits: each is counted for itself and says its name", "[net]") {
  using Verdict = LimitBook::Verdict;
  Limits limits;
  limits.connections = 4;
  limits.per_user = 2;
  limits.per_database = 3;
  limits.per_address = 3;
  LimitBook book(limits);
  CHECK(book.enter("u", "d", "1") == Verdict::in);
  CHECK(book.enter("u", "d", "1") == Verdict::in);
  CHECK(book.enter("u", "e", "2") == Verdict::user);
  CHECK(book.enter("v", "d", "1") == Verdict::in);
  CHECK(book.enter("w", "d", "2") == Verdict::database);
  CHECK(book.enter("w", "e", "1") == Verdict::address);
  CHECK(book.enter("w", "e", "2") == Verdict::in);
  CHECK(book.enter("x", "f", "3") == Verdict::connections);
  CHECK(book.connections() == 4);
  CHECK(book.peak() == 4);
  book.leave("u", "d", "1");
  CHECK(book.connections() == 3);
  CHECK(book.enter("u", "d", "1") == Verdict::in);
  CHECK(book.message(Verdict::connections) ==
        "too many connections: the proxy's limit is 4 (--max-connections)");
  CHECK(book.message(Verdict::user).find("limit is 2 (--max-connections-per-user)") !=
        std::string::npos);
  CHECK(book.message(Verdict::database).find("(--max-connections-per-database)") !=
        std::string::npos);
  CHECK(book.message(Verdict::address).find("(--max-connections-per-address)") !=
        std::string::npos);
}

TEST_CASE("limits: a refusal takes no place", "[net]") {
  Limits limits;
  limits.per_user = 1;
  LimitBook book(limits);
  REQUIRE(book.enter("u", "d", "1") == LimitBook::Verdict::in);
  for (int i = 0; i < 10; ++i) CHECK(book.enter("u", "d", "1") == LimitBook::Verdict::user);
  book.leave("u", "d", "1");
  CHECK(book.connections() == 0);
  CHECK(book.enter("u", "d", "1") == LimitBook::Verdict::in);
}
