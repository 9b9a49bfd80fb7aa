// A statement of the catalog's own on the connection.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace termgate::sqlite_server {

// As a name in SQLite's SQL, whatever is in it.
inline std::string in_quotes(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    out += c;
    if (c == '"') out += c;
  }
  return out + '"';
}

class Query {
 public:
  Query(sqlite3* connection, std::string_view sql) {
    failed_ = sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr) != SQLITE_OK;
  }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query() { sqlite3_finalize(statement_); }

  Query& bind(std::string_view text) {
    sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
  }
  Query& bind(std::int64_t number) {
    sqlite3_bind_int64(statement_, ++bound_, number);
    return *this;
  }
  // False at the end, and where it fails: failed() says which.
  bool step() {
    if (statement_ == nullptr) return false;
    const int code = sqlite3_step(statement_);
    failed_ = code != SQLITE_ROW && code != SQLITE_DONE;
    return code == SQLITE_ROW;
  }
  // From its beginning, for another step().
  void again() noexcept {
    if (statement_ != nullptr) sqlite3_reset(statement_);
  }
  bool failed() const noexcept { return failed_; }
  std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(statement_, column); }
  double real(int column) const noexcept { return sqlite3_column_double(statement_, column); }
  bool is_null(int column) const noexcept { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  bool failed_ = false;
};

}  // namespace termgate::sqlite_server
