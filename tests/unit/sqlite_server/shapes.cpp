// Texts that differ in their integers share a translation: which texts have a shape, and that the shared translation is the one that
// each text would have by itself.
#include <catch2/catch.hpp>

#include <string>
#include <string_view>

#include "engine/shapes.hpp"

using namespace termgate::sqlite_server;

TEST_CASE("shapes: integers of a text are told apart from all else that has digits", "[F7][sqlite_server]") {
  const auto shape =
      shape_of("SELECT a1, t.b2 FROM t WHERE id = 42 AND x IN (7,-8) AND s = 'it''s 9' AND \"q 5\" = 1.5 OR y > 12345678901;");
  REQUIRE(shape);
  REQUIRE(shape->numbers.size() == 3);
  CHECK(shape->numbers[0].value == 42);
  CHECK(shape->numbers[1].value == 7);
  CHECK(shape->numbers[2].value == 8);
  CHECK(shape->text.find("'it''s 9'") != std::string::npos);
  CHECK(shape->text.find("12345678901") != std::string::npos);
  CHECK(shape->text.find("1.5") != std::string::npos);
  CHECK(shape_of("SELECT 1")->text == shape_of("SELECT 999999999")->text);
  CHECK(shape_of("SELECT 1")->text != shape_of("SELECT -1")->text);
  CHECK(shape_of("SELECT 1")->text != shape_of("SELECT 1000000000")->text);
}

TEST_CASE("shapes: what the lexer leaves to the grammar has none", "[F7][sqlite_server]") {
  for (const std::string_view text :
       {"SELECT a FROM t", "SELECT $1, 2", "SELECT 1 -- 2", "SELECT 1 /* 2 */", "SELECT E'\\'' , 1", "SELECT B'1', 2", "SELECT U&'1', 2",
        "SELECT 1; SELECT 2", "SELECT '1", "SELECT \"1", "SELECT $x$1$x$, 2", "SELECT 1 \\g", "SELECT \x01, 2"}) {
    CAPTURE(text);
    CHECK(!shape_of(text));
  }
}
