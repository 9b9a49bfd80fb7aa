// termgate.so: layer 1 for every program that can load an extension into SQLite (`.load termgate`).
// Tables are made by SELECT termgate_init(); the functions are listed in sql/sqlite/README.md.
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include <exception>

#include <termgate/detail/sqlite/layer1.hpp>

extern "C" __attribute__((visibility("default"))) int sqlite3_termgate_init(
    sqlite3* db, char** message, const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  if (sqlite3_libversion_number() < 3037000) {
    *message = sqlite3_mprintf("termgate needs SQLite 3.37 or newer, and this is %s",
                               sqlite3_libversion());
    return SQLITE_ERROR;
  }
  try {
    termgate::sqlite::Layer1::register_on(db);
    return SQLITE_OK;
  } catch (const std::exception& error) {
    *message = sqlite3_mprintf("%s", error.what());
    return SQLITE_ERROR;
  }
}
