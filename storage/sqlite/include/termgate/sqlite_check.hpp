// The check alone, for owners of their own SQLite connection and transaction.
#pragma once

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

struct sqlite3;

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Runs the check for `scope` in the transaction that is open on `db` and returns the fence after it
// (F1, F5). It makes that transaction a writer, so nobody can raise the fence before it ends; a
// table that protect guards then takes its writes for this scope. Outside a transaction it guards
// nothing but itself. A check made after a savepoint is undone by ROLLBACK TO it: call it again.
//
// Call it on the thread that uses `db`. The first call registers the functions termgate_… on `db`.
// Throws StaleTerm, FenceUntrusted, InvalidInput (docs/contract.md, section 4); Blocked (TG006)
// when another connection kept the write lock for longer than the setting check_wait_ms (your own
// busy timeout or handler waits first, at each attempt, so the longer of the two counts); Conflict
// when the transaction had read before and another connection has committed since: roll back and
// run it again, best with BEGIN IMMEDIATE; Unavailable and DatabaseError. Nothing was written in
// any of these cases.
Term check(sqlite3* db, const Scope& scope, Term term);

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
