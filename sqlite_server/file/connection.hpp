// Connection: a connection of storage/sqlite for streams. It guards texts from the network, has
// functions that can be stopped, and keeps statements prepared.
//
// Statements are prepared with SQLite's older interface on purpose, because that never prepares one
// again by itself: a changed schema is reported as SQLITE_SCHEMA, and the text passes the guard
// again.
//
// Owner: the engine, or the stream that has borrowed it. One thread at a time.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>

#include <termgate/detail/sqlite/connection.hpp>

#include "file/functions.hpp"
#include "file/guard.hpp"
#include "hrana/port.hpp"

namespace termgate::sqlite_file {

class Prepared;

class Connection {
 public:
  // writer: the one that writes. may_write: a reader of the pool for a transaction that may become
  // a writer. reads: any other reader of the pool.
  enum class Role : std::uint8_t { writer, may_write, reads };
  Connection(const sqlite::OpenAs& how, Role role, int cache_kib);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Prepares the first statement of the text. Throws hrana::Refused for what the guard or SQLite
  // refuses. The result has no handle if there is no statement, or if it is BEGIN READONLY.
  Prepared prepare(std::string_view sql);
  // The same, but always from the file's current schema, for callers that examine the statement
  // without running it. A kept statement may be based on an older schema, which shows only when it
  // runs.
  Prepared prepare_anew(std::string_view sql);
  // Runs a text of Termgate's own that returns no rows. Throws hrana::Refused.
  void run(const std::string& sql);

  // Whether the connection may commit a write: the writer always, a reader while its transaction
  // has the turn. restore() undoes what a stream has set; false: the connection must not be used
  // again.
  void may_write(bool on);
  bool restore() noexcept;
  // May only be called outside a transaction.
  void foreign_keys(bool on) noexcept;

  sqlite::Connection& sqlite() noexcept { return connection_; }
  sqlite3* handle() const noexcept { return connection_.handle(); }
  Role role() const noexcept { return role_; }
  Serving& serving() noexcept { return serving_; }
  // Throws SQLite's last error as hrana::Refused.
  [[noreturn]] void fail(int code, bool preparing = false);

  const int cache_kib;

 private:
  friend class Prepared;
  struct Kept {
    std::string sql;  // one statement, up to and including its semicolon
    sqlite3_stmt* statement = nullptr;
    Facts facts;
    bool only_once = false;  // must not be kept
  };
  static int authorize(void* self, int action, const char* first, const char* second,
                       const char* schema, const char* asking);
  Kept prepare_now(std::string_view sql);
  void refuse_changes();
  bool fixed_scope_passed(std::string_view table, bool& found);
  void keep(std::list<Kept>& one) noexcept;

  static constexpr std::size_t kept_max = 64;
  static constexpr std::size_t kept_text_bytes_max = 16 * 1024;

  const Role role_;
  Serving serving_;
  sqlite::Connection connection_;
  Guard guard_;
  bool from_network_ = false;  // a client's text is being prepared
  bool writable_ = false;      // if false, no transaction of this connection may commit a write
  bool query_only_ = false;
  std::list<Kept> kept_;  // most recently used first
};

// A prepared statement of a connection, which goes back to that connection's kept statements at the
// end. The connection must outlive it.
class Prepared {
 public:
  Prepared(Prepared&& other) noexcept : owner_(other.owner_), stepped_(other.stepped_) {
    held_.splice(held_.begin(), other.held_);
  }
  Prepared& operator=(Prepared&&) = delete;
  ~Prepared();

  // nullptr: there is nothing to run.
  sqlite3_stmt* get() const noexcept { return held_.front().statement; }
  const Facts& facts() const noexcept { return held_.front().facts; }
  // How many bytes of the text the statement takes.
  std::size_t used() const noexcept { return held_.front().sql.size(); }
  Connection& owner() const noexcept { return *owner_; }
  // Returns SQLITE_ROW or SQLITE_DONE; throws hrana::Refused. If the schema has changed before the
  // first row, it prepares the statement again and binds the same values. If that makes it another
  // kind of statement, it throws Changed, and nothing has run.
  int step();
  struct Changed {};

 private:
  friend class Connection;
  explicit Prepared(Connection& owner) : owner_(&owner) {}
  void prepare_again();
  Connection* owner_;
  std::list<Connection::Kept>
      held_;  // a list of one, so that it moves to and from the connection's list without a copy
  bool stepped_ = false;
};

}  // namespace termgate::sqlite_file
