// The check alone, in the caller's own libpqxx transaction. Needs layer 1 in the database and
// EXECUTE on check_term (`termgate init --grant ROLE=write`).
#pragma once

#include <string_view>

#include <pqxx/transaction_base>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {
namespace postgres {

// Takes the fence's lock until `transaction` ends and returns the fence after the check; a term
// above the fence raises it, in this same transaction (commit it soon, or raise with Database::seal
// before). Call it before the first write, and again after a ROLLBACK TO a savepoint older than it.
// Throws StaleTerm, InvalidInput, FenceUntrusted, Blocked (after check_wait), Conflict,
// Unavailable, DatabaseError: in each case roll `transaction` back. On a nontransaction it would
// guard nothing: InvalidInput.
Term check(pqxx::transaction_base& transaction, const Scope& scope, Term term,
           std::string_view schema = "termgate");

}  // namespace postgres
}  // namespace v0
}  // namespace termgate
