// Names and numbers of the contract's section 1: what a term, scope, stream or write id may be.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/write_id.hpp>

using namespace termgate;

namespace {
std::string repeat(const std::string& part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}
}  // namespace

TEST_CASE("term: takes 1 to 2^62 and nothing else", "[fencing]") {
  CHECK(Term(1).value() == 1);
  CHECK(Term(Term::max_value).value() == 4611686018427387904);
  CHECK_THROWS_AS(Term(0), InvalidInput);
  CHECK_THROWS_AS(Term(-1), InvalidInput);
  CHECK_THROWS_AS(Term(Term::max_value + 1), InvalidInput);
  CHECK(Term(3) < Term(5));
}

TEST_CASE("scope: counts code points and bytes and refuses what is no UTF-8", "[fencing]") {
  CHECK(Scope("billing").name() == "billing");
  CHECK(Scope(repeat("x", 200)).name().size() == 200);
  CHECK(Scope(repeat("\xF0\x9F\x94\x92", 200)).name().size() == 800);
  struct Bad {
    const char* name;
    std::string text;
    const char* problem;
  };
  const Bad rows[] = {
      {"empty", "", "empty"},
      {"201 code points", repeat("x", 201), "200 code points"},
      {"over 800 bytes", repeat("\xF0\x9F\x94\x92", 201), "800 bytes"},
      {"a NUL inside", std::string("a\0b", 3), "NUL"},
      {"a lone continuation byte", "a\x80", "UTF-8"},
      {"an overlong slash", "\xC0\xAF", "UTF-8"},
      {"a surrogate", "\xED\xA0\x80", "UTF-8"},
      {"above U+10FFFF", "\xF4\x90\x80\x80", "UTF-8"},
      {"cut short", "\xE2\x82", "UTF-8"},
      {"Latin-1", "caf\xE9", "UTF-8"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK_THROWS_WITH(Scope(row.text), Catch::Contains("TG005") && Catch::Contains(row.problem));
  }
}

TEST_CASE("scope: look-alikes are kept apart and nothing is normalised", "[fencing]") {
  CHECK(Scope("billing") != Scope("Billing"));
  CHECK(Scope("b") != Scope("\xD0\xAC"));
  CHECK(Scope("\xC3\xA9") != Scope("e\xCC\x81"));
  CHECK(Scope("a") != Scope("a "));
}

TEST_CASE("write id: takes one UUID form and gives it back in lower case", "[fencing]") {
  CHECK(WriteId("6F1F6A0E-3B1C-4F0E-9A51-0A1B2C3D4E5F").text() ==
        "6f1f6a0e-3b1c-4f0e-9a51-0a1b2c3d4e5f");
  CHECK_THROWS_AS(WriteId(""), InvalidInput);
  CHECK_THROWS_AS(WriteId("6f1f6a0e3b1c4f0e9a510a1b2c3d4e5f"), InvalidInput);
  CHECK_THROWS_AS(WriteId("6f1f6a0e-3b1c-4f0e-9a51-0a1b2c3d4e5g"), InvalidInput);
  CHECK(WriteId::random() != WriteId::random());
  CHECK(WriteId::random().text().at(14) == '4');
}
