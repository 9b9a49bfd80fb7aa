// Where parameters stand, what is one statement, what is transaction control: in the quotes and
// comments of each database.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <termgate/error.hpp>

#include "payload_pieces.hpp"
#include <termgate/detail/odbc/statement_text.hpp>
#include "unicode.hpp"

using namespace termgate;
using namespace termgate::detail::odbc;

namespace {
constexpr Family ms = Family::sqlserver, pg = Family::postgresql, lite = Family::sqlite;
}

TEST_CASE("statement text: parameters outside quotes and comments become markers", "[odbc]") {
  CHECK(marked("SELECT $2, $1, $2", 2, pg).text == "SELECT ?, ?, ?");
  CHECK(marked("SELECT $2, $1, $2", 2, pg).order == std::vector<std::size_t>{1, 0, 1});
  CHECK(marked("SELECT '$1', \"$1\", E'\\'$1', $$ $1 $$, $a$ $1 $$ $a$, a$1 -- $1\n, $1 /* $1 /* "
               "*/ $1 */",
               1, pg)
            .order.size() == 1);
  CHECK(marked("SELECT '$1''', [a]]$1], \"$1\" /* /* */ $1 */, $1", 1, ms).order.size() == 1);
  CHECK(marked("SELECT `$1`, [$1] /* /* */, $1", 1, lite).order.size() == 1);
  CHECK(marked("SELECT '?', [?] -- ?", 0, ms).text == "SELECT '?', [?] -- ?");
  CHECK_THROWS_AS(marked("SELECT data ? 'key'", 0, pg), InvalidInput);
  CHECK_THROWS_AS(marked("SELECT $0", 1, pg), InvalidInput);
  CHECK_THROWS_AS(marked("SELECT $2", 1, pg), InvalidInput);
  CHECK_THROWS_AS(marked("SELECT $99999999999999999999", 1, pg), InvalidInput);
  for (const char* unended : {"SELECT 'x", "SELECT /* x", "SELECT \"x", "SELECT $a$ x $b$"})
    CHECK_THROWS_AS(marked(unended, 0, pg), InvalidInput);
  CHECK_THROWS_AS(marked("SELECT [x", 0, ms), InvalidInput);
}

TEST_CASE("statement text: a parameter that is sent in pieces gives its place to the variable",
          "[odbc]") {
  CHECK(with_parameter("EXEC append @payload = $3, @expected = $4", 3, "@termgate_payload") ==
        "EXEC append @payload = @termgate_payload, @expected = $4");
  CHECK(with_parameter("$1 $10 $1", 1, "x") == "x $10 x");
  CHECK(with_parameter("", 1, "x").empty());
  // The length that is due is bound where the payload was, so that all other parameters keep their
  // places.
  const Marked joined = marked(
      joining_text(3) + with_parameter("EXEC append @stream = $1, @payload = $3, @expected = $4", 3,
                                       "@termgate_payload"),
      4, ms);
  CHECK(joined.order == std::vector<std::size_t>{2, 0, 3});
  CHECK(joined.text.find("@payload = @termgate_payload, @expected = ?") != std::string::npos);
}

TEST_CASE("statement text: transaction control and second statements are refused", "[F5][odbc]") {
  for (const char* control : {"COMMIT", " /* x */ commit", "-- c\nEND", "Begin", "ABORT",
                              "ROLLBACK", "; ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'x'"}) {
    INFO(control);
    CHECK_THROWS_AS(need_one_statement(control, pg), InvalidInput);
  }
  for (const char* fine :
       {"SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK WORK TO SAVEPOINT a", "SELECT 'COMMIT'",
        "SELECT 1;", "SELECT 1; -- COMMIT", "PREPARE x AS SELECT 1", ""}) {
    INFO(fine);
    CHECK_NOTHROW(need_one_statement(fine, pg));
  }
  CHECK_THROWS_AS(need_one_statement("SELECT 1; COMMIT", pg), DatabaseError);
  CHECK_THROWS_AS(need_one_statement("SELECT E'\\''; COMMIT --'", pg), DatabaseError);
  for (const char* control :
       {"INSERT INTO t VALUES (1) COMMIT", "COMMIT TRAN", "UPDATE t SET a = 1 ROLLBACK",
        "rollback transaction", "ROLLBACK TRAN;", "BEGIN TRANSACTION", "IF 1 = 1 BEGIN TRAN x",
        "SET IMPLICIT_TRANSACTIONS ON", "SET XACT_ABORT OFF", "BEGIN DISTRIBUTED TRAN",
        "ROLLBACK TRAN INSERT INTO t VALUES (1)", "ROLLBACK TRANSACTION EXEC p", "USE other",
        "EXECUTE AS USER = 'x'", "exec as login = 'x'", "SET ANSI_DEFAULTS ON"}) {
    INFO(control);
    CHECK_THROWS_AS(need_one_statement(control, ms), InvalidInput);
  }
  for (const char* fine :
       {"SAVE TRANSACTION a", "ROLLBACK TRANSACTION a", "ROLLBACK TRAN [a b]", "BEGIN SELECT 1 END",
        "SELECT [commit], '; COMMIT' /* COMMIT */ FROM t", "DECLARE @commit int; SELECT @commit",
        "SELECT 1 OPTION (USE HINT ('RECOMPILE'))", "EXEC [as]"}) {
    INFO(fine);
    CHECK_NOTHROW(need_one_statement(fine, ms));
  }
}

TEST_CASE("statement text: a query on SQL Server is held to reading by its words", "[F6][odbc]") {
  for (const char* query : {"SELECT 1", "  -- x\nWITH a AS (SELECT 1 AS x) SELECT * FROM a",
                            "SELECT [update] FROM [insert]", "SELECT 'DELETE'"})
    CHECK_NOTHROW(need_query(query));
  for (const char* writer :
       {"INSERT INTO t VALUES (1)", "SELECT 1 INTO t", "SELECT 1 DELETE FROM t",
        "WITH a AS (SELECT 1 x) UPDATE t SET a = 1", "EXEC p", "SELECT 1; EXEC('x')", "",
        "SELECT * FROM OPENQUERY(s, 'x')"}) {
    INFO(writer);
    CHECK_THROWS_AS(need_query(writer), InvalidInput);
  }
}

TEST_CASE("statement text: scripts come apart at semicolons or at GO", "[odbc]") {
  CHECK(statements_of("SELECT 1; DO $$ BEGIN; END $$;\n-- only a comment;\n", pg) ==
        std::vector<std::string>{"SELECT 1", " DO $$ BEGIN; END $$"});
  CHECK(batches_of("SELECT 1;\nGO\n-- nothing\nGO\r\nSELECT 'GO';\nSELECT 2\n") ==
        std::vector<std::string>{"SELECT 1;\n", "SELECT 'GO';\nSELECT 2\n"});
}

TEST_CASE("unicode: goes there and back and malformed text is refused", "[odbc]") {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3),
        std::string("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\x92\xEF\xBF\xBF\xF4\x8F\xBF\xBF")})
    CHECK(utf8_of(utf16_of(text)) == text);
  for (const char* bad : {"\xFF", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xC3", "\xE2\x82", "\x80", "\xF0\x9F\x94"})
    CHECK_THROWS_AS(utf16_of(bad), InvalidInput);
  const char16_t lone[] = {0xD800, u'a', 0xDC00};
  CHECK(utf8_of({lone, 3}) ==
        "\xEF\xBF\xBD"
        "a\xEF\xBF\xBD");
}
