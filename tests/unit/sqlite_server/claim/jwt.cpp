// Signed tokens: RFC 8037's vector, what each claim means, and a table of what a forger would try.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "claim/jwt.hpp"
#include "claim/letters.hpp"
#include "signer.hpp"

using namespace termgate::claim;
using claim_test::signed_token;
using Why = JwtRefused::Why;

namespace {

constexpr std::int64_t now = 1'800'000'000;

std::vector<JwtKey> keys() { return {JwtKey::parse(claim_test::public_key)}; }

std::optional<SignedToken> read(const std::string& token, JwtRefused& refused) {
  return read_jwt(token, keys(), now, refused);
}

}  // namespace

TEST_CASE("jwt: the signature of RFC 8037 is right, and no other", "[sqlite_server]") {
  const auto key = JwtKey::parse(claim_test::public_key);
  const std::string message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
  const std::string signature =
      from_base64url(
          "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")
          .value();
  CHECK(key.signed_by(message, signature));
  CHECK_FALSE(key.signed_by(message + "x", signature));
  CHECK_FALSE(key.signed_by(message, signature.substr(1)));
  CHECK_FALSE(key.signed_by(message, ""));
  CHECK_FALSE(key.signed_by(message, std::string(64, '\0')));
  for (std::size_t bit = 0; bit < 512; bit += 7) {
    std::string other = signature;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
    CHECK_FALSE(key.signed_by(message, other));
  }
}

TEST_CASE("jwt: a token says who may do what", "[sqlite_server]") {
  JwtRefused refused;
  const auto whole = read(
      signed_token(
          R"({"sub":"app","a":"ro","exp":1800000100,"nbf":1799999900,"iat":1,"extra":[{"x":1.5}],)"
          R"("termgate":{"scope":"order 7","term":"5"}})"),
      refused);
  REQUIRE(whole);
  CHECK(whole->subject == "app");
  CHECK(whole->read_only);
  CHECK(whole->expires == 1800000100);
  CHECK(whole->scope == "order 7");
  CHECK(whole->term == 5);
  const auto empty = read(signed_token("{}"), refused);
  REQUIRE(empty);
  CHECK(empty->subject == "jwt");
  CHECK_FALSE(empty->read_only);
  CHECK_FALSE(empty->expires);
  CHECK_FALSE(empty->scope);
  const auto scope_alone =
      read(signed_token(R"({"a":"rw","termgate":{"scope":"billing"}})"), refused);
  REQUIRE(scope_alone);
  CHECK(scope_alone->scope == "billing");
  CHECK_FALSE(scope_alone->term);
}

TEST_CASE("jwt: expiry has half a minute of grace", "[sqlite_server]") {
  JwtRefused refused;
  CHECK(read(signed_token(R"({"exp":1799999970})"), refused));
  CHECK_FALSE(read(signed_token(R"({"exp":1799999969})"), refused));
  CHECK(refused.why == Why::expired);
  CHECK(read(signed_token(R"({"nbf":1800000030})"), refused));
  CHECK_FALSE(read(signed_token(R"({"nbf":1800000031})"), refused));
  CHECK(refused.why == Why::not_yet);
}

TEST_CASE("jwt: what is signed and still no good is refused", "[sqlite_server]") {
  struct Row {
    const char* name;
    std::string token;
    Why why;
  };
  const std::string good = R"({"alg":"EdDSA"})";
  const std::vector<Row> rows{
      {"a namespace", signed_token(R"({"id":"x"})"), Why::unusable},
      {"permissions by namespace", signed_token(R"({"p":{"rw":{"ns":["x"]}}})"), Why::unusable},
      {"a null namespace", signed_token(R"({"id":null})"), Why::unusable},
      {"another level", signed_token(R"({"a":"root"})"), Why::unusable},
      {"a level that is no text", signed_token(R"({"a":1})"), Why::unusable},
      {"alg none", signed_token("{}", R"({"alg":"none"})"), Why::unusable},
      {"alg HS256", signed_token("{}", R"({"alg":"HS256"})"), Why::unusable},
      {"alg in small letters", signed_token("{}", R"({"alg":"eddsa"})"), Why::unusable},
      {"no alg", signed_token("{}", "{}"), Why::unusable},
      {"alg twice", signed_token("{}", R"({"alg":"none","alg":"EdDSA"})"), Why::malformed},
      {"alg twice, once by escapes", signed_token("{}", R"({"\u0061lg":"none","alg":"EdDSA"})"),
       Why::malformed},
      {"crit", signed_token("{}", R"({"alg":"EdDSA","crit":["b64"],"b64":false})"), Why::unusable},
      {"exp twice", signed_token(R"({"exp":1,"exp":1900000000})"), Why::malformed},
      {"a name twice within", signed_token(R"({"termgate":{"scope":"a","term":"5","term":"9"}})"),
       Why::malformed},
      {"a name twice by escapes", signed_token(R"({"a":"ro","\u0061":"rw"})"), Why::malformed},
      {"exp as text", signed_token(R"({"exp":"1900000000"})"), Why::malformed},
      {"exp as a float", signed_token(R"({"exp":1.9e9})"), Why::malformed},
      {"exp with a fraction", signed_token(R"({"exp":1900000000.5})"), Why::malformed},
      {"exp below 0", signed_token(R"({"exp":-1})"), Why::malformed},
      {"exp past 2^53", signed_token(R"({"exp":9007199254740993})"), Why::malformed},
      {"exp past 2^63", signed_token(R"({"exp":9223372036854775808})"), Why::malformed},
      {"exp without bound", signed_token(R"({"exp":1e400})"), Why::malformed},
      {"exp null", signed_token(R"({"exp":null})"), Why::malformed},
      {"nbf as text", signed_token(R"({"nbf":"1"})"), Why::malformed},
      {"sub as a number", signed_token(R"({"sub":7})"), Why::malformed},
      {"sub empty", signed_token(R"({"sub":""})"), Why::malformed},
      {"sub with a NUL", signed_token(R"({"sub":"a\u0000b"})"), Why::malformed},
      {"sub too long", signed_token(R"({"sub":")" + std::string(201, 'a') + "\"}"), Why::malformed},
      {"termgate a text", signed_token(R"({"termgate":"billing"})"), Why::bad_claim},
      {"termgate null", signed_token(R"({"termgate":null})"), Why::bad_claim},
      {"termgate empty", signed_token(R"({"termgate":{}})"), Why::bad_claim},
      {"a term alone", signed_token(R"({"termgate":{"term":"5"}})"), Why::bad_claim},
      {"a term as a number", signed_token(R"({"termgate":{"scope":"a","term":5}})"),
       Why::bad_claim},
      {"term 0", signed_token(R"({"termgate":{"scope":"a","term":"0"}})"), Why::bad_claim},
      {"an empty scope", signed_token(R"({"termgate":{"scope":"","term":"5"}})"), Why::bad_claim},
      {"something else in it", signed_token(R"({"termgate":{"scope":"a","term":"5","lease":"x"}})"),
       Why::bad_claim},
      {"an array", signed_token("[]"), Why::malformed},
      {"no JSON", signed_token("exp=1"), Why::malformed},
      {"more after the object", signed_token("{} {}"), Why::malformed},
      {"a comment", signed_token("{/* */}"), Why::malformed},
      {"a comma too many", signed_token(R"({"a":"ro",})"), Why::malformed},
      {"bytes that are no UTF-8", signed_token("{\"sub\":\"\xff\"}"), Why::malformed},
      {"deep", signed_token(R"({"x":)" + std::string(100, '[') + std::string(100, ']') + "}"),
       Why::malformed},
      {"nothing", signed_token(""), Why::malformed},
      {"long", signed_token(R"({"x":")" + std::string(9000, 'a') + "\"}"), Why::malformed},
      {"signed by nobody", "eyJhbGciOiJFZERTQSJ9.e30." + to_base64url(std::string(64, 'x')),
       Why::not_signed},
      {"without a signature", "eyJhbGciOiJFZERTQSJ9.e30.", Why::not_signed},
      {"one part", "eyJhbGciOiJFZERTQSJ9", Why::malformed},
      {"two parts", "eyJhbGciOiJFZERTQSJ9.e30", Why::malformed},
      {"four parts", signed_token("{}") + ".e30", Why::malformed},
      {"padding", signed_token("{}") + "=", Why::malformed},
      {"a space in front", " " + signed_token("{}"), Why::malformed},
      {"points alone", "..", Why::malformed},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    JwtRefused refused;
    CHECK_FALSE(read(row.token, refused));
    CHECK(static_cast<int>(refused.why) == static_cast<int>(row.why));
    CHECK_FALSE(refused.message.empty());
  }
}

TEST_CASE("jwt: no letter of a signed token can be changed", "[sqlite_server]") {
  const std::string good = signed_token(R"({"termgate":{"scope":"a","term":"5"}})");
  JwtRefused refused;
  REQUIRE(read(good, refused));
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string other = good;
    other[at] = other[at] == 'A' ? 'B' : 'A';
    INFO(at);
    CHECK_FALSE(read(other, refused));
  }
}

TEST_CASE("jwt: one of several keys is enough, and none lets nobody in", "[sqlite_server]") {
  const std::string token = signed_token("{}");
  JwtRefused refused;
  const auto other = JwtKey::parse(to_base64url(std::string(32, 'k')));
  CHECK(read_jwt(token, {other, keys().front()}, now, refused));
  CHECK_FALSE(read_jwt(token, {other}, now, refused));
  CHECK_FALSE(read_jwt(token, {}, now, refused));
}

TEST_CASE("jwt: a key is PEM or 43 letters", "[sqlite_server]") {
  const std::string pem =
      "-----BEGIN PUBLIC "
      "KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC "
      "KEY-----\n";
  JwtRefused refused;
  CHECK(read_jwt(signed_token("{}"), {JwtKey::parse(pem)}, now, refused));
  CHECK(read_jwt(signed_token("{}"), {JwtKey::parse(std::string(claim_test::public_key) + "\n")},
                 now, refused));
  for (const std::string& text :
       {std::string(), std::string("AAAA"), std::string(44, 'A'), std::string(42, 'A'),
        std::string("-----BEGIN PUBLIC KEY-----"),
        std::string("-----BEGIN PRIVATE "
                    "KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                    "-----END PRIVATE KEY-----\n"),
        // NIST's P-256
        std::string("-----BEGIN PUBLIC "
                    "KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7"
                    "6e8Tus9uPHvRVEU8UTnoGhZVgBoJxlUoqC0mrFCBlJqTRs6XAHuMjVPrlA==\n-----END PUBLIC "
                    "KEY-----\n")}) {
    INFO(text);
    CHECK_THROWS_AS(JwtKey::parse(text), std::invalid_argument);
  }
  CHECK_THROWS_WITH(JwtKey::from_file("/nowhere/key"), Catch::Contains("/nowhere/key"));
}
