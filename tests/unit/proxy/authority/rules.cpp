// The rules' file: what each key means, who is matched, and that every mistake is told with file
// and line. Addresses and holders besides.
#include <catch2/catch.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include <termgate/authority/rules.hpp>
#include <termgate/error.hpp>

using namespace std::chrono_literals;
using namespace termgate;
using namespace termgate::authority;

namespace {

ConnectRequest request(std::string client, std::string user = "app",
                       std::string database = "billing", std::string application = "") {
  return {"0.0.0.0:6432",
          std::move(client),
          {std::move(user), std::move(database), std::move(application), false}};
}

std::string mistake(const std::string& text) {
  try {
    parse_rules(text, "rules.conf");
  } catch (const InvalidInput& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("rules: every key is read", "[proxy][authority]") {
  const auto rules = parse_rules(
      "# who may write what\n"
      "[rule fixed]\n"
      "user = app, \"odd, name\"\n"
      "scope = \"orders \"\"7\"\"\"\n"
      "term = 42\n"
      "\n"
      "[rule watched file]\r\n"
      "database=billing\r\n"
      "file = /run/elector/billing\n"
      "overridable = yes\n"
      "without-term = reject\n"
      "enforce = observe\n"
      "[rule lease]\n"
      "client = 192.0.2.0/24, 2001:db8::/32, local\n"
      "lease = billing\n"
      "ttl = 1 min\n"
      "holder = %client_host/%application_name\n"
      "takeover = newest\n"
      "replication = yes\n"
      "[rule rest]\n"
      "refuse = come back with a known name\n",
      "rules.conf");
  REQUIRE(rules.all.size() == 4);
  CHECK(rules.all[0].users == std::vector<std::string>{"app", "odd, name"});
  CHECK(std::get<FixedTerm>(rules.all[0].source).scope.name() == "orders \"7\"");
  CHECK(std::get<FixedTerm>(rules.all[0].source).term->value() == 42);
  CHECK_FALSE(rules.all[0].overridable);
  CHECK_FALSE(rules.all[0].without_term);
  CHECK(rules.all[1].name == "watched file");
  CHECK(std::get<FileTerm>(rules.all[1].source).path == "/run/elector/billing");
  CHECK(rules.all[1].overridable);
  CHECK(rules.all[1].without_term == conversation::WithoutTerm::reject);
  CHECK(rules.all[1].enforce == conversation::Enforce::observe);
  const auto& lease = std::get<LeaseTerm>(rules.all[2].source);
  CHECK(lease.scope.name() == "billing");
  CHECK(lease.ttl == 60s);
  CHECK(lease.holder == "%client_host/%application_name");
  CHECK(lease.takeover == Takeover::newest);
  CHECK(rules.all[2].replication == true);
  CHECK(rules.all[3].refuse == "come back with a known name");
}

TEST_CASE("rules: a lease has defaults", "[proxy][authority]") {
  const auto rules = parse_rules("[rule a]\nlease = s\n", "f");
  const auto& lease = std::get<LeaseTerm>(rules.all[0].source);
  CHECK(lease.ttl == 10s);
  CHECK(lease.url.empty());
  CHECK(lease.holder == "%client_host");
  CHECK(lease.takeover == Takeover::wait);
}

TEST_CASE("rules: a lease may come from a lock service", "[proxy][authority]") {
  const auto rules = parse_rules(
      "[rule a]\nlease = s\nsource = \"redis://cache.example:7000/2?prefix=a,b\"\n[rule b]\nlease "
      "= s\n",
      "f");
  CHECK(std::get<LeaseTerm>(rules.all[0].source).url == "redis://cache.example:7000/2?prefix=a,b");
  CHECK(std::get<LeaseTerm>(rules.all[1].source).url.empty());
}

TEST_CASE("rules: the first that matches counts and all that it asks for must match",
          "[proxy][authority]") {
  const auto rules = parse_rules(
      "[rule one host]\nuser = app\nclient = 192.0.2.7\nscope = a\nterm = 1\n"
      "[rule apps]\nuser = app*\napplication = *worker*\nscope = b\nterm = 1\n"
      "[rule net]\nclient = 192.0.2.0/25\nscope = c\nterm = 1\n"
      "[rule port]\nlistener = *:7000\nscope = d\nterm = 1\n",
      "f");
  const auto name = [&](const ConnectRequest& who) {
    const Rule* rule = rules.of(who);
    return rule == nullptr ? std::string("none") : rule->name;
  };
  CHECK(name(request("192.0.2.7")) == "one host");
  CHECK(name(request("192.0.2.8")) == "net");
  CHECK(name(request("192.0.2.127")) == "net");
  CHECK(name(request("192.0.2.128")) == "none");
  CHECK(name(request("192.0.2.8", "app2", "x", "my worker 3")) == "apps");
  CHECK(name(request("10.0.0.1", "app2", "x", "my workers")) == "apps");
  CHECK(name(request("::ffff:192.0.2.7")) == "one host");
  CHECK(name(request("local")) == "none");
  CHECK(name(request("not an address")) == "none");
  ConnectRequest other = request("local");
  other.listener = "[::]:7000";
  CHECK(name(other) == "port");
}

TEST_CASE("rules: a file that cannot be read says why", "[proxy][authority]") {
  CHECK_THROWS_WITH(read_rules("/nowhere/rules"),
                    "/nowhere/rules: the file of rules cannot be read: No such file or directory");
  CHECK_THROWS_WITH(read_rules("/"), Catch::StartsWith("/: the file of rules cannot be read: "));
}

TEST_CASE("rules: a mistake is told with file and line", "[proxy][authority]") {
  struct Row {
    const char* text;
    const char* wanted;
  };
  const Row rows[] = {
      {"scope = a\n", "rules.conf:1: this is before the first [rule NAME]"},
      {"[rule a]\n[rule a]\n", "rules.conf:2: there is a rule \"a\" already"},
      {"[rule ]\n", "rules.conf:1: the rule has no name"},
      {"[other]\n", "rules.conf:1: a section is written [rule NAME]"},
      {"[rule a\n", "rules.conf:1: a section is written [rule NAME]"},
      {"[rule a]\nnonsense\n", "rules.conf:2: a line is KEY = VALUE"},
      {"[rule a]\n\ncolour = red\n", "rules.conf:3: there is no key \"colour\""},
      {"[rule a]\nuser = x\nuser = y\n", "rules.conf:3: \"user\" is given twice"},
      {"[rule a]\nuser =\n", "rules.conf:2: \"user\" has no value"},
      {"[rule a]\nuser = x,,y\n", "rules.conf:2: a list has an empty item"},
      {"[rule a]\nuser = x,\n", "rules.conf:2: a list has an empty item"},
      {"[rule a]\nuser = \"x\n", "rules.conf:2: a value has no closing quote"},
      {"[rule a]\nuser = \"x\" y\n", "rules.conf:2: after a closing quote"},
      {"[rule a]\nclient = 192.0.2.1/24\n", "rules.conf:2: \"192.0.2.1/24\": there are bits set"},
      {"[rule a]\nclient = 192.0.2.0/33\n", "rules.conf:2: \"192.0.2.0/33\": after the /"},
      {"[rule a]\nclient = db.example\n", "rules.conf:2: \"db.example\" is not an address"},
      {"[rule a]\nterm = 5\n", "rules.conf:1: rule \"a\" has a term and no scope"},
      {"[rule a]\nscope = s\nterm = 0\n", "rules.conf:3: \"0\" is not a term"},
      {"[rule a]\nscope = s\nterm = 4611686018427387905\n", "rules.conf:3:"},
      {"[rule a]\nscope = s\n", "rules.conf:1: rule \"a\" has a scope and no term"},
      {"[rule a]\nlease = s\nfile = /x\n", "rules.conf:1: rule \"a\" names more than one"},
      {"[rule a]\nfile = x\n", "rules.conf:2: \"file\" is a path from / on"},
      {"[rule a]\nttl = 5 s\n",
       "rules.conf:1: rule \"a\": source, ttl, holder and takeover go with a lease"},
      {"[rule a]\nsource = redis://h\n",
       "rules.conf:1: rule \"a\": source, ttl, holder and takeover go with a lease"},
      {"[rule a]\nlease = s\nsource = redis://h\ntakeover = newest\n",
       "rules.conf:1: rule \"a\": takeover = newest is only for"},
      {"[rule a]\nlease = s\nsource = file:///x\n",
       "rules.conf:1: rule \"a\": for a file write file = PATH"},
      {"[rule a]\nscope = s\nterm = 1\nsource = redis://h\n",
       "rules.conf:1: rule \"a\": source, ttl, holder and takeover go with"},
      {"[rule a]\nlease = s\nttl = 5\n", "rules.conf:3: \"5\" is not a duration"},
      {"[rule a]\nlease = s\nttl = 500 ms\n", "rules.conf:3: the ttl is from 1 s"},
      {"[rule a]\nlease = s\nttl = 25 h\n", "rules.conf:3: the ttl is from 1 s"},
      {"[rule a]\nlease = s\nholder = %host\n", "rules.conf:3: in \"holder\" a % begins"},
      {"[rule a]\nlease = s\nholder = a%\n", "rules.conf:3: in \"holder\" a % begins"},
      {"[rule a]\nlease = s\ntakeover = oldest\n",
       "rules.conf:3: \"takeover\" is one of: wait, newest"},
      {"[rule a]\noverridable = maybe\n", "rules.conf:2: \"overridable\" is one of: yes, no"},
      {"[rule a]\nrefuse = no\nlease = s\n", "rules.conf:1: rule \"a\" refuses"},
      {"[rule a]\nlease = \xff\n", "rules.conf:2: malformed scope"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK_THAT(mistake(row.text), Catch::StartsWith(row.wanted));
  }
  CHECK_THAT(mistake(std::string("[rule a]\nuser = a\0b\n", 20)), Catch::Contains("NUL"));
  CHECK_THAT(mistake(std::string(rules_bytes_max + 1, '#')), Catch::Contains("at most"));
}

TEST_CASE("rules: addresses are compared bit by bit", "[proxy][authority]") {
  std::string problem;
  const auto in = [&](const char* range, const char* client) {
    return AddressRange::parse(range, problem).value().contains(client);
  };
  CHECK(in("0.0.0.0/0", "192.0.2.7"));
  CHECK_FALSE(in("0.0.0.0/0", "::1"));
  CHECK_FALSE(in("::/0", "192.0.2.7"));
  CHECK(in("::/0", "2001:db8::1"));
  CHECK(in("2001:db8::/33", "2001:db8:7fff::1"));
  CHECK_FALSE(in("2001:db8::/33", "2001:db8:8000::1"));
  CHECK(in("10.128.0.0/9", "10.255.1.1"));
  CHECK_FALSE(in("10.128.0.0/9", "10.127.1.1"));
  CHECK(in("fe80::1", "fe80::1%eth0"));
  CHECK(in("local", "local"));
  CHECK_FALSE(in("local", "127.0.0.1"));
}

TEST_CASE("rules: a holder on this machine is told apart from one on another",
          "[proxy][authority]") {
  CHECK(holder_of("%client_host", request("192.0.2.7"), "gate1") == "192.0.2.7");
  CHECK(holder_of("%client_host", request("::ffff:192.0.2.7"), "gate1") == "192.0.2.7");
  CHECK(holder_of("%client_host", request("2001:DB8:0::1"), "gate1") == "2001:db8::1");
  CHECK(holder_of("%client_host", request("127.0.0.1"), "gate1") == "127.0.0.1@gate1");
  CHECK(holder_of("%client_host", request("::1"), "gate1") == "::1@gate1");
  CHECK(holder_of("%client_host", request("fe80::2%eth0"), "gate1") == "fe80::2@gate1");
  CHECK(holder_of("%client_host", request("local"), "gate1") == "local@gate1");
  CHECK(holder_of("%user at %database (%application_name) %listener 100%%",
                  request("192.0.2.7", "u", "d", "a%user"),
                  "gate1") == "u at d (a%user) 0.0.0.0:6432 100%");
}
