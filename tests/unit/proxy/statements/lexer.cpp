// Our tokens against those of PostgreSQL's own scanner: where strings and comments end decides what
// a text is.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "lexer.hpp"
#include "scan.hpp"

using namespace termgate::statements;

TEST_CASE("lexer: tokens begin and end where PostgreSQL's do", "[proxy][statements]") {
  for (const char* sql : {
           "SELECT 1",
           "select 'a', 'it''s', E'\\'', e'\\\\', N'x', B'01', x'1F', U&'\\0061', U&\"a\" , "
           "\"q\"\"q\"",
           "SELECT 'a'\n 'b' -- c\n 'd', 'e' 'f', 'g' /* h */ 'i'",
           "SELECT E'a'\n'\\'b', E'a' -- '\n '\\'b'",
           "SELECT b'0''1', x'1'\n'F', b'0' '; SELECT 1; --'",
           "SELECT $$a$$, $b$ $$ $b$, $_1$x$_1$, a$b$c, $1, $2.x",
           "SELECT 1.5, .5, 1e3, 1E-3, 1., 1.5e+7, a[1:2]",
           "SELECT a<b, a<=b, a--b\n, a-/*c*/-b, a/b, a*-1, a@-1, !!5, a||'x', a->>'b', a#>>'{c}', "
           "1-+2, @-1, *//**/b",
           "SELECT a::text, f(a := 1, b => 2), x.y.*, (a).b",
           "/* /* nested */ still */ SELECT /**/ 1 -- end",
           "-- only\n",
           "\xc3\xa4\xc3\xb6 \xff",
           "SELECT 'open",
           "SELECT /* open",
           "SELECT \"open",
           "SELECT $$open",
           "SELECT E'open\\'",
           "",
       }) {
    INFO(sql);
    CHECK(scanner_objection(sql) == "");
  }
}

TEST_CASE("lexer: where the majors differ a text is odd", "[proxy][statements]") {
  Lexed lexed;
  const auto problem = [&](std::string_view sql) {
    lex(sql, {}, lexed);
    return lexed.problem;
  };
  CHECK(problem("SELECT 1FOR") == Lexed::Problem::odd);
  CHECK(problem("SELECT $1x") == Lexed::Problem::odd);
  CHECK(problem("SELECT\v1") == Lexed::Problem::odd);
  CHECK(problem("SELECT 1e") == Lexed::Problem::odd);
  CHECK(problem("SELECT 0x") == Lexed::Problem::odd);
  CHECK(problem("SELECT 0x1F, 0b1, 0o7, 1_000, 1..2") == Lexed::Problem::none);
  CHECK(problem("SELECT '\v'") == Lexed::Problem::none);
  CHECK(problem("{}") == Lexed::Problem::odd);
}
