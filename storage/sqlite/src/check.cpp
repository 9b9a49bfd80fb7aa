// The check for programs that have an SQLite connection of their own. It runs on that connection
// and in its transaction; commit and rollback stay the caller's.
#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <termgate/sqlite_check.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/detail/sqlite/layer1.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

Term check(sqlite3* db, const Scope& scope, Term term) {
  // The check runs through SQL, so that a connection that has loaded the extension keeps one set of
  // passed checks instead of two.
  Layer1::register_on(db);
  Statement statement(db, "SELECT termgate_check_term(?1, ?2)");
  Running call(statement.get());
  call.bind(scope.name()).bind(term.value()).step();
  return Term(call.integer(0));
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
