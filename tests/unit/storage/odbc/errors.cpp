// Every SQLSTATE and native number that matters, and the type it becomes: whether a write is
// refused, to be run again, or of unknown outcome hangs on this table.
#include <catch2/catch.hpp>

#include <string>
#include <typeinfo>

#include <termgate/error.hpp>

#include <termgate/detail/odbc/errors.hpp>

using namespace termgate;
using namespace termgate::detail::odbc;

namespace {

template <class Thrown>
const std::type_info& thrown_by(Thrown what) {
  try {
    what();
  } catch (const Error& error) { return typeid(error); }
  return typeid(void);
}

struct Case {
  const char* name;
  Family family;
  Diagnostic diagnostic;
  bool dead;
  const std::type_info& before;  // COMMIT was not sent yet
  const std::type_info& commit;  // it was
};

constexpr Family ms = Family::sqlserver, pg = Family::postgresql, lite = Family::sqlite;

}  // namespace

TEST_CASE("odbc errors: each diagnostic becomes its type before and at COMMIT", "[F5][odbc]") {
  const auto &unavailable = typeid(Unavailable), &unknown = typeid(OutcomeUnknown),
             &conflict = typeid(Conflict), &other = typeid(DatabaseError);
  // clang-format off
  const Case cases[] = {
      {"THROW 50001", ms, {"42000", 50001, "[FreeTDS][SQL Server]TG001 stale term 3 for scope \"s\": the fence stands at 5"}, false, typeid(StaleTerm), typeid(StaleTerm)},
      {"THROW 50002", ms, {"42000", 50002, "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]TG002 no term"}, false, typeid(TermRequired), typeid(TermRequired)},
      {"THROW 50003", ms, {"42000", 50003, "TG003 stands"}, false, typeid(SequenceConflict), typeid(SequenceConflict)},
      {"THROW 50004", ms, {"42000", 50004, "TG004 untrusted"}, false, typeid(FenceUntrusted), typeid(FenceUntrusted)},
      {"THROW 50005", ms, {"42000", 50005, "TG005 bad"}, false, typeid(InvalidInput), typeid(InvalidInput)},
      {"THROW 50006", ms, {"42000", 50006, "TG006 blocked"}, false, typeid(Blocked), typeid(Blocked)},
      {"THROW 50007", ms, {"42000", 50007, "TG007 the lease of scope \"s\" is not held by a"}, false, typeid(LeaseLost), typeid(LeaseLost)},
      {"the number after the last code", ms, {"42000", 50008, "TG008 no such code"}, false, other, other},
      {"another's 50001", ms, {"42000", 50001, "[FreeTDS][SQL Server]the order is closed"}, false, other, other},
      {"the prefix without the number", ms, {"42000", 50000, "TG001 stale term 3"}, false, other, other},
      {"number and prefix that differ", ms, {"42000", 50002, "TG001 stale term 3"}, false, other, other},
      {"deadlock victim", ms, {"40001", 1205, "text"}, false, conflict, conflict},
      {"deadlock victim without its SQLSTATE", ms, {"42000", 1205, "text"}, false, conflict, conflict},
      {"snapshot update conflict", ms, {"42000", 3960, "text"}, false, conflict, conflict},
      {"conflict without a number of its own", ms, {"42000", 33557097, "could not serialize access due to concurrent update"}, false, conflict, conflict},
      {"lock timeout", ms, {"42000", 1222, "text"}, false, unavailable, unavailable},
      {"the driver's timeout", ms, {"HYT00", 0, "Timeout expired"}, true, unavailable, unknown},
      {"the driver's timeout on a living connection", ms, {"HYT00", 0, "text"}, false, unavailable, unknown},
      {"connection timeout", ms, {"HYT01", 0, "text"}, false, unavailable, unknown},
      {"link failure", ms, {"08S01", 0, "Communication link failure"}, false, unavailable, unknown},
      {"no text but dead", ms, {"HY000", 0, "Unknown error"}, true, unavailable, unknown},
      {"end of the line as FreeTDS tells it", ms, {"01000", 20017, "text"}, true, unavailable, unknown},
      {"session killed", ms, {"HY000", 596, "Cannot continue the execution because the session is in the kill state."}, false, unavailable, unknown},
      {"could not be brought back", ms, {"IMC06", 0, "text"}, false, unavailable, unknown},
      {"login refused", ms, {"28000", 18456, "text"}, false, unavailable, unavailable},
      {"database missing", ms, {"42000", 4060, "text"}, false, unavailable, unavailable},
      {"Azure moves the database", ms, {"42000", 40197, "text"}, false, unavailable, unknown},
      {"Azure sheds load", ms, {"42000", 10929, "text"}, false, unavailable, unknown},
      {"the log cannot be written", ms, {"HY000", 9001, "text"}, false, unavailable, unknown},
      {"a replica that is not joined", ms, {"42000", 976, "text"}, false, unavailable, unknown},
      {"snapshot and DDL", ms, {"42000", 3961, "text"}, false, conflict, conflict},
      {"validation of a memory-optimized table", ms, {"42000", 41839, "text"}, false, conflict, conflict},
      {"a twin of a write id", ms, {"23000", 2627, "Violation of PRIMARY KEY constraint 'PK__write_id'. Cannot insert duplicate key in object 'termgate.write_ids'."}, false, conflict, conflict},
      {"a procedure that committed a part", ms, {"42000", 50000, "a statement of this transaction committed a part of it and began another"}, false, other, unknown},
      {"duplicate key", ms, {"23000", 2627, "text"}, false, other, other},
      {"COMMIT without BEGIN", ms, {"25000", 3902, "text"}, false, other, other},
      {"driver missing", ms, {"IM002", 0, "text"}, false, unavailable, unavailable},
      {"stale on PostgreSQL", pg, {"TG001", 1, "ERROR: TG001 stale term 3 for scope \"s\": the fence stands at 5;\nError while executing the query"}, false, typeid(StaleTerm), typeid(StaleTerm)},
      {"blocked on PostgreSQL", pg, {"TG006", 1, "ERROR: TG006 blocked"}, false, typeid(Blocked), typeid(Blocked)},
      {"a code in another's message", pg, {"P0001", 1, "ERROR: TG001 stale term"}, false, other, other},
      {"serialization failure", pg, {"40001", 1, "text"}, false, conflict, conflict},
      {"deadlock", pg, {"40P01", 1, "ERROR: deadlock detected"}, false, conflict, conflict},
      {"statement completion unknown", pg, {"40003", 1, "ERROR: unknown"}, false, unknown, unknown},
      {"session ended by an administrator", pg, {"57P01", 1, "text"}, false, unavailable, unknown},
      {"starting up", pg, {"57P03", 1, "text"}, false, unavailable, unavailable},
      {"statement timeout", pg, {"57014", 1, "text"}, false, unavailable, unavailable},
      {"division by zero", pg, {"22012", 1, "ERROR: division by zero"}, false, other, other},
      {"native numbers are SQL Server's alone", pg, {"HY000", 1205, "text"}, false, other, other},
      {"SQLite constraint", lite, {"23000", 19, "text"}, false, other, other},
  };
  // clang-format on
  for (const Case& each : cases) {
    INFO(each.name);
    const OdbcError failure({each.diagnostic}, each.dead);
    CHECK(thrown_by([&] { throw_for(failure, Phase::before_commit, each.family); }) == each.before);
    CHECK(thrown_by([&] { throw_for(failure, Phase::commit, each.family); }) == each.commit);
  }
}

TEST_CASE("odbc errors: whatever fails while connecting wrote nothing", "[odbc]") {
  for (const Diagnostic& one :
       {Diagnostic{"08001", 0, "refused"}, Diagnostic{"HYT00", 0, "Login timeout expired"},
        Diagnostic{"01000", 0, "Can't open lib"}}) {
    CHECK(thrown_by([&] {
            throw_for(OdbcError({one}, true), Phase::connect, Family::sqlserver);
          }) == typeid(Unavailable));
  }
  CHECK(thrown_by([] {
          throw_for(OdbcError({}, false), Phase::before_commit, Family::sqlserver);
        }) == typeid(DatabaseError));
}

TEST_CASE("odbc errors: a code of layer 1 is found behind other diagnostics", "[odbc]") {
  const OdbcError failure(
      {{"01000", 0, "[FreeTDS][SQL Server]some notice"},
       {"42000", 3609, "The transaction ended in the trigger."},
       {"42000", 50001,
        "[FreeTDS][SQL Server]TG001 stale term 3 for scope \"a \"b\"\": the fence stands at 5"}},
      false);
  try {
    throw_for(failure, Phase::commit, Family::sqlserver);
    FAIL("nothing was thrown");
  } catch (const StaleTerm& stale) {
    CHECK(stale.scope() == "a \"b\"");
    CHECK(stale.term() == 3);
    CHECK(stale.fence() == 5);
  }
}

TEST_CASE("odbc errors: the drivers' marks are taken off a message", "[odbc]") {
  CHECK(plain_message(
            "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Invalid object name 'x'.") ==
        "Invalid object name 'x'.");
  CHECK(plain_message("ERROR: it is so\nDETAIL: deep\nand long\nHINT: do it\nCONTEXT: PL/pgSQL "
                      "function f\nmore;\nError while executing the query") ==
        "it is so; detail: deep\nand long; hint: do it");
  CHECK(plain_message("[unfinished") == "[unfinished");
  CHECK(plain_message("").empty());
}
