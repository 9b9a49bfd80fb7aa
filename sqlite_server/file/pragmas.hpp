// How each PRAGMA is treated. Pure, any thread.
#pragma once

#include <string_view>

namespace termgate::sqlite_file {

enum class Pragma : std::uint8_t {
  tells,    // SQLite runs it: it reads
  writes,   // SQLite runs it: it writes into the file
  setting,  // the stream carries it out
  ignored,  // accepted, and nothing is done
  refused
};

// `name` in lower case. `has_value`: PRAGMA name = value or PRAGMA name(value).
Pragma pragma_kind(std::string_view name, bool has_value) noexcept;
// Whether pragma_NAME may be read as a table.
bool pragma_is_table(std::string_view name) noexcept;
// Whether an ignored PRAGMA returns its value.
bool pragma_answers(std::string_view name) noexcept;
// Interprets the value of a flag as SQLite does.
bool pragma_truth(std::string_view value) noexcept;

}  // namespace termgate::sqlite_file
