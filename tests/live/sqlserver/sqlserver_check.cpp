// <termgate/sqlserver_check.hpp> on a live T-SQL server: the check alone, in the transaction of a
// program that owns its ODBC connection, begun in either of the two ways.
#include <catch2/catch.hpp>

#include <stdexcept>
#include <string>

#include <termgate/error.hpp>
#include <termgate/sqlserver_check.hpp>

#include "live/odbc/plain_odbc.hpp"
#include "sqlserver_rig.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;

namespace {

const Scope own{"own"};
std::string connection_string(const Rig& rig) { return odbc::connection_string_of(rig.url).text; }

}  // namespace

TEST_CASE("tsql check header: in a transaction begun by hand and in one of the driver",
          "[F1][F2][F5][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url);
  leader.run(seal("own", 5));
  for (const bool by_hand : {true, false}) {
    INFO((by_hand ? "BEGIN TRANSACTION" : "autocommit off"));
    PlainOdbc program(connection_string(rig), by_hand);
    const auto begin = [&] {
      if (by_hand) program.run("BEGIN TRANSACTION");
    };
    const auto commit = [&] {
      if (by_hand) {
        program.run("COMMIT TRANSACTION");
      } else {
        program.commit();
      }
    };
    const int term = by_hand ? 5 : 6, marker = by_hand ? 51 : 61;
    begin();
    CHECK(sqlserver::check(program.handle, own, Term(term)) ==
          Term(term));  // 6 raises, in this transaction
    CHECK(program.run("SELECT CAST(@@TRANCOUNT AS int)") == "1");
    program.run(write_row(marker));
    const auto waits = leader.refusal("BEGIN TRANSACTION; " + check("own", 100));
    REQUIRE(waits);
    CHECK(waits->find("50006 TG006") != std::string::npos);
    leader.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
    commit();
    CHECK(rig.rows(marker) == 1);
    CHECK(leader.number("SELECT term FROM termgate.fences WHERE scope = N'own'") == term);

    // A stale term: the type, and the transaction is gone with what it had written.
    begin();
    program.run(write_row(marker + 1));
    CHECK_THROWS_AS(sqlserver::check(program.handle, own, Term(term - 1)), StaleTerm);
    CHECK(program.run("SELECT CAST(@@TRANCOUNT AS int)") == "0");
    CHECK(rig.rows(marker + 1) == 0);
    // The driver does not know of that rollback: with autocommit off it is asked for its own, which
    // FreeTDS finds nothing for (25000) and begins the next transaction all the same.
    if (!by_hand) {
      try {
        program.roll_back();
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).starts_with("25000"));
      }
    }
    // The connection goes on, in a transaction that can be undone.
    begin();
    CHECK(sqlserver::check(program.handle, own, Term(term)) == Term(term));
    program.run(write_row(marker + 1));
    if (by_hand) {
      program.run("ROLLBACK TRANSACTION");
    } else {
      program.roll_back();
    }
    CHECK(rig.rows(marker + 1) == 0);
  }
}

TEST_CASE("tsql check header: without a transaction and in one of IMPLICIT_TRANSACTIONS",
          "[F3][F4][F5][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url);
  leader.run(seal("own", 5));
  PlainOdbc program(connection_string(rig));
  const auto message_of = [&](auto call) {
    try {
      call();
    } catch (const InvalidInput& error) { return std::string(error.what()); }
    return std::string("none");
  };
  // No transaction: said, nothing checked or raised, and the connection is as it was.
  CHECK(message_of([&] {
          sqlserver::check(program.handle, own, Term(9));
        }).starts_with("TG005 no transaction is open on this connection"));
  CHECK(program.run("SELECT CAST(@@TRANCOUNT AS int)") == "0");
  CHECK(leader.number("SELECT term FROM termgate.fences WHERE scope = N'own'") == 5);

  // IMPLICIT_TRANSACTIONS by hand, as drivers turn autocommit off: the check begins the transaction
  // and holds its lock in it.
  program.run("SET IMPLICIT_TRANSACTIONS ON");
  CHECK(sqlserver::check(program.handle, own, Term(5)) == Term(5));
  CHECK(program.run("SELECT CAST(@@TRANCOUNT AS int)") == "1");
  CHECK(leader.refusal("BEGIN TRANSACTION; " + check("own", 100)));
  leader.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
  program.run("COMMIT TRANSACTION");
  program.run("SET IMPLICIT_TRANSACTIONS OFF");
}
