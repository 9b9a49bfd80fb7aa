// What becomes of each PRAGMA. Pure, any thread.
#pragma once

#include <string_view>

namespace termgate::sqlite_file {

enum class Pragma : std::uint8_t {
  tells,    // SQLite runs it: it reads
  writes,   // SQLite runs it: it writes into the file
  setting,  // the stream does it
  ignored,  // accepted, and nothing is done
  refused
};

// `name` lowered. `has_value`: PRAGMA name = value, PRAGMA name(value).
Pragma pragma_kind(std::string_view name, bool has_value) noexcept;
// Whether pragma_NAME may be read as a table.
bool pragma_is_table(std::string_view name) noexcept;
// Whether an ignored one answers with its value.
bool pragma_answers(std::string_view name) noexcept;
// As SQLite reads the value of a flag.
bool pragma_truth(std::string_view value) noexcept;

}  // namespace termgate::sqlite_file
