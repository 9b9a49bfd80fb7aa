// SqlConnection: one connection of storage/sqlite's with what a session needs on it: the guard over texts from the network, the catalog and
// its functions, statements kept prepared. One thread at a time.
//
// Statements are prepared with SQLite's older interface on purpose: it never prepares one anew by itself. A schema that has changed
// is met as SQLITE_SCHEMA, and the text goes past the guard again.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/sqlite_server/catalog.hpp>

#include <termgate/detail/sqlite/connection.hpp>
#include "session/pg_error.hpp"
#include "engine/guard.hpp"

namespace termgate::sqlite_server {

// What others may do to a session at work: any thread.
class Control {
 public:
  // Around whatever SQLite does for the session. `shared`: an interrupt would take other sessions' writes along.
  void begins(sqlite3* db, bool shared);
  void ends();
  // Whether an interrupt that was asked for has to be answered now.
  bool interrupted() const noexcept { return cancelled_ || evicted_ || timed_out(); }
  // The session's own thread: until when its statement may run (statement_timeout); max: for ever.
  void limit(std::chrono::steady_clock::time_point deadline) noexcept { deadline_ = deadline; }
  std::chrono::steady_clock::time_point limit() const noexcept { return deadline_; }
  bool timed_out() const noexcept {
    const auto deadline = deadline_.load();
    return deadline != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= deadline;
  }
  // Now and then, from another thread: some of SQLite's instructions go through a whole table and ask nothing but whether they are
  // interrupted.
  void tick();
  bool cancelled() const noexcept { return cancelled_; }
  // From within SQLite, on the session's thread: whether the statement has to stop. One that shares a commit is given a moment to end by
  // itself.
  bool must_stop() noexcept;
  // What runs next is stopped when must_stop() has been asked that often; 0: it is not. Then overran(). Whoever has the session.
  void allow(int questions) noexcept {
    questions_left_ = questions;
    overran_ = false;
  }
  bool overran() const noexcept { return overran_; }
  // Around the waiting for the write lock: a cancel request ends that, too.
  void waits(bool on);
  bool evicted() const noexcept { return evicted_; }
  std::string why() const;

  // A cancel request: ends the statement that runs, if one does.
  void cancel();
  // Ends the session: its statement, and `hang_up`, which wakes a thread that waits for the client.
  void evict(std::string why);

  std::function<void()> hang_up = [] {};
  // Since when the session's thread waits for its client; the epoch where it is at work.
  std::atomic<std::chrono::steady_clock::time_point> idle_since{std::chrono::steady_clock::time_point{}};

 private:
  mutable std::mutex mutex_;
  sqlite3* running_ = nullptr;
  bool shared_ = false;
  bool waits_ = false;
  std::atomic<std::chrono::steady_clock::time_point> deadline_{std::chrono::steady_clock::time_point::max()};
  std::chrono::steady_clock::time_point stop_requested_{};  // when must_stop() met it first; the session's thread
  int questions_left_ = 0;
  bool overran_ = false;
  std::string why_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> evicted_{false};
};

using sqlite::OpenAs;

struct OutColumn {
  std::string name;
  Oid type = 0;
  std::int32_t modifier = -1;
  std::uint32_t table = 0;  // where the column comes from; 0: from no table
  std::uint16_t place = 0;
};
// What a plan's statement returns, for as long as the schema that it was prepared with is current.
struct Described {
  std::uint64_t plan;
  std::vector<OutColumn> columns;
};

class SqlConnection {
 public:
  // `install`: what else is put on the connection; may be empty. `cache_kib`: of pages that it keeps.
  SqlConnection(const OpenAs& how, const std::function<void(sqlite3*)>& install, int cache_kib);
  ~SqlConnection();
  SqlConnection(const SqlConnection&) = delete;
  SqlConnection& operator=(const SqlConnection&) = delete;

  // A statement, and what is known of it.
  struct Kept {
    std::string sql;
    sqlite3_stmt* statement = nullptr;
    bool calls_writer = false;
    bool changes_indexes = false;  // which the triggers of protect() go by
    bool watches = false;          // calls pg_upsert_once()
    std::uint64_t schema = 0;      // FileRelations::id() of what it was prepared with; 0: not known
    int runs = 0;                  // of a plan with that schema; no more than two are counted
    bool asks = false;             // SQLite compares the schema's number when it begins
    std::shared_ptr<const Described> described;
  };
  // A statement of this connection's, given back to its memory at the end. Not beyond the connection.
  class Text {
   public:
    Text() = default;
    Text(Text&& other) noexcept { *this = std::move(other); }
    Text& operator=(Text&& other) noexcept;
    ~Text() { return_statement(); }
    sqlite3_stmt* get() const noexcept { return held_.empty() ? nullptr : held_.front().statement; }
    explicit operator bool() const noexcept { return !held_.empty(); }
    SqlConnection& owner() const noexcept { return *owner_; }
    // By itself, or through a function that does.
    bool writes() const noexcept { return held_.front().calls_writer || sqlite3_stmt_readonly(get()) == 0; }
    // Kept with the statement for as long as its schema is current.
    std::shared_ptr<const Described>& described() noexcept { return held_.front().described; }
    // It is of a plan that was typed with that schema: throws StalePlan, now or at its first step, where the file's is another.
    void of_schema(std::uint64_t id);
    // SQLITE_ROW or SQLITE_DONE; throws PgException. Before the first row a changed schema is met by preparing again, with what is bound.
    int step();
    void return_statement() noexcept;

   private:
    friend class SqlConnection;
    SqlConnection* owner_ = nullptr;
    void prepare_again();
    std::list<Kept> held_;  // one, or none: it goes to and from the connection's without a copy
    bool stepped_ = false;
    std::uint64_t schema_ = 0;  // of the plan
  };
  // Nothing of it has run: the plan has to be made again.
  struct StalePlan {};
  // Whether a statement of a plan with that schema may be run without asking for the file's first: SQLite asks, and of_schema() tells.
  bool will_ask(const std::string& sql, std::uint64_t schema) const noexcept;
  // Throws PgException: what the guard refuses, what SQLite does not know.
  Text prepare(const std::string& sql);

  sqlite::Connection& sqlite() noexcept { return connection_; }
  sqlite3* handle() const noexcept { return connection_.handle(); }
  // `sql`: of the statement that failed, where it is known.
  [[noreturn]] void fail(int code, const std::string& sql = {});

  // Who has the connection from now on; nullptr: nobody.
  void serve(CatalogSession* session) noexcept { catalog_->serve(session); }
  Catalog& catalog() noexcept { return *catalog_; }

  // From now on it is one session's, and may have temporary tables.
  void open_temporary();
  // Throws 0A000 where something temporary has the name of something in the file.
  void refuse_clashes();

  // Makes the triggers of protect() again, which go by a table's indexes. In the open transaction.
  void follow_indexes();

  const int cache_kib;
  // Whose statement runs; asked every some thousand instructions.
  Control* running_for = nullptr;
  // Where it is false, no transaction of this connection that has written anything can commit, whatever made it write.
  bool writable = false;

 private:
  friend class Text;
  static int authorize(void* self, int action, const char* first, const char* second, const char* schema, const char* asking);
  sqlite3_stmt* prepare_now(const std::string& sql);
  void refuse_altering();
  std::string with_columns(const std::string& sql);
  void keep(std::list<Kept>& one) noexcept;
  bool asks_for_schema(const std::string& sql);
  void name_index(PgError& fault);
  void name_key(PgError& fault, bool primary);
  // The constraint that a statement has violated, where its text and the schema leave no doubt.
  void name_constraint(PgError& fault, const std::string& sql);

  static constexpr std::size_t kept_max = 64;
  static constexpr int temporary_pages_max = 1 << 16;  // of 4 KiB
  static constexpr std::size_t kept_text_bytes_max = 16 * 1024;

  sqlite::Connection connection_;
  Catalog* catalog_ = nullptr;  // the connection's
  bool from_network_ = false;   // a text of a client's is being prepared
  std::string refused_;
  bool temporary_ = false;
  bool calls_writer_ = false;
  bool changes_indexes_ = false;
  bool watches_ = false;
  std::vector<std::pair<int, std::string>> altered_;  // what the text that is being prepared alters or drops
  bool renames_ = false, renames_column_ = false;
  Named named_;
  std::list<Kept> kept_;  // most recently used first
};

}  // namespace termgate::sqlite_server
