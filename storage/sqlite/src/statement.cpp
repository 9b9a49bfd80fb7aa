// Prepared statements and one execution of them (statement.hpp). One thread at a time, like the
// connection.
#include <termgate/detail/sqlite/statement.hpp>

#include <utility>

#include <termgate/detail/sqlite/errors.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

Statement::Statement(sqlite3* db, std::string_view sql, unsigned flags) {
  const int code =
      sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), flags, &handle_, nullptr);
  if (code != SQLITE_OK) throw_sqlite(db, code);
}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Running::checked(int code) {
  if (code != SQLITE_OK) throw_sqlite(sqlite3_db_handle(handle_), code);
}

Running& Running::bind(std::int64_t value) {
  checked(sqlite3_bind_int64(handle_, ++bound_, value));
  return *this;
}

// An empty text is not NULL, as for bytes.
Running& Running::bind(std::string_view text) {
  checked(sqlite3_bind_text64(handle_, ++bound_, text.data() != nullptr ? text.data() : "",
                              text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Running& Running::bind_blob(std::string_view bytes) {
  // A null pointer would bind NULL; an empty payload is empty, not absent.
  checked(sqlite3_bind_blob64(handle_, ++bound_, bytes.data() != nullptr ? bytes.data() : "",
                              bytes.size(), SQLITE_STATIC));
  return *this;
}

Running& Running::bind_null() {
  checked(sqlite3_bind_null(handle_, ++bound_));
  return *this;
}

bool Running::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  throw_sqlite(sqlite3_db_handle(handle_), code);
}

std::string Running::text(int column) const {
  // The bytes are read first: sqlite3_column_blob does not convert, and text may contain a NUL.
  const void* bytes = sqlite3_column_type(handle_, column) == SQLITE_BLOB
                          ? sqlite3_column_blob(handle_, column)
                          : static_cast<const void*>(sqlite3_column_text(handle_, column));
  const int size = sqlite3_column_bytes(handle_, column);
  return bytes != nullptr
             ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size))
             : std::string();
}

std::optional<std::string> Running::optional_text(int column) const {
  if (is_null(column)) return std::nullopt;
  return text(column);
}

std::optional<std::int64_t> Running::optional_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

// Found by address instead of content: the texts are constants of the program, and hashing them
// would cost more than the lookup.
sqlite3_stmt* StatementCache::get(sqlite3* db, std::string_view sql) {
  Statement& kept = statements_[sql.data()];
  if (kept.get() == nullptr) kept = Statement(db, sql, SQLITE_PREPARE_PERSISTENT);
  return kept.get();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
