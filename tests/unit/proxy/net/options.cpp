// Listeners, the backend's URL, addresses and networks: what is understood and what is refused.
#include <catch2/catch.hpp>

#include <stdexcept>
#include <string>

#include <termgate/http/endpoint.hpp>
#include <termgate/net/options.hpp>

namespace http = termgate::http;
using namespace termgate::net;

TEST_CASE("listener: understands addresses names and sockets", "[net]") {
  const auto plain = http::parse_listener("127.0.0.1:6432");
  CHECK(plain.host == "127.0.0.1");
  CHECK(plain.port == 6432);
  CHECK(plain.name == "127.0.0.1:6432");
  CHECK_FALSE(plain.proxy_protocol);
  const auto six = http::parse_listener("apps=[::1]:6432,proxy");
  CHECK(six.name == "apps");
  CHECK(six.host == "::1");
  CHECK(six.proxy_protocol);
  CHECK(http::parse_listener("*:0").host.empty());
  const auto path = http::parse_listener("unix:/run/app=1/.s.PGSQL.6432");
  CHECK(path.path == "/run/app=1/.s.PGSQL.6432");
  CHECK(http::parse_listener("local=/run/.s.PGSQL.6432").name == "local");
}

TEST_CASE("listener: refuses what is no address", "[net]") {
  for (const std::string text : {"", "6432", "host", "host:", "host:65536", "host:-1", "::1:6432",
                                 "unix:relative", "=host:1", "host:1,unknown"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(http::parse_listener(text), std::invalid_argument);
  }
  CHECK_THROWS_AS(http::parse_listener("unix:/" + std::string(107, 'x')), std::invalid_argument);
}

TEST_CASE("backend: takes from the URL what the relay needs", "[net]") {
  const auto plain = parse_backend("postgresql://u:p%40ss@db.example:6543/app");
  REQUIRE(plain.hosts.size() == 1);
  CHECK(plain.hosts[0].name == "db.example");
  CHECK(plain.hosts[0].port == 6543);
  CHECK(plain.ssl_mode == SslMode::prefer);
  const auto several = parse_backend(
      "postgres://a:1,[2001:db8::1]:2,c/"
      "app?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem&connect_timeout=3");
  REQUIRE(several.hosts.size() == 3);
  CHECK(several.hosts[1].address == "2001:db8::1");
  CHECK(several.hosts[1].port == 2);
  CHECK(several.hosts[2].port == 5432);
  CHECK(several.ssl_mode == SslMode::verify_full);
  CHECK(several.ssl_root_certificate == "/etc/ca.pem");
  CHECK(parse_backend("postgresql:///app?host=/run/postgresql&port=5433").hosts[0].path ==
        "/run/postgresql/.s.PGSQL.5433");
  CHECK(parse_backend("postgresql://%2Frun%2Fpg/app").hosts[0].path == "/run/pg/.s.PGSQL.5432");
  const auto addressed = parse_backend("postgresql://db.example/app?hostaddr=192.0.2.7");
  CHECK(addressed.hosts[0].name == "db.example");
  CHECK(addressed.hosts[0].address == "192.0.2.7");
  CHECK_THROWS_WITH(parse_backend("postgresql:///app"), Catch::Contains("which host?"));
}

TEST_CASE("backend: refuses what it cannot keep and shows no password", "[net]") {
  for (const std::string url :
       {"sqlite:app.db", "host=db password=secret", "postgresql://u:secret@h:0/d",
        "postgresql://u:secret@h:x/d", "postgresql://u:secret@h/d?sslmode=allow",
        "postgresql://u:secret@h/d?sslmode=verify-full", "postgresql://u:secret@[::1/d",
        "postgresql://u:secret@h%2/d", "postgresql://u:secret@h/d?host=a,b&port=1,2,3",
        "postgresql://u:secret@[::1]51433/d", "sqlserver://u:secret@[::1]51433/d"}) {
    CAPTURE(url);
    try {
      parse_backend(url);
      FAIL("it was taken");
    } catch (const std::invalid_argument& error) {
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }
}

TEST_CASE("network: knows who is in it", "[net]") {
  const auto at = [](const char* host) { return *Endpoint::numeric(host, 1); };
  const auto ten = Network::parse("10.0.0.0/9");
  REQUIRE(ten);
  CHECK(ten->contains(at("10.127.255.255")));
  CHECK_FALSE(ten->contains(at("10.128.0.0")));
  CHECK(ten->contains(at("::ffff:10.0.0.1")));
  CHECK_FALSE(ten->contains(at("::1")));
  CHECK_FALSE(ten->contains(*Endpoint::unix_socket("")));
  CHECK(Network::parse("0.0.0.0/0")->contains(at("255.1.2.3")));
  CHECK(Network::parse("local")->contains(*Endpoint::unix_socket("")));
  CHECK_FALSE(Network::parse("local")->contains(at("127.0.0.1")));
  CHECK(Network::parse("2001:db8::/33")->contains(at("2001:db8:7fff::1")));
  CHECK_FALSE(Network::parse("2001:db8::/33")->contains(at("2001:db8:8000::1")));
  for (const char* wrong : {"10.0.0.0/33", "10.0.0", "/8", "host", "10.0.0.0/", "10.0.0.0/-1"})
    CHECK_FALSE(Network::parse(wrong));
}

TEST_CASE("endpoint: loopback is local and a balancer's IPv4 in IPv6 is IPv4", "[net]") {
  CHECK(Endpoint::numeric("127.5.5.5", 1)->local());
  CHECK(Endpoint::numeric("::ffff:127.0.0.1", 1)->local());
  CHECK_FALSE(Endpoint::numeric("::ffff:192.0.2.7", 1)->local());
  CHECK(Endpoint::numeric("::ffff:192.0.2.7", 7)->text() == "192.0.2.7:7");
  CHECK(Endpoint::unix_socket("/run/x")->text() == "unix:/run/x");
  CHECK_FALSE(Endpoint::unix_socket(std::string(108, 'x')));
}
