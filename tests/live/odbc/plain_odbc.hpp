// An ODBC connection as a program of its own has one, by plain calls of the driver manager and
// nothing of the library's: for tests of what is done to such a connection.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <sql.h>
#include <sqlext.h>

namespace termgate::test {

// One thread. Throws std::runtime_error with the SQLSTATE and the message of whatever the driver
// refuses.
class PlainOdbc {
 public:
  explicit PlainOdbc(const std::string& connection_string, bool autocommit = true) {
    SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &environment_);
    SQLSetEnvAttr(environment_, SQL_ATTR_ODBC_VERSION,
                  reinterpret_cast<SQLPOINTER>(static_cast<std::uintptr_t>(SQL_OV_ODBC3)), 0);
    SQLAllocHandle(SQL_HANDLE_DBC, environment_, &handle);
    std::string text = connection_string;
    need(SQLDriverConnect(handle, nullptr, characters(text), SQL_NTS, nullptr, 0, nullptr,
                          SQL_DRIVER_NOPROMPT),
         SQL_HANDLE_DBC, handle);
    if (!autocommit)
      need(SQLSetConnectAttr(
               handle, SQL_ATTR_AUTOCOMMIT,
               reinterpret_cast<SQLPOINTER>(static_cast<std::uintptr_t>(SQL_AUTOCOMMIT_OFF)),
               SQL_IS_UINTEGER),
           SQL_HANDLE_DBC, handle);
  }
  ~PlainOdbc() {
    SQLEndTran(SQL_HANDLE_DBC, handle, SQL_ROLLBACK);
    SQLDisconnect(handle);
    SQLFreeHandle(SQL_HANDLE_DBC, handle);
    SQLFreeHandle(SQL_HANDLE_ENV, environment_);
  }
  PlainOdbc(const PlainOdbc&) = delete;
  PlainOdbc& operator=(const PlainOdbc&) = delete;

  // The first column of the first row; empty where there is none.
  std::string run(std::string sql) {
    SQLHSTMT statement = SQL_NULL_HSTMT;
    need(SQLAllocHandle(SQL_HANDLE_STMT, handle, &statement), SQL_HANDLE_DBC, handle);
    std::string found;
    try {
      SQLRETURN code = SQLExecDirect(statement, characters(sql), SQL_NTS);
      for (bool first = true; code != SQL_NO_DATA; code = SQLMoreResults(statement)) {
        need(code, SQL_HANDLE_STMT, statement);
        SQLSMALLINT columns = 0;
        need(SQLNumResultCols(statement, &columns), SQL_HANDLE_STMT, statement);
        if (columns == 0 || !first || SQLFetch(statement) == SQL_NO_DATA) continue;
        first = false;
        std::array<char, 400> text{};
        SQLLEN size = 0;
        need(SQLGetData(statement, 1, SQL_C_CHAR, text.data(), text.size(), &size), SQL_HANDLE_STMT,
             statement);
        found = text.data();
      }
    } catch (...) {
      SQLFreeHandle(SQL_HANDLE_STMT, statement);
      throw;
    }
    SQLFreeHandle(SQL_HANDLE_STMT, statement);
    return found;
  }
  void commit() { need(SQLEndTran(SQL_HANDLE_DBC, handle, SQL_COMMIT), SQL_HANDLE_DBC, handle); }
  void roll_back() {
    need(SQLEndTran(SQL_HANDLE_DBC, handle, SQL_ROLLBACK), SQL_HANDLE_DBC, handle);
  }

  SQLHDBC handle = SQL_NULL_HDBC;

 private:
  static SQLCHAR* characters(std::string& text) { return reinterpret_cast<SQLCHAR*>(text.data()); }
  void need(SQLRETURN code, SQLSMALLINT type, SQLHANDLE of) {
    if (SQL_SUCCEEDED(code) || code == SQL_NO_DATA) return;
    std::array<SQLCHAR, 6> state{};
    std::array<SQLCHAR, 1000> message{};
    SQLINTEGER native = 0;
    SQLSMALLINT length = 0;
    SQLGetDiagRec(type, of, 1, state.data(), &native, message.data(),
                  static_cast<SQLSMALLINT>(message.size()), &length);
    throw std::runtime_error(reinterpret_cast<const char*>(state.data()) + std::string(" ") +
                             reinterpret_cast<const char*>(message.data()));
  }
  SQLHENV environment_ = SQL_NULL_HENV;
};

}  // namespace termgate::test
