// storm's plain connection to an SQLite file.
#include <sqlite3.h>

#include <fmt/format.h>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

#include "bench/target.hpp"
#include "storm/sql.hpp"

namespace termgate::cli::storm {
namespace {

class Sqlite final : public Sql {
 public:
  explicit Sqlite(const std::string& path) {
    if (sqlite3_open_v2(path.c_str(), &db_,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        nullptr) != SQLITE_OK) {
      const std::string why = sqlite3_errmsg(db_);
      sqlite3_close(db_);
      throw Unavailable("no connection: " + why);
    }
    sqlite3_busy_timeout(db_, 10'000);
    // A storm does not test power failures, so commits need not be flushed.
    sqlite3_exec(db_, "PRAGMA synchronous = NORMAL", nullptr, nullptr, nullptr);
  }
  ~Sqlite() override { sqlite3_close(db_); }
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  Table run(const std::string& statement, const std::vector<std::string>& values) override {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(db_, statement.c_str(), -1, &prepared, nullptr) != SQLITE_OK) fail();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(prepared, sqlite3_finalize);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int at = sqlite3_bind_parameter_index(prepared, fmt::format("${}", i + 1).c_str());
      if (at > 0)
        sqlite3_bind_text(prepared, at, values[i].data(), static_cast<int>(values[i].size()),
                          SQLITE_STATIC);
    }
    Table table;
    int status = 0;
    while ((status = sqlite3_step(prepared)) == SQLITE_ROW) {
      auto& cells = table.rows.emplace_back();
      for (int column = 0; column < sqlite3_column_count(prepared); ++column) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, column));
        cells.emplace_back(text == nullptr ? "" : text);
      }
    }
    if (status != SQLITE_DONE) fail();
    table.affected = sqlite3_changes(db_);
    return table;
  }

  void run_text(const std::string&) override {
    throw Error("storm: one text of several statements is PostgreSQL's");
  }

  bool lost() const override { return false; }

  void roll_back() noexcept override {
    if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }

 private:
  [[noreturn]] void fail() {
    const std::string message = sqlite3_errmsg(db_);
    const int code = sqlite3_extended_errcode(db_);
    detail::throw_if_tg(message);
    if ((code & 0xFF) == SQLITE_BUSY) throw Conflict(message, std::to_string(code));
    throw DatabaseError(message, std::to_string(code));
  }

  sqlite3* db_ = nullptr;
};

}  // namespace

std::unique_ptr<Sql> connect_sqlite(const std::string& url) {
  return std::make_unique<Sqlite>(bench::sqlite_path(url));
}

}  // namespace termgate::cli::storm
