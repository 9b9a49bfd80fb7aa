// Value bridges what databases disagree on, and refuses what makes no sense.
#include <catch2/catch.hpp>

#include <termgate/error.hpp>
#include <termgate/value.hpp>

using namespace termgate;

TEST_CASE("value: an integer may stand for a bool and text for an integer", "[fencing]") {
  CHECK(Value(1).as_bool());
  CHECK_FALSE(Value("f").as_bool());
  CHECK(Value("42").as_int() == 42);
  CHECK(Value(true).as_int() == 1);
  CHECK_THROWS_AS(Value("4x").as_int(), DatabaseError);
  CHECK_THROWS_AS(Value(Bytes{"x"}).as_int(), DatabaseError);
}

TEST_CASE("value: an empty optional is NULL", "[fencing]") {
  CHECK(Value(std::optional<std::int64_t>{}).is_null());
  CHECK(Value(std::optional<std::int64_t>{3}).as_int() == 3);
  CHECK_FALSE(Value().as_optional_int());
}

TEST_CASE("rows: one row is demanded where one is due", "[fencing]") {
  Rows rows;
  CHECK_THROWS_AS(rows.one(), DatabaseError);
  rows.rows.push_back({Value(1)});
  CHECK(rows.one()[0].as_int() == 1);
}
