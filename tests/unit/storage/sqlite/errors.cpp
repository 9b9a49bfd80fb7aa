// SQLite's codes and messages, and the type each becomes: whether a write is refused, to be run
// again, or of unknown outcome hangs on this table.
#include <sqlite3.h>

#include <catch2/catch.hpp>

#include <string>
#include <typeinfo>

#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>

using namespace termgate;

namespace {

template <class Wanted>
void becomes(const char* name, int code, const char* message) {
  INFO(name);
  try {
    sqlite::throw_sqlite(code, message);
  } catch (const Error& error) {
    CHECK(typeid(error) == typeid(Wanted));
    CHECK(std::string(error.what()) != "");
  }
}

}  // namespace

TEST_CASE("errors: every code becomes the type that says what to do", "[F5][sqlite]") {
  becomes<StaleTerm>("a function's refusal", SQLITE_ERROR,
                     "TG001 stale term 3 for scope \"billing\": the fence stands at 5");
  becomes<TermRequired>("a trigger's refusal", SQLITE_CONSTRAINT_TRIGGER, "TG002 no term declared");
  becomes<SequenceConflict>("TG003", SQLITE_ERROR, "TG003 sequence conflict");
  becomes<FenceUntrusted>("TG004", SQLITE_ERROR, "TG004 untrusted");
  becomes<InvalidInput>("TG005", SQLITE_ERROR, "TG005 malformed");
  becomes<Blocked>("TG006", SQLITE_ERROR, "TG006 blocked");
  becomes<Conflict>("a stale snapshot", SQLITE_BUSY_SNAPSHOT, "database is locked");
  becomes<Conflict>("rolled back under a reader", SQLITE_ABORT_ROLLBACK, "abort due to ROLLBACK");
  becomes<Conflict>("shared cache", SQLITE_LOCKED_SHAREDCACHE, "database table is locked");
  becomes<sqlite::BusyNow>("another's lock", SQLITE_BUSY, "database is locked");
  becomes<sqlite::BusyNow>("another recovers the log", SQLITE_BUSY_RECOVERY, "database is locked");
  becomes<Unavailable>("no file", SQLITE_CANTOPEN, "unable to open database file");
  becomes<Unavailable>("a directory", SQLITE_CANTOPEN_ISDIR, "unable to open database file");
  becomes<Unavailable>("disk full", SQLITE_FULL, "database or disk is full");
  becomes<Unavailable>("write failed", SQLITE_IOERR_WRITE, "disk I/O error");
  becomes<Unavailable>("interrupted", SQLITE_INTERRUPT, "interrupted");
  becomes<DatabaseError>("constraint", SQLITE_CONSTRAINT_UNIQUE, "UNIQUE constraint failed: t.a");
  becomes<DatabaseError>("read-only file", SQLITE_READONLY, "attempt to write a readonly database");
  becomes<DatabaseError>("no database", SQLITE_NOTADB, "file is not a database");
  becomes<DatabaseError>("damaged", SQLITE_CORRUPT, "database disk image is malformed");
  becomes<DatabaseError>("a code inside a user's text", SQLITE_ERROR,
                         "my message about TG001 things");
}

TEST_CASE("errors: only a failed flush leaves the outcome of COMMIT unknown", "[F5][sqlite]") {
  for (int code : {SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_TRUNCATE,
                   SQLITE_IOERR_DELETE, SQLITE_IOERR_CLOSE}) {
    CHECK(sqlite::commit_outcome_unknown(code));
  }
  for (int code : {SQLITE_FULL, SQLITE_BUSY, SQLITE_IOERR_WRITE, SQLITE_IOERR_READ,
                   SQLITE_IOERR_NOMEM, SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_NOMEM}) {
    CHECK_FALSE(sqlite::commit_outcome_unknown(code));
  }
}

TEST_CASE("errors: names of codes go both ways", "[sqlite]") {
  for (int code :
       {SQLITE_FULL, SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_FSYNC, SQLITE_CONSTRAINT_UNIQUE}) {
    CHECK(sqlite::code_of(sqlite::code_name(code)) == code);
  }
  CHECK(sqlite::code_name(SQLITE_IOERR_SHMMAP) == "SQLITE_IOERR");
  CHECK(sqlite::code_of("no such name") == SQLITE_ERROR);
}
