// Statement: a prepared statement that frees itself, and Running: one execution of it.
// One thread at a time, like the connection it belongs to.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace termgate {
inline namespace v0 {
namespace sqlite {

class Statement {
 public:
  Statement() = default;
  // Prepares the first statement of `sql`. Throws as throw_sqlite() does.
  Statement(sqlite3* db, std::string_view sql, unsigned flags = 0);
  Statement(Statement&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Statement& operator=(Statement&& other) noexcept;
  ~Statement() { sqlite3_finalize(handle_); }
  // Takes ownership of a handle, which may be nullptr.
  static Statement adopt(sqlite3_stmt* handle) noexcept {
    Statement taken;
    taken.handle_ = handle;
    return taken;
  }

  sqlite3_stmt* get() const noexcept { return handle_; }

 private:
  sqlite3_stmt* handle_ = nullptr;
};

// Binds in order, steps, reads; resets when it goes out of scope. Text and bytes are borrowed until
// then; every parameter is bound anew at each use.
class Running {
 public:
  explicit Running(sqlite3_stmt* handle) noexcept : handle_(handle) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { sqlite3_reset(handle_); }

  Running& bind(std::int64_t value);
  Running& bind(std::string_view text);
  Running& bind(const char* text) { return bind(std::string_view(text)); }
  Running& bind(const std::string& text) { return bind(std::string_view(text)); }
  Running& bind_blob(std::string_view bytes);
  Running& bind_null();
  Running& bind(const std::optional<std::string>& text) {
    return text ? bind(std::string_view(*text)) : bind_null();
  }
  Running& bind(const std::optional<std::int64_t>& value) {
    return value ? bind(*value) : bind_null();
  }

  // True for a row, false at the end; throws in all other cases.
  bool step();
  // Runs a statement without rows to its end.
  void run() {
    while (step()) {}
  }
  // Like step(), but returns the result code instead of throwing.
  int try_step() noexcept { return sqlite3_step(handle_); }

  std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(handle_, column); }
  bool is_null(int column) const noexcept {
    return sqlite3_column_type(handle_, column) == SQLITE_NULL;
  }
  std::string text(int column) const;
  std::optional<std::string> optional_text(int column) const;
  std::optional<std::int64_t> optional_integer(int column) const;
  sqlite3_stmt* get() const noexcept { return handle_; }

 private:
  void checked(int code);
  sqlite3_stmt* handle_;
  int bound_ = 0;
};

// Prepared statements, found by the address of their text: for texts that live as long as the
// program.
class StatementCache {
 public:
  // The statement of `sql`, prepared at its first use. The cache owns the handle.
  sqlite3_stmt* get(sqlite3* db, std::string_view sql);
  void clear() noexcept { statements_.clear(); }

 private:
  std::unordered_map<const void*, Statement> statements_;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
