// <termgate/sqlserver_check.hpp> in every run, with PostgreSQL's layer 1 behind odbc-postgresql,
// and refused before SQLite: as a program that owns its connection calls it.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>
#include <termgate/sqlserver_check.hpp>

#include "live/odbc/plain_odbc.hpp"
#include "support/pg_plain.hpp"

using namespace termgate;
using namespace termgate::test;

namespace {

const Scope billing{"billing"};

std::string driver_string(const std::string& url) {
  return "Driver={PostgreSQL Unicode};Server=127.0.0.1;SSLmode=disable;UID=postgres;Port=" +
         std::to_string(port_of(url)) + ";Database=" + url.substr(url.rfind('/') + 1);
}

}  // namespace

TEST_CASE("odbc check: holds its lock until the transaction ends and a stale term is refused",
          "[F1][F2][F5][live][odbc]") {
  FreshDatabase database(std::getenv("TERMGATE_TEST_POSTGRESQL"));
  Operator(Database::open(database.url())).install();
  Plain leader(database.url());
  leader.run("CREATE TABLE ledger (term bigint NOT NULL)");
  leader.run("SELECT termgate.seal('billing', 5)");
  leader.run(
      "UPDATE termgate.settings SET value = '300' WHERE name IN ('check_wait_ms', "
      "'eviction_grace_ms')");
  PlainOdbc program(driver_string(database.url()), false);
  CHECK(sqlserver::check(program.handle, billing, Term(5)) == Term(5));
  program.run("INSERT INTO ledger VALUES (5)");
  CHECK(leader.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
                   "database = (SELECT oid FROM pg_database "
                   "WHERE datname = current_database())") != "0");
  program.commit();
  CHECK(leader.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
                   "database = (SELECT oid FROM pg_database "
                   "WHERE datname = current_database())") == "0");

  leader.run("SELECT termgate.seal('billing', 6)");
  program.run("INSERT INTO ledger VALUES (5)");
  try {
    sqlserver::check(program.handle, billing, Term(5));
    FAIL("a stale term passed");
  } catch (const StaleTerm& stale) {
    CHECK(std::string(stale.what()) ==
          "TG001 stale term 5 for scope \"billing\": the fence stands at 6");
  }
  program.roll_back();
  CHECK(leader.run("SELECT count(*) FROM ledger") == "1");
  CHECK(sqlserver::check(program.handle, billing, Term(7)) == Term(7));  // raises
  program.commit();
  CHECK(leader.run("SELECT term FROM termgate.fences") == "7");

  leader.run("BEGIN");
  leader.run("SELECT termgate.seal('billing', 8)");
  CHECK_THROWS_AS(sqlserver::check(program.handle, billing, Term(7)), Blocked);
  leader.run("ROLLBACK");
  program.roll_back();
  CHECK_THROWS_AS(sqlserver::check(program.handle, billing, Term(7), "elsewhere"), DatabaseError);
  program.roll_back();
  // A scope that needs more than one byte a character.
  CHECK(sqlserver::check(program.handle, Scope("\xE5\xB8\xB3\xE7\xB0\xBF \xF0\x9F\x94\x92"),
                         Term(1)) == Term(1));
  program.commit();
  CHECK(
      leader.run("SELECT count(*) FROM termgate.fences WHERE scope = U&'\\5E33\\7C3F \\+01F512'") ==
      "1");

  leader.run("SELECT pg_terminate_backend(" + program.run("SELECT pg_backend_pid()") + ")");
  CHECK_THROWS_AS(sqlserver::check(program.handle, billing, Term(7)), Unavailable);
}

TEST_CASE("odbc check: refused where it would guard nothing", "[F5][live][odbc]") {
  FreshDatabase database(std::getenv("TERMGATE_TEST_POSTGRESQL"));
  Operator(Database::open(database.url())).install();
  const auto message_of = [](SQLHDBC connection, std::string_view schema = "termgate") {
    try {
      sqlserver::check(connection, billing, Term(5), schema);
    } catch (const InvalidInput& error) { return std::string(error.what()); }
    return std::string("none");
  };
  PlainOdbc autocommit(driver_string(database.url()));
  CHECK(
      message_of(autocommit.handle).starts_with("TG005 no transaction is open on this connection"));
  CHECK(Plain(database.url()).run("SELECT count(*) FROM termgate.fences") == "0");
  CHECK(message_of(autocommit.handle, "a\"b\n").starts_with("TG005 "));
  CHECK(message_of(SQL_NULL_HDBC) == "TG005 this is not an ODBC connection");
  PlainOdbc sqlite("Driver=SQLite3;Database=:memory:", false);
  CHECK(message_of(sqlite.handle).starts_with("TG005 this ODBC connection leads to SQLite"));
}
