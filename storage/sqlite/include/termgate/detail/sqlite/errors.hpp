// Turns SQLite's result codes and messages into the types of <termgate/error.hpp>. Pure, except for
// the sqlite3* overload, which reads the connection's last error.
#pragma once

#include <string>
#include <string_view>

#include <termgate/error.hpp>

struct sqlite3;

namespace termgate {
inline namespace v0 {
namespace sqlite {

// For SQLITE_BUSY. Whoever waited turns it into a Blocked that names the lock's holder.
class BusyNow : public Blocked {
 public:
  BusyNow()
      : Blocked(
            "TG006 blocked: another connection holds the database's lock; nothing was written") {}
};

// Throws what `extended_code` and `message` stand for:
//   a message that starts with a TG code                    its type
//   BUSY_SNAPSHOT, ABORT_ROLLBACK, LOCKED_SHAREDCACHE       Conflict: run the transaction again
//   BUSY, BUSY_RECOVERY, BUSY_TIMEOUT                       Blocked (TG006), as BusyNow
//   READONLY_DBMOVED, CANTOPEN, FULL, IOERR, INTERRUPT, PROTOCOL, NOLFS       Unavailable: nothing was written
//   all others                                              DatabaseError
[[noreturn]] void throw_sqlite(int extended_code, std::string_view message);
[[noreturn]] void throw_sqlite(sqlite3* db, int code);

// The message for a file that is no longer the one that was opened (file_watch.hpp); its code is
// SQLITE_READONLY_DBMOVED.
std::string moved_message(std::string_view path);
// The message with the file's path in front of it, if it is not there yet.
std::string naming(std::string_view path, std::string_view message);

// Whether the writes of a COMMIT that failed with this code may still come back. A failed flush
// leaves a complete commit record in the log, which may take effect after a crash. An I/O error
// that cannot be placed earlier counts as one.
bool commit_outcome_unknown(int extended_code) noexcept;

// "SQLITE_FULL", "SQLITE_BUSY_SNAPSHOT" …; for an extended code without a name here, that of its
// primary code.
std::string_view code_name(int extended_code) noexcept;
// The code for a name; SQLITE_ERROR for an unknown one.
int code_of(std::string_view name) noexcept;

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
