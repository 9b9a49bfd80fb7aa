// Connection: one SQLite connection of the driver, with layer 1 registered on it and its statements
// cached. One thread at a time; its owner (WriteQueue, the pool of readers) decides which.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <termgate/value.hpp>

#include <termgate/detail/sqlite/layer1.hpp>
#include <termgate/detail/sqlite/statement.hpp>
#include <termgate/detail/sqlite/lock_wait.hpp>

namespace termgate::sql {
enum class Call : std::uint8_t;
}

namespace termgate {
inline namespace v0 {
namespace sqlite {

struct OpenAs {
  std::string path;  // or ":memory:"
  std::optional<std::string> journal_mode =
      std::nullopt;                   // none: WAL for a new file, otherwise unchanged
  std::string synchronous = "extra";  // FULL, and in journal mode DELETE the folder is flushed too
  std::optional<std::chrono::milliseconds> wait =
      std::nullopt;  // none: the setting check_wait_ms, or its default if it cannot be read
  static constexpr std::chrono::milliseconds default_wait{5000};
  bool memory() const noexcept { return path == ":memory:"; }
};

// Recognises EXPLAIN, PRAGMA and the table functions of PRAGMAs by their words. SQLite answers them
// from the schema in the connection's memory, without comparing it with the file's. So a new table
// is not seen, and an EXPLAIN that was kept while the schema was reloaded reads freed memory.
// Therefore they are not kept, and a statement that reads the file (take_up_schema) runs first.
bool answers_from_memory(std::string_view sql) noexcept;
constexpr const char* take_up_schema = "SELECT 1 FROM main.sqlite_schema LIMIT 1";

class Connection {
 public:
  // May create the file only if `create`. Throws Unavailable if it cannot be opened.
  Connection(const OpenAs& how, bool reader, bool create);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // execute() for a text runs one statement of the application. Transaction control, ATTACH and
  // PRAGMAs that change the connection are refused with InvalidInput, and so is a second statement
  // after the first.
  Rows execute(sql::Call call, std::span<const Value> parameters);
  Rows execute(std::string_view sql, std::span<const Value> parameters);

  // Runs a statement of the driver that returns no rows. Returns SQLite's code, without an
  // exception.
  int control(const char* sql) noexcept;
  // The same, but throws.
  void control_checked(const char* sql);
  // How long statements wait for another connection's lock.
  void wait_for_locks(std::chrono::milliseconds wait) noexcept;
  // BEGIN IMMEDIATE or BEGIN: tries for as long as `wait`, and announces the wait to the lock's
  // holder (lock_wait.hpp). Returns SQLite's code.
  int begin(bool read_only, std::chrono::milliseconds wait, std::string_view scope,
            std::int64_t term);
  // COMMIT; returns SQLite's code, the extended one in `extended`. It rolls back if the file is no
  // longer suitable, for the reason in file_problem().
  int commit(int& extended) noexcept;
  const std::optional<FileWatch::Problem>& file_problem() const noexcept { return file_problem_; }
  // PRAGMA query_only: every write on the connection then fails, also in nested statements.
  void only_read(bool on);

  // Statements that run past this moment are interrupted, which rolls back the whole transaction.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline);
  bool past_deadline() const noexcept;

  sqlite3* handle() const noexcept { return db_; }
  Layer1& layer1() noexcept { return *layer1_; }
  bool in_transaction() const noexcept { return sqlite3_get_autocommit(db_) == 0; }
  // Bytes of parameters bound since the last call: by how much the open group has grown.
  std::size_t take_bound_bytes() noexcept { return std::exchange(bound_bytes_, 0); }

 private:
  struct Cached {
    std::string sql;
    Statement statement;
    std::vector<int> parameters;  // the number of our parameter for each of SQLite's
  };
  using Recent = std::list<Cached>;  // most recently used first

  static int authorize(void* self, int action, const char* first, const char* second,
                       const char* schema, const char* trigger);
  Cached& prepared(std::string_view sql, std::optional<Cached>& once);
  Cached prepare(std::string_view sql);
  Rows run(std::string_view sql, std::span<const Value> parameters);
  [[noreturn]] void throw_blocked();
  void set_journal_mode(const OpenAs& how, const std::string& mode);
  void bind(sqlite3_stmt* statement, int at, const Value& value);

  static constexpr std::size_t cached_max = 128;
  static constexpr std::size_t cached_text_bytes_max = 16 * 1024;

  sqlite3* db_ = nullptr;
  std::chrono::milliseconds busy_wait_{0};
  std::chrono::steady_clock::time_point busy_since_{};
  std::optional<LockWait> busy_lock_wait_;
  Layer1* layer1_ = nullptr;
  std::optional<FileWatch::Problem> file_problem_;  // of the last commit
  bool application_ = false;  // a statement of the application is being prepared
  std::string denied_;        // what the authorizer refused, for the message
  Recent recent_;
  std::unordered_map<std::string_view, Recent::iterator> by_text_;  // keys live in recent_
  std::unordered_map<const void*, Statement> controls_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::size_t bound_bytes_ = 0;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
