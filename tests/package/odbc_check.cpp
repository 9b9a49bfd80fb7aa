// The check alone, on an ODBC connection and in a transaction of the program's own, as
// docs/use/sqlserver.md shows it, compiled against the installed package and run on the database
// behind the connection string that is its argument: layer 1 is there, and so is a table
// `accounts`. Between the marks stands the example to the letter.
#include <cstdio>

// [example]
#include <sqlext.h>
#include <termgate/error.hpp>
#include <termgate/sqlserver_check.hpp>

using namespace termgate;

// Autocommit must be off on `connection`. True: the write is committed. False: it was refused, it
// failed and was rolled back, or COMMIT itself failed, and then the outcome is unknown.
bool debit(SQLHDBC connection, Term term) {
  SQLHSTMT statement = SQL_NULL_HSTMT;
  SQLAllocHandle(SQL_HANDLE_STMT, connection, &statement);
  bool done = false;
  try {
    sqlserver::check(connection, Scope{"invoices"},
                     term);  // holds the fence until the transaction ends
    SQLCHAR write[] = "UPDATE accounts SET balance = balance - 30 WHERE id = 42";
    done = SQL_SUCCEEDED(SQLExecDirect(statement, write, SQL_NTS));
  } catch (const StaleTerm& stale) { std::printf("refused: %s\n", stale.what()); }
  SQLFreeHandle(SQL_HANDLE_STMT, statement);
  return SQL_SUCCEEDED(SQLEndTran(SQL_HANDLE_DBC, connection, done ? SQL_COMMIT : SQL_ROLLBACK)) &&
         done;
}
// [/example]

int main(int, char** arguments) {
  SQLHENV environment = SQL_NULL_HENV;
  SQLHDBC connection = SQL_NULL_HDBC;
  SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &environment);
  SQLSetEnvAttr(environment, SQL_ATTR_ODBC_VERSION, reinterpret_cast<SQLPOINTER>(SQL_OV_ODBC3), 0);
  SQLAllocHandle(SQL_HANDLE_DBC, environment, &connection);
  if (!SQL_SUCCEEDED(SQLDriverConnect(connection, nullptr, reinterpret_cast<SQLCHAR*>(arguments[1]),
                                      SQL_NTS, nullptr, 0, nullptr, SQL_DRIVER_NOPROMPT)))
    return 1;
  SQLSetConnectAttr(connection, SQL_ATTR_AUTOCOMMIT,
                    reinterpret_cast<SQLPOINTER>(SQL_AUTOCOMMIT_OFF), SQL_IS_UINTEGER);
  // The proof: a term that another has overtaken is shut out, and the one above it is not.
  const bool first = debit(connection, Term(1000)), stale = debit(connection, Term(999)),
             again = debit(connection, Term(1000));
  SQLDisconnect(connection);
  SQLFreeHandle(SQL_HANDLE_DBC, connection);
  SQLFreeHandle(SQL_HANDLE_ENV, environment);
  return first && !stale && again ? 0 : 1;
}
