// The check alone, for owners of their own ODBC connection and transaction. Needs layer 1 in the
// database and EXECUTE on check_term (`termgate init --grant ROLE=write`).
#pragma once

#include <string_view>

#include <sql.h>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlserver {

// Takes the fence's lock until the transaction that is open on `connection` ends, and returns the
// fence after the check (F1, F5); a term above the fence raises it, in this same transaction
// (commit it soon, or raise with Database::seal before: a raise inside a transaction cannot evict
// the session that blocks it). Call it before the first write, and again after a rollback to a
// savepoint older than it.
//
// A transaction is open after your BEGIN TRANSACTION, and always with SQL_ATTR_AUTOCOMMIT off. In
// autocommit a check would guard nothing: it throws InvalidInput and has changed nothing. Call it
// on the thread that uses `connection`; without MARS, the connection must have no unread results.
// One round trip with SQL Server's drivers; blocks while a raise is under way, up to the setting
// check_wait_ms. The connection keeps its settings.
//
// Throws StaleTerm, InvalidInput, FenceUntrusted, Blocked, Conflict, Unavailable, DatabaseError
// (docs/contract.md, section 4). In each case nothing of the transaction may be committed: roll it
// back. SQL Server has done so already where the check refused (@@TRANCOUNT is 0). With autocommit
// off call SQLEndTran(…, SQL_ROLLBACK) all the same, because the driver does not know of that.
// FreeTDS may then report 25000 (nothing to roll back), which is harmless.
//
// It also works with layer 1 of PostgreSQL through odbc-postgresql. There SQL_ATTR_AUTOCOMMIT must
// be off, because this driver shows no other transaction.
Term check(SQLHDBC connection, const Scope& scope, Term term, std::string_view schema = "termgate");

}  // namespace sqlserver
}  // namespace v0
}  // namespace termgate
