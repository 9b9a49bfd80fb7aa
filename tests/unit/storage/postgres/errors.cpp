// Every SQLSTATE and libpqxx exception that matters, and the type it becomes: whether a write is
// refused, to be run again, or of unknown outcome hangs on this table.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <pqxx/except>

#include <termgate/error.hpp>

#include "connection.hpp"
#include "errors.hpp"

using namespace termgate;
using detail::Phase;

namespace {

template <class Wanted>
void check_code(const char* sqlstate, Phase phase, const char* message = "text") {
  INFO(sqlstate);
  CHECK_THROWS_AS(detail::throw_for_sqlstate(sqlstate, message, phase), Wanted);
}

template <class Wanted, class Thrown>
void check_exception(Thrown thrown, Phase phase, bool connected = true) {
  try {
    try {
      throw thrown;
    } catch (...) { detail::rethrow_as_ours(phase, "postgresql://u:secret@h/d", connected); }
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(typeid(error) == typeid(Wanted));
  }
}

detail::ServerFailure failure(const char* state) {
  return detail::ServerFailure(state, "ERROR:  TG005 text\nHINT:  none");
}

// libpqxx 7 wants the statement too.
template <class Thrown>
Thrown made() {
  if constexpr (std::is_constructible_v<Thrown, const char*>) return Thrown("x");
  else return Thrown("x", "q");
}

}  // namespace

TEST_CASE("postgres errors: the codes of layer 1 become their types", "[postgres]") {
  check_code<StaleTerm>("TG001", Phase::before_commit,
                        "TG001 stale term 3 for scope \"b\": the fence stands at 5");
  check_code<TermRequired>("TG002", Phase::before_commit, "TG002 no term");
  check_code<SequenceConflict>("TG003", Phase::before_commit, "TG003 expected 4");
  check_code<FenceUntrusted>("TG004", Phase::commit, "TG004 untrusted");
  check_code<InvalidInput>("TG005", Phase::commit, "TG005 malformed");
  check_code<Blocked>("TG006", Phase::commit, "TG006 blocked");
}

TEST_CASE("postgres errors: a conflict is to be run again and is not unknown", "[postgres]") {
  check_code<Conflict>("40001", Phase::commit);
  check_code<Conflict>("40P01", Phase::before_commit);
  check_code<OutcomeUnknown>("40003", Phase::commit);
}

TEST_CASE("postgres errors: a lost connection is unknown only once COMMIT was sent",
          "[F5][postgres]") {
  for (const char* code : {"08006", "08003", "57P01", "57P02", "57P05", "25P03"}) {
    check_code<Unavailable>(code, Phase::before_commit);
    check_code<OutcomeUnknown>(code, Phase::commit);
  }
}

TEST_CASE("postgres errors: what was never run is unavailable in both phases", "[postgres]") {
  for (const char* code : {"57P03", "57014", "53300", "28P01", "3D000", "55P03"}) {
    check_code<Unavailable>(code, Phase::before_commit);
    check_code<Unavailable>(code, Phase::commit);
  }
  check_code<DatabaseError>("23505", Phase::commit);
}

TEST_CASE("postgres errors: a missing layer 1 says what to do", "[postgres]") {
  CHECK_THROWS_WITH(
      detail::throw_for_sqlstate("3F000", "schema \"termgate\" does not exist", Phase::commit),
      Catch::Contains("termgate init"));
}

namespace {

template <class Thrown>
void check_kept(const char* sqlstate) {
  INFO(sqlstate);
  try {
    try {
      throw made<Thrown>();
    } catch (...) {
      detail::rethrow_as_ours(Phase::before_commit, "postgresql://u:secret@h/d", true);
    }
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) { CHECK(error.code() == sqlstate); }
}

}  // namespace

TEST_CASE(
    "postgres errors: an exception that libpqxx makes without its SQLSTATE keeps that of its class",
    "[postgres]") {
  check_kept<pqxx::insufficient_privilege>("42501");
  check_kept<pqxx::undefined_table>("42P01");
  check_kept<pqxx::undefined_function>("42883");
  check_kept<pqxx::undefined_column>("42703");
  check_kept<pqxx::syntax_error>("42601");
  check_kept<pqxx::disk_full>("53100");
  check_kept<pqxx::out_of_memory>("53200");
  check_kept<pqxx::insufficient_resources>("53000");
  check_kept<pqxx::restrict_violation>("23001");
  check_kept<pqxx::not_null_violation>("23502");
  check_kept<pqxx::foreign_key_violation>("23503");
  check_kept<pqxx::unique_violation>("23505");
  check_kept<pqxx::check_violation>("23514");
  check_kept<pqxx::integrity_constraint_violation>("23000");
  check_kept<pqxx::feature_not_supported>("0A000");
  check_kept<pqxx::data_exception>("22000");
  check_kept<pqxx::invalid_cursor_state>("24000");
  check_kept<pqxx::invalid_sql_statement_name>("26000");
  check_kept<pqxx::invalid_cursor_name>("34000");
  check_kept<pqxx::plpgsql_raise>("P0001");
  check_kept<pqxx::plpgsql_no_data_found>("P0002");
  check_kept<pqxx::plpgsql_too_many_rows>("P0003");
  check_kept<pqxx::plpgsql_error>("P0000");
}

TEST_CASE("postgres errors: a missing privilege says what to do whatever it is missing for",
          "[postgres]") {
  for (const char* what : {"schema own_law", "schema termgate", "function check_term",
                           "view fence_status", "table fences"}) {
    INFO(what);
    CHECK_THROWS_WITH(
        detail::throw_for_sqlstate("42501", std::string("permission denied for ") + what,
                                   Phase::before_commit),
        Catch::Contains("termgate init --grant"));
  }
}

TEST_CASE(
    "postgres errors: statement_completion_unknown is unknown although it derives from a rollback",
    "[F5][postgres]") {
  check_exception<OutcomeUnknown>(made<pqxx::statement_completion_unknown>(), Phase::commit);
  check_exception<OutcomeUnknown>(pqxx::in_doubt_error("x"), Phase::commit);
  check_exception<Conflict>(made<pqxx::serialization_failure>(), Phase::commit);
  check_exception<Conflict>(made<pqxx::deadlock_detected>(), Phase::commit);
  check_exception<Unavailable>(pqxx::too_many_connections("x"), Phase::commit);
  check_exception<Unavailable>(pqxx::broken_connection("x"), Phase::before_commit);
  check_exception<OutcomeUnknown>(pqxx::broken_connection("x"), Phase::commit);
  check_exception<InvalidInput>(pqxx::sql_error("ERROR:  TG005 malformed", "q", "TG005"),
                                Phase::commit);
}

TEST_CASE("postgres errors: a failure of the server's goes by its SQLSTATE", "[F5][postgres]") {
  check_exception<InvalidInput>(failure("TG005"), Phase::commit);
  check_exception<Conflict>(failure("40001"), Phase::commit);
  check_exception<OutcomeUnknown>(failure("40003"), Phase::commit);
  check_exception<DatabaseError>(failure("23505"), Phase::commit);
  check_exception<DatabaseError>(failure(""), Phase::commit);
}

TEST_CASE("postgres errors: whatever the last word was a COMMIT without a connection is unknown",
          "[F5][postgres]") {
  // A server that panics in COMMIT (58030: it could not write) says so and is gone; so is one of
  // which libpq has no SQLSTATE at all.
  for (const char* state : {"58030", "XX000", "53100", "23505", "57P01", ""}) {
    INFO(state);
    const pqxx::sql_error panic("PANIC:  could not write", "q", state);
    check_exception<OutcomeUnknown>(panic, Phase::commit, false);
    check_exception<Unavailable>(panic, Phase::before_commit, false);
    check_exception<OutcomeUnknown>(failure(state), Phase::commit, false);
    check_exception<Unavailable>(failure(state), Phase::before_commit, false);
  }
  check_exception<OutcomeUnknown>(pqxx::failure("gone"), Phase::commit, false);
  check_exception<Unavailable>(pqxx::failure("gone"), Phase::before_commit, false);
  // What was refused stays refused.
  check_exception<InvalidInput>(pqxx::sql_error("ERROR:  TG005 malformed", "q", "TG005"),
                                Phase::commit, false);
  check_exception<Conflict>(made<pqxx::serialization_failure>(), Phase::commit, false);
  check_exception<DatabaseError>(pqxx::sql_error("ERROR:  disk", "q", "58030"), Phase::commit,
                                 true);
}

TEST_CASE("postgres errors: the message keeps hint and detail and drops context", "[postgres]") {
  CHECK(detail::readable_message("ERROR:  first\nsecond\nDETAIL:  more\nHINT:  do this\nCONTEXT:  "
                                 "PL/pgSQL function f()\nline 3\n") ==
        "first\nsecond; detail: more; hint: do this");
  CHECK(detail::readable_message("FATAL:  gone\n") == "gone");
  // As libpqxx 7 reports prepared statements.
  CHECK(detail::readable_message(
            "Failure during 'termgate_8aa01269a71e8a81': ERROR:  TG001 stale term 1\n") ==
        "TG001 stale term 1");
  CHECK(detail::readable_message(
            "Failure during '[PREPARE termgate_8aa0]': ERROR:  no such table\n") ==
        "no such table");
}
