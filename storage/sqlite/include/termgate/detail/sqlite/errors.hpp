// SQLite's result codes and messages, turned into the types of <termgate/error.hpp>. Pure but for the
// sqlite3* overload, which reads the connection's last error.
#pragma once

#include <string>
#include <string_view>

#include <termgate/error.hpp>

struct sqlite3;

namespace termgate::inline v0::sqlite {

// SQLITE_BUSY as it came, without anybody having waited: the same call may be made again.
class BusyNow : public Blocked {
 public:
  BusyNow() : Blocked("TG006 blocked: another connection holds the database's lock; nothing was written") {}
};

// Throws what `extended_code` and `message` stand for:
//   a message that starts with a TG code                    its type
//   BUSY_SNAPSHOT, ABORT_ROLLBACK, LOCKED_SHAREDCACHE       Conflict: run the transaction again
//   BUSY, BUSY_RECOVERY, BUSY_TIMEOUT                       Blocked (TG006), as BusyNow
//   READONLY_DBMOVED, CANTOPEN, FULL, IOERR, INTERRUPT, PROTOCOL, NOLFS       Unavailable: nothing was written
//   all others                                              DatabaseError
[[noreturn]] void throw_sqlite(int extended_code, std::string_view message);
[[noreturn]] void throw_sqlite(sqlite3* db, int code);

// The message where a file is not the one any more that was opened (file_watch.hpp); the code is SQLITE_READONLY_DBMOVED.
std::string moved_message(std::string_view path);
// The message with the file's path in front of it, once.
std::string naming(std::string_view path, std::string_view message);

// What a COMMIT that failed with this code did: true if its writes may still come back. A flush that failed
// leaves a complete commit record in the log, which a crash could bring to life; every other failure
// leaves none.
bool commit_outcome_unknown(int extended_code) noexcept;

// "SQLITE_FULL", "SQLITE_BUSY_SNAPSHOT" …; the primary code's name for a detail that has none here.
std::string_view code_name(int extended_code) noexcept;
// The way back; SQLITE_ERROR for a name that is unknown.
int code_of(std::string_view name) noexcept;

}  // namespace termgate::inline v0::sqlite
