// Who sends a request and what its writes are checked with: the order of the places that declare,
// and what is refused.
#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "claim/claim.hpp"
#include "claim/letters.hpp"
#include "signer.hpp"

using namespace termgate;
using namespace termgate::claim;
using claim_test::signed_token;
using hrana::Claim;
using hrana::Permit;

namespace {

constexpr std::int64_t now = 1'800'000'000;

Doors doors() {
  Doors all;
  all.by_secret = [](std::string_view secret) -> std::optional<Known> {
    if (secret == "writer") return Known{"app", Level::write};
    if (secret == "reader") return Known{"view", Level::read};
    if (secret == "chief") return Known{"chief", Level::lead};
    return std::nullopt;
  };
  all.keys = {JwtKey::parse(claim_test::public_key)};
  return all;
}

Standing rule(Claim claim, bool overridable = false, std::string why = {}) {
  Standing standing;
  standing.rule = Rule{std::move(claim), std::move(why), overridable};
  return standing;
}

// What a request gets: its permit, or what it is refused with.
std::variant<Permit, Refusal> asked(std::string_view token, const Headers& headers = {},
                                    const Standing& standing = {}) {
  auto caller = identify(token, doors(), now);
  if (auto* refusal = std::get_if<Refusal>(&caller)) return *refusal;
  return permit_of(std::get<Caller>(caller), headers, standing);
}

Claim claim_of(const std::variant<Permit, Refusal>& answer) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) FAIL(refusal->message);
  return std::get<Permit>(answer).claim;
}

std::string code_of(const std::variant<Permit, Refusal>& answer) {
  return std::holds_alternative<Refusal>(answer) ? std::get<Refusal>(answer).code : "";
}

const std::string both = R"({"termgate":{"scope":"billing","term":"5"}})",
                  alone = R"({"termgate":{"scope":"billing"}})";

}  // namespace

TEST_CASE("claim: the places that declare have an order", "[sqlite_server]") {
  const Headers headers{{"order%207"}, {"9"}};
  CHECK(claim_of(asked("writer")).none());
  CHECK(claim_of(asked("tg.5.billing.writer")) == Claim{"billing", 5});
  CHECK(claim_of(asked("writer", headers)) == Claim{"order 7", 9});
  CHECK(claim_of(asked("tg.5.billing.writer", headers)) == Claim{"order 7", 9});
  CHECK(claim_of(asked(signed_token(both))) == Claim{"billing", 5});
  CHECK(claim_of(asked("tg.9.billing." + signed_token(both))) == Claim{"billing", 5});
  CHECK(claim_of(asked("tg.9.billing." + signed_token(alone))) == Claim{"billing", 9});
  CHECK(claim_of(asked(signed_token(alone), {{"billing"}, {"7"}})) == Claim{"billing", 7});
  CHECK(claim_of(asked(signed_token(alone), {{}, {"7"}})) == Claim{"billing", 7});
  CHECK(claim_of(asked("tg.9.billing." + signed_token(alone), {{}, {"7"}})) == Claim{"billing", 7});
  CHECK(claim_of(asked(signed_token(alone))) == Claim{"billing", 0});
  CHECK(claim_of(asked(signed_token(both), headers.scopes.empty() ? headers : Headers{},
                       rule({"host", 3}))) == Claim{"host", 3});
  CHECK(claim_of(asked("tg.5.billing.writer", headers, rule({"host", 3}))) == Claim{"host", 3});
  CHECK(claim_of(asked("writer", {}, rule({"host", 3}, true))) == Claim{"host", 3});
  CHECK(claim_of(asked("tg.5.billing.writer", {}, rule({"host", 3}, true))) == Claim{"billing", 5});
  CHECK(claim_of(asked(signed_token(alone), {}, rule({"billing", 3}, true))) ==
        Claim{"billing", 3});
  CHECK(claim_of(asked(signed_token(alone), {}, rule({"host", 3}, true))) == Claim{"billing", 0});
}

TEST_CASE("claim: a signer's or an operator's word is final", "[sqlite_server]") {
  const auto is_final = [](const std::variant<Permit, Refusal>& answer) {
    return std::get<Permit>(answer).claim_is_final;
  };
  CHECK(is_final(asked(signed_token(both))));
  CHECK(is_final(asked(signed_token(alone))));
  CHECK(is_final(asked("writer", {}, rule({"host", 3}))));
  CHECK_FALSE(is_final(asked("writer", {}, rule({"host", 3}, true))));
  CHECK_FALSE(is_final(asked("tg.5.billing.writer")));
  CHECK(is_final(asked(signed_token(both), {}, rule({"host", 3}, true))));
}

TEST_CASE("claim: a signed scope admits no other", "[sqlite_server]") {
  for (const auto& payload : {both, alone}) {
    CHECK(code_of(asked("tg.9.orders." + signed_token(payload))) == "TG005");
    CHECK(code_of(asked(signed_token(payload), {{"orders"}, {"9"}})) == "TG005");
    CHECK(code_of(asked("tg.9.orders." + signed_token(payload), {{"billing"}, {"9"}})) == "TG005");
  }
}

TEST_CASE("claim: a rule without a term says why", "[sqlite_server]") {
  const std::string why = "TG002 no term for a fenced write: node-2 holds the lease";
  const auto answer = asked("tg.5.billing.writer", {}, rule({"billing", 0}, false, why));
  CHECK(claim_of(answer).none());
  CHECK(std::get<Permit>(answer).why_no_claim == why);
}

// What a term and a scope may look like is token.cpp's.
TEST_CASE("claim: malformed headers are TG005 and never no term", "[sqlite_server]") {
  struct Row {
    const char* name;
    Headers headers;
  };
  const std::string nul("a\0b", 3);
  const std::vector<Row> rows{
      {"scope alone", {{"billing"}, {}}},
      {"term alone", {{}, {"5"}}},
      {"empty scope", {{""}, {"5"}}},
      {"empty term", {{"billing"}, {""}}},
      {"term 0", {{"billing"}, {"0"}}},
      {"two terms in one", {{"billing"}, {"5, 6"}}},
      {"two scopes", {{"billing", "billing"}, {"5"}}},
      {"two terms", {{"billing"}, {"5", "5"}}},
      {"a percent sign", {{"50%"}, {"5"}}},
      {"half an escape", {{"a%4"}, {"5"}}},
      {"a NUL", {{nul}, {"5"}}},
      {"no UTF-8", {{"%ff"}, {"5"}}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    for (const std::string token : {"writer", "tg.5.billing.writer", "reader"}) {
      CHECK(code_of(asked(token, row.headers)) == "TG005");
      // The sender of a malformed one believes that it counts, so it is refused under a final rule,
      // too.
      const auto answer = asked(token, row.headers, rule({"host", 3}));
      REQUIRE(code_of(answer) == "TG005");
      CHECK(std::get<Refusal>(answer).status == 400);
      CHECK(std::get<Refusal>(answer).message.starts_with("TG005 "));
    }
  }
}

TEST_CASE("claim: who is not known gets a 401 without a word of the token", "[sqlite_server]") {
  struct Row {
    const char* name;
    std::string token, code;
  };
  const std::string expired = signed_token(R"({"exp":1})");
  const std::vector<Row> rows{
      {"none", "", "AUTH_HTTP_HEADER_MISSING"},
      {"a claim alone", "tg.5.billing.", "AUTH_HTTP_HEADER_MISSING"},
      {"wrong", "SECRETwriter", "AUTH_TOKEN_UNKNOWN"},
      {"wrong in a claim", "tg.5.billing.SECRETwriter", "AUTH_TOKEN_UNKNOWN"},
      {"a claim in a claim", "tg.5.billing.tg.5.billing.writer", "AUTH_TOKEN_UNKNOWN"},
      {"malformed and wrong", "tg.05.billing.SECRETx", "AUTH_TOKEN_UNKNOWN"},
      {"expired", expired, "AUTH_JWT_EXPIRED"},
      {"not yet", signed_token(R"({"nbf":9000000000})"), "AUTH_JWT_IMMATURE"},
      {"changed", expired.substr(0, expired.size() - 4) + "AAAA", "AUTH_JWT_INVALID"},
      {"a namespace", signed_token(R"({"id":"SECRET"})"), "AUTH_JWT_INVALID"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const auto answer = identify(row.token, doors(), now);
    REQUIRE(std::holds_alternative<Refusal>(answer));
    const Refusal& refusal = std::get<Refusal>(answer);
    CHECK(refusal.status == 401);
    CHECK(refusal.code == row.code);
    CHECK(refusal.message.find("SECRET") == std::string::npos);
  }
}

TEST_CASE("claim: malformed ones of somebody who is known are TG005", "[sqlite_server]") {
  CHECK(code_of(asked("tg.05.billing.writer")) == "TG005");
  CHECK(code_of(asked("tg.5.~YR.writer")) == "TG005");
  CHECK(code_of(asked(signed_token(R"({"termgate":{"scope":"a","term":5}})"))) == "TG005");
}

TEST_CASE("claim: without tokens everybody may write and nobody has a name", "[sqlite_server]") {
  for (const std::string token : {"", "anything", "tg.5.billing."}) {
    const auto answer = identify(token, Doors{}, now);
    REQUIRE(std::holds_alternative<Caller>(answer));
    CHECK(std::get<Caller>(answer).name.empty());
    CHECK(std::get<Caller>(answer).level == Level::write);
    CHECK(std::get<Caller>(answer).by_token.term.has_value() == token.starts_with("tg."));
  }
  for (const std::string token :
       {"tg.05.billing.", "tg.5.0.billing.", "tg.5.billing.v2.", "tg.5.billing.anything"}) {
    const auto malformed = identify(token, Doors{}, now);
    REQUIRE(std::holds_alternative<Refusal>(malformed));
    CHECK(std::get<Refusal>(malformed).code == "TG005");
  }
}

TEST_CASE("claim: the level and the options decide what a write without a claim gets",
          "[sqlite_server]") {
  using hrana::Access;
  const auto access = [](const std::variant<Permit, Refusal>& answer) {
    return std::get<Permit>(answer).access;
  };
  Standing allow, reject, observe;
  allow.without_term = Standing::WithoutTerm::allow;
  reject.without_term = observe.without_term = Standing::WithoutTerm::reject;
  observe.observe = true;
  CHECK(access(asked("writer")) == Access::fenced);
  CHECK(access(asked("chief")) == Access::fenced);
  CHECK(access(asked("reader")) == Access::read_only);
  CHECK(access(asked("tg.5.billing.reader")) == Access::read_only);
  CHECK(access(asked(signed_token(R"({"a":"ro"})"), {}, allow)) == Access::read_only);
  CHECK(access(asked("writer", {}, allow)) == Access::unfenced);
  CHECK(code_of(asked("writer", {}, reject)) == "TG002");
  CHECK(code_of(asked(signed_token(alone), {}, reject)) == "TG002");
  CHECK(claim_of(asked("tg.5.billing.writer", {}, reject)) == Claim{"billing", 5});
  CHECK(std::get<Permit>(asked("writer", {}, observe)).observe);
}

TEST_CASE("claim: one header with the scheme Bearer", "[sqlite_server]") {
  CHECK(bearer_of({}) == "");
  CHECK(bearer_of({"Bearer x"}) == "x");
  CHECK(bearer_of({"bEARER tg.5.billing.x"}) == "tg.5.billing.x");
  CHECK_FALSE(bearer_of({"Basic eDp5"}));
  CHECK(bearer_of({"Bearer"}) == "");
  CHECK(bearer_of({"Bearer "}) == "");
  CHECK_FALSE(bearer_of({"Bearerx"}));
  CHECK_FALSE(bearer_of({""}));
  CHECK_FALSE(bearer_of({"Bearer x", "Bearer x"}));
}
