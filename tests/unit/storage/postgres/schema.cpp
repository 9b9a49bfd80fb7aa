// The schema's name is spliced into statements in one place, whatever it holds.
#include <catch2/catch.hpp>

#include <termgate/detail/schema.hpp>

using termgate::detail::need_schema_name;
using termgate::detail::with_schema;

TEST_CASE("schema: hostile names stay names", "[postgres]") {
  CHECK(with_schema("SELECT @schema@.f(@schema_lit@)", "termgate") ==
        "SELECT \"termgate\".f('termgate')");
  CHECK(with_schema("@schema@", "a\"; DROP TABLE x; --") == "\"a\"\"; DROP TABLE x; --\"");
  CHECK(with_schema("@schema_lit@", "it's") == "'it''s'");
  CHECK(with_schema("@schema_lit@", "a\\b") == " E'a\\\\b'");
  CHECK(with_schema("@schemas and @schema", "t") == "@schemas and @schema");
}

TEST_CASE("schema: a name that the SQL of layer 1 could not bear is refused", "[storage]") {
  for (const std::string name : {"", "q'x", "p%x", "x$$y", "a\nb"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH(need_schema_name(name), Catch::StartsWith("TG005 malformed schema name"));
  }
  CHECK_THROWS_AS(need_schema_name(std::string(64, 'a')), termgate::InvalidInput);
  for (const std::string name : {"termgate", "Own Layer1", "a\"b", "sch\xc3\xa9ma"})
    CHECK_NOTHROW(need_schema_name(name));
}
