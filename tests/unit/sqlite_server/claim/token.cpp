// Tokens tg.TERM.SCOPE.SECRET, and the letters that they are made of: one spelling of each, hostile
// ones refused, no secret in a log.
#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <termgate/term.hpp>

#include "claim/letters.hpp"
#include "claim/token.hpp"

using namespace termgate;
using namespace termgate::claim;

TEST_CASE("token: is the claim and the secret that it was made of", "[sqlite_server]") {
  const std::vector<std::string> scopes{
      "billing",  "A-z_09", "~", "order 7", "a.b", "größe", std::string(200, 'x'),
      "tg.5.x.y", "%41"};
  for (const std::string& scope : scopes) {
    for (const std::int64_t term : {std::int64_t{1}, std::int64_t{42}, Term::max_value}) {
      for (const std::string_view secret :
           {"", "s3cret-letters.with.points", "eyJhbGciOiJFZERTQSJ9.e30.c2ln", "a+/="}) {
        INFO(scope);
        const std::string token = token_of({scope, term}, secret);
        CHECK(token.find_first_not_of(
                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") ==
              std::string::npos);
        const auto read = read_token(token);
        REQUIRE(read);
        CHECK(read->problem.empty());
        CHECK(read->claim == hrana::Claim{scope, term});
        CHECK(read->secret == secret);
      }
    }
  }
}

TEST_CASE("token: one that does not begin with tg. is a secret as a whole", "[sqlite_server]") {
  for (const std::string_view token :
       {"", "t", "tg", "TG.5.billing.x", " tg.5.billing.x", "xtg.5.billing.x", "tg5.billing"}) {
    INFO(token);
    CHECK_FALSE(read_token(token));
  }
}

TEST_CASE("token: a malformed one is refused and does not show its secret", "[sqlite_server]") {
  struct Row {
    const char* name;
    std::string token;
  };
  const std::vector<Row> rows{
      {"nothing after tg.", "tg."},
      {"no scope", "tg.5"},
      {"no secret's point", "tg.5.billing"},
      {"no term", "tg..billing.s3cr"},
      {"empty scope", "tg.5..s3cr"},
      {"term 0", "tg.0.billing.s3cr"},
      {"negative term", "tg.-5.billing.s3cr"},
      {"a sign", "tg.+5.billing.s3cr"},
      {"a leading zero", "tg.05.billing.s3cr"},
      {"a space", "tg. 5.billing.s3cr"},
      {"hexadecimal", "tg.0x5.billing.s3cr"},
      {"a fraction has the wrong parts", "tg.5e3.billing.s3cr"},
      {"2^62 and one", "tg.4611686018427387905.billing.s3cr"},
      {"past 64 bits", "tg.99999999999999999999999999.billing.s3cr"},
      {"a letter of another alphabet",
       "tg.5.gr\xc3\xb6\xc3\x9f"
       "e.s3cr"},
      {"a plus", "tg.5.a+b.s3cr"},
      {"percent", "tg.5.a%41.s3cr"},
      {"~ and nothing", "tg.5.~.s3cr"},
      {"~ and one letter", "tg.5.~Y.s3cr"},
      {"~ with padding", "tg.5.~YQ==.s3cr"},
      {"~ with bits left", "tg.5.~YR.s3cr"},
      {"~ with base64's own letters", "tg.5.~++++.s3cr"},
      {"~ with a NUL", "tg.5.~" + to_base64url(std::string(1, '\0')) + ".s3cr"},
      {"~ with bytes that are no UTF-8", "tg.5.~" + to_base64url("\xff\xfe") + ".s3cr"},
      {"~ with 201 letters", "tg.5.~" + to_base64url(std::string(201, 'a')) + ".s3cr"},
      {"201 letters", "tg.5." + std::string(201, 'a') + ".s3cr"},
      {"a NUL", std::string("tg.5.bill\0ing.s3cr", 18)},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const auto read = read_token(row.token);
    REQUIRE(read);
    CHECK_FALSE(read->problem.empty());
    CHECK(read->claim.none());
    CHECK(read->problem.find("s3cr") == std::string::npos);
    CHECK(shown(row.token) == "…");
  }
}

TEST_CASE("token: a log shows what is before the secret", "[sqlite_server]") {
  CHECK(shown("tg.5.billing.SECRET") == "tg.5.billing.…");
  CHECK(shown("tg.5.billing.") == "tg.5.billing.…");
  CHECK(shown("tg.5.billing.SEC.RET") == "tg.5.billing.…");
  CHECK(shown("SECRET") == "…");
  CHECK(shown("") == "…");
}
