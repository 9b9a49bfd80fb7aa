// The SQL functions that a served connection has in place of SQLite's own.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "file/engine.hpp"

namespace termgate::sqlite_file {

// The stream that a connection's statement runs for. For the connection's thread.
struct Serving {
  Control* control = nullptr;      // says whether the statement must stop
  std::int64_t changes = 0;        // rows changed by the stream's last statement, for changes()
  std::int64_t total_changes = 0;  // rows changed by the stream, for total_changes()
  std::int64_t total_before = 0;   // the connection's total when the statement began
  std::optional<Want>
      asked_for;  // the claim that a function named without being checked, see install_functions()
  // Receives the arguments of termgate_declare(); none: NULLs. It may throw InvalidInput.
  std::function<void(std::optional<Want>)> declare = {};
};

// Installs versions of instr, replace and the trims that can be stopped, a json_patch whose work is
// bounded, and the stream's changes(), total_changes() and termgate_declare(). With `writes` also
// LIKE and GLOB that can be stopped. Without it, termgate_check_term(), termgate_seal() and
// termgate_claim_write() only record scope and term, and fail: that shows which scope a statement
// will wait for, before it waits. `serving` must live as long as the connection. Call it after
// layer 1 is registered. Throws std::bad_alloc.
void install_functions(sqlite3* db, Serving& serving, bool writes);

}  // namespace termgate::sqlite_file
