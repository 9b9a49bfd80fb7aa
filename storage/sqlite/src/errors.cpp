#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <termgate/detail/sqlite/errors.hpp>

#include <array>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

// SQLite has messages for its codes but no function that returns their names.
constexpr std::pair<int, std::string_view> code_names[] = {
    {SQLITE_ERROR, "SQLITE_ERROR"},
    {SQLITE_INTERNAL, "SQLITE_INTERNAL"},
    {SQLITE_PERM, "SQLITE_PERM"},
    {SQLITE_ABORT, "SQLITE_ABORT"},
    {SQLITE_BUSY, "SQLITE_BUSY"},
    {SQLITE_LOCKED, "SQLITE_LOCKED"},
    {SQLITE_NOMEM, "SQLITE_NOMEM"},
    {SQLITE_READONLY, "SQLITE_READONLY"},
    {SQLITE_INTERRUPT, "SQLITE_INTERRUPT"},
    {SQLITE_IOERR, "SQLITE_IOERR"},
    {SQLITE_CORRUPT, "SQLITE_CORRUPT"},
    {SQLITE_FULL, "SQLITE_FULL"},
    {SQLITE_CANTOPEN, "SQLITE_CANTOPEN"},
    {SQLITE_PROTOCOL, "SQLITE_PROTOCOL"},
    {SQLITE_SCHEMA, "SQLITE_SCHEMA"},
    {SQLITE_TOOBIG, "SQLITE_TOOBIG"},
    {SQLITE_CONSTRAINT, "SQLITE_CONSTRAINT"},
    {SQLITE_MISMATCH, "SQLITE_MISMATCH"},
    {SQLITE_MISUSE, "SQLITE_MISUSE"},
    {SQLITE_NOLFS, "SQLITE_NOLFS"},
    {SQLITE_AUTH, "SQLITE_AUTH"},
    {SQLITE_RANGE, "SQLITE_RANGE"},
    {SQLITE_NOTADB, "SQLITE_NOTADB"},
    {SQLITE_BUSY_RECOVERY, "SQLITE_BUSY_RECOVERY"},
    {SQLITE_BUSY_SNAPSHOT, "SQLITE_BUSY_SNAPSHOT"},
    {SQLITE_BUSY_TIMEOUT, "SQLITE_BUSY_TIMEOUT"},
    {SQLITE_LOCKED_SHAREDCACHE, "SQLITE_LOCKED_SHAREDCACHE"},
    {SQLITE_ABORT_ROLLBACK, "SQLITE_ABORT_ROLLBACK"},
    {SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"},
    {SQLITE_IOERR_DIR_FSYNC, "SQLITE_IOERR_DIR_FSYNC"},
    {SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"},
    {SQLITE_IOERR_READ, "SQLITE_IOERR_READ"},
    {SQLITE_IOERR_SHORT_READ, "SQLITE_IOERR_SHORT_READ"},
    {SQLITE_IOERR_TRUNCATE, "SQLITE_IOERR_TRUNCATE"},
    {SQLITE_IOERR_DELETE, "SQLITE_IOERR_DELETE"},
    {SQLITE_IOERR_CLOSE, "SQLITE_IOERR_CLOSE"},
    {SQLITE_CANTOPEN_ISDIR, "SQLITE_CANTOPEN_ISDIR"},
    {SQLITE_READONLY_DIRECTORY, "SQLITE_READONLY_DIRECTORY"},
    {SQLITE_READONLY_DBMOVED, "SQLITE_READONLY_DBMOVED"},
    {SQLITE_CONSTRAINT_CHECK, "SQLITE_CONSTRAINT_CHECK"},
    {SQLITE_CONSTRAINT_FOREIGNKEY, "SQLITE_CONSTRAINT_FOREIGNKEY"},
    {SQLITE_CONSTRAINT_NOTNULL, "SQLITE_CONSTRAINT_NOTNULL"},
    {SQLITE_CONSTRAINT_PRIMARYKEY, "SQLITE_CONSTRAINT_PRIMARYKEY"},
    {SQLITE_CONSTRAINT_TRIGGER, "SQLITE_CONSTRAINT_TRIGGER"},
    {SQLITE_CONSTRAINT_UNIQUE, "SQLITE_CONSTRAINT_UNIQUE"},
    {SQLITE_CONSTRAINT_ROWID, "SQLITE_CONSTRAINT_ROWID"},
    {SQLITE_CONSTRAINT_DATATYPE, "SQLITE_CONSTRAINT_DATATYPE"},
};

}  // namespace

std::string_view code_name(int extended_code) noexcept {
  for (const auto& [code, name] : code_names) {
    if (code == extended_code) return name;
  }
  for (const auto& [code, name] : code_names) {
    if (code == (extended_code & 0xff)) return name;
  }
  return "SQLITE_ERROR";
}

int code_of(std::string_view wanted) noexcept {
  for (const auto& [code, name] : code_names) {
    if (name == wanted) return code;
  }
  return SQLITE_ERROR;
}

// Whether a COMMIT that failed with this code may turn out to be committed when the next process
// opens the file (F5).
bool commit_outcome_unknown(int extended_code) noexcept {
  if ((extended_code & 0xff) != SQLITE_IOERR) return false;
  // A failure before the commit record is complete leaves a record with a wrong checksum, which
  // never counts as a commit.
  return extended_code != SQLITE_IOERR_WRITE && extended_code != SQLITE_IOERR_READ &&
         extended_code != SQLITE_IOERR_SHORT_READ && extended_code != SQLITE_IOERR_NOMEM &&
         extended_code != SQLITE_IOERR_LOCK && extended_code != SQLITE_IOERR_RDLOCK;
}

// Throws the library's exception for an error of SQLite. A refusal from one of Termgate's SQL
// functions arrives here as a text, so that is tried first.
void throw_sqlite(int extended_code, std::string_view message) {
  detail::throw_if_tg(message);
  const std::string code(code_name(extended_code));
  switch (extended_code) {
    case SQLITE_READONLY_DBMOVED: throw Unavailable(std::string(message), code);
    case SQLITE_BUSY_SNAPSHOT:
      throw Conflict(
          "another connection has committed since this transaction began to read: run it again",
          code);
    case SQLITE_ABORT_ROLLBACK:
    case SQLITE_LOCKED_SHAREDCACHE:
      throw Conflict(fmt::format("rolled back by a conflict: {}: run it again", message), code);
    default: break;
  }
  switch (extended_code & 0xff) {
    // The caller knows how long it has waited and for which holder; it turns this into Blocked.
    case SQLITE_BUSY: throw BusyNow();
    case SQLITE_INTERRUPT:
      throw Unavailable("the work was interrupted and rolled back: nothing was written", code);
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
      throw Unavailable(fmt::format("{} ({}): nothing was written", message, code), code);
    default: break;
  }
  // If one of Termgate's SQL functions ran the statement, its message already says so.
  const bool reported = message.find("Termgate is not installed") != std::string_view::npos;
  if (!reported && (message.starts_with("no such table: main.termgate_") ||
                    message.starts_with("no such table: termgate_") ||
                    message.starts_with("no such function: termgate_"))) {
    throw DatabaseError(
        fmt::format(
            "{}: Termgate is not installed in this database: run `termgate init`, or SELECT "
            "termgate_init() with the extension loaded",
            message),
        code);
  }
  // Up to version 3 of the SQLite schema the column was called in_doubt (0004_untrusted.sql).
  if (message == "no such column: untrusted" || message == "no such column: f.untrusted" ||
      (message.starts_with("table main.termgate_") &&
       message.ends_with(" has no column named untrusted"))) {
    throw DatabaseError(fmt::format("{}: this database has the tables of an earlier version of "
                                    "Termgate: run `termgate init`",
                                    message),
                        code);
  }
  throw DatabaseError(std::string(message), code);
}

std::string moved_message(std::string_view path) {
  return fmt::format(
      "the database file {} was moved, removed or replaced since this connection opened it, or its "
      "log was: nothing was "
      "written; open the database again",
      path);
}

std::string naming(std::string_view path, std::string_view message) {
  return message.starts_with(path) ? std::string(message) : fmt::format("{}: {}", path, message);
}

void throw_sqlite(sqlite3* db, int code) {
  const int extended = db != nullptr ? sqlite3_extended_errcode(db) : code;
  // The connection's code may be from a later call; the caller's code is that of the failure.
  const bool same = (extended & 0xff) == (code & 0xff);
  const int reported = same ? extended : code;
  std::string message = same && db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const char* path = db != nullptr ? sqlite3_db_filename(db, "main") : nullptr;
  if (reported == SQLITE_READONLY_DBMOVED)
    throw_sqlite(reported, moved_message(path != nullptr ? path : ""));
  if (path != nullptr && *path != '\0' && message.find(path) == std::string::npos) {
    // PRAGMA query_only gives the same code, but has nothing to do with the file.
    if ((reported & 0xff) == SQLITE_READONLY &&
        (reported != SQLITE_READONLY || sqlite3_db_readonly(db, "main") == 1)) {
      message = fmt::format("{}: {}: this user needs to write to the file and to its folder", path,
                            message);
    } else if ((reported & 0xff) == SQLITE_CANTOPEN) {
      message = fmt::format(
          "{}: {}: is this user allowed to write to its folder? In WAL mode even a reader makes "
          "the file -shm there",
          path, message);
    }
  }
  throw_sqlite(reported, message);
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
