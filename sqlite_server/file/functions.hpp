// The functions of SQL that a served connection has in place of SQLite's own.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "file/engine.hpp"

namespace termgate::sqlite_file {

// For whom a connection's statement runs. The connection's thread.
struct Serving {
  Control* control = nullptr;      // asked whether to go on
  std::int64_t changes = 0;        // of the stream's last statement, for changes()
  std::int64_t total_changes = 0;  // of the stream, for total_changes()
  std::int64_t total_before = 0;   // the connection's, when the statement began
  std::optional<Want> asked_for;   // what a check that was not made here has named, see install_functions()
  // What termgate_declare() has been given; none: NULLs. It may throw InvalidInput.
  std::function<void(std::optional<Want>)> declare = {};
};

// instr, replace, trim, json_patch that can be stopped; changes(), total_changes(), termgate_declare() of the stream. `writes`: LIKE and
// GLOB that can be stopped, too; else termgate_check_term(), termgate_seal() and termgate_claim_write() only note scope and term, and fail:
// for whom a statement would wait is known so before it waits. `serving` lives as long as the connection. After layer 1 was registered.
// Throws std::bad_alloc.
void install_functions(sqlite3* db, Serving& serving, bool writes);

}  // namespace termgate::sqlite_file
