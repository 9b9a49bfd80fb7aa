// The pieces of a statement in three dialects: where quotes, comments and words end.
#include <catch2/catch.hpp>

#include <termgate/text/scanner.hpp>

using namespace termgate::text;

namespace {

constexpr Dialect all[] = {Dialect::postgresql, Dialect::sqlserver, Dialect::sqlite};

// The pieces but for white space and comments, with a | between them; ~ behind one that has no end.
std::string pieces(std::string_view sql, Dialect dialect) {
  std::string result;
  Scanner scanner(sql, dialect);
  for (Token token; scanner.next(token);) {
    if (token.kind == Token::Kind::blank && token.ends) continue;
    result.append(result.empty() ? "" : "|").append(token.text).append(token.ends ? "" : "~");
  }
  return result;
}

}  // namespace

TEST_CASE("scanner: quotes end where each database ends them", "[text]") {
  for (const Dialect dialect : all) {
    CHECK(pieces("a 'b''c' \"d\"\"e\"", dialect) == "a|'b''c'|\"d\"\"e\"");
    CHECK(pieces("'a", dialect) == "'a~");
    CHECK(pieces("'a''", dialect) == "'a''~");
  }
  CHECK(pieces("E'a\\'b' c", Dialect::postgresql) == "E'a\\'b'|c");
  CHECK(pieces("E'a\\' c", Dialect::sqlserver) == "E|'a\\'|c");
  CHECK(pieces("ae'a\\' b", Dialect::postgresql) == "ae|'a\\'|b");
  CHECK(pieces("[a]]b] c", Dialect::sqlserver) == "[a]]b]|c");
  CHECK(pieces("[a]]b] c", Dialect::sqlite) == "[a]|]|b|]|c");
  CHECK(pieces("a[1]", Dialect::postgresql) == "a|[|1|]");
  CHECK(pieces("`a``b` c", Dialect::sqlite) == "`a``b`|c");
  CHECK(pieces("$t$ ' $x$ $t$ a", Dialect::postgresql) == "$t$ ' $x$ $t$|a");
  CHECK(pieces("$t$ a", Dialect::postgresql) == "$t$ a~");
  CHECK(pieces("a$1 $2 $x", Dialect::postgresql) == "a$1|$2|$|x");
}

TEST_CASE("scanner: comments nest where the database lets them, and lines end where it ends them",
          "[text]") {
  CHECK(pieces("/* a /* b */ c */ d", Dialect::postgresql) == "d");
  CHECK(pieces("/* a /* b */ c */ d", Dialect::sqlserver) == "d");
  CHECK(pieces("/* a /* b */ c", Dialect::sqlite) == "c");
  CHECK(pieces("/* a", Dialect::sqlite) == "/* a~");
  CHECK(pieces("-- a\rb", Dialect::postgresql) == "b");
  CHECK(pieces("-- a\rb\nc", Dialect::sqlite) == "c");
}

TEST_CASE("scanner: words are those of the database", "[text]") {
  CHECK(pieces("@a #b c", Dialect::sqlserver) == "@a|#b|c");
  CHECK(pieces("@a", Dialect::postgresql) == "@|a");
  CHECK(pieces("sch\xc3\xa9ma x$y 1.5e3z;", Dialect::postgresql) == "sch\xc3\xa9ma|x$y|1.5e3z|;");
  CHECK(pieces("a\vb", Dialect::sqlite) == "a|\v|b");
  CHECK(pieces("a\vb", Dialect::postgresql) == "a|b");
}

TEST_CASE("scanner: the first pieces of the first statement", "[text]") {
  using Words = std::vector<std::string>;
  CHECK(first_pieces(" ;/* x */; ROLLBACK -- \n To sp", Dialect::postgresql, 3, true) ==
        Words{"rollback", "to", "sp"});
  CHECK(first_pieces("ROLLBACK; TO", Dialect::postgresql, 3, true) == Words{"rollback"});
  CHECK(first_pieces("(SELECT", Dialect::postgresql, 3, true).empty());
  CHECK(first_pieces("VACUUM\"main\"INTO'x'", Dialect::sqlite, 5, false) ==
        Words{"vacuum", "\"main\"", "into", "'x'"});
  CHECK(is_nothing(" ; -- x\n /* y */ ; /* z", Dialect::sqlite));
  CHECK_FALSE(is_nothing(" ; x", Dialect::sqlite));
}

TEST_CASE("text: small letters and comparison know ASCII alone", "[text]") {
  CHECK(lower("AbZ\xc3\x89[@`{") == "abz\xc3\x89[@`{");
  CHECK(same("Termgate", "tERMGATE"));
  CHECK_FALSE(same("a", "aa"));
  CHECK_FALSE(same("@", "`"));
  CHECK(begins("BEARER x", "bearer "));
  CHECK_FALSE(begins("bear", "bearer"));
}
