// Transaction control is recognised in every spelling, and nothing else is taken for it.
#include <catch2/catch.hpp>

#include "statement_text.hpp"

using termgate::detail::is_transaction_control;

TEST_CASE("statement text: transaction control in every spelling", "[F5][postgres]") {
  for (const char* sql :
       {"COMMIT", "  commit;", ";;COMMIT", "/* a /* nested */ comment */COMMIT", "-- a line\nEND",
        "-- a line\rCOMMIT", "\tRollback", "ROLLBACK WORK", "rollback and chain", "ABORT", "BEGIN",
        "START TRANSACTION", "PREPARE TRANSACTION 'x'", "prepare/**/transaction 'x'",
        "ROLLBACK PREPARED 'x'", "COMMIT/**/"}) {
    INFO(sql);
    CHECK(is_transaction_control(sql));
  }
}

TEST_CASE("statement text: savepoints and everything else pass", "[F5][postgres]") {
  for (const char* sql :
       {"", ";", "/* open", "-- only", "SAVEPOINT a", "ROLLBACK TO a", "rollback to savepoint a",
        "ROLLBACK WORK TO a", "rollback/**/transaction\nto a", "RELEASE a", "SELECT 'COMMIT'",
        "PREPARE p AS SELECT 1", "commitment", "\"commit\"", "UPDATE t SET x = 1", "beginning"}) {
    INFO(sql);
    CHECK_FALSE(is_transaction_control(sql));
  }
}
