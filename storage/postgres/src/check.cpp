// The check for programs that have a libpqxx transaction of their own. It runs in that transaction,
// on its thread, and leaves commit and rollback to the caller.
#include <termgate/postgres_check.hpp>

#include <string>

#include <pqxx/nontransaction>
#include <pqxx/result>
#include <pqxx/transaction_base>
#include <pqxx/version>

#include <termgate/error.hpp>

#include "errors.hpp"
#include <termgate/detail/schema.hpp>
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace postgres {

Term check(pqxx::transaction_base& transaction, const Scope& scope, Term term,
           std::string_view schema) {
  // pqxx::nontransaction commits each statement separately, so the check's lock would be gone
  // before the write.
  if (dynamic_cast<pqxx::nontransaction*>(&transaction) != nullptr) {
    throw InvalidInput(
        "TG005 a check outside a transaction guards nothing: use pqxx::work, or Database::write");
  }
  detail::need_schema_name(schema);
  try {
    const auto statement =
        detail::with_schema(sql::postgres_calls()[sql::Call::check_term], schema);
#if PQXX_VERSION_MAJOR > 7 || (PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR >= 10)
    const auto rows = transaction.exec(statement, pqxx::params{scope.name(), term.value()});
#else
    const auto rows = transaction.exec_params(statement, scope.name(), term.value());
#endif
    return Term(rows[0][0].as<std::int64_t>());
  } catch (...) { detail::rethrow_as_ours(detail::Phase::before_commit, {}); }
}

}  // namespace postgres
}  // namespace v0
}  // namespace termgate
