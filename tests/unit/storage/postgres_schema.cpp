// The schema's name is spliced into statements in one place, whatever it holds.
#include <catch2/catch.hpp>

#include "schema.hpp"

using termgate::detail::with_schema;

TEST_CASE("schema: hostile names stay names", "[postgres]") {
  CHECK(with_schema("SELECT @schema@.f(@schema_lit@)", "termgate") == "SELECT \"termgate\".f('termgate')");
  CHECK(with_schema("@schema@", "a\"; DROP TABLE x; --") == "\"a\"\"; DROP TABLE x; --\"");
  CHECK(with_schema("@schema_lit@", "it's") == "'it''s'");
  CHECK(with_schema("@schema_lit@", "a\\b") == " E'a\\\\b'");
  CHECK(with_schema("@schemas and @schema", "t") == "@schemas and @schema");
}
