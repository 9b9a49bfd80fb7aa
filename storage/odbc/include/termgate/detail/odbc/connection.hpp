// One ODBC connection: handles that free themselves, statements with bound values, results that are
// read to their end. One thread at a time. Calls throw OdbcError (errors.hpp) if ODBC fails,
// InvalidInput for a value that cannot be sent.
#pragma once

#include <sql.h>
#include <sqlext.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/value.hpp>

#include <termgate/detail/odbc/connection_string.hpp>
#include <termgate/detail/odbc/errors.hpp>
#include <termgate/detail/odbc/statement_text.hpp>
#include <termgate/detail/odbc/traits.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

using std::chrono::milliseconds;

// Frees its handle; a connection is disconnected first.
class Handle {
 public:
  Handle() = default;
  Handle(SQLSMALLINT type, SQLHANDLE parent);
  ~Handle();
  Handle(Handle&& other) noexcept
      : type_(other.type_), handle_(std::exchange(other.handle_, SQLHANDLE{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  SQLHANDLE get() const noexcept { return handle_; }

 private:
  SQLSMALLINT type_ = 0;
  SQLHANDLE handle_ = SQL_NULL_HANDLE;
};

std::vector<Diagnostic> diagnostics_of(SQLSMALLINT type, SQLHANDLE handle);

// One column of an array of parameter rows.
struct ArrayColumn {
  std::vector<std::optional<std::string>> values;
  bool binary = false;  // bytes; otherwise text
};

class Connection {
 public:
  static constexpr std::size_t prepared_max = 64;                   // statements that stay prepared
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;  // of a value that is streamed
  static constexpr std::size_t array_bytes_max = std::size_t{4} << 20;

  // Connects; gives up after `login_wait`. Throws OdbcError, DatabaseError if it reaches another
  // kind of database than the driver's, and InvalidInput for a text that is too long.
  Connection(const ConnectionString& text, std::chrono::seconds login_wait);

  // Runs one statement with ODBC's markers; `text.order` says which value belongs to each. `keep`:
  // it stays prepared. `timeout`: after how long the driver gives up, rounded up to whole seconds;
  // 0: no limit. All results are read to their end, because a later one may contain an error; the
  // returned rows are those of the first result with columns.
  Rows execute(const Marked& text, std::span<const Value> values, bool keep, milliseconds timeout);

  // Runs a text of the library without parameters, of one or more statements.
  Rows run(std::string_view text, milliseconds timeout = milliseconds(0)) {
    return execute({std::string(text), {}}, {}, false, timeout);
  }

  // Runs the statement once for each row, with columns bound as arrays; a round trip carries as
  // many rows as fit into array_bytes_max. Values longer than an ordinary one, and what the driver
  // does not accept as an array, go row by row. Throws the OdbcError of the first row that failed,
  // whatever the driver did with later ones: call it inside a transaction, and roll back. Returns
  // how many rows were sent.
  std::size_t execute_rows(const Marked& text, std::span<const ArrayColumn> columns,
                           milliseconds timeout);

  // Since when it has been idle in the pool, whose owner sets it.
  std::chrono::steady_clock::time_point idle_since{};

  // What the driver knows without contacting the server; some drivers notice only with the next
  // call.
  bool looks_dead() const;
  // Set by any failure after which the connection must not be used again.
  bool broken() const noexcept { return broken_; }
  void give_up() noexcept { broken_ = true; }

  Maker maker() const noexcept { return maker_; }
  Family family() const noexcept { return family_of(maker_); }
  SQLHDBC handle() const noexcept { return connection_.get(); }

 private:
  struct Parameters;

  [[noreturn]] void fail(SQLSMALLINT type, SQLHANDLE handle);
  void need(SQLRETURN code, SQLSMALLINT type, SQLHANDLE handle) {
    if (!SQL_SUCCEEDED(code)) fail(type, handle);
  }
  void limit(SQLHSTMT statement, milliseconds timeout);
  void bind(SQLHSTMT statement, Parameters& parameters);
  SQLRETURN stream(SQLHSTMT statement, Parameters& parameters);
  Rows read(SQLHSTMT statement, SQLRETURN code);
  void fetch(SQLHSTMT statement, SQLSMALLINT columns, Rows& rows);
  std::string read_long(SQLHSTMT statement, SQLUSMALLINT column, bool binary, bool& null);

  Maker maker_;
  bool broken_ = false;
  Handle environment_;
  Handle connection_;
  std::map<std::string, Handle, std::less<>> prepared_;
};

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
