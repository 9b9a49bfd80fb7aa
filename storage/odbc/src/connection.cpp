// One ODBC session: converts values to ODBC's forms and results back, and diagnostics to OdbcError.
//
// One thread at a time. All texts are UTF-16, through the functions whose names end in W.
// Differences between drivers are selected by Maker, with a comment where it matters; `broken_`
// means that the session must not be used again.
#include <termgate/detail/odbc/connection.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/hex.hpp>

#include "unicode.hpp"

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

static_assert(sizeof(SQLWCHAR) == sizeof(char16_t) && std::endian::native == std::endian::little);

SQLWCHAR* wide(std::u16string& text) { return reinterpret_cast<SQLWCHAR*>(text.data()); }
SQLPOINTER number(std::uintptr_t value) { return reinterpret_cast<SQLPOINTER>(value); }

// PostgreSQL's text form of an array. Every element is quoted, so that none can be read as NULL.
std::string array_literal(std::span<const std::string> items) {
  std::size_t bytes = 2;
  for (const std::string& item : items) bytes += 2 * item.size() + 6;
  std::string literal;
  literal.reserve(bytes);
  literal += '{';
  for (const std::string& item : items) {
    if (literal.size() > 1) literal += ',';
    literal += "\"\\\\x";
    text::append_hex(literal, item);
    literal += '"';
  }
  literal += '}';
  return literal;
}
std::string array_literal(const TextArray& items) {
  std::string literal = "{";
  for (const auto& item : items) {
    if (literal.size() > 1) literal += ',';
    if (!item) {
      literal += "NULL";
      continue;
    }
    literal += '"';
    for (const char c : *item) {
      if (c == '"' || c == '\\') literal += '\\';
      literal += c;
    }
    literal += '"';
  }
  return literal + "}";
}

}  // namespace

// The error of an allocation is kept by the parent handle.
Handle::Handle(SQLSMALLINT type, SQLHANDLE parent) : type_(type) {
  if (!SQL_SUCCEEDED(SQLAllocHandle(type, parent, &handle_))) {
    handle_ = SQL_NULL_HANDLE;
    const SQLSMALLINT of = type == SQL_HANDLE_STMT ? SQL_HANDLE_DBC : SQL_HANDLE_ENV;
    throw OdbcError(
        parent == SQL_NULL_HANDLE ? std::vector<Diagnostic>{} : diagnostics_of(of, parent), false);
  }
}

Handle::~Handle() {
  if (handle_ == SQL_NULL_HANDLE) return;
  if (type_ == SQL_HANDLE_DBC) SQLDisconnect(handle_);
  if (type_ == SQL_HANDLE_STMT)
    SQLFreeStmt(handle_, SQL_CLOSE);  // odbc-postgresql loses the answer to a statement that could
                                      // not be prepared, unless it is closed
  SQLFreeHandle(type_, handle_);
}

// At most 20 records. A message that did not fit is read again with the length that the driver
// reported.
std::vector<Diagnostic> diagnostics_of(SQLSMALLINT type, SQLHANDLE handle) {
  std::vector<Diagnostic> found;
  std::array<SQLWCHAR, 6> state{};
  std::u16string text(2000, u'\0');
  for (SQLSMALLINT record = 1; record <= 20; ++record) {
    SQLINTEGER native = 0;
    SQLSMALLINT length = 0;
    SQLRETURN code = SQLGetDiagRecW(type, handle, record, state.data(), &native, wide(text),
                                    static_cast<SQLSMALLINT>(text.size()), &length);
    if (code == SQL_SUCCESS_WITH_INFO && length >= static_cast<SQLSMALLINT>(text.size()) &&
        length < 32000) {
      text.resize(static_cast<std::size_t>(length) + 1);
      code = SQLGetDiagRecW(type, handle, record, state.data(), &native, wide(text),
                            static_cast<SQLSMALLINT>(text.size()), &length);
    }
    if (!SQL_SUCCEEDED(code)) break;
    std::string sqlstate;
    for (std::size_t at = 0; at < 5; ++at) sqlstate += static_cast<char>(state[at]);
    found.push_back(
        {std::move(sqlstate), static_cast<int>(native),
         utf8_of(std::u16string_view(text).substr(
             0, std::min<std::size_t>(static_cast<std::size_t>(length), text.size() - 1)))});
  }
  return found;
}

// The values of one execution, in the form and place from which ODBC reads them until the statement
// has run.
struct Connection::Parameters {
  struct One {
    SQLSMALLINT c_type = SQL_C_WCHAR;
    SQLSMALLINT sql_type = SQL_WVARCHAR;
    SQLULEN size = 1;
    SQLSMALLINT digits = 0;
    SQLLEN bytes = 0;  // length of the data
    SQLPOINTER data = nullptr;
    SQLLEN indicator = 0;
    bool streamed = false;
    SQLBIGINT integer = 0;
    double real = 0;
    unsigned char bit = 0;
    std::u16string text;
    std::string literal;
  };
  std::deque<One> all;

  // SQL Server makes a plan for each declared type of a parameter, including its length, so only a
  // few lengths are used.
  static SQLULEN declared_size(std::size_t size, std::initializer_list<std::size_t> steps,
                               Maker maker) {
    if (family_of(maker) == Family::sqlserver) {
      for (const std::size_t step : steps) {
        if (size <= step) return step;
      }
    }
    return std::max<std::size_t>(size, 1);
  }

  // A NULL would be sent as text, which SQL Server does not convert to varbinary (error 257), so
  // its own driver is queried for the type if it supports that.
  void describe_nulls(SQLHSTMT statement) {
    SQLUSMALLINT place = 0;
    for (One& one : all) {
      ++place;
      SQLSMALLINT type = 0, digits = 0, nullable = 0;
      SQLULEN size = 0;
      if (one.indicator != SQL_NULL_DATA ||
          !SQL_SUCCEEDED(SQLDescribeParam(statement, place, &type, &size, &digits, &nullable)))
        continue;
      one.sql_type = type;
      one.size = size;
      one.digits = digits;
    }
  }

  // Borrows the bytes of `value`.
  void add(const Value& value, Maker maker) {
    One& one = all.emplace_back();
    struct {
      One& one;
      Maker maker;
      void operator()(std::monostate) const {
        one.indicator = SQL_NULL_DATA;
        one.data = &one.bit;
      }
      void operator()(bool held) const {
        one.c_type = SQL_C_BIT;
        one.sql_type = SQL_BIT;
        one.bit = held ? 1 : 0;
        one.data = &one.bit;
        one.indicator = one.bytes = 1;
      }
      void operator()(std::int64_t held) const {
        one.c_type = SQL_C_SBIGINT;
        one.sql_type = SQL_BIGINT;
        one.size = 19;
        one.integer = held;
        one.data = &one.integer;
        one.indicator = one.bytes = sizeof one.integer;
      }
      void operator()(double held) const {
        one.c_type = SQL_C_DOUBLE;
        one.sql_type = SQL_DOUBLE;
        one.size = 53;
        one.real = held;
        one.data = &one.real;
        one.indicator = one.bytes = sizeof one.real;
      }
      void operator()(const std::string& held) const {
        if (family_of(maker) != Family::sqlserver && held.find('\0') != std::string::npos) {
          throw InvalidInput("TG005 malformed text: this database takes no NUL in text; use Bytes");
        }
        one.text = utf16_of(held);
        one.sql_type = one.text.size() > short_units_max ? SQL_WLONGVARCHAR : SQL_WVARCHAR;
        one.size = long_is_size_zero(maker) && one.text.size() > short_units_max
                       ? 0
                       : declared_size(one.text.size(), {32, 128, 512, short_units_max}, maker);
        if (one.size == 0) one.sql_type = SQL_WVARCHAR;
        one.data = one.text.data();
        one.bytes = static_cast<SQLLEN>(one.text.size() * 2);
        one.streamed = one.text.size() > short_units_max;
      }
      void operator()(const Bytes& held) const { (*this)(BytesView{held.data}); }
      void operator()(const BytesView& held) const {
        const bool is_long = held.data.size() > short_bytes_max;
        one.c_type = SQL_C_BINARY;
        one.sql_type = is_long && !long_is_size_zero(maker) ? SQL_LONGVARBINARY : SQL_VARBINARY;
        one.size = is_long && long_is_size_zero(maker)
                       ? 0
                       : declared_size(held.data.size(), {64, 1024, short_bytes_max}, maker);
        one.data = held.data.data() != nullptr
                       ? const_cast<char*>(held.data.data())
                       : static_cast<void*>(&one.bit);  // because a null pointer would be NULL
        one.bytes = static_cast<SQLLEN>(held.data.size());
        one.streamed = is_long;
      }
      void operator()(const BytesArray& held) const { array(array_literal(held)); }
      void operator()(const BytesArrayView& held) const { array(array_literal(held.items)); }
      void operator()(const TextArray& held) const { array(array_literal(held)); }
      void array(std::string literal) const {
        if (family_of(maker) != Family::postgresql)
          throw InvalidInput("TG005 this database takes no array as a parameter");
        (*this)(literal);
      }
    } visitor{one, maker};
    std::visit(visitor, value.variant());
    if (one.indicator == 0)
      one.indicator = one.streamed ? SQL_LEN_DATA_AT_EXEC(one.bytes) : one.bytes;
  }
};

Connection::Connection(const ConnectionString& text, std::chrono::seconds login_wait)
    : maker_(text.maker) {
  // A separate environment: the driver manager protects some drivers by one lock for each
  // environment, and a statement may wait for long. Connection pooling stays off, which is its
  // default: a pooled session would keep locks and settings.
  environment_ = Handle(SQL_HANDLE_ENV, SQL_NULL_HANDLE);
  need(SQLSetEnvAttr(environment_.get(), SQL_ATTR_ODBC_VERSION, number(SQL_OV_ODBC3_80), 0),
       SQL_HANDLE_ENV, environment_.get());
  connection_ = Handle(SQL_HANDLE_DBC, environment_.get());
  SQLHDBC handle = connection_.get();
  SQLSetConnectAttrW(handle, SQL_ATTR_LOGIN_TIMEOUT,
                     number(static_cast<std::uintptr_t>(login_wait.count())), SQL_IS_UINTEGER);
  std::u16string connect = utf16_of(text.text);
  if (connect.size() > static_cast<std::size_t>(std::numeric_limits<SQLSMALLINT>::max()))
    throw InvalidInput("TG005 the connection string is longer than 32767 characters");
  const SQLRETURN code =
      SQLDriverConnectW(handle, nullptr, wide(connect), static_cast<SQLSMALLINT>(connect.size()),
                        nullptr, 0, nullptr, SQL_DRIVER_NOPROMPT);
  need(code, SQL_HANDLE_DBC, handle);
  // Set whatever the driver or odbc.ini says: BEGIN and COMMIT are sent as texts, the same with
  // every driver.
  need(SQLSetConnectAttrW(handle, SQL_ATTR_AUTOCOMMIT, number(SQL_AUTOCOMMIT_ON), SQL_IS_UINTEGER),
       SQL_HANDLE_DBC, handle);
  std::u16string name(128, u'\0');
  SQLSMALLINT length = 0;
  need(SQLGetInfoW(handle, SQL_DBMS_NAME, name.data(), static_cast<SQLSMALLINT>(name.size() * 2),
                   &length),
       SQL_HANDLE_DBC, handle);
  const std::string dbms = utf8_of(std::u16string_view(name).substr(
      0, std::min<std::size_t>(static_cast<std::size_t>(length) / 2, name.size())));
  if (!dbms.starts_with(dbms_name_of(family()))) {
    throw DatabaseError(fmt::format("this ODBC driver leads to {}, not to {}",
                                    dbms.empty() ? "a database without a name" : dbms,
                                    dbms_name_of(family())));
  }
}

void Connection::fail(SQLSMALLINT type, SQLHANDLE handle) {
  auto found = diagnostics_of(type, handle);
  const bool dead = type != SQL_HANDLE_ENV && connection_.get() != SQL_NULL_HANDLE && looks_dead();
  // A statement that timed out may still be running on the server, and its answer may still come.
  const bool late = std::any_of(found.begin(), found.end(), [](const Diagnostic& one) {
    return one.sqlstate == "HYT00" || one.sqlstate.starts_with("08");
  });
  broken_ = broken_ || dead || late;
  throw OdbcError(std::move(found), dead);
}

bool Connection::looks_dead() const {
  SQLUINTEGER dead = SQL_CD_FALSE;
  return SQL_SUCCEEDED(SQLGetConnectAttrW(connection_.get(), SQL_ATTR_CONNECTION_DEAD, &dead,
                                          SQL_IS_UINTEGER, nullptr)) &&
         dead == SQL_CD_TRUE;
}

void Connection::limit(SQLHSTMT statement, milliseconds timeout) {
  const auto seconds =
      timeout.count() <= 0 ? 0 : std::chrono::ceil<std::chrono::seconds>(timeout).count();
  // A driver without timeouts reports an error; the caller's own clock then still ends the work
  // between statements.
  SQLSetStmtAttrW(statement, SQL_ATTR_QUERY_TIMEOUT, number(static_cast<std::uintptr_t>(seconds)),
                  SQL_IS_UINTEGER);
}

void Connection::bind(SQLHSTMT statement, Parameters& parameters) {
  SQLUSMALLINT place = 0;
  for (auto& one : parameters.all) {
    // SQLParamData returns this pointer to identify the streamed value whose data it needs next.
    const SQLPOINTER data = one.streamed ? static_cast<SQLPOINTER>(&one) : one.data;
    need(SQLBindParameter(statement, ++place, SQL_PARAM_INPUT, one.c_type, one.sql_type, one.size,
                          one.digits, data, one.bytes, &one.indicator),
         SQL_HANDLE_STMT, statement);
  }
}

SQLRETURN Connection::stream(SQLHSTMT statement, Parameters& parameters) {
  for (;;) {
    SQLPOINTER token = nullptr;
    const SQLRETURN code = SQLParamData(statement, &token);
    if (code != SQL_NEED_DATA) return code;
    const auto wanted = std::find_if(parameters.all.begin(), parameters.all.end(),
                                     [&](auto& one) { return &one == token; });
    if (wanted == parameters.all.end())
      throw DatabaseError("the ODBC driver requests a parameter that was not announced");
    auto* at = static_cast<char*>(wanted->data);
    for (std::size_t left = static_cast<std::size_t>(wanted->bytes); left > 0;) {
      const std::size_t piece = std::min(left, piece_bytes);
      need(SQLPutData(statement, at, static_cast<SQLLEN>(piece)), SQL_HANDLE_STMT, statement);
      at += piece;
      left -= piece;
    }
  }
}

Rows Connection::execute(const Marked& text, std::span<const Value> values, bool keep,
                         milliseconds timeout) {
  Parameters parameters;
  for (const std::size_t index : text.order) parameters.add(values[index], maker_);
  Handle own;
  SQLHSTMT statement = SQL_NULL_HSTMT;
  bool ready = false;
  if (const auto found = keep ? prepared_.find(text.text) : prepared_.end();
      found != prepared_.end()) {
    statement = found->second.get();
    ready = true;
  } else {
    own = Handle(SQL_HANDLE_STMT, connection_.get());
    statement = own.get();
    SQLSetStmtAttrW(statement, SQL_ATTR_NOSCAN, number(SQL_NOSCAN_ON), SQL_IS_UINTEGER);
  }
  limit(statement, timeout);
  try {
    std::u16string sql = ready ? std::u16string() : utf16_of(text.text);
    SQLRETURN code = SQL_SUCCESS;
    if (parameters.all.empty() && !keep) {
      code = SQLExecDirectW(statement, wide(sql), static_cast<SQLINTEGER>(sql.size()));
    } else {
      if (!ready)
        need(SQLPrepareW(statement, wide(sql), static_cast<SQLINTEGER>(sql.size())),
             SQL_HANDLE_STMT, statement);
      if (!keep && maker_ == Maker::microsoft) parameters.describe_nulls(statement);
      bind(statement, parameters);
      code = SQLExecute(statement);
    }
    if (code == SQL_NEED_DATA) code = stream(statement, parameters);
    Rows rows = read(statement, code);
    SQLFreeStmt(statement, SQL_CLOSE);
    SQLFreeStmt(statement, SQL_RESET_PARAMS);
    // A statement is kept only after it has succeeded.
    if (keep && !ready && prepared_.size() < prepared_max)
      prepared_.emplace(text.text, std::move(own));
    return rows;
  } catch (...) {
    // A prepared statement that failed is prepared again: some drivers leave it half-way through
    // its parameters.
    if (ready) prepared_.erase(text.text);
    throw;
  }
}

Rows Connection::read(SQLHSTMT statement, SQLRETURN code) {
  Rows rows;
  bool have_columns = false;
  // For an execution, SQL_NO_DATA means that it changed no row.
  while (true) {
    if (code != SQL_NO_DATA) need(code, SQL_HANDLE_STMT, statement);
    SQLSMALLINT columns = 0;
    if (code != SQL_NO_DATA)
      need(SQLNumResultCols(statement, &columns), SQL_HANDLE_STMT, statement);
    if (columns > 0 && !have_columns) {
      have_columns = true;
      fetch(statement, columns, rows);
    } else if (columns == 0) {
      SQLLEN count = 0;
      if (SQL_SUCCEEDED(SQLRowCount(statement, &count)) && count > 0) rows.affected = count;
    }
    code = SQLMoreResults(statement);
    if (code == SQL_NO_DATA) break;
  }
  if (have_columns && rows.affected == 0)
    rows.affected = static_cast<std::int64_t>(rows.rows.size());
  return rows;
}

void Connection::fetch(SQLHSTMT statement, SQLSMALLINT columns, Rows& rows) {
  std::vector<SQLSMALLINT> types;
  for (SQLSMALLINT column = 1; column <= columns; ++column) {
    std::u16string name(256, u'\0');
    SQLSMALLINT length = 0, type = 0, digits = 0, nullable = 0;
    SQLULEN size = 0;
    need(SQLDescribeColW(statement, static_cast<SQLUSMALLINT>(column), wide(name),
                         static_cast<SQLSMALLINT>(name.size()), &length, &type, &size, &digits,
                         &nullable),
         SQL_HANDLE_STMT, statement);
    rows.columns.push_back(utf8_of(std::u16string_view(name).substr(
        0, std::min<std::size_t>(static_cast<std::size_t>(length), name.size() - 1))));
    types.push_back(type);
  }
  for (;;) {
    const SQLRETURN code = SQLFetch(statement);
    if (code == SQL_NO_DATA) return;
    need(code, SQL_HANDLE_STMT, statement);
    Row row;
    row.reserve(types.size());
    for (SQLUSMALLINT column = 1; column <= types.size(); ++column) {
      SQLLEN indicator = 0;
      Value& value = row.emplace_back();
      switch (types[column - 1u]) {
        case SQL_BIT: {
          unsigned char bit = 0;
          need(SQLGetData(statement, column, SQL_C_BIT, &bit, sizeof bit, &indicator),
               SQL_HANDLE_STMT, statement);
          if (indicator != SQL_NULL_DATA) value = Value(bit != 0);
          break;
        }
        case SQL_TINYINT:
        case SQL_SMALLINT:
        case SQL_INTEGER:
        case SQL_BIGINT: {
          SQLBIGINT integer = 0;
          need(SQLGetData(statement, column, SQL_C_SBIGINT, &integer, sizeof integer, &indicator),
               SQL_HANDLE_STMT, statement);
          if (indicator != SQL_NULL_DATA) value = Value(static_cast<std::int64_t>(integer));
          break;
        }
        case SQL_REAL:
        case SQL_FLOAT:
        case SQL_DOUBLE: {
          double real = 0;
          need(SQLGetData(statement, column, SQL_C_DOUBLE, &real, sizeof real, &indicator),
               SQL_HANDLE_STMT, statement);
          if (indicator != SQL_NULL_DATA) value = Value(real);
          break;
        }
        case SQL_BINARY:
        case SQL_VARBINARY:
        case SQL_LONGVARBINARY: {
          bool null = false;
          std::string bytes = read_long(statement, column, true, null);
          if (!null) value = Value(Bytes{std::move(bytes)});
          break;
        }
        default: {
          bool null = false;
          std::string text = read_long(statement, column, false, null);
          if (!null) value = Value(std::move(text));
        }
      }
    }
    rows.rows.push_back(std::move(row));
  }
}

// Reads a value of any length in pieces: with the first one the driver reports the total length,
// and the rest is read directly to its place.
std::string Connection::read_long(SQLHSTMT statement, SQLUSMALLINT column, bool binary,
                                  bool& null) {
  const std::size_t ending =
      binary ? 0 : sizeof(char16_t);  // text comes with a NUL after each piece
  std::string held(1024, '\0');
  std::size_t used = 0;
  for (;;) {
    SQLLEN indicator = 0;
    const std::size_t room = held.size() - used;
    const SQLRETURN code = SQLGetData(statement, column, binary ? SQL_C_BINARY : SQL_C_WCHAR,
                                      held.data() + used, static_cast<SQLLEN>(room), &indicator);
    if (code == SQL_NO_DATA) break;
    need(code, SQL_HANDLE_STMT, statement);
    if (indicator == SQL_NULL_DATA) {
      null = true;
      return {};
    }
    if (indicator != SQL_NO_TOTAL && static_cast<std::size_t>(indicator) + ending <= room) {
      used += static_cast<std::size_t>(indicator);
      break;
    }
    used += room - ending;
    const std::size_t more = indicator == SQL_NO_TOTAL
                                 ? std::max(held.size(), std::size_t{4096})
                                 : static_cast<std::size_t>(indicator) - (room - ending);
    held.resize(used + more + ending);
  }
  held.resize(used);
  if (binary) return held;
  std::u16string text(used / 2, u'\0');
  std::memcpy(text.data(), held.data(), text.size() * 2);
  return utf8_of(text);
}

// Long: one statement, from its values to its rows.
std::size_t Connection::execute_rows(const Marked& text, std::span<const ArrayColumn> columns,
                                     milliseconds timeout) {
  const std::size_t total = columns.empty() ? 0 : columns.front().values.size();
  std::size_t row_bytes = 0;
  bool by_row = false;
  std::vector<std::size_t> widths;
  for (const ArrayColumn& column : columns) {
    std::size_t width = 1;
    for (const auto& value : column.values) width = std::max(width, value ? value->size() : 0);
    by_row = by_row || (column.binary && !takes_arrays_of_bytes(maker_)) ||
             width > (column.binary ? short_bytes_max : short_units_max);
    widths.push_back(
        column.binary ? width : 2 * (width + 1));  // never more UTF-16 units than bytes of UTF-8
    row_bytes += widths.back();
  }
  if (by_row) {
    for (std::size_t row = 0; row < total; ++row) {
      std::vector<Value> values;
      for (const ArrayColumn& column : columns) {
        const auto& held = column.values[row];
        Value& value = values.emplace_back();
        if (held && column.binary) value = Value(Bytes{*held});
        else if (held) value = Value(*held);
      }
      execute(text, values, true, timeout);
    }
    return total;
  }
  Handle own(SQL_HANDLE_STMT, connection_.get());
  SQLHSTMT statement = own.get();
  limit(statement, timeout);
  std::u16string sql = utf16_of(text.text);
  need(SQLPrepareW(statement, wide(sql), static_cast<SQLINTEGER>(sql.size())), SQL_HANDLE_STMT,
       statement);
  const std::size_t step =
      std::clamp<std::size_t>(array_bytes_max / std::max<std::size_t>(row_bytes, 1), 1, 1000);
  for (std::size_t start = 0; start < total; start += step) {
    const std::size_t count = std::min(step, total - start);
    std::vector<std::string> buffers;
    std::vector<std::vector<SQLLEN>> indicators;
    for (std::size_t column = 0; column < columns.size(); ++column) {
      auto& buffer = buffers.emplace_back(widths[column] * count, '\0');
      auto& lengths = indicators.emplace_back(count, SQL_NULL_DATA);
      for (std::size_t row = 0; row < count; ++row) {
        const auto& value = columns[column].values[start + row];
        if (!value) continue;
        char* place = buffer.data() + row * widths[column];
        if (columns[column].binary) {
          std::memcpy(place, value->data(), value->size());
          lengths[row] = static_cast<SQLLEN>(value->size());
        } else {
          const std::u16string units = utf16_of(*value);
          std::memcpy(place, units.data(), units.size() * 2);
          lengths[row] = static_cast<SQLLEN>(units.size() * 2);
        }
      }
    }
    constexpr SQLUSMALLINT untouched = 0xFFFF;
    std::vector<SQLUSMALLINT> statuses(count, untouched);
    SQLULEN processed = 0;
    SQLSetStmtAttrW(statement, SQL_ATTR_PARAM_BIND_TYPE, number(SQL_PARAM_BIND_BY_COLUMN),
                    SQL_IS_UINTEGER);
    need(SQLSetStmtAttrW(statement, SQL_ATTR_PARAMSET_SIZE, number(count), SQL_IS_UINTEGER),
         SQL_HANDLE_STMT, statement);
    need(SQLSetStmtAttrW(statement, SQL_ATTR_PARAM_STATUS_PTR, statuses.data(), SQL_IS_POINTER),
         SQL_HANDLE_STMT, statement);
    need(SQLSetStmtAttrW(statement, SQL_ATTR_PARAMS_PROCESSED_PTR, &processed, SQL_IS_POINTER),
         SQL_HANDLE_STMT, statement);
    for (std::size_t place = 0; place < text.order.size(); ++place) {
      const std::size_t column = text.order[place];
      const bool binary = columns[column].binary;
      need(SQLBindParameter(statement, static_cast<SQLUSMALLINT>(place + 1), SQL_PARAM_INPUT,
                            binary ? SQL_C_BINARY : SQL_C_WCHAR,
                            binary ? SQL_VARBINARY : SQL_WVARCHAR,
                            binary ? widths[column] : widths[column] / 2, 0, buffers[column].data(),
                            static_cast<SQLLEN>(widths[column]), indicators[column].data()),
           SQL_HANDLE_STMT, statement);
    }
    SQLRETURN code = SQLExecute(statement);
    // A driver may report "success with information" for a batch in which one row failed, and go on
    // with later rows. A driver without row statuses is trusted only if it reports plain success.
    // Statuses and counts may be complete only when all results have been read, and reading them
    // clears the diagnostics.
    auto found = code == SQL_SUCCESS ? std::vector<Diagnostic>()
                                     : diagnostics_of(SQL_HANDLE_STMT, statement);
    const auto good = [&](SQLUSMALLINT status) {
      return status == SQL_PARAM_SUCCESS || status == SQL_PARAM_SUCCESS_WITH_INFO ||
             (status == untouched && code == SQL_SUCCESS);
    };
    if (!SQL_SUCCEEDED(code) && code != SQL_NO_DATA) fail(SQL_HANDLE_STMT, statement);
    read(statement, code);
    if (const auto bad = std::find_if_not(statuses.begin(), statuses.end(), good);
        bad != statuses.end() || processed != count) {
      if (found.empty()) {
        found.push_back({"HY000", 0,
                         fmt::format("row {} of {} was not carried out: status {}, {} processed",
                                     start + static_cast<std::size_t>(bad - statuses.begin()) + 1,
                                     total, bad == statuses.end() ? untouched : *bad, processed)});
      }
      broken_ = broken_ || looks_dead();
      throw OdbcError(std::move(found), broken_);
    }
    SQLFreeStmt(statement, SQL_CLOSE);
    SQLFreeStmt(statement, SQL_RESET_PARAMS);
  }
  return total;
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
