/* What programs on ODBC do, printed so that two runs can be compared. argv[1]: the connection
 * string; libpq's environment adds PGOPTIONS.
 */
#include <sql.h>
#include <sqlext.h>
#include <stdio.h>
#include <string.h>

static SQLHDBC connection;

static void complain(const char* name, SQLSMALLINT kind, SQLHANDLE handle) {
  SQLCHAR state[6], text[512];
  SQLINTEGER native;
  SQLSMALLINT length;
  if (SQL_SUCCEEDED(SQLGetDiagRec(kind, handle, 1, state, &native, text, sizeof text, &length))) {
    char* end = strchr((char*)text, '\n');
    if (end) *end = 0;
    printf("%s: %s %s\n", name, state, text);
  } else {
    printf("%s: failed\n", name);
  }
}

static void show(const char* name, SQLHSTMT statement, SQLRETURN status) {
  SQLSMALLINT columns = 0;
  SQLLEN count = -1;
  if (status != SQL_NO_DATA && !SQL_SUCCEEDED(status)) {
    complain(name, SQL_HANDLE_STMT, statement);
    return;
  }
  do {
    SQLNumResultCols(statement, &columns);
    if (columns == 0) {
      SQLRowCount(statement, &count);
      printf("%s: %ld rows\n", name, (long)count);
      continue;
    }
    while (SQL_SUCCEEDED(status = SQLFetch(statement))) {
      printf("%s:", name);
      for (SQLSMALLINT i = 1; i <= columns; i++) {
        char value[256];
        SQLLEN length;
        SQLGetData(statement, (SQLUSMALLINT)i, SQL_C_CHAR, value, sizeof value, &length);
        printf(" %s", length == SQL_NULL_DATA ? "NULL" : value);
      }
      printf("\n");
    }
    if (status != SQL_NO_DATA) complain(name, SQL_HANDLE_STMT, statement);
  } while (SQL_SUCCEEDED(SQLMoreResults(statement)));
}

static void run(const char* text) {
  SQLHSTMT statement;
  SQLAllocHandle(SQL_HANDLE_STMT, connection, &statement);
  show(text, statement, SQLExecDirect(statement, (SQLCHAR*)text, SQL_NTS));
  SQLFreeHandle(SQL_HANDLE_STMT, statement);
}

int main(int count, char** words) {
  SQLHENV environment;
  if (count < 2) return 2;
  SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &environment);
  SQLSetEnvAttr(environment, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0);
  SQLAllocHandle(SQL_HANDLE_DBC, environment, &connection);
  if (!SQL_SUCCEEDED(SQLDriverConnect(connection, NULL, (SQLCHAR*)words[1], SQL_NTS, NULL, 0, NULL,
                                      SQL_DRIVER_NOPROMPT))) {
    complain("connect", SQL_HANDLE_DBC, connection);
    return 1;
  }
  run("drop table if exists od");
  run("create table od(i int primary key, v text)");
  run("insert into od values (2, 'b') returning i, v");
  run("insert into od values (2, 'b')");
  run("select 1; insert into od values (3); select 2");
  SQLHSTMT prepared;
  SQLINTEGER key;
  SQLLEN length = 0;
  SQLAllocHandle(SQL_HANDLE_STMT, connection, &prepared);
  SQLPrepare(prepared, (SQLCHAR*)"insert into od (i) values (?)", SQL_NTS);
  SQLBindParameter(prepared, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &key, 0, &length);
  for (key = 10; key < 16; key++) {
    show("prepared", prepared, SQLExecute(prepared));
    SQLFreeStmt(prepared, SQL_CLOSE);
  }
  key = 10;
  show("prepared duplicate", prepared, SQLExecute(prepared));
  SQLFreeHandle(SQL_HANDLE_STMT, prepared);
  SQLSetConnectAttr(connection, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_OFF, 0);
  run("insert into od values (20)");
  run("insert into od values (20)");
  run("insert into od values (21)");
  SQLEndTran(SQL_HANDLE_DBC, connection, SQL_COMMIT);
  run("select count(*) from od where i >= 20");
  run("insert into od values (22)");
  SQLEndTran(SQL_HANDLE_DBC, connection, SQL_ROLLBACK);
  SQLSetConnectAttr(connection, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_ON, 0);
  SQLHSTMT catalog;
  SQLAllocHandle(SQL_HANDLE_STMT, connection, &catalog);
  show("tables", catalog,
       SQLTables(catalog, NULL, 0, (SQLCHAR*)"public", SQL_NTS, (SQLCHAR*)"od", SQL_NTS, NULL, 0));
  SQLFreeHandle(SQL_HANDLE_STMT, catalog);
  run("select i, v from od order by i");
  run("drop table od");
  SQLDisconnect(connection);
  return 0;
}
