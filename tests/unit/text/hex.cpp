// Bytes as hexadecimal digits and in a URL, and the hash that names prepared statements.
#include <catch2/catch.hpp>

#include <string>
#include <string_view>

#include <termgate/text/fnv.hpp>
#include <termgate/text/hex.hpp>

using namespace termgate::text;

TEST_CASE("hex: every byte has two digits and every digit a value", "[text]") {
  CHECK(hex(std::string_view("\0\x7f\xff a", 5)) == "007fff2061");
  std::string held = "x";
  append_hex(held, "\xC3\xB6");
  CHECK(held == "xc3b6");
  for (int value = 0; value < 16; ++value) {
    CHECK(hex_value("0123456789abcdef"[value]) == value);
    CHECK(hex_value("0123456789ABCDEF"[value]) == value);
  }
  for (const char c : {'/', ':', '@', 'G', '`', 'g', ' ', '\xe1'}) CHECK(hex_value(c) == -1);
}

TEST_CASE("hex: percent-encoding keeps letters and digits and what it is given", "[text]") {
  CHECK(percent_encoded("aZ09-_.~ /\xC3\xB6") == "aZ09%2D%5F%2E%7E%20%2F%C3%B6");
  CHECK(percent_encoded("a-b_c.d", "-_") == "a-b_c%2Ed");
}

TEST_CASE("hex: percent-decoding takes two digits after each percent", "[text]") {
  CHECK(percent_decoded("billing") == "billing");
  CHECK(percent_decoded("order%207") == "order 7");
  CHECK(percent_decoded("%c3%B6") == "ö");
  CHECK(percent_decoded("%2541") == "%41");
  CHECK(percent_decoded("a+b") == "a+b");
  for (const std::string_view text : {"%", "%4", "a%", "%4g", "%G0", "%%41", "%41%"}) {
    INFO(text);
    CHECK_FALSE(percent_decoded(text));
  }
  CHECK(percent_decoded_where_it_can("%41%4g%") == "A%4g%");
}

TEST_CASE("hex: the hash is FNV-1a", "[text]") {
  STATIC_REQUIRE(fnv1a("") == 0xcbf29ce484222325u);
  STATIC_REQUIRE(fnv1a("a") == 0xaf63dc4c8601ec8cu);
}
