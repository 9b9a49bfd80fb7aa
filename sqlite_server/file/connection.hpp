// Connection: one connection of storage/sqlite's for streams: the guard over texts from the network, functions that can be stopped,
// statements kept prepared.
//
// Statements are prepared with SQLite's older interface on purpose: it never prepares one anew by itself. A schema that has changed is met
// as SQLITE_SCHEMA, and the text goes past the guard again.
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
  // The writer, a reader of the pool, a reader of the pool for a transaction that may become a writer.
  enum class Role : std::uint8_t { writer, may_write, reads };
  Connection(const sqlite::OpenAs& how, Role role, int cache_kib);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The first statement of the text. Throws hrana::Refused: what the guard refuses, what SQLite does not know. One without a handle: there
  // is none, or it is BEGIN READONLY.
  Prepared prepare(std::string_view sql);
  // The same from the file's schema as it is now, for who looks at the statement and does not run it. A kept one may be of an older schema,
  // which is found out when it runs.
  Prepared prepare_anew(std::string_view sql);
  // Text of ours, without rows. Throws hrana::Refused.
  void run(const std::string& sql);

  // Before and after a transaction of a stream: outside it nothing may commit a write but the writer. False: it is not to be used again.
  void may_write(bool on);
  bool restore() noexcept;
  // Outside a transaction.
  void foreign_keys(bool on) noexcept;

  sqlite::Connection& sqlite() noexcept { return connection_; }
  sqlite3* handle() const noexcept { return connection_.handle(); }
  Role role() const noexcept { return role_; }
  Serving& serving() noexcept { return serving_; }
  // Throws what SQLite said last.
  [[noreturn]] void fail(int code, bool preparing = false);

  const int cache_kib;

 private:
  friend class Prepared;
  struct Kept {
    std::string sql;  // of one statement, with what ends it
    sqlite3_stmt* statement = nullptr;
    Facts facts;
    bool only_once = false;  // not kept
  };
  static int authorize(void* self, int action, const char* first, const char* second, const char* schema, const char* asking);
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
  bool from_network_ = false;  // a text of a client's is being prepared
  bool writable_ = false;      // else no transaction of this connection commits a write
  bool query_only_ = false;
  std::list<Kept> kept_;  // most recently used first
};

// A statement of a connection's, given back to its memory at the end. Not beyond the connection.
class Prepared {
 public:
  Prepared(Prepared&& other) noexcept : owner_(other.owner_), stepped_(other.stepped_) { held_.splice(held_.begin(), other.held_); }
  Prepared& operator=(Prepared&&) = delete;
  ~Prepared();

  // nullptr: nothing to run.
  sqlite3_stmt* get() const noexcept { return held_.front().statement; }
  const Facts& facts() const noexcept { return held_.front().facts; }
  // Bytes of the text that it is.
  std::size_t used() const noexcept { return held_.front().sql.size(); }
  Connection& owner() const noexcept { return *owner_; }
  // SQLITE_ROW or SQLITE_DONE; throws hrana::Refused. A changed schema is met by preparing again, with what is bound; where the statement
  // has become another kind then, it throws Changed and nothing of it has run.
  int step();
  struct Changed {};

 private:
  friend class Connection;
  explicit Prepared(Connection& owner) : owner_(&owner) {}
  void prepare_again();
  Connection* owner_;
  std::list<Connection::Kept> held_;  // one: it goes to and from the connection's without a copy
  bool stepped_ = false;
};

}  // namespace termgate::sqlite_file
